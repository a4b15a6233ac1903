//! One rank's message goes to all.
//!
//! [`Broadcasts`] picks an algorithm for each message. Each can also be used by itself:
//!
//! | | for | source |
//! |---|---|---|
//! | [`OcBcast`] | all sizes, on one-sided operations | thesis, algorithm 1 |
//! | [`LineBcast`] | a few lines, each with its payload in the notification | Ramos & Hoefler, section 4.1 |
//! | [`binomial`] | short messages, on two-sided ones | thesis, section 3.3.2 |
//! | [`scatter_allgather`] | long messages, on two-sided ones | thesis, section 3.3.2 |
//!
//! In those all ranks take part by a call. With [`AsyncBroadcast`] (thesis, algorithm 2) any rank
//! broadcasts at any time, and who receives calls nothing.

pub mod asynchronous;
mod choice;
mod chosen;
mod lines;
mod oc_bcast;
mod routes;
mod trees;
mod two_sided;

pub use asynchronous::AsyncBroadcast;
pub use choice::{Algorithm, Explanation, Machine, Reason, choose};
pub use chosen::{Broadcasts, Settings};
pub use lines::{LineBcast, LineOptions, LineOptionsError};
pub use mp_model::cla::outward::Fan;
pub use oc_bcast::{BroadcastError, Completion, Leaves, OcBcast, Options, OptionsError};
pub use trees::{Shape, Trees, Why};
pub use two_sided::{binomial, scatter_allgather};
