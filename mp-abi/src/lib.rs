//! MPI's functions for C programs, over communicators of Onchip.
//!
//! This crate has the functions themselves, with the types and values of the standard ABI of MPI 5.0. The library
//! `libmpi_abi.so` (in `standard/`) exports them, and `libmpi.so.12` (in `mpich/`) does with the types and values of
//! MPICH's ABI. What the libraries' build scripts share is in `exports.rs`.
//!
//! | module | what it is |
//! |---|---|
//! | [`types`], [`constants`], [`ints`], [`handles`] | C's types and the constants; numbers and handles of two forms |
//! | [`callbacks`] | how functions of the program are called, and for what kinds of objects they are |
//! | [`calls`] | the functions that C programs call, a file for each chapter of the standard |
//! | [`error`], `errhandler` | the classes of errors; what becomes of an error of a call |
//! | `boxed` | objects that one handle owns |
//! | `info`, `program` | info objects; results and texts |
//! | `state`, `life`, `session` | what there is once in a process; beginning and end; sessions |
//! | [`frame`], `threads`, [`trace`] | what is around a call: turns of the program's threads; a record of the calls |
//! | `datatype`, `op` | datatypes, and operations of reductions |
//! | `comm`, `group`, `attributes` | communicators, groups, values that programs keep with objects |
//! | `topology`, `cartesian`, `sides`, `neighbours` | who is next to whom; grids, and how long their sides are; exchanges between neighbours |
//! | `founding`, `splitting`, `duplicating`, `words` | how communicators are made: of groups, of others, meanwhile; messages for that |
//! | `attached`, `buffered` | buffers of the program for buffered messages; what the library keeps of these |
//! | `file` | files |
//! | `hardware` | the parts of the machine that ranks are confined to |
//! | `request`, `going`, `completed` | requests; what is under way; the statuses of what is done |
//! | `generalized` | requests that the program completes |
//! | `message`, `moves` | probes, and messages that they have taken; how they wait |
//! | `apart` | messages with the program's data that are apart from the program's messages |
//! | `blocks`, `reduce` | the buffers of blocking collective operations; reductions |
//! | `collective` | nonblocking and persistent collective operations |
//! | `partitioned`, `pairs` | messages whose parts become ready one by one; their tags |
//! | `window` | memory that other ranks access |
//! | `tools` | what tools read and set |
//! | `everyone`, `connecting`, `spawning` | all ranks; groups that find each other; ranks that ranks have started |

mod apart;
mod attached;
mod attributes;
mod awaited;
mod blocks;
mod boxed;
mod buffered;
pub mod callbacks;
pub mod calls;
mod cartesian;
mod collective;
mod comm;
mod completed;
mod connecting;
pub mod constants;
mod datatype;
mod duplicating;
mod errhandler;
pub mod error;
mod everyone;
mod file;
mod founding;
pub mod frame;
mod generalized;
mod going;
mod group;
pub mod handles;
mod hardware;
mod info;
pub mod ints;
mod life;
mod message;
mod moves;
mod neighbours;
mod op;
mod order;
mod pairs;
mod partitioned;
mod program;
mod reduce;
mod request;
mod session;
mod spawning;
mod splitting;
mod state;
#[cfg(test)]
mod tests;
mod threads;
mod tools;
mod topology;
pub mod trace;
pub mod types;
mod window;
mod words;
