//! Critical sections through the public interface: every scheme, on ranks of every kind.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod closures;
mod conformance;
mod deaths;
mod kills;
mod limits;
mod linearizability;
mod map;
mod names;
mod objects;
mod one_handle;
mod panics;
mod requests;
mod servers;
mod structures;
mod threads;
