//! Communicators through the public interface, on ranks of every kind.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod acknowledgements;
mod callers;
mod calls;
mod communicators;
mod direct;
mod ends;
mod garbage;
mod grids;
mod loans;
mod memory;
mod messages;
mod requests;
mod survivors;
mod unexpected;

/// Returns the error for a missing communicator.
fn missing() -> mp_core::Error {
    mp_core::Error::other("missing")
}
