//! Table III of the paper: every mode with several numbers of workers.
//!
//! The modes take turns in every round, so that a machine with varying speed treats them alike. A ratio is taken within
//! a round, and then the median of the ratios. Every mode's matrix is compared with the sequential one.

use example_support::measure::ratio;
use example_support::{Error, Result};
use onchip::communicator::dims_create;

use crate::modes::{self, Job, Mode, Ranks, Run};
use crate::peers::Peer;
use crate::report::{Cell, Report, Row};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The matrix and the number of steps. Its grid is ignored.
    pub job: Job,
    /// The kinds of workers.
    pub ranks: Vec<Ranks>,
    /// The numbers of workers.
    pub workers: Vec<usize>,
    /// How often to measure everything.
    pub rounds: usize,
    /// Other programs that compute the same.
    pub peers: Vec<Peer>,
}

/// What is measured: a mode, or a program that does the same as a mode.
type Measured<'a> = (Cell, Option<&'a Peer>);

impl Plan {
    fn cells(&self) -> Result<Vec<Measured<'_>>> {
        let mut cells = vec![((Mode::Sequential, Ranks::Threads, [1, 1]), None)];
        for &workers in &self.workers {
            let grid = dims_create(workers, &[0, 0])?;
            for &ranks in &self.ranks {
                for mode in Mode::PARALLEL.into_iter().filter(|mode| mode.works_with(ranks)) {
                    match mode {
                        Mode::Grid if grid[0] > self.job.init.size() => {}
                        Mode::Grid => cells.push(((mode, ranks, [grid[0], grid[1]]), None)),
                        _ => cells.push(((mode, ranks, [workers, 1]), None)),
                    }
                }
            }
            for peer in &self.peers {
                cells.extend(peer.cell(&self.job, workers).map(|cell| (cell, Some(peer))));
            }
        }
        Ok(cells)
    }

    /// Measures and compares. Returns the report, and the matrix on which all modes agree.
    ///
    /// # Errors
    /// The first run that fails, or gives another matrix than the sequential one.
    pub fn run(&self) -> Result<(Report, Run)> {
        let cells = self.cells()?;
        let mut samples = vec![Vec::new(); cells.len()];
        for _ in 0..self.rounds {
            for (samples, &cell) in samples.iter_mut().zip(&cells) {
                samples.push(1e3 * self.run_once(cell, false)?.seconds);
            }
        }
        // This comes after the measurements: a rank that is a process gets the results of all worlds before its own.
        let wanted = self.run_once(cells[0], true)?;
        for &cell in &cells[1..] {
            let got = self.run_once(cell, true)?;
            if onchip::caller() {
                compare(&wanted, &got, cell)?;
            }
        }
        // Without a step there is nothing to compare.
        let is_timed = self.job.steps > 0 && self.rounds > 0;
        let name = |peer: Option<&Peer>| peer.map(|peer| peer.name.clone());
        let rows = cells.iter().zip(&samples).map(|(&(cell, peer), times)| {
            let is_alone = |&(other, by): &Measured| {
                other == (cell.0, cell.1, [1, 1]) && name(by) == name(peer)
            };
            let alone = cells.iter().position(is_alone);
            let over = |other: usize| is_timed.then(|| ratio(&samples[other], times));
            Row {
                peer: name(peer),
                speed_up: over(0),
                scalability: alone.and_then(over),
                ..Row::new(cell, times)
            }
        });
        let report = Report::new(&self.job, wanted.steps, self.rounds, true, rows.collect());
        Ok((report, wanted))
    }

    fn run_once(&self, ((mode, ranks, grid), peer): Measured, keep: bool) -> Result<Run> {
        let job = Job { grid, keep, trace: false, ..self.job.clone() };
        match peer {
            Some(peer) if onchip::caller() => peer.run(&job),
            None if !ranks.are_passed_by() => modes::run(&job, mode, ranks),
            _ => Ok(Run::default()),
        }
    }
}

/// Checks that a mode or a program computes what the sequential one does, bit for bit.
///
/// # Errors
/// The first element that is different.
fn compare(wanted: &Run, got: &Run, ((mode, ranks, grid), peer): Measured) -> Result<()> {
    let name = peer.map_or_else(|| mode.to_string(), |peer| peer.name.clone());
    let who = format!("{name} with {} {ranks}", grid[0] * grid[1]);
    if (got.steps, got.cells.len()) != (wanted.steps, wanted.cells.len()) {
        return Err(Error::at(who, format!("{} steps, not {}", got.steps, wanted.steps)));
    }
    let mut pairs = wanted.cells.iter().zip(&got.cells);
    let Some(at) = pairs.position(|(wanted, got)| wanted.to_bits() != got.to_bits()) else {
        return Ok(());
    };
    let (wanted, got) = (wanted.cells[at], got.cells[at]);
    Err(Error::at(who, format!("number {at} of the matrix is {got:e} instead of {wanted:e}")))
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
        let plan = Plan {
            job,
            ranks: vec![Ranks::Threads],
            workers: vec![1, 4],
            rounds: 2,
            peers: Vec::new(),
        };
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
        let cell = ((Mode::NoKt, Ranks::Threads, [2, 1]), None);
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
}
