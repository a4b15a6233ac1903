//! Operations that combine elements.
//!
//! Elements are always combined in rank order, so operations need to be associative but not commutative.

use bytemuck::Pod;
use mp_core::Plain;

use super::binary16;

/// An associative operation on two elements.
///
/// Any `Fn(T, T) -> T` is an operation; its first argument is the element of the lower rank. All ranks must pass the
/// same operation.
///
/// ```
/// use onchip::reduce::{Operation, Sum};
///
/// assert_eq!(Sum.combine(2, 3), 5);
/// let last = |_: u8, right: u8| right;
/// assert_eq!(last.combine(2, 3), 3);
/// ```
pub trait Operation<T> {
    /// Combines the element of the lower rank or ranks with that of the higher.
    fn combine(&self, left: T, right: T) -> T;
}

impl<T, F: Fn(T, T) -> T> Operation<T> for F {
    #[inline(always)]
    fn combine(&self, left: T, right: T) -> T {
        self(left, right)
    }
}

/// A type that can be added and multiplied: all integers, which wrap around, and all floats.
pub trait Number: Plain {
    /// Returns the sum; for integers, modulo 2ⁿ.
    fn sum(self, other: Self) -> Self;
    /// Returns the product; for integers, modulo 2ⁿ.
    fn product(self, other: Self) -> Self;
}

