//! Elements in lines, combined with private ones as they are read.
//!
//! To copy them first and combine the copies takes a quarter longer: the copy is written and read
//! once more, and while it is read no line is on its way from another core.
//!
//! As in [`get`](super::get), the lines are read by machine instructions that the compiler does not
//! look into, here one line at a time, into registers.

use super::shared::{LINE_BYTES, Line, get};
use crate::{
    plain::Plain,
    sync::{Ordering, fence},
};

/// What was in a line, aligned for elements of any type that divides it.
#[repr(C, align(64))]
struct Bytes([u8; LINE_BYTES]);

/// Each element of `target` becomes `combine` of it and of that in its place in the lines, which
/// have room for all.
#[inline]
pub(crate) fn fold<T: Plain>(from: &[Line], target: &mut [T], combine: impl Fn(T, T) -> T) {
    if size_of_val(target) == 0 {
        return;
    }
    let per_line = LINE_BYTES / size_of::<T>();
    if per_line * size_of::<T>() != LINE_BYTES {
        return fold_uneven(from, target, combine);
    }
    let (whole, rest) = target.split_at_mut(target.len() / per_line * per_line);
    let (lines, last) = from.split_at(whole.len() / per_line);
    vectors::fold(lines, whole, &combine);
    if !rest.is_empty() {
        let mut bytes = Bytes([0; LINE_BYTES]);
        get(last, &mut bytes.0[..size_of_val(rest)]);
        fold_line(&bytes, rest, &combine);
    }
    fence(Ordering::Acquire);
}

/// Elements that lie across the ends of lines: by copies after all.
fn fold_uneven<T: Plain>(from: &[Line], target: &mut [T], combine: impl Fn(T, T) -> T) {
    // So many elements fill whole lines, whatever their size.
    let mut there = vec![T::zeroed(); target.len().min(LINE_BYTES)];
    for (from, target) in from.chunks(size_of::<T>()).zip(target.chunks_mut(LINE_BYTES)) {
        let there = &mut there[..target.len()];
        get(from, bytemuck::cast_slice_mut(there));
        for (target, &there) in target.iter_mut().zip(&*there) {
            *target = combine(*target, there);
        }
    }
}

/// Elements of one line, of which there are at most as many as it has.
#[inline(always)]
fn fold_line<T: Plain>(there: &Bytes, target: &mut [T], combine: &impl Fn(T, T) -> T) {
    let there: &[T] = bytemuck::cast_slice(&there.0);
    for (target, &there) in target.iter_mut().zip(there) {
        *target = combine(*target, there);
    }
}

