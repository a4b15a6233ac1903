//! How long a handle usually waits, to detect a wait for a rank that does not run: see `turns.rs`.

use std::{cell::Cell, time::Duration};

use mp_core::waits::looks;

/// A wait is long if it takes this many times as long as usual. Queues are shorter than this, and the operations in a
/// queue differ less.
const LONG: u64 = 256;
/// A wait is never long if it ends within as many looks as take this time, which is less than the operating system
/// needs to let another thread run.
const SHORT: Duration = Duration::from_micros(1);
/// One out of this many waits is measured, whatever its outcome.
const MEASURED: u32 = 32;

/// What a handle knows about its waits.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Whether the handle waits for a lock in a queue. The length of a wait for a combiner does not show which seat
    /// runs, because it lasts as long as the combiner has other seats to serve.
    pub(super) in_queue: bool,
    /// [`SHORT`], as a number of looks.
    pub(super) few: u32,
    count: Cell<u32>,
    /// The nanoseconds of a usual wait; 0 before the first.
    usual: Cell<u64>,
    /// The number of operations while turns were taken.
    pub(super) operations: Cell<u32>,
    /// Whether the current operation is in a turn.
    pub(super) has_turn: Cell<bool>,
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

    /// Returns whether the next wait is to be measured.
    #[inline]
    pub(super) fn next(&self) -> bool {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        count.is_multiple_of(MEASURED)
    }

    /// Records that a wait took this number of nanoseconds. The usual time moves towards it, faster down than up, so
    /// that long waits don't become usual, however many there are. When operations become longer, the usual time
    /// follows after some more waits.
    pub(super) fn measured(&self, took: u64) {
        let (usual, took) = (self.usual.get(), took.max(1));
        self.usual.set(match usual {
            0 => took,
            _ if took < usual => took + (usual - took) / 2,
            _ => usual.saturating_add(took.min(usual) / 4).max(usual + 1).min(took.max(usual)),
        });
    }

    pub(super) fn is_long(&self, took: u64) -> bool {
        let usual = self.usual.get();
        usual != 0 && took > usual.saturating_mul(LONG)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

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
        // Longer operations make waits longer.
        (0..100).for_each(|_| waits.measured(50_000));
        assert_eq!(waits.usual.get(), 50_000);
        assert!(!waits.is_long(4_000_000));
        waits.measured(0);
        (0..100).for_each(|_| waits.measured(0));
        assert_eq!(waits.usual.get(), 1);
    }
}
