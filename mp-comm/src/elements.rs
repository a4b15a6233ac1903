//! What messages are made of: element types and how both sides compare theirs, and the buffers
//! that calls take.

use std::{
    any::{Any, TypeId, type_name},
    fmt,
};

use bytemuck::{cast_slice, cast_slice_mut};
use mp_core::{Plain, SharedBuffer};

use crate::error::{Error, Result};

/// One side's view of a message's elements: what [`Error::OtherElements`] shows of both.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ElementType {
    /// The type's name, as far as 104 bytes go.
    pub name: String,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, alignment {})", self.name, self.size, self.align)
    }
}

/// Bytes of a type's name that are kept.
const NAME: usize = 104;

impl ElementType {
    pub(crate) fn of<T: Plain>() -> Self {
        let whole = type_name::<T>();
        let cut = (0..=NAME).rev().find(|&end| whole.is_char_boundary(end)).unwrap_or(0);
        Self { name: whole[..cut].to_owned(), size: size_of::<T>(), align: align_of::<T>() }
    }

    /// For a type that was never announced, which only a broken sender can do.
    pub(crate) fn unknown() -> Self {
        Self { name: "an unknown type".to_owned(), size: 0, align: 0 }
    }

    /// A number for the type that is the same in every process, and for different types is
    /// different but for one pair in four billion. (FNV-1a, folded.)
    pub(crate) fn fingerprint(&self) -> u32 {
        let sizes = [self.size as u64, self.align as u64];
        let bytes = self.name.bytes().chain(sizes.into_iter().flat_map(u64::to_le_bytes));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// The fingerprints of the types in use. To hash a name for every message would take longer than
/// the message.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    last: Option<(TypeId, u32)>,
    all: Vec<(TypeId, u32)>,
}

impl Fingerprints {
    #[inline(always)]
    pub(crate) fn of<T: Plain>(&mut self) -> u32 {
        match self.last {
            Some((id, fingerprint)) if id == TypeId::of::<T>() => fingerprint,
            _ => self.look_up::<T>(),
        }
    }

    #[cold]
    fn look_up<T: Plain>(&mut self) -> u32 {
        let id = TypeId::of::<T>();
        let entry = match self.all.iter().find(|(known, _)| *known == id) {
            Some(entry) => *entry,
            None => {
                let entry = (id, ElementType::of::<T>().fingerprint());
                self.all.push(entry);
                entry
            }
        };
        self.last = Some(entry);
        entry.1
    }
}

/// What can be sent by an immediate or persistent call: elements that it owns, or that live for
/// ever.
///
/// The trait is sealed: for `Vec<T>`, `Box<[T]>`, `[T; N]`, [`SharedBuffer<T>`] and slices.
pub trait Buffer: sealed::Sealed {
    /// The type of the elements.
    type Element: Plain;

    /// The elements.
    fn elements(&self) -> &[Self::Element];
}

/// What can be received into: as [`Buffer`], and slices that are borrowed mutably.
pub trait BufferMut: Buffer {
    /// The elements.
    fn elements_mut(&mut self) -> &mut [Self::Element];
}

mod sealed {
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

/// A buffer that the engine keeps while its content is under way.
pub(crate) trait Payload: Any {
    fn bytes(&self) -> &[u8];
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<B: Buffer + 'static> Payload for B {
    fn bytes(&self) -> &[u8] {
        cast_slice(self.elements())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Where a received message goes.
pub(crate) trait Landing {
    /// Makes room for a message of so many elements; checked before to fit.
    fn begin(&mut self, count: usize) -> Result<()>;

    /// The room made.
    fn bytes(&mut self) -> &mut [u8];

    /// Takes a moved buffer over, or gives it back to be copied.
    fn adopt(&mut self, buffer: SharedBuffer<u8>, _count: usize) -> Option<SharedBuffer<u8>> {
        Some(buffer)
    }
}

impl<B: BufferMut> Landing for B {
    fn begin(&mut self, _count: usize) -> Result<()> {
        Ok(())
    }

    fn bytes(&mut self) -> &mut [u8] {
        cast_slice_mut(self.elements_mut())
    }
}

/// A vector that becomes as long as the message.
pub(crate) struct Grown<T>(pub(crate) Vec<T>);

impl<T: Plain> Landing for Grown<T> {
    fn begin(&mut self, count: usize) -> Result<()> {
        self.0.clear();
        self.0.try_reserve_exact(count).map_err(mp_core::Error::other)?;
        self.0.resize(count, T::zeroed());
        Ok(())
    }

    fn bytes(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.0)
    }
}

/// A shared buffer: the one that was sent, or one made for the message.
pub(crate) struct Taken<'a, T: Plain> {
    pub(crate) rank: &'a mp_core::Rank,
    pub(crate) buffer: Option<SharedBuffer<T>>,
}

impl<T: Plain> Landing for Taken<'_, T> {
    fn begin(&mut self, count: usize) -> Result<()> {
        self.buffer = Some(self.rank.buffer(count)?);
        Ok(())
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |buffer| cast_slice_mut(buffer))
    }

    fn adopt(&mut self, buffer: SharedBuffer<u8>, count: usize) -> Option<SharedBuffer<u8>> {
        match buffer.recast(count) {
            Ok(buffer) => {
                self.buffer = Some(buffer);
                None
            }
            Err(buffer) => Some(buffer),
        }
    }
}

pub(crate) fn misuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Misuse(reason.into()))
}
