//! The command line.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use example_support::files::ResultFile;
use example_support::options::{OneOrAll, choices, cores, number, numbers_of_workers, one_or_all};
use example_support::{Error, Result, say};

use crate::init::{Init, LARGEST, USUAL};
use crate::measure::Plan;
use crate::modes::{self, Job, Loss, Mode, Ranks, Run};
use crate::peers::Peer;
use crate::picture;
use crate::report::{Report, Row};

const ALL: &str = "Measure every mode, compare the results, and print the times beside each other";

const OTHER_PROGRAMS: &str = "\
    OpenMP and MPI are programs in C, compiled for this processor. OpenMP's threads share one matrix, as in sh-mem; MPI's \
    processes send as in no-kt. Libraries are as they are installed, and nothing is bound.";

const MOST_WORKERS: usize = 512;

/// Averages every element of a matrix with its four neighbours, step by step, in blocks that
/// exchange their borders; and measures what the exchange costs.
///
/// Without options it takes every mode in turn, compares the results bit for bit, and prints the
/// times beside each other and the matrix as a heat map.
#[derive(Clone, Debug, Parser)]
#[command(name = "stencil", version)]
pub struct Options {
    /// Rows of the matrix, and columns [default: 1080, or those of --init]
    #[arg(short, long, value_name = "N", value_parser = number::<1, LARGEST>)]
    pub size: Option<usize>,

    /// How many steps to take, at most
    #[arg(short = 't', long, value_name = "N", default_value_t = 100, value_parser = number::<0, 1_000_000_000>)]
    pub steps: usize,

    /// How many workers [default: one a core, at least 2]; for --mode all several numbers, like
    /// 1,2,4 [default: up to twice the cores]
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = number::<1, MOST_WORKERS>)]
    pub workers: Vec<usize>,

    /// What workers are [default: threads; both for --mode all]
    #[arg(short, long, value_enum)]
    pub ranks: Option<Ranks>,

    /// How borders get to the neighbours [default: all]
    #[arg(short, long, value_parser = one_or_all(choices::<Mode>(), ALL))]
    pub mode: Option<OneOrAll<Mode>>,

    /// Divide columns as well: so many blocks of rows by so many of columns, on a Cartesian
    /// communicator
    #[arg(short, long, value_name = "RxC", conflicts_with_all = ["mode", "workers"])]
    pub grid: Option<Grid>,

    /// Kill a worker after so many steps: the others go on without it, with the rows that they have kept
    /// for it. Needs --mode survivors and processes; several, like 1@30,2@70
    #[arg(long, value_name = "RANK@STEP", value_delimiter = ',')]
    pub lose: Vec<Loss>,

    /// For --mode survivors: after how many steps workers keep what they have, and give a copy to the next
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<1, 1_000_000_000>)]
    pub checkpoint: usize,

    /// Stop after a step in which no element changed by more than this
    #[arg(long, value_name = "X", value_parser = tolerance, allow_negative_numbers = true)]
    pub tolerance: Option<f64>,

    /// Where the matrix comes from: a picture (PNG, PPM), stretched to --size; or size² raw
    /// little-endian doubles [default: built-in waves]
    #[arg(short, long, value_name = "FILE")]
    pub init: Option<PathBuf>,

    /// Write the matrix as raw little-endian doubles
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the matrix as a heat map
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,

    /// Write the times as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write who did what when, as a Chrome trace (see `mprun trace-svg`)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// For --mode all: how often to measure every mode
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<1, 1000>)]
    pub rounds: usize,

    /// For --mode all: measure the same computation by OpenMP and by MPI as well, where a C compiler and the
    /// libraries are (see benches/peers/install.sh)
    #[arg(long)]
    pub peers: bool,

    /// Print no heat map
    #[arg(short, long)]
    pub quiet: bool,
}

/// Blocks of rows, and blocks of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid(pub [usize; 2]);

impl FromStr for Grid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('x').map(|(rows, columns)| (rows.parse(), columns.parse()));
        let Some((Ok(rows), Ok(columns))) = parts else {
            return Err("not two numbers, like 2x3".to_owned());
        };
        match usize::checked_mul(rows, columns) {
            Some(1..=MOST_WORKERS) => Ok(Self([rows, columns])),
            _ => Err(format!("not 1 to {MOST_WORKERS} blocks")),
        }
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..f64::INFINITY).contains(&number) => Ok(number),
        _ => Err("not a number from 0".to_owned()),
    }
}

