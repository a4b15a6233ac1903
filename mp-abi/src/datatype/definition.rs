//! What a datatype is.

use std::{
    borrow::Cow,
    ffi::c_int,
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use super::pieces::Piece;
use crate::{
    attributes::Attributes,
    error::{Class, Error},
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
    pub align: i64,
    /// Whether the lower and upper bound were set, so that they hold for all types made from this one.
    pub set_bounds: (bool, bool),
    /// The number of basic elements.
    pub elements: i64,
    /// What operations see in it, if it is predefined.
    pub kind: Kind,
    pub is_predefined: bool,
    pub(super) pieces: Cow<'static, [Piece]>,
    pub made: Option<Made>,
    pub is_committed: AtomicBool,
    /// How many handles it has.
    pub(super) handles: AtomicUsize,
    pub attributes: Attributes,
    /// The name that the program or the standard has given.
    pub name: Mutex<Cow<'static, str>>,
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

    pub fn is_one_run(&self) -> bool {
        match &*self.pieces {
            [] => true,
            [piece] => piece.count == 1,
            _ => false,
        }
    }

    /// Returns where the data of an element lies, in the order in which it is sent.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub fn upper(&self) -> i64 {
        self.lower + self.extent
    }

    /// Returns an error unless the type is committed.
    #[inline]
    pub fn check_committed(&self) -> Result<(), Error> {
        match self.is_committed.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Error::new(Class::Type, "the datatype is not committed")),
        }
    }

    /// Returns the offsets of the first byte of `count` elements and after their last one, if they have bytes.
    pub fn span(&self, count: usize) -> Option<(i64, i64)> {
        let further = i64::try_from(count).ok()?.checked_sub(1).filter(|&further| further >= 0)?;
        let further = self.extent.saturating_mul(further);
        let lower = self.true_lower.saturating_add(further.min(0));
        let upper = self.true_lower + self.true_extent;
        (self.size > 0).then(|| (lower, upper.saturating_add(further.max(0))))
    }

    /// Returns the predefined type of which all elements are, if it is one.
    pub fn basic(&self) -> Option<&Self> {
        if self.is_predefined {
            return Some(self);
        }
        let mut parts = self.parts().filter(|&(_, count)| count > 0).map(|(part, _)| part.basic());
        let first = parts.next()??;
        parts.all(|other| other.is_some_and(|other| std::ptr::eq(first, other))).then_some(first)
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
    pub fn parts(&self) -> impl Iterator<Item = (&TypeRef, i64)> {
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
            (part, count)
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

/// What operations see in a predefined type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing can be computed with it.
    None,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    LongDouble,
    C32,
    C64,
    ComplexLongDouble,
    /// C's and C++'s `bool`.
    Bool,
    /// Fortran's `LOGICAL`, of this many bytes.
    Logical8,
    Logical16,
    Logical32,
    Logical64,
    Byte,
    F32Int,
    F64Int,
    I64Int,
    IntInt,
    I16Int,
    LongDoubleInt,
    F32F32,
    F64F64,
}
