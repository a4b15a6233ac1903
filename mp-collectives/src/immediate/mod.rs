//! Collective operations that go on while the rank does something else (`MPI_Ibcast` and its kind).
//!
//! ```
//! use onchip::immediate::{Immediate, Settings};
//! use onchip::reduce::Sum;
//! use onchip::World;
//! use onchip::comm::CommThreads;
//!
//! let sums = World::threads(2).run(|rank| {
//!     let threads = CommThreads::start(1)?;
//!     let mut immediate = Immediate::open(rank, "step", &threads, Settings::default())?;
//!     let sum = immediate.all_reduce(vec![rank.id() as f64; 1000], Sum);
//!     let all_there = immediate.barrier();
//!     let own: u64 = (0..1000).sum(); // meanwhile
//!     let sum = sum.wait()?; // the vector is ours again
//!     all_there.wait()?;
//!     Ok((own, sum[999]))
//! })?;
//! assert_eq!(sums, [(499_500, 1.0); 2]);
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! A call gives its buffer away and returns a [`CollectiveRequest`], which gives it back. Elements may
//! be in a `Vec`, an array, a boxed slice, a [`SharedBuffer`](mp_core::SharedBuffer).
//!
//! | file | what it is |
//! |---|---|
//! | `polled` | MPBs whose waits do not block the thread |
//! | `front` | operations in the order of the calls, one after the other |
//! | `request` | what the caller holds meanwhile |
//! | `collectives` | the operations: broadcast, barrier, reductions, scans |
//! | `blocks` | those with a block for each rank: gather, scatter, all-to-all, reduce-scatter |
//! | `communicator` | all that for communicators |
//!
//! **Who carries them on** is the choice of [`Progress`](mp_delegate::comm::Progress): a communication
//! thread, while the rank computes; or, where there is no core for that, the rank itself, within
//! whatever call of the library it waits in. Ranks need not choose the same, and peers that
//! call blocking forms of the same algorithms are in other fronts.
//!
//! **Order.** All ranks make the calls of one front in the same order, as with a communicator of MPI.
//! Fronts are independent: what is called in different orders on different ranks, on different fronts,
//! does not wait for each other, in a thread that carries on all of it no less than in the rank's calls.
//!
//! **Costs.** A call allocates, hands over to another thread and is answered: about as much as a short
//! operation itself takes. Where nothing can go on meanwhile the blocking forms are faster.
//!
//! **Ends.** A rank that dies ends the others' requests with [`PeerLost`](mp_core::ErrorKind::PeerLost).
//! Where a user's operation panics, the request has that as an error, the thread goes on, and the front
//! is over: what is called after that fails, and for the other ranks this one is lost as far as the
//! front goes. A request that is dropped lets its operation go on. Dropping the front waits for all that
//! was called, as if it had been called without further ado; in a panic, it gives up instead, and the
//! others lose this rank.

mod blocks;
mod collectives;
mod communicator;
mod front;
mod polled;
mod request;

pub use collectives::{Buffer, Element, Immediate, Settings};
pub use communicator::ImmediateCollectives;
pub use front::{BoxFuture, Front};
pub use polled::{PolledMpb, Waits};
pub use request::{CollectiveOperation, CollectiveRequest, Failed, ImmediateError};
