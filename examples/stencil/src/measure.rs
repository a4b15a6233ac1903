//! Table III of the paper: every mode with several numbers of workers.
//!
//! The modes take turns in every round, so that a machine whose speed drifts treats them alike, and
//! a ratio is taken within a round before its median is. Every mode's matrix is compared with the
//! sequential one.

use onchip::communicator::dims_create;

use crate::error::StencilError;
use crate::modes::{self, Job, Mode, Ranks, Run};
use crate::report::{Report, Row, median};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The matrix, and how many steps; its grid does not count.
    pub job: Job,
    /// What workers may be.
    pub ranks: Vec<Ranks>,
    /// The numbers of workers.
    pub workers: Vec<usize>,
    /// How often to measure everything.
    pub rounds: usize,
}

/// A mode, what its workers are, and in which grid.
type Cell = (Mode, Ranks, [usize; 2]);

impl Plan {
    fn cells(&self) -> Result<Vec<Cell>, StencilError> {
        let mut cells = vec![(Mode::Sequential, Ranks::Threads, [1, 1])];
        for &workers in &self.workers {
            for &ranks in &self.ranks {
                for mode in Mode::PARALLEL {
                    if !mode.works_with(ranks) {
                        continue;
                    }
                    if mode != Mode::Grid {
                        cells.push((mode, ranks, [workers, 1]));
                        continue;
                    }
                    let grid = dims_create(workers, &[0, 0]).map_err(onchip::Error::from)?;
                    if grid[0] <= self.job.init.size() {
                        cells.push((mode, ranks, [grid[0], grid[1]]));
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Measures and compares; gives the matrix as well, which all modes agree on.
    ///
    /// # Errors
    /// The first run that fails, or gives another matrix than the sequential one.
    pub fn run(&self) -> Result<(Report, Run), StencilError> {
        let cells = self.cells()?;
        let mut samples = vec![Vec::new(); cells.len()];
        for _ in 0..self.rounds {
            for (samples, &cell) in samples.iter_mut().zip(&cells) {
                samples.push(1e3 * run_once(&self.job_of(cell, false), cell)?.seconds);
            }
        }
        // At the end: a rank that is a process gets the results of all worlds before its own.
        let wanted = run_once(&self.job_of(cells[0], true), cells[0])?;
        for &cell in &cells[1..] {
            let got = run_once(&self.job_of(cell, true), cell)?;
            if onchip::caller() {
                compare(&wanted, &got, cell)?;
            }
        }

        let ratio = |over: Option<usize>, under: usize| {
            let pairs = samples[over?].iter().zip(&samples[under]);
            // Without a step there is nothing to compare.
            let ratios: Vec<f64> = pairs.map(|(over, under)| over / under).collect();
            Some(median(&ratios)).filter(|_| self.job.steps > 0 && !ratios.is_empty())
        };
        let row = |index: usize| {
            let (mode, ranks, grid) = cells[index];
            let alone = cells.iter().position(|&cell| cell == (mode, ranks, [1, 1]));
            let times = &samples[index];
            Row {
                mode,
                ranks,
                workers: grid[0] * grid[1],
                grid,
                time_ms: median(times),
                shortest_ms: times.iter().copied().reduce(f64::min).unwrap_or(0.0),
                longest_ms: times.iter().copied().reduce(f64::max).unwrap_or(0.0),
                speed_up: ratio(Some(0), index),
                scalability: ratio(alone, index),
            }
        };
        let report = Report {
            init: self.job.init.to_string(),
            size: self.job.init.size(),
            steps: wanted.steps,
            tolerance: self.job.tolerance,
            cores: cores(),
            rounds: self.rounds,
            compared: true,
            rows: (0..cells.len()).map(row).collect(),
            remarks: remarks(&cells, self.job.init.size()),
        };
        Ok((report, wanted))
    }

    fn job_of(&self, (_, _, grid): Cell, keep: bool) -> Job {
        Job { grid, keep, trace: false, ..self.job.clone() }
    }
}

/// Whether a mode did what the sequential one does, bit for bit.
///
/// # Errors
/// [`StencilError::Different`], with the first element that is.
fn compare(wanted: &Run, got: &Run, (mode, ranks, grid): Cell) -> Result<(), StencilError> {
    let who = format!("{mode} with {} {ranks}", grid[0] * grid[1]);
    let different = |what: String| Err(StencilError::Different(format!("{who}: {what}")));
    if (got.steps, got.cells.len()) != (wanted.steps, wanted.cells.len()) {
        return different(format!("{} steps, not {}", got.steps, wanted.steps));
    }
    let mut pairs = wanted.cells.iter().zip(&got.cells);
    match pairs.position(|(wanted, got)| wanted.to_bits() != got.to_bits()) {
        Some(at) => {
            let (wanted, got) = (wanted.cells[at], got.cells[at]);
            different(format!("number {at} of the matrix is {got:e} instead of {wanted:e}"))
        }
        None => Ok(()),
    }
}

/// What is to be known of some runs, each thing once.
pub fn remarks(cells: &[(Mode, Ranks, [usize; 2])], size: usize) -> Vec<String> {
    let workers = |cell: &Cell| cell.2[0] * cell.2[1];
    let mut remarks = Vec::new();
    if let Some(workers) = cells.iter().filter(|cell| cell.2[0] > size).map(workers).min() {
        remarks.push(format!(
            "From N = {workers} on there are more workers than rows, and some have nothing to do."
        ));
    }
    let crowded = |cell: &&Cell| {
        let kts = cell.0.kts(workers(cell));
        kts > 0 && workers(cell) + kts > cores()
    };
    if let Some(workers) = cells.iter().filter(crowded).map(workers).min() {
        remarks.push(format!(
            "From N = {workers} on communication threads have no core of their own: they take \
             their time from the workers."
        ));
    }
    remarks
}

/// Runs a job in a program that runs several.
///
/// A rank that is a process executes the program again up to its own world. Earlier worlds of
/// processes are replayed for it, and what threads did it has no use for: it gets nothing.
fn run_once(job: &Job, (mode, ranks, _): Cell) -> Result<Run, StencilError> {
    if ranks == Ranks::Threads && !onchip::caller() {
        return Ok(Run::default());
    }
    modes::run(job, mode, ranks)
}

/// Cores that this program may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::Init;

    #[test]
    fn every_cell_has_a_row() {
        let job = Job {
            init: Init::pattern(9),
            steps: 5,
            tolerance: None,
            grid: [1, 1],
            trace: false,
            keep: false,
            checkpoint: 10,
            lose: Vec::new(),
        };
        let plan = Plan { job, ranks: vec![Ranks::Threads], workers: vec![1, 4], rounds: 2 };
        let (report, run) = plan.run().unwrap();
        assert_eq!((report.rows.len(), report.steps, run.cells.len()), (11, 5, 81));
        for row in &report.rows {
            assert!(row.shortest_ms <= row.time_ms && row.time_ms <= row.longest_ms);
            assert!(row.scalability.is_some());
            assert!(row.speed_up.is_some_and(|ratio| ratio > 0.0));
        }
        assert_eq!(report.rows[10].grid, [2, 2]);
        assert_eq!((report.rows[0].speed_up, report.rows[1].scalability), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn one_other_bit_is_found() {
        let cell = (Mode::NoKt, Ranks::Threads, [2, 1]);
        let run = |cells: &[f64], steps| Run { steps, cells: cells.to_vec(), ..Run::default() };
        let wanted = run(&[1.0, 0.0, 2.0, 3.0], 4);
        assert_eq!(compare(&wanted, &wanted, cell), Ok(()));
        for other in [
            run(&[1.0, -0.0, 2.0, 3.0], 4),
            run(&[1.0, 0.0, 2.0, 3.0f64.next_up()], 4),
            run(&[1.0, 0.0, 2.0, 3.0], 5),
            run(&[1.0, 0.0, 2.0], 4),
        ] {
            let error = compare(&wanted, &other, cell).unwrap_err().to_string();
            assert!(error.starts_with("no-kt with 2 threads: "), "{error}");
        }
    }

    #[test]
    fn idle_workers_and_crowds_are_told_of() {
        assert!(remarks(&[(Mode::NoKt, Ranks::Threads, [4, 1])], 4).is_empty());
        let told = remarks(&[(Mode::NoKt, Ranks::Threads, [5, 1])], 4);
        assert!(told[0].starts_with("From N = 5 on there are more workers"), "{told:?}");
        let many = cores();
        let told = remarks(&[(Mode::Skt, Ranks::Threads, [many, 1])], many);
        assert!(told[0].contains("no core of their own"), "{told:?}");
    }
}
