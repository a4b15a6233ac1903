//! Operations of reductions.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use super::collective_arguments::{check_apart, is_in_place, no_block_in_place};
use crate::{
    comm::element,
    constants::{MPI_OP_NULL, MPI_SUCCESS},
    datatype::data::Data,
    error::{Class, Error},
    op::{Function, Op, UserOp, release},
    program::{plainly, put},
    types::{Count, Handle, LargeUserFunction, UserFunction},
};

/// Makes an operation.
///
/// # Safety
/// The address is null, or can be written to.
unsafe fn create(
    function: Option<Function>,
    commutes: c_int,
    op: *mut Handle,
) -> Result<(), Error> {
    let Some(function) = function else {
        return Err(Error::new(Class::Arg, "the function is a null pointer"));
    };
    // SAFETY: the caller says so.
    unsafe { put(op, UserOp { function, commutes: commutes != 0 }.into_handle()) }
}

/// `MPI_Op_create`.
pub unsafe fn op_create(function: Option<UserFunction>, commutes: c_int, op: *mut Handle) -> c_int {
    // SAFETY: the program gives a function for elements of the types with which it will call the operation.
    plainly("MPI_Op_create", || unsafe { create(function.map(Function::Small), commutes, op) })
}

/// `MPI_Op_create_c`.
pub unsafe fn op_create_c(
    function: Option<LargeUserFunction>,
    commutes: c_int,
    op: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a function for elements of the types with which it will call the operation.
    plainly("MPI_Op_create_c", || unsafe { create(function.map(Function::Large), commutes, op) })
}

/// `MPI_Op_free`.
pub unsafe fn op_free(op: *mut Handle) -> c_int {
    plainly("MPI_Op_free", || {
        // SAFETY: the program gives the address of an operation's handle, and does not use that any more.
        unsafe {
            release(element(op)?)?;
            put(op, MPI_OP_NULL)
        }
    })
}

/// `MPI_Op_commutative`.
pub unsafe fn op_commutative(op: Handle, commutes: *mut c_int) -> c_int {
    // SAFETY: the program gives an operation, and a place for the answer.
    plainly("MPI_Op_commutative", || unsafe { put(commutes, Op::keep(op)?.commutes().into()) })
}

/// `MPI_Reduce_local`.
pub unsafe fn reduce_local(
    lower: *const c_void,
    upper: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
) -> c_int {
    if count == 0 {
        return MPI_SUCCESS;
    }
    plainly("MPI_Reduce_local", || {
        // SAFETY: the program gives an operation, a datatype, and two arrays of as many elements.
        unsafe {
            if is_in_place(lower) || is_in_place(upper) {
                return Err(no_block_in_place());
            }
            let data = Data::new(lower, count, datatype)?;
            check_apart(data, Data::new(upper, count, datatype)?)?;
            let combine = Op::keep(op)?.on(data.datatype(), datatype)?;
            combine.check(data.count())?;
            combine.apply(lower.cast_mut(), upper, data.count());
        }
        Ok(())
    })
}
