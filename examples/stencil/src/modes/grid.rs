//! `grid`: rows and columns are divided, and the blocks exchange borders as halos of a Cartesian
//! communicator.

use example_support::{Error, Result};
use onchip::Communicator;

use super::world::Seat;
use super::{Block, Job, Ranks, Run, world};
use crate::kernel;

/// Computes in a world of threads or processes.
pub(super) fn run(job: &Job, ranks: Ranks) -> Result<Run> {
    let ([rows, columns], size) = (job.grid, job.init.size());
    if rows > size || columns > size {
        let reason = format!("a grid of {rows}x{columns} blocks for {size} by {size} elements");
        return Err(Error::new(reason));
    }
    world::run(job, ranks, &[], &job.recording(), |seat, block| work(seat, &block))
}

fn work(seat: &Seat, own: &[f64]) -> onchip::Result<(usize, f64, Vec<f64>)> {
    let grid = Communicator::world(seat.rank).cartesian(&seat.job.grid, &[false, false])?;
    let Some(grid) = grid else {
        return Err(onchip::Error::other("the grid has no place for this rank"));
    };
    let [rows, columns] = seat.job.place(seat.rank.id()).map(|range| range.len());
    let mut halo = grid.halo::<f64>(&[rows, columns], &[], 1)?;
    // The width includes the halo, which stays 0 where the matrix ends.
    let width = columns + 2;
    let mut block = Block::new(vec![0.0; halo.len()]);
    for (row, own) in block.now[width..].chunks_exact_mut(width).zip(own.chunks_exact(columns)) {
        row[1..=columns].copy_from_slice(own);
    }
    // The halo is left out: after a step it is that of some other one.
    let change = |before: &[f64], after: &[f64]| {
        let rows = (1..=rows).map(|i| i * width + 1..(i + 1) * width - 1);
        let changes = rows.map(|row| kernel::largest_change(&before[row.clone()], &after[row]));
        changes.fold(0.0, f64::max)
    };
    let (steps, seconds) = seat.steps(&mut block, change, |Block { now, next }| {
        seat.receive(|| halo.exchange(now))?;
        seat.recorder.compute(1.0, || {
            for i in 1..=rows {
                let [above, row, below] = [i - 1, i, i + 1].map(|i| &now[i * width..][..width]);
                let inner = 1..=columns;
                let out = &mut next[i * width..][inner.clone()];
                kernel::row_with_ends(&above[inner.clone()], row, &below[inner], out);
            }
        });
        Ok(())
    })?;
    let own = block.now[width..].chunks_exact(width).take(rows).map(|row| &row[1..=columns]);
    Ok((steps, seconds, own.flatten().copied().collect()))
}
