//! C's `long double`, as far as reductions need it.

/// A `long double` in memory: on x86-64, 80 bits of a number and 48 unused ones.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(super) struct LongDouble([u8; 16]);

#[cfg(target_arch = "x86_64")]
mod x87 {
    use std::arch::asm;

    use super::LongDouble;

    macro_rules! arithmetic {
        ($name:ident, $instruction:literal) => {
            pub fn $name(mut left: LongDouble, right: LongDouble) -> LongDouble {
                // SAFETY: the instructions load two numbers and store their result over the first. They leave the stack
                // of the x87 as it was, which the outputs declare as used.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{left}]",
                        "fld tbyte ptr [{right}]",
                        $instruction,
                        "fstp tbyte ptr [{left}]",
                        left = in(reg) &mut left.0,
                        right = in(reg) &right.0,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
                left
            }
        };
    }

    arithmetic!(sum, "faddp");
    arithmetic!(difference, "fsubp");
    arithmetic!(product, "fmulp");

    /// Returns whether the left number is less than the right one.
    pub fn is_less(left: LongDouble, right: LongDouble) -> bool {
        let less: u8;
        // SAFETY: the instructions load two numbers, compare them and remove both. `fcomip` compares the top of the
        // stack, which is the right one.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                "fcomip st, st(1)",
                "fstp st(0)",
                "seta {less}",
                left = in(reg) &left.0,
                right = in(reg) &right.0,
                less = out(reg_byte) less,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        less != 0
    }

    #[cfg(test)]
    pub fn from(number: f64) -> LongDouble {
        let mut wide = LongDouble([0; 16]);
        // SAFETY: the instructions load one number and store it again.
        unsafe {
            asm!(
                "fld qword ptr [{number}]",
                "fstp tbyte ptr [{wide}]",
                number = in(reg) &number,
                wide = in(reg) &mut wide.0,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        wide
    }

    #[cfg(test)]
    pub fn to(wide: LongDouble) -> f64 {
        let mut number = 0f64;
        // SAFETY: the instructions load one number and store it again.
        unsafe {
            asm!(
                "fld tbyte ptr [{wide}]",
                "fstp qword ptr [{number}]",
                number = in(reg) &mut number,
                wide = in(reg) &wide.0,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        number
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x87::*;

/// Whether reductions of `long double` are there.
pub(super) const IS_SUPPORTED: bool = cfg!(target_arch = "x86_64");

#[cfg(not(target_arch = "x86_64"))]
mod none {
    use super::LongDouble;

    pub fn sum(left: LongDouble, _: LongDouble) -> LongDouble {
        left
    }

    pub use {sum as difference, sum as product};

    pub fn is_less(_: LongDouble, _: LongDouble) -> bool {
        false
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use none::*;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn arithmetic() {
        let numbers = [0.0, 1.5, -2.25, 1e300, -3.0, 0.1];
        for a in numbers {
            for b in numbers {
                assert_eq!(to(sum(from(a), from(b))), a + b);
                assert_eq!(to(difference(from(a), from(b))), a - b);
                assert_eq!(is_less(from(a), from(b)), a < b);
            }
        }
        assert_eq!(to(product(from(1.5), from(-2.25))), 1.5 * -2.25);
        // More than a double holds.
        let third = from(2f64.powi(-60));
        assert_eq!(to(difference(sum(from(1.0), third), from(1.0))), 2f64.powi(-60));
        assert!(!is_less(from(f64::NAN), from(1.0)) && !is_less(from(1.0), from(f64::NAN)));
    }
}
