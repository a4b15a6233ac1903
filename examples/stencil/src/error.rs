//! What can go wrong, with the reason.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why there is no result.
///
/// It is plain text inside, so that it comes back unchanged from a rank that is a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StencilError {
    /// A file that cannot be read or written, or does not hold what it should.
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
    /// A rank was lost or could not be started.
    #[error("{0}")]
    World(String),
    /// A mode's matrix is not the sequential one.
    #[error("{0}")]
    Different(String),
}

impl StencilError {
    pub(crate) fn file(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::File { place: place.to_string(), reason: reason.to_string() }
    }
}

impl From<onchip::Error> for StencilError {
    fn from(error: onchip::Error) -> Self {
        Self::World(error.to_string())
    }
}
