//! Broadcasts, which send one rank's message to all ranks.
//!
//! [`Broadcasts`] picks an algorithm for each message. Each algorithm can also be used by itself:
//!
//! | | for | source |
//! |---|---|---|
//! | [`OcBcast`] | all sizes, with one-sided operations | thesis, algorithm 1 |
//! | [`LineBcast`] | a few lines, each with its payload in the notification | Ramos & Hoefler, section 4.1 |
//!
//! In these, all ranks take part by making a call. With [`AsyncBroadcast`] (thesis, algorithm 2), any rank can
//! broadcast at any time, and the receivers make no call.

pub mod asynchronous;
mod choice;
mod handle;
mod lines;
mod oc_bcast;
mod routes;
mod trees;

pub use crate::settings::Settings;
pub use asynchronous::AsyncBroadcast;
pub use choice::Broadcast;
pub(crate) use choice::choose;
pub use handle::Broadcasts;
pub use lines::{LineBcast, LineOptions, LineOptionsError};
pub use mp_model::cla::outward::Fan;
pub use oc_bcast::{BroadcastError, Completion, Leaves, OcBcast, Options, OptionsError};
pub use trees::Shape;
pub(crate) use trees::{CHUNK_LINES, Trees};
