//! The library `libmpi.so.12`: MPI's functions for programs that were built for MPICH, Intel MPI, and others with their
//! ABI.
//!
//! Such a program runs without being built again: it finds this library where it would find MPICH's. Handles are `int`
//! here, a status has 20 bytes, and most constants have other values than in the standard ABI. Each function makes the
//! standard's arguments of the program's, calls the same function of `mp-abi` that `libmpi_abi.so` calls, and gives the
//! program the results in its form. The build script writes the functions from tables: those of `mp-abi`, and two here:
//!
//! | table | what it says |
//! |---|---|
//! | `roles.tsv` | what the arguments are: which `int` is a rank, a tag, a key, and which handle is changed |
//! | `constants.tsv` | the values of constants in both ABIs |
//!
//! | module | what it is |
//! |---|---|
//! | `kinds`, `slots`, `numbers` | handles as numbers |
//! | `values` | numbers with a meaning: ranks, tags, codes, modes |
//! | `status`, `list`, `arguments` | statuses; arguments that are addresses |
//! | `callbacks` | functions of the program |
//! | `special` | functions that are not written by the build script |
//! | `variables` | `MPI_UNWEIGHTED` and its like |

mod arguments;
mod callbacks;
mod kinds;
mod list;
mod numbers;
mod slots;
mod special;
mod status;
mod values;
mod variables;

extern "C" fn at_load() {
    mp_abi::callbacks::choose(&callbacks::Mpich);
}

// SAFETY: the section is the table of functions that the C library calls when it loads this library. It passes arguments,
// which this function ignores. The function does not unwind.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// All functions. They are in one module, so that they are in one object file, as their second names have to be.
#[allow(
    missing_docs,
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "the build script has written them"
)]
#[allow(clippy::too_many_arguments, clippy::unnecessary_cast, reason = "as above")]
mod exports {
    use std::{
        ffi::{c_char, c_int, c_void},
        ptr::null_mut,
    };

    use mp_abi::{
        handles::{Codes, Handles, Place},
        ints::{Ints, narrow, wide, widened},
        trace::Given,
        types::*,
    };

    use crate::{arguments::*, kinds::*, numbers::*, status::Status, values};

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
