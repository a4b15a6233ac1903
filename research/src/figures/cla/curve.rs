//! The machines of the paper, and an algorithm on each of some machines.

use std::ops::RangeInclusive;

use mp_model::cla::{Bounds, Graph, Machine, Program, best_barrier};

use crate::cla::run::{Options, Order, run};
use crate::figures::{Plot, Result, Series};

pub(super) const RANKS: &str = "threads";
pub(super) const SANDY: RangeInclusive<usize> = 2..=16;
pub(super) const PHI: RangeInclusive<usize> = 2..=60;

/// Returns the paper's dual-socket machine with so many ranks.
pub(super) fn sandy(ranks: usize) -> Machine {
    Machine::sandy_bridge(ranks).expect("at most 16 ranks")
}

/// Returns the paper's Xeon Phi with so many ranks.
pub(super) fn phi(ranks: usize) -> Machine {
    Machine::xeon_phi(ranks).expect("at most 60 ranks")
}

/// Returns the barrier that the model chooses.
pub(super) fn chosen_barrier(machine: &Machine) -> Program {
    best_barrier(machine).barrier.program(&machine.placement)
}

/// Returns T_min and T_max.
pub(super) fn bounds(machine: &Machine, program: &Program) -> Result<Bounds> {
    Ok(Graph::new(program, machine)?.bounds(Default::default()))
}

pub(super) fn in_order(machine: &Machine, program: &Program, order: Order) -> Result<f64> {
    let options = Options { order, congestion: true, ..Options::default() };
    Ok(run(program, machine, options)?.end().as_nanos())
}

/// Returns the nanoseconds that a program takes if lines serve the first that comes.
pub(super) fn here(machine: &Machine, program: &Program) -> Result<f64> {
    in_order(machine, program, Order::Fifo)
}

/// An algorithm on each of some machines.
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// By machine: the number of ranks, and nanoseconds.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) at_random: Vec<(f64, f64)>,
    pub(super) bounds: Vec<(f64, Bounds)>,
}

impl Curve {
    /// Runs a program on each of the machines.
    pub(super) fn new(
        name: &'static str,
        machines: &[Machine],
        program: impl Fn(&Machine) -> Result<Program>,
    ) -> Result<Curve> {
        let mut curve =
            Curve { name, points: Vec::new(), at_random: Vec::new(), bounds: Vec::new() };
        for machine in machines {
            let (program, ranks) = (program(machine)?, machine.ranks() as f64);
            curve.points.push((ranks, here(machine, &program)?));
            for seed in 1..=5 {
                let time = in_order(machine, &program, Order::Random(seed))?;
                curve.at_random.push((ranks, time));
            }
            curve.bounds.push((ranks, bounds(machine, &program)?));
        }
        Ok(curve)
    }

    /// Returns the curve.
    pub(super) fn series(&self) -> Series {
        Series::line(self.name, self.points.iter().copied())
    }

    /// Returns the curve and, as dots, the orders at random.
    pub(super) fn with_dots(&self) -> Vec<Series> {
        vec![self.series(), Series::dots(self.name, self.at_random.iter().copied())]
    }

    /// Returns T_min and T_max.
    pub(super) fn model(&self) -> Vec<Series> {
        let of = |name: &str, time: fn(&Bounds) -> f64| {
            Series::line(
                name,
                self.bounds.iter().map(move |(ranks, bounds)| (*ranks, time(bounds))),
            )
        };
        vec![
            of("T_min", |bounds| bounds.min.as_nanos()),
            of("T_max", |bounds| bounds.max.as_nanos()),
        ]
    }

    /// Returns how many times as long another algorithm takes, by number of ranks.
    pub(super) fn times(&self, other: &Curve) -> Vec<(usize, f64)> {
        let both = self.points.iter().zip(&other.points);
        both.map(|(one, other)| (one.0 as usize, other.1 / one.1)).collect()
    }
}

/// Returns the picture of times by the number of ranks.
pub(super) fn over_ranks(part: &'static str, caption: &str, series: Vec<Series>) -> Plot {
    Plot::new(part, caption, RANKS, "ns", series)
}

/// Returns the picture with a logarithmic axis of times, as the paper draws most of its own.
pub(super) fn logarithmic(plot: Plot) -> Plot {
    Plot { logarithmic_values: true, ..plot }
}

/// Returns the greatest value, and its number of ranks.
pub(super) fn greatest(times: &[(usize, f64)]) -> (usize, f64) {
    times.iter().copied().fold((0, 0.0), |most, of| if of.1 > most.1 { of } else { most })
}

/// Returns the least value.
pub(super) fn least(times: &[(usize, f64)]) -> f64 {
    times.iter().map(|&(_, times)| times).fold(f64::MAX, f64::min)
}

/// Returns the mean value.
pub(super) fn mean(times: &[(usize, f64)]) -> f64 {
    times.iter().map(|&(_, times)| times).sum::<f64>() / times.len() as f64
}

/// Returns the numbers of threads for which a value is what it should be, as ranges.
pub(super) fn where_true(times: &[(usize, f64)], holds: impl Fn(f64) -> bool) -> String {
    let ranks: Vec<usize> =
        times.iter().filter(|(_, value)| holds(*value)).map(|&(ranks, _)| ranks).collect();
    let runs = ranks.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}–{last}"),
        [] => String::new(),
    });
    let text = runs.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "no number of threads".to_owned() } else { format!("{text} threads") }
}
