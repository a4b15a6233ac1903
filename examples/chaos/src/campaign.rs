//! Many runs. Those that go on at the same time are in processes of their own, each of which has
//! only its own run's processes below it.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::processes;
use crate::report::{Report, Summary};
use crate::run;

/// The runs of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The seed of the first run.
    pub first: u64,
    /// The number of runs.
    pub runs: u64,
    /// The difference from one seed to the next.
    pub stride: u64,
}

impl Campaign {
    fn seeds(self) -> impl Iterator<Item = u64> {
        (0..self.runs).map(move |run| self.first.wrapping_add(run * self.stride))
    }

    /// Does the runs one after the other, and passes each to `each`.
    ///
    /// # Errors
    /// If a run can't be started, or `each` fails.
    pub fn one_by_one(
        self,
        mut each: impl FnMut(&Plan, Summary, Outcome) -> io::Result<()>,
    ) -> io::Result<()> {
        processes::prepare()?;
        let folder = tempfile::tempdir()?;
        for seed in self.seeds() {
            let plan = Plan::new(seed);
            let (summary, outcome) = run::run(&plan, folder.path())?;
            each(&plan, summary, outcome)?;
        }
        Ok(())
    }

    /// Writes each run's summary to standard output, for the campaign that this is a job of.
    ///
    /// # Errors
    /// As [`one_by_one`](Self::one_by_one).
    pub fn as_job(self) -> io::Result<()> {
        self.one_by_one(|_, summary, _| {
            let mut out = io::stdout().lock();
            serde_json::to_writer(&mut out, &summary)?;
            out.write_all(b"\n")
        })
    }

    /// Does the runs, `jobs` at a time, and passes each to `each`.
    ///
    /// # Errors
    /// If a run can't be started, or a job has not done all its runs.
    pub fn in_jobs(self, jobs: u64, each: impl Fn(&Summary)) -> io::Result<Report> {
        let (sender, summaries) = mpsc::channel();
        let mut running = Vec::new();
        for job in 0..jobs.min(self.runs) {
            let runs = (self.runs - job).div_ceil(jobs);
            let first = self.first.wrapping_add(job);
            let numbers = [("--runs", runs), ("--seed", first), ("--stride", jobs)];
            let mut child = Command::new(std::env::current_exe()?)
                .args(["--part", "job"])
                .args(
                    numbers
                        .iter()
                        .flat_map(|(name, number)| [name.to_string(), number.to_string()]),
                )
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?;
            let (sender, out) = (sender.clone(), child.stdout.take());
            running.push(child);
            thread::spawn(move || {
                for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()) {
                    let Ok(line) = line else { break };
                    if serde_json::from_str(&line).is_ok_and(|run| sender.send(run).is_err()) {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut report = Report::default();
        for summary in summaries {
            each(&summary);
            report.add(summary);
        }
        for mut job in running {
            job.wait()?;
        }
        if report.runs() as u64 != self.runs {
            return Err(io::Error::other(format!("{} of {} runs", report.runs(), self.runs)));
        }
        Ok(report)
    }
}
