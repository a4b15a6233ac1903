//! The asymmetric fence between a thread that publishes often and a thread that goes to sleep rarely.
//!
//! Each side stores a word, and then loads the word that the other side stores. The sender publishes, and then looks
//! for a sleeper. The sleeper raises its flag, and then looks for a message. At least one of them must see the other's
//! store. This takes either a full fence on both sides, or no fence on the frequent side and a `membarrier` on the rare
//! one: the kernel then runs a fence on every core that runs a registered process.
//!
//! All threads of a world use the same form, because both sides must agree.
//!
//! # What the kernel misses
//! `membarrier` has a command for the threads of one process (`PRIVATE_EXPEDITED`), and one for all processes that have
//! registered (`GLOBAL_EXPEDITED`). The second one misses some cores. A core notes whether its process is registered
//! when it switches to another process, or when a process that it runs registers. A core that last ran a process, and
//! was idle when that process registered on another core, notes nothing. If its next thread is of the same process, that
//! is no switch, and no fence ever reaches this core until another process has run there. (Linux 6.18,
//! `kernel/sched/membarrier.c`.) Then a sleeper and a sender can miss each other: of two threads that slept and woke
//! each other, one slept for ever after some 10,000 rounds.
//!
//! So a world of threads uses the first command. Processes have only the second one, and do not rely on it: see
//! [`Asymmetry::heavy`].

use std::time::Duration;

use crate::sync::{Ordering, compiler_fence, fence};

/// The most that a wake-up comes late of which the kernel's fence among processes has reached neither side. This is longer
/// than the time between two ticks of the kernel, so that a core on which other threads run need not set its timer.
const UNSURE: Duration = Duration::from_millis(20);
/// After this time, a store of another thread has arrived even without a fence.
pub(crate) const ARRIVED: Duration = Duration::from_millis(1);

/// The form of the fence. That of a world is fixed when the world is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asymmetry {
    /// Ordinary fences on both sides.
    Ordinary,
    /// `membarrier` among the threads of this process.
    Process,
    /// `membarrier` among processes.
    World,
}

impl Asymmetry {
    /// Registers this process for `membarrier` among its threads, and with `processes` among processes. Falls back to
    /// ordinary fences if the kernel or a sandbox does not offer it.
    pub(crate) fn offered_here(processes: bool) -> Self {
        match processes {
            true if kernel::register_among_processes() => Self::World,
            false if kernel::register() => Self::Process,
            _ => Self::Ordinary,
        }
    }

    /// Returns the form of a world that another process made. Returns `None` if that world uses `membarrier` and this
    /// process can't: no fence of other ranks would reach it, so that it would often be woken late.
    pub(crate) fn joined(membarrier: bool) -> Option<Self> {
        match membarrier {
            false => Some(Self::Ordinary),
            true => kernel::register_among_processes().then_some(Self::World),
        }
    }

    /// Returns whether the rare side uses `membarrier`.
    #[inline(always)]
    pub(crate) fn uses_membarrier(self) -> bool {
        self != Self::Ordinary
    }

    /// Fences the frequent side, between its store and its load.
    #[inline(always)]
    pub(crate) fn light(self) {
        if self.uses_membarrier() {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Fences the rare side, between its store and its load. If a thread on the frequent side may have missed both the
    /// fence and the store, returns how long the caller may sleep before it looks once more. The other thread's store is
    /// then still on its way, and arrives by itself. After [`ARRIVED`], it has arrived, and every thread sees the
    /// caller's store.
    #[must_use]
    pub(crate) fn heavy(self) -> Option<Duration> {
        match self {
            Self::Ordinary => {
                fence(Ordering::SeqCst);
                None
            }
            Self::Process => (!kernel::barrier()).then_some(ARRIVED),
            // The fence reaches nearly all threads, so that hardly any wake-up comes late.
            Self::World if kernel::barrier_among_processes() => Some(UNSURE),
            Self::World => Some(ARRIVED),
        }
    }

    /// Fences as [`heavy`](Self::heavy) does, where all threads on the frequent side are threads of this process.
    /// Returns false only if the kernel refused.
    #[must_use]
    pub(crate) fn heavy_here(self) -> bool {
        match self {
            Self::World => Self::Process.heavy().is_none(),
            _ => self.heavy().is_none(),
        }
    }
}

#[cfg(all(not(loom), not(miri)))]
mod kernel {
    use nix::libc;

    // These constants are from linux/membarrier.h. The libc crate has them only on some targets.
    const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn register_among_processes() -> bool {
        register() && call(REGISTER_GLOBAL_EXPEDITED)
    }

    /// This and the next one can fail even after a registration: for lack of memory on machines with very many cores, or
    /// because a sandbox was set up in the meantime.
    pub(super) fn barrier() -> bool {
        call(PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier_among_processes() -> bool {
        call(GLOBAL_EXPEDITED)
    }
}

#[cfg(any(loom, miri))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn register_among_processes() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }

    pub(super) fn barrier_among_processes() -> bool {
        false
    }
}
