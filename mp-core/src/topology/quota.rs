//! Limits on CPU time.

use std::{cmp::Ordering, fmt, path::PathBuf};

/// A limit on CPU time: the time that the group's threads together may run in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// The CPU time per period, in microseconds. Not 0.
    pub quota_us: u64,
    /// The period, in microseconds. Not 0.
    pub period_us: u64,
    /// The file that sets the limit.
    pub file: PathBuf,
}

impl Quota {
    /// Returns the limit in CPUs: 1.5 for 150 ms in each 100 ms.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// Returns whether `threads` threads can run all the time.
    pub fn covers(&self, threads: usize) -> bool {
        u128::from(self.quota_us) >= threads as u128 * u128::from(self.period_us)
    }

    /// Returns the limit in whole CPUs, rounded up; at least 1.
    pub fn rounded_up(&self) -> usize {
        usize::try_from(self.quota_us.div_ceil(self.period_us)).unwrap_or(usize::MAX)
    }

    /// Returns the limit in whole CPUs, rounded down: how many threads can run all the time.
    pub fn rounded_down(&self) -> usize {
        usize::try_from(self.quota_us / self.period_us).unwrap_or(usize::MAX)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let scaled = |quota: u64, period: u64| u128::from(quota) * u128::from(period);
        scaled(self.quota_us, other.period_us).cmp(&scaled(other.quota_us, self.period_us))
    }
}

impl fmt::Display for Quota {
    /// Writes the limit with at most two decimals: `1.5 CPUs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = (self.cpus() * 100.0).round() / 100.0;
        write!(f, "{cpus} CPU{}", if cpus == 1.0 { "" } else { "s" })
    }
}
