//! The library `libmpi_abi.so`: MPI's functions under their names in C.
//!
//! Each function is there twice at one address: as `PMPI_X`, and as `MPI_X`, which is weak, so that a library for
//! profiling can come between. The build script writes them from the tables of `mp-abi`. What `mp-abi` has not yet says
//! so when it is called; such a function and `MPI_Pcontrol` may be called with arguments that they do not declare, because
//! in C's calling conventions on Linux the caller removes them.

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

    use mp_abi::{
        handles::{Codes, Handles, Place},
        ints::{Ints, narrow, wide, widened},
        trace::Given,
        types::*,
    };

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
