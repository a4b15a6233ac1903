//! Medians and ratios of what was measured several times.

use serde::{Deserialize, Serialize};

/// The middle, the lowest and the highest of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    /// Returns the spread of some samples; all zero when there are none.
    pub fn of(samples: &[f64]) -> Self {
        let lowest = samples.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let highest = samples.iter().copied().reduce(f64::max).unwrap_or(0.0);
        Self { median: median(samples), lowest, highest }
    }
}

/// Returns the middle of some samples, or the mean of the two in the middle; zero when there are none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => 0.0,
        (middle, 0) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        (middle, _) => sorted[middle],
    }
}

/// Returns the median of the ratios of samples of the same round.
///
/// A machine whose speed drifts changes a ratio less than it changes the samples.
pub fn ratio(over: &[f64], under: &[f64]) -> f64 {
    median(&over.iter().zip(under).map(|(over, under)| over / under).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (samples, want) in
            [(&[][..], 0.0), (&[3.0], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0)]
        {
            assert_eq!(median(samples), want);
        }
        let spread = Spread::of(&[9.0, 1.0, 2.0]);
        assert_eq!((spread.lowest, spread.median, spread.highest), (1.0, 2.0, 9.0));
        assert_eq!(ratio(&[2.0, 9.0, 8.0], &[1.0, 3.0, 2.0]), 3.0);
    }
}
