//! Craig's, Landin's and Hagersten's queue lock: who waits looks at its predecessor's node, and
//! takes it over for the next time.

use super::{Lock, someone, who};
use crate::critical::{
    error::Stop,
    heal::CLOSED,
    site::{AnyWord, BLOCK, Mortal, Seat, Site},
};

/// In a node: not 0 until its lock is given up.
const LOCKED: usize = 0;
/// Who may sleep until then.
const WAITER: usize = 1;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::critical) struct Clh {
    tail: usize,
    nodes: usize,
    /// The node that the seat has, also when another handle takes the seat: 0 for its first one.
    own: usize,
    me: Seat,
    seats: usize,
    /// Of whoever had the lock before.
    before: usize,
}

impl Clh {
    /// The tail, a node for each seat, one that nobody has, and a word for each seat.
    pub(in crate::critical) const fn words(seats: usize) -> usize {
        BLOCK * (2 + 2 * seats)
    }

    pub(in crate::critical) fn new(first: usize, seats: usize, me: Seat) -> Self {
        let nodes = first + BLOCK;
        let own = nodes + BLOCK * (1 + seats + me);
        Self { tail: first, nodes, own, me, seats, before: 0 }
    }

    /// The node that a seat has.
    fn node_of<S: Site>(&self, site: &S, seat: Seat) -> Result<usize, Stop> {
        let own = site.word(self.nodes + BLOCK * (1 + self.seats + seat))?.load();
        Ok(if own == 0 { seat + 1 } else { who(own) })
    }

    /// Nodes are 1 + a seat at first, and 0 is the one that nobody has.
    fn node(&self, node: usize) -> usize {
        self.nodes.wrapping_add(node.wrapping_mul(BLOCK))
    }
}

impl Lock for Clh {
    #[inline(always)]
    fn acquire<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        let own = site.word(self.own)?;
        if own.peek() == 0 {
            own.set(someone(self.me + 1));
        }
        let mine = who(own.peek());
        let node = site.words(self.node(mine), 2)?;
        node[WAITER].set(0);
        node[LOCKED].set(1);
        let before = site.word(self.tail)?.swap(mine as u64);
        if before > self.seats as u64 {
            return Err(if before == CLOSED { Stop::Void } else { Stop::Corrupt });
        }
        self.before = before as usize;
        let [locked, waiter] = site.words(self.node(self.before), 2)? else {
            return Err(Stop::Corrupt);
        };
        if locked.load() == 0 {
            return Ok(());
        }
        // Before the last look: whoever gives the lock up afterwards finds it.
        waiter.store(someone(self.me));
        site.wait(self.me, None, locked, || (locked.load() == 0).then_some(()))
    }

    #[inline(always)]
    fn release<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        let own = site.word(self.own)?;
        let node = site.words(self.node(who(own.peek())), 2)?;
        node[LOCKED].store(0);
        site.fence();
        let waiter = node[WAITER].peek();
        // The node before is nobody's any more.
        own.set(someone(self.before));
        if waiter != 0 {
            site.wake(who(waiter));
        }
        Ok(())
    }

    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop> {
        site.word(self.tail)?.swap(CLOSED);
        Ok(())
    }

    /// Everybody keeps his node, of which he may know already. There is one more than seats, so one
    /// that nobody has.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        let taken =
            (0..self.seats).map(|seat| self.node_of(site, seat)).collect::<Result<Vec<_>, _>>()?;
        let free = (0..=self.seats).find(|node| !taken.contains(node)).ok_or(Stop::Corrupt)?;
        site.word(self.node(free) + LOCKED)?.set(0);
        Ok(site.word(self.tail)?.exchange(CLOSED, free as u64).is_ok())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::World;

    use super::*;
    use crate::critical::{
        locks::{give, take},
        site::{OBJECTS, Place, open_region},
    };

    /// Also to a seat that has the first node, which lies right behind the tail.
    #[test]
    fn a_closed_queue_lets_nobody_in() {
        let rank = World::solo().unwrap();
        let own = Place::own(2);
        let place =
            Place::new(open_region(&rank, OBJECTS, "lock", own + Clh::words(2), 0).unwrap(), 2);
        let (mut one, mut holder) = (Clh::new(own, 2, 0), Clh::new(own, 2, 1));
        take(&mut one, &place, 0, || ()).unwrap();
        give(&mut one, &place, 0);
        take(&mut holder, &place, 1, || ()).unwrap();
        holder.close(&place).unwrap();
        let got = one.acquire(&place);
        assert!(matches!(got, Err(Stop::Void)), "{got:?}: two have it");
        place.word(own).unwrap().store(3);
        assert!(matches!(one.acquire(&place), Err(Stop::Corrupt)));
    }
}
