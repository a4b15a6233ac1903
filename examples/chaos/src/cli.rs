//! The command line.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::campaign::Campaign;
use crate::launcher;
use crate::parent;
use crate::plan::Plan;
use crate::record;
use crate::report::{Report, Summary};

/// A campaign against worlds of processes: in each run two to eight ranks do a mix of everything
/// while somebody is hurt, at a moment that the run's seed chooses; then all that must hold is
/// checked.
///
/// Ends with status 0 when nothing was missed in any run. `--runs 1 --seed S` does the run of a seed
/// again, and shows what was planned and told.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos", version)]
pub struct Options {
    /// How many runs
    #[arg(short, long, value_name = "N", default_value_t = 200)]
    pub runs: u64,

    /// The seed of the first run; the others have those after it [default: of the moment]
    #[arg(short, long, value_name = "S")]
    pub seed: Option<u64>,

    /// How many runs at the same time
    #[arg(short, long, value_name = "J", default_value_t = 1)]
    pub jobs: u64,

    /// How far the seeds are from each other
    #[arg(long, hide = true, default_value_t = 1)]
    pub stride: u64,

    /// Which process of a run this is
    #[arg(long, hide = true)]
    pub part: Option<Part>,
}

/// A process that the campaign has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// A part of the campaign
    Job,
    /// The launcher's parent
    Parent,
    /// The launcher
    Launcher,
    /// A rank
    Rank,
}

impl Options {
    /// Does what is asked for.
    pub fn run(self) -> ExitCode {
        let first = self.seed.unwrap_or_else(moment);
        let campaign = Campaign { first, runs: self.runs, stride: self.stride };
        if let Err(error) = record::keep_standard_error() {
            eprintln!("chaos: the standard error can't be duplicated: {error}");
            return ExitCode::FAILURE;
        }
        match self.part {
            Some(Part::Parent) => return parent::main(&Plan::new(first)),
            Some(Part::Launcher) => return launcher::main(&Plan::new(first)),
            Some(Part::Rank) => return launcher::rank_main(&Plan::new(first)),
            _ => {}
        }
        let done = match (self.part, self.runs, self.jobs) {
            (Some(_), ..) => campaign.as_job().map(|()| Report::default()),
            (None, 1, _) => show(campaign),
            (None, _, jobs) => campaign.in_jobs(jobs.max(1), print_misses),
        };
        match done {
            Ok(report) => {
                if self.part.is_none() {
                    println!("\n{}", report.text());
                }
                if report.missed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => {
                eprintln!("chaos: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn moment() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64)
}

fn print_misses(run: &Summary) {
    if !run.misses.is_empty() {
        println!("seed {}: {}", run.seed, Plan::new(run.seed));
        run.misses.iter().for_each(|miss| println!("    {miss}"));
    }
}

/// Does one run, and prints everything that was recorded.
fn show(campaign: Campaign) -> std::io::Result<Report> {
    let mut report = Report::default();
    campaign.one_by_one(|plan, summary, outcome| {
        println!("seed {}: {plan}", plan.seed);
        outcome.records.iter().for_each(|record| println!("  {record:?}"));
        summary.misses.iter().for_each(|miss| println!("    {miss}"));
        report.add(summary);
        Ok(())
    })?;
    Ok(report)
}
