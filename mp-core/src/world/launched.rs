//! Launching another program as the ranks of a world.

use std::{
    ffi::OsString, ops::Range, os::fd::BorrowedFd, path::PathBuf, sync::Arc, time::Duration,
};

use super::{
    Bridge, World,
    launch::{Briefing, Ending, Program, Stream},
    limits,
    pump::{self, RanksOutput},
    renewal,
    report::{self, WorldReport},
    watch::Processes,
};
use crate::{
    error::{Cause, RankFailure, Result},
    topology::Allowance,
};

impl World {
    /// Starts `program` once for every rank, in a world of this size. Each call of [`run`](Self::run) or
    /// [`join`](Self::join) in the program enters this world. The caller itself is not part of it.
    ///
    /// The program is looked for in `PATH` if its name has no slash, and gets the arguments of [`args`](Self::args).
    /// The standard output of the ranks is captured: take it by [`Launched::take_output`]. A program with this library
    /// discards what it prints outside of rank code in all ranks but rank 0. Standard error is the caller's, unless `capture_errors` assembles it line by line as
    /// well. Ranks wait as [`wait`](Self::wait) says, or as their own program and
    /// [`WAIT_VARIABLE`](super::WAIT_VARIABLE) say. They are bound as [`bind`](Self::bind) says.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) when the program can't be started (of kind
    /// [`NotFound`](std::io::ErrorKind::NotFound) when there is none), and the errors of `run` in
    /// making a world.
    pub fn launch(self, program: impl Into<OsString>, capture_errors: bool) -> Result<Launched> {
        self.launch_among(None, program.into(), capture_errors)
    }

    /// Starts `program` like [`launch`](Self::launch), as the ranks of one node of this world. `nodes` has the first rank
    /// of each node, and at the end the number of all ranks. The caller has to serve what stands in for the ranks of the
    /// other nodes: see [`Launched::bridge`]. No further ranks can be started.
    ///
    /// # Errors
    /// [`BadWorld`](crate::ErrorKind::BadWorld) if it is no world with these ranks; the errors of `launch`.
    #[doc(hidden)]
    pub fn launch_node(
        self,
        nodes: Arc<[u32]>,
        node: usize,
        program: impl Into<OsString>,
        capture_errors: bool,
    ) -> Result<Launched> {
        self.spare(0).launch_among(Some((nodes, node)), program.into(), capture_errors)
    }

    fn launch_among(
        mut self,
        nodes: Option<(Arc<[u32]>, usize)>,
        name: OsString,
        capture_errors: bool,
    ) -> Result<Launched> {
        self.kind = super::Kind::Processes;
        let (asked, args) = (self.policy, self.args.take().unwrap_or_default());
        let cores = match &nodes {
            // What carries messages to other nodes needs one, too.
            Some(_) => self.cores_of_node()?.saturating_sub(1),
            None => Allowance::read()?.parallelism(),
        };
        let mut context = self.create(asked.unwrap_or_default(), cores)?;
        let table = nodes.as_ref().map(|(nodes, _)| nodes.to_vec());
        if let Some((nodes, node)) = nodes {
            self.check_nodes(&nodes, node)?;
            context.divide(nodes, node)?;
            renewal::await_elsewhere(&context)?;
        }
        let cpus = self.seat(&context)?;
        let path = PathBuf::from(&name);
        let shown = path.file_name().unwrap_or(&name);
        context.world()?.name.write(&shown.to_string_lossy());
        let briefing = Briefing {
            call: None,
            test: false,
            any_call: false,
            past: Vec::new(),
            input: Vec::new(),
            policy: asked.map(Into::into),
            cores: cores as u32,
            cpus,
            nodes: table,
            open_files: limits::make_room_for(context.here().len())?,
        };
        briefing.post(&context)?;
        let program = Program { path, name, args, folder: None, capture_errors, any_program: true };
        let (to_out, out) = pump::output();
        let (to_err, err) = pump::output();
        let processes = Processes::start(context, program, to_out, to_err, None)?;
        Ok(Launched { processes, output: [Some(out), Some(err).filter(|_| capture_errors)] })
    }
}

