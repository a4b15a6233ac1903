//! The library `libmpi_abi.so`: MPI's functions under their names in C, each also with the prefix `PMPI_`.

#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

use mp_abi::ints::Ints;

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

extern "C" fn at_load() {
    mp_abi::at_load();
}

// SAFETY: the section is the table of functions that the C library calls when it loads this library. It passes
// arguments, which this function ignores. The function does not unwind.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
