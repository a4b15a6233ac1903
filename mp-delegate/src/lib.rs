//! The part of Onchip that hands work to other threads, and shows what became of it. Programs use
//! it through the `onchip` crate.
#![deny(unsafe_code)]

pub mod comm;
#[cfg(doctest)]
mod must_not_compile;
pub mod overlap;
pub mod trace;
