//! Memory in which tests lay out a ring by itself.

use std::ptr::NonNull;

/// Control words and slots, freed when dropped. No reference to them exists meanwhile.
pub(super) struct TestMemory<C> {
    pub(super) control: NonNull<C>,
    slots: NonNull<[u128]>,
}

impl<C> TestMemory<C> {
    pub(super) fn new(control: C, slots: usize) -> Self {
        let control = NonNull::from(Box::leak(Box::new(control)));
        Self { control, slots: NonNull::from(Box::leak(vec![0u128; slots].into_boxed_slice())) }
    }

    /// Returns the slots, of 16 bytes each.
    pub(super) fn slots(&self) -> NonNull<u8> {
        self.slots.cast()
    }
}

impl<C> Drop for TestMemory<C> {
    fn drop(&mut self) {
        // SAFETY: `new` made both pointers from boxes, and nothing uses the memory after this.
        unsafe {
            drop(Box::from_raw(self.control.as_ptr()));
            drop(Box::from_raw(self.slots.as_ptr()));
        }
    }
}
