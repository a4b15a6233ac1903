//! Views of files, and the pointers in them.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_char, c_int};

use crate::{
    datatype::{TypeRef, data::Data},
    error::Error,
    file::{representation::Representation, within},
    program::{put, put_terminated, text},
    types::{Count, Handle, Offset},
};

/// Returns a type that a view consists of.
///
/// # Safety
/// The handle is one of a datatype.
unsafe fn committed(datatype: Handle) -> Result<TypeRef, Error> {
    // SAFETY: the caller says so; there are no elements.
    unsafe {
        Data::new(std::ptr::null(), 0, datatype)?;
        TypeRef::keep(datatype)
    }
}

/// `MPI_File_set_view`. What the info says is not used.
pub unsafe fn file_set_view(
    file: Handle,
    displacement: Offset,
    etype: Handle,
    filetype: Handle,
    representation: *const c_char,
    _info: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and a text.
    unsafe {
        within(file, "MPI_File_set_view", |file| {
            let types = || Ok([committed(etype)?, committed(filetype)?]);
            let representation = || Representation::find(text(representation)?);
            file.set_view(displacement, types(), representation())
        })
    }
}

/// `MPI_File_get_view`.
pub unsafe fn file_get_view(
    file: Handle,
    displacement: *mut Offset,
    etype: *mut Handle,
    filetype: *mut Handle,
    representation: *mut c_char,
) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(file, "MPI_File_get_view", |file| {
            let view = file.view();
            put(displacement, view.displacement)?;
            put(etype, view.etype.clone().into_handle())?;
            put(filetype, view.filetype.clone().into_handle())?;
            put_terminated(representation, view.representation.name())
        })
    }
}

/// `MPI_File_get_type_extent`.
pub unsafe fn file_get_type_extent(file: Handle, datatype: Handle, extent: *mut Count) -> c_int {
    // SAFETY: the program gives valid handles, and a place for the answer.
    unsafe {
        within(file, "MPI_File_get_type_extent", |file| {
            put(extent, file.view().representation.extent(&TypeRef::keep(datatype)?)?)
        })
    }
}

/// `MPI_File_seek`.
pub unsafe fn file_seek(file: Handle, offset: Offset, whence: c_int) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_seek", |file| file.seek(offset, whence)) }
}

/// `MPI_File_seek_shared`.
pub unsafe fn file_seek_shared(file: Handle, offset: Offset, whence: c_int) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(file, "MPI_File_seek_shared", |file| file.seek_shared(offset, whence)) }
}

/// `MPI_File_get_position`.
pub unsafe fn file_get_position(file: Handle, position: *mut Offset) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(file, "MPI_File_get_position", |file| {
            file.check_random()?;
            put(position, file.position())
        })
    }
}

/// `MPI_File_get_position_shared`.
pub unsafe fn file_get_position_shared(file: Handle, position: *mut Offset) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(file, "MPI_File_get_position_shared", |file| put(position, file.shared_position()))
    }
}

/// `MPI_File_get_byte_offset`.
pub unsafe fn file_get_byte_offset(file: Handle, position: Offset, to: *mut Offset) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(file, "MPI_File_get_byte_offset", |file| put(to, file.byte_offset(position)?)) }
}
