//! Windows: how they are made and freed, and what they have.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    ffi::{c_char, c_int, c_void},
    ptr::{null_mut, with_exposed_provenance_mut},
};

use super::{
    attributes::{free, put_found},
    communicators::cut,
};
use crate::{
    attributes::create_key,
    boxed::Boxed,
    callbacks::Kind,
    callbacks::Owner,
    comm::{Comm, within as within_comm},
    constants::{MPI_INFO_NULL, MPI_MAX_OBJECT_NAME, MPI_PROC_NULL, MPI_WIN_NULL},
    errhandler::{Handler, Object},
    error::{Class, Error},
    info::Info,
    program::{plainly, put, put_text, text},
    types::{Aint, CopyAttrFunction, Count, DeleteAttrFunction, Handle},
    window::{Win, making, within},
};

type Result<T> = std::result::Result<T, Error>;

/// The hints that a program may give, with what holds without them.
const HINTS: [(&str, &str); 7] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
];

/// Returns the hints of an info, and the usual ones for those that it does not have.
///
/// # Safety
/// The handle is one of an info that is not freed, or any number below 4096.
unsafe fn hints(info: Handle) -> Result<Info> {
    let hints = Info::new(HINTS.map(|(key, value)| (key, value.to_owned())));
    // SAFETY: the caller says so.
    unsafe { change(&hints, info)? };
    Ok(hints)
}

/// Takes over the hints that an info has.
///
/// # Safety
/// As for [`hints`].
unsafe fn change(hints: &Info, info: Handle) -> Result<()> {
    if info == MPI_INFO_NULL {
        return Ok(());
    }
    // SAFETY: the caller says so.
    let given = unsafe { Info::look(info)? };
    for (key, _) in HINTS {
        if let Some(value) = given.get(key.as_bytes())? {
            hints.set(key.as_bytes(), &value)?;
        }
    }
    Ok(())
}

/// Makes a window of a communicator's ranks, and gives the program its handle, and its address if there is a place for it.
///
/// # Safety
/// The handles are valid, or any numbers below 4096. The addresses are null or can be written to.
unsafe fn make(
    name: &'static str,
    comm: Handle,
    info: Handle,
    (base, window): (Option<*mut c_void>, *mut Handle),
    making: impl FnOnce(&Comm, Info) -> Result<Win>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within_comm(comm, name, |comm| {
            let made = making(comm, hints(info)?)?;
            if let Some(base) = base {
                put(base.cast::<*mut c_void>(), made.base())?;
            }
            put(window, made.into_handle())
        })
    }
}

/// `MPI_Win_create`.
pub unsafe fn win_create(
    base: *mut c_void,
    bytes: Aint,
    unit: Aint,
    info: Handle,
    comm: Handle,
    window: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, memory that ranks may access until the window is freed, and a place for
    // the result.
    unsafe {
        make("MPI_Win_create", comm, info, (None, window), |comm, hints| {
            making::create(comm, base, bytes, unit, hints)
        })
    }
}

/// `MPI_Win_allocate`.
pub unsafe fn win_allocate(
    bytes: Aint,
    unit: Aint,
    info: Handle,
    comm: Handle,
    base: *mut c_void,
    window: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and places for an address and for the result.
    unsafe {
        make("MPI_Win_allocate", comm, info, (Some(base), window), |comm, hints| {
            making::allocate(comm, bytes, unit, (false, true), hints)
        })
    }
}

/// `MPI_Win_allocate_shared`.
pub unsafe fn win_allocate_shared(
    bytes: Aint,
    unit: Aint,
    info: Handle,
    comm: Handle,
    base: *mut c_void,
    window: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and places for an address and for the result.
    unsafe {
        make("MPI_Win_allocate_shared", comm, info, (Some(base), window), |comm, hints| {
            let is_apart = hints.get(b"alloc_shared_noncontig")?.is_some_and(|one| one == b"true");
            making::allocate(comm, bytes, unit, (true, is_apart), hints)
        })
    }
}

/// `MPI_Win_create_dynamic`.
pub unsafe fn win_create_dynamic(info: Handle, comm: Handle, window: *mut Handle) -> c_int {
    // SAFETY: the program gives valid handles, and a place for the result.
    unsafe { make("MPI_Win_create_dynamic", comm, info, (None, window), making::create_dynamic) }
}

/// `MPI_Win_attach`.
pub unsafe fn win_attach(window: Handle, base: *mut c_void, bytes: Aint) -> c_int {
    // SAFETY: the program gives a valid handle, and memory that ranks may access until it is detached.
    unsafe {
        within(window, "MPI_Win_attach", |window| {
            let bytes = usize::try_from(bytes).map_err(|_| {
                Error::new(Class::Size, format!("the memory's size is negative: {bytes}"))
            })?;
            window.attach(base.expose_provenance(), bytes)
        })
    }
}

/// `MPI_Win_detach`.
pub unsafe fn win_detach(window: Handle, base: *const c_void) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_detach", |window| window.detach(base.addr())) }
}

/// `MPI_Win_free`.
pub unsafe fn win_free(window: *mut Handle) -> c_int {
    // SAFETY: the program gives the address of a window's handle, and does not use that any more.
    unsafe {
        let handle = window.as_ref().copied().unwrap_or(MPI_WIN_NULL);
        match Win::free(handle) {
            Ok(()) => plainly("MPI_Win_free", || put(window, MPI_WIN_NULL)),
            Err(error) => error
                .raise("MPI_Win_free", Win::look(handle).ok().map(|window| window as &dyn Object)),
        }
    }
}

