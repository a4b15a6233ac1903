//! Groups of ranks.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use crate::{
    comm::{array, element},
    constants::{MPI_GROUP_NULL, MPI_PROC_NULL},
    error::Error,
    group::Group,
    program::{plainly, put},
    types::Handle,
};

/// `MPI_Group_size`.
pub unsafe fn group_size(group: Handle, size: *mut c_int) -> c_int {
    plainly("MPI_Group_size", || {
        // SAFETY: the program gives a group, and a place for the answer.
        unsafe { put(size, Group::look(group)?.ranks.len() as c_int) }
    })
}

/// `MPI_Group_rank`.
pub unsafe fn group_rank(group: Handle, rank: *mut c_int) -> c_int {
    plainly("MPI_Group_rank", || {
        // SAFETY: the program gives a group, and a place for the answer.
        unsafe { put(rank, Group::look(group)?.rank()) }
    })
}

/// `MPI_Group_translate_ranks`.
pub unsafe fn group_translate_ranks(
    group: Handle,
    count: c_int,
    ranks: *const c_int,
    other: Handle,
    places: *mut c_int,
) -> c_int {
    plainly("MPI_Group_translate_ranks", || {
        // SAFETY: the program gives two groups, and two arrays of this length.
        unsafe {
            let (group, other) = (Group::look(group)?, Group::look(other)?);
            for (index, &rank) in array(ranks, count)?.iter().enumerate() {
                let place = match rank {
                    MPI_PROC_NULL => MPI_PROC_NULL,
                    _ => other.place(group.world(rank)?),
                };
                put(places.add(index), place)?;
            }
        }
        Ok(())
    })
}

/// `MPI_Group_compare`.
pub unsafe fn group_compare(one: Handle, other: Handle, result: *mut c_int) -> c_int {
    plainly("MPI_Group_compare", || {
        // SAFETY: the program gives two groups, and a place for the answer.
        unsafe { put(result, Group::look(one)?.compare(Group::look(other)?)) }
    })
}

/// Makes a group of two.
///
/// # Safety
/// The handles are groups', and the address can be written to.
unsafe fn of_two(
    (one, other): (Handle, Handle),
    to: *mut Handle,
    function: &'static str,
    make: impl FnOnce(&Group, &Group) -> Group,
) -> c_int {
    plainly(function, || {
        // SAFETY: the caller says so.
        unsafe { put(to, make(Group::look(one)?, Group::look(other)?).into_handle()) }
    })
}

/// `MPI_Group_union`.
pub unsafe fn group_union(one: Handle, other: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives two groups, and a place for the result.
    unsafe { of_two((one, other), to, "MPI_Group_union", Group::union) }
}

/// `MPI_Group_intersection`.
pub unsafe fn group_intersection(one: Handle, other: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives two groups, and a place for the result.
    unsafe { of_two((one, other), to, "MPI_Group_intersection", Group::intersection) }
}

/// `MPI_Group_difference`.
pub unsafe fn group_difference(one: Handle, other: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives two groups, and a place for the result.
    unsafe { of_two((one, other), to, "MPI_Group_difference", Group::difference) }
}

/// Makes a group of some ranks of another.
///
/// # Safety
/// The handle is a group's, the array has as many elements, and the last address can be written to.
unsafe fn of_some<T>(
    group: Handle,
    (items, count): (*const T, c_int),
    to: *mut Handle,
    function: &'static str,
    make: impl FnOnce(&Group, &[T]) -> Result<Group, Error>,
) -> c_int {
    plainly(function, || {
        // SAFETY: the caller says so.
        unsafe { put(to, make(Group::look(group)?, array(items, count)?)?.into_handle()) }
    })
}

/// `MPI_Group_incl`.
pub unsafe fn group_incl(
    group: Handle,
    count: c_int,
    ranks: *const c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a group, an array of this length, and a place for the result.
    unsafe {
        of_some(group, (ranks, count), to, "MPI_Group_incl", |group, ranks| {
            group.including(ranks.iter().copied())
        })
    }
}

/// `MPI_Group_excl`.
pub unsafe fn group_excl(
    group: Handle,
    count: c_int,
    ranks: *const c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a group, an array of this length, and a place for the result.
    unsafe {
        of_some(group, (ranks, count), to, "MPI_Group_excl", |group, ranks| {
            group.excluding(ranks.iter().copied())
        })
    }
}

/// `MPI_Group_range_incl`.
pub unsafe fn group_range_incl(
    group: Handle,
    count: c_int,
    ranges: *const [c_int; 3],
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a group, an array of this length, and a place for the result.
    unsafe {
        of_some(group, (ranges, count), to, "MPI_Group_range_incl", |group, ranges| {
            group.including(Group::in_ranges(ranges)?)
        })
    }
}

/// `MPI_Group_range_excl`.
pub unsafe fn group_range_excl(
    group: Handle,
    count: c_int,
    ranges: *const [c_int; 3],
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a group, an array of this length, and a place for the result.
    unsafe {
        of_some(group, (ranges, count), to, "MPI_Group_range_excl", |group, ranges| {
            group.excluding(Group::in_ranges(ranges)?)
        })
    }
}

/// `MPI_Group_free`.
pub unsafe fn group_free(group: *mut Handle) -> c_int {
    plainly("MPI_Group_free", || {
        // SAFETY: the program gives the address of a group's handle, and does not use that any more.
        unsafe {
            Group::release(element(group)?)?;
            put(group, MPI_GROUP_NULL)
        }
    })
}
