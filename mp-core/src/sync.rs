//! The one door to atomics, fences, futexes and data-race markers.
//!
//! Every other module takes them from here, so that one switch (`--cfg loom`) puts the model
//! checker under all of them. Orderings are argued where they are used; each `Release` there
//! names the `Acquire` that it pairs with.

#[cfg(not(loom))]
pub(crate) use self::machine::*;
#[cfg(loom)]
pub(crate) use self::model::*;

#[cfg(not(loom))]
mod machine {
    use std::time::Duration;

    pub(crate) use std::sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence,
    };
    pub(crate) use std::thread::yield_now;

    /// Marks the place of plain (non-atomic) data so that the model checker sees each access to
    /// it. Takes no room and no time in a real build.
    #[derive(Debug, Default)]
    pub(crate) struct RaceMarker;

    impl RaceMarker {
        pub(crate) const fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn writing(&self) {}

        #[inline(always)]
        pub(crate) fn reading(&self) {}
    }

    /// A word on which threads of any process that maps it can sleep.
    ///
    /// The futex calls are the shared kind: `FUTEX_PRIVATE_FLAG` would hash the address of this
    /// process and never meet a waiter of another one.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct Futex(AtomicU32);

    impl Futex {
        pub(crate) const fn new() -> Self {
            Self(AtomicU32::new(0))
        }

        /// The word's value. `Acquire`: pairs with the `Release` in [`Futex::advance_and_wake`].
        #[inline]
        pub(crate) fn value(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Adds one to the word and wakes every sleeper.
        pub(crate) fn advance_and_wake(&self) {
            // Release: pairs with the Acquire in `value`.
            self.0.fetch_add(1, Ordering::Release);
            // SAFETY: FUTEX_WAKE takes the address only as a key; the word is alive for the call.
            #[cfg(not(miri))]
            unsafe {
                nix::libc::syscall(
                    nix::libc::SYS_futex,
                    self.0.as_ptr(),
                    nix::libc::FUTEX_WAKE,
                    i32::MAX,
                );
            }
        }

        /// Sleeps until woken, but only while the word still has the value `expected`; returns
        /// after `timeout` at the latest, and may return early for no reason.
        pub(crate) fn sleep(&self, expected: u32, timeout: Option<Duration>) {
            #[cfg(miri)]
            {
                let _ = (expected, timeout);
                std::thread::yield_now();
            }
            #[cfg(not(miri))]
            {
                let limit = timeout.map(|t| nix::libc::timespec {
                    tv_sec: t.as_secs().min(i64::MAX as u64) as nix::libc::time_t,
                    tv_nsec: t.subsec_nanos() as _,
                });
                let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
                // SAFETY: the word and the optional timespec are alive for the call; the kernel
                // reads both and writes neither.
                unsafe {
                    nix::libc::syscall(
                        nix::libc::SYS_futex,
                        self.0.as_ptr(),
                        nix::libc::FUTEX_WAIT,
                        expected,
                        limit,
                    );
                }
            }
        }
    }
}

#[cfg(loom)]
mod model {
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;

    /// See the real one: an `UnsafeCell` that loom watches.
    #[derive(Debug)]
    pub(crate) struct RaceMarker(loom::cell::UnsafeCell<()>);

    // SAFETY: the cell holds no data; its only purpose is that loom reports unordered access.
    unsafe impl Sync for RaceMarker {}

    impl RaceMarker {
        pub(crate) fn new() -> Self {
            Self(loom::cell::UnsafeCell::new(()))
        }

        pub(crate) fn writing(&self) {
            self.0.with_mut(|_| ());
        }

        pub(crate) fn reading(&self) {
            self.0.with(|_| ());
        }
    }

    /// The futex as a word under a mutex: comparing and going to sleep are one step, as in the
    /// kernel.
    #[derive(Debug)]
    pub(crate) struct Futex {
        word: AtomicU32,
        queue: loom::sync::Mutex<()>,
        bell: loom::sync::Condvar,
    }

    impl Futex {
        pub(crate) fn new() -> Self {
            Self {
                word: AtomicU32::new(0),
                queue: loom::sync::Mutex::new(()),
                bell: loom::sync::Condvar::new(),
            }
        }

        pub(crate) fn value(&self) -> u32 {
            self.word.load(Ordering::Acquire)
        }

        pub(crate) fn advance_and_wake(&self) {
            self.word.fetch_add(1, Ordering::Release);
            let _queue = self.queue.lock().unwrap();
            self.bell.notify_all();
        }

        pub(crate) fn sleep(&self, expected: u32, _timeout: Option<Duration>) {
            let queue = self.queue.lock().unwrap();
            if self.word.load(Ordering::Acquire) == expected {
                drop(self.bell.wait(queue).unwrap());
            }
        }
    }

    /// Loom has no compiler fences: an ordinary one is at least as strong.
    pub(crate) fn compiler_fence(order: Ordering) {
        fence(order);
    }
}
