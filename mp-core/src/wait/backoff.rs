//! Pauses of a thread that waits for something for which no other thread wakes it.
//!
//! Such a thread waits for a step that another rank or thread is just doing, or waits in a world that is too damaged
//! for wake-ups.

use std::time::Duration;

use super::nap;
use crate::sync::yield_now;

/// Pauses of a thread that looks repeatedly whether another thread has finished a short step.
///
/// The first pauses only let other threads run, because the step may be nearly done, and the thread that does it may
/// need this core. The later pauses are naps, each twice as long as the previous one, so that even many waiting threads
/// leave the cores to the threads that work.
#[derive(Debug, Default)]
pub struct Backoff(u32);

/// The number of pauses that only let others run.
const YIELDS: u32 = 8;
/// The length of the first nap.
const NAP: Duration = Duration::from_micros(50);
/// How often the nap is doubled: up to 1.6 ms.
const DOUBLINGS: u32 = 5;

impl Backoff {
    /// Makes the backoff, before the first look.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets some time pass.
    pub fn pause(&mut self) {
        match self.0.checked_sub(YIELDS) {
            None => yield_now(),
            Some(naps) => nap(NAP * (1 << naps.min(DOUBLINGS))),
        }
        self.0 = self.0.saturating_add(1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// This counts pauses and measures no time, so that it holds on any machine.
    #[test]
    fn pauses_become_naps_that_end() {
        let mut backoff = Backoff::new();
        (0..=YIELDS + DOUBLINGS + 2).for_each(|_| backoff.pause());
        assert_eq!(backoff.0, YIELDS + DOUBLINGS + 3);
        backoff.0 = u32::MAX;
        backoff.pause();
        assert_eq!(backoff.0, u32::MAX);
    }
}
