//! Errors of reductions and of their options.

use crate::errors::bad_call;
use mp_core::ErrorKind;
use thiserror::Error;

/// The reason why the options of a reduction are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReduceOptionsError {
    /// There are no buffers, or they have no lines.
    #[error("a reduction has no buffers: ask for at least one")]
    NoBuffer,
    /// The buffers do not fit into the MPB.
    #[error(
        "the buffers do not fit into an MPB of {lines} lines, from line {first_line} on: ask for less, or open the MPBs with more lines"
    )]
    NoRoom {
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

impl ReduceOptionsError {
    pub(crate) fn check(
        buffer: usize,
        needed: Option<usize>,
        first_line: usize,
        lines: usize,
    ) -> Result<(), Self> {
        if buffer == 0 {
            return Err(ReduceOptionsError::NoBuffer);
        }
        match needed.and_then(|needed| needed.checked_add(first_line)) {
            Some(end) if end <= lines => Ok(()),
            _ => Err(ReduceOptionsError::NoRoom { first_line, lines }),
        }
    }
}

/// The reason why a reduction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReduceError<E> {
    /// The MPBs failed.
    #[error(transparent)]
    Mpb(#[from] E),
    /// There is no such root.
    #[error(
        "there is no rank {root} that could be the root of a reduction: there are {ranks}, numbered from 0"
    )]
    Root {
        /// The requested root.
        root: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The vector is too long to be sent in lines.
    #[error(
        "a vector of {bytes} bytes is too long for a reduction by lines, which takes up to {most}: use another algorithm"
    )]
    TooLong {
        /// The vector's length.
        bytes: usize,
        /// The greatest length that can be pending.
        most: usize,
    },
    /// The element is longer than a buffer.
    #[error(
        "an element of {bytes} bytes is longer than a buffer, which has {most} bytes: ask for longer buffers"
    )]
    ElementTooLong {
        /// An element's length.
        bytes: usize,
        /// A buffer's length.
        most: usize,
    },
}

/// Allows rank code to return it with `?`.
impl From<ReduceError<mp_core::Error>> for mp_core::Error {
    fn from(error: ReduceError<mp_core::Error>) -> Self {
        match error {
            ReduceError::Mpb(error) => error,
            ReduceError::Root { root: rank, ranks: size } => {
                ErrorKind::NoSuchRank { rank, size }.into()
            }
            other => bad_call(other.to_string()),
        }
    }
}

impl<E> ReduceError<E> {
    #[inline]
    pub(super) fn check_root(root: usize, ranks: usize) -> Result<(), Self> {
        if root < ranks { Ok(()) } else { Err(ReduceError::Root { root, ranks }) }
    }

    /// Returns how many elements go into a buffer of `most` bytes: at least one.
    pub(super) fn elements_in<T>(most: usize) -> Result<usize, Self> {
        let bytes = size_of::<T>();
        match most.checked_div(bytes) {
            Some(elements) if elements > 0 => Ok(elements),
            _ => Err(ReduceError::ElementTooLong { bytes, most }),
        }
    }
}
