//! `mprun PROGRAM`: from the start of the ranks to an exit status.

use std::{
    ffi::OsString,
    io::{self, PipeReader, Read},
    os::fd::AsFd,
    process::ExitCode,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use onchip::{
    Bind, Cause, Error, RankFailure, WaitPolicy, World,
    launch::{Ending, Launched, Stream},
    topology::Allowance,
};

use super::{
    OWN_FAILURE, USAGE,
    output::Output,
    report,
    signals::Signals,
    text::{self, tame},
};

const TIME_OVER: u8 = 124;
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many ranks to run [default: as many as can run at the same time]
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: Option<usize>,
    /// Where ranks run: auto, none, or a list of CPUs such as 0,2-5
    #[arg(long, value_name = "HOW", default_value = "none")]
    bind: Bind,
    /// End the ranks after so many seconds, with a report of who waits for whom
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// How long ranks may go on after one has failed, before they are sent SIGTERM; and how long
    /// after that, before they are sent SIGKILL
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    grace: Duration,
    /// Put the rank's number before each line of output and errors
    #[arg(long)]
    tag_output: bool,
    /// How blocked calls wait: spin, adaptive or park [default: as the program says]
    #[arg(long, value_name = "POLICY")]
    wait: Option<WaitPolicy>,
    /// The most memory that the ranks can share, such as 512M or 4G [default: the machine's]; what is
    /// not used costs nothing
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    segment_size: Option<u64>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

/// A size; M is 2^20, and G is 2^30.
fn bytes(text: &str) -> Result<u64, String> {
    let sizes = parse_size::Config::new().with_binary();
    sizes.parse_size(text).map_err(|error| format!("{error}: give a size such as 512M or 4G"))
}

/// How far the ending of the ranks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// A rank has failed: the others may end by themselves until then.
    Grace(Instant),
    /// They were sent SIGTERM, and have until then.
    Terminated(Instant),
    Killed,
}

/// Runs the program, and says with which status `mprun` is to end.
pub fn run(args: &Args) -> ExitCode {
    let started =
        Signals::take().map_err(Error::from).and_then(|signals| Ok((signals, start(args)?)));
    let (signals, (ranks, output, news)) = match started {
        Ok(started) => started,
        Err(error) => {
            eprintln!("mprun: {error}");
            return ExitCode::from(status_of(&error));
        }
    };
    let mut run = Run {
        args,
        deadline: args.timeout.and_then(|limit| Instant::now().checked_add(limit)),
        signals,
        ranks,
        output,
        news,
        stage: Stage::Running,
        timed_out: false,
        announced: None,
        ended_by_us: Vec::new(),
    };
    let status = run.finish().unwrap_or_else(|error| {
        run.output.say(&error.to_string());
        OWN_FAILURE
    });
    let Run { signals, ranks, output, news, .. } = run;
    // After an error of our own they may still run.
    drop(ranks);
    drop(news);
    // From here on a signal ends this process, be it in the middle of a write that blocks.
    let _ = signals.give_back();
    output.finish();
    ExitCode::from(status)
}

fn start(args: &Args) -> Result<(Launched, Output, PipeReader), Error> {
    let ranks = match args.ranks {
        Some(ranks) => ranks,
        None => Allowance::read()?.parallelism(),
    };
    let mut world = World::processes(ranks).bind(args.bind.clone()).args(&args.command[1..]);
    if let Some(policy) = args.wait {
        world = world.wait(policy);
    }
    if let Some(bytes) = args.segment_size {
        world = world.segment_size(bytes);
    }
    let (output, news) = Output::start(ranks, args.tag_output)?;
    Ok((world.launch(&args.command[0], args.tag_output)?, output, news))
}

/// The exit status for a world that could not be started.
fn status_of(error: &Error) -> u8 {
    match error {
        Error::Os { call: "starting the program", source } => match source.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_STARTED,
        },
        Error::BadWorld(_) | Error::Topology(_) => USAGE,
        _ => OWN_FAILURE,
    }
}

struct Run<'a> {
    args: &'a Args,
    deadline: Option<Instant>,
    signals: Signals,
    ranks: Launched,
    output: Output,
    /// See [`Output::start`].
    news: PipeReader,
    stage: Stage,
    timed_out: bool,
    /// The rank that was named as the one that failed.
    announced: Option<usize>,
    /// Ranks that did not end by themselves.
    ended_by_us: Vec<usize>,
}

