//! Counts and displacements, which have two forms in C: arrays of them, and results.

use std::{ffi::c_int, ptr::null_mut};

use crate::{
    constants::{MPI_SUCCESS, MPI_UNDEFINED},
    types::{Aint, Count},
};

/// An array of numbers of the program.
#[derive(Clone, Copy, Debug)]
pub enum Ints {
    /// An array of `int`.
    Small(*const c_int),
    /// An array of `MPI_Count` or of `MPI_Aint`.
    Large(*const Count),
}

impl Ints {
    /// Returns whether there is no array.
    pub fn is_null(self) -> bool {
        match self {
            Self::Small(first) => first.is_null(),
            Self::Large(first) => first.is_null(),
        }
    }

    /// Returns a number of the array.
    ///
    /// # Safety
    /// The array has this element.
    #[inline]
    pub unsafe fn get(self, place: usize) -> Count {
        // SAFETY: the caller says so.
        unsafe {
            match self {
                Self::Small(first) => (*first.add(place)).into(),
                Self::Large(first) => *first.add(place),
            }
        }
    }
}

impl From<*const c_int> for Ints {
    fn from(first: *const c_int) -> Self {
        Self::Small(first)
    }
}

impl From<*const Count> for Ints {
    fn from(first: *const Count) -> Self {
        Self::Large(first)
    }
}

impl From<*const Aint> for Ints {
    fn from(first: *const Aint) -> Self {
        const { assert!(size_of::<Aint>() == size_of::<Count>()) };
        Self::Large(first.cast())
    }
}

/// Returns a place for a result that the program wants as an `int` at an address, or null if it gives none.
pub fn wide(place: &mut Count, to: *mut c_int) -> *mut Count {
    if to.is_null() { null_mut() } else { place }
}

/// Returns a number of the program, or zero if it gives none.
///
/// # Safety
/// The address is null, or that of a number.
pub unsafe fn widened(from: *const c_int) -> Count {
    // SAFETY: the caller says so.
    unsafe { from.as_ref() }.map_or(0, |&number| number.into())
}

/// Gives the program the result of a call that returned this code: `MPI_UNDEFINED`, if an `int` can't be so large.
///
/// # Safety
/// The address is null, or can be written to.
pub unsafe fn narrow(code: c_int, number: Count, to: *mut c_int) {
    if code == MPI_SUCCESS && !to.is_null() {
        // SAFETY: the caller says so.
        unsafe { to.write(number.try_into().unwrap_or(MPI_UNDEFINED)) };
    }
}
