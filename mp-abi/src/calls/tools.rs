//! The beginning and the end of tools, and names of numbers.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_char, c_int};

use crate::{
    state,
    tools::{self, answer, enums::Enum, give, give_text, put},
    types::Handle,
};

/// `MPI_T_init_thread`. Tools may call from any thread at any time, but what belongs to the rank is accessible only where
/// MPI may be called.
pub unsafe fn t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    tools::begin();
    // SAFETY: the tool gives a place for the number, or does not want it.
    unsafe { give(provided, state::level_for(required)) };
    answer(|| Ok(()))
}

/// `MPI_T_finalize`.
pub unsafe fn t_finalize() -> c_int {
    answer(tools::end)
}

/// `MPI_T_enum_get_info`.
pub unsafe fn t_enum_get_info(
    enumeration: Handle,
    count: *mut c_int,
    name: *mut c_char,
    name_length: *mut c_int,
) -> c_int {
    answer(|| {
        let found = Enum::look(enumeration)?;
        // SAFETY: the tool gives places for what it wants.
        unsafe {
            give(count, found.items.len() as c_int);
            give_text(name, name_length, found.name);
        }
        Ok(())
    })
}

/// `MPI_T_enum_get_item`.
pub unsafe fn t_enum_get_item(
    enumeration: Handle,
    index: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_length: *mut c_int,
) -> c_int {
    answer(|| {
        let (number, of_number) = *tools::at(Enum::look(enumeration)?.items, index)?;
        // SAFETY: the tool gives places for what it wants.
        unsafe {
            put(value, number)?;
            give_text(name, name_length, of_number);
        }
        Ok(())
    })
}
