//! The command line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};
use onchip::trace::Trace;

use crate::error::StencilError;
use crate::files::NewFile;
use crate::init::{Init, LARGEST, USUAL};
use crate::measure::{Plan, cores, remarks};
use crate::modes::{self, Job, Loss, Mode, Ranks, Run};
use crate::picture;
use crate::report::{Report, Row};

/// Averages every element of a matrix with its four neighbours, step by step, in blocks that
/// exchange their borders; and measures what the exchange costs.
///
/// Without options it takes every mode in turn, compares the results bit for bit, and prints the
/// times beside each other and the matrix as a heat map.
#[derive(Clone, Debug, Parser)]
#[command(name = "stencil", version)]
pub struct Options {
    /// Rows of the matrix, and columns [default: 1080, or those of --init]
    #[arg(short, long, value_name = "N", value_parser = parse_size)]
    pub size: Option<usize>,

    /// How many steps to take, at most
    #[arg(short = 't', long, value_name = "N", default_value_t = 100, value_parser = parse_steps)]
    pub steps: usize,

    /// How many workers [default: one a core, at least 2]; for --mode all several numbers, like
    /// 1,2,4 [default: up to twice the cores]
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,

    /// What workers are [default: threads; both for --mode all]
    #[arg(short, long, value_enum)]
    pub ranks: Option<Ranks>,

    /// How borders get to the neighbours [default: all]
    #[arg(short, long, value_enum)]
    pub mode: Option<Choice>,

    /// Divide columns as well: so many blocks of rows by so many of columns, on a Cartesian
    /// communicator
    #[arg(short, long, value_name = "RxC", conflicts_with_all = ["mode", "workers"])]
    pub grid: Option<Grid>,

    /// Kill a worker after so many steps: the others go on without it, with the rows that they have kept
    /// for it. Needs --mode survivors and processes; several, like 1@30,2@70
    #[arg(long, value_name = "RANK@STEP", value_delimiter = ',')]
    pub lose: Vec<Loss>,

    /// For --mode survivors: after how many steps workers keep what they have, and give a copy to the next
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = parse_checkpoint)]
    pub checkpoint: usize,

    /// Stop after a step in which no element changed by more than this
    #[arg(long, value_name = "X", value_parser = parse_tolerance, allow_negative_numbers = true)]
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
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_rounds)]
    pub rounds: usize,

    /// Print no heat map
    #[arg(short, long)]
    pub quiet: bool,
}

/// A mode, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// One worker
    Sequential,
    /// Read where they lie, with a barrier after each step: the baseline (threads only)
    ShMem,
    /// Sent by the workers
    NoKt,
    /// Sent by a communication thread for each worker
    KtW,
    /// Sent by one communication thread for all workers (threads only)
    Skt,
    /// Sent as tagged messages, by workers that go on when others are lost: see --lose
    Survivors,
    /// Measure every mode, compare the results, and print the times beside each other
    All,
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

const MOST_WORKERS: usize = 512;

fn parse_number(text: &str, from: usize, to: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (from..=to).contains(&number) => Ok(number),
        _ => Err(format!("not a number from {from} to {to}")),
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    parse_number(text, 1, LARGEST)
}

fn parse_steps(text: &str) -> Result<usize, String> {
    parse_number(text, 0, 1_000_000_000)
}

fn parse_workers(text: &str) -> Result<usize, String> {
    parse_number(text, 1, MOST_WORKERS)
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 1000)
}

