//! The parts of the machine, and communicators of the ranks in one of them.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use super::communicators::split;
use crate::{
    comm::{Comm, within},
    constants::{
        MPI_COMM_NULL, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED,
        MPI_COMM_TYPE_RESOURCE_GUIDED, MPI_COMM_TYPE_SHARED, MPI_INFO_NULL, MPI_UNDEFINED,
    },
    error::{Class, Error},
    hardware::parts,
    info::Info,
    program::{plainly, put},
    types::Handle,
};

/// The name of what all ranks share.
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// `MPI_Get_hw_resource_info`.
pub unsafe fn get_hw_resource_info(info: *mut Handle) -> c_int {
    plainly("MPI_Get_hw_resource_info", || {
        let all = parts()?.into_iter().map(|part| (part.name, part.of_rank.is_some()));
        let all = all.chain([(SHARED_MEMORY, true)]);
        let made = Info::new(all.map(|(name, is_confined)| (name, is_confined.to_string())));
        // SAFETY: the program gives a place for the handle.
        unsafe { put(info, made.into_handle()) }
    })
}

/// `MPI_Comm_split_type`.
pub unsafe fn comm_split_type(
    comm: Handle,
    kind: c_int,
    key: c_int,
    info: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and a place for the result.
    unsafe {
        within(comm, "MPI_Comm_split_type", |comm| {
            let named = |key: &[u8]| wanted(info, key);
            let color = match kind {
                MPI_COMM_TYPE_SHARED => Ok(Some(0)),
                MPI_UNDEFINED => Ok(None),
                MPI_COMM_TYPE_HW_UNGUIDED => return put(to, smaller(comm, key)?),
                MPI_COMM_TYPE_HW_GUIDED => in_part(&named(b"mpi_hw_resource_type")?),
                MPI_COMM_TYPE_RESOURCE_GUIDED => match named(b"mpi_hw_resource_type")? {
                    none if none.is_empty() => Ok(in_set(comm, &named(b"mpi_pset_name")?)),
                    part => in_part(&part),
                },
                _ => return Err(Error::new(Class::Arg, format!("{kind} is no kind of parts"))),
            };
            // The others don't wait for a rank that can't read its machine.
            let part = split(comm, color.as_ref().copied().unwrap_or(None), key)?;
            color?;
            put(to, part)
        })
    }
}

/// Returns what an info says for a key, or nothing.
///
/// # Safety
/// The handle is one of an info.
unsafe fn wanted(info: Handle, key: &[u8]) -> Result<String, Error> {
    if info == MPI_INFO_NULL {
        return Ok(String::new());
    }
    // SAFETY: the caller says so.
    let value = unsafe { Info::look(info)? }.get(key)?;
    Ok(String::from_utf8_lossy(&value.unwrap_or_default()).into_owned())
}

/// Returns the number of the part of this kind that the rank is in.
fn in_part(name: &str) -> Result<Option<u64>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    if name == SHARED_MEMORY {
        return Ok(Some(0));
    }
    let found = parts()?.into_iter().find(|part| part.name.eq_ignore_ascii_case(name));
    Ok(found.and_then(|part| part.of_rank).map(|number| number as u64))
}

/// Returns the color of the ranks that are in this set of processes together.
fn in_set(comm: &Comm, name: &str) -> Option<u64> {
    match &*name.to_ascii_lowercase() {
        "mpi://world" => Some(0),
        "mpi://self" => Some(comm.rank as u64),
        _ => None,
    }
}

/// Makes a communicator of the ranks in the largest part of the machine that does not have all ranks. Where all share
/// every part, or a rank is confined to none, it gets no communicator.
fn smaller(comm: &Comm, key: c_int) -> Result<Handle, Error> {
    let parts = parts();
    // Ranks that want no part, or can't read their machine, take part in this only.
    let all = comm.communicator.split(parts.is_ok().then_some(0), key.into())?;
    let (parts, Some(all)) = (parts?, all) else { return Ok(MPI_COMM_NULL) };
    let mut found = None;
    for part in parts {
        let color = part.of_rank.filter(|_| found.is_none()).map(|number| number as u64);
        let ranks = all.split(color, all.rank() as i64)?;
        found = found.or(ranks.filter(|ranks| ranks.size() < comm.size as usize));
    }
    Ok(found.map_or(MPI_COMM_NULL, |ranks| comm.child(ranks).into_handle()))
}
