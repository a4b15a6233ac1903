//! MPI's functions for C programs, over communicators of Onchip.
//!
//! This crate has the functions themselves, with the types and values of the standard ABI of MPI 5.0. The library
//! `libmpi_abi.so` (in `standard/`) exports them.
//!
//! | module | what it is |
//! |---|---|
//! | [`types`], [`constants`], [`ints`] | C's types and the constants; arrays of two forms |
//! | [`calls`] | the functions that C programs call, a file for each chapter of the standard |
//! | [`error`], `errhandler` | the classes of errors; what becomes of an error of a call |
//! | `info`, `program` | info objects; results and texts |
//! | `state` | what there is once in a process |

pub mod calls;
pub mod constants;
mod errhandler;
pub mod error;
mod info;
pub mod ints;
mod program;
mod state;
pub mod types;
