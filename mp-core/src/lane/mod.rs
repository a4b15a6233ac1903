//! Sends that are handed to another thread of the process. Communication threads are built on them.
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
//! likes and release them in any order. So the nodes do not form a ring: each submitted node names the next one, and
//! the server looks at one word in each lane.
//!
//! The holder of a request can take the cargo back as long as it is not being sent (see [`Shared::serving`]). The
//! server then skips the node and gives up its position.
//!
//! Each pair of sender and thread has its own lane, because a queue for each thread would be slower: several producers
//! of one queue need a locked instruction for each entry, and a full channel at the head of the queue delays all
//! others.
//!
//! The submitted value is returned or dropped, exactly once:
//!
//! | the request is | the submitted value |
//! |---|---|
//! | waited for, or cancelled in time | is returned to the submitter |
//! | dropped before the answer | is dropped by the server when it answers, or later by the submitter or the lane |
//! | leaked | is dropped with the lane |
//! | of a scope | is returned when the scope ends, at the latest |
//!
//! | file | what it is |
//! |---|---|
//! | `node` | the nodes of a lane, and the pool that allocates them |
//! | `cargo` | the contents of a node: something that lends the message, or a buffer that moves |
//! | `outgoing` | the end that submits, or sends by itself |
//! | `serve` | the end that carries out the sends |
//! | `pending` | what the submitter holds until the send is answered |
//! | `bell` | where a serving thread sleeps |
//!
//! A serving thread and the threads that submit to it call each other through one word for each lane, as the ends of a
//! channel do (`channel/signals.rs`). The word is almost never written, so a look at it costs almost nothing.
//!
//! Source: Buono et al., section IV.B (the delegation queue); Ramos & Hoefler, section 2.4 (payload
//! and notification in one line).

mod awaited;
mod bell;
mod cargo;
#[cfg(all(test, loom))]
mod model;
mod node;
mod outgoing;
mod pending;
mod serve;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

pub use awaited::Awaited;
pub use bell::{Bell, Gauge};
use crossbeam_utils::CachePadded;
use node::Pool;
pub use outgoing::{Outgoing, Submitted};
pub use pending::{Pending, Untyped};
pub use serve::{Attempt, Progress, ServedLane, Watch};

use crate::{
    context::Context,
    sync::{AtomicU32, AtomicU64, Ordering},
    wait::Asymmetry,
};

/// The server sleeps: the submitter must ring its bell after the next submission.
const PARKED: u32 = 1;
/// The server wants no more submissions. It still carries out those that come.
const OFF: u32 = 2;
/// No thread serves the lane any more. The submitter must take back a node that it has submitted nevertheless.
const GONE: u32 = 4;

/// The submitter submits nothing more.
const CLOSED: u32 = 1;
/// The server must not send what it has not sent yet.
const CANCELLED: u32 = 2;

/// The range of positions that a lane's nodes can express: see [`node::FAR`].
const NEAR: u64 = 1 << 31;

/// The state that the two ends of a lane and the holders of its requests share.
struct Shared {
    /// The word at which the submitter looks: `PARKED`, `OFF`, `GONE`.
    for_feeder: CachePadded<AtomicU32>,
    /// The word at which the server looks: `CLOSED`, `CANCELLED`.
    for_server: CachePadded<AtomicU32>,
    /// 1 + the index of the node that the server is sending or is about to send; 0 for none. Only the server writes
    /// this.
    ///
    /// A holder that wants to take a cargo back writes this wish into its node, and then reads this word. The server
    /// writes this word, and then reads the node's wish. At least one of the two sees the other's store, because of the
    /// fences of [`Asymmetry`]. So a send needs no locked instruction.
    serving: CachePadded<AtomicU32>,
    /// The position of the last node that was marked with [`FAR`](node::FAR).
    far: AtomicU64,
    /// Not 0 once every submission is answered and no thread will serve the lane any more.
    ended: AtomicU32,
    pool: Pool,
    /// The context of the sending end's rank, which waits for requests at its doorbell.
    context: Arc<Context>,
    /// The channel, for reports.
    channel: u64,
    /// The kind of fence between the server and the submitter. It does not change while the lane exists.
    asymmetry: Asymmetry,
    bell: Mutex<Arc<Bell>>,
    /// Wakers of tasks that wait for a request, by node.
    wakers: Mutex<HashMap<u32, Waker>>,
}

impl Shared {
    fn lock_wakers(&self) -> MutexGuard<'_, HashMap<u32, Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_bell(&self) -> MutexGuard<'_, Arc<Bell>> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the server if it sleeps. The submitter calls this after a submission.
    #[cold]
    fn wake_server(&self) {
        if self.for_feeder.load(Ordering::Relaxed) & PARKED != 0
            && self.for_feeder.fetch_and(!PARKED, Ordering::Relaxed) & PARKED != 0
        {
            self.lock_bell().wake();
        }
    }
}

/// Drops a value that came from the user's code, such as the payload of a panic. If its destructor panics in turn, this
/// panic is forgotten.
pub fn discard<T>(what: T) {
    std::mem::forget(catch_unwind(AssertUnwindSafe(|| drop(what))));
}
