//! Who serves an object, and who may yet: the words in which each rank counts its handles and servers.

use super::{
    place::{Place, head},
    site::{Site, Word, seat},
};

impl Place {
    /// Returns the word that counts the servers of this rank that serve the object, or stand by.
    pub(super) fn serves(&self) -> &Word {
        &self.first_seat(self.region.rank())[seat::SERVES]
    }

    /// Returns whether the rank serves the object, or will when its server is gone.
    pub(super) fn stands_by(&self, rank: usize) -> bool {
        self.first_seat(rank)[seat::SERVES].load() != 0
    }

    pub(super) fn crew(&self) -> &Word {
        &self.first_seat(self.region.rank())[seat::CREW]
    }

    /// Notes that a handle of this rank is opened.
    pub(super) fn join(&self) {
        self.crew().fetch_add(seat::HANDLE);
    }

    /// Notes that it is closed. A server of this rank may have waited for that. If no server has come yet, all ranks
    /// that wait for the first one must see whether any handle is left that could serve.
    pub(super) fn part(&self) {
        // A future that was leaked waits no longer.
        let waits = u64::from(self.awaits_first.take() > 0);
        self.crew().fetch_add(seat::HANDLE.wrapping_neg().wrapping_sub(waits));
        self.region.fence();
        match self.head(head::SERVER).load() {
            0 => self.region.wake_all(),
            _ => self.wake(self.region.rank() * self.seats),
        }
    }

    /// Returns whether this rank has handles that ask.
    pub(super) fn is_open(&self) -> bool {
        self.crew().load() >= seat::HANDLE
    }

    /// Returns the rank that serves, if it is there.
    pub(super) fn serving(&self) -> Option<usize> {
        let server = self.head(head::SERVER).load();
        let rank = (server & !head::LEFT).checked_sub(1)? as usize;
        (server & head::LEFT == 0 && !self.region.is_gone(rank)).then_some(rank)
    }

    /// Notes that this handle waits for a server, and notifies the others.
    #[cold]
    pub(super) fn wait_for_the_first(&self) -> bool {
        let waits = self.awaits_first.get();
        self.awaits_first.set(waits + 1);
        if waits == 0 {
            self.crew().fetch_add(1);
            self.region.fence();
            self.region.wake_all();
        }
        true
    }

    /// Returns whether no rank serves, nor will, if `first` was to begin.
    #[cold]
    pub(super) fn unserved_after(&self, first: usize) -> bool {
        match self.head(head::SERVER).load() {
            0 => self.nobody_serves(first as u64 + 1),
            server => self.nobody_serves(server),
        }
    }

    #[cold]
    pub(super) fn nobody_serves(&self, server: u64) -> bool {
        let here = |rank: usize| !self.region.is_gone(rank);
        if server != 0 && server & head::LEFT == 0 && here(server as usize - 1) {
            return false;
        }
        !(0..self.region.ranks()).any(|rank| here(rank) && self.stands_by(rank))
    }

    /// Returns whether no rank has served yet, and none will. If so, this is recorded for all.
    #[cold]
    pub(super) fn nobody_comes(&self) -> bool {
        let ranks = || 0..self.region.ranks();
        // Before the look who stands by: who was lost after it began to is taken for one that does.
        let is_missing = ranks().any(|rank| {
            let first = self.first_seat(rank);
            let was_to_serve = || first[seat::SERVES].load() != 0;
            let may_have_served = || self.region.is_lost(rank) && first[seat::ASKED].load() == 0;
            self.region.is_gone(rank) && (was_to_serve() || may_have_served())
        });
        // A handle that does not wait may be the one to serve, and so may one that waits for a time only.
        let all_wait = |rank: usize| {
            let crew = self.first_seat(rank)[seat::CREW].load();
            crew != 0 && crew / seat::HANDLE <= crew % seat::HANDLE
        };
        let here = |rank: &usize| !self.region.is_gone(*rank);
        if !is_missing && !ranks().filter(here).all(all_wait) || !self.nobody_serves(0) {
            return false;
        }
        match self.head(head::SERVER).compare_exchange(0, head::LEFT) {
            Ok(()) => self.region.wake_all(),
            Err(server) => return self.nobody_serves(server),
        }
        true
    }
}
