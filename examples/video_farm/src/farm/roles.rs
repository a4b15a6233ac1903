//! Emitter, workers and collector as ranks of a world, and the small channels between them that
//! say what goes where. The frames themselves are the modes' affair.

use onchip::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Job, Ranks, Run, Schedule};
use crate::error::FarmError;
use crate::frame::{Format, Rate, Size};

/// The rank of the emitter.
const EMITTER: usize = 0;

/// The rank of a worker, counted from 0.
fn worker_rank(worker: usize) -> usize {
    EMITTER + 1 + worker
}

fn collector_rank(job: &Job) -> usize {
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

/// A format as it goes through a channel: width, height, rate, and the frames or `u64::MAX`.
type PlainFormat = [u64; 5];

fn to_plain(format: Format) -> PlainFormat {
    let Format { size, rate, frames } = format;
    let [frames_rate, seconds] = [rate.frames, rate.seconds].map(u64::from);
    let frames = frames.unwrap_or(u64::MAX);
    [size.width() as u64, size.height() as u64, frames_rate, seconds, frames]
}

fn from_plain([width, height, frames, seconds, count]: PlainFormat) -> Result<Format, Stop> {
    let broken = |error: &dyn std::fmt::Display| Stop::Farm(FarmError::World(error.to_string()));
    let size = Size::new(width, height).map_err(|error| broken(&error))?;
    let part = |number: u64| u32::try_from(number).map_err(|error| broken(&error));
    let rate = Rate { frames: part(frames)?, seconds: part(seconds)? };
    Ok(Format { size, rate, frames: (count < u64::MAX).then_some(count) })
}

/// The workers' requests for frames, when they are on demand.
fn requests(job: &Job) -> (Parties, Channel) {
    let workers = (0..job.workers).map(worker_rank);
    let degree = job.workers * job.requests_of_a_worker();
    (Parties::new(workers, [EMITTER]), Channel::degree(degree as u32))
}

/// In the stream of worker numbers from emitter to collector: the stream is whole.
const END: u64 = u64::MAX;

fn orders(job: &Job) -> Channel {
    Channel::degree(job.in_flight() as u32)
}

const FORMAT: Channel = Channel::degree(1);

/// The emitter's end of the small channels.
pub(super) struct Dispatch {
    formats: Vec<Sender<PlainFormat>>,
    orders: Sender<u64>,
    requests: Option<Receiver<u64>>,
    workers: usize,
    turn: usize,
}

impl Dispatch {
    pub(super) fn open(rank: &Rank, job: &Job) -> Result<Self, Stop> {
        let collector = collector_rank(job);
        let formats = (EMITTER + 1..=collector).map(|to| rank.sender("format", to, FORMAT));
        let requests = match job.schedule {
            Schedule::RoundRobin => None,
            Schedule::OnDemand => {
                let (parties, channel) = requests(job);
                Some(rank.shared_receiver("requests", &parties, channel)?)
            }
        };
        Ok(Self {
            formats: formats.collect::<Result<_, _>>()?,
            orders: rank.sender("orders", collector, orders(job))?,
            requests,
            workers: job.workers,
            turn: 0,
        })
    }

    /// Tells everyone what the frames are like.
    pub(super) fn begin(&mut self, format: Format) -> Result<(), Stop> {
        for to in &mut self.formats {
            to.send(&to_plain(format))?;
        }
        Ok(())
    }

    /// The worker that gets the next frame.
    pub(super) fn next_worker(&mut self) -> Result<usize, Stop> {
        let Some(requests) = &self.requests else {
            let worker = self.turn;
            self.turn = (worker + 1) % self.workers;
            return Ok(worker);
        };
        let worker = *requests.receive()?;
        let known = usize::try_from(worker).ok().filter(|&worker| worker < self.workers);
        known.ok_or_else(|| unknown_worker(worker))
    }

    /// Tells the collector to take the next frame from `worker`.
    pub(super) fn sent_to(&mut self, worker: usize) -> Result<(), Stop> {
        Ok(self.orders.send(&(worker as u64))?)
    }

    /// Tells the collector that it has been told of all frames.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        Ok(self.orders.send(&END)?)
    }
}

/// A worker's end of the small channels.
pub(super) struct Desk {
    number: usize,
    formats: Receiver<PlainFormat>,
    requests: Option<Sender<u64>>,
}

