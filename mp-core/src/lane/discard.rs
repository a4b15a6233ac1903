//! Dropping values that came from the user's code.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a value that came from the user's code, such as the payload of a panic. If its destructor panics in turn, this
/// panic is forgotten.
pub fn discard<T>(what: T) {
    std::mem::forget(catch_unwind(AssertUnwindSafe(|| drop(what))));
}
