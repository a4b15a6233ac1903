//! The results of one call of the program, as a table and as they go into a JSON file.

use example_support::measure::Spread;
use example_support::options::cores;
use example_support::table::{or_dash, table};
use onchip::topology::{KtPlacement, Topology};
use serde::{Deserialize, Serialize};

use crate::modes::{Job, Mode, Ranks, placement};

/// A mode, the kind of its workers, and their grid.
pub type Cell = (Mode, Ranks, [usize; 2]);

/// The computation, and the time it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where the matrix came from.
    pub init: String,
    /// Its rows, and its columns.
    pub size: usize,
    /// The number of steps that were taken.
    pub steps: usize,
    /// The greatest change of an element after which no further step was taken.
    pub tolerance: Option<f64>,
    /// Cores that the program may use.
    pub cores: usize,
    /// How often everything was measured.
    pub rounds: usize,
    /// Whether every mode's matrix was compared with the sequential one, bit for bit.
    pub compared: bool,
    /// One for each mode and number of workers.
    pub rows: Vec<Row>,
    /// Remarks on the runs.
    pub remarks: Vec<String>,
}

/// One mode with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How borders get to the neighbours.
    pub mode: Mode,
    /// The program in C that did it, with the library that it uses; `None` for this program.
    pub peer: Option<String>,
    /// The kind of the workers.
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
    /// The sequential time divided by this one; `None` if that was not measured.
    pub speed_up: Option<f64>,
    /// The time with one worker divided by this one, the paper's `S`; `None` if one worker was not measured.
    pub scalability: Option<f64>,
}

impl Row {
    /// Makes the row of a mode, the kind of its workers and their grid, with the times of all rounds in milliseconds.
    pub fn new((mode, ranks, grid): Cell, times: &[f64]) -> Self {
        let Spread { median, lowest, highest } = Spread::of(times);
        Self {
            mode,
            peer: None,
            ranks,
            workers: grid[0] * grid[1],
            grid,
            time_ms: median,
            shortest_ms: lowest,
            longest_ms: highest,
            speed_up: None,
            scalability: None,
        }
    }

    fn cell(&self) -> Cell {
        (self.mode, self.ranks, self.grid)
    }

    /// Returns the name of the mode, and the kind of its workers.
    pub fn name(&self) -> String {
        match (&self.peer, self.mode) {
            (Some(peer), _) => format!("{peer}, {}", self.ranks),
            (None, Mode::Sequential) => self.mode.to_string(),
            (None, Mode::Grid) => format!("grid {}x{}, {}", self.grid[0], self.grid[1], self.ranks),
            _ => format!("{}, {}", self.mode, self.ranks),
        }
    }
}

impl Report {
    /// Makes the report of a job. `compared` tells whether the matrices were compared, and were equal.
    pub fn new(job: &Job, steps: usize, rounds: usize, compared: bool, rows: Vec<Row>) -> Self {
        let size = job.init.size();
        let remarks = remarks(&rows.iter().map(Row::cell).collect::<Vec<_>>(), size);
        Self {
            init: job.init.to_string(),
            size,
            steps,
            tolerance: job.tolerance,
            cores: cores(),
            rounds,
            compared,
            rows,
            remarks,
        }
    }

    /// Returns the rows as the paper's table III, and the remarks.
    pub fn table(&self) -> String {
        let mut previous = None;
        let rows = self.rows.iter().map(|row| {
            let first = previous.replace(row.workers) != Some(row.workers);
            [
                if first { row.workers.to_string() } else { String::new() },
                row.name(),
                format!("{:.2}", row.time_ms),
                format!("{:.2} – {:.2}", row.shortest_ms, row.longest_ms),
                or_dash(row.speed_up),
                or_dash(row.scalability),
            ]
        });
        let head = ["N", "mode", "T_C ms", "shortest – longest", "speed-up", "S"];
        let table = table(head, 2..6, rows);
        let remarks = self.remarks.iter().map(|remark| format!("\n{remark}"));
        format!("{table}\n{}", remarks.collect::<String>())
    }
}

/// Returns remarks on the runs, each once.
fn remarks(cells: &[Cell], size: usize) -> Vec<String> {
    let workers = |cell: &Cell| cell.2[0] * cell.2[1];
    let idle = cells.iter().filter(|cell| cell.2[0] > size).map(workers).min();
    let idle = idle.map(|workers| {
        format!(
            "From N = {workers} on there are more workers than rows, and some have nothing to do."
        )
    });
    let topology = Topology::read();
    let plan = |cell: &&Cell| {
        let topology = topology.as_ref().ok()?;
        placement::plan(topology, cell.0, workers(cell)).ok().flatten()
    };
    let is_crowded = |cell: &&Cell| {
        plan(cell)
            .is_some_and(|plan| plan.is_crowded() || workers(cell) + plan.kts().len() > cores())
    };
    let crowded = cells.iter().filter(is_crowded).map(workers).min();
    let crowded = crowded.map(|workers| {
        format!(
            "From N = {workers} on communication threads have no hardware thread of their own: they take \
             their time from the workers."
        )
    });
    let is_elsewhere = |cell: &&Cell| {
        cell.0 == Mode::KtW
            && !is_crowded(cell)
            && plan(cell).is_some_and(|plan| plan.asked() != KtPlacement::KtW)
    };
    let elsewhere = cells.iter().filter(is_elsewhere).map(workers).min();
    let elsewhere = elsewhere.map(|workers| {
        format!(
            "With N = {workers} the cores of workers have no hardware thread for the communication threads of kt-w: \
             those are on other cores."
        )
    });
    [idle, elsewhere, crowded].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_workers() {
        let row = |mode, workers, scalability| Row {
            mode,
            peer: None,
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
        let lines = example_support::table::cells(&text);
        assert_eq!(lines[2], ["1", "sequential", "2.00", "1.50 – 3.00", "1.25", "–"]);
        assert_eq!(lines[3], ["", "sh-mem, threads", "2.00", "1.50 – 3.00", "1.25", "1.00"]);
        assert_eq!(lines[4], ["2", "grid 2x1, threads", "2.00", "1.50 – 3.00", "1.25", "1.50"]);
        assert!(text.ends_with("\nto be known"));
    }

    #[test]
    fn idle_workers_and_crowds_are_told_of() {
        assert!(remarks(&[(Mode::NoKt, Ranks::Threads, [4, 1])], 4).is_empty());
        let told = remarks(&[(Mode::NoKt, Ranks::Threads, [5, 1])], 4);
        assert!(told[0].starts_with("From N = 5 on there are more workers"), "{told:?}");
        let many = cores();
        let told = remarks(&[(Mode::Skt, Ranks::Threads, [many, 1])], many);
        assert!(told[0].contains("no hardware thread of their own"), "{told:?}");
    }
}
