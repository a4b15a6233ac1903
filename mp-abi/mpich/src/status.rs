//! `MPI_Status` of MPICH's ABI.

use std::{ffi::c_int, ptr::null_mut};

use mp_abi::{trace, types::Status as Standard};

use crate::values::{error, rank, shown_error, shown_rank, shown_tag, tag};

/// `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// The lower half of the length in bytes.
    count_low: c_int,
    /// Whether the request was cancelled in the lowest bit, and the upper half of the length above it.
    count_high_and_cancelled: c_int,
    source: c_int,
    tag: c_int,
    error: c_int,
}

/// What a field has that was not written.
const NOTHING: c_int = c_int::MIN;

/// A status that nothing was written to.
pub const EMPTY: Standard =
    Standard { source: NOTHING, tag: NOTHING, error: NOTHING, internal: [0; 5] };

impl Status {
    /// Returns a status in the form of this ABI.
    pub fn of(status: &Standard) -> Self {
        let mut shown =
            Self { count_low: 0, count_high_and_cancelled: 0, source: 0, tag: 0, error: 0 };
        // SAFETY: the address is that of a status.
        unsafe { show(status, &mut shown) };
        shown
    }

    /// Returns the same in the form of the standard.
    pub fn told(&self) -> Standard {
        let high = self.count_high_and_cancelled;
        let bytes = u64::from(self.count_low as u32) | u64::from(high as u32 >> 1) << 32;
        let (source, tag) = (rank(self.source), tag(self.tag));
        Standard::new(source, tag, error(self.error), bytes, high & 1 != 0)
    }
}

impl trace::Told for Status {
    fn is_ignored(at: *mut Self) -> bool {
        unless_ignored(at).is_null()
    }

    fn told(&self) -> Standard {
        self.told()
    }
}

/// Gives the program what a call has written to a status.
///
/// # Safety
/// The address can be written to.
#[inline]
pub unsafe fn show(status: &Standard, to: *mut Status) {
    // SAFETY: the caller says so.
    unsafe {
        if status.source != NOTHING {
            let bytes = status.bytes();
            (*to).count_low = bytes as u32 as c_int;
            let high = (bytes >> 32) as u32;
            (*to).count_high_and_cancelled =
                (high << 1 | u32::from(status.is_cancelled())) as c_int;
            (*to).source = shown_rank(status.source);
            (*to).tag = shown_tag(status.tag);
        }
        if status.error != NOTHING {
            show_error(status.error, to);
        }
    }
}

/// Gives the program the error that a call has written to a status. Only calls for several requests write one.
///
/// # Safety
/// The address can be written to.
#[cold]
#[inline(never)]
unsafe fn show_error(error: c_int, to: *mut Status) {
    // SAFETY: the caller says so.
    unsafe { (*to).error = shown_error(error) };
}

/// Returns the address of a status, or null for `MPI_STATUS_IGNORE`, which is 1.
#[inline]
pub fn unless_ignored(status: *mut Status) -> *mut Status {
    if status.addr() == 1 { null_mut() } else { status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_twenty_bytes_and_comes_back() {
        assert_eq!((size_of::<Status>(), align_of::<Status>()), (20, 4));
        for (source, tag, bytes, cancelled) in [
            (0, 0, 0, false),
            (-1, -2, 5, true),
            (-3, -2, 1 << 40 | 7, false),
            (9, 8, 1 << 62, true),
        ] {
            let mut shown =
                Status { count_low: 1, count_high_and_cancelled: 1, source: 1, tag: 1, error: 77 };
            let status = Standard::new(source, tag, NOTHING, bytes, cancelled);
            // SAFETY: the address is that of a status.
            unsafe { show(&status, &mut shown) };
            let told = shown.told();
            assert_eq!((told.source, told.tag), (source, tag));
            assert_eq!((told.bytes(), told.is_cancelled()), (bytes, cancelled));
            assert_eq!(shown.error, 77);
        }
    }
}
