//! The results of one call of the program, as they go into a JSON file, and as Tables I and II of the paper.

use example_support::measure::Spread;
use example_support::options::cores;
use example_support::table::{or_dash, table};
use onchip::overlap::OverlapReport;
use serde::{Deserialize, Serialize};

use crate::farm::{Job, Mode, Ranks, Schedule};
use crate::filter::instruction_set;
use crate::frame::Size;

/// The run, its input, and its results.
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
    /// Remarks on communication threads that are fewer, or elsewhere, than a mode says.
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
    /// The kind of the ranks.
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
    /// The part by which the service time is below that of `no-kt` with as many workers in the same round: 0.05 for 5%,
    /// negative if it is above. `None` if no communication threads ran, or if `no-kt` was not measured.
    #[serde(default)]
    pub gain_of_kts: Option<f64>,
}

impl Row {
    /// Makes a row with service times in microseconds, and nothing to compare them with.
    pub fn new(mode: Mode, ranks: Ranks, workers: usize, times: &[f64]) -> Self {
        Self {
            mode,
            ranks,
            workers,
            service_time_us: Spread::of(times),
            scalability: None,
            beside_sh_mem: None,
            kts: 0,
            gain_of_kts: None,
        }
    }

    /// Returns the name of the mode and of its ranks.
    pub fn name(&self) -> String {
        format!("{}, {}", self.mode, self.ranks)
    }
}

impl Report {
    /// Makes the report of one round of a job, without its rows.
    pub fn new(job: &Job, size: Size, frames: u64) -> Self {
        Self {
            input: job.input.to_string(),
            size,
            frames,
            schedule: job.schedule,
            degree: job.degree,
            cores: cores(),
            vectors: instruction_set().to_owned(),
            preloaded: false,
            rounds: 1,
            rows: Vec::new(),
            remarks: Vec::new(),
            overlap: None,
        }
    }

    /// Returns the rows in the tables of the paper, and the remarks.
    pub fn tables(&self) -> String {
        let mut text = format!(
            "Table I: communication threads (KTs) beside the workers\n\n{}\n\n\
             Table II: KTs for the emitter as well\n\n{}",
            self.table(&Mode::TABLE_I),
            self.table(&Mode::TABLE_II)
        );
        for remark in &self.remarks {
            text += &format!("\n\n{remark}");
        }
        text
    }

    /// Returns the rows of some modes, grouped by the number of workers.
    fn table(&self, modes: &[Mode]) -> String {
        let mut previous = None;
        let rows = self.rows.iter().filter(|row| modes.contains(&row.mode)).map(|row| {
            let Spread { median, lowest, highest } = row.service_time_us;
            let first = previous.replace(row.workers) != Some(row.workers);
            [
                if first { row.workers.to_string() } else { String::new() },
                row.name(),
                format!("{median:.1}"),
                format!("{lowest:.1} – {highest:.1}"),
                or_dash(row.scalability),
                or_dash(row.beside_sh_mem),
                match row.kts {
                    0 if row.mode.has_kts() => "inline".to_owned(),
                    0 => "–".to_owned(),
                    kts => kts.to_string(),
                },
                row.gain_of_kts.map_or("–".to_owned(), |gain| format!("{:+.1}%", 100.0 * gain)),
            ]
        });
        let (spread, beside) = ("lowest – highest", "beside sh-mem");
        table(["N", "mode", "T_S µs", spread, "S", beside, "KTs", "gain of KTs"], 2..8, rows)
    }
}

#[cfg(test)]
mod tests {
    use example_support::table::cells;

    use super::*;

    #[test]
    fn rows_are_grouped_by_workers() {
        let row = |workers, mode, time: f64, kts, gain_of_kts| Row {
            mode,
            ranks: Ranks::Threads,
            workers,
            service_time_us: Spread { median: time, lowest: time - 1.0, highest: time + 1.0 },
            scalability: (workers == 1).then_some(1.0),
            beside_sh_mem: (mode != Mode::KtW).then_some(1.01),
            kts,
            gain_of_kts,
        };
        let report = Report {
            input: "clip".to_owned(),
            size: Size::new(4, 4).unwrap(),
            frames: 10,
            schedule: Schedule::RoundRobin,
            degree: 2,
            cores: 2,
            vectors: "avx2".to_owned(),
            preloaded: true,
            rounds: 3,
            rows: vec![
                row(1, Mode::ShMem, 113.0, 0, None),
                row(1, Mode::KtW, 114.25, 1, Some(0.0518)),
                row(1, Mode::KtSpecialized, 120.0, 3, Some(-0.031)),
                row(1, Mode::KtGeneralized, 121.0, 0, None),
                row(2, Mode::ShMem, 57.0, 0, None),
            ],
            remarks: vec!["something to know".to_owned()],
            overlap: None,
        };
        let text = report.tables();
        assert!(text.ends_with("\n\nsomething to know"));
        let tables: Vec<_> = text.split("Table ").skip(1).map(cells).collect();
        assert_eq!((tables.len(), tables[0].len(), tables[1].len()), (2, 5, 6));
        let sh_mem = ["1", "sh-mem, threads", "113.0", "112.0 – 114.0", "1.00", "1.01", "–", "–"];
        assert_eq!(tables[0][2], sh_mem);
        assert_eq!(tables[1][2], sh_mem);
        assert_eq!(
            tables[0][3],
            ["", "kt-w, threads", "114.2", "113.2 – 115.2", "1.00", "–", "1", "+5.2%"]
        );
        assert_eq!(tables[1][3][6..], ["3", "-3.1%"]);
        assert_eq!(tables[1][4][6..], ["inline", "–"]);
        assert_eq!(
            tables[0][4],
            ["2", "sh-mem, threads", "57.0", "56.0 – 58.0", "–", "1.01", "–", "–"]
        );
    }
}
