//! Turns of ranks that share cores, with each other or with other programs: one of them has operations
//! executed for a while, and the others let it.
//!
//! Whoever queued up beside it would be handed what it wants while it does not run, and keep it from
//! all others until it does, at the price of two switches for each operation; and two who run would
//! take everything from each other all the time. So a rank that finds another's turn rather sleeps a
//! little. It takes the turn when that one has none of its operations under way, and at last in any
//! case.
//!
//! Turns are taken where the world has more ranks than cores, and for a while after a wait that shows that others
//! want the ranks' cores:
//! - The operating system has taken the core from the waiter.
//! - It was a wait for a lock, and so much longer than is usual with this object that whoever it was for can't have
//!   run. What is usual each handle measures in some of its waits.
//!
//! How long the while is follows from how long the wait took, and it is longer each time that such a wait comes
//! soon after it was over. So other programs on the ranks' cores cost some long waits and no more, and
//! where all run at the same time again they soon queue up again.
//!
//! Nothing but time depends on turns, which is why they are words that are written without much
//! ado, and why the dead can have them.

use std::{cell::Cell, thread::yield_now, time::Duration};

use mp_core::waits::looks;
use nix::sys::resource::{UsageWho, getrusage};

use super::site::{Place, Seat, Site, Word, head, seat};
use crate::trace::now;

/// Looks before the first nap where ranks share cores, others running between them: whoever has the turn
/// may be about to end it. Beside another program that computes each would take as long as the operating system
/// lets that run.
const LOOKS: u32 = 3;
/// Naps between further looks, in microseconds: together some of the times that the operating system
/// lets one run. They bring nothing on that the rank has under way: that waits for no longer.
const NAPS: [u64; 6] = [50, 100, 200, 400, 400, 400];

/// So many times as long as usual is long. Queues are shorter, and their operations more alike.
const LONG: u64 = 256;
/// Nor is a wait long that the looks of so long a time end: they take less than the operating system to have another
/// one run.
const SHORT: Duration = Duration::from_micros(1);
/// One wait of so many is measured whatever becomes of it.
const MEASURED: u32 = 32;

/// Turns are taken for so many times as long as somebody waited.
const WHILE: u64 = 16;
/// A long wait comes soon after turns if it is no more than so many times as late as they took.
const SOON: u64 = 4;
/// Nanoseconds that turns are taken at most without a try.
const MOST: u64 = 250_000_000;
/// Operations between two looks at the clock.
const OPERATIONS: u32 = 64;

/// What a handle knows of its waits.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Whether they are waits for a lock in a queue. How long a wait for a combiner takes says nothing of who
    /// runs: it lasts for as long as that has others to serve.
    pub(super) in_queue: bool,
    /// [`SHORT`], in looks.
    few: u32,
    count: Cell<u32>,
    /// Nanoseconds of a usual one; 0 before the first.
    usual: Cell<u64>,
    /// Operations while turns were taken.
    operations: Cell<u32>,
    /// Whether the operation under way is in a turn.
    has_turn: Cell<bool>,
}

impl Default for Waits {
    fn default() -> Self {
        let few = looks(SHORT);
        Self {
            in_queue: false,
            few,
            count: Cell::default(),
            usual: Cell::default(),
            operations: Cell::default(),
            has_turn: Cell::default(),
        }
    }
}

impl Waits {
    #[inline(always)]
    pub(super) fn has_turn(&self) -> bool {
        self.has_turn.get()
    }

    /// Whether the next wait is to be measured.
    #[inline]
    fn next(&self) -> bool {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        count.is_multiple_of(MEASURED)
    }

    /// One took so many nanoseconds: towards what is usual, sooner down than up. Those that are long must
    /// not seem usual, however many they are; where operations became longer it takes some more of them.
    fn measured(&self, took: u64) {
        let (usual, took) = (self.usual.get(), took.max(1));
        self.usual.set(match usual {
            0 => took,
            _ if took < usual => took + (usual - took) / 2,
            _ => usual.saturating_add(took.min(usual) / 4).max(usual + 1).min(took.max(usual)),
        });
    }

    fn is_long(&self, took: u64) -> bool {
        let usual = self.usual.get();
        usual != 0 && took > usual.saturating_mul(LONG)
    }
}

/// One wait, observed. Most of them cost a count.
#[derive(Debug, Default)]
pub(super) struct Observed {
    looks: u32,
    measured: bool,
    /// By the clock; 0 if it was not looked at.
    began: u64,
    /// How often the core had been taken from this thread after the first looks.
    preemptions: i64,
}

impl Observed {
    /// After a look that ended nothing.
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
        // Who waits outside of operations waits for another one to come.
        let inside = place.seat(me)[seat::MARK].peek() != 0;
        let is_shared = || place.waits.is_long(took) || preemptions() > self.preemptions;
        if inside && self.looks > place.waits.few && is_shared() {
            go_over(place, now, took);
        }
        if self.measured {
            place.waits.measured(took);
        }
    }
}

