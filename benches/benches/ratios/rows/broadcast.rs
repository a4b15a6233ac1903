//! One rank's message goes to all.

use onchip::broadcast::{Broadcasts, Settings};
use onchip::prelude::*;
use onchip_benches::content::{fill, is_filled, is_stamped, stamp};

use crate::ours::{self, Job, Task};
use crate::party::{self, BOTH, Part, Turns, beside_mpis, crowd_beside_mpis};
use crate::plan::{Collective, Operation, Timing};
use crate::rivals::staged;
use crate::row::{Bound, Row, Side, Unit};
use crate::rows::{idle, pingpong};

const ROOT: usize = 0;
const KB: usize = 1 << 10;
const MB: usize = 1 << 20;
const SIZES: [(&str, usize); 7] = [
    ("8B", 8),
    ("64B", 64),
    ("1KB", KB),
    ("8KB", 8 * KB),
    ("64KB", 64 * KB),
    ("1MB", MB),
    ("4MB", 4 * MB),
];

fn of(bytes: usize) -> Collective {
    Collective::of(Operation::Broadcast, bytes)
}

/// How far ahead of every MPI.
fn ahead(bytes: usize) -> Bound {
    Bound::ahead(match bytes {
        bytes if bytes == 8 * KB => 1.4,
        bytes if bytes == MB => 1.2,
        _ => 1.0,
    })
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for ranks in BOTH {
        rows.push(Row {
            name: format!("broadcast.floor.{}", ranks.name()),
            what: "8 bytes to the other rank, last in to last out, beside the raw cache line",
            unit: Unit::Nanoseconds,
            ours: party::ours(ranks, of(8), Timing::Last),
            reference: pingpong::floor(),
            bound: Bound::at_most(1.15),
            by_distance: true,
        });
    }
    for (name, bytes, timing) in [
        ("8KB", 8 * KB, Timing::Last),
        ("1MB", MB, Timing::Loop),
        ("1MB", MB, Timing::Last),
        ("4MB", 4 * MB, Timing::Loop),
    ] {
        rows.extend(BOTH.map(|ranks| Row {
            name: format!("broadcast.raw.{name}.{}.{}", timing.name(), ranks.name()),
            what: "a message to the other rank, beside bare copies in and out",
            unit: Unit::Nanoseconds,
            ours: party::ours(ranks, of(bytes), timing),
            reference: staged::copied(of(bytes), timing),
            bound: Bound::ahead(0.9),
            by_distance: true,
        }));
    }
    rows.extend(BOTH.map(|ranks| Row {
        name: format!("broadcast.idle.{}", ranks.name()),
        what: "processor time of 8 ranks, 7 of them in a broadcast that does not come, percent of one core",
        unit: Unit::CorePercent,
        ours: ours::side(ranks, Task::sharing(idle::RANKS, Job::BroadcastIdle), |results| {
            results[ROOT][0]
        }),
        reference: Side::stated(idle::LIMIT),
        bound: Bound::at_most(1.0),
        by_distance: false,
    }));
    for (name, bytes) in SIZES {
        rows.extend(beside_mpis(
            &format!("broadcast.{name}"),
            "a message to the other rank, beside the best of the MPIs",
            of(bytes),
            ahead(bytes),
        ));
    }
    for count in [4, 8] {
        for (name, bytes) in [("8B", 8), ("8KB", 8 * KB), ("1MB", MB)] {
            rows.extend(crowd_beside_mpis(
                &format!("broadcast.{count}on2.{name}"),
                "a message to ranks that share 2 cores, back to back, beside the best of the MPIs",
                count,
                Collective::crowd(Operation::Broadcast, bytes),
            ));
        }
    }
    rows
}

struct Party {
    root: bool,
    broadcasts: Broadcasts,
    turns: Turns<u64>,
}

impl Part for Party {
    fn whole(&mut self) -> onchip::Result<bool> {
        let (message, number) = self.turns.next();
        if self.root {
            fill(message, number);
        }
        self.broadcasts.broadcast(message, ROOT)?;
        Ok(is_filled(message, number))
    }

    #[inline]
    fn prepare(&mut self) {
        let (message, number) = self.turns.next();
        if self.root {
            stamp(message, number);
        }
    }

    #[inline]
    fn call(&mut self) -> onchip::Result<()> {
        self.broadcasts.broadcast(self.turns.current().0, ROOT)
    }

    #[inline]
    fn right(&mut self) -> bool {
        let (message, number) = self.turns.current();
        is_stamped(message, number)
    }
}

/// One rank's part: every rank gives its times.
#[inline(never)]
pub fn perform(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let party = Party {
        root: rank.id() == ROOT,
        broadcasts: Broadcasts::open(rank, "broadcast", Settings::default())?,
        turns: Turns::new(plan.words()),
    };
    party::perform(rank, party, plan, timing)
}

/// All ranks but the root wait for a broadcast while rank 0 finds what that takes.
#[inline(never)]
pub fn wait_for_one(rank: &Rank) -> onchip::Result<Vec<f64>> {
    const NUMBER: u64 = 1;
    let mut broadcasts = Broadcasts::open(rank, "broadcast", Settings::default())?;
    let mut message = [0];
    let mut figures = Vec::new();
    if rank.id() == ROOT {
        figures.push(idle::watch(rank)?);
        stamp(&mut message, NUMBER);
    } else {
        idle::report(rank)?;
    }
    broadcasts.broadcast(&mut message, ROOT)?;
    if !is_stamped(&message, NUMBER) {
        return Err(onchip::Error::other("a broadcast arrived wrong"));
    }
    Ok(figures)
}
