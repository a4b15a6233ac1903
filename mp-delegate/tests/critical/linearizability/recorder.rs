//! Histories of an object: who called what and when, in all threads of all ranks.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use mp_core::{Error, Rank, Result, memory::Region, names::Namespace};
use serde::{Serialize, de::DeserializeOwned};

use super::checker::{Event, Spec, linearize};
use crate::support::{Random, run_on_all_with};

/// An object, as used by a client.
pub trait Subject: Sized + Send {
    /// The parameters with which it is opened.
    type Setup: Copy + Debug + Sync;
    type Op: Copy + Debug + Send + Serialize + DeserializeOwned;
    type Ret: Clone + Debug + Send + Serialize + DeserializeOwned;
    type Spec: Spec<Op = Self::Op, Ret = Self::Ret>;

    /// Returns the specification for the clients of this plan.
    fn spec(setup: Self::Setup, plan: &Plan) -> Self::Spec;

    /// Returns the state for a value that [`restart`](Self::restart) has returned.
    fn state(start: u64) -> <Self::Spec as Spec>::State;

    /// Returns whether rank 0 is a server, and no client.
    fn is_served(setup: Self::Setup) -> bool;

    /// Opens the object. A rank that is a server serves it, and returns `None` at the end.
    fn open(rank: &Rank, setup: Self::Setup) -> Result<Option<Self>>;

    /// Returns a handle for another thread of the rank.
    fn another(&self) -> Result<Self>;

    fn random(random: &mut Random) -> Self::Op;

    fn call(&mut self, op: Self::Op) -> Result<Self::Ret>;

    /// Brings the object into a known state. No other client may use it at the same time.
    fn restart(&mut self) -> Result<u64>;
}

/// The amount of recording.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub ranks: usize,
    /// Clients of each rank.
    pub threads: usize,
    /// The most histories of each object.
    pub rounds: usize,
    /// The most operations of a client in a history.
    pub most: u64,
}

/// The events that a rank's clients have recorded in one round.
type Events<S> = Vec<Event<<S as Subject>::Op, <S as Subject>::Ret>>;
/// The events of all rounds. Each round has the state that it began in if a client of this rank has restarted the
/// object.
type Rounds<S> = Vec<(Option<u64>, Events<S>)>;

/// The time after which no further round of an object begins, if there were a few rounds. It matters on busy machines.
const LONG: Duration = Duration::from_millis(150);
const FEW: usize = 3;

/// Records histories of an object that is opened in each of these ways, on ranks of every kind. All histories must be
/// linearizable.
#[track_caller]
pub fn linearizable<S: Subject>(plan: Plan, setups: &[S::Setup]) {
    let mut overlapping = 0;
    each_history::<S>(plan, setups, 1, |what, history, result| {
        if let Err(longest) = result {
            panic!("{what}\n{longest}");
        }
        overlapping += usize::from(overlaps(history));
    });
    // Without overlapping operations the test would show nothing.
    assert!(overlapping > 0, "no operations of different clients came at the same time");
}

/// Returns whether operations overlap.
fn overlaps<Op, Ret>(history: &[Event<Op, Ret>]) -> bool {
    history.windows(2).any(|pair| pair[0].end() > pair[1].called)
}

/// Returns how many histories are not linearizable, for each kind of ranks.
pub fn wrong<S: Subject>(plan: Plan, setups: &[S::Setup], seed: u64) -> Vec<(&'static str, usize)> {
    let mut wrong: Vec<(&str, usize)> = Vec::new();
    each_history::<S>(plan, setups, seed, |what, _, result| {
        let kind = what.kind;
        if wrong.last().is_none_or(|(last, _)| *last != kind) {
            wrong.push((kind, 0));
        }
        if let (Err(_), Some((_, count))) = (result, wrong.last_mut()) {
            *count += 1;
        }
    });
    wrong
}

/// The identification of a history.
#[derive(Clone, Debug)]
pub struct What {
    pub kind: &'static str,
    pub setup: String,
    pub seed: u64,
    pub round: usize,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, setup, seed, round } = self;
        write!(f, "{setup}, {kind}, seed {seed}, round {round}: not linearizable")
    }
}

fn each_history<S: Subject>(
    plan: Plan,
    setups: &[S::Setup],
    seed: u64,
    mut each: impl FnMut(&What, &Events<S>, std::result::Result<(), String>),
) {
    let code = |rank: &Rank| {
        let record = |(at, setup): (usize, &S::Setup)| {
            record::<S>(rank, plan, *setup, seed ^ (at as u64) << 32)
        };
        setups.iter().enumerate().map(record).collect::<Result<Vec<Rounds<S>>>>()
    };
    for (kind, results) in run_on_all_with(plan.ranks, |world| world, code).each() {
        let results = results.unwrap_or_else(|error| panic!("{kind}: {error}"));
        for (at, &setup) in setups.iter().enumerate() {
            let spec = S::spec(setup, &plan);
            let rounds = results.iter().map(|rank| rank[at].len()).max().unwrap_or(0);
            for round in 0..rounds {
                let of_ranks = || results.iter().filter_map(|rank| rank[at].get(round));
                let start = of_ranks().find_map(|(start, _)| *start).expect("somebody restarts it");
                let mut history: Events<S> =
                    of_ranks().flat_map(|(_, events)| events).cloned().collect();
                history.sort_by_key(|event| event.called);
                let found = linearize(&spec, &S::state(start), &history);
                let what = What { kind, setup: format!("{setup:?}"), seed, round };
                each(
                    &what,
                    &history,
                    found.map(drop).map_err(|longest| shown::<S>(start, &history, &longest)),
                );
            }
        }
    }
}

