//! Work for a rank that proceeds in steps. Between the steps it waits for flags of other ranks.

use std::sync::Arc;

use mp_core::mpb::Polled;

use super::record::About;

/// A pending operation of a rank, such as a collective operation.
pub trait Errand: Send {
    /// Advances the errand as far as possible without waiting, or until one of several things is done. It must not
    /// panic.
    fn advance(&mut self) -> Step;

    /// Returns what the errand does next, for a [trace](crate::trace).
    fn about(&self) -> About {
        About::default()
    }

    /// Returns what the errand waits for. Before the errand is first advanced, this may be any of its rank.
    fn polled(&self) -> Arc<Polled>;
}

/// The result of advancing an [`Errand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The errand waits for a flag.
    Waits,
    /// One thing is done, and the errand can go on with the next one at once.
    Next,
    /// The errand is finished.
    Over,
}
