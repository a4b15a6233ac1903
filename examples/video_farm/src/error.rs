//! What can go wrong, with the file, the frame and the reason.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A fault of an input or an output: where, at which frame, and why.
///
/// It is plain text inside, so that it comes back unchanged from a rank that is a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamError {
    /// The file, folder or stream.
    pub place: String,
    /// The frame at hand, counted from 0; `None` before the first and after the last.
    pub frame: Option<u64>,
    /// What is wrong with it.
    pub reason: String,
}

impl StreamError {
    /// A fault that belongs to no single frame.
    pub fn new(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { place: place.to_string(), frame: None, reason: reason.to_string() }
    }

    /// A fault of frame `frame`, counted from 0.
    pub fn at(place: impl fmt::Display, frame: u64, reason: impl fmt::Display) -> Self {
        Self { frame: Some(frame), ..Self::new(place, reason) }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame {
            Some(frame) => write!(f, "{}: frame {frame}: {}", self.place, self.reason),
            None => write!(f, "{}: {}", self.place, self.reason),
        }
    }
}

impl std::error::Error for StreamError {}

/// Why a farm did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FarmError {
    /// The frames could not be read.
    #[error("{0}")]
    Input(StreamError),
    /// The gray frames could not be written.
    #[error("{0}")]
    Output(StreamError),
    /// What was asked for does not go together.
    #[error("{0}")]
    Usage(String),
    /// A rank was lost or could not be started.
    #[error("{0}")]
    World(String),
}
