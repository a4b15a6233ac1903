//! `no-kt`: frames go by value. The sender writes them into the slot that the receiver reads.
//!
//! From a stream there is no other copy: the input is read into the slot of a worker's channel, and the filter reads
//! that slot and writes into a slot of the channel to the collector. Frames that are already in memory are copied once,
//! as in the paper.

use example_support::Result;
use onchip::prelude::*;

use super::collect::Collection;
use super::control::{Desk, Dispatch, Orders};
use super::feed::Feed;
use super::ranks::{collector_rank, worker_rank};
use super::roles::{self, Roles};
use super::seat::Seat;
use super::stop::Stop;
use super::{Job, Ranks, Run, lanes};
use crate::filter::gray;
use crate::frame::{Format, Size};

/// Runs the farm in a world of threads or processes.
///
/// # Errors
/// A fault of the input or the output, or a rank that was lost.
pub fn run(job: &Job, ranks: Ranks) -> Result<Run> {
    roles::run(job, ranks, None, &Roles { emit, work, collect })
}

pub(super) fn rgb_channel(job: &Job, size: Size) -> Channel {
    Channel::degree(job.degree as u32).max_len(size.rgb_len())
}

pub(super) fn gray_channel(job: &Job, size: Size) -> Channel {
    Channel::degree(job.degree as u32).max_len(size.gray_len())
}

pub(super) fn emit(seat: &Seat) -> Result<(), Stop> {
    let &Seat { rank, job, .. } = seat;
    let mut dispatch = Dispatch::open(seat)?;
    let mut feed = Feed::open(job)?;
    let format = feed.format();
    let len = format.size.rgb_len();
    let preloaded = feed.preloaded(job)?;
    dispatch.begin(format)?;
    let mut lanes = lanes::frames_out(rank, job, rgb_channel(job, format.size))?;
    if let Some(preload) = job.preload {
        let total = job.preloaded_total(preload);
        for frame in preloaded.iter().cycle().take(total as usize) {
            let worker = dispatch.next_worker()?;
            seat.send(worker_rank(worker), len, || lanes[worker].send(frame))?;
            dispatch.sent_to(worker)?;
        }
        return dispatch.end();
    }
    loop {
        let worker = dispatch.next_worker()?;
        let to = worker_rank(worker);
        let mut slot = seat.send(to, 0, || lanes[worker].reserve(len))?;
        if !seat.compute(|| feed.fill(&mut slot))? {
            drop(slot);
            return dispatch.end();
        }
        seat.send(to, len, || slot.publish())?;
        dispatch.sent_to(worker)?;
    }
}

pub(super) fn work(seat: &Seat) -> Result<(), Stop> {
    let &Seat { rank, job, .. } = seat;
    let mut desk = Desk::open(rank, job)?;
    let Format { size, .. } = desk.begin(job)?;
    let frames = lanes::frames_in(rank, rgb_channel(job, size))?;
    let mut results = lanes::results_out(rank, job, gray_channel(job, size))?;
    let (to, len) = (collector_rank(job), size.gray_len());
    loop {
        let frame = seat.receive(|| frames.receive())?;
        desk.ask()?;
        let mut result = seat.send(to, 0, || results.reserve(len))?;
        seat.filter(|| gray(&frame, &mut result));
        seat.send(to, len, || result.publish())?;
    }
}

pub(super) fn collect(seat: &Seat) -> Result<Run, Stop> {
    let &Seat { rank, job, .. } = seat;
    let orders = Orders::open(seat)?;
    let format = orders.begin()?;
    let results = lanes::results_in(rank, job, gray_channel(job, format.size))?;
    let mut collection = Collection::open(job, format)?;
    while let Some(worker) = orders.next_worker()? {
        let result = seat.receive(|| results[worker].receive())?;
        seat.compute(|| collection.take(&result))?;
    }
    Ok(collection.finish()?)
}
