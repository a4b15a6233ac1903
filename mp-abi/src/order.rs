//! The orders of a communicator's collective operations.
//!
//! A blocking call that is carried out as an operation that is waited for does not come after what nonblocking calls have
//! begun: a rank may call it before or after them, and another rank the other way round.

use std::cell::RefMut;

use mp_collectives::{communicator::Communicator, nonblocking::Nonblocking};
use mp_core::Result;

/// The calls among which an operation has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Blocking,
    Nonblocking,
}

impl Order {
    /// Returns the operations of all ranks in this order.
    pub fn operations(self, comm: &Communicator) -> Result<RefMut<'_, Nonblocking>> {
        match self {
            Self::Blocking => comm.nonblocking_apart(),
            Self::Nonblocking => comm.nonblocking(),
        }
    }

    /// Returns the tag of messages along a kind of edges.
    pub fn tag(self, edge: u32) -> u32 {
        2 * edge + u32::from(self == Self::Nonblocking)
    }
}
