//! The costs of moving cache lines on this machine, as parameters of the cache-line-aware model.
//!
//! [`mp_core::calibrate`] measures, [`Calibration::of`] fits the paper's formulas and judges the results, [`recall`]
//! keeps the measurements in a file, and [`kept`] looks there without measuring. A value that was not measured, or that
//! is impossible, is replaced by a possible one; the [`Value`] says so and why.

mod file;
mod fit;

use mp_core::calibrate::{
    CONGESTED_LINES, Measurements, Outcome, Point, Sample, Seats, Unmeasured,
};
use mp_model::Time;
use mp_model::cla::{Contention, Invalidation, Lines, Link, Parameters, Placement};

pub use file::{FILE_VARIABLE, Origin, Recalled, kept, recall, recall_from};

/// The parameters, with the origin of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The model's parameters; they pass [`Parameters::check`].
    pub parameters: Parameters,
    /// The parameters one by one.
    pub values: Vec<Value>,
    /// The CPUs on which the measurements were made, by groups.
    pub seats: Seats,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The name in the paper.
    pub name: &'static str,
    /// The meaning of the parameter.
    pub meaning: &'static str,
    /// The value that the model uses; `None` where it does without.
    pub time: Option<Time>,
    /// The quartiles of the measurements; `None` for a value that was fitted to several measurements.
    pub spread: Option<(Time, Time)>,
    /// Why the value is not the one measured, if it is not.
    pub replaced: Option<Replaced>,
}

/// The reason why a value was replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Replaced {
    /// It was not measured.
    #[error("{with}: {why}")]
    Unmeasured {
        /// The replacement.
        with: &'static str,
        /// The reason.
        why: Unmeasured,
    },
    /// The measured value is impossible.
    #[error("{with}: implausible, {why}")]
    Implausible {
        /// The replacement.
        with: &'static str,
        /// The reason.
        why: String,
    },
    /// The model does not need it here.
    #[error("{why}")]
    Needless {
        /// The reason.
        why: &'static str,
    },
}

/// The model's own machine, for values of which nothing is known.
const DEFAULT: Parameters = Parameters::SANDY_BRIDGE;
const PAPER: &str = "the paper's Sandy Bridge instead";
const AS_NEAR: &str = "as within a group";
/// The limits, in picoseconds, beyond which there is no cache or memory.
const CACHE: (u64, u64) = (100, 100_000);
const TRANSFER: (u64, u64) = (1_000, 20_000_000);

impl Calibration {
    /// Fits and judges measurements.
    pub fn of(measured: &Measurements) -> Calibration {
        let mut values = Vec::new();
        let d = DEFAULT;
        let instead = (d.local, PAPER);
        let (name, meaning) = ("R_L", "a line in the own cache");
        let local = single(&mut values, name, meaning, &measured.local, CACHE, Time::ZERO, instead);
        // Where each core is a group by itself, there is only far.
        let far_only = measured.near.is_err() && measured.far.is_ok();
        let (near, near_copies) = if far_only {
            (&measured.far, &measured.far_copies)
        } else {
            (&measured.near, &measured.near_copies)
        };
        let (name, meaning) = ("R_R", "a line from another core of the group");
        let instead = (d.near.transfer.max(local), PAPER);
        let near_transfer = single(&mut values, name, meaning, near, TRANSFER, local, instead);
        let (name, meaning) = ("R_Q", "a line from a core of another group");
        let (instead, least) = ((near_transfer, AS_NEAR), near_transfer);
        let far_transfer =
            single(&mut values, name, meaning, &measured.far, TRANSFER, least, instead);
        let (name, meaning, instead) = ("R_I", "a line from memory", (d.near.memory, PAPER));
        let near_memory =
            single(&mut values, name, meaning, &measured.memory, TRANSFER, local, instead);
        let (name, meaning) = ("R_QI", "a line from the memory of another NUMA node");
        let instead = (near_memory, "as from the nearest");
        let outcome = &measured.far_memory;
        let far_memory =
            single(&mut values, name, meaning, outcome, TRANSFER, near_memory, instead);
        let names = ["q", "o", "p"];
        let near_lines = lines(&mut values, names, near_copies, (d.near.lines, PAPER));
        let names = ["q far", "o far", "p far"];
        let mut far_lines = lines(&mut values, names, &measured.far_copies, (near_lines, AS_NEAR));
        far_lines.congestion = congestion(&mut values, &measured.congestion);
        far_lines.line = far_lines.line.saturating_sub(far_lines.congestion);
        let contention = contention(&mut values, &measured.readers, near_transfer);
        let invalidation = invalidation(&mut values, &measured.sharers);
        let write = write(&mut values, measured, near_transfer);
        let parameters = Parameters {
            local,
            near: Link { transfer: near_transfer, memory: near_memory, lines: near_lines },
            far: Link { transfer: far_transfer, memory: far_memory, lines: far_lines },
            contention,
            invalidation,
            write,
        };
        let mut calibration = Calibration { parameters, values, seats: measured.seats.clone() };
        if let Err(why) = parameters.check() {
            calibration.distrust(&why.to_string());
        }
        calibration
    }

