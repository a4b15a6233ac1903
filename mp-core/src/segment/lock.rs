//! A lock in shared memory whose holder may die.

use crate::sync::{AtomicU32, Ordering, yield_now};

/// Who holds the lock is written in it, so that the others can tell a slow holder from a dead
/// one; and what it protects is marked while it is being changed.
///
/// | `holder` | `dirty` | meaning |
/// |---|---|---|
/// | 0 | 0 | free |
/// | r + 1 | 1 | held by rank r |
/// | r + 1, r dead | 1 | may be taken over: what it protects must be mended first |
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

    /// Takes the lock for rank `me`. Returns whether a holder was lost in the middle of a change.
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
                Err(holder) if holder != 0 && looks & 63 == 63 && lost(holder - 1) => {
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
