//! The algorithms of critical sections on simulated machines, with more cores than this machine has, and with hardware
//! that does not exist.
//!
//! This is the code that ranks run (except for the channels of [`MpServer`](mp_delegate::critical::Scheme::MpServer),
//! which are simulated), on words of a memory in virtual time. [`crate::coherent`] determines how long an access takes
//! on a [`Chip`], and counts remote memory references (RMRs). Actions that move no line take no time, except the
//! clients' pauses between operations, the instructions of an operation and the additional cost of an increment. Only
//! the lengths of pauses are random, and they come from a seed, so the same [`Experiment`] gives the same result
//! everywhere.
//!
//! ```
//! use onchip::critical::Scheme;
//! use onchip_research::critical::{Chip, Experiment};
//!
//! // A counter that 59 cores of a Xeon Phi ask the 60th for.
//! let experiment = Experiment::new(Chip::xeon_phi(60)?, Scheme::SlotServer, 59);
//! let measured = experiment.run()?;
//! assert!(measured.rate() > 1e6);
//! // A request is read, and its response written into a line at which the client looks.
//! assert!((measured.sections.serving.remote() - 2.0).abs() < 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `cores` | cores as coroutines, words, waiting |
//! | `channel` | a channel's ends on simulated words |
//! | `clh` | CLH as published, to compare with |
//! | `objects` | counters, stacks and queues to protect |
//! | `watch` | what an operation cost, and the hand-over to the next |
//! | `clients` | clients and servers at work |
//! | `results` | whether what clients got is possible |
//!
//! The clients' accesses to the library's bookkeeping (whether a rank was lost, and in which operations a thread is)
//! are left out, because their lines stay where they are.

mod channel;
mod clh;
mod clients;
mod cores;
mod experiment;
mod objects;
mod results;
#[cfg(test)]
mod tests;
mod watch;

pub use crate::coherent::{Chip, Counts, Messages, Prefetcher};
pub use mp_model::Time;

pub use self::{
    experiment::{Experiment, ExperimentError, Measured, Way},
    objects::Task,
    watch::{Costs, Sections},
};
