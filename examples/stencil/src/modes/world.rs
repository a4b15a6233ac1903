//! Workers that are the ranks of a world.

use std::time::Instant;

use example_support::{Error, Result};
use onchip::prelude::*;
use onchip::topology::pin_current_thread;
use onchip::trace::{Detail, Kind, Recorder, Recording, Trace};

use super::reduce::Largest;
use super::{Block, Job, Ranks, Run};

/// One rank at its work.
pub(super) struct Seat<'a> {
    pub(super) rank: &'a Rank,
    pub(super) job: &'a Job,
    largest: Largest,
    pub(super) recorder: Recorder,
}

/// How a rank ended: its steps, seconds and block, and what its process has recorded.
type Report = (Result<Part>, Trace);
type Part = (usize, f64, Vec<f64>);

/// Runs `work` on every rank of a world, and puts the results together. `work` gets a rank's block, takes the steps by
/// [`Seat::steps`], and returns its own part of the block. Ranks run on these CPUs, or where the system puts them.
pub(super) fn run<W>(
    job: &Job,
    ranks: Ranks,
    cpus: &[Option<usize>],
    recording: &Recording,
    work: W,
) -> Result<Run>
where
    W: Fn(&Seat, Vec<f64>) -> onchip::Result<Part> + Sync,
{
    let size = job.workers();
    let code = |rank: &Rank| -> onchip::Result<Report> {
        if rank.size() != size {
            let reason = format!("{size} workers, but this world has {} ranks", rank.size());
            return Ok((Err(Error::new(reason)), Trace::default()));
        }
        let recorder = recording.recorder(ranks.track(rank.id()));
        let seat = Seat { rank, job, largest: Largest::open(rank)?, recorder };
        if let Some(&Some(cpu)) = cpus.get(rank.id()) {
            pin_current_thread(cpu)?;
        }
        let [rows, columns] = job.place(rank.id());
        let block = job.init.block(rows, columns);
        // No rank must wait for the borders of a rank that could not read its rows.
        let faults = seat.largest.of(f64::from(u8::from(block.is_err())))?;
        let part = match block {
            Err(fault) => Err(fault),
            Ok(_) if faults > 0.0 => Ok(Part::default()),
            Ok(block) => {
                let (steps, seconds, block) = work(&seat, block)?;
                Ok((steps, seconds, if job.keep { block } else { Vec::new() }))
            }
        };
        let trace = match ranks {
            Ranks::Threads => Trace::default(),
            Ranks::Processes => recording.take_trace(),
        };
        Ok((part, trace))
    };
    let reports = ranks.run(size, code)?;
    drop(work);
    let mut run = Run::default();
    let (mut blocks, mut traces) = (Vec::new(), vec![recording.take_trace()]);
    for (part, trace) in reports {
        let (steps, seconds, block) = part?;
        run.steps = steps;
        run.seconds = run.seconds.max(seconds);
        blocks.push(block);
        traces.push(trace);
    }
    run.cells = job.assemble(blocks);
    run.trace = Trace::merge(traces);
    Ok(run)
}

impl Seat<'_> {
    /// Takes the job's steps, or fewer if the changes get small before. Returns how many, and how many seconds they
    /// took. `step` computes the next state of a block, and `change` by how much two states differ.
    pub(super) fn steps(
        &self,
        block: &mut Block,
        change: impl Fn(&[f64], &[f64]) -> f64,
        mut step: impl FnMut(&mut Block) -> onchip::Result<()>,
    ) -> onchip::Result<(usize, f64)> {
        // All start at once.
        self.largest.of(0.0)?;
        let started = Instant::now();
        let mut steps = 0;
        while steps < self.job.steps {
            step(block)?;
            std::mem::swap(&mut block.now, &mut block.next);
            steps += 1;
            if let Some(limit) = self.job.tolerance {
                let changed = self.recorder.compute(0.0, || change(&block.next, &block.now));
                if self.receive(|| self.largest.of(changed))? <= limit {
                    break;
                }
            }
        }
        Ok((steps, started.elapsed().as_secs_f64()))
    }

    /// Waits for a message.
    pub(super) fn receive<T>(
        &self,
        receive: impl FnOnce() -> onchip::Result<T>,
    ) -> onchip::Result<T> {
        let open = self.recorder.begin(Kind::Receive);
        let received = receive()?;
        drop(open);
        Ok(received)
    }

    /// Sends a row to another rank.
    pub(super) fn send(
        &self,
        to: usize,
        len: usize,
        send: impl FnOnce() -> onchip::Result<()>,
    ) -> onchip::Result<()> {
        let open = self.recorder.begin(Kind::Send);
        send()?;
        open.end(Detail::message(self.rank.id(), to, 8 * len));
        Ok(())
    }
}
