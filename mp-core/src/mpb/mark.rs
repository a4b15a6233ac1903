//! The mark of a rank: a word that tells the setters of its flags which flag the rank sleeps for.
//!
//! The mark has lines of its own and changes only when the rank goes to sleep or is woken. Therefore, a look at it
//! usually hits the first-level cache.
//!
//! | word | meaning for a rank that has set a flag |
//! |---|---|
//! | 0 | no thread sleeps |
//! | a line, and which of the rank's waits it is | ring, if it was that line |
//! | the same with its highest bit | the same, or ring the bell of all ranks that are released together |
//! | `ANY` | ring: several threads of the rank sleep |
//!
//! Between setting a flag and looking at the mark, a setter executes the light side of the asymmetric fence
//! (`wait/barrier.rs`). A setter of the flags of all ranks wakes the ranks that wait together by one ring of a common
//! bell. Such a rank sleeps on this bell and on its doorbell. Where the system can't sleep on two words, the rank
//! sleeps on its doorbell alone.

use std::time::Duration;

use crate::{
    sync::{AtomicU64, Futex, Ordering},
    wait::{Asymmetry, Caller, Flag},
};

const ANY: u64 = u64::MAX;
/// The sleeper also listens to the common bell.
const TOGETHER: u64 = 1 << 63;

/// The largest number of lines of an MPB.
pub(super) const MOST_LINES: usize = u32::MAX as usize - 1;

/// See the [module](self).
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Mark(AtomicU64);

impl Mark {
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Rings if the owner sleeps until the flag in this line is set. Must be called after the flag was set.
    #[inline(always)]
    pub(super) fn attend(&self, asymmetry: Asymmetry, line: usize, ring: impl FnOnce()) {
        asymmetry.light();
        if !self.quiet() && self.take(line) {
            ring();
        }
    }

    /// Does the same for a setter that has set this flag of several ranks. The setter must have executed the [light
    /// fence](Asymmetry::light), and rings the common bell afterwards if a call has returned true: that ring wakes the
    /// owner. An owner that sleeps on its doorbell alone is woken by `ring`.
    #[inline(always)]
    pub(super) fn attend_together(&self, line: usize, ring: impl FnOnce()) -> bool {
        if self.quiet() {
            return false;
        }
        match self.take_seen(line) {
            Some(seen) if seen != ANY && seen & TOGETHER != 0 => true,
            Some(_) => {
                ring();
                false
            }
            None => false,
        }
    }

    /// Returns whether no thread sleeps.
    #[inline(always)]
    fn quiet(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Clears the mark if it is set for this line. Returns whether it was: then the caller must ring.
    #[cold]
    fn take(&self, line: usize) -> bool {
        self.take_seen(line).is_some()
    }

    /// Clears the mark as [`take`](Self::take) does, and returns what it was.
    #[cold]
    fn take_seen(&self, line: usize) -> Option<u64> {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen == ANY || seen as u32 == of(line) {
            match self.change(seen, 0) {
                Ok(_) => return Some(seen),
                Err(other) => seen = other,
            }
        }
        None
    }

    fn change(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }
}

fn of(line: usize) -> u32 {
    1 + line as u32
}

/// One wait for a flag, as [`wait`](crate::wait) sees it.
#[derive(Debug)]
pub(super) struct Sleeper<'a> {
    mark: &'a Mark,
    word: u64,
    /// The only rank that sets the flag, as a rank of the world.
    setter: Option<usize>,
    /// The common bell, if the sleeper listens to it.
    bell: Option<&'a Futex>,
    /// How often to check whether there is something to wait for.
    tick: Option<Duration>,
    caller: Option<&'a dyn Caller>,
}

impl<'a> Sleeper<'a> {
    /// Makes a wait. `number` distinguishes this wait from the rank's other waits.
    pub(super) fn new(mark: &'a Mark, line: usize, number: u32, setter: Option<usize>) -> Self {
        let word = (u64::from(number) << 32 | u64::from(of(line))) & !TOGETHER;
        Self { mark, word, setter, bell: None, tick: None, caller: None }
    }

