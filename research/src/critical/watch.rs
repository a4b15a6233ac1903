//! The records of executed operations: which core, when, and what the operation cost this core and the previous one.
//! Recording takes no simulated time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::coherent::Counts;
use mp_model::Time;

use super::cores::Core;

/// The costs of a number of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// How many events there were.
    pub times: u64,
    /// The accesses in all of them.
    pub counts: Counts,
    /// How long they took.
    pub time: Time,
}

impl Costs {
    /// Returns the remote memory references of one event: T 5.2.
    pub fn remote(&self) -> f64 {
        self.counts.remote() as f64 / self.times.max(1) as f64
    }

    /// Returns how long one event took, in nanoseconds.
    pub fn nanos(&self) -> f64 {
        self.time.as_nanos() / self.times.max(1) as f64
    }

    fn add(&mut self, counts: Counts, time: Time) {
        self.times += 1;
        self.counts += counts;
        self.time += time;
    }
}

/// The costs of critical sections, in a whole run after its warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The operations themselves: what their data cost.
    pub inside: Costs,
    /// From the end of an operation to the beginning of the next that the same core executes.
    pub serving: Costs,
    /// The same if another core executes the next operation: what both of them did for it.
    pub handing_over: Costs,
    /// Operations that were executed while another one was. If there is any, mutual exclusion is violated.
    pub overlaps: u64,
}

impl Sections {
    pub(super) fn add(&mut self, other: &Sections) {
        for (all, more) in [
            (&mut self.inside, other.inside),
            (&mut self.serving, other.serving),
            (&mut self.handing_over, other.handing_over),
        ] {
            all.times += more.times;
            all.counts += more.counts;
            all.time += more.time;
        }
        self.overlaps += other.overlaps;
    }

    /// Returns how many operations a core executes before another core does.
    pub fn in_a_row(&self) -> f64 {
        self.inside.times as f64 / self.handing_over.times.max(1) as f64
    }
}

/// Watches over one critical section.
pub(super) struct Watch {
    from: Time,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sections: Sections,
    inside: usize,
    begun: (Time, Counts),
    last: Option<Last>,
}

/// The previous operation.
struct Last {
    core: usize,
    end: Time,
    /// The counts of each core when that operation ended.
    counts: Vec<Counts>,
    /// The counts of the operation's core when it had finished its work after the operation. `None` if it has not.
    through: Option<Counts>,
}

impl Watch {
    /// Creates a watch that counts from this time on.
    pub(super) fn new(from: Time) -> Self {
        Self { from, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes an operation on a core.
    pub(super) fn operation<T>(&self, core: &Core<'_>, execute: impl FnOnce() -> T) -> T {
        self.begin(core);
        let result = execute();
        self.end(core);
        result
    }

    fn begin(&self, core: &Core<'_>) {
        let (now, counts) = (core.now(), core.engine.counts(core.number));
        let mut state = self.state();
        state.sections.overlaps += u64::from(state.inside > 0);
        state.inside += 1;
        state.begun = (now, counts);
        let Some(last) = state.last.take() else { return };
        if now < self.from {
            return;
        }
        let time = now.saturating_sub(last.end);
        if last.core == core.number {
            state.sections.serving.add(counts - last.counts[core.number], time);
            return;
        }
        let through = last.through.unwrap_or_else(|| core.engine.counts(last.core));
        let mut both = counts - last.counts[core.number];
        both += through - last.counts[last.core];
        state.sections.handing_over.add(both, time);
    }

    fn end(&self, core: &Core<'_>) {
        let now = core.now();
        let counts = core.engine.all_counts();
        let mut state = self.state();
        state.inside -= 1;
        if now >= self.from {
            let (begin, before) = state.begun;
            let spent = counts[core.number] - before;
            state.sections.inside.add(spent, now.saturating_sub(begin));
        }
        state.last = Some(Last { core: core.number, end: now, counts, through: None });
    }

    /// Notes that the core has finished its work after its operation.
    pub(super) fn through(&self, core: &Core<'_>) {
        let mut state = self.state();
        if let Some(last) = &mut state.last
            && last.core == core.number
            && last.through.is_none()
        {
            last.through = Some(core.engine.counts(core.number));
        }
    }

    pub(super) fn sections(&self) -> Sections {
        self.state().sections
    }
}
