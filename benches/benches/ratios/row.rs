//! A row: two sides that do the same work, and the promise about their ratio.

pub use example_support::peers::Trouble;
use onchip::Rank;
use onchip_benches::cpus;
use serde::{Deserialize, Serialize};

use crate::job::Job;

/// What performs jobs in a rank: see `perform.rs`.
pub type Perform = fn(Job, &Rank, &Setup) -> onchip::Result<Vec<f64>>;

/// The properties of the run that sides may use.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The two CPUs on which everything here runs.
    pub cpus: [usize; 2],
    pub perform: Perform,
}

impl Setup {
    /// Returns the first two CPUs that this process may use.
    pub fn of_this_machine(perform: Perform) -> Option<Setup> {
        match cpus::usable()[..] {
            [first, second, ..] => Some(Setup { cpus: [first, second], perform }),
            _ => None,
        }
    }
}

/// One measurement by one side.
pub struct Sample {
    /// The value in the row's unit.
    pub value: f64,
    /// The raw probe right before and right after, if the side takes it itself. A program that starts slowly may run on
    /// other cores than the harness has probed.
    pub probes: Option<[f64; 2]>,
    /// Information for the reader about how the sample was taken, such as the chosen settings.
    pub remark: Option<String>,
}

impl From<f64> for Sample {
    fn from(value: f64) -> Sample {
        Sample { value, probes: None, remark: None }
    }
}

pub type Taken = Result<Sample, Trouble>;

/// One of the two sides that a row compares.
pub struct Side {
    pub name: String,
    /// How it waits for the other end.
    pub waits: &'static str,
    take: Box<dyn FnMut(&Setup) -> Taken>,
    remark: Option<String>,
}

impl Side {
    pub fn new(
        name: impl Into<String>,
        waits: &'static str,
        take: impl FnMut(&Setup) -> Taken + 'static,
    ) -> Side {
        Side { name: name.into(), waits, take: Box::new(take), remark: None }
    }

    pub fn named(self, name: impl Into<String>) -> Side {
        Side { name: name.into(), ..self }
    }

    /// Returns a side with a promised figure, which is not measured.
    pub fn stated(value: f64) -> Side {
        Side::new("stated limit", "-", move |_| Ok(value.into()))
    }

    pub fn take(&mut self, setup: &Setup) -> Taken {
        let mut sample = (self.take)(setup)?;
        if let Some(remark) = sample.remark.take() {
            self.remark = Some(remark);
        }
        Ok(sample)
    }

    pub fn remarks(&self) -> Option<&str> {
        self.remark.as_deref()
    }
}

/// The meaning of a sample's value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Nanoseconds,
    /// Messages in a second.
    Rate,
    /// Percent of one core.
    CorePercent,
    /// How many times as large one value is as the other.
    Times,
}

impl Unit {
    /// Returns our cost divided by the reference's cost. Below 1, ours is better.
    pub fn cost(self, ours: f64, reference: f64) -> f64 {
        match self {
            Unit::Nanoseconds | Unit::CorePercent | Unit::Times => ours / reference,
            Unit::Rate => reference / ours,
        }
    }

    pub fn show(self, value: f64) -> String {
        let (value, unit) = match self {
            Unit::Nanoseconds if value < 1e3 => (value, "ns"),
            Unit::Nanoseconds if value < 1e6 => (value / 1e3, "µs"),
            Unit::Nanoseconds => (value / 1e6, "ms"),
            Unit::Rate if value < 1e6 => (value / 1e3, "k/s"),
            Unit::Rate => (value / 1e6, "M/s"),
            Unit::Times => return format!("{value:.2} ×"),
            Unit::CorePercent => return format!("{value:.3} %"),
        };
        match value {
            v if v < 10.0 => format!("{v:.2} {unit}"),
            v if v < 100.0 => format!("{v:.1} {unit}"),
            v => format!("{v:.0} {unit}"),
        }
    }
}

/// A promise about a ratio, for near and for far cores.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Our cost is at most so many times the cost of the reference.
    AtMost { near: f64, far: f64 },
    /// Ours is at least so many times as good as the reference.
    Ahead { near: f64, far: f64 },
    /// Without a promise: a figure that helps to read the others.
    Context,
}

impl Bound {
    pub fn at_most(limit: f64) -> Bound {
        Bound::AtMost { near: limit, far: limit }
    }

    pub fn ahead(limit: f64) -> Bound {
        Bound::Ahead { near: limit, far: limit }
    }

    /// Returns the ratio as this bound defines it, from our cost divided by the reference's cost.
    pub fn ratio(self, cost: f64) -> f64 {
        match self {
            Bound::AtMost { .. } | Bound::Context => cost,
            Bound::Ahead { .. } => 1.0 / cost,
        }
    }

    pub fn holds(self, ratio: f64, far: bool) -> bool {
        match self {
            Bound::AtMost { near, far: at_distance } => {
                ratio <= if far { at_distance } else { near }
            }
            Bound::Ahead { near, far: at_distance } => {
                ratio >= if far { at_distance } else { near }
            }
            Bound::Context => true,
        }
    }

    pub fn show(self, far: bool) -> String {
        match self {
            Bound::AtMost { near, far: at_distance } => {
                format!("≤ {:.2}", if far { at_distance } else { near })
            }
            Bound::Ahead { near, far: at_distance } => {
                format!("≥ {:.2}", if far { at_distance } else { near })
            }
            Bound::Context => "-".into(),
        }
    }
}

/// One line of the table of promises.
pub struct Row {
    /// A name with dots, from the general to the particular. Filters match any part of it.
    pub name: String,
    /// What the two sides do, for `--list`.
    pub what: &'static str,
    pub unit: Unit,
    pub ours: Side,
    pub reference: Side,
    pub bound: Bound,
    /// Whether the figures depend on the distance of the cores. If so, samples are told apart by it.
    pub by_distance: bool,
}
