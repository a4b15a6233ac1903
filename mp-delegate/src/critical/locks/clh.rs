//! Craig's, Landin's and Hagersten's queue lock: a waiting seat looks at its predecessor's node, and takes over that
//! node for the next time.

use std::cell::Cell;

use super::{Lock, NODES, held, node_in, taken_over};
use crate::critical::{
    heal::CLOSED,
    site::{AnyWord, BLOCK, Mortal, Seat, Site, someone, who},
    stop::Stop,
};

/// Index in a node: not 0 until its lock is given up.
const LOCKED: usize = 0;
/// Index in a node: the seat that may sleep until then.
const WAITER: usize = 1;
/// Stands for the tail's word if the seat's own word names no node. It is neither a node nor [`CLOSED`].
const NO_NODE: u64 = NODES;

/// See the module.
#[derive(Debug)]
pub struct Clh {
    tail: usize,
    nodes: usize,
    /// Index of the word that names the seat's node. It stays when another handle takes the seat. 0 stands for the
    /// first node.
    own: usize,
    me: Seat,
    seats: usize,
    /// The node of the previous lock holder, as the tail named it.
    before: Cell<u64>,
    /// The node that was locked last.
    locked: Cell<usize>,
}

impl Clh {
    /// Returns how many words the lock takes: the tail, a node for each seat, a spare node, and a word for each seat.
    pub const fn words(seats: usize) -> usize {
        BLOCK * (2 + 2 * seats)
    }

    /// Creates the access of one seat to the lock whose words begin at `first`.
    pub fn new(first: usize, seats: usize, me: Seat) -> Self {
        let nodes = first + BLOCK;
        let own = nodes + BLOCK * (1 + seats + me);
        Self { tail: first, nodes, own, me, seats, before: Cell::new(0), locked: Cell::new(0) }
    }

    /// Returns the node that a seat has.
    fn node_of<S: Site>(&self, site: &S, seat: Seat) -> Result<usize, Stop> {
        let own = site.word(self.nodes + BLOCK * (1 + self.seats + seat))?.load();
        Ok(if own == 0 { seat + 1 } else { node_in(own) })
    }

    /// Returns the words of a node. Node 0 is the spare one at first; the others are 1 + a seat.
    #[inline(always)]
    fn node<'a, S: Site>(&self, site: &'a S, node: usize) -> Result<&'a [S::Word], Stop> {
        if node > self.seats {
            return Err(Stop::Corrupt);
        }
        site.words(self.nodes + node * BLOCK, 2)
    }

    /// Returns the words of the node that the tail names.
    #[inline(always)]
    fn node_before<'a, S: Site>(&self, site: &'a S, before: u64) -> Result<&'a [S::Word], Stop> {
        self.node(site, (before & NODES) as usize)
    }

    /// Records which node the seat has, and locks that node. Returns the word that was written.
    #[inline(always)]
    fn prepare<S: Site>(&self, site: &S, own: &S::Word) -> Result<u64, Stop> {
        let held = held(own, self.me);
        let node = self.node(site, node_in(held))?;
        own.store_relaxed(held);
        self.locked.set(node_in(held));
        node[WAITER].store_relaxed(0);
        node[LOCKED].store_relaxed(1);
        Ok(held)
    }
}

impl Lock for Clh {
    fn words(&self) -> [usize; 3] {
        [self.tail, self.own, self.own]
    }

