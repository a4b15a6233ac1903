//! Memory of a receive that stays where it is.

use std::ptr::NonNull;

/// Bytes into which a message can be received by any call, because they stay where they are until the request is gone.
/// Whoever keeps this drops it when the receive is done or its request is dropped.
#[derive(Debug)]
pub struct FixedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value is the only reference to bytes that may be used from any thread: see `new`.
unsafe impl Send for FixedBytes {}

impl FixedBytes {
    /// # Safety
    /// Until the value is dropped, the bytes are valid for reads and writes, and nothing else uses them while they are
    /// [borrowed](Self::first).
    pub(super) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Returns the first bytes, if there are as many.
    pub fn first(&mut self, bytes: usize) -> Option<&mut [u8]> {
        // SAFETY: they are valid for writes, and nothing else uses them, as `new` demands.
        let all = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) };
        all.get_mut(..bytes)
    }
}
