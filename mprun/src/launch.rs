//! `mprun PROGRAM`: launches ranks, and watches them until there is an exit status.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    os::fd::AsFd,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use onchip::{
    Bind, Cause, Error, ErrorKind, RankFailure, WaitPolicy, World,
    launch::{self, Ending, Launched},
    topology::Allowance,
};

use super::{
    between::{self, Between, Place},
    output::Output,
    record::{End, Record},
    report,
    shown::{OWN_FAILURE, USAGE},
    signals::Signals,
    text::{self, tame},
};

const ENDED_EARLY: u8 = 1;
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
    /// after SIGTERM, be it mprun's or one passed on, before they are sent SIGKILL
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
    /// How many more ranks the program may start, such as by MPI_Comm_spawn [default: as many as a world can have, which
    /// is 1024 in all]
    #[arg(long, value_name = "N")]
    spare: Option<usize>,
    /// Join the ranks that this mprun launches with those of others, which run on other nodes: `mpiexec -n NODES mprun
    /// --nodes -n N PROGRAM`, or under Slurm `srun --ntasks-per-node=1 mprun --nodes -n N PROGRAM`. Each may have another N.
    /// The variable ONCHIP_MPI names the MPI library that connects them, which must be that of mpiexec
    #[arg(long, conflicts_with_all = ["spare", "trace"])]
    nodes: bool,
    /// Draw which call of MPI each rank was in, and when: a picture if FILE ends in .svg, or else a trace for `mprun
    /// trace-svg` and viewers of Chrome's format, which also show for each call with whom it communicated and how much.
    /// Ranks that crash are drawn up to there. This needs a program for MPI
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// The longest time that can be asked for, in seconds: 31 years.
const LONGEST: f64 = 1e9;

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=LONGEST).contains(&number) {
        return Err(format!("not from 0 to {LONGEST} seconds"));
    }
    Ok(Duration::from_secs_f64(number))
}

/// Parses a size; M is 2^20, and G is 2^30.
fn bytes(text: &str) -> Result<u64, String> {
    let sizes = parse_size::Config::new().with_binary();
    sizes.parse_size(text).map_err(|error| format!("{error}: give a size such as 512M or 4G"))
}

/// How far `mprun` has got in ending the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// A rank's code has failed in this call of `run`. Until then, the other ranks may come to the end of the call, and
    /// the program may go on.
    Failing(Instant, u32),
    /// A rank has failed. Until then, the others may end by themselves.
    Grace(Instant),
    /// A SIGTERM was passed on to all ranks. They have until then to end.
    Asked(Instant),
    /// All ranks were sent SIGTERM, except those that end by themselves: see [`Run::end`]. They have until then to end.
    Terminated(Instant),
    /// All ranks were sent SIGKILL, except those that end by themselves. These learn of the ends of the others, and have
    /// until then to end.
    Alone(Instant),
    Killed,
}

impl Stage {
    fn until(&mut self) -> Option<&mut Instant> {
        match self {
            Self::Failing(until, _)
            | Self::Grace(until)
            | Self::Asked(until)
            | Self::Terminated(until)
            | Self::Alone(until) => Some(until),
            Self::Running | Self::Killed => None,
        }
    }

    /// Returns whether ranks that end now do so because `mprun` wants them to.
    fn is_by_us(self) -> bool {
        matches!(self, Self::Terminated(_) | Self::Alone(_) | Self::Killed)
    }
}