/// With the vectors that this processor has.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod vectors {
    use std::arch::{
        asm,
        x86_64::{__m128i, __m256i, __m512i},
    };

    use super::{Bytes, LINE_BYTES, Line, Plain, fold_line};

    #[inline]
    pub(super) fn fold<T: Plain>(from: &[Line], target: &mut [T], combine: &impl Fn(T, T) -> T) {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512vbmi2") {
            // SAFETY: the processor has them. (The last one stands for those that do not slow down
            // for wide vectors.)
            unsafe { fold_512(from, target, combine) }
        } else if has!("avx2") {
            // SAFETY: as above.
            unsafe { fold_256(from, target, combine) }
        } else {
            fold_128(from, target, combine);
        }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
    fn fold_512<T: Plain>(from: &[Line], target: &mut [T], combine: &impl Fn(T, T) -> T) {
        each(from, target, combine, |line| {
            let bytes: __m512i;
            // SAFETY: a line has so many bytes; as a load it is one of relaxed atomic words.
            unsafe {
                asm!("vmovdqu64 {}, [{}]", out(zmm_reg) bytes, in(reg) line,
                    options(nostack, preserves_flags, readonly));
            }
            // SAFETY: as many bytes, of which any value is one.
            unsafe { std::mem::transmute::<__m512i, Bytes>(bytes) }
        });
    }

    #[target_feature(enable = "avx2")]
    fn fold_256<T: Plain>(from: &[Line], target: &mut [T], combine: &impl Fn(T, T) -> T) {
        each(from, target, combine, |line| {
            let [low, high]: [__m256i; 2];
            // SAFETY: as above.
            unsafe {
                asm!("vmovdqu {}, [{line}]", "vmovdqu {}, [{line} + 32]",
                    out(ymm_reg) low, lateout(ymm_reg) high, line = in(reg) line,
                    options(nostack, preserves_flags, readonly));
            }
            // SAFETY: as above.
            unsafe { std::mem::transmute::<[__m256i; 2], Bytes>([low, high]) }
        });
    }

    #[inline]
    fn fold_128<T: Plain>(from: &[Line], target: &mut [T], combine: &impl Fn(T, T) -> T) {
        each(from, target, combine, |line| {
            let [a, b, c, d]: [__m128i; 4];
            // SAFETY: as above; every x86-64 processor has these.
            unsafe {
                asm!("movdqu {}, [{line}]", "movdqu {}, [{line} + 16]",
                    "movdqu {}, [{line} + 32]", "movdqu {}, [{line} + 48]",
                    out(xmm_reg) a, out(xmm_reg) b, out(xmm_reg) c, out(xmm_reg) d,
                    line = in(reg) line, options(nostack, preserves_flags, readonly));
            }
            // SAFETY: as above.
            unsafe { std::mem::transmute::<[__m128i; 4], Bytes>([a, b, c, d]) }
        });
    }

    /// With the vectors that are told, of which a test can see to it that they are there.
    #[cfg(test)]
    pub(super) fn fold_as<T: Plain>(
        wide: bool,
        from: &[Line],
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
    ) {
        if wide {
            assert!(std::arch::is_x86_feature_detected!("avx2"));
            // SAFETY: it has them.
            unsafe { fold_256(from, target, combine) }
        } else {
            fold_128(from, target, combine);
        }
    }

    #[inline(always)]
    fn each<T: Plain>(
        from: &[Line],
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        load: impl Fn(*const Line) -> Bytes,
    ) {
        for (line, target) in from.iter().zip(target.chunks_exact_mut(LINE_BYTES / size_of::<T>()))
        {
            fold_line(&load(line), target, combine);
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
mod vectors {
    use super::{Bytes, LINE_BYTES, Line, Plain, fold_line, get};

    pub(super) fn fold<T: Plain>(from: &[Line], target: &mut [T], combine: &impl Fn(T, T) -> T) {
        let lines = from.chunks(1);
        for (line, target) in lines.zip(target.chunks_exact_mut(LINE_BYTES / size_of::<T>())) {
            let mut bytes = Bytes([0; LINE_BYTES]);
            get(line, &mut bytes.0);
            fold_line(&bytes, target, combine);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::shared::put, *};

    fn check<T: Plain + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
        let most =
            if cfg!(miri) { 3 * LINE_BYTES } else { 40 * LINE_BYTES } / size_of::<T>().max(1);
        for count in (0..most.min(300)).chain([most]) {
            let there: Vec<T> = (0..count).map(|index| of(index + 7)).collect();
            let lines: Vec<Line> = (0..60).map(|_| Line::new()).collect();
            put(bytemuck::cast_slice(&there), &lines[1..]);
            // Not at the beginning of a line.
            let mut got: Vec<T> = (0..=count).map(&of).collect();
            // Which is which, and in its order.
            fold(&lines[1..], &mut got[1..], |own, there| {
                let mut bytes = bytemuck::bytes_of(&own).to_vec();
                let other = bytemuck::bytes_of(&there);
                for (byte, other) in bytes.iter_mut().zip(other) {
                    *byte = byte.wrapping_mul(3).wrapping_sub(*other);
                }
                bytemuck::pod_read_unaligned(&bytes)
            });
            assert_eq!(got[0], of(0));
            for (index, got) in got[1..].iter().enumerate() {
                let (own, there) = (of(index + 1), there[index]);
                let pairs = bytemuck::bytes_of(&own).iter().zip(bytemuck::bytes_of(&there));
                let expected: Vec<u8> =
                    pairs.map(|(own, there)| own.wrapping_mul(3).wrapping_sub(*there)).collect();
                assert_eq!(bytemuck::bytes_of(got), expected, "{index} of {count}");
            }
        }
    }

    #[test]
    fn every_element_meets_its_own() {
        check(|index| index as u8);
        check(|index| index as u16 * 259);
        check(|index| index as u32 * 70_001);
        check(|index| index as u64 * 0x1_0001_0001);
        check(|index| index as u128 * 0x1_0001_0001_0001_0001);
        check(|index| [index as u8, 5, !index as u8]);
        check(|index| [index as u32; 16]);
        check(|index| [index as u16; 3]);
        check(|_| ());
    }

    #[test]
    fn all_vectors_do_the_same() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for has_256 in [false, std::arch::is_x86_feature_detected!("avx2")] {
            let lines: Vec<Line> = (0..9).map(|_| Line::new()).collect();
            let there: Vec<f32> = (0..9 * 16).map(|index| index as f32 / 7.0).collect();
            put(bytemuck::cast_slice(&there), &lines);
            let mut got = vec![1.5_f32; there.len()];
            vectors::fold_as(has_256, &lines, &mut got, &|own, there| own - there);
            let mut expected = vec![1.5_f32; there.len()];
            fold(&lines, &mut expected, |own, there| own - there);
            assert_eq!(got, expected);
        }
    }
}
