//! Communicators.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_char, c_int};

use crate::{
    buffered,
    callbacks::Kind,
    comm::{Comm, element, within},
    constants::{MPI_COMM_NULL, MPI_MAX_OBJECT_NAME, MPI_SUCCESS, MPI_UNDEFINED},
    duplicating,
    errhandler::{Handler, Object},
    error::{Class, Error},
    group::Group,
    handles::{Place, sent},
    info::Info,
    program::{plainly, put, put_text, text},
    request::Request,
    spawning, splitting,
    types::Handle,
};

/// `MPI_Comm_size`.
pub unsafe fn comm_size(comm: Handle, size: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(comm, "MPI_Comm_size", |comm| put(size, comm.size)) }
}

/// `MPI_Comm_rank`.
pub unsafe fn comm_rank(comm: Handle, rank: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(comm, "MPI_Comm_rank", |comm| put(rank, comm.rank)) }
}

/// `MPI_Comm_group`.
pub unsafe fn comm_group(comm: Handle, group: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(comm, "MPI_Comm_group", |comm| put(group, comm.group().into_handle())) }
}

/// `MPI_Comm_compare`.
pub unsafe fn comm_compare(one: Handle, other: Handle, result: *mut c_int) -> c_int {
    // SAFETY: the program gives two valid handles, and a place for the answer.
    unsafe { within(one, "MPI_Comm_compare", |comm| put(result, comm.compare(Comm::look(other)?))) }
}

/// `MPI_Comm_dup`.
pub unsafe fn comm_dup(comm: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe {
        within(comm, "MPI_Comm_dup", |comm| {
            // Without a result the program has no communicator to free.
            put(to, MPI_COMM_NULL)?;
            let attributes = comm.attributes.copy(comm.handle())?;
            let copy = splitting::duplicate(comm)?;
            put(to, comm.copy(copy, attributes).into_handle())
        })
    }
}

/// `MPI_Comm_dup_with_info`. What the info says is not used.
pub unsafe fn comm_dup_with_info(comm: Handle, _info: Handle, to: *mut Handle) -> c_int {
    // SAFETY: as there.
    unsafe { comm_dup(comm, to) }
}

/// `MPI_Comm_idup`.
pub unsafe fn comm_idup(comm: Handle, to: Place, request: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, a place for the result until the request is complete, and one for the
    // request.
    unsafe {
        within(comm, "MPI_Comm_idup", |comm| {
            let attributes = comm.attributes.copy(comm.handle())?;
            let going = duplicating::begin(comm, attributes, to)?;
            put(request, going.map_or(sent(), |going| Request::of(comm, going)))
        })
    }
}

/// `MPI_Comm_idup_with_info`. What the info says is not used.
pub unsafe fn comm_idup_with_info(
    comm: Handle,
    _info: Handle,
    to: Place,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as there.
    unsafe { comm_idup(comm, to, request) }
}

/// `MPI_Comm_set_info`. What the info says is not used.
pub unsafe fn comm_set_info(comm: Handle, _info: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(comm, "MPI_Comm_set_info", |_| Ok(())) }
}

/// `MPI_Comm_get_info`. No hint is used, so that the info is empty.
pub unsafe fn comm_get_info(comm: Handle, info: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe { within(comm, "MPI_Comm_get_info", |_| put(info, Info::default().into_handle())) }
}

/// `MPI_Comm_split`.
pub unsafe fn comm_split(comm: Handle, color: c_int, key: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe {
        within(comm, "MPI_Comm_split", |comm| {
            let color = match color {
                MPI_UNDEFINED => None,
                0.. => Some(color as u64),
                _ => return Err(Error::new(Class::Arg, format!("{color} is no color"))),
            };
            put(to, split(comm, color, key)?)
        })
    }
}

pub(super) fn split(comm: &Comm, color: Option<u64>, key: c_int) -> Result<Handle, Error> {
    // The groups of an intercommunicator keep their order.
    let key = (i64::from(comm.is_second()) << 33) + i64::from(key);
    let part = splitting::split(comm, color, key)?;
    let part = part.and_then(|part| comm.part(part));
    Ok(part.map_or(MPI_COMM_NULL, Comm::into_handle))
}

/// `MPI_Comm_create`. Ranks may name groups that have no rank in common.
pub unsafe fn comm_create(comm: Handle, group: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives two valid handles, and a place for the result.
    unsafe {
        within(comm, "MPI_Comm_create", |comm| {
            let (all, group) = (comm.group(), Group::look(group)?);
            if group.ranks.iter().any(|&rank| all.place(rank) == MPI_UNDEFINED) {
                let text = "the group has ranks that are not in the communicator";
                return Err(Error::new(Class::Group, text));
            }
            // The ranks of one group have the place of its first rank as their color. In an intercommunicator there is
            // one group on each side.
            let color = match (group.rank(), group.ranks.first()) {
                (0.., _) if comm.is_inter() => Some(0),
                (0.., Some(&first)) => Some(all.place(first) as u64),
                _ => None,
            };
            put(to, split(comm, color, group.rank())?)
        })
    }
}

