//! One rank's message goes to all.

mod oc_bcast;

pub use oc_bcast::{BroadcastError, Leaves, OcBcast, Options, OptionsError};
