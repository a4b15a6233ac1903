//! How a communicator's collective operations are to be done.

pub use mp_comm::{CHECK_VARIABLE, Check};
use mp_core::Wait;

use crate::{barrier, broadcast, exchange, reduce};

/// How a communicator's collective operations are to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Barriers.
    pub barrier: barrier::Settings,
    /// Broadcasts.
    pub broadcast: broadcast::Settings,
    /// Reductions and scans.
    pub reduce: reduce::Settings,
    /// Gathers, scatters, all-gathers, all-to-alls.
    pub exchange: exchange::Settings,
    /// How calls wait: with which policy, how long.
    pub wait: Wait,
    /// Whether ranks compare what they call.
    pub check: Check,
}

impl Settings {
    /// Those for a communicator of `ranks`, made of one of `before` that has these.
    pub(super) fn of_part(mut self, before: usize, ranks: usize) -> Self {
        self.barrier = self.barrier.of_part(before, ranks);
        self.broadcast = self.broadcast.of_part(before, ranks);
        self
    }
}
