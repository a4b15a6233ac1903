//! A process that was started as a rank: finding out, entering the world, being the rank.

use std::{
    io::Write,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering as StdOrdering},
    },
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::{prctl, signal::Signal},
    unistd::{Pid, dup2_stdout, getppid},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    at_end, burial,
    launch::{Briefing, OUTPUT_FD, SEGMENT_FD, VARIABLE},
    outcome,
    rank::Rank,
    site::Call,
};
use crate::{
    context::{Context, RankState},
    error::{Cause, Error, Result},
    segment::{Segment, SegmentError},
    sync::Ordering,
    topology::{pin_current_thread, start_in_blocks},
    wait::{Asymmetry, Doing, LineWait, Operation, Wait, WaitPolicy, Waiting},
};

/// What this process was started for.
#[derive(Debug)]
pub(crate) struct Assignment {
    rank: u32,
    segment: Arc<Segment>,
    briefing: Briefing,
    /// Where the rank's standard output really goes.
    output: OwnedFd,
    launcher: Pid,
    /// A rank's code runs: worlds made in it are its own affair.
    inside: AtomicBool,
    /// Calls of `run` that this process has left, in a launched world.
    rounds: AtomicU32,
}

/// This process's assignment, if it was started as a rank.
pub(crate) fn assignment() -> Result<Option<&'static Assignment>> {
    static ASSIGNMENT: OnceLock<std::result::Result<Option<Assignment>, String>> = OnceLock::new();
    ASSIGNMENT
        .get_or_init(|| find().map_err(|error| error.to_string()))
        .as_ref()
        .map(Option::as_ref)
        .map_err(|error| Error::BadWorld(format!("this process can't enter its world: {error}")))
}

fn find() -> Result<Option<Assignment>> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let malformed = || Error::BadWorld(format!("{VARIABLE} has the value {}", text.display()));
    let (rank, launcher) =
        text.to_str().and_then(|text| text.split_once(':')).ok_or_else(malformed)?;
    let rank: u32 = rank.parse().map_err(|_| malformed())?;
    let launcher = Pid::from_raw(launcher.parse().map_err(|_| malformed())?);
    let orphan = getppid() != launcher;
    if orphan && nix::sys::signal::kill(launcher, None).is_ok() {
        // A descendant of a rank that inherited the variable, but not the assignment.
        return Ok(None);
    }
    if orphan {
        return Err(Error::BadWorld("its launcher is gone".to_owned()));
    }
    let take = |fd| -> Result<OwnedFd> {
        // SAFETY: the launcher opened the descriptor for this process; `fcntl` fails on a number
        // that is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(Error::os("fcntl"))?;
        // SAFETY: open, and taken once: `find` runs once.
        Ok(unsafe { OwnedFd::from_raw_fd(borrowed.as_raw_fd()) })
    };
    let segment = Segment::attach(take(SEGMENT_FD)?, true, super::parts())?;
    let briefing = Briefing::read(&segment)?;
    let output = take(OUTPUT_FD)?;
    let inside = AtomicBool::new(false);
    let segment = Arc::new(segment);
    let rounds = AtomicU32::new(0);
    Ok(Some(Assignment { rank, segment, briefing, output, launcher, inside, rounds }))
}

/// What a call of `run` means in this process.
pub(crate) enum Part {
    /// A world of this process's own.
    Own,
    /// The rank's code is to be run, and the process to end with it.
    Rank,
    /// The rank's code is to be run, and the program to go on with all ranks' results.
    Member,
    /// An earlier call: here is what it returned to the caller.
    Replayed(Vec<u8>),
}

impl Assignment {
    /// Whether this process's calls return to the user: rank 0's do, under a launcher.
    pub(crate) fn speaks(&self) -> bool {
        self.is_launched() && self.rank == 0
    }

    /// Whether a launcher started it, not a call of `run`.
    pub(crate) fn is_launched(&self) -> bool {
        self.briefing.call.is_none()
    }

