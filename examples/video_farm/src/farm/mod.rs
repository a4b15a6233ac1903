//! Emitter, workers and collector.
//!
//! ```text
//!                 ┌─▶ worker 0 ─┐
//! input ─▶ emitter ─▶ worker 1 ─▶ collector ─▶ output
//!            │    └─▶ worker 2 ─┘     ▲
//!            └──── which worker next ─┘
//! ```
//!
//! The emitter tells the collector to which worker each frame goes, and the collector takes the results from the
//! workers in that order. So the order of frames is kept under every schedule, frames never wait in a heap to be
//! sorted, and the frames in memory are those in the channels between the ranks.
//!
//! A rank that fails returns the reason and closes its channels. Its neighbours see that and stop. The collector
//! completes the output only after it has seen the emitter's end mark.

mod collect;
mod control;
mod feed;
mod helpers;
mod job;
pub mod kt;
mod lanes;
pub mod moved;
pub mod no_kt;
mod placement;
mod ranks;
mod record;
mod roles;
mod seat;
pub mod sh_mem;
mod stop;

use example_support::{Error, Result};

pub use helpers::Helped;
pub use job::{Job, Mode, Preload, Ranks, Run, Schedule};
pub use record::{Record, Recorded};

/// Runs a farm to its end.
///
/// # Errors
/// If the input or the output fails, a rank was lost, or the mode does not work with the kind of ranks.
pub fn run(job: &Job, mode: Mode, ranks: Ranks) -> Result<Run> {
    match (mode, ranks) {
        (Mode::ShMem, Ranks::Threads) => sh_mem::run(job),
        (Mode::ShMem, Ranks::Processes) => Err(Error::new(
            "mode sh-mem passes pointers, which mean nothing to another process: it needs \
             --ranks threads",
        )),
        (Mode::NoKt, _) => no_kt::run(job, ranks),
        (Mode::Moved, _) => moved::run(job, ranks),
        (Mode::KtW | Mode::KtSpecialized | Mode::KtGeneralized, _) => {
            match Helped::plan(job, mode, ranks)? {
                Some(helped) => kt::run(job, ranks, &helped),
                None => no_kt::run(job, ranks),
            }
        }
    }
}
