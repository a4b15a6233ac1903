//! The library `libmpifort_abi.so`: MPI's subroutines for Fortran, as `mpif.h` declares them.
//!
//! Each reads its arguments, calls the function of the standard ABI under its name in C, which the program's
//! `libmpi_abi.so` has, and writes back what has changed. Handles are the integers of `MPI_Comm_toint` and its like. A
//! logical value is 0 or 1, as GNU Fortran has it. The build script writes the subroutines that `routines.txt` lists.

mod arguments;
mod handles;
mod operations;
mod sentinels;

/// The subroutines that are written by the tables.
#[allow(
    missing_docs,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the build script has written them"
)]
mod routines {
    use std::ffi::c_int;

    use crate::{arguments::*, handles::*};

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}

use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
};

use arguments::{Argument, List, Status, Value, count_from_one};
use handles::Request;

unsafe extern "C" {
    fn MPI_Init(count: *mut c_int, words: *mut *mut *mut c_char) -> c_int;
    fn MPI_Init_thread(
        count: *mut c_int,
        words: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    fn MPI_Buffer_detach(buffer: *mut c_void, size: *mut c_int) -> c_int;
    fn MPI_Wtime() -> f64;
    fn MPI_Wtick() -> f64;
}

/// `MPI_INIT`.
///
/// # Safety
/// As the standard says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_init_(error: *mut c_int) {
    // SAFETY: the program calls as the standard says; both arguments may be null.
    unsafe { error.write(MPI_Init(ptr::null_mut(), ptr::null_mut())) };
}

/// `MPI_INIT_THREAD`.
///
/// # Safety
/// As the standard says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_init_thread_(
    required: *const c_int,
    provided: *mut c_int,
    error: *mut c_int,
) {
    // SAFETY: as above.
    unsafe {
        error.write(MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), *required, provided));
    }
}

/// `MPI_BUFFER_DETACH`. A program in Fortran does not get the address.
///
/// # Safety
/// As the standard says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_buffer_detach_(_: *mut c_void, size: *mut c_int, error: *mut c_int) {
    let mut buffer: *mut c_void = ptr::null_mut();
    // SAFETY: the program calls as the standard says.
    unsafe { error.write(MPI_Buffer_detach((&raw mut buffer).cast(), size)) };
}

/// `MPI_WTIME`.
#[unsafe(no_mangle)]
pub extern "C" fn mpi_wtime_() -> f64 {
    // SAFETY: the function may be called at any time.
    unsafe { MPI_Wtime() }
}

/// `MPI_WTICK`.
#[unsafe(no_mangle)]
pub extern "C" fn mpi_wtick_() -> f64 {
    // SAFETY: the function may be called at any time.
    unsafe { MPI_Wtick() }
}

/// A function that completes some of several requests.
type Completion =
    unsafe extern "C" fn(c_int, *mut *mut c_void, *mut c_int, *mut c_int, *mut c_int) -> c_int;

/// Calls a function that completes some of several requests, and counts their places from 1.
///
/// # Safety
/// The arguments are what the standard says.
unsafe fn some(
    function: Completion,
    count: *const c_int,
    requests: *mut c_int,
    done: *mut c_int,
    places: *mut c_int,
    statuses: *mut c_int,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        let mut count = Value::take(count, 0);
        let mut requests = List::<Request>::take(requests, count.length());
        let mut statuses = Status::take(statuses, 0);
        let code = function(count.pass(), requests.pass(), done, places, statuses.pass());
        requests.finish();
        // It is MPI_UNDEFINED, which is negative, if there was no request.
        count_from_one(places, usize::try_from(done.read()).unwrap_or(0));
        code
    }
}

macro_rules! completions {
    ($($routine:ident, $function:ident, $doc:literal;)*) => {$(
        unsafe extern "C" {
            fn $function(
                count: c_int,
                requests: *mut *mut c_void,
                done: *mut c_int,
                places: *mut c_int,
                statuses: *mut c_int,
            ) -> c_int;
        }

        #[doc = $doc]
        ///
        /// # Safety
        /// As the standard says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $routine(
            count: *const c_int,
            requests: *mut c_int,
            done: *mut c_int,
            places: *mut c_int,
            statuses: *mut c_int,
            error: *mut c_int,
        ) {
            // SAFETY: the program calls as the standard says.
            unsafe { error.write(some($function, count, requests, done, places, statuses)) };
        }
    )*};
}

completions! {
    mpi_waitsome_, MPI_Waitsome, "`MPI_WAITSOME`.";
    mpi_testsome_, MPI_Testsome, "`MPI_TESTSOME`.";
}
