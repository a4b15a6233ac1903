//! Types of all sizes and alignments, and values of them that can be told apart.

use bytemuck::{AnyBitPattern, NoUninit};
use mp_core::Plain;

use crate::support::Random;

#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C)]
pub struct Sample {
    pub at: u64,
    pub value: f32,
    pub channel: u16,
    pub flags: [u8; 2],
}

/// As much as fits into a line beside its header.
#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C)]
pub struct Bytes56(pub [u64; 7]);

/// One more.
#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C)]
pub struct Bytes57(pub [u8; 32], pub [u8; 25]);

#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C, align(16))]
pub struct Aligned16(pub [u64; 2]);

#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C, align(32))]
pub struct Aligned32(pub [u64; 4]);

#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C, align(64))]
pub struct Aligned64(pub [u64; 8]);

#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C, align(128))]
pub struct Aligned128(pub [u64; 16]);

#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C, align(256))]
pub struct Aligned256(pub [u64; 32]);

/// The value number `index`: random bytes, the same in every process.
pub fn pattern<T: Plain>(index: u64) -> T {
    let mut value = T::zeroed();
    let mut random = Random::new(index);
    bytemuck::bytes_of_mut(&mut value).fill_with(|| random.next() as u8);
    value
}

/// The slice number `index` of `len` elements.
pub fn pattern_slice<T: Plain>(index: u64, len: usize) -> Vec<T> {
    (0..len as u64).map(|i| pattern(index << 32 | i)).collect()
}

/// Whether two values have the same bytes.
pub fn same<T: Plain>(one: &[T], other: &[T]) -> bool {
    bytemuck::cast_slice::<T, u8>(one) == bytemuck::cast_slice::<T, u8>(other)
}
