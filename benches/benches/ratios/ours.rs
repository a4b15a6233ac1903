//! Our side of the rows: a task that ranks perform, as threads or as processes.

use onchip::prelude::*;
use onchip_benches::cpus;
use serde::{Deserialize, Serialize};

pub use crate::job::Job;
use crate::rivals::failed;
use crate::row::{Perform, Setup, Side, Trouble};

/// The word after `--child` that makes this program a rank.
pub const RANK: &str = "rank";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ranks {
    Threads,
    Processes,
}

impl Ranks {
    pub fn name(self) -> &'static str {
        match self {
            Ranks::Threads => "threads",
            Ranks::Processes => "processes",
        }
    }
}

/// A policy that can go on a command line.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Waits {
    Spin,
    Adaptive,
    Park,
}

impl Waits {
    fn policy(self) -> WaitPolicy {
        match self {
            Waits::Spin => WaitPolicy::Spin,
            Waits::Adaptive => WaitPolicy::Adaptive,
            Waits::Park => WaitPolicy::Park,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Waits::Spin => "spin",
            Waits::Adaptive => "adaptive",
            Waits::Park => "park",
        }
    }
}

/// Which rank runs where.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Places {
    /// Every rank has a CPU of its own.
    Own,
    /// They share all that there are.
    Shared,
    /// Rank 0 has the first CPU for itself, and the others share the second one.
    Server,
}

/// A world and what its ranks do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Task {
    ranks: usize,
    waits: Waits,
    places: Places,
    /// Every rank has communication threads that have served it and now have nothing to do.
    idle_kts: bool,
    job: Job,
}

impl Task {
    /// Two ranks, each held to a CPU of its own.
    pub fn pinned(waits: Waits, job: Job) -> Task {
        Task { ranks: 2, waits, places: Places::Own, idle_kts: false, job }
    }

    /// One rank on the first CPU; the other is left to communication threads.
    pub fn alone(job: Job) -> Task {
        Task { ranks: 1, waits: Waits::Spin, places: Places::Own, idle_kts: false, job }
    }

    /// Ranks that share the two CPUs.
    pub fn sharing(ranks: usize, job: Job) -> Task {
        Task { ranks, waits: Waits::Adaptive, places: Places::Shared, idle_kts: false, job }
    }

    /// The same, waiting in another way.
    pub fn waiting(self, waits: Waits) -> Task {
        Task { waits, ..self }
    }

    /// Ranks that share the second CPU, and rank 0, which has the first one.
    pub fn served(ranks: usize, job: Job) -> Task {
        Task { places: Places::Server, ..Task::sharing(ranks, job) }
    }

    /// The same, with communication threads that have nothing to do.
    pub fn beside_idle_kts(self) -> Task {
        Task { idle_kts: true, ..self }
    }

    /// What every rank gave.
    pub fn run(&self, ranks: Ranks, setup: &Setup) -> onchip::Result<Vec<Vec<f64>>> {
        cpus::confined(&setup.cpus, || match ranks {
            Ranks::Threads => self.run_in(World::threads(self.ranks), setup),
            Ranks::Processes => self.run_processes(setup),
        })
    }

    /// The calling thread is held to the CPUs of `setup`, and with it what it starts.
    fn run_processes(&self, setup: &Setup) -> onchip::Result<Vec<Vec<f64>>> {
        let task = serde_json::to_string(self).map_err(onchip::Error::other)?;
        let cpus = setup.cpus.map(|cpu| cpu.to_string());
        let arguments = ["--child".to_string(), RANK.to_string(), task].into_iter().chain(cpus);
        self.run_in(World::processes(self.ranks).args(arguments), setup)
    }

    fn run_in(&self, world: World, setup: &Setup) -> onchip::Result<Vec<Vec<f64>>> {
        let on = |rank: usize| setup.cpus[rank.min(1)];
        let bind = match self.places {
            Places::Own => Bind::List((0..self.ranks.min(2)).map(on).collect()),
            Places::Shared | Places::Server => Bind::None,
        };
        world.wait(self.waits.policy()).bind(bind).run(|rank| {
            if self.places == Places::Server {
                cpus::confine(&[on(rank.id())]).map_err(onchip::Error::other)?;
            }
            let idle = self.idle_kts.then(|| IdleKts::start(rank, setup)).transpose()?;
            let figures = (setup.perform)(self.job, rank, setup)?;
            drop(idle);
            Ok(figures)
        })
    }
}

/// Communication threads, one on each CPU, that have sent something and wait for more.
struct IdleKts {
    _to: Delegated<u64>,
    _from: Receiver<u64>,
}

impl IdleKts {
    /// Every rank must call it: each sends to the next one.
    fn start(rank: &Rank, setup: &Setup) -> onchip::Result<IdleKts> {
        let (size, channel) = (rank.size(), Channel::degree(setup.cpus.len() as u32));
        let threads = CommThreads::builder(setup.cpus.len()).cpus(setup.cpus).start()?;
        let (next, previous) = ((rank.id() + 1) % size, (rank.id() + size - 1) % size);
        let mut to = threads.delegate(rank.sender::<u64>("beside", next, channel)?);
        let from = rank.receiver::<u64>("beside", previous, channel)?;
        for number in 0..setup.cpus.len() as u64 {
            to.send(number).wait()?;
        }
        for number in 0..setup.cpus.len() as u64 {
            if *from.receive()? != number {
                return Err(onchip::Error::other("a delegated message arrived wrong"));
            }
        }
        Ok(IdleKts { _to: to, _from: from })
    }
}

/// A side that performs `task` and takes its figure from what the ranks gave.
pub fn side(ranks: Ranks, task: Task, figure: impl Fn(&[Vec<f64>]) -> f64 + 'static) -> Side {
    judged(ranks, task, move |results| Ok(figure(results)))
}

/// The same where only all ranks together show whether what they did was right.
pub fn judged(
    ranks: Ranks,
    task: Task,
    figure: impl Fn(&[Vec<f64>]) -> Result<f64, Trouble> + 'static,
) -> Side {
    Side::new("onchip", task.waits.name(), move |setup| {
        let results = task.run(ranks, setup).map_err(failed)?;
        Ok(figure(&results)?.into())
    })
}

/// A rank that is a process: `arguments` are those after [`RANK`].
pub fn rank(arguments: &[String], perform: Perform) -> Result<(), Trouble> {
    let [task, first, second] = arguments else {
        return Err(failed("expected a task and two CPUs"));
    };
    let task: Task = serde_json::from_str(task).map_err(failed)?;
    let cpus = [first.parse().map_err(failed)?, second.parse().map_err(failed)?];
    task.run_processes(&Setup { cpus, perform }).map_err(failed)?;
    Err(failed("a rank came back from its world"))
}
