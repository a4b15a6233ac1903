//! Communication threads with nothing to do: nobody should notice.

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::plan::{Large, PingPong, Stream};
use crate::row::{Bound, Row, Side, Unit};
use crate::rows::idle;
use crate::stats::median;

/// What is allowed to differ.
const SAME: f64 = 1.02;

pub fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = [Ranks::Threads, Ranks::Processes]
        .map(|ranks| Row {
            name: format!("delegate.idle.{}", ranks.name()),
            what: "processor time of 8 ranks that all wait, with 2 idle KTs each, percent of one core",
            unit: Unit::CorePercent,
            ours: ours::side(ranks, idle::task().beside_idle_kts(), |results| results[0][0]),
            reference: Side::stated(idle::LIMIT),
            bound: Bound::at_most(1.0),
            by_distance: false,
        })
        .into();
    for ranks in [Ranks::Threads, Ranks::Processes] {
        for (name, job, unit, figure) in foundation() {
            let task = Task::pinned(Waits::Spin, job);
            let without = ours::side(ranks, task, figure);
            rows.push(Row {
                name: format!("delegate.foundation.{name}.{}", ranks.name()),
                what: "a row of the foundation with 2 idle KTs for each rank, and without any",
                unit,
                ours: ours::side(ranks, task.beside_idle_kts(), figure),
                reference: without.named("without KTs"),
                bound: Bound::at_most(SAME),
                by_distance: true,
            });
        }
    }
    rows
}

type Figure = fn(&[Vec<f64>]) -> f64;

/// Latency, rate and bandwidth.
fn foundation() -> [(&'static str, Job, Unit, Figure); 4] {
    let first: Figure = |results| median(&results[0]);
    let second: Figure = |results| median(&results[1]);
    [
        ("pingpong", Job::PingPong(PingPong::USUAL), Unit::Nanoseconds, first),
        ("stream.8B", Job::Stream8(Stream::USUAL), Unit::Rate, second),
        ("stream.56B", Job::Stream56(Stream::USUAL), Unit::Rate, second),
        ("large", Job::LargeSent(Large::MEGABYTE), Unit::Nanoseconds, first),
    ]
}
