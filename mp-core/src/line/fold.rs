//! Combining elements in lines with private elements, while the lines are read.
//!
//! Copying the elements first and then combining the copies takes a quarter longer, because the copy is written and
//! read once more, and because no line is on its way from another core while the copy is read.
//!
//! The results can also be written to other lines or to the same lines, directly from the registers. A separate put
//! would read all results again.
//!
//! As in [`get`](super::get) and [`put`](super::put), the lines are read and written by machine instructions that the
//! compiler does not look into, but one line at a time.

use super::shared::{LINE_BYTES, Line, get, put};
use crate::{
    plain::Plain,
    sync::{Ordering, fence},
};

/// The contents of a line, aligned for elements of any type that divides it.
#[repr(C, align(64))]
struct Bytes([u8; LINE_BYTES]);

/// Replaces each element of `target` by `combine` of the element in the same place of `own`, or else of `target`
/// itself, and the element in the same place in the lines `from`, which hold at least as many elements. Also writes the
/// results to the lines `to`, if they are given. There must be as many of these as are read, and they must be either the
/// same lines or entirely separate ones.
///
/// # Panics
/// When `own` and `target` have different lengths.
#[inline]
pub(crate) fn fold<T: Plain>(
    from: &[Line],
    own: Option<&[T]>,
    target: &mut [T],
    combine: impl Fn(T, T) -> T,
    to: Option<&[Line]>,
) {
    if let Some(own) = own {
        assert_eq!(own.len(), target.len(), "elements that go to a place of another length");
    }
    if size_of_val(target) == 0 {
        return;
    }
    if to.is_some() {
        // As in `put`.
        fence(Ordering::Release);
    }
    let per_line = LINE_BYTES / size_of::<T>();
    if per_line * size_of::<T>() != LINE_BYTES {
        return fold_uneven(from, own, target, combine, to);
    }
    let (whole, rest) = target.split_at_mut(target.len() / per_line * per_line);
    let own = own.map(|own| own.split_at(whole.len()));
    let (lines, last) = from.split_at(whole.len() / per_line);
    let to = to.map(|to| to.split_at(lines.len()));
    vectors::fold(lines, own.map(|(own, _)| own), whole, &combine, to.map(|(to, _)| to));
    if !rest.is_empty() {
        let mut bytes = Bytes([0; LINE_BYTES]);
        get(last, &mut bytes.0[..size_of_val(rest)]);
        fold_line(&mut bytes, own.map(|(_, own)| own), rest, &combine);
        if let Some((_, to)) = to {
            put(bytemuck::cast_slice(rest), to);
        }
    }
    fence(Ordering::Acquire);
}

/// Folds elements that cross the ends of lines. This needs copies of the elements.
fn fold_uneven<T: Plain>(
    from: &[Line],
    own: Option<&[T]>,
    target: &mut [T],
    combine: impl Fn(T, T) -> T,
    to: Option<&[Line]>,
) {
    if let Some(own) = own {
        target.copy_from_slice(own);
    }
    // This number of elements fills whole lines, whatever the size of an element.
    let mut there = vec![T::zeroed(); target.len().min(LINE_BYTES)];
    for (from, target) in from.chunks(size_of::<T>()).zip(target.chunks_mut(LINE_BYTES)) {
        let there = &mut there[..target.len()];
        get(from, bytemuck::cast_slice_mut(there));
        for (target, &there) in target.iter_mut().zip(&*there) {
            *target = combine(*target, there);
        }
    }
    if let Some(to) = to {
        put(bytemuck::cast_slice(target), to);
    }
}

/// Folds the elements of one line with those of `own`, or else of `target`, which has at most as many.
#[inline(always)]
fn fold_line<T: Plain>(
    line: &mut Bytes,
    own: Option<&[T]>,
    target: &mut [T],
    combine: &impl Fn(T, T) -> T,
) {
    let line: &mut [T] = bytemuck::cast_slice_mut(&mut line.0);
    if let Some(own) = own {
        for ((target, &own), line) in target.iter_mut().zip(own).zip(line) {
            *target = combine(own, *line);
            *line = *target;
        }
        return;
    }
    for (target, line) in target.iter_mut().zip(line) {
        *target = combine(*target, *line);
        *line = *target;
    }
}

/// Folds whole lines: `target`, and `own` if it is given, have as many elements as the lines hold.
#[inline(always)]
fn fold_lines<T: Plain>(
    from: &[Line],
    own: Option<&[T]>,
    target: &mut [T],
    combine: &impl Fn(T, T) -> T,
    to: Option<&[Line]>,
    load: impl Fn(&Line) -> Bytes,
    store: impl Fn(&Line, Bytes),
) {
    let each = LINE_BYTES / size_of::<T>();
    let lines = from.iter().zip(target.chunks_exact_mut(each));
    match (own, to) {
        (None, None) => {
            for (line, target) in lines {
                fold_line(&mut load(line), None, target, combine);
            }
        }
        (Some(own), None) => {
            for ((line, target), own) in lines.zip(own.chunks_exact(each)) {
                fold_line(&mut load(line), Some(own), target, combine);
            }
        }
        (None, Some(to)) => {
            for ((line, target), to) in lines.zip(to) {
                let mut bytes = load(line);
                fold_line(&mut bytes, None, target, combine);
                store(to, bytes);
            }
        }
        (Some(own), Some(to)) => {
            for (((line, target), own), to) in lines.zip(own.chunks_exact(each)).zip(to) {
                let mut bytes = load(line);
                fold_line(&mut bytes, Some(own), target, combine);
                store(to, bytes);
            }
        }
    }
}

