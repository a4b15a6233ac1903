//! Which ranks serve an object, and which may still do so: the words in which each rank counts its handles and servers.

use super::{
    place::{Place, head},
    site::{Site, Word, seat},
};

impl Place {
    /// Returns the word that counts this rank's servers that serve the object or stand by.
    pub(super) fn serves(&self) -> &Word {
        &self.first_seat(self.region.rank())[seat::SERVES]
    }

    /// Returns whether the rank serves the object, or will do so when the present server is gone.
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

    /// Records that a handle of this rank is closed. A server of this rank may have waited for that. If no server has
    /// come yet, all ranks that wait for the first one must see whether a handle is left that could serve.
    pub(super) fn part(&self) {
        // If a future of this handle was leaked, its wait ends here.
        let waits = u64::from(self.awaits_first.take() > 0);
        self.crew().fetch_add(seat::HANDLE.wrapping_neg().wrapping_sub(waits));
        self.region.fence();
        match self.head(head::SERVER).load() {
            0 => self.region.wake_all(),
            _ => self.wake(self.region.rank() * self.seats),
        }
    }

    /// Returns whether this rank has open handles that submit operations.
    pub(super) fn is_open(&self) -> bool {
        self.crew().load() >= seat::HANDLE
    }

    /// Returns the rank that serves, if it is still there.
    pub(super) fn serving(&self) -> Option<usize> {
        let server = self.head(head::SERVER).load();
        let rank = (server & !head::LEFT).checked_sub(1)? as usize;
        (server & head::LEFT == 0 && !self.region.is_gone(rank)).then_some(rank)
    }

    /// Records that this handle waits for a server, and notifies the other ranks.
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

    /// Returns whether no rank serves or will serve, where `first` was to be the first server.
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

    /// Returns whether no rank has served yet, and none will. If so, this is recorded for all ranks.
    #[cold]
    pub(super) fn nobody_comes(&self) -> bool {
        let ranks = || 0..self.region.ranks();
        // This comes before the check of which ranks stand by. A rank that was lost after it began to stand by counts
        // here.
        let is_missing = ranks().any(|rank| {
            let first = self.first_seat(rank);
            let was_to_serve = || first[seat::SERVES].load() != 0;
            let may_have_served = || self.region.is_lost(rank) && first[seat::ASKED].load() == 0;
            self.region.is_gone(rank) && (was_to_serve() || may_have_served())
        });
        // A handle that does not wait may still begin to serve, and so may a handle that waits with a limit.
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
