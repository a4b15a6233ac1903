//! Communication threads through the public interface, on ranks of every kind.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod distribution;
mod ends;
mod order;
mod recording;
mod refused;
mod requests;
#[path = "../../../mp-core/tests/support/sandbox.rs"]
mod sandbox;
mod scopes;
mod stray;
mod threads;
