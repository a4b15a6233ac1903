//! How values of the user's code are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops what came from the user's code, such as the payload of a panic. Dropping it may panic in turn.
pub fn discard<T>(what: T) {
    std::mem::forget(catch_unwind(AssertUnwindSafe(|| drop(what))));
}
