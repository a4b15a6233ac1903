//! Where a serving thread sleeps, and how it is called.
//!
//! A thread that can do nothing sleeps on its own futex, and on the doorbells of the ranks whose channels are full or
//! for which it waits for a flag. While it does not sleep, it counts as a thread at work of the worlds that it serves:
//! ranks need to know whether there are enough cores (`wait/mod.rs`).

use std::{
    cell::Cell,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crossbeam_utils::CachePadded;

use super::{
    awaited::Awaited,
    node::WEIGHT,
    serve::{Progress, ServedLane},
};
use crate::{
    context::Context,
    costs,
    sync::{AtomicU32, AtomicU64, Futex, Ordering, yield_now},
    wait::{Asymmetry, PER_CLOCK, SPIN, UNSURE, WaitPolicy},
};

/// What wakes one serving thread.
pub struct Bell {
    futex: CachePadded<Futex>,
    /// Not 0 when a thread wants something other than a send.
    called: CachePadded<AtomicU32>,
    pub(super) asymmetry: Asymmetry,
    /// The worlds in which the thread counts as one more thread at work. Only the thread itself changes this, when it
    /// is given lanes, sleeps and wakes.
    works_for: Mutex<Vec<Arc<Context>>>,
}

thread_local! {
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread serves lanes.
pub(super) fn serves() -> bool {
    SERVES.get()
}

/// How long it first looks without a pause, if it has one lane. What comes just now is met before a look at the clock.
const FIRST: Duration = Duration::from_nanos(200);
/// The same in a crowded world, and then from one yield to the next: as long as a line transfer takes.
const CROWDED: Duration = Duration::from_nanos(110);

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

    /// Notes that from now on the calling thread serves these lanes, and what waits for these flags or was lent to it.
    /// It must not wait for them, and their worlds have one more thread that wants a core.
    pub fn attend(&self, lanes: &[ServedLane], awaited: &[Awaited]) {
        SERVES.set(true);
        let mut works_for = self.works_for();
        let awaited = awaited.iter().map(Awaited::context);
        for context in lanes.iter().map(ServedLane::context).chain(awaited) {
            let same = |other: &Arc<Context>| Arc::ptr_eq(&other.segment, &context.segment);
            if !works_for.iter().any(same) {
                context.helper_begins();
                works_for.push(Arc::clone(context));
            }
        }
    }

    /// Notes that the thread serves no lanes any more, or none until it is woken.
    pub fn rest(&self) {
        // Not under the lock: with the last one goes its world.
        let worlds = std::mem::take(&mut *self.works_for());
        worlds.iter().for_each(|context| context.helper_ends());
    }

    fn works_for(&self) -> MutexGuard<'_, Vec<Arc<Context>>> {
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

    fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) != 0
    }

    /// Serves the lanes until something was done in one of them, something that is awaited may be there, or the bell is
    /// rung. Meanwhile it spins, lets other threads run, or sleeps, as `policy` says. While it sleeps, because all
    /// lanes are empty or blocked, it uses no processor time.
    pub fn wait(&self, policy: WaitPolicy, lanes: &mut [ServedLane], awaited: &[Awaited]) {
        let crowded = lanes.iter().any(ServedLane::crowded)
            || awaited.iter().any(|awaited| awaited.context().crowded());
        let mut ready = || self.is_called() || serve_all(lanes) || any_ready(awaited);
        if cfg!(loom) {
            return self.park(lanes, awaited);
        }
        if policy == WaitPolicy::Park {
            return self.park(lanes, awaited);
        }
        let (first, per_clock) = match crowded {
            true => (costs::pauses(CROWDED), costs::pauses(CROWDED)),
            false => (costs::looks(FIRST), costs::pauses(PER_CLOCK)),
        };
        if costs::look_until(first, &mut ready) {
            return;
        }
        let started = Instant::now();
        while policy == WaitPolicy::Spin || started.elapsed() < SPIN {
            if crowded {
                yield_now();
            }
            for _ in 0..per_clock {
                std::hint::spin_loop();
                if ready() {
                    return;
                }
            }
        }
        self.park(lanes, awaited);
    }

    /// Sleeps as `wait::park` does, on this bell and on the doorbells of the ranks whose channels are full or for which
    /// something is awaited.
    fn park(&self, lanes: &mut [ServedLane], awaited: &[Awaited]) {
        loop {
            let own = self.futex.value();
            let doorbells: Vec<_> = lanes.iter().map(ServedLane::heard).collect();
            let mut words = vec![(&*self.futex, own)];
            for word in awaited.iter().filter_map(Awaited::doorbell) {
                add(&mut words, word, word.value());
            }
            let raised: Vec<_> = lanes.iter().map(ServedLane::raise).collect();
            awaited.iter().for_each(Awaited::raise);
            let mut sure = self.asymmetry.heavy();
            let asymmetries = lanes.iter().flat_map(ServedLane::asymmetries);
            for asymmetry in asymmetries.chain(awaited.iter().map(Awaited::asymmetry)) {
                // Mostly this bell's own; another one where a sandbox was set up in between.
                sure &= asymmetry == self.asymmetry || asymmetry.heavy();
            }
            let done = self.is_called() || serve_all(lanes) || any_ready(awaited);
            // A lane that is blocked only now has not called for the channel's other end yet.
            let called =
                lanes.iter().zip(raised).all(|(lane, raised)| raised || !lane.is_blocked());
            if !done && called {
                self.rest();
                awaited.iter().for_each(Awaited::rest);
                for (lane, heard) in lanes.iter().zip(doorbells) {
                    if let (Some(doorbell), Some(heard)) = (lane.doorbell(), heard) {
                        add(&mut words, doorbell, heard);
                    }
                }
                match sure {
                    true => Futex::sleep_on_any(&words, UNSURE, None),
                    false => self.futex.sleep(own, Some(UNSURE)),
                }
                awaited.iter().for_each(Awaited::wake);
            }
            lanes.iter().for_each(ServedLane::lower);
            awaited.iter().for_each(Awaited::lower);
            if done || self.is_called() || serve_all(lanes) || any_ready(awaited) {
                return self.attend(lanes, awaited);
            }
        }
    }
}

/// Adds a word to sleep on, with its value when it was read. If several have read it, the first value counts.
fn add<'a>(words: &mut Vec<(&'a Futex, u32)>, word: &'a Futex, heard: u32) {
    if !words.iter().any(|&(other, _)| std::ptr::eq(other, word)) {
        words.push((word, heard));
    }
}

/// Returns whether anything that waits can go on.
fn any_ready(awaited: &[Awaited]) -> bool {
    awaited.iter().any(Awaited::is_ready)
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

/// Serves all lanes. Returns whether there was anything to do in any of them.
fn serve_all(lanes: &mut [ServedLane]) -> bool {
    lanes.iter_mut().fold(false, |worked, lane| {
        worked | matches!(lane.serve(), Progress::Worked | Progress::Ended)
    })
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
