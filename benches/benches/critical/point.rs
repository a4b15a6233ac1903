//! One point of a figure: clients that use an object, for some windows of time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use onchip::critical::objects::{Queue, Stack, TwoLockQueue};
use onchip::critical::{Object, Protected, Section, Server};
use onchip::prelude::*;
use onchip_benches::clock::monotonic_ns;
use onchip_benches::cpus;
use onchip_benches::load::{self, Counter, Done, Increments, Load, ShortCounter};
use onchip_benches::probe::{Distance, probe};
use onchip_research::nonblocking::{RingQueue, TreiberStack};

/// Places in stacks and queues. With the number of clients here they are never full.
const ROOM: usize = 64;
/// More time than all ranks need to begin.
const AHEAD_NS: u64 = 2_000_000;

/// The object that clients use, and its protection.
#[derive(Clone, Copy, Debug)]
pub enum Used {
    Counter(Section),
    /// A counter whose result can be streamed.
    ShortCounter(Section),
    /// An operation makes this many increments.
    Increments(Section, u64),
    FetchAdd,
    Stack(Section),
    TreiberStack,
    Queue(Section),
    TwoLockQueue(Section),
    RingQueue,
}

impl Used {
    fn has_server(self) -> bool {
        match self {
            Used::Counter(section)
            | Used::ShortCounter(section)
            | Used::Increments(section, _)
            | Used::Stack(section)
            | Used::Queue(section)
            | Used::TwoLockQueue(section) => section.scheme().needs_server(),
            Used::FetchAdd | Used::TreiberStack | Used::RingQueue => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub used: Used,
    pub clients: usize,
    /// The idle time between operations, as in [`Load`].
    pub idling: u32,
    pub quick: bool,
}

/// The results of a point.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Operations of all clients in a second.
    pub rate: f64,
    /// Nanoseconds that a client waits for an operation, on average.
    pub latency: f64,
    /// The highest number of operations of a client, divided by the lowest.
    unfairness: f64,
    threads: usize,
    probes: [f64; 2],
}

impl Measured {
    pub const HEADING: &str =
        "figures    line                x  throughput      latency  highest ÷ lowest  probes";
    pub const COLUMNS: &str = "throughput_per_s,latency_ns,highest_over_lowest,threads,probe_before_ns,probe_after_ns,cores";

    fn cores(&self) -> &'static str {
        Distance::of(&self.probes).map_or("moved or busy", Distance::name)
    }

    pub fn csv(&self) -> String {
        let Measured { rate, latency, unfairness, threads, probes: [before, after] } = self;
        let cores = self.cores();
        format!("{rate:.0},{latency:.1},{unfairness:.3},{threads},{before:.1},{after:.1},{cores}")
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { rate, latency, unfairness, .. } = self;
        let (rate, cores) = (rate / 1e6, self.cores());
        write!(f, "{rate:>8.2} M/s {latency:>9.1} ns {unfairness:>17.2}  {cores}")
    }
}

/// The result of a rank in a measurement: `None` if it was a server.
type Part = Option<(Done, u64)>;

impl Point {
    fn load(&self, threads: usize) -> Load {
        let crowded = threads > 2;
        let load = Load {
            in_flight: 1,
            idling: self.idling,
            // An even number, so that clients that put and take in turn end with a take.
            every: 16,
            warm_up_us: if crowded { 10_000 } else { 3000 },
            // Longer than the operating system lets one thread run while others want to.
            window_us: if crowded { 40_000 } else { 10_000 },
            windows: 3,
        };
        if self.quick { Load { window_us: 2000, windows: 1, ..load } } else { load }
    }

    pub fn measure(self, cpus: [usize; 2]) -> onchip::Result<Measured> {
        let threads = self.clients + usize::from(self.used.has_server());
        let load = self.load(threads);
        let before = probe(cpus);
        let parts = cpus::confined(&cpus, || self.in_world(cpus, threads, load))?;
        let after = probe(cpus);
        let (clients, checks): (Vec<Done>, Vec<u64>) = parts.into_iter().flatten().unzip();
        self.check(&clients, &checks)?;
        let rate = load.rate(&clients);
        Ok(Measured {
            rate,
            latency: (self.clients as f64 * 1e9 / rate - load.idling_ns()).max(0.0),
            unfairness: load::unfairness(&clients),
            threads,
            probes: [before, after],
        })
    }

    /// Checks the results. `checks` holds the highest result of each client, or the sum that it has put in minus the
    /// sum that it has taken out.
    fn check(&self, clients: &[Done], checks: &[u64]) -> onchip::Result<()> {
        let all: u64 = clients.iter().map(|client| client.all).sum();
        let highest = checks.iter().copied().max().unwrap_or(0);
        let right = match self.used {
            Used::Counter(_) | Used::FetchAdd => highest == all,
            Used::ShortCounter(_) => highest == all && u32::try_from(all).is_ok(),
            Used::Increments(_, increments) => highest == load::last_of(all, increments),
            _ => checks.iter().fold(0, |sum: u64, &check| sum.wrapping_add(check)) == 0,
        };
        let wrong = || onchip::Error::other(format!("{self:?}: {all} operations gave {checks:?}"));
        right.then_some(()).ok_or_else(wrong)
    }

