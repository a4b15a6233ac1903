//! A grid of grain, size, and place of the communication thread.

use std::fmt;
use std::time::Duration;

use onchip::WaitPolicy;
use onchip::threads::Spare;
use onchip::threads::pays::Costs;

use crate::rounds::{Kt, Rounds, Times, take};

const GRAINS_US: [u64; 5] = [0, 10, 50, 200, 1000];
const SIZES: [usize; 8] = [8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const KTS: [Kt; 3] = [Kt::AWAKE, Kt::ADAPTIVE, Kt::BESIDE];

/// One point of the grid.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub kt: Kt,
    pub grain: Duration,
    pub bytes: usize,
    pub times: Times,
    /// The model's time of a delegated round, for the measured grain; nanoseconds.
    pub model: f64,
    /// The model's time of an inline round.
    pub model_inline: f64,
}

impl Cell {
    pub const HEADING: &str = "KT                    grain        size    computing       inline    \
        delegated        model   gain  model";

    /// Returns the part of the time that delegating saved.
    pub fn gain(&self) -> f64 {
        1.0 - self.times.delegated / self.times.inline
    }

    /// Returns the part of the time that delegating saves by the model.
    pub fn model_gain(&self) -> f64 {
        1.0 - self.model / self.model_inline
    }

    pub fn place(&self) -> &'static str {
        match (self.kt.spare, self.kt.policy) {
            (Spare::None, _) => "no spare core",
            (_, WaitPolicy::Spin) => "spare core, awake",
            _ => "spare core, adaptive",
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Times { computing, inline, delegated, .. } = self.times;
        let us = |ns: f64| format!("{:.2} µs", ns / 1e3);
        write!(
            f,
            "{:<20} {:>5} µs {:>9} B {:>12} {:>12} {:>12} {:>12} {:>5.1}% {:>5.1}%",
            self.place(),
            self.grain.as_micros(),
            self.bytes,
            us(computing),
            us(inline),
            us(delegated),
            us(self.model),
            100.0 * self.gain(),
            100.0 * self.model_gain(),
        )
    }
}

/// Measures the cells one after another.
pub fn measure(
    cpus: [usize; 2],
    costs: &Costs,
    quick: bool,
) -> impl Iterator<Item = onchip::Result<Cell>> {
    let every = if quick { 3 } else { 1 };
    let batches = if quick { 1 } else { 9 };
    KTS.into_iter()
        .flat_map(move |kt| GRAINS_US.into_iter().step_by(every).map(move |grain| (kt, grain)))
        .flat_map(move |(kt, grain)| {
            SIZES.into_iter().step_by(every).map(move |bytes| (kt, grain, bytes))
        })
        .map(move |(kt, grain, bytes)| {
            let grain = Duration::from_micros(grain);
            let times = take(Rounds { grain, bytes, kt, batches }, cpus)?;
            let mut costs = *costs;
            if kt.policy == WaitPolicy::Spin {
                costs.spinning = f64::INFINITY;
            }
            let model = costs.time_delegated(times.computing, bytes, kt.spare);
            let model_inline = costs.time_inline(times.computing, bytes);
            Ok(Cell { kt, grain, bytes, times, model, model_inline })
        })
}

pub fn csv(cells: &[Cell]) -> String {
    let mut text = "kt,grain_us,bytes,computing_ns,inline_ns,delegated_ns,calls_ns,\
        model_inline_ns,model_delegated_ns,gain,model_gain\n"
        .to_owned();
    for cell in cells {
        let Times { computing, inline, delegated, calls, .. } = cell.times;
        text += &format!(
            "\"{}\",{},{},{computing:.1},{inline:.1},{delegated:.1},{calls:.1},{:.1},{:.1},{:.4},{:.4}\n",
            cell.place(),
            cell.grain.as_micros(),
            cell.bytes,
            cell.model_inline,
            cell.model,
            cell.gain(),
            cell.model_gain(),
        );
    }
    text
}