/// `MPI_Win_shared_query`. Without a rank, it is the first one that has memory. The address is null if there is none.
pub unsafe fn win_shared_query(
    window: Handle,
    rank: c_int,
    bytes: *mut Aint,
    unit: *mut Count,
    base: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(window, "MPI_Win_shared_query", |window| {
            let found = match rank {
                MPI_PROC_NULL => window.targets.iter().find(|target| target.bytes > 0),
                _ => Some(window.target(rank)?),
            };
            let shared = found.and_then(|target| target.start().map(|start| (target, start)));
            let (size, step, start) = match shared {
                Some((target, start)) if target.bytes > 0 => {
                    (target.bytes as Aint, target.unit, with_exposed_provenance_mut(start))
                }
                _ => (0, 1, null_mut()),
            };
            put(bytes, size)?;
            put(unit, step as Count)?;
            put(base.cast::<*mut c_void>(), start)
        })
    }
}

/// `MPI_Win_get_group`.
pub unsafe fn win_get_group(window: Handle, group: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(window, "MPI_Win_get_group", |window| put(group, window.comm.group().into_handle()))
    }
}

/// `MPI_Win_set_info`.
pub unsafe fn win_set_info(window: Handle, info: Handle) -> c_int {
    // SAFETY: the program gives two valid handles.
    unsafe { within(window, "MPI_Win_set_info", |window| change(&window.hints, info)) }
}

/// `MPI_Win_get_info`.
pub unsafe fn win_get_info(window: Handle, info: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(window, "MPI_Win_get_info", |window| put(info, window.hints.clone().into_handle()))
    }
}

/// `MPI_Win_set_name`.
pub unsafe fn win_set_name(window: Handle, name: *const c_char) -> c_int {
    // SAFETY: the program gives a valid handle, and text that ends with a zero.
    unsafe {
        within(window, "MPI_Win_set_name", |window| {
            window.name.replace(cut(text(name)?));
            Ok(())
        })
    }
}

/// `MPI_Win_get_name`.
pub unsafe fn win_get_name(window: Handle, name: *mut c_char, length: *mut c_int) -> c_int {
    const NAME: &str = "MPI_Win_get_name";
    // SAFETY: the program gives a valid handle, and room for `MPI_MAX_OBJECT_NAME` characters.
    let put = |text: &[u8]| unsafe { put_text(name, MPI_MAX_OBJECT_NAME, length, text) };
    if window == MPI_WIN_NULL {
        return plainly(NAME, || put(b"MPI_WIN_NULL"));
    }
    // SAFETY: as above.
    unsafe { within(window, NAME, |window| put(window.name.borrow().as_bytes())) }
}

/// `MPI_Win_create_keyval`.
pub unsafe fn win_create_keyval(
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    key: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a place for the key.
    plainly("MPI_Win_create_keyval", || unsafe {
        put(key, create_key(Owner::Window, copy, delete, extra))
    })
}

/// `MPI_Win_free_keyval`.
pub unsafe fn win_free_keyval(key: *mut c_int) -> c_int {
    // SAFETY: the program gives the address of a key.
    plainly("MPI_Win_free_keyval", || unsafe { free(Owner::Window, key) })
}

/// `MPI_Win_set_attr`.
pub unsafe fn win_set_attr(window: Handle, key: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the program gives a valid handle, and a key for windows.
    unsafe {
        within(window, "MPI_Win_set_attr", |window| {
            window.attributes.set(window.handle(), key, value)
        })
    }
}

/// `MPI_Win_delete_attr`.
pub unsafe fn win_delete_attr(window: Handle, key: c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a key for windows.
    unsafe {
        within(window, "MPI_Win_delete_attr", |window| {
            window.attributes.delete(window.handle(), key)
        })
    }
}

/// `MPI_Win_get_attr`.
pub unsafe fn win_get_attr(
    window: Handle,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(window, "MPI_Win_get_attr", |window| {
            let found = match window.predefined(key) {
                Some(found) => Some(found),
                None => window.attributes.get(key)?,
            };
            put_found(found, value, flag)
        })
    }
}

/// `MPI_Win_set_errhandler`.
pub unsafe fn win_set_errhandler(window: Handle, errhandler: Handle) -> c_int {
    // SAFETY: the program gives two valid handles.
    unsafe {
        within(window, "MPI_Win_set_errhandler", |window| {
            window.errhandler().set(Handler::keep(errhandler, Kind::Win)?);
            Ok(())
        })
    }
}

/// `MPI_Win_get_errhandler`.
pub unsafe fn win_get_errhandler(window: Handle, errhandler: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(window, "MPI_Win_get_errhandler", |window| {
            put(errhandler, window.errhandler().get().into_handle())
        })
    }
}

/// `MPI_Win_call_errhandler`.
pub unsafe fn win_call_errhandler(window: Handle, code: c_int) -> c_int {
    const NAME: &str = "MPI_Win_call_errhandler";
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(window, NAME, |window| {
            Error::of_program(code, "the program has called the error handler")
                .raise(NAME, Some(window));
            Ok(())
        })
    }
}
