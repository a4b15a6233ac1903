//! The variables of MPICH's ABI, and the one function that is not MPI's.

use std::{
    ffi::{c_int, c_void},
    ptr::{addr_eq, null_mut},
    sync::atomic::AtomicPtr,
};

/// An address that stands for something.
#[derive(Debug)]
#[repr(transparent)]
pub struct Sentinel(*const c_int);

// SAFETY: the address is that of a static. The library only compares it, and reads and writes nothing there.
unsafe impl Sync for Sentinel {}

/// What sentinels are the addresses of: as much as a status of Fortran, in case someone writes there.
type Place = [AtomicPtr<c_void>; 3];

static UNWEIGHTED: Place = [const { AtomicPtr::new(null_mut()) }; 3];
static WEIGHTS_EMPTY: Place = [const { AtomicPtr::new(null_mut()) }; 3];
static F08_STATUS_IGNORE: Place = [const { AtomicPtr::new(null_mut()) }; 3];
static F08_STATUSES_IGNORE: Place = [const { AtomicPtr::new(null_mut()) }; 3];
static ALL_HANDLES: Place = [const { AtomicPtr::new(null_mut()) }; 3];

#[unsafe(no_mangle)]
static MPI_UNWEIGHTED: Sentinel = Sentinel((&raw const UNWEIGHTED).cast());
#[unsafe(no_mangle)]
static MPI_WEIGHTS_EMPTY: Sentinel = Sentinel((&raw const WEIGHTS_EMPTY).cast());
#[unsafe(no_mangle)]
static MPI_F08_STATUS_IGNORE: Sentinel = Sentinel((&raw const F08_STATUS_IGNORE).cast());
#[unsafe(no_mangle)]
static MPI_F08_STATUSES_IGNORE: Sentinel = Sentinel((&raw const F08_STATUSES_IGNORE).cast());
#[unsafe(no_mangle)]
static MPI_T_PVAR_ALL_HANDLES: Sentinel = Sentinel((&raw const ALL_HANDLES).cast());

/// A library for Fortran writes to these.
#[unsafe(no_mangle)]
static MPI_F_STATUS_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(null_mut());
#[unsafe(no_mangle)]
static MPI_F_STATUSES_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(null_mut());

/// Returns whether an address is `MPI_UNWEIGHTED`.
pub fn is_unweighted(given: *const c_int) -> bool {
    addr_eq(given, &raw const UNWEIGHTED)
}

/// Returns whether an address is `MPI_WEIGHTS_EMPTY`.
pub fn is_empty(given: *const c_int) -> bool {
    addr_eq(given, &raw const WEIGHTS_EMPTY)
}

/// Returns whether an address is `MPI_T_PVAR_ALL_HANDLES`.
pub fn is_all_handles(given: *const c_void) -> bool {
    addr_eq(given, &raw const ALL_HANDLES)
}

/// The function that `MPI_COMM_DUP_FN` and its kind are in MPICH's ABI. It copies the value of an attribute.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: the caller gives places for the copy and for the answer, as the standard says.
    unsafe {
        copy.cast::<*mut c_void>().write(value);
        is_copied.write(1);
    }
    0
}