/// How often the operating system has taken the core from this thread for another one.
fn preemptions() -> i64 {
    if cfg!(miri) {
        // It has no such call, and takes cores from nobody.
        return 0;
    }
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// Turns are taken from now on, for a while.
fn go_over(place: &Place, now: u64, waited: u64) {
    let [until, time, end] =
        [head::TURNS, head::TURNS_TIME, head::TURNS_END].map(|at| place.head(at));
    if until.peek() > now {
        return;
    }
    let (before, ended) = (time.peek(), end.peek());
    let soon = now.saturating_sub(ended) < before.saturating_mul(SOON);
    let least = if soon { before.saturating_mul(2) } else { 0 };
    let length = waited.saturating_mul(WHILE).max(least).min(MOST);
    time.set(length);
    until.set(now.saturating_add(length));
}

/// Whether turns are taken.
#[inline(always)]
pub(super) fn are_taken(place: &Place, until: &Word) -> bool {
    until.peek() != 0 || !place.spins()
}

/// Looks whether they still are.
#[cold]
#[inline(never)]
fn look_at_the_clock(place: &Place) {
    let until = place.head(head::TURNS);
    let end = until.peek();
    if end != 0 && now() >= end {
        place.head(head::TURNS_END).set(end);
        until.set(0);
    }
}

/// A turn, until this is dropped.
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

/// Before an operation of a seat. `turn` is the word that says whose turn it is.
#[inline(always)]
pub(super) fn take(place: &Place, turn: &Word, me: Seat) {
    let waits = &place.waits;
    waits.has_turn.set(true);
    let operations = waits.operations.get().wrapping_add(1);
    waits.operations.set(operations);
    let (seen, mine) = (turn.peek(), me as u64 + 1);
    if operations.is_multiple_of(OPERATIONS) || seen != 0 && seen != mine {
        look_up(place, seen != 0 && seen != mine);
    }
    if seen != mine {
        turn.set(mine);
    }
}

/// After it.
#[inline(always)]
pub(super) fn end(place: &Place, turn: &Word, me: Seat) {
    place.waits.has_turn.set(false);
    // Somebody may have taken it, and has to be left with it: two who take it from each other would
    // both be in the middle of something ever after.
    if turn.peek() == me as u64 + 1 {
        turn.set(0);
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
    let is_over = || place.head(head::TURN).peek() == 0;
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
    use mp_core::World;

    use super::*;
    use crate::critical::site::{OBJECTS, open_region};

    fn place() -> Place {
        let rank = World::solo().unwrap();
        Place::new(open_region(&rank, OBJECTS, "turns", Place::own(2), 0).unwrap(), 2)
    }

    fn taken(place: &Place) -> bool {
        are_taken(place, place.head(head::TURNS))
    }

    /// A wait of seat 0 that so many looks ended, and that began so many nanoseconds ago.
    fn wait(place: &Place, looks: u32, ago: u64) {
        let preemptions = preemptions();
        Observed { looks, measured: false, began: now() - ago, preemptions }.judge(place, 0);
    }

    #[test]
    fn what_is_usual_goes_down_at_once_and_up_slowly() {
        let waits = Waits::default();
        assert!(!waits.is_long(u64::MAX), "nobody knows yet");
        waits.measured(4_000_000);
        (0..20).for_each(|_| waits.measured(200));
        assert!((200..300).contains(&waits.usual.get()), "{waits:?}");
        assert!(!waits.is_long(10_000) && waits.is_long(4_000_000));
        waits.measured(4_000_000);
        assert!(waits.is_long(4_000_000), "one that is long becomes usual");
        // Longer operations make longer waits.
        (0..100).for_each(|_| waits.measured(50_000));
        assert_eq!(waits.usual.get(), 50_000);
        assert!(!waits.is_long(4_000_000));
        waits.measured(0);
        (0..100).for_each(|_| waits.measured(0));
        assert_eq!(waits.usual.get(), 1);
    }

    /// However long the waits of this object usually are, which nobody knows if all of them were such.
    #[test]
    fn turns_are_taken_after_a_wait_in_which_the_core_was_taken() {
        let place = place();
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
        let place = place();
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
        let first = place.head(head::TURNS_TIME).peek();
        assert!(first >= 1_000_000 * WHILE, "{first}");

        while taken(&place) {
            place.take_turn(0);
            assert_eq!(place.head(head::TURN).peek(), 1);
            place.end_turn(0);
        }
        assert!(now() >= place.head(head::TURNS_END).peek());
        // As if at once, however long this thread did not run.
        place.head(head::TURNS_END).set(now());
        wait(&place, place.waits.few + 1, 100_000);
        assert!(place.head(head::TURNS_TIME).peek() >= 2 * first, "soon again");
    }
}