/// Returns a history as text.
fn shown<S: Subject>(start: u64, history: &Events<S>, longest: &[usize]) -> String {
    let mut text = format!("began with {start}; in brackets the longest order that was found\n");
    for (at, Event { client, called, op, returned }) in history.iter().enumerate() {
        let place = longest.iter().position(|&there| there == at);
        let place = place.map_or("-".to_owned(), |place| place.to_string());
        text +=
            &format!("[{place:>2}] client {client}, from {called}: {op:?}, until {returned:?}\n");
    }
    text
}

/// Returns what one rank's clients record for one object.
fn record<S: Subject>(rank: &Rank, plan: Plan, setup: S::Setup, seed: u64) -> Result<Rounds<S>> {
    // Every rank opens the region, because regions with the same name are paired in the order of opening.
    let region = Region::open(rank, Namespace::new("tests"), "history", 4 * APART, 0)?;
    let Some(first) = S::open(rank, setup)? else { return Ok(Vec::new()) };
    let served = usize::from(S::is_served(setup));
    let clients = (plan.ranks - served) * plan.threads;
    let before = (rank.id() - served) * plan.threads;
    let common = Common { region, clients };
    let others = (1..plan.threads).map(|_| first.another()).collect::<Result<Vec<_>>>()?;
    let handles = std::iter::once(first).chain(others).zip(before..);
    let recorded: Vec<Rounds<S>> = std::thread::scope(|scope| {
        let record = |(subject, me): (S, usize)| {
            let client = Client { subject, me, common: &common, met: 0 };
            scope.spawn(move || client.record(plan, seed))
        };
        let threads: Vec<_> = handles.map(record).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("a client");
        threads.into_iter().map(ended).collect::<Result<_>>()
    })?;
    let mut recorded = recorded.into_iter();
    let mut all = recorded.next().unwrap_or_default();
    for more in recorded {
        for ((start, events), (other_start, other_events)) in all.iter_mut().zip(more) {
            *start = start.or(other_start);
            events.extend(other_events);
        }
    }
    Ok(all)
}

/// Indices of the region's words.
const CLOCK: usize = 0;
const ARRIVED: usize = APART;
const READY: usize = 2 * APART;
const OVER: usize = 3 * APART;
/// The distance that puts words into different lines.
const APART: usize = 16;

/// The common state of all clients.
struct Common {
    region: Region,
    clients: usize,
}

impl Common {
    /// Returns a time that no other call gets.
    fn now(&self) -> u64 {
        self.region.words()[CLOCK].fetch_add(1)
    }

    /// Returns when all clients have called it as often as this one.
    fn meet(&self, me: usize, times: u64) -> Result<()> {
        let arrived = &self.region.words()[ARRIVED];
        let wanted = times * self.clients as u64;
        if arrived.fetch_add(1) + 1 >= wanted {
            self.region.wake_all();
            return Ok(());
        }
        let lost = || (0..self.region.ranks()).find(|&rank| self.region.is_lost(rank));
        self.region.wait(me, None, Some(arrived), || {
            if arrived.load() >= wanted {
                return Some(Ok(()));
            }
            lost().map(|rank| Err(Error::other(format!("rank {rank} was lost"))))
        })?
    }
}

impl Common {
    /// Waits for a while until as many clients as there are cores have left `meet`, so that they begin at the same
    /// time.
    fn line_up(&self, round: usize) {
        let ready = &self.region.words()[READY];
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = (round * self.clients + cores.min(self.clients)) as u64;
        ready.fetch_add(1);
        for _ in 0..20_000 {
            if ready.load() >= wanted {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

struct Client<'a, S> {
    subject: S,
    me: usize,
    common: &'a Common,
    met: u64,
}

impl<S: Subject> Client<'_, S> {
    fn meet(&mut self) -> Result<()> {
        self.met += 1;
        self.common.meet(self.me, self.met)
    }

    fn record(mut self, plan: Plan, seed: u64) -> Result<Rounds<S>> {
        let over = &self.common.region.words()[OVER];
        let begun = Instant::now();
        let mut rounds = Vec::new();
        for round in 0..plan.rounds {
            let start = if self.me == 0 { Some(self.subject.restart()?) } else { None };
            if self.me == 0 && round >= FEW && begun.elapsed() > LONG {
                over.store(1);
            }
            self.meet()?;
            if over.load() != 0 {
                break;
            }
            self.common.line_up(round);
            let seed = seed ^ (round as u64) << 16 ^ (self.me as u64) << 8;
            let events = self.round(&mut Random::new(seed), plan.most)?;
            self.meet()?;
            rounds.push((start, events));
        }
        Ok(rounds)
    }

    fn round(&mut self, random: &mut Random, most: u64) -> Result<Events<S>> {
        (0..=random.below(most))
            .map(|_| {
                let op = S::random(random);
                // The random pause varies which client comes first, and lets one come during an operation of another,
                // however few cores there are.
                let moment = random.below(8);
                let pause = |at| {
                    if moment == at {
                        std::thread::yield_now()
                    }
                };
                pause(0);
                if moment == 1 {
                    (0..random.below(200)).for_each(|_| std::hint::spin_loop());
                }
                let called = self.common.now();
                pause(2);
                let ret = self.subject.call(op)?;
                pause(3);
                let returned = Some((self.common.now(), ret));
                Ok(Event { client: self.me, called, op, returned })
            })
            .collect()
    }
}