/// Folding with the widest vectors that are fast on this processor.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod vectors {
    use std::{
        arch::{
            asm,
            x86_64::{__m128i, __m256i, __m512i},
        },
        ptr::from_ref,
    };

    use super::{Bytes, Line, Plain, fold_lines};

    #[inline]
    pub(super) fn fold<T: Plain>(
        from: &[Line],
        own: Option<&[T]>,
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        to: Option<&[Line]>,
    ) {
        use std::arch::is_x86_feature_detected as has;
        // VBMI2 is required because the processors that have it do not slow down for wide vectors.
        let wide = has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq");
        if wide && has!("avx512vbmi2") {
            // SAFETY: the processor has the features, which was just checked.
            unsafe { fold_512(from, own, target, combine, to) }
        } else if has!("avx2") {
            // SAFETY: the processor has the feature, which was just checked.
            unsafe { fold_256(from, own, target, combine, to) }
        } else {
            fold_128(from, own, target, combine, to);
        }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
    fn fold_512<T: Plain>(
        from: &[Line],
        own: Option<&[T]>,
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        to: Option<&[Line]>,
    ) {
        let load = |line: &Line| {
            let bytes: __m512i;
            // SAFETY: a line has as many bytes as the instruction reads. Its effect is that of relaxed loads of atomic
            // words.
            unsafe {
                asm!("vmovdqu64 {}, [{}]", out(zmm_reg) bytes, in(reg) from_ref(line),
                    options(nostack, preserves_flags, readonly));
            }
            // SAFETY: both types have the same size, and any bits are valid for both.
            unsafe { std::mem::transmute::<__m512i, Bytes>(bytes) }
        };
        let store = |line: &Line, bytes: Bytes| {
            // SAFETY: both types have the same size, and any bits are valid for both.
            let bytes = unsafe { std::mem::transmute::<Bytes, __m512i>(bytes) };
            // SAFETY: a line has as many bytes as the instruction writes, and consists of atomic words. The effect is
            // that of relaxed stores to them.
            unsafe {
                asm!("vmovdqu64 [{}], {}", in(reg) from_ref(line), in(zmm_reg) bytes,
                    options(nostack, preserves_flags));
            }
        };
        fold_lines(from, own, target, combine, to, load, store);
    }

    #[target_feature(enable = "avx2")]
    fn fold_256<T: Plain>(
        from: &[Line],
        own: Option<&[T]>,
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        to: Option<&[Line]>,
    ) {
        let load = |line: &Line| {
            let [low, high]: [__m256i; 2];
            // SAFETY: a line has as many bytes as the instructions read. Their effect is that of relaxed loads of atomic words.
            unsafe {
                asm!("vmovdqu {}, [{line}]", "vmovdqu {}, [{line} + 32]",
                    out(ymm_reg) low, lateout(ymm_reg) high, line = in(reg) from_ref(line),
                    options(nostack, preserves_flags, readonly));
            }
            // SAFETY: both types have the same size, and any bits are valid for both.
            unsafe { std::mem::transmute::<[__m256i; 2], Bytes>([low, high]) }
        };
        let store = |line: &Line, bytes: Bytes| {
            // SAFETY: both types have the same size, and any bits are valid for both.
            let [low, high] = unsafe { std::mem::transmute::<Bytes, [__m256i; 2]>(bytes) };
            // SAFETY: a line has as many bytes as the instructions write, and consists of atomic words. The effect is that of relaxed stores to them.
            unsafe {
                asm!("vmovdqu [{line}], {}", "vmovdqu [{line} + 32], {}",
                    in(ymm_reg) low, in(ymm_reg) high, line = in(reg) from_ref(line),
                    options(nostack, preserves_flags));
            }
        };
        fold_lines(from, own, target, combine, to, load, store);
    }

    #[inline]
    fn fold_128<T: Plain>(
        from: &[Line],
        own: Option<&[T]>,
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        to: Option<&[Line]>,
    ) {
        let load = |line: &Line| {
            let [a, b, c, d]: [__m128i; 4];
            // SAFETY: as above. Every x86-64 processor has these registers.
            unsafe {
                asm!("movdqu {}, [{line}]", "movdqu {}, [{line} + 16]",
                    "movdqu {}, [{line} + 32]", "movdqu {}, [{line} + 48]",
                    out(xmm_reg) a, out(xmm_reg) b, out(xmm_reg) c, out(xmm_reg) d,
                    line = in(reg) from_ref(line), options(nostack, preserves_flags, readonly));
            }
            // SAFETY: both types have the same size, and any bits are valid for both.
            unsafe { std::mem::transmute::<[__m128i; 4], Bytes>([a, b, c, d]) }
        };
        let store = |line: &Line, bytes: Bytes| {
            // SAFETY: both types have the same size, and any bits are valid for both.
            let [a, b, c, d] = unsafe { std::mem::transmute::<Bytes, [__m128i; 4]>(bytes) };
            // SAFETY: a line has as many bytes as the instructions write, and consists of atomic words. The effect is that of relaxed stores to them.
            unsafe {
                asm!("movdqu [{line}], {}", "movdqu [{line} + 16], {}",
                    "movdqu [{line} + 32], {}", "movdqu [{line} + 48], {}",
                    in(xmm_reg) a, in(xmm_reg) b, in(xmm_reg) c, in(xmm_reg) d,
                    line = in(reg) from_ref(line), options(nostack, preserves_flags));
            }
        };
        fold_lines(from, own, target, combine, to, load, store);
    }

    /// Folds with vectors of the chosen width, so that tests cover each width that the processor has.
    #[cfg(test)]
    pub(super) fn fold_as<T: Plain>(
        wide: bool,
        from: &[Line],
        own: Option<&[T]>,
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        to: Option<&[Line]>,
    ) {
        if wide {
            assert!(std::arch::is_x86_feature_detected!("avx2"));
            // SAFETY: the processor has them, as asserted.
            unsafe { fold_256(from, own, target, combine, to) }
        } else {
            fold_128(from, own, target, combine, to);
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
mod vectors {
    use super::{Bytes, LINE_BYTES, Line, Plain, fold_lines, get, put};

    pub(super) fn fold<T: Plain>(
        from: &[Line],
        own: Option<&[T]>,
        target: &mut [T],
        combine: &impl Fn(T, T) -> T,
        to: Option<&[Line]>,
    ) {
        let load = |line: &Line| {
            let mut bytes = Bytes([0; LINE_BYTES]);
            get(std::slice::from_ref(line), &mut bytes.0);
            bytes
        };
        let store = |line: &Line, bytes: Bytes| put(&bytes.0, std::slice::from_ref(line));
        fold_lines(from, own, target, combine, to, load, store);
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
            // The result shows which element was the own one, and which elements met.
            let combine = |own: T, there: T| {
                let mut bytes = bytemuck::bytes_of(&own).to_vec();
                let other = bytemuck::bytes_of(&there);
                for (byte, other) in bytes.iter_mut().zip(other) {
                    *byte = byte.wrapping_mul(3).wrapping_sub(*other);
                }
                bytemuck::pod_read_unaligned(&bytes)
            };
            let expected: Vec<T> = there
                .iter()
                .enumerate()
                .map(|(index, &there)| combine(of(index + 1), there))
                .collect();
            let used = size_of_val(&there[..]).div_ceil(LINE_BYTES);
            let others: Vec<Line> = (0..60).map(|_| Line::new()).collect();
            // The lines that are read come last, because they are overwritten.
            for (to, is_apart) in [None, Some(&others), Some(&lines)]
                .into_iter()
                .flat_map(|to| [(to, false), (to, true)])
            {
                put(bytemuck::cast_slice(&there), &lines[1..]);
                // The elements do not begin at the beginning of a line.
                let mut got: Vec<T> = (0..=count).map(&of).collect();
                let own = got.clone();
                let own = is_apart.then_some(&own[1..]);
                if is_apart {
                    got[1..].fill(T::zeroed());
                }
                fold(&lines[1..=used], own, &mut got[1..], combine, to.map(|to| &to[1..=used]));
                assert_eq!(got[0], of(0));
                assert_eq!(got[1..], expected, "{count} elements");
                let Some(to) = to else { continue };
                let mut left = vec![T::zeroed(); count];
                get(&to[1..], bytemuck::cast_slice_mut(&mut left));
                assert_eq!(left, expected, "{count} elements in lines");
                assert!(to[used + 1..].iter().all(|line| line.flag() == 0), "{count} elements");
            }
        }
    }

    #[test]
    fn every_element_meets_its_own() {
        check(|index| index as u8);
        check(|index| (index as u16).wrapping_mul(259));
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
            let own = vec![1.5_f32; there.len()];
            let to: Vec<Line> = (0..9).map(|_| Line::new()).collect();
            let combine = |own, there| own - there;
            let mut expected = own.clone();
            fold(&lines, None, &mut expected, combine, None);
            for to in [None, Some(&to[..])] {
                let mut got = own.clone();
                vectors::fold_as(has_256, &lines, None, &mut got, &combine, to);
                let mut apart = vec![0.0; there.len()];
                vectors::fold_as(has_256, &lines, Some(&own), &mut apart, &combine, to);
                assert_eq!((&got, &apart), (&expected, &expected));
            }
            let mut left = vec![0.0_f32; there.len()];
            get(&to, bytemuck::cast_slice_mut(&mut left));
            assert_eq!(left, expected);
        }
    }
}