    pub(crate) fn part(&self, call: &Call, processes: bool) -> Result<Part> {
        if self.inside.load(StdOrdering::Relaxed) {
            return if processes {
                Err(Error::BadWorld("a rank's code can't make a world of processes".to_owned()))
            } else {
                Ok(Part::Own)
            };
        }
        let Some(meant) = &self.briefing.call else { return Ok(Part::Member) };
        if meant.site == call.site && (self.briefing.any_call || meant.nth == call.nth) {
            return Ok(Part::Rank);
        }
        if let Some(past) = self.briefing.past.iter().find(|past| past.call == *call) {
            return Ok(Part::Replayed(past.result.clone()));
        }
        if !processes {
            return Ok(Part::Own);
        }
        Err(Error::BadWorld(format!(
            "rank {} took another path than the program that started it: it came to the world at \
             {} instead of the one at {}",
            self.rank, call.site, meant.site
        )))
    }

    /// Whether this rank's core dump holds the world's memory.
    pub(crate) fn dump_segment(&self, dump: bool) {
        self.segment.dump(dump);
    }

    /// Has this rank take no more of the launched world's memory than the program asks for.
    pub(crate) fn confine_segment(&self, asked: Option<u64>) -> Result<()> {
        Ok(self.segment.confine(asked)?)
    }

    /// `own` is how the program wants its ranks to wait.
    fn enter(&self, own: WaitPolicy) -> Result<Context> {
        let asymmetry =
            Asymmetry::joined(self.segment.uses_membarrier()).ok_or(SegmentError::NoMembarrier)?;
        let waiting = Waiting {
            policy: self.briefing.policy.map_or(own, WaitPolicy::from),
            asymmetry,
            line_wait: LineWait::detect(),
            spare: 0,
        };
        let mut context = Context::enter(Arc::clone(&self.segment), self.rank, waiting)?;
        let ranks = context.world()?.threads.load(Ordering::Relaxed);
        context.waiting.spare = Waiting::spare(self.briefing.cores as usize, ranks as usize);
        Ok(context)
    }

    /// Takes the rank's place in the world.
    fn take_place(&self, context: &Context) -> Result<()> {
        let control = context.rank(self.rank)?;
        if !control.claim() {
            let rank = self.rank;
            return Err(Error::BadWorld(format!("somebody else is rank {rank} already")));
        }
        control.pid.store(std::process::id(), Ordering::Relaxed);
        context.world()?.begin_round();
        outcome::forget(context, self.rank)?;
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(Error::os("prctl"))?;
        if getppid() != self.launcher {
            return Err(Error::BadWorld("its launcher is gone".to_owned()));
        }
        match self.briefing.cpus.get(self.rank as usize) {
            Some(&Some(cpu)) => pin_current_thread(cpu)?,
            _ => start_in_blocks(self.rank as usize, context.size())?,
        }
        Ok(())
    }

    /// Runs the code as the rank, and tells the world how it ended.
    fn perform<T: Serialize>(
        &self,
        context: &Arc<Context>,
        code: impl Fn(&Rank) -> Result<T>,
    ) -> outcome::Outcome<()> {
        self.inside.store(true, StdOrdering::Relaxed);
        // What the code returns is encoded and dropped in there, too: that is code of the program.
        let outcome = outcome::outcome_of(|| {
            let value = at_end::run(&Rank::new(Arc::clone(context)), code)?;
            outcome::encode(value)
        });
        self.inside.store(false, StdOrdering::Relaxed);
        // Before anybody learns of the end: whoever reads the lines counts on them.
        let _ = std::io::stdout().flush();
        let posted = outcome::post(context, &outcome);
        let mut ended = outcome.map(drop);
        if let Err(error) = posted {
            let cause = Cause::Error(error.to_string());
            // A small one fits if anything does.
            let _ = outcome::post(context, &Err(cause.clone()));
            ended = ended.and(Err(cause));
        }
        if let Ok(world) = context.world() {
            if ended.is_err() {
                world.note_failure(self.rank);
            }
            world.outcomes.fetch_add(1, Ordering::Release);
        }
        let state = match ended {
            Err(Cause::Panic(_)) => RankState::Lost,
            _ => RankState::Finished,
        };
        let _ = burial::end(context, self.rank, state);
        ended
    }

    /// From here on, the rank's standard output is heard.
    fn speak(&self) -> Result<()> {
        // A line begun before belongs to what is not heard.
        let _ = std::io::stdout().flush();
        dup2_stdout(&self.output).map_err(Error::os("dup2"))
    }

