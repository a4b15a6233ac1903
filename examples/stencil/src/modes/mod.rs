//! Algorithm 1, in every mode.
//!
//! | file | what it is |
//! |---|---|
//! | `sequential` | all rows, one worker |
//! | `sh_mem`, `barrier` | rows in blocks, borders read where they lie, a barrier after each step |
//! | `no_kt` | borders sent by the worker through typed channels |
//! | `kt`, `placement` | borders sent by communication threads, which run where a plan says |
//! | `grid` | blocks of rows and columns on a Cartesian communicator |
//! | `survivors` | blocks of rows, with checkpoints: workers may be lost |
//! | `world`, `lanes`, `reduce` | what those with messages share |

mod barrier;
mod grid;
mod job;
mod kt;
mod lanes;
mod no_kt;
pub(crate) mod placement;
mod reduce;
mod rows;
mod sequential;
mod sh_mem;
mod survivors;
mod world;

use example_support::{Error, Result};

pub use job::{Job, Loss, Mode, Ranks, Run};
use rows::Block;

/// Computes.
///
/// # Errors
/// A matrix that cannot be read, a rank that was lost, or a mode that does not work so.
pub fn run(job: &Job, mode: Mode, ranks: Ranks) -> Result<Run> {
    if job.workers() == 0 {
        return Err(Error::new("there is no worker"));
    }
    if mode == Mode::Sequential && job.workers() > 1 {
        let workers = job.workers();
        return Err(Error::new(format!("mode sequential has one worker, not {workers}")));
    }
    if mode != Mode::Grid && job.grid[1] > 1 {
        return Err(Error::new(format!("mode {mode} divides rows, not columns")));
    }
    if ranks == Ranks::Processes && !mode.works_with(ranks) {
        let why = match mode {
            Mode::Skt => "has communication threads that serve several workers",
            Mode::ShMem => "reads borders where they lie",
            _ => "has one worker, which needs no other process",
        };
        return Err(Error::new(format!("mode {mode} {why}: it needs --ranks threads")));
    }
    match mode {
        Mode::Sequential => sequential::run(job),
        Mode::ShMem => sh_mem::run(job),
        Mode::NoKt => no_kt::run(job, ranks),
        Mode::KtW | Mode::Skt => kt::run(job, mode, ranks),
        Mode::Grid => grid::run(job, ranks),
        Mode::Survivors => survivors::run(job, ranks),
    }
}
