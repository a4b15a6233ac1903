//! Which ranks have opened an object, and which have left it.

use super::ranks::RankSet;

/// The ranks that may open an object, or one end of it. For each of them there are four facts:
///
/// | fact | meaning |
/// |---|---|
/// | opened | the rank has opened it |
/// | gone | nothing more comes from the rank |
/// | lost | gone because it died or panicked: the others get `PeerLost` and not `Disconnected` |
/// | released | nothing of the rank can touch the object's memory any more |
///
/// A rank is gone before it is released if its code has ended and its process still runs: a thread of it may still
/// write.
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
        // Only what it had not closed itself before it died.
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

    /// Returns how a rank leaves an object that it drops now. What a panic drops was not closed: others may wait for
    /// what would have come.
    pub(crate) fn by_drop(broken_off: bool) -> Self {
        Self { lost: broken_off || std::thread::panicking(), ..Self::CLOSED }
    }
}
