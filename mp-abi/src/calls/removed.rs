//! Functions that MPI-3 has removed, and old programs call, as far as they differ from the present ones.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use super::datatypes::type_get_extent;
use crate::{
    constants::MPI_SUCCESS,
    program::{plainly, put},
    types::{Aint, Count, Handle},
};

/// Gives the program a number made of a type's lower bound and extent.
///
/// # Safety
/// The program gives a valid handle, and a place for the number.
unsafe fn of_extent(
    function: &str,
    datatype: Handle,
    to: *mut Aint,
    number: impl FnOnce(Count, Count) -> Count,
) -> c_int {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: the caller says so.
    unsafe {
        match type_get_extent(datatype, &mut lower, &mut extent) {
            MPI_SUCCESS => plainly(function, || put(to, number(lower, extent) as Aint)),
            code => code,
        }
    }
}

/// `MPI_Type_extent`.
pub unsafe fn type_extent(datatype: Handle, extent: *mut Aint) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the number.
    unsafe { of_extent("MPI_Type_extent", datatype, extent, |_, extent| extent) }
}

/// `MPI_Type_lb`.
pub unsafe fn type_lb(datatype: Handle, lower: *mut Aint) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the number.
    unsafe { of_extent("MPI_Type_lb", datatype, lower, |lower, _| lower) }
}

/// `MPI_Type_ub`.
pub unsafe fn type_ub(datatype: Handle, upper: *mut Aint) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the number.
    unsafe { of_extent("MPI_Type_ub", datatype, upper, |lower, extent| lower + extent) }
}
