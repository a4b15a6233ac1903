//! A copy behind a computation: how much of it is hidden, and what that costs the computation.

use std::time::Instant;

use onchip::prelude::*;
use onchip_benches::content::fill;
use onchip_benches::work::Work;

use super::kt::{is_marked, kt, mark};
use crate::ours::{self, Job, Ranks, Task};
use crate::plan::{Copier, Overlap};
use crate::rivals::{Checked, raw};
use crate::row::{Bound, Row, Setup, Side, Unit};
use crate::stats::median;

/// How much longer one round of computing and sending takes than computing alone.
fn exposed(copier: Copier, rewritten: bool) -> Side {
    let job = Job::Overlap(Overlap::megabyte(copier, rewritten));
    let name = match copier {
        Copier::Rank => "sent inline",
        Copier::Kt => "onchip",
    };
    ours::side(Ranks::Threads, Task::alone(job), |results| results[0][0]).named(name)
}

pub fn rows() -> Vec<Row> {
    let row = |name: &str, what, ours, reference, bound| Row {
        name: name.into(),
        what,
        unit: Unit::Nanoseconds,
        ours,
        reference,
        bound,
        by_distance: true,
    };
    let beside_kt = Task::alone(Job::Overlap(Overlap::megabyte(Copier::Kt, false)));
    vec![
        row(
            "delegate.overlap",
            "200 µs of computing, then 1 MB: what a KT leaves exposed of an inline send's time",
            exposed(Copier::Kt, false),
            exposed(Copier::Rank, false),
            Bound::at_most(0.15),
        ),
        row(
            "delegate.overlap.rewritten",
            "the same where the computation writes the message: its lines come back from the KT",
            exposed(Copier::Kt, true),
            exposed(Copier::Rank, true),
            Bound::Context,
        ),
        row(
            "delegate.overlap.slowdown",
            "200 µs of computing beside a KT at work, and beside a bare copy of as much",
            ours::side(Ranks::Threads, beside_kt, |results| results[0][1]),
            raw::beside_copies(Overlap::megabyte(Copier::Kt, false)),
            Bound::at_most(1.1),
        ),
    ]
}

/// Gives how much longer a round of computing and sending takes than one of computing alone, and
/// how long the computing in it takes: nanoseconds, medians.
#[inline(never)]
pub fn perform(rank: &Rank, setup: &Setup, plan: Overlap) -> onchip::Result<Vec<f64>> {
    let channel = Channel::degree(2).max_len(plan.words());
    let to = rank.sender::<[u64]>("large", rank.id(), channel)?;
    let threads = match plan.copier {
        Copier::Kt => kt(setup)?,
        Copier::Rank => CommThreads::start(0)?,
    };
    let mut sending = Sending {
        to: threads.delegate(to),
        from: rank.receiver::<[u64]>("large", rank.id(), channel)?,
        spare: vec![vec![0; plan.words()]; 2],
        under_way: None,
        number: 0,
        checked: Checked::default(),
        plan,
    };
    let mut work = Work::new();
    let lines = plan.lines(&mut work);
    let (mut exposed, mut computing) = (Vec::new(), Vec::new());
    for batch in 0..=plan.batches {
        let start = Instant::now();
        for _ in 0..plan.sends {
            work.run(lines);
            sending.write();
        }
        let alone = start.elapsed();
        // A copy is under way when the clock starts, and one when it stops.
        sending.send()?;
        let mut each = Vec::with_capacity(plan.sends);
        let start = Instant::now();
        for _ in 0..plan.sends {
            let begin = Instant::now();
            work.run(lines);
            each.push(begin.elapsed().as_nanos() as f64);
            sending.write();
            sending.send()?;
        }
        let together = start.elapsed();
        sending.accept()?;
        // The first batch warms up.
        if batch > 0 {
            let longer = together.as_nanos() as f64 - alone.as_nanos() as f64;
            exposed.push(longer / plan.sends as f64);
            computing.push(median(&each));
        }
    }
    sending.checked.finish().map_err(onchip::Error::other)?;
    Ok(vec![median(&exposed), median(&computing)])
}

/// A rank that sends to itself, one message at a time, with two to write in turn.
struct Sending {
    to: Delegated<[u64]>,
    from: Receiver<[u64]>,
    spare: Vec<Vec<u64>>,
    under_way: Option<threads::Request<Vec<u64>>>,
    number: u64,
    checked: Checked,
    plan: Overlap,
}

impl Sending {
    /// Writes the next message, if that is a part of the computation.
    fn write(&mut self) {
        if let (true, Some(message)) = (self.plan.rewritten, self.spare.last_mut()) {
            fill(message, self.number);
        }
    }

    /// Accepts the previous message, and sends the next one.
    fn send(&mut self) -> onchip::Result<()> {
        self.accept()?;
        // The buffer that was not used for the previous message.
        let mut message = self.spare.remove(0);
        self.number += 1;
        mark(&mut message, self.number);
        self.under_way = Some(self.to.send(message));
        Ok(())
    }

    /// Takes the message under way, which is all that a receiver has to do.
    fn accept(&mut self) -> onchip::Result<()> {
        if let Some(request) = self.under_way.take() {
            let right = is_marked(&self.from.receive()?, self.plan.words(), self.number);
            self.checked.holds(right);
            self.spare.push(request.wait()?);
        }
        Ok(())
    }
}
