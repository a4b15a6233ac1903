//! Buffers for `MPI_Bsend`, which the library does not need: it keeps messages in memory of its own, so that a buffer is
//! always empty.

use std::{cell::Cell, ffi::c_void};

use crate::{
    error::{Class, Error},
    program::put,
    types::Count,
};

/// The buffer that a program has attached, and its size.
#[derive(Debug, Default)]
pub(crate) struct Attached(Cell<Option<(*mut c_void, Count)>>);

impl Attached {
    pub const fn new() -> Self {
        Self(Cell::new(None))
    }

    pub fn attach(&self, buffer: *mut c_void, size: Count) -> Result<(), Error> {
        if size < 0 {
            return Err(Error::new(Class::Arg, format!("the size is negative: {size}")));
        }
        if self.0.get().is_some() {
            return Err(Error::new(Class::Buffer, "a buffer is attached already"));
        }
        self.0.set(Some((buffer, size)));
        Ok(())
    }

    /// Gives the buffer back to the program.
    ///
    /// # Safety
    /// The addresses are null, or places for an address and a size.
    pub unsafe fn detach(&self, buffer: *mut c_void, size: *mut Count) -> Result<(), Error> {
        let nothing = || Error::new(Class::Buffer, "no buffer is attached");
        let (attached, length) = self.0.get().ok_or_else(nothing)?;
        // SAFETY: the caller says so.
        unsafe {
            put(buffer.cast::<*mut c_void>(), attached)?;
            put(size, length)?;
        }
        self.0.set(None);
        Ok(())
    }
}