    /// Is the rank, and ends the process.
    pub(crate) fn run_and_exit<T: Serialize>(
        &self,
        own: WaitPolicy,
        code: impl Fn(&Rank) -> Result<T>,
    ) -> Result<std::convert::Infallible> {
        let context = Arc::new(self.enter(own)?);
        self.take_place(&context)?;
        self.speak()?;
        let status = match self.perform(&context, code) {
            Ok(()) => 0,
            Err(Cause::Panic(_)) => 101,
            Err(_) => 1,
        };
        std::process::exit(status)
    }

    /// Is the rank, and returns what all ranks returned.
    pub(crate) fn run_as_member<T: Serialize + DeserializeOwned>(
        &self,
        own: WaitPolicy,
        code: impl Fn(&Rank) -> Result<T>,
    ) -> Result<Vec<T>> {
        let context = Arc::new(self.enter(own)?);
        self.await_round(&context)?;
        self.take_place(&context)?;
        let muted = (self.rank != 0)
            .then(|| nix::unistd::dup(std::io::stdout()).map_err(Error::os("dup")))
            .transpose()?;
        self.speak()?;
        let _ = self.perform(&context, code);
        if let Some(muted) = muted {
            dup2_stdout(&muted).map_err(Error::os("dup2"))?;
        }
        let results = self.gather(&context);
        self.depart(&context)?;
        results
    }

    /// Waits until the last call's results were read by everybody.
    fn await_round(&self, context: &Context) -> Result<()> {
        let mine = self.rounds.load(StdOrdering::Relaxed);
        let world = context.world()?;
        // Acquire: pairs with the Release in `depart`.
        let open = || world.rounds.load(Ordering::Acquire) == mine;
        // Who ended without leaving the last round may keep it open for ever.
        let missing = || {
            (0..context.size() as u32).find(|&rank| {
                context.rank(rank).is_ok_and(|control| {
                    control.is_dead() && control.left.load(Ordering::Relaxed) != mine
                })
            })
        };
        self.await_others(context, || open() || missing().is_some())?;
        match missing() {
            Some(rank) if !open() => {
                Err(Error::BadWorld(format!("rank {rank} of this world has ended")))
            }
            _ => Ok(()),
        }
    }

    fn await_others(&self, context: &Context, done: impl Fn() -> bool) -> Result<()> {
        struct NoFlag;
        impl crate::wait::Flag for NoFlag {
            fn raise(&self) {}
            fn lower(&self) {}
        }
        let doing = Doing { operation: Operation::Results, channel: 0 };
        // Whoever makes it true rings every doorbell, raised flag or not.
        context.wait(Wait::forever(), doing, std::ptr::null(), &NoFlag, || done().then_some(()))?;
        Ok(())
    }

    fn gather<T: DeserializeOwned>(&self, context: &Context) -> Result<Vec<T>> {
        let ranks = || 0..context.size() as u32;
        let state = |rank| context.rank(rank).map_or(RankState::Lost, |control| control.state());
        self.await_others(context, || ranks().all(|rank| state(rank).ended()))?;
        let mut outcomes = Vec::new();
        for rank in ranks() {
            outcomes.push(outcome::read(context, rank)?.unwrap_or(Err(Cause::Vanished)));
        }
        outcome::gather(outcomes)
    }

    /// The last one out makes the world ready for the next call.
    fn depart(&self, context: &Context) -> Result<()> {
        let world = context.world()?;
        let left = self.rounds.fetch_add(1, StdOrdering::Relaxed) + 1;
        context.rank(self.rank)?.left.store(left, Ordering::Relaxed);
        // Counted down from the outcomes, which everybody alive has posted.
        if world.outcomes.fetch_sub(1, Ordering::AcqRel) == 1 {
            world.end_round();
            for rank in 0..context.size() as u32 {
                if !context.rank(rank)?.renew() {
                    burial::miss(context, rank)?;
                }
            }
            // Only now, when no rank's state tells of the old round any more. Release: pairs with
            // the Acquire in `await_round`.
            world.rounds.store(left, Ordering::Release);
            burial::wake_all(context);
        }
        Ok(())
    }
}
