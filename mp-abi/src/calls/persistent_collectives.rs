//! Collective operations that a program prepares once, and starts as often as it wants.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use super::collective_arguments::{
    Blocks, Counts, all_gather, all_reduce, all_to_all, barrier, broadcast, gather, prepare,
    reduce, reduce_scatter, scan, scatter,
};
use crate::{
    handles::Handles,
    ints::Ints,
    types::{Count, Handle},
};

/// `MPI_Barrier_init`.
pub unsafe fn barrier_init(comm: Handle, _info: Handle, request: *mut Handle) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe { prepare((comm, request), "MPI_Barrier_init", barrier) }
}

/// `MPI_Bcast_init`.
pub unsafe fn bcast_init(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Bcast_init", |comm| {
            broadcast(comm, (buffer, count, datatype), root)
        })
    }
}

/// `MPI_Gather_init`.
pub unsafe fn gather_init(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Gather_init", |comm| {
            gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
                root,
            )
        })
    }
}

/// `MPI_Gatherv_init`.
pub unsafe fn gatherv_init(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Gatherv_init", |comm| {
            gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
                root,
            )
        })
    }
}

/// `MPI_Scatter_init`.
pub unsafe fn scatter_init(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Scatter_init", |comm| {
            scatter(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                (received, received_count, received_type),
                root,
            )
        })
    }
}

/// `MPI_Scatterv_init`.
pub unsafe fn scatterv_init(
    sent: *const c_void,
    sent_counts: Ints,
    displacements: Ints,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Scatterv_init", |comm| {
            scatter(
                comm,
                Blocks::at(sent, sent_counts, displacements, sent_type),
                (received, received_count, received_type),
                root,
            )
        })
    }
}

/// `MPI_Allgather_init`.
pub unsafe fn allgather_init(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Allgather_init", |comm| {
            all_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Allgatherv_init`.
pub unsafe fn allgatherv_init(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Allgatherv_init", |comm| {
            all_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
            )
        })
    }
}

/// `MPI_Alltoall_init`.
pub unsafe fn alltoall_init(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Alltoall_init", |comm| {
            all_to_all(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Alltoallv_init`.
pub unsafe fn alltoallv_init(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_type: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Alltoallv_init", |comm| {
            all_to_all(
                comm,
                Blocks::at(sent, sent_counts, sent_displacements, sent_type),
                Blocks::at(received, received_counts, received_displacements, received_type),
            )
        })
    }
}

/// `MPI_Alltoallw_init`.
pub unsafe fn alltoallw_init(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_types: Handles,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_types: Handles,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Alltoallw_init", |comm| {
            all_to_all(
                comm,
                Blocks::typed(sent, sent_counts, sent_displacements, sent_types),
                Blocks::typed(received, received_counts, received_displacements, received_types),
            )
        })
    }
}

/// `MPI_Reduce_init`.
pub unsafe fn reduce_init(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Reduce_init", |comm| {
            reduce(comm, (sent, received), (count, datatype, op), root)
        })
    }
}

/// `MPI_Allreduce_init`.
pub unsafe fn allreduce_init(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Allreduce_init", |comm| {
            all_reduce(comm, (sent, received), (count, datatype, op))
        })
    }
}

/// `MPI_Reduce_scatter_init`.
pub unsafe fn reduce_scatter_init(
    sent: *const c_void,
    received: *mut c_void,
    counts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Reduce_scatter_init", |comm| {
            reduce_scatter(comm, (sent, received), Counts::Each(counts), (datatype, op))
        })
    }
}

/// `MPI_Reduce_scatter_block_init`.
pub unsafe fn reduce_scatter_block_init(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Reduce_scatter_block_init", |comm| {
            reduce_scatter(comm, (sent, received), Counts::Equal(count), (datatype, op))
        })
    }
}

/// `MPI_Scan_init`.
pub unsafe fn scan_init(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Scan_init", |comm| {
            scan(comm, (sent, received), (count, datatype, op), false)
        })
    }
}

/// `MPI_Exscan_init`.
pub unsafe fn exscan_init(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    _info: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is freed.
    unsafe {
        prepare((comm, request), "MPI_Exscan_init", |comm| {
            scan(comm, (sent, received), (count, datatype, op), true)
        })
    }
}
