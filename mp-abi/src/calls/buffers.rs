//! Buffers for `MPI_Bsend`.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use crate::{
    attached::of_all,
    buffered,
    comm::within,
    constants::MPI_COMM_WORLD,
    handles::sent,
    program::{plainly, put},
    types::{Count, Handle},
};

/// `MPI_Buffer_attach`.
pub unsafe fn buffer_attach(buffer: *mut c_void, size: Count) -> c_int {
    plainly("MPI_Buffer_attach", || of_all(|attached| attached.attach(buffer, size)))
}

/// `MPI_Buffer_detach`. Waits until all buffered messages are sent.
pub unsafe fn buffer_detach(buffer: *mut c_void, size: *mut Count) -> c_int {
    // SAFETY: the handle is predefined; the program gives the place for an address, and one for a size.
    unsafe {
        within(MPI_COMM_WORLD, "MPI_Buffer_detach", |world| {
            buffered::flush(&world.communicator)?;
            of_all(|attached| attached.detach(buffer, size))
        })
    }
}

/// `MPI_Buffer_flush`. Waits until all buffered messages are sent.
pub unsafe fn buffer_flush() -> c_int {
    // SAFETY: the handle is predefined.
    unsafe {
        within(MPI_COMM_WORLD, "MPI_Buffer_flush", |world| buffered::flush(&world.communicator))
    }
}

/// `MPI_Buffer_iflush`. There is nothing to wait for, because the buffer is empty.
pub unsafe fn buffer_iflush(request: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the request.
    plainly("MPI_Buffer_iflush", || unsafe { put(request, sent()) })
}

/// `MPI_Comm_attach_buffer`.
pub unsafe fn comm_attach_buffer(comm: Handle, buffer: *mut c_void, size: Count) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(comm, "MPI_Comm_attach_buffer", |comm| comm.attached.attach(buffer, size)) }
}

/// `MPI_Comm_detach_buffer`. Waits until all buffered messages are sent.
pub unsafe fn comm_detach_buffer(comm: Handle, buffer: *mut c_void, size: *mut Count) -> c_int {
    // SAFETY: the program gives a valid handle, the place for an address, and one for a size.
    unsafe {
        within(comm, "MPI_Comm_detach_buffer", |comm| {
            buffered::flush(&comm.communicator)?;
            comm.attached.detach(buffer, size)
        })
    }
}

/// `MPI_Comm_flush_buffer`. Waits until all buffered messages are sent.
pub unsafe fn comm_flush_buffer(comm: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(comm, "MPI_Comm_flush_buffer", |comm| buffered::flush(&comm.communicator)) }
}

/// `MPI_Comm_iflush_buffer`. There is nothing to wait for, because the buffer is empty.
pub unsafe fn comm_iflush_buffer(comm: Handle, request: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the request.
    unsafe { within(comm, "MPI_Comm_iflush_buffer", |_| put(request, sent())) }
}
