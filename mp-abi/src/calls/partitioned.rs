//! Partitioned messages.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use super::requests::is_done;
use crate::{
    comm::{array, within},
    datatype::data::Kept,
    error::{Class, Error},
    partitioned::{self, Partitioned},
    program::{plainly, put},
    request::Request,
    types::{Count, Handle},
};

type Result<T> = std::result::Result<T, Error>;

/// Returns all elements of a number of parts.
///
/// # Safety
/// As for [`Kept::new`].
unsafe fn whole(
    buffer: *const c_void,
    partitions: c_int,
    count: Count,
    datatype: Handle,
) -> Result<(Kept, usize)> {
    let parts = usize::try_from(partitions).ok().filter(|&parts| parts > 0);
    let parts = parts.ok_or_else(|| {
        Error::new(Class::Arg, format!("a message can't have {partitions} parts"))
    })?;
    let all = count.checked_mul(parts as Count).ok_or_else(|| {
        Error::new(Class::Count, format!("{parts} parts of {count} elements are too many"))
    })?;
    // SAFETY: the caller says so.
    Ok((unsafe { Kept::new(buffer, all, datatype)? }, parts))
}

/// `MPI_Psend_init`. What the info says is not used.
pub unsafe fn psend_init(
    buffer: *const c_void,
    partitions: c_int,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read while the request is active, and a place for the
    // request.
    unsafe {
        within(comm, "MPI_Psend_init", |comm| {
            let (data, parts) = whole(buffer, partitions, count, datatype)?;
            let made = Partitioned::new(comm, data, Some(parts), to, tag)?;
            put(request, Request::partitioned(comm, made))
        })
    }
}

/// `MPI_Precv_init`. What the info says is not used.
pub unsafe fn precv_init(
    buffer: *mut c_void,
    partitions: c_int,
    count: Count,
    datatype: Handle,
    from: c_int,
    tag: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that may be written to while the request is active, and a place for
    // the request.
    unsafe {
        within(comm, "MPI_Precv_init", |comm| {
            let (data, _) = whole(buffer, partitions, count, datatype)?;
            let made = Partitioned::new(comm, data, None, from, tag)?;
            put(request, Request::partitioned(comm, made))
        })
    }
}

/// `MPI_Pready`.
pub unsafe fn pready(part: c_int, request: Handle) -> c_int {
    plainly("MPI_Pready", || partitioned::ready(request, [part]))
}

/// `MPI_Pready_range`. The last part is one of them.
pub unsafe fn pready_range(first: c_int, last: c_int, request: Handle) -> c_int {
    plainly("MPI_Pready_range", || partitioned::ready(request, first..=last))
}

/// `MPI_Pready_list`.
pub unsafe fn pready_list(length: c_int, parts: *const c_int, request: Handle) -> c_int {
    plainly("MPI_Pready_list", || {
        // SAFETY: the program gives an array of this length.
        let parts = unsafe { array(parts, length)? };
        partitioned::ready(request, parts.iter().copied())
    })
}

/// `MPI_Parrived`. All parts arrive together.
pub unsafe fn parrived(request: Handle, part: c_int, flag: *mut c_int) -> c_int {
    plainly("MPI_Parrived", || {
        // SAFETY: the program gives a valid handle, and a place for the answer.
        unsafe {
            // The null request, and one that is not active, have nothing that did not arrive.
            let Some(request) = Request::look(request)? else { return put(flag, 1) };
            if !request.is_partitioned_receive() {
                return Err(Error::new(Class::Request, "the request is not a partitioned receive"));
            }
            if part < 0 {
                return Err(Error::new(Class::Arg, format!("{part} is no number of a part")));
            }
            put(flag, is_done(Some(request))?.into())
        }
    })
}
