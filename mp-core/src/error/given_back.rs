//! Errors that give back the message or the buffer of the failed call.

use std::fmt;

use super::Error;

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

/// The error of a call that owned a buffer, together with that buffer. After a failed receive or collective operation,
/// the contents of the buffer are unspecified.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Failed<B> {
    /// Why the call failed.
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
