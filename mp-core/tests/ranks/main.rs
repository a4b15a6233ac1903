//! Worlds, channels and moving buffers through the public interface, on ranks of every kind.

#[path = "../support/mod.rs"]
#[macro_use]
mod support;

mod buffers;
mod deaths;
mod model;
mod mpb;
mod mpb_of_some;
mod pairs;
mod refused;
mod rendezvous;
#[path = "../support/sandbox.rs"]
mod sandbox;
mod select;
mod shared;
mod types;
mod worlds;
