//! `survivors`: blocks of rows, borders as messages of a communicator, and workers that go on when others are lost.
//!
//! After every so many steps each worker keeps its block, and gives a copy to the next worker. Then all workers agree
//! whether everything went well. If not, the remaining workers make a smaller communicator, divide the rows anew, and
//! go on from the blocks that they have kept. They start from the beginning if two neighbours were lost together, and
//! their rows with them. The matrix is the same, bit for bit, because a step does not depend on which worker takes it.

use std::ops::Range;
use std::time::Instant;

use example_support::{Error, Result};
use onchip::Communicator;
use onchip::communicator::share;
use onchip::prelude::*;
use onchip::{RankFailure, RanksFailed};

use super::lanes::borders;
use super::{Block, Job, Loss, Ranks, Run};
use crate::kernel;

/// Rows of the matrix after a number of steps.
#[derive(Clone, Default)]
struct Piece {
    rows: Range<usize>,
    cells: Vec<f64>,
}

/// What a worker keeps: its own rows and a copy of those of the worker before it, after so many steps.
#[derive(Default)]
struct Checkpoint {
    steps: usize,
    pieces: Vec<Piece>,
}

/// The seconds that a worker took, and its rows at the end.
type Part = (f64, Range<usize>, Vec<f64>);

const NORTHWARD: u32 = 1;
const SOUTHWARD: u32 = 2;
const COPY: u32 = 3;
const PLACES: u32 = 4;
const ROWS: u32 = 5;

/// Computes in a world of threads or processes.
pub(super) fn run(job: &Job, ranks: Ranks) -> Result<Run> {
    let workers = job.workers();
    if let Some(loss) = job.lose.iter().find(|loss| loss.rank >= workers || loss.step >= job.steps)
    {
        let reason = format!("nobody can lose {loss}: {workers} workers take {} steps", job.steps);
        return Err(Error::new(reason));
    }
    if !job.lose.is_empty() && (ranks == Ranks::Threads || onchip::launched()) {
        let reason = "to lose a worker it must be a process of the program's own world: it needs \
                      --ranks processes, and no launcher";
        return Err(Error::new(reason));
    }
    let code = |rank: &Rank| -> onchip::Result<Result<Part>> {
        if rank.size() != workers {
            let reason = format!("{workers} workers, but this world has {} ranks", rank.size());
            return Ok(Err(Error::new(reason)));
        }
        Worker { rank, job, width: job.init.size() }.work()
    };
    let each = ranks.world(workers).run_each(code)?;
    let mut run = Run { steps: job.steps, ..Run::default() };
    let size = job.init.size();
    let mut cells = vec![0.0; if job.keep { size * size } else { 0 }];
    for (rank, part) in each.into_iter().enumerate() {
        let (seconds, rows, block) = match part {
            Ok(part) => part?,
            // This rank was to be killed.
            Err(onchip::Cause::Signal(_)) if job.lose.iter().any(|loss| loss.rank == rank) => {
                continue;
            }
            Err(cause) => {
                let failures = vec![RankFailure { rank, cause }];
                return Err(onchip::Error::from(RanksFailed { failures }).into());
            }
        };
        run.seconds = run.seconds.max(seconds);
        if job.keep {
            cells[rows.start * size..rows.end * size].copy_from_slice(&block);
        }
    }
    run.cells = cells;
    Ok(run)
}

struct Worker<'a> {
    rank: &'a Rank,
    job: &'a Job,
    /// Of a row.
    width: usize,
}

