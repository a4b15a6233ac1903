//! Locks: operations are executed by whoever asks for them, one after another.

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

/// What all locks do. A lock is one seat's view of it: nothing is shared but the words.
pub(super) trait Lock {
    /// Whether it says by itself when it does not have the lock any more, and where nobody waits for it
    /// does not: who dies as it gives it up is taken for one that has it.
    const TERSE: bool = false;

    /// Whether those who wait have places, which the dead may leave empty.
    const QUEUES: bool = true;

    /// Waits until nobody else has it. [`Stop::Void`]: somebody died in the queue, and the seat's place
    /// in it is given up.
    fn acquire<S: Site>(&self, site: &S) -> Result<(), Stop>;

    /// Takes it if nobody has it or waits for it; whether it did.
    fn try_acquire<S: Site>(&self, site: &S) -> Result<bool, Stop>;

    /// Gives it to the next, if there is one. `Void` as above: it is given up.
    fn release<S: Site>(&self, site: &S) -> Result<(), Stop>;

    /// Whoever comes from now on finds it closed. See `heal.rs`.
    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop>;

    /// Makes everything new; false if somebody came since it was closed.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop>;
}

/// Waits until the seat has the lock, past those who die. After one that had it the value is to be
/// repaired.
#[inline(always)]
pub(super) fn take<S: Mortal, L: Lock>(
    lock: &L,
    site: &S,
    me: Seat,
    repair: impl FnMut(),
) -> Result<(), Stop> {
    let mark = site.come(me);
    if let Err(stop) = lock.acquire(site) {
        take_again(lock, site, me, stop, repair)?;
    }
    // Before what is written to the value, for those who find this rank dead.
    mark.note(seat::ENTERED);
    Ok(())
}

/// Takes the lock if nobody has it or waits for it, now or before the limit is over, past those who died as far as
/// nobody else is in their way. Whether it did.
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

/// [`take`] of a hybrid lock behind another seat.
#[cold]
#[inline(never)]
pub(super) fn take_behind<S: Mortal>(
    lock: &hyb::Hyb,
    site: &S,
    (me, before): (Seat, u64),
    repair: impl FnMut(),
) -> Result<(), Stop> {
    if let Err(stop) = lock.queue(site, before) {
        take_again(lock, site, me, stop, repair)?;
    }
    site.enter(me);
    Ok(())
}

