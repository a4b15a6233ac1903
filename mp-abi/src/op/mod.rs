//! Operations of reductions: the predefined ones, and those of programs.

mod kernels;
mod long_double;
mod numbers;
#[cfg(test)]
mod tests;

use std::{
    ffi::{c_int, c_void},
    rc::Rc,
};

pub(crate) use self::kernels::{
    And, BitAnd, BitOr, BitXor, Kernel, Max, Min, Or, Product, Rule, Sum, Xor, find,
};
pub(crate) use self::numbers::*;
use crate::{
    callbacks::callbacks,
    datatype::Datatype,
    error::{Class, Error},
    types::{Count, Handle, LargeUserFunction, UserFunction},
};

/// The function of a program's operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Small(UserFunction),
    Large(LargeUserFunction),
}

/// An operation that a program has made (`MPI_Op`).
#[derive(Debug)]
pub(crate) struct UserOp {
    pub function: Function,
    pub commutes: bool,
}

impl UserOp {
    /// Returns a handle, which has this reference until it is [released](release).
    pub fn into_handle(self) -> Handle {
        Rc::into_raw(Rc::new(self)).cast_mut().cast()
    }
}

/// Takes back the reference that a handle has.
///
/// # Safety
/// The handle is one of an operation that was not freed, or any number below 4096. It is not used afterwards.
pub(crate) unsafe fn release(handle: Handle) -> Result<(), Error> {
    match handle.addr() {
        ..4096 => Err(Error::new(Class::Op, "a predefined operation can't be freed")),
        _ => {
            // SAFETY: the handle came from `UserOp::into_handle`.
            drop(unsafe { Rc::from_raw(handle.cast_const().cast::<UserOp>()) });
            Ok(())
        }
    }
}

/// An operation that was given to a call.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Predefined(usize),
    User(Rc<UserOp>),
}

impl Op {
    /// Returns the operation of a handle.
    ///
    /// # Safety
    /// The handle is one of an operation that was not freed, or any number below 4096.
    pub unsafe fn keep(handle: Handle) -> Result<Self, Error> {
        match handle.addr() {
            number @ (SUM..=PROD
            | BAND..=BXOR
            | LAND..=LXOR
            | MINLOC
            | MAXLOC
            | REPLACE
            | NO_OP) => Ok(Self::Predefined(number)),
            ..4096 => Err(Error::new(Class::Op, "the handle is not one of an operation")),
            _ => {
                let pointer = handle.cast_const().cast::<UserOp>();
                // SAFETY: the handle came from `UserOp::into_handle`, and has a reference.
                unsafe {
                    Rc::increment_strong_count(pointer);
                    Ok(Self::User(Rc::from_raw(pointer)))
                }
            }
        }
    }

    /// Returns what the comparison of calls says of the operation.
    pub fn name(&self) -> &'static str {
        let Self::Predefined(number) = *self else { return "an operation of the program" };
        match number {
            SUM => "MPI_SUM",
            MIN => "MPI_MIN",
            MAX => "MPI_MAX",
            PROD => "MPI_PROD",
            BAND => "MPI_BAND",
            BOR => "MPI_BOR",
            BXOR => "MPI_BXOR",
            LAND => "MPI_LAND",
            LOR => "MPI_LOR",
            LXOR => "MPI_LXOR",
            MINLOC => "MPI_MINLOC",
            MAXLOC => "MPI_MAXLOC",
            REPLACE => "MPI_REPLACE",
            _ => "MPI_NO_OP",
        }
    }

    pub fn commutes(&self) -> bool {
        match self {
            Self::Predefined(number) => *number != REPLACE,
            Self::User(op) => op.commutes,
        }
    }

    /// Returns the operation as it is used on elements of a type, which the program has called by this handle.
    // Always inlined: a result in memory would be read in wider pieces than it was written, and such a read waits for the
    // writes. That took a third of a short MPI_Reduce_local.
    #[inline(always)]
    pub fn on(&self, datatype: &Datatype, handle: Handle) -> Result<Combine, Error> {
        match self {
            Self::User(op) => Ok(Combine::User { op: Rc::clone(op), datatype: handle }),
            &Self::Predefined(number) => match kernels::find(number, datatype.kind) {
                Some(kernel) => Ok(Combine::Kernel(kernel)),
                None => Err(undefined(datatype)),
            },
        }
    }
}

#[cold]
fn undefined(datatype: &Datatype) -> Error {
    Error::new(Class::Op, format!("the operation is not defined for {}", datatype.name()))
}

/// An operation on elements of a type.
#[derive(Clone, Debug)]
pub(crate) enum Combine {
    Kernel(Kernel),
    User { op: Rc<UserOp>, datatype: Handle },
}

impl Combine {
    /// Returns an error if the program's function can't be told the count.
    pub fn check(&self, count: usize) -> Result<(), Error> {
        match self {
            Self::User { op, .. }
                if matches!(op.function, Function::Small(_)) && c_int::try_from(count).is_err() =>
            {
                let text = format!("the operation's function can't be told a count of {count}");
                Err(Error::new(Class::Count, text))
            }
            _ => Ok(()),
        }
    }

    /// Combines elements: those at `upper` get the results.
    ///
    /// # Safety
    /// At both addresses are `count` elements of the type. The first can be read, and the second written to.
    pub unsafe fn apply(&self, lower: *mut c_void, upper: *mut c_void, count: usize) {
        match self {
            // SAFETY: the caller says so. The elements of all types that kernels are for lie at the distances of their
            // types in Rust, because both are C's.
            Self::Kernel(kernel) => unsafe { kernel(lower.cast(), upper.cast(), count) },
            &Self::User { ref op, datatype } => match op.function {
                Function::Large(function) => {
                    let count = count as Count;
                    // SAFETY: the program has given a function that takes elements of this type.
                    unsafe { callbacks().combine_many(function, (lower, upper), count, datatype) };
                }
                Function::Small(function) => {
                    let count = count.min(c_int::MAX as usize) as c_int;
                    // SAFETY: as above. (See `check` for counts that are no `int`.)
                    unsafe { callbacks().combine(function, (lower, upper), count, datatype) };
                }
            },
        }
    }
}
