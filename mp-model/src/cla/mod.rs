//! Cache-line-aware design: the costs of algorithms on cache-coherent memory, counted in cache lines.
//!
//! S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent Architectures*. An algorithm is a
//! [`Program`] of four primitives on cache lines. A [`Graph`] of it, on a [`Machine`] with measured [`Parameters`], has
//! a least and a greatest time. Searches find the shapes with the smallest least time. Programs in virtual time,
//! and everything that is only for comparison, are in the package `research`.
//!
//! | file | section | what |
//! |---|---|---|
//! | `parameters.rs` | 2.2, tables 1–4 | costs of lines, of the paper's two machines |
//! | `machine.rs` | 2.1, 2.5 | costs, and which ranks are near each other |
//! | `program.rs` | 2.4 | the primitives copy, wait, write, add |
//! | `graph/` | 2.4 | edges E1–E4, minimum and maximum |
//! | `equations.rs` | 3–5 | the printed equations with which searches begin |
//! | `tree.rs` | 3–5 | trees as data |
//! | `outward.rs` | | trees of groups and within them, for each root, along which this library broadcasts |
//! | `patterns.rs` | 3–5 | notification, broadcast and reduction as programs |
//! | `schedule.rs` | | this library's other collective operations as programs: who sends to whom |
//! | `barrier.rs` | 3.3 | dissemination barriers, within and across groups, and their search |
//! | `search/` | 3.1, 3.2, 4, 5 | trees for broadcast, reduction and notification; the λ of those in the order of ranks |

pub mod barrier;
pub mod chance;
pub mod equations;
pub mod graph;
mod machine;
pub mod outward;
mod parameters;
pub mod patterns;
pub mod program;
pub mod schedule;
pub mod search;
mod tree;

pub use barrier::{Barrier, BarrierChoice, best_barrier};
pub use graph::{Bounds, Graph, GraphError, Rules};
pub use machine::{Machine, Placement, PlacementError};
pub use parameters::{Contention, Implausible, Invalidation, Lines, Link, Parameters, State};
pub use program::{Line, Primitive, Program};
pub use schedule::Schedule;
pub use search::{LambdaChoice, Pattern, TreeChoice, best_lambda, best_tree};
pub use tree::{Tree, TreeError};

#[cfg(test)]
mod tests;
