//! Events of tools, and the sources of their times. There is a source, which is the clock of `MPI_Wtime`, and there are
//! no types of events: so no index of one is valid, and no handle.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_char, c_int, c_void};

use crate::{
    calls::environment,
    constants::MPI_T_SOURCE_ORDERED,
    error::Class,
    info::Info,
    tools::{answer, give, give_text, put},
    types::{Aint, Count, EventFunction, Handle},
};

/// Returns an error for a source that is not the clock.
fn check_source(index: c_int) -> Result<(), Class> {
    match index {
        0 => Ok(()),
        _ => Err(Class::ToolIndex),
    }
}

/// `MPI_T_source_get_num`.
pub unsafe fn t_source_get_num(count: *mut c_int) -> c_int {
    // SAFETY: the tool gives a place for the number.
    answer(|| unsafe { put(count, 1) })
}

/// `MPI_T_source_get_info`.
pub unsafe fn t_source_get_info(
    index: c_int,
    name: *mut c_char,
    name_length: *mut c_int,
    description: *mut c_char,
    description_length: *mut c_int,
    ordering: *mut c_int,
    ticks_per_second: *mut Count,
    max_ticks: *mut Count,
    info: *mut Handle,
) -> c_int {
    answer(|| {
        check_source(index)?;
        // SAFETY: the tool gives places for what it wants.
        unsafe {
            give_text(name, name_length, "clock");
            give_text(
                description,
                description_length,
                "The clock of MPI_Wtime, which is the same for all ranks",
            );
            give(ordering, MPI_T_SOURCE_ORDERED);
            give(ticks_per_second, 1_000_000_000);
            give(max_ticks, Count::MAX);
            if !info.is_null() {
                info.write(Info::default().into_handle());
            }
        }
        Ok(())
    })
}

/// `MPI_T_source_get_timestamp`.
pub unsafe fn t_source_get_timestamp(index: c_int, timestamp: *mut Count) -> c_int {
    answer(|| {
        check_source(index)?;
        // SAFETY: the tool gives a place for the number.
        unsafe { put(timestamp, environment::nanoseconds()) }
    })
}

/// `MPI_T_event_get_num`.
pub unsafe fn t_event_get_num(count: *mut c_int) -> c_int {
    // SAFETY: the tool gives a place for the number.
    answer(|| unsafe { put(count, 0) })
}

/// `MPI_T_event_get_info`.
pub unsafe fn t_event_get_info(
    _index: c_int,
    _name: *mut c_char,
    _name_length: *mut c_int,
    _verbosity: *mut c_int,
    _datatypes: *mut Handle,
    _displacements: *mut Aint,
    _count: *mut c_int,
    _enumeration: *mut Handle,
    _info: *mut Handle,
    _description: *mut c_char,
    _description_length: *mut c_int,
    _bind: *mut c_int,
) -> c_int {
    answer(|| Err(Class::ToolIndex))
}

/// `MPI_T_event_get_index`.
pub unsafe fn t_event_get_index(_name: *const c_char, _index: *mut c_int) -> c_int {
    answer(|| Err(Class::ToolName))
}

/// `MPI_T_event_handle_alloc`.
pub unsafe fn t_event_handle_alloc(
    _index: c_int,
    _object: *mut c_void,
    _info: Handle,
    _registration: *mut Handle,
) -> c_int {
    answer(|| Err(Class::ToolIndex))
}

/// `MPI_T_event_handle_set_info`.
pub unsafe fn t_event_handle_set_info(_registration: Handle, _info: Handle) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_handle_get_info`.
pub unsafe fn t_event_handle_get_info(_registration: Handle, _info: *mut Handle) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_handle_free`.
pub unsafe fn t_event_handle_free(
    _registration: Handle,
    _user_data: *mut c_void,
    _freed: Option<EventFunction>,
) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_register_callback`.
pub unsafe fn t_event_register_callback(
    _registration: Handle,
    _safety: c_int,
    _info: Handle,
    _user_data: *mut c_void,
    _function: Option<EventFunction>,
) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_callback_set_info`.
pub unsafe fn t_event_callback_set_info(
    _registration: Handle,
    _safety: c_int,
    _info: Handle,
) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_callback_get_info`.
pub unsafe fn t_event_callback_get_info(
    _registration: Handle,
    _safety: c_int,
    _info: *mut Handle,
) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_set_dropped_handler`.
pub unsafe fn t_event_set_dropped_handler(
    _registration: Handle,
    _dropped: Option<EventFunction>,
) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_read`.
pub unsafe fn t_event_read(_event: Handle, _element: c_int, _to: *mut c_void) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_copy`.
pub unsafe fn t_event_copy(_event: Handle, _to: *mut c_void) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_get_timestamp`.
pub unsafe fn t_event_get_timestamp(_event: Handle, _timestamp: *mut Count) -> c_int {
    answer(|| Err(Class::ToolHandle))
}

/// `MPI_T_event_get_source`.
pub unsafe fn t_event_get_source(_event: Handle, _source: *mut c_int) -> c_int {
    answer(|| Err(Class::ToolHandle))
}
