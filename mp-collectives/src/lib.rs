//! Communicators of Onchip, their tagged messages and their collective operations. Programs use this crate through the
//! `onchip` crate.
//!
//! The algorithms of collective operations are written once against [`mp_model::mpb::Mpb`]. The same code runs on the
//! machine's shared memory ([`RealMpb`]) and on simulated cores, which are in the package `onchip-research`.
//!
//! "Thesis" is D. Petrović, *Leveraging Hardware Message Passing for Efficient Synchronization and
//! Communication on Manycores* (EPFL).

#![forbid(unsafe_code)]

mod arguments;
pub mod barrier;
pub mod broadcast;
pub mod calibration;
mod calls;
mod choice;
pub mod collectives;
pub mod communicator;
mod events;
pub mod exchange;
mod explanation;
mod layout;
mod members;
pub mod near;
pub mod nonblocking;
mod others;
mod pairs;
mod real;
pub mod reduce;
mod rings;
mod settings;
mod signature;
mod stamp;
pub mod two_sided;

pub use events::CHOICE_TARGET;
pub use members::Members;
pub use mp_model::mpb::complete;
pub use real::{RealError, RealMpb};

/// Compiles and runs what the README shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