fn parse_checkpoint(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 1_000_000_000)
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
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
    pub fn run(&self) -> Result<(), StencilError> {
        let init = match &self.init {
            Some(path) => Init::open(path, self.size)?,
            None => Init::pattern(self.size.unwrap_or(USUAL)),
        };
        let mode = match (self.mode, self.grid) {
            (_, Some(_)) => Some(Mode::Grid),
            (Some(Choice::Sequential), _) => Some(Mode::Sequential),
            (Some(Choice::ShMem), _) => Some(Mode::ShMem),
            (Some(Choice::NoKt), _) => Some(Mode::NoKt),
            (Some(Choice::KtW), _) => Some(Mode::KtW),
            (Some(Choice::Skt), _) => Some(Mode::Skt),
            (Some(Choice::Survivors), _) => Some(Mode::Survivors),
            (Some(Choice::All) | None, _) => None,
        };
        if mode != Some(Mode::Survivors) && !self.lose.is_empty() {
            return Err(StencilError::Usage("--lose needs --mode survivors".to_owned()));
        }
        if mode == Some(Mode::Survivors) && (self.tolerance.is_some() || self.trace.is_some()) {
            let reason = "mode survivors takes all steps, and records nothing: it goes without \
                          --tolerance and --trace";
            return Err(StencilError::Usage(reason.to_owned()));
        }
        // A rank that is a process passes here too, and must not touch the files.
        let files = if onchip::caller() { self.create_files()? } else { Files::default() };
        let (report, run) = match mode {
            Some(mode) => self.run_one(init, mode)?,
            None => self.run_all(init)?,
        };
        if onchip::caller() { files.write(&report, &run) } else { Ok(()) }
    }

    fn job(&self, init: Init, grid: [usize; 2]) -> Job {
        let (steps, tolerance) = (self.steps, self.tolerance);
        let keep = self.output.is_some() || self.png.is_some();
        let (trace, checkpoint, lose) = (self.trace.is_some(), self.checkpoint, self.lose.clone());
        Job { init, steps, tolerance, grid, trace, keep, checkpoint, lose }
    }

    fn run_one(&self, init: Init, mode: Mode) -> Result<(Report, Run), StencilError> {
        if self.workers.len() > 1 {
            let reason = format!("several numbers of --workers are for --mode all, not {mode}");
            return Err(StencilError::Usage(reason));
        }
        let usual = if mode == Mode::Sequential { 1 } else { cores().max(2) };
        let workers = self.workers.first().copied().unwrap_or(usual);
        let grid = self.grid.map_or([workers, 1], |grid| grid.0);
        // A launcher's ranks are processes, whatever is asked for.
        let ranks = match self.ranks {
            _ if onchip::launched() && mode != Mode::Sequential => Ranks::Processes,
            None if !self.lose.is_empty() => Ranks::Processes,
            ranks => ranks.unwrap_or(Ranks::Threads),
        };
        let job = self.job(init, grid);
        let run = modes::run(&job, mode, ranks)?;
        let time_ms = 1e3 * run.seconds;
        let row = Row {
            mode,
            ranks,
            workers: job.workers(),
            grid,
            time_ms,
            shortest_ms: time_ms,
            longest_ms: time_ms,
            speed_up: None,
            scalability: None,
        };
        let size = job.init.size();
        let report = Report {
            init: job.init.to_string(),
            size,
            steps: run.steps,
            tolerance: job.tolerance,
            cores: cores(),
            rounds: 1,
            compared: false,
            rows: vec![row],
            remarks: remarks(&[(mode, ranks, grid)], size),
        };
        for remark in report.remarks.iter().filter(|_| onchip::caller()) {
            eprintln!("stencil: {remark}");
        }
        let workers = job.workers();
        let by = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        self.say(&format!(
            "{}, {by}: {} of {size} by {size} elements in {time_ms:.2} ms",
            report.rows[0].name(),
            steps(run.steps)
        ))?;
        if run.trace.dropped() > 0 {
            self.say(&format!("the trace is without the last {} spans", run.trace.dropped()))?;
        }
        Ok((report, run))
    }

    fn run_all(&self, init: Init) -> Result<(Report, Run), StencilError> {
        let usage = |reason: &str| Err(StencilError::Usage(reason.to_owned()));
        if self.trace.is_some() {
            return usage("--trace shows one run: choose one mode");
        }
        if onchip::launched() {
            return usage("--mode all has worlds of many sizes, a launcher one: choose one mode");
        }
        let mut workers = self.workers.clone();
        if workers.is_empty() {
            workers = default_workers(cores());
        }
        let ranks = match self.ranks {
            Some(ranks) => vec![ranks],
            None => vec![Ranks::Threads, Ranks::Processes],
        };
        let job = self.job(init, [1, 1]);
        let plan = Plan { job, ranks, workers, rounds: self.rounds };
        let (report, run) = plan.run()?;
        if onchip::caller() {
            let size = report.size;
            let rounds = match self.rounds {
                1 => "one round".to_owned(),
                rounds => format!("median of {rounds} rounds"),
            };
            self.say(&format!(
                "Five-point stencil on {size} by {size} doubles ({}), {}, {} cores; {rounds}\n\n\
                 {}\n\nEvery matrix is the sequential one, bit for bit{}",
                report.init,
                steps(report.steps),
                report.cores,
                report.table(),
                if self.quiet { "." } else { ":" }
            ))?;
            if !self.quiet {
                self.say(&format!("\n{}", picture::letters(&run.cells, size)))?;
                self.say("(--png FILE draws it with a pixel for each element.)")?;
            }
        }
        Ok((report, run))
    }

    fn say(&self, text: &str) -> Result<(), StencilError> {
        if !onchip::caller() {
            return Ok(());
        }
        writeln!(io::stdout(), "{text}")
            .map_err(|error| StencilError::file("standard output", error))
    }

    /// Creates the files of results ahead, so that one that cannot be written is known before
    /// the work is done.
    fn create_files(&self) -> Result<Files, StencilError> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(NewFile::create).transpose();
        Ok(Files {
            output: create(&self.output)?,
            png: create(&self.png)?,
            json: create(&self.json)?,
            trace: create(&self.trace)?,
        })
    }
}

#[derive(Default)]
struct Files {
    output: Option<NewFile>,
    png: Option<NewFile>,
    json: Option<NewFile>,
    trace: Option<NewFile>,
}

impl Files {
    fn write(self, report: &Report, run: &Run) -> Result<(), StencilError> {
        let text = |error: &dyn std::fmt::Display| StencilError::Usage(error.to_string());
        if let Some(file) = self.output {
            let bytes: Vec<[u8; 8]> = run.cells.iter().map(|cell| cell.to_le_bytes()).collect();
            file.finish(bytes.as_flattened())?;
        }
        if let Some(file) = self.png {
            file.finish(&picture::png(&run.cells, report.size).map_err(|error| text(&error))?)?;
        }
        if let Some(file) = self.json {
            let json = serde_json::to_string_pretty(report).map_err(|error| text(&error))?;
            file.finish((json + "\n").as_bytes())?;
        }
        if let Some(file) = self.trace {
            let mut json = Vec::new();
            Trace::write_chrome(&run.trace, &mut json).map_err(|error| text(&error))?;
            file.finish(&json)?;
        }
        Ok(())
    }
}

fn steps(number: usize) -> String {
    if number == 1 { "1 step".to_owned() } else { format!("{number} steps") }
}

/// 1, 2, 4 and so on up to the cores, the cores themselves, and twice as many.
fn default_workers(cores: usize) -> Vec<usize> {
    let mut workers: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|&n| n < cores).collect();
    workers.extend([cores, 2 * cores]);
    workers
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
