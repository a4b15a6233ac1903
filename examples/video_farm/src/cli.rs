//! The command line.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use example_support::files::ResultFile;
use example_support::options::{OneOrAll, choices, cores, number, numbers_of_workers, one_or_all};
use example_support::{Error, Result, say};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use onchip::trace::Trace;

use crate::farm::{self, Helped, Job, Mode, Ranks, Record, Schedule};
use crate::frame::Size;
use crate::input::Input;
use crate::measure::{Plan, run_once};
use crate::output::Output;
use crate::plot;
use crate::report::{Report, Row};

const ALL: &str = "Measure every mode, and print the service times beside each other";

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
    #[arg(short, long, value_parser = one_or_all(choices::<Mode>(), ALL))]
    pub mode: Option<OneOrAll<Mode>>,

    /// What emitter, workers and collector are [default: threads; both for --mode all]
    #[arg(short, long, value_enum)]
    pub ranks: Option<Ranks>,

    /// How many workers [default: one a core, at least 2]; for --mode all several numbers, like
    /// 1,2,4 [default: up to twice the cores]
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = number::<1, 512>)]
    pub workers: Vec<usize>,

    /// How many frames at most [default: all there are, 300 of the built-in clip]; for --mode all
    /// how many to send in every pass [default: 300]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub frames: Option<u64>,

    /// To which worker the next frame goes
    #[arg(short, long, value_enum, default_value_t = Schedule::RoundRobin)]
    pub schedule: Schedule,

    /// How many frames a channel holds without blocking its sender
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = number::<0, 1024>)]
    pub degree: usize,

    /// For --mode all: how often to measure every mode
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<1, 1_000_000>)]
    pub rounds: usize,

    /// For --mode all: how many different frames to hold in memory
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = number::<1, 1_000_000>)]
    pub preload: usize,

    /// How many communication threads: those of the emitter for kt-specialized [default: one for 12
    /// workers], at most so many for kt-generalized [default: one a core]
    #[arg(long, value_name = "N", value_parser = number::<1, 512>)]
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

impl Options {
    /// Does what the options ask for.
    ///
    /// # Errors
    /// Options that do not go together, and whatever keeps the farm from finishing.
    pub fn run(&self) -> Result<()> {
        let job = self.job()?;
        let mode = match self.mode {
            Some(OneOrAll::One(mode)) => Some(mode),
            Some(OneOrAll::All) => None,
            None if job.output == Output::Discard => None,
            None => Some(Mode::Moved),
        };
        let [json, plot] = [ResultFile::create(&self.json)?, ResultFile::create(&self.plot)?];
        let trace_file = ResultFile::create(&self.trace)?;
        let (report, trace) = match mode {
            Some(mode) => self.run_one(&job, mode)?,
            None => (self.run_all(job)?, Trace::default()),
        };
        json.write_json(&report)?;
        trace_file.write_trace(&trace)?;
        plot.write(|file| {
            let svg = plot::svg(&report).map_err(io::Error::other)?;
            file.write_all(svg.as_bytes())
        })
    }

    fn job(&self) -> Result<Job> {
        let input = Input::new(self.input.as_deref(), self.size)?;
        let clip_frames = matches!(input, Input::Clip(_)).then_some(300);
        let output = Output::new(self.output.as_deref())?;
        let workers = self.workers.first().copied().unwrap_or_else(|| cores().max(2));
        Ok(Job {
            frames: self.frames.or(clip_frames),
            schedule: self.schedule,
            degree: self.degree,
            kts: self.kts,
            force_kts: self.force_kts,
            record: match (&self.trace, self.overlap) {
                (Some(_), _) => Record::Trace,
                (None, true) => Record::Overlap,
                (None, false) => Record::Nothing,
            },
            progress: !self.quiet,
            ..Job::new(input, output, workers)
        })
    }

