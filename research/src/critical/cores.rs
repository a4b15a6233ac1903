//! Cores in virtual time, and their words of memory.
//!
//! Each core runs ordinary code in a coroutine, all of them in one thread. A core continues alone until it accesses a
//! word at a time before which another core has something to do. Then the access is postponed until that is done. So
//! accesses are executed in order of their times, and those of one time in the order in which they were planned: a run
//! is the same every time and everywhere.
//!
//! Accesses that a core finds in its own cache are done at one instant, up to [`AHEAD`] accesses one after another.
//! Their time is added before the core needs a line from elsewhere. Processors do the same with store buffers: several
//! stores to a line are done when it has arrived, and a core that polls the line does not take it away between two of
//! them.
//!
//! A core that waits polls once. If it sees nothing it goes to sleep, and polls again when one of the lines that it
//! read is taken away from it. Until then it would only see the same values.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::coherent::{Access, Busy, Chip, ChipError, Counts, Memory};
use generator::Gn;
use mp_delegate::critical::internals::{AnyWord, Seat, Site, Stop};
use mp_model::Time;

/// The number of words of a cache line.
pub(super) const LINE: usize = 8;
/// How many accesses to its own cache a core makes at one instant.
const AHEAD: u64 = 16;
/// The number of words of a coroutine's stack: 256 KiB, of which only the used part takes memory.
const STACK: usize = 1 << 15;

/// The cores, their clocks, and the memory that they share.
pub(super) struct Engine(Mutex<State>);

struct State {
    memory: Memory,
    values: Vec<u64>,
    cores: Vec<CoreState>,
    events: BinaryHeap<Reverse<Planned>>,
    planned: u64,
    current: usize,
}

#[derive(Default)]
struct CoreState {
    clock: Time,
    /// The time that the accesses of this instant take.
    owed: Time,
    asleep: bool,
    /// The lines that a poll has read, and their versions. `None` outside of polls.
    seen: Option<Vec<(usize, u64)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Planned {
    time: Time,
    /// Whether the core has waited for a line or a message. Such cores come last at an instant, so that they see what
    /// others do to the line at the same instant.
    waited: bool,
    number: u64,
    event: Event,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A core continues.
    Go(usize),
    /// The word of a message has arrived.
    Arrives { word: usize, value: u64 },
}

/// A word of the simulated memory.
pub(super) struct SimulatedWord<'e> {
    engine: &'e Engine,
    index: u32,
}

/// A core, as the site of an algorithm.
#[derive(Clone, Copy)]
pub(super) struct Core<'e> {
    pub(super) engine: &'e Engine,
    words: &'e [SimulatedWord<'e>],
    pub(super) number: usize,
    /// The time of one pause of `pause`.
    pause: Time,
}

/// Cores that wait for an event that no core will cause.
#[derive(Debug)]
pub(super) struct Deadlock(pub(super) Vec<usize>);

