//! The experiments that several figures share, and the words for them.

use mp_delegate::critical::{Scheme, Section};
use mp_model::Time;

use crate::critical::{Chip, Experiment, Task, Way};
use crate::figures::{Check, Result};

pub(super) const MOPS: &str = "Mops/s";
pub(super) const NANOS: &str = "ns";
pub(super) const CLIENTS: &str = "threads that ask for operations";
pub(super) const INCREMENTS: &str = "increments in the critical section";

/// The most operations of a combiner (T 6.2.2).
pub(super) const MAX_OPS: usize = 200;
/// Up to 50 empty iterations at 1.2 GHz (T 6.2.2).
pub(super) const PAUSE: Time = Time::from_nanos(42);
pub(super) const ON_TILES: [usize; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 35];

/// Returns an experiment on the TILE-Gx.
pub(super) fn on_tiles(way: impl Into<Way>, clients: usize, task: Task) -> Result<Experiment> {
    let experiment = Experiment::new(Chip::tiles(36)?, way, clients).task(task).between(PAUSE);
    Ok(experiment.time(Time::from_nanos(300_000)))
}

/// Returns SHM-SERVER, and srv-base of chapter 7: the slot server with a line for each client.
pub(super) fn slots() -> Section {
    Section::new(Scheme::SlotServer).in_flight(1)
}

pub(super) fn combiner(scheme: Scheme) -> Section {
    Section::new(scheme).max_ops(MAX_OPS)
}

/// Returns the check of a statement, and says where it does not hold if there are such places.
pub(super) fn everywhere(quote: &str, all: &str, exceptions: &[String]) -> Check {
    let ours = match exceptions {
        [] => all.to_owned(),
        some => format!("not with {}", some.join(", ")),
    };
    Check::statement(quote, ours, exceptions.is_empty())
}
