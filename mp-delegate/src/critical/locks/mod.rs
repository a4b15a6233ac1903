//! Locks: operations are executed by whoever asks for them, one after another.

pub(super) mod clh;
mod heal;
pub(super) mod hyb;
pub(super) mod mcs;
#[cfg(all(test, loom))]
mod model;
pub(super) mod tas;

use super::{
    error::Stop,
    site::{Mortal, Seat, Site},
};

/// What all locks do. A lock is one seat's view of it: nothing is shared but the words.
pub(super) trait Lock {
    /// Whether it says by itself when it has the lock and when it does not: all that it can do
    /// without a store in the way of those for whom it is free. Who dies there is taken for one that
    /// has it.
    const TERSE: bool = false;

    /// Whether those who wait have places, which the dead may leave empty.
    const QUEUES: bool = true;

    /// Waits until nobody else has it. [`Stop::Void`]: somebody died in the queue, and the seat's place
    /// in it is given up.
    fn acquire<S: Site>(&mut self, site: &S) -> Result<(), Stop>;

    /// Gives it to the next, if there is one. `Void` as above: it is given up.
    fn release<S: Site>(&mut self, site: &S) -> Result<(), Stop>;

    /// Whoever comes finds it closed. See `heal.rs`.
    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop>;

    /// Makes everything new; false if somebody came since it was closed.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop>;
}

/// Waits until the seat has the lock, past those who die in the queue.
#[inline(always)]
pub(super) fn take<S: Mortal, L: Lock>(lock: &mut L, site: &S, me: Seat) -> Result<(), Stop> {
    if L::TERSE {
        site.enter(me);
    } else {
        site.approach(me);
    }
    if let Err(stop) = lock.acquire(site) {
        take_again(lock, site, me, stop)?;
    }
    if !L::TERSE {
        site.enter(me);
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn take_again<S: Mortal, L: Lock>(
    lock: &mut L,
    site: &S,
    me: Seat,
    mut stop: Stop,
) -> Result<(), Stop> {
    while let Stop::Void = stop {
        site.leave(me);
        heal::heal(lock, site, me)?;
        site.approach(me);
        match lock.acquire(site) {
            Err(another) => stop = another,
            acquired => {
                if L::TERSE {
                    site.enter(me);
                }
                return acquired;
            }
        }
    }
    Err(stop)
}

/// Gives it up. What is wrong with the lock is found by the next who takes it.
#[inline(always)]
pub(super) fn give<S: Mortal, L: Lock>(lock: &mut L, site: &S, me: Seat) {
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
    lock: &mut impl Lock,
    site: &S,
    me: Seat,
    run: impl FnOnce() -> T,
) -> Result<T, Stop> {
    take(lock, site, me)?;
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

/// With the hybrid lock a guard is taken and given up in the caller's own code; the others are a
/// call away, since all of them together would leave nothing of it inlined.
impl AnyLock {
    /// See [`take`].
    #[inline(always)]
    pub(super) fn take<S: Mortal>(&mut self, site: &S, me: Seat) -> Result<(), Stop> {
        if let Self::Hyb(lock) = self { take(lock, site, me) } else { self.take_other(site, me) }
    }

    /// See [`give`].
    #[inline(always)]
    pub(super) fn give<S: Mortal>(&mut self, site: &S, me: Seat) {
        if let Self::Hyb(lock) = self { give(lock, site, me) } else { self.give_other(site, me) }
    }

    #[inline(never)]
    fn take_other<S: Mortal>(&mut self, site: &S, me: Seat) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => take(lock, site, me),
            Self::Mcs(lock) => take(lock, site, me),
            Self::Clh(lock) => take(lock, site, me),
            Self::Hyb(lock) => take(lock, site, me),
        }
    }

    #[inline(never)]
    fn give_other<S: Mortal>(&mut self, site: &S, me: Seat) {
        match self {
            Self::Tas(lock) => give(lock, site, me),
            Self::Mcs(lock) => give(lock, site, me),
            Self::Clh(lock) => give(lock, site, me),
            Self::Hyb(lock) => give(lock, site, me),
        }
    }

    /// Where nobody dies: in simulations.
    #[cfg(all(feature = "simulated", not(loom)))]
    pub(super) fn acquire<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => lock.acquire(site),
            Self::Mcs(lock) => lock.acquire(site),
            Self::Clh(lock) => lock.acquire(site),
            Self::Hyb(lock) => lock.acquire(site),
        }
    }

    /// As `acquire`.
    #[cfg(all(feature = "simulated", not(loom)))]
    pub(super) fn release<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => lock.release(site),
            Self::Mcs(lock) => lock.release(site),
            Self::Clh(lock) => lock.release(site),
            Self::Hyb(lock) => lock.release(site),
        }
    }
}

/// 1 + a seat in a word; 0 is nobody.
pub(super) fn someone(seat: Seat) -> u64 {
    (seat as u64).wrapping_add(1)
}

/// Who is meant by a word that is not 0. For 0, a seat that there can't be.
pub(super) fn who(word: u64) -> Seat {
    word.wrapping_sub(1) as usize
}
