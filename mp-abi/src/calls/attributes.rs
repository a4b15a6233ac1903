//! Attributes of communicators.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use super::error_codes::LAST_USED;
use crate::{
    attributes,
    callbacks::Owner,
    comm::{element, within},
    constants::{
        MPI_ANY_SOURCE, MPI_APPNUM, MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID, MPI_LASTUSEDCODE,
        MPI_PROC_NULL, MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WTIME_IS_GLOBAL,
    },
    errhandler::Object,
    error::Error,
    program::{plainly, put},
    spawning,
    types::{CopyAttrFunction, DeleteAttrFunction, Handle},
};

/// `MPI_Comm_create_keyval`.
pub unsafe fn comm_create_keyval(
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    key: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a place for the key.
    plainly("MPI_Comm_create_keyval", || unsafe {
        put(key, attributes::create_key(Owner::Comm, copy, delete, extra))
    })
}

/// `MPI_Comm_free_keyval`.
pub unsafe fn comm_free_keyval(key: *mut c_int) -> c_int {
    // SAFETY: the program gives the address of a key.
    plainly("MPI_Comm_free_keyval", || unsafe { free(Owner::Comm, key) })
}

/// Frees the key at an address of the program.
///
/// # Safety
/// The address is null, or that of a key.
pub(super) unsafe fn free(owner: Owner, key: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe {
        attributes::free_key(owner, element(key)?)?;
        put(key, MPI_KEYVAL_INVALID)
    }
}

/// Writes the value of an attribute where the program wants it, and whether there is one.
///
/// # Safety
/// The addresses are null, or can be written to.
pub(super) unsafe fn put_found(
    found: Option<*mut c_void>,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe {
        put(flag, found.is_some().into())?;
        match found {
            Some(found) => put(value.cast::<*mut c_void>(), found),
            None => Ok(()),
        }
    }
}

/// `MPI_Comm_set_attr`.
pub unsafe fn comm_set_attr(comm: Handle, key: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the program gives a valid handle, and a key for communicators.
    unsafe {
        within(comm, "MPI_Comm_set_attr", |comm| comm.attributes.set(comm.handle(), key, value))
    }
}

/// `MPI_Comm_delete_attr`.
pub unsafe fn comm_delete_attr(comm: Handle, key: c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a key for communicators.
    unsafe {
        within(comm, "MPI_Comm_delete_attr", |comm| comm.attributes.delete(comm.handle(), key))
    }
}

/// `MPI_Comm_get_attr`.
pub unsafe fn comm_get_attr(
    comm: Handle,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(comm, "MPI_Comm_get_attr", |comm| {
            let found = match predefined(key) {
                Some(found) => Some(found),
                None => comm.attributes.get(key)?,
            };
            put_found(found, value, flag)
        })
    }
}

/// Returns the address of the value of a predefined key, which stays where it is.
fn predefined(key: c_int) -> Option<*mut c_void> {
    let value: &'static c_int = match key {
        MPI_TAG_UB => &c_int::MAX,
        MPI_IO => &MPI_ANY_SOURCE,
        MPI_HOST => &MPI_PROC_NULL,
        // The clock is that of the machine, for all ranks.
        MPI_WTIME_IS_GLOBAL => &1,
        MPI_APPNUM => return Some(spawning::APPNUM.as_ptr().cast()),
        MPI_UNIVERSE_SIZE => return Some(spawning::UNIVERSE_SIZE.as_ptr().cast()),
        MPI_LASTUSEDCODE => return Some(LAST_USED.as_ptr().cast()),
        _ => return None,
    };
    Some((&raw const *value).cast_mut().cast())
}
