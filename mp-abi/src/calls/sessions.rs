//! Sessions, and communicators of their groups.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_char, c_int, c_void};

use crate::{
    boxed::Boxed,
    buffered,
    callbacks::Kind,
    comm::{Comm, element},
    constants::{MPI_COMM_NULL, MPI_SESSION_NULL, MPI_SUCCESS, MPI_UNDEFINED},
    errhandler::{Handler, Object, Slot, with},
    error::{Class, Error},
    everyone::all,
    founding::{Founders, tag_of_text},
    group::Group,
    handles::sent,
    info::Info,
    life::{begin_session, end_session, has_threads},
    program::{plainly, put, put_terminated, text},
    session::{PROCESS_SETS, Session, thread_level_of},
    types::{Count, Handle},
};

/// Calls a function with the session of a handle, and returns its result as MPI does.
///
/// # Safety
/// As for [`Session::look`].
unsafe fn within(
    handle: Handle,
    function: &str,
    call: impl FnOnce(&Session) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller says so.
    with(unsafe { Session::look(handle) }, function, call)
}

/// `MPI_Session_init`. What the info says about threads counts.
pub unsafe fn session_init(info: Handle, errhandler: Handle, session: *mut Handle) -> c_int {
    const NAME: &str = "MPI_Session_init";
    // SAFETY: in this and the other blocks of the function: the program gives two valid handles, and a place for the
    // result.
    let made = match unsafe { Handler::keep(errhandler, Kind::Session) } {
        Ok(handler) => Session::new(handler),
        Err(error) => return error.raise(NAME, None),
    };
    // SAFETY: see above.
    match unsafe { thread_level_of(info) }.and_then(begin_session) {
        // SAFETY: see above.
        Ok(()) => plainly(NAME, || unsafe { put(session, made.into_handle()) }),
        Err(error) => error.raise(NAME, Some(&made)),
    }
}

/// `MPI_Session_finalize`.
pub unsafe fn session_finalize(session: *mut Handle) -> c_int {
    plainly("MPI_Session_finalize", || {
        // SAFETY: the program gives the address of a session's handle, and does not use that any more.
        unsafe {
            Session::release(element(session)?)?;
            end_session();
            put(session, MPI_SESSION_NULL)
        }
    })
}

/// `MPI_Session_get_info`.
pub unsafe fn session_get_info(session: Handle, info: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe { within(session, "MPI_Session_get_info", |_| put(info, Session::info().into_handle())) }
}

/// `MPI_Session_get_num_psets`.
pub unsafe fn session_get_num_psets(session: Handle, _info: Handle, count: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(session, "MPI_Session_get_num_psets", |_| put(count, PROCESS_SETS.len() as c_int))
    }
}

/// `MPI_Session_get_nth_pset`.
pub unsafe fn session_get_nth_pset(
    session: Handle,
    _info: Handle,
    place: c_int,
    room: *mut c_int,
    name: *mut c_char,
) -> c_int {
    // SAFETY: the program gives a valid handle, a number, and room for as many characters as that says.
    unsafe {
        within(session, "MPI_Session_get_nth_pset", |_| {
            let set = usize::try_from(place).ok().and_then(|place| PROCESS_SETS.get(place));
            let Some(set) = set else {
                let text = format!("there is no process set {place} of {}", PROCESS_SETS.len());
                return Err(Error::new(Class::Arg, text));
            };
            if let letters @ 0.. = element(room)? - 1 {
                put_terminated(name, &set.as_bytes()[..set.len().min(letters as usize)])?;
            }
            put(room, set.len() as c_int + 1)
        })
    }
}

/// Returns the ranks of a process set.
///
/// # Safety
/// The name is null, or a text.
unsafe fn group_of(name: *const c_char) -> Result<Group, Error> {
    let group = all()?.group();
    // SAFETY: the caller says so.
    let name = unsafe { text(name)? };
    match PROCESS_SETS.iter().position(|set| set.as_bytes().eq_ignore_ascii_case(name)) {
        Some(0) => Ok(group),
        Some(_) => Ok(group.with(vec![group.me])),
        None => {
            let text = format!("there is no process set {:?}", name.escape_ascii().to_string());
            Err(Error::new(Class::Arg, text))
        }
    }
}

/// `MPI_Session_get_pset_info`.
pub unsafe fn session_get_pset_info(
    session: Handle,
    name: *const c_char,
    info: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, a text, and a place for the result.
    unsafe {
        within(session, "MPI_Session_get_pset_info", |_| {
            let size = group_of(name)?.ranks.len();
            put(info, Info::new([("mpi_size", size.to_string())]).into_handle())
        })
    }
}

/// `MPI_Group_from_session_pset`.
pub unsafe fn group_from_session_pset(
    session: Handle,
    name: *const c_char,
    group: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, a text, and a place for the result.
    unsafe {
        within(session, "MPI_Group_from_session_pset", |_| {
            put(group, group_of(name)?.into_handle())
        })
    }
}