    fn run_one(&self, job: &Job, mode: Mode) -> Result<(Report, Trace)> {
        if self.workers.len() > 1 {
            let reason = format!("several numbers of --workers are for --mode all, not {mode}");
            return Err(Error::new(reason));
        }
        if self.plot.is_some() {
            let reason = format!("--plot draws the results of --mode all, not of {mode}");
            return Err(Error::new(reason));
        }
        // A launcher's ranks are processes, whatever the options say.
        let ranks = match self.ranks {
            _ if onchip::launched() => Ranks::Processes,
            ranks => ranks.unwrap_or(Ranks::Threads),
        };
        let helped = Helped::plan(job, mode, ranks)?;
        if helped.is_none() && (self.kts.is_some() || self.force_kts) {
            let reason = format!("{mode} has no communication threads for --kts or --force-kts");
            return Err(Error::new(reason));
        }
        let inline = helped.as_ref().and_then(Helped::inline).map(|text| format!("{mode}: {text}"));
        let otherwise = helped.as_ref().and_then(Helped::placed_otherwise);
        let remarks: Vec<String> = inline.into_iter().chain(otherwise).collect();
        for remark in remarks.iter().filter(|_| onchip::caller()) {
            eprintln!("video_farm: {remark}");
        }
        let run = farm::run(job, mode, ranks)?;
        self.say(format_args!(
            "{mode}, {ranks}, {} workers, {}: {} frames of {} in {:.3} s, {:.1} µs a frame",
            job.workers,
            job.schedule,
            run.frames,
            run.size,
            run.seconds,
            run.service_time()
        ))?;
        let row = Row {
            scalability: (job.workers == 1).then_some(1.0),
            beside_sh_mem: (mode == Mode::ShMem).then_some(1.0),
            kts: helped.as_ref().map_or(0, Helped::threads),
            ..Row::new(mode, ranks, job.workers, &[run.service_time()])
        };
        let (trace, overlap) = (run.recorded.trace, run.recorded.overlap);
        if self.overlap {
            self.say(&overlap)?;
        }
        if trace.dropped() > 0 {
            self.say(format_args!("the trace is without the last {} spans", trace.dropped()))?;
        }
        let overlap = (job.record != Record::Nothing).then_some(overlap);
        let report = Report::new(job, run.size, run.frames);
        Ok((Report { rows: vec![row], remarks, overlap, ..report }, trace))
    }

    fn run_all(&self, job: Job) -> Result<Report> {
        if !job.input.is_repeatable() {
            return Err(Error::at(
                &job.input,
                "--mode all reads the input once for every mode, and this one can be read only \
                 once: choose one mode",
            ));
        }
        if self.trace.is_some() || self.overlap {
            return Err(Error::new("--trace and --overlap show one run: choose one mode"));
        }
        let workers = match &self.workers[..] {
            [] => numbers_of_workers(cores()),
            workers => workers.to_vec(),
        };
        if job.output != Output::Discard {
            let ranks = self.ranks.unwrap_or(Ranks::Processes);
            run_once(&Job { workers: workers[0], ..job.clone() }, Mode::Moved, ranks)?;
        }
        let plan = Plan {
            job: Job { frames: self.frames.or(Some(300)), ..job },
            columns: self.columns(),
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
        self.say(format_args!(
            "Gray filter on {} frames ({}), {} a pass, preloaded, {}, degree {}, {} cores; \
             median of {} rounds\n\n{}",
            report.size,
            report.input,
            report.frames,
            report.schedule,
            report.degree,
            report.cores,
            report.rounds,
            report.tables()
        ))?;
        Ok(report)
    }

    /// Returns the modes to measure, each with the kind of its ranks.
    fn columns(&self) -> Vec<(Mode, Ranks)> {
        let mut columns = vec![(Mode::ShMem, Ranks::Threads)];
        for modes in [&Mode::TABLE_I[1..], &Mode::TABLE_II[1..]] {
            for ranks in [Ranks::Threads, Ranks::Processes] {
                if self.ranks.is_none_or(|only| only == ranks) {
                    let modes = modes.iter().filter(|mode| mode.works_with(ranks));
                    columns.extend(modes.map(|&mode| (mode, ranks)));
                }
            }
        }
        columns
    }

    /// Prints for people: to standard error when standard output carries frames.
    fn say(&self, text: impl fmt::Display) -> Result<()> {
        if self.output.as_deref() != Some(Path::new("-")) {
            return say(text);
        }
        if !onchip::caller() {
            return Ok(());
        }
        writeln!(io::stderr(), "{text}").map_err(|error| Error::at("standard error", error))
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
}
