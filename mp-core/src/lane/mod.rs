//! Sends that are handed to another thread of the process. Communication threads are made of these.
//!
//! ```text
//! Outgoing (one thread)              nodes of a lane                 ServedLane (another thread)
//!
//! take the next position
//! write cargo into a free node
//! state := SUBMITTED (Release) ────▶ one line: state, wish,     ────▶ state (Acquire)
//!                                    position, next, cargo           fill the position's slot
//! Pending: state (Acquire)    ◀────  the same line              ◀──── state := SENT (Release)
//! take the cargo back
//! state := FREE (Release)
//! ```
//!
//! A **lane** joins one sending end and one serving thread. Its nodes are single cache lines, so that handing over a
//! send takes one line transfer whatever the message's size, and the answer comes back in the same line. A node is free
//! again when the holder of the request has taken back what the node held. The program may hold requests as long as it
//! likes and in any order, so the nodes are no ring: each submitted node names the next. The server looks at one word
//! in each lane.
//!
//! The holder of a request can take the cargo back as long as it is not being sent (see `Shared::serving`). The
//! server then skips the node, and gives its position up.
//!
//! There is a lane for each sender and thread, and not one queue for each thread. Several producers that share a queue
//! need a locked instruction for each entry, and a full channel at the head of the queue delays all others.
//!
//! What was sent is dropped once, or returned:
//!
//! | the request is | what was sent |
//! |---|---|
//! | waited for, or cancelled in time | is returned to the submitter |
//! | dropped before the answer | is dropped by the server when it answers, or later by the submitter or the lane |
//! | leaked | is dropped with the lane |
//! | of a scope | is returned when the scope ends, at the latest |
//!
//! | file | what it is |
//! |---|---|
//! | `node` | the lines, and where they come from |
//! | `cargo` | what is in one: a value, something that lends the message, a buffer that moves |
//! | `shared` | what both ends have |
//! | `outgoing` | the end that submits, or sends by itself |
//! | `serve` | the end that carries out the sends |
//! | `pending` | what the submitter holds in the meantime |
//! | `bell`, `attend` | where a serving thread sleeps, and how it works |
//!
//! A serving thread and the threads that submit to it call each other through one word for each lane, as the ends of a
//! channel do (`channel/signals.rs`). The word is almost never written, so that looking at it costs nothing.
//!
//! Source: Buono et al., section IV.B (the delegation queue); Ramos & Hoefler, section 2.4 (payload
//! and notification in one line).

mod attend;
mod awaited;
mod bell;
mod cargo;
mod discard;
#[cfg(all(test, loom))]
mod model;
mod node;
mod outgoing;
mod pending;
mod serve;
mod shared;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

pub use awaited::Awaited;
pub use bell::{Bell, Gauge};
pub use discard::discard;
pub use outgoing::{Outgoing, Submitted};
pub use pending::{Pending, Untyped};
pub use serve::{Attempt, Progress, ServedLane, Watch};
