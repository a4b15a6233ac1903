//! One rank's message goes to all.

use std::rc::Rc;
use std::time::Instant;

use onchip::broadcast::{Broadcasts, Settings};
use onchip::prelude::*;
use onchip_benches::clock::{monotonic_ns, reading_ns};
use onchip_benches::content::{is_stamped, stamp};

use crate::ours::{self, Barrier, Job, Ranks, Start, Task, Waits};
use crate::plan::{Broadcasting, Timing};
use crate::rivals::contest::Contest;
use crate::rivals::{Checked, mpi, staged};
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
const BOTH: [Ranks; 2] = [Ranks::Threads, Ranks::Processes];

fn ours(ranks: Ranks, bytes: usize, timing: Timing) -> Side {
    let task = Task::pinned(Waits::Spin, Job::Broadcast(Broadcasting::of(bytes), timing));
    side(ranks, task, timing)
}

fn crowd(ranks: Ranks, count: usize, bytes: usize) -> Side {
    let job = Job::Broadcast(Broadcasting::crowd(bytes), Timing::Loop);
    side(ranks, Task::sharing(count, job), Timing::Loop)
}

fn side(ranks: Ranks, task: Task, timing: Timing) -> Side {
    ours::side(ranks, task, move |results| timing.figure(results))
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
            ours: ours(ranks, 8, Timing::Last),
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
            ours: ours(ranks, bytes, timing),
            reference: staged::copied(Broadcasting::of(bytes), timing),
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
        let contest = Rc::new(mpi::broadcast(Broadcasting::of(bytes)));
        for timing in Timing::ALL {
            rows.extend(BOTH.map(|ranks| Row {
                name: format!("broadcast.{name}.{}.{}", timing.name(), ranks.name()),
                what: "a message to the other rank, beside the best of the MPIs",
                unit: Unit::Nanoseconds,
                ours: ours(ranks, bytes, timing),
                reference: Contest::side(&contest, timing as usize),
                bound: ahead(bytes),
                by_distance: true,
            }));
        }
    }
    for count in [4, 8] {
        for (name, bytes) in [("8B", 8), ("8KB", 8 * KB), ("1MB", MB)] {
            let contest = Rc::new(mpi::crowd(count, Broadcasting::crowd(bytes)));
            rows.extend(BOTH.map(|ranks| Row {
                name: format!("broadcast.{count}on2.{name}.{}", ranks.name()),
                what: "a message to ranks that share 2 cores, back to back, beside the best of the MPIs",
                unit: Unit::Nanoseconds,
                ours: crowd(ranks, count, bytes),
                reference: Contest::side(&contest, 0),
                bound: Bound::ahead(1.0),
                by_distance: false,
            }));
        }
    }
    rows
}

/// Messages in turn, each on pages of its own, as the MPIs are given them.
pub struct Turns {
    buffers: [Vec<u64>; Broadcasting::TURNS],
    words: usize,
    number: u64,
}

impl Turns {
    const PAGE: usize = 4096;

    pub fn new(words: usize) -> Turns {
        let buffers = std::array::from_fn(|_| vec![0; words + Self::PAGE / size_of::<u64>()]);
        Turns { buffers, words, number: 0 }
    }

    /// The next one, and its number.
    pub fn next(&mut self) -> (&mut [u64], u64) {
        self.number += 1;
        let buffer = &mut self.buffers[self.number as usize % Broadcasting::TURNS];
        let start = buffer.as_ptr().align_offset(Self::PAGE);
        (&mut buffer[start..start + self.words], self.number)
    }
}

/// One rank's part: every rank gives its times.
#[inline(never)]
pub fn perform(rank: &Rank, plan: Broadcasting, timing: Timing) -> onchip::Result<Vec<f64>> {
    let mut party = Party {
        root: rank.id() == ROOT,
        broadcasts: Broadcasts::open(rank, "broadcast", Settings::default())?,
        barrier: Barrier::open(rank)?,
        start: Start::open(rank)?,
        turns: Turns::new(plan.words()),
        checked: Checked::default(),
    };
    let took = match timing {
        Timing::Loop => party.back_to_back(plan)?,
        Timing::Separated | Timing::Last => party.apart(plan)?,
    };
    party.checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}

struct Party {
    root: bool,
    broadcasts: Broadcasts,
    barrier: Barrier,
    start: Start,
    turns: Turns,
    checked: Checked,
}

impl Party {
    /// Nanoseconds a call, one figure a batch. One more batch warms up.
    fn back_to_back(&mut self, plan: Broadcasting) -> onchip::Result<Vec<f64>> {
        let mut took = Vec::with_capacity(plan.batches + 1);
        for _ in 0..=plan.batches {
            self.barrier.wait()?;
            let start = Instant::now();
            for _ in 0..plan.calls {
                let (message, number) = self.turns.next();
                if self.root {
                    stamp(message, number);
                }
                self.broadcasts.broadcast(message, ROOT)?;
                self.checked.holds(is_stamped(message, number));
            }
            took.push(start.elapsed().as_nanos() as f64 / plan.calls as f64);
        }
        took.remove(0);
        Ok(took)
    }

    /// When each call began and ended, the reading of the clock taken off.
    fn apart(&mut self, plan: Broadcasting) -> onchip::Result<Vec<f64>> {
        let reading = reading_ns();
        let mut stamps = Vec::with_capacity(2 * plan.singles() as usize);
        for call in 0..plan.calls + plan.singles() {
            let (message, number) = self.turns.next();
            if self.root {
                stamp(message, number);
            }
            self.start.together()?;
            let begin = monotonic_ns();
            self.broadcasts.broadcast(message, ROOT)?;
            let end = monotonic_ns();
            self.checked.holds(is_stamped(message, number));
            if call >= plan.calls {
                stamps.extend([begin as f64, end as f64 - reading]);
            }
        }
        Ok(stamps)
    }
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
