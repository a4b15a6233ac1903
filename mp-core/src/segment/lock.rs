//! A lock in shared memory whose holder may die.

use std::time::Duration;

use crate::{
    costs,
    sync::{AtomicU32, Futex, Ordering, fence},
};

/// A lock that contains the number of its holder, so that waiting ranks can distinguish a slow holder from a dead one.
/// `dirty` is set while the protected data are being changed.
///
/// | `holder` | `dirty` | meaning |
/// |---|---|---|
/// | 0 | 0 | free |
/// | r + 1 | 1 | held by rank r |
/// | r + 1, r gone | 1 | may be taken over, and then the protected data must be repaired |
/// | 0 | 1 | free, but the holder unwound during a change: the data must be repaired |
///
/// A waiting rank sleeps after a short spin. It does not yield, because if all other threads spin, a thread that yields
/// does not run again before each of them has used up its time slice. Linux from 6.18 on also charges the thread for a
/// slice of its own, so that a thousand yields take seconds.
#[derive(Debug)]
#[cfg_attr(all(test, not(loom)), derive(Default))]
#[repr(C)]
pub(crate) struct RobustLock {
    holder: AtomicU32,
    dirty: AtomicU32,
    /// Not 0 if a thread sleeps or is about to sleep.
    waiting: AtomicU32,
    /// The futex on which waiting threads sleep.
    bell: Futex,
}

/// How long to look at a held lock before sleeping. The work under the lock takes less time.
const SPIN: Duration = Duration::from_nanos(1400);
/// The longest sleep. It is limited because a dead holder wakes no waiter.
const DOZE: Duration = Duration::from_millis(20);