/// `MPI_Session_set_errhandler`.
pub unsafe fn session_set_errhandler(session: Handle, errhandler: Handle) -> c_int {
    // SAFETY: the program gives two valid handles.
    unsafe {
        within(session, "MPI_Session_set_errhandler", |session| {
            session.errhandler().set(Handler::keep(errhandler, Kind::Session)?);
            Ok(())
        })
    }
}

/// `MPI_Session_get_errhandler`.
pub unsafe fn session_get_errhandler(session: Handle, errhandler: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(session, "MPI_Session_get_errhandler", |session| {
            put(errhandler, session.errhandler().get().into_handle())
        })
    }
}

/// `MPI_Session_call_errhandler`.
pub unsafe fn session_call_errhandler(session: Handle, code: c_int) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(session, "MPI_Session_call_errhandler", |session| {
            Error::of_program(code, "the program has called the error handler")
                .raise("MPI_Session_call_errhandler", Some(session));
            Ok(())
        })
    }
}

/// `MPI_Session_attach_buffer`.
pub unsafe fn session_attach_buffer(session: Handle, buffer: *mut c_void, size: Count) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(session, "MPI_Session_attach_buffer", |session| {
            session.attached.attach(buffer, size)
        })
    }
}

/// `MPI_Session_detach_buffer`. Waits until all buffered messages are sent.
pub unsafe fn session_detach_buffer(
    session: Handle,
    buffer: *mut c_void,
    size: *mut Count,
) -> c_int {
    // SAFETY: the program gives a valid handle, the place for an address, and one for a size.
    unsafe {
        within(session, "MPI_Session_detach_buffer", |session| {
            buffered::flush(&all()?.communicator)?;
            session.attached.detach(buffer, size)
        })
    }
}

/// `MPI_Session_flush_buffer`. Waits until all buffered messages are sent.
pub unsafe fn session_flush_buffer(session: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(session, "MPI_Session_flush_buffer", |_| buffered::flush(&all()?.communicator))
    }
}

/// `MPI_Session_iflush_buffer`. There is nothing to wait for, because the buffer is empty.
pub unsafe fn session_iflush_buffer(session: Handle, request: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the request.
    unsafe { within(session, "MPI_Session_iflush_buffer", |_| put(request, sent())) }
}

/// The error handler for a communicator that is not there yet.
struct Given(Slot);

impl Object for Given {
    fn handle(&self) -> Handle {
        MPI_COMM_NULL
    }

    fn errhandler(&self) -> &Slot {
        &self.0
    }
}

/// Gives the program a communicator, or gives an error to the handler that the communicator would get.
///
/// # Safety
/// The handle is one of an error handler, and the address can be written to.
unsafe fn create(
    function: &str,
    errhandler: Handle,
    to: *mut Handle,
    make: impl FnOnce(Handler) -> Result<Handle, Error>,
) -> c_int {
    // SAFETY: the caller says so.
    let handler = match unsafe { Handler::keep(errhandler, Kind::Comm) } {
        Ok(handler) => handler,
        Err(error) => return error.raise(function, None),
    };
    // SAFETY: as above.
    match make(handler.clone()).and_then(|made| unsafe { put(to, made) }) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => error.raise(function, Some(&Given(Slot::new(handler)))),
    }
}

/// `MPI_Comm_create_from_group`. What the info says is not used.
pub unsafe fn comm_create_from_group(
    group: Handle,
    tag: *const c_char,
    _info: Handle,
    errhandler: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, a text, and a place for the result.
    unsafe {
        create("MPI_Comm_create_from_group", errhandler, to, |handler| {
            let group = Group::look(group)?;
            if group.ranks.is_empty() {
                return Ok(MPI_COMM_NULL);
            }
            check_member(group)?;
            let (via, tag) = (&all()?.communicator, tag_of_text(text(tag)?, &group.ranks));
            let founders = Founders { via, group, tag, has_threads: has_threads() };
            let (made, has_threads) = founders.communicator("MPI_Comm_create_from_group")?;
            Ok(Comm::new(made, "", handler).threaded(has_threads).into_handle())
        })
    }
}

fn check_member(group: &Group) -> Result<(), Error> {
    match group.rank() {
        MPI_UNDEFINED => Err(Error::new(Class::Group, "this rank is not in the group")),
        _ => Ok(()),
    }
}

/// `MPI_Intercomm_create_from_groups`. Only the local leader's remote group and leader count. What the info says is not
/// used.
pub unsafe fn intercomm_create_from_groups(
    local: Handle,
    local_leader: c_int,
    remote: Handle,
    remote_leader: c_int,
    tag: *const c_char,
    _info: Handle,
    errhandler: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, a text, and a place for the result.
    unsafe {
        create("MPI_Intercomm_create_from_groups", errhandler, to, |handler| {
            let (group, tag) = (Group::look(local)?, text(tag)?);
            check_member(group)?;
            let via = &all()?.communicator;
            let of_group = tag_of_text(tag, &group.ranks);
            let founders = Founders { via, group, tag: of_group, has_threads: has_threads() };
            let both = founders.with_another_group(local_leader, || {
                let leader = Group::look(remote)?.world(remote_leader)?;
                Ok((via, leader, tag_of_text(tag, &[])))
            })?;
            Ok(both.into_comm(handler).into_handle())
        })
    }
}