impl Engine {
    /// Creates an engine whose words are all 0.
    pub(super) fn new(chip: Chip, words: usize) -> Result<Self, ChipError> {
        let cores = (0..chip.cores()).map(|_| CoreState::default()).collect();
        let memory = Memory::new(chip, words.div_ceil(LINE))?;
        let (values, events) = (vec![0; words], BinaryHeap::new());
        Ok(Self(Mutex::new(State { memory, values, cores, events, planned: 0, current: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn words(&self) -> Vec<SimulatedWord<'_>> {
        let count = self.state().values.len() as u32;
        (0..count).map(|index| SimulatedWord { engine: self, index }).collect()
    }

    /// Returns the value of a word, after a run.
    pub(super) fn value(&self, word: usize) -> u64 {
        self.state().values[word]
    }

    /// Makes these words messages before a run, if the chip has messages. With `owner` they are messages to that core.
    pub(super) fn pass_messages(&self, words: std::ops::Range<usize>, owner: Option<usize>) {
        let mut state = self.state();
        for line in words.start / LINE..words.end.div_ceil(LINE) {
            state.memory.pass_messages(line, owner);
        }
    }

    /// Makes a core's socket the home of these words before a run.
    pub(super) fn place(&self, words: std::ops::Range<usize>, core: usize) {
        let mut state = self.state();
        (words.start / LINE..words.end.div_ceil(LINE))
            .for_each(|line| state.memory.place(line, core));
    }

    /// Makes prefetchers pass over these words.
    pub(super) fn scatter(&self, words: std::ops::Range<usize>) {
        let mut state = self.state();
        (words.start / LINE..words.end.div_ceil(LINE)).for_each(|line| state.memory.scatter(line));
    }

    pub(super) fn counts(&self, core: usize) -> Counts {
        self.state().memory.counts(core)
    }

    pub(super) fn all_counts(&self) -> Vec<Counts> {
        let state = self.state();
        (0..state.cores.len()).map(|core| state.memory.counts(core)).collect()
    }

    pub(super) fn clock(&self, core: usize) -> Time {
        self.state().cores[core].now()
    }

    /// Returns the state as soon as it is the running core's turn.
    fn turn(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let core = state.current;
        let now = state.cores[core].settle();
        if state.events.peek().is_some_and(|Reverse(next)| next.time < now) {
            state.plan(now, false, Event::Go(core));
            drop(state);
            give_way();
            state = self.state();
        }
        state
    }

    /// Returns the state as soon as the running core has accessed the line. If the line is a message, also returns when
    /// the written word arrives.
    fn reach(&self, line: usize, access: Access) -> (MutexGuard<'_, State>, Option<Time>) {
        let mut state = self.state();
        let core = state.current;
        let goes_on = state.cores[core].owed > Time::ZERO
            && state.cores[core].owed < AHEAD * state.memory.chip().machine.parameters.local
            && state.memory.is_local(core, line, access);
        if !goes_on {
            drop(state);
            state = self.turn();
        }
        let since = state.cores[core].clock;
        loop {
            match state.access(line, access, since) {
                Ok(arrives) => return (state, arrives),
                Err(Busy(until)) => {
                    state.plan(until, true, Event::Go(core));
                    drop(state);
                    give_way();
                    state = self.state();
                }
            }
        }
    }

    fn access<T>(&self, word: usize, access: Access, act: impl FnOnce(&mut u64) -> T) -> T {
        let (mut state, arrives) = self.reach(word / LINE, access);
        assert!(arrives.is_none(), "a message is written and read, not changed");
        act(&mut state.values[word])
    }

    fn write(&self, word: usize, access: Access, value: u64) {
        let (mut state, arrives) = self.reach(word / LINE, access);
        match arrives {
            None => state.values[word] = value,
            Some(time) => state.plan(time, false, Event::Arrives { word, value }),
        }
    }

    /// Returns what the instructions of an operation take.
    pub(super) fn operation(&self) -> Time {
        self.state().memory.chip().operation
    }

    /// Makes the running core compute for so long.
    pub(super) fn compute(&self, time: Time) {
        let mut state = self.state();
        let core = state.current;
        state.cores[core].settle();
        state.cores[core].clock += time;
    }

    /// Makes the running core wait for its stores.
    pub(super) fn fence(&self) {
        let mut state = self.state();
        let core = state.current;
        let now = state.cores[core].settle();
        state.cores[core].clock = state.memory.fence(core, now);
    }

    /// Calls `look` until it returns an answer.
    fn look<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let (core, outer) = {
                let mut state = self.state();
                let core = state.current;
                (core, state.cores[core].seen.replace(Vec::new()))
            };
            let answer = look();
            let mut state = self.state();
            let seen = std::mem::replace(&mut state.cores[core].seen, outer).unwrap_or_default();
            if let Some(answer) = answer {
                return answer;
            }
            if seen.iter().any(|&(line, version)| state.memory.version(line) != version) {
                continue;
            }
            seen.iter().for_each(|&(line, _)| state.memory.watch(core, line));
            state.cores[core].settle();
            state.cores[core].asleep = true;
            drop(state);
            give_way();
            let mut state = self.state();
            seen.iter().for_each(|&(line, _)| state.memory.unwatch(core, line));
        }
    }

    /// Makes a core poll again although nothing has changed in memory.
    pub(super) fn ring(&self, core: usize) {
        let mut state = self.state();
        let now = state.cores[state.current].now();
        state.wake(core, now);
    }

    /// Runs the code of each core to the end. All cores start at time 0.
    pub(super) fn run<'e>(
        &'e self,
        programs: Vec<Box<dyn FnOnce() + Send + 'e>>,
    ) -> Result<(), Deadlock> {
        let mut running: Vec<_> = programs
            .into_iter()
            .enumerate()
            .map(|(core, program)| {
                self.state().plan(Time::ZERO, false, Event::Go(core));
                Gn::<()>::new_opt(STACK, program)
            })
            .collect();
        loop {
            let core = {
                let mut state = self.state();
                let Some(Reverse(Planned { time, event, .. })) = state.events.pop() else { break };
                match event {
                    Event::Go(core) => {
                        state.current = core;
                        let clock = &mut state.cores[core].clock;
                        *clock = time.max(*clock);
                        core
                    }
                    Event::Arrives { word, value } => {
                        state.values[word] = value;
                        state.memory.deliver(word / LINE, time);
                        state.wake_watchers();
                        continue;
                    }
                }
            };
            running[core].resume();
        }
        let waiting: Vec<usize> =
            (0..running.len()).filter(|&core| !running[core].is_done()).collect();
        if waiting.is_empty() { Ok(()) } else { Err(Deadlock(waiting)) }
    }
}

/// Lets the other cores continue.
fn give_way() {
    #[allow(
        deprecated,
        reason = "the handle that is to replace it stays in the coroutine's outermost function, and \
                  words are used far below"
    )]
    generator::yield_with(());
}

impl CoreState {
    fn now(&self) -> Time {
        self.clock + self.owed
    }

    /// Moves the clock to the core's time.
    fn settle(&mut self) -> Time {
        self.clock += std::mem::take(&mut self.owed);
        self.clock
    }
}

impl State {
    fn plan(&mut self, time: Time, waited: bool, event: Event) {
        self.planned += 1;
        self.events.push(Reverse(Planned { time, waited, number: self.planned, event }));
    }

