//! The place where a serving thread sleeps, and how other threads wake it.
//!
//! A thread that can do nothing sleeps on its own futex, and on the doorbells of the ranks whose channels are full or
//! for which it waits for a flag. While it is awake, it counts as a working thread of the worlds that it serves,
//! because ranks need to know whether there are enough cores (`wait/mod.rs`).

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

/// The bell of one serving thread: its futex, and the reasons to wake it.
pub struct Bell {
    futex: CachePadded<Futex>,
    /// Not 0 when a thread has rung for something other than a submission.
    called: CachePadded<AtomicU32>,
    pub(super) asymmetry: Asymmetry,
    /// The worlds in which the thread counts as a working thread. Only the thread itself changes this: when it gets
    /// lanes, sleeps, or wakes.
    works_for: Mutex<Vec<Arc<Context>>>,
}

thread_local! {
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread serves lanes.
pub(super) fn serves() -> bool {
    SERVES.get()
}

/// How long a thread with one lane looks without a pause before it first reads the clock. A submission that is just
/// arriving is found in this time.
const FIRST: Duration = Duration::from_nanos(200);
/// In a crowded world, how long a thread looks at first, and between two yields: the time of a line transfer.
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

    /// Notes that the calling thread serves these lanes and `awaited` from now on. So the thread must not wait for
    /// them, and their worlds have one more thread that needs a core.
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

    /// Notes that the thread does not serve lanes any more, or not until it is woken.
    pub fn rest(&self) {
        // The contexts are dropped without the lock, because the last one drops its world.
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

    /// Serves the lanes until something was done in one of them, something in `awaited` is ready, or the bell is rung.
    /// Until then the thread spins, yields, or sleeps, as `policy` says. It sleeps only while all lanes are empty or
    /// blocked, and then uses no processor time.
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
    /// the thread awaits something.
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
                // Mostly this is the same kind of fence as the bell's. It differs if a sandbox was set up between the
                // creation of the two.
                sure &= asymmetry == self.asymmetry || asymmetry.heavy();
            }
            let done = self.is_called() || serve_all(lanes) || any_ready(awaited);
            // A lane that has become blocked after `raise` has not raised its channel's flag, so the channel's other
            // end would not ring.
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

/// Returns whether anything that is awaited is ready.
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
