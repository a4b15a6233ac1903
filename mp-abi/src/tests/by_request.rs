//! The collective operations as functions that begin them and wait, so that the same tests call all forms.

#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

/// Writes a function for each operation, with its parameters, in both forms.
macro_rules! by_request {
    ($($name:ident, $nonblocking:ident, $persistent:ident ($($parameter:ident: $type:ty),*);)*) => {
        pub(super) mod nonblocking {
            use super::*;

            $(
                pub unsafe fn $name($($parameter: $type,)* comm: Handle) -> c_int {
                    let mut request = null_mut();
                    // SAFETY: the caller gives what the function asks for, which stays until the request is complete.
                    let code = unsafe { $nonblocking($($parameter,)* comm, &mut request) };
                    complete(code, request)
                }
            )*
        }

        pub(super) mod persistent {
            use super::*;

            $(
                pub unsafe fn $name($($parameter: $type,)* comm: Handle) -> c_int {
                    let mut request = null_mut();
                    // SAFETY: the caller gives what the function asks for, which stays until the request is freed.
                    let code = unsafe { $persistent($($parameter,)* comm, null_mut(), &mut request) };
                    start_twice(code, request)
                }
            )*
        }
    };
}

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use crate::{
    calls::{
        nonblocking_collectives::*,
        persistent_collectives::*,
        point_to_point::start,
        requests::{request_free, wait},
    },
    handles::Handles,
    ints::Ints,
    types::{Count, Handle},
};

/// Waits for a request, if the call that has begun it was successful.
fn complete(code: c_int, mut request: Handle) -> c_int {
    if code != 0 {
        return code;
    }
    // SAFETY: the request was just begun.
    let code = unsafe { wait(&mut request, null_mut()) };
    assert!(request.is_null() || request.addr() < 4096);
    code
}

thread_local! {
    /// Whether requests are started once, instead of twice.
    static ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call whose request is started once, because its result is in the place of what it has sent.
pub(super) fn once<T>(call: impl FnOnce() -> T) -> T {
    ONCE.set(true);
    let answer = call();
    ONCE.set(false);
    answer
}

/// Starts a request twice, or [`once`], and waits for it each time.
fn start_twice(mut code: c_int, mut request: Handle) -> c_int {
    if code != 0 {
        return code;
    }
    // SAFETY: the request was just made, and is not used afterwards.
    unsafe {
        for _ in 0..2 - i32::from(ONCE.get()) {
            code = start(&mut request);
            if code == 0 {
                code = wait(&mut request, null_mut());
            }
        }
        assert_eq!(request_free(&mut request), 0);
    }
    code
}

by_request! {
    barrier, ibarrier, barrier_init ();
    bcast, ibcast, bcast_init (buffer: *mut c_void, count: Count, datatype: Handle, root: c_int);
    gather, igather, gather_init (sent: *const c_void, sent_count: Count, sent_type: Handle, received: *mut c_void, received_count: Count, received_type: Handle, root: c_int);
    gatherv, igatherv, gatherv_init (sent: *const c_void, sent_count: Count, sent_type: Handle, received: *mut c_void, received_counts: Ints, displacements: Ints, received_type: Handle, root: c_int);
    scatter, iscatter, scatter_init (sent: *const c_void, sent_count: Count, sent_type: Handle, received: *mut c_void, received_count: Count, received_type: Handle, root: c_int);
    scatterv, iscatterv, scatterv_init (sent: *const c_void, sent_counts: Ints, displacements: Ints, sent_type: Handle, received: *mut c_void, received_count: Count, received_type: Handle, root: c_int);
    allgather, iallgather, allgather_init (sent: *const c_void, sent_count: Count, sent_type: Handle, received: *mut c_void, received_count: Count, received_type: Handle);
    allgatherv, iallgatherv, allgatherv_init (sent: *const c_void, sent_count: Count, sent_type: Handle, received: *mut c_void, received_counts: Ints, displacements: Ints, received_type: Handle);
    alltoall, ialltoall, alltoall_init (sent: *const c_void, sent_count: Count, sent_type: Handle, received: *mut c_void, received_count: Count, received_type: Handle);
    alltoallv, ialltoallv, alltoallv_init (sent: *const c_void, sent_counts: Ints, sent_displacements: Ints, sent_type: Handle, received: *mut c_void, received_counts: Ints, received_displacements: Ints, received_type: Handle);
    alltoallw, ialltoallw, alltoallw_init (sent: *const c_void, sent_counts: Ints, sent_displacements: Ints, sent_types: Handles, received: *mut c_void, received_counts: Ints, received_displacements: Ints, received_types: Handles);
    reduce, ireduce, reduce_init (sent: *const c_void, received: *mut c_void, count: Count, datatype: Handle, op: Handle, root: c_int);
    allreduce, iallreduce, allreduce_init (sent: *const c_void, received: *mut c_void, count: Count, datatype: Handle, op: Handle);
    reduce_scatter, ireduce_scatter, reduce_scatter_init (sent: *const c_void, received: *mut c_void, counts: Ints, datatype: Handle, op: Handle);
    reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init (sent: *const c_void, received: *mut c_void, count: Count, datatype: Handle, op: Handle);
    scan, iscan, scan_init (sent: *const c_void, received: *mut c_void, count: Count, datatype: Handle, op: Handle);
    exscan, iexscan, exscan_init (sent: *const c_void, received: *mut c_void, count: Count, datatype: Handle, op: Handle);
}
