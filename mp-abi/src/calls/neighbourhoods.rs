//! Collective operations between neighbours in a topology.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_int, c_void};

use super::collective_arguments::{
    Blocks, begin, complete, neighbour_exchange, neighbour_gather, prepare,
};
use crate::{
    handles::Handles,
    ints::Ints,
    types::{Count, Handle},
};

/// `MPI_Neighbor_allgather`.
pub unsafe fn neighbor_allgather(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, during the call.
    unsafe {
        complete(comm, "MPI_Neighbor_allgather", |comm| {
            neighbour_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Ineighbor_allgather`.
pub unsafe fn ineighbor_allgather(
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
        begin((comm, request), "MPI_Ineighbor_allgather", |comm| {
            neighbour_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_allgather_init`.
pub unsafe fn neighbor_allgather_init(
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
        prepare((comm, request), "MPI_Neighbor_allgather_init", |comm| {
            neighbour_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_allgatherv`.
pub unsafe fn neighbor_allgatherv(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, during the call.
    unsafe {
        complete(comm, "MPI_Neighbor_allgatherv", |comm| {
            neighbour_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
            )
        })
    }
}

/// `MPI_Ineighbor_allgatherv`.
pub unsafe fn ineighbor_allgatherv(
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
        begin((comm, request), "MPI_Ineighbor_allgatherv", |comm| {
            neighbour_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_allgatherv_init`.
pub unsafe fn neighbor_allgatherv_init(
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
        prepare((comm, request), "MPI_Neighbor_allgatherv_init", |comm| {
            neighbour_gather(
                comm,
                (sent, sent_count, sent_type),
                Blocks::at(received, received_counts, displacements, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_alltoall`.
pub unsafe fn neighbor_alltoall(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, during the call.
    unsafe {
        complete(comm, "MPI_Neighbor_alltoall", |comm| {
            neighbour_exchange(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Ineighbor_alltoall`.
pub unsafe fn ineighbor_alltoall(
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
        begin((comm, request), "MPI_Ineighbor_alltoall", |comm| {
            neighbour_exchange(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_alltoall_init`.
pub unsafe fn neighbor_alltoall_init(
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
        prepare((comm, request), "MPI_Neighbor_alltoall_init", |comm| {
            neighbour_exchange(
                comm,
                Blocks::equal(sent, sent_count, sent_type),
                Blocks::equal(received, received_count, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_alltoallv`.
pub unsafe fn neighbor_alltoallv(
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
    // SAFETY: the program gives what the standard asks for, during the call.
    unsafe {
        complete(comm, "MPI_Neighbor_alltoallv", |comm| {
            neighbour_exchange(
                comm,
                Blocks::at(sent, sent_counts, sent_displacements, sent_type),
                Blocks::at(received, received_counts, received_displacements, received_type),
            )
        })
    }
}

/// `MPI_Ineighbor_alltoallv`.
pub unsafe fn ineighbor_alltoallv(
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
        begin((comm, request), "MPI_Ineighbor_alltoallv", |comm| {
            neighbour_exchange(
                comm,
                Blocks::at(sent, sent_counts, sent_displacements, sent_type),
                Blocks::at(received, received_counts, received_displacements, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_alltoallv_init`.
pub unsafe fn neighbor_alltoallv_init(
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
        prepare((comm, request), "MPI_Neighbor_alltoallv_init", |comm| {
            neighbour_exchange(
                comm,
                Blocks::at(sent, sent_counts, sent_displacements, sent_type),
                Blocks::at(received, received_counts, received_displacements, received_type),
            )
        })
    }
}

/// `MPI_Neighbor_alltoallw`.
pub unsafe fn neighbor_alltoallw(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_types: Handles,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_types: Handles,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives what the standard asks for, during the call.
    unsafe {
        complete(comm, "MPI_Neighbor_alltoallw", |comm| {
            neighbour_exchange(
                comm,
                Blocks::typed(sent, sent_counts, sent_displacements, sent_types),
                Blocks::typed(received, received_counts, received_displacements, received_types),
            )
        })
    }
}

/// `MPI_Ineighbor_alltoallw`.
pub unsafe fn ineighbor_alltoallw(
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
        begin((comm, request), "MPI_Ineighbor_alltoallw", |comm| {
            neighbour_exchange(
                comm,
                Blocks::typed(sent, sent_counts, sent_displacements, sent_types),
                Blocks::typed(received, received_counts, received_displacements, received_types),
            )
        })
    }
}

/// `MPI_Neighbor_alltoallw_init`.
pub unsafe fn neighbor_alltoallw_init(
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
        prepare((comm, request), "MPI_Neighbor_alltoallw_init", |comm| {
            neighbour_exchange(
                comm,
                Blocks::typed(sent, sent_counts, sent_displacements, sent_types),
                Blocks::typed(received, received_counts, received_displacements, received_types),
            )
        })
    }
}
