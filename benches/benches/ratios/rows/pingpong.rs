//! 8 bytes to and fro: what one message costs.

use example_support::peers::Library;
use onchip::prelude::*;

use crate::ours::{self, Job, Task, Waits};
use crate::plan::PingPong;
use crate::probe;
use crate::rivals::iceoryx2::{self, Size};
use crate::rivals::{Checked, mpi, raw, rtrb};
use crate::row::{Bound, Row, Side, Unit};
use crate::stats::median;

const PLAN: PingPong = PingPong::USUAL;

/// What the rows of other kinds compare with as well.
pub fn ours(ranks: ours::Ranks) -> Side {
    ours::side(ranks, Task::pinned(Waits::Spin, Job::PingPong(PLAN)), |results| median(&results[0]))
}

/// The raw cache line, in the same number of trips.
pub fn floor() -> Side {
    Side::new(
        "floor",
        "spin",
        |setup| Ok(probe::floor(setup.cpus, PLAN.batches, PLAN.trips).into()),
    )
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
    let mut rows = vec![
        row(
            "pingpong.threads.floor".into(),
            "8 bytes on a typed channel between threads, beside the raw cache line",
            ours(ours::Ranks::Threads),
            floor(),
            Bound::at_most(1.08),
        ),
        row(
            "pingpong.rtrb.floor".into(),
            "for comparison: rtrb beside the raw cache line",
            rtrb::pingpong(PLAN),
            floor(),
            Bound::Context,
        ),
        row(
            "pingpong.fenced.two-lines".into(),
            "for comparison: raw words, with a fence after each look, beside those without",
            raw::pingpong(PLAN, 2),
            floor(),
            Bound::Context,
        ),
        row(
            "pingpong.fenced.one-line".into(),
            "the same where both directions have one line",
            raw::pingpong(PLAN, 1),
            floor(),
            Bound::Context,
        ),
        row(
            "pingpong.processes.threads".into(),
            "8 bytes between processes, beside the same between threads",
            ours(ours::Ranks::Processes),
            ours(ours::Ranks::Threads),
            Bound::at_most(1.03),
        ),
        row(
            "pingpong.iceoryx2".into(),
            "8 bytes between processes, beside iceoryx2 publish-subscribe",
            ours(ours::Ranks::Processes),
            iceoryx2::pingpong(PLAN, Size::Bytes8),
            Bound::Ahead { near: 3.5, far: 2.5 },
        ),
    ];
    rows.extend(Library::ALL.map(|library| {
        let bound = match library {
            Library::OpenMpi | Library::DebianOpenMpi => Bound::Ahead { near: 1.5, far: 1.2 },
            Library::Mpich | Library::IntelMpi | Library::DebianMpich => Bound::Context,
        };
        row(
            format!("pingpong.{}", library.key()),
            "8 bytes between processes, beside an MPI",
            ours(ours::Ranks::Processes),
            mpi::pingpong(library, PLAN),
            bound,
        )
    }));
    rows
}

/// One rank's part; rank 0 gives its times.
#[inline(never)]
pub fn perform(rank: &Rank, plan: PingPong) -> onchip::Result<Vec<f64>> {
    let peer = 1 - rank.id();
    let mut out = rank.sender::<u64>("pingpong", peer, Channel::degree(PingPong::DEGREE))?;
    let back = rank.receiver::<u64>("pingpong", peer, Channel::degree(PingPong::DEGREE))?;
    if rank.id() == 1 {
        for _ in 0..plan.all_trips() {
            let message = *back.receive()?;
            out.send(&!message)?;
        }
        return Ok(Vec::new());
    }
    let mut checked = Checked::default();
    let mut sequence = 0;
    let took = plan.timed(|| -> onchip::Result<()> {
        sequence += 1;
        out.send(&sequence)?;
        checked.equal(*back.receive()?, !sequence);
        Ok(())
    })?;
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}
