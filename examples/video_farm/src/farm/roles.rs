//! Emitter, workers and collector as ranks of a world.

use example_support::{Error, Result};
use onchip::prelude::*;
use serde::{Deserialize, Serialize};

use super::helpers::{Crew, Helped};
use super::ranks::{EMITTER, collector_rank};
use super::seat::Seat;
use super::stop::Stop;
use super::{Job, Ranks, Recorded, Run};

/// The functions of the three kinds of ranks in a mode.
pub(super) struct Roles {
    pub(super) emit: fn(&Seat) -> Result<(), Stop>,
    pub(super) work: fn(&Seat) -> Result<(), Stop>,
    pub(super) collect: fn(&Seat) -> Result<Run, Stop>,
}

/// How a rank ended, and what its process has recorded, on the way back to the caller.
type Report = (Outcome, Recorded);

#[derive(Serialize, Deserialize)]
enum Outcome {
    Done,
    Collected(Run),
    Failed(Error),
}

/// Returns the error for a launched world of another size, which the launcher decides.
fn misfit(job: &Job, rank: &Rank) -> Error {
    let (workers, needed, size) = (job.workers, collector_rank(job) + 1, rank.size());
    Error::new(format!(
        "a farm of {workers} workers has {needed} ranks with its emitter and collector, and this \
         world has {size}"
    ))
}

/// Runs a farm in a world of its own.
pub(super) fn run(job: &Job, ranks: Ranks, helped: Option<&Helped>, roles: &Roles) -> Result<Run> {
    let size = collector_rank(job) + 1;
    // A process that is a rank comes here as well, and has a recording of its own.
    let recording = job.record.recording();
    let crew = Crew::hire(helped, &recording)?;
    let code = |rank: &Rank| -> onchip::Result<Report> {
        let fits = rank.size() == size;
        let seat = || -> onchip::Result<Seat> {
            let helpers = crew.seat(rank.id(), job)?;
            let recorder = recording.recorder(ranks.track(rank.id()));
            Ok(Seat { rank, job, recorder, helpers })
        };
        let outcome = match rank.id() {
            _ if !fits => Err(Stop::Farm(misfit(job, rank))),
            EMITTER => (roles.emit)(&seat()?).map(|()| Outcome::Done),
            id if id < collector_rank(job) => (roles.work)(&seat()?).map(|()| Outcome::Done),
            _ => (roles.collect)(&seat()?).map(Outcome::Collected),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(Stop::Farm(error)) => Outcome::Failed(error),
            Err(Stop::Channel(error)) => return Err(error),
            Err(Stop::Quiet) => Outcome::Done,
        };
        let recorded = match ranks {
            Ranks::Threads => Recorded::default(),
            Ranks::Processes => Recorded::take(&recording),
        };
        Ok((outcome, recorded))
    };
    let reports = ranks.run(size, code)?;
    // Its threads record up to their end.
    drop(crew);
    let mut parts = vec![Recorded::take(&recording)];
    let mut collected = Err(Error::new("the stream broke off"));
    for (outcome, recorded) in reports {
        parts.push(recorded);
        match outcome {
            Outcome::Done => {}
            Outcome::Collected(run) => collected = Ok(run),
            Outcome::Failed(error) => return Err(error),
        }
    }
    Ok(Run { recorded: Recorded::merge(parts), ..collected? })
}
