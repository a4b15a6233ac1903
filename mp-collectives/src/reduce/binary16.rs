//! Conversions between `f16` and `f32` without branches.
//!
//! For each element, the conversions of `half` check what the processor supports, so no loop over many elements is
//! vectorized with them. The conversions here are F. Giesen's (`float_to_half_fast3_rtne`) and give the same bits:
//! every value is exact in `f32`, and its sums and products are rounded once more here, to nearest, ties to even. With
//! 24 and 11 bits that is the same as rounding once.

use half::f16;

/// Converts an `f16`, exactly.
#[inline(always)]
pub(super) fn wide(value: f16) -> f32 {
    let bits = u32::from(value.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    // The difference of the exponents' biases, 112, is added by a product: of subnormals, too.
    let shifted = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let endless = if magnitude >= 0x7c00 << 13 { 0x7f80_0000 } else { 0 };
    f32::from_bits(shifted.to_bits() | endless | (bits & 0x8000) << 16)
}

/// Returns the nearest `f16`; if two are equally near, the even one.
#[inline(always)]
pub(super) fn narrow(value: f32) -> f16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // The last bit of 0.5 is worth as much as that of a subnormal `f16`, so the sum is rounded there.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    // This adds half a unit less the least bit, and the last bit that stays: a tie is rounded up if that bit is odd.
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + odd) >> 13;
    let nan = 0x7e00 | magnitude >> 13 & 0x03ff;
    let endless = if magnitude > 0x7f80_0000 { nan } else { 0x7c00 };
    let finite = if magnitude < (127 - 14) << 23 { subnormal } else { normal };
    let half = if magnitude >= (127 + 16) << 23 { endless } else { finite };
    f16::from_bits((half | bits >> 16 & 0x8000) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_as_wide_as_they_are() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            let (got, expected) = (wide(value), value.to_f32());
            // A NaN's quiet bit is left out, because every arithmetic operation sets it.
            let quiet = if value.is_nan() { 1 << 22 } else { 0 };
            assert_eq!(got.to_bits() | quiet, expected.to_bits() | quiet, "{bits:#x}");
            assert_eq!(narrow(expected).to_bits(), f16::from_f32(expected).to_bits(), "{bits:#x}");
        }
    }

    /// Covers all exponents, with bits that decide which way to round, on both sides of each place where a mantissa
    /// ends.
    #[test]
    fn the_nearest_is_found() {
        for high in 0..=u16::MAX {
            for low in [0, 1, 2, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x7fff, 0x8000, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                let (got, expected) = (narrow(value), f16::from_f32(value));
                assert_eq!(got.to_bits(), expected.to_bits(), "{value:e}");
            }
        }
    }
}