impl Worker<'_> {
    fn work(&self) -> onchip::Result<Result<Part>> {
        let mut workers = Communicator::world(self.rank);
        let mut kept = match self.begin(&workers) {
            Ok(kept) => kept,
            Err(fault) => {
                // The others must not wait for the borders of a rank that could not read its rows.
                workers.revoke()?;
                return Ok(Err(fault));
            }
        };
        let started = Instant::now();
        let mut block = None;
        loop {
            let went = self.advance(&workers, &kept, &mut block);
            let next = match went.map_err(onchip::Error::into_kind) {
                Ok(next) => Some(next),
                Err(onchip::ErrorKind::PeerLost { .. } | onchip::ErrorKind::PeerEnded { .. }) => {
                    workers.revoke()?;
                    None
                }
                Err(onchip::ErrorKind::Revoked { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let agreed = workers.agree(next.is_some().into())?;
            if let Some(next) = next.filter(|_| agreed.flag == 1) {
                kept = next;
                if kept.steps == self.job.steps {
                    break;
                }
            }
            if agreed.flag == 0 || !agreed.unacknowledged.is_empty() {
                workers = workers.shrink()?;
                block = None;
            }
        }
        let own = kept.pieces.swap_remove(0);
        let cells = if self.job.keep { own.cells } else { Vec::new() };
        Ok(Ok((started.elapsed().as_secs_f64(), own.rows, cells)))
    }

    fn rows_of(&self, workers: &Communicator, worker: usize) -> Range<usize> {
        share(self.width, workers.size(), worker)
    }

    /// Returns the matrix before the first step, which every worker can read.
    fn begin(&self, workers: &Communicator) -> Result<Checkpoint> {
        let rows = self.rows_of(workers, workers.rank());
        let cells = self.job.init.block(rows.clone(), 0..self.width)?;
        Ok(Checkpoint { steps: 0, pieces: vec![Piece { rows, cells }] })
    }

    /// Takes the steps up to the next checkpoint, from the block or else from what is kept. Returns what is
    /// to be kept if all got so far.
    fn advance(
        &self,
        workers: &Communicator,
        kept: &Checkpoint,
        block: &mut Option<(Block, usize)>,
    ) -> onchip::Result<Checkpoint> {
        let rows = self.rows_of(workers, workers.rank());
        let (block, steps) = match block {
            Some(block) => block,
            none => none.insert(self.restore(workers, kept)?),
        };
        let until = self.job.steps.min(kept.steps + self.job.checkpoint);
        while *steps < until {
            if self.job.lose.contains(&Loss { rank: self.rank.id(), step: *steps }) {
                std::process::abort();
            }
            self.step(workers, block)?;
            *steps += 1;
        }
        let own = Piece { rows, cells: block.now.to_vec() };
        let (me, size) = (workers.rank(), workers.size());
        let (before, after) = ((me + size - 1) % size, (me + 1) % size);
        let theirs = self.rows_of(workers, before);
        let mut copy = Piece { cells: vec![0.0; theirs.len() * self.width], rows: theirs };
        if size > 1 {
            workers.send_receive(&own.cells, after, COPY, &mut copy.cells, before, COPY)?;
        }
        Ok(Checkpoint { steps: *steps, pieces: vec![own, copy] })
    }

    fn step(&self, workers: &Communicator, Block { now, next }: &mut Block) -> onchip::Result<()> {
        let (me, width) = (workers.rank(), self.width);
        let has_rows = |worker: usize| !self.rows_of(workers, worker).is_empty();
        let [mut north, mut south] = [vec![0.0; width], vec![0.0; width]];
        if has_rows(me) {
            let [first, last] = borders(now, width);
            let mut exchange = workers.exchange();
            if let Some(above) = me.checked_sub(1) {
                exchange.send(first, above, NORTHWARD).receive(&mut north, above, SOUTHWARD);
            }
            if me + 1 < workers.size() && has_rows(me + 1) {
                exchange.send(last, me + 1, SOUTHWARD).receive(&mut south, me + 1, NORTHWARD);
            }
            exchange.run()?;
            kernel::inner_rows(now, next, width);
            kernel::border_rows(now, next, width, &north, &south);
            std::mem::swap(now, next);
        }
        Ok(())
    }

    /// Prints which workers go on, if some were lost.
    fn tell(&self, workers: &Communicator, steps: usize) {
        let (left, all) = (workers.size(), self.job.workers());
        if workers.rank() == 0 && left < all {
            println!("{left} of {all} workers are left, and go on after step {steps}");
        }
    }

    /// Gets this worker's rows from the workers that have kept them.
    fn restore(&self, workers: &Communicator, kept: &Checkpoint) -> onchip::Result<(Block, usize)> {
        let (me, size, width) = (workers.rank(), workers.size(), self.width);
        // Each worker sends the rows of its own piece and of its copy.
        let mut place = [0u64; 4];
        for (place, piece) in place.chunks_exact_mut(2).zip(&kept.pieces) {
            place.copy_from_slice(&[piece.rows.start as u64, piece.rows.end as u64]);
        }
        let mut places = vec![place; size];
        let mut exchange = workers.exchange();
        for (other, theirs) in places.iter_mut().enumerate().filter(|(other, _)| *other != me) {
            exchange.send(&place, other, PLACES).receive(theirs, other, PLACES);
        }
        exchange.run()?;
        let plans: Option<Vec<_>> =
            (0..size).map(|worker| plan(&places, self.rows_of(workers, worker))).collect();
        let Some(plans) = plans else {
            // All workers get the same result.
            let begun =
                self.begin(workers).map_err(|fault| onchip::Error::other(fault.to_string()))?;
            self.tell(workers, 0);
            let cells = begun.pieces.into_iter().flat_map(|piece| piece.cells).collect();
            return Ok((Block::new(cells), 0));
        };
        self.tell(workers, kept.steps);
        let rows_here = |rows: &Range<usize>| {
            let of = |piece: &&Piece| piece.rows.start <= rows.start && rows.end <= piece.rows.end;
            let piece = kept.pieces.iter().find(of);
            piece.map_or(&[][..], |piece| {
                let from = piece.rows.start;
                &piece.cells[(rows.start - from) * width..(rows.end - from) * width]
            })
        };
        let mut cells = vec![0.0; self.rows_of(workers, me).len() * width];
        let mut exchange = workers.exchange();
        for (worker, plan) in plans.iter().enumerate().filter(|(worker, _)| *worker != me) {
            for (_, rows) in plan.iter().filter(|(holder, _)| *holder == me) {
                exchange.send(rows_here(rows), worker, ROWS);
            }
        }
        let mut rest = &mut cells[..];
        for (holder, rows) in &plans[me] {
            let (into, after) = rest.split_at_mut(rows.len() * width);
            rest = after;
            if *holder == me {
                into.copy_from_slice(rows_here(rows));
            } else {
                exchange.receive(into, *holder, ROWS);
            }
        }
        exchange.run()?;
        Ok((Block::new(cells), kept.steps))
    }
}

/// Returns which worker gives which of the rows, one range after the other, if all of them are kept. Of each worker,
/// `places` has the rows of its own piece and those of its copy.
fn plan(places: &[[u64; 4]], rows: Range<usize>) -> Option<Vec<(usize, Range<usize>)>> {
    let mut plan = Vec::new();
    let mut next = rows.start;
    while next < rows.end {
        let holds = |place: &[u64]| (place[0]..place[1]).contains(&(next as u64));
        let own = places.iter().position(|place| holds(&place[..2])).map(|at| (at, 0));
        let copy = || places.iter().position(|place| holds(&place[2..])).map(|at| (at, 2));
        let (holder, at) = own.or_else(copy)?;
        let end = rows.end.min(places[holder][at + 1] as usize);
        plan.push((holder, next..end));
        next = end;
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_from_their_owners_or_else_from_copies() {
        // The second of three workers with three rows each was lost.
        let places = [[0, 3, 6, 9], [6, 9, 3, 6]];
        assert_eq!(plan(&places, 0..5), Some(vec![(0, 0..3), (1, 3..5)]));
        assert_eq!(plan(&places, 5..9), Some(vec![(1, 5..6), (1, 6..9)]));
        assert_eq!(plan(&places, 9..9), Some(vec![]));
        // The last two were lost.
        assert_eq!(plan(&places[..1], 0..9), None);
        assert_eq!(plan(&places[..1], 0..3), Some(vec![(0, 0..3)]));
    }
}
