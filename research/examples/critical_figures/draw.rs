//! From experiments to curves.

use onchip_research::critical::{Experiment, Measured};

use crate::figure::{Figure, Result};

pub const MOPS: &str = "million operations a second";
pub const NANOS: &str = "ns";
pub const CLIENTS: &str = "clients";
pub const INCREMENTS: &str = "increments in the critical section";

/// Returns the experiment at a place on the horizontal axis.
type Simulated<'a> = &'a dyn Fn(u64) -> Result<Experiment>;

/// A curve: its name, and the experiments of its points.
pub struct Curve<'a>(pub &'a str, pub Simulated<'a>);

/// Makes several curves of the same kind.
pub fn curves<'a, F: Fn(u64) -> Result<Experiment>>(
    names: &[&'a str],
    experiments: &'a [F],
) -> Vec<Curve<'a>> {
    names.iter().zip(experiments).map(|(name, experiment)| Curve(name, experiment)).collect()
}

/// Returns the value of a run that is drawn.
pub type Value = fn(&Measured) -> f64;

/// Returns millions of operations in a second.
pub fn throughput(run: &Measured) -> f64 {
    run.rate() / 1e6
}

/// Returns the latency of an operation, in ns.
pub fn latency(run: &Measured) -> f64 {
    run.latency()
}

/// Runs all experiments of a figure.
pub fn draw(
    (name, title): (&'static str, &'static str),
    (across, unit): (&'static str, &'static str),
    places: &[u64],
    curves: &[Curve<'_>],
    value: Value,
) -> Result<Figure> {
    let at = |&place: &u64| {
        let values = curves.iter().map(|Curve(_, simulated)| Ok(value(&simulated(place)?.run()?)));
        Ok((place, values.collect::<Result<Vec<f64>>>()?))
    };
    let points = places.iter().map(at).collect::<Result<_>>()?;
    let curves = curves.iter().map(|Curve(name, _)| (*name).to_owned()).collect();
    Ok(Figure { name, title, across, unit, curves, points })
}
