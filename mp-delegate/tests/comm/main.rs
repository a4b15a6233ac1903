//! Communication threads through the public interface, on ranks of every kind.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod auto;
mod distribution;
mod ends;
mod farm;
mod order;
mod placements;
mod recording;
mod refused;
mod requests;
#[path = "../../../mp-core/tests/support/sandbox.rs"]
mod sandbox;
mod scopes;
mod stray;
mod threads;
