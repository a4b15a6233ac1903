//! The part of Onchip that accesses shared memory and the operating system: worlds of ranks, typed channels between
//! them, buffers that move, and message passing buffers. Programs use it through the `onchip` crate.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod buffer;
pub mod calibrate;
mod channel;
mod context;
mod copier;
mod copy;
mod costs;
mod direct;
mod error;
mod lane;
mod line;
pub mod loan;
pub mod mpb;
mod named;
mod plain;
mod request;
mod segment;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod topology;
mod wait;
mod word;
mod world;

/// Programs launched as the ranks of a world; `mprun` is built on this. Begins with [`World::launch`].
pub mod launch {
    pub use crate::world::{Ending, Launched, Piece, RanksOutput, Stream, come_soon, see_children};
}

/// Sends delegated to other threads of the process; communication threads are built on this.
pub mod delegate {
    pub use crate::lane::{
        Attempt, Awaited, Bell, Gauge, Outgoing, Pending, Progress, ServedLane, Submitted, Untyped,
        Watch, discard,
    };
    pub use crate::wait::Backoff;
}

/// Namespaces that keep the names of the library's own crates apart from those of programs: each use of channels, MPBs
/// and regions has a [namespace](names::Namespace) of its own. Not for programs, so the `onchip` crate does not export
/// it.
///
/// ```
/// use mp_core::names::Namespace;
/// use onchip::{Channel, World};
///
/// const REQUESTS: Namespace = Namespace::new("requests");
///
/// let rank = World::solo()?;
/// let (theirs, ours) = (Channel::degree(1), REQUESTS.channel(Channel::degree(1)));
/// let mut ask = rank.sender("same", 0, ours)?;
/// ask.send(&1)?;
/// let other = rank.receiver::<i32>("same", 0, theirs)?;
/// assert!(other.try_receive()?.is_none());
/// assert_eq!(*rank.receiver::<i32>("same", 0, ours)?.receive()?, 1);
/// # Ok::<(), onchip::Error>(())
/// ```
pub mod names {
    pub use crate::{channel::Callers, context::Namespace};
}

/// Memory of a world for algorithms of other crates; critical sections are built on this.
pub mod memory {
    pub use crate::{
        mpb::{
            ballot::{Ballot, Cast},
            consensus::Consensus,
            region::{KeptWord, Region},
        },
        word::{Word, settle},
    };
    #[cfg(loom)]
    pub use crate::{
        sync::{RaceMarker, interleavings, life::live_for},
        word::full_fence,
    };
}

/// Building blocks for code that deals with waits: a listener for the waits of a thread (recordings are built on this),
/// telling reports which call waits, news that can end any wait, and the number of turns of a loop that take a given
/// time on this machine. Not for programs, so the `onchip` crate does not export it.
pub mod waits {
    pub use crate::{
        costs::{end_look, look, looks, pauses},
        wait::{Caller, Listener, News, listen, tell_messages},
    };
}

/// The rank's progress engine: it advances pending operations in a thread of the rank that waits for something else.
/// Not for programs, so the `onchip` crate does not export it.
pub mod progress {
    pub use crate::{
        wait::progress::{Advanced, Apart, Parked, Part, as_part, rest, resume},
        world::lent::{Helper, Lent, ring},
    };
}

/// What ranks ask of their launcher: see [`Rank::start`]. Not for programs, so the `onchip` crate does not export it.
pub mod starting {
    pub use crate::world::{Command, Family};
}

/// Nodes of a world that is on several machines; mp-nodes is built on this. Begins with [`World::run_node`] and
/// [`World::launch_node`]. Not for programs, so the `onchip` crate does not export it.
pub mod bridge {
    pub use crate::channel::Want;
    pub use crate::wait::Carrier;
    pub use crate::world::{
        BallotTitle, Bridge, Carries, Crossing, Ended, Failed, Gone, Left, Lent, Part, Step, Taken,
        Tidings, Title, Withdrawal,
    };
}

/// The parts that [requests](Request) are built from. Not for programs, so the `onchip` crate does not export it.
pub mod requests {
    pub use crate::request::{
        Beside, CutBuffer, Driven, Driver, FixedBytes, Landing, Operation, RawBuffer, UnderWay,
        Watch, all_of, settle_in_rounds,
    };
}

pub use buffer::SharedBuffer;
pub use channel::{
    Channel, ChannelSpec, Guard, Messages, Receiver, Receivers, Select, Sender, Slot,
};
pub use copy::copy;
#[doc(hidden)]
pub use direct::WorldMemory;
pub use error::{
    Call, Callers, Calls, Cause, ElementType, Error, ErrorKind, Failed, Place, RankFailure,
    RanksFailed, Recipient, Result, SendError,
};
pub use plain::{Message, Plain, Transferable};
pub use request::{
    Buffer, BufferMut, Pending, Request, test_all, test_any, test_some, wait_all, wait_any,
    wait_some,
};
pub use segment::SegmentError;
pub use topology::Bind;
pub use wait::{Operation, UnknownWaitPolicy, Wait, WaitPolicy};
pub use world::report;
pub use world::{Endpoints, Joined, MemoryUse, Rank, WAIT_VARIABLE, World, caller, launched};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
