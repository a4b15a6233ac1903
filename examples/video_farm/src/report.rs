//! The results of one call of the program, as they go into a JSON file.

use onchip::overlap::OverlapReport;
use serde::{Deserialize, Serialize};

use crate::farm::{Mode, Ranks, Schedule};
use crate::frame::Size;

/// What was run, on what, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The input, by name.
    pub input: String,
    /// The size of its frames.
    pub size: Size,
    /// Frames of every pass that was measured.
    pub frames: u64,
    /// The schedule of the farm.
    pub schedule: Schedule,
    /// Frames that fit into a channel.
    pub degree: usize,
    /// Cores that the program may use.
    pub cores: usize,
    /// The instruction set whose vectors the filter uses.
    pub vectors: String,
    /// Whether the frames were in memory before the clock started.
    pub preloaded: bool,
    /// How often everything was measured.
    pub rounds: usize,
    /// One line for each mode and number of workers.
    pub rows: Vec<Row>,
    /// What is to be known about communication threads that are fewer, or elsewhere, than a mode
    /// says.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// How much of the communication of one run was hidden, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapReport>,
}

/// One mode with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How frames are passed.
    pub mode: Mode,
    /// What the ranks are.
    pub ranks: Ranks,
    /// How many workers there are, the paper's `n`.
    pub workers: usize,
    /// The service time in microseconds a frame, the paper's `T_S`.
    pub service_time_us: Spread,
    /// The service time with one worker over that with `n`, the paper's `S`; `None` when one
    /// worker was not measured.
    pub scalability: Option<f64>,
    /// The service time over that of `sh-mem` with as many workers in the same round; `None` when
    /// that was not measured.
    pub beside_sh_mem: Option<f64>,
    /// How many communication threads ran, in all processes together; none where the ranks sent
    /// inline.
    #[serde(default)]
    pub kts: usize,
    /// By which part of it the service time is below that of `no-kt` with as many workers in the
    /// same round: 0.05 for 5%, negative where it is above. `None` where no communication
    /// threads ran, or when `no-kt` was not measured.
    #[serde(default)]
    pub gain_of_kts: Option<f64>,
}

impl Row {
    /// The name of the mode and of its ranks.
    pub fn name(&self) -> String {
        format!("{}, {}", self.mode, self.ranks)
    }
}

/// A measure that was taken several times.
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
    /// The spread of some samples; all zero when there are none.
    pub fn of(samples: &[f64]) -> Self {
        let lowest = samples.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let highest = samples.iter().copied().reduce(f64::max).unwrap_or(0.0);
        Self { median: median(samples), lowest, highest }
    }
}

/// The middle of some samples, or the mean of the two in the middle; zero when there are none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => 0.0,
        (middle, 0) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        (middle, _) => sorted[middle],
    }
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
    }
}
