//! The cost of message passing on one chip, and between nodes, as arithmetic: formulas, trees, bounds, and the best
//! shapes. It uses no operating system, no atomics and no clock, so the same input gives the same output everywhere.
//!
//! | module | what it is | source |
//! |---|---|---|
//! | [`tree`] | data trees and notification trees | thesis, section 3.1.1 |
//! | [`in_order`] | trees that combine in the order of ranks | Bar-Noy and Kipnis |
//! | [`cla`] | cache-line-aware design on coherent memory: bounds, and shapes that are searched for | Ramos and Hoefler |
//! | [`nodes`] | several nodes and the network between them, in virtual time | Alexandrov and others |
//!
//! "Thesis" is D. Petrović, *Leveraging Hardware Message Passing for Efficient Synchronization and Communication on
//! Manycores* (EPFL). The numbers of its formulas, tables and figures stand beside the code.

#![forbid(unsafe_code)]

mod time;

pub mod cla;
pub mod in_order;
pub mod nodes;
pub mod tree;

pub use time::Time;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
