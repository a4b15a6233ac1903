//! One rank's message goes to all.
//!
//! | | for | source |
//! |---|---|---|
//! | [`OcBcast`] | all sizes, on one-sided operations | thesis, algorithm 1 |
//! | [`AsyncBroadcast`] | any rank at any time, to handlers | thesis, algorithm 2 |
//! | [`binomial`] | short messages, on two-sided ones | thesis, section 3.3.2 |
//! | [`scatter_allgather`] | long messages, on two-sided ones | thesis, section 3.3.2 |

pub mod asynchronous;
mod oc_bcast;
mod two_sided;

pub use asynchronous::AsyncBroadcast;
pub use oc_bcast::{BroadcastError, Leaves, OcBcast, Options, OptionsError};
pub use two_sided::{binomial, scatter_allgather};
