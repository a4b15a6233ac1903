//! Programs in virtual time, line by line.
//!
//! Every line is in memory, or in the caches of the ranks that have read it since it was last written. A read brings a
//! copy (R_L, R_R, R_Q or R_I), and a write takes the line away from all others (section 2.3). A rank that waits polls:
//! it reads the flag, keeps the copy until another rank writes, and then reads it again. A line serves one write, or
//! several reads, at a time. With contention, reads of one line slow each other down. The next of the ranks that want a
//! line is random, or the first that came.
//!
//! The bounds of [`graph`](mp_model::cla::graph) should hold for the results: T_max in every order, and T_min if no rank
//! polls too early ([`Polling::Lucky`]). See there for the meaning of T_min otherwise.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use mp_model::Time;
use mp_model::cla::chance::Chance;
use mp_model::cla::program::{Access, Kind, Line, Program};
use mp_model::cla::{Invalidation, Machine};
use thiserror::Error;

use super::link::Crossings;
use super::words::{Simulated, perform};

/// How a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which rank is next at a line.
    pub order: Order,
    /// When waiting ranks look.
    pub polling: Polling,
    /// Whether single lines that cross between groups at the same time slow each other down, as several
    /// lines always do (the c of table 3).
    pub congestion: bool,
}

/// Which rank is next among those that want a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// At random, from this seed.
    Random(u64),
}

/// When waiting ranks look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// All the time, which steals lines.
    #[default]
    Eager,
    /// Only when the value is there: what T_min assumes.
    Lucky,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The time when each rank was done.
    pub finished: Vec<Time>,
    /// The number of lines that moved, from memory or another cache.
    pub transfers: u64,
    /// By [`Line`]: its contents in the end ([`words`](crate::cla::words)).
    pub words: Vec<Vec<u64>>,
}

/// How a run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// The time at which each rank begins. What is missing is 0.
    pub come: Vec<Time>,
    /// By [`Line`]: its contents. What is missing is 0.
    pub words: Vec<Vec<u64>>,
}

impl Run {
    /// Returns when the last rank was done.
    pub fn end(&self) -> Time {
        self.finished.iter().copied().max().unwrap_or_default()
    }
}

impl Begin {
    /// Returns a beginning in which each rank comes at a random time, none later than `within`.
    pub fn at_random(ranks: usize, within: Time, seed: u64) -> Begin {
        let mut chance = Chance::new(seed);
        let mut time = || Time::from_picos(chance.draw(within.as_picos() as usize + 1) as u64);
        Begin { come: (0..ranks).map(|_| time()).collect(), ..Begin::default() }
    }

    /// Returns the time at which the last rank comes.
    pub fn last(&self) -> Time {
        self.come.iter().copied().max().unwrap_or_default()
    }
}

/// Why a run has no end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The program has other ranks than the machine.
    #[error(
        "a program of {program} ranks can't run on a machine with {machine}: the numbers must be equal"
    )]
    Ranks {
        /// The program's number of ranks.
        program: usize,
        /// The machine's number of ranks.
        machine: usize,
    },
    /// All ranks that are not done wait for flags that no rank will write.
    #[error("the program is deadlocked: ranks {0:?} wait for each other")]
    Deadlock(Vec<usize>),
}

/// Runs a program to its end. All ranks begin at time 0.
///
/// # Errors
/// [`RunError`].
pub fn run(program: &Program, machine: &Machine, options: Options) -> Result<Run, RunError> {
    run_from(program, machine, options, &Begin::default())
}

