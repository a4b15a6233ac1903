//! What can go wrong, with the reason.

use std::fmt;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// A file that cannot be read or written.
    #[error("{place}: {reason}")]
    File {
        /// The file.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What was asked for does not go together.
    #[error("{0}")]
    Usage(String),
    /// A rank was lost that was not to be, or could not be started.
    #[error("{0}")]
    World(String),
    /// The store is not what the clients' operations have made of it.
    #[error("{0}")]
    Wrong(String),
}

impl KvError {
    pub(crate) fn file(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::File { place: place.to_string(), reason: reason.to_string() }
    }
}

impl From<onchip::Error> for KvError {
    fn from(error: onchip::Error) -> Self {
        Self::World(error.to_string())
    }
}
