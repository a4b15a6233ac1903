//! `moved`: a frame is a shared buffer whose ownership goes from rank to rank while the pixels
//! stay where they were read. The worker filters in place; the collector sends the buffer back
//! to the emitter, which reads the next frame into it.

use std::collections::VecDeque;

use example_support::Result;
use onchip::prelude::*;

use super::collect::Collection;
use super::control::{Desk, Dispatch, Orders};
use super::feed::Feed;
use super::ranks::{EMITTER, collector_rank, worker_rank};
use super::roles::{self, Roles};
use super::seat::Seat;
use super::stop::Stop;
use super::{Job, Ranks, Run, lanes};
use crate::filter::gray_in_place;

/// Runs the farm in a world of threads or processes.
///
/// # Errors
/// A fault of the input or the output, or a rank that was lost.
pub fn run(job: &Job, ranks: Ranks) -> Result<Run> {
    roles::run(job, ranks, None, &Roles { emit, work, collect })
}

/// The channel of buffers from the collector to the emitter.
const BACK: &str = "free buffers";

/// Returns the channel from the emitter to a worker. A channel of moved buffers needs no room for frames.
fn lane(job: &Job) -> Channel {
    Channel::degree(job.degree as u32)
}

/// Returns a channel with room for every buffer there is. So a worker goes on while the collector waits for an older
/// frame of another, and the collector never waits for the emitter. The number of buffers decides how much memory the
/// farm takes.
fn unblocked(job: &Job) -> Channel {
    Channel::degree(job.pool() as u32)
}

/// The emitter's buffers: those at hand, those that come back, and those not made yet.
struct Buffers {
    at_hand: VecDeque<SharedBuffer<u8>>,
    back: Receiver<[u8]>,
    to_make: usize,
}

impl Buffers {
    fn next(&mut self, seat: &Seat, len: usize) -> Result<SharedBuffer<u8>, Stop> {
        if let Some(buffer) = self.at_hand.pop_front() {
            return Ok(buffer);
        }
        if let Some(buffer) = self.back.try_receive_buffer()? {
            return Ok(buffer);
        }
        if self.to_make > 0 {
            self.to_make -= 1;
            return Ok(seat.rank.buffer(len)?);
        }
        seat.receive(|| self.back.receive_buffer())
    }
}

fn emit(seat: &Seat) -> Result<(), Stop> {
    let &Seat { rank, job, .. } = seat;
    let mut dispatch = Dispatch::open(seat)?;
    let mut lanes = lanes::frames_out(rank, job, lane(job))?;
    let back = rank.receiver(BACK, collector_rank(job), unblocked(job))?;
    let mut buffers = Buffers { at_hand: VecDeque::new(), back, to_make: job.pool() };
    let mut feed = Feed::open(job)?;
    let format = feed.format();
    if let Some(preload) = job.preload {
        let buffer = |len| rank.buffer::<u8>(len).map_err(Stop::from);
        buffers.at_hand.extend(feed.preload(preload.frames, buffer)?);
        buffers.to_make = 0;
    }
    dispatch.begin(format)?;
    let len = format.size.rgb_len();
    let mut sent = 0;
    loop {
        if job.preload.is_some_and(|preload| sent == job.preloaded_total(preload)) {
            return dispatch.end();
        }
        let mut buffer = buffers.next(seat, len)?;
        if job.preload.is_none() && !seat.compute(|| feed.fill(&mut buffer))? {
            return dispatch.end();
        }
        let worker = dispatch.next_worker()?;
        seat.send(worker_rank(worker), len, || lanes[worker].send_buffer(buffer))?;
        dispatch.sent_to(worker)?;
        sent += 1;
    }
}

fn work(seat: &Seat) -> Result<(), Stop> {
    let &Seat { rank, job, .. } = seat;
    let mut desk = Desk::open(rank, job)?;
    let frames = lanes::frames_in(rank, lane(job))?;
    let mut results = lanes::results_out(rank, job, unblocked(job))?;
    desk.begin(job)?;
    loop {
        let mut frame = seat.receive(|| frames.receive_buffer())?;
        desk.ask()?;
        seat.filter(|| gray_in_place(&mut frame));
        seat.send(collector_rank(job), frame.len(), || results.send_buffer(frame))?;
    }
}

fn collect(seat: &Seat) -> Result<Run, Stop> {
    let &Seat { rank, job, .. } = seat;
    let orders = Orders::open(seat)?;
    let results = lanes::results_in(rank, job, unblocked(job))?;
    let mut back = rank.sender(BACK, EMITTER, unblocked(job))?;
    let format = orders.begin()?;
    let mut collection = Collection::open(job, format)?;
    while let Some(worker) = orders.next_worker()? {
        let frame = seat.receive(|| results[worker].receive_buffer())?;
        seat.compute(|| collection.take(&frame[..format.size.gray_len()]))?;
        match seat.send(EMITTER, frame.len(), || back.send_buffer(frame)) {
            // The emitter has sent its last frame and needs no more buffers.
            Ok(()) | Err(Stop::Quiet) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(collection.finish()?)
}
