//! What is measured, and how.

use mp_delegate::critical::{Scheme, Section};
use mp_model::Time;

use super::{objects::Task, watch::Sections};
use crate::coherent::{Chip, ChipError};

/// The means by which operations on an object exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One of the library's schemes. If it needs a server, the first cores serve: one for each critical section of the
    /// [`Task`].
    Section(Section),
    /// The queue lock CLH as published. The library's also writes the name of the waiting thread.
    PublishedClh,
    /// A counter that the processor increments with its own instruction.
    FetchAdd,
    /// [`TreiberStack`](crate::nonblocking::TreiberStack), for a stack.
    Treiber,
    /// [`RingQueue`](crate::nonblocking::RingQueue), for a queue.
    Rings,
    /// [`Lcrq`](crate::nonblocking::Lcrq), for a queue.
    Lcrq,
    /// The same with groups (LCRQ+H). Clients wait for so long before they take the turn from another group.
    LcrqInGroups(Time),
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
    pub(super) chip: Chip,
    pub(super) way: Way,
    pub(super) clients: usize,
    pub(super) task: Task,
    pub(super) window: usize,
    pub(super) between: Time,
    pub(super) time: Time,
    pub(super) seed: u64,
    pub(super) pause: Time,
    pub(super) increment: Time,
    pub(super) one_home: bool,
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
            one_home: false,
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

    /// Makes the first core's socket or tile the home of the whole object.
    pub fn one_home(self) -> Self {
        Self { one_home: true, ..self }
    }

    /// Sets what an increment of [`Task::Counters`] takes beside its line. The default is 1 ns.
    pub fn increment(self, increment: Time) -> Self {
        Self { increment, ..self }
    }
}
