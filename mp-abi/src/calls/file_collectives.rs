//! Reading and writing files, all ranks together. Each accesses its own data: a rank waits for others only to learn where
//! its turn at the shared pointer is.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use super::file_access::{Elements, What, access, access_later, perform};
use crate::{
    constants::MPI_SUCCESS,
    file::{
        File,
        access::{Start, Way},
        within,
    },
    types::{Count, Handle, Offset, Status},
};

/// Reads or writes at once, and keeps what there is to say until the access is [ended](end).
///
/// # Safety
/// The handles are valid, and the data can be read, or written to.
unsafe fn begin(file: Handle, what: What, elements: Elements) -> c_int {
    let function = what.2;
    // SAFETY: in both blocks: the caller says so.
    let code = unsafe { within(file, function, File::check_idle) };
    if code != MPI_SUCCESS {
        return code;
    }
    // SAFETY: see above.
    unsafe {
        perform(file, what, elements, |file, completed| {
            file.begun(function, completed);
            Ok(())
        })
    }
}

/// Ends what this function has begun.
///
/// # Safety
/// The handle is valid, and the status is null, or can be written to.
unsafe fn end(
    file: Handle,
    begun: &'static str,
    function: &'static str,
    status: *mut Status,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { within(file, function, |file| file.end(begun)?.tell(status)) }
}

/// `MPI_File_read_at_all`.
pub unsafe fn file_read_at_all(
    file: Handle,
    offset: Offset,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the status.
    unsafe {
        let what = (Way::Read, Start::At(offset), "MPI_File_read_at_all");
        access(file, what, (buffer.cast_const(), count, datatype), status)
    }
}

/// `MPI_File_iread_at_all`.
pub unsafe fn file_iread_at_all(
    file: Handle,
    offset: Offset,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the request.
    unsafe {
        let what = (Way::Read, Start::At(offset), "MPI_File_iread_at_all");
        access_later(file, what, (buffer.cast_const(), count, datatype), request)
    }
}

/// `MPI_File_read_at_all_begin`.
pub unsafe fn file_read_at_all_begin(
    file: Handle,
    offset: Offset,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be written to.
    unsafe {
        let what = (Way::Read, Start::At(offset), "MPI_File_read_at_all_begin");
        begin(file, what, (buffer.cast_const(), count, datatype))
    }
}

/// `MPI_File_read_at_all_end`.
pub unsafe fn file_read_at_all_end(
    file: Handle,
    _buffer: *mut c_void,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the status.
    unsafe { end(file, "MPI_File_read_at_all_begin", "MPI_File_read_at_all_end", status) }
}

/// `MPI_File_read_all`.
pub unsafe fn file_read_all(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the status.
    unsafe {
        let what = (Way::Read, Start::Own, "MPI_File_read_all");
        access(file, what, (buffer.cast_const(), count, datatype), status)
    }
}

/// `MPI_File_iread_all`.
pub unsafe fn file_iread_all(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the request.
    unsafe {
        let what = (Way::Read, Start::Own, "MPI_File_iread_all");
        access_later(file, what, (buffer.cast_const(), count, datatype), request)
    }
}

/// `MPI_File_read_all_begin`.
pub unsafe fn file_read_all_begin(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be written to.
    unsafe {
        let what = (Way::Read, Start::Own, "MPI_File_read_all_begin");
        begin(file, what, (buffer.cast_const(), count, datatype))
    }
}

/// `MPI_File_read_all_end`.
pub unsafe fn file_read_all_end(file: Handle, _buffer: *mut c_void, status: *mut Status) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the status.
    unsafe { end(file, "MPI_File_read_all_begin", "MPI_File_read_all_end", status) }
}

/// `MPI_File_read_ordered`.
pub unsafe fn file_read_ordered(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and a place for the status.
    unsafe {
        let what = (Way::Read, Start::Ordered, "MPI_File_read_ordered");
        access(file, what, (buffer.cast_const(), count, datatype), status)
    }
}

/// `MPI_File_read_ordered_begin`.
pub unsafe fn file_read_ordered_begin(
    file: Handle,
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be written to.
    unsafe {
        let what = (Way::Read, Start::Ordered, "MPI_File_read_ordered_begin");
        begin(file, what, (buffer.cast_const(), count, datatype))
    }
}

/// `MPI_File_read_ordered_end`.
pub unsafe fn file_read_ordered_end(
    file: Handle,
    _buffer: *mut c_void,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the status.
    unsafe { end(file, "MPI_File_read_ordered_begin", "MPI_File_read_ordered_end", status) }
}

/// `MPI_File_write_at_all`.
pub unsafe fn file_write_at_all(
    file: Handle,
    offset: Offset,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the status.
    unsafe {
        let what = (Way::Write, Start::At(offset), "MPI_File_write_at_all");
        access(file, what, (buffer, count, datatype), status)
    }
}

/// `MPI_File_iwrite_at_all`.
pub unsafe fn file_iwrite_at_all(
    file: Handle,
    offset: Offset,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the request.
    unsafe {
        let what = (Way::Write, Start::At(offset), "MPI_File_iwrite_at_all");
        access_later(file, what, (buffer, count, datatype), request)
    }
}

/// `MPI_File_write_at_all_begin`.
pub unsafe fn file_write_at_all_begin(
    file: Handle,
    offset: Offset,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        let what = (Way::Write, Start::At(offset), "MPI_File_write_at_all_begin");
        begin(file, what, (buffer, count, datatype))
    }
}

/// `MPI_File_write_at_all_end`.
pub unsafe fn file_write_at_all_end(
    file: Handle,
    _buffer: *const c_void,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the status.
    unsafe { end(file, "MPI_File_write_at_all_begin", "MPI_File_write_at_all_end", status) }
}

/// `MPI_File_write_all`.
pub unsafe fn file_write_all(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the status.
    unsafe {
        let what = (Way::Write, Start::Own, "MPI_File_write_all");
        access(file, what, (buffer, count, datatype), status)
    }
}

/// `MPI_File_iwrite_all`.
pub unsafe fn file_iwrite_all(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the request.
    unsafe {
        let what = (Way::Write, Start::Own, "MPI_File_iwrite_all");
        access_later(file, what, (buffer, count, datatype), request)
    }
}

/// `MPI_File_write_all_begin`.
pub unsafe fn file_write_all_begin(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        let what = (Way::Write, Start::Own, "MPI_File_write_all_begin");
        begin(file, what, (buffer, count, datatype))
    }
}

/// `MPI_File_write_all_end`.
pub unsafe fn file_write_all_end(
    file: Handle,
    _buffer: *const c_void,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the status.
    unsafe { end(file, "MPI_File_write_all_begin", "MPI_File_write_all_end", status) }
}

/// `MPI_File_write_ordered`.
pub unsafe fn file_write_ordered(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and a place for the status.
    unsafe {
        let what = (Way::Write, Start::Ordered, "MPI_File_write_ordered");
        access(file, what, (buffer, count, datatype), status)
    }
}

/// `MPI_File_write_ordered_begin`.
pub unsafe fn file_write_ordered_begin(
    file: Handle,
    buffer: *const c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read.
    unsafe {
        let what = (Way::Write, Start::Ordered, "MPI_File_write_ordered_begin");
        begin(file, what, (buffer, count, datatype))
    }
}

/// `MPI_File_write_ordered_end`.
pub unsafe fn file_write_ordered_end(
    file: Handle,
    _buffer: *const c_void,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the status.
    unsafe { end(file, "MPI_File_write_ordered_begin", "MPI_File_write_ordered_end", status) }
}
