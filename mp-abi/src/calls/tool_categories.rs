//! Groups of the variables of tools.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_char, c_int};

use crate::tools::{
    self, answer,
    categories::{CATEGORIES, Category},
    give, give_numbers, give_text, put,
};

/// `MPI_T_category_get_num`.
pub unsafe fn t_category_get_num(count: *mut c_int) -> c_int {
    // SAFETY: the tool gives a place for the number.
    answer(|| unsafe { put(count, CATEGORIES.len() as c_int) })
}

/// `MPI_T_category_get_info`.
pub unsafe fn t_category_get_info(
    index: c_int,
    name: *mut c_char,
    name_length: *mut c_int,
    description: *mut c_char,
    description_length: *mut c_int,
    controls: *mut c_int,
    variables: *mut c_int,
    categories: *mut c_int,
) -> c_int {
    answer(|| {
        let category = tools::at(CATEGORIES, index)?;
        // SAFETY: the tool gives places for what it wants.
        unsafe {
            give_text(name, name_length, category.name);
            give_text(description, description_length, category.description);
            give(controls, category.controls().len() as c_int);
            give(variables, category.variables().len() as c_int);
            give(categories, category.categories().len() as c_int);
        }
        Ok(())
    })
}

/// `MPI_T_category_get_num_events`. There are no types of events.
pub unsafe fn t_category_get_num_events(index: c_int, count: *mut c_int) -> c_int {
    answer(|| {
        tools::at(CATEGORIES, index)?;
        // SAFETY: the tool gives a place for the number.
        unsafe { put(count, 0) }
    })
}

/// `MPI_T_category_get_index`.
pub unsafe fn t_category_get_index(name: *const c_char, index: *mut c_int) -> c_int {
    // SAFETY: the tool gives a text, and a place for the number.
    answer(|| unsafe { put(index, tools::find(CATEGORIES.iter().map(|one| one.name), name)?) })
}

/// Writes what is in a category.
///
/// # Safety
/// There is room for this many numbers.
unsafe fn give_members(
    index: c_int,
    room: c_int,
    indices: *mut c_int,
    members: impl FnOnce(&Category) -> Vec<c_int>,
) -> c_int {
    answer(|| {
        let members = members(tools::at(CATEGORIES, index)?);
        // SAFETY: the caller says so.
        unsafe { give_numbers(indices, room, &members) }
    })
}

/// `MPI_T_category_get_cvars`.
pub unsafe fn t_category_get_cvars(index: c_int, room: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the tool gives room for as many numbers as it says.
    unsafe { give_members(index, room, indices, Category::controls) }
}

/// `MPI_T_category_get_pvars`.
pub unsafe fn t_category_get_pvars(index: c_int, room: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the tool gives room for as many numbers as it says.
    unsafe { give_members(index, room, indices, Category::variables) }
}

/// `MPI_T_category_get_events`.
pub unsafe fn t_category_get_events(index: c_int, room: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the tool gives room for as many numbers as it says.
    unsafe { give_members(index, room, indices, |_| Vec::new()) }
}

/// `MPI_T_category_get_categories`.
pub unsafe fn t_category_get_categories(index: c_int, room: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the tool gives room for as many numbers as it says.
    unsafe { give_members(index, room, indices, Category::categories) }
}

/// `MPI_T_category_changed`. The categories are always the same, and so is the number.
pub unsafe fn t_category_changed(stamp: *mut c_int) -> c_int {
    // SAFETY: the tool gives a place for the number.
    answer(|| unsafe { put(stamp, 0) })
}
