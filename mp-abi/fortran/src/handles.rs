//! Handles, which are integers in Fortran.

use std::ffi::{c_int, c_void};

/// A kind of handles.
pub trait Kind {
    /// Returns the handle in C of one in Fortran.
    fn handle(number: c_int) -> *mut c_void;

    /// Returns the handle in Fortran of one in C.
    fn number(handle: *mut c_void) -> c_int;
}

macro_rules! kinds {
    ($($kind:ident, $from:ident, $to:ident;)*) => {
        unsafe extern "C" {
            $(
                fn $from(number: c_int) -> *mut c_void;
                fn $to(handle: *mut c_void) -> c_int;
            )*
        }
        $(
            pub struct $kind;

            impl Kind for $kind {
                fn handle(number: c_int) -> *mut c_void {
                    // SAFETY: the function takes any number.
                    unsafe { $from(number) }
                }

                fn number(handle: *mut c_void) -> c_int {
                    // SAFETY: the handle is from a function of C or from `handle`.
                    unsafe { $to(handle) }
                }
            }
        )*
    };
}

kinds! {
    Comm, MPI_Comm_fromint, MPI_Comm_toint;
    Datatype, MPI_Type_fromint, MPI_Type_toint;
    Errhandler, MPI_Errhandler_fromint, MPI_Errhandler_toint;
    File, MPI_File_fromint, MPI_File_toint;
    Group, MPI_Group_fromint, MPI_Group_toint;
    Info, MPI_Info_fromint, MPI_Info_toint;
    Message, MPI_Message_fromint, MPI_Message_toint;
    Op, MPI_Op_fromint, MPI_Op_toint;
    Request, MPI_Request_fromint, MPI_Request_toint;
    Win, MPI_Win_fromint, MPI_Win_toint;
}
