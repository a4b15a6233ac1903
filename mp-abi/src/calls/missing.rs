//! Functions that are not there yet.

use std::{
    collections::BTreeSet,
    ffi::c_int,
    io::Write,
    sync::{Mutex, PoisonError},
};

use crate::error::{Class, Error};

/// Says once that a function is not there, and fails.
#[cold]
pub fn call_missing(name: &'static str) -> c_int {
    static NAMED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if NAMED.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
        // If standard error is closed, the message is lost.
        let _ = writeln!(std::io::stderr(), "Onchip does not have {name} yet");
    }
    Error::new(Class::UnsupportedOperation, "Onchip does not have it yet").raise(name, None)
}
