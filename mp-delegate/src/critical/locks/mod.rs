//! Locks: each rank executes the operations that it asks for, one rank after another.
//!
//! A try takes the last place of an empty queue by a compare-and-swap, and otherwise no place. A wait with a limit
//! tries again and again: it leaves nothing behind when it gives up, but others overtake it. Words that name nodes also
//! number the nodes' uses, so that a node that has come back is not taken for one that was never gone.

pub(super) mod clh;
pub(super) mod hyb;
pub(super) mod mcs;
#[cfg(all(test, loom))]
mod model;
pub(super) mod quick;
pub(super) mod tas;

use super::{
    error::Stop,
    heal::{Ward, heal},
    site::{AnyWord, Limit, Mortal, Seat, Site, seat},
};

/// The operations of all locks. A value is one seat's view of the lock: only the words are shared.
pub(super) trait Lock {
    /// Whether a seat keeps its mark, which says that it has the lock, while it gives up a lock for which no other seat
    /// waits. A seat that dies in that step is treated as the lock holder.
    const TERSE: bool = false;

    /// Whether waiting seats have places, which dead seats may leave empty.
    const QUEUES: bool = true;

    /// Returns the words that the seat looks at each time that it takes the lock or gives it up: the lock's own, and
    /// two of the seat's, if it has as many.
    fn words(&self) -> [usize; 3];

    /// Takes the lock if no other seat has it. Otherwise takes a place in the queue, if there is one, and returns what
    /// [`queue`](Self::queue) needs. A closed queue and broken words are returned in the same way. `words` are those of
    /// [`words`](Self::words).
    fn come<S: Site>(&self, site: &S, words: [&S::Word; 3]) -> Result<(), u64>;

    /// Waits for the lock behind `before`, which [`come`](Self::come) has returned. Returns [`Stop::Void`] when a rank
    /// died in the queue. The seat's place in it is given up then.
    fn queue<S: Site>(&self, site: &S, before: u64) -> Result<(), Stop>;

    /// Takes the lock if no other seat has it or waits for it. Returns whether it did.
    fn try_acquire<S: Site>(&self, site: &S) -> Result<bool, Stop>;

    /// Gives the lock up in one step, and returns whether nothing is left to do. In most cases that is so if no other
    /// seat waits.
    fn go<S: Site>(&self, site: &S, words: [&S::Word; 3]) -> bool;

    /// Does what [`go`](Self::go) has left to do. In most cases this gives the lock to the next seat in the queue.
    /// After [`Stop::Void`] the lock is given up as well.
    fn hand_over<S: Site>(&self, site: &S) -> Result<(), Stop>;

    /// Closes the lock: seats that come from now on find it closed. See `heal.rs`.
    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop>;

    /// Resets everything. Returns false if a seat came since the lock was closed.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop>;

    /// Takes the lock, and waits while another seat has it.
    #[inline(always)]
    fn acquire<S: Site>(&self, site: &S) -> Result<(), Stop> {
        match self.come(site, words(self, site)?) {
            Ok(()) => Ok(()),
            Err(before) => self.queue(site, before),
        }
    }

    /// Gives the lock up, whether another seat waits or not. Changes no mark: at a site where ranks die, use the
    /// functions [`go`] and [`hand_over`].
    #[inline(always)]
    fn release<S: Site>(&self, site: &S) -> Result<(), Stop> {
        if self.go(site, words(self, site)?) { Ok(()) } else { self.hand_over(site) }
    }
}

/// Finds the words of a lock.
#[inline(always)]
fn words<'a, S: Site>(lock: &(impl Lock + ?Sized), site: &'a S) -> Result<[&'a S::Word; 3], Stop> {
    let [lock, first, second] = lock.words();
    Ok([site.word(lock)?, site.word(first)?, site.word(second)?])
}

/// Marks the seat as arriving, and takes the lock if no other seat has it. Otherwise returns what [`take_behind`]
/// needs.
#[inline(always)]
pub(super) fn come<S: Site>(
    lock: &impl Lock,
    site: &S,
    mark: &S::Word,
    words: [&S::Word; 3],
) -> Result<(), u64> {
    mark.store(seat::APPROACHES);
    lock.come(site, words)?;
    // This comes before anything is written to the value, for seats that find this rank dead.
    mark.note(seat::ENTERED);
    Ok(())
}

