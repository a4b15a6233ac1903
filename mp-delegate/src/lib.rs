//! The part of Onchip that hands work over to other threads, and shows what became of that work. Programs use it
//! through the `onchip` crate.
#![deny(unsafe_code)]
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub mod critical;
#[cfg(doctest)]
mod must_not_compile;
pub mod overlap;
pub mod threads;
pub mod trace;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
