//! Collective operations that go on while the program does something else.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use super::collective_arguments::{
    Blocks, Counts, all_gather, all_reduce, all_to_all, barrier, begin, broadcast, gather, reduce,
    reduce_scatter, scan, scatter,
};
use crate::{
    handles::Handles,
    ints::Ints,
    types::{Count, Handle},
};

/// `MPI_Ibarrier`.
pub unsafe fn ibarrier(comm: Handle, request: *mut Handle) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe { begin((comm, request), "MPI_Ibarrier", barrier) }
}

/// `MPI_Ibcast`.
pub unsafe fn ibcast(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ibcast", |comm| {
            broadcast(comm, (buffer, count, datatype), root)
        })
    }
}

/// `MPI_Igather`.
pub unsafe fn igather(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Igather", |comm| {
            gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
                root,
            )
        })
    }
}

/// `MPI_Igatherv`.
pub unsafe fn igatherv(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Igatherv", |comm| {
            gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
                root,
            )
        })
    }
}

/// `MPI_Iscatter`.
pub unsafe fn iscatter(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iscatter", |comm| {
            scatter(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                (received, received_count, received_type),
                root,
            )
        })
    }
}

/// `MPI_Iscatterv`.
pub unsafe fn iscatterv(
    sent: *const c_void,
    sent_counts: Ints,
    displacements: Ints,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iscatterv", |comm| {
            scatter(
                comm,
                Blocks::at(sent, sent_counts, displacements, sent_type),
                (received, received_count, received_type),
                root,
            )
        })
    }
}

/// `MPI_Iallgather`.
pub unsafe fn iallgather(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iallgather", |comm| {
            all_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Iallgatherv`.
pub unsafe fn iallgatherv(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iallgatherv", |comm| {
            all_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
            )
        })
    }
}

/// `MPI_Ialltoall`.
pub unsafe fn ialltoall(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ialltoall", |comm| {
            all_to_all(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Ialltoallv`.
pub unsafe fn ialltoallv(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_type: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ialltoallv", |comm| {
            all_to_all(
                comm,
                Blocks::at(sent, sent_counts, sent_displacements, sent_type),
                Blocks::at(received, received_counts, received_displacements, received_type),
            )
        })
    }
}

/// `MPI_Ialltoallw`.
pub unsafe fn ialltoallw(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_types: Handles,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_types: Handles,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ialltoallw", |comm| {
            all_to_all(
                comm,
                Blocks::typed(sent, sent_counts, sent_displacements, sent_types),
                Blocks::typed(received, received_counts, received_displacements, received_types),
            )
        })
    }
}

/// `MPI_Ireduce`.
pub unsafe fn ireduce(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ireduce", |comm| {
            reduce(comm, (sent, received), (count, datatype, op), root)
        })
    }
}

/// `MPI_Iallreduce`.
pub unsafe fn iallreduce(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iallreduce", |comm| {
            all_reduce(comm, (sent, received), (count, datatype, op))
        })
    }
}

/// `MPI_Ireduce_scatter`.
pub unsafe fn ireduce_scatter(
    sent: *const c_void,
    received: *mut c_void,
    counts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ireduce_scatter", |comm| {
            reduce_scatter(comm, (sent, received), Counts::Each(counts), (datatype, op))
        })
    }
}

/// `MPI_Ireduce_scatter_block`.
pub unsafe fn ireduce_scatter_block(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Ireduce_scatter_block", |comm| {
            reduce_scatter(comm, (sent, received), Counts::Equal(count), (datatype, op))
        })
    }
}

/// `MPI_Iscan`.
pub unsafe fn iscan(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iscan", |comm| {
            scan(comm, (sent, received), (count, datatype, op), false)
        })
    }
}

/// `MPI_Iexscan`.
pub unsafe fn iexscan(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, until the request is complete.
    unsafe {
        begin((comm, request), "MPI_Iexscan", |comm| {
            scan(comm, (sent, received), (count, datatype, op), true)
        })
    }
}
