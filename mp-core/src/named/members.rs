//! Which ranks have opened an object, and which have left it.

use super::ranks::RankSet;

/// The ranks that may open an object, or one end of it. Four facts describe each rank:
///
/// | fact | meaning |
/// |---|---|
/// | opened | the rank has opened it |
/// | gone | nothing more comes from the rank |
/// | lost | gone because it died or panicked: the others get `PeerLost` and not `Disconnected` |
/// | released | nothing of the rank can touch the object's memory any more |
///
/// If a rank's code has ended and its process still runs, the rank is gone, but not released: one of its threads may
/// still write.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Members {
    pub(crate) all: RankSet,
    pub(crate) opened: RankSet,
    pub(crate) gone: RankSet,
    /// The ranks in `gone` that were lost.
    pub(crate) lost: RankSet,
    pub(crate) released: RankSet,
}

impl Members {
    /// Returns whether the rank is a member that has not opened the object and has not left it.
    pub(crate) fn expect(&self, rank: u32) -> bool {
        self.all.contains(rank) && !self.opened.contains(rank) && !self.gone.contains(rank)
    }

    /// Returns the members that have neither closed the object nor ended.
    pub(crate) fn present(&self) -> Vec<u32> {
        self.all.iter().filter(|&rank| !self.gone.contains(rank)).collect()
    }

    pub(crate) fn are_gone(&self) -> bool {
        self.all.is_subset_of(&self.gone)
    }

    /// Returns whether nothing of any member touches the object any more.
    pub(super) fn are_over(&self) -> bool {
        self.are_gone() && self.opened.is_subset_of(&self.released)
    }

    /// Notes that a rank has left.
    pub(super) fn leave(&self, rank: u32, leaving: Leaving) {
        // A rank that had closed its end before it died does not count as lost.
        if leaving.lost && !self.gone.contains(rank) {
            self.lost.insert(rank);
        }
        self.gone.insert(rank);
        if leaving.released {
            self.released.insert(rank);
        }
    }
}

/// How a rank leaves an object: see [`Members`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) lost: bool,
    pub(crate) released: bool,
}

impl Leaving {
    /// The rank has closed the object, or will not open it.
    pub(crate) const CLOSED: Self = Self { lost: false, released: true };

    /// Returns how a rank leaves an object that it drops now. If a panic drops the object, the rank counts as lost and
    /// not as one that has closed it, because others may wait for what the rank would have sent.
    pub(crate) fn by_drop(broken_off: bool) -> Self {
        Self { lost: broken_off || std::thread::panicking(), ..Self::CLOSED }
    }
}
