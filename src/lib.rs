//! Message passing for one multicore machine.
#![forbid(unsafe_code)]
pub use mp_core::*;
