//! The library's errors, each with the facts of the case.
//!
//! Errors are boxed, and hot paths construct none when a call succeeds. `Result<Guard, Error>` once had 104 bytes. A
//! `?` wrote it to the stack in words and read it back in wider loads, which a processor can't forward: a receive took
//! 5 to 10 ns, and with `match` 1.4 to 2.2. Now it has two words and stays in registers.

use std::{fmt, io, sync::Arc, time::Duration};

use crate::{
    channel::ChannelSpec, mpb::spec::Mpbs, segment::SegmentError, topology, wait::Operation,
};

/// A result whose error is the library's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Implements for the `Error` of a module, a box of its `ErrorKind`, what it needs: access to the kind, by reference
/// and by value, and the traits of an error. With `World`, for a kind that holds an error of worlds, it also implements
/// the conversions between the two, except for `From<mp_core::Error>`.
#[doc(hidden)]
#[macro_export]
macro_rules! boxed_error {
    () => {
        impl Error {
            /// Returns what went wrong.
            pub fn kind(&self) -> &ErrorKind {
                &self.0
            }

            /// Takes out what went wrong.
            pub fn into_kind(self) -> ErrorKind {
                *self.0
            }
        }

        impl From<ErrorKind> for Error {
            #[cold]
            fn from(kind: ErrorKind) -> Self {
                Self(Box::new(kind))
            }
        }

        impl ::std::fmt::Debug for Error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::std::fmt::Display for Error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::std::error::Error for Error {
            fn source(&self) -> Option<&(dyn ::std::error::Error + 'static)> {
                self.0.source()
            }
        }
    };
    (World) => {
        $crate::boxed_error!();

        impl From<$crate::ErrorKind> for Error {
            #[cold]
            fn from(kind: $crate::ErrorKind) -> Self {
                $crate::Error::from(kind).into()
            }
        }

        impl From<ErrorKind> for $crate::Error {
            #[cold]
            fn from(kind: ErrorKind) -> Self {
                match kind {
                    ErrorKind::World(error) => error,
                    kind => Self::other(Error::from(kind)),
                }
            }
        }

        impl From<Error> for $crate::Error {
            #[cold]
            fn from(error: Error) -> Self {
                error.into_kind().into()
            }
        }
    };
}

/// Why a call on a world failed. [`kind`](Self::kind) says what happened, with the facts.
///
/// It is the size of one pointer, so that a successful result is returned in registers.
///
/// ```
/// use onchip::{ErrorKind, World};
///
/// let rank = World::solo()?;
/// let error = rank.sender::<u8>("numbers", 7, onchip::Channel::degree(1)).unwrap_err();
/// match error.kind() {
///     ErrorKind::NoSuchRank { rank, size } => assert_eq!((*rank, *size), (7, 1)),
///     other => panic!("{other}"),
/// }
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct Error(Box<ErrorKind>);

boxed_error!();

