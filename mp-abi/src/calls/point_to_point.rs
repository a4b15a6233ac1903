//! Sends and receives.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use crate::{
    comm::{array, wanted_tag, within},
    constants::MPI_REQUEST_NULL,
    datatype::data::{Data, Kept},
    error::Error,
    program::{plainly, put},
    request::{Completed, Mode, Request, exchange, receive as receive_in, send as send_in},
    types::{Count, Handle, Status},
};

/// `MPI_Send`.
pub unsafe fn send(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        within(comm, "MPI_Send", |comm| {
            send_in(comm, Data::new(buffer, count, datatype)?, to, tag, Mode::Standard)
        })
    }
}

/// `MPI_Ssend`.
pub unsafe fn ssend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        within(comm, "MPI_Ssend", |comm| {
            send_in(comm, Data::new(buffer, count, datatype)?, to, tag, Mode::Synchronous)
        })
    }
}

/// `MPI_Rsend`. It would not be faster than a send.
pub unsafe fn rsend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        within(comm, "MPI_Rsend", |comm| {
            send_in(comm, Data::new(buffer, count, datatype)?, to, tag, Mode::Standard)
        })
    }
}

/// `MPI_Bsend`. The message is copied; the buffer that the program has attached is not used.
pub unsafe fn bsend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        within(comm, "MPI_Bsend", |comm| {
            send_in(comm, Data::new(buffer, count, datatype)?, to, tag, Mode::Buffered)
        })
    }
}

/// `MPI_Isend`.
pub unsafe fn isend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read until the request is complete.
    unsafe {
        within(comm, "MPI_Isend", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            put(request, Request::send(comm, data, to, tag, Mode::Standard)?)
        })
    }
}

/// `MPI_Issend`.
pub unsafe fn issend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read until the request is complete.
    unsafe {
        within(comm, "MPI_Issend", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            put(request, Request::send(comm, data, to, tag, Mode::Synchronous)?)
        })
    }
}

/// `MPI_Irsend`. It would not be faster than a send.
pub unsafe fn irsend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read until the request is complete.
    unsafe {
        within(comm, "MPI_Irsend", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            put(request, Request::send(comm, data, to, tag, Mode::Standard)?)
        })
    }
}

/// `MPI_Ibsend`.
pub unsafe fn ibsend(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read until the request is complete.
    unsafe {
        within(comm, "MPI_Ibsend", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            put(request, Request::send(comm, data, to, tag, Mode::Buffered)?)
        })
    }
}

/// `MPI_Send_init`.
pub unsafe fn send_init(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read while the request is active.
    unsafe {
        within(comm, "MPI_Send_init", |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::persistent(comm, data, to, tag, Some(Mode::Standard))?)
        })
    }
}

/// `MPI_Ssend_init`.
pub unsafe fn ssend_init(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read while the request is active.
    unsafe {
        within(comm, "MPI_Ssend_init", |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::persistent(comm, data, to, tag, Some(Mode::Synchronous))?)
        })
    }
}

/// `MPI_Rsend_init`. It would not be faster than a send.
pub unsafe fn rsend_init(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read while the request is active.
    unsafe {
        within(comm, "MPI_Rsend_init", |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::persistent(comm, data, to, tag, Some(Mode::Standard))?)
        })
    }
}

/// `MPI_Bsend_init`.
pub unsafe fn bsend_init(
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read while the request is active.
    unsafe {
        within(comm, "MPI_Bsend_init", |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::persistent(comm, data, to, tag, Some(Mode::Buffered))?)
        })
    }
}

/// `MPI_Recv`.
pub unsafe fn recv(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a status or null.
    unsafe {
        within(comm, "MPI_Recv", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            write(receive_in(comm, data, source, tag)?, status)
        })
    }
}

/// Gives the program the status of a receive, and returns its error.
///
/// # Safety
/// The address is null, or can be written to.
#[inline]
unsafe fn write(completed: Completed, status: *mut Status) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe { completed.write(status) };
    completed.error.map_or(Ok(()), Err)
}

