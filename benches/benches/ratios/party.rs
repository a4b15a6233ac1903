//! A collective operation as our ranks call, time and check it, whichever operation it is; and the rows that compare it
//! with the MPIs, which do the same in `benches/peers/rivals.c`.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use onchip::prelude::*;
use onchip_benches::clock::{monotonic_ns, reading_ns};

use crate::meet::{Barrier, Start};
use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::{Collective, Timing};
use crate::rivals::contest::Contest;
use crate::rivals::{Checked, mpi};
use crate::row::{Bound, Row, Side, Unit};

pub const BOTH: [Ranks; 2] = [Ranks::Threads, Ranks::Processes];

/// Two ranks with one core each.
pub fn ours(ranks: Ranks, plan: Collective, timing: Timing) -> Side {
    side(ranks, Task::pinned(Waits::Spin, Job::Collective(plan, timing)), timing)
}

/// Ranks that share two cores, back to back.
pub fn crowd(ranks: Ranks, count: usize, plan: Collective) -> Side {
    side(ranks, Task::sharing(count, Job::Collective(plan, Timing::Loop)), Timing::Loop)
}

fn side(ranks: Ranks, task: Task, timing: Timing) -> Side {
    ours::side(ranks, task, move |results| timing.figure(results))
}

/// Two ranks beside the best MPI, timed in every way: `name.timing.kind`.
pub fn beside_mpis(name: &str, what: &'static str, plan: Collective, bound: Bound) -> Vec<Row> {
    let contest = Rc::new(mpi::collective(plan));
    let row = |timing: Timing, ranks: Ranks| Row {
        name: format!("{name}.{}.{}", timing.name(), ranks.name()),
        what,
        unit: Unit::Nanoseconds,
        ours: ours(ranks, plan, timing),
        reference: Contest::side(&contest, timing as usize),
        bound,
        by_distance: true,
    };
    Timing::ALL.into_iter().flat_map(|timing| BOTH.map(|ranks| row(timing, ranks))).collect()
}

/// Ranks that share two cores, back to back, beside the best MPI: `name.kind`.
pub fn crowd_beside_mpis(
    name: &str,
    what: &'static str,
    count: usize,
    plan: Collective,
) -> [Row; 2] {
    let contest = Rc::new(mpi::crowd(count, plan));
    BOTH.map(|ranks| Row {
        name: format!("{name}.{}", ranks.name()),
        what,
        unit: Unit::Nanoseconds,
        ours: crowd(ranks, count, plan),
        reference: Contest::side(&contest, 0),
        bound: Bound::ahead(1.0),
        by_distance: false,
    })
}

/// Messages used in turn, each on pages of its own. The MPIs get their messages in the same way.
pub struct Turns<T> {
    buffers: [Vec<T>; Collective::TURNS],
    starts: [usize; Collective::TURNS],
    len: usize,
    number: u64,
}

impl<T: Plain + Default> Turns<T> {
    const PAGE: usize = 4096;

    pub fn new(len: usize) -> Turns<T> {
        let more = Self::PAGE / size_of::<T>();
        let buffers = std::array::from_fn(|_| {
            // The buffer is written, so that each page has its own memory and is not the one shared page of zeros.
            let mut buffer = black_box(vec![T::default(); len + more]);
            buffer.fill(T::default());
            buffer
        });
        let starts = std::array::from_fn(|turn| {
            let buffer: &Vec<T> = &buffers[turn];
            buffer.as_ptr().align_offset(Self::PAGE)
        });
        Turns { buffers, starts, len, number: 0 }
    }

    /// Goes on to the next message. Returns it and its number.
    pub fn next(&mut self) -> (&mut [T], u64) {
        self.number += 1;
        self.current()
    }

    pub fn current(&mut self) -> (&mut [T], u64) {
        let turn = self.number as usize % Collective::TURNS;
        let start = self.starts[turn];
        (&mut self.buffers[turn][start..][..self.len], self.number)
    }
}

/// The part of one rank in an operation that all ranks call.
pub trait Part {
    /// Calls the operation with messages in which every element is different. Returns whether all of them arrived. Not
    /// timed.
    fn whole(&mut self) -> onchip::Result<bool>;
    /// Makes the next message ready.
    fn prepare(&mut self);
    fn call(&mut self) -> onchip::Result<()>;
    /// Returns whether the last call has brought the stamps to their places.
    fn right(&mut self) -> bool;
}

/// Performs the operation. Each rank returns its times.
#[inline(never)]
pub fn perform(
    rank: &Rank,
    mut part: impl Part,
    plan: Collective,
    timing: Timing,
) -> onchip::Result<Vec<f64>> {
    let mut barrier = Barrier::open(rank)?;
    let mut checked = Checked::default();
    checked.holds(part.whole()?);
    let took = match timing {
        Timing::Loop => back_to_back(&mut part, &mut barrier, &mut checked, plan)?,
        Timing::Separated | Timing::Last => {
            apart(&mut part, &mut Start::open(rank)?, &mut checked, plan)?
        }
    };
    checked.holds(part.whole()?);
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}

/// Returns nanoseconds for each call, one figure for each batch. One more batch warms up.
fn back_to_back(
    part: &mut impl Part,
    barrier: &mut Barrier,
    checked: &mut Checked,
    plan: Collective,
) -> onchip::Result<Vec<f64>> {
    let mut took = Vec::with_capacity(plan.batches + 1);
    for _ in 0..=plan.batches {
        barrier.wait()?;
        let start = Instant::now();
        for _ in 0..plan.calls {
            part.prepare();
            part.call()?;
            checked.holds(part.right());
        }
        took.push(start.elapsed().as_nanos() as f64 / plan.calls as f64);
    }
    took.remove(0);
    Ok(took)
}

/// Returns when each call began and ended, minus the time for reading the clock.
fn apart(
    part: &mut impl Part,
    start: &mut Start,
    checked: &mut Checked,
    plan: Collective,
) -> onchip::Result<Vec<f64>> {
    let reading = reading_ns();
    let mut stamps = Vec::with_capacity(2 * plan.singles() as usize);
    for call in 0..plan.calls + plan.singles() {
        part.prepare();
        start.together()?;
        let begin = monotonic_ns();
        part.call()?;
        let end = monotonic_ns();
        checked.holds(part.right());
        if call >= plan.calls {
            stamps.extend([begin as f64, end as f64 - reading]);
        }
    }
    Ok(stamps)
}
