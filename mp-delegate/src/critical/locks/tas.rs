//! Test-and-set: one word that all seats change. It is the simplest lock, neither fair nor scalable.

use super::Lock;
use crate::critical::{
    site::{AnyWord, BLOCK, Mortal, Seat, Site, seat, someone, who},
    stop::Stop,
};

/// Set beside the lock holder: some seat may sleep until the lock is free.
const SLEEPERS: u64 = 1 << 63;

/// See the module.
#[derive(Debug)]
pub struct Tas {
    word: usize,
    me: Seat,
}

impl Tas {
    /// Returns how many words this takes, for so many seats.
    pub const fn words(_seats: usize) -> usize {
        BLOCK
    }

    /// Creates the access of one seat to the lock whose words begin at `first`.
    pub fn new(first: usize, me: Seat) -> Self {
        Self { word: first, me }
    }
}

impl Lock for Tas {
    const QUEUES: bool = false;

    fn words(&self) -> [usize; 3] {
        [self.word; 3]
    }

    #[inline(always)]
    fn come<S: Site>(&self, _site: &S, [word, ..]: [&S::Word; 3]) -> Result<(), u64> {
        word.compare_exchange(0, someone(self.me))
    }

    #[cold]
    #[inline(never)]
    fn queue<S: Site>(&self, site: &S, before: u64) -> Result<(), Stop> {
        let word = site.word(self.word)?;
        let mine = someone(self.me);
        let owner = Some(before & !SLEEPERS).filter(|&owner| owner != 0).map(who);
        site.wait(self.me, owner, word, || {
            loop {
                let seen = word.load();
                if seen & !SLEEPERS == 0 {
                    // Other seats may still sleep although the word does not show it. So a seat that has waited sets
                    // the flag.
                    if word.compare_exchange(seen, mine | SLEEPERS).is_ok() {
                        return Some(());
                    }
                } else if seen & SLEEPERS != 0
                    || word.compare_exchange(seen, seen | SLEEPERS).is_ok()
                {
                    return None;
                }
                // The word has changed meanwhile, perhaps by a seat that saw no sleeper.
            }
        })
    }

    fn try_acquire<S: Site>(&self, site: &S) -> Result<bool, Stop> {
        Ok(site.word(self.word)?.compare_exchange(0, someone(self.me)).is_ok())
    }

    #[inline(always)]
    fn go<S: Site>(&self, _site: &S, [word, ..]: [&S::Word; 3]) -> bool {
        word.swap(0) & SLEEPERS == 0
    }

    /// Wakes the seats that sleep: [`go`](Lock::go) has freed the lock.
    #[cold]
    #[inline(never)]
    fn hand_over<S: Site>(&self, site: &S) -> Result<(), Stop> {
        site.wake_all();
        Ok(())
    }

    fn close<S: Mortal>(&self, _site: &S) -> Result<(), Stop> {
        Ok(())
    }

    /// Gives up the lock of a dead holder, if the value it had is repaired.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        let word = site.word(self.word)?;
        let seen = word.load();
        let Some(owner) = (seen & !SLEEPERS).checked_sub(1) else { return Ok(true) };
        let owner = owner as Seat;
        if owner >= site.seats() {
            return Err(Stop::Corrupt);
        }
        let is_left = site.is_dead(owner) && seat::kind(site.mark(owner).load()) != seat::ENTERED;
        if is_left && word.compare_exchange(seen, 0).is_err() {
            return Ok(false);
        }
        site.wake_all();
        Ok(true)
    }
}
