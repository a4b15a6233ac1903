//! What a farm is to do and how, and what it did.

use clap::ValueEnum;
use example_support::display_as_on_the_command_line;
pub use example_support::options::Ranks;
use serde::{Deserialize, Serialize};

use super::record::{Record, Recorded};
use crate::frame::Size;
use crate::input::Input;
use crate::output::Output;

/// How a frame gets from one rank to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Pointers, through channels between threads: the shared-memory baseline (threads only)
    ShMem,
    /// By value, without communication threads
    NoKt,
    /// Shared buffers whose ownership moves
    Moved,
    /// By value, copied by a communication thread for each worker
    KtW,
    /// By value, copied by communication threads for the emitter and for groups of workers
    KtSpecialized,
    /// By value, copied by one communication thread a core (threads only)
    KtGeneralized,
}

impl Mode {
    /// The modes of the paper's Table I, and the one that is new.
    pub const TABLE_I: [Self; 4] = [Self::ShMem, Self::NoKt, Self::KtW, Self::Moved];

    /// The modes of the paper's Table II.
    pub const TABLE_II: [Self; 3] = [Self::ShMem, Self::KtSpecialized, Self::KtGeneralized];

    /// Returns whether frames are copied by communication threads, if there is room for these.
    pub fn has_kts(self) -> bool {
        matches!(self, Self::KtW | Self::KtSpecialized | Self::KtGeneralized)
    }

    /// Returns whether ranks can be processes: not in modes that need one address space.
    pub fn works_with(self, ranks: Ranks) -> bool {
        ranks == Ranks::Threads || !matches!(self, Self::ShMem | Self::KtGeneralized)
    }
}

/// To which worker the next frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// To one after the other, as in the paper.
    RoundRobin,
    /// To the one that asks for it.
    OnDemand,
}

display_as_on_the_command_line!(Mode, Schedule);

/// One run of a farm.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where frames come from.
    pub input: Input,
    /// Where they go.
    pub output: Output,
    /// How many frames to filter; all that the input has when `None`.
    pub frames: Option<u64>,
    /// How many workers, at least one.
    pub workers: usize,
    /// To which worker the next frame goes.
    pub schedule: Schedule,
    /// How many frames may be in a channel between two ranks without blocking the sender. Results
    /// that go by reference have room anyway: their number is that of the buffers.
    pub degree: usize,
    /// Read the stream ahead and measure the farm alone, as the paper does.
    pub preload: Option<Preload>,
    /// How many communication threads, where a mode leaves that open: those of the emitter in
    /// kt-specialized, at most so many in kt-generalized.
    pub kts: Option<usize>,
    /// Run communication threads also where they have no hardware thread of their own.
    pub force_kts: bool,
    /// What to record.
    pub record: Record,
    /// Show progress on a terminal.
    pub progress: bool,
}

/// Frames held in memory and sent again and again.
///
/// An emitter that passes references sends the very buffers, which the workers overwrite. So from the second time on, a
/// frame is not what it was. Only its price is of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preload {
    /// How many different frames to hold, if the input has as many.
    pub frames: usize,
    /// The number of frames to send before the clock starts, so that every page of every buffer has been touched by
    /// then.
    pub warm_up: u64,
}

impl Job {
    /// Makes a job: `workers` workers filter all frames of the input in turn, through channels of one frame. The caller
    /// changes what should be otherwise.
    pub fn new(input: Input, output: Output, workers: usize) -> Self {
        Self {
            input,
            output,
            frames: None,
            workers,
            schedule: Schedule::RoundRobin,
            degree: 1,
            preload: None,
            kts: None,
            force_kts: false,
            record: Record::Nothing,
            progress: false,
        }
    }

    /// Returns the number of frames that can be between the emitter and the collector at one time: those in the
    /// channels of every worker, and the one that it is at.
    pub(super) fn in_flight(&self) -> usize {
        self.workers * (2 * self.degree.max(1) + 1)
    }

    /// Returns how many requests a worker may have with the emitter under [`Schedule::OnDemand`].
    pub(super) fn requests_of_a_worker(&self) -> usize {
        self.degree.max(1)
    }

    /// Returns the number of buffers that circulate if frames are passed by reference.
    pub(super) fn pool(&self) -> usize {
        let reading = 1;
        (self.in_flight() + reading).max(self.preload.map_or(0, |preload| preload.frames))
    }

    /// Returns the number of frames to send if they are preloaded.
    pub(super) fn preloaded_total(&self, preload: Preload) -> u64 {
        preload.warm_up + self.frames.unwrap_or(preload.frames as u64)
    }
}

/// The result of a farm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The size of the frames.
    pub size: Size,
    /// The number of frames that came out at the end.
    pub frames: u64,
    /// The time that took, in seconds, without what was before the first frame of the measurement.
    pub seconds: f64,
    /// The recordings that the job asked for.
    pub recorded: Recorded,
}

impl Run {
    /// Returns the service time of the farm, which is the inverse of its throughput, in microseconds.
    pub fn service_time(&self) -> f64 {
        1e6 * self.seconds / self.frames.max(1) as f64
    }
}
