//! The way to a [hybrid lock](super::hyb) that nobody else wants: the same steps on words that were found once, so
//! that a guard is taken and given up in few instructions of the caller's own code.

use mp_core::memory::KeptWord;

use super::hyb::Hyb;
use crate::critical::{
    site::{Place, Seat, head, seat},
    turns,
};

/// See the [module](self).
pub(in crate::critical) struct Quick {
    /// The seat's mark.
    mark: KeptWord,
    lock: KeptWord,
    /// Where the successor's message comes.
    successor: KeptWord,
    turns: KeptWord,
    turn: KeptWord,
    poisoned: KeptWord,
}

impl Quick {
    pub(in crate::critical) fn new(place: &Place, me: Seat, lock: &Hyb) -> Option<Self> {
        let keep = |index| place.region.keep(index);
        Some(Self {
            mark: keep(place.index(me, seat::MARK))?,
            lock: keep(lock.state())?,
            successor: keep(lock.successor())?,
            turns: keep(head::TURNS)?,
            turn: keep(head::TURN)?,
            poisoned: keep(head::POISONED)?,
        })
    }

    /// Takes the seat's turn, where turns are taken, and then the lock, or a place in its queue: who is before it there.
    #[inline(always)]
    pub(in crate::critical) fn take(&self, lock: &Hyb, place: &Place, me: Seat) -> Result<(), u64> {
        if turns::are_taken(place, &self.turns) {
            turns::take(place, &self.turn, me);
        }
        self.mark.store(seat::APPROACHES);
        lock.swap(&*self.lock)?;
        // Before what is written to the value, for those who find this rank dead.
        self.mark.note(seat::ENTERED);
        Ok(())
    }

    /// Gives up the lock, if nobody waits for it, and the turn; whether it did.
    #[inline(always)]
    pub(in crate::critical) fn give(&self, lock: &Hyb, place: &Place, me: Seat) -> bool {
        let given = lock.give_back(&*self.lock, &*self.successor);
        if given {
            self.mark.store(0);
            self.end_turn(place, me);
        }
        given
    }

    /// Ends the seat's turn, if it has one.
    #[inline(always)]
    pub(in crate::critical) fn end_turn(&self, place: &Place, me: Seat) {
        if place.waits.has_turn() {
            turns::end(place, &self.turn, me);
        }
    }

    /// Whether an operation did not come to its end. For whoever has the lock.
    #[inline(always)]
    pub(in crate::critical) fn is_poisoned(&self) -> bool {
        self.poisoned.peek() != 0
    }
}