    /// Sets what the model uses where values contradict each other.
    fn distrust(&mut self, why: &str) {
        self.parameters = DEFAULT;
        for value in &mut self.values {
            value.time = None;
            value.replaced = Some(Replaced::Implausible { with: PAPER, why: why.to_owned() });
        }
    }

    /// Returns whether some measured value is impossible.
    pub fn is_implausible(&self) -> bool {
        let implausible =
            |value: &Value| matches!(value.replaced, Some(Replaced::Implausible { .. }));
        self.values.iter().any(implausible)
    }

    /// Returns a placement of `ranks` ranks on the cores that may be used, which fills one group after the other and
    /// starts again where there are more ranks than cores. Returns `None` for no ranks.
    pub fn placement(&self, ranks: usize) -> Option<Placement> {
        let groups = self.seats.groups.iter().enumerate();
        let cores: Vec<usize> =
            groups.flat_map(|(group, cpus)| std::iter::repeat_n(group, cpus.len())).collect();
        let cores = if cores.is_empty() { vec![0] } else { cores };
        Placement::new(cores.into_iter().cycle().take(ranks).collect::<Vec<_>>()).ok()
    }

    /// Returns how many cores may be used: at least one.
    pub fn cores(&self) -> usize {
        self.seats.groups.iter().map(Vec::len).sum::<usize>().max(1)
    }
}

fn picos(picos: u64) -> Time {
    Time::from_picos(picos)
}

