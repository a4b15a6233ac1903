//! The algorithms and what they see of the world, for research beside the library, which runs them on simulated
//! machines and compares rivals with them. No promise covers anything here.

pub use super::{
    combiners::{Combiner, cc_synch::CcSynch, hyb_comb::HybComb},
    fate::Outcome,
    locks::{AnyLock, clh::Clh, hyb::Hyb, mcs::Mcs, tas::Tas},
    place::{OBJECTS, open_region},
    site::{AnyWord, BLOCK, Limit, Seat, Site},
    stop::Stop,
};

use super::{Backoff, Scheme, Section};
use mp_core::Error;

/// A server behind channels.
pub mod mp {
    pub use crate::critical::servers::mp::{Client, Inlet, Outlet, Served};
}

/// A server that looks at slots.
pub mod slot {
    pub use crate::critical::servers::slot::{
        Client, InOrder, Order, Served, Shuffled, Slots, Ticket,
    };
}

/// Returns the error of an object at which an algorithm can't go on.
pub fn stopped(object: &str, stop: Stop) -> Error {
    super::error::stopped(object, stop)
}

/// The parameters of a [`Section`] that algorithms use.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// See [`Section::scheme`].
    pub scheme: Scheme,
    /// See [`Section::max_ops`].
    pub max_ops: usize,
    /// See [`Section::in_flight`].
    pub in_flight: usize,
    /// See [`Section::backoff`].
    pub backoff: Backoff,
    /// See [`Section::streaming`].
    pub streaming: bool,
    /// See [`Section::shuffled`].
    pub shuffled: bool,
}

impl From<Section> for Parameters {
    fn from(section: Section) -> Self {
        let Section { scheme, max_ops, in_flight, backoff, streaming, shuffled, .. } = section;
        Self { scheme, max_ops, in_flight, backoff, streaming, shuffled }
    }
}
