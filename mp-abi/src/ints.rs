//! Arrays of counts or displacements, which have two forms in C.

use std::ffi::c_int;

use crate::types::{Aint, Count};

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
