//! The five-point stencil: the data-parallel experiment of Buono et al. (section V.B).
//!
//! Every element of a matrix of doubles becomes the average of itself and its four neighbours, step by step. Workers
//! have blocks of rows, or the blocks of a grid, and exchange their borders in every step. The [`modes`] differ only in
//! how a border gets to the neighbour: it is read in place, sent, or sent by a communication thread. The result is the
//! same, bit for bit.
//!
//! | part | what it is |
//! |---|---|
//! | [`kernel`] | the arithmetic, in algorithm 1's order |
//! | [`init`], [`picture`] | where a matrix comes from, and what it looks like |
//! | [`modes`] | algorithm 1, one file a mode |
//! | [`measure`], [`report`] | table III of the paper for this machine |
//! | [`peers`] | the same by OpenMP and MPI, to measure beside |
//! | [`cli`] | the command line |
#![forbid(unsafe_code)]

pub mod cli;
pub mod init;
pub mod kernel;
pub mod measure;
pub mod modes;
pub mod peers;
pub mod picture;
pub mod report;
