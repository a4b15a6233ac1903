//! More ranks than cores: four pairs ping-pong at the same time on two.

use example_support::peers::Library;
use onchip::prelude::*;
use onchip_benches::clock::monotonic_ns;

use crate::meet::line_up;
use crate::ours::{self, Job, Ranks, Task};
use crate::plan::Pairs;
use crate::rivals::{Checked, crossbeam, mpi, std_sync};
use crate::row::{Bound, Row, Side, Unit};

const PLAN: Pairs = Pairs::FOUR;

fn ours(ranks: Ranks) -> Side {
    let task = Task::sharing(2 * PLAN.pairs, Job::Pairs(PLAN));
    ours::side(ranks, task, |results| {
        let spans: Vec<[u64; 2]> = results
            .iter()
            .filter_map(|span| <[f64; 2]>::try_from(span.as_slice()).ok())
            .map(|span| span.map(|ns| ns as u64))
            .collect();
        PLAN.one_way(&spans)
    })
}

pub fn rows() -> Vec<Row> {
    let row = |rival: &str, ours, reference| Row {
        name: format!("pairs.{rival}"),
        what: "4 ping-pong pairs, 8 ranks, on 2 cores, half a round trip of all at once",
        unit: Unit::Nanoseconds,
        ours,
        reference,
        bound: Bound::ahead(1.0),
        by_distance: false,
    };
    let mut rows = vec![
        row("std", ours(Ranks::Threads), std_sync::pairs(PLAN)),
        row("crossbeam", ours(Ranks::Threads), crossbeam::pairs(PLAN)),
    ];
    rows.extend(Library::ALL.map(|library| {
        row(library.key(), ours(Ranks::Processes), mpi::pairs(library, PLAN.pairs))
    }));
    rows
}

/// Ranks 2i and 2i + 1 are a pair; even ranks give their beginning and end.
#[inline(never)]
pub fn perform(rank: &Rank, plan: Pairs) -> onchip::Result<Vec<f64>> {
    let peer = rank.id() ^ 1;
    let mut out = rank.sender::<u64>("pair", peer, Channel::degree(Pairs::DEGREE))?;
    let back = rank.receiver::<u64>("pair", peer, Channel::degree(Pairs::DEGREE))?;
    line_up(rank)?;
    if rank.id() % 2 == 1 {
        for _ in 0..plan.trips {
            let message = *back.receive()?;
            out.send(&!message)?;
        }
        return Ok(Vec::new());
    }
    let mut checked = Checked::default();
    let begin = monotonic_ns();
    for sequence in 0..plan.trips {
        out.send(&sequence)?;
        checked.equal(*back.receive()?, !sequence);
    }
    let end = monotonic_ns();
    checked.finish().map_err(onchip::Error::other)?;
    Ok(vec![begin as f64, end as f64])
}
