//! The algorithms of critical sections on simulated machines, with more cores than this machine has, and with hardware
//! that does not exist.
//!
//! This is the code that ranks run (except for the channels of [`MpServer`](Scheme::MpServer), which are simulated), on
//! words of a memory in virtual time. [`crate::coherent`] determines how long an access takes, by the costs of cache
//! lines that Ramos and Hoefler measured, and counts remote memory references (RMRs). Actions that move no line take no
//! time, except the clients' pauses between operations and the additional cost of an increment. Only the lengths of
//! pauses are random, and they come from a seed, so the same [`Experiment`] gives the same result everywhere.
//!
//! ```
//! use onchip::critical::Scheme;
//! use onchip_research::critical::{Chip, Experiment};
//!
//! // A counter that 59 cores of a Xeon Phi ask the 60th for.
//! let experiment = Experiment::new(Chip::xeon_phi(60)?, Scheme::SlotServer, 59);
//! let measured = experiment.run()?;
//! assert!(measured.rate() > 1e6);
//! // A request is read, and its response written into a line at which the client looks.
//! assert!((measured.sections.serving.remote() - 2.0).abs() < 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `cores` | cores as coroutines, words, waiting |
//! | `channel` | a channel's ends on simulated words |
//! | `objects` | counters, stacks and queues to protect |
//! | `watch` | what an operation cost, and the hand-over to the next |
//! | `clients` | clients and servers at work |
//!
//! The clients' accesses to the library's bookkeeping (whether a rank was lost, and in which operations a thread is)
//! are left out, because their lines stay where they are.

mod channel;
mod clients;
mod cores;
mod objects;
#[cfg(test)]
mod tests;
mod watch;

use crate::coherent::ChipError;
pub use crate::coherent::{Chip, Counts, Messages, Prefetcher};
use mp_delegate::critical::{Scheme, Section};
pub use mp_model::Time;

pub use self::{
    objects::Task,
    watch::{Costs, Sections},
};

/// The means by which operations on an object exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One of the library's schemes. If it needs a server, the first cores serve: one for each critical section of the
    /// [`Task`].
    Section(Section),
    /// A counter that the processor increments with its own instruction.
    FetchAdd,
    /// [`TreiberStack`](crate::nonblocking::TreiberStack), for a stack.
    Treiber,
    /// [`RingQueue`](crate::nonblocking::RingQueue), for a queue: LCRQ's kind.
    Rings,
}

impl From<Section> for Way {
    fn from(section: Section) -> Self {
        Self::Section(section)
    }
}

impl From<Scheme> for Way {
    /// Takes the usual parameters, except that a [`SlotServer`](Scheme::SlotServer) has one line for each client, as in
    /// the thesis.
    fn from(scheme: Scheme) -> Self {
        let section = Section::new(scheme);
        Self::Section(if scheme == Scheme::SlotServer { section.in_flight(1) } else { section })
    }
}

/// Clients that ask for one operation after another on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Experiment {
    chip: Chip,
    way: Way,
    clients: usize,
    task: Task,
    window: usize,
    between: Time,
    time: Time,
    seed: u64,
    pause: Time,
    increment: Time,
}

/// Why an experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// The chip is impossible.
    #[error(transparent)]
    Chip(#[from] ChipError),
    /// There are too few cores: each client and each server has a core of its own.
    #[error("{needed} cores are needed, and there are {cores}")]
    Cores {
        /// How many cores all clients and servers need.
        needed: usize,
        /// How many cores there are.
        cores: usize,
    },
    /// The experiment makes no sense.
    #[error("{0}")]
    Senseless(&'static str),
    /// Cores wait for something that no core will do.
    #[error("deadlock: cores {0:?} wait")]
    Deadlock(Vec<usize>),
    /// An algorithm gave up.
    #[error("core {core} gave up: {reason}")]
    Stopped {
        /// The core whose algorithm gave up.
        core: usize,
        /// Why it gave up.
        reason: String,
    },
    /// Operations did not exclude each other, or were lost: an algorithm is wrong.
    #[error("wrong results: {0}")]
    Wrong(String),
}

/// The result of an experiment, after a tenth of its time for warming up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The measured time.
    pub time: Time,
    /// How many operations each client executed in that time.
    pub operations: Vec<u64>,
    /// How long clients waited for all of these operations together.
    pub waited: Time,
    /// The costs of the critical sections.
    pub sections: Sections,
}

impl Measured {
    /// Returns the number of operations of all clients.
    pub fn operations(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// Returns the number of operations per second.
    pub fn rate(&self) -> f64 {
        self.operations() as f64 / (self.time.as_nanos() * 1e-9)
    }

    /// Returns how long a client waits for an operation, on average, in nanoseconds.
    pub fn latency(&self) -> f64 {
        self.waited.as_nanos() / self.operations().max(1) as f64
    }

    /// Returns the most operations of a client divided by the fewest (T 6.2.3): 1 is fair.
    pub fn unfairness(&self) -> f64 {
        let most = self.operations.iter().max().copied().unwrap_or_default();
        let least = self.operations.iter().min().copied().unwrap_or_default();
        most as f64 / least as f64
    }
}

impl Experiment {
    /// Creates an experiment on a [counter](Task::Counter), with one operation at a time, and pauses of up to 50 ns
    /// between them. It runs for 100 µs or as long as it takes to move 100 lines for each client.
    pub fn new(chip: Chip, way: impl Into<Way>, clients: usize) -> Self {
        let transfers = 100 * clients as u64 * chip.machine.parameters.far.transfer;
        let time = transfers.max(Time::from_nanos(100_000));
        Self {
            chip,
            way: way.into(),
            clients,
            task: Task::Counter,
            window: 1,
            between: Time::from_nanos(50),
            time,
            seed: 1,
            pause: Time::from_nanos(5),
            increment: Time::from_nanos(1),
        }
    }

    /// Sets another object.
    pub fn task(self, task: Task) -> Self {
        Self { task, ..self }
    }

    /// Sets how many operations of a client are in flight at once, with a server; the section's
    /// [`in_flight`](Section::in_flight) must have room for them.
    pub fn window(self, window: usize) -> Self {
        Self { window, ..self }
    }

    /// Sets the most time that a client spends between two operations; each time it is random.
    pub fn between(self, between: Time) -> Self {
        Self { between, ..self }
    }

    /// Sets how long the experiment runs, in virtual time.
    pub fn time(self, time: Time) -> Self {
        Self { time, ..self }
    }

    /// Sets the seed of the pauses.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets how long one pause of [`Backoff::Fixed`](mp_delegate::critical::Backoff::Fixed) takes. The default is 5 ns,
    /// about as long as Sandy Bridge's instruction takes.
    pub fn pause(self, pause: Time) -> Self {
        Self { pause, ..self }
    }

    /// Sets what an increment of [`Task::Counters`] takes beside its line. The default is 1 ns.
    pub fn increment(self, increment: Time) -> Self {
        Self { increment, ..self }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`ExperimentError`].
    ///
    /// # Panics
    /// If an algorithm panics.
    pub fn run(&self) -> Result<Measured, ExperimentError> {
        clients::run(self)
    }
}
