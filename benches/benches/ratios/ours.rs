//! Our side of the rows: a task that ranks perform, as threads or as processes.

use onchip::mpb::{Line, Mpb, Mpbs};
use onchip::prelude::*;
use onchip_benches::clock::monotonic_ns;
use onchip_benches::cpus;
use serde::{Deserialize, Serialize};

use crate::plan::{
    Collective, Critical, Delegations, Emitting, Large, Operation, Overlap, Pairs, PingPong,
    Requests, Stream, Tagged, Timing, Untouched, Wakes,
};
use crate::rivals::failed;
use crate::row::{Setup, Side, Trouble};
use crate::rows;

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

/// What the ranks of a world do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Job {
    PingPong(PingPong),
    Stream8(Stream),
    Stream56(Stream),
    LargeSent(Large),
    LargeMoved(Large),
    Untouched(Untouched),
    Park(Wakes),
    Handled(Wakes, rows::park::Woken),
    Pairs(Pairs),
    Collective(Collective, Timing),
    /// A broadcast that does not come.
    BroadcastIdle,
    /// A barrier that one rank does not come to.
    BarrierIdle,
    Tagged(Tagged),
    TaggedRate(Tagged),
    Request(rows::request::Life),
    Requests(Requests),
    Any(Requests),
    Critical(Critical),
    /// What the caller pays for delegating.
    Delegate(Delegations),
    /// Delegated messages end to end.
    Delegated(Delegations),
    Overlap(Overlap),
    Emit(Emitting),
    Idle,
    Kill,
    Nothing,
}

