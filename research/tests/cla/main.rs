//! Bounds and searches of cache-line-aware design, compared with the printed equations, with runs in virtual time, and
//! with what the paper says.
#![cfg(not(loom))]

mod against_equations;
mod against_runs;
mod limits;
#[path = "../../../mp-model/src/cla/tests/machines.rs"]
mod machines;
mod on_lines;
mod schedules;
mod shapes;
mod statements;

// By the names that the file of machines has for them in its own crate.
use mp_model::{Time, cla};
