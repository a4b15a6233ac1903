//! The only copy of a message that is sent by value.

use std::ptr::NonNull;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::OnceLock;

use crate::Plain;

/// Number of bytes from which on a copy goes line by line, and not through the system's `memcpy`: half a round trip with
/// a message of 512 bytes takes 0.15 µs so, and 0.17 with `memcpy`, between near cores, and 0.50 and 0.60 between far
/// ones.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const BY_LINES: usize = 4 * 64;

/// Number of bytes from which on a copy is long. A long copy uses the processor's string instruction from
/// [so many bytes](strings_from) on, and otherwise goes line by line.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const LONG_COPY: usize = 9 * 64;

/// The string instruction is fastest with multiples of this many bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const STRING_STEP: usize = 128;

/// Returns whether to copy `bytes` bytes with the string instruction.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn is_string(bytes: usize) -> bool {
    bytes >= LONG_COPY && bytes >= strings_from()
}

/// Returns the number of bytes from which on the string instruction is faster than vectors, between cores.
///
/// | processor | bytes | why |
/// |---|---|---|
/// | Intel | [`LONG_COPY`] | It overwrites whole lines without fetching them first, whereas a vector store fetches the line that it overwrites from the core that last read it. Between cores of different last-level caches, this takes five times as long as the copy: 124 µs instead of 24 µs for 1 MiB (`cargo bench --bench ratios -- large.send`). It also requests all lines that it reads at once: a copy of 16 lines behind a flag, both from a core with another last-level cache, takes the time of one transfer with it, and of two without (`-- broadcast.1KB`). |
/// | AMD, from Zen 5 on | [`ZEN5`] | Longer copies take two thirds of the time: a message of 64 KiB 1.2 µs instead of 1.9 µs (`-- tagged.64KB`). Shorter ones take up to a third longer. |
/// | AMD, before | never | 8 KiB from core to core take 0.9 µs with it, and 0.5 to 0.7 µs line by line (`-- tagged.8KB`). |
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn strings_from() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        if !std::arch::is_x86_feature_detected!("ermsb") {
            return usize::MAX;
        }
        match vendor_and_family() {
            (vendor, _) if vendor == *b"GenuineIntel" => LONG_COPY,
            (vendor, ZEN5_FAMILY..) if vendor == *b"AuthenticAMD" => ZEN5,
            _ => usize::MAX,
        }
    })
}

/// Returns whether copies overwrite whole lines without fetching them first, wherever they are: see [`strings_from`].
pub(crate) fn overwrites_lines() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return strings_from() == LONG_COPY;
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return false;
}

/// See [`strings_from`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ZEN5: usize = 4 << 10;
/// The first family of AMD's processors of this kind.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ZEN5_FAMILY: u32 = 0x1a;

/// Returns the processor's maker and family.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn vendor_and_family() -> ([u8; 12], u32) {
    // SAFETY: every x86-64 processor has the instruction, and both leaves.
    #[allow(unused_unsafe, reason = "it is safe to call with newer compilers")]
    let [name, version] = [0, 1].map(|leaf| unsafe { std::arch::x86_64::__cpuid(leaf) });
    let mut vendor = [0; 12];
    for (word, bytes) in [name.ebx, name.edx, name.ecx].iter().zip(vendor.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    // Families from 15 on are the sum of two fields.
    let family = match version.eax >> 8 & 0xf {
        0xf => 0xf + (version.eax >> 20 & 0xff),
        family => family,
    };
    (vendor, family)
}

/// Copies elements as `copy_from_slice` does, in the way that is fastest if another core has written `from` or was the
/// last to read `to`. The library itself copies messages in this way.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy<T: Plain>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len(), "a copy of another length");
    // SAFETY: both slices have that many bytes. `to` is borrowed exclusively, so they do not overlap.
    unsafe { copy_bytes(NonNull::from(from).cast(), NonNull::from(to).cast(), size_of_val(from)) };
}

/// Copies `bytes` bytes.
///
/// # Safety
/// Both ranges are valid for that many bytes, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes >= BY_LINES {
        // SAFETY: the caller guarantees that both ranges are valid and do not overlap.
        return unsafe { copy_long(from, to, bytes) };
    }
    // SAFETY: the caller guarantees that both ranges are valid and do not overlap.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
}

