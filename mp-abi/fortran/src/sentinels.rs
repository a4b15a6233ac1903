//! The variables in `mpif.h` that a program passes instead of a buffer or a status. They are known by their addresses.

use std::{
    ffi::{c_int, c_void},
    sync::LazyLock,
};

use nix::libc::{RTLD_DEFAULT, dlsym};

/// The common block of `mpif.h`: `MPI_BOTTOM` and `MPI_IN_PLACE` with four integers each,
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE` with eight each. A
/// program that includes `mpif.h` brings its own, and the system's linker then takes that one for all.
#[allow(non_upper_case_globals, reason = "this is the name that compilers of Fortran give it")]
#[unsafe(no_mangle)]
pub static mpif_sentinels_: Sentinels = Sentinels([0; 24]);

/// Aligned at least as compilers align a common block.
#[repr(C, align(32))]
pub struct Sentinels([c_int; 24]);

static AT: LazyLock<usize> = LazyLock::new(|| {
    // SAFETY: the name ends with 0. The address is only compared.
    unsafe { dlsym(RTLD_DEFAULT, c"mpif_sentinels_".as_ptr()) }.addr()
});

fn is(given: *mut c_void, place: usize) -> bool {
    given.addr() == *AT + place * size_of::<c_int>()
}

pub fn is_bottom(given: *mut c_void) -> bool {
    is(given, 0)
}

pub fn is_in_place(given: *mut c_void) -> bool {
    is(given, 4)
}

pub fn is_no_status(given: *mut c_void) -> bool {
    is(given, 8) || is(given, 16)
}
