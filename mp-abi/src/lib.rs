//! MPI's functions for C programs, over communicators of Onchip.
//!
//! This crate has the functions themselves, with the types and values of the standard ABI of MPI 5.0. The library
//! `libmpi_abi.so` (in `standard/`) exports them.
//!
//! | module | what it is |
//! |---|---|
//! | [`types`] | C's types and the constants |
//! | [`calls`] | the functions that C programs call, a file for each chapter of the standard |

mod blocks;
pub mod calls;
mod comm;
pub mod constants;
mod datatype;
mod errhandler;
pub mod error;
mod group;
pub mod ints;
mod op;
mod reduce;
mod request;
mod state;
pub mod types;
