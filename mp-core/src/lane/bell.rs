//! Where a serving thread sleeps, and how it is called.
//!
//! While the thread does not sleep, it counts as a thread at work of the worlds that it serves: ranks need to know
//! whether there are enough cores (`wait/mod.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use super::node::WEIGHT;
use crate::{
    context::Context,
    sync::{AtomicU32, AtomicU64, Futex, Ordering},
    wait::Asymmetry,
};

/// The bell of one serving thread: its futex, and the reasons to wake it.
pub struct Bell {
    pub(super) futex: CachePadded<Futex>,
    /// Not 0 when a thread has rung for something other than a submission.
    called: CachePadded<AtomicU32>,
    pub(super) asymmetry: Asymmetry,
    /// The worlds in which the thread counts as a working thread. Only the thread itself changes this: when it gets
    /// lanes, sleeps, or wakes.
    works_for: Mutex<Vec<Arc<Context>>>,
}

impl Bell {
    /// Makes a bell for a thread of this process.
    pub fn new() -> Self {
        Self::with(Asymmetry::offered_here(false))
    }

    pub(super) fn with(asymmetry: Asymmetry) -> Self {
        let (futex, called) = (CachePadded::new(Futex::new()), CachePadded::new(AtomicU32::new(0)));
        Self { futex, called, asymmetry, works_for: Mutex::default() }
    }

    /// Makes the thread return from [`wait`](Self::wait), now or when it waits next.
    pub fn ring(&self) {
        // Release: pairs with the Acquire in `take_call`.
        self.called.store(1, Ordering::Release);
        self.wake();
    }

    /// Notes that the thread does not serve lanes any more, or not until it is woken.
    pub fn rest(&self) {
        // The contexts are dropped without the lock, because the last one drops its world.
        let worlds = std::mem::take(&mut *self.works_for());
        worlds.iter().for_each(|context| context.helper_ends());
    }

    pub(super) fn works_for(&self) -> MutexGuard<'_, Vec<Arc<Context>>> {
        self.works_for.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.futex.advance_and_wake();
    }

    /// Returns whether the bell was rung since the last call of this method.
    pub fn take_call(&self) -> bool {
        self.called.load(Ordering::Relaxed) != 0
            // Acquire: pairs with the Release in `ring`.
            && self.called.swap(0, Ordering::Acquire) != 0
    }

    pub(super) fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}

/// How much work waits for one serving thread. It is counted only if some thread asks for it.
///
/// Counting costs one more line transfer for each submission, so it begins only when a thread first asks.
#[derive(Debug)]
pub struct Gauge {
    wanted: CachePadded<AtomicU32>,
    lines: CachePadded<AtomicU64>,
}

impl Gauge {
    /// Makes a gauge that counts nothing yet.
    pub fn new() -> Self {
        Self {
            wanted: CachePadded::new(AtomicU32::new(0)),
            lines: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Begins to count.
    pub fn begin(&self) {
        self.wanted.store(1, Ordering::Relaxed);
    }

    /// Returns the number of cache lines of the messages that were submitted and not answered, plus one for each
    /// message.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Counts a message of `bytes` bytes. Returns the weight to record for it, which is 0 when no thread asks.
    #[inline(always)]
    pub(super) fn add(&self, bytes: impl FnOnce() -> usize) -> u32 {
        if self.wanted.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        const MOST: usize = (1 << (32 - WEIGHT)) - 1;
        let lines = (1 + bytes() / 64).min(MOST) as u32;
        // Relaxed: the number is a measure, and orders nothing.
        self.lines.fetch_add(lines.into(), Ordering::Relaxed);
        lines
    }

    #[inline(always)]
    pub(super) fn remove(&self, lines: u32) {
        if lines != 0 {
            self.lines.fetch_sub(lines.into(), Ordering::Relaxed);
        }
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self::new()
    }
}