    /// Accesses a line. Returns when the written word arrives, if it is a message.
    fn access(&mut self, line: usize, access: Access, since: Time) -> Result<Option<Time>, Busy> {
        let core = self.current;
        let now = self.cores[core].clock;
        let local = self.memory.is_local(core, line, access);
        let done = self.memory.access(core, line, access, since, now)?;
        let state = &mut self.cores[core];
        if local {
            state.owed += done.at - now;
        } else {
            state.clock = done.at;
        }
        let version = self.memory.version(line);
        if let Some(seen) = &mut self.cores[core].seen {
            match seen.iter_mut().find(|(other, _)| *other == line) {
                Some(before) => before.1 = version,
                None => seen.push((line, version)),
            }
        }
        self.wake_watchers();
        Ok(done.arrives)
    }

    fn wake_watchers(&mut self) {
        let woken: Vec<(usize, Time)> = self.memory.woken().collect();
        woken.into_iter().for_each(|(core, time)| self.wake(core, time));
    }

    fn wake(&mut self, core: usize, time: Time) {
        if std::mem::take(&mut self.cores[core].asleep) {
            let time = time.max(self.cores[core].clock);
            self.plan(time, true, Event::Go(core));
        }
    }
}

impl AnyWord for SimulatedWord<'_> {
    fn load(&self) -> u64 {
        self.engine.access(self.index as usize, Access::Load, |value| *value)
    }

    fn load_relaxed(&self) -> u64 {
        self.load()
    }

    fn store(&self, value: u64) {
        self.engine.write(self.index as usize, Access::Store, value);
    }

    fn note(&self, value: u64) {
        self.store(value);
    }

    fn store_relaxed(&self, value: u64) {
        self.store(value);
    }

    fn stream(&self, value: u64) {
        self.engine.write(self.index as usize, Access::Stream, value);
    }

    fn swap(&self, value: u64) -> u64 {
        let swap = |old: &mut u64| std::mem::replace(old, value);
        self.engine.access(self.index as usize, Access::Change, swap)
    }

    fn fetch_add(&self, value: u64) -> u64 {
        let add = |old: &mut u64| std::mem::replace(old, old.wrapping_add(value));
        self.engine.access(self.index as usize, Access::Change, add)
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        let exchange = |old: &mut u64| match *old == current {
            true => {
                *old = new;
                Ok(())
            }
            false => Err(*old),
        };
        self.engine.access(self.index as usize, Access::Change, exchange)
    }
}

impl SimulatedWord<'_> {
    /// Reads the word and writes it back increased by `by`. No other core may write it meanwhile.
    pub(super) fn increase(&self, by: u64) -> u64 {
        let value = self.load();
        self.store(value.wrapping_add(by));
        value
    }
}

impl<'e> Core<'e> {
    pub(super) fn new(
        engine: &'e Engine,
        words: &'e [SimulatedWord<'e>],
        number: usize,
        pause: Time,
    ) -> Self {
        Self { engine, words, number, pause }
    }

    /// Returns the core's own time.
    pub(super) fn now(&self) -> Time {
        self.engine.clock(self.number)
    }

    /// Returns a word that exists.
    pub(super) fn at(&self, index: usize) -> &'e SimulatedWord<'e> {
        &self.words[index]
    }

    pub(super) fn look<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        self.engine.look(look)
    }
}

impl<'e> Site for Core<'e> {
    type Word = SimulatedWord<'e>;

    fn word(&self, index: usize) -> Result<&Self::Word, Stop> {
        self.words.get(index).ok_or(Stop::Corrupt)
    }

    fn words(&self, first: usize, count: usize) -> Result<&[Self::Word], Stop> {
        let end = first.checked_add(count).ok_or(Stop::Corrupt)?;
        self.words.get(first..end).ok_or(Stop::Corrupt)
    }

    fn wait<T>(
        &self,
        _: Seat,
        _: Option<Seat>,
        _: &Self::Word,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        Ok(self.look(poll))
    }

    fn pause(&self, pauses: u32) {
        self.engine.compute(u64::from(pauses) * self.pause);
    }

    fn pauses(&self, time: Duration) -> u32 {
        (time.as_nanos() as u64 * 1000 / self.pause.as_picos().max(1)) as u32
    }

    /// Does nothing: no core is lost here.
    fn approach(&self, _: Seat) {}

    fn begin(&self, _: Seat, _: u64) {}

    fn leave(&self, _: Seat) {}

    fn gone(&self, _: Seat) -> Option<Stop> {
        None
    }

    /// Does nothing: streamed stores arrive here without further action.
    fn settle(&self) {}

    /// Does nothing: memory wakes all sleeping cores.
    fn wake_server(&self) {}

    fn unserved(&self) -> bool {
        false
    }

    fn spins(&self) -> bool {
        true
    }

    fn wake(&self, _: Seat) {}

    fn wake_all(&self) {}

    /// Combiners call this when they hand over (T 6.2.2).
    fn fence(&self) {
        self.engine.fence();
    }
}
