//! What Onchip needs to join machines: an [`Interconnect`], through which one process of each node sends bytes to those
//! of the others.
//!
//! | implementation | what it is for |
//! |---|---|
//! | [`Engine`] | machines: an installed MPI library, loaded at run time |
//! | [`InMemory`] | tests: threads of one process |
//!
//! Ranks of one node talk through memory and use nothing of this.

#![warn(missing_debug_implementations)]

mod engine;
mod error;
mod frame;
mod in_memory;
mod interconnect;
mod relay;
mod world;

pub use engine::Engine;
pub use error::{Error, Result};
pub use in_memory::InMemory;
pub use interconnect::{Arrived, Interconnect, MAX_TAG};
pub use world::run;
