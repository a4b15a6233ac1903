//! The work that a communication thread carries on beside its lanes.

use std::sync::Arc;

use mp_core::{
    delegate::Awaited,
    mpb::Delegation,
    progress::{Advanced, Lent},
};

use super::{
    errand::{Errand, Step},
    home::Home,
    record::Log,
};

/// Work that a communication thread carries on beside its lanes.
pub(super) struct Task {
    work: Work,
    _at_work: Delegation,
}

enum Work {
    /// An errand, until it is given back.
    Errand(Option<Box<dyn Errand>>, Arc<Home>),
    /// Work that a rank has lent while it makes no call.
    Lent(Arc<dyn Lent>),
}

impl Task {
    pub(super) fn errand(errand: Box<dyn Errand>, home: &Arc<Home>) -> Self {
        let _at_work = errand.polled().delegate();
        home.lock().away += 1;
        Self { work: Work::Errand(Some(errand), Arc::clone(home)), _at_work }
    }

    pub(super) fn lent(lent: Arc<dyn Lent>) -> Self {
        let _at_work = Delegation::of(lent.rank());
        Self { work: Work::Lent(lent), _at_work }
    }

    /// Returns what the task waits for.
    pub(super) fn awaited(&self) -> Option<Awaited> {
        match &self.work {
            Work::Errand(errand, _) => Some(Awaited::Flag(errand.as_ref()?.polled())),
            Work::Lent(lent) => Some(Awaited::Lent(Arc::clone(lent))),
        }
    }

    /// Returns whether the task is worth advancing.
    pub(super) fn is_ready(&self) -> bool {
        match &self.work {
            Work::Errand(errand, _) => {
                errand.as_ref().is_none_or(|errand| errand.polled().is_ready())
            }
            Work::Lent(lent) => lent.is_ready(),
        }
    }

    /// Advances the task and records that. Returns whether the task is still pending.
    pub(super) fn advance(&mut self, log: &Log) -> bool {
        match &mut self.work {
            Work::Errand(errand, _) => {
                let Some(errand) = errand else { return false };
                loop {
                    let span = log.collective(|| errand.about());
                    let step = errand.advance();
                    drop(span);
                    match step {
                        Step::Waits => return true,
                        Step::Next => {}
                        Step::Over => return false,
                    }
                }
            }
            Work::Lent(lent) => {
                let span = log.messages(lent.rank());
                let advanced = lent.advance();
                match advanced {
                    Advanced::Moved => drop(span),
                    Advanced::Waits | Advanced::Over => span.cancel(),
                }
                advanced != Advanced::Over
            }
        }
    }

    /// Takes the errand back from a task that no thread has taken.
    pub(super) fn taken_back(&mut self) -> Option<Box<dyn Errand>> {
        match &mut self.work {
            Work::Errand(errand, _) => errand.take(),
            Work::Lent(_) => None,
        }
    }

    /// Leaves the task to the rank.
    pub(super) fn give_back(mut self) {
        match &mut self.work {
            Work::Errand(errand, home) => {
                if let Some(errand) = errand.take() {
                    home.add(errand);
                    home.wake_tasks();
                }
            }
            Work::Lent(lent) => lent.leave(),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Work::Errand(_, home) = &self.work {
            home.lock().away -= 1;
        }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("awaited", &self.awaited()).finish_non_exhaustive()
    }
}
