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

impl RobustLock {
    pub(crate) fn new() -> Self {
        Self { holder: AtomicU32::new(0), dirty: AtomicU32::new(0) }
    }

    /// Takes the lock for rank `me`. Returns whether a holder died in the middle of a change.
    ///
    /// `gone` says whether nothing of a rank runs any more. The wait never sleeps long: every
    /// holder is alive and inside a short section, or gone.
    pub(crate) fn acquire(&self, me: u32, gone: impl Fn(u32) -> bool) -> bool {
        let mut looks = 0u32;
        loop {
            // Acquire: pairs with the Release in `release`.
            match self.holder.compare_exchange_weak(0, me + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(holder) if holder != 0 && looks & 63 == 63 && gone(holder - 1) => {
                    // A dead holder's stores are all in memory: Acquire orders them before ours.
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
        self.dirty.swap(1, Ordering::Relaxed) != 0
    }

    /// Gives the lock back. `whole` says that the change was finished.
    pub(crate) fn release(&self, whole: bool) {
        if whole {
            self.dirty.store(0, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `acquire`.
        self.holder.store(0, Ordering::Release);
    }
}
