//! `sh-mem`: threads that read their neighbours' borders where they lie.
//!
//! As in the paper there are two copies of the matrix, of which one is read and the other is written, and a barrier
//! after each step. Every worker's rows of a copy are behind a lock, which no worker ever waits for, because the
//! barrier keeps readers and writers apart.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use example_support::{Error, Result};
use onchip::trace::{Kind, Recorder, Track};

use super::barrier::Barrier;
use super::rows::Rows;
use super::{Block, Job, Run};
use crate::kernel;

/// The common state of all workers.
struct Shared<'a> {
    job: &'a Job,
    barrier: Barrier,
    workers: Vec<CachePadded<Worker>>,
    /// The reason why a worker has no rows.
    fault: OnceLock<Error>,
}

/// The state of a worker that the others see.
#[derive(Default)]
struct Worker {
    /// Its rows after an even number of steps, and after an odd one.
    rows: [RwLock<Rows>; 2],
    /// By how much they changed, as the bits of a double.
    changed: [AtomicU64; 2],
}

/// Computes in as many threads as there are workers.
pub(super) fn run(job: &Job) -> Result<Run> {
    let workers = job.workers();
    let shared = Shared {
        job,
        barrier: Barrier::new(workers),
        workers: (0..workers).map(|_| CachePadded::default()).collect(),
        fault: OnceLock::new(),
    };
    let recording = job.recording();
    let work = |me: usize| shared.work(me, &recording.recorder(Track::rank(me)));
    let results = std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..workers).map(|me| scope.spawn(move || work(me))).collect();
        let mut results = vec![work(0)];
        for other in others {
            results.push(other.join().map_err(|_| Error::new("a worker panicked"))?);
        }
        Ok::<_, Error>(results)
    })?;
    if let Some(fault) = shared.fault.into_inner() {
        return Err(fault);
    }
    let steps = results[0].0;
    let seconds = results.iter().map(|result| result.1).fold(0.0, f64::max);
    let rows = shared.workers.into_iter().map(|worker| {
        let [even, odd] = worker.into_inner().rows;
        let last = if steps.is_multiple_of(2) { even } else { odd };
        last.into_inner().unwrap_or_else(PoisonError::into_inner).into_vec()
    });
    let cells = job.assemble(rows.collect());
    Ok(Run { steps, seconds, cells, trace: recording.take_trace() })
}

impl Shared<'_> {
    /// Does one worker's part. Returns the number of steps and of seconds.
    fn work(&self, me: usize, recorder: &Recorder) -> (usize, f64) {
        let (job, mine) = (self.job, &self.workers[me]);
        let [rows, columns] = job.place(me);
        // The worker reads its rows itself, so that they are in memory near its core.
        match job.init.block(rows, columns) {
            Ok(rows) => {
                let Block { now, next } = Block::new(rows);
                *mine.rows[0].write().unwrap_or_else(PoisonError::into_inner) = now;
                *mine.rows[1].write().unwrap_or_else(PoisonError::into_inner) = next;
            }
            Err(fault) => {
                // If there are several faults, one is reported.
                let _ = self.fault.set(fault);
            }
        }
        self.barrier.wait();
        if self.fault.get().is_some() {
            return (0, 0.0);
        }
        let zeros = vec![0.0; job.init.size()];
        let started = Instant::now();
        let mut steps = 0;
        while steps < job.steps {
            let change = recorder.compute(1.0, || self.step(me, steps, &zeros));
            steps += 1;
            let parity = steps % 2;
            if job.tolerance.is_some() {
                mine.changed[parity].store(change.to_bits(), Relaxed);
            }
            let open = recorder.begin(Kind::Wait);
            self.barrier.wait();
            drop(open);
            if let Some(limit) = job.tolerance {
                let changed = |worker: &CachePadded<Worker>| {
                    f64::from_bits(worker.changed[parity].load(Relaxed))
                };
                if self.workers.iter().map(changed).fold(0.0, f64::max) <= limit {
                    break;
                }
            }
        }
        (steps, started.elapsed().as_secs_f64())
    }

    /// Takes a step after `steps` others. Returns by how much the rows changed, if that is of interest.
    fn step(&self, me: usize, steps: usize, zeros: &[f64]) -> f64 {
        let rows = |worker: usize| {
            self.workers[worker].rows[steps % 2].read().unwrap_or_else(PoisonError::into_inner)
        };
        let north = me.checked_sub(1).map(rows);
        let south = Some(me + 1).filter(|&below| below < self.workers.len()).map(rows);
        let now = rows(me);
        let next = self.workers[me].rows[1 - steps % 2].write();
        let mut next = next.unwrap_or_else(PoisonError::into_inner);
        let width = zeros.len();
        kernel::inner_rows(&now, &mut next, width);
        let north = north.as_ref().and_then(|north| north.rchunks_exact(width).next());
        let south = south.as_ref().and_then(|south| south.chunks_exact(width).next());
        let (north, south) = (north.unwrap_or(zeros), south.unwrap_or(zeros));
        kernel::border_rows(&now, &mut next, width, north, south);
        match self.job.tolerance {
            Some(_) => kernel::largest_change(&now, &next),
            None => 0.0,
        }
    }
}
