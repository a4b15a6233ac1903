//! Worlds, channels and moving buffers through the public interface, on ranks of every kind.

#[path = "../support/mod.rs"]
#[macro_use]
mod support;

mod pairs;
mod types;
mod worlds;
