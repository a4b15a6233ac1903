//! The representation of data that is the same on all machines (`external32`): without gaps, the most significant bytes
//! first, and each number with the width that the standard gives it.

use super::definition::{Kind, TypeRef};
use crate::error::{Class, Error};

/// The name of the representation.
pub(crate) const EXTERNAL32: &[u8] = b"external32";

const IS_LITTLE: bool = cfg!(target_endian = "little");

/// A number, or a part of one, with its widths in memory and outside.
#[derive(Clone, Copy)]
struct Scalar {
    native: usize,
    external: usize,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    /// The bytes are the same.
    Same,
    /// An integer, whose widths differ.
    Signed,
    Unsigned,
    /// A number of the x87, which has four times the precision of a `float` outside.
    Extended,
}

const fn same(width: usize) -> Scalar {
    Scalar { native: width, external: width, form: Form::Same }
}

const ONE: Scalar = same(1);
const TWO: Scalar = same(2);
const FOUR: Scalar = same(4);
const EIGHT: Scalar = same(8);
const SIXTEEN: Scalar = same(16);
const LONG: Scalar = Scalar { native: 8, external: 4, form: Form::Signed };
const UNSIGNED_LONG: Scalar = Scalar { form: Form::Unsigned, ..LONG };
const WIDE_CHARACTER: Scalar = Scalar { native: 4, external: 2, form: Form::Unsigned };
const LONG_DOUBLE: Scalar = Scalar {
    form: if cfg!(target_arch = "x86_64") { Form::Extended } else { Form::Same },
    ..SIXTEEN
};

/// Returns what a type consists of that is not made of others.
fn scalars(of: &TypeRef) -> &'static [Scalar] {
    let number = match of {
        TypeRef::Predefined(_, number) => *number,
        TypeRef::Made(_) => 0,
    };
    match (number, of.kind, of.size) {
        (0x20a, ..) => &[LONG],
        (0x20e, ..) => &[UNSIGNED_LONG],
        (0x23c, ..) => &[WIDE_CHARACTER],
        (0x2d3, ..) => &[TWO, TWO],
        (_, Kind::LongDouble, _) => &[LONG_DOUBLE],
        (_, Kind::ComplexLongDouble, _) => &[LONG_DOUBLE, LONG_DOUBLE],
        (_, Kind::C32 | Kind::F32F32 | Kind::F32Int | Kind::IntInt, _) => &[FOUR, FOUR],
        (_, Kind::C64 | Kind::F64F64, _) => &[EIGHT, EIGHT],
        (_, Kind::F64Int, _) => &[EIGHT, FOUR],
        (_, Kind::I64Int, _) => &[LONG, FOUR],
        (_, Kind::I16Int, _) => &[TWO, FOUR],
        (_, Kind::LongDoubleInt, _) => &[LONG_DOUBLE, FOUR],
        (.., 1) => &[ONE],
        (.., 2) => &[TWO],
        (.., 4) => &[FOUR],
        (.., 8) => &[EIGHT],
        (.., 16) => &[SIXTEEN],
        (.., 32) => &[SIXTEEN, SIXTEEN],
        _ => &[],
    }
}

/// Returns how many bytes an element has outside.
pub(crate) fn size(of: &TypeRef) -> i64 {
    let mut parts = of.parts().peekable();
    if parts.peek().is_none() {
        return scalars(of).iter().map(|scalar| scalar.external as i64).sum();
    }
    parts.map(|(part, count)| size(part).saturating_mul(count)).fold(0, i64::saturating_add)
}

/// Converts data of elements without gaps. What follows the last whole number is left out.
pub(crate) fn encode(of: &TypeRef, native: &[u8]) -> Result<Vec<u8>, Error> {
    convert(of, native, true)
}

/// Converts data of elements back, without gaps. What follows the last whole number is left out.
pub(crate) fn decode(of: &TypeRef, external: &[u8]) -> Result<Vec<u8>, Error> {
    convert(of, external, false)
}

