//! The pause of a core between two looks at a word.
//!
//! It is the instruction `PAUSE` on every x86. If the processor can watch a line from user mode (`UMONITOR` and
//! `UMWAIT` on Intel, `MONITORX` and `MWAITX` on AMD), a longer wait sleeps on the line for a bounded time, and leaves
//! the core's resources to its SMT sibling.

/// How this processor can wait on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineWait {
    /// The processor has neither pair of instructions, so the core only pauses.
    Pause,
    /// Intel's UMONITOR and UMWAIT (CPUID 7.0 ECX bit 5).
    #[cfg(target_arch = "x86_64")]
    Umwait,
    /// AMD's MONITORX and MWAITX (CPUID 8000_0001 ECX bit 29).
    #[cfg(target_arch = "x86_64")]
    Mwaitx,
}

impl LineWait {
    /// Returns the way that this processor has.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    pub(crate) fn detect() -> Self {
        use std::arch::x86_64::__cpuid_count;
        let highest = __cpuid_count(0, 0).eax;
        if highest >= 7 && __cpuid_count(7, 0).ecx & (1 << 5) != 0 {
            return Self::Umwait;
        }
        let highest_extended = __cpuid_count(0x8000_0000, 0).eax;
        if highest_extended >= 0x8000_0001 && __cpuid_count(0x8000_0001, 0).ecx & (1 << 29) != 0 {
            return Self::Mwaitx;
        }
        Self::Pause
    }

    /// Returns the way that this processor has.
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    pub(crate) fn detect() -> Self {
        Self::Pause
    }

    /// Returns whether [`sleep_on_line`](Self::sleep_on_line) is more than a pause at this address.
    pub(super) fn sleeps_on(self, address: *const ()) -> bool {
        self != Self::Pause && !address.is_null()
    }

    /// Sleeps on the line of `address` for at most some microseconds. Does not sleep if `ready`, which is called after
    /// the watch is armed, says that there is nothing to wait for. A null address means that there is no single line.
    ///
    /// Because the sleep is bounded, the call is harmless if the line never changes. With a null address, this is one
    /// pause.
    #[inline]
    pub(crate) fn sleep_on_line(self, address: *const (), ready: impl FnOnce() -> bool) {
        match self {
            // The instructions fault on an address that is not mapped.
            _ if address.is_null() => std::hint::spin_loop(),
            Self::Pause => std::hint::spin_loop(),
            #[cfg(target_arch = "x86_64")]
            Self::Umwait => x86::umwait(address, ready),
            #[cfg(target_arch = "x86_64")]
            Self::Mwaitx => x86::mwaitx(address, ready),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{
        arch::{asm, x86_64::_rdtsc},
        time::Duration,
    };

    use crate::costs::ticks;

    /// The longest sleep: short compared with a wake-up by a futex, and long compared with a line transfer.
    const AT_MOST: Duration = Duration::from_micros(2);

    pub(super) fn umwait(address: *const (), ready: impl FnOnce() -> bool) {
        // SAFETY: this is called only if CPUID shows WAITPKG. UMONITOR reads no data from `address`, which lies in a
        // live mapping, and UMWAIT ends at the deadline at the latest.
        unsafe {
            asm!("umonitor {0}", in(reg) address, options(nostack, preserves_flags));
            if ready() {
                return;
            }
            let deadline = _rdtsc() + u64::from(ticks(AT_MOST));
            // State 1 is C0.1: the lighter sleep with the faster wake.
            asm!("umwait {0:e}", in(reg) 1u32, in("edx") (deadline >> 32) as u32,
                in("eax") deadline as u32, options(nostack));
        }
    }

    pub(super) fn mwaitx(address: *const (), ready: impl FnOnce() -> bool) {
        // SAFETY: this is called only if CPUID shows MONITORX. MONITORX reads no data from `address`, which lies in a
        // live mapping. Bit 1 of ECX makes MWAITX end after EBX cycles at the latest. LLVM reserves RBX, so it is
        // restored.
        unsafe {
            asm!("monitorx", in("rax") address, in("ecx") 0u32, in("edx") 0u32,
                options(nostack, preserves_flags));
            if ready() {
                return;
            }
            asm!("xchg rbx, {limit}", "mwaitx", "xchg rbx, {limit}",
                limit = inout(reg) u64::from(ticks(AT_MOST)) => _, in("eax") 0xf0u32, in("ecx") 2u32,
                options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions fault on an address that is not mapped.
    #[test]
    fn without_a_line_there_is_nothing_to_watch() {
        let mut waits = vec![LineWait::Pause, LineWait::detect()];
        #[cfg(target_arch = "x86_64")]
        waits.extend([LineWait::Umwait, LineWait::Mwaitx]);
        for wait in waits {
            wait.sleep_on_line(std::ptr::null(), || false);
        }
    }

    #[test]
    fn a_watched_line_is_slept_on_for_a_bounded_time() {
        let line = 0u64;
        for _ in 0..100 {
            LineWait::detect().sleep_on_line(std::ptr::from_ref(&line).cast(), || false);
            LineWait::detect().sleep_on_line(std::ptr::from_ref(&line).cast(), || true);
        }
    }
}