/// Does the same from a given beginning.
///
/// # Errors
/// [`RunError`].
pub fn run_from(
    program: &Program,
    machine: &Machine,
    options: Options,
    begin: &Begin,
) -> Result<Run, RunError> {
    let (ranks, there) = (program.ranks(), machine.ranks());
    if ranks != there {
        return Err(RunError::Ranks { program: ranks, machine: there });
    }
    let mut engine = Engine::new(program, machine, options, begin);
    for rank in 0..ranks {
        engine.plan(begin.come.get(rank).copied().unwrap_or_default(), Event::Go(rank));
    }
    while let Some(Reverse(planned)) = engine.events.pop() {
        engine.now = planned.time;
        match planned.event {
            Event::Go(rank) => engine.go(rank),
            Event::Done { rank, access, served } => engine.done(rank, access, served),
            Event::Serve(line) => engine.serve(line),
        }
    }
    let waiting: Vec<usize> = (0..ranks).filter(|&rank| engine.finished[rank].is_none()).collect();
    if !waiting.is_empty() {
        return Err(RunError::Deadlock(waiting));
    }
    let finished = engine.finished.into_iter().flatten().collect();
    Ok(Run { finished, transfers: engine.transfers, words: engine.words.into_words() })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A rank's next access.
    Go(usize),
    /// A rank's access is done; whether the line had to be asked for.
    Done { rank: usize, access: Access, served: bool },
    /// Looks which rank is next at a line.
    Serve(Line),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    time: Time,
    /// At one instant, lines are served last, when all ranks that want one have asked for it.
    serve: bool,
    number: u64,
    event: Event,
}

impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> std::cmp::Ordering {
        let key = |planned: &Planned| (planned.time, planned.serve, planned.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, Default)]
struct LineState {
    value: u64,
    /// The ranks that have a copy. If there are none, the line is in memory.
    holders: BTreeSet<usize>,
    /// The rank that had it last for itself, and is asked for it (rule 4 of section 2.4).
    owner: Option<usize>,
    writing: bool,
    reading: u64,
    /// Whether the line's last access was a read.
    was_read: bool,
    wanted: Vec<(usize, Access)>,
    /// The ranks that poll, have seen too little, and wait for the next write.
    asleep: Vec<(usize, Access)>,
}

struct Engine<'a> {
    program: &'a Program,
    machine: &'a Machine,
    options: Options,
    /// By rank: the step and what it does there.
    accesses: Vec<Vec<(usize, Access)>>,
    /// By rank: its next access.
    next: Vec<usize>,
    /// By rank: the number of steps whose effect is in `words`.
    performed: Vec<usize>,
    words: Simulated,
    finished: Vec<Option<Time>>,
    lines: Vec<LineState>,
    events: BinaryHeap<Reverse<Planned>>,
    planned: u64,
    now: Time,
    crossings: Crossings,
    transfers: u64,
    chance: Chance,
}

