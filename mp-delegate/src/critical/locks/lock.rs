//! The operations of all locks, and how a seat takes a lock and gives it up where ranks may die.

use crate::critical::{
    heal::{Ward, heal},
    site::{AnyWord, Limit, Mortal, Seat, Site, seat},
    stop::Stop,
};

/// The operations of all locks. A value is one seat's view of the lock: only the words are shared.
pub(in crate::critical) trait Lock {
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
pub(in crate::critical) fn come<S: Site>(
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
pub(in crate::critical) fn go<S: Site, L: Lock>(
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
pub(in crate::critical) fn take_behind<S: Mortal>(
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
    match taken {
        Ok(()) => {
            site.enter(me);
            Ok(())
        }
        Err(stop) => Err(given_up(site, me, stop)),
    }
}

/// Takes out of the lock a seat that can't take it, so that no healer waits for the seat.
#[cold]
fn given_up<S: Mortal>(site: &S, me: Seat, stop: Stop) -> Stop {
    site.leave(me);
    stop
}

/// Gives up a lock that [`go`] could not give up. Does not report a broken lock, because the next seat that takes it
/// will find that.
#[cold]
#[inline(never)]
pub(in crate::critical) fn hand_over<S: Mortal, L: Lock>(lock: &L, site: &S, me: Seat) {
    if L::TERSE {
        site.approach(me);
    }
    _ = lock.hand_over(site);
    site.leave(me);
}

/// Takes the lock, with the steps that [`Quick`](super::quick::Quick) takes on words that it has found once.
#[cfg(test)]
pub(in crate::critical) fn take<S: Mortal>(
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
pub(in crate::critical) fn give<S: Mortal>(lock: &impl Lock, site: &S, me: Seat) {
    let words = words(lock, site).expect("it has words");
    if !go(lock, site, site.mark(me), words) {
        hand_over(lock, site, me);
    }
}

/// Takes the lock if no other seat has it or waits for it, now or before the limit is over. Skips dead seats as long as
/// no other seat is in the way. Returns whether it took the lock.
#[inline(never)]
pub(in crate::critical) fn take_within<S: Mortal, L: Lock>(
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
            Err(stop) => return Err(given_up(site, me, stop)),
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
