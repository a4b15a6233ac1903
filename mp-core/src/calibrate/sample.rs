//! The median and the spread of many measured values.

use serde::{Deserialize, Serialize};

/// The median and the spread of the times of several rounds, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The lower quartile: a quarter of the rounds took no longer.
    pub low: u64,
    /// The median: half of the rounds took no longer.
    pub median: u64,
    /// The upper quartile: three quarters of the rounds took no longer.
    pub high: u64,
    /// The number of rounds.
    pub rounds: u64,
}

/// The time of an operation with a given number of lines, readers, or other things that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The number of lines, readers, or other things.
    pub n: u64,
    /// The measured times.
    pub sample: Sample,
}

impl Sample {
    /// Returns the sample of `values`. If there are none, all fields are zero.
    pub(super) fn of(mut values: Vec<u64>) -> Sample {
        values.sort_unstable();
        let at = |quarter: usize| {
            let last = values.len().saturating_sub(1);
            values.get((last * quarter + 2) / 4).copied().unwrap_or(0)
        };
        Sample { low: at(1), median: at(2), high: at(3), rounds: values.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        let sample = |values: &[u64]| {
            let Sample { low, median, high, rounds } = Sample::of(values.to_vec());
            (low, median, high, rounds)
        };
        assert_eq!(sample(&[]), (0, 0, 0, 0));
        assert_eq!(sample(&[7]), (7, 7, 7, 1));
        assert_eq!(sample(&[9, 1, 5, 3, 7]), (3, 5, 7, 5));
        assert_eq!(sample(&[4, 1_000_000, 2, 3, 1, 5, 6, 7, 8]), (3, 5, 7, 9));
    }
}