/// Runs the program, and returns the status with which `mprun` is to end.
pub fn run(args: &Args) -> ExitCode {
    let record = match args.trace.as_deref().map(Record::begin).transpose() {
        Ok(record) => record,
        Err(error) => {
            eprintln!("mprun: {error}");
            return ExitCode::from(OWN_FAILURE);
        }
    };
    let started = launch::see_children()
        .and_then(|()| Signals::take().map_err(Error::from))
        .map_err(NotStarted::from)
        .and_then(|signals| Ok((signals, start(args, record.as_ref())?)));
    let (signals, Started { ranks, output, between }) = match started {
        Ok(started) => started,
        Err(not_started) => return ExitCode::from(not_started.tell()),
    };
    let mut run = Run {
        args,
        record,
        deadline: args.timeout.and_then(|limit| Instant::now().checked_add(limit)),
        signals,
        began: ranks.size(),
        ranks,
        between: between.as_ref(),
        is_over: false,
        output,
        stage: Stage::Running,
        timed_out: false,
        announced: None,
        ended_by_us: BTreeSet::new(),
    };
    let watched = run.watch();
    if watched.is_err() {
        run.ranks.signal(Signal::SIGKILL as i32);
    }
    // Then this node has heard all that other nodes say of their ranks. If the watch has failed, this `mprun` ends without
    // the others, and `mpiexec` ends them.
    let is_watched = watched.is_ok();
    let served = between.as_ref().filter(|_| is_watched).map(Between::finish);
    // From here on a signal ends this process, even in the middle of a write that blocks.
    let _ = run.signals.give_back();
    // The message of `mprun` about the end comes after the output of the ranks, if a reader takes that output.
    run.output.settle(args.grace);
    let mut status = match &watched {
        Ok(()) => {
            run.announce(true);
            run.tell_the_rest();
            let status = run.status();
            if run.finish() || status != 0 { status } else { OWN_FAILURE }
        }
        Err(error) => {
            run.output.say(&error.to_string());
            OWN_FAILURE
        }
    };
    let Run { ranks, output, .. } = run;
    drop(ranks);
    if let Some(Err(failed)) = served {
        output.say(&failed.to_string());
        status = status.max(OWN_FAILURE);
    }
    output.finish();
    if let Some(Err(failed)) = between.filter(|_| is_watched).map(Between::end) {
        eprintln!("mprun: {failed}");
        status = status.max(OWN_FAILURE);
    }
    ExitCode::from(status)
}

/// Ranks that were started.
struct Started {
    ranks: Launched,
    output: Output,
    /// What connects them to other nodes.
    between: Option<Between>,
}

/// Why no ranks were started.
enum NotStarted {
    /// This was told already, and is the status.
    Told(u8),
    Here(Error),
    Between(between::Failed),
}

impl NotStarted {
    /// Tells the user. Returns the exit status.
    fn tell(self) -> u8 {
        match self {
            Self::Told(status) => status,
            Self::Here(error) => {
                eprintln!("mprun: {error}");
                status_of(&error)
            }
            Self::Between(failed) => {
                eprintln!("mprun: {failed}");
                OWN_FAILURE
            }
        }
    }
}

