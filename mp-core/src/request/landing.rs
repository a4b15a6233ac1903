//! Buffers that a request owns: non-blocking calls send from them and receive into them.

use bytemuck::cast_slice_mut;

use super::fixed::FixedBytes;
use crate::{SharedBuffer, error::Result, plain::Plain};

/// A buffer from which a non-blocking or persistent call can send. The request owns the elements, or they live forever.
///
/// The trait is sealed. `Vec<T>`, `Box<[T]>`, `[T; N]`, [`SharedBuffer<T>`] and slices implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a buffer of plain data that a request can hold",
    label = "give a `Vec`, an array, a `Box<[T]>`, a `SharedBuffer` or a slice: `&values[..]`, `&mut values[..]`",
    note = "the elements must be plain data: see `onchip::Plain`"
)]
pub trait Buffer: sealed::Sealed + Send {
    /// The type of the elements.
    type Element: Plain;

    /// Returns the elements.
    fn elements(&self) -> &[Self::Element];
}

/// A buffer into which a non-blocking or persistent call can receive: the same types as for [`Buffer`], but slices must
/// be borrowed mutably.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a buffer of plain data that can be received into",
    label = "give a `Vec`, an array, a `Box<[T]>`, a `SharedBuffer` or a slice: `&mut values[..]`",
    note = "the elements must be plain data: see `onchip::Plain`"
)]
pub trait BufferMut: Buffer {
    /// Returns the elements.
    fn elements_mut(&mut self) -> &mut [Self::Element];

    /// Returns how many elements a message may have; `None` if it may have any number.
    #[doc(hidden)]
    fn room(&self) -> Option<usize> {
        Some(self.elements().len())
    }

    /// Makes room for a message of `count` elements, which is allowed by [`room`](Self::room).
    #[doc(hidden)]
    fn make_room(&mut self, _count: usize) -> Result<()> {
        Ok(())
    }

    /// Returns the same memory, if it stays where it is however this value moves. Messages can then be written there
    /// also by calls that do not have this value.
    #[doc(hidden)]
    fn fixed(&self) -> Option<FixedBytes> {
        None
    }
}

pub(super) mod sealed {
    use super::{Plain, SharedBuffer};

    pub trait Sealed {}
    impl<T: Plain> Sealed for Vec<T> {}
    impl<T: Plain> Sealed for Box<[T]> {}
    impl<T: Plain, const N: usize> Sealed for [T; N] {}
    impl<T: Plain> Sealed for SharedBuffer<T> {}
    impl<T: Plain> Sealed for &mut [T] {}
    impl<T: Plain> Sealed for &[T] {}
}

macro_rules! buffers {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Buffer for $type {
            type Element = T;

            fn elements(&self) -> &[T] {
                self
            }
        }
    )*};
}

macro_rules! mutable_buffers {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        buffers! { [$($generics)*] $type; }

        impl<$($generics)*> BufferMut for $type {
            fn elements_mut(&mut self) -> &mut [T] {
                self
            }
        }
    )*};
}

buffers! {
    [T: Plain] &[T];
}

mutable_buffers! {
    [T: Plain] Vec<T>;
    [T: Plain] Box<[T]>;
    [T: Plain, const N: usize] [T; N];
    [T: Plain] SharedBuffer<T>;
    [T: Plain] &mut [T];
}

/// The place where a received message goes.
pub trait Landing {
    /// Makes room for a message of `count` elements. The caller has checked that the message fits.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn begin(&mut self, count: usize) -> Result<()>;

    /// Returns the room that was made.
    fn bytes(&mut self) -> &mut [u8];

    /// Takes over a moved buffer, or returns it to be copied.
    fn adopt(&mut self, buffer: SharedBuffer<u8>, _count: usize) -> Option<SharedBuffer<u8>> {
        Some(buffer)
    }
}

impl<B: BufferMut> Landing for B {
    fn begin(&mut self, count: usize) -> Result<()> {
        self.make_room(count)
    }

    fn bytes(&mut self) -> &mut [u8] {
        cast_slice_mut(self.elements_mut())
    }
}