impl Desk {
    pub(super) fn open(rank: &Rank, job: &Job) -> Result<Self, Stop> {
        let requests = match job.schedule {
            Schedule::RoundRobin => None,
            Schedule::OnDemand => {
                let (parties, channel) = requests(job);
                Some(rank.shared_sender("requests", &parties, channel)?)
            }
        };
        let number = rank.id() - worker_rank(0);
        Ok(Self { number, formats: rank.receiver("format", EMITTER, FORMAT)?, requests })
    }

    /// Waits to be told what the frames are like, and asks for the first.
    pub(super) fn begin(&mut self, job: &Job) -> Result<Format, Stop> {
        let format = from_plain(*self.formats.receive()?)?;
        for _ in 0..job.requests_of_a_worker() {
            self.ask()?;
        }
        Ok(format)
    }

    /// Asks for a frame; to be called for each that was received, before the work on it, so that
    /// the next is there when this one is done.
    pub(super) fn ask(&mut self) -> Result<(), Stop> {
        let Some(requests) = &mut self.requests else {
            return Ok(());
        };
        match requests.send(&(self.number as u64)) {
            // The emitter has sent its last frame and hears no more.
            Ok(()) | Err(onchip::Error::Disconnected { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The collector's end of the small channels.
pub(super) struct Orders {
    formats: Receiver<PlainFormat>,
    orders: Receiver<u64>,
    workers: usize,
}

impl Orders {
    pub(super) fn open(rank: &Rank, job: &Job) -> Result<Self, Stop> {
        Ok(Self {
            formats: rank.receiver("format", EMITTER, FORMAT)?,
            orders: rank.receiver("orders", EMITTER, orders(job))?,
            workers: job.workers,
        })
    }

    /// Waits to be told what the frames are like.
    pub(super) fn begin(&self) -> Result<Format, Stop> {
        from_plain(*self.formats.receive()?)
    }

    /// The worker whose result is next; `None` when the stream is whole.
    pub(super) fn next_worker(&self) -> Result<Option<usize>, Stop> {
        match *self.orders.receive()? {
            END => Ok(None),
            worker => match usize::try_from(worker).ok().filter(|&worker| worker < self.workers) {
                Some(worker) => Ok(Some(worker)),
                None => Err(unknown_worker(worker)),
            },
        }
    }
}

fn unknown_worker(worker: u64) -> Stop {
    Stop::Farm(FarmError::World(format!("there is no worker {worker}")))
}

/// The channels of frames between one rank and every worker.
pub(super) mod lanes {
    use super::*;

    const IN: &str = "frames";
    const OUT: &str = "gray frames";

    pub(in super::super) fn emitter(
        rank: &Rank,
        job: &Job,
        channel: Channel,
    ) -> Result<Vec<Sender<[u8]>>, Stop> {
        let lanes = (0..job.workers).map(|to| rank.sender(IN, worker_rank(to), channel));
        Ok(lanes.collect::<Result<_, _>>()?)
    }

    pub(in super::super) fn worker(
        rank: &Rank,
        job: &Job,
        channels: (Channel, Channel),
    ) -> Result<(Receiver<[u8]>, Sender<[u8]>), Stop> {
        let frames = rank.receiver(IN, EMITTER, channels.0)?;
        Ok((frames, rank.sender(OUT, collector_rank(job), channels.1)?))
    }

    pub(in super::super) fn collector(
        rank: &Rank,
        job: &Job,
        channel: Channel,
    ) -> Result<Vec<Receiver<[u8]>>, Stop> {
        let lanes = (0..job.workers).map(|from| rank.receiver(OUT, worker_rank(from), channel));
        Ok(lanes.collect::<Result<_, _>>()?)
    }

    /// From the collector back to the emitter.
    const BACK: &str = "free buffers";

    pub(in super::super) fn back_to_emitter(
        rank: &Rank,
        channel: Channel,
    ) -> Result<Sender<[u8]>, Stop> {
        Ok(rank.sender(BACK, EMITTER, channel)?)
    }

    pub(in super::super) fn back_from_collector(
        rank: &Rank,
        job: &Job,
        channel: Channel,
    ) -> Result<Receiver<[u8]>, Stop> {
        Ok(rank.receiver(BACK, collector_rank(job), channel)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_survives_its_channel() {
        for frames in [None, Some(0), Some(300)] {
            let rate = Rate { frames: 30000, seconds: 1001 };
            let format = Format { size: Size::new(7, 5).unwrap(), rate, frames };
            assert_eq!(from_plain(to_plain(format)).ok(), Some(format));
        }
        assert!(from_plain([0, 1, 1, 1, 1]).is_err());
        assert!(from_plain([1, 1, u64::MAX, 1, 1]).is_err());
    }
}
