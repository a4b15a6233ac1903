//! The results of one call of the program, as a table and as they go into a JSON file.

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use crate::modes::{Mode, Ranks};

/// What was computed, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where the matrix came from.
    pub init: String,
    /// Its rows, and its columns.
    pub size: usize,
    /// How many steps were taken.
    pub steps: usize,
    /// By how much elements were to change still.
    pub tolerance: Option<f64>,
    /// Cores that the program may use.
    pub cores: usize,
    /// How often everything was measured.
    pub rounds: usize,
    /// Whether every mode's matrix was compared with the sequential one, bit for bit.
    pub compared: bool,
    /// One for each mode and number of workers.
    pub rows: Vec<Row>,
    /// What else is to be known.
    pub remarks: Vec<String>,
}

/// One mode with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How borders get to the neighbours.
    pub mode: Mode,
    /// What the workers are.
    pub ranks: Ranks,
    /// How many workers there are, the paper's `n`.
    pub workers: usize,
    /// Blocks of rows, and of columns.
    pub grid: [usize; 2],
    /// The completion time in milliseconds, the paper's `T_C`: the median of the rounds.
    pub time_ms: f64,
    /// The shortest one.
    pub shortest_ms: f64,
    /// The longest one.
    pub longest_ms: f64,
    /// The sequential time over it; `None` when that was not measured.
    pub speed_up: Option<f64>,
    /// The time with one worker over it, the paper's `S`; `None` when one worker was not measured.
    pub scalability: Option<f64>,
}

impl Row {
    /// The name of the mode, and what its workers are.
    pub fn name(&self) -> String {
        match self.mode {
            Mode::Sequential => self.mode.to_string(),
            Mode::Grid => format!("grid {}x{}, {}", self.grid[0], self.grid[1], self.ranks),
            _ => format!("{}, {}", self.mode, self.ranks),
        }
    }
}

impl Report {
    /// The rows as the paper's table III, and the remarks.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let head = ["N", "mode", "T_C ms", "shortest – longest", "speed-up", "S"];
        table.set_header(head);
        let or_dash = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
        let mut previous = None;
        for row in &self.rows {
            let first = previous.replace(row.workers) != Some(row.workers);
            table.add_row([
                if first { row.workers.to_string() } else { String::new() },
                row.name(),
                format!("{:.2}", row.time_ms),
                format!("{:.2} – {:.2}", row.shortest_ms, row.longest_ms),
                or_dash(row.speed_up),
                or_dash(row.scalability),
            ]);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let remarks = self.remarks.iter().map(|remark| format!("\n{remark}"));
        format!("{table}\n{}", remarks.collect::<String>())
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
    }

    #[test]
    fn rows_are_grouped_by_workers() {
        let row = |mode, workers, scalability| Row {
            mode,
            ranks: Ranks::Threads,
            workers,
            grid: [workers, 1],
            time_ms: 2.0,
            shortest_ms: 1.5,
            longest_ms: 3.0,
            speed_up: Some(1.25),
            scalability,
        };
        let report = Report {
            init: "waves".to_owned(),
            size: 4,
            steps: 3,
            tolerance: None,
            cores: 2,
            rounds: 3,
            compared: true,
            rows: vec![
                row(Mode::Sequential, 1, None),
                row(Mode::ShMem, 1, Some(1.0)),
                row(Mode::Grid, 2, Some(1.5)),
            ],
            remarks: vec!["to be known".to_owned()],
        };
        let text = report.table();
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
        assert_eq!(lines[2], ["1", "sequential", "2.00", "1.50 – 3.00", "1.25", "–"]);
        assert_eq!(lines[3], ["", "sh-mem, threads", "2.00", "1.50 – 3.00", "1.25", "1.00"]);
        assert_eq!(lines[4], ["2", "grid 2x1, threads", "2.00", "1.50 – 3.00", "1.25", "1.50"]);
        assert!(text.ends_with("\nto be known"));
    }
}