/// What can go wrong in a world. See [`Error::kind`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The rank at the other end panicked or died. When a flag was waited for, this can be any rank. What the rank had
    /// published before was delivered.
    #[error(
        "rank {rank} was lost ({operation} on {} {channel:?}): it panicked, or its process ended",
        operation.medium()
    )]
    PeerLost {
        /// The lost rank.
        rank: usize,
        /// The operation that failed.
        operation: Operation,
        /// The name of the channel or the MPBs.
        channel: Arc<str>,
    },
    /// The other end was closed and all its messages were received, or no rank is left that could set a flag.
    #[error(
        "nobody is left at the other end of {channel:?}: the other rank has dropped its end or has returned, so that \
         nothing more will be sent or received there"
    )]
    Disconnected {
        /// The name of the channel or the MPBs.
        channel: Arc<str>,
    },
    /// A member has [revoked](crate::Rank::revoke_mpbs) the MPBs.
    #[error("the MPBs {mpbs:?} were revoked by one of their ranks: open new ones to go on")]
    Revoked {
        /// The name of the MPBs.
        mpbs: Arc<str>,
    },
    /// The time limit of the call has expired.
    #[error("{operation} on {} {channel:?} took longer than its limit of {limit:?}", operation.medium())]
    Timeout {
        /// The operation that failed.
        operation: Operation,
        /// The name of the channel or the MPBs.
        channel: Arc<str>,
        /// The limit.
        limit: Duration,
    },
    /// All slots of the channel are taken. At degree 0: no receiver is waiting.
    #[error(
        "channel {channel:?} of degree {degree} is full: {}; try again, or send with a call that waits",
        if *degree == 0 { "no receiver is waiting" } else { "its receivers have not taken what was sent" },
    )]
    Full {
        /// The channel's name.
        channel: Arc<str>,
        /// Its asynchrony degree.
        degree: u64,
    },
    /// Guards of this receiver hold every slot of the channel, so that no message can arrive.
    #[error(
        "all {held} slots of channel {channel:?} are held by guards of this receiver: drop one before the next \
         receive, or open the channel with a higher degree"
    )]
    GuardsHeld {
        /// The channel's name.
        channel: Arc<str>,
        /// How many guards there are.
        held: u64,
    },
    /// The message is longer than the channel's slots.
    #[error(
        "a message of {len} elements is too long for channel {channel:?}, which takes up to {max}: allow more by \
         Channel::max_len, or send it by send_buffer"
    )]
    TooLong {
        /// The channel's name.
        channel: Arc<str>,
        /// The message's length in elements.
        len: usize,
        /// The longest length allowed, in elements.
        max: usize,
    },
    /// A communication thread did not send a message that was delegated to it.
    #[error("a message on channel {channel:?} was not sent: {reason}")]
    NotSent {
        /// The channel's name.
        channel: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// The two ends of a channel were opened with different types, degrees or lengths.
    #[error(
        "the ends of channel {channel:?} differ, and must be opened alike: here {ours}; there {theirs}"
    )]
    Mismatch {
        /// The channel's name.
        channel: Arc<str>,
        /// This end.
        ours: Box<ChannelSpec>,
        /// The other end.
        theirs: Box<ChannelSpec>,
    },
    /// A channel can't be made with these parameters.
    #[error("channel {channel:?}: {reason}")]
    BadChannel {
        /// The channel's name.
        channel: Arc<str>,
        /// What is wrong.
        reason: String,
    },
    /// Ranks asked for message passing buffers of different lengths.
    #[error(
        "the MPBs {mpbs:?} of the ranks differ, and must be opened alike: here {ours}; there {theirs}"
    )]
    MpbMismatch {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// What this rank asked for.
        ours: Mpbs,
        /// What another rank asked for.
        theirs: Mpbs,
    },
    /// Ranks named different sets of ranks for the same message passing buffers.
    #[error(
        "the MPBs {mpbs:?} are of ranks {ours:?} here, of ranks {theirs:?} there: all must name the same ranks in the \
         same order"
    )]
    MpbRanksMismatch {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// The ranks that this rank named, by their numbers in the world.
        ours: Box<[usize]>,
        /// The ranks that another rank named. They are in that rank's order only for the rank that came later; where
        /// both named the same ranks, it is the order that differs.
        theirs: Box<[usize]>,
    },
    /// Message passing buffers can't be made with these parameters.
    #[error("MPBs {mpbs:?}: {reason}")]
    BadMpbs {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// What is wrong.
        reason: String,
    },
    /// The lines named are beyond the end of a message passing buffer.
    #[error(
        "{count} lines from line {first} on are beyond the end of MPBs {mpbs:?}, which have {lines} lines each"
    )]
    NoSuchLines {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// The first line named.
        first: usize,
        /// How many lines were named.
        count: usize,
        /// How many lines each MPB has.
        lines: usize,
    },
    /// The payload has more bytes than a flag's line holds beside the flag.
    #[error(
        "a payload of {bytes} bytes is too long to be beside a flag of MPBs {mpbs:?}, where up to {most} fit: put it \
         into lines of its own"
    )]
    PayloadTooLong {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// How many bytes the payload has.
        bytes: usize,
        /// The most bytes allowed.
        most: usize,
    },
    /// The named rank does not exist.
    #[error("there is no rank {rank}: there are {size}, numbered from 0")]
    NoSuchRank {
        /// The rank named.
        rank: usize,
        /// How many ranks there are.
        size: usize,
    },
    /// Ranks of the world failed.
    #[error(transparent)]
    RanksFailed(#[from] RanksFailed),
    /// A world can't be made with these parameters.
    #[error("{0}")]
    BadWorld(String),
    /// An error of the shared memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// An error in reading the machine's description, or in pinning.
    #[error(transparent)]
    Topology(#[from] topology::Error),
    /// A result could not be carried from one process to another.
    #[error(
        "a rank's result or input could not be carried between processes: {0} (postcard, which carries it, does not \
         describe types: it can't read back a serde_json::Value or an untagged enum)"
    )]
    Encoding(#[from] postcard::Error),
    /// The operating system refused a call.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// This process may not open as many files as the processes of a world need.
    #[error(
        "the world's processes take {needed} open files, and this process may have no more than \
         {allowed}: raise its limit (ulimit -Hn), or run fewer ranks"
    )]
    OpenFiles {
        /// How many open files are needed, including those that are open already.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// An error of the program.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the program, so that rank code can return it with `?`.
    ///
    /// ```
    /// let error = onchip::Error::other("no such picture");
    /// assert_eq!(error.to_string(), "no such picture");
    /// ```
    #[cold]
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Other(error.into()).into()
    }

    pub(crate) fn os(call: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| ErrorKind::Os { call, source: errno.into() }.into()
    }
}