impl From<Error> for NotStarted {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl From<between::Failed> for NotStarted {
    fn from(failed: between::Failed) -> Self {
        Self::Between(failed)
    }
}

fn start(args: &Args, record: Option<&Record>) -> Result<Started, NotStarted> {
    let ranks = match args.ranks {
        Some(ranks) => ranks,
        None => Allowance::read().map_err(Error::from)?.parallelism(),
    };
    let mut command = args.command.clone();
    if let Some(record) = record {
        command.splice(0..0, ["env".into(), record.assignment()]);
    }
    let joined = args.nodes.then(|| Between::join(ranks)).transpose()?;
    let place = joined.as_ref().map(|(_, place)| place);
    let all = place.and_then(|place| place.first.last()).map_or(ranks, |&all| all as usize);
    let mut world = World::processes(all)
        .spare(args.spare.unwrap_or(usize::MAX))
        .bind(args.bind.clone())
        .args(&command[1..]);
    if let Some(policy) = args.wait {
        world = world.wait(policy);
    }
    if let Some(bytes) = args.segment_size {
        world = world.segment_size(bytes);
    }
    let Some((between, Place { node, first, working })) = joined else {
        let mut ranks = world.launch(&command[0], args.tag_output)?;
        let output = Output::start(&mut ranks, args.tag_output, "mprun".to_owned());
        let output = output.map_err(Error::from)?;
        return Ok(Started { ranks, output, between: None });
    };
    let name = if first.len() > 2 { format!("mprun of node {node}") } else { "mprun".to_owned() };
    let started =
        world.among_working(working).launch_node(first, node, &command[0], args.tag_output);
    let started = started.and_then(|mut ranks| {
        let output = Output::start(&mut ranks, args.tag_output, name.clone())?;
        Ok((ranks, output))
    });
    // What has failed is told before the other nodes hear of it, which may end this one.
    let status = match started {
        Ok((ranks, output)) => match between.serve(ranks.bridge()) {
            Ok(()) => return Ok(Started { ranks, output, between: Some(between) }),
            Err(failed) => {
                drop(ranks);
                output.say(&failed.to_string());
                output.finish();
                OWN_FAILURE
            }
        },
        Err(error) => {
            // In one piece, because the launchers of other nodes may write to the same place.
            let line = format!("{name}: {error}\n");
            eprint!("{line}");
            between.give_up();
            status_of(&error)
        }
    };
    let _ = between.end();
    Err(NotStarted::Told(status))
}

/// Returns the exit status for a world that could not be started.
fn status_of(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Os { call: "starting the program", source } => match source.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_STARTED,
        },
        ErrorKind::BadWorld(_) | ErrorKind::Topology(_) => USAGE,
        _ => OWN_FAILURE,
    }
}

/// The signals that end `mprun` when no rank of its node is left.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP];

struct Run<'a> {
    args: &'a Args,
    /// What the ranks record, if they are to record anything.
    record: Option<Record>,
    deadline: Option<Instant>,
    signals: Signals,
    ranks: Launched,
    /// With how many ranks the world began.
    began: usize,
    /// What connects them to other nodes, and whether it does so no longer.
    between: Option<&'a Between>,
    is_over: bool,
    output: Output,
    stage: Stage,
    timed_out: bool,
    /// The rank that was announced as the one that failed.
    announced: Option<usize>,
    /// Ranks that did not end by themselves.
    ended_by_us: BTreeSet<usize>,
}