    /// Makes the wait look again at these intervals, even if nothing wakes it.
    pub(super) fn ticking(self, tick: Option<Duration>) -> Self {
        Self { tick, ..self }
    }

    /// Makes reports tell which call waits.
    pub(super) fn called_by(self, caller: Option<&'a dyn Caller>) -> Self {
        Self { caller, ..self }
    }

    /// Makes the wait also listen to the common bell.
    pub(super) fn together(self, bell: &'a Futex) -> Self {
        Self { word: self.word | TOGETHER, bell: Some(bell), ..self }
    }
}

impl Flag for Sleeper<'_> {
    fn raise(&self) {
        let mut seen = 0;
        loop {
            let word = if seen == 0 { self.word } else { ANY };
            match self.mark.change(seen, word) {
                Ok(_) => return,
                Err(other) if other == self.word || other == ANY => return,
                Err(other) => seen = other,
            }
        }
    }

    fn lower(&self) {
        // If other threads of the rank sleep, too, the mark is `ANY` and stays. The only effect is a needless ring.
        let _ = self.mark.change(self.word, 0);
    }

    fn bell(&self) -> Option<&Futex> {
        self.bell
    }

    fn tick(&self) -> Option<Duration> {
        self.tick
    }

    /// Returns the line, and 1 + the rank that is to set the flag, if it is known.
    fn further(&self) -> Vec<u64> {
        let line = u64::from(self.word as u32 - 1);
        vec![line, self.setter.map_or(0, |rank| 1 + rank as u64)]
    }

    fn ends_here(&self) -> bool {
        true
    }

    fn call(&self) -> Option<String> {
        self.caller?.call(None)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_by_its_own_line() {
        for line in [0, 1, 77, MOST_LINES - 1] {
            let mark = Mark::new();
            assert!(mark.quiet() && !mark.take(line));
            let sleeper = Sleeper::new(&mark, line, u32::MAX, None);
            sleeper.raise();
            sleeper.raise();
            assert!(!mark.quiet() && !mark.take(line ^ 1) && !mark.take(line ^ 64));
            assert!(mark.take(line) && mark.quiet() && !mark.take(line));
            sleeper.raise();
            sleeper.lower();
            assert!(mark.quiet());
            assert_eq!(sleeper.further(), [line as u64, 0]);
        }
        assert_eq!(Sleeper::new(&Mark::new(), 5, 0, Some(0)).further(), [5, 1]);
    }

    #[test]
    fn who_listens_to_the_bell_of_all_is_not_rung() {
        let (mark, bell) = (Mark::new(), Futex::new());
        let attend = |line| {
            let mut rung = false;
            (mark.attend_together(line, || rung = true), rung)
        };
        assert_eq!(attend(3), (false, false));
        let alone = Sleeper::new(&mark, 3, u32::MAX, None);
        alone.raise();
        assert_eq!(
            (attend(4), attend(3), attend(3)),
            ((false, false), (false, true), (false, false))
        );
        let together = Sleeper::new(&mark, 3, u32::MAX, None).together(&bell);
        together.raise();
        assert!(together.bell().is_some() && alone.bell().is_none());
        assert_eq!(
            (attend(4), attend(3), attend(3)),
            ((false, false), (true, false), (false, false))
        );
        // A flag that is set alone rings its doorbell, and so does `attend_together` if another thread sleeps as well.
        together.raise();
        assert!(mark.take(3) && mark.quiet());
        together.raise();
        alone.raise();
        assert_eq!(attend(7), (false, true));
        together.raise();
        together.lower();
        assert!(mark.quiet());
    }

    #[test]
    fn several_sleepers_are_woken_by_any_line() {
        for second in [4, 9] {
            let mark = Mark::new();
            let [first, second] =
                [(4, 1), (second, 2)].map(|(line, number)| Sleeper::new(&mark, line, number, None));
            first.raise();
            second.raise();
            first.raise();
            // A sleeper that gives up leaves the mark for the other sleeper.
            second.lower();
            assert!(mark.take(77) && mark.quiet());
        }
    }
}
