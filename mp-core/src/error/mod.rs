//! The library's error, with the facts about what went wrong.
//!
//! Errors are boxed, and hot paths construct none when a call succeeds. `Result<Guard, Error>` once had 104 bytes. A
//! `?` wrote it to the stack in words and read it back in wider loads, which a processor can't forward: a receive took
//! 5 to 10 ns, and with `match` 1.4 to 2.2. Now it has two words and stays in registers.

mod calls;
mod element_type;
mod given_back;
mod kind;
mod place;
mod ranks_failed;
#[cfg(test)]
mod tests;

use std::{fmt, io};

pub use calls::{Call, Callers, Calls};
pub use element_type::ElementType;
pub use given_back::{Failed, SendError};
pub use kind::ErrorKind;
pub use place::{Place, Recipient};
pub use ranks_failed::{Cause, RankFailure, RanksFailed};

use crate::{segment::SegmentError, topology};

/// A result whose error is the library's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the library failed. [`kind`](Self::kind) says what happened, with the facts.
///
/// It is the one error of worlds, channels, message passing buffers, communicators, requests, collective operations and
/// critical sections, so that `?` passes it on and one `match` tells the cases apart. It is the size of one pointer, so
/// that a successful result is returned in registers.
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

impl Error {
    /// Returns what went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// Returns what went wrong, by value.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }

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

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
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
