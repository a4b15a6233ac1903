//! Emitter, workers and collector as ranks of a world.

use onchip::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Job, Ranks, Run, placement};
use crate::error::FarmError;

/// The rank of the emitter.
pub(super) const EMITTER: usize = 0;

/// The rank of a worker, counted from 0.
pub(super) fn worker_rank(worker: usize) -> usize {
    EMITTER + 1 + worker
}

/// The rank of the collector, the last.
pub(super) fn collector_rank(job: &Job) -> usize {
    worker_rank(job.workers)
}

/// What the three kinds of ranks do in a mode.
pub(super) struct Roles {
    pub(super) emit: fn(&Rank, &Job) -> Result<(), Stop>,
    pub(super) work: fn(&Rank, &Job) -> Result<(), Stop>,
    pub(super) collect: fn(&Rank, &Job) -> Result<Run, Stop>,
}

/// Why a rank stops before its work is done.
pub(super) enum Stop {
    /// Because of a fault that it has found.
    Farm(FarmError),
    /// Because of a channel.
    Channel(onchip::Error),
    /// Because another rank did, which says why.
    Quiet,
}

impl From<FarmError> for Stop {
    fn from(error: FarmError) -> Self {
        Stop::Farm(error)
    }
}

impl From<onchip::Error> for Stop {
    fn from(error: onchip::Error) -> Self {
        match error {
            onchip::Error::Disconnected { .. } => Stop::Quiet,
            error => Stop::Channel(error),
        }
    }
}

/// How a rank ended, on its way back to the caller.
#[derive(Serialize, Deserialize)]
enum Outcome {
    Done,
    Collected(Run),
    Failed(FarmError),
}

/// A launcher decides how many ranks there are.
fn misfit(job: &Job, rank: &Rank) -> FarmError {
    let (workers, needed, size) = (job.workers, collector_rank(job) + 1, rank.size());
    FarmError::Usage(format!(
        "a farm of {workers} workers has {needed} ranks with its emitter and collector, and this \
         world has {size}"
    ))
}

/// Runs a farm in a world of its own.
pub(super) fn run(job: &Job, ranks: Ranks, roles: &Roles) -> Result<Run, FarmError> {
    let size = collector_rank(job) + 1;
    let code = |rank: &Rank| -> onchip::Result<Outcome> {
        placement::take_place(rank.id(), job);
        let outcome = match rank.id() {
            _ if rank.size() != size => Err(Stop::Farm(misfit(job, rank))),
            EMITTER => (roles.emit)(rank, job).map(|()| Outcome::Done),
            id if id < collector_rank(job) => (roles.work)(rank, job).map(|()| Outcome::Done),
            _ => (roles.collect)(rank, job).map(Outcome::Collected),
        };
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(Stop::Farm(error)) => Ok(Outcome::Failed(error)),
            Err(Stop::Channel(error)) => Err(error),
            Err(Stop::Quiet) => Ok(Outcome::Done),
        }
    };
    let outcomes = match ranks {
        Ranks::Threads => World::threads(size).run(code),
        Ranks::Processes => World::processes(size).run(code),
    };
    let outcomes = outcomes.map_err(|error| FarmError::World(error.to_string()))?;
    let mut collected = Err(FarmError::World("the stream broke off".to_owned()));
    for outcome in outcomes {
        match outcome {
            Outcome::Done => {}
            Outcome::Collected(run) => collected = Ok(run),
            Outcome::Failed(error) => return Err(error),
        }
    }
    collected
}
