//! Data that means the same to every rank.

use std::ptr::{NonNull, slice_from_raw_parts_mut};

use bytemuck::{AnyBitPattern, NoUninit};

/// A type whose values are plain data: no pointers, no padding, every bit pattern valid.
///
/// Implemented for every type that is [`NoUninit`], [`AnyBitPattern`], `Send` and `Sync`. For your own types, derive
/// [`Pod`](bytemuck::Pod) and [`Zeroable`](bytemuck::Zeroable), which include the first two. Such values can cross from
/// one thread or process to another as they are.
///
/// ```
/// use onchip::prelude::*;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Debug, PartialEq, onchip::Pod, onchip::Zeroable)]
/// #[bytemuck(crate = "onchip::bytemuck")]
/// struct Point {
///     x: f64,
///     y: f64,
/// }
///
/// World::threads(2).run(|rank| {
///     let channel = Channel::degree(1);
///     if rank.id() == 0 {
///         rank.sender::<Point>("points", 1, channel)?.send(&Point { x: 1.0, y: 2.0 })?;
///     } else {
///         let point = *rank.receiver::<Point>("points", 0, channel)?.receive()?;
///         assert_eq!(point, Point { x: 1.0, y: 2.0 });
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data, so it can't be sent to another rank",
    label = "not plain data",
    note = "for a type of your own whose fields are plain data, write \
            `#[repr(C)] #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)] #[bytemuck(crate = \"onchip::bytemuck\")]`",
    note = "a `String` or `Vec` can't be sent as it is: send its elements as a slice, `sender::<[u8]>`"
)]
pub trait Plain: NoUninit + AnyBitPattern + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<T: NoUninit + AnyBitPattern + Send + Sync> Plain for T {}

/// A type that a channel can carry: a [`Plain`] value, or a slice of them.
///
/// The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data, so a channel can't carry it",
    label = "not plain data",
    note = "for a type of your own whose fields are plain data, write \
            `#[repr(C)] #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)] #[bytemuck(crate = \"onchip::bytemuck\")]`",
    note = "a `String` or `Vec` can't be sent as it is: send its elements as a slice, `sender::<[u8]>`"
)]
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

#[diagnostic::do_not_recommend]
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

#[diagnostic::do_not_recommend]
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
