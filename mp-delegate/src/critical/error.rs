//! What can go wrong with an operation.

use std::{fmt, time::Duration};

use super::{fate::Fate, stop::Stop};

/// Why an operation has no result. [`kind`](Self::kind) says what happened, with the facts.
///
/// The error is one pointer, so that results of successful calls are returned in registers.
pub struct Error(Box<ErrorKind>);

mp_core::boxed_error!(World);

/// What can go wrong with an operation: see [`Error::kind`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operation panicked. The value is what it had made of it until then.
    #[error("an operation on {object:?} panicked: {message}")]
    Panicked {
        /// The object's name.
        object: String,
        /// The beginning of the panic's message.
        message: String,
    },
    /// The operation was not executed, because an earlier one panicked, or the rank that executed it died in the middle
    /// of it. See [`Section::poison`](super::Section::poison).
    #[error("{object:?} is poisoned by an operation that did not come to its end")]
    Poisoned {
        /// The object's name.
        object: String,
    },
    /// The operation was not executed, because it was asked for in the middle of one that excludes
    /// it: it would wait for itself.
    #[error("an operation on {object:?} was asked for in the middle of one that it would wait for")]
    Nested {
        /// The object's name.
        object: String,
    },
    /// The rank that executed the operation died in the middle of it, or left; or a server is gone, and with it the
    /// requests that were on their way to it. It is unknown whether the operation was executed: once, or not at all.
    #[error("an operation on {object:?} may have been executed or not: who was to do so is gone")]
    Unknown {
        /// The object's name.
        object: String,
    },
    /// A rank that is a thread ended in the middle of an operation, with a leaked guard, so that the others can't
    /// continue; or a rank was killed while it initialized the value. The operation was not executed.
    #[error("rank {rank} was lost in a critical section of {object:?}")]
    Lost {
        /// The object's name.
        object: String,
        /// The rank that was lost.
        rank: usize,
    },
    /// The time limit expired before the operation was begun. It was not executed, and never will be.
    #[error("an operation on {object:?} was not begun within {limit:?}, and never will be")]
    Timeout {
        /// The object's name.
        object: String,
        /// How long the caller waited.
        limit: Duration,
    },
    /// The result was not asked for in time: since then as many operations were submitted as results are kept.
    #[error("the result of an operation on {object:?} is forgotten: {kept} are kept")]
    Forgotten {
        /// The object's name.
        object: String,
        /// How many results are kept.
        kept: usize,
    },
    /// Ranks opened an object in different ways.
    #[error("{object:?} was opened by another rank as something else")]
    Mismatch {
        /// The object's name.
        object: String,
    },
    /// An object can't be created, or used, in this way.
    #[error("{object:?}: {reason}")]
    Bad {
        /// The object's name.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// Any other error of the world.
    #[error(transparent)]
    World(mp_core::Error),
}

impl From<mp_core::Error> for Error {
    #[cold]
    fn from(error: mp_core::Error) -> Self {
        ErrorKind::World(error).into()
    }
}

/// Why [`try_apply`](super::Protected::try_apply) has no result.
#[derive(thiserror::Error)]
pub enum TryApplyError<Op> {
    /// Other ranks are using the object. The operation is returned; it was not executed and never will be.
    #[error("others are at the object, and the operation was not executed")]
    Busy(Op),
    /// The operation failed, as one of [`apply`](super::Protected::apply).
    #[error(transparent)]
    Failed(#[from] Error),
}

impl<Op> fmt::Debug for TryApplyError<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(_) => f.debug_tuple("Busy").finish_non_exhaustive(),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

impl<Op> From<TryApplyError<Op>> for mp_core::Error {
    fn from(error: TryApplyError<Op>) -> Self {
        match error {
            TryApplyError::Failed(error) => error.into(),
            busy @ TryApplyError::Busy(_) => Self::other(busy.to_string()),
        }
    }
}

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    #[cold]
    pub(super) fn bad(object: &str, reason: impl Into<String>) -> Self {
        ErrorKind::Bad { object: object.to_owned(), reason: reason.into() }.into()
    }

    #[cold]
    pub(super) fn stopped(object: &str, stop: Stop) -> Self {
        let object = object.to_owned();
        match stop {
            Stop::Lost(rank) => ErrorKind::Lost { object, rank }.into(),
            Stop::Unserved | Stop::Unsure(_) => ErrorKind::Unknown { object }.into(),
            // Nobody else waits in a queue that is left.
            Stop::Corrupt | Stop::Void => {
                Self::bad(&object, "a control word in shared memory has no meaning")
            }
            Stop::World(error) => error.into(),
        }
    }

    /// Returns the error for a fate that is not [`Fate::Done`].
    #[cold]
    pub(super) fn of(object: &str, fate: Fate, message: impl FnOnce() -> String) -> Self {
        let object = object.to_owned();
        match fate {
            Fate::Panicked => ErrorKind::Panicked { object, message: message() },
            Fate::Poisoned => ErrorKind::Poisoned { object },
            Fate::Done | Fate::Unknown => ErrorKind::Unknown { object },
        }
        .into()
    }
}