impl Run<'_> {
    /// Watches the ranks until all of them have ended.
    fn watch(&mut self) -> Result<(), Error> {
        launch::come_soon();
        // Ranks of other nodes are not heard of any more when the service is over.
        while self.ranks.any_running() && (!self.is_over || self.any_here_running()) {
            self.step()?;
            self.announce(false);
            self.pass_time();
        }
        Ok(())
    }

    fn any_here_running(&self) -> bool {
        self.ranks.here().any(|rank| self.ranks.ending(rank).is_none())
    }

    fn step(&mut self) -> Result<(), Error> {
        let mut until = self.stage.until().copied();
        if matches!(self.stage, Stage::Running | Stage::Failing(..)) {
            until = until.into_iter().chain(self.deadline).min();
        }
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let over = self.between.filter(|_| !self.is_over).map(Between::over);
        let wake: Vec<_> = std::iter::once(self.signals.as_fd()).chain(over).collect();
        let woken = self.ranks.step(&wake, timeout)?;
        self.is_over |= woken.get(1) == Some(&true);
        if woken[0] {
            self.pass_signals_on()?;
        }
        if let Some(record) = &mut self.record {
            let ranks = &self.ranks;
            record.note_ends((0..ranks.size()).filter(|&rank| ranks.ending(rank).is_some()));
        }
        self.see_failures();
        Ok(())
    }

    fn see_failures(&mut self) {
        let grace = Instant::now() + self.args.grace;
        let ended_badly = self.ranks.first_failed().is_some();
        self.stage = match (self.stage, self.ranks.failing()) {
            (Stage::Running, _) if ended_badly => Stage::Grace(grace),
            (Stage::Failing(until, _), _) if ended_badly => Stage::Grace(until),
            (Stage::Running, Some((call, _))) => Stage::Failing(grace, call),
            (Stage::Failing(_, old), Some((call, _))) if call != old => Stage::Failing(grace, call),
            // All ranks have come to the end of that call, and the program knows of the failure.
            (Stage::Failing(..), None) => Stage::Running,
            (stage, _) => stage,
        };
    }

    fn pass_signals_on(&mut self) -> Result<(), Error> {
        while let Some((signal, known)) = self.signals.next()? {
            if ENDING.contains(&signal) && !self.any_here_running() {
                // Only ranks of other nodes are left, which `mpiexec` ends with this process.
                self.signals.deliver(signal)?;
            }
            if !known {
                self.ranks.signal(signal as i32);
            }
            if signal == Signal::SIGTERM && !self.stage.is_by_us() {
                self.stage = Stage::Asked(Instant::now() + self.args.grace);
            }
            if signal == Signal::SIGTSTP {
                let stopped = self.signals.stop()?;
                for at in self.deadline.iter_mut().chain(self.stage.until()) {
                    *at += stopped;
                }
            }
        }
        Ok(())
    }

    /// Takes the next step to end the ranks if the time of the current stage is over.
    fn pass_time(&mut self) {
        let now = Instant::now();
        match self.stage {
            Stage::Running | Stage::Failing(..) if self.deadline.is_some_and(|at| now >= at) => {
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
            Stage::Failing(until, _) | Stage::Grace(until) if now >= until => {
                self.announce(true);
                self.terminate();
            }
            Stage::Terminated(until) if now >= until => {
                self.end(&[Signal::SIGKILL], true);
                self.stage = Stage::Alone(now + self.args.grace);
            }
            Stage::Asked(until) | Stage::Alone(until) if now >= until => {
                self.end(&[Signal::SIGKILL], false);
                self.stage = Stage::Killed;
            }
            _ => {}
        }
    }

    fn terminate(&mut self) {
        // A stopped rank would not handle SIGTERM, so it is continued. Both signals go to the same ranks: when the first
        // of these ends, a rank that has waited for it goes on, and must not count as one that was ended.
        self.end(&[Signal::SIGTERM, Signal::SIGCONT], true);
        self.stage = Stage::Terminated(Instant::now() + self.args.grace);
    }

    /// Sends signals to the running ranks. After a failure and with `some_report`, this leaves out the rank that failed,
    /// whose exit status must be its own, and those that wait in a call of `run` for the ends of the others. All of them
    /// end by themselves, and one of them reports the failures.
    fn end(&mut self, signals: &[Signal], some_report: bool) {
        let failed = self.announced.filter(|_| some_report);
        let is_left_out =
            |rank| failed.is_some_and(|failed| rank == failed || self.ranks.awaits_others(rank));
        let running = |&rank: &usize| self.ranks.ending(rank).is_none() && !is_left_out(rank);
        let to_end: Vec<usize> = self.ranks.here().filter(running).collect();
        for rank in to_end {
            for &signal in signals {
                self.ranks.signal_rank(rank, signal as i32);
            }
            self.ended_by_us.insert(rank);
        }
    }

    /// Says which rank failed and how. `now` means not to wait until that rank has ended.
    fn announce(&mut self, now: bool) {
        if self.announced.is_some() || self.timed_out {
            return;
        }
        let in_code = || {
            let (_, rank) = self.ranks.failing().filter(|_| now)?;
            Some(RankFailure { rank, cause: self.ranks.last_words(rank)? })
        };
        let ended = |failure: &RankFailure| now || self.ranks.ending(failure.rank).is_some();
        if let Some(failure) = self.ranks.failure(now).filter(ended).or_else(in_code) {
            self.announced = Some(failure.rank);
            self.output.say(&self.spelled(&failure));
        }
    }

    fn spelled(&self, failure: &RankFailure) -> String {
        let rank = failure.rank;
        let is_here = self.ranks.here().contains(&rank);
        let who = match is_here {
            true => format!("rank {rank}"),
            false => format!("rank {rank} of node {}", self.ranks.node_of(rank)),
        };
        let entered = if self.ranks.entered(rank) { "" } else { ", before it entered the world" };
        let status = match self.ranks.ending(rank) {
            Some(Ending::Exited(status)) => format!(" (exit status {status})"),
            _ => String::new(),
        };
        match &failure.cause {
            Cause::Exit(101) => format!("{who} panicked (exit status 101){entered}"),
            Cause::Exit(0) => {
                format!(
                    "{who} ended with exit status 0 in the middle of World::run, or without MPI_Finalize"
                )
            }
            Cause::Exit(status) => format!("{who} ended with exit status {status}{entered}"),
            Cause::Error(error) => format!("{who} failed{status}: {}", tame(error)),
            Cause::Panic(message) => format!("{who} panicked{status}: {}", tame(message)),
            Cause::Vanished if !is_here => format!("{who} was lost with its node"),
            cause => format!("{who} {cause}{entered}"),
        }
    }

    /// Writes what the ranks have recorded, if they were to record anything. Returns whether that was possible.
    fn finish(&self) -> bool {
        let Some(record) = &self.record else { return true };
        // Ranks that others have started do not know of the record.
        let ends: Vec<End> = (0..self.began).map(|rank| self.end_of(rank)).collect();
        let finished = record.finish(&ends);
        let is_done = finished.is_ok();
        if is_done && self.ranks.size() > self.began {
            let started: Vec<usize> = (self.began..self.ranks.size()).collect();
            let started = text::ranks(&started);
            self.output
                .say(&format!("the trace does not show {started}, which others have started"));
        }
        if let Some(message) = finished.unwrap_or_else(Some) {
            self.output.say(&message);
        }
        is_done
    }

    /// Returns what a trace says of how a rank has ended.
    fn end_of(&self, rank: usize) -> End {
        let (finalize, by_us) = ("MPI_Finalize".to_owned(), self.ended_by_us.contains(&rank));
        let (with, without) = match self.ranks.ending(rank) {
            Some(Ending::Exited(0)) => (finalize, "exit status 0, without MPI_Finalize".to_owned()),
            Some(Ending::Exited(status)) => {
                let without = match self.ranks.last_words(rank) {
                    Some(Cause::Error(error)) => format!("exit status {status}: {}", tame(&error)),
                    _ => format!("exit status {status}, without MPI_Finalize"),
                };
                (format!("{finalize}, then exit status {status}"), without)
            }
            Some(Ending::Killed(signal)) => {
                let by = if by_us { " from mprun" } else { "" };
                let name = Signal::try_from(signal)
                    .map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string());
                let without = format!("killed by {name}{by}");
                (format!("{finalize}, then {without}"), without)
            }
            _ => (finalize, "ended without MPI_Finalize".to_owned()),
        };
        End { rank, with, without }
    }

    fn tell_the_rest(&mut self) {
        if !self.ended_by_us.is_empty() {
            let ranks: Vec<usize> = self.ended_by_us.iter().copied().collect();
            let ranks = text::ranks(&ranks);
            self.output.say(&format!("ended {ranks}"));
        }
        // What the others have started is up to them: their calls have failed.
        let strangers: Vec<usize> = self
            .ranks
            .here()
            .filter(|&rank| {
                rank < self.began
                    && !self.ranks.entered(rank)
                    && self.ranks.ending(rank) == Some(Ending::Exited(0))
            })
            .collect();
        if !strangers.is_empty() {
            let ranks = text::ranks(&strangers);
            self.output.say(&format!(
                "warning: {ranks} ended without entering the world: is {} linked with onchip, and \
                 does it call World::run or MPI_Init?",
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
            // The rank ended with status 0 before its part was done.
            Some(Ending::Exited(0)) => ENDED_EARLY,
            Some(Ending::Exited(status)) => status as u8,
            Some(Ending::Killed(signal)) => 128u8.saturating_add(signal as u8),
            _ => OWN_FAILURE,
        }
    }
}
