//! Starting a world of processes that do nothing, and ending it.

use std::time::Instant;

use example_support::peers::Library;

use crate::ours::{Job, Ranks, Task};
use crate::rivals::{failed, mpi};
use crate::row::{Bound, Row, Side, Unit};

const RANKS: usize = 8;

fn ours() -> Side {
    let task = Task::sharing(RANKS, Job::Nothing);
    Side::new("onchip", "-", move |setup| {
        let start = Instant::now();
        task.run(Ranks::Processes, setup).map_err(failed)?;
        Ok((start.elapsed().as_nanos() as f64).into())
    })
}

pub fn rows() -> Vec<Row> {
    Library::ALL
        .map(|library| Row {
            name: format!("start.{}", library.key()),
            what: "starting and ending 8 ranks that do nothing, beside mpiexec of a program like it",
            unit: Unit::Nanoseconds,
            ours: ours(),
            reference: mpi::start(library, RANKS),
            bound: Bound::at_most(0.5),
            by_distance: false,
        })
        .into()
}
