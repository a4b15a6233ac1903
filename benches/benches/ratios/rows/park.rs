//! Waking a receiver that sleeps.

use std::time::Duration;

use onchip::prelude::*;
use onchip_benches::clock::{monotonic_ns, spin_for};

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::Wakes;
use crate::rivals::futex;
use crate::row::{Bound, Row, Unit};
use crate::stats::median;

const PLAN: Wakes = Wakes::USUAL;

pub fn rows() -> Vec<Row> {
    [Ranks::Threads, Ranks::Processes]
        .map(|ranks| Row {
            name: format!("park.{}", ranks.name()),
            what: "from `send` to the parked receiver having the message, beside a bare futex wake",
            unit: Unit::Nanoseconds,
            ours: ours::side(ranks, Task::pinned(Waits::Park, Job::Park(PLAN)), |results| {
                median(&results[1])
            }),
            reference: futex::wake(PLAN),
            bound: Bound::at_most(1.2),
            by_distance: true,
        })
        .into()
}

/// The message is the moment it was sent; rank 1 gives the times until it had them.
pub fn perform(rank: &Rank, plan: Wakes) -> onchip::Result<Vec<f64>> {
    if rank.id() == 0 {
        let mut out = rank.sender::<u64>("wake", 1, Channel::degree(1))?;
        for _ in 0..plan.count {
            spin_for(Duration::from_micros(plan.pause_us));
            out.send(&monotonic_ns())?;
        }
        return Ok(Vec::new());
    }
    let messages = rank.receiver::<u64>("wake", 0, Channel::degree(1))?;
    let mut took = Vec::with_capacity(plan.count);
    for _ in 0..plan.count {
        let sent = *messages.receive()?;
        took.push((monotonic_ns() - sent) as f64);
    }
    Ok(took)
}
