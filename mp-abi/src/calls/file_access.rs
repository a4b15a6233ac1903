//! Reading and writing files, each rank for itself.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use crate::{
    completed::Completed,
    datatype::data::Data,
    error::Error,
    file::{
        File,
        access::{Start, Way},
        within,
    },
    program::put,
    request::Request,
    types::{Count, Handle, Offset, Status},
};

/// Whether to read or to write, where, and the function that is called.
pub(super) type What = (Way, Start, &'static str);
/// A buffer, a count and a type.
pub(super) type Elements = (*const c_void, Count, Handle);

/// Reads or writes, and does something with what there is to say.
///
/// # Safety
/// The handles are valid, and the data can be read, or written to.
pub(super) unsafe fn perform(
    file: Handle,
    (way, start, function): What,
    (buffer, count, datatype): Elements,
    tell: impl FnOnce(&File, Completed) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(file, function, |file| {
            let data = Data::new(buffer, count, datatype);
            tell(file, file.access(way, start, data, datatype)?)
        })
    }
}

/// Reads or writes, and fills a status.
///
/// # Safety
/// As for [`perform`]; the status is null, or can be written to.
pub(super) unsafe fn access(
    file: Handle,
    what: What,
    elements: Elements,
    status: *mut Status,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { perform(file, what, elements, |_, completed| completed.tell(status)) }
}

/// Reads or writes at once, and makes a request that tells it.
///
/// # Safety
/// As for [`perform`]; the request is null, or can be written to.
pub(super) unsafe fn access_later(
    file: Handle,
    what: What,
    elements: Elements,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        perform(file, what, elements, |_, completed| put(request, Request::done(completed, None)))
    }
}

/// `MPI_File_read_at`.
pub unsafe fn file_read_at(
    file: Handle,
    offset: Offset,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the status.
    unsafe {
        let what = (Way::Read, Start::At(offset), "MPI_File_read_at");
        access(file, what, (buffer.cast_const(), count, datatype), status)
    }
}

/// `MPI_File_iread_at`.
pub unsafe fn file_iread_at(
    file: Handle,
    offset: Offset,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the request.
    unsafe {
        let what = (Way::Read, Start::At(offset), "MPI_File_iread_at");
        access_later(file, what, (buffer.cast_const(), count, datatype), request)
    }
}

/// `MPI_File_read`.
pub unsafe fn file_read(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the status.
    unsafe {
        let what = (Way::Read, Start::Own, "MPI_File_read");
        access(file, what, (buffer.cast_const(), count, datatype), status)
    }
}

/// `MPI_File_iread`.
pub unsafe fn file_iread(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the request.
    unsafe {
        let what = (Way::Read, Start::Own, "MPI_File_iread");
        access_later(file, what, (buffer.cast_const(), count, datatype), request)
    }
}

/// `MPI_File_read_shared`.
pub unsafe fn file_read_shared(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the status.
    unsafe {
        let what = (Way::Read, Start::Shared, "MPI_File_read_shared");
        access(file, what, (buffer.cast_const(), count, datatype), status)
    }
}

/// `MPI_File_iread_shared`.
pub unsafe fn file_iread_shared(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the request.
    unsafe {
        let what = (Way::Read, Start::Shared, "MPI_File_iread_shared");
        access_later(file, what, (buffer.cast_const(), count, datatype), request)
    }
}

/// `MPI_File_write_at`.
pub unsafe fn file_write_at(
    file: Handle,
    offset: Offset,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the status.
    unsafe {
        let what = (Way::Write, Start::At(offset), "MPI_File_write_at");
        access(file, what, (buffer, count, datatype), status)
    }
}

/// `MPI_File_iwrite_at`.
pub unsafe fn file_iwrite_at(
    file: Handle,
    offset: Offset,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the request.
    unsafe {
        let what = (Way::Write, Start::At(offset), "MPI_File_iwrite_at");
        access_later(file, what, (buffer, count, datatype), request)
    }
}

/// `MPI_File_write`.
pub unsafe fn file_write(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the status.
    unsafe {
        let what = (Way::Write, Start::Own, "MPI_File_write");
        access(file, what, (buffer, count, datatype), status)
    }
}

/// `MPI_File_iwrite`.
pub unsafe fn file_iwrite(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the request.
    unsafe {
        let what = (Way::Write, Start::Own, "MPI_File_iwrite");
        access_later(file, what, (buffer, count, datatype), request)
    }
}

/// `MPI_File_write_shared`.
pub unsafe fn file_write_shared(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the status.
    unsafe {
        let what = (Way::Write, Start::Shared, "MPI_File_write_shared");
        access(file, what, (buffer, count, datatype), status)
    }
}

/// `MPI_File_iwrite_shared`.
pub unsafe fn file_iwrite_shared(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the request.
    unsafe {
        let what = (Way::Write, Start::Shared, "MPI_File_iwrite_shared");
        access_later(file, what, (buffer, count, datatype), request)
    }
}
