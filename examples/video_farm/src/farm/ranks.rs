//! Which rank is what.

use super::Job;

/// The rank of the emitter.
pub(super) const EMITTER: usize = 0;

/// Returns the rank of a worker, counted from 0.
pub(super) fn worker_rank(worker: usize) -> usize {
    EMITTER + 1 + worker
}

/// Returns the rank of the collector, the last.
pub(super) fn collector_rank(job: &Job) -> usize {
    worker_rank(job.workers)
}