/// # Safety
/// Same as [`copy_bytes`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)]
unsafe fn copy_long(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    let step = if is_string(bytes) { STRING_STEP } else { 64 };
    let whole = bytes / step * step;
    // SAFETY: the caller guarantees that both ranges are valid and do not overlap, so the same holds for the two parts.
    // The rest goes first, because the processor looks ahead from ordinary instructions into the string instruction,
    // but not out of it.
    unsafe {
        to.add(whole).copy_from_nonoverlapping(from.add(whole), bytes - whole);
        match is_string(whole) {
            true => move_string(from.as_ptr(), to.as_ptr(), whole),
            false => move_lines(from.as_ptr(), to.as_ptr(), whole / 64),
        }
    }
}

/// Copies lines of 64 bytes with this store instruction, beginning with the first line. Executes `$fence` before and
/// after.
///
/// For use in an `unsafe` block, and only if `$lines` is not zero and both ranges are valid for that many lines. The
/// compiler must assume that the assembly accesses them in any way.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! move_each_line {
    ($from:expr, $to:expr, $lines:expr, $store:literal $(, $fence:literal)?) => {
        std::arch::asm!(
            $($fence,)?
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            concat!($store, " [{to}], {a}"),
            concat!($store, " [{to} + 16], {b}"),
            concat!($store, " [{to} + 32], {c}"),
            concat!($store, " [{to} + 48], {d}"),
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            $($fence,)?
            from = inout(reg) $from => _,
            to = inout(reg) $to => _,
            lines = inout(reg) $lines => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        )
    };
}

/// Copies `lines` times 64 bytes, beginning with the first line.
///
/// # Safety
/// Both ranges are valid for that many bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) unsafe fn move_lines(from: *const u8, to: *const u8, lines: usize) {
    if lines >= BY_LINES / 64 && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller guarantees that both ranges are valid, and the processor has these vectors.
        unsafe { move_lines_wide(from, to, lines) };
    } else if lines != 0 {
        // SAFETY: the caller guarantees that both ranges are valid, and there is at least one line.
        unsafe { move_each_line!(from, to, lines, "movups") };
    }
}

/// Copies as [`move_lines`] does, with vectors of half a line: 4 KiB from core to core take 0.15 to 0.19 µs so, and
/// 0.23 to 0.26 µs with those of a quarter, on AMD's Zen 5. The upper halves of the vector registers are zero afterwards:
/// with anything else in them, a program's SSE code takes twice as long until they are cleared.
///
/// # Safety
/// Both ranges are valid for that many bytes, and `lines` is not zero.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
#[inline(never)]
unsafe fn move_lines_wide(from: *const u8, to: *const u8, lines: usize) {
    // SAFETY: the caller guarantees that both ranges are valid, and there is at least one line. The compiler must
    // assume that the assembly accesses them in any way. It keeps nothing in the upper halves of vectors here: this
    // function uses no others and is not inlined, and no caller's vector survives a call.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovups {a}, [{from}]",
            "vmovups {b}, [{from} + 32]",
            "vmovups [{to}], {a}",
            "vmovups [{to} + 32], {b}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            // The compiler does not add this for assembly.
            "vzeroupper",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            options(nostack),
        );
    }
}

/// Copies forward with `REP MOVSB`.
///
/// # Safety
/// Both ranges are valid for that many bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) unsafe fn move_string(from: *const u8, to: *const u8, bytes: usize) {
    // SAFETY: the caller guarantees that both ranges are valid. The direction flag is clear by the calling convention.
    // The instruction's stores come before all later stores (Intel SDM, volume 3, section 9.2.4.1).
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rcx") bytes => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies `bytes` bytes past the caches if the processor can. Afterwards, the whole lines are in no cache. As with
/// other copies, a later Release store comes after the copy.
///
/// # Safety
/// Both ranges are valid for that many bytes, and do not overlap.
pub(crate) unsafe fn copy_past_caches(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller guarantees that both ranges are valid and do not overlap, so the same holds for the three
    // parts.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        // The first part ends at the beginning of a line, so that the lines after it are written as a whole.
        let before = to.align_offset(64).min(bytes);
        let lines = (bytes - before) / 64;
        to.copy_from_nonoverlapping(from, before);
        move_lines_past_caches(from.add(before).as_ptr(), to.add(before).as_ptr(), lines);
        let rest = before + 64 * lines;
        to.add(rest).copy_from_nonoverlapping(from.add(rest), bytes - rest);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller guarantees that both ranges are valid and do not overlap.
    unsafe {
        to.copy_from_nonoverlapping(from, bytes)
    }
}

