//! The small channels between the ranks that say what goes where. The frames themselves go
//! through the [`lanes`](super::lanes).

use example_support::{Error, Result};
use onchip::prelude::*;
use onchip::trace::{Kind, Recorder};

use super::ranks::{EMITTER, collector_rank, worker_rank};
use super::seat::Seat;
use super::stop::Stop;
use super::{Job, Schedule};
use crate::frame::{Format, Rate, Size};

/// A format as it goes through a channel: width, height, rate, and the frames or `u64::MAX`.
type PlainFormat = [u64; 5];

fn to_plain(format: Format) -> PlainFormat {
    let Format { size, rate, frames } = format;
    let [frames_rate, seconds] = [rate.frames, rate.seconds].map(u64::from);
    let frames = frames.unwrap_or(u64::MAX);
    [size.width() as u64, size.height() as u64, frames_rate, seconds, frames]
}

fn from_plain([width, height, frames, seconds, count]: PlainFormat) -> Result<Format, Stop> {
    let size = Size::new(width, height)?;
    let part = |number: u64| u32::try_from(number).map_err(Error::new);
    let rate = Rate { frames: part(frames)?, seconds: part(seconds)? };
    Ok(Format { size, rate, frames: (count < u64::MAX).then_some(count) })
}

/// The workers' requests for frames, when they are on demand.
fn requests(job: &Job) -> (Endpoints, Channel) {
    let workers = (0..job.workers).map(worker_rank);
    let degree = job.workers * job.requests_of_a_worker();
    (Endpoints::new(workers, [EMITTER]), Channel::degree(degree as u32))
}

/// In the stream of worker numbers from emitter to collector, this says that the stream is whole.
const END: u64 = u64::MAX;

fn orders(job: &Job) -> Channel {
    Channel::degree(job.pool() as u32)
}

const FORMAT: Channel = Channel::degree(1);

/// The emitter's end of the small channels.
pub(super) struct Dispatch {
    formats: Vec<Sender<PlainFormat>>,
    orders: Sender<u64>,
    requests: Option<Receiver<u64>>,
    workers: usize,
    turn: usize,
    recorder: Recorder,
}

impl Dispatch {
    pub(super) fn open(seat: &Seat) -> Result<Self, Stop> {
        let &Seat { rank, job, .. } = seat;
        let collector = collector_rank(job);
        let formats = (EMITTER + 1..=collector).map(|to| rank.sender("format", to, FORMAT));
        let requests = match job.schedule {
            Schedule::RoundRobin => None,
            Schedule::OnDemand => {
                let (endpoints, channel) = requests(job);
                Some(rank.shared_receiver("requests", &endpoints, channel)?)
            }
        };
        Ok(Self {
            formats: formats.collect::<Result<_, _>>()?,
            orders: rank.sender("orders", collector, orders(job))?,
            requests,
            workers: job.workers,
            turn: 0,
            recorder: seat.recorder.clone(),
        })
    }

    /// Tells all ranks the format of the frames.
    pub(super) fn begin(&mut self, format: Format) -> Result<(), Stop> {
        for to in &mut self.formats {
            to.send(&to_plain(format))?;
        }
        Ok(())
    }

    /// Returns the worker that gets the next frame.
    pub(super) fn next_worker(&mut self) -> Result<usize, Stop> {
        let Some(requests) = &self.requests else {
            let worker = self.turn;
            self.turn = (worker + 1) % self.workers;
            return Ok(worker);
        };
        let waiting = self.recorder.begin(Kind::Receive);
        let worker = *requests.receive()?;
        drop(waiting);
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
                let (endpoints, channel) = requests(job);
                Some(rank.shared_sender("requests", &endpoints, channel)?)
            }
        };
        let number = rank.id() - worker_rank(0);
        Ok(Self { number, formats: rank.receiver("format", EMITTER, FORMAT)?, requests })
    }

    /// Waits for the format of the frames, and asks for the first frame.
    pub(super) fn begin(&mut self, job: &Job) -> Result<Format, Stop> {
        let format = from_plain(*self.formats.receive()?)?;
        for _ in 0..job.requests_of_a_worker() {
            self.ask()?;
        }
        Ok(format)
    }

    /// Asks for a frame. It must be called for each frame that was received, before the work on it, so that the next
    /// one is there when this one is done.
    pub(super) fn ask(&mut self) -> Result<(), Stop> {
        let Some(requests) = &mut self.requests else {
            return Ok(());
        };
        match requests.send(&(self.number as u64)) {
            Ok(()) => Ok(()),
            // The emitter has sent its last frame, and takes no more requests.
            Err(error) if matches!(error.kind(), onchip::ErrorKind::Disconnected { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The collector's end of the small channels.
pub(super) struct Orders {
    formats: Receiver<PlainFormat>,
    orders: Receiver<u64>,
    workers: usize,
    recorder: Recorder,
}

impl Orders {
    pub(super) fn open(seat: &Seat) -> Result<Self, Stop> {
        let &Seat { rank, job, .. } = seat;
        Ok(Self {
            formats: rank.receiver("format", EMITTER, FORMAT)?,
            recorder: seat.recorder.clone(),
            orders: rank.receiver("orders", EMITTER, orders(job))?,
            workers: job.workers,
        })
    }

    /// Waits for the format of the frames.
    pub(super) fn begin(&self) -> Result<Format, Stop> {
        from_plain(*self.formats.receive()?)
    }

    /// Returns the worker whose result is next, or `None` when the stream is whole.
    pub(super) fn next_worker(&self) -> Result<Option<usize>, Stop> {
        let waiting = self.recorder.begin(Kind::Receive);
        let order = *self.orders.receive()?;
        drop(waiting);
        match order {
            END => Ok(None),
            worker => match usize::try_from(worker).ok().filter(|&worker| worker < self.workers) {
                Some(worker) => Ok(Some(worker)),
                None => Err(unknown_worker(worker)),
            },
        }
    }
}

fn unknown_worker(worker: u64) -> Stop {
    Stop::Farm(Error::new(format!("there is no worker {worker}")))
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
