//! An emitter that a communication thread helps to send.

use std::collections::VecDeque;

use onchip::prelude::*;

use super::kt::{is_marked, kt, mark};
use crate::ours::{self, Job, Ranks, Task};
use crate::plan::{Emitting, timed};
use crate::rivals::{Checked, raw};
use crate::row::{Bound, Row, Sample, Setup, Side, Unit};
use crate::stats::median;

/// How much a second copier has to bring, where the memory can take it.
const GAIN: f64 = 1.5;
/// The part of what the memory takes that is enough otherwise.
const OF_BOTH_CORES: f64 = 0.9;

fn emitter(helped: bool) -> Side {
    let task = Task::alone(Job::Emit(Emitting::megabyte(helped)));
    ours::side(Ranks::Threads, task, |results| median(&results[0]))
}

/// The emitter alone times what a helper should bring, or a part of what bare copies on both cores
/// reach, whichever is less.
fn aim() -> Side {
    let mut alone = emitter(false);
    Side::new("aim", "spin", move |setup| {
        let alone = alone.take(setup)?.value;
        let copies = raw::copies_on_both(setup, Emitting::megabyte(true));
        let remark = format!(
            "the lesser of {GAIN} × alone ({:.1} k/s) and {OF_BOTH_CORES} × copies on both cores \
             ({:.1} k/s)",
            alone / 1e3,
            copies / 1e3
        );
        let value = (GAIN * alone).min(OF_BOTH_CORES * copies);
        Ok(Sample { value, probes: None, remark: Some(remark) })
    })
}

pub fn rows() -> Vec<Row> {
    vec![Row {
        name: "delegate.emitter".into(),
        what: "1 MB messages, own sends and one KT's, beside 1.5 × alone or 0.9 × copies on 2 cores",
        unit: Unit::Rate,
        ours: emitter(true),
        reference: aim(),
        bound: Bound::ahead(1.0),
        by_distance: true,
    }]
}

/// Messages a second. They are accepted by the rank that sends them.
#[inline(never)]
pub fn perform(rank: &Rank, setup: &Setup, plan: Emitting) -> onchip::Result<Vec<f64>> {
    let channel = Channel::degree(Emitting::DEGREE as u32).max_len(plan.words());
    let mut own = rank.sender::<[u64]>("own", rank.id(), channel)?;
    let from_own = rank.receiver::<[u64]>("own", rank.id(), channel)?;
    let mut helper =
        if plan.helped { Some(Helper::start(rank, setup, plan, channel)?) } else { None };
    let mut messages = vec![vec![0; plan.words()]; Emitting::DEGREE];
    let mut checked = Checked::default();
    let (mut sent, mut enough) = (0, 0);
    let took = timed(plan.batches, 1, || -> onchip::Result<()> {
        // What was too many in a batch is missing in the next.
        enough += plan.messages;
        while sent < enough {
            if let Some(helper) = &mut helper {
                sent += helper.look()?;
            }
            sent += 1;
            let message = &mut messages[sent as usize % Emitting::DEGREE];
            mark(message, sent);
            own.send(message)?;
            checked.holds(is_marked(&from_own.receive()?, plan.words(), sent));
        }
        Ok(())
    })?;
    if let Some(helper) = helper {
        helper.finish()?;
    }
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took.into_iter().map(|ns| plan.messages as f64 * 1e9 / ns).collect())
}

/// A KT with messages to send, in a channel of its own.
struct Helper {
    to: Delegated<[u64]>,
    from: Receiver<[u64]>,
    under_way: VecDeque<threads::Request<Vec<u64>>>,
    /// Messages that have arrived.
    arrived: u64,
    checked: Checked,
    words: usize,
}

impl Helper {
    fn start(
        rank: &Rank,
        setup: &Setup,
        plan: Emitting,
        channel: Channel,
    ) -> onchip::Result<Helper> {
        let mut helper = Helper {
            to: kt(setup)?.delegate(rank.sender::<[u64]>("helper", rank.id(), channel)?),
            from: rank.receiver::<[u64]>("helper", rank.id(), channel)?,
            under_way: VecDeque::new(),
            arrived: 0,
            checked: Checked::default(),
            words: plan.words(),
        };
        for _ in 0..Emitting::DEGREE {
            helper.send(vec![0; plan.words()]);
        }
        Ok(helper)
    }

    fn send(&mut self, mut message: Vec<u64>) {
        mark(&mut message, self.arrived + self.under_way.len() as u64);
        self.under_way.push_back(self.to.send(message));
    }

    fn accept(&mut self, request: threads::Request<Vec<u64>>) -> onchip::Result<Vec<u64>> {
        let message = request.wait()?;
        self.checked.holds(is_marked(&self.from.receive()?, self.words, self.arrived));
        self.arrived += 1;
        Ok(message)
    }

    /// Accepts what was sent and gives the KT as much to send; how many that were.
    fn look(&mut self) -> onchip::Result<u64> {
        let before = self.arrived;
        while self.under_way.front().is_some_and(threads::Request::is_done) {
            let Some(request) = self.under_way.pop_front() else { break };
            let message = self.accept(request)?;
            self.send(message);
        }
        Ok(self.arrived - before)
    }

    fn finish(mut self) -> onchip::Result<()> {
        while let Some(request) = self.under_way.pop_front() {
            self.accept(request)?;
        }
        self.checked.finish().map_err(onchip::Error::other)
    }
}
