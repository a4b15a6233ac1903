//! C's types in the standard ABI.

use std::ffi::{c_int, c_void};

/// `MPI_Count`.
pub type Count = i64;
/// `MPI_Offset`.
pub type Offset = i64;
/// `MPI_Aint`.
pub type Aint = isize;

/// A handle of any kind. Numbers below 4096 are predefined handles, and all others are addresses of objects.
pub type Handle = *mut c_void;

/// `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// The rank that sent the message.
    pub source: c_int,
    /// The tag of the message.
    pub tag: c_int,
    /// The error of this request, for calls that complete several.
    pub error: c_int,
    /// The length in bytes (two words, the lower one first), whether the request was cancelled, and two unused words.
    pub internal: [c_int; 5],
}
