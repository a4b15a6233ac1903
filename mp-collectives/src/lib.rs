//! Communicators of Onchip, their tagged messages and their collective operations. Programs use this crate through the
//! `onchip` crate.
//!
//! The algorithms of collective operations are written once against [`MpbAccess`](mp_core::mpb::MpbAccess). The same
//! code runs on the MPBs of a world ([`Mpb`](mp_core::mpb::Mpb)) and on simulated cores, which are in the package
//! `onchip-research`.
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
mod errors;
mod events;
pub mod exchange;
mod explanation;
mod layout;
mod lending;
mod members;
pub mod near;
mod nodes;
pub mod nonblocking;
mod others;
mod pairs;
pub mod reduce;
mod rings;
mod settings;
mod signature;
mod stamp;

pub use events::CHOICE_TARGET;
pub use members::Members;
pub use mp_core::mpb::complete;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
