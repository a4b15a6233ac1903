//! Collective operations that continue while the rank does something else (such as `MPI_Ibcast`).
//!
//! ```
//! use onchip::nonblocking::{Nonblocking, Settings};
//! use onchip::reduce::Sum;
//! use onchip::World;
//! use onchip::threads::CommThreads;
//!
//! let sums = World::threads(2).run(|rank| {
//!     let threads = CommThreads::start(1)?;
//!     let mut nonblocking = Nonblocking::open(rank, "step", &threads, Settings::default())?;
//!     let sum = nonblocking.all_reduce(vec![rank.id() as f64; 1000], Sum);
//!     let all_there = nonblocking.barrier();
//!     let own: u64 = (0..1000).sum(); // meanwhile
//!     let sum = sum.wait()?; // the vector is ours again
//!     all_there.wait()?;
//!     Ok((own, sum[999]))
//! })?;
//! assert_eq!(sums, [(499_500, 1.0); 2]);
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! A call takes ownership of its buffer and returns a [`CollectiveRequest`], which gives the buffer back. The elements
//! may be in a `Vec`, an array, a boxed slice, or a [`SharedBuffer`](mp_core::SharedBuffer).
//!
//! | file | contents |
//! |---|---|
//! | `polled` | MPBs whose waits do not block the thread |
//! | `front` | operations in the order of the calls, one after the other |
//! | `request` | the request that the caller holds meanwhile |
//! | `collectives` | the operations: broadcast, barrier, reductions, scans |
//! | `blocks` | the operations with a block for each rank: gather, scatter, all-to-all, reduce-scatter |
//! | `communicator` | the same operations for communicators |
//!
//! **What advances them** is set by [`Progress`](mp_delegate::threads::Progress): a communication thread, while the
//! rank computes; or, where there is no core for that, the rank itself, within any call of the library in which it
//! waits. Ranks need not choose the same. Peers that call the blocking forms of the same algorithms are in other
//! fronts.
//!
//! **Order.** All ranks make the calls of one front in the same order, as with a communicator of MPI. Fronts are
//! independent: operations of different fronts do not wait for each other, even if ranks call them in different orders.
//! This is true for a thread that advances all of them as well as for the rank's own calls.
//!
//! **Costs.** A call allocates memory. With a communication thread it also hands the operation over and gets an answer,
//! which takes about as long as a short operation itself. Without one, an operation that need not wait is done when its
//! call returns. Where no work can overlap, the blocking forms are faster.
//!
//! **Ends.** When a rank dies, the others' requests end with [`PeerLost`](mp_core::ErrorKind::PeerLost). When a user's
//! operation panics, the request returns that as its error, the thread continues, and the front is broken: later calls
//! fail, and this rank is lost for the other ranks of the front. When a request is dropped, its operation continues.
//! Dropping the front waits for all operations that were called, as blocking calls would. During a panic it gives up
//! instead, and the others lose this rank.

mod blocks;
mod collectives;
mod communicator;
mod front;
mod polled;
mod request;

pub use crate::arguments::{At, InPlace};
pub use crate::settings::Settings;
pub use collectives::{Buffer, Element, Nonblocking};
pub(crate) use communicator::{arrive, close};
pub use front::{BoxFuture, Front};
pub(crate) use polled::{Leave, Left};
pub use polled::{PolledMpb, Waits};
pub use request::{CollectiveOperation, CollectiveRequest};
