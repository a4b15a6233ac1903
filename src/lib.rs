//! Message passing for one multicore machine.
//!
//! A program is a [`World`] of ranks, which are threads or processes; the code is the same. Ranks
//! open typed channels to each other by name, and send plain values, slices of them, or whole
//! [`SharedBuffer`]s that change hands without being copied.
//!
//! ```
//! use onchip::prelude::*;
//!
//! let sums = World::threads(2).run(|rank| {
//!     let numbers = Channel::degree(4).max_len(100);
//!     if rank.id() == 0 {
//!         let mut out = rank.sender::<[u64]>("numbers", 1, numbers)?;
//!         out.send(&[1, 2, 3])?;
//!         return Ok(0);
//!     }
//!     let numbers = rank.receiver::<[u64]>("numbers", 0, numbers)?;
//!     Ok(numbers.receive()?.iter().sum())
//! })?;
//! assert_eq!(sums, [0, 6]);
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! | task | items |
//! |---|---|
//! | start ranks | [`World::threads`], [`World::processes`], [`World::solo`]; as many as `mprun` says: [`World::any_size`] |
//! | run code as every rank | [`World::run`], [`World::run_with`] an input, [`World::run_each`] to keep what others return when one fails, [`World::run_threads`] without `serde` |
//! | send | [`Sender::send`], [`Sender::reserve`] to write in place, [`Sender::send_buffer`] |
//! | receive | [`Receiver::receive`] to read in place, [`Receiver::receive_buffer`], [`Select`] |
//! | let other threads send in the background | [`CommThreads`](threads::CommThreads), [`threads`] |
//! | know when that pays | [`threads::pays`] |
//! | see what was hidden behind computation | [`overlap`], [`trace`] |
//! | share a queue among several ranks | [`Rank::shared_sender`], [`Endpoints`] |
//! | send tagged messages, as with MPI | [`Communicator`], [`communicator`] |
//! | put ranks into a grid, exchange borders | [`Cartesian`](communicator::Cartesian), [`Halo`](communicator::Halo) |
//! | do something with all ranks of a communicator | [`collectives`] |
//! | find the rank that calls a different operation | [`Check`](collectives::Check) |
//! | see which algorithms are chosen | [`CHOICE_TARGET`] |
//! | change how calls wait | [`WaitPolicy`], [`Wait`] for one call |
//! | send one message to all ranks | [`broadcast`] |
//! | wait until all ranks have arrived | [`barrier`] |
//! | combine the elements of all ranks | [`reduce`] |
//! | run collective operations in the background | [`nonblocking`] |
//! | gather, scatter, exchange blocks between all ranks | [`exchange`] |
//! | change a value that ranks share, one rank at a time | [`critical`] |
//! | read and write the memory of all ranks | [`mpb`], [`Rank::mpb`] |
//! | place ranks on cores | [`World::bind`], [`topology`] |
//! | find out what went wrong | [`Error`], [`ErrorKind`] |
//!
//! The guide (`docs/guide.md`) describes how to launch programs with `mprun`, and what the limits are.
#![forbid(unsafe_code)]

/// The crate whose derives say that a type is plain data: see [`Plain`]. With
/// `#[bytemuck(crate = "onchip::bytemuck")]` the derives need no dependency of the program's own.
pub use bytemuck;
pub use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
// All but `mp_core::delegate`, which is for `threads` alone, `mp_core::memory`, for `critical`, `mp_core::waits`,
// for `trace`, and `mp_core::names`, `progress` and `requests`, for the library's own crates.
pub use mp_collectives::communicator::{self, ANY_SOURCE, ANY_TAG, Communicator};
pub use mp_collectives::{CHOICE_TARGET, Members, calibration, collectives, near};
pub use mp_core::{
    Bind, Buffer, BufferMut, Cause, Channel, ChannelSpec, Endpoints, Error, ErrorKind, Failed,
    Guard, Joined, MemoryUse, Message, Messages, Operation, Pending, Place, Plain, Rank,
    RankFailure, RanksFailed, Receiver, Receivers, Recipient, Request, Result, SegmentError,
    Select, SendError, Sender, SharedBuffer, Slot, Transferable, UnknownWaitPolicy, WAIT_VARIABLE,
    Wait, WaitPolicy, World, caller, launch, launched, mpb, report, test_all, test_any, test_some,
    topology, wait_all, wait_any, wait_some,
};
pub use mp_delegate::{critical, overlap, threads, trace};

/// The crate whose traits the results of ranks that are processes need: see [`Transferable`]. With
/// `#[serde(crate = "onchip::serde")]` the derives need no dependency of the program's own.
pub use serde;

/// Broadcasts: one rank's message goes to all ranks.
///
/// The algorithms run on [message passing buffers](mpb), which all ranks open by the same name. They are `async`
/// functions, written for real ranks and for simulated ones. On real ranks, [`complete`](broadcast::complete) calls
/// such a function, and returns when this rank's part is done.
///
/// ```
/// use onchip::{broadcast::{OcBcast, Options, complete}, mpb::Mpbs, prelude::*};
///
/// let sums = World::threads(4).run(|rank| {
///     let mut mpb = rank.mpb("broadcasts", Mpbs::lines(200))?;
///     let mut broadcasts = OcBcast::new(&mpb, Options::scc(3))?;
///     let mut sum = 0;
///     for root in 0..rank.size() {
///         let mut message = vec![0; 10_000];
///         if rank.id() == root {
///             message.fill(root as u8 + 1);
///         }
///         complete(broadcasts.broadcast(&mut mpb, &mut message, root))?;
///         sum += message.into_iter().map(u64::from).sum::<u64>();
///     }
///     Ok(sum)
/// })?;
/// assert_eq!(sums, [100_000; 4]);
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// With [`AsyncBroadcast`](broadcast::AsyncBroadcast), any rank broadcasts at any time. The receiving ranks call
/// nothing: their handlers run.
///
/// A rank that dies ends the broadcasts of all others with [`PeerLost`](ErrorKind::PeerLost).
pub mod broadcast {
    pub use mp_collectives::broadcast::*;
    pub use mp_collectives::complete;
}