impl<'a> Engine<'a> {
    fn new(
        program: &'a Program,
        machine: &'a Machine,
        options: Options,
        begin: &Begin,
    ) -> Engine<'a> {
        let of_rank = |steps: Vec<Vec<Access>>| {
            let steps = steps.into_iter().enumerate();
            steps
                .flat_map(|(step, all)| all.into_iter().map(move |access| (step, access)))
                .collect()
        };
        let accesses: Vec<Vec<_>> = program.accesses().into_iter().map(of_rank).collect();
        let line = |index| LineState {
            holders: program.shape(Line::at(index)).cached.into_iter().collect(),
            owner: program.shape(Line::at(index)).cached,
            ..LineState::default()
        };
        let chance = match options.order {
            Order::Fifo => Chance::new(0),
            Order::Random(seed) => Chance::new(seed),
        };
        Engine {
            next: vec![0; accesses.len()],
            performed: vec![0; accesses.len()],
            words: Simulated::new(program, &begin.words),
            finished: vec![None; accesses.len()],
            lines: (0..program.line_count()).map(line).collect(),
            events: BinaryHeap::new(),
            planned: 0,
            now: Time::ZERO,
            crossings: Crossings::default(),
            transfers: 0,
            program,
            machine,
            options,
            accesses,
            chance,
        }
    }

    fn plan(&mut self, time: Time, event: Event) {
        let serve = matches!(event, Event::Serve(_));
        self.planned += 1;
        self.events.push(Reverse(Planned { time, serve, number: self.planned, event }));
    }

    /// A rank comes to its next access.
    fn go(&mut self, rank: usize) {
        let next = self.accesses[rank].get(self.next[rank]).copied();
        let steps = self.program.steps(rank);
        let done = next.map_or(steps.len(), |(step, _)| step);
        steps[self.performed[rank]..done].iter().for_each(|&step| perform(step, &self.words));
        self.performed[rank] = done;
        let Some((_, access)) = next else {
            self.finished[rank] = Some(self.now);
            return;
        };
        let line = &self.lines[access.line.index()];
        if let Kind::Poll(value) = access.kind {
            let too_little = line.value < value;
            let sees_that = self.options.polling == Polling::Lucky || line.holders.contains(&rank);
            if too_little && sees_that {
                self.lines[access.line.index()].asleep.push((rank, access));
                return;
            }
        }
        self.want(rank, access);
    }

    fn want(&mut self, rank: usize, access: Access) {
        let alone = access.kind.writes();
        let line = &mut self.lines[access.line.index()];
        let has = line.holders.contains(&rank) && (!alone || line.holders.len() == 1);
        // Several lines that are copied are paid for where they are loaded.
        let free = alone && self.program.shape(access.line).lines > 1;
        if free {
            line.holders = BTreeSet::from([rank]);
            line.owner = Some(rank);
            self.plan(self.now, Event::Done { rank, access, served: false });
        } else if has && !alone && !line.writing {
            let cost = self.program.shape(access.line).lines * self.machine.parameters.local;
            self.plan(self.now + cost, Event::Done { rank, access, served: false });
        } else {
            line.wanted.push((rank, access));
            self.plan(self.now, Event::Serve(access.line));
        }
    }

    /// Lets ranks begin at a line that can: one that writes, or as many readers as come before the next write.
    fn serve(&mut self, line: Line) {
        let state = &self.lines[line.index()];
        let write_waits = state.wanted.iter().any(|(_, access)| access.kind.writes());
        if state.writing || state.wanted.is_empty() || (state.reading > 0 && write_waits) {
            return;
        }
        let writes = |&(_, access): &(usize, Access)| access.kind.writes();
        let first = match self.options.order {
            Order::Fifo => 0,
            // A write that has waited for reads does not wait for more of them.
            Order::Random(_) if state.was_read && write_waits => {
                let count = state.wanted.iter().filter(|&wanted| writes(wanted)).count();
                let drawn = self.chance.draw(count);
                let wanted = self.lines[line.index()].wanted.iter().enumerate();
                wanted
                    .filter(|&(_, wanted)| writes(wanted))
                    .nth(drawn)
                    .map_or(0, |(index, _)| index)
            }
            Order::Random(_) => self.chance.draw(self.lines[line.index()].wanted.len()),
        };
        let state = &mut self.lines[line.index()];
        if writes(&state.wanted[first]) {
            let (rank, access) = state.wanted.remove(first);
            (state.writing, state.was_read) = (true, false);
            let (cost, moved) = self.write(line, rank);
            self.begin(rank, access, cost, moved);
            return;
        }
        state.was_read = true;
        let reads = match self.options.order {
            Order::Fifo => {
                let count = state.wanted.iter().take_while(|&wanted| !writes(wanted)).count();
                state.wanted.drain(..count).collect()
            }
            Order::Random(_) => {
                let (later, reads) =
                    std::mem::take(&mut state.wanted).into_iter().partition(writes);
                state.wanted = later;
                reads
            }
        };
        let reads: Vec<(usize, Access)> = reads;
        for (rank, access) in reads {
            let (cost, moved) = self.read(line, rank, access.kind);
            self.lines[line.index()].reading += 1;
            self.begin(rank, access, cost, moved);
        }
    }

    fn begin(&mut self, rank: usize, access: Access, cost: Time, moved: bool) {
        self.transfers += u64::from(moved);
        self.plan(self.now + cost, Event::Done { rank, access, served: true });
    }

    /// Returns the cost of a write, and whether the line has to come from elsewhere.
    fn write(&self, line: Line, rank: usize) -> (Time, bool) {
        let p = &self.machine.parameters;
        let LineState { holders, owner, .. } = &self.lines[line.index()];
        let home = self.program.shape(line).home;
        let transfer = |&holder: &usize| self.machine.transfer(holder, rank, home);
        match holders.len() {
            0 => return (p.near.memory, true),
            1 if holders.contains(&rank) => return (p.local, false),
            _ => {}
        }
        let others = || holders.iter().filter(|&&holder| holder != rank);
        let dearest = others().map(transfer).max().unwrap_or_default();
        match p.invalidation {
            Invalidation::Once => (dearest, true),
            // The last writer gives the line away, and only ranks that have read it since count.
            Invalidation::EachSharer => {
                let sharers = others().filter(|&&holder| Some(holder) != *owner).count() as u64;
                ((sharers * p.near.transfer).max(dearest), true)
            }
        }
    }

    /// Returns the cost of a read, and whether the line has to come from elsewhere.
    fn read(&mut self, line: Line, rank: usize, kind: Kind) -> (Time, bool) {
        let p = &self.machine.parameters;
        let shape = self.program.shape(line);
        let state = &self.lines[line.index()];
        if state.holders.contains(&rank) {
            return (shape.lines * p.local, false);
        }
        let ahead = match &p.contention {
            Some(contention) => state.reading * contention.reader,
            None => Time::ZERO,
        };
        if state.holders.is_empty() {
            return (shape.lines * p.near.memory + ahead, true);
        }
        let near = state.owner.is_none_or(|owner| self.machine.near(owner, rank, shape.home));
        let single = shape.lines == 1;
        let between = match near {
            true => 0,
            false => self.crossings.between(line, shape.lines, self.now),
        };
        let hindered = match single && !self.options.congestion {
            true => Time::ZERO,
            false => between * p.far.lines.congestion,
        };
        let alone = match kind {
            _ if single => p.link(near).transfer,
            Kind::Load { combine: false } if p.contention.is_some() => p.copy(near, 1, shape.lines),
            _ => p.link(near).lines.cost(1, shape.lines),
        };
        let cost = alone + hindered;
        if !near {
            self.crossings.begin(line, shape.lines, self.now, self.now + cost);
        }
        (cost + ahead, true)
    }

    fn done(&mut self, rank: usize, access: Access, served: bool) {
        let state = &mut self.lines[access.line.index()];
        let mut awake = Vec::new();
        if access.kind.writes() {
            state.writing = false;
            state.holders = BTreeSet::from([rank]);
            state.owner = Some(rank);
            match access.kind {
                Kind::Set(value) => state.value = state.value.max(value),
                Kind::Increment => state.value += 1,
                _ => {}
            }
            let lucky = self.options.polling == Polling::Lucky;
            let sleeps = |&(_, access): &(usize, Access)| {
                lucky && matches!(access.kind, Kind::Poll(value) if value > state.value)
            };
            (state.asleep, awake) = std::mem::take(&mut state.asleep).into_iter().partition(sleeps);
        } else {
            state.reading -= u64::from(served);
            state.holders.insert(rank);
        }
        if served {
            self.plan(self.now, Event::Serve(access.line));
        }
        for (rank, access) in awake {
            self.want(rank, access);
        }
        let state = &mut self.lines[access.line.index()];
        if matches!(access.kind, Kind::Poll(value) if value > state.value) {
            state.asleep.push((rank, access));
            return;
        }
        self.next[rank] += 1;
        self.plan(self.now, Event::Go(rank));
    }
}
