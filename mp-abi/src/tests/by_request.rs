//! The collective operations as functions that begin them and wait, so that the same tests call all forms.

#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

pub(super) mod nonblocking {
    use std::{
        ffi::{c_int, c_void},
        ptr::null_mut,
    };

    use crate::{
        calls::{nonblocking_collectives::*, requests::wait},
        ints::Ints,
        types::{Count, Handle},
    };

    fn completed(code: c_int, mut request: Handle) -> c_int {
        if code != 0 {
            return code;
        }
        // SAFETY: the request was just begun.
        let code = unsafe { wait(&mut request, null_mut()) };
        assert!(request.is_null() || request.addr() < 4096);
        code
    }

    pub unsafe fn barrier(comm: Handle) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe { ibarrier(comm, &mut request) };
        completed(code, request)
    }

    pub unsafe fn bcast(
        buffer: *mut c_void,
        count: Count,
        datatype: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe { ibcast(buffer, count, datatype, root, comm, &mut request) };
        completed(code, request)
    }

    pub unsafe fn gather(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            igather(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                root,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn gatherv(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_counts: Ints,
        displacements: Ints,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            igatherv(
                sent,
                sent_count,
                sent_type,
                received,
                received_counts,
                displacements,
                received_type,
                root,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn scatter(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            iscatter(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                root,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn scatterv(
        sent: *const c_void,
        sent_counts: Ints,
        displacements: Ints,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            iscatterv(
                sent,
                sent_counts,
                displacements,
                sent_type,
                received,
                received_count,
                received_type,
                root,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn allgather(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            iallgather(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn allgatherv(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_counts: Ints,
        displacements: Ints,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            iallgatherv(
                sent,
                sent_count,
                sent_type,
                received,
                received_counts,
                displacements,
                received_type,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn alltoall(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            ialltoall(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn alltoallv(
        sent: *const c_void,
        sent_counts: Ints,
        sent_displacements: Ints,
        sent_type: Handle,
        received: *mut c_void,
        received_counts: Ints,
        received_displacements: Ints,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            ialltoallv(
                sent,
                sent_counts,
                sent_displacements,
                sent_type,
                received,
                received_counts,
                received_displacements,
                received_type,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn alltoallw(
        sent: *const c_void,
        sent_counts: Ints,
        sent_displacements: Ints,
        sent_types: *const Handle,
        received: *mut c_void,
        received_counts: Ints,
        received_displacements: Ints,
        received_types: *const Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            ialltoallw(
                sent,
                sent_counts,
                sent_displacements,
                sent_types,
                received,
                received_counts,
                received_displacements,
                received_types,
                comm,
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn reduce(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code =
            unsafe { ireduce(sent, received, count, datatype, op, root, comm, &mut request) };
        completed(code, request)
    }

    pub unsafe fn allreduce(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe { iallreduce(sent, received, count, datatype, op, comm, &mut request) };
        completed(code, request)
    }

    pub unsafe fn reduce_scatter(
        sent: *const c_void,
        received: *mut c_void,
        counts: Ints,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code =
            unsafe { ireduce_scatter(sent, received, counts, datatype, op, comm, &mut request) };
        completed(code, request)
    }

    pub unsafe fn reduce_scatter_block(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            ireduce_scatter_block(sent, received, count, datatype, op, comm, &mut request)
        };
        completed(code, request)
    }

    pub unsafe fn scan(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe { iscan(sent, received, count, datatype, op, comm, &mut request) };
        completed(code, request)
    }

    pub unsafe fn exscan(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe { iexscan(sent, received, count, datatype, op, comm, &mut request) };
        completed(code, request)
    }
}

pub(super) mod persistent {
    use std::{
        ffi::{c_int, c_void},
        ptr::null_mut,
    };

    use crate::{
        calls::{
            persistent_collectives::*,
            point_to_point::start,
            requests::{request_free, wait},
        },
        ints::Ints,
        types::{Count, Handle},
    };

    /// Starts the request twice.
    fn completed(mut code: c_int, mut request: Handle) -> c_int {
        if code != 0 {
            return code;
        }
        // SAFETY: the request was just made, and is not used afterwards.
        unsafe {
            for _ in 0..2 {
                code = start(&mut request);
                if code == 0 {
                    code = wait(&mut request, null_mut());
                }
            }
            assert_eq!(request_free(&mut request), 0);
        }
        code
    }

    pub unsafe fn barrier(comm: Handle) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe { barrier_init(comm, null_mut(), &mut request) };
        completed(code, request)
    }

    pub unsafe fn bcast(
        buffer: *mut c_void,
        count: Count,
        datatype: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code =
            unsafe { bcast_init(buffer, count, datatype, root, comm, null_mut(), &mut request) };
        completed(code, request)
    }

    pub unsafe fn gather(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            gather_init(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                root,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn gatherv(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_counts: Ints,
        displacements: Ints,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            gatherv_init(
                sent,
                sent_count,
                sent_type,
                received,
                received_counts,
                displacements,
                received_type,
                root,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn scatter(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            scatter_init(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                root,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn scatterv(
        sent: *const c_void,
        sent_counts: Ints,
        displacements: Ints,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            scatterv_init(
                sent,
                sent_counts,
                displacements,
                sent_type,
                received,
                received_count,
                received_type,
                root,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn allgather(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            allgather_init(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn allgatherv(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_counts: Ints,
        displacements: Ints,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            allgatherv_init(
                sent,
                sent_count,
                sent_type,
                received,
                received_counts,
                displacements,
                received_type,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn alltoall(
        sent: *const c_void,
        sent_count: Count,
        sent_type: Handle,
        received: *mut c_void,
        received_count: Count,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            alltoall_init(
                sent,
                sent_count,
                sent_type,
                received,
                received_count,
                received_type,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn alltoallv(
        sent: *const c_void,
        sent_counts: Ints,
        sent_displacements: Ints,
        sent_type: Handle,
        received: *mut c_void,
        received_counts: Ints,
        received_displacements: Ints,
        received_type: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            alltoallv_init(
                sent,
                sent_counts,
                sent_displacements,
                sent_type,
                received,
                received_counts,
                received_displacements,
                received_type,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn alltoallw(
        sent: *const c_void,
        sent_counts: Ints,
        sent_displacements: Ints,
        sent_types: *const Handle,
        received: *mut c_void,
        received_counts: Ints,
        received_displacements: Ints,
        received_types: *const Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            alltoallw_init(
                sent,
                sent_counts,
                sent_displacements,
                sent_types,
                received,
                received_counts,
                received_displacements,
                received_types,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn reduce(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            reduce_init(sent, received, count, datatype, op, root, comm, null_mut(), &mut request)
        };
        completed(code, request)
    }

    pub unsafe fn allreduce(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            allreduce_init(sent, received, count, datatype, op, comm, null_mut(), &mut request)
        };
        completed(code, request)
    }

    pub unsafe fn reduce_scatter(
        sent: *const c_void,
        received: *mut c_void,
        counts: Ints,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            reduce_scatter_init(
                sent,
                received,
                counts,
                datatype,
                op,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn reduce_scatter_block(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            reduce_scatter_block_init(
                sent,
                received,
                count,
                datatype,
                op,
                comm,
                null_mut(),
                &mut request,
            )
        };
        completed(code, request)
    }

    pub unsafe fn scan(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            scan_init(sent, received, count, datatype, op, comm, null_mut(), &mut request)
        };
        completed(code, request)
    }

    pub unsafe fn exscan(
        sent: *const c_void,
        received: *mut c_void,
        count: Count,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int {
        let mut request = null_mut();
        // SAFETY: the caller gives what the function asks for, which stays until the operation is complete.
        let code = unsafe {
            exscan_init(sent, received, count, datatype, op, comm, null_mut(), &mut request)
        };
        completed(code, request)
    }
}