/// Gives the lock up in one step, and returns whether that was possible. If not, the caller calls [`hand_over`].
#[inline(always)]
pub(super) fn go<S: Site, L: Lock>(
    lock: &L,
    site: &S,
    mark: &S::Word,
    words: [&S::Word; 3],
) -> bool {
    if !L::TERSE {
        mark.store(seat::APPROACHES);
    }
    let is_gone = lock.go(site, words);
    if is_gone {
        mark.store(0);
    }
    is_gone
}

/// Waits for the lock behind `before`, which [`come`] has returned. Heals the lock after a death, and calls `repair` if
/// the dead seat had the value.
#[cold]
#[inline(never)]
pub(super) fn take_behind<S: Mortal>(
    lock: &impl Lock,
    site: &S,
    (me, before): (Seat, u64),
    mut repair: impl FnMut(),
) -> Result<(), Stop> {
    let mut taken = lock.queue(site, before);
    while let Err(Stop::Void) = taken {
        heal(&mut Guarded { lock, repair: &mut repair }, site, me, false, None)?;
        site.approach(me);
        taken = lock.acquire(site);
    }
    taken?;
    site.enter(me);
    Ok(())
}

/// Gives up a lock that [`go`] could not give up. Does not report a broken lock: the next seat that takes it finds
/// that.
#[cold]
#[inline(never)]
pub(super) fn hand_over<S: Mortal, L: Lock>(lock: &L, site: &S, me: Seat) {
    if L::TERSE {
        site.approach(me);
    }
    if let Ok(()) | Err(Stop::Void) = lock.hand_over(site) {
        site.leave(me);
    }
}

/// Takes the lock, with the steps that [`Quick`](quick::Quick) takes on words that it has found once.
#[cfg(test)]
pub(super) fn take<S: Mortal>(
    lock: &impl Lock,
    site: &S,
    me: Seat,
    repair: impl FnMut(),
) -> Result<(), Stop> {
    match come(lock, site, site.mark(me), words(lock, site)?) {
        Ok(()) => Ok(()),
        Err(before) => take_behind(lock, site, (me, before), repair),
    }
}

/// Gives up the lock, after [`take`].
#[cfg(test)]
pub(super) fn give<S: Mortal>(lock: &impl Lock, site: &S, me: Seat) {
    let words = words(lock, site).expect("it has words");
    if !go(lock, site, site.mark(me), words) {
        hand_over(lock, site, me);
    }
}

/// Takes the lock if no other seat has it or waits for it, now or before the limit is over. Skips dead seats as long as
/// no other seat is in the way. Returns whether it took the lock.
#[inline(never)]
pub(super) fn take_within<S: Mortal, L: Lock>(
    lock: &L,
    site: &S,
    me: Seat,
    limit: Option<&Limit>,
    mut repair: impl FnMut(),
) -> Result<bool, Stop> {
    loop {
        let mark = site.come(me);
        let took = || Ok(lock.try_acquire(site)?.then_some(()));
        match site.attempt(me, limit, took) {
            Ok(Some(())) => {
                mark.note(seat::ENTERED);
                return Ok(true);
            }
            Ok(None) => {
                site.leave(me);
                return Ok(false);
            }
            Err(Stop::Void) => {
                let limit = *limit.unwrap_or(&Limit::at_once());
                let lock = &mut Guarded { lock, repair: &mut repair };
                if !heal(lock, site, me, false, Some(&limit))? {
                    return Ok(false);
                }
            }
            Err(stop) => return Err(stop),
        }
    }
}

/// A lock, and the value behind it.
struct Guarded<'a, L, R> {
    lock: &'a L,
    repair: R,
}

impl<S: Mortal, L: Lock, R: FnMut()> Ward<S> for Guarded<'_, L, R> {
    const QUEUES: bool = L::QUEUES;

    fn close(&mut self, site: &S) -> Result<bool, Stop> {
        self.lock.close(site).map(|()| true)
    }

    fn repair(&mut self, _site: &S, _request: u64) -> Result<(), Stop> {
        (self.repair)();
        Ok(())
    }

    fn reopen(&mut self, site: &S) -> Result<bool, Stop> {
        self.lock.reopen(site)
    }
}

