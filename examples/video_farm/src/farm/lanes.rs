//! The channels that frames go through: from the emitter to each worker, and from each worker to the
//! collector. Each mode decides what they carry.

use onchip::prelude::*;

use super::Job;
use super::ranks::{EMITTER, collector_rank, worker_rank};
use super::stop::Stop;

pub(super) const FRAMES: &str = "frames";
pub(super) const RESULTS: &str = "gray frames";

/// Opens the channels from the emitter to each worker.
pub(super) fn frames_out(
    rank: &Rank,
    job: &Job,
    channel: Channel,
) -> Result<Vec<Sender<[u8]>>, Stop> {
    let lanes = (0..job.workers).map(|to| rank.sender(FRAMES, worker_rank(to), channel));
    Ok(lanes.collect::<Result<_, _>>()?)
}

/// Opens the channel from the emitter to this worker.
pub(super) fn frames_in(rank: &Rank, channel: Channel) -> Result<Receiver<[u8]>, Stop> {
    Ok(rank.receiver(FRAMES, EMITTER, channel)?)
}

/// Opens the channel from this worker to the collector.
pub(super) fn results_out(rank: &Rank, job: &Job, channel: Channel) -> Result<Sender<[u8]>, Stop> {
    Ok(rank.sender(RESULTS, collector_rank(job), channel)?)
}

/// Opens the channels from each worker to the collector.
pub(super) fn results_in(
    rank: &Rank,
    job: &Job,
    channel: Channel,
) -> Result<Vec<Receiver<[u8]>>, Stop> {
    let lanes = (0..job.workers).map(|from| rank.receiver(RESULTS, worker_rank(from), channel));
    Ok(lanes.collect::<Result<_, _>>()?)
}
