//! Messages one after the other at a high degree: how many in a second.

use onchip::prelude::*;

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::{Stream, is_numbered, numbered};
use crate::rivals::{Checked, channels, lines, rtrb};
use crate::row::{Bound, Row, Side, Unit};
use crate::stats::median;

const PLAN: Stream = Stream::USUAL;

fn ours(ranks: Ranks, job: Job) -> Side {
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[1]))
}

pub fn rows() -> Vec<Row> {
    let row = |name: String, what, ours, reference, bound| Row {
        name,
        what,
        unit: Unit::Rate,
        ours,
        reference,
        bound,
        by_distance: true,
    };
    let mut rows: Vec<Row> = [Ranks::Threads, Ranks::Processes]
        .into_iter()
        .flat_map(|ranks| {
            [
                row(
                    format!("stream.8B.{}", ranks.name()),
                    "messages of 8 bytes, degree 1024, beside rtrb with as many places",
                    ours(ranks, Job::Stream8(PLAN)),
                    rtrb::stream::<1>(PLAN),
                    Bound::ahead(1.0),
                ),
                row(
                    format!("stream.56B.{}.raw", ranks.name()),
                    "messages of 56 bytes, degree 1024, beside as many lines with nothing around them",
                    ours(ranks, Job::Stream56(PLAN)),
                    lines::stream(PLAN),
                    Bound::Context,
                ),
                row(
                    format!("stream.56B.{}", ranks.name()),
                    "messages of 56 bytes, degree 1024, beside rtrb at 64 bytes",
                    ours(ranks, Job::Stream56(PLAN)),
                    rtrb::stream::<8>(PLAN),
                    Bound::ahead(1.2),
                ),
            ]
        })
        .collect();
    rows.extend(channels::Library::ALL.map(|library| {
        row(
            format!("stream.8B.threads.{}", library.key()),
            "messages of 8 bytes, degree 1024, beside a channel that programs use today, with as many places",
            ours(Ranks::Threads, Job::Stream8(PLAN)),
            library.stream(PLAN),
            Bound::ahead(1.0),
        )
    }));
    rows
}

/// The stream of 8 bytes.
pub fn task() -> Task {
    Task::pinned(Waits::Spin, Job::Stream8(PLAN))
}

/// The same between threads, and rtrb's.
pub fn of_threads() -> [Side; 2] {
    [ours(Ranks::Threads, Job::Stream8(PLAN)), rtrb::stream::<1>(PLAN)]
}

/// One rank's part; rank 1, where messages arrive, gives its rates.
#[inline(never)]
pub fn perform<const WORDS: usize>(rank: &Rank, plan: Stream) -> onchip::Result<Vec<f64>> {
    let channel = Channel::degree(plan.degree);
    if rank.id() == 0 {
        let mut out = rank.sender::<[u64; WORDS]>("stream", 1, channel)?;
        for number in 0..plan.all_messages() {
            out.send(&numbered(number))?;
        }
        return Ok(Vec::new());
    }
    let messages = rank.receiver::<[u64; WORDS]>("stream", 0, channel)?;
    let mut checked = Checked::default();
    let mut number = 0;
    let rates = plan.timed(|| -> onchip::Result<()> {
        checked.holds(is_numbered(&*messages.receive()?, number));
        number += 1;
        Ok(())
    })?;
    checked.finish().map_err(onchip::Error::other)?;
    Ok(rates)
}