#[cold]
#[inline(never)]
fn take_again<S: Mortal, L: Lock>(
    lock: &L,
    site: &S,
    me: Seat,
    mut stop: Stop,
    mut repair: impl FnMut(),
) -> Result<(), Stop> {
    while let Stop::Void = stop {
        heal(&mut Guarded { lock, repair: &mut repair }, site, me, false, None)?;
        site.approach(me);
        match lock.acquire(site) {
            Err(another) => stop = another,
            acquired => return acquired,
        }
    }
    Err(stop)
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

/// Gives it up. What is wrong with the lock is found by the next who takes it.
#[inline(always)]
pub(super) fn give<S: Mortal, L: Lock>(lock: &L, site: &S, me: Seat) {
    if !L::TERSE {
        site.approach(me);
    }
    if let Ok(()) | Err(Stop::Void) = lock.release(site) {
        site.leave(me);
    }
}

/// Executes an operation with the lock.
#[inline(always)]
pub(super) fn locked<S: Mortal, T>(
    lock: &impl Lock,
    site: &S,
    me: Seat,
    repair: impl FnMut(),
    run: impl FnOnce() -> T,
) -> Result<T, Stop> {
    take(lock, site, me, repair)?;
    let result = run();
    give(lock, site, me);
    Ok(result)
}

/// A lock of some kind.
#[derive(Debug)]
pub(super) enum AnyLock {
    Tas(tas::Tas),
    Mcs(mcs::Mcs),
    Clh(clh::Clh),
    Hyb(hyb::Hyb),
}

impl AnyLock {
    /// See [`take`].
    pub(super) fn take<S: Mortal>(
        &self,
        site: &S,
        me: Seat,
        repair: impl FnMut(),
    ) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => take(lock, site, me, repair),
            Self::Mcs(lock) => take(lock, site, me, repair),
            Self::Clh(lock) => take(lock, site, me, repair),
            Self::Hyb(lock) => take(lock, site, me, repair),
        }
    }

    /// See [`take_within`].
    pub(super) fn take_within<S: Mortal>(
        &self,
        site: &S,
        me: Seat,
        limit: Option<&Limit>,
        repair: impl FnMut(),
    ) -> Result<bool, Stop> {
        match self {
            Self::Tas(lock) => take_within(lock, site, me, limit, repair),
            Self::Mcs(lock) => take_within(lock, site, me, limit, repair),
            Self::Clh(lock) => take_within(lock, site, me, limit, repair),
            Self::Hyb(lock) => take_within(lock, site, me, limit, repair),
        }
    }

    /// See [`give`].
    pub(super) fn give<S: Mortal>(&self, site: &S, me: Seat) {
        match self {
            Self::Tas(lock) => give(lock, site, me),
            Self::Mcs(lock) => give(lock, site, me),
            Self::Clh(lock) => give(lock, site, me),
            Self::Hyb(lock) => give(lock, site, me),
        }
    }

    /// Where nobody dies: in simulations.
    #[cfg(all(feature = "simulated", not(loom)))]
    pub(super) fn acquire<S: Site>(&self, site: &S) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => lock.acquire(site),
            Self::Mcs(lock) => lock.acquire(site),
            Self::Clh(lock) => lock.acquire(site),
            Self::Hyb(lock) => lock.acquire(site),
        }
    }

    /// As `acquire`.
    #[cfg(all(feature = "simulated", not(loom)))]
    pub(super) fn release<S: Site>(&self, site: &S) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => lock.release(site),
            Self::Mcs(lock) => lock.release(site),
            Self::Clh(lock) => lock.release(site),
            Self::Hyb(lock) => lock.release(site),
        }
    }
}

/// In a word that names a node: the node. Above it is the number of the node's use, which whoever uses the node next
/// takes over with it and counts up. So whoever finds the word unchanged knows that nobody has used the node since,
/// unless it was used 2⁴⁰ times.
pub(super) const NODES: u64 = (1 << 24) - 1;
const USE: u64 = NODES + 1;

/// The most seats for which such words have room: nodes are numbered up to the seats, a seat's word has 1 + a node, and
/// [`CLOSED`](super::heal::CLOSED) is no node.
pub(super) const MOST_SEATS: usize = NODES as usize - 2;

/// The word of a seat, which has 1 + the node that the seat has: also when another handle takes the seat. At first that
/// is the seat's, after node 0.
#[inline(always)]
pub(super) fn held(own: &impl AnyWord, me: Seat) -> u64 {
    let held = own.peek();
    if held == 0 { someone(me + 1) } else { held }
}

/// The word of a seat that takes over a node, whose use before was `named` in the tail.
#[inline(always)]
pub(super) fn taken_over(named: u64) -> u64 {
    // The node does not fill its bits, and the number wraps at the word's end: nothing carries.
    named.wrapping_add(USE) + 1
}

/// The node in a seat's word.
#[inline(always)]
pub(super) fn node_in(held: u64) -> usize {
    who(held & NODES)
}

/// 1 + a seat in a word; 0 is nobody.
pub(super) fn someone(seat: Seat) -> u64 {
    (seat as u64).wrapping_add(1)
}

/// Who is meant by a word that is not 0. For 0, a seat that there can't be.
pub(super) fn who(word: u64) -> Seat {
    word.wrapping_sub(1) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::critical::heal::CLOSED;

    /// A node goes from seat to seat and is used as often as there are numbers: no two of the words that say so in the
    /// tail are equal, and none is that of another node.
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
