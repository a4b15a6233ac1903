//! Medians and quartiles.

use serde::{Deserialize, Serialize};

/// The middle of some numbers, and how far they spread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// A quarter of the values is below.
    pub lower_quartile: f64,
    /// Half of the values are below.
    pub median: f64,
    /// Three quarters of the values are below.
    pub upper_quartile: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of some values.
    ///
    /// # Panics
    /// If there are no values.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        Spread {
            min: at(0.0),
            lower_quartile: at(0.25),
            median: at(0.5),
            upper_quartile: at(0.75),
            max: at(1.0),
        }
    }
}

/// Returns the median of some values.
///
/// # Panics
/// If there are no values.
pub fn median(values: &[f64]) -> f64 {
    Spread::of(values).median
}
