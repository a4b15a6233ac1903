//! Places in a segment, as distances from its start.

use std::{fmt, marker::PhantomData};

/// The place of a `T` in a segment. Two processes map a segment at different addresses, so only a distance is
/// meaningful to both. The type distinguishes places of different structures.
pub(crate) struct Offset<T> {
    bytes: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Offset<T> {
    pub(crate) const fn new(bytes: u64) -> Self {
        Self { bytes, of: PhantomData }
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.bytes
    }
}

impl<T> Clone for Offset<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Offset<T> {}

impl<T> PartialEq for Offset<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Offset<T> {}

impl<T> fmt::Debug for Offset<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:#x}", std::any::type_name::<T>(), self.bytes)
    }
}
