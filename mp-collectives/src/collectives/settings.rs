//! Settings of a communicator's collective operations.

pub use crate::communicator::{CHECK_VARIABLE, Check};
use mp_core::Wait;

use crate::{barrier, broadcast, exchange, reduce};

/// Settings of a communicator's collective operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Settings of barriers.
    pub barrier: barrier::Settings,
    /// Settings of broadcasts.
    pub broadcast: broadcast::Settings,
    /// Settings of reductions and scans.
    pub reduce: reduce::Settings,
    /// Settings of gathers, scatters, all-gathers and all-to-alls.
    pub exchange: exchange::Settings,
    /// How calls wait: with which policy and for how long.
    pub wait: Wait,
    /// Whether the ranks compare their calls.
    pub check: Check,
}

impl Settings {
    /// Returns the settings for a communicator of `ranks` ranks that is made from one of `before` ranks with these
    /// settings.
    pub(super) fn of_part(mut self, before: usize, ranks: usize) -> Self {
        self.barrier = self.barrier.of_part(before, ranks);
        self.broadcast = self.broadcast.of_part(before, ranks);
        self
    }
}
