//! Waking a receiver that sleeps.

use std::sync::mpsc;
use std::time::Duration;

use onchip::broadcast::asynchronous::{AsyncBroadcast, AsyncSettings};
use onchip::mpb::Notifier;
use onchip::prelude::*;
use onchip_benches::clock::{monotonic_ns, spin_for};

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::{Wakes, Woken};
use crate::rivals::futex;
use crate::row::{Bound, Row, Unit};
use crate::stats::median;

const PLAN: Wakes = Wakes::USUAL;

pub fn rows() -> Vec<Row> {
    let row = |name: String, what, ranks, job, bound| Row {
        name: format!("{name}.{}", Ranks::name(ranks)),
        what,
        unit: Unit::Nanoseconds,
        ours: ours::side(ranks, Task::pinned(Waits::Park, job), |results| median(&results[1])),
        reference: futex::wake(PLAN),
        bound,
        by_distance: true,
    };
    let handled = "from an asynchronous `broadcast` to the handler having the message, beside a bare \
                   futex wake";
    [Ranks::Threads, Ranks::Processes]
        .into_iter()
        .flat_map(|ranks| {
            [
                row(
                    "park".into(),
                    "from `send` to the parked receiver having the message, beside a bare futex wake",
                    ranks,
                    Job::Park(PLAN),
                    Bound::at_most(1.2),
                ),
                row(
                    "broadcast.async.futex".into(),
                    handled,
                    ranks,
                    Job::Handled(PLAN, Woken::ByFutex),
                    Bound::at_most(1.3),
                ),
                row(
                    "broadcast.async.signal".into(),
                    handled,
                    ranks,
                    Job::Handled(PLAN, Woken::BySignal),
                    Bound::Context,
                ),
            ]
        })
        .collect()
}

/// The message is the moment it was sent; rank 1 gives the times until its handler had them.
#[inline(never)]
pub fn handled(rank: &Rank, plan: Wakes, woken: Woken) -> onchip::Result<Vec<f64>> {
    let notifier = match woken {
        Woken::ByFutex => Notifier::Futex,
        Woken::BySignal => Notifier::Signal,
    };
    let (times, took) = mpsc::channel();
    let settings = AsyncSettings { notifier, ..AsyncSettings::default() };
    let broadcasts = AsyncBroadcast::open(rank, "wake", settings, move |_, message| {
        let sent = message.try_into().map_or(0, u64::from_ne_bytes);
        // The other end is there until the handler is dropped.
        let _ = times.send((monotonic_ns() - sent) as f64);
    })?;
    if rank.id() == 0 {
        for _ in 0..plan.count {
            spin_for(Duration::from_micros(plan.pause_us));
            broadcasts.broadcast(&monotonic_ns().to_ne_bytes())?;
        }
    }
    broadcasts.finish()?;
    let took: Vec<_> = took.iter().collect();
    if rank.id() == 1 && took.len() != plan.count {
        return Err(onchip::Error::other(format!("{} of {} were handled", took.len(), plan.count)));
    }
    Ok(took)
}

/// The message is the moment it was sent; rank 1 gives the times until it had them.
#[inline(never)]
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
