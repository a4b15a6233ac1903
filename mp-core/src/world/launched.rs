//! Launching another program as the ranks of a world.

use std::{ffi::OsString, os::fd::BorrowedFd, path::PathBuf, time::Duration};

use super::{
    World,
    launch::{Briefing, Ending, Processes, Program, Seen, Sink, Stream},
    limits,
    report::{self, WorldReport},
};
use crate::{
    error::{RankFailure, Result},
    topology::Allowance,
};

impl World {
    /// Starts `program` once for every rank, in a world of this size: each call of
    /// [`run`](Self::run) in it joins this world, of which the caller itself is no part.
    ///
    /// The program is looked for in `PATH` if its name has no slash, and gets the arguments of
    /// [`args`](Self::args). Its ranks' standard output is heard while they run rank code, rank
    /// 0's always; standard error is the caller's, unless `capture_errors` puts it together by
    /// lines as well. Ranks wait as [`wait`](Self::wait) says, or as their own program and
    /// [`WAIT_VARIABLE`](super::WAIT_VARIABLE) do; they are bound as [`bind`](Self::bind) says.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the program can't be started (of kind
    /// [`NotFound`](std::io::ErrorKind::NotFound) when there is none), and the errors of `run` in
    /// making a world.
    pub fn launch(
        mut self,
        program: impl Into<OsString>,
        capture_errors: bool,
    ) -> Result<Launched> {
        self.kind = super::Kind::Processes;
        let (asked, args) = (self.policy, self.args.take().unwrap_or_default());
        let cores = Allowance::read()?.parallelism();
        let cpus = self.cpus()?;
        let context = self.create(asked.unwrap_or_default(), cores)?;
        let name = program.into();
        let path = PathBuf::from(&name);
        let shown = path.file_name().unwrap_or(&name);
        context.world()?.name.write(&shown.to_string_lossy());
        let briefing = Briefing {
            call: None,
            test: false,
            any_call: false,
            past: Vec::new(),
            policy: asked.map(Into::into),
            cores: cores as u32,
            cpus,
            open_files: limits::make_room_for(context.size())?,
        };
        briefing.post(&context)?;
        let program = Program { path, name, args, capture_errors, first_speaks: true };
        Ok(Launched { processes: Processes::start(context, &program)? })
    }
}

/// A world of processes of another program, seen by who launched it. Dropping it ends the
/// processes that still run.
#[derive(Debug)]
pub struct Launched {
    processes: Processes,
}

impl Launched {
    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.processes.context.size()
    }

    /// Sleeps until output comes, a rank ends, one of `wake` is readable, or `timeout` is over.
    /// Nothing else of a launched world happens outside of this call: ranks that died are known
    /// as dead to the others from then on.
    ///
    /// Output goes to `sink`. Without one it stays in the ranks' pipes, and ranks that write much
    /// have to wait.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os), or [`Error::Segment`](crate::Error::Segment) when a rank
    /// has destroyed the world's memory.
    pub fn step(
        &mut self,
        wake: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
        sink: Option<Sink<'_>>,
    ) -> Result<Seen> {
        self.processes.step(wake, timeout, sink)
    }

    /// Forwards what ended ranks have left in their pipes.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os).
    pub fn drain(&mut self, sink: Sink<'_>) -> Result<()> {
        self.processes.drain(sink)
    }

    /// Listens to no more output of this kind: a rank that writes more gets an error or
    /// `SIGPIPE`.
    pub fn close_output(&mut self, stream: Stream) {
        self.processes.close_output(stream);
    }

    /// Sends a signal, by number, to every rank that still runs.
    pub fn signal(&self, signal: i32) {
        self.processes.signal(signal);
    }

    /// Whether any rank's process still runs.
    pub fn any_running(&self) -> bool {
        self.processes.any_running()
    }

    /// How the rank's process ended, if it has.
    pub fn ending(&self, rank: usize) -> Option<Ending> {
        self.processes.ending(rank)
    }

    /// Whether the rank ever came to a [`World::run`]. One that ended without is probably no
    /// program of this library.
    pub fn entered(&self, rank: usize) -> bool {
        self.processes.entered(rank)
    }

    /// The first rank whose process ended otherwise than with exit status 0.
    pub fn first_failed(&self) -> Option<usize> {
        self.processes.first_failed()
    }

    /// Which rank is to blame for that, and how it failed: the one whose code had failed first,
    /// or else the first failed one itself. `None` while its process still runs, and its last
    /// words are not known.
    pub fn failure(&self) -> Option<RankFailure> {
        self.processes.failure().map(|(rank, cause)| RankFailure { rank, cause })
    }

    /// Who waits for whom in the world, now. Takes a moment when ranks seem to be stuck, to make
    /// sure.
    ///
    /// # Errors
    /// [`Error::Segment`](crate::Error::Segment) when the world's memory makes no sense.
    pub fn report(&self) -> Result<WorldReport> {
        Ok(report::of(&self.processes.context)?)
    }
}
