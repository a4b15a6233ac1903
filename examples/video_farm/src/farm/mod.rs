//! Emitter, workers and collector.
//!
//! ```text
//!                 ┌─▶ worker 0 ─┐
//! input ─▶ emitter ─▶ worker 1 ─▶ collector ─▶ output
//!            │    └─▶ worker 2 ─┘     ▲
//!            └──── which worker next ─┘
//! ```
//!
//! The emitter tells the collector to which worker each frame goes, and the collector takes the
//! results from the workers in that order. So frames come out as they went in under every
//! schedule, no frame ever waits in a heap to be sorted, and what is in memory at any time is
//! what the channels between the ranks hold.
//!
//! Whoever fails returns the reason and closes its channels; its neighbours see that and stop,
//! and the collector completes the output only when it has seen the emitter's end mark.

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
/// A fault of the input or the output, a rank that was lost, or a mode that does not work with
/// the kind of ranks.
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
