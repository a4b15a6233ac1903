//! Communication threads through the public interface, on ranks of every kind.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod auto;
mod distribution;
mod ends;
mod order;
mod requests;
mod scopes;
mod stray;
mod threads;
