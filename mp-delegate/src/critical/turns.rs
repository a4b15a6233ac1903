//! Turns of ranks that share cores, with each other or with other programs: one rank has its operations executed for a
//! while, and the others let it.
//!
//! A rank that queued up beside the running one would be given the lock while it does not run. It would then keep the
//! lock from all others until it runs, at the price of two context switches for each operation. Two running ranks would
//! take the lock and its cache lines from each other all the time. Therefore a rank that finds another rank's turn
//! sleeps for a short time. It takes the turn when the other rank has no pending operation, and otherwise after some
//! time in any case.
//!
//! Turns are taken where the world has more ranks than cores. Elsewhere they are taken for a while after a wait that
//! shows that other threads use the ranks' cores:
//! - The operating system has taken the core from the waiter.
//! - The wait was for a lock and took so much longer than is usual for this object that the seat it waited for can't
//!   have been running. Each handle learns the usual time by measuring some of its waits.
//!
//! The length of this period follows from how long the wait took. The period gets longer each time such a wait comes
//! soon after the last period. So other programs on the ranks' cores cost only a few long waits, and ranks that all run
//! at the same time again soon queue up again.
//!
//! Turns affect only timing. Therefore their words are written without synchronization, and a dead rank may have the
//! turn.

use std::{thread::yield_now, time::Duration};

use nix::sys::resource::{UsageWho, getrusage};

use super::{
    place::{Place, head},
    site::{Seat, Site, Word, seat},
};
use crate::trace::now;

/// The number of looks before the first nap. It applies where ranks share cores and other ranks run between looks: the
/// rank that has the turn may be about to end it. If another program uses the core, each look would take as long as the
/// operating system lets that program run.
const LOOKS: u32 = 3;
/// The naps between further looks, in microseconds. Together they last a few time slices of the operating system. The
/// naps make no progress on the rank's pending requests, which wait no longer than this.
const NAPS: [u64; 6] = [50, 100, 200, 400, 400, 400];

/// Turns are taken for this many times as long as the seat waited.
const WHILE: u64 = 16;
/// A long wait comes soon after a period of turns if the time between them is at most this many times the period.
const SOON: u64 = 4;
/// The most nanoseconds for which turns are taken before the ranks try again without turns.
const MOST: u64 = 250_000_000;
/// The number of operations between two looks at the clock.
const OPERATIONS: u32 = 64;

/// The observation of one wait. For most waits it only counts looks.
#[derive(Debug, Default)]
pub(super) struct Observed {
    looks: u32,
    measured: bool,
    /// The time when the clock was first read; 0 if it was not read.
    began: u64,
    /// How often the core had been taken from this thread after the first looks.
    preemptions: i64,
}

impl Observed {
    /// Observes a look that found nothing.
    #[inline(always)]
    pub(super) fn look(&mut self, place: &Place) {
        if self.looks == 0 {
            self.measured = place.waits.in_queue && place.waits.next();
        }
        if self.looks == 0 && self.measured || self.looks == place.waits.few && !self.measured {
            self.began = now();
        }
        if self.looks == place.waits.few {
            self.preemptions = preemptions();
        }
        self.looks = self.looks.saturating_add(1);
    }

    #[inline(always)]
    pub(super) fn end(self, place: &Place, me: Seat) {
        if self.began != 0 {
            self.judge(place, me);
        }
    }

    #[cold]
    #[inline(never)]
    fn judge(self, place: &Place, me: Seat) {
        let now = now();
        let took = now.saturating_sub(self.began);
        // A seat that waits outside of operations waits for another operation to come.
        let inside = place.seat(me)[seat::MARK].load_relaxed() != 0;
        let is_shared = || place.waits.is_long(took) || preemptions() > self.preemptions;
        if inside && self.looks > place.waits.few && is_shared() {
            go_over(place, now, took);
        }
        if self.measured {
            place.waits.measured(took);
        }
    }
}

/// Returns how often the operating system has taken the core from this thread for another one.
fn preemptions() -> i64 {
    if cfg!(miri) {
        // Miri has no such call, and takes the core from no thread.
        return 0;
    }
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// Makes seats take turns for a while from now on.
fn go_over(place: &Place, now: u64, waited: u64) {
    let [until, time, end] =
        [head::TURNS, head::TURNS_TIME, head::TURNS_END].map(|at| place.head(at));
    if until.load_relaxed() > now {
        return;
    }
    let (before, ended) = (time.load_relaxed(), end.load_relaxed());
    let soon = now.saturating_sub(ended) < before.saturating_mul(SOON);
    let least = if soon { before.saturating_mul(2) } else { 0 };
    let length = waited.saturating_mul(WHILE).max(least).min(MOST);
    time.store_relaxed(length);
    until.store_relaxed(now.saturating_add(length));
}

/// Returns whether turns are taken.
#[inline(always)]
pub(super) fn are_taken(place: &Place, until: &Word) -> bool {
    until.load_relaxed() != 0 || !place.spins()
}

/// Ends the period of turns if its time is over.
#[cold]
#[inline(never)]
fn look_at_the_clock(place: &Place) {
    let until = place.head(head::TURNS);
    let end = until.load_relaxed();
    if end != 0 && now() >= end {
        place.head(head::TURNS_END).store_relaxed(end);
        until.store_relaxed(0);
    }
}

/// A turn, which lasts until this value is dropped.
pub(super) struct Turn<'a>(&'a Place, Seat);

