//! The predefined operations on elements of each type.
//!
//! In all of them, `lower` is the element of the lower ranks, and the result goes where that of the higher ranks was.

use std::slice;

use mp_collectives::reduce::{Operation, combine_local};

use super::{
    long_double::{self, LongDouble},
    numbers::*,
};
use crate::datatype::Kind;

/// Combines `count` elements: the second argument gets the result.
pub(crate) type Kernel = unsafe fn(lower: *const u8, upper: *mut u8, count: usize);

/// An operation on elements of type `T`.
pub(crate) trait Rule<T> {
    fn combine(lower: T, upper: T) -> T;
}

/// # Safety
/// `count` elements can be read at both addresses, and written at the second. They need not be aligned, and do not
/// overlap unless they are the same.
unsafe fn kernel<T: Copy, R: Rule<T>>(lower: *const u8, upper: *mut u8, count: usize) {
    let (lower, upper) = (lower.cast::<T>(), upper.cast::<T>());
    if lower.is_aligned() && upper.is_aligned() && !std::ptr::eq(lower, upper) {
        // SAFETY: the caller says so, and they are aligned and not the same.
        let both = unsafe {
            (slice::from_raw_parts(lower, count), slice::from_raw_parts_mut(upper, count))
        };
        return combine_local(both.0, both.1, &R::combine);
    }
    for place in 0..count {
        // SAFETY: the caller says so.
        unsafe {
            let (lower, upper) = (lower.add(place), upper.add(place));
            let combined = R::combine(lower.read_unaligned(), upper.read_unaligned());
            upper.write_unaligned(combined);
        }
    }
}

pub(crate) struct Sum;
pub(crate) struct Product;
pub(crate) struct Min;
pub(crate) struct Max;
pub(crate) struct BitAnd;
pub(crate) struct BitOr;
pub(crate) struct BitXor;
pub(crate) struct And;
pub(crate) struct Or;
pub(crate) struct Xor;

/// Has reports call the common operations by these names.
macro_rules! operations {
    ($($name:ident)*) => {$(
        impl<T> Operation<T> for $name
        where
            Self: Rule<T>,
        {
            #[inline(always)]
            fn combine(&self, lower: T, upper: T) -> T {
                <Self as Rule<T>>::combine(lower, upper)
            }
        }
    )*};
}

operations! { Sum Product Min Max BitAnd BitOr BitXor And Or Xor }

#[derive(Clone, Copy)]
#[repr(C)]
struct Complex<T>(T, T);

/// A value with its place.
#[derive(Clone, Copy)]
#[repr(C)]
struct Located<T, I>(T, I);

macro_rules! rules {
    ($([$($type:ty)*] $($rule:ident: |$lower:ident, $upper:ident| $result:expr;)*)*) => {$(
        rules! { @types [$($type)*] { $($rule: |$lower, $upper| $result;)* } }
    )*};
    (@types [$($type:ty)*] $rules:tt) => {$(
        rules! { @one $type, $rules }
    )*};
    (@one $type:ty, { $($rule:ident: |$lower:ident, $upper:ident| $result:expr;)* }) => {$(
        impl Rule<$type> for $rule {
            #[inline(always)]
            fn combine($lower: $type, $upper: $type) -> $type {
                $result
            }
        }
    )*};
}

rules! {
    [i8 i16 i32 i64 i128 u8 u16 u32 u64]
        Sum: |lower, upper| lower.wrapping_add(upper);
        Product: |lower, upper| lower.wrapping_mul(upper);
        BitAnd: |lower, upper| lower & upper;
        BitOr: |lower, upper| lower | upper;
        BitXor: |lower, upper| lower ^ upper;
        And: |lower, upper| (lower != 0 && upper != 0).into();
        Or: |lower, upper| (lower != 0 || upper != 0).into();
        Xor: |lower, upper| ((lower != 0) != (upper != 0)).into();
    [f32 f64]
        Sum: |lower, upper| lower + upper;
        Product: |lower, upper| lower * upper;
    [i8 i16 i32 i64 i128 u8 u16 u32 u64 f32 f64]
        Min: |lower, upper| if lower < upper { lower } else { upper };
        Max: |lower, upper| if lower > upper { lower } else { upper };
    [Complex<f32> Complex<f64>]
        Sum: |lower, upper| Complex(lower.0 + upper.0, lower.1 + upper.1);
        Product: |lower, upper| Complex(
            lower.0 * upper.0 - lower.1 * upper.1,
            lower.0 * upper.1 + lower.1 * upper.0,
        );
    [LongDouble]
        Sum: |lower, upper| long_double::sum(lower, upper);
        Product: |lower, upper| long_double::product(lower, upper);
        Min: |lower, upper| if long_double::is_less(lower, upper) { lower } else { upper };
        Max: |lower, upper| if long_double::is_less(upper, lower) { lower } else { upper };
    [Complex<LongDouble>]
        Sum: |lower, upper| Complex(
            long_double::sum(lower.0, upper.0),
            long_double::sum(lower.1, upper.1),
        );
        Product: |lower, upper| {
            use long_double::{difference, product, sum};
            Complex(
                difference(product(lower.0, upper.0), product(lower.1, upper.1)),
                sum(product(lower.0, upper.1), product(lower.1, upper.0)),
            )
        };
    [
        Located<i16, i32> Located<i32, i32> Located<i64, i32> Located<f32, i32> Located<f64, i32>
        Located<f32, f32> Located<f64, f64>
    ]
        Min: |lower, upper| located(lower.0 < upper.0, upper.0 < lower.0, lower, upper);
        Max: |lower, upper| located(lower.0 > upper.0, upper.0 > lower.0, lower, upper);
    [Located<LongDouble, i32>]
        Min: |lower, upper| located(
            long_double::is_less(lower.0, upper.0),
            long_double::is_less(upper.0, lower.0),
            lower,
            upper,
        );
        Max: |lower, upper| located(
            long_double::is_less(upper.0, lower.0),
            long_double::is_less(lower.0, upper.0),
            lower,
            upper,
        );
}