/// `MPI_Comm_free`.
pub unsafe fn comm_free(comm: *mut Handle) -> c_int {
    // SAFETY: the program gives the address of a communicator's handle, and does not use that any more.
    unsafe { free("MPI_Comm_free", comm) }
}

/// Frees a communicator, unless the function of an attribute refuses. The communicator's error handler gets that error.
///
/// # Safety
/// The address is null, or has the handle of a communicator, which the program does not use any more.
unsafe fn free(function: &'static str, comm: *mut Handle) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        let handle = comm.as_ref().copied().unwrap_or(MPI_COMM_NULL);
        if handle.addr() >= 4096 {
            let deleted = within(handle, function, |comm| comm.attributes.delete_all(handle));
            if deleted != MPI_SUCCESS {
                return deleted;
            }
        }
        plainly(function, || {
            Comm::release(element(comm)?)?;
            spawning::forget_parent(handle);
            put(comm, MPI_COMM_NULL)
        })
    }
}

/// `MPI_Comm_disconnect`. Waits until the messages of this rank are sent.
pub unsafe fn comm_disconnect(comm: *mut Handle) -> c_int {
    let function = "MPI_Comm_disconnect";
    // SAFETY: the program gives the address of a communicator's handle, and does not use that any more.
    unsafe {
        let handle = comm.as_ref().copied().unwrap_or(MPI_COMM_NULL);
        let flushed = within(handle, function, |comm| buffered::flush(&comm.communicator));
        if flushed == MPI_SUCCESS { free(function, comm) } else { flushed }
    }
}

/// `MPI_Comm_set_name`.
pub unsafe fn comm_set_name(comm: Handle, name: *const c_char) -> c_int {
    // SAFETY: the program gives a valid handle, and text that ends with a zero.
    unsafe {
        within(comm, "MPI_Comm_set_name", |comm| {
            comm.set_name(&cut(text(name)?));
            Ok(())
        })
    }
}

/// `MPI_Comm_get_name`.
pub unsafe fn comm_get_name(comm: Handle, name: *mut c_char, length: *mut c_int) -> c_int {
    const NAME: &str = "MPI_Comm_get_name";
    // SAFETY: the program gives a valid handle, and room for `MPI_MAX_OBJECT_NAME` characters.
    let put = |text: &[u8]| unsafe { put_text(name, MPI_MAX_OBJECT_NAME, length, text) };
    if comm == MPI_COMM_NULL {
        return plainly(NAME, || put(b"MPI_COMM_NULL"));
    }
    // SAFETY: as above.
    unsafe { within(comm, NAME, |comm| put(comm.name().as_bytes())) }
}

/// Returns the name that a program gives to an object, as far as there is room for it.
pub(crate) fn cut(name: &[u8]) -> String {
    let room = name.len().min(MPI_MAX_OBJECT_NAME as usize - 1);
    String::from_utf8_lossy(&name[..room]).into_owned()
}

/// `MPI_Comm_set_errhandler`.
pub unsafe fn comm_set_errhandler(comm: Handle, errhandler: Handle) -> c_int {
    // SAFETY: the program gives two valid handles.
    unsafe {
        within(comm, "MPI_Comm_set_errhandler", |comm| {
            comm.errhandler().set(Handler::keep(errhandler, Kind::Comm)?);
            Ok(())
        })
    }
}

/// `MPI_Comm_call_errhandler`.
pub unsafe fn comm_call_errhandler(comm: Handle, code: c_int) -> c_int {
    const NAME: &str = "MPI_Comm_call_errhandler";
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(comm, NAME, |comm| {
            Error::of_program(code, "the program has called the error handler")
                .raise(NAME, Some(comm));
            Ok(())
        })
    }
}

/// `MPI_Comm_get_errhandler`.
pub unsafe fn comm_get_errhandler(comm: Handle, errhandler: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(comm, "MPI_Comm_get_errhandler", |comm| {
            put(errhandler, comm.errhandler().get().into_handle())
        })
    }
}

/// `MPI_Comm_get_parent`.
pub unsafe fn comm_get_parent(parent: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the answer.
    plainly("MPI_Comm_get_parent", || unsafe { put(parent, spawning::parent()) })
}
