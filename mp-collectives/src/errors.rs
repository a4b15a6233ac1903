//! The errors of collective operations that occur in several places.

use std::fmt::Display;

use mp_core::{Error, ErrorKind};

/// Makes the error for settings with which an operation can't be opened.
#[cold]
pub(crate) fn bad_settings(reason: impl Display) -> Error {
    ErrorKind::BadSettings { reason: reason.to_string() }.into()
}

/// Makes the error for a call that can't be made in this way.
#[cold]
pub(crate) fn bad_call(reason: impl Into<String>) -> Error {
    ErrorKind::BadCall { reason: reason.into() }.into()
}
