//! Nobody goes on before all have come.

use std::rc::Rc;

use onchip::barrier::{Barriers, Settings};
use onchip::mpb::{Line, Mpb, Mpbs};
use onchip::prelude::*;

use crate::ours::{self, Job, Ranks, Task};
use crate::party::{self, BOTH, Part, beside_mpis, crowd_beside_mpis};
use crate::plan::{Collective, Operation, Timing};
use crate::rivals::contest::Contest;
use crate::rivals::{openmp, raw, spin_yield};
use crate::row::{Bound, Row, Side, Unit};
use crate::rows::idle;

const WATCHER: usize = 0;

fn two() -> Collective {
    Collective::of(Operation::Barrier, 0)
}

fn many() -> Collective {
    Collective::crowd(Operation::Barrier, 0)
}

pub fn rows() -> Vec<Row> {
    let beside = |rival: &str, what, reference: fn() -> Side, bound| {
        BOTH.map(|ranks| Row {
            name: format!("barrier.{rival}.{}", ranks.name()),
            what,
            unit: Unit::Nanoseconds,
            ours: party::ours(ranks, two(), Timing::Loop),
            reference: reference(),
            bound,
            by_distance: true,
        })
    };
    let mut rows = Vec::new();
    rows.extend(beside(
        "flags",
        "two ranks, back to back, beside two threads that set each other's flag",
        || raw::flags(two()),
        Bound::at_most(1.1),
    ));
    rows.extend(beside(
        "openmp",
        "two ranks, back to back, beside libgomp's barrier with active waiting",
        || openmp::barrier(two()),
        Bound::Ahead { near: 3.0, far: 1.4 },
    ));
    rows.extend(beside_mpis(
        "barrier",
        "two ranks, beside the best of the MPIs",
        two(),
        Bound::Ahead { near: 1.7, far: 1.15 },
    ));
    for count in [4, 8] {
        rows.extend(crowd_beside_mpis(
            &format!("barrier.{count}on2.mpi"),
            "ranks that share 2 cores, back to back, beside the best of the MPIs",
            count,
            many(),
        ));
        let contests = [
            ("openmp", Rc::new(openmp::crowd(count, many()))),
            ("spin-yield", Rc::new(spin_yield::barriers(count, many()))),
        ];
        for (rival, contest) in contests {
            rows.extend(BOTH.map(|ranks| Row {
                name: format!("barrier.{count}on2.{rival}.{}", ranks.name()),
                what: "ranks that share 2 cores, back to back, beside the best setting of a barrier for threads",
                unit: Unit::Nanoseconds,
                ours: party::crowd(ranks, count, many()),
                reference: Contest::side(&contest, 0),
                bound: Bound::ahead(1.0),
                by_distance: false,
            }));
        }
    }
    rows.extend(BOTH.map(|ranks| Row {
        name: format!("barrier.idle.{}", ranks.name()),
        what: "processor time of 8 ranks, 7 of them in a barrier that one does not come to, percent of one core",
        unit: Unit::CorePercent,
        ours: waiting(ranks),
        reference: Side::stated(idle::LIMIT),
        bound: Bound::at_most(1.0),
        by_distance: false,
    }));
    rows
}

fn waiting(ranks: Ranks) -> Side {
    let task = Task::sharing(idle::RANKS, Job::BarrierIdle);
    ours::side(ranks, task, |results| results[WATCHER][0])
}

struct Party {
    barriers: Barriers,
    /// Where every rank says how often it has come, past the barrier itself.
    come: Mpb,
    times: u64,
}

impl Party {
    const CHECKED: u64 = 200;
}

impl Part for Party {
    fn whole(&mut self) -> onchip::Result<bool> {
        let me = self.come.rank();
        let mut right = true;
        for _ in 0..Self::CHECKED {
            self.times += 1;
            for rank in 0..self.come.ranks() {
                self.come.set_flag(Line { rank, line: me }, self.times)?;
            }
            self.barriers.wait()?;
            for rank in 0..self.come.ranks() {
                right &= self.come.flag(rank)? >= self.times;
            }
        }
        Ok(right)
    }

    fn prepare(&mut self) {}

    #[inline]
    fn call(&mut self) -> onchip::Result<()> {
        self.barriers.wait()
    }

    fn right(&mut self) -> bool {
        true
    }
}

/// One rank's part: every rank gives its times.
#[inline(never)]
pub fn perform(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let party = Party {
        barriers: Barriers::open(rank, "measured", Settings::default())?,
        come: rank.mpb("come", Mpbs::lines(rank.size()))?,
        times: 0,
    };
    party::perform(rank, party, plan, timing)
}

/// All ranks but 0 wait in a barrier while rank 0 finds what that takes.
#[inline(never)]
pub fn wait_in_one(rank: &Rank) -> onchip::Result<Vec<f64>> {
    let mut barriers = Barriers::open(rank, "measured", Settings::default())?;
    let mut figures = Vec::new();
    if rank.id() == WATCHER {
        figures.push(idle::watch(rank)?);
    } else {
        idle::report(rank)?;
    }
    barriers.wait()?;
    Ok(figures)
}