/// `MPI_Irecv`.
pub unsafe fn irecv(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that nobody else uses until the request is complete.
    unsafe {
        within(comm, "MPI_Irecv", |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::receive(comm, data, source, tag)?)
        })
    }
}

/// `MPI_Recv_init`.
pub unsafe fn recv_init(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that nobody else uses while the request is active.
    unsafe {
        within(comm, "MPI_Recv_init", |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::persistent(comm, data, source, tag, None)?)
        })
    }
}

/// `MPI_Start`.
pub unsafe fn start(request: *mut Handle) -> c_int {
    // SAFETY: the program gives the request of a persistent operation, whose data can be used from now on.
    plainly("MPI_Start", || unsafe {
        start_one(*array(request, 1)?.first().unwrap_or(&MPI_REQUEST_NULL))
    })
}

/// `MPI_Startall`.
pub unsafe fn startall(count: c_int, requests: *mut Handle) -> c_int {
    plainly("MPI_Startall", || {
        // SAFETY: the program gives as many requests of persistent operations, whose data can be used from now on.
        unsafe { array(requests, count)?.iter().try_for_each(|&request| start_one(request)) }
    })
}

/// Starts a persistent request.
///
/// # Safety
/// As for [`Request::look`] and [`Request::start`].
unsafe fn start_one(request: Handle) -> Result<(), Error> {
    // SAFETY: the caller says so.
    match unsafe { Request::look(request)? } {
        // SAFETY: the caller says so.
        Some(request) => unsafe { request.start() },
        None => Err(Error::new(crate::error::Class::Request, "the request is not persistent")),
    }
}

/// `MPI_Sendrecv`.
pub unsafe fn sendrecv(
    send_buffer: *const c_void,
    send_count: Count,
    send_type: Handle,
    to: c_int,
    send_tag: c_int,
    receive_buffer: *mut c_void,
    receive_count: Count,
    receive_type: Handle,
    source: c_int,
    receive_tag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, other data that can be written to, and a status or
    // null.
    unsafe {
        within(comm, "MPI_Sendrecv", |comm| {
            let sent = Data::new(send_buffer, send_count, send_type)?;
            let place = Data::new(receive_buffer, receive_count, receive_type)?;
            let bytes = sent.packed();
            write(exchange(comm, &bytes, (to, send_tag), place, (source, receive_tag))?, status)
        })
    }
}

/// `MPI_Sendrecv_replace`.
pub unsafe fn sendrecv_replace(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    send_tag: c_int,
    source: c_int,
    receive_tag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read and written to, and a status or null.
    unsafe {
        within(comm, "MPI_Sendrecv_replace", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            let mut bytes = Vec::new();
            data.pack(&mut bytes);
            write(exchange(comm, &bytes, (to, send_tag), data, (source, receive_tag))?, status)
        })
    }
}

/// `MPI_Probe`.
pub unsafe fn probe(source: c_int, tag: c_int, comm: Handle, status: *mut Status) -> c_int {
    // SAFETY: the program gives a valid handle, and a status or null.
    unsafe {
        within(comm, "MPI_Probe", |comm| {
            let tag = wanted_tag(tag)?;
            let completed = match comm.source(source)? {
                Some(source) => Completed::of(comm.communicator.probe(source, tag)?),
                None => Completed::FROM_NOBODY,
            };
            write(completed, status)
        })
    }
}

/// `MPI_Iprobe`.
pub unsafe fn iprobe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, a place for the answer, and a status or null.
    unsafe {
        within(comm, "MPI_Iprobe", |comm| {
            let tag = wanted_tag(tag)?;
            let completed = match comm.source(source)? {
                Some(source) => comm.communicator.try_probe(source, tag)?.map(Completed::of),
                None => Some(Completed::FROM_NOBODY),
            };
            put(flag, completed.is_some().into())?;
            completed.map_or(Ok(()), |completed| write(completed, status))
        })
    }
}
