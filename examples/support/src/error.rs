//! Why there is no result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason of a failure, and its place.
///
/// It is plain text inside, so that it comes back unchanged from a rank that is a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// A result, or why there is none.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns an error with this reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }

    /// Returns an error with a place, such as a file or a stream.
    pub fn at(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self(format!("{place}: {reason}"))
    }
}

impl From<onchip::Error> for Error {
    fn from(error: onchip::Error) -> Self {
        Self::new(error)
    }
}
