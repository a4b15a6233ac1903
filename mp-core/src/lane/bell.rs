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

/// What wakes one serving thread.
pub struct Bell {
    pub(super) futex: CachePadded<Futex>,
    /// Not 0 when a thread wants something other than a send.
    called: CachePadded<AtomicU32>,
    pub(super) asymmetry: Asymmetry,
    /// The worlds in which the thread counts as one more thread at work. Only the thread itself changes this, when it
    /// is given lanes, sleeps and wakes.
    works_for: Mutex<Vec<Arc<Context>>>,
}

impl Bell {
    /// Makes a bell for a thread of this process.
    pub fn new() -> Self {
        Self::with(Asymmetry::offered_here())
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

    /// Notes that the thread serves no lanes any more, or none until it is woken.
    pub fn rest(&self) {
        // Not under the lock: with the last one goes its world.
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

/// How much is waiting for one serving thread, if any thread wants to know.
///
/// Counting costs every submission one more line transfer, so it begins only when a thread first asks.
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

    /// Returns the number of cache lines of messages, plus one for each message, that were submitted and not answered.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Counts a message of so many bytes. Returns the weight to record for it: 0 when no thread asks.
    #[inline(always)]
    pub(super) fn add(&self, bytes: impl FnOnce() -> usize) -> u32 {
        if self.wanted.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        const MOST: usize = (1 << (32 - WEIGHT)) - 1;
        let lines = (1 + bytes() / 64).min(MOST) as u32;
        // Relaxed: a measure.
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
