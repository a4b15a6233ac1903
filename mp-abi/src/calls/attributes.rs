//! Attributes of communicators.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use super::error_codes::LAST_USED;
use crate::{
    attributes,
    comm::within,
    constants::{
        MPI_ANY_SOURCE, MPI_APPNUM, MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID, MPI_LASTUSEDCODE,
        MPI_PROC_NULL, MPI_TAG_UB, MPI_WTIME_IS_GLOBAL,
    },
    errhandler::Object,
    error::{Class, Error},
    program::{plainly, put},
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
        put(key, attributes::create_key(copy, delete, extra))
    })
}

/// `MPI_Comm_free_keyval`.
pub unsafe fn comm_free_keyval(key: *mut c_int) -> c_int {
    plainly("MPI_Comm_free_keyval", || {
        // SAFETY: the program gives the address of a key.
        unsafe {
            attributes::free_key(key.as_ref().copied().unwrap_or(MPI_KEYVAL_INVALID))?;
            put(key, MPI_KEYVAL_INVALID)
        }
    })
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
            if key == MPI_KEYVAL_INVALID {
                return Err(Error::new(Class::Keyval, "the key of an attribute is invalid"));
            }
            let found = predefined(key).or_else(|| comm.attributes.get(key));
            put(flag, found.is_some().into())?;
            match found {
                Some(found) => put(value.cast::<*mut c_void>(), found),
                None => Ok(()),
            }
        })
    }
}

/// Returns the address of the value of a predefined key, which stays where it is. How many ranks there could be
/// (`MPI_UNIVERSE_SIZE`) is not known.
fn predefined(key: c_int) -> Option<*mut c_void> {
    let value: &'static c_int = match key {
        MPI_TAG_UB => &c_int::MAX,
        MPI_IO => &MPI_ANY_SOURCE,
        MPI_HOST => &MPI_PROC_NULL,
        // The clock is that of the machine, for all ranks.
        MPI_WTIME_IS_GLOBAL => &1,
        MPI_APPNUM => &0,
        MPI_LASTUSEDCODE => return Some(LAST_USED.as_ptr().cast()),
        _ => return None,
    };
    Some((&raw const *value).cast_mut().cast())
}
