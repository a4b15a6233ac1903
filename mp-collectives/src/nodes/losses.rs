//! The losses of members, and the revocation of the communicator, as those learn of them who wait for another node.
//!
//! A channel tells only how its own ends are left. The rank at the other end may know of a loss, make no further calls, and
//! keep its ends open. So every wait for another node also ends when any member is lost, or the
//! communicator is revoked.

use std::sync::atomic::{AtomicU32, Ordering};

use mp_core::waits::News;
use mp_core::{Error, Rank, Result};

use crate::communicator::Revocation;
use crate::communicator::error::lost;

pub(super) struct Losses {
    rank: Rank,
    /// The members, by their numbers in the world.
    members: Vec<usize>,
    revocation: Revocation,
    news: News,
    /// A number of the news at which no member was lost, and the communicator was not revoked.
    clear: AtomicU32,
}

impl Losses {
    /// Watches these ranks of the world, and whether their communicator is revoked.
    pub(super) fn of(rank: &Rank, members: Vec<usize>, revocation: Revocation) -> Self {
        let news = rank.news();
        // The first look finds another number, and looks at all members.
        let clear = AtomicU32::new(news.number().wrapping_sub(1));
        Self { rank: rank.clone(), members, revocation, news, clear }
    }

    /// Returns the number of the news, which changes when a rank of the world is lost, or anything is revoked.
    pub(super) fn news(&self) -> u32 {
        self.news.number()
    }

    /// Returns whether there are news that [`failure`](Self::failure) has not looked at.
    pub(super) fn has_news(&self) -> bool {
        // Relaxed: the number orders nothing.
        self.news() != self.clear.load(Ordering::Relaxed)
    }

    /// Returns why no wait goes on: the communicator is revoked, or a member was lost.
    pub(super) fn failure(&self) -> Option<Error> {
        let news = self.news();
        if news == self.clear.load(Ordering::Relaxed) {
            return None;
        }
        let failure =
            self.check_revoked().err().or_else(|| self.lost().map(|rank| lost(rank, rank)));
        if failure.is_none() {
            self.clear.store(news, Ordering::Relaxed);
        }
        failure
    }

    /// Returns an error if the communicator is revoked. A rank that opens MPBs calls this afterwards. A later revocation ends
    /// all waits in these MPBs.
    pub(super) fn check_revoked(&self) -> Result<()> {
        self.revocation.check()
    }

    /// Returns a member that was lost, by its number in the world.
    pub(super) fn lost(&self) -> Option<usize> {
        self.members.iter().copied().find(|&member| self.rank.is_lost(member))
    }
}
