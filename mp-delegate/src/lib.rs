//! The part of Onchip that hands work to other threads. Programs use it through the `onchip` crate.
#![deny(unsafe_code)]

pub mod comm;
