//! Cache-line-aware design: the costs of algorithms on cache-coherent memory, counted in cache lines.
//!
//! S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent Architectures*. An algorithm is a
//! [`Program`] of four primitives on cache lines. A [`Graph`] of it, on a [`Machine`] with measured [`Parameters`], has
//! a least and a greatest time. Searches find the shapes with the smallest least time. [`run()`] executes a program
//! line by line in virtual time.
//!
//! | file | section | what |
//! |---|---|---|
//! | `parameters.rs` | 2.2, tables 1–4 | costs of lines, of the paper's two machines |
//! | `machine.rs` | 2.1, 2.5 | costs, and which ranks are near each other |
//! | `program.rs` | 2.4 | the primitives copy, wait, write, add |
//! | `graph/` | 2.4 | edges E1–E4, minimum and maximum |
//! | `equations.rs` | 3–5 | equations 6–35 as printed, and where they disagree with each other |
//! | `tree.rs` | 3–5 | trees as data |
//! | `outward.rs` | | trees of groups and within them, for each root, along which this library broadcasts |
//! | `patterns.rs` | 3–5 | synchronization, broadcast and reduction as programs |
//! | `schedule.rs` | | this library's other collective operations as programs: who sends to whom |
//! | `barrier.rs` | 3.3 | dissemination barriers, within and across groups, and their search |
//! | `search/` | 3.1, 3.2, 4, 5 | trees for broadcast, reduction and notification; the λ of those in the order of ranks |
//! | `baselines.rs` | 3.3.3, 4, 5 | what the paper compares with |
//! | `run.rs` | 2.3 | programs in virtual time: lines with owners, stolen by those who poll |

pub mod barrier;
pub mod baselines;
mod chance;
pub mod equations;
pub mod graph;
mod machine;

pub mod outward;
mod parameters;
pub mod patterns;
mod program;
pub mod run;
pub mod schedule;
pub mod search;
mod tree;

pub use barrier::{Barrier, BarrierChoice, best_barrier};
pub use graph::{Bounds, Graph, GraphError, Rules};
pub use machine::{Machine, Placement, PlacementError};
pub use parameters::{Contention, Implausible, Invalidation, Lines, Link, Parameters, State};
pub use program::{Line, Primitive, Program};
pub use run::run;
pub use schedule::Schedule;
pub use search::{LambdaChoice, Pattern, TreeChoice, best_lambda, best_tree};
pub use tree::{Tree, TreeError};

#[cfg(test)]
mod tests;
