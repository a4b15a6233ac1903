//! Put, get and accumulate.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use crate::{
    constants::MPI_SUCCESS,
    datatype::{data::Data, look},
    error::{Class, Error},
    handles::sent,
    op::{NO_OP, Op},
    program::put as put_result,
    types::{Aint, Count, Handle},
    window::{Win, operations, target::Elements, within},
};

type Result<T> = std::result::Result<T, Error>;

/// A buffer, a count and a type: elements of this rank.
type Own = (*const c_void, Count, Handle);
/// A rank, a displacement, a count and a type: elements in a rank's memory.
type There = (c_int, Aint, Count, Handle);

/// Calls a function with the number of a target and elements in its memory, unless the target is `MPI_PROC_NULL`.
///
/// # Safety
/// The handle is one of a datatype that is not freed, or any number below 4096.
#[inline]
unsafe fn at_target(
    window: &Win,
    (target, displacement, count, datatype): There,
    call: impl FnOnce(usize, Elements<'_>) -> Result<()>,
) -> Result<()> {
    let Some(target) = window.accessed(target)? else { return Ok(()) };
    // SAFETY: the caller says so.
    let datatype = unsafe { look(datatype)? };
    datatype.check_committed()?;
    let elements = window.targets[target].elements(displacement, count, datatype)?;
    if elements.bytes() > 0 {
        window.note_access();
    }
    call(target, elements)
}

/// Gives the program a request that is complete, if it wants one.
///
/// # Safety
/// The address is null, or can be written to.
unsafe fn complete(request: Option<*mut Handle>) -> Result<()> {
    match request {
        // SAFETY: the caller says so.
        Some(request) => unsafe { put_result(request, sent()) },
        None => Ok(()),
    }
}

/// Returns the number of a predefined operation.
///
/// # Safety
/// The handle is one of an operation that is not freed, or any number below 4096.
unsafe fn predefined(op: Handle) -> Result<usize> {
    // SAFETY: the caller says so.
    match unsafe { Op::keep(op)? } {
        Op::Predefined(number) => Ok(number),
        Op::User(_) => Err(Error::new(Class::Op, "accumulates take predefined operations only")),
    }
}

/// Returns an error unless a datatype is predefined.
///
/// # Safety
/// The handle is one of a datatype that is not freed, or any number below 4096.
unsafe fn check_predefined(datatype: Handle) -> Result<()> {
    // SAFETY: the caller says so.
    match unsafe { look(datatype)? }.is_predefined {
        true => Ok(()),
        false => Err(Error::new(Class::Type, "the datatype is not predefined")),
    }
}

/// Copies elements to a target or from it, as the operation does, and gives the program a request if it wants one.
///
/// # Safety
/// The handles are valid, and the elements can be read, or written to. The request is null, or can be written to.
unsafe fn copy(
    function: &'static str,
    (buffer, count, datatype): Own,
    there: There,
    window: Handle,
    request: Option<*mut Handle>,
    operation: impl FnOnce(Data<'_>, Elements<'_>) -> Result<()>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(window, function, |window| {
            let own = Data::new(buffer, count, datatype)?;
            at_target(window, there, |_, elements| operation(own, elements))?;
            complete(request)
        })
    }
}

/// Combines elements with those of a target, reads what these were before if there is a place for it, and gives the
/// program a request if it wants one.
///
/// # Safety
/// As for [`copy`], and the elements of `result` may be written to.
unsafe fn combine(
    function: &'static str,
    (own, result): (Own, Option<Own>),
    there: There,
    op: Handle,
    window: Handle,
    request: Option<*mut Handle>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(window, function, |window| {
            let op = predefined(op)?;
            // What this rank has does not matter if nothing changes and something is read.
            let own = match (op, result) {
                (NO_OP, Some(_)) => None,
                _ => Some(Data::new(own.0, own.1, own.2)?),
            };
            let result = result.map(|(to, count, datatype)| Data::new(to, count, datatype));
            let result = result.transpose()?;
            at_target(window, there, |target, elements| {
                window.accumulate(target, elements, op, own, result)
            })?;
            complete(request)
        })
    }
}

/// `MPI_Put`.
pub unsafe fn put(
    origin: *const c_void,
    origin_count: Count,
    origin_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    window: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        let own = (origin, origin_count, origin_type);
        copy("MPI_Put", own, there, window, None, operations::put)
    }
}

