//! Cache-line-aware design, as far as runs of the library do not need it: programs in virtual time, and everything that
//! is only for comparison.
//!
//! The model itself, and the shapes that it finds, are in [`mp_model::cla`]. Numbers of sections, equations and tables
//! are those of S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent Architectures*.
//!
//! | file | section | what |
//! |---|---|---|
//! | `run.rs` | 2.3 | programs in virtual time: lines with owners, stolen by those who poll |
//! | `words.rs` | 2.4 | the contents of lines, and what primitives do to them |
//! | `lines.rs` | 2.4 | programs on real lines, between threads or processes |
//! | `link.rs` | 2.2.3 | lines that cross between groups at the same time |
//! | `directory.rs` | 2.2.4 | where a line's directory is on a ring |
//! | `graph.rs` | 2.4 | edges and critical paths of graphs, and bounds that hold in all cases |
//! | `equations.rs` | 2.2, 3–5 | the equations as printed, and where they disagree with each other |
//! | `patterns.rs` | 3, 5.2 | further algorithms as programs |
//! | `baselines.rs` | 3.3.3, 4, 5 | what the paper compares with |
//!
//! # How far the paper's statements hold
//!
//! The paper gives its speed-ups as maxima over all numbers of threads. In runs with the paper's own costs, three of
//! its statements have a limit. `tests/cla/limits.rs` asserts each of them on both sides, for all numbers of ranks.
//!
//! - **Flags of single use** (section 3.3.3). A flag that is used again is in a cache and costs R_R to write; a new one
//!   is in memory and costs R_I, which is more. So within a group, ranks that come together lose R_I − R_R in each
//!   round but the first, unless a better m saves rounds. Ranks that come apart steal flags of other rounds, and then
//!   single use wins for all numbers of ranks, on both machines. Across the sockets of Sandy Bridge it wins in both
//!   cases. The paper has measured it only on Sandy Bridge.
//! - **Private buffers** (section 5.1). One place that all add to costs R_R for each rank if a single instruction adds
//!   all that a rank has; buffers cost 2 R_R for each child. So buffers win only where a tree has some depth: from 12
//!   ranks on Sandy Bridge, and from 19 on Xeon Phi. If a lock is needed, as for a line of several elements, buffers win
//!   from 4 ranks on.
//! - **Trees for many lines** (section 4.2). Each child acknowledges, one after the other. On Xeon Phi that takes longer
//!   than a barrier from 23 ranks on. On Sandy Bridge the tree wins for all numbers of ranks, by up to 1.23. With trees
//!   of their own for notifications and for acknowledgements ([`patterns::pulled_broadcast`]), it wins on Xeon Phi, too.

pub mod baselines;
pub mod directory;
pub mod equations;
pub mod graph;
#[cfg(not(loom))]
pub mod lines;
mod link;
pub mod patterns;
pub mod run;
pub mod words;

pub use graph::certain;
pub use run::run;
