//! A seat's access to a lock, on words that were found once, so that a guard is taken and given up in few instructions
//! if no other seat wants the lock.
//!
//! After a locked instruction, each further pointer that must be read before the next one costs a cycle or more of
//! waiting.

use mp_core::memory::{KeptWord, Word};

use super::{Lock, come, go};
use crate::critical::{
    place::{Place, head},
    site::{Seat, seat},
    turns,
};

/// See the [module](self).
pub(in crate::critical) struct Quick {
    /// The seat's mark.
    mark: KeptWord,
    /// The lock's [words](Lock::words).
    lock: [KeptWord; 3],
    turns: KeptWord,
    turn: KeptWord,
    poisoned: KeptWord,
}

impl Quick {
    /// Finds the words. Returns `None` if the region is too short for them.
    pub(in crate::critical) fn new(place: &Place, me: Seat, lock: [usize; 3]) -> Option<Self> {
        let keep = |index| place.region.keep(index);
        let [state, first, second] = lock;
        Some(Self {
            mark: keep(place.index(me, seat::MARK))?,
            lock: [keep(state)?, keep(first)?, keep(second)?],
            turns: keep(head::TURNS)?,
            turn: keep(head::TURN)?,
            poisoned: keep(head::POISONED)?,
        })
    }

    #[inline(always)]
    fn lock(&self) -> [&Word; 3] {
        self.lock.each_ref().map(|word| &**word)
    }

    /// Takes the seat's turn, where turns are taken, and then the lock if no other seat has it. Otherwise returns what
    /// [`take_behind`](super::take_behind) needs.
    #[inline(always)]
    pub(in crate::critical) fn take(
        &self,
        lock: &impl Lock,
        place: &Place,
        me: Seat,
    ) -> Result<(), u64> {
        if turns::are_taken(place, &self.turns) {
            turns::take(place, &self.turn, me);
        }
        come(lock, place, &self.mark, self.lock())
    }

    /// Gives up the lock in one step, and then the turn. Returns whether that was possible.
    #[inline(always)]
    pub(in crate::critical) fn give(&self, lock: &impl Lock, place: &Place, me: Seat) -> bool {
        let is_gone = go(lock, place, &self.mark, self.lock());
        if is_gone && place.waits.has_turn() {
            turns::end(place, &self.turn, me);
        }
        is_gone
    }

    /// Returns whether an operation did not finish. Only the lock holder may call this.
    #[inline(always)]
    pub(in crate::critical) fn is_poisoned(&self) -> bool {
        self.poisoned.load_relaxed() != 0
    }
}
