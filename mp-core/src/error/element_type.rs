//! The types of messages' elements.

use std::{any::type_name, fmt};

use crate::Plain;

/// A description of the type of elements. Ranks compare their descriptions, and
/// [`WrongElements`](crate::ErrorKind::WrongElements) shows those of both ranks.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ElementType {
    /// The type's name, truncated to 104 bytes.
    pub name: String,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
}

/// The number of bytes that are kept of a type's name.
const NAME: usize = 104;

impl ElementType {
    /// Returns the description of a type.
    pub fn of<T: Plain>() -> Self {
        let whole = type_name::<T>();
        let cut = (0..=NAME).rev().find(|&end| whole.is_char_boundary(end)).unwrap_or(0);
        Self::new(&whole[..cut], size_of::<T>(), align_of::<T>())
    }

    /// Makes the description of a type that this program may not have.
    pub fn new(name: impl Into<String>, size: usize, align: usize) -> Self {
        Self { name: name.into(), size, align }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, alignment {})", self.name, self.size, self.align)
    }
}