fn convert(of: &TypeRef, from: &[u8], is_out: bool) -> Result<Vec<u8>, Error> {
    let mut conversion = Conversion { rest: from, to: Vec::with_capacity(from.len()), is_out };
    while of.size > 0 && !conversion.rest.is_empty() {
        conversion.element(of)?;
    }
    Ok(conversion.to)
}

struct Conversion<'a> {
    rest: &'a [u8],
    to: Vec<u8>,
    is_out: bool,
}

impl Conversion<'_> {
    fn element(&mut self, of: &TypeRef) -> Result<(), Error> {
        let mut parts = of.parts().peekable();
        if parts.peek().is_none() {
            return scalars(of).iter().try_for_each(|scalar| self.scalar(scalar));
        }
        for (part, count) in parts.filter(|(part, _)| part.size > 0) {
            for _ in 0..count {
                if self.rest.is_empty() {
                    return Ok(());
                }
                self.element(part)?;
            }
        }
        Ok(())
    }

    fn scalar(&mut self, scalar: &Scalar) -> Result<(), Error> {
        let (from, to) = match self.is_out {
            true => (scalar.native, scalar.external),
            false => (scalar.external, scalar.native),
        };
        let Some((now, later)) = self.rest.split_at_checked(from) else {
            self.rest = &[];
            return Ok(());
        };
        self.rest = later;
        // Here the most significant byte is the first one.
        let mut bytes = [0; 16];
        bytes[..from].copy_from_slice(now);
        if IS_LITTLE && self.is_out {
            bytes[..from].reverse();
        }
        match scalar.form {
            Form::Same => {}
            Form::Signed | Form::Unsigned => {
                let is_signed = matches!(scalar.form, Form::Signed);
                bytes = resized(&bytes[..from], to, is_signed)?;
            }
            Form::Extended => {
                let number = u128::from_be_bytes(bytes);
                let number = if self.is_out { widened(number) } else { rounded(number) };
                bytes = number.to_be_bytes();
            }
        }
        if IS_LITTLE && !self.is_out {
            bytes[..to].reverse();
        }
        self.to.extend_from_slice(&bytes[..to]);
        Ok(())
    }
}

/// Returns an integer of another width.
fn resized(bytes: &[u8], width: usize, is_signed: bool) -> Result<[u8; 16], Error> {
    let number = |bytes: &[u8]| {
        let is_negative = is_signed && bytes[0] & 0x80 != 0;
        bytes.iter().fold(-i128::from(is_negative), |number, &byte| number << 8 | i128::from(byte))
    };
    let whole = number(bytes);
    let mut result = [0; 16];
    result[..width].copy_from_slice(&whole.to_be_bytes()[16 - width..]);
    if number(&result[..width]) != whole {
        let text = format!("external32 has {width} bytes for this integer, and {whole} needs more");
        return Err(Error::new(Class::Conversion, text));
    }
    Ok(result)
}

/// The digits that a number of four times the precision has more than one of the x87.
const MORE_DIGITS: u32 = 49;
/// The exponent of numbers that are infinite, or none.
const NOT_FINITE: u128 = 0x7fff;

/// Returns a number of four times the precision for one of the x87.
fn widened(number: u128) -> u128 {
    let (integer, fraction) = (number >> 63 & 1, number & ((1 << 63) - 1));
    let (sign, exponent) = (number >> 79 & 1, number >> 64 & 0x7fff);
    // The x87 may have the smallest exponent as 0, too.
    let exponent = if exponent == 0 { integer } else { exponent };
    sign << 127 | exponent << 112 | fraction << MORE_DIGITS
}

