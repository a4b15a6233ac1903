//! What becomes of a lock when a rank dies in its code without having it: while it waits, comes, or
//! gives it up. The value is whole; but a queue may end with the dead, or lead through it.
//!
//! So the queue is given up as a whole, and everybody begins again. Whoever finds that somebody died
//! leaves; one of those who left is the *healer*. He
//!
//! 1. says that the queue is void, and *closes* it: who comes from now on finds that it is closed, or
//!    comes behind one who did, and leaves as well;
//! 2. waits until no seat that lives is in the lock's code. Whoever has the lock comes out in his time,
//!    and waits for no successor;
//! 3. makes the words new, forgets the dead, and *reopens* the queue, unless somebody came since it was
//!    closed: then all over again.
//!
//! Whoever left waits until the healer is done. So at step 3 nobody has in mind what the words were, but
//! those who have written to their own node only; and nobody leaves a queue that is not void. A healer
//! that dies is in the lock's code, and another one begins at the beginning.
//!
//! A rank that has the lock when it dies may leave half a value: nobody goes past it.

use super::{Lock, someone, who};
use crate::critical::{
    error::Stop,
    site::{AnyWord, Mortal, Seat, seat},
};

/// In a queue's tail: nobody queues up.
pub(super) const CLOSED: u64 = u64::MAX;

/// Waits until the lock can be used again, or makes it so. The seat has left it.
#[cold]
pub(super) fn heal<S: Mortal, L: Lock>(lock: &L, site: &S, me: Seat) -> Result<(), Stop> {
    loop {
        let turn = site.linger(|| {
            if let Some(lost) = site.lost() {
                return Some(Err(lost));
            }
            // In this order: a healer is there before those who are stuck are forgotten.
            let is_stuck = site.is_stuck() || site.void().load() != 0;
            match site.healer().load() {
                0 if is_stuck => Some(Ok(Some(0))),
                0 => Some(Ok(None)),
                healer if who(healer) >= site.seats() => Some(Err(Stop::Corrupt)),
                healer if site.is_dead(who(healer)) => Some(Ok(Some(healer))),
                _ => None,
            }
        })?;
        let Some(before) = turn else { return Ok(()) };
        // First, so that there is always somebody to look for.
        site.approach(me);
        if site.healer().exchange(before, someone(me)).is_ok() {
            // Another one may have healed it since the look. Nobody but the healer forgets.
            if site.is_stuck() || site.void().load() != 0 {
                renew(lock, site, me)?;
            }
            site.healer().store(0);
            site.leave(me);
            return Ok(());
        }
        site.leave(me);
    }
}

fn renew<S: Mortal, L: Lock>(lock: &L, site: &S, me: Seat) -> Result<(), Stop> {
    loop {
        if L::QUEUES {
            site.void().store(1);
            lock.close(site)?;
            site.wake_all();
            let mut others = (0..site.seats()).filter(|&seat| seat != me);
            others.try_for_each(|seat| until_out(site, seat))?;
        }
        // Before the words are made new: who dies after that is not forgotten.
        forget_the_dead(site, me);
        if L::QUEUES {
            site.void().store(0);
        }
        if lock.reopen(site)? {
            return Ok(());
        }
    }
}

/// Waits until the seat is out of the lock's code, or dead there.
fn until_out(site: &impl Mortal, seat: Seat) -> Result<(), Stop> {
    site.linger(|| {
        if let Some(lost) = site.lost() {
            return Some(Err(lost));
        }
        // In this order: what the dead has said last.
        let is_dead = site.is_dead(seat);
        let mark = site.mark(seat).load();
        (mark == 0 || mark == seat::APPROACHES && is_dead).then_some(Ok(()))
    })
}

fn forget_the_dead(site: &impl Mortal, me: Seat) {
    let is_left = |&seat: &Seat| {
        seat != me && site.is_dead(seat) && site.mark(seat).load() == seat::APPROACHES
    };
    (0..site.seats()).filter(is_left).for_each(|seat| site.mark(seat).store(0));
}
