//! Types for Fortran's kinds of numbers, which are found by their precision.

use std::{
    collections::BTreeMap,
    ffi::c_int,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use super::{
    constructors::duplicate,
    definition::{Datatype, Made, TypeRef},
    predefined::predefined,
};
use crate::{
    attributes::Attributes,
    callbacks::Owner,
    constants::{
        MPI_COMBINER_F90_COMPLEX, MPI_COMBINER_F90_INTEGER, MPI_COMBINER_F90_REAL, MPI_UNDEFINED,
    },
    error::{Class, Error},
    types::Handle,
};

/// The kinds of real numbers: the decimal digits and exponents that they have, and the numbers of the types for them and
/// for complex numbers of them.
const REALS: [(c_int, c_int, usize, usize); 4] = [
    (6, 37, 0x2d2, 0x2db),
    (15, 307, 0x2da, 0x2e3),
    (18, 4931, 0x220, 0x224),
    (33, 4931, 0x2e2, 0x2eb),
];

/// The kinds of integers: the decimal digits that they have, and the numbers of the types for them.
const INTEGERS: [(c_int, usize); 5] =
    [(2, 0x2c1), (4, 0x2c9), (9, 0x2d1), (18, 0x2d9), (38, 0x2e1)];

/// Returns the handle of a real type, which is always the same for the same numbers.
pub(crate) fn real(digits: c_int, range: c_int) -> Result<Handle, Error> {
    let (number, _) = numbers(digits, range)?;
    made(number, MPI_COMBINER_F90_REAL, vec![digits.into(), range.into()])
}

/// Returns the handle of a complex type, which is always the same for the same numbers.
pub(crate) fn complex(digits: c_int, range: c_int) -> Result<Handle, Error> {
    let (_, number) = numbers(digits, range)?;
    made(number, MPI_COMBINER_F90_COMPLEX, vec![digits.into(), range.into()])
}

/// Returns the handle of an integer type, which is always the same for the same number.
pub(crate) fn integer(range: c_int) -> Result<Handle, Error> {
    match INTEGERS.iter().find(|(most, _)| range <= *most) {
        Some(&(_, number)) => made(number, MPI_COMBINER_F90_INTEGER, vec![range.into()]),
        None => Err(Error::new(
            Class::Arg,
            format!("there are no integers with {range} decimal digits"),
        )),
    }
}

/// Returns the numbers of the types for real and complex numbers of a kind. One of the demands may be undefined.
fn numbers(digits: c_int, range: c_int) -> Result<(usize, usize), Error> {
    let is_met = |wanted: c_int, most: c_int| wanted == MPI_UNDEFINED || wanted <= most;
    let found = REALS.iter().find(|(most_digits, most_range, ..)| {
        is_met(digits, *most_digits) && is_met(range, *most_range)
    });
    match found {
        Some(&(_, _, real, complex)) if (digits, range) != (MPI_UNDEFINED, MPI_UNDEFINED) => {
            Ok((real, complex))
        }
        _ => {
            let text =
                format!("there are no real numbers with {digits} decimal digits and range {range}");
            Err(Error::new(Class::Arg, text))
        }
    }
}

/// Returns the handle of a type that is like a predefined one, and tells for what it was made.
fn made(number: usize, combiner: c_int, integers: Vec<i64>) -> Result<Handle, Error> {
    type Key = (c_int, Vec<i64>);
    static MADE: Mutex<BTreeMap<Key, Arc<Datatype>>> = Mutex::new(BTreeMap::new());
    let mut all = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (combiner, integers);
    if let Some(found) = all.get(&key) {
        return Ok(Arc::as_ptr(found).cast_mut().cast());
    }
    let like =
        predefined(number).ok_or_else(|| Error::new(Class::Type, "there is no such type"))?;
    let copy = duplicate(&TypeRef::Predefined(like, number), Attributes::new(Owner::Datatype))?;
    let integers = key.1.clone();
    let datatype = Arc::new(Datatype {
        is_predefined: true,
        is_committed: AtomicBool::new(true),
        made: Some(Made { combiner, integers, addresses: Vec::new(), types: Vec::new() }),
        ..copy
    });
    let handle = Arc::as_ptr(&datatype).cast_mut().cast();
    all.insert(key, datatype);
    Ok(handle)
}
