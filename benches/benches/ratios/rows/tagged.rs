//! Messages with a tag, by communicators.

use std::rc::Rc;

use onchip::prelude::*;
use onchip_benches::content::{fill, is_filled, is_stamped, stamp};

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::party::{BOTH, Turns};
use crate::plan::{Tagged, timed};
use crate::rivals::contest::Contest;
use crate::rivals::{Checked, mpi, staged};
use crate::row::{Bound, Row, Side, Unit};
use crate::rows::pingpong;
use crate::stats::median;

const KB: usize = 1 << 10;

fn side(ranks: Ranks, job: Job) -> Side {
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[0]))
}

/// 8 bytes to and fro between threads.
pub fn numbers_of_threads() -> Side {
    side(Ranks::Threads, Job::Tagged(Tagged::pingpong(8)))
}

pub fn rows() -> Vec<Row> {
    let row = |name: String, what, ours, reference, bound| Row {
        name,
        what,
        unit: Unit::Nanoseconds,
        ours,
        reference,
        bound,
        by_distance: true,
    };
    let mut rows = Vec::new();
    rows.extend(BOTH.map(|ranks| {
        row(
            format!("tagged.floor.{}", ranks.name()),
            "8 bytes with a tag, half a round trip, beside the raw cache line",
            side(ranks, Job::Tagged(Tagged::pingpong(8))),
            pingpong::floor(),
            Bound::AtMost { near: 1.2, far: 1.1 },
        )
    }));
    for (size, bytes, bound) in [
        ("8B", 8, Bound::Ahead { near: 1.4, far: 1.15 }),
        ("8KB", 8 * KB, Bound::ahead(1.0)),
        ("64KB", 64 * KB, Bound::ahead(1.0)),
        ("1MB", 1024 * KB, Bound::ahead(1.0)),
    ] {
        let plan = Tagged::pingpong(bytes);
        let contest = Rc::new(mpi::tagged(plan));
        rows.extend(BOTH.map(|ranks| {
            row(
                format!("tagged.{size}.{}", ranks.name()),
                "a message with a tag, half a round trip, beside the best of the MPIs",
                side(ranks, Job::Tagged(plan)),
                Contest::side(&contest, 0),
                bound,
            )
        }));
    }
    for (size, bytes) in [("8KB", 8 * KB), ("64KB", 64 * KB), ("1MB", 1024 * KB)] {
        let plan = Tagged::pingpong(bytes);
        rows.push(row(
            format!("tagged.raw.{size}.processes"),
            "a message with a tag, half a round trip, beside bare copies in and out",
            side(Ranks::Processes, Job::Tagged(plan)),
            staged::bounced(plan),
            Bound::ahead(0.9),
        ));
    }
    let contest = Rc::new(mpi::tagged_rate(Tagged::RATE));
    rows.extend(BOTH.map(|ranks| {
        row(
            format!("tagged.rate.{}", ranks.name()),
            "8 bytes with a tag, one way, 64 before each answer, time of one, beside the best of the MPIs",
            side(ranks, Job::TaggedRate(Tagged::RATE)),
            Contest::side(&contest, 0),
            Bound::ahead(2.0),
        )
    }));
    rows
}

/// One rank's part; rank 0 gives its times.
#[inline(never)]
pub fn pingpong(rank: &Rank, plan: Tagged) -> onchip::Result<Vec<f64>> {
    // To change buffers and to look through them would take a tenth of what 8 bytes take.
    if plan.bytes == size_of::<u64>() { numbers(rank, plan) } else { stamped(rank, plan) }
}

fn numbers(rank: &Rank, plan: Tagged) -> onchip::Result<Vec<f64>> {
    let world = Communicator::world(rank);
    let peer = 1 - rank.id();
    let mut message = [0u64];
    if rank.id() == 1 {
        for _ in 0..plan.all_trips() {
            world.receive_into(&mut message, peer, Tagged::TAG)?;
            world.send(&[!message[0]], peer, Tagged::TAG)?;
        }
        return Ok(Vec::new());
    }
    let mut checked = Checked::default();
    let mut number = 0u64;
    let took = timed(plan.batches, plan.trips, || -> onchip::Result<()> {
        number += 1;
        world.send(&[number], peer, Tagged::TAG)?;
        world.receive_into(&mut message, peer, Tagged::TAG)?;
        checked.equal(message[0], !number);
        Ok(())
    })?;
    checked.finish().map_err(onchip::Error::other)?;
    Ok(one_way(took))
}

fn one_way(took: Vec<f64>) -> Vec<f64> {
    took.into_iter().map(|ns| ns / 2.0).collect()
}

/// Both stamp what they send, and look at what they get.
fn stamped(rank: &Rank, plan: Tagged) -> onchip::Result<Vec<f64>> {
    let world = Communicator::world(rank);
    let (me, peer) = (rank.id(), 1 - rank.id());
    let mut checked = Checked::default();
    let [mut out, mut back] = [0; 2].map(|_| Turns::<u64>::new(plan.words()));
    let mut send = |whole: bool| {
        let (message, number) = out.next();
        let number = if me == 0 { number } else { !number };
        if whole {
            fill(message, number)
        } else {
            stamp(message, number)
        }
        world.send(message, peer, Tagged::TAG)
    };
    let mut receive = |whole: bool| -> onchip::Result<()> {
        let (message, number) = back.next();
        let number = if me == 0 { !number } else { number };
        let status = world.receive_into(message, peer, Tagged::TAG)?;
        let right = if whole { is_filled(message, number) } else { is_stamped(message, number) };
        checked.holds(right & (status.count == plan.words()));
        Ok(())
    };
    let mut took = Vec::new();
    if me == 0 {
        took = timed(plan.batches, plan.trips, || -> onchip::Result<()> {
            send(false)?;
            receive(false)
        })?;
        send(true)?;
        receive(true)?;
    } else {
        for _ in 0..plan.all_trips() {
            receive(false)?;
            send(false)?;
        }
        receive(true)?;
        send(true)?;
    }
    checked.finish().map_err(onchip::Error::other)?;
    Ok(one_way(took))
}

/// One rank's part; rank 0, which sends, gives what a message took.
#[inline(never)]
pub fn rate(rank: &Rank, plan: Tagged) -> onchip::Result<Vec<f64>> {
    let world = Communicator::world(rank);
    let peer = 1 - rank.id();
    let mut checked = Checked::default();
    let mut number = 0u64;
    let mut took = Vec::new();
    if rank.id() == 0 {
        took = timed(plan.batches, plan.trips, || -> onchip::Result<()> {
            for _ in 0..plan.window {
                number += 1;
                world.send(&[number], peer, Tagged::TAG)?;
            }
            let mut answer = [0u64];
            world.receive_into(&mut answer, peer, Tagged::TAG)?;
            checked.equal(answer[0], !number);
            Ok(())
        })?;
    } else {
        for _ in 0..plan.all_trips() {
            for _ in 0..plan.window {
                number += 1;
                let mut message = [0u64];
                world.receive_into(&mut message, peer, Tagged::TAG)?;
                checked.equal(message[0], number);
            }
            world.send(&[!number], peer, Tagged::TAG)?;
        }
    }
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took.into_iter().map(|ns| ns / plan.window as f64).collect())
}
