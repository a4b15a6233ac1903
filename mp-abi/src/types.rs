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

// Functions of the program. Where a function of MPI takes one, its parameter is an `Option`, which is `None` for a null
// pointer.

/// The function of an error handler, for objects of any kind.
pub type ErrhandlerFunction = unsafe extern "C" fn(*mut Handle, *mut c_int, ...);
/// `MPI_User_function`.
pub type UserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Handle);
/// `MPI_User_function_c`.
pub type LargeUserFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut Count, *mut Handle);
/// The function that copies an attribute, for objects of any kind.
pub type CopyAttrFunction = unsafe extern "C" fn(
    object: Handle,
    key: c_int,
    extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    is_copied: *mut c_int,
) -> c_int;
/// The function that deletes an attribute, for objects of any kind.
pub type DeleteAttrFunction = unsafe extern "C" fn(
    object: Handle,
    key: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int;
/// `MPI_Grequest_query_function`.
pub type GrequestQueryFunction =
    unsafe extern "C" fn(extra: *mut c_void, status: *mut Status) -> c_int;
/// `MPI_Grequest_free_function`.
pub type GrequestFreeFunction = unsafe extern "C" fn(extra: *mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
pub type GrequestCancelFunction =
    unsafe extern "C" fn(extra: *mut c_void, is_complete: c_int) -> c_int;
/// `MPI_Datarep_conversion_function`.
pub type DatarepConversionFunction = unsafe extern "C" fn(
    user: *mut c_void,
    datatype: Handle,
    count: c_int,
    file: *mut c_void,
    position: Offset,
    extra: *mut c_void,
) -> c_int;
/// `MPI_Datarep_conversion_function_c`.
pub type LargeDatarepConversionFunction = unsafe extern "C" fn(
    user: *mut c_void,
    datatype: Handle,
    count: Count,
    file: *mut c_void,
    position: Offset,
    extra: *mut c_void,
) -> c_int;
/// `MPI_Datarep_extent_function`.
pub type DatarepExtentFunction =
    unsafe extern "C" fn(datatype: Handle, extent: *mut Aint, extra: *mut c_void) -> c_int;
/// A function of a tool that is told of events, which there are none of.
pub type EventFunction = unsafe extern "C" fn();
