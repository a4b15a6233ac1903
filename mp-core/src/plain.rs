//! Data that means the same to every rank.

use std::ptr::{NonNull, slice_from_raw_parts_mut};

use bytemuck::{AnyBitPattern, NoUninit};

/// A type whose values are plain data: no pointers, no padding, every bit pattern valid.
///
/// Implemented for every type that is [`NoUninit`], [`AnyBitPattern`], `Send` and `Sync`. For your own types, derive
/// the first two with `bytemuck`. Such values can cross from one thread or process to another as they are.
pub trait Plain: NoUninit + AnyBitPattern + Send + Sync {}

impl<T: NoUninit + AnyBitPattern + Send + Sync> Plain for T {}

/// A type that a channel can carry: a [`Plain`] value, or a slice of them.
///
/// The trait is sealed.
pub trait Message: sealed::Sealed + 'static {
    /// The type of the elements. For a single value, this is the value's own type.
    type Element: Plain;

    #[doc(hidden)]
    const SLICE: bool;

    #[doc(hidden)]
    fn elements(&self) -> &[Self::Element];

    /// Returns a pointer to a message of `len` elements (1 for a single value).
    #[doc(hidden)]
    fn at(first: NonNull<Self::Element>, len: usize) -> NonNull<Self>;
}

impl<T: Plain> Message for T {
    type Element = T;
    const SLICE: bool = false;

    fn elements(&self) -> &[T] {
        std::slice::from_ref(self)
    }

    fn at(first: NonNull<T>, _len: usize) -> NonNull<T> {
        first
    }
}

impl<T: Plain> Message for [T] {
    type Element = T;
    const SLICE: bool = true;

    fn elements(&self) -> &[T] {
        self
    }

    fn at(first: NonNull<T>, len: usize) -> NonNull<[T]> {
        // A slice pointer made from a non-null one is not null.
        NonNull::new(slice_from_raw_parts_mut(first.as_ptr(), len))
            .unwrap_or(NonNull::from(&mut []))
    }
}

mod sealed {
    pub trait Sealed {}

    impl<T: super::Plain> Sealed for T {}

    impl<T: super::Plain> Sealed for [T] {}
}
