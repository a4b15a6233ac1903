//! Datatypes: what elements in the program's memory look like.
//!
//! | file | what is in it |
//! |---|---|
//! | `predefined.rs` | the types that MPI names |
//! | `constructors.rs`, `arrays.rs` | types that are made from others |
//! | `pieces.rs` | where the data of an element lies |
//! | `data.rs` | elements in the program's memory, and how they are packed and unpacked |
//! | `vector.rs` | memory for elements of any type |

pub(crate) mod arrays;
pub(crate) mod constructors;
pub(crate) mod data;
mod pieces;
mod predefined;
#[cfg(test)]
mod tests;
pub(crate) mod vector;

use std::{
    borrow::Cow,
    ffi::c_int,
    ops::Deref,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

pub(crate) use self::predefined::Kind;
use self::{pieces::Piece, predefined::predefined};
use crate::{
    error::{Class, Error},
    types::Handle,
};

/// `MPI_Datatype`.
#[derive(Debug)]
pub(crate) struct Datatype {
    /// The bytes of data in one element.
    pub size: i64,
    pub lower: i64,
    /// The distance from one element to the next.
    pub extent: i64,
    pub true_lower: i64,
    pub true_extent: i64,
    align: i64,
    /// Whether the lower and upper bound were set, so that they hold for all types made from this one.
    set_bounds: (bool, bool),
    /// The number of basic elements.
    pub elements: i64,
    /// What operations see in it, if it is predefined.
    pub kind: Kind,
    pub is_predefined: bool,
    pieces: Cow<'static, [Piece]>,
    pub made: Option<Made>,
    pub is_committed: AtomicBool,
    /// The name that the program or the standard has given.
    name: Mutex<Cow<'static, str>>,
}

/// How a type was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub combiner: c_int,
    /// The counts, and other numbers that are no addresses, in the standard's order.
    pub integers: Vec<i64>,
    pub addresses: Vec<i64>,
    pub types: Vec<TypeRef>,
}

impl Made {
    /// Returns the integers, and the large counts: one of them is empty.
    pub fn counts(&self) -> (&[i64], &[i64]) {
        match self.integers.iter().all(|&number| c_int::try_from(number).is_ok()) {
            true => (&self.integers, &[]),
            false => (&[], &self.integers),
        }
    }
}

impl Datatype {
    /// Returns whether elements lie one after the other without gaps.
    pub fn is_dense(&self) -> bool {
        self.size == self.extent && self.is_one_run()
    }

    fn is_one_run(&self) -> bool {
        match &*self.pieces {
            [] => true,
            [piece] => piece.count == 1,
            _ => false,
        }
    }

    pub fn upper(&self) -> i64 {
        self.lower + self.extent
    }

    /// Returns how many whole basic elements lie in the first `bytes` bytes of data.
    pub fn elements_in(&self, bytes: i64) -> i64 {
        let whole = bytes.checked_div(self.size).unwrap_or(0);
        let mut rest = bytes - whole * self.size;
        let mut elements = whole * self.elements;
        for (part, count) in self.parts() {
            if rest == 0 {
                break;
            }
            let fits = rest.checked_div(part.size).unwrap_or(count).min(count);
            elements += fits * part.elements;
            rest -= fits * part.size;
            if fits < count {
                return elements + part.elements_in(rest);
            }
        }
        elements
    }

    /// Returns whether the first `bytes` bytes of data end within a basic element.
    pub fn ends_within_element(&self, bytes: i64) -> bool {
        let mut rest = bytes.checked_rem(self.size).unwrap_or(bytes);
        for (part, count) in self.parts() {
            let fits = rest.checked_div(part.size).unwrap_or(count).min(count);
            rest -= fits * part.size;
            if fits < count {
                return part.ends_within_element(rest);
            }
        }
        rest > 0
    }

