//! A megabyte, all of it rewritten by the sender and read by the receiver every time.

use example_support::peers::Library;
use onchip::prelude::*;
use onchip_benches::content::{fill, is_filled};

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::Large;
use crate::rivals::{Checked, mpi, raw};
use crate::row::{Bound, Row, Side, Unit};
use crate::stats::median;

const PLAN: Large = Large::MEGABYTE;

fn ours(ranks: Ranks, job: Job) -> Side {
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[0]))
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
    for ranks in [Ranks::Threads, Ranks::Processes] {
        rows.push(row(
            format!("large.send.{}", ranks.name()),
            "1 MB with `send`, beside a raw write, one copy and a read",
            ours(ranks, Job::LargeSent(PLAN)),
            raw::one_copy(PLAN),
            Bound::at_most(1.1),
        ));
        rows.push(row(
            format!("large.moved.{}", ranks.name()),
            "1 MB with `send_buffer`, beside one raw buffer handed to and fro without a copy",
            ours(ranks, Job::LargeMoved(PLAN)),
            raw::without_copy(PLAN),
            Bound::at_most(1.05),
        ));
    }
    rows.extend(Library::ALL.map(|library| {
        row(
            format!("large.send.{}", library.key()),
            "1 MB with `send` between processes, beside an MPI",
            ours(Ranks::Processes, Job::LargeSent(PLAN)),
            mpi::large(library, PLAN),
            Bound::ahead(1.3),
        )
    }));
    rows
}

/// Each rank writes memory of its own and sends it; the other reads it in place.
#[inline(never)]
pub fn sent(rank: &Rank, plan: Large) -> onchip::Result<Vec<f64>> {
    let peer = 1 - rank.id();
    let channel = Channel::degree(1).max_len(plan.words());
    let mut out = rank.sender::<[u64]>("large", peer, channel)?;
    let back = rank.receiver::<[u64]>("large", peer, channel)?;
    let mut own = vec![0; plan.words()];
    let mut checked = Checked::default();
    let mut took = Vec::new();
    if rank.id() == 0 {
        let mut seed = 0;
        took = plan.timed(|| -> onchip::Result<()> {
            fill(&mut own, seed);
            out.send(&own)?;
            checked.holds(is_filled(&back.receive()?, !seed));
            seed += 1;
            Ok(())
        })?;
    } else {
        for seed in 0..plan.all_trips() {
            checked.holds(is_filled(&back.receive()?, seed));
            fill(&mut own, !seed);
            out.send(&own)?;
        }
    }
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}

/// One buffer goes to and fro: read where it is, and rewritten there.
#[inline(never)]
pub fn moved(rank: &Rank, plan: Large) -> onchip::Result<Vec<f64>> {
    let peer = 1 - rank.id();
    let mut out = rank.sender::<[u64]>("large", peer, Channel::degree(1))?;
    let back = rank.receiver::<[u64]>("large", peer, Channel::degree(1))?;
    let mut checked = Checked::default();
    let mut took = Vec::new();
    if rank.id() == 0 {
        let mut seed = 0;
        let mut held = Some(rank.buffer_zeroed::<u64>(plan.words())?);
        took = plan.timed(|| -> onchip::Result<()> {
            if let Some(mut buffer) = held.take() {
                fill(&mut buffer, seed);
                out.send_buffer(buffer)?;
            }
            let buffer = back.receive_buffer()?;
            checked.holds(is_filled(&buffer, !seed));
            held = Some(buffer);
            seed += 1;
            Ok(())
        })?;
    } else {
        for seed in 0..plan.all_trips() {
            let mut buffer = back.receive_buffer()?;
            checked.holds(is_filled(&buffer, seed));
            fill(&mut buffer, !seed);
            out.send_buffer(buffer)?;
        }
    }
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}
