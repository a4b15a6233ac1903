//! Put, get and accumulate.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use crate::{
    constants::MPI_SUCCESS,
    datatype::{data::Data, look},
    error::{Class, Error},
    op::Op,
    program::put as put_result,
    request,
    types::{Aint, Count, Handle},
    window::{Win, operations, target::Elements, within},
};

type Result<T> = std::result::Result<T, Error>;

/// Returns the number of a target and elements in its memory, or `None` for `MPI_PROC_NULL`.
///
/// # Safety
/// The handle is one of a datatype that is not freed during `'a`, or any number below 4096.
#[inline]
unsafe fn elements<'a>(
    window: &Win,
    target: c_int,
    displacement: Aint,
    count: Count,
    datatype: Handle,
) -> Result<Option<(usize, Elements<'a>)>> {
    let Some(target) = window.accessed(target)? else { return Ok(None) };
    // SAFETY: the caller says so.
    let datatype = unsafe { look(datatype)? };
    datatype.check_committed()?;
    let elements = window.targets[target].elements(displacement, count, datatype)?;
    Ok(Some((target, elements)))
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
        within(window, "MPI_Put", |window| {
            let own = Data::new(origin, origin_count, origin_type)?;
            match elements(window, target, displacement, target_count, target_type)? {
                Some((_, elements)) => operations::put(own, elements),
                None => Ok(()),
            }
        })
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
        within(window, "MPI_Get", |window| {
            let own = Data::new(origin, origin_count, origin_type)?;
            match elements(window, target, displacement, target_count, target_type)? {
                Some((_, elements)) => operations::get(own, elements),
                None => Ok(()),
            }
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
        within(window, "MPI_Accumulate", |window| {
            let own = Data::new(origin, origin_count, origin_type)?;
            let op = predefined(op)?;
            match elements(window, target, displacement, target_count, target_type)? {
                Some((target, elements)) => {
                    window.accumulate(target, elements, op, Some(own), None)
                }
                None => Ok(()),
            }
        })
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
        within(window, "MPI_Get_accumulate", |window| {
            let op = predefined(op)?;
            // What this rank has does not matter if nothing changes.
            let own = match op {
                crate::op::NO_OP => None,
                _ => Some(Data::new(origin, origin_count, origin_type)?),
            };
            let result = Data::new(result, result_count, result_type)?;
            match elements(window, target, displacement, target_count, target_type)? {
                Some((target, elements)) => {
                    window.accumulate(target, elements, op, own, Some(result))
                }
                None => Ok(()),
            }
        })
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
    // SAFETY: the program gives valid handles, an element that can be read, and a place for one.
    unsafe {
        within(window, "MPI_Fetch_and_op", |window| {
            check_predefined(datatype)?;
            let op = predefined(op)?;
            let own = match op {
                crate::op::NO_OP => None,
                _ => Some(Data::new(origin, 1, datatype)?),
            };
            let result = Data::new(result, 1, datatype)?;
            match elements(window, target, displacement, 1, datatype)? {
                Some((target, elements)) => {
                    window.accumulate(target, elements, op, own, Some(result))
                }
                None => Ok(()),
            }
        })
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
            match elements(window, target, displacement, 1, datatype)? {
                Some((target, elements)) => window.compare_and_swap(target, elements, all),
                None => Ok(()),
            }
        })
    }
}

/// Gives the program a request that is complete, if the operation was successful.
///
/// # Safety
/// The address is null, or can be written to.
unsafe fn completed(code: c_int, function: &'static str, window: Handle, to: *mut Handle) -> c_int {
    match code {
        // SAFETY: the caller says so, and the operation has found the window.
        MPI_SUCCESS => unsafe { within(window, function, |_| put_result(to, request::sent())) },
        _ => code,
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
        let target = (target, displacement, target_count, target_type);
        let code =
            put(origin, origin_count, origin_type, target.0, target.1, target.2, target.3, window);
        completed(code, "MPI_Rput", window, request)
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
        let target = (target, displacement, target_count, target_type);
        let code =
            get(origin, origin_count, origin_type, target.0, target.1, target.2, target.3, window);
        completed(code, "MPI_Rget", window, request)
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
        let code = accumulate(
            origin,
            origin_count,
            origin_type,
            target,
            displacement,
            target_count,
            target_type,
            op,
            window,
        );
        completed(code, "MPI_Raccumulate", window, request)
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
        let code = get_accumulate(
            origin,
            origin_count,
            origin_type,
            result,
            result_count,
            result_type,
            target,
            displacement,
            target_count,
            target_type,
            op,
            window,
        );
        completed(code, "MPI_Rget_accumulate", window, request)
    }
}
