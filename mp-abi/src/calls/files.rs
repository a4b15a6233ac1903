//! Files: opening and closing, sizes, and error handlers.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_char, c_int, c_void};

use crate::{
    boxed::Boxed,
    callbacks::Kind,
    comm::{Comm, element},
    constants::MPI_FILE_NULL,
    errhandler::Handler,
    error::Error,
    file::{
        File, opening,
        representation::{Conversion, Registered, register},
        with_object, within, within_none,
    },
    info::Info,
    program::{put, text},
    types::{
        DatarepConversionFunction, DatarepExtentFunction, Handle, LargeDatarepConversionFunction,
        Offset,
    },
};

type Result<T> = std::result::Result<T, Error>;

/// `MPI_File_open`. What the info says is not used.
pub unsafe fn file_open(
    comm: Handle,
    name: *const c_char,
    mode: c_int,
    _info: Handle,
    file: *mut Handle,
) -> c_int {
    within_none("MPI_File_open", || {
        // SAFETY: the program gives a valid handle, a text, and a place for the result.
        unsafe {
            put(file, MPI_FILE_NULL)?;
            put(file, File::open(Comm::look(comm)?, text(name), mode)?.into_handle())
        }
    })
}

/// `MPI_File_close`.
pub unsafe fn file_close(file: *mut Handle) -> c_int {
    const NAME: &str = "MPI_File_close";
    // SAFETY: in both blocks: the program gives the address of a file's handle.
    match unsafe { element(file) } {
        // SAFETY: see above; the program does not use the handle afterwards.
        Ok(handle) => unsafe {
            within(handle, NAME, |open| {
                open.close()?;
                put(file, MPI_FILE_NULL)?;
                File::release(handle)
            })
        },
        Err(error) => within_none(NAME, || Err(error)),
    }
}

/// `MPI_File_delete`. What the info says is not used.
pub unsafe fn file_delete(name: *const c_char, _info: Handle) -> c_int {
    // SAFETY: the program gives a text.
    within_none("MPI_File_delete", || unsafe { opening::delete(&opening::path_of(text(name)?)?) })
}

/// `MPI_File_set_size`.
pub unsafe fn file_set_size(file: Handle, size: Offset) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_set_size", |file| file.set_size(size)) }
}

/// `MPI_File_preallocate`.
pub unsafe fn file_preallocate(file: Handle, size: Offset) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_preallocate", |file| file.preallocate(size)) }
}

/// `MPI_File_get_size`.
pub unsafe fn file_get_size(file: Handle, size: *mut Offset) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(file, "MPI_File_get_size", |file| put(size, file.size()?)) }
}

/// `MPI_File_sync`.
pub unsafe fn file_sync(file: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_sync", File::sync) }
}

/// `MPI_File_get_amode`.
pub unsafe fn file_get_amode(file: Handle, mode: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(file, "MPI_File_get_amode", |file| put(mode, file.mode)) }
}

/// `MPI_File_get_group`.
pub unsafe fn file_get_group(file: Handle, group: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe {
        within(file, "MPI_File_get_group", |file| put(group, file.group.clone().into_handle()))
    }
}

/// `MPI_File_set_info`. What the info says is not used.
pub unsafe fn file_set_info(file: Handle, _info: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_set_info", |_| Ok(())) }
}

/// `MPI_File_get_info`. No hint is used, so that the info is empty.
pub unsafe fn file_get_info(file: Handle, info: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe { within(file, "MPI_File_get_info", |_| put(info, Info::default().into_handle())) }
}

/// `MPI_File_set_atomicity`.
pub unsafe fn file_set_atomicity(file: Handle, flag: c_int) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_set_atomicity", |file| file.set_atomicity(flag != 0)) }
}

/// `MPI_File_get_atomicity`.
pub unsafe fn file_get_atomicity(file: Handle, flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(file, "MPI_File_get_atomicity", |file| put(flag, file.is_atomic().into())) }
}

/// `MPI_File_set_errhandler`. With `MPI_FILE_NULL` it is for files that are opened afterwards.
pub unsafe fn file_set_errhandler(file: Handle, errhandler: Handle) -> c_int {
    within_none("MPI_File_set_errhandler", || {
        // SAFETY: the program gives two valid handles.
        unsafe {
            with_object(file, |object| {
                object.errhandler().set(Handler::keep(errhandler, Kind::File)?);
                Ok(())
            })
        }
    })
}

/// `MPI_File_get_errhandler`.
pub unsafe fn file_get_errhandler(file: Handle, errhandler: *mut Handle) -> c_int {
    within_none("MPI_File_get_errhandler", || {
        // SAFETY: the program gives a valid handle, and a place for the answer.
        unsafe {
            with_object(file, |object| put(errhandler, object.errhandler().get().into_handle()))
        }
    })
}

/// `MPI_File_call_errhandler`.
pub unsafe fn file_call_errhandler(file: Handle, code: c_int) -> c_int {
    const NAME: &str = "MPI_File_call_errhandler";
    within_none(NAME, || {
        // SAFETY: the program gives a valid handle.
        unsafe {
            with_object(file, |object| {
                Error::of_program(code, "the program has called the error handler")
                    .raise(NAME, Some(object));
                Ok(())
            })
        }
    })
}

/// Registers a representation of data.
///
/// # Safety
/// The name is null, or a text.
unsafe fn add(
    name: *const c_char,
    [read, write]: [Option<Conversion>; 2],
    extent: Option<DatarepExtentFunction>,
    extra: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller says so.
    let name = unsafe { text(name)? }.to_owned();
    register(Registered { name, read, write, extent, extra })
}

/// `MPI_Register_datarep`.
pub unsafe fn register_datarep(
    name: *const c_char,
    read: Option<DatarepConversionFunction>,
    write: Option<DatarepConversionFunction>,
    extent: Option<DatarepExtentFunction>,
    extra: *mut c_void,
) -> c_int {
    within_none("MPI_Register_datarep", || {
        // SAFETY: the program gives a text.
        unsafe { add(name, [read, write].map(|one| one.map(Conversion::Int)), extent, extra) }
    })
}

/// `MPI_Register_datarep_c`.
pub unsafe fn register_datarep_c(
    name: *const c_char,
    read: Option<LargeDatarepConversionFunction>,
    write: Option<LargeDatarepConversionFunction>,
    extent: Option<DatarepExtentFunction>,
    extra: *mut c_void,
) -> c_int {
    within_none("MPI_Register_datarep_c", || {
        // SAFETY: the program gives a text.
        unsafe { add(name, [read, write].map(|one| one.map(Conversion::Large)), extent, extra) }
    })
}
