//! Grids of ranks.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use mp_collectives::communicator;

use super::communicators::split;
use crate::{
    cartesian::Cartesian,
    comm::{Comm, array, within},
    constants::{MPI_COMM_NULL, MPI_PROC_NULL, MPI_UNDEFINED},
    error::{Class, Error},
    program::{plainly, put},
    topology::Topology,
    types::Handle,
};

/// Returns the grid of a communicator.
fn grid(comm: &Comm) -> Result<&Cartesian, Error> {
    match comm.topology.get() {
        Some(Topology::Grid(grid)) => Ok(grid),
        _ => Err(Error::new(Class::Topology, format!("{:?} has no grid", comm.name()))),
    }
}

/// Writes numbers to an array of the program, as many as it says that it has room for.
///
/// # Safety
/// The array is null, or has room for `room` numbers.
pub(super) unsafe fn put_all(
    room: c_int,
    to: *mut c_int,
    numbers: impl IntoIterator<Item = c_int>,
) -> Result<(), Error> {
    for (place, number) in numbers.into_iter().take(room.max(0) as usize).enumerate() {
        // SAFETY: the caller says so.
        unsafe { put(to.wrapping_add(place), number)? };
    }
    Ok(())
}

/// Makes a communicator with a topology of the ranks that are in it. The others get none.
pub(super) fn with_topology(
    comm: &Comm,
    topology: Topology,
    color: Option<u64>,
) -> Result<Handle, Error> {
    comm.check_intra()?;
    let handle = split(comm, color, comm.rank)?;
    if handle != MPI_COMM_NULL {
        // SAFETY: the communicator was just made.
        let made = unsafe { Comm::look(handle)? };
        // The communicator is new, so that it has no topology yet.
        let _ = made.topology.set(topology);
    }
    Ok(handle)
}

/// `MPI_Cart_create`. Ranks keep their order.
pub unsafe fn cart_create(
    comm: Handle,
    count: c_int,
    dimensions: *const c_int,
    periodic: *const c_int,
    _reorder: c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays of so many numbers, and a place for the result.
    unsafe {
        within(comm, "MPI_Cart_create", |comm| {
            put(to, MPI_COMM_NULL)?;
            let grid = Cartesian::new(array(dimensions, count)?, array(periodic, count)?)?;
            let ranks = grid.ranks()?;
            if ranks > comm.size {
                let text = format!("a grid of {ranks} ranks in a communicator of {}", comm.size);
                return Err(Error::new(Class::Dims, text));
            }
            put(to, with_topology(comm, Topology::Grid(grid), (comm.rank < ranks).then_some(0))?)
        })
    }
}

/// `MPI_Cart_sub`.
pub unsafe fn cart_sub(comm: Handle, kept: *const c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a valid handle, an array with a number for each dimension, and a place for the result.
    unsafe {
        within(comm, "MPI_Cart_sub", |comm| {
            let whole = grid(comm)?;
            let kept = array(kept, whole.dimensions.len() as c_int)?;
            let (part, color) = whole.part(comm.rank, kept);
            put(to, with_topology(comm, Topology::Grid(part), Some(color as u64))?)
        })
    }
}

/// `MPI_Cart_map`: ranks keep their order.
pub unsafe fn cart_map(
    comm: Handle,
    count: c_int,
    dimensions: *const c_int,
    periodic: *const c_int,
    rank: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays of so many numbers, and a place for the answer.
    unsafe {
        within(comm, "MPI_Cart_map", |comm| {
            let grid = Cartesian::new(array(dimensions, count)?, array(periodic, count)?)?;
            let is_in = comm.rank < grid.ranks()?;
            put(rank, if is_in { comm.rank } else { MPI_UNDEFINED })
        })
    }
}

/// `MPI_Cartdim_get`.
pub unsafe fn cartdim_get(comm: Handle, count: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(comm, "MPI_Cartdim_get", |comm| put(count, grid(comm)?.dimensions.len() as c_int))
    }
}

/// `MPI_Cart_get`.
pub unsafe fn cart_get(
    comm: Handle,
    room: c_int,
    dimensions: *mut c_int,
    periodic: *mut c_int,
    place: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and arrays with room for so many numbers.
    unsafe {
        within(comm, "MPI_Cart_get", |comm| {
            let grid = grid(comm)?;
            put_all(room, dimensions, grid.dimensions.iter().copied())?;
            put_all(room, periodic, grid.periodic.iter().map(|&periodic| periodic.into()))?;
            put_all(room, place, grid.coordinates(comm.rank))
        })
    }
}

/// `MPI_Cart_rank`.
pub unsafe fn cart_rank(comm: Handle, place: *const c_int, rank: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, an array with a number for each dimension, and a place for the answer.
    unsafe {
        within(comm, "MPI_Cart_rank", |comm| {
            let grid = grid(comm)?;
            let place = array(place, grid.dimensions.len() as c_int)?;
            let outside = || Error::new(Class::Arg, format!("{place:?} is outside of the grid"));
            put(rank, grid.rank(place).ok_or_else(outside)?)
        })
    }
}

/// `MPI_Cart_coords`.
pub unsafe fn cart_coords(comm: Handle, rank: c_int, room: c_int, place: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and an array with room for so many numbers.
    unsafe {
        within(comm, "MPI_Cart_coords", |comm| {
            let grid = grid(comm)?;
            if !(0..comm.size).contains(&rank) {
                return Err(Error::new(
                    Class::Rank,
                    format!("there is no rank {rank} in the grid"),
                ));
            }
            put_all(room, place, grid.coordinates(rank))
        })
    }
}

/// `MPI_Cart_shift`.
pub unsafe fn cart_shift(
    comm: Handle,
    dimension: c_int,
    by: c_int,
    from: *mut c_int,
    to: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(comm, "MPI_Cart_shift", |comm| {
            let grid = grid(comm)?;
            let dimension = usize::try_from(dimension).ok();
            let Some(dimension) = dimension.filter(|&at| at < grid.dimensions.len()) else {
                return Err(Error::new(Class::Dims, "the grid does not have this dimension"));
            };
            let [before, after] = grid.shift(comm.rank, dimension, by);
            put(from, before.unwrap_or(MPI_PROC_NULL))?;
            put(to, after.unwrap_or(MPI_PROC_NULL))
        })
    }
}

/// `MPI_Dims_create`.
pub unsafe fn dims_create(ranks: c_int, count: c_int, dimensions: *mut c_int) -> c_int {
    // SAFETY: the program gives an array of so many numbers.
    plainly("MPI_Dims_create", || unsafe {
        let given = array(dimensions.cast_const(), count)?;
        let wrong = |text: String| Error::new(Class::Dims, text);
        let sizes = given.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
        let sizes = sizes.map_err(|_| wrong("a dimension is negative".to_owned()))?;
        let ranks =
            usize::try_from(ranks).map_err(|_| wrong(format!("there can't be {ranks} ranks")))?;
        if sizes.is_empty() {
            return Ok(());
        }
        let found =
            communicator::dims_create(ranks, &sizes).map_err(|error| wrong(error.to_string()))?;
        put_all(count, dimensions, found.into_iter().map(|size| size as c_int).collect::<Vec<_>>())
    })
}
