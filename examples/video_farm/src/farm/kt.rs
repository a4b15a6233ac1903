//! `kt-w`, `kt-specialized`, `kt-generalized`: frames go by value, and communication threads copy
//! them while emitter and workers go on with the next.
//!
//! A frame is made in memory of its rank and handed over, and the rank takes another buffer until it gets this one
//! back. The modes differ only in which thread copies for which rank, and where: see `helpers`. A rank without a KT
//! works as in `no-kt`.

use std::collections::VecDeque;
use std::sync::Arc;

use example_support::Result;
use onchip::prelude::*;
use onchip::trace::Kind;

use super::control::{Desk, Dispatch};
use super::feed::Feed;
use super::helpers::Helped;
use super::lanes::{self, FRAMES, RESULTS};
use super::no_kt::{self, gray_channel, rgb_channel};
use super::ranks::{EMITTER, collector_rank, worker_rank};
use super::roles::{self, Roles};
use super::seat::Seat;
use super::stop::Stop;
use super::{Job, Ranks, Run};
use crate::filter::gray;
use crate::frame::Format;

/// Runs the farm in a world of threads or processes.
///
/// # Errors
/// A fault of the input or the output, or a rank that was lost.
pub fn run(job: &Job, ranks: Ranks, helped: &Helped) -> Result<Run> {
    roles::run(job, ranks, Some(helped), &Roles { emit, work, collect: no_kt::collect })
}

/// A frame that the worker filters, and the previous one, which is being copied.
const RESULTS_OF_A_WORKER: usize = 2;

/// Returns the emitter's number of frames: for each worker one that is being copied, and the one that is being read.
fn frames_of_the_emitter(job: &Job) -> usize {
    job.workers + 1
}

/// Sends that were handed over, up to a limit.
struct UnderWay<B> {
    requests: VecDeque<threads::Request<B>>,
    most: usize,
}

impl<B> UnderWay<B> {
    fn new(most: usize) -> Self {
        Self { requests: VecDeque::with_capacity(most), most }
    }

    /// Makes room for one more send. If there are as many as there may be, returns what was handed over first.
    fn room(&mut self, seat: &Seat) -> Result<Option<B>, Stop> {
        if self.requests.len() < self.most {
            return Ok(None);
        }
        let done = self.requests.iter().position(threads::Request::is_done).unwrap_or(0);
        self.requests.remove(done).map(|request| wait(seat, request)).transpose()
    }

    fn add(&mut self, request: threads::Request<B>) {
        self.requests.push_back(request);
    }

    /// Waits for all of them.
    fn finish(self, seat: &Seat) -> Result<(), Stop> {
        self.requests.into_iter().try_for_each(|request| wait(seat, request).map(drop))
    }
}

fn wait<B>(seat: &Seat, request: threads::Request<B>) -> Result<B, Stop> {
    let open = (!request.is_done()).then(|| seat.recorder.begin(Kind::Wait));
    let message = request.wait().map_err(|unsent| unsent.error)?;
    drop(open);
    Ok(message)
}

fn emit(seat: &Seat) -> Result<(), Stop> {
    let &Seat { rank, job, .. } = seat;
    if !seat.helpers.serve(EMITTER, job) {
        return no_kt::emit(seat);
    }
    let mut dispatch = Dispatch::open(seat)?;
    let mut feed = Feed::open(job)?;
    let format = feed.format();
    let len = format.size.rgb_len();
    let preloaded = feed.preloaded(job)?;
    dispatch.begin(format)?;
    let lanes = lanes::frames_out(rank, job, rgb_channel(job, format.size))?;
    let delegate = |(worker, lane)| seat.delegate(lane, worker_rank(worker), FRAMES);
    let mut lanes: Vec<Delegated<[u8]>> = lanes.into_iter().enumerate().map(delegate).collect();
    if let Some(preload) = job.preload {
        let mut under_way = UnderWay::new(frames_of_the_emitter(job));
        let frames: Vec<Arc<[u8]>> = preloaded.into_iter().map(Arc::from).collect();
        let total = job.preloaded_total(preload);
        for frame in frames.iter().cycle().take(total as usize) {
            let worker = dispatch.next_worker()?;
            under_way.room(seat)?;
            under_way.add(lanes[worker].send(Arc::clone(frame)));
            dispatch.sent_to(worker)?;
        }
        under_way.finish(seat)?;
        return dispatch.end();
    }
    let mut under_way = UnderWay::new(frames_of_the_emitter(job));
    loop {
        let mut frame = under_way.room(seat)?.unwrap_or_else(|| vec![0; len]);
        if !seat.compute(|| feed.fill(&mut frame))? {
            under_way.finish(seat)?;
            return dispatch.end();
        }
        let worker = dispatch.next_worker()?;
        under_way.add(lanes[worker].send(frame));
        dispatch.sent_to(worker)?;
    }
}

fn work(seat: &Seat) -> Result<(), Stop> {
    let &Seat { rank, job, .. } = seat;
    if !seat.helpers.serve(rank.id(), job) {
        return no_kt::work(seat);
    }
    let mut desk = Desk::open(rank, job)?;
    let Format { size, .. } = desk.begin(job)?;
    let frames = lanes::frames_in(rank, rgb_channel(job, size))?;
    let results = lanes::results_out(rank, job, gray_channel(job, size))?;
    let mut results = seat.delegate(results, collector_rank(job), RESULTS);
    let mut under_way = UnderWay::new(RESULTS_OF_A_WORKER);
    loop {
        let frame = match seat.receive(|| frames.receive()) {
            Ok(frame) => frame,
            // There are no more frames.
            Err(Stop::Quiet) => return under_way.finish(seat),
            Err(stop) => return Err(stop),
        };
        desk.ask()?;
        let mut result = under_way.room(seat)?.unwrap_or_else(|| vec![0; size.gray_len()]);
        seat.filter(|| gray(&frame, &mut result));
        drop(frame);
        under_way.add(results.send(result));
    }
}
