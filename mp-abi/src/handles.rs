//! Handles of the program that are not where and what the standard says.

use std::ffi::{c_int, c_void};

use crate::{
    error::{Class, Error},
    types::Handle,
};

/// An array of handles of the program.
#[derive(Clone, Copy, Debug)]
pub enum Handles {
    /// An array of handles.
    Array(*const Handle),
    /// An array of numbers, and what makes handles of them.
    Numbers(*const c_int, fn(c_int) -> Handle),
}

impl Handles {
    /// Returns whether there is no array.
    pub fn is_null(self) -> bool {
        match self {
            Self::Array(first) => first.is_null(),
            Self::Numbers(first, _) => first.is_null(),
        }
    }

    /// Returns a handle of the array.
    ///
    /// # Safety
    /// The array has this element.
    pub unsafe fn get(self, place: usize) -> Handle {
        // SAFETY: the caller says so.
        unsafe {
            match self {
                Self::Array(first) => *first.add(place),
                Self::Numbers(first, handle) => handle(*first.add(place)),
            }
        }
    }
}

impl From<*const Handle> for Handles {
    fn from(first: *const Handle) -> Self {
        Self::Array(first)
    }
}

/// A place of the program for a handle that comes later.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    to: *mut c_void,
    put: unsafe fn(*mut c_void, Handle),
}

impl Place {
    /// Makes a place of an address that is null or that this function can write to.
    pub fn new(to: *mut c_void, put: unsafe fn(*mut c_void, Handle)) -> Self {
        Self { to, put }
    }

    /// Writes the handle.
    ///
    /// # Safety
    /// The place is still the program's.
    pub(crate) unsafe fn put(self, handle: Handle) -> Result<(), Error> {
        if self.to.is_null() {
            return Err(Error::new(Class::Arg, "the address of a result is a null pointer"));
        }
        // SAFETY: the caller says so, and the function is for this address.
        unsafe { (self.put)(self.to, handle) };
        Ok(())
    }
}

impl From<*mut Handle> for Place {
    fn from(to: *mut Handle) -> Self {
        // SAFETY: `put` says so of the address.
        Self::new(to.cast(), |to, handle| unsafe { to.cast::<Handle>().write(handle) })
    }
}
