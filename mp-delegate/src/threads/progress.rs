//! What carries on a rank's pending operations.

use std::sync::Arc;

use mp_core::{
    Rank, Result,
    progress::{Helper, Lent},
};

use super::{pool::CommThreads, task::Task};

/// What carries on a rank's pending operations: a communication thread, or the rank itself.
#[derive(Clone, Debug, Default)]
pub enum Progress {
    /// A thread of the rank's own carries them on if there is a core for it, that is, if the world has at least two
    /// cores for each rank. Otherwise the rank itself does, as with [`InCalls`](Self::InCalls).
    #[default]
    Automatic,
    /// The rank itself carries them on, in its calls: while it waits for anything, it carries on everything
    /// else. While the rank computes, nothing makes progress. This costs no core and no thread switch.
    InCalls,
    /// One of these threads carries them on, whatever the rank does. If there are no threads, the rank itself does.
    By(CommThreads),
}

impl From<&CommThreads> for Progress {
    fn from(threads: &CommThreads) -> Self {
        Self::By(threads.clone())
    }
}

impl From<CommThreads> for Progress {
    fn from(threads: CommThreads) -> Self {
        Self::By(threads)
    }
}

/// The thread that a rank has for itself by [`Progress::Automatic`], shared by all its users.
struct Own(CommThreads);

impl Progress {
    pub(super) fn threads(self, rank: &Rank) -> Result<Option<CommThreads>> {
        let threads = match self {
            Self::InCalls => None,
            Self::By(threads) => Some(threads),
            Self::Automatic if rank.cores() < 2 * rank.size() => None,
            Self::Automatic => {
                let name = format!("kt of {}", rank.id());
                let own = rank.kept(|| CommThreads::builder(1).name(name).start().map(Own))?;
                Some(own.0.clone())
            }
        };
        Ok(threads.filter(|threads| !threads.is_empty()))
    }

    /// Returns the threads as a helper to which a rank lends its work between its calls, or `None` if the rank carries
    /// the work on itself.
    ///
    /// # Errors
    /// The same as those of [`Errands::of`](super::Errands::of).
    pub fn helper(self, rank: &Rank) -> Result<Option<Box<dyn Helper>>> {
        let helper = |threads: CommThreads| {
            let first = threads.turn();
            Box::new(Borrowers { threads, first }) as Box<dyn Helper>
        };
        Ok(self.threads(rank)?.map(helper))
    }
}

/// Threads to which a rank lends work. The first thread that accepts the work takes it.
struct Borrowers {
    threads: CommThreads,
    first: usize,
}

impl Helper for Borrowers {
    fn carry_on(&self, lent: Arc<dyn Lent>) -> bool {
        self.threads.take_errand(Task::lent(lent), self.first).is_none()
    }
}
