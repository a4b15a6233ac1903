//! Why an operation has no result, and why an algorithm stops.

use std::fmt;

use mp_core::{Error, ErrorKind, Place};

use super::{fate::Fate, stop::Stop};

/// Why [`try_apply`](super::Protected::try_apply) has no result.
#[derive(thiserror::Error)]
pub enum TryApplyError<Op> {
    /// Other ranks are using the object. The operation is returned; it was not executed and never will be.
    #[error(
        "other ranks are using the object, and the operation was not executed: try again, or call apply, which waits"
    )]
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

impl<Op> From<TryApplyError<Op>> for Error {
    fn from(error: TryApplyError<Op>) -> Self {
        match error {
            TryApplyError::Failed(error) => error,
            TryApplyError::Busy(_) => ErrorKind::ObjectBusy.into(),
        }
    }
}

/// Makes the error for an object that can't be created, or used, in this way.
#[cold]
pub(super) fn bad(object: &str, reason: impl Into<String>) -> Error {
    ErrorKind::BadObject { object: object.into(), reason: reason.into() }.into()
}

/// Makes the error for an algorithm that can't go on.
#[cold]
pub(super) fn stopped(object: &str, stop: Stop) -> Error {
    match stop {
        Stop::Lost(rank) => {
            let place = Place::Object(object.into());
            ErrorKind::PeerLost { rank, world_rank: rank, place }.into()
        }
        Stop::Unserved | Stop::Unsure(_) => {
            ErrorKind::OutcomeUnknown { object: object.into() }.into()
        }
        // A queue that is void is left by its seats, so this is reported like a broken control word.
        Stop::Corrupt | Stop::Void => bad(object, "a control word in shared memory has no meaning"),
        Stop::World(error) => error,
    }
}

/// Makes the error for a fate that is not [`Fate::Done`].
#[cold]
pub(super) fn failed(object: &str, fate: Fate, message: impl FnOnce() -> String) -> Error {
    let object = object.into();
    match fate {
        Fate::Panicked => {
            ErrorKind::OperationPanicked { place: Place::Object(object), message: message() }
        }
        Fate::Poisoned => ErrorKind::Poisoned { object },
        Fate::Done | Fate::Unknown => ErrorKind::OutcomeUnknown { object },
    }
    .into()
}