impl<'a> Turn<'a> {
    #[inline(always)]
    pub(super) fn take(place: &'a Place, me: Seat) -> Self {
        place.take_turn(me);
        Self(place, me)
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end_turn(self.1);
    }
}

/// Called before an operation of a seat. `turn` is the word that says whose turn it is.
#[inline(always)]
pub(super) fn take(place: &Place, turn: &Word, me: Seat) {
    let waits = &place.waits;
    waits.has_turn.set(true);
    let operations = waits.operations.get().wrapping_add(1);
    waits.operations.set(operations);
    let (seen, mine) = (turn.load_relaxed(), me as u64 + 1);
    if operations.is_multiple_of(OPERATIONS) || seen != 0 && seen != mine {
        look_up(place, seen != 0 && seen != mine);
    }
    if seen != mine {
        turn.store_relaxed(mine);
    }
}

/// Called after the operation.
#[inline(always)]
pub(super) fn end(place: &Place, turn: &Word, me: Seat) {
    place.waits.has_turn.set(false);
    // If another seat has taken the turn, that seat keeps it. Otherwise two seats that take the turn from each other
    // would run in the middle of each other's operations for ever.
    if turn.load_relaxed() == me as u64 + 1 {
        turn.store_relaxed(0);
    }
}

#[cold]
#[inline(never)]
fn look_up(place: &Place, is_taken: bool) {
    if place.waits.operations.get().is_multiple_of(OPERATIONS) {
        look_at_the_clock(place);
    }
    if is_taken {
        give_way(place);
    }
}

#[cold]
#[inline(never)]
fn give_way(place: &Place) {
    let is_over = || place.head(head::TURN).load_relaxed() == 0;
    for _ in 0..if place.spins() { 0 } else { LOOKS } {
        yield_now();
        if is_over() {
            return;
        }
    }
    for nap in NAPS {
        place.region.nap(Duration::from_micros(nap));
        if is_over() {
            return;
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn taken(place: &Place) -> bool {
        are_taken(place, place.head(head::TURNS))
    }

    /// Judges a wait of seat 0 that ended after `looks` looks and began `ago` nanoseconds ago.
    fn wait(place: &Place, looks: u32, ago: u64) {
        let preemptions = preemptions();
        Observed { looks, measured: false, began: now() - ago, preemptions }.judge(place, 0);
    }

    /// This holds however long the waits of this object usually are, because the usual time is unknown if every wait
    /// was like this one.
    #[test]
    fn turns_are_taken_after_a_wait_in_which_the_core_was_taken() {
        let place = Place::of_two(0);
        if !place.spins() {
            return;
        }
        let preempted = |looks| {
            let preemptions = preemptions() - 1;
            Observed { looks, measured: false, began: now() - 1_000_000, preemptions }
                .judge(&place, 0);
        };
        place.waits.measured(1_000_000);
        preempted(place.waits.few + 1);
        assert!(!taken(&place), "it waited outside of operations");
        place.enter(0);
        preempted(place.waits.few);
        wait(&place, place.waits.few + 1, 1_000_000);
        assert!(!taken(&place), "nothing was taken from it");
        preempted(place.waits.few + 1);
        assert!(taken(&place));
    }

    #[test]
    fn turns_are_taken_for_a_while_after_a_long_wait_in_an_operation() {
        let place = Place::of_two(0);
        if !place.spins() {
            return;
        }
        place.waits.measured(100);
        wait(&place, place.waits.few + 1, 1_000_000);
        assert!(!taken(&place), "it waited outside of operations");
        place.enter(0);
        wait(&place, place.waits.few, 1_000_000);
        wait(&place, place.waits.few + 1, 1_000);
        assert!(!taken(&place), "not long");
        wait(&place, place.waits.few + 1, 1_000_000);
        assert!(taken(&place));
        let first = place.head(head::TURNS_TIME).load_relaxed();
        assert!(first >= 1_000_000 * WHILE, "{first}");

        while taken(&place) {
            place.take_turn(0);
            assert_eq!(place.head(head::TURN).load_relaxed(), 1);
            place.end_turn(0);
        }
        assert!(now() >= place.head(head::TURNS_END).load_relaxed());
        // This makes the next wait come soon after the period, however long this thread did not run.
        place.head(head::TURNS_END).store_relaxed(now());
        wait(&place, place.waits.few + 1, 100_000);
        assert!(place.head(head::TURNS_TIME).load_relaxed() >= 2 * first, "soon again");
    }
}
