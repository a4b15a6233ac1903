//! Storms: random programs over all operations on tagged messages, mixed with collective operations that
//! block and that do not, which MPI's rules allow, run by real ranks and compared with a sequential model.
//!
//! - `program.rs` makes a program: one order of events for all ranks, from which each takes its own.
//! - `run.rs` executes one rank's part and compares what it receives with the model.

mod program;
mod run;

pub use run::{LIMITS, run};
