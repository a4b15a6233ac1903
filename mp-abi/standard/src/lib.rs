//! The library `libmpi_abi.so`: MPI's functions under their names in C.
//!
//! Each function is there twice at one address: as `PMPI_X`, and as `MPI_X`, which is weak, so that a library for
//! profiling can come between. The build script writes them from the tables of `mp-abi`. What `mp-abi` has not yet says
//! so when it is called; such a function and `MPI_Pcontrol` may be called with arguments that they do not declare, because
//! in C's calling conventions on Linux the caller removes them.

use std::{ffi::c_int, ptr::null_mut};

use mp_abi::types::Count;

extern "C" fn at_load() {
    mp_abi::at_load();
}

// SAFETY: the section is the table of functions that the C library calls when it loads this library. It passes arguments,
// which this function ignores. The function does not unwind.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Returns a place for a result that the program wants as an `int` at an address, or null if it gives none.
fn wide(place: &mut Count, to: *mut c_int) -> *mut Count {
    if to.is_null() { null_mut() } else { place }
}

/// Returns a number of the program, or zero if it gives none.
///
/// # Safety
/// The address is null, or that of a number.
unsafe fn widened(from: *const c_int) -> Count {
    // SAFETY: the caller says so.
    unsafe { from.as_ref() }.map_or(0, |&number| number.into())
}

/// Gives the program the result of a call that returned this code: `MPI_UNDEFINED`, if an `int` can't be so large.
///
/// # Safety
/// The address is null, or can be written to.
unsafe fn narrow(code: c_int, number: Count, to: *mut c_int) {
    use mp_abi::constants::{MPI_SUCCESS, MPI_UNDEFINED};
    if code == MPI_SUCCESS && !to.is_null() {
        // SAFETY: the caller says so.
        unsafe { to.write(number.try_into().unwrap_or(MPI_UNDEFINED)) };
    }
}

/// All functions. They are in one module, so that they are in one object file, as their second names have to be.
#[allow(
    missing_docs,
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "the build script has written them"
)]
#[allow(clippy::too_many_arguments, clippy::unnecessary_cast, reason = "as above")]
mod exports {
    use std::ffi::{c_char, c_int, c_void};

    use mp_abi::{ints::Ints, types::*};

    use super::{narrow, wide, widened};

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
