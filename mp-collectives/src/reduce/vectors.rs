//! Loops that combine elements, with the vector instructions that the processor has.
//!
//! Each element is combined by itself, in IEEE 754 arithmetic without contraction, so that the bits do not depend on
//! the vectors.
//!
//! Programs are mostly built for the oldest x86-64, and these loops are two to four times as fast with the vectors of a
//! newer processor. So they are compiled for several processors, and the choice is made when they run.

use multiversion::multiversion;

use super::operations::Operation;

/// The number of bytes from which it is worth checking what the processor supports.
const LONG: usize = 256;

/// Combines the elements of one rank with those of a higher rank, position by position (`MPI_Reduce_local`). The results
/// replace those of the higher rank. If the lengths differ, what one of them has more is left out.
///
/// ```
/// use onchip::reduce::{Max, combine_local};
///
/// let mut upper = [5, 2];
/// combine_local(&[1, 8], &mut upper, &Max);
/// assert_eq!(upper, [5, 8]);
/// ```
#[inline]
pub fn combine_local<T: Copy, O: Operation<T>>(lower: &[T], upper: &mut [T], operation: &O) {
    prepend(operation, lower, upper);
}

/// Combines each element with that of a rank above, or otherwise below.
#[inline(always)]
pub(super) fn combine<T: Copy, O: Operation<T>>(
    operation: &O,
    target: &mut [T],
    other: &[T],
    is_above: bool,
) {
    if is_above { append(operation, target, other) } else { prepend(operation, other, target) }
}

/// Combines each element with that of a higher rank.
#[inline]
pub(super) fn append<T: Copy, O: Operation<T>>(operation: &O, target: &mut [T], right: &[T]) {
    if size_of_val(target) < LONG {
        append_each(operation, target, right);
    } else {
        append_long(operation, target, right);
    }
}

