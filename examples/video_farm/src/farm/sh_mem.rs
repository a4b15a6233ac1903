//! `sh-mem`: frames go from thread to thread as pointers, through the channels that a program without this
//! library would use, and come back to be filled again.

use std::collections::VecDeque;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use example_support::{Error, Result};
use onchip::trace::{Detail, Kind, Recorder, Track};

use super::collect::Collection;
use super::feed::Feed;
use super::placement::take_place;
use super::roles::{EMITTER, collector_rank, worker_rank};
use super::{Job, Recorded, Run, Schedule};
use crate::filter::gray_in_place;
use crate::frame::Format;

type Frame = Box<[u8]>;

/// What the emitter tells the collector.
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
    let recorder = |rank| recording.recorder(Track::rank(rank));
    let lost = |name: &str| Error::new(format!("the {name} panicked"));
    let run = thread::scope(|scope| {
        let recorder = &recorder;
        let emitter = scope.spawn(move || {
            take_place(EMITTER, job);
            emitter.run(job, &recorder(EMITTER))
        });
        let collector = scope.spawn(move || {
            take_place(collector_rank(job), job);
            collector.run(job, &recorder(collector_rank(job)))
        });
        let workers = workers.into_iter().map(|worker| {
            scope.spawn(move || {
                let rank = worker_rank(worker.id);
                take_place(rank, job);
                worker.run(job, &recorder(rank))
            })
        });
        let workers: Vec<_> = workers.collect();
        // All are joined before any result is looked at, so that every panic is accounted for.
        let emitted = emitter.join().map_err(|_| lost("emitter"));
        let worked = workers.into_iter().map(|worker| worker.join().map_err(|_| lost("worker")));
        let worked: Result<Vec<()>, _> = worked.collect();
        let collected = collector.join().map_err(|_| lost("collector"));
        worked?;
        emitted??;
        collected??.ok_or_else(|| Error::new("the stream broke off"))
    })?;
    Ok(Run { recorded: Recorded::take(&recording), ..run })
}

/// Records what takes time: waiting, or work.
fn during<T>(recorder: &Recorder, kind: Kind, what: impl FnOnce() -> T) -> T {
    let open = recorder.begin(kind);
    let result = what();
    open.end(Detail::default());
    result
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
    fn run(self, job: &Job, recorder: &Recorder) -> Result<()> {
        let mut feed = Feed::open(job)?;
        let format = feed.format();
        let len = format.size.rgb_len();
        let mut buffers = VecDeque::new();
        if let Some(preload) = job.preload {
            let new = |len| Ok::<_, Error>(vec![0; len].into_boxed_slice());
            buffers.extend(feed.preload(preload.frames, new)?);
        }
        let mut sent = 0;
        let mut allocated = 0;
        // A queue without the other end: someone has failed, and says so.
        let mut send = || -> Option<Result<()>> {
            self.order.send(Order::Begin(format)).ok()?;
            loop {
                let mut frame = match buffers.pop_front().or_else(|| self.free.try_recv().ok()) {
                    Some(frame) => frame,
                    None if job.preload.is_none() && allocated < job.pool() => {
                        allocated += 1;
                        vec![0; len].into_boxed_slice()
                    }
                    None => during(recorder, Kind::Receive, || self.free.recv()).ok()?,
                };
                let more = match job.preload {
                    Some(preload) => sent < job.preloaded_total(preload),
                    None => match during(recorder, Kind::Compute, || feed.fill(&mut frame)) {
                        Ok(more) => more,
                        Err(error) => return Some(Err(error)),
                    },
                };
                if !more {
                    self.order.send(Order::End).ok()?;
                    return Some(Ok(()));
                }
                let worker = match job.schedule {
                    Schedule::RoundRobin => (sent % job.workers as u64) as usize,
                    Schedule::OnDemand => {
                        during(recorder, Kind::Receive, || self.ready.recv()).ok()?
                    }
                };
                self.order.send(Order::To(worker)).ok()?;
                during(recorder, Kind::Send, || self.lanes[worker].send(frame)).ok()?;
                sent += 1;
            }
        };
        send().unwrap_or(Ok(()))
    }
}

impl Worker {
    fn run(self, job: &Job, recorder: &Recorder) {
        let ask = || {
            if let Some(ready) = &self.ready {
                // An emitter that has sent its last frame hears no more requests.
                let _ = ready.send(self.id);
            }
        };
        (0..job.requests_of_a_worker()).for_each(|_| ask());
        while let Ok(mut frame) = during(recorder, Kind::Receive, || self.input.recv()) {
            // Asked for before the work, so that the next frame is there when this one is done.
            ask();
            recorder.compute(1.0, || gray_in_place(&mut frame));
            if during(recorder, Kind::Send, || self.output.send(frame)).is_err() {
                return;
            }
        }
    }
}

impl Collector {
    /// `None` when the emitter has stopped before the end of the stream.
    fn run(self, job: &Job, recorder: &Recorder) -> Result<Option<Run>> {
        let Ok(Order::Begin(format)) = self.order.recv() else {
            return Ok(None);
        };
        let mut collection = Collection::open(job, format)?;
        loop {
            let frame = match during(recorder, Kind::Receive, || self.order.recv()) {
                Ok(Order::To(worker)) => {
                    during(recorder, Kind::Receive, || self.lanes[worker].recv())
                }
                Ok(Order::End) => return collection.finish().map(Some),
                Ok(Order::Begin(_)) | Err(_) => return Ok(None),
            };
            let Ok(frame) = frame else {
                return Ok(None);
            };
            during(recorder, Kind::Compute, || collection.take(&frame[..format.size.gray_len()]))?;
            // An emitter that has sent its last frame needs no more buffers.
            let _ = self.free.send(frame);
        }
    }
}