impl Run<'_> {
    fn finish(&mut self) -> Result<u8, Error> {
        while self.ranks.any_running() {
            self.step()?;
            self.announce(false);
            self.pass_time();
        }
        let output = &mut self.output;
        self.ranks.drain(&mut |rank, stream, bytes| output.take(rank, stream, bytes))?;
        self.announce(true);
        self.tell_the_rest();
        Ok(self.status())
    }

    fn step(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let until = match self.stage {
            Stage::Running => self.deadline,
            Stage::Grace(until) | Stage::Terminated(until) => Some(until),
            Stage::Killed => None,
        };
        let timeout = until.map(|until| until.saturating_duration_since(now));
        let room = self.output.has_room();
        let wake = [self.signals.as_fd(), self.news.as_fd()];
        let output = &mut self.output;
        let mut sink = |rank: usize, stream: Stream, bytes: &[u8]| output.take(rank, stream, bytes);
        let seen = self.ranks.step(&wake, timeout, room.then_some(&mut sink))?;
        if seen.woken[1] {
            let _ = self.news.read(&mut [0; 64])?;
            if self.output.closed() {
                // The ranks meet the same closed pipe that they would have without us.
                self.ranks.close_output(Stream::Out);
            }
        }
        if seen.woken[0] {
            self.pass_signals_on()?;
        }
        if matches!(self.stage, Stage::Terminated(_) | Stage::Killed) {
            self.ended_by_us.extend(seen.ended);
        } else if self.stage == Stage::Running && self.ranks.first_failed().is_some() {
            self.stage = Stage::Grace(Instant::now() + self.args.grace);
        }
        Ok(())
    }

    fn pass_signals_on(&mut self) -> Result<(), Error> {
        while let Some((signal, known)) = self.signals.next()? {
            if !known {
                self.ranks.signal(signal as i32);
            }
            if signal == Signal::SIGTSTP {
                let stopped = self.signals.stop()?;
                if let Some(at) = &mut self.deadline {
                    *at += stopped;
                }
                if let Stage::Grace(until) | Stage::Terminated(until) = &mut self.stage {
                    *until += stopped;
                }
            }
        }
        Ok(())
    }

    /// Ends ranks whose time is over.
    fn pass_time(&mut self) {
        let now = Instant::now();
        match self.stage {
            Stage::Running if self.deadline.is_some_and(|at| now >= at) => {
                self.timed_out = true;
                let limit = self.args.timeout.unwrap_or_default();
                self.output.say(&format!("the time limit of {} is over", text::time(limit)));
                if let Ok(world) = self.ranks.report() {
                    for line in report::describe(&world).lines() {
                        self.output.say(line);
                    }
                }
                self.terminate();
            }
            Stage::Grace(until) if now >= until => {
                self.announce(true);
                self.terminate();
            }
            Stage::Terminated(until) if now >= until => {
                self.ranks.signal(Signal::SIGKILL as i32);
                self.stage = Stage::Killed;
            }
            _ => {}
        }
    }

    fn terminate(&mut self) {
        self.ranks.signal(Signal::SIGTERM as i32);
        // One that is stopped would not hear it.
        self.ranks.signal(Signal::SIGCONT as i32);
        self.stage = Stage::Terminated(Instant::now() + self.args.grace);
    }

    /// Says which rank failed and how. `now` says not to wait until that one has ended.
    fn announce(&mut self, now: bool) {
        if self.announced.is_some() || self.timed_out {
            return;
        }
        let Some(first) = self.ranks.first_failed() else { return };
        let itself = || {
            let cause = self.ranks.ending(first).filter(|_| now)?.into();
            Some(RankFailure { rank: first, cause })
        };
        if let Some(failure) = self.ranks.failure().or_else(itself) {
            self.announced = Some(failure.rank);
            let message = self.spelled(&failure);
            self.output.say(&message);
        }
    }

    fn spelled(&self, failure: &RankFailure) -> String {
        let rank = failure.rank;
        let entered = if self.ranks.entered(rank) { "" } else { ", before it entered the world" };
        let status = match self.ranks.ending(rank) {
            Some(Ending::Exited(status)) => format!(" (exit status {status})"),
            _ => String::new(),
        };
        match &failure.cause {
            Cause::Exit(101) => format!("rank {rank} panicked (exit status 101){entered}"),
            Cause::Exit(status) => format!("rank {rank} ended with exit status {status}{entered}"),
            Cause::Error(error) => format!("rank {rank} failed{status}: {}", tame(error)),
            Cause::Panic(message) => format!("rank {rank} panicked{status}: {}", tame(message)),
            _ => format!("{failure}{entered}"),
        }
    }

    fn tell_the_rest(&mut self) {
        if !self.ended_by_us.is_empty() {
            self.ended_by_us.sort_unstable();
            let ranks = text::ranks(&self.ended_by_us);
            self.output.say(&format!("ended {ranks}"));
        }
        let strangers: Vec<usize> = (0..self.ranks.size())
            .filter(|&rank| {
                !self.ranks.entered(rank) && self.ranks.ending(rank) == Some(Ending::Exited(0))
            })
            .collect();
        if !strangers.is_empty() {
            let ranks = text::ranks(&strangers);
            self.output.say(&format!(
                "warning: {ranks} ended without entering the world: is {} linked with onchip, and \
                 does it call World::run?",
                tame(&self.args.command[0].to_string_lossy())
            ));
        }
    }

    fn status(&self) -> u8 {
        if self.timed_out {
            return TIME_OVER;
        }
        let Some(rank) = self.announced else { return 0 };
        match self.ranks.ending(rank) {
            Some(Ending::Exited(status)) => status as u8,
            Some(Ending::Killed(signal)) => 128u8.saturating_add(signal as u8),
            _ => OWN_FAILURE,
        }
    }
}
