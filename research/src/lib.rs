//! Research beside the library. Runs of the library use none of this; its tests, benches and figures do.
#![forbid(unsafe_code)]
#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(not(loom))]
pub mod critical;
#[cfg(not(loom))]
pub mod experiments;
pub mod nonblocking;
pub mod scc;
pub mod sim;
