//! Buffers for `MPI_Bsend`, which the library does not need: it keeps messages in memory of its own, so that a buffer is
//! always empty. But a message for which the buffer is too small is refused, as by other libraries.

use std::{cell::Cell, ffi::c_void};

use crate::{
    error::{Class, Error},
    program::put,
    state::{has_sessions, of_rank},
    types::Count,
};

of_rank! {
    /// The buffer of all communicators.
    static OF_ALL: Attached = Attached::new();
}

/// The number that stands for a buffer which the library makes as long as it has to be (`MPI_BUFFER_AUTOMATIC`).
const AUTOMATIC: usize = 2;

/// Calls a function with the buffer of all communicators.
pub(crate) fn of_all<T>(call: impl FnOnce(&Attached) -> T) -> T {
    OF_ALL.with(|attached| call(attached))
}

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

    /// Returns an error if a message has more bytes than the attached buffer. This is the communicator's buffer. If it has
    /// none, it is the buffer of all communicators. If that is not there either, the message is refused, unless there are
    /// sessions: one of them may have a buffer, and nothing says which session the communicator is from.
    pub fn check(&self, bytes: usize) -> Result<(), Error> {
        let attached = self.0.get().or_else(|| of_all(|all| all.0.get()));
        let refused = |what: String| Err(Error::new(Class::Buffer, what));
        match attached {
            Some((buffer, _)) if buffer.addr() == AUTOMATIC => Ok(()),
            Some((_, size)) if bytes as Count > size => {
                refused(format!("the message has {bytes} bytes, and the attached buffer {size}"))
            }
            None if bytes > 0 && !has_sessions() => {
                refused(format!("the message has {bytes} bytes, and no buffer is attached"))
            }
            _ => Ok(()),
        }
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