/// Barriers: no rank continues until all ranks have arrived.
///
/// ```
/// use onchip::{barrier::{Barriers, Settings}, prelude::*};
///
/// World::threads(4).run(|rank| {
///     let mut barriers = Barriers::open(rank, "step", Settings::default())?;
///     for _ in 0..100 {
///         barriers.wait()?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// A rank that dies ends the barriers of all others with [`PeerLost`](ErrorKind::PeerLost).
pub mod barrier {
    pub use mp_collectives::barrier::*;
    pub use mp_collectives::complete;
}

/// Reductions: the elements of all ranks are combined, place by place, for all ranks or for one.
///
/// ```
/// use onchip::{prelude::*, reduce::{Reductions, Settings, Sum}};
///
/// let sums = World::threads(4).run(|rank| {
///     let mut reductions = Reductions::open(rank, "sums", Settings::default())?;
///     let mut sums = vec![rank.id() as u64; 1_000];
///     reductions.all_reduce(&mut sums, Sum)?;
///     let mut longest = [sums.len() + rank.id()];
///     reductions.reduce(&mut longest, |left: usize, right| left.max(right), 0)?;
///     Ok(sums.iter().sum::<u64>())
/// })?;
/// assert_eq!(sums, [6_000; 4]);
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// A rank that dies ends the reductions of all others with [`PeerLost`](ErrorKind::PeerLost).
pub mod reduce {
    pub use mp_collectives::complete;
    pub use mp_collectives::reduce::*;
}

/// Collective operations that go on while a rank does something else.
///
/// ```
/// use onchip::{nonblocking::{Nonblocking, Settings}, prelude::*, reduce::Sum};
///
/// World::threads(3).run(|rank| {
///     // Where there is no core to spare: `threads::Progress::InCalls`.
///     let threads = CommThreads::start(1)?;
///     let mut nonblocking = Nonblocking::open(rank, "steps", &threads, Settings::default())?;
///     let mut sums = vec![0.0; 1_000];
///     for step in 0..10 {
///         let request = nonblocking.all_reduce(sums, Sum);
///         let own = (0..1_000).map(|n| f64::from(n * step)); // meanwhile
///         sums = request.wait()?;
///         sums.iter_mut().zip(own).for_each(|(sum, own)| *sum = own);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// Communicators have [these operations](Communicator::nonblocking), too. A rank that dies ends the requests of
/// all others with [`PeerLost`](ErrorKind::PeerLost).
pub mod nonblocking {
    pub use mp_collectives::nonblocking::*;
    pub use mp_delegate::threads::Progress;
}

/// Exchanges of blocks between ranks: gather, scatter, all-gather, all-to-all.
///
/// ```
/// use onchip::{exchange::{At, Exchanges, Settings, packed}, prelude::*};
///
/// let found = World::threads(4).run(|rank| {
///     let mut exchanges = Exchanges::open(rank, "primes", Settings::default())?;
///     // Each rank looks at its part of the numbers, which rank 0 hands out.
///     let (numbers, mut own) = ((2..42).collect::<Vec<u32>>(), [0; 10]);
///     exchanges.scatter(&numbers, &mut own, 0)?;
///     let prime = |n: &u32| (2..*n).all(|divisor| n % divisor != 0);
///     let primes: Vec<_> = own.into_iter().filter(prime).collect();
///     // How many each has found, and then which.
///     let mut counts = vec![0; rank.size()];
///     exchanges.all_gather(&[primes.len()], &mut counts)?;
///     let mut all = vec![0; counts.iter().sum()];
///     exchanges.gather(&primes, At(&mut all, packed(counts)), 0)?;
///     Ok(all)
/// })?;
/// assert_eq!(found[0], [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41]);
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// A rank that dies ends the exchanges of all others with [`PeerLost`](ErrorKind::PeerLost).
pub mod exchange {
    pub use mp_collectives::complete;
    pub use mp_collectives::exchange::*;
}

/// What programs need: `use onchip::prelude::*;`
pub mod prelude {
    pub use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
    pub use mp_core::{
        Bind, Channel, Endpoints, Error, ErrorKind, Guard, Pending, Plain, Rank, Receiver,
        Receivers, Request, Select, SendError, Sender, SharedBuffer, Slot, Wait, WaitPolicy, World,
        wait_all, wait_any, wait_some,
    };
    #[doc(no_inline)]
    pub use mp_delegate::threads;
    pub use mp_delegate::threads::{Choice, CommThreads, Delegated};
}

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles and runs what the page about communication threads shows.
#[cfg(doctest)]
#[doc = include_str!("../docs/when-communication-threads-pay.md")]
struct WhenCommunicationThreadsPay;
