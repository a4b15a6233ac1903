//! Errors of communicators.

use std::{fmt, time::Duration};

use crate::communicator::{Call, Calls, ElementType};

/// A result whose error is this crate's.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call on a communicator failed. [`kind`](Self::kind) returns what happened, with the details.
///
/// The error is one pointer, so that the result of a successful call is returned in registers. `?` converts it to an
/// [`mp_core::Error`] in rank code.
pub struct Error(Box<ErrorKind>);

mp_core::boxed_error!(World);

/// The kinds of errors: see [`Error::kind`]. Ranks are those of the communicator, unless stated otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The rank panicked or died. What it had sent before was delivered.
    #[error("rank {rank} of the communicator was lost (rank {world_rank} of the world)")]
    PeerLost {
        /// The lost rank.
        rank: usize,
        /// Its number in the world.
        world_rank: usize,
    },
    /// The rank has ended, or has closed its communicators: it no longer takes or sends anything. What it had sent
    /// before was delivered.
    #[error("rank {rank} of the communicator has ended")]
    Ended {
        /// The rank.
        rank: usize,
    },
    /// A receive from any source failed because every possible source has ended, or was lost and acknowledged.
    #[error("no other rank of the communicator is left to send anything")]
    NobodyLeft,
    /// A rank has [revoked](crate::communicator::Communicator::revoke) the communicator. Nothing can be sent or received in it any
    /// more, and no collective operation can be called, except [`shrink`](crate::communicator::Communicator::shrink) and
    /// [`agree`](crate::communicator::Communicator::agree).
    #[error("the communicator was revoked")]
    Revoked,
    /// The call waits for something that only this same rank could do.
    #[error("a rank that waits for a message of its own would wait for ever")]
    WaitsForItself,
    /// The message is longer than the buffer. It was not received, and can still be received.
    #[error(
        "a message of {count} elements from rank {source_rank} with tag {tag} for a buffer of {room}"
    )]
    Truncated {
        /// The sender.
        source_rank: usize,
        /// The message's tag.
        tag: u32,
        /// Its length in elements.
        count: usize,
        /// The length of the buffer in elements.
        room: usize,
    },
    /// The message is of another type, or has another number of elements where one is expected. It was not received,
    /// and can still be received.
    #[error(
        "a message of {count} × {theirs} from rank {source_rank} with tag {tag}; \
         {ours} expected here"
    )]
    OtherElements {
        /// The sender.
        source_rank: usize,
        /// The message's tag.
        tag: u32,
        /// Its length in elements.
        count: usize,
        /// The type of the receiving call.
        ours: Box<ElementType>,
        /// The type of the sending call.
        theirs: Box<ElementType>,
    },
    /// The data from the rank is invalid, its channels can't be used, or it has no memory to send more.
    #[error("rank {rank} of the communicator can't be heard: {reason}")]
    Broken {
        /// The rank.
        rank: usize,
        /// What is wrong.
        reason: String,
    },
    /// A nonblocking or buffered send failed for a reason that lies in this rank, usually for lack of memory. This error
    /// is returned by another call, which would otherwise wait, perhaps for an answer to that message. It can be any
    /// call of this library that waits, including one for a channel, a flag or a collective operation; the error is
    /// then [`Other`](mp_core::ErrorKind::Other), with this one inside. Exceptions are the wait of a critical section,
    /// and [`wait`](mp_core::Request::wait) of a collective request, whose operation owns its buffer. The request of
    /// the send returns the error, too.
    #[error("a message to rank {rank} of the communicator could not be sent: {reason}")]
    Unsent {
        /// The receiver: its rank in the communicator of the call, or in the world where the call has none.
        rank: usize,
        /// The reason.
        reason: String,
    },
    /// There is no such rank.
    #[error("rank {rank} named in a communicator of {size}")]
    NoSuchRank {
        /// The rank named.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
    /// The time limit has passed.
    #[error("nothing came within {0:?}")]
    Timeout(Duration),
    /// The ranks did not all call the same collective operation. No rank went on.
    #[error("{0}")]
    CallsDiffer(Box<Calls>),
    /// A rank did not come to a collective operation within the limit.
    #[error("rank {rank} of the communicator has not come within {limit:?} to {call}")]
    NotCome {
        /// The rank. If several are missing, it is the lowest.
        rank: usize,
        /// What this rank called.
        call: Box<Call>,
        /// The limit.
        limit: Duration,
    },
    /// Requests that can't be waited for together, impossible grids, groups that differ.
    #[error("{0}")]
    Misuse(String),
    /// An error of the world's memory, of its channels, or of the machine's description.
    #[error(transparent)]
    World(mp_core::Error),
}

impl Error {
    /// Returns the reason, if a send failed with this error for a reason that lies in this rank.
    pub(crate) fn of_this_rank(&self) -> Option<String> {
        match self.kind() {
            ErrorKind::Broken { reason, .. } => Some(reason.clone()),
            ErrorKind::World(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// An error of communicators that was [converted](mp_core::Error::other) to one of worlds is converted back.
impl From<mp_core::Error> for Error {
    #[cold]
    fn from(error: mp_core::Error) -> Self {
        match error.into_kind() {
            mp_core::ErrorKind::Revoked { .. } => ErrorKind::Revoked.into(),
            mp_core::ErrorKind::Other(other) => match other.downcast() {
                Ok(error) => *error,
                Err(other) => ErrorKind::World(mp_core::Error::other(other)).into(),
            },
            kind => ErrorKind::World(kind.into()).into(),
        }
    }
}

/// The error of a send or receive that owned a buffer, together with that buffer.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Failed<B> {
    /// The reason.
    #[source]
    pub error: Error,
    /// The buffer that was given to the call.
    pub buffer: B,
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error
    }
}

impl<B> From<Failed<B>> for mp_core::Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error.into()
    }
}
