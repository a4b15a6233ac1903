//! The command line.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use onchip::trace::Trace;

use crate::error::{FarmError, StreamError};
use crate::farm::{self, Helped, Job, Mode, Ranks, Record, Run, Schedule};
use crate::filter::instruction_set;
use crate::frame::Size;
use crate::input::Input;
use crate::measure::{Plan, cores, run_once};
use crate::output::Output;
use crate::output::partial::PartialFile;
use crate::report::{Report, Row, Spread};
use crate::{plot, table};

/// Turns video gray with a farm of workers, and measures what passing the frames costs.
///
/// Without --input and --output it measures every mode on a moving clip of its own and prints
/// the service times beside each other.
#[derive(Clone, Debug, Parser)]
#[command(name = "video_farm", version)]
pub struct Options {
    /// A .y4m file, a folder of PNG or PPM frames, raw rgb24 with --size (`-`: standard input),
    /// or any video when the ffmpeg program is installed [default: a built-in moving clip]
    #[arg(short, long, value_name = "PATH")]
    pub input: Option<PathBuf>,

    /// Frame size of raw rgb24, or of the built-in clip [default there: 1000x1000]
    #[arg(long, value_name = "WxH")]
    pub size: Option<Size>,

    /// A .y4m file (luma alone), a folder of PNG frames, or `-` for raw bytes on standard output
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,

    /// How frames are passed [default: all without --output, moved with it]
    #[arg(short, long, value_enum)]
    pub mode: Option<Choice>,

    /// What emitter, workers and collector are [default: threads; both for --mode all]
    #[arg(short, long, value_enum)]
    pub ranks: Option<Ranks>,

    /// How many workers [default: one a core, at least 2]; for --mode all several numbers, like
    /// 1,2,4 [default: up to twice the cores]
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,

    /// How many frames at most [default: all there are, 300 of the built-in clip]; for --mode all
    /// how many to send in every pass [default: 300]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub frames: Option<u64>,

    /// To which worker the next frame goes
    #[arg(short, long, value_enum, default_value_t = Schedule::RoundRobin)]
    pub schedule: Schedule,

    /// How many frames a channel holds without blocking its sender
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = parse_degree)]
    pub degree: usize,

    /// For --mode all: how often to measure every mode
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_count)]
    pub rounds: usize,

    /// For --mode all: how many different frames to hold in memory
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_count)]
    pub preload: usize,

    /// How many communication threads: those of the emitter for kt-specialized [default: one for 12
    /// workers], at most so many for kt-generalized [default: one a core]
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    pub kts: Option<usize>,

    /// Run communication threads also where the machine has no hardware thread to spare for them
    #[arg(long)]
    pub force_kts: bool,

    /// Write who did what when, as a Chrome trace (see `mprun trace-svg`)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Say how much of each rank's communication was hidden behind its computation
    #[arg(long)]
    pub overlap: bool,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// For --mode all: draw the service times as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// A mode, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// Pointers, through channels between threads: the shared-memory baseline (threads only)
    ShMem,
    /// By value, without communication threads
    NoKt,
    /// Shared buffers whose ownership moves
    Moved,
    /// By value, copied by a communication thread for each worker
    KtW,
    /// By value, copied by communication threads for the emitter and for groups of workers
    KtSpecialized,
    /// By value, copied by one communication thread a core (threads only)
    KtGeneralized,
    /// Measure every mode, and print the service times beside each other
    All,
}

fn parse_number(text: &str, from: usize, to: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (from..=to).contains(&number) => Ok(number),
        _ => Err(format!("not a number from {from} to {to}")),
    }
}

fn parse_workers(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 512)
}

fn parse_degree(text: &str) -> Result<usize, String> {
    parse_number(text, 0, 1024)
}

fn parse_count(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 1_000_000)
}

