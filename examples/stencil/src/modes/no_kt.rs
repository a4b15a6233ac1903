//! `no-kt`: workers send their borders by themselves.
//!
//! Borders go first, then the inner rows are computed, then the neighbours' borders are read in the
//! very slots of the channels that they were written to.

use example_support::Result;

use super::lanes::{Neighbours, borders, with_received};
use super::{Block, Job, Ranks, Run, world};
use crate::kernel;

/// Computes in a world of threads or processes.
pub(super) fn run(job: &Job, ranks: Ranks) -> Result<Run> {
    world::run(job, ranks, &[], &job.recording(), |seat, rows| {
        let size = job.init.size();
        let zeros = vec![0.0; size];
        let mut neighbours = Neighbours::open(seat, |sender, _| sender)?;
        let mut block = Block::new(rows);
        let change = kernel::largest_change;
        let (steps, seconds) = seat.steps(&mut block, change, |Block { now, next }| {
            let [first, last] = borders(now, size);
            if let Some(north) = &mut neighbours.north {
                seat.send(north.rank, size, || north.to.send(first))?;
            }
            if let Some(south) = &mut neighbours.south {
                seat.send(south.rank, size, || south.to.send(last))?;
            }
            seat.recorder.compute(1.0, || kernel::inner_rows(now, next, size));
            with_received(seat, &neighbours, &zeros, |north, south| {
                kernel::border_rows(now, next, size, north, south);
            })
        })?;
        Ok((steps, seconds, block.now.into_vec()))
    })
}
