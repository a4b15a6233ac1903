//! Cache lines: the primitives from which algorithms on lines are built, and the hints that a program can give about
//! lines.
//!
//! The primitives are those of S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent
//! Architectures*, section 2.4. A line's first word is its value. Plain loads and stores access it, and only [`add`] is
//! a locked instruction. A locked instruction takes the line away from all its readers, so it must not be used for
//! polling.
//!
//! | in the paper | here | touches |
//! |---|---|---|
//! | `cl_copy(src, dest, N)` | [`copy`] | a load and a store of each line |
//! | `cl_wait(line, val, comp)` | [`wait`] | loads, until the value is there |
//! | `cl_write(line, value)` | [`write`] | a store |
//! | `cl_add(line, value)` | [`add`] | a load and a store, as one |
//!
//! The library's own waits go through `wait/`, where a rank also sleeps, and where the death of a peer ends the wait.
//! [`wait`] is for threads that have a core reserved for them.

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

/// Polls a line until `wanted` accepts its value, and returns that value. Calls `given_up` now and then, and returns
/// [`None`] when it says so.
///
/// Also lets other threads run now and then, because the thread that writes the value may share this core.
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

/// Evicts a line from all caches, so that the next access to it goes to memory. Returns whether programs can do this on
/// this processor. [`evicted`] waits for the end of all evictions.
#[inline]
pub(crate) fn evict(line: &Line) -> bool {
    let _ = line;
    // SAFETY: the line is mapped, and the instruction does not change its contents. Every x86-64 processor has the
    // instruction.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::x86_64::_mm_clflush(std::ptr::from_ref(line).cast());
        true
    }
    // SAFETY: as above. Linux lets programs use the instruction, or emulates it.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("dc civac, {0}", in(reg) std::ptr::from_ref(line),
            options(nostack, preserves_flags));
        true
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    false
}

/// Waits until the lines of all earlier calls of [`evict`] have left the caches.
#[inline]
pub(crate) fn evicted() {
    // SAFETY: the instruction only orders others. Every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
    // SAFETY: the instruction only orders others. Every AArch64 processor has it.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}

/// Asks the processor to fetch the line of `address` for writing, so that a later store need not wait for it. Any
/// address is allowed. An address that is not mapped is ignored.
#[inline(always)]
pub(crate) fn prefetch_to_write(address: *const u8) {
    // The intrinsic needs a target feature that baseline x86-64 lacks. Without it, the intrinsic prefetches for
    // reading, which leaves the costly part to the store: taking the line away from its reader. Processors without the
    // instruction execute it as a no-op.
    // SAFETY: the instruction is a hint. It reads and writes no memory that the program sees, and never faults.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: the instruction is a hint. It reads and writes no memory that the program sees, and never faults.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Asks the processor to fetch the line of `address` for reading. Any address is allowed. An address that is not mapped
/// is ignored.
#[inline(always)]
pub(crate) fn prefetch_to_read(address: *const u8) {
    // SAFETY: the instruction is a hint. It reads and writes no memory that the program sees, and never faults.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetcht0 [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: the instruction is a hint. It reads and writes no memory that the program sees, and never faults.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Two threads signal each other through lines, and one copies what the other has written.
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
