//! The one copy of a message that is sent by value.

use std::ptr::NonNull;

/// From this many bytes on, a copy is worth a way of its own.
///
/// Up to about half a megabyte the C library copies with the processor's string instruction, too;
/// past that it takes vector stores, and each of those first fetches the line that it overwrites
/// from where it was read last. Between cores of different last-level caches that costs five times
/// the copy: 124 µs instead of 24 µs for 1 MiB (`cargo bench --bench ratios -- large.send`).
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LARGE: usize = 256 << 10;

/// Copies `bytes` bytes.
///
/// # Safety
/// Both ranges are valid for that many bytes, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes >= LARGE && std::arch::is_x86_feature_detected!("ermsb") {
        // SAFETY: the caller's.
        return unsafe { copy_large(from, to, bytes) };
    }
    // SAFETY: the caller's.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
}

/// `REP MOVSB`, which takes whole lines without fetching them first.
///
/// # Safety
/// As [`copy_bytes`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
unsafe fn copy_large(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    // SAFETY: valid and disjoint ranges; the direction flag is clear by the calling convention.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rcx") bytes => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole() {
        let from: Vec<u8> = (0..600_001u32).map(|i| (i % 251) as u8).collect();
        for bytes in [0, 1, 63, 64, 4096, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 600_000] {
            let mut to = vec![0xee; bytes + 2];
            // SAFETY: both ranges have that many bytes, from their second one on.
            unsafe {
                let from = NonNull::from(&from[1..]).cast();
                copy_bytes(from, NonNull::from(&mut to[1..]).cast(), bytes);
            }
            assert_eq!((to[0], to[bytes + 1]), (0xee, 0xee));
            assert!(to[1..=bytes] == from[1..=bytes]);
        }
    }
}