/// A type that logical and bitwise operations work on: all integers.
pub trait Integer: Plain {
    /// Returns 1 for `true` and 0 for `false`.
    fn from_bool(value: bool) -> Self;
    /// Returns whether the value is not 0.
    fn is_true(self) -> bool;
    /// Returns the bitwise AND.
    fn and(self, other: Self) -> Self;
    /// Returns the bitwise OR.
    fn or(self, other: Self) -> Self;
    /// Returns the bitwise exclusive OR.
    fn xor(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Integer for $integer {
            #[inline(always)]
            fn from_bool(value: bool) -> Self {
                value.into()
            }

            #[inline(always)]
            fn is_true(self) -> bool {
                self != 0
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Number for $float {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

/// Gives the same results as the type's own `+` and `*`, but in loops that can be vectorized.
impl Number for half::f16 {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        binary16::narrow(binary16::wide(self) + binary16::wide(other))
    }

    #[inline(always)]
    fn product(self, other: Self) -> Self {
        binary16::narrow(binary16::wide(self) * binary16::wide(other))
    }
}

integers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }
floats! { f32 f64 half::bf16 }

/// Declares operations without settings.
macro_rules! operations {
    ($($(#[$docs:meta])* $name:ident for $element:ty where $bound:path: |$left:ident, $right:ident| $value:expr;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name;

        impl<T: $bound> Operation<$element> for $name {
            #[inline(always)]
            fn combine(&self, $left: $element, $right: $element) -> $element {
                $value
            }
        }
    )*};
}

/// A type that has an order and can be in shared memory.
pub trait Ordered: Plain + PartialOrd {}

impl<T: Plain + PartialOrd> Ordered for T {}

/// Returns whether the value is equal to nothing, not even itself, as a NaN is.
#[inline(always)]
fn is_nan<T: PartialOrd>(value: &T) -> bool {
    value.partial_cmp(value).is_none()
}

operations! {
    /// The sum. Integers wrap around.
    Sum for T where Number: |left, right| left.sum(right);
    /// The product. Integers wrap around.
    Product for T where Number: |left, right| left.product(right);
    /// The smallest element. A NaN is ignored if there is a number. Of equal elements, such as 0 and −0, the one of the
    /// lowest rank is taken.
    Min for T where Ordered: |left, right| if left <= right || is_nan(&right) { left } else { right };
    /// The greatest element. A NaN is ignored if there is a number. Of equal elements, such as 0 and −0, the one of the
    /// lowest rank is taken.
    Max for T where Ordered: |left, right| if left >= right || is_nan(&right) { left } else { right };
    /// 1 if no element is 0, else 0.
    LogicalAnd for T where Integer: |left, right| T::from_bool(left.is_true() & right.is_true());
    /// 1 if any element is not 0, else 0.
    LogicalOr for T where Integer: |left, right| T::from_bool(left.is_true() | right.is_true());
    /// 1 if an odd number of elements is not 0, else 0.
    LogicalXor for T where Integer: |left, right| T::from_bool(left.is_true() ^ right.is_true());
    /// The bitwise AND: the bits that are set in all elements.
    BitAnd for T where Integer: |left, right| left.and(right);
    /// The bitwise OR: the bits that are set in any element.
    BitOr for T where Integer: |left, right| left.or(right);
    /// The bitwise exclusive OR: the bits that are set in an odd number of elements.
    BitXor for T where Integer: |left, right| left.xor(right);
    /// The smallest value and its location. Of equal values, the one with the lowest location is taken.
    MinLocation for Located<T> where OrderedPod: |left, right| {
        let (a, b) = (left.value(), right.value());
        if a < b || is_nan(&b) && !is_nan(&a) {
            left
        } else if b < a || is_nan(&a) && !is_nan(&b) {
            right
        } else {
            lower(left, right)
        }
    };
    /// The greatest value and its location. Of equal values, the one with the lowest location is taken.
    MaxLocation for Located<T> where OrderedPod: |left, right| {
        let (a, b) = (left.value(), right.value());
        if a > b || is_nan(&b) && !is_nan(&a) {
            left
        } else if b > a || is_nan(&a) && !is_nan(&b) {
            right
        } else {
            lower(left, right)
        }
    };
}

/// A value with its location: a rank, or a position in something.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, packed)]
pub struct Located<T> {
    value: T,
    location: u64,
}

impl<T: Copy> Located<T> {
    /// Returns a value with its location.
    pub fn new(value: T, location: u64) -> Located<T> {
        Located { value, location }
    }

    /// Returns the value.
    #[inline(always)]
    pub fn value(self) -> T {
        self.value
    }

    /// Returns the location.
    #[inline(always)]
    pub fn location(self) -> u64 {
        self.location
    }
}

/// A type that has an order and may stand beside a location.
pub trait OrderedPod: Pod + PartialOrd {}

impl<T: Pod + PartialOrd> OrderedPod for T {}

fn lower<T: Copy>(left: Located<T>, right: Located<T>) -> Located<T> {
    if left.location() <= right.location() { left } else { right }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_around() {
        assert_eq!((Sum.combine(250_u8, 10), Product.combine(i32::MAX, 2)), (4, -2));
    }

    #[test]
    fn the_least_and_the_greatest_are_no_nan() {
        let nan = f64::NAN;
        for (left, right) in [(1.0, nan), (nan, 1.0), (1.0, 1.0)] {
            assert_eq!((Min.combine(left, right), Max.combine(left, right)), (1.0, 1.0));
        }
        assert!(Min.combine(nan, nan).is_nan());
        assert!(Min.combine(-0.0_f64, 0.0).is_sign_negative() && Max.combine(0.0, -0.0) == 0.0);
        assert!(Min.combine(0.0_f64, -0.0).is_sign_positive());
        assert_eq!((Min.combine(3, -4), Max.combine(3, -4)), (-4, 3));
        let [two, three] = [2.0, 3.0].map(half::f16::from_f32);
        assert_eq!((Sum.combine(two, three).to_f32(), Max.combine(two, three)), (5.0, three));
    }

    #[test]
    fn logic_and_bits() {
        let logic = |left: i16, right| {
            let (and, or) = (LogicalAnd.combine(left, right), LogicalOr.combine(left, right));
            [and, or, LogicalXor.combine(left, right)]
        };
        assert_eq!([logic(2, 4), logic(2, 0), logic(0, 0)], [[1, 1, 0], [0, 1, 1], [0; 3]]);
        let bits = (BitAnd.combine(6_u64, 3), BitOr.combine(6_u64, 3), BitXor.combine(6_u64, 3));
        assert_eq!(bits, (2, 7, 5));
    }

    #[test]
    fn locations() {
        let at = Located::<f32>::new;
        assert_eq!(MinLocation.combine(at(2.0, 0), at(1.0, 1)), at(1.0, 1));
        assert_eq!(MaxLocation.combine(at(2.0, 0), at(1.0, 1)), at(2.0, 0));
        assert_eq!(MaxLocation.combine(at(2.0, 5), at(2.0, 1)), at(2.0, 1));
        assert_eq!(MinLocation.combine(at(f32::NAN, 0), at(2.0, 1)), at(2.0, 1));
        assert_eq!(MinLocation.combine(at(2.0, 1), at(f32::NAN, 0)), at(2.0, 1));
        let both = MinLocation.combine(at(f32::NAN, 1), at(f32::NAN, 0));
        assert!(both.value().is_nan() && both.location() == 0);
    }
}
