//! Types of all sizes and alignments, and distinguishable values of them.

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

/// The largest type that fits into a line beside its header.
#[derive(Clone, Copy, NoUninit, AnyBitPattern)]
#[repr(C)]
pub struct Bytes56(pub [u64; 7]);

/// A type that has one byte more.
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

/// Returns the value number `index`: random bytes that are the same in every process.
pub fn pattern<T: Plain>(index: u64) -> T {
    let mut value = T::zeroed();
    let mut random = Random::new(index);
    bytemuck::bytes_of_mut(&mut value).fill_with(|| random.next() as u8);
    value
}

/// Returns the slice number `index`, of `len` elements.
pub fn pattern_slice<T: Plain>(index: u64, len: usize) -> Vec<T> {
    (0..len as u64).map(|i| pattern(index << 32 | i)).collect()
}

/// Returns whether two slices have the same bytes.
pub fn same<T: Plain>(one: &[T], other: &[T]) -> bool {
    bytemuck::cast_slice::<T, u8>(one) == bytemuck::cast_slice::<T, u8>(other)
}
