//! Collective operations, written once against [`mp_model::mpb::Mpb`]: the same code runs on the
//! machine's shared memory and on the cores of [`mp_model::sim`].
//!
//! "Thesis" is D. Petrović, *Leveraging Hardware Message Passing for Efficient Synchronization and
//! Communication on Manycores* (EPFL).

#![forbid(unsafe_code)]

pub mod broadcast;
pub mod experiments;
mod stamp;
pub mod two_sided;