impl Job {
    /// Each job is a function of its own, never inlined here: what one needs must not change what the
    /// compiler makes of another.
    fn perform(self, rank: &Rank, setup: &Setup) -> onchip::Result<Vec<f64>> {
        match self {
            Job::PingPong(plan) => rows::pingpong::perform(rank, plan),
            Job::Stream8(plan) => rows::stream::perform::<1>(rank, plan),
            Job::Stream56(plan) => rows::stream::perform::<7>(rank, plan),
            Job::LargeSent(plan) => rows::large::sent(rank, plan),
            Job::LargeMoved(plan) => rows::large::moved(rank, plan),
            Job::Untouched(plan) => rows::buffer::perform(rank, plan),
            Job::Park(plan) => rows::park::perform(rank, plan),
            Job::Handled(plan, woken) => rows::park::handled(rank, plan, woken),
            Job::Pairs(plan) => rows::oversubscribed::perform(rank, plan),
            Job::Collective(plan, timing) => match plan.operation {
                Operation::Barrier => rows::barrier::perform(rank, plan, timing),
                Operation::Broadcast => rows::broadcast::perform(rank, plan, timing),
                Operation::Reduce => rows::reduce::reduce(rank, plan, timing),
                Operation::AllReduce => rows::reduce::all_reduce(rank, plan, timing),
                Operation::Scan => rows::reduce::scan(rank, plan, timing),
                Operation::Gather => rows::exchange::gather(rank, plan, timing),
                Operation::Scatter => rows::exchange::scatter(rank, plan, timing),
                Operation::AllGather => rows::exchange::all_gather(rank, plan, timing),
                Operation::AllToAll => rows::exchange::all_to_all(rank, plan, timing),
            },
            Job::BroadcastIdle => rows::broadcast::wait_for_one(rank),
            Job::BarrierIdle => rows::barrier::wait_in_one(rank),
            Job::Tagged(plan) => rows::tagged::pingpong(rank, plan),
            Job::TaggedRate(plan) => rows::tagged::rate(rank, plan),
            Job::Request(life) => rows::request::perform(rank, life),
            Job::Requests(plan) => rows::requests::all(rank, plan),
            Job::Any(plan) => rows::requests::any(rank, plan),
            Job::Critical(plan) => rows::critical::perform(rank, plan),
            Job::Delegate(plan) => rows::delegate::cost::calls(rank, setup, plan),
            Job::Delegated(plan) => rows::delegate::cost::messages(rank, setup, plan),
            Job::Overlap(plan) => rows::delegate::overlap::perform(rank, setup, plan),
            Job::Emit(plan) => rows::delegate::emitter::perform(rank, setup, plan),
            Job::Idle => rows::idle::perform(rank),
            Job::Kill => rows::kill::perform(rank),
            Job::Nothing => Ok(Vec::new()),
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
            let figures = self.job.perform(rank, setup)?;
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
pub fn rank(arguments: &[String]) -> Result<(), Trouble> {
    let [task, first, second] = arguments else {
        return Err(failed("expected a task and two CPUs"));
    };
    let task: Task = serde_json::from_str(task).map_err(failed)?;
    let cpus = [first.parse().map_err(failed)?, second.parse().map_err(failed)?];
    task.run_processes(&Setup { cpus }).map_err(failed)?;
    Err(failed("a rank came back from its world"))
}

/// Returns on all ranks when all have called it.
pub fn line_up(rank: &Rank) -> onchip::Result<()> {
    let channel = Channel::degree(1);
    if rank.id() > 0 {
        rank.sender::<u32>("here", 0, channel)?.send(&0)?;
        rank.receiver::<u32>("go", 0, channel)?.receive()?;
        return Ok(());
    }
    for peer in 1..rank.size() {
        rank.receiver::<u32>("here", peer, channel)?.receive()?;
    }
    for peer in 1..rank.size() {
        rank.sender::<u32>("go", peer, channel)?.send(&0)?;
    }
    Ok(())
}

/// Lines up all ranks again and again, and costs little more than one flag does: each sets one at
/// every other.
/// Ranks begin at a moment that they have agreed on. After a barrier one of them is always the
/// first, and which one decides what is then measured.
pub struct Start {
    /// Two for each rank, in turn: a rank may be one start ahead of another, and not two.
    flags: Mpb,
    turn: usize,
    /// The last one.
    at: u64,
}

impl Start {
    /// So much later than now, in nanoseconds: all know of it by then.
    const AHEAD: u64 = 1000;

    pub fn open(rank: &Rank) -> onchip::Result<Start> {
        Ok(Start { flags: rank.mpb("start", Mpbs::lines(2 * rank.size()))?, turn: 0, at: 0 })
    }

    /// Every rank proposes a moment, and all begin at the latest.
    pub fn together(&mut self) -> onchip::Result<()> {
        self.together_at().map(drop)
    }

    /// The same; which moment it was.
    pub fn together_at(&mut self) -> onchip::Result<u64> {
        let me = self.flags.rank();
        let ranks = self.flags.ranks();
        let others = || (0..ranks).filter(|&peer| peer != me);
        self.turn ^= 1;
        let line = |rank: usize| 2 * rank + self.turn;
        let mut at = monotonic_ns() + Self::AHEAD;
        for peer in others() {
            self.flags.set_flag(Line { rank: peer, line: line(me) }, at)?;
        }
        for peer in others() {
            let proposed = self.flags.wait_flag_from(peer, line(peer), |value| value > self.at)?;
            at = at.max(proposed);
        }
        self.at = at;
        while monotonic_ns() < at {}
        Ok(at)
    }
}

pub struct Barrier {
    flags: Mpb,
    passed: u64,
}

impl Barrier {
    pub fn open(rank: &Rank) -> onchip::Result<Barrier> {
        Ok(Barrier { flags: rank.mpb("barrier", Mpbs::lines(rank.size()))?, passed: 0 })
    }

    pub fn wait(&mut self) -> onchip::Result<()> {
        self.passed += 1;
        let me = self.flags.rank();
        let others = || (0..self.flags.ranks()).filter(|&peer| peer != me);
        for peer in others() {
            self.flags.set_flag(Line { rank: peer, line: me }, self.passed)?;
        }
        for peer in others() {
            // A peer may be one ahead already, but not two.
            self.flags.wait_flag_from(peer, peer, |passed| passed >= self.passed)?;
        }
        Ok(())
    }
}