/// `MPI_Rput`.
pub unsafe fn rput(
    origin: *const c_void,
    origin_count: Count,
    origin_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    window: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as for `put`, and the program gives a place for the request.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        let own = (origin, origin_count, origin_type);
        copy("MPI_Rput", own, there, window, Some(request), operations::put)
    }
}

/// `MPI_Get`.
pub unsafe fn get(
    origin: *mut c_void,
    origin_count: Count,
    origin_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    window: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that may be written to.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        let own = (origin.cast_const(), origin_count, origin_type);
        copy("MPI_Get", own, there, window, None, |own, elements| operations::get(own, elements))
    }
}

/// `MPI_Rget`.
pub unsafe fn rget(
    origin: *mut c_void,
    origin_count: Count,
    origin_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    window: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as for `get`, and the program gives a place for the request.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        let own = (origin.cast_const(), origin_count, origin_type);
        let request = Some(request);
        copy("MPI_Rget", own, there, window, request, |own, elements| {
            operations::get(own, elements)
        })
    }
}

/// `MPI_Accumulate`.
pub unsafe fn accumulate(
    origin: *const c_void,
    origin_count: Count,
    origin_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    op: Handle,
    window: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        combine(
            "MPI_Accumulate",
            ((origin, origin_count, origin_type), None),
            there,
            op,
            window,
            None,
        )
    }
}

/// `MPI_Raccumulate`.
pub unsafe fn raccumulate(
    origin: *const c_void,
    origin_count: Count,
    origin_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    op: Handle,
    window: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as for `accumulate`, and the program gives a place for the request.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        combine(
            "MPI_Raccumulate",
            ((origin, origin_count, origin_type), None),
            there,
            op,
            window,
            Some(request),
        )
    }
}

/// `MPI_Get_accumulate`.
pub unsafe fn get_accumulate(
    origin: *const c_void,
    origin_count: Count,
    origin_type: Handle,
    result: *mut c_void,
    result_count: Count,
    result_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    op: Handle,
    window: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for as much as the target has.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        let both = (
            (origin, origin_count, origin_type),
            Some((result.cast_const(), result_count, result_type)),
        );
        combine("MPI_Get_accumulate", both, there, op, window, None)
    }
}

/// `MPI_Rget_accumulate`.
pub unsafe fn rget_accumulate(
    origin: *const c_void,
    origin_count: Count,
    origin_type: Handle,
    result: *mut c_void,
    result_count: Count,
    result_type: Handle,
    target: c_int,
    displacement: Aint,
    target_count: Count,
    target_type: Handle,
    op: Handle,
    window: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as for `get_accumulate`, and the program gives a place for the request.
    unsafe {
        let there = (target, displacement, target_count, target_type);
        let both = (
            (origin, origin_count, origin_type),
            Some((result.cast_const(), result_count, result_type)),
        );
        combine("MPI_Rget_accumulate", both, there, op, window, Some(request))
    }
}

/// `MPI_Fetch_and_op`.
pub unsafe fn fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: Handle,
    target: c_int,
    displacement: Aint,
    op: Handle,
    window: Handle,
) -> c_int {
    const NAME: &str = "MPI_Fetch_and_op";
    // SAFETY: the program gives valid handles, an element that can be read, and a place for one.
    unsafe {
        let code = within(window, NAME, |_| check_predefined(datatype));
        if code != MPI_SUCCESS {
            return code;
        }
        let both = ((origin, 1, datatype), Some((result.cast_const(), 1, datatype)));
        combine(NAME, both, (target, displacement, 1, datatype), op, window, None)
    }
}

/// `MPI_Compare_and_swap`.
pub unsafe fn compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: Handle,
    target: c_int,
    displacement: Aint,
    window: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, two elements that can be read, and a place for one.
    unsafe {
        within(window, "MPI_Compare_and_swap", |window| {
            check_predefined(datatype)?;
            let all = [
                Data::new(origin, 1, datatype)?,
                Data::new(compare, 1, datatype)?,
                Data::new(result, 1, datatype)?,
            ];
            at_target(window, (target, displacement, 1, datatype), |target, elements| {
                window.compare_and_swap(target, elements, all)
            })
        })
    }
}
