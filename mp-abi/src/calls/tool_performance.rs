//! Performance variables of tools.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_char, c_int, c_void};

use crate::{
    constants::{MPI_T_BIND_NO_OBJECT, MPI_T_PVAR_HANDLE_NULL, MPI_T_PVAR_SESSION_NULL},
    error::Class,
    tools::{
        self, answer, enums::Enum, give, give_text, performance::VARIABLES, put, put_new, release,
        sessions,
    },
    types::Handle,
};

/// `MPI_T_pvar_get_num`.
pub unsafe fn t_pvar_get_num(count: *mut c_int) -> c_int {
    // SAFETY: the tool gives a place for the number.
    answer(|| unsafe { put(count, VARIABLES.len() as c_int) })
}

/// `MPI_T_pvar_get_info`.
pub unsafe fn t_pvar_get_info(
    index: c_int,
    name: *mut c_char,
    name_length: *mut c_int,
    verbosity: *mut c_int,
    class: *mut c_int,
    datatype: *mut Handle,
    enumeration: *mut Handle,
    description: *mut c_char,
    description_length: *mut c_int,
    bind: *mut c_int,
    is_read_only: *mut c_int,
    is_continuous: *mut c_int,
    is_atomic: *mut c_int,
) -> c_int {
    answer(|| {
        let variable = tools::at(VARIABLES, index)?;
        let is_counted = c_int::from(variable.quantity.is_counted());
        // SAFETY: the tool gives places for what it wants.
        unsafe {
            give_text(name, name_length, variable.name);
            give(verbosity, variable.verbosity);
            give(class, variable.class);
            give(datatype, variable.datatype);
            give(enumeration, Enum::handle(variable.enumeration));
            give_text(description, description_length, variable.description);
            give(bind, MPI_T_BIND_NO_OBJECT);
            give(is_read_only, 1 - is_counted);
            give(is_continuous, 1 - is_counted);
            give(is_atomic, is_counted);
        }
        Ok(())
    })
}

/// `MPI_T_pvar_get_index`.
pub unsafe fn t_pvar_get_index(name: *const c_char, class: c_int, index: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: the tool gives a text.
        let place = unsafe { tools::find(VARIABLES.iter().map(|one| one.name), name)? };
        if tools::at(VARIABLES, place)?.class != class {
            return Err(Class::ToolName);
        }
        // SAFETY: the tool gives a place for the number.
        unsafe { put(index, place) }
    })
}

/// `MPI_T_pvar_session_create`.
pub unsafe fn t_pvar_session_create(session: *mut Handle) -> c_int {
    // SAFETY: the tool gives a place for the handle.
    answer(|| unsafe { put_new(session, || Ok(sessions::begin())) })
}

/// `MPI_T_pvar_session_free`.
pub unsafe fn t_pvar_session_free(session: *mut Handle) -> c_int {
    // SAFETY: the tool gives the address of a handle.
    answer(|| unsafe { release(session, MPI_T_PVAR_SESSION_NULL, sessions::end) })
}

/// `MPI_T_pvar_handle_alloc`. No variable is bound to an object.
pub unsafe fn t_pvar_handle_alloc(
    session: Handle,
    index: c_int,
    _object: *mut c_void,
    handle: *mut Handle,
    count: *mut c_int,
) -> c_int {
    answer(|| {
        // SAFETY: the tool gives places for the results.
        unsafe {
            put_new(handle, || sessions::open(session, index))?;
            give(count, 1);
        }
        Ok(())
    })
}

/// `MPI_T_pvar_handle_free`.
pub unsafe fn t_pvar_handle_free(session: Handle, handle: *mut Handle) -> c_int {
    // SAFETY: the tool gives the address of a handle.
    answer(|| unsafe {
        release(handle, MPI_T_PVAR_HANDLE_NULL, |handle| sessions::close(session, handle))
    })
}

/// `MPI_T_pvar_start`.
pub unsafe fn t_pvar_start(session: Handle, handle: Handle) -> c_int {
    answer(|| sessions::start(session, handle))
}

/// `MPI_T_pvar_stop`.
pub unsafe fn t_pvar_stop(session: Handle, handle: Handle) -> c_int {
    answer(|| sessions::stop(session, handle))
}

/// `MPI_T_pvar_reset`.
pub unsafe fn t_pvar_reset(session: Handle, handle: Handle) -> c_int {
    answer(|| sessions::reset(session, handle))
}

/// `MPI_T_pvar_read`.
pub unsafe fn t_pvar_read(session: Handle, handle: Handle, to: *mut c_void) -> c_int {
    // SAFETY: the tool gives room for an element.
    answer(|| unsafe { sessions::read(session, handle, to) })
}

/// `MPI_T_pvar_readreset`.
pub unsafe fn t_pvar_readreset(session: Handle, handle: Handle, to: *mut c_void) -> c_int {
    // SAFETY: the tool gives room for an element.
    answer(|| unsafe { sessions::read_and_reset(session, handle, to) })
}

/// `MPI_T_pvar_write`.
pub unsafe fn t_pvar_write(session: Handle, handle: Handle, from: *const c_void) -> c_int {
    // SAFETY: the tool gives an element.
    answer(|| unsafe { sessions::write(session, handle, from) })
}