impl Options {
    /// Does what the options ask for.
    ///
    /// # Errors
    /// Options that do not go together, and whatever keeps the result from being there.
    pub fn run(&self) -> Result<()> {
        let init = match &self.init {
            Some(path) => Init::open(path, self.size)?,
            None => Init::pattern(self.size.unwrap_or(USUAL)),
        };
        let mode = match (self.grid, self.mode) {
            (Some(_), _) => Some(Mode::Grid),
            (None, Some(OneOrAll::One(mode))) => Some(mode),
            (None, Some(OneOrAll::All) | None) => None,
        };
        if mode != Some(Mode::Survivors) && !self.lose.is_empty() {
            return Err(Error::new("--lose needs --mode survivors"));
        }
        if mode == Some(Mode::Survivors) && (self.tolerance.is_some() || self.trace.is_some()) {
            return Err(Error::new(
                "mode survivors takes all steps, and records nothing: it goes without --tolerance \
                 and --trace",
            ));
        }
        let [output, png, json, trace] = [&self.output, &self.png, &self.json, &self.trace];
        let [output, png] = [ResultFile::create(output)?, ResultFile::create(png)?];
        let [json, trace] = [ResultFile::create(json)?, ResultFile::create(trace)?];
        let (report, run) = match mode {
            Some(mode) => self.run_one(init, mode)?,
            None => self.run_all(init)?,
        };
        output.write(|file| {
            let bytes: Vec<[u8; 8]> = run.cells.iter().map(|cell| cell.to_le_bytes()).collect();
            file.write_all(bytes.as_flattened())
        })?;
        png.write(|file| picture::png(&run.cells, report.size, file))?;
        json.write_json(&report)?;
        trace.write_trace(&run.trace)
    }

    fn job(&self, init: Init, grid: [usize; 2]) -> Job {
        Job {
            init,
            steps: self.steps,
            tolerance: self.tolerance,
            grid,
            trace: self.trace.is_some(),
            keep: self.output.is_some() || self.png.is_some(),
            checkpoint: self.checkpoint,
            lose: self.lose.clone(),
        }
    }

    fn run_one(&self, init: Init, mode: Mode) -> Result<(Report, Run)> {
        if self.peers {
            return Err(Error::new("--peers is for --mode all"));
        }
        if self.workers.len() > 1 {
            let reason = format!("several numbers of --workers are for --mode all, not {mode}");
            return Err(Error::new(reason));
        }
        let usual = if mode == Mode::Sequential { 1 } else { cores().max(2) };
        let workers = self.workers.first().copied().unwrap_or(usual);
        let job = self.job(init, self.grid.map_or([workers, 1], |grid| grid.0));
        // A launcher's ranks are processes, whatever the options say.
        let ranks = match self.ranks {
            _ if onchip::launched() && mode != Mode::Sequential => Ranks::Processes,
            None if !self.lose.is_empty() => Ranks::Processes,
            ranks => ranks.unwrap_or(Ranks::Threads),
        };
        let run = modes::run(&job, mode, ranks)?;
        let row = Row::new((mode, ranks, job.grid), &[1e3 * run.seconds]);
        let report = Report::new(&job, run.steps, 1, false, vec![row]);
        for remark in report.remarks.iter().filter(|_| onchip::caller()) {
            eprintln!("stencil: {remark}");
        }
        let row = &report.rows[0];
        say(format_args!(
            "{}, {}: {} of {size} by {size} elements in {:.2} ms",
            row.name(),
            count(row.workers, "worker"),
            count(run.steps, "step"),
            row.time_ms,
            size = report.size,
        ))?;
        if run.trace.dropped() > 0 {
            say(format_args!("the trace is without the last {} spans", run.trace.dropped()))?;
        }
        Ok((report, run))
    }

    fn run_all(&self, init: Init) -> Result<(Report, Run)> {
        if self.trace.is_some() {
            return Err(Error::new("--trace shows one run: choose one mode"));
        }
        if onchip::launched() {
            let reason = "--mode all has worlds of many sizes, a launcher one: choose one mode";
            return Err(Error::new(reason));
        }
        let workers = match &self.workers[..] {
            [] => numbers_of_workers(cores()),
            workers => workers.to_vec(),
        };
        let ranks = self.ranks.map_or(vec![Ranks::Threads, Ranks::Processes], |ranks| vec![ranks]);
        let job = self.job(init, [1, 1]);
        let (peers, absent) = match self.peers && onchip::caller() {
            true => Peer::all(&job)?,
            false => Default::default(),
        };
        let plan = Plan { job, ranks, workers, rounds: self.rounds, peers };
        let (mut report, run) = plan.run()?;
        if self.peers {
            report.remarks.push(OTHER_PROGRAMS.to_owned());
            report
                .remarks
                .extend(absent.into_iter().map(|absent| format!("Not measured: {absent}.")));
        }
        let rounds = match self.rounds {
            1 => "one round".to_owned(),
            rounds => format!("median of {rounds} rounds"),
        };
        say(format_args!(
            "Five-point stencil on {size} by {size} doubles ({}), {}, {} cores; {rounds}\n\n\
             {}\n\nEvery matrix is the sequential one, bit for bit{}",
            report.init,
            count(report.steps, "step"),
            report.cores,
            report.table(),
            if self.quiet { "." } else { ":" },
            size = report.size,
        ))?;
        if !self.quiet && onchip::caller() {
            say(format_args!("\n{}", picture::letters(&run.cells, report.size)))?;
            say("(--png FILE draws it with a pixel for each element.)")?;
        }
        Ok((report, run))
    }
}

fn count(number: usize, of: &str) -> String {
    if number == 1 { format!("1 {of}") } else { format!("{number} {of}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn grids() {
        assert_eq!("2x3".parse(), Ok(Grid([2, 3])));
        for bad in ["", "2", "x", "2x", "0x1", "2x3x4", "-1x2", "600x1", "99999999999x99999999999"]
        {
            assert!(bad.parse::<Grid>().is_err(), "{bad}");
        }
    }
}
