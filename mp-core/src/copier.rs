//! The choice between two ways to copy a long message to shared memory, where another core reads it: through the
//! caches, or past them.
//!
//! A line that the reader has read is still in the reader's caches, and must be taken away from there before it is
//! written again. Between cores whose caches are far from each other, this takes several times as long as the copy: 64
//! KiB took 25 µs through the caches, and 7 µs past them. Between cores that are near each other it is the other way
//! round: 2.5 µs through the caches, and 6.4 µs past them. Processors do not tell which case it is, and the host of a
//! virtual machine may move its cores at any time. So the writer times some of its copies, and compares them with the
//! time that a copy past the caches takes on this machine. `docs/constants.md` has the figures.

use std::time::{Duration, Instant};

use crate::costs;

/// Number of bytes from which on a copy is long. A shorter copy takes too little time for the clock.
pub(crate) const LONG: usize = 2048;
/// The writer times one in this many copies through the caches.
const TIMED: u64 = 16;
/// The writer goes past the caches after this many slow copies in a row.
const SLOW: u32 = 3;
/// The writer makes this many copies past the caches before it tries one through the caches. The number doubles with
/// each slow try, from the first of these constants to the second.
const STAY: u64 = 64;
const STAY_MOST: u64 = 256;

/// What a writer knows about its copies: see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Copier {
    way: Way,
    /// Number of copies until the next copy that is timed.
    untimed: u64,
    /// Number of slow copies in a row.
    slow: u32,
    /// Number of copies that the writer last made past the caches in a row; 0 if it has not done so since a fast copy.
    stayed: u64,
}

/// The way of one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the caches.
    #[default]
    Through,
    /// Past the caches.
    Past,
}

impl Copier {
    /// Returns a copier that does not time its first `untimed` copies, because the first write to memory takes longer:
    /// the system has to provide the memory.
    pub(crate) fn new(untimed: u64) -> Self {
        Self { untimed, ..Self::default() }
    }

    /// Chooses a way for `bytes` bytes, and calls `copy` with it.
    #[inline]
    pub(crate) fn copy(&mut self, bytes: usize, copy: impl FnOnce(Way)) {
        let (way, is_timed) = self.next();
        if !is_timed {
            return copy(way);
        }
        let began = Instant::now();
        copy(way);
        self.took(began.elapsed(), || costs::past_caches(bytes));
    }

    /// Returns the way of the next copy, and whether it is timed.
    fn next(&mut self) -> (Way, bool) {
        if self.untimed > 0 {
            self.untimed -= 1;
            return (self.way, false);
        }
        // After copies past the caches, this is a try.
        self.way = Way::Through;
        (Way::Through, true)
    }

    /// Notes how long a copy through the caches took, and chooses the way of the next copies. `past` returns how long a
    /// copy past the caches takes, including the time to read it.
    fn took(&mut self, time: Duration, past: impl FnOnce() -> Option<Duration>) {
        if past().is_none_or(|past| time <= past) {
            (self.stayed, self.untimed, self.slow) = (0, TIMED - 1, 0);
            return;
        }
        // If the way does not change below, the next copy is timed, too.
        self.slow += 1;
        if self.stayed > 0 || self.slow >= SLOW {
            self.stayed = (2 * self.stayed).clamp(STAY, STAY_MOST);
            (self.way, self.untimed, self.slow) = (Way::Past, self.stayed, 0);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PAST: Duration = Duration::from_micros(7);

    /// Makes `copies` copies, each of which would take `through` through the caches. Returns how many went past the
    /// caches.
    fn copy(copier: &mut Copier, copies: u64, through: Duration) -> u64 {
        let mut went_past = 0;
        for _ in 0..copies {
            match copier.next() {
                (Way::Past, _) => went_past += 1,
                (Way::Through, true) => copier.took(through, || Some(PAST)),
                (Way::Through, false) => {}
            }
        }
        went_past
    }

    #[test]
    fn near_copies_stay_in_the_caches_and_hardly_any_is_timed() {
        let mut copier = Copier::default();
        assert_eq!(copy(&mut copier, 10_000, PAST), 0);
        let timed = (0..1600).filter(|_| {
            let (_, timed) = copier.next();
            if timed {
                copier.took(PAST / 3, || Some(PAST));
            }
            timed
        });
        assert_eq!(timed.count(), 100);
    }

    #[test]
    fn far_copies_go_past_the_caches_but_for_a_few() {
        let mut copier = Copier::default();
        assert_eq!(copy(&mut copier, u64::from(SLOW), 3 * PAST), 0);
        assert_eq!(copy(&mut copier, STAY, 3 * PAST), STAY);
        let past = copy(&mut copier, 100_000, 3 * PAST);
        assert!(past > 99_500, "{past}");
    }

    #[test]
    fn cores_that_are_moved_are_noticed_both_ways() {
        let mut copier = Copier::default();
        for _ in 0..3 {
            copy(&mut copier, 5000, 3 * PAST);
            assert_eq!(copier.way, Way::Past);
            copy(&mut copier, STAY_MOST + 1, PAST / 3);
            assert_eq!(copy(&mut copier, 5000, PAST / 3), 0);
        }
    }

    #[test]
    fn one_copy_in_which_the_core_was_taken_away_changes_nothing() {
        let mut copier = Copier::default();
        for _ in 0..100 {
            while !copier.next().1 {}
            copier.took(1000 * PAST, || Some(PAST));
            while !copier.next().1 {}
            copier.took(PAST / 3, || Some(PAST));
        }
        assert_eq!(copier.way, Way::Through);
    }

    #[test]
    fn the_first_copies_into_all_slots_are_not_timed() {
        let mut copier = Copier::new(100);
        assert!((0..100).all(|_| copier.next() == (Way::Through, false)));
        assert_eq!(copier.next(), (Way::Through, true));
    }

    #[test]
    fn where_there_is_no_other_way_there_is_none() {
        let mut copier = Copier::default();
        for _ in 0..100 {
            while !copier.next().1 {}
            copier.took(1000 * PAST, || None);
        }
        assert_eq!(copier.way, Way::Through);
    }
}
