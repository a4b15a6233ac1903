//! A buffer that moves with its contents untouched costs what a small message costs, however
//! large it is.

use onchip::prelude::*;
use onchip_benches::content::{fill, is_filled};

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::{PingPong, Untouched};
use crate::rivals::Checked;
use crate::rivals::iceoryx2::{self, Size};
use crate::row::{Bound, Row, Side, Unit};
use crate::rows::pingpong;
use crate::stats::median;

const SIZES: [(&str, usize); 4] =
    [("8B", 8), ("4KiB", 4 << 10), ("1MiB", 1 << 20), ("64MiB", 64 << 20)];

pub fn ours(ranks: Ranks, bytes: usize) -> Side {
    let plan = Untouched { bytes, pingpong: PingPong::USUAL };
    ours::side(ranks, Task::pinned(Waits::Spin, Job::Untouched(plan)), |results| {
        median(&results[0])
    })
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
        rows.extend(SIZES.map(|(size, bytes)| {
            row(
                format!("buffer.{size}.{}", ranks.name()),
                "`send_buffer`, contents untouched, beside an 8-byte message",
                ours(ranks, bytes),
                pingpong::ours(ranks),
                Bound::at_most(1.4),
            )
        }));
    }
    rows.extend([("4KiB", 4 << 10, Size::KiB4), ("1MiB", 1 << 20, Size::MiB1)].map(
        |(name, bytes, size)| {
            row(
                format!("buffer.{name}.iceoryx2"),
                "`send_buffer` between processes, contents untouched, beside iceoryx2 zero-copy",
                ours(Ranks::Processes, bytes),
                iceoryx2::pingpong(PingPong::USUAL, size),
                Bound::ahead(2.5),
            )
        },
    ));
    rows
}

const SEED: u64 = 12345;

/// One buffer goes to and fro; it is read when all is over.
#[inline(never)]
pub fn perform(rank: &Rank, plan: Untouched) -> onchip::Result<Vec<f64>> {
    let peer = 1 - rank.id();
    let words = plan.bytes / 8;
    let channel = Channel::degree(PingPong::DEGREE);
    let mut out = rank.sender::<[u64]>("buffer", peer, channel)?;
    let back = rank.receiver::<[u64]>("buffer", peer, channel)?;
    if rank.id() == 1 {
        for _ in 0..plan.pingpong.all_trips() {
            let buffer = back.receive_buffer()?;
            out.send_buffer(buffer)?;
        }
        return Ok(Vec::new());
    }
    let mut checked = Checked::default();
    let mut buffer = rank.buffer_zeroed::<u64>(words)?;
    fill(&mut buffer, SEED);
    let mut held = Some(buffer);
    let took = plan.pingpong.timed(|| -> onchip::Result<()> {
        if let Some(buffer) = held.take() {
            out.send_buffer(buffer)?;
        }
        held = Some(back.receive_buffer()?);
        Ok(())
    })?;
    checked.holds(held.is_some_and(|buffer| buffer.len() == words && is_filled(&buffer, SEED)));
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}
