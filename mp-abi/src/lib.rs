//! MPI's functions for C programs, over communicators of Onchip.
//!
//! This crate has the functions themselves, with the types and values of the standard ABI of MPI 5.0. The library
//! `libmpi_abi.so` (in `standard/`) exports them.
//!
//! | module | what it is |
//! |---|---|
//! | [`types`] | C's types and the constants |
//! | [`calls`] | the functions that C programs call, a file for each chapter of the standard |

pub mod calls;
pub mod types;