/// Picks one of two values, or of two equal ones that with the lower place.
#[inline(always)]
fn located<T, I: PartialOrd>(
    is_lower: bool,
    is_upper: bool,
    lower: Located<T, I>,
    upper: Located<T, I>,
) -> Located<T, I> {
    if is_lower || (!is_upper && lower.1 < upper.1) { lower } else { upper }
}

macro_rules! picks {
    ($($(#[$doc:meta])* fn $name:ident { $($kind:ident $type:ty,)* })*) => {$(
        $(#[$doc])*
        fn $name<R: $(Rule<$type> +)*>(kind: Kind) -> Option<Kernel> {
            match kind {
                $(Kind::$kind => Some(kernel::<$type, R>),)*
                _ => None,
            }
        }
    )*};
}

picks! {
    fn integers {
        I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, U8 u8, U16 u16, U32 u32, U64 u64,
    }
    fn floats { F32 f32, F64 f64, }
    fn complexes { C32 Complex<f32>, C64 Complex<f64>, }
    fn logicals { Bool u8, Logical8 i8, Logical16 i16, Logical32 i32, Logical64 i64, }
    fn bytes { Byte u8, }
    fn pairs {
        I16Int Located<i16, i32>, IntInt Located<i32, i32>, I64Int Located<i64, i32>,
        F32Int Located<f32, i32>, F64Int Located<f64, i32>,
        F32F32 Located<f32, f32>, F64F64 Located<f64, f64>,
    }
    fn long { LongDouble LongDouble, }
    fn long_complexes { ComplexLongDouble Complex<LongDouble>, }
    fn long_pairs { LongDoubleInt Located<LongDouble, i32>, }
}

fn wide(kernel: Option<Kernel>) -> Option<Kernel> {
    kernel.filter(|_| long_double::IS_SUPPORTED)
}

/// Returns the kernel of a predefined operation, unless the operation is not defined for elements of this kind.
pub(crate) fn find(op: usize, kind: Kind) -> Option<Kernel> {
    match op {
        SUM => integers::<Sum>(kind)
            .or_else(|| floats::<Sum>(kind))
            .or_else(|| complexes::<Sum>(kind))
            .or_else(|| wide(long::<Sum>(kind)))
            .or_else(|| wide(long_complexes::<Sum>(kind))),
        PROD => integers::<Product>(kind)
            .or_else(|| floats::<Product>(kind))
            .or_else(|| complexes::<Product>(kind))
            .or_else(|| wide(long::<Product>(kind)))
            .or_else(|| wide(long_complexes::<Product>(kind))),
        MIN => integers::<Min>(kind)
            .or_else(|| floats::<Min>(kind))
            .or_else(|| wide(long::<Min>(kind))),
        MAX => integers::<Max>(kind)
            .or_else(|| floats::<Max>(kind))
            .or_else(|| wide(long::<Max>(kind))),
        BAND => integers::<BitAnd>(kind).or_else(|| bytes::<BitAnd>(kind)),
        BOR => integers::<BitOr>(kind).or_else(|| bytes::<BitOr>(kind)),
        BXOR => integers::<BitXor>(kind).or_else(|| bytes::<BitXor>(kind)),
        LAND => integers::<And>(kind).or_else(|| logicals::<And>(kind)),
        LOR => integers::<Or>(kind).or_else(|| logicals::<Or>(kind)),
        LXOR => integers::<Xor>(kind).or_else(|| logicals::<Xor>(kind)),
        MINLOC => pairs::<Min>(kind).or_else(|| wide(long_pairs::<Min>(kind))),
        MAXLOC => pairs::<Max>(kind).or_else(|| wide(long_pairs::<Max>(kind))),
        _ => None,
    }
}
