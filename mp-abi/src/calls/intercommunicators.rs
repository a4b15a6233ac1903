//! Intercommunicators, and communicators of groups.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use crate::{
    comm::{Comm, within},
    constants::{MPI_COMM_NULL, MPI_UNDEFINED},
    errhandler::Object,
    error::{Class, Error},
    founding::{Founders, tag_of},
    group::Group,
    program::{check_place, put},
    splitting,
    types::Handle,
};

/// `MPI_Comm_test_inter`.
pub unsafe fn comm_test_inter(comm: Handle, flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(comm, "MPI_Comm_test_inter", |comm| put(flag, comm.is_inter().into())) }
}

/// `MPI_Comm_remote_size`.
pub unsafe fn comm_remote_size(comm: Handle, size: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(comm, "MPI_Comm_remote_size", |comm| {
            comm.check_inter()?;
            put(size, comm.peers)
        })
    }
}

/// `MPI_Comm_remote_group`.
pub unsafe fn comm_remote_group(comm: Handle, group: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(comm, "MPI_Comm_remote_group", |comm| put(group, comm.remote_group()?.into_handle()))
    }
}

/// `MPI_Comm_create_group`.
pub unsafe fn comm_create_group(comm: Handle, group: Handle, tag: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives two valid handles, and a place for the result.
    unsafe {
        within(comm, "MPI_Comm_create_group", |comm| {
            comm.check_intra()?;
            let (group, tag) = (Group::look(group)?, tag_of(tag)?);
            if group.rank() == MPI_UNDEFINED {
                return put(to, MPI_COMM_NULL);
            }
            let (via, has_threads) = (&comm.communicator, comm.has_threads());
            let founders = Founders { via, group, tag, has_threads };
            let (made, _) = founders.communicator("MPI_Comm_create_group")?;
            put(to, comm.child(made).into_handle())
        })
    }
}

/// `MPI_Intercomm_create`. Only the local leader's `peers` and remote leader count.
pub unsafe fn intercomm_create(
    local: Handle,
    local_leader: c_int,
    peers: Handle,
    remote_leader: c_int,
    tag: c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and a place for the result.
    unsafe {
        within(local, "MPI_Intercomm_create", |local| {
            // Before other ranks are asked, which may not be there.
            check_place(to)?;
            local.check_intra()?;
            let (group, tag) = (local.group(), tag_of(tag)?);
            let (via, has_threads) = (&local.communicator, local.has_threads());
            let founders = Founders { via, group: &group, tag, has_threads };
            let both = founders.with_another_group(local_leader, || {
                let peers = Comm::look(peers)?;
                let nobody = || Error::new(Class::Rank, "the remote leader is MPI_PROC_NULL");
                let rank = peers.destination(remote_leader)?.ok_or_else(nobody)?;
                Ok((&peers.communicator, rank, tag))
            })?;
            put(to, both.into_comm(local.errhandler().get()).into_handle())
        })
    }
}

/// `MPI_Intercomm_merge`. The lower group comes first if both say the same.
pub unsafe fn intercomm_merge(comm: Handle, is_high: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the result.
    unsafe {
        within(comm, "MPI_Intercomm_merge", |comm| {
            comm.check_inter()?;
            let merged = splitting::split(comm, Some(0), i64::from(is_high != 0))?;
            let merged = merged.map(|merged| comm.child(merged).into_handle());
            put(to, merged.unwrap_or(MPI_COMM_NULL))
        })
    }
}