/// Does something with a lock of any kind.
macro_rules! with_lock {
    ($any:expr, $lock:ident => $what:expr) => {
        match $any {
            AnyLock::Tas($lock) => $what,
            AnyLock::Mcs($lock) => $what,
            AnyLock::Clh($lock) => $what,
            AnyLock::Hyb($lock) => $what,
        }
    };
}
pub(super) use with_lock;

/// A lock of some kind.
#[derive(Debug)]
pub enum AnyLock {
    /// A test-and-set lock.
    Tas(tas::Tas),
    /// An MCS lock.
    Mcs(mcs::Mcs),
    /// A CLH lock.
    Clh(clh::Clh),
    /// HYBLOCK.
    Hyb(hyb::Hyb),
}

impl AnyLock {
    /// See [`Lock::words`].
    pub(super) fn words(&self) -> [usize; 3] {
        with_lock!(self, lock => lock.words())
    }

    /// See [`take_within`].
    pub(super) fn take_within<S: Mortal>(
        &self,
        site: &S,
        me: Seat,
        limit: Option<&Limit>,
        repair: impl FnMut(),
    ) -> Result<bool, Stop> {
        with_lock!(self, lock => take_within(lock, site, me, limit, repair))
    }

    /// Takes the lock at a site where no rank dies: in simulations.
    #[cfg(feature = "internals")]
    pub fn acquire<S: Site>(&self, site: &S) -> Result<(), Stop> {
        with_lock!(self, lock => lock.acquire(site))
    }

    /// Gives the lock up, under the same condition as `acquire`.
    #[cfg(feature = "internals")]
    pub fn release<S: Site>(&self, site: &S) -> Result<(), Stop> {
        with_lock!(self, lock => lock.release(site))
    }
}

/// The part of a word that names a node. Above it is the number of the node's use. The next user of the node takes over
/// this number and counts it up. So a seat that finds the word unchanged knows that no other seat has used the node
/// since, unless it was used 2⁴⁰ times.
pub(super) const NODES: u64 = (1 << 24) - 1;
const USE: u64 = NODES + 1;

/// The most seats for which such words have room. Nodes are numbered up to the seats, a seat's word has 1 + a node, and
/// [`CLOSED`](super::heal::CLOSED) is no node.
pub(super) const MOST_SEATS: usize = NODES as usize - 2;

/// Returns the word of a seat, which is 1 + the seat's node. It stays when another handle takes the seat. At first the
/// node is 1 + the seat, because node 0 is the spare one.
#[inline(always)]
pub(super) fn held(own: &impl AnyWord, me: Seat) -> u64 {
    let held = own.load_relaxed();
    if held == 0 { someone(me + 1) } else { held }
}

/// Returns the word of a seat that takes over a node, whose previous use was `named` in the tail.
#[inline(always)]
pub(super) fn taken_over(named: u64) -> u64 {
    // The node does not fill its bits, and the number wraps at the word's end: nothing carries.
    named.wrapping_add(USE) + 1
}

/// Returns the node in a seat's word.
#[inline(always)]
pub(super) fn node_in(held: u64) -> usize {
    who(held & NODES)
}

/// Returns 1 + a seat, as it is in a word; 0 means no seat.
pub(super) fn someone(seat: Seat) -> u64 {
    (seat as u64).wrapping_add(1)
}

/// Returns the seat in a word that is not 0. For 0, returns a seat that cannot exist.
pub(super) fn who(word: u64) -> Seat {
    word.wrapping_sub(1) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::critical::heal::CLOSED;

    /// A node goes from seat to seat and is used as often as there are numbers. No two of the words for it in the tail
    /// are equal, and none is that of another node.
    #[test]
    fn each_use_of_a_node_has_its_own_word() {
        for node in [0, 1, MOST_SEATS - 1, MOST_SEATS] {
            for number in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 40) - 2, (1 << 40) - 1] {
                let named = number << 24 | node as u64;
                let held = taken_over(named);
                let again = held - 1;
                assert_ne!(named, CLOSED);
                assert_eq!((node_in(held), again & NODES), (node, node as u64), "{named:#x}");
                assert_eq!(again >> 24, (number + 1) % (1 << 40), "{named:#x}");
            }
        }
    }
}
