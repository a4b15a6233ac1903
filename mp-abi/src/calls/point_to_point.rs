//! Sends and receives.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use crate::{
    comm::{Comm, array, element, wanted_tag, within},
    completed::Completed,
    datatype::data::{Data, Kept},
    error::Error,
    message,
    program::{plainly, put},
    request::{Mode, Request, begin_exchange, exchange, receive as receive_in, send as send_in},
    types::{Count, Handle, Status},
};

/// The address of the first element, the number of elements, and the handle of their type.
type Given = (*const c_void, Count, Handle);
/// The other rank, the tag, and the handle of the communicator.
type Way = (c_int, c_int, Handle);

/// Sends in this mode.
///
/// # Safety
/// The handles are valid, and the data can be read.
#[inline(always)]
unsafe fn send_as(
    function: &'static str,
    (buffer, count, datatype): Given,
    (to, tag, comm): Way,
    mode: Mode,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(comm, function, |comm| {
            send_in(comm, Data::new(buffer, count, datatype)?, to, tag, mode)
        })
    }
}

/// Begins a send in this mode.
///
/// # Safety
/// The handles are valid, and the data can be read until the request is complete.
#[inline(always)]
unsafe fn begin_as(
    function: &'static str,
    (buffer, count, datatype): Given,
    (to, tag, comm): Way,
    mode: Mode,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(comm, function, |comm| {
            let data = Data::new(buffer, count, datatype)?;
            put(request, Request::send(comm, data, to, tag, mode)?)
        })
    }
}

/// Makes a persistent request: a send in this mode, or a receive.
///
/// # Safety
/// The handles are valid. While the request is active, the data can be read and, for a receive, written to.
unsafe fn make_as(
    function: &'static str,
    (buffer, count, datatype): Given,
    (rank, tag, comm): Way,
    what: Option<Mode>,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(comm, function, |comm| {
            let data = Kept::new(buffer, count, datatype)?;
            put(request, Request::persistent(comm, data, rank, tag, what)?)
        })
    }
}

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
    unsafe { send_as("MPI_Send", (buffer, count, datatype), (to, tag, comm), Mode::Standard) }
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
    unsafe { send_as("MPI_Ssend", (buffer, count, datatype), (to, tag, comm), Mode::Synchronous) }
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
    unsafe { send_as("MPI_Rsend", (buffer, count, datatype), (to, tag, comm), Mode::Standard) }
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
    unsafe { send_as("MPI_Bsend", (buffer, count, datatype), (to, tag, comm), Mode::Buffered) }
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
        begin_as("MPI_Isend", (buffer, count, datatype), (to, tag, comm), Mode::Standard, request)
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
        begin_as(
            "MPI_Issend",
            (buffer, count, datatype),
            (to, tag, comm),
            Mode::Synchronous,
            request,
        )
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
        begin_as("MPI_Irsend", (buffer, count, datatype), (to, tag, comm), Mode::Standard, request)
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
        begin_as("MPI_Ibsend", (buffer, count, datatype), (to, tag, comm), Mode::Buffered, request)
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
        make_as(
            "MPI_Send_init",
            (buffer, count, datatype),
            (to, tag, comm),
            Some(Mode::Standard),
            request,
        )
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
        make_as(
            "MPI_Ssend_init",
            (buffer, count, datatype),
            (to, tag, comm),
            Some(Mode::Synchronous),
            request,
        )
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
        make_as(
            "MPI_Rsend_init",
            (buffer, count, datatype),
            (to, tag, comm),
            Some(Mode::Standard),
            request,
        )
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
        make_as(
            "MPI_Bsend_init",
            (buffer, count, datatype),
            (to, tag, comm),
            Some(Mode::Buffered),
            request,
        )
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
            receive_in(comm, data, source, tag)?.tell(status)
        })
    }
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
    // SAFETY: the program gives valid handles, and data that it does not use until the request is complete.
    unsafe {
        within(comm, "MPI_Irecv", |comm| {
            let data = Data::new(buffer, count, datatype)?;
            put(request, Request::receive(comm, data, datatype, source, tag)?)
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
    // SAFETY: the program gives valid handles, and data that it does not use while the request is active.
    unsafe {
        make_as("MPI_Recv_init", (buffer, count, datatype), (source, tag, comm), None, request)
    }
}

/// `MPI_Start`.
pub unsafe fn start(request: *mut Handle) -> c_int {
    // SAFETY: the program gives the request of a persistent operation, whose data can be used from now on.
    plainly("MPI_Start", || unsafe { start_one(element(request)?) })
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
            exchange(comm, &bytes, (to, send_tag), place, (source, receive_tag))?.tell(status)
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
            exchange(comm, &bytes, (to, send_tag), data, (source, receive_tag))?.tell(status)
        })
    }
}

/// `MPI_Isendrecv`.
pub unsafe fn isendrecv(
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
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, other data that can be written to, which stay until
    // the request is complete, and a place for that.
    unsafe {
        within(comm, "MPI_Isendrecv", |comm| {
            let sent = Data::new(send_buffer, send_count, send_type)?.packed().into_owned();
            let place = Kept::new(receive_buffer, receive_count, receive_type)?;
            put(request, begin_exchange(comm, sent, (to, send_tag), place, (source, receive_tag))?)
        })
    }
}

/// `MPI_Isendrecv_replace`.
pub unsafe fn isendrecv_replace(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    to: c_int,
    send_tag: c_int,
    source: c_int,
    receive_tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read and written to, which stays until the request is
    // complete, and a place for that.
    unsafe {
        within(comm, "MPI_Isendrecv_replace", |comm| {
            let place = Kept::new(buffer, count, datatype)?;
            let sent = place.data().packed().into_owned();
            put(request, begin_exchange(comm, sent, (to, send_tag), place, (source, receive_tag))?)
        })
    }
}

/// Finds a message, and returns what there is to say of it. Waits until there is one, or returns `None`.
fn find(comm: &Comm, source: c_int, tag: c_int, waits: bool) -> Result<Option<Completed>, Error> {
    let tag = wanted_tag(tag)?;
    let Some(source) = comm.source(source)? else { return Ok(Some(Completed::FROM_NOBODY)) };
    let found = message::find(comm, source, tag, waits)?;
    Ok(found.map(|status| Completed::of(comm.told(status))))
}

/// `MPI_Probe`.
pub unsafe fn probe(source: c_int, tag: c_int, comm: Handle, status: *mut Status) -> c_int {
    // SAFETY: the program gives a valid handle, and a status or null.
    unsafe {
        within(comm, "MPI_Probe", |comm| {
            find(comm, source, tag, true)?.map_or(Ok(()), |completed| completed.tell(status))
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
            let completed = find(comm, source, tag, false)?;
            put(flag, completed.is_some().into())?;
            completed.map_or(Ok(()), |completed| completed.tell(status))
        })
    }
}
