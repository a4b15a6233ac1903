//! The asymmetric fence between a thread that publishes often and a thread that goes to sleep rarely.
//!
//! Each side stores a word, and then loads the word that the other side stores. The sender publishes, and then looks
//! for a sleeper. The sleeper raises its flag, and then looks for a message. At least one of them must see the other's
//! store. This takes either a full fence on both sides, or no fence on the frequent side and a `membarrier` on the rare
//! one: the kernel then runs a fence on every core that runs a registered process.
//!
//! Which of the two a world uses is fixed in its header, because both sides must agree.

use crate::sync::{Ordering, compiler_fence, fence};

/// The form of the fence that a world uses. It is fixed when the world is made, because both sides must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asymmetry {
    membarrier: bool,
}

impl Asymmetry {
    /// Ordinary fences on both sides.
    pub(crate) const ORDINARY: Self = Self { membarrier: false };

    /// Registers this process for `membarrier`. Falls back to ordinary fences if the kernel or a sandbox does not offer
    /// it.
    pub(crate) fn offered_here() -> Self {
        Self { membarrier: kernel::register() }
    }

    /// Returns the form of a world that another process made. Returns `None` if that world uses `membarrier` and this
    /// process can't, because the fences of other ranks would then not cover this process.
    pub(crate) fn joined(membarrier: bool) -> Option<Self> {
        (!membarrier || kernel::register()).then_some(Self { membarrier })
    }

    /// Returns whether the rare side uses `membarrier`.
    pub(crate) fn uses_membarrier(self) -> bool {
        self.membarrier
    }

    /// Fences the frequent side, between its store and its load.
    #[inline(always)]
    pub(crate) fn light(self) {
        if self.membarrier {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Fences the rare side, between its store and its load. Returns false if the kernel refused. Then there was no
    /// fence, and the caller must look again after a while.
    #[must_use]
    pub(crate) fn heavy(self) -> bool {
        if self.membarrier {
            return kernel::barrier();
        }
        fence(Ordering::SeqCst);
        true
    }
}

#[cfg(all(not(loom), not(miri)))]
mod kernel {
    use nix::libc;

    // These constants are from linux/membarrier.h. The libc crate has them only on some targets.
    const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

    fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        call(REGISTER_GLOBAL_EXPEDITED)
    }

    /// Can fail even after a registration: for lack of memory on machines with very many cores, or because a sandbox
    /// was set up in the meantime.
    pub(super) fn barrier() -> bool {
        call(GLOBAL_EXPEDITED)
    }
}

#[cfg(any(loom, miri))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }
}