macro_rules! from_causes {
    ($($cause:ty),+) => {$(
        impl From<$cause> for Error {
            #[cold]
            fn from(cause: $cause) -> Self {
                ErrorKind::from(cause).into()
            }
        }
    )+};
}

from_causes!(RanksFailed, SegmentError, topology::Error, postcard::Error);

impl From<io::Error> for Error {
    #[cold]
    fn from(error: io::Error) -> Self {
        Self::other(error)
    }
}

/// The ranks of a world that failed, in the order of their numbers. It is displayed with one line for each of them,
/// also by `Debug`. [`World::run_each`](crate::World::run_each) returns what the other ranks returned instead of this
/// error.
#[derive(Clone, thiserror::Error)]
pub struct RanksFailed {
    /// The failures, one for each failed rank.
    pub failures: Vec<RankFailure>,
}

impl fmt::Display for RanksFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [failure] = &self.failures[..] {
            return write!(f, "{failure}");
        }
        write!(f, "{} ranks failed:", self.failures.len())?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

impl fmt::Debug for RanksFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How one rank failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFailure {
    /// The rank.
    pub rank: usize,
    /// What happened to it.
    pub cause: Cause,
}

/// What happened to a rank that failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// The rank's code returned this error.
    Error(String),
    /// The rank's code panicked with this message.
    Panic(String),
    /// The rank's process exited with this status before its code returned.
    Exit(i32),
    /// The rank's process was killed by this signal.
    Signal(i32),
    /// The rank's process ended in a way that could not be seen: the process that started it ignores `SIGCHLD`, or
    /// something in that process waits for children that are not its own.
    Vanished,
}

impl fmt::Display for RankFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if let Cause::Error(_) = self.cause { ":" } else { "" };
        write!(f, "rank {}{colon} {}", self.rank, self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(error),
            Self::Panic(message) => write!(f, "panicked: {message}"),
            Self::Exit(status) => write!(f, "ended early with exit status {status}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
            Self::Vanished => f.write_str("vanished: how could not be seen (is SIGCHLD ignored?)"),
        }
    }
}

impl std::error::Error for Cause {}

/// The error of a failed send, which returns the message to the sender.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct SendError<M> {
    /// Why the send failed.
    #[source]
    pub error: Error,
    /// The message that was not sent.
    pub message: M,
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M> From<SendError<M>> for Error {
    fn from(error: SendError<M>) -> Self {
        error.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_is_wrong_where_and_what_to_do() {
        let channel: Arc<str> = "pages".into();
        let full = |degree| ErrorKind::Full { channel: channel.clone(), degree };
        for (error, text) in [
            (
                ErrorKind::PeerLost {
                    rank: 1,
                    operation: Operation::Receive,
                    channel: channel.clone(),
                },
                "rank 1 was lost (receive on channel \"pages\"): it panicked, or its process ended",
            ),
            (
                ErrorKind::Disconnected { channel: channel.clone() },
                "nobody is left at the other end of \"pages\": the other rank has dropped its end or has returned, so \
                 that nothing more will be sent or received there",
            ),
            (
                full(0),
                "channel \"pages\" of degree 0 is full: no receiver is waiting; try again, or send with a call that \
                 waits",
            ),
            (
                full(2),
                "channel \"pages\" of degree 2 is full: its receivers have not taken what was sent; try again, or send \
                 with a call that waits",
            ),
            (
                ErrorKind::GuardsHeld { channel: channel.clone(), held: 2 },
                "all 2 slots of channel \"pages\" are held by guards of this receiver: drop one before the next \
                 receive, or open the channel with a higher degree",
            ),
            (
                ErrorKind::NoSuchRank { rank: 7, size: 3 },
                "there is no rank 7: there are 3, numbered from 0",
            ),
        ] {
            let error = Error::from(error);
            assert_eq!(
                (error.to_string(), format!("{error:?}")),
                (text.to_owned(), text.to_owned())
            );
        }
    }
}
