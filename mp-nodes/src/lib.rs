//! Worlds on several machines: [`run`] joins the ranks of several nodes, which are threads; [`Nodes`] those that are
//! processes, for `mprun --nodes`. What ranks of one node send to those of others
//! goes through an [`Interconnect`], which one process of each node has.
//!
//! | interconnect | what it is for |
//! |---|---|
//! | [`Engine`] | machines: an installed MPI library, loaded at run time |
//! | [`InMemory`] | tests: threads of one process |
//!
//! | file | what it is |
//! |---|---|
//! | `world` | the call that runs a node's ranks as threads |
//! | `nodes` | the nodes that have joined, also those of `mprun --nodes`, whose ranks are processes |
//! | `relay`, `lines`, `frame` | what carries messages between nodes, the channels that it carries, and what relays send each other |
//! | `service` | the threads that work a relay: its own, and ranks that wait |
//! | `interconnect` | what a relay needs of what connects the nodes |
//! | `engine`, `in_memory` | the two interconnects |

#![warn(missing_debug_implementations)]

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod engine;
mod error;
mod frame;
mod in_memory;
mod interconnect;
mod lines;
mod nodes;
mod relay;
mod service;
mod world;

pub use engine::Engine;
pub use error::{Error, Result};
pub use in_memory::InMemory;
pub use interconnect::{Arrived, Bytes, Interconnect, Keeper, MAX_TAG};
/// What [`Nodes::serve`] needs of the ranks of a node.
pub use mp_core::bridge::Bridge;
pub use nodes::Nodes;
pub use world::run;
