//! What statuses have, and what programs put there.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use crate::{
    comm::element,
    error::{Class, Error},
    program::{plainly, put},
    types::Status,
};

/// Changes a status of the program.
///
/// # Safety
/// The address is null, or that of a status that can be written to.
unsafe fn change(status: *mut Status, change: impl FnOnce(&mut Status)) -> Result<(), Error> {
    // SAFETY: the caller says so.
    match unsafe { status.as_mut() } {
        Some(status) => {
            change(status);
            Ok(())
        }
        None => Err(Error::new(Class::Arg, "the address of the status is a null pointer")),
    }
}

/// `MPI_Status_get_source`.
pub unsafe fn status_get_source(status: *const Status, source: *mut c_int) -> c_int {
    // SAFETY: the program gives a status, and a place for the answer.
    plainly("MPI_Status_get_source", || unsafe { put(source, element(status)?.source) })
}

/// `MPI_Status_set_source`.
pub unsafe fn status_set_source(status: *mut Status, source: c_int) -> c_int {
    // SAFETY: the program gives a status, which can be written to.
    plainly("MPI_Status_set_source", || unsafe { change(status, |status| status.source = source) })
}

/// `MPI_Status_get_tag`.
pub unsafe fn status_get_tag(status: *const Status, tag: *mut c_int) -> c_int {
    // SAFETY: the program gives a status, and a place for the answer.
    plainly("MPI_Status_get_tag", || unsafe { put(tag, element(status)?.tag) })
}

/// `MPI_Status_set_tag`.
pub unsafe fn status_set_tag(status: *mut Status, tag: c_int) -> c_int {
    // SAFETY: the program gives a status, which can be written to.
    plainly("MPI_Status_set_tag", || unsafe { change(status, |status| status.tag = tag) })
}

/// `MPI_Status_get_error`.
pub unsafe fn status_get_error(status: *const Status, error: *mut c_int) -> c_int {
    // SAFETY: the program gives a status, and a place for the answer.
    plainly("MPI_Status_get_error", || unsafe { put(error, element(status)?.error) })
}

/// `MPI_Status_set_error`.
pub unsafe fn status_set_error(status: *mut Status, error: c_int) -> c_int {
    // SAFETY: the program gives a status, which can be written to.
    plainly("MPI_Status_set_error", || unsafe { change(status, |status| status.error = error) })
}
