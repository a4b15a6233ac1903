//! Memory for which the caller of a request answers, as in C.

use std::ptr::NonNull;

use super::fixed::FixedBytes;
use super::landing::{Buffer, BufferMut, sealed::Sealed};
use crate::plain::Plain;

/// Elements at an address, as a buffer of a request. The request does not own them: who makes this value promises that
/// they stay there. This is for interfaces to languages whose buffers have no owner.
#[derive(Debug)]
pub struct RawBuffer<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the value is a reference to elements that may be used from any thread, and whoever made it has promised that
// nobody else uses them in a way that would be a race.
unsafe impl<T: Plain> Send for RawBuffer<T> {}

impl<T: Plain> RawBuffer<T> {
    /// Makes a buffer of the `len` elements at `start`, or an empty one if `start` is null.
    ///
    /// # Safety
    /// Until the value is dropped, and all [fixed bytes](BufferMut::fixed) of it, the elements are valid for reads, and
    /// nothing writes to them. If a message is received into the buffer, they are also valid for writes, and nothing
    /// else reads them. (A receive drops its fixed bytes before its request is gone.) `start` is aligned for `T`.
    pub unsafe fn new(start: *mut T, len: usize) -> Self {
        match NonNull::new(start) {
            Some(start) => Self { start, len },
            None => Self { start: NonNull::dangling(), len: 0 },
        }
    }
}

impl<T: Plain> Sealed for RawBuffer<T> {}

impl<T: Plain> Buffer for RawBuffer<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self.as_ref()
    }
}

impl<T: Plain> BufferMut for RawBuffer<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        self.as_mut()
    }

    fn fixed(&self) -> Option<FixedBytes> {
        // SAFETY: `new` demands this as long as either value exists, and only one call at a time receives into them.
        Some(unsafe { FixedBytes::new(self.start.cast(), self.len * size_of::<T>()) })
    }
}

impl<T: Plain> AsRef<[T]> for RawBuffer<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: the elements are valid for reads, and nothing writes to them, as `new` demands.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> AsMut<[T]> for RawBuffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: only a call that receives into the buffer asks for this. For such a call the elements are valid for
        // writes, and nothing else uses them, as `new` demands.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_buffer_is_the_memory_that_it_was_made_of() {
        let mut numbers = [1u32, 2, 3];
        // SAFETY: the numbers outlive the buffer, and nothing else uses them as long as it exists.
        let mut buffer = unsafe { RawBuffer::new(numbers.as_mut_ptr(), 3) };
        assert_eq!(buffer.elements(), [1, 2, 3]);
        buffer.elements_mut()[1] = 7;
        if let Some(mut same) = buffer.fixed() {
            same.first(9).unwrap()[8] = 9;
            assert!(same.first(13).is_none());
        }
        assert_eq!(numbers, [1, 7, 9]);
        // SAFETY: there are no elements.
        let mut none = unsafe { RawBuffer::<u64>::new(std::ptr::null_mut(), 5) };
        assert!(none.elements().is_empty() && none.elements_mut().is_empty());
    }
}
