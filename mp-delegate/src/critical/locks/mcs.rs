//! Mellor-Crummey's and Scott's queue lock: a waiting seat looks at a word of its own, which its predecessor clears.

use super::Lock;
use crate::critical::{
    heal::CLOSED,
    site::{AnyWord, BLOCK, Mortal, Seat, Site, someone, who},
    stop::Stop,
};

/// Index in a seat's node.
const NEXT: usize = 0;
const LOCKED: usize = 1;

/// See the module.
#[derive(Debug)]
pub struct Mcs {
    tail: usize,
    nodes: usize,
    me: Seat,
}

impl Mcs {
    /// Returns how many words this takes, for so many seats.
    pub const fn words(seats: usize) -> usize {
        BLOCK * (1 + seats)
    }

    /// Creates the access of one seat to the lock whose words begin at `first`.
    pub fn new(first: usize, me: Seat) -> Self {
        Self { tail: first, nodes: first + BLOCK, me }
    }

    fn node(&self, seat: Seat) -> usize {
        self.nodes.wrapping_add(seat.wrapping_mul(BLOCK))
    }
}

impl Lock for Mcs {
    fn words(&self) -> [usize; 3] {
        let mine = self.node(self.me);
        [self.tail, mine + NEXT, mine + LOCKED]
    }

    #[inline(always)]
    fn come<S: Site>(&self, _site: &S, [tail, next, locked]: [&S::Word; 3]) -> Result<(), u64> {
        next.store_relaxed(0);
        locked.store_relaxed(1);
        match tail.swap(someone(self.me)) {
            0 => Ok(()),
            before => Err(before),
        }
    }

    #[cold]
    #[inline(never)]
    fn queue<S: Site>(&self, site: &S, before: u64) -> Result<(), Stop> {
        if before == CLOSED {
            return Err(Stop::Void);
        }
        let before = who(before);
        site.word(self.node(before).wrapping_add(NEXT))?.store(someone(self.me));
        site.wake(before);
        let locked = site.word(self.node(self.me) + LOCKED)?;
        site.wait(self.me, Some(before), locked, || (locked.load() == 0).then_some(()))
    }

    fn try_acquire<S: Site>(&self, site: &S) -> Result<bool, Stop> {
        let tail = site.word(self.tail)?;
        if tail.load_relaxed() != 0 {
            return Ok(false);
        }
        let mine = site.words(self.node(self.me), 2)?;
        mine[NEXT].store_relaxed(0);
        mine[LOCKED].store_relaxed(1);
        Ok(tail.compare_exchange(0, someone(self.me)).is_ok())
    }

    #[inline(always)]
    fn go<S: Site>(&self, _site: &S, [tail, next, _]: [&S::Word; 3]) -> bool {
        next.load() == 0 && tail.compare_exchange(someone(self.me), 0).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn hand_over<S: Site>(&self, site: &S) -> Result<(), Stop> {
        let next = site.word(self.node(self.me) + NEXT)?;
        // A seat may be between the swap of the tail and the store in this node.
        let after = site.wait(self.me, None, next, || Some(next.load()).filter(|&n| n != 0))?;
        site.word(self.node(who(after)).wrapping_add(LOCKED))?.store(0);
        site.wake(who(after));
        Ok(())
    }

    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop> {
        site.word(self.tail)?.swap(CLOSED);
        Ok(())
    }

    /// A seat that has just come has already reset its node, but a seat behind it in the void queue may have written to
    /// the node since.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        for seat in 0..site.seats() {
            site.word(self.node(seat) + NEXT)?.store_relaxed(0);
        }
        Ok(site.word(self.tail)?.compare_exchange(CLOSED, 0).is_ok())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::critical::place::Place;

    #[test]
    fn what_was_written_in_a_void_queue_is_forgotten() {
        let (own, place) = (Place::own(2), Place::of_two(Mcs::words(2)));
        let lock = Mcs::new(own, 0);
        let tail = place.word(own).unwrap();
        tail.store(CLOSED);
        // The seat comes again: it has reset its node, but it is not in the queue yet.
        let node = place.words(lock.node(0), 2).unwrap();
        node[NEXT].store_relaxed(0);
        node[LOCKED].store_relaxed(1);
        // A seat that was behind it in the void queue writes to the node, and leaves.
        node[NEXT].store(someone(1));
        assert!(lock.reopen(&place).unwrap());
        assert_eq!(tail.swap(someone(0)), 0);
        lock.release(&place).unwrap();
        assert_eq!(tail.load(), 0, "nobody has it, and nobody can get it");
    }
}
