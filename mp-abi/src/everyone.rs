//! The communicators of all ranks: of those that were started together, which the program knows as `MPI_COMM_WORLD`, and of
//! everyone that the world has or will have. The second one is made when it is first needed, and no other is made from it.

use mp_collectives::communicator::Communicator;

use crate::{
    comm::Comm,
    constants::MPI_COMM_WORLD,
    error::{Class, Error},
    state,
};

type Result<T> = std::result::Result<T, Error>;

/// The places in the table of predefined objects of the communicator of all ranks, which is there with and without the
/// world, and of that of everyone. No predefined handle has these numbers.
const ALL: usize = 4095;
const EVERYONE: usize = 4094;

/// Sets the communicator of all ranks.
pub(crate) fn set_all(all: Comm) {
    all.predefine(MPI_COMM_WORLD, ALL);
}

/// Returns the communicator of all ranks.
pub(crate) fn all() -> Result<&'static Comm> {
    state::rank()?;
    // SAFETY: `set_all` has set it, with this type.
    let all = unsafe { state::predefined(ALL) };
    all.ok_or_else(|| Error::new(Class::Other, "MPI is not initialized"))
}

/// Removes the communicator of all ranks, and returns it.
pub(crate) fn take_all() -> Option<&'static Comm> {
    // SAFETY: `set_all` has set it, with this type.
    unsafe { state::take_predefined(ALL) }
}

/// Returns the communicator of everyone, in which ranks have their numbers of the world.
pub(crate) fn everyone() -> Result<&'static Communicator> {
    // SAFETY: only this function sets it, with this type.
    if let Some(everyone) = unsafe { state::predefined(EVERYONE) } {
        return Ok(everyone);
    }
    let everyone = Box::leak(Box::new(all()?.communicator.joint().everyone()));
    state::predefine(EVERYONE, everyone);
    Ok(everyone)
}

/// Drops the communicator of everyone at the rank's end.
pub(crate) fn drop_everyone() {
    // SAFETY: `everyone` has set it, with this type.
    if let Some(everyone) = unsafe { state::take_predefined::<Communicator>(EVERYONE) } {
        // SAFETY: `everyone` has taken it out of a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(everyone).cast_mut()) });
    }
}
