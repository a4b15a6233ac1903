//! The functions of an MPI library with the standard ABI, and its types and values.

use std::ffi::{c_char, c_int, c_void};

use libloading::os::unix::Library;

/// A communicator, a type, an error handler, a message or a request. In C these are pointers to types without contents,
/// which are passed as integers of this size are.
pub(super) type Handle = usize;
/// `MPI_Count`.
pub(super) type Count = i64;

pub(super) const COMM_WORLD: Handle = 0x101;
pub(super) const COMM_SELF: Handle = 0x102;
pub(super) const COMM_NULL: Handle = 0x100;
pub(super) const ERRORS_RETURN: Handle = 0x143;
pub(super) const BYTE: Handle = 0x247;
pub(super) const UINT64_T: Handle = 0x259;
pub(super) const ANY_SOURCE: c_int = -1;
pub(super) const ANY_TAG: c_int = -2;
pub(super) const SUCCESS: c_int = 0;
pub(super) const THREAD_SERIALIZED: c_int = 2048;
pub(super) const MAX_ERROR_STRING: usize = 512;
pub(super) const MAX_LIBRARY_VERSION_STRING: usize = 8192;

/// `MPI_Status`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Status {
    pub(super) source: c_int,
    pub(super) tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

/// Declares the table of functions: a field for each, its name, and the types of its arguments.
macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*);)*) => {
        /// The functions that an [`Engine`](super::Engine) calls. All return an error code.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// Finds the functions in a library. Returns the name of the first one that it does not have.
            ///
            /// # Safety
            /// If the library has functions of these names, they have these arguments. The library is never unloaded.
            pub(super) unsafe fn find(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the caller guarantees what the functions are, and that they stay.
                    $($field: *unsafe { library.get($name.as_bytes()) }.map_err(|_| $name)?,)*
                })
            }
        }
    };
}

functions! {
    abi_get_version "MPI_Abi_get_version" (*mut c_int, *mut c_int);
    abort "MPI_Abort" (Handle, c_int);
    comm_dup "MPI_Comm_dup" (Handle, *mut Handle);
    comm_rank "MPI_Comm_rank" (Handle, *mut c_int);
    comm_set_errhandler "MPI_Comm_set_errhandler" (Handle, Handle);
    comm_size "MPI_Comm_size" (Handle, *mut c_int);
    error_string "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    finalize "MPI_Finalize" ();
    get_count "MPI_Get_count_c" (*const Status, Handle, *mut Count);
    get_library_version "MPI_Get_library_version" (*mut c_char, *mut c_int);
    iallgather "MPI_Iallgather_c" (*const c_void, Count, Handle, *mut c_void, Count, Handle, Handle, *mut Handle);
    improbe "MPI_Improbe" (c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status);
    init_thread "MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized "MPI_Initialized" (*mut c_int);
    isend "MPI_Isend_c" (*const c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    mrecv "MPI_Mrecv_c" (*mut c_void, Count, Handle, *mut Handle, *mut Status);
    test "MPI_Test" (*mut Handle, *mut c_int, *mut Status);
}
