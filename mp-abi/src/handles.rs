//! Handles of the program that are not where and what the standard says.

use std::ffi::{c_int, c_void};

use crate::{
    error::{Class, Error},
    types::Handle,
};

/// A completed send or collective operation has this address as its request: all of them are one.
static SENT: u64 = 0;

/// Returns the request of all completed sends, and of other operations that have nothing to say and no error.
#[inline]
pub fn sent() -> Handle {
    (&raw const SENT).cast_mut().cast()
}

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

/// An array of the program for error codes, which may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    to: *mut c_int,
    show: fn(c_int) -> c_int,
}

impl Codes {
    /// Makes an array of an address that is null or has room for as many as the call says, and of what makes the
    /// program's codes of those of the standard.
    pub fn new(to: *mut c_int, show: fn(c_int) -> c_int) -> Self {
        Self { to, show }
    }

    /// Writes the same code into all of the first places.
    ///
    /// # Safety
    /// The array is missing, or has this length.
    pub unsafe fn fill(self, length: usize, code: c_int) {
        if !self.to.is_null() {
            for place in 0..length {
                // SAFETY: the caller says so.
                unsafe { self.to.add(place).write((self.show)(code)) };
            }
        }
    }
}

impl From<*mut c_int> for Codes {
    fn from(to: *mut c_int) -> Self {
        Self::new(to, |code| code)
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