/// Copies `lines` times 64 bytes past the caches, to an address that is a multiple of 64.
///
/// # Safety
/// Same as [`move_lines`]; `to` is aligned.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) unsafe fn move_lines_past_caches(from: *const u8, to: *const u8, lines: usize) {
    if lines != 0 {
        // By themselves, these stores are not ordered with others, so there is a fence before and after them.
        // SAFETY: the caller guarantees that both ranges are valid and `to` is aligned, and there is at least one line.
        unsafe { move_each_line!(from, to, lines, "movntps", "sfence") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole() {
        let most = if cfg!(miri) { 10_000 } else { 600_000 };
        let from: Vec<u8> = (0..=most).map(|i| (i % 251) as u8).collect();
        for bytes in [
            0, 1, 63, 64, 255, 256, 257, 300, 319, 320, 575, 576, 577, 640, 703, 704, 4096, 4097,
            most,
        ] {
            let mut to = vec![0xee; bytes + 2];
            // SAFETY: both ranges have that many bytes from their second byte on.
            unsafe {
                let from = NonNull::from(&from[1..]).cast();
                copy_bytes(from, NonNull::from(&mut to[1..]).cast(), bytes);
            }
            assert_eq!((to[0], to[bytes + 1]), (0xee, 0xee));
            assert!(to[1..=bytes] == from[1..=bytes]);
            for start in [0, 1, 17, 63] {
                let mut to = vec![0xee; start + bytes + 1];
                // SAFETY: both ranges have that many bytes.
                unsafe {
                    let from = NonNull::from(&from[1..]).cast();
                    copy_past_caches(from, NonNull::from(&mut to[start..]).cast(), bytes);
                }
                assert!(to[..start].iter().all(|&byte| byte == 0xee));
                assert_eq!(to[start + bytes], 0xee);
                assert!(to[start..start + bytes] == from[1..=bytes]);
            }
            let mut again = vec![0; bytes];
            copy(&from[1..=bytes], &mut again);
            assert!(again == from[1..=bytes]);
        }
    }

    /// Returns whether the upper half of any of the 16 vector registers is not zero.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx")]
    #[inline(never)]
    fn upper_halves_are_in_use() -> bool {
        let mut upper = [[0u64; 2]; 16];
        // SAFETY: the array has room for the upper halves of all registers, which are only read.
        unsafe {
            std::arch::asm!(
                "vextractf128 [{to}], ymm0, 1",
                "vextractf128 [{to} + 16], ymm1, 1",
                "vextractf128 [{to} + 32], ymm2, 1",
                "vextractf128 [{to} + 48], ymm3, 1",
                "vextractf128 [{to} + 64], ymm4, 1",
                "vextractf128 [{to} + 80], ymm5, 1",
                "vextractf128 [{to} + 96], ymm6, 1",
                "vextractf128 [{to} + 112], ymm7, 1",
                "vextractf128 [{to} + 128], ymm8, 1",
                "vextractf128 [{to} + 144], ymm9, 1",
                "vextractf128 [{to} + 160], ymm10, 1",
                "vextractf128 [{to} + 176], ymm11, 1",
                "vextractf128 [{to} + 192], ymm12, 1",
                "vextractf128 [{to} + 208], ymm13, 1",
                "vextractf128 [{to} + 224], ymm14, 1",
                "vextractf128 [{to} + 240], ymm15, 1",
                to = in(reg) upper.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
        upper.iter().any(|half| *half != [0; 2])
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn no_copy_leaves_upper_halves_of_vectors_in_use() {
        if !std::arch::is_x86_feature_detected!("avx") {
            return;
        }
        let from = vec![0xee_u8; 600_000];
        let mut to = vec![0; from.len()];
        for bytes in [64, 256, 576, 1024, 4096, 8192, 100_000, from.len()] {
            let [source, target] =
                [NonNull::from(&from[..]).cast(), NonNull::from(&mut to[..]).cast()];
            for (name, copy) in [
                ("copy_bytes", copy_bytes as unsafe fn(NonNull<u8>, NonNull<u8>, usize)),
                ("copy_past_caches", copy_past_caches),
                ("move_lines", |from, to, bytes| {
                    // SAFETY: the caller guarantees that both ranges have that many bytes.
                    unsafe { move_lines(from.as_ptr(), to.as_ptr(), bytes / 64) }
                }),
            ] {
                // SAFETY: both ranges have that many bytes, and the processor has these registers.
                let in_use = unsafe {
                    copy(source, target, bytes);
                    upper_halves_are_in_use()
                };
                assert!(!in_use, "{name} of {bytes} bytes");
            }
        }
    }
}