    #[inline(always)]
    fn come<S: Site>(&self, site: &S, [tail, own, _]: [&S::Word; 3]) -> Result<(), u64> {
        let held = self.prepare(site, own).map_err(|_| NO_NODE)?;
        let before = tail.swap(held - 1);
        // If the tail is closed or broken, `before` names no node. Then `queue` returns the error.
        let node = self.node_before(site, before).map_err(|_| before)?;
        if node[LOCKED].load() != 0 {
            return Err(before);
        }
        self.before.set(before);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn queue<S: Site>(&self, site: &S, before: u64) -> Result<(), Stop> {
        if before == CLOSED {
            return Err(Stop::Void);
        }
        let node = self.node_before(site, before)?;
        self.before.set(before);
        // The waiter is stored before the last look, so that a seat that gives the lock up afterwards finds it.
        node[WAITER].store(someone(self.me));
        let locked = &node[LOCKED];
        site.wait(self.me, None, locked, || (locked.load() == 0).then_some(()))
    }

    fn try_acquire<S: Site>(&self, site: &S) -> Result<bool, Stop> {
        let tail = site.word(self.tail)?;
        let seen = tail.load();
        if seen == CLOSED || self.node_before(site, seen)?[LOCKED].load() != 0 {
            return Ok(false);
        }
        let held = self.prepare(site, site.word(self.own)?)?;
        // If the tail is unchanged, no seat has used that node since the look.
        if tail.compare_exchange(seen, held - 1).is_err() {
            return Ok(false);
        }
        self.before.set(seen);
        Ok(true)
    }

    /// Gives the lock up whether a seat waits or not. A waiting seat looks at this seat's node, so it only has to be
    /// woken.
    #[inline(always)]
    fn go<S: Site>(&self, site: &S, [_, own, _]: [&S::Word; 3]) -> bool {
        // The error is moved, so that nothing is dropped after a success.
        let node = match self.node(site, self.locked.get()) {
            Ok(node) => node,
            Err(_stop) => return false,
        };
        node[LOCKED].store(0);
        site.fence();
        let waiter = node[WAITER].load_relaxed();
        // The node before belongs to no other seat any more.
        own.store_relaxed(taken_over(self.before.get()));
        if waiter != 0 {
            site.wake(who(waiter));
        }
        true
    }

    /// Fails: there is no node that could be given up.
    #[cold]
    #[inline(never)]
    fn hand_over<S: Site>(&self, _site: &S) -> Result<(), Stop> {
        Err(Stop::Corrupt)
    }

    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop> {
        site.word(self.tail)?.swap(CLOSED);
        Ok(())
    }

    /// Every seat keeps its node, which it may have read already. There is one node more than seats, so one is free.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        let taken =
            (0..self.seats).map(|seat| self.node_of(site, seat)).collect::<Result<Vec<_>, _>>()?;
        let free = (0..=self.seats).find(|node| !taken.contains(node)).ok_or(Stop::Corrupt)?;
        self.node(site, free)?[LOCKED].store_relaxed(0);
        Ok(site.word(self.tail)?.compare_exchange(CLOSED, free as u64).is_ok())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::critical::{
        locks::{give, lock::take_within, take},
        place::Place,
    };

    /// This includes a seat that has the first node, which lies right behind the tail.
    #[test]
    fn a_closed_queue_lets_nobody_in() {
        let (own, place) = (Place::own(2), Place::of_two(Clh::words(2)));
        let (one, holder) = (Clh::new(own, 2, 0), Clh::new(own, 2, 1));
        take(&one, &place, 0, || ()).unwrap();
        give(&one, &place, 0);
        take(&holder, &place, 1, || ()).unwrap();
        holder.close(&place).unwrap();
        let got = one.acquire(&place);
        assert!(matches!(got, Err(Stop::Void)), "{got:?}: two have it");
        place.word(own).unwrap().store(3);
        assert!(matches!(one.acquire(&place), Err(Stop::Corrupt)));
    }

    /// A seat's word that names no node never lets the seat write to another word.
    #[test]
    fn a_broken_word_of_a_seat_is_told() {
        let (own, place) = (Place::own(2), Place::of_two(Clh::words(2)));
        let lock = Clh::new(own, 2, 1);
        let word = place.word(lock.own).unwrap();
        let tail = place.word(own).unwrap();
        for broken in [1 << 24, 4, NODES, u64::MAX] {
            word.store(broken);
            let before = tail.load();
            assert!(matches!(lock.acquire(&place), Err(Stop::Corrupt)), "{broken:#x}");
            assert!(matches!(lock.try_acquire(&place), Err(Stop::Corrupt)), "{broken:#x}");
            assert_eq!((word.load(), tail.load()), (broken, before));
        }
        // A word that breaks while the seat has the lock keeps no seat from taking the lock later.
        word.store(0);
        lock.acquire(&place).unwrap();
        word.store(1 << 24);
        lock.release(&place).unwrap();
        let other = Clh::new(own, 2, 0);
        for lock in [&other, &lock, &other] {
            lock.acquire(&place).unwrap();
            lock.release(&place).unwrap();
        }
    }

    /// A seat that finds a broken word is out of the lock, so that no healer waits for it.
    #[test]
    fn who_finds_a_broken_word_leaves() {
        let (own, place) = (Place::own(2), Place::of_two(Clh::words(2)));
        let lock = Clh::new(own, 2, 1);
        place.word(lock.own).unwrap().store(NODES);
        assert!(matches!(take(&lock, &place, 1, || ()), Err(Stop::Corrupt)));
        assert_eq!(place.mark(1).load(), 0);
        let within = take_within(&lock, &place, 1, None, || ());
        assert!(matches!(within, Err(Stop::Corrupt)), "{within:?}");
        assert_eq!(place.mark(1).load(), 0);
    }

    /// A try never takes a tail that has changed for an unchanged one: not even a seat that has taken the lock very
    /// often writes what another one wrote.
    #[test]
    #[cfg(not(miri))]
    fn no_seat_ever_writes_what_another_one_wrote() {
        let (own, place) = (Place::own(2), Place::of_two(Clh::words(2)));
        let (often, seldom) = (Clh::new(own, 2, 0), Clh::new(own, 2, 1));
        let tail = place.word(own).unwrap();
        let used = |lock: &Clh, me| {
            take(lock, &place, me, || ()).unwrap();
            give(lock, &place, me);
            tail.load()
        };
        let before: Vec<u64> = (0..6).map(|_| used(&seldom, 1)).collect();
        for time in 0..(1 << 20) + 9 {
            let now = used(&often, 0);
            assert!(!before.contains(&now), "{now:#x} again, at time {time}");
        }
    }
}
