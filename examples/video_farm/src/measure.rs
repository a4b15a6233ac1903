//! Tables I and II of the paper: every mode with several numbers of workers.
//!
//! As in the paper, the stream is in memory before the clock starts, and only the farm is measured. The modes take
//! turns in every round, so that a machine with varying speed treats them alike. A ratio is taken within a round, and
//! then the median of the ratios.

use example_support::measure::ratio;
use example_support::{Error, Result};

use crate::farm::{self, Helped, Job, Mode, Preload, Ranks, Record, Recorded, Run};
use crate::frame::Size;
use crate::output::Output;
use crate::report::{Report, Row};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Input, schedule, degree and frames of a pass. Its workers and output are ignored.
    pub job: Job,
    /// The modes, each with the kind of its ranks.
    pub columns: Vec<(Mode, Ranks)>,
    /// The numbers of workers.
    pub workers: Vec<usize>,
    /// How many frames to hold in memory at most.
    pub preload: usize,
    /// How often to measure everything.
    pub rounds: usize,
}

/// A number of workers, and a column of the plan.
type Cell = (usize, Mode, Ranks);

impl Plan {
    /// Returns how many farms will run.
    pub fn passes(&self) -> usize {
        (self.rounds + 1) * self.workers.len() * self.columns.len()
    }

    /// Checks every farm against the definition of the filter, then measures. `passed` is called
    /// after each of the [`Plan::passes`].
    ///
    /// # Errors
    /// The error of the first farm that fails, or of a frame that differs from the filter's definition.
    pub fn run(&self, mut passed: impl FnMut()) -> Result<Report> {
        let columns =
            |&workers| self.columns.iter().map(move |&(mode, ranks)| (workers, mode, ranks));
        let cells: Vec<Cell> = self.workers.iter().flat_map(columns).collect();
        let mut size = None;
        for &(workers, mode, ranks) in &cells {
            let run = run_once(&self.checking(workers, mode), mode, ranks)?;
            size.get_or_insert(run.size);
            passed();
        }
        let size = size.ok_or_else(|| Error::new("nothing to measure"))?;
        let mut samples = vec![Vec::new(); cells.len()];
        for _ in 0..self.rounds {
            for (samples, &(workers, mode, ranks)) in samples.iter_mut().zip(&cells) {
                let run = run_once(&self.measuring(workers, mode), mode, ranks)?;
                samples.push(run.service_time());
                passed();
            }
        }
        let helped = |&(workers, mode, ranks): &Cell| {
            Helped::plan(&self.measuring(workers, mode), mode, ranks)
        };
        let helped: Vec<_> = cells.iter().map(helped).collect::<Result<_>>()?;

        let row = |cell: usize| {
            let (workers, mode, ranks) = cells[cell];
            let times = &samples[cell];
            let kts = helped[cell].as_ref().map_or(0, Helped::threads);
            let of = |cell: Cell| {
                cells.iter().position(|&other| other == cell).map(|other| &samples[other])
            };
            let without = of((workers, Mode::NoKt, ranks)).filter(|_| kts > 0);
            let sh_mem = of((workers, Mode::ShMem, Ranks::Threads));
            Row {
                scalability: of((1, mode, ranks)).map(|alone| ratio(alone, times)),
                beside_sh_mem: sh_mem.map(|baseline| ratio(times, baseline)),
                kts,
                gain_of_kts: without.map(|without| 1.0 - ratio(times, without)),
                ..Row::new(mode, ranks, workers, times)
            }
        };
        Ok(Report {
            preloaded: true,
            rounds: self.rounds,
            rows: (0..cells.len()).map(row).collect(),
            remarks: remarks(&cells, &helped),
            ..Report::new(&self.job, size, self.frames())
        })
    }

    /// Returns the number of frames of a pass that is measured.
    fn frames(&self) -> u64 {
        self.job.frames.unwrap_or(self.preload as u64)
    }

