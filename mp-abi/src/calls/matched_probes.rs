//! Probes that take the message they find, so that no other receive gets it.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use crate::{
    comm::within,
    completed::Completed,
    constants::{MPI_MESSAGE_NULL, MPI_SUCCESS},
    datatype::data::Data,
    errhandler::Object,
    error::{Class, Error},
    message::{self, Found},
    program::put,
    request::Request,
    types::{Count, Handle, Status},
};

/// Gives the program what was found.
///
/// # Safety
/// The addresses are null, or can be written to.
unsafe fn found(
    (message, completed): Found,
    to: *mut Handle,
    status: *mut Status,
) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe {
        put(to, message)?;
        completed.write(status);
    }
    Ok(())
}

/// `MPI_Mprobe`.
pub unsafe fn mprobe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, a place for the message, and a status or null.
    unsafe {
        within(comm, "MPI_Mprobe", |comm| {
            let probed = message::probe(comm, source, tag, true)?;
            probed.map_or(Ok(()), |probed| found(probed, message, status))
        })
    }
}

/// `MPI_Improbe`.
pub unsafe fn improbe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    flag: *mut c_int,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, places for the answers, and a status or null.
    unsafe {
        within(comm, "MPI_Improbe", |comm| {
            let probed = message::probe(comm, source, tag, false)?;
            put(flag, probed.is_some().into())?;
            probed.map_or(Ok(()), |probed| found(probed, message, status))
        })
    }
}

/// Receives a message, gives what it has to say to `done`, and returns the result as MPI does.
///
/// # Safety
/// The address is that of a message's handle, and the data can be written to.
unsafe fn receive(
    (buffer, count, datatype): (*mut c_void, Count, Handle),
    message: *mut Handle,
    function: &str,
    done: impl FnOnce(Option<&message::Message>, Completed) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller says so.
    let taken = unsafe {
        match message.as_mut() {
            Some(message) => message::take(std::mem::replace(message, MPI_MESSAGE_NULL)),
            None => Err(Error::new(Class::Arg, "the address of the message is a null pointer")),
        }
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(error) => return error.raise(function, None),
    };
    // SAFETY: as above.
    let received = match (&taken, unsafe { Data::new(buffer, count, datatype) }) {
        (_, Err(error)) => Err(error),
        (None, Ok(_)) => Ok(Completed::FROM_NOBODY),
        (Some(message), Ok(data)) => Ok(message.receive(data)),
    };
    match received.and_then(|completed| done(taken.as_deref(), completed)) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => {
            let comm = taken.as_ref().map(|message| &*message.comm as &dyn Object);
            error.raise(function, comm)
        }
    }
}

/// `MPI_Mrecv`.
pub unsafe fn mrecv(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives data that can be written to, the address of a message's handle, and a status or null.
    unsafe {
        receive((buffer, count, datatype), message, "MPI_Mrecv", |_, completed| {
            completed.tell(status)
        })
    }
}

/// `MPI_Imrecv`. The message is there already, so that the request is done.
pub unsafe fn imrecv(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    message: *mut Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives data that can be written to, the address of a message's handle, and a place for the
    // request.
    unsafe {
        receive((buffer, count, datatype), message, "MPI_Imrecv", |message, completed| {
            put(request, Request::done(completed, message.map(|message| &*message.comm)))
        })
    }
}
