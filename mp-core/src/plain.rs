//! Data that means the same to every rank.

use std::ptr::{NonNull, slice_from_raw_parts_mut};

use bytemuck::{AnyBitPattern, NoUninit};
use serde::{Serialize, de::DeserializeOwned};

/// A type whose values are plain data: no pointers, no padding, every bit pattern valid.
///
/// Implemented for every type that is [`NoUninit`], [`AnyBitPattern`], `Send` and `Sync`. For your own types, derive
/// [`Pod`](bytemuck::Pod) and [`Zeroable`](bytemuck::Zeroable), which include the first two. Such values can cross from
/// one thread or process to another as they are. `String`, `Vec`, `Box`, references, `bool`, `char` and most enums are
/// not plain.
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
///
/// `cannot transmute between types of different sizes` at `Pod` means that the fields leave a gap: fill it with a field
/// such as `_gap: [u8; 7]`, so that each field begins at a multiple of its alignment.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data, so it can't be sent to another rank",
    label = "not plain data: derive `onchip::Pod` and `onchip::Zeroable`, or send a slice",
    note = "for a type of your own whose fields are plain data, write \
            `#[repr(C)] #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)] #[bytemuck(crate = \"onchip::bytemuck\")]`",
    note = "for `String` and `Vec`, send a slice, as in `text.as_bytes()`; for `Box` and references, send what they \
            point to"
)]
pub trait Plain: NoUninit + AnyBitPattern + Send + Sync {}

// With this attribute, errors name this trait and not the traits of which it is made.
#[diagnostic::do_not_recommend]
impl<T: NoUninit + AnyBitPattern + Send + Sync> Plain for T {}

/// A type that a channel can carry: a [`Plain`] value, or a slice of them.
///
/// The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data, so a channel can't carry it",
    label = "not plain data: derive `onchip::Pod` and `onchip::Zeroable`, or send a slice",
    note = "for a type of your own whose fields are plain data, write \
            `#[repr(C)] #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)] #[bytemuck(crate = \"onchip::bytemuck\")]`",
    note = "for `String` and `Vec`, open the channel for slices, as in `sender::<[u8]>`, and send `text.as_bytes()`; \
            for `Box` and references, send what they point to"
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

/// A type whose values can be carried from one process to another: the result of a rank, and the value that is handed
/// to all ranks. See [`World::run`](crate::World::run).
///
/// Implemented for every type that `serde` can serialize and deserialize: numbers, text, collections, and your own
/// types that derive both.
///
/// ```
/// use onchip::prelude::*;
///
/// #[derive(onchip::serde::Serialize, onchip::serde::Deserialize)]
/// #[serde(crate = "onchip::serde")]
/// struct Found {
///     primes: Vec<u32>,
/// }
///
/// let found = World::threads(2).run(|_| Ok(Found { primes: vec![2, 3] }))?;
/// assert_eq!(found[1].primes, [2, 3]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be carried from one process to another",
    label = "derive `onchip::serde::Serialize` and `onchip::serde::Deserialize` for `{Self}`",
    note = "for a type of your own, write \
            `#[derive(onchip::serde::Serialize, onchip::serde::Deserialize)] #[serde(crate = \"onchip::serde\")]`",
    note = "`World::run_threads` needs neither: its ranks are threads"
)]
pub trait Transferable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Transferable for T {}

mod sealed {
    pub trait Sealed {}

    impl<T: super::Plain> Sealed for T {}

    impl<T: super::Plain> Sealed for [T] {}
}
