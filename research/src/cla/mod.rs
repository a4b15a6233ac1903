//! Cache-line-aware design, as far as runs of the library do not need it: programs in virtual time, and everything that
//! is only for comparison.
//!
//! The model itself, and the shapes that it finds, are in [`mp_model::cla`]. Numbers of sections, equations and tables
//! are those of S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent Architectures*.
//!
//! | file | section | what |
//! |---|---|---|
//! | `run.rs` | 2.3 | programs in virtual time: lines with owners, stolen by those who poll |
//! | `graph.rs` | 2.4 | edges and critical paths of graphs, and bounds that hold in all cases |
//! | `equations.rs` | 2.2, 3–5 | the equations as printed, and where they disagree with each other |
//! | `patterns.rs` | 3, 5.2 | further algorithms as programs |
//! | `baselines.rs` | 3.3.3, 4, 5 | what the paper compares with |

pub mod baselines;
pub mod equations;
pub mod graph;
pub mod patterns;
pub mod run;

pub use graph::certain;
pub use run::run;
