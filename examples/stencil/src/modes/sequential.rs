//! `sequential`: all rows, one worker. What every other mode must give.

use std::time::Instant;

use example_support::Result;
use onchip::trace::Track;

use super::{Block, Job, Run};
use crate::kernel;

/// Computes in the calling thread.
pub(super) fn run(job: &Job) -> Result<Run> {
    let size = job.init.size();
    let Block { mut now, mut next } = Block::new(job.init.block(0..size, 0..size)?);
    let zeros = vec![0.0; size];
    let recording = job.recording();
    let recorder = recording.recorder(Track::rank(0));
    let started = Instant::now();
    let mut steps = 0;
    while steps < job.steps {
        recorder.compute(1.0, || {
            kernel::inner_rows(&now, &mut next, size);
            kernel::border_rows(&now, &mut next, size, &zeros, &zeros);
        });
        std::mem::swap(&mut now, &mut next);
        steps += 1;
        if job.tolerance.is_some_and(|limit| kernel::largest_change(&next, &now) <= limit) {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let cells = if job.keep { now.into_vec() } else { Vec::new() };
    Ok(Run { steps, seconds, cells, trace: recording.take_trace() })
}