/// A world of processes of another program, as its launcher sees it. Dropping it ends the processes that still run, and
/// leaves nothing of the world in the caller's process except [taken output](Self::take_output) that has not been read
/// yet.
///
/// A separate thread watches the ranks: the other ranks learn of a death at once, whatever the owner of this value
/// does.
#[derive(Debug)]
pub struct Launched {
    processes: Processes,
    output: [Option<RanksOutput>; 2],
}

impl Launched {
    /// Returns the number of ranks that were started, those included that ranks have started or that are on other nodes.
    pub fn size(&self) -> usize {
        self.processes.context.begun() as usize
    }

    /// Returns the ranks that this launcher has started. The others are on other nodes.
    pub fn here(&self) -> Range<usize> {
        self.processes.here()
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: usize) -> usize {
        self.processes.context.node_of(rank as u32)
    }

    /// Returns what stands in for the ranks of other nodes. When it is dropped, those that have not ended are lost.
    #[doc(hidden)]
    pub fn bridge(&self) -> Bridge {
        Bridge::new(Arc::clone(&self.processes.context), Some(self.processes.shared()))
    }

    /// Returns the ranks' output, for the thread that is to write it. Returns it only once, and returns standard error
    /// only if it is captured.
    pub fn take_output(&mut self, stream: Stream) -> Option<RanksOutput> {
        self.output[stream as usize].take()
    }

    /// Sleeps until a rank ends, or its code fails, or one of `wake` is readable, or `timeout` has expired. Returns for
    /// each of `wake` whether it is readable.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os), or [`Segment`](crate::ErrorKind::Segment) when a rank has destroyed the world's
    /// memory. In the second case, all ranks have been ended.
    pub fn step(
        &mut self,
        wake: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Vec<bool>> {
        self.processes.step(wake, timeout)
    }

    /// Sends a signal, by number, to every rank that still runs, except to one whose core is being written.
    pub fn signal(&self, signal: i32) {
        self.here().for_each(|rank| self.signal_rank(rank, signal));
    }

    /// Sends a signal, by number, to a rank if it still runs.
    pub fn signal_rank(&self, rank: usize, signal: i32) {
        self.processes.signal(rank, signal);
    }

    /// Returns whether any rank's process still runs, on whatever node.
    pub fn any_running(&self) -> bool {
        self.processes.any_running()
    }

    /// Returns how the rank's process ended, if it has ended.
    pub fn ending(&self, rank: usize) -> Option<Ending> {
        self.processes.ending(rank)
    }

    /// Returns whether the rank ever reached a [`World::run`]. A rank that ended without reaching one is probably not a
    /// program of this library.
    pub fn entered(&self, rank: usize) -> bool {
        self.processes.entered(rank)
    }

    /// Returns the number of a call of [`World::run`] that is not over, and the rank whose code failed first in it. The
    /// call is not over because other ranks have not reached its end; as long as they have not, no rank is told of the
    /// failure.
    pub fn failing(&self) -> Option<(u32, usize)> {
        self.processes.failing()
    }

    /// Returns whether the rank's code has ended in a call of [`World::run`] that is not over. Such a rank waits for the
    /// ends of the others.
    pub fn awaits_others(&self, rank: usize) -> bool {
        self.processes.awaits_others(rank)
    }

    /// Returns the failure of the rank's code, if it has failed.
    pub fn last_words(&self, rank: usize) -> Option<Cause> {
        self.processes.last_words(rank)
    }

    /// Returns the first rank whose process ended in another way than with exit status 0, or before its code had ended.
    pub fn first_failed(&self) -> Option<usize> {
        self.processes.first_failed()
    }

    /// Returns which rank caused the first failure, and how it failed: the rank whose code had failed first, or else
    /// the first failed rank itself. Returns `None` while that rank's process still runs, unless `now` is true.
    pub fn failure(&self, now: bool) -> Option<RankFailure> {
        self.processes.failure(now).map(|(rank, cause)| RankFailure { rank, cause })
    }

    /// Reports which rank waits for which in the world, now. When ranks seem to be stuck, it takes a moment to make
    /// sure.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is inconsistent.
    pub fn report(&self) -> Result<WorldReport> {
        Ok(report::of(&self.processes.context)?)
    }
}
