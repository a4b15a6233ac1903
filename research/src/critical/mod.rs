//! The algorithms of critical sections on simulated machines, with more cores than this machine has, and with hardware
//! that does not exist.
//!
//! This is the very code that ranks run (except for [`MpServer`](mp_delegate::critical::Scheme::MpServer)'s channels,
//! which are simulated ones), on words of a memory in virtual time. [`crate::coherent`] determines how long an access
//! takes, by the costs of cache lines that Ramos and Hoefler measured, and counts remote memory references (RMRs).
//! Anything that moves no line takes no time, except what clients do between operations and what an increment costs beside its line.
//! Only the lengths of pauses are random, and those come from a seed: the same [`Experiment`] gives the same result
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
//! | `objects` | counters, stacks and queues to protect |
//! | `watch` | what an operation cost, and the hand-over to the next |
//! | `clients` | clients and servers at work |
//!
//! Clients' own accesses to the library's bookkeeping (whether a rank was lost, which operations a thread is in the
//! middle of) are left out: they are in lines that stay where they are.

mod channel;
mod clients;
mod cores;
mod experiment;
mod objects;
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