impl RobustLock {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            holder: AtomicU32::new(0),
            dirty: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            bell: Futex::new(),
        }
    }

    /// Takes the lock for rank `me`. Returns whether a holder died in the middle of a change.
    ///
    /// `lost` returns whether a rank is dead. A rank that has panicked does not count as dead, because a thread of it
    /// may still run and hold the lock.
    pub(crate) fn acquire(&self, me: u32, lost: impl Fn(u32) -> bool) -> bool {
        let look = |_| self.try_take(me).inspect_err(|_| std::hint::spin_loop()).is_err();
        if (0..costs::pauses(SPIN)).all(look) {
            self.wait(me, lost);
        }
        // Acquire: the changes come after the mark, so that the mark is set if this rank dies during a change.
        self.dirty.swap(1, Ordering::Acquire) != 0
    }

    /// Tries to take the lock. Returns the holder as an error if it is held.
    fn try_take(&self, me: u32) -> Result<u32, u32> {
        // Acquire: pairs with the Release in `release`.
        self.holder.compare_exchange(0, me + 1, Ordering::Acquire, Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self, me: u32, lost: impl Fn(u32) -> bool) {
        loop {
            let before = self.bell.value();
            self.waiting.store(1, Ordering::Relaxed);
            // The store above comes before the look below: pairs with the fence in `release`.
            fence(Ordering::SeqCst);
            let Err(holder) = self.try_take(me) else { return };
            // `lost` orders this after all stores of the dead rank.
            if lost(holder - 1)
                && self
                    .holder
                    .compare_exchange(holder, me + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            self.bell.sleep(before, Some(DOZE));
        }
    }

    /// Returns the rank that holds the lock.
    pub(crate) fn holder(&self) -> Option<u32> {
        self.holder.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Releases the lock. `whole` says whether the change was finished.
    pub(crate) fn release(&self, whole: bool) {
        if whole {
            // Release: the changes come before the mark is removed.
            self.dirty.store(0, Ordering::Release);
        }
        // Release: pairs with the Acquire in `try_take`.
        self.holder.store(0, Ordering::Release);
        // The store above comes before the look below: pairs with the fence in `wait`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            // The thread that is woken sets `waiting` again before it takes the lock or sleeps. So its own release
            // wakes the next waiting thread.
            self.waiting.store(0, Ordering::Relaxed);
            self.bell.advance_and_wake_one();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::rc::Rc;

    use loom::thread;

    use super::*;
    use crate::sync::{RaceMarker, explore};

    struct Protected {
        lock: RobustLock,
        data: RaceMarker,
        /// Ranks that are dead, as bits.
        dead: AtomicU32,
    }

    impl Protected {
        fn new() -> Rc<Self> {
            Rc::new(Self {
                lock: RobustLock::new(),
                data: RaceMarker::new(),
                dead: AtomicU32::new(0),
            })
        }

        fn acquire(&self, me: u32) -> bool {
            self.lock.acquire(me, |rank| self.dead.load(Ordering::Acquire) & (1 << rank) != 0)
        }

        fn change(&self, me: u32) {
            assert!(!self.acquire(me), "nothing was left half changed");
            self.data.writing();
            self.lock.release(true);
        }
    }

    #[test]
    fn one_at_a_time() {
        explore(6, || {
            let protected = Protected::new();
            let other = thread::spawn({
                let protected = Rc::clone(&protected);
                move || (0..2).for_each(|_| protected.change(1))
            });
            (0..2).for_each(|_| protected.change(0));
            other.join().unwrap();
        });
    }

    #[test]
    fn an_unfinished_change_is_reported_to_the_next() {
        explore(6, || {
            let protected = Protected::new();
            let other = thread::spawn({
                let protected = Rc::clone(&protected);
                move || {
                    protected.acquire(1);
                    protected.data.writing();
                    protected.lock.release(false);
                }
            });
            let told = protected.acquire(0);
            protected.data.writing();
            protected.lock.release(true);
            other.join().unwrap();
            // Exactly one of the two calls reports the unfinished change.
            assert_eq!(protected.acquire(0), !told);
        });
    }

    /// The holder dies during a change while a second rank waits and a third rank comes.
    #[test]
    fn a_dead_holder_is_followed_by_one_who_knows() {
        explore(6, || {
            let protected = Protected::new();
            let dying = thread::spawn({
                let protected = Rc::clone(&protected);
                move || {
                    protected.acquire(2);
                    protected.data.writing();
                }
            });
            let follow = |me| {
                let protected = Rc::clone(&protected);
                move || {
                    let mend = protected.acquire(me);
                    protected.data.writing();
                    protected.lock.release(true);
                    mend
                }
            };
            let waiting = thread::spawn(follow(1));
            // The kernel tells the launcher of the death, and the launcher tells the other ranks.
            dying.join().unwrap();
            protected.dead.store(1 << 2, Ordering::Release);
            // This stands for the time limit of a sleep, which a model does not have.
            protected.lock.bell.advance_and_wake();
            let mended = [follow(0)(), waiting.join().unwrap()];
            assert_eq!(mended.iter().filter(|&&mend| mend).count(), 1, "{mended:?}");
        });
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::{fs, thread, time::Instant};

    use super::*;

    fn switches_of_this_thread() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// More threads spin than there are cores, and the holder takes long. A waiting thread must give up its core only a
    /// few times and not for each look, because a thousand yields beside such threads take seconds.
    #[test]
    fn a_wait_beside_threads_that_spin_is_a_few_sleeps() {
        // A lock of zeros is free.
        let lock = RobustLock::default();
        let over = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..2 * thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    while over.load(Ordering::Relaxed) == 0 {
                        std::hint::spin_loop()
                    }
                });
            }
            assert!(!lock.acquire(0, |_| false));
            let waiting = scope.spawn(|| {
                let (began, before) = (Instant::now(), switches_of_this_thread());
                assert!(!lock.acquire(1, |_| false));
                lock.release(true);
                (began.elapsed(), switches_of_this_thread() - before)
            });
            thread::sleep(20 * DOZE);
            lock.release(true);
            let (waited, switches) = waiting.join().unwrap();
            over.store(1, Ordering::Relaxed);
            let most = 10 + 2 * (waited.as_millis() / DOZE.as_millis()) as u64;
            assert!(switches <= most, "{switches} switches in {waited:?}");
        });
    }
}