    fn checking(&self, workers: usize, mode: Mode) -> Job {
        Job {
            workers,
            output: Output::Check(self.job.input.clone()),
            frames: Some(self.frames().min(self.preload as u64)),
            preload: None,
            // A number of communication threads is for the modes that do not fix it.
            kts: self.job.kts.filter(|_| matches!(mode, Mode::KtSpecialized | Mode::KtGeneralized)),
            record: Record::Nothing,
            progress: false,
            ..self.job.clone()
        }
    }

    fn measuring(&self, workers: usize, mode: Mode) -> Job {
        // A multiple of the workers: under round-robin a buffer then meets the same worker every
        // time, whose page table knows it after the warm-up.
        let frames = self.preload.next_multiple_of(workers);
        Job {
            output: Output::Discard,
            frames: Some(self.frames()),
            preload: Some(Preload { frames, warm_up: 2 * frames as u64 }),
            ..self.checking(workers, mode)
        }
    }
}

/// Returns remarks on the communication threads of some farms, each once.
fn remarks(cells: &[Cell], helped: &[Option<Helped>]) -> Vec<String> {
    let all =
        || cells.iter().zip(helped).filter_map(|(cell, helped)| Some((cell, helped.as_ref()?)));
    // A number of threads that is too large with few workers is also too large with more.
    let inline = all().filter_map(|((workers, ..), helped)| Some((workers, helped.inline()?)));
    let inline = inline
        .min_by_key(|&(workers, _)| workers)
        .map(|(workers, reason)| format!("KTs from N = {workers} on: {reason}"));
    let mut remarks: Vec<String> = inline.into_iter().collect();
    for otherwise in all().filter_map(|(_, helped)| helped.placed_otherwise()) {
        if !remarks.contains(&otherwise) {
            remarks.push(otherwise);
        }
    }
    remarks
}

/// Runs a farm in a program that runs several. If this process skips it, the numbers are zero.
///
/// # Errors
/// As [`farm::run`].
pub fn run_once(job: &Job, mode: Mode, ranks: Ranks) -> Result<Run> {
    if ranks.are_passed_by() {
        let recorded = Recorded::default();
        return Ok(Run { size: Size::ONE_PIXEL, frames: 0, seconds: 0.0, recorded });
    }
    farm::run(job, mode, ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;

    #[test]
    fn every_cell_has_a_row() {
        let input = Input::Clip(Size::new(64, 8).unwrap());
        let job = Job { frames: Some(20), force_kts: true, ..Job::new(input, Output::Discard, 1) };
        let columns = vec![
            (Mode::ShMem, Ranks::Threads),
            (Mode::NoKt, Ranks::Threads),
            (Mode::Moved, Ranks::Threads),
            (Mode::NoKt, Ranks::Processes),
            (Mode::Moved, Ranks::Processes),
            (Mode::KtW, Ranks::Threads),
            (Mode::KtW, Ranks::Processes),
            (Mode::KtGeneralized, Ranks::Threads),
        ];
        let plan =
            Plan { job, columns: columns.clone(), workers: vec![1, 3], preload: 4, rounds: 3 };
        let mut passes = 0;
        let report = plan.run(|| passes += 1).unwrap();
        assert_eq!((passes, report.frames, report.rounds), (plan.passes(), 20, 3));
        let cells = |row: &crate::report::Row| (row.workers, (row.mode, row.ranks));
        let expected = [1, 3].into_iter().flat_map(|n| columns.iter().map(move |&c| (n, c)));
        assert!(report.rows.iter().map(cells).eq(expected));
        for row in &report.rows {
            let time = row.service_time_us;
            assert!(0.0 < time.lowest && time.lowest <= time.median && time.median <= time.highest);
            assert!(row.beside_sh_mem.is_some_and(|ratio| ratio > 0.0));
            assert!(row.scalability.is_some_and(|ratio| ratio > 0.0));
            let helped = row.mode.has_kts();
            assert_eq!((row.kts > 0, row.gain_of_kts.is_some()), (helped, helped));
            assert!(row.gain_of_kts.is_none_or(|gain| gain < 1.0));
            assert!(row.mode != Mode::KtW || row.kts == row.workers);
        }
        assert_eq!(report.rows[0].beside_sh_mem, Some(1.0));
        assert_eq!(report.rows[0].scalability, Some(1.0));
    }
}
