//! What a completed operation has to say, and the status that a program gets.

use std::ffi::c_int;

use crate::{
    constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS},
    error::{Class, Error},
    types::Status,
};

/// What a completed operation has to say.
#[derive(Debug)]
pub(crate) struct Completed {
    pub source: c_int,
    pub tag: c_int,
    pub bytes: usize,
    pub cancelled: bool,
    pub error: Option<Error>,
}

impl Completed {
    /// The status of requests that are null or not started, and of sends.
    pub const EMPTY: Self =
        Self { source: MPI_ANY_SOURCE, tag: MPI_ANY_TAG, bytes: 0, cancelled: false, error: None };

    /// The status of a receive from `MPI_PROC_NULL`.
    pub const FROM_NOBODY: Self = Self { source: MPI_PROC_NULL, ..Self::EMPTY };

    pub fn failed(error: Error) -> Self {
        Self { error: Some(error), ..Self::EMPTY }
    }

    #[inline]
    pub fn of(status: mp_collectives::communicator::Status) -> Self {
        Self {
            source: status.source as c_int,
            tag: status.tag as c_int,
            bytes: status.bytes,
            ..Self::EMPTY
        }
    }

    /// The status of a message that came for this many bytes.
    #[inline]
    pub fn received(status: mp_collectives::communicator::Status, room: usize) -> Self {
        let mut completed = Self::of(status);
        if status.bytes > room {
            completed.error = Some(truncated(status.bytes, room));
            completed.bytes = room;
        }
        completed
    }

    /// Writes all but the error to a status of the program.
    ///
    /// # Safety
    /// The address is null, which is `MPI_STATUS_IGNORE`, or can be written to.
    #[inline]
    pub unsafe fn write(&self, to: *mut Status) {
        if to.is_null() {
            return;
        }
        // SAFETY: the caller says so.
        unsafe {
            (*to).source = self.source;
            (*to).tag = self.tag;
        }
        // SAFETY: as above.
        unsafe { set_bytes(to, self.bytes as u64) };
        // SAFETY: as above.
        unsafe { (*to).internal[2] = self.cancelled.into() };
    }

    /// Writes the empty status, which has no error.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    pub unsafe fn write_empty(to: *mut Status) {
        // SAFETY: the caller says so.
        unsafe {
            Self::EMPTY.write(to);
            if let Some(status) = to.as_mut() {
                status.error = MPI_SUCCESS;
            }
        }
    }

    /// Writes all but the error to a status of the program, and returns the error.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[inline]
    pub unsafe fn tell(self, to: *mut Status) -> Result<(), Error> {
        // SAFETY: the caller says so.
        unsafe { self.write(to) };
        self.error.map_or(Ok(()), Err)
    }
}

#[cold]
fn truncated(bytes: usize, room: usize) -> Error {
    let text = format!("a message of {bytes} bytes came for a buffer of {room}");
    Error::new(Class::Truncate, text)
}

/// Sets the length of the message in a status.
///
/// # Safety
/// The address can be written to.
pub(crate) unsafe fn set_bytes(to: *mut Status, bytes: u64) {
    // SAFETY: the caller says so.
    unsafe {
        (*to).internal[0] = bytes as u32 as c_int;
        (*to).internal[1] = (bytes >> 32) as c_int;
    }
}

impl Status {
    /// Makes a status from the length of a message and whether its request was cancelled.
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64, is_cancelled: bool) -> Self {
        let internal = [bytes as u32 as c_int, (bytes >> 32) as c_int, is_cancelled.into(), 0, 0];
        Self { source, tag, error, internal }
    }

    /// Returns the length of the message.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Returns whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }
}
