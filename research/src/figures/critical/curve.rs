//! The runs of an experiment at several places of the horizontal axis.

use crate::critical::{Experiment, Measured};
use crate::figures::{Result, Series};

/// A value of a run.
pub type Value = fn(&Measured) -> f64;

/// Returns millions of operations in a second.
pub fn rate(run: &Measured) -> f64 {
    run.rate() / 1e6
}

/// Returns the latency of an operation, in ns.
pub fn latency(run: &Measured) -> f64 {
    run.latency()
}

/// Runs of an experiment.
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    runs: Vec<(usize, Measured)>,
}

impl Curve {
    /// Runs the experiment at all places.
    pub fn new(
        name: impl Into<String>,
        places: &[usize],
        experiment: impl Fn(usize) -> Result<Experiment>,
    ) -> Result<Curve> {
        let run = |&place: &usize| Ok((place, experiment(place)?.run()?));
        let runs = places.iter().map(run).collect::<Result<Vec<_>>>()?;
        Ok(Curve { name: name.into(), runs })
    }

    /// Returns the curve to draw.
    pub fn series(&self, value: Value) -> Series {
        let points = self.runs.iter().map(|(place, run)| (*place as f64, value(run)));
        Series::line(self.name.clone(), points)
    }

    /// Returns the places and values.
    pub fn values(&self, value: Value) -> impl Iterator<Item = (usize, f64)> {
        self.runs.iter().map(move |(place, run)| (*place, value(run)))
    }

    /// Returns the value at a place, or NaN if nothing was run there.
    pub fn at(&self, place: usize, value: Value) -> f64 {
        self.values(value).find(|&(at, _)| at == place).map_or(f64::NAN, |(_, value)| value)
    }

    /// Returns the value at the last place.
    pub fn last(&self, value: Value) -> f64 {
        self.values(value).last().map_or(f64::NAN, |(_, value)| value)
    }

    /// Returns the greatest value.
    pub fn most(&self, value: Value) -> f64 {
        self.values(value).map(|(_, value)| value).fold(0.0, f64::max)
    }

    /// Returns the places from `from` on at which the throughput is not greater than the other's.
    pub fn not_above(&self, other: &Curve, from: usize) -> Vec<String> {
        let pairs = self.values(rate).zip(other.values(rate)).filter(|((at, _), _)| *at >= from);
        let worse = pairs.filter(|((_, mine), (_, others))| mine <= others);
        worse.map(|((at, _), _)| format!("{at} ({} and {})", self.name, other.name)).collect()
    }

    /// Returns the greatest ratio of this curve's values to another's at the same places.
    pub fn most_over(&self, other: &Curve, value: Value) -> f64 {
        let ratios = self.values(value).zip(other.values(value)).map(|((_, a), (_, b))| a / b);
        ratios.fold(0.0, f64::max)
    }
}

/// Returns the series of several curves.
pub fn series(curves: &[&Curve], value: Value) -> Vec<Series> {
    curves.iter().map(|curve| curve.series(value)).collect()
}
