//! Cache lines: the primitives from which algorithms on them are built, and what else a program can say about them.
//!
//! The primitives are those of S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent
//! Architectures*, section 2.4. A line's first word is its value. Plain loads and stores move it, and only [`add`] is a
//! locked instruction. Locked instructions take the line away from all its readers, and are not for polling.
//!
//! | in the paper | here | touches |
//! |---|---|---|
//! | `cl_copy(src, dest, N)` | [`copy`] | a load and a store of each line |
//! | `cl_wait(line, val, comp)` | [`wait`] | loads, until the value is there |
//! | `cl_write(line, value)` | [`write`] | a store |
//! | `cl_add(line, value)` | [`add`] | a load and a store, as one |
//!
//! The library's own waits go through `wait/`, which also sleeps and ends for a dead peer. [`wait`] is for threads that
//! have a core reserved for them.

mod fold;
mod shared;

pub(crate) use fold::fold;
pub(crate) use shared::{LINE_BYTES, Line, PAYLOAD, copy, get, put, put_past_caches};

use std::time::Duration;

use crate::{costs, sync::yield_now};

/// How long to look at a line, with a pause after each look, before other threads may run.
const LOOKING: Duration = Duration::from_micros(14);

/// Writes a value into a line.
#[inline(always)]
pub(crate) fn write(line: &Line, value: u64) {
    line.set_flag(value);
}

/// Adds a value to a line's value, and returns the previous value.
#[inline(always)]
pub(crate) fn add(line: &Line, value: u64) -> u64 {
    line.add_to_flag(value)
}

/// Polls a line until its value is as wanted, and returns that value. Returns [`None`] when `given_up` says so, which
/// is asked now and then.
///
/// Also lets other threads run now and then: where threads share a core, what is waited for may come from one of them.
#[inline]
pub(crate) fn wait(
    line: &Line,
    wanted: impl Fn(u64) -> bool,
    given_up: impl Fn() -> bool,
) -> Option<u64> {
    let looks = costs::pauses(LOOKING);
    loop {
        for _ in 0..looks {
            let value = line.flag();
            if wanted(value) {
                return Some(value);
            }
            std::hint::spin_loop();
        }
        if given_up() {
            return None;
        }
        yield_now();
    }
}

/// Evicts a line from all caches, so that the next access to it comes from memory. Returns whether this processor lets
/// programs do so. The eviction of all lines is done before [`evicted`] returns.
#[inline]
pub(crate) fn evict(line: &Line) -> bool {
    let _ = line;
    // SAFETY: the line is mapped; the instruction changes where it lies, and not what is in it.
    // Every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::x86_64::_mm_clflush(std::ptr::from_ref(line).cast());
        true
    }
    // SAFETY: as above. Linux lets programs use it, or carries it out for them.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("dc civac, {0}", in(reg) std::ptr::from_ref(line),
            options(nostack, preserves_flags));
        true
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    false
}

/// Waits until the lines of all earlier calls of [`evict`] are gone.
#[inline]
pub(crate) fn evicted() {
    // SAFETY: an instruction that only orders others; every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}

/// Asks for the line of `address` to be brought here for writing, so that the store does not wait for it. Any address
/// is allowed; one that is not mapped is ignored.
#[inline(always)]
pub(crate) fn prefetch_to_write(address: *const u8) {
    // The intrinsic would need a target feature that baseline x86-64 lacks, and falls back to a
    // prefetch for reading, which leaves the costly part, taking the line away from its reader, to
    // the store. Processors without the instruction execute it as a no-op.
    // SAFETY: a hint: it reads nothing, writes nothing, and never faults.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Two threads make each other continue through lines, and one copies what the other has written.
    #[test]
    fn what_was_written_before_is_there_after_the_wait() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let lines: Vec<Line> = (0..5).map(|_| Line::new()).collect();
        let [flag, answers, data, copies @ ..] = &lines[..] else { unreachable!() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    write(data, 3 * round);
                    write(flag, round);
                    wait(answers, |value| value == 2 * round, || false).unwrap();
                }
            });
            for round in 1..=rounds {
                assert_eq!(wait(flag, |value| value >= round, || false), Some(round));
                copy(std::slice::from_ref(data), copies);
                assert_eq!((copies[0].flag(), copies[1].flag()), (3 * round, 0));
                assert_eq!(add(answers, 1), 2 * round - 2);
                assert_eq!(add(answers, 1), 2 * round - 1);
            }
        });
    }

    #[test]
    fn waits_are_given_up() {
        assert_eq!(wait(&Line::new(), |value| value == 1, || true), None);
    }

    #[test]
    fn evicted_lines_keep_what_is_in_them() {
        let line = Line::new();
        write(&line, 7);
        evict(&line);
        evicted();
        assert_eq!(line.flag(), 7);
    }
}
