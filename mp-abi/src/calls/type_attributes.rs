//! Attributes of datatypes.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use super::attributes::{free, put_found};
use crate::{
    attributes::create_key,
    callbacks::Owner,
    datatype::look,
    program::{plainly, put},
    types::{CopyAttrFunction, DeleteAttrFunction, Handle},
};

/// `MPI_Type_create_keyval`.
pub unsafe fn type_create_keyval(
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    key: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a place for the key.
    plainly("MPI_Type_create_keyval", || unsafe {
        put(key, create_key(Owner::Datatype, copy, delete, extra))
    })
}

/// `MPI_Type_free_keyval`.
pub unsafe fn type_free_keyval(key: *mut c_int) -> c_int {
    // SAFETY: the program gives the address of a key.
    plainly("MPI_Type_free_keyval", || unsafe { free(Owner::Datatype, key) })
}

/// `MPI_Type_set_attr`.
pub unsafe fn type_set_attr(datatype: Handle, key: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the program gives a datatype, and a key for datatypes.
    plainly("MPI_Type_set_attr", || unsafe { look(datatype)?.attributes.set(datatype, key, value) })
}

/// `MPI_Type_delete_attr`.
pub unsafe fn type_delete_attr(datatype: Handle, key: c_int) -> c_int {
    // SAFETY: the program gives a datatype, and a key for datatypes.
    plainly("MPI_Type_delete_attr", || unsafe { look(datatype)?.attributes.delete(datatype, key) })
}

/// `MPI_Type_get_attr`.
pub unsafe fn type_get_attr(
    datatype: Handle,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a datatype, and places for the answers.
    plainly("MPI_Type_get_attr", || unsafe {
        put_found(look(datatype)?.attributes.get(key)?, value, flag)
    })
}