/// Combines each element with that of a lower rank.
#[inline]
pub(super) fn prepend<T: Copy, O: Operation<T>>(operation: &O, left: &[T], target: &mut [T]) {
    if size_of_val(target) < LONG {
        prepend_each(operation, left, target);
    } else {
        prepend_long(operation, left, target);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2"))]
fn append_long<T: Copy, O: Operation<T>>(operation: &O, target: &mut [T], right: &[T]) {
    append_each(operation, target, right);
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2"))]
fn prepend_long<T: Copy, O: Operation<T>>(operation: &O, left: &[T], target: &mut [T]) {
    prepend_each(operation, left, target);
}

#[inline(always)]
fn append_each<T: Copy, O: Operation<T>>(operation: &O, target: &mut [T], right: &[T]) {
    for (target, &right) in target.iter_mut().zip(right) {
        *target = operation.combine(*target, right);
    }
}

#[inline(always)]
fn prepend_each<T: Copy, O: Operation<T>>(operation: &O, left: &[T], target: &mut [T]) {
    for (target, &left) in target.iter_mut().zip(left) {
        *target = operation.combine(left, *target);
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use bytemuck::{AnyBitPattern, NoUninit, Zeroable};
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::reduce::{
        BitAnd, BitOr, BitXor, Located, LogicalAnd, LogicalOr, LogicalXor, Max, MaxLocation, Min,
        MinLocation, Number, OrderedPod, Product, Sum,
    };

    #[multiversion(targets("x86_64+avx2"))]
    fn append_avx2<T: Copy, O: Operation<T>>(operation: &O, target: &mut [T], right: &[T]) {
        append_each(operation, target, right);
    }

    #[multiversion(targets("x86_64+avx2"))]
    fn prepend_avx2<T: Copy, O: Operation<T>>(operation: &O, left: &[T], target: &mut [T]) {
        prepend_each(operation, left, target);
    }

    /// An element's bits. All NaNs, of which there are many, have the same value.
    trait Bits: Copy {
        fn bits(self) -> (u128, u64);
    }

    macro_rules! bits {
        ($($integer:ty)*; $($float:ty)*) => {
            $(impl Bits for $integer {
                fn bits(self) -> (u128, u64) {
                    (self as u128, 0)
                }
            })*
            $(impl Bits for $float {
                fn bits(self) -> (u128, u64) {
                    (if self.is_nan() { u128::MAX } else { self.to_bits().into() }, 0)
                }
            })*
        };
    }

    bits! { u8 u16 u32 u64 i8 i16 i32 i64 i128; f32 f64 f16 bf16 }

    impl<T: Bits> Bits for Located<T> {
        fn bits(self) -> (u128, u64) {
            (self.value().bits().0, self.location())
        }
    }

    /// Checks all loops, with elements from `a` and `b`, against one combination after the other.
    fn check<T, O>(operation: O, a: &[T], b: &[T]) -> Result<(), TestCaseError>
    where
        T: Bits,
        O: Operation<T>,
    {
        let bits = |all: &[T]| all.iter().map(|one| one.bits()).collect::<Vec<_>>();
        let mut expected = Vec::new();
        for (&a, &b) in a.iter().zip(b) {
            // `black_box` keeps the compiler from making vectors of this.
            expected.push(operation.combine(black_box(a), black_box(b)));
        }
        for append in [append, append_each, append_avx2] {
            let mut got = a.to_vec();
            append(&operation, &mut got, b);
            prop_assert_eq!(bits(&got), bits(&expected));
        }
        for prepend in [prepend, prepend_each, prepend_avx2] {
            let mut got = b.to_vec();
            prepend(&operation, a, &mut got);
            prop_assert_eq!(bits(&got), bits(&expected));
        }
        Ok(())
    }

    /// Returns elements made of these bytes, as many as are whole.
    fn elements<T: AnyBitPattern + NoUninit + Zeroable>(bytes: &[u8]) -> Vec<T> {
        let mut all = vec![T::zeroed(); bytes.len() / size_of::<T>()];
        let whole = size_of_val(&all[..]);
        bytemuck::cast_slice_mut(&mut all).copy_from_slice(&bytes[..whole]);
        all
    }

    fn numbers<T>(a: &[u8], b: &[u8]) -> Result<(), TestCaseError>
    where
        T: Bits + Number + OrderedPod,
        Located<T>: NoUninit,
    {
        let (c, d) = (elements::<T>(a), elements::<T>(b));
        check(Sum, &c, &d)?;
        check(Product, &c, &d)?;
        check(Min, &c, &d)?;
        check(Max, &c, &d)?;
        check(|left: T, right: T| right.sum(left.product(left)), &c, &d)?;
        // Locations are often the same, and so are values of few bytes.
        let located = |all: &[T]| {
            let located = |(index, &value)| Located::new(value, index as u64 % 3);
            all.iter().enumerate().map(located).collect::<Vec<_>>()
        };
        let (c, mut d) = (located(&c), located(&d));
        let by = d.len().min(1);
        d.rotate_left(by);
        check(MinLocation, &c, &d)?;
        check(MaxLocation, &c, &d)
    }

    macro_rules! integers {
        ($a:expr, $b:expr; $($integer:ty)*) => {$(
            numbers::<$integer>($a, $b)?;
            let (a, b) = (elements::<$integer>($a), elements::<$integer>($b));
            check(LogicalAnd, &a, &b)?;
            check(LogicalOr, &a, &b)?;
            check(LogicalXor, &a, &b)?;
            check(BitAnd, &a, &b)?;
            check(BitOr, &a, &b)?;
            check(BitXor, &a, &b)?;
        )*};
    }

    /// Bytes with many zeros, ones and exponents that stand for no number, so that these meet.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let some = prop_oneof![4 => any::<u8>(), 1 => Just(0), 1 => Just(0x7f), 1 => Just(0xff),
            1 => Just(0x80), 1 => Just(0x7c), 1 => Just(1)];
        proptest::collection::vec(some, 0..1100)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_bits_do_not_depend_on_the_vectors(a in bytes(), b in bytes()) {
            let both = a.len().min(b.len());
            let (a, b) = (&a[..both], &b[..both]);
            numbers::<f64>(a, b)?;
            numbers::<f32>(a, b)?;
            numbers::<f16>(a, b)?;
            numbers::<bf16>(a, b)?;
            integers!(a, b; u8 u16 u32 u64 i8 i16 i32 i64 i128);
        }
    }

    #[test]
    fn every_length_is_combined_whole() {
        for length in 0..600 {
            let (a, b) = (vec![1_u8; length], vec![2_u8; length]);
            check(Sum, &a, &b).unwrap();
        }
    }
}