/// Fits a value that was measured by itself.
fn single(
    values: &mut Vec<Value>,
    name: &'static str,
    meaning: &'static str,
    outcome: &Outcome<Sample>,
    (low, high): (u64, u64),
    least: Time,
    (instead, with): (Time, &'static str),
) -> Time {
    let implausible = |why: String| Some(Replaced::Implausible { with, why });
    let (time, spread, replaced) = match outcome {
        Err(why) => (instead, None, Some(Replaced::Unmeasured { with, why: why.clone() })),
        Ok(sample) => {
            let (time, spread) = (picos(sample.median), (picos(sample.low), picos(sample.high)));
            let nanos = time.as_nanos();
            let replaced = if !(low..=high).contains(&sample.median) {
                implausible(format!("{nanos} ns was measured"))
            } else if time < least {
                implausible(format!("{nanos} ns is less than {} ns nearer", least.as_nanos()))
            } else {
                None
            };
            (if replaced.is_some() { instead } else { time }, Some(spread), replaced)
        }
    };
    values.push(Value { name, meaning, time: Some(time), spread, replaced });
    time
}

/// Fits q, o and p of equations 4 and 5.
fn lines(
    values: &mut Vec<Value>,
    names: [&'static str; 3],
    outcome: &Outcome<Vec<Point>>,
    (instead, with): (Lines, &'static str),
) -> Lines {
    let (fitted, replaced) = match outcome {
        Err(why) => (instead, Some(Replaced::Unmeasured { with, why: why.clone() })),
        Ok(points) => match fit::lines(points) {
            Some([start, line, saved]) => {
                (Lines { start, line, saved, congestion: Time::ZERO }, None)
            }
            None => {
                let why = "copies of more lines do not take longer".to_owned();
                (instead, Some(Replaced::Implausible { with, why }))
            }
        },
    };
    let meanings = ["several lines: to start with", "for each line", "saved by few, over N"];
    let times = [fitted.start, fitted.line, fitted.saved];
    for ((name, meaning), time) in names.into_iter().zip(meanings).zip(times) {
        let replaced = replaced.clone();
        values.push(Value { name, meaning, time: Some(time), spread: None, replaced });
    }
    fitted
}

/// Fits c of equation 4.
fn congestion(values: &mut Vec<Value>, outcome: &Outcome<Vec<Point>>) -> Time {
    let with = "none";
    let (time, replaced) = match outcome {
        Err(why) => (Time::ZERO, Some(Replaced::Unmeasured { with, why: why.clone() })),
        Ok(points) => {
            let slope = fit::straight(points).map_or(0.0, |[_, slope]| slope.max(0.0));
            (fit::time(slope / CONGESTED_LINES as f64), None)
        }
    };
    let meaning = "far lines: for each line and other copy under way";
    values.push(Value { name: "c far", meaning, time: Some(time), spread: None, replaced });
    time
}

/// Fits b, c and a of equations 2 and 3.
fn contention(
    values: &mut Vec<Value>,
    outcome: &Outcome<Vec<Point>>,
    transfer: Time,
) -> Option<Contention> {
    let with = "no contention";
    let (contention, replaced) = match outcome {
        Err(why) => (None, Some(Replaced::Unmeasured { with, why: why.clone() })),
        Ok(points) => match fit::straight(points) {
            // A fiftieth of a transfer is what any measurement is off by.
            Some([_, slope]) if slope * 50.0 <= transfer.as_picos() as f64 => {
                let why = "readers of one line do not hinder each other here";
                (None, Some(Replaced::Needless { why }))
            }
            Some([start, reader]) if start >= 0.0 => {
                let (start, reader) = (fit::time(start), fit::time(reader));
                let fitted = Contention { start, reader, saved: Time::ZERO };
                let trial = Parameters { contention: Some(fitted), ..trial(transfer) };
                match trial.check() {
                    Ok(()) => (Some(fitted), None),
                    Err(why) => (None, Some(Replaced::Implausible { with, why: why.to_string() })),
                }
            }
            _ => {
                let why = "more readers are faster than fewer".to_owned();
                (None, Some(Replaced::Implausible { with, why }))
            }
        },
    };
    let meanings = ["readers of one line: to start with", "for each reader"];
    let times = contention.map(|Contention { start, reader, .. }| [start, reader]);
    for (index, (name, meaning)) in ["b", "c"].into_iter().zip(meanings).enumerate() {
        let (time, replaced) = (times.map(|times| times[index]), replaced.clone());
        values.push(Value { name, meaning, time, spread: None, replaced });
    }
    let why = "0 where the line is in a cache, as here (table 2)";
    values.push(Value {
        name: "a",
        meaning: "saved by few readers, over n",
        time: Some(Time::ZERO),
        spread: None,
        replaced: Some(Replaced::Needless { why }),
    });
    contention
}

/// Returns parameters that are plausible except for what is to be tried.
fn trial(transfer: Time) -> Parameters {
    let mut trial = DEFAULT;
    trial.local = trial.local.min(transfer);
    trial.near.transfer = transfer;
    trial.far.transfer = trial.far.transfer.max(transfer);
    trial
}

/// Fits section 2.3. The value shown is what each additional sharer adds to a write.
fn invalidation(values: &mut Vec<Value>, outcome: &Outcome<Vec<Point>>) -> Invalidation {
    let (time, chosen, replaced) = match outcome {
        Err(why) => {
            let with = "R_R for each sharer, as on the paper's Sandy Bridge";
            let replaced = Replaced::Unmeasured { with, why: why.clone() };
            (None, Invalidation::EachSharer, Some(replaced))
        }
        Ok(points) if points.len() < 2 => {
            let why = "two cores, so that no line has more than one other";
            (None, Invalidation::EachSharer, Some(Replaced::Needless { why }))
        }
        Ok(points) => {
            let first = points.first().map_or(0.0, |point| point.sample.median as f64);
            let slope = fit::straight(points).map_or(0.0, |[_, slope]| slope.max(0.0));
            let each = slope * 2.0 > first;
            let chosen = if each { Invalidation::EachSharer } else { Invalidation::Once };
            (Some(fit::time(slope)), chosen, None)
        }
    };
    let meaning = "a write: for each sharer more";
    values.push(Value { name: "RFO", meaning, time, spread: None, replaced });
    chosen
}

/// Fits the time by which a write is longer than a read. The model uses it where it exceeds the error of the
/// measurements.
fn write(values: &mut Vec<Value>, measured: &Measurements, transfer: Time) -> Option<Time> {
    let (name, meaning) = ("W", "a write to a line that another core has, and looks at");
    let instead = (transfer, "R_R, as in the paper");
    let alone = measured.sharers.as_ref().ok().and_then(|points| points.iter().find(|p| p.n == 1));
    // What is not the other's read: the looks make the write itself take longer.
    let seen = measured.seen.as_ref().map_err(Clone::clone).map(
        |&Sample { low, median, high, rounds }| {
            let read = transfer.as_picos();
            let least = alone.map_or(0, |point| point.sample.median);
            let beyond = |seen: u64| seen.saturating_sub(read).max(least);
            Sample { low: beyond(low), median: beyond(median), high: beyond(high), rounds }
        },
    );
    // Locked instructions, which make sure that each is waited for, take longer on no machine.
    let range = (TRANSFER.0, TRANSFER.1.min(10 * transfer.as_picos()));
    let time = single(values, name, meaning, &seen, range, Time::ZERO, instead);
    Some(time).filter(|&time| time > transfer)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample(median: u64) -> Sample {
        Sample { low: median - median / 10, median, high: median + median / 5, rounds: 99 }
    }

    pub(super) fn points(of: impl Fn(u64) -> u64, ns: &[u64]) -> Outcome<Vec<Point>> {
        Ok(ns.iter().map(|&n| Point { n, sample: sample(of(n)) }).collect())
    }

    /// Sixteen cores in two groups, with round numbers.
    pub(super) fn measured() -> Measurements {
        let lengths = [1, 2, 3, 4, 8, 16, 32, 64, 128];
        let groups = vec![(0..8).collect(), (8..16).collect()];
        Measurements {
            seats: Seats { groups, far: Some(1), far_memory: Some(8) },
            local: Ok(sample(2_000)),
            memory: Ok(sample(80_000)),
            far_memory: Ok(sample(120_000)),
            near: Ok(sample(40_000)),
            far: Ok(sample(100_000)),
            near_copies: points(|n| 60_000 + 10_000 * n - 20_000 / n, &lengths),
            far_copies: points(|n| 180_000 + 8_000 * n, &lengths),
            readers: points(|n| 38_000 + 6_000 * n, &[1, 2, 3, 4, 6, 7]),
            congestion: points(|n| 180_000 + 160_000 + 32 * 3_000 * n, &[1, 2, 3, 4]),
            sharers: points(|_| 41_000, &[1, 2, 3, 4, 6, 7]),
            seen: Ok(sample(95_000)),
        }
    }

    fn value<'a>(calibration: &'a Calibration, name: &str) -> &'a Value {
        calibration.values.iter().find(|value| value.name == name).unwrap()
    }

    #[test]
    fn what_was_measured_is_found_again() {
        let calibration = Calibration::of(&measured());
        let Parameters { local, near, far, contention, invalidation, write } =
            calibration.parameters;
        assert_eq!(write, Some(picos(55_000)));
        assert_eq!(
            (local, near.transfer, far.transfer),
            (picos(2_000), picos(40_000), picos(100_000))
        );
        assert_eq!((near.memory, far.memory), (picos(80_000), picos(120_000)));
        let close =
            |time: Time, wanted: u64| assert!(time.as_picos().abs_diff(wanted) < 60, "{time:?}");
        close(near.lines.start, 60_000);
        close(near.lines.line, 10_000);
        close(near.lines.saved, 20_000);
        close(far.lines.congestion, 3_000);
        close(far.lines.line, 5_000);
        close(contention.unwrap().start, 38_000);
        close(contention.unwrap().reader, 6_000);
        assert_eq!(invalidation, Invalidation::Once);
        assert!(!calibration.is_implausible());
        assert_eq!(calibration.parameters.check(), Ok(()));
        assert_eq!(calibration.placement(9).unwrap().group(8), 1);
        assert_eq!(calibration.placement(17).unwrap().group(16), 0);
        assert_eq!((calibration.placement(0), calibration.cores()), (None, 16));
    }

    #[test]
    fn what_was_not_measured_is_replaced_with_the_reason() {
        let few = Unmeasured::FewCores { needed: 2, cores: 1 };
        let measured = Measurements {
            seats: Seats { groups: vec![vec![3]], far: None, far_memory: None },
            near: Err(few.clone()),
            near_copies: Err(few.clone()),
            far: Err(Unmeasured::OneGroup),
            far_copies: Err(Unmeasured::OneGroup),
            far_memory: Err(Unmeasured::OneNode),
            readers: Err(few.clone()),
            congestion: Err(Unmeasured::OneGroup),
            sharers: Err(few.clone()),
            seen: Err(few),
            ..measured()
        };
        let calibration = Calibration::of(&measured);
        let Parameters { near, far, contention, .. } = calibration.parameters;
        assert_eq!(near.transfer, DEFAULT.near.transfer);
        assert_eq!((far.transfer, far.memory, contention), (near.transfer, near.memory, None));
        let text = value(&calibration, "R_R").replaced.as_ref().unwrap().to_string();
        assert!(text.contains("Sandy Bridge") && text.contains("2 cores"), "{text}");
        assert!(!calibration.is_implausible());
    }

    #[test]
    fn implausible_values_are_replaced() {
        for (name, change) in [
            ("R_L", (|m| m.local = Ok(sample(0))) as fn(&mut Measurements)),
            ("R_R", |m| m.near = Ok(sample(1_500))),
            ("R_R", |m| m.near = Ok(sample(1 << 40))),
            ("R_Q", |m| m.far = Ok(sample(39_000))),
            ("R_QI", |m| m.far_memory = Ok(sample(79_000))),
            ("o", |m| m.near_copies = points(|n| 1_000_000 / n, &[1, 2, 4, 8])),
            ("q", |m| m.near_copies = Ok(Vec::new())),
            ("c", |m| m.readers = points(|n| 30_000 * n, &[1, 2, 3])),
        ] {
            let mut measured = measured();
            change(&mut measured);
            let calibration = Calibration::of(&measured);
            let replaced = &value(&calibration, name).replaced;
            assert!(matches!(replaced, Some(Replaced::Implausible { .. })), "{name}: {replaced:?}");
            assert_eq!(calibration.parameters.check(), Ok(()), "{name}");
        }
    }
}
