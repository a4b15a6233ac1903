//! Control variables of tools.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_char, c_int, c_void};

use crate::{
    constants::MPI_T_CVAR_HANDLE_NULL,
    tools::{
        self, answer,
        control::{self, CONTROLS},
        enums::Enum,
        give, give_text, put, put_new, release,
    },
    types::Handle,
};

/// `MPI_T_cvar_get_num`.
pub unsafe fn t_cvar_get_num(count: *mut c_int) -> c_int {
    // SAFETY: the tool gives a place for the number.
    answer(|| unsafe { put(count, CONTROLS.len() as c_int) })
}

/// `MPI_T_cvar_get_info`.
pub unsafe fn t_cvar_get_info(
    index: c_int,
    name: *mut c_char,
    name_length: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut Handle,
    enumeration: *mut Handle,
    description: *mut c_char,
    description_length: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    answer(|| {
        let control = tools::at(CONTROLS, index)?;
        // SAFETY: the tool gives places for what it wants.
        unsafe {
            give_text(name, name_length, control.name);
            give(verbosity, control.verbosity);
            give(datatype, control.datatype);
            give(enumeration, Enum::handle(control.enumeration));
            give_text(description, description_length, control.description);
            give(bind, control.bind);
            give(scope, control.scope);
        }
        Ok(())
    })
}

/// `MPI_T_cvar_get_index`.
pub unsafe fn t_cvar_get_index(name: *const c_char, index: *mut c_int) -> c_int {
    // SAFETY: the tool gives a text, and a place for the number.
    answer(|| unsafe { put(index, tools::find(CONTROLS.iter().map(|one| one.name), name)?) })
}

/// `MPI_T_cvar_handle_alloc`.
pub unsafe fn t_cvar_handle_alloc(
    index: c_int,
    object: *mut c_void,
    handle: *mut Handle,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the tool gives the address of a handle of what the variable is bound to, and places for the results.
    answer(|| unsafe {
        put_new(handle, || {
            let (opened, elements) = control::open(index, object)?;
            give(count, elements);
            Ok(opened)
        })
    })
}

/// `MPI_T_cvar_handle_free`.
pub unsafe fn t_cvar_handle_free(handle: *mut Handle) -> c_int {
    // SAFETY: the tool gives the address of a handle.
    answer(|| unsafe { release(handle, MPI_T_CVAR_HANDLE_NULL, control::close) })
}

/// `MPI_T_cvar_read`.
pub unsafe fn t_cvar_read(handle: Handle, to: *mut c_void) -> c_int {
    // SAFETY: the tool gives room for as many elements as there are.
    answer(|| unsafe { control::read(handle, to) })
}

/// `MPI_T_cvar_write`.
pub unsafe fn t_cvar_write(handle: Handle, from: *const c_void) -> c_int {
    // SAFETY: the tool gives as many elements as there are.
    answer(|| unsafe { control::write(handle, from) })
}
