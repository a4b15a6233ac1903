//! The price of a delegation: the caller's time, and that of a small message end to end.
//!
//! Requests are waited for between the bursts, outside the clock: what a program that computes
//! meanwhile sees.

use std::borrow::Borrow;
use std::time::{Duration, Instant};

use onchip::Message;
use onchip::prelude::*;

use super::kt::kt;
use crate::ours::{self, Job, Ranks, Task};
use crate::plan::Delegations;
use crate::rivals::Checked;
use crate::row::{Bound, Row, Setup, Side, Unit};
use crate::rows::pingpong;
use crate::stats::median;

const SIZES: [(&str, usize); 3] = [("8B", 8), ("4KiB", 4 << 10), ("1MiB", 1 << 20)];

fn ours(job: Job) -> Side {
    ours::side(Ranks::Threads, Task::alone(job), |results| median(&results[0]))
}

/// The caller's time for 8 bytes.
pub fn of_8_bytes() -> Side {
    ours(Job::Delegate(Delegations::of(8)))
}

/// From the call until 8 bytes are there.
pub fn until_there() -> Side {
    ours(Job::Delegated(Delegations::of(8)))
}

pub fn rows() -> Vec<Row> {
    let row = |name: String, what, ours, bound| Row {
        name,
        what,
        unit: Unit::Nanoseconds,
        ours,
        reference: pingpong::floor(),
        bound,
        by_distance: true,
    };
    let mut rows: Vec<Row> = SIZES
        .map(|(size, bytes)| {
            row(
                format!("delegate.cost.{size}"),
                "delegating a send, the caller's time, beside the raw cache line",
                ours(Job::Delegate(Delegations::of(bytes))),
                Bound::AtMost { near: 1.5, far: 1.2 },
            )
        })
        .into();
    let plan = Delegations::of(8);
    rows.push(row(
        "delegate.8B".into(),
        "8 bytes to itself through a KT on the other core, beside the raw cache line",
        ours(Job::Delegated(plan)),
        Bound::at_most(2.3),
    ));
    rows.push(row(
        "delegate.8B.waited".into(),
        "the same, and the request waited for before the next one",
        ours(Job::Delegated(Delegations { waited: true, ..plan })),
        Bound::Context,
    ));
    rows
}

/// Nanoseconds that a call of [`Delegated::send`] takes.
#[inline(never)]
pub fn calls(rank: &Rank, setup: &Setup, plan: Delegations) -> onchip::Result<Vec<f64>> {
    let channel = Channel::degree(Delegations::BURST as u32);
    if plan.bytes == 8 {
        let ends = Ends::<u64>::open(rank, setup, channel)?;
        return ends.calls(plan, vec![0; Delegations::BURST], |value| value);
    }
    let ends = Ends::<[u64]>::open(rank, setup, channel.max_len(plan.words()))?;
    let messages = vec![vec![0; plan.words()]; Delegations::BURST];
    // The first word is enough: that the rest arrives is what the tests are for.
    ends.calls(plan, messages, |message: &mut Vec<u64>| &mut message[0])
}

/// Nanoseconds from the call until the message is there.
#[inline(never)]
pub fn messages(rank: &Rank, setup: &Setup, plan: Delegations) -> onchip::Result<Vec<f64>> {
    let channel = Channel::degree(Delegations::BURST as u32);
    Ends::<u64>::open(rank, setup, channel)?.messages(plan)
}

/// Both ends of a channel of one rank to itself, the sending one served by a KT.
struct Ends<M: Message + ?Sized> {
    to: Delegated<M>,
    from: Receiver<M>,
}

/// What a message begins with.
trait Numbered {
    fn number(&self) -> u64;
}

impl Numbered for u64 {
    fn number(&self) -> u64 {
        *self
    }
}

impl Numbered for [u64] {
    fn number(&self) -> u64 {
        self[0]
    }
}

impl<M: Message + Numbered + ?Sized> Ends<M> {
    fn open(rank: &Rank, setup: &Setup, channel: Channel) -> onchip::Result<Ends<M>> {
        let to = kt(setup)?.delegate(rank.sender::<M>("delegated", rank.id(), channel)?);
        let from = rank.receiver::<M>("delegated", rank.id(), channel)?;
        Ok(Ends { to, from })
    }

    fn calls<B: Borrow<M> + Send + 'static>(
        mut self,
        plan: Delegations,
        mut messages: Vec<B>,
        first_word: impl Fn(&mut B) -> &mut u64,
    ) -> onchip::Result<Vec<f64>> {
        let mut checked = Checked::default();
        let mut requests = Vec::with_capacity(messages.len());
        let mut numbers = 0..;
        let took = in_bursts(plan, || {
            let first = numbers.start;
            for (message, number) in messages.iter_mut().zip(&mut numbers) {
                *first_word(message) = number;
            }
            let start = Instant::now();
            for message in messages.drain(..) {
                requests.push(self.to.send(message));
            }
            let took = start.elapsed();
            for number in (first..).take(requests.len()) {
                checked.equal(self.from.receive()?.number(), number);
            }
            for request in requests.drain(..) {
                messages.push(request.wait()?);
            }
            Ok(took)
        })?;
        checked.finish().map_err(onchip::Error::other)?;
        Ok(took)
    }
}

impl Ends<u64> {
    fn messages(mut self, plan: Delegations) -> onchip::Result<Vec<f64>> {
        let mut checked = Checked::default();
        let mut requests = Vec::with_capacity(Delegations::BURST);
        let mut number = 0;
        let took = in_bursts(plan, || {
            let start = Instant::now();
            for _ in 0..Delegations::BURST {
                number += 1;
                let request = self.to.send(number);
                checked.equal(*self.from.receive()?, number);
                if plan.waited {
                    request.wait()?;
                } else {
                    requests.push(request);
                }
            }
            let took = start.elapsed();
            for request in requests.drain(..) {
                request.wait()?;
            }
            Ok(took)
        })?;
        checked.finish().map_err(onchip::Error::other)?;
        Ok(took)
    }
}

/// Nanoseconds a send, one figure a batch, where `burst` tells how long it took. A batch before
/// them warms up.
fn in_bursts(
    plan: Delegations,
    mut burst: impl FnMut() -> onchip::Result<Duration>,
) -> onchip::Result<Vec<f64>> {
    let sends = plan.bursts * Delegations::BURST;
    let mut took = Vec::with_capacity(plan.batches + 1);
    for _ in 0..=plan.batches {
        let batch = (0..plan.bursts).map(|_| burst()).sum::<onchip::Result<Duration>>()?;
        took.push(batch.as_nanos() as f64 / sends as f64);
    }
    took.remove(0);
    Ok(took)
}