impl Options {
    /// Does what the options ask for.
    ///
    /// # Errors
    /// Options that do not go together, and whatever keeps the farm from finishing.
    pub fn run(&self) -> Result<(), FarmError> {
        let input = Input::new(self.input.as_deref(), self.size).map_err(FarmError::Input)?;
        let output = Output::new(self.output.as_deref()).map_err(FarmError::Output)?;
        let clip_frames = matches!(input, Input::Clip(_)).then_some(300);
        let job = Job {
            input,
            output,
            frames: self.frames.or(clip_frames),
            workers: self.workers.first().copied().unwrap_or_else(|| cores().max(2)),
            schedule: self.schedule,
            degree: self.degree,
            preload: None,
            kts: self.kts,
            force_kts: self.force_kts,
            record: match (&self.trace, self.overlap) {
                (Some(_), _) => Record::Trace,
                (None, true) => Record::Overlap,
                (None, false) => Record::Nothing,
            },
            progress: !self.quiet,
        };
        let mode = match self.mode {
            Some(Choice::ShMem) => Some(Mode::ShMem),
            Some(Choice::NoKt) => Some(Mode::NoKt),
            Some(Choice::Moved) => Some(Mode::Moved),
            Some(Choice::KtW) => Some(Mode::KtW),
            Some(Choice::KtSpecialized) => Some(Mode::KtSpecialized),
            Some(Choice::KtGeneralized) => Some(Mode::KtGeneralized),
            Some(Choice::All) => None,
            None if job.output == Output::Discard => None,
            None => Some(Mode::Moved),
        };
        // A rank that is a process passes here too, and must not touch the files.
        let mut files = if onchip::caller() { self.create_files()? } else { Files::default() };
        let (report, trace) = match mode {
            Some(mode) => self.run_one(&job, mode)?,
            None => (self.run_all(job)?, Trace::default()),
        };
        files.write(&report, &trace)
    }

    fn run_one(&self, job: &Job, mode: Mode) -> Result<(Report, Trace), FarmError> {
        if self.workers.len() > 1 {
            let reason = format!("several numbers of --workers are for --mode all, not {mode}");
            return Err(FarmError::Usage(reason));
        }
        if self.plot.is_some() {
            let reason = format!("--plot draws the results of --mode all, not of {mode}");
            return Err(FarmError::Usage(reason));
        }
        // A launcher's ranks are processes, whatever is asked for.
        let ranks = match self.ranks {
            _ if onchip::launched() => Ranks::Processes,
            ranks => ranks.unwrap_or(Ranks::Threads),
        };
        let helped = Helped::plan(job, mode, ranks)?;
        if helped.is_none() && (self.kts.is_some() || self.force_kts) {
            let reason = format!("{mode} has no communication threads for --kts or --force-kts");
            return Err(FarmError::Usage(reason));
        }
        let inline = helped.as_ref().and_then(Helped::inline).map(|text| format!("{mode}: {text}"));
        let otherwise = helped.as_ref().and_then(Helped::placed_otherwise);
        let remarks: Vec<String> = inline.into_iter().chain(otherwise).collect();
        for remark in remarks.iter().filter(|_| onchip::caller()) {
            eprintln!("video_farm: {remark}");
        }
        let mut run = farm::run(job, mode, ranks)?;
        let mut report = single(job, mode, ranks, &run);
        report.rows[0].kts = helped.as_ref().map_or(0, Helped::threads);
        report.remarks = remarks;
        self.say(&format!(
            "{mode}, {ranks}, {} workers, {}: {} frames of {} in {:.3} s, {:.1} µs a frame",
            job.workers,
            job.schedule,
            run.frames,
            run.size,
            run.seconds,
            run.service_time()
        ))?;
        let recorded = std::mem::take(&mut run.recorded);
        if self.overlap {
            self.say(&recorded.overlap.to_string())?;
        }
        let dropped = recorded.trace.dropped();
        if dropped > 0 {
            self.say(&format!("the trace is without the last {dropped} spans"))?;
        }
        report.overlap = (job.record != Record::Nothing).then_some(recorded.overlap);
        Ok((report, recorded.trace))
    }

    fn run_all(&self, job: Job) -> Result<Report, FarmError> {
        if !job.input.is_repeatable() {
            let reason = format!(
                "{}: --mode all reads the input once for every mode, and this one can be read only \
                 once: choose one mode",
                job.input
            );
            return Err(FarmError::Usage(reason));
        }
        if self.trace.is_some() || self.overlap {
            let reason = "--trace and --overlap show one run: choose one mode";
            return Err(FarmError::Usage(reason.to_owned()));
        }
        let mut columns = vec![(Mode::ShMem, Ranks::Threads)];
        for modes in [&Mode::TABLE_I[1..], &Mode::TABLE_II[1..]] {
            for ranks in [Ranks::Threads, Ranks::Processes] {
                if self.ranks.is_none_or(|only| only == ranks) {
                    let modes = modes.iter().filter(|mode| mode.works_with(ranks));
                    columns.extend(modes.map(|&mode| (mode, ranks)));
                }
            }
        }
        let mut workers = self.workers.clone();
        if workers.is_empty() {
            workers = default_workers(cores());
        }
        if job.output != Output::Discard {
            let ranks = self.ranks.unwrap_or(Ranks::Processes);
            let mode = Mode::Moved;
            run_once(&Job { workers: workers[0], ..job.clone() }, mode, ranks)?;
        }
        let plan = Plan {
            job: Job { frames: self.frames.or(Some(300)), ..job },
            columns,
            workers,
            preload: self.preload,
            rounds: self.rounds,
        };
        let progress = if self.quiet || !onchip::caller() {
            ProgressBar::hidden()
        } else {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left");
            ProgressBar::new(plan.passes() as u64)
                .with_finish(ProgressFinish::AndClear)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        };
        let report = plan.run(|| progress.inc(1))?;
        drop(progress);
        self.say(&format!(
            "Gray filter on {} frames ({}), {} a pass, preloaded, {}, degree {}, {} cores; \
             median of {} rounds\n\n{}",
            report.size,
            report.input,
            report.frames,
            report.schedule,
            report.degree,
            report.cores,
            report.rounds,
            table::tables(&report)
        ))?;
        Ok(report)
    }

