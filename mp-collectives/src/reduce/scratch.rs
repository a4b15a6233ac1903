//! Room for elements of other ranks in transit.

use mp_core::Plain;

/// The greatest alignment, in bytes, of any element here.
pub(super) const ALIGNMENT: usize = align_of::<u128>();

/// Memory for elements of any type, kept from one reduction to the next.
#[derive(Debug, Default)]
pub(super) struct Scratch(Vec<u128>);

impl Scratch {
    /// Returns `count` elements of any value.
    #[inline]
    pub(super) fn elements<T: Plain>(&mut self, count: usize) -> &mut [T] {
        const { assert!(align_of::<T>() <= ALIGNMENT, "elements aligned to more than 16 bytes") };
        let bytes = count * size_of::<T>();
        let words = bytes.div_ceil(size_of::<u128>());
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0[..words]);
        bytemuck::cast_slice_mut(&mut all[..bytes])
    }
}
