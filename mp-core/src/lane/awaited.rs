//! What a serving thread waits for besides its lanes: flags of message passing buffers, and work that ranks have lent
//! to it. Both ring the doorbell of the rank.

use std::sync::Arc;

use crate::{context::Context, mpb::Polled, progress::Lent, sync::Futex, wait::Asymmetry};

/// What a thread waits for on behalf of a rank.
#[derive(Clone)]
pub enum Awaited {
    /// A flag.
    Flag(Arc<Polled>),
    /// Work that a rank has lent to the thread.
    Lent(Arc<dyn Lent>),
}

impl Awaited {
    pub(super) fn context(&self) -> &Arc<Context> {
        match self {
            Self::Flag(polled) => polled.context(),
            Self::Lent(lent) => lent.rank().context(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Flag(polled) => polled.is_ready(),
            Self::Lent(lent) => lent.is_ready(),
        }
    }

    pub(super) fn raise(&self) {
        match self {
            Self::Flag(polled) => polled.raise(),
            Self::Lent(lent) => lent.raise(),
        }
    }

    pub(super) fn lower(&self) {
        match self {
            Self::Flag(polled) => polled.lower(),
            Self::Lent(lent) => lent.lower(),
        }
    }

    pub(super) fn asymmetry(&self) -> Asymmetry {
        self.context().waiting.asymmetry
    }

    /// Returns the doorbell of the rank, which is rung when this may be ready.
    pub(super) fn doorbell(&self) -> Option<&Futex> {
        Some(&self.context().rank(self.context().me).ok()?.doorbell)
    }

    /// Notes, for reports, that the thread that works for the rank goes to sleep.
    pub(super) fn rest(&self) {
        if let Ok(rank) = self.context().rank(self.context().me) {
            rank.delegations.rest(None);
        }
    }

    /// Notes, for reports, that the thread is awake again.
    pub(super) fn wake(&self) {
        if let Ok(rank) = self.context().rank(self.context().me) {
            rank.delegations.wake(None);
        }
    }
}

impl std::fmt::Debug for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(polled) => f.debug_tuple("Flag").field(polled).finish(),
            Self::Lent(lent) => f.debug_tuple("Lent").field(lent.rank()).finish(),
        }
    }
}
