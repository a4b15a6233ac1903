//! Cache lines, as far as a program can say something about them.

/// Asks for the line of `address` to be brought here for writing, so that the store does not wait
/// for it. Any address will do; one that is not mapped is ignored.
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
