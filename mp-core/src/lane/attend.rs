//! How a serving thread works for its lanes, and sleeps when it can do nothing.
//!
//! The thread sleeps on its own futex, and on the doorbells of the ranks whose channels are full or for which it waits
//! for a flag.

use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    awaited::Awaited,
    bell::Bell,
    serve::{Progress, ServedLane},
};
use crate::{
    context::Context,
    costs,
    sync::{Futex, yield_now},
    wait::{ARRIVED, Asymmetry, PER_CLOCK, SPIN, WaitPolicy},
};

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
    /// Notes that the calling thread serves these lanes and `awaited` from now on. So the thread must not wait for
    /// them, and each of their worlds has one more thread that needs a core.
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
            let mut forms = vec![self.asymmetry];
            let others = lanes.iter().flat_map(ServedLane::asymmetries);
            for form in others.chain(awaited.iter().map(Awaited::asymmetry)) {
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
            let limit = forms.into_iter().filter_map(Asymmetry::heavy).min();
            let mut unsure = limit.map(|limit| (limit, Instant::now()));
            let done = loop {
                let done = self.is_called() || serve_all(lanes) || any_ready(awaited);
                // A lane that has become blocked after `raise` has not raised its channel's flag, so the channel's other
                // end would not ring.
                let called =
                    lanes.iter().zip(&raised).all(|(lane, raised)| *raised || !lane.is_blocked());
                if done || !called {
                    break done;
                }
                self.rest();
                awaited.iter().for_each(Awaited::rest);
                let mut words = words.clone();
                for (lane, heard) in lanes.iter().zip(&doorbells) {
                    if let (Some(doorbell), Some(heard)) = (lane.doorbell(), *heard) {
                        add(&mut words, doorbell, heard);
                    }
                }
                Futex::sleep_on_any(&words, ARRIVED, unsure.map(|(limit, _)| limit));
                awaited.iter().for_each(Awaited::wake);
                match unsure.take() {
                    Some((_, fenced)) if fenced.elapsed() >= ARRIVED => {}
                    _ => break false,
                }
            };
            lanes.iter().for_each(ServedLane::lower);
            awaited.iter().for_each(Awaited::lower);
            if done || self.is_called() || serve_all(lanes) || any_ready(awaited) {
                return self.attend(lanes, awaited);
            }
        }
    }
}

/// Adds a word to sleep on, with the value that was read from it. If it was read several times, the first value counts.
fn add<'a>(words: &mut Vec<(&'a Futex, u32)>, word: &'a Futex, heard: u32) {
    if !words.iter().any(|&(other, _)| std::ptr::eq(other, word)) {
        words.push((word, heard));
    }
}

/// Returns whether any of `awaited` is ready.
fn any_ready(awaited: &[Awaited]) -> bool {
    awaited.iter().any(Awaited::is_ready)
}

/// Serves all lanes. Returns whether there was anything to do in any of them.
fn serve_all(lanes: &mut [ServedLane]) -> bool {
    lanes.iter_mut().fold(false, |worked, lane| {
        worked | matches!(lane.serve(), Progress::Worked | Progress::Ended)
    })
}