    /// Returns the number of bytes that this many basic elements have, from the first one on.
    pub fn bytes_of_elements(&self, count: i64) -> i64 {
        let whole = count.checked_div(self.elements).unwrap_or(0);
        let mut rest = count - whole * self.elements;
        let mut bytes = whole * self.size;
        for (part, count) in self.parts() {
            let fits = rest.checked_div(part.elements).unwrap_or(count).min(count);
            bytes += fits * part.size;
            rest -= fits * part.elements;
            if fits < count {
                return bytes + part.bytes_of_elements(rest);
            }
        }
        bytes
    }

    /// Returns the types of which an element consists, in the order of its data, with their numbers.
    fn parts(&self) -> impl Iterator<Item = (&Datatype, i64)> {
        let made = self.made.as_ref();
        let parts = made.map_or(&[][..], |made| &made.types);
        parts.iter().enumerate().map(move |(index, part)| {
            let count = match made {
                // The block lengths of a structure follow their number.
                Some(Made {
                    combiner: crate::constants::MPI_COMBINER_STRUCT, integers, ..
                }) => integers[index + 1],
                _ => self.size.checked_div(part.size).unwrap_or(0),
            };
            (&**part, count)
        })
    }

    pub fn name(&self) -> Cow<'static, str> {
        self.name.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn set_name(&self, name: String) {
        *self.name.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = name.into();
    }
}

/// A datatype that is kept.
#[derive(Clone, Debug)]
pub(crate) enum TypeRef {
    Predefined(&'static Datatype, usize),
    Made(Arc<Datatype>),
}

impl Deref for TypeRef {
    type Target = Datatype;

    fn deref(&self) -> &Datatype {
        match self {
            Self::Predefined(datatype, _) => datatype,
            Self::Made(datatype) => datatype,
        }
    }
}

impl TypeRef {
    /// Returns the type of a handle, to be kept.
    ///
    /// # Safety
    /// The handle is one of a datatype that was not freed, or any number below 4096.
    pub unsafe fn keep(handle: Handle) -> Result<Self, Error> {
        let number = handle.addr();
        if number < 4096 {
            return Ok(Self::Predefined(predefined(number).ok_or_else(no_type)?, number));
        }
        let pointer = handle.cast_const().cast::<Datatype>();
        // SAFETY: the handle came from `into_handle`, and its own reference still exists.
        unsafe {
            Arc::increment_strong_count(pointer);
            Ok(Self::Made(Arc::from_raw(pointer)))
        }
    }

    /// Returns a handle, which has this reference until it is [released](Self::release).
    pub fn into_handle(self) -> Handle {
        match self {
            Self::Predefined(_, number) => std::ptr::without_provenance_mut(number),
            Self::Made(datatype) => Arc::into_raw(datatype).cast_mut().cast(),
        }
    }

    /// Takes back the reference that a handle has.
    ///
    /// # Safety
    /// As for [`keep`](Self::keep), and the handle is not used afterwards.
    pub unsafe fn release(handle: Handle) -> Result<(), Error> {
        if handle.addr() < 4096 {
            return Err(Error::new(Class::Type, "a predefined datatype can't be freed"));
        }
        // SAFETY: the handle came from `into_handle`, and has a reference.
        drop(unsafe { Arc::from_raw(handle.cast_const().cast::<Datatype>()) });
        Ok(())
    }
}

/// Returns the type of a handle.
///
/// # Safety
/// The handle is one of a datatype that is not freed during `'a`, or any number below 4096.
#[inline]
pub(crate) unsafe fn look<'a>(handle: Handle) -> Result<&'a Datatype, Error> {
    let number = handle.addr();
    if number < 4096 {
        return predefined(number).ok_or_else(no_type);
    }
    // SAFETY: the handle came from `TypeRef::into_handle`, and its own reference exists.
    Ok(unsafe { &*handle.cast_const().cast::<Datatype>() })
}

#[cold]
fn no_type() -> Error {
    Error::new(Class::Type, "the handle is not one of a datatype")
}