    /// Prints for people: to standard error when standard output carries frames.
    fn say(&self, text: &str) -> Result<(), FarmError> {
        if !onchip::caller() {
            return Ok(());
        }
        let written = match &self.output {
            Some(path) if path.as_os_str() == "-" => writeln!(io::stderr(), "{text}"),
            _ => writeln!(io::stdout(), "{text}"),
        };
        written.map_err(|error| FarmError::Output(StreamError::new("standard output", error)))
    }

    /// Creates the files of results ahead, so that one that cannot be written is known before
    /// the work is done.
    fn create_files(&self) -> Result<Files, FarmError> {
        let create = |path: &Option<PathBuf>| {
            path.as_deref().map(PartialFile::create).transpose().map_err(FarmError::Output)
        };
        Ok(Files {
            json: create(&self.json)?,
            plot: create(&self.plot)?,
            trace: create(&self.trace)?,
        })
    }
}

#[derive(Default)]
struct Files {
    json: Option<PartialFile>,
    plot: Option<PartialFile>,
    trace: Option<PartialFile>,
}

impl Files {
    fn write(&mut self, report: &Report, trace: &Trace) -> Result<(), FarmError> {
        let text = |error: &dyn std::fmt::Display| FarmError::Usage(error.to_string());
        if let Some(mut file) = self.json.take() {
            let json = serde_json::to_string_pretty(report).map_err(|error| text(&error))?;
            file.write(None, json.as_bytes())
                .and_then(|()| file.write(None, b"\n"))
                .and_then(|()| file.finish())
                .map_err(FarmError::Output)?;
        }
        if let Some(mut file) = self.trace.take() {
            let mut json = Vec::new();
            trace.write_chrome(&mut json).map_err(|error| text(&error))?;
            file.write(None, &json).and_then(|()| file.finish()).map_err(FarmError::Output)?;
        }
        if let Some(mut file) = self.plot.take() {
            let svg = plot::svg(report).map_err(|error| text(&error))?;
            file.write(None, svg.as_bytes())
                .and_then(|()| file.finish())
                .map_err(FarmError::Output)?;
        }
        Ok(())
    }
}

/// 1, 2, 4 and so on up to the cores, the cores themselves, and twice as many.
fn default_workers(cores: usize) -> Vec<usize> {
    let mut workers: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|&n| n < cores).collect();
    workers.extend([cores, 2 * cores]);
    workers
}

fn single(job: &Job, mode: Mode, ranks: Ranks, run: &Run) -> Report {
    Report {
        input: job.input.to_string(),
        size: run.size,
        frames: run.frames,
        schedule: job.schedule,
        degree: job.degree,
        cores: cores(),
        vectors: instruction_set().to_owned(),
        preloaded: false,
        rounds: 1,
        rows: vec![Row {
            mode,
            ranks,
            workers: job.workers,
            service_time_us: Spread::of(&[run.service_time()]),
            scalability: (job.workers == 1).then_some(1.0),
            beside_sh_mem: (mode == Mode::ShMem).then_some(1.0),
            kts: 0,
            gain_of_kts: None,
        }],
        remarks: Vec::new(),
        overlap: None,
    }
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
    fn default_numbers_of_workers() {
        assert_eq!(default_workers(1), [1, 2]);
        assert_eq!(default_workers(2), [1, 2, 4]);
        assert_eq!(default_workers(6), [1, 2, 4, 6, 12]);
        assert_eq!(default_workers(8), [1, 2, 4, 8, 16]);
    }
}
