//! What can go wrong between the ranks of a communicator.

use std::{fmt, time::Duration};

use crate::{Call, Calls, ElementType};

/// A result whose error is this crate's.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call on a communicator failed. [`kind`](Self::kind) says what happened, with the facts.
///
/// It is one pointer, so that a result comes back in registers where a call succeeds. `?` turns it into an
/// [`mp_core::Error`] in rank code.
pub struct Error(Box<ErrorKind>);

mp_core::boxed_error!(World);

/// What can go wrong: see [`Error::kind`]. Ranks are those of the communicator, unless said otherwise.
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
    /// The rank has ended, or closed its communicators: it takes nothing more, and nothing more
    /// comes from it. What it had sent before was delivered.
    #[error("rank {rank} of the communicator has ended")]
    Ended {
        /// The rank.
        rank: usize,
    },
    /// A receive from any source, when every possible source has ended, or was lost and acknowledged.
    #[error("no other rank of the communicator is left to send anything")]
    NobodyLeft,
    /// A rank has [revoked](crate::Communicator::revoke) the communicator: nothing can be sent or received in
    /// it any more, and nothing be called together, but [`shrink`](crate::Communicator::shrink) and
    /// [`agree`](crate::Communicator::agree).
    #[error("the communicator was revoked")]
    Revoked,
    /// A call that only this very rank could bring to an end, which waits in it.
    #[error("a rank that waits for a message of its own would wait for ever")]
    WaitsForItself,
    /// The message is longer than the buffer. It was not received, and can be.
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
        /// The buffer's.
        room: usize,
    },
    /// The message is of another type, or of another number of elements where one is expected. It
    /// was not received, and can be.
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
    /// What comes from the rank makes no sense, its channels can't be used, or it has no memory to send more.
    #[error("rank {rank} of the communicator can't be heard: {reason}")]
    Broken {
        /// The rank.
        rank: usize,
        /// What is wrong.
        reason: String,
    },
    /// An immediate or buffered send failed for a reason that lies in this rank, mostly for want of memory.
    /// The call that fails with this is another one, which would have waited: perhaps for an answer to that
    /// message. Any wait of this library can be that call, also one for a channel, a flag or a collective
    /// operation; then it is [`Other`](mp_core::ErrorKind::Other), with this inside. Not so the wait of a
    /// critical section, nor [`wait`](mp_core::Request::wait) of a collective request, whose operation owns
    /// its buffer. The request of the send says it, too.
    #[error("a message to rank {rank} of the communicator could not be sent: {reason}")]
    Unsent {
        /// The receiver: its rank in the communicator of the call, or in the world where the call has none.
        rank: usize,
        /// Why.
        reason: String,
    },
    /// There is no such rank.
    #[error("rank {rank} named in a communicator of {size}")]
    NoSuchRank {
        /// The rank named.
        rank: usize,
        /// How many there are.
        size: usize,
    },
    /// The time limit was over.
    #[error("nothing came within {0:?}")]
    Timeout(Duration),
    /// Not all ranks called the same, of what all must call together. Nobody went on.
    #[error("{0}")]
    CallsDiffer(Box<Calls>),
    /// A rank did not come within the limit to what all must call together.
    #[error("rank {rank} of the communicator has not come within {limit:?} to {call}")]
    NotCome {
        /// The rank; where several are missing, the lowest.
        rank: usize,
        /// What this rank called.
        call: Box<Call>,
        /// The limit.
        limit: Duration,
    },
    /// Requests that can't be waited for together, grids that can't be, groups that differ.
    #[error("{0}")]
    Misuse(String),
    /// The world's memory, its channels, the machine's description.
    #[error(transparent)]
    World(mp_core::Error),
}

impl Error {
    /// What is wrong, if a send failed with it for a reason that lies in this rank.
    pub(crate) fn of_this_rank(&self) -> Option<String> {
        match self.kind() {
            ErrorKind::Broken { reason, .. } => Some(reason.clone()),
            ErrorKind::World(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// An error of communicators that was [made](mp_core::Error::other) one of worlds is what it was again.
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

/// Something that gave its buffer to a send or receive gets it back, also when that failed.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Failed<B> {
    /// Why.
    #[source]
    pub error: Error,
    /// What was given.
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
