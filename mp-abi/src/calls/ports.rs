//! Ports and published names, by which groups of ranks connect that have no communicator in common.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    ffi::{c_char, c_int},
    time::Duration,
};

use crate::{
    comm::{Comm, within},
    connecting::{self, at_other_end, await_caller, call, meet},
    constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_INFO_NULL, MPI_MAX_PORT_NAME},
    error::{Class, Error},
    info::Info,
    program::{plainly, put, put_terminated, text},
    state,
    types::Handle,
};

/// How long a group waits for another one to accept it, which may serve others before.
const PATIENCE: Duration = Duration::from_secs(600);

/// `MPI_Open_port`.
pub unsafe fn open_port(_info: Handle, name: *mut c_char) -> c_int {
    // SAFETY: the program gives room for `MPI_MAX_PORT_NAME` characters, which is more than names have.
    plainly("MPI_Open_port", || unsafe {
        put_terminated(name, connecting::open_port()?.as_bytes())
    })
}

/// `MPI_Close_port`.
pub unsafe fn close_port(name: *const c_char) -> c_int {
    // SAFETY: the program gives a text.
    plainly("MPI_Close_port", || connecting::close_port(unsafe { text(name)? }))
}

/// `MPI_Comm_accept`.
pub unsafe fn comm_accept(
    port: *const c_char,
    _info: Handle,
    root: c_int,
    comm: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, a place for the result, and in the root a text.
    unsafe {
        within(comm, "MPI_Comm_accept", |comm| {
            join_with(comm, root, to, || await_caller(text(port)?))
        })
    }
}

/// `MPI_Comm_connect`.
pub unsafe fn comm_connect(
    port: *const c_char,
    info: Handle,
    root: c_int,
    comm: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, a place for the result, and in the root a text and an info.
    unsafe {
        within(comm, "MPI_Comm_connect", |comm| {
            join_with(comm, root, to, || call(text(port)?, limit_of(info)?))
        })
    }
}

/// Returns how long a call to a port waits: the seconds of the info's `timeout`, which other libraries have, too.
///
/// # Safety
/// The handle is null, or one of an info.
unsafe fn limit_of(info: Handle) -> Result<Duration, Error> {
    if info == MPI_INFO_NULL {
        return Ok(PATIENCE);
    }
    // SAFETY: the caller says so.
    let Some(seconds) = unsafe { Info::look(info)? }.get(b"timeout")? else { return Ok(PATIENCE) };
    let number = str::from_utf8(&seconds).ok().and_then(|text| text.trim().parse().ok());
    number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
        let seconds = seconds.escape_ascii();
        Error::new(Class::InfoValue, format!("the timeout {seconds} is no number of seconds"))
    })
}

/// Makes an intercommunicator with another group, whose leader the root finds.
///
/// # Safety
/// The address is null, or can be written to.
unsafe fn join_with(
    comm: &Comm,
    root: c_int,
    to: *mut Handle,
    find: impl FnOnce() -> Result<usize, Error>,
) -> Result<(), Error> {
    comm.check_intra()?;
    comm.root(root)?;
    // SAFETY: the caller says so.
    unsafe {
        put(to, MPI_COMM_NULL)?;
        put(to, meet(comm, root, find)?.into_handle())
    }
}

/// `MPI_Comm_join`. There is no communicator with a process of another world.
pub unsafe fn comm_join(socket: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the result.
    plainly("MPI_Comm_join", || unsafe {
        put(to, MPI_COMM_NULL)?;
        match at_other_end(socket)? {
            None => Ok(()),
            Some(other) if other == state::rank()?.id() => {
                Err(Error::new(Class::Arg, "both ends of the socket are this rank's"))
            }
            Some(other) => join_with(Comm::look(MPI_COMM_SELF)?, 0, to, || Ok(other)),
        }
    })
}

/// `MPI_Publish_name`. The name is known in this world.
pub unsafe fn publish_name(service: *const c_char, _info: Handle, port: *const c_char) -> c_int {
    // SAFETY: the program gives two texts.
    plainly("MPI_Publish_name", || unsafe {
        let (service, port) = (text(service)?, text(port)?);
        if port.len() >= MPI_MAX_PORT_NAME as usize {
            return Err(Error::new(Class::Port, "the name of the port is too long"));
        }
        let is_new = state::rank()?.publish(&key(service), port)?;
        is_new.then_some(()).ok_or_else(|| {
            let service = service.escape_ascii();
            Error::new(Class::Service, format!("the name \"{service}\" is published already"))
        })
    })
}

/// `MPI_Unpublish_name`.
pub unsafe fn unpublish_name(service: *const c_char, _info: Handle, _port: *const c_char) -> c_int {
    // SAFETY: the program gives a text.
    plainly("MPI_Unpublish_name", || unsafe {
        let service = text(service)?;
        let was_there = state::rank()?.unpublish(&key(service))?;
        was_there.then_some(()).ok_or_else(|| not_published(Class::Service, service))
    })
}

/// `MPI_Lookup_name`.
pub unsafe fn lookup_name(service: *const c_char, _info: Handle, port: *mut c_char) -> c_int {
    // SAFETY: the program gives a text, and room for `MPI_MAX_PORT_NAME` characters, which published texts fit into.
    plainly("MPI_Lookup_name", || unsafe {
        let service = text(service)?;
        let found = state::rank()?.published(&key(service))?;
        put_terminated(port, &found.ok_or_else(|| not_published(Class::Name, service))?)
    })
}

/// Returns the key under which the launcher keeps a name, apart from those of ports.
fn key(service: &[u8]) -> Vec<u8> {
    [b"name ", service].concat()
}

fn not_published(class: Class, service: &[u8]) -> Error {
    Error::new(class, format!("the name \"{}\" is not published", service.escape_ascii()))
}
