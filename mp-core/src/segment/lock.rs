//! A lock in shared memory whose holder may die.

use crate::sync::{AtomicU32, Ordering, yield_now};

/// Who holds the lock is written in it, so that the others can tell a slow holder from a dead
/// one; and what it protects is marked while it is being changed.
///
/// | `holder` | `dirty` | meaning |
/// |---|---|---|
/// | 0 | 0 | free |
/// | r + 1 | 1 | held by rank r |
/// | r + 1, r gone | 1 | may be taken over: what it protects must be mended first |
/// | 0 | 1 | the holder unwound in the middle: likewise |
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RobustLock {
    holder: AtomicU32,
    dirty: AtomicU32,
}

/// Looks at a held lock between two questions whether its holder lives; one less than a power of 2.
const SELDOM: u32 = if cfg!(loom) { 0 } else { 63 };

impl RobustLock {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { holder: AtomicU32::new(0), dirty: AtomicU32::new(0) }
    }

    /// Takes the lock for rank `me`. Returns whether a holder died in the middle of a change.
    ///
    /// `lost` says whether a rank is dead: not merely that it panicked, since somebody may still
    /// run with the lock in its name. The wait never sleeps long: every holder is alive and
    /// inside a short section, or lost.
    pub(crate) fn acquire(&self, me: u32, lost: impl Fn(u32) -> bool) -> bool {
        let mut looks = 0u32;
        loop {
            // Acquire: pairs with the Release in `release`.
            match self.holder.compare_exchange_weak(0, me + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(holder) if holder != 0 && looks & SELDOM == SELDOM && lost(holder - 1) => {
                    // `lost` has seen what was stored before the death.
                    if self
                        .holder
                        .compare_exchange(holder, me + 1, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                    {
                        break;
                    }
                }
                Err(_) => {}
            }
            looks = looks.wrapping_add(1);
            match looks {
                _ if cfg!(loom) => yield_now(),
                0..16 => std::hint::spin_loop(),
                16..1024 => yield_now(),
                // A holder that is stopped by a signal or a debugger.
                _ => std::thread::sleep(std::time::Duration::from_micros(100)),
            }
        }
        // Acquire: the changes come after the mark, also where this rank dies between the two.
        self.dirty.swap(1, Ordering::Acquire) != 0
    }

    /// Gives the lock back. `whole` says that the change was finished.
    pub(crate) fn release(&self, whole: bool) {
        if whole {
            // Release: the changes come before it is taken away.
            self.dirty.store(0, Ordering::Release);
        }
        // Release: pairs with the Acquire in `acquire`.
        self.holder.store(0, Ordering::Release);
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
        explore(3, || {
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
        explore(3, || {
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
            // Told once, now or later.
            assert_eq!(protected.acquire(0), !told);
        });
    }

    /// The holder dies in the middle while another waits, and a third comes.
    #[test]
    fn a_dead_holder_is_followed_by_one_who_knows() {
        explore(3, || {
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
            // What the kernel tells the launcher, and the launcher the others.
            dying.join().unwrap();
            protected.dead.store(1 << 2, Ordering::Release);
            let mended = [follow(0)(), waiting.join().unwrap()];
            assert_eq!(mended.iter().filter(|&&mend| mend).count(), 1, "{mended:?}");
        });
    }
}
