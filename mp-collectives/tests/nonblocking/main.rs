//! Nonblocking collectives on real ranks: threads, processes, threads on the heap.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod at_once;
mod checks;
mod communicators;
mod ends;
mod operations;
mod overlap;
mod requests;
mod traces;

use mp_collectives::Members;
use mp_collectives::nonblocking::{Nonblocking, Settings};
use mp_core::{Rank, Result};
use mp_delegate::threads::{CommThreads, Progress};

/// The way in which a rank's operations make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Calls,
    Threads(usize),
    /// Some ranks use one way, and some the other.
    Mixed,
}

const ALL: [By; 4] = [By::Calls, By::Threads(1), By::Threads(2), By::Mixed];

impl By {
    fn progress(self, rank: &Rank) -> Result<Progress> {
        Ok(match self {
            By::Calls => Progress::InCalls,
            By::Threads(threads) => CommThreads::start(threads)?.into(),
            By::Mixed if rank.id() % 2 == 1 => CommThreads::start(1)?.into(),
            By::Mixed => Progress::InCalls,
        })
    }
}

fn open<'a>(
    members: impl Into<Members<'a>>,
    name: &str,
    progress: &Progress,
) -> Result<Nonblocking> {
    Nonblocking::open(members, name, progress.clone(), Settings::default())
}
