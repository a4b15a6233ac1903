//! A barrier of threads: it spins a little, then lets others run, then sleeps.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::yield_now;

use crossbeam_utils::CachePadded;

/// The number of looks before a thread gives up its core: some microseconds.
const SPINS: usize = 4000;

/// The number of times that it gives up its core before it sleeps.
const YIELDS: usize = 50;

/// A barrier at which threads wait for each other, again and again.
#[derive(Debug)]
pub(super) struct Barrier {
    threads: usize,
    spins: usize,
    arrived: CachePadded<AtomicUsize>,
    /// How often all have arrived.
    rounds: CachePadded<AtomicUsize>,
    asleep: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    pub(super) fn new(threads: usize) -> Self {
        // With fewer cores than threads, a thread that spins keeps another from arriving.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads,
            spins: if threads <= cores { SPINS } else { 0 },
            arrived: CachePadded::default(),
            rounds: CachePadded::default(),
            asleep: AtomicUsize::default(),
            lock: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Waits until all threads have called it. Then all of them see what each did before.
    pub(super) fn wait(&self) {
        let round = self.rounds.load(Relaxed);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.threads {
            self.arrived.store(0, Relaxed);
            // Either this thread sees that another one sleeps, or that one sees the new round before it sleeps.
            self.rounds.store(round.wrapping_add(1), SeqCst);
            if self.asleep.load(SeqCst) > 0 {
                drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
                self.wake.notify_all();
            }
            return;
        }
        let over = || self.rounds.load(Acquire) != round;
        for _ in 0..self.spins {
            if over() {
                return;
            }
            spin_loop();
        }
        for _ in 0..YIELDS {
            if over() {
                return;
            }
            yield_now();
        }
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, SeqCst);
        while self.rounds.load(SeqCst) == round {
            lock = self.wake.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_ahead() {
        for threads in [1, 2, 3, 9] {
            let barrier = Barrier::new(threads);
            let arrivals = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (barrier, arrivals) = (&barrier, &arrivals);
                    scope.spawn(move || {
                        for round in 1..=200 {
                            if (round + thread) % 50 == 0 {
                                // Long enough for the others to sleep.
                                std::thread::sleep(std::time::Duration::from_millis(1));
                            }
                            arrivals.fetch_add(1, Relaxed);
                            barrier.wait();
                            let seen = arrivals.load(Relaxed);
                            assert!(
                                (round * threads..(round + 1) * threads).contains(&seen)
                                    || threads == 1
                            );
                            barrier.wait();
                        }
                    });
                }
            });
        }
    }
}
