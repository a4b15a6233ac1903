//! `sh-mem`: frames go from thread to thread as pointers, through the channels that a program without this
//! library would use, and come back to be filled again.

use std::collections::VecDeque;
use std::thread::{self, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use example_support::{Error, Result};
use onchip::trace::{Kind, Recorder, Track};

use super::collect::Collection;
use super::feed::Feed;
use super::placement::take_place;
use super::ranks::{EMITTER, collector_rank, worker_rank};
use super::stop::Stop;
use super::{Job, Recorded, Run, Schedule};
use crate::filter::gray_in_place;
use crate::frame::Format;

type Frame = Box<[u8]>;

/// A message of the emitter to the collector.
enum Order {
    /// The format of all frames, before the first.
    Begin(Format),
    /// The next frame goes to this worker.
    To(usize),
    /// There are no more: the stream is whole.
    End,
}

struct Emitter {
    order: Sender<Order>,
    lanes: Vec<Sender<Frame>>,
    ready: Receiver<usize>,
    free: Receiver<Frame>,
}

struct Worker {
    id: usize,
    input: Receiver<Frame>,
    output: Sender<Frame>,
    ready: Option<Sender<usize>>,
}

struct Collector {
    order: Receiver<Order>,
    lanes: Vec<Receiver<Frame>>,
    free: Sender<Frame>,
}

/// Runs the farm with emitter, workers and collector as threads.
///
/// # Errors
/// A fault of the input or the output.
pub fn run(job: &Job) -> Result<Run> {
    let (emitter, workers, collector) = connect(job);
    let recording = job.record.recording();
    let begin = |rank| {
        take_place(rank, job);
        recording.recorder(Track::rank(rank))
    };
    let (worked, emitted, collected) = thread::scope(|scope| {
        let begin = &begin;
        let emitter = scope.spawn(move || emitter.run(job, &begin(EMITTER)));
        let collector = scope.spawn(move || collector.run(job, &begin(collector_rank(job))));
        let work = |worker: Worker| {
            let rank = worker_rank(worker.id);
            scope.spawn(move || worker.run(job, &begin(rank)))
        };
        let workers: Vec<_> = workers.into_iter().map(work).collect();
        // All are joined before any result is looked at, so that every panic is accounted for.
        let worked: Vec<_> = workers.into_iter().map(|worker| ended("worker", worker)).collect();
        (worked, ended("emitter", emitter), ended("collector", collector))
    });
    for end in worked.into_iter().chain([emitted]) {
        if let Err(Stop::Farm(error)) = end {
            return Err(error);
        }
    }
    match collected {
        Ok(run) => Ok(Run { recorded: Recorded::take(&recording), ..run }),
        Err(Stop::Farm(error)) => Err(error),
        Err(_) => Err(Error::new("the stream broke off")),
    }
}

/// Returns how a thread ended.
fn ended<T>(name: &str, thread: ScopedJoinHandle<Result<T, Stop>>) -> Result<T, Stop> {
    let lost = |_| Err(Stop::Farm(Error::new(format!("the {name} panicked"))));
    thread.join().unwrap_or_else(lost)
}

/// Sends or receives, by `what`. If the other end of the channel is gone, another thread has failed, and reports why.
fn pass<T, E>(
    recorder: &Recorder,
    kind: Kind,
    what: impl FnOnce() -> Result<T, E>,
) -> Result<T, Stop> {
    let _open = recorder.begin(kind);
    what().map_err(|_| Stop::Quiet)
}

fn connect(job: &Job) -> (Emitter, Vec<Worker>, Collector) {
    let (order_in, order_out) = bounded(job.pool().max(1));
    let (free_in, free_out) = bounded(job.pool().max(1));
    let (ready_in, ready_out) = bounded((job.workers * job.requests_of_a_worker()).max(1));
    let (mut to_workers, mut from_workers, mut workers) = (Vec::new(), Vec::new(), Vec::new());
    for id in 0..job.workers {
        let (to_worker, input) = bounded(job.degree.max(1));
        // Room for all: a worker goes on while the collector waits for an older frame of another.
        let (output, from_worker) = bounded(job.pool().max(1));
        let ready = (job.schedule == Schedule::OnDemand).then(|| ready_in.clone());
        to_workers.push(to_worker);
        from_workers.push(from_worker);
        workers.push(Worker { id, input, output, ready });
    }
    let emitter = Emitter { order: order_in, lanes: to_workers, ready: ready_out, free: free_out };
    let collector = Collector { order: order_out, lanes: from_workers, free: free_in };
    (emitter, workers, collector)
}

impl Emitter {
    fn run(self, job: &Job, recorder: &Recorder) -> Result<(), Stop> {
        let mut feed = Feed::open(job)?;
        let format = feed.format();
        let new = |len| vec![0; len].into_boxed_slice();
        let mut to_make = job.pool();
        let mut buffers = VecDeque::new();
        if let Some(preload) = job.preload {
            buffers.extend(feed.preload(preload.frames, |len| Ok::<_, Error>(new(len)))?);
            to_make = 0;
        }
        self.order.send(Order::Begin(format)).map_err(|_| Stop::Quiet)?;
        let mut sent = 0;
        loop {
            let mut frame = match buffers.pop_front().or_else(|| self.free.try_recv().ok()) {
                Some(frame) => frame,
                None if to_make > 0 => {
                    to_make -= 1;
                    new(format.size.rgb_len())
                }
                None => pass(recorder, Kind::Receive, || self.free.recv())?,
            };
            let more = match job.preload {
                Some(preload) => sent < job.preloaded_total(preload),
                None => {
                    let _open = recorder.begin(Kind::Compute);
                    feed.fill(&mut frame)?
                }
            };
            if !more {
                return self.order.send(Order::End).map_err(|_| Stop::Quiet);
            }
            let worker = match job.schedule {
                Schedule::RoundRobin => (sent % job.workers as u64) as usize,
                Schedule::OnDemand => pass(recorder, Kind::Receive, || self.ready.recv())?,
            };
            self.order.send(Order::To(worker)).map_err(|_| Stop::Quiet)?;
            pass(recorder, Kind::Send, || self.lanes[worker].send(frame))?;
            sent += 1;
        }
    }
}

impl Worker {
    fn run(self, job: &Job, recorder: &Recorder) -> Result<(), Stop> {
        let ask = || {
            if let Some(ready) = &self.ready {
                // An emitter that has sent its last frame takes no more requests.
                let _ = ready.send(self.id);
            }
        };
        (0..job.requests_of_a_worker()).for_each(|_| ask());
        loop {
            let mut frame = pass(recorder, Kind::Receive, || self.input.recv())?;
            // The request comes before the work, so that the next frame is there when this one is done.
            ask();
            recorder.compute(1.0, || gray_in_place(&mut frame));
            pass(recorder, Kind::Send, || self.output.send(frame))?;
        }
    }
}

impl Collector {
    fn run(self, job: &Job, recorder: &Recorder) -> Result<Run, Stop> {
        let Ok(Order::Begin(format)) = self.order.recv() else { return Err(Stop::Quiet) };
        let mut collection = Collection::open(job, format)?;
        loop {
            let worker = match pass(recorder, Kind::Receive, || self.order.recv())? {
                Order::To(worker) => worker,
                Order::End => return Ok(collection.finish()?),
                Order::Begin(_) => return Err(Stop::Quiet),
            };
            let frame = pass(recorder, Kind::Receive, || self.lanes[worker].recv())?;
            let open = recorder.begin(Kind::Compute);
            collection.take(&frame[..format.size.gray_len()])?;
            drop(open);
            // An emitter that has sent its last frame needs no more buffers.
            let _ = self.free.send(frame);
        }
    }
}