    fn in_world(&self, cpus: [usize; 2], threads: usize, load: Load) -> onchip::Result<Vec<Part>> {
        let on = |rank: usize| cpus[rank.min(1)];
        let pinned = threads <= cpus.len();
        let bind = if pinned { Bind::List((0..threads).map(on).collect()) } else { Bind::None };
        let policy = if pinned { WaitPolicy::Spin } else { WaitPolicy::Adaptive };
        let shared = CachePadded::new(AtomicU64::new(0));
        let begin = monotonic_ns() + AHEAD_NS;
        World::threads(threads).wait(policy).bind(bind).run(|rank| {
            // As in the thesis, a server has its own CPU.
            if !pinned && self.used.has_server() {
                cpus::confine(&[on(rank.id())]).map_err(onchip::Error::other)?;
            }
            self.perform(rank, load, begin, &shared)
        })
    }

    fn perform(
        &self,
        rank: &Rank,
        load: Load,
        begin: u64,
        shared: &AtomicU64,
    ) -> onchip::Result<Part> {
        match self.used {
            Used::Counter(section) => operate::<Counter>(rank, section, load, begin, 1),
            Used::Increments(section, increments) => {
                operate::<Increments>(rank, section, load, begin, increments)
            }
            Used::ShortCounter(section) => {
                let object = Protected::<ShortCounter>::open(rank, "used", section, |_| ())?;
                let Some(object) = client_of(rank, object)? else { return Ok(None) };
                let mut highest = 0;
                let look = |result: u32| highest = result.into();
                let done = load::client(load, &object, begin, || 1, look)?;
                Ok(Some((done, highest)))
            }
            Used::FetchAdd => {
                let mut highest = 0;
                let done = load.run(begin, || -> onchip::Result<()> {
                    highest = shared.fetch_add(1, Ordering::AcqRel) + 1;
                    Ok(())
                })?;
                Ok(Some((done, highest)))
            }
            Used::Stack(section) => {
                let stack = Stack::open(rank, "used", section.len(ROOM))?;
                let Some(stack) = client_of(rank, stack)? else { return Ok(None) };
                in_turn(load, begin, &stack, |s, value| Ok(s.push(value)??), |s| s.pop())
            }
            Used::TreiberStack => {
                let stack = TreiberStack::open(rank, "used", ROOM, 1)?;
                in_turn(load, begin, &stack, |s, value| Ok(s.push(value)??), |s| s.pop())
            }
            Used::Queue(section) => {
                let queue = Queue::open(rank, "used", section.len(ROOM))?;
                let Some(queue) = client_of(rank, queue)? else { return Ok(None) };
                let put = |q: &Protected<Queue>, value| Ok(q.enqueue(value)??);
                in_turn(load, begin, &queue, put, |q| q.dequeue())
            }
            Used::TwoLockQueue(section) => {
                let queue = TwoLockQueue::open(rank, "used", section.len(ROOM))?;
                if section.scheme().needs_server() && rank.id() == 0 {
                    let mut server = Server::new();
                    queue.serve(&mut server)?;
                    server.serve()?;
                    return Ok(None);
                }
                let put = |q: &TwoLockQueue, value| Ok(q.enqueue(value)??);
                in_turn(load, begin, &queue, put, |q| q.dequeue())
            }
            Used::RingQueue => {
                let queue = RingQueue::open(rank, "used", ROOM, 1)?;
                let put = |q: &RingQueue, value| Ok(q.enqueue(value)??);
                in_turn(load, begin, &queue, put, |q| q.dequeue())
            }
        }
    }
}

/// Serves the object to the end and returns `None` if this rank is the server. Otherwise returns the object.
fn client_of<O: Object>(rank: &Rank, object: Protected<O>) -> onchip::Result<Option<Protected<O>>> {
    if !object.section().scheme().needs_server() || rank.id() != 0 {
        return Ok(Some(object));
    }
    let mut server = Server::new();
    server.add(object)?;
    server.serve()?;
    Ok(None)
}

fn operate<O: Object<Op = u64, Ret = u64>>(
    rank: &Rank,
    section: Section,
    load: Load,
    begin: u64,
    op: u64,
) -> onchip::Result<Part> {
    let object = Protected::<O>::open(rank, "used", section, |_| ())?;
    let Some(object) = client_of(rank, object)? else { return Ok(None) };
    let mut highest = 0;
    let done = load::client(load, &object, begin, || op, |result| highest = result)?;
    Ok(Some((done, highest)))
}

/// Puts a value in and takes one out, in turn, so that there is always one to take.
fn in_turn<T>(
    load: Load,
    begin: u64,
    object: &T,
    put: impl Fn(&T, u64) -> onchip::Result<()>,
    take: impl Fn(&T) -> onchip::Result<Option<u64>>,
) -> onchip::Result<Part> {
    let (mut balance, mut value, mut puts) = (0u64, std::ptr::from_ref(object).addr() as u64, true);
    let done = load.run(begin, || -> onchip::Result<()> {
        if puts {
            value = value.wrapping_add(1);
            balance = balance.wrapping_add(value);
            put(object, value)?;
        } else {
            let taken = take(object)?;
            let taken =
                taken.ok_or_else(|| onchip::Error::other("what was put in is not there"))?;
            balance = balance.wrapping_sub(taken);
        }
        puts = !puts;
        Ok(())
    })?;
    Ok(Some((done, balance)))
}
