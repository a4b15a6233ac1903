//! `no-kt`: frames go by value, written by the sender into the very slot that the receiver reads.
//!
//! From a stream there is no copy besides: the input is read into the slot of a worker's channel,
//! and the filter reads that slot and writes into one of the channel to the collector. Frames
//! that are in memory already are copied once, as in the paper.

use onchip::prelude::*;

use super::collect::Collection;
use super::control::{Desk, Dispatch, Orders};
use super::feed::Feed;
use super::roles::{self, Roles, Stop};
use super::{Job, Ranks, Run, lanes};
use crate::error::FarmError;
use crate::filter::gray;
use crate::frame::{Format, Size};

/// Runs the farm in a world of threads or processes.
///
/// # Errors
/// A fault of the input or the output, or a rank that was lost.
pub fn run(job: &Job, ranks: Ranks) -> Result<Run, FarmError> {
    roles::run(job, ranks, &Roles { emit, work, collect })
}

fn rgb_channel(job: &Job, size: Size) -> Channel {
    Channel::degree(job.degree as u32).max_len(size.rgb_len())
}

fn gray_channel(job: &Job, size: Size) -> Channel {
    Channel::degree(job.degree as u32).max_len(size.gray_len())
}

fn emit(rank: &Rank, job: &Job) -> Result<(), Stop> {
    let mut dispatch = Dispatch::open(rank, job)?;
    let mut feed = Feed::open(job)?;
    let format = feed.format();
    let len = format.size.rgb_len();
    let preloaded = match job.preload {
        Some(preload) => feed.preload(preload.frames, |len| Ok::<_, Stop>(vec![0; len]))?,
        None => Vec::new(),
    };
    dispatch.begin(format)?;
    let mut lanes = lanes::frames_out(rank, job, rgb_channel(job, format.size))?;
    if let Some(preload) = job.preload {
        let total = job.preloaded_total(preload);
        for frame in preloaded.iter().cycle().take(total as usize) {
            let worker = dispatch.next_worker()?;
            lanes[worker].send(frame)?;
            dispatch.sent_to(worker)?;
        }
        return dispatch.end();
    }
    loop {
        let worker = dispatch.next_worker()?;
        let mut slot = lanes[worker].reserve(len)?;
        if !feed.fill(&mut slot)? {
            drop(slot);
            return dispatch.end();
        }
        slot.publish()?;
        dispatch.sent_to(worker)?;
    }
}

fn work(rank: &Rank, job: &Job) -> Result<(), Stop> {
    let mut desk = Desk::open(rank, job)?;
    let Format { size, .. } = desk.begin(job)?;
    let frames = lanes::frames_in(rank, rgb_channel(job, size))?;
    let mut results = lanes::results_out(rank, job, gray_channel(job, size))?;
    loop {
        let frame = frames.receive()?;
        desk.ask()?;
        let mut result = results.reserve(size.gray_len())?;
        gray(&frame, &mut result);
        result.publish()?;
    }
}

fn collect(rank: &Rank, job: &Job) -> Result<Run, Stop> {
    let orders = Orders::open(rank, job)?;
    let format = orders.begin()?;
    let results = lanes::results_in(rank, job, gray_channel(job, format.size))?;
    let mut collection = Collection::open(job, format)?;
    while let Some(worker) = orders.next_worker()? {
        collection.take(&results[worker].receive()?)?;
    }
    Ok(collection.finish()?)
}
