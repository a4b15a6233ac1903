//! The only source of atomics, fences, futexes and data-race markers.
//!
//! Every other module takes them from here, so that one switch (`--cfg loom`) replaces all of them by those of the
//! model checker. Comments where they are used justify the orderings: each `Release` names the `Acquire` that it pairs
//! with.
//!
//! The system calls for futexes and `membarrier` are made by number, because nix has no functions for them. The crate
//! rustix has most of them, but would be a second crate for the same purpose.

#[cfg(not(loom))]
pub(crate) use self::machine::*;
#[cfg(loom)]
pub(crate) use self::model::*;
#[cfg(loom)]
pub use self::model::{RaceMarker, interleavings};

#[cfg(any(test, loom))]
pub(crate) mod life;
#[cfg(all(test, not(loom)))]
mod mortal;

#[cfg(not(loom))]
mod machine {
    use std::time::Duration;

    #[cfg(not(test))]
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};
    pub(crate) use std::sync::{
        Mutex,
        atomic::{AtomicPtr, Ordering, compiler_fence, fence},
    };
    pub(crate) use std::thread::yield_now;

    #[cfg(test)]
    pub(crate) use super::mortal::{AtomicU32, AtomicU64};

    /// Marks the place of plain (non-atomic) data, so that the model checker sees each access to it. Takes no space and
    /// no time in a real build.
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

    /// The largest number of words that FUTEX_WAITV takes.
    #[cfg(not(miri))]
    const WAITV_MOST: usize = 128;
    /// A flag of linux/futex.h: the word has 32 bits. FUTEX_PRIVATE_FLAG is not set, for the same reason as in
    /// [`Futex`].
    #[cfg(not(miri))]
    const FUTEX_32: u32 = 2;

    /// `struct futex_waitv` of linux/futex.h.
    #[cfg(not(miri))]
    #[repr(C)]
    struct Waiter {
        expected: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }

    /// A word on which threads can sleep, in any process that maps the word.
    ///
    /// The futex calls are those for shared memory. With `FUTEX_PRIVATE_FLAG`, the kernel would look for waiters by
    /// their address in this process, and would never find waiters of other processes.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct Futex(AtomicU32);

    impl Futex {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        /// Sleeps until one of several words is woken, but only while each word still has the value beside it, and for
        /// `limit` at most. May return early for no reason. If the system call for this is not available (before Linux
        /// 5.16, or for more than 128 words), this sleeps on the first word alone, and not longer than `unsure`.
        pub(crate) fn sleep_on_any(
            words: &[(&Self, u32)],
            unsure: Duration,
            limit: Option<Duration>,
        ) {
            let Some(&(first, expected)) = words.first() else { return };
            if words.len() == 1 {
                return first.sleep(expected, limit);
            }
            #[cfg(not(miri))]
            if words.len() <= WAITV_MOST {
                let waiters: Vec<Waiter> = words
                    .iter()
                    .map(|&(word, expected)| Waiter {
                        expected: expected.into(),
                        address: word.0.as_ptr() as u64,
                        flags: FUTEX_32,
                        reserved: 0,
                    })
                    .collect();
                // The system call takes the time at which the sleep ends, on the monotonic clock.
                let until = limit.and_then(|limit| {
                    let clock = nix::time::ClockId::CLOCK_MONOTONIC;
                    Some(*(nix::time::clock_gettime(clock).ok()? + limit.into()).as_ref())
                });
                let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
                // SAFETY: the array, the words that it names, and the time live until the call returns. The kernel only
                // reads them.
                let slept = unsafe {
                    nix::libc::syscall(
                        nix::libc::SYS_futex_waitv,
                        waiters.as_ptr(),
                        waiters.len(),
                        0,
                        until,
                        nix::libc::CLOCK_MONOTONIC,
                    )
                };
                // The thread was woken, one of the words had changed already, a signal came, or the time was over.
                let early = [
                    nix::errno::Errno::EAGAIN,
                    nix::errno::Errno::EINTR,
                    nix::errno::Errno::ETIMEDOUT,
                ];
                if slept >= 0 || early.contains(&nix::errno::Errno::last()) {
                    return;
                }
            }
            first.sleep(expected, Some(limit.map_or(unsure, |limit| limit.min(unsure))));
        }

        /// Returns whether [`sleep_on_any`](Self::sleep_on_any) can sleep on several words here.
        pub(crate) fn can_sleep_on_any() -> bool {
            #[cfg(miri)]
            return false;
            #[cfg(not(miri))]
            {
                static CAN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
                *CAN.get_or_init(|| {
                    // SAFETY: the number of words is 0, so the kernel reads nothing. A kernel that has the call refuses
                    // it with EINVAL.
                    let refused = unsafe {
                        let none = std::ptr::null::<Waiter>();
                        let limit = std::ptr::null::<nix::libc::timespec>();
                        nix::libc::syscall(nix::libc::SYS_futex_waitv, none, 0, 0, limit, 0)
                    };
                    refused < 0 && nix::errno::Errno::last() == nix::errno::Errno::EINVAL
                })
            }
        }

        /// Returns the word's value. `Acquire`: pairs with the `Release` in [`Futex::advance_and_wake`].
        #[inline]
        pub(crate) fn value(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Adds one to the word and wakes every sleeper.
        pub(crate) fn advance_and_wake(&self) {
            // Release: pairs with the Acquire in `value`.
            self.0.fetch_add(1, Ordering::Release);
            // SAFETY: FUTEX_WAKE uses the address only as a key, and the word lives until the call returns.
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

        /// Adds one to the word and wakes one sleeper.
        pub(crate) fn advance_and_wake_one(&self) {
            // Release: pairs with the Acquire in `value`.
            self.0.fetch_add(1, Ordering::Release);
            // SAFETY: FUTEX_WAKE uses the address only as a key, and the word lives until the call returns.
            #[cfg(not(miri))]
            unsafe {
                nix::libc::syscall(nix::libc::SYS_futex, self.0.as_ptr(), nix::libc::FUTEX_WAKE, 1);
            }
        }

        /// Adds one to the word and wakes all threads that sleep with any of these bits, by a single system call.
        pub(crate) fn advance_and_wake_bits(&self, bits: u32) {
            // Release: pairs with the Acquire in `value`.
            self.0.fetch_add(1, Ordering::Release);
            #[cfg(miri)]
            let _ = bits;
            // SAFETY: FUTEX_WAKE_BITSET uses the address only as a key, and the word lives until the call returns.
            #[cfg(not(miri))]
            unsafe {
                nix::libc::syscall(
                    nix::libc::SYS_futex,
                    self.0.as_ptr(),
                    nix::libc::FUTEX_WAKE_BITSET,
                    i32::MAX,
                    std::ptr::null::<nix::libc::timespec>(),
                    std::ptr::null::<u32>(),
                    bits,
                );
            }
        }

        /// Sleeps as [`sleep`](Self::sleep) does without a limit, but wakes for any of these bits. At least one bit
        /// must be set.
        pub(crate) fn sleep_bits(&self, expected: u32, bits: u32) {
            #[cfg(miri)]
            {
                let _ = (expected, bits);
                std::thread::yield_now();
            }
            // SAFETY: the word lives until the call returns, and the kernel only reads it. The null pointers mean that
            // there is no time limit and no second word.
            #[cfg(not(miri))]
            unsafe {
                nix::libc::syscall(
                    nix::libc::SYS_futex,
                    self.0.as_ptr(),
                    nix::libc::FUTEX_WAIT_BITSET,
                    expected,
                    std::ptr::null::<nix::libc::timespec>(),
                    std::ptr::null::<u32>(),
                    bits,
                );
            }
        }

        /// Sleeps until woken, but only while the word still has the value `expected`. Returns after `timeout` at the
        /// latest, and may return early for no reason.
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
                // SAFETY: the word and the optional timespec live until the call returns. The kernel only reads them.
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

    pub(crate) use loom::sync::{
        Mutex,
        atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    };
    pub(crate) use loom::thread::yield_now;

    /// The counterpart of the real marker: an `UnsafeCell` that loom watches.
    #[derive(Debug)]
    pub struct RaceMarker(loom::cell::UnsafeCell<()>);

    // SAFETY: the cell holds no data. It exists only so that loom reports unordered accesses.
    unsafe impl Sync for RaceMarker {}

    impl RaceMarker {
        /// Does what the method of the real marker does.
        #[allow(clippy::new_without_default, reason = "as the real one")]
        pub fn new() -> Self {
            Self(loom::cell::UnsafeCell::new(()))
        }

        /// Does what the method of the real marker does.
        pub fn writing(&self) {
            self.0.with_mut(|_| ());
        }

        /// Does what the method of the real marker does.
        pub fn reading(&self) {
            self.0.with(|_| ());
        }
    }

    /// A futex made of a word and a mutex: comparing the word and going to sleep are one step, as in the kernel.
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

        pub(crate) fn advance_and_wake_one(&self) {
            self.word.fetch_add(1, Ordering::Release);
            let _queue = self.queue.lock().unwrap();
            self.bell.notify_one();
        }

        /// Wakes all sleepers. To those with other bits, this is a wake-up for no reason.
        pub(crate) fn advance_and_wake_bits(&self, _bits: u32) {
            self.advance_and_wake();
        }

        pub(crate) fn sleep_bits(&self, expected: u32, _bits: u32) {
            self.sleep(expected, None);
        }

        pub(crate) fn can_sleep_on_any() -> bool {
            true
        }

        /// In a model, sleeps only on the first word.
        pub(crate) fn sleep_on_any(
            words: &[(&Self, u32)],
            _unsure: Duration,
            _limit: Option<Duration>,
        ) {
            if let Some(&(first, expected)) = words.first() {
                first.sleep(expected, None);
            }
        }

        pub(crate) fn sleep(&self, expected: u32, _timeout: Option<Duration>) {
            let queue = self.queue.lock().unwrap();
            if self.word.load(Ordering::Acquire) == expected {
                drop(self.bell.wait(queue).unwrap());
            }
        }
    }

    /// Returns a builder that runs a test in all interleavings with up to `preemptions` involuntary thread switches, or
    /// up to `LOOM_MAX_PREEMPTIONS` if that is less, and with all values that its loads may see.
    pub fn interleavings(preemptions: usize) -> loom::model::Builder {
        let mut model = loom::model::Builder::new();
        let most = model.preemption_bound.unwrap_or(preemptions);
        model.preemption_bound = Some(preemptions.min(most));
        model
    }

    /// Runs `test` in these [`interleavings`].
    #[cfg(test)]
    pub(crate) fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
        interleavings(preemptions).check(test);
    }

    /// Does nothing, because loom keeps the program order of a thread anyway, and this fence orders nothing for other
    /// threads.
    pub(crate) fn compiler_fence(_order: Ordering) {}
}
