//! The start of further ranks.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::{c_char, c_int};

use crate::{
    comm::{Comm, within},
    constants::{MPI_COMM_NULL, MPI_SUCCESS},
    error::{Class, Error},
    handles::{Codes, Handles},
    program::put,
    spawning::{self, Programs},
    types::Handle,
};

/// `MPI_Comm_spawn`.
pub unsafe fn comm_spawn(
    command: *const c_char,
    arguments: *mut *mut c_char,
    ranks: c_int,
    info: Handle,
    root: c_int,
    comm: Handle,
    to: *mut Handle,
    codes: Codes,
) -> c_int {
    // SAFETY: the program gives a valid handle, places for the results, and in the root what to start.
    unsafe {
        within(comm, "MPI_Comm_spawn", |comm| {
            spawn(comm, root, to, codes, || {
                let mut programs = Programs::default();
                programs.add(command, arguments, ranks, info)?;
                Ok(programs)
            })
        })
    }
}

/// `MPI_Comm_spawn_multiple`.
pub unsafe fn comm_spawn_multiple(
    count: c_int,
    commands: *mut *mut c_char,
    arguments: *mut *mut *mut c_char,
    ranks: *const c_int,
    infos: Handles,
    root: c_int,
    comm: Handle,
    to: *mut Handle,
    codes: Codes,
) -> c_int {
    // SAFETY: the program gives a valid handle, places for the results, and in the root what to start.
    unsafe {
        within(comm, "MPI_Comm_spawn_multiple", |comm| {
            spawn(comm, root, to, codes, || {
                if count < 1 || commands.is_null() || ranks.is_null() || infos.is_null() {
                    return Err(Error::new(Class::Arg, "there are no programs to start"));
                }
                let mut programs = Programs::default();
                for place in 0..count as usize {
                    let arguments = match arguments.is_null() {
                        true => std::ptr::null(),
                        false => (*arguments.add(place)).cast_const(),
                    };
                    let (command, ranks) = (*commands.add(place), *ranks.add(place));
                    programs.add(command, arguments, ranks, infos.get(place))?;
                }
                Ok(programs)
            })
        })
    }
}

/// Starts programs, and gives the program the intercommunicator and the codes.
///
/// # Safety
/// The first address is null, or can be written to. The codes are missing, or have room for as many as ranks are asked
/// for.
unsafe fn spawn(
    comm: &Comm,
    root: c_int,
    to: *mut Handle,
    codes: Codes,
    programs: impl FnOnce() -> Result<Programs, Error>,
) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe {
        put(to, MPI_COMM_NULL)?;
        let (asked, made) = spawning::spawn(comm, root, programs)?;
        codes.fill(asked, made.as_ref().map_or_else(Error::code, |_| MPI_SUCCESS));
        put(to, made?.into_handle())
    }
}
