//! Virtual time.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A span or a point of virtual time, in whole picoseconds.
///
/// These are whole numbers, because a simulator that adds millions of costs in another order than the formula must get
/// the same sum. They are picoseconds, because the published costs are in nanoseconds and are also divided. 2⁶⁴ ps are
/// seven months.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// No time.
    pub const ZERO: Time = Time(0);

    /// Creates a time of `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Time {
        Time(picos)
    }

    /// Creates a time of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos * 1_000)
    }

    /// Returns the time in picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Returns the time in nanoseconds.
    pub fn as_nanos(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the time in microseconds, the unit of the papers.
    pub fn as_micros(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns `self − earlier`, or zero if `earlier` is later.
    pub const fn saturating_sub(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    /// Microseconds with three digits, or with as many as the format asks for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*} µs", f.precision().unwrap_or(3), self.as_micros())
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, factor: u64) -> Time {
        Time(self.0 * factor)
    }
}

impl Mul<Time> for u64 {
    type Output = Time;
    fn mul(self, time: Time) -> Time {
        time * self
    }
}

impl Div<u64> for Time {
    type Output = Time;
    /// Rounded down to a picosecond.
    fn div(self, divisor: u64) -> Time {
        Time(self.0 / divisor)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}
