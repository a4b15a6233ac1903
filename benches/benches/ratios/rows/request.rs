//! What a request costs from its start to the end of the wait for it.

use onchip::prelude::*;
use onchip::reduce::Sum;

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::party::BOTH;
use crate::plan::{Life, Tagged, timed};
use crate::rivals::Checked;
use crate::row::{Bound, Row, Side, Unit};
use crate::stats::median;

impl Life {
    const ALL: [Self; 3] = [Self::Each, Self::Together, Self::Mixed];

    fn name(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Together => "together",
            Self::Mixed => "mixed",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Each => {
                "8 bytes by a posted receive and a nonblocking send, each waited for, beside blocking calls"
            }
            Self::Together => "the same, both waited for together, beside blocking calls",
            Self::Mixed => {
                "the same, together with an all-reduce that is under way, beside blocking calls"
            }
        }
    }
}

fn side(ranks: Ranks, job: Job) -> Side {
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[0]))
}

pub fn rows() -> Vec<Row> {
    let both = |life: Life| {
        BOTH.map(|ranks| Row {
            name: format!("request.{}.{}", life.name(), ranks.name()),
            what: life.what(),
            unit: Unit::Nanoseconds,
            ours: side(ranks, Job::Request(life)),
            reference: side(ranks, Job::Tagged(Tagged::pingpong(8))),
            bound: Bound::Context,
            by_distance: true,
        })
    };
    Life::ALL.into_iter().flat_map(both).collect()
}

/// One rank's part; rank 0 gives its times.
#[inline(never)]
pub fn perform(rank: &Rank, life: Life) -> onchip::Result<Vec<f64>> {
    let plan = Tagged { trips: 500, ..Tagged::pingpong(8) };
    let world = Communicator::world(rank);
    world.set_nonblocking(threads::Progress::InCalls)?;
    let (me, peer) = (rank.id(), 1 - rank.id());
    let mut checked = Checked::default();
    let mut number = 0u64;
    let mut trip = || -> onchip::Result<()> {
        number += 1;
        let mut receive = world.nonblocking_receive([0u64], peer, Tagged::TAG);
        let got = match life {
            Life::Each => {
                if me == 0 {
                    world.nonblocking_send([number], peer, Tagged::TAG).wait()?;
                }
                let ([got], _) = receive.wait()?;
                if me == 1 {
                    world.nonblocking_send([!got], peer, Tagged::TAG).wait()?;
                }
                got
            }
            // Both send and receive at the same time: half a round trip takes as long as the whole.
            Life::Together | Life::Mixed => {
                let message = if me == 0 { number } else { !number };
                let mut send = world.nonblocking_send([message], peer, Tagged::TAG);
                if life == Life::Mixed {
                    let mut sum = world.nonblocking()?.all_reduce([number], Sum);
                    let mut all: [&mut dyn Pending; 3] = [&mut receive, &mut send, &mut sum];
                    wait_all(&mut all)?;
                    checked.equal(sum.wait()?[0], 2 * number);
                } else {
                    let mut all: [&mut dyn Pending; 2] = [&mut receive, &mut send];
                    wait_all(&mut all)?;
                }
                send.wait()?;
                receive.wait()?.0[0]
            }
        };
        checked.equal(got, if me == 0 { !number } else { number });
        Ok(())
    };
    let took = timed(plan.batches, plan.trips, &mut trip)?;
    checked.finish().map_err(onchip::Error::other)?;
    let half = if life == Life::Each { 2.0 } else { 1.0 };
    Ok(match me {
        0 => took.into_iter().map(|ns| ns / half).collect(),
        _ => Vec::new(),
    })
}