/// Returns the nearest number of the x87 for one of four times the precision, of two the even one.
fn rounded(number: u128) -> u128 {
    let (sign, rest) = (number >> 127, number & (u128::MAX >> 1));
    let (kept, lost) = (rest >> MORE_DIGITS, rest & ((1 << MORE_DIGITS) - 1));
    let fraction = kept & ((1 << 63) - 1);
    let kept = match kept >> 63 {
        // Something that is no number stays so.
        NOT_FINITE if fraction == 0 && lost != 0 => kept | 1 << 62,
        NOT_FINITE => kept,
        _ => {
            let half = 1 << (MORE_DIGITS - 1);
            // A carry into the exponent is right there.
            kept + u128::from(lost > half || lost == half && kept & 1 == 1)
        }
    };
    let (exponent, fraction) = (kept >> 63, kept & ((1 << 63) - 1));
    sign << 79 | exponent << 64 | u128::from(exponent != 0) << 63 | fraction
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of the x87 and of four times the precision, as GCC converts them.
    const EXACT: [(u128, u128); 7] = [
        (0x3fff_c000_0000_0000_0000, 0x3fff_8000_0000_0000_0000_0000_0000_0000),
        (0xc000_8000_0000_0000_0000, 0xc000_0000_0000_0000_0000_0000_0000_0000),
        (0x7fff_8000_0000_0000_0000, 0x7fff_0000_0000_0000_0000_0000_0000_0000),
        (0x0000_0000_0000_0000_0001, 0x0000_0000_0000_0000_0002_0000_0000_0000),
        (0x3ffd_aaaa_aaaa_aaaa_aaab, 0x3ffd_5555_5555_5555_5556_0000_0000_0000),
        (0x0000_7fff_ffff_ffff_ffff, 0x0000_ffff_ffff_ffff_fffe_0000_0000_0000),
        (0, 0),
    ];

    #[test]
    fn long_doubles_are_converted_exactly() {
        for (native, external) in EXACT {
            assert_eq!(widened(native), external, "{native:x}");
            assert_eq!(rounded(external), native, "{external:x}");
        }
        // The unused bytes in memory don't matter, and the smallest exponent has two forms.
        assert_eq!(widened(EXACT[0].0 | 0xabcd << 80), EXACT[0].1);
        assert_eq!(widened(1 << 63), 1 << 112);
    }

    #[test]
    fn what_is_more_precise_is_rounded() {
        let (one, step) = (0x3fffu128 << 112, 1 << MORE_DIGITS);
        let native = |digits: u128| 0x3fff << 64 | 1 << 63 | digits;
        for (more, digits) in [
            (step / 2, 0),
            (step / 2 + 1, 1),
            (step + step / 2 - 1, 1),
            (step + step / 2, 2),
            (step + step / 2 + 1, 2),
        ] {
            assert_eq!(rounded(one + more), native(digits), "{more:x}");
        }
        let (next, infinite) = (0x4000 << 64 | 1 << 63, 0x7fff << 64 | 1 << 63);
        assert_eq!(rounded((0x4000 << 112) - 1), next, "the carry goes into the exponent");
        assert_eq!(rounded((0x7fff << 112) - 1), infinite);
        let none = rounded(0x7fff << 112 | 1);
        assert_ne!(none & ((1 << 63) - 1), 0, "no number stays none");
    }

    proptest! {
        #[test]
        fn long_doubles_come_back(sign in 0u128..2, exponent in 1u128..0x7fff, digits: u64) {
            let number = sign << 79 | exponent << 64 | 1 << 63 | u128::from(digits >> 1);
            prop_assert_eq!(rounded(widened(number)), number);
        }

        #[test]
        fn integers_of_another_width_are_the_same(number: i32) {
            let wide = resized(&number.to_be_bytes(), 8, true).unwrap();
            prop_assert_eq!(&wide[..8], &i64::from(number).to_be_bytes());
            let back = resized(&wide[..8], 4, true).unwrap();
            prop_assert_eq!(&back[..4], &number.to_be_bytes());
            let unsigned = u32::from_ne_bytes(number.to_ne_bytes());
            let wide = resized(&unsigned.to_be_bytes(), 8, false).unwrap();
            prop_assert_eq!(&wide[..8], &u64::from(unsigned).to_be_bytes());
        }
    }

    #[test]
    fn integers_that_do_not_fit_are_refused() {
        for (number, is_signed) in
            [(1i64 << 31, true), (-(1 << 31) - 1, true), (1 << 32, false), (-1, false)]
        {
            assert!(resized(&number.to_be_bytes(), 4, is_signed).is_err(), "{number}");
        }
    }
}
