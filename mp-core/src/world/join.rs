//! A process that was started as a rank: how it detects this, enters the world, and acts as the rank.
//!
//! Such a process executes `main` with its standard output muted, because all ranks would print the program's output
//! before `run`. At each call of `run` it compares the call with the call in the briefing (`site.rs`):
//!
//! | the call | what this process does |
//! |---|---|
//! | the intended call | enters the world, gets its output back, runs the rank's code, posts its outcome, exits |
//! | an earlier call | returns what that call returned to the caller |
//! | an earlier call of threads, whose results were not kept | runs the world again |
//! | a call of processes by another thread | waits for the process's end; an error if no intended call in a minute |
//! | another call of processes | returns an error, because the program took another path |
//!
//! Under `mprun` there is no intended call: every `run` joins the world, and returns the results of all ranks in every
//! rank. A rank whose code fails rings the launcher's bell, because its process then waits in `run` for the other
//! ranks. All ranks return the same failures, and each `main` would print them. So the standard error of all ranks but
//! one is discarded up to the next `run`.

use std::{
    fs::File,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, Ordering as StdOrdering},
    },
    thread::ThreadId,
    time::Duration,
};

use nix::unistd::{dup2_stderr, dup2_stdout};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    at_end, burial,
    family::Family,
    harness,
    launch::{Briefing, Ending},
    layout, limits, outcome,
    rank::Rank,
    renewal,
    site::{self, Call, Within},
    summons::{self, Summons},
};
use crate::{
    context::{Context, RankState},
    error::{Cause, Error, ErrorKind, Result},
    segment::{Segment, SegmentError},
    sync::Ordering,
    topology::{pin_current_thread, start_in_blocks},
    wait::{Asymmetry, Doing, LineWait, Operation, Wait, WaitPolicy, Waiting},
};

/// The rank that this process was started to be, and what it needs for that.
#[derive(Debug)]
pub(crate) struct Assignment {
    rank: u32,
    family: Family,
    /// The id of this process. A process that was forked from it has another id.
    process: u32,
    segment: Arc<Segment>,
    briefing: Briefing,
    /// The first rank of each node, and the number of all ranks, if the ranks are divided among nodes.
    nodes: Option<Arc<[u32]>>,
    /// The rank's real standard output.
    output: OwnedFd,
    /// Wakes the launcher, so that it looks for a rank whose code has failed.
    bell: OwnedFd,
    /// Whether rank code runs in this process. Worlds made by that code are the process's own.
    inside: AtomicBool,
    meant: Meant,
    /// Held during a call of `run` in a launched world.
    round: Mutex<()>,
    /// The number of calls of `run` that this process has left, in a launched world.
    rounds: AtomicU32,
    /// The rank's real standard error, while it is discarded because another rank reports a failure for all.
    hushed: Mutex<Option<OwnedFd>>,
}

/// Returns this process's assignment, if it was started as a rank.
pub(crate) fn assignment() -> Result<Option<&'static Assignment>> {
    static ASSIGNMENT: OnceLock<std::result::Result<Option<Assignment>, String>> = OnceLock::new();
    ASSIGNMENT
        .get_or_init(|| find().map_err(|error| error.to_string()))
        .as_ref()
        .map(Option::as_ref)
        .map_err(|error| {
            Error::from(ErrorKind::BadWorld(format!("this process can't enter its world: {error}")))
        })
}

fn find() -> Result<Option<Assignment>> {
    let (rank, descriptors) = match summons::summons() {
        Summons::None => return Ok(None),
        Summons::Rank(rank, descriptors) => (*rank, *descriptors),
        Summons::Refused(reason) => return Err(ErrorKind::BadWorld(reason.clone()).into()),
    };
    let segment =
        Segment::attach(summons::descriptor(descriptors.segment()), true, layout::parts())?;
    let output = summons::descriptor(descriptors.output());
    let bell = summons::descriptor(descriptors.bell());
    let briefing = Briefing::read(&segment)?;
    let segment = Arc::new(segment);
    let context = enter(&segment, rank, WaitPolicy::default())?;
    let family = Family::of(&context)?;
    let open_files = briefing.open_files.or(family.open_files);
    open_files.map_or(Ok(()), limits::restore)?;
    let assignment = Assignment {
        rank,
        family,
        process: std::process::id(),
        segment,
        nodes: briefing.nodes.as_deref().map(Arc::from),
        briefing,
        output,
        bell,
        inside: AtomicBool::new(false),
        meant: Meant::default(),
        round: Mutex::new(()),
        rounds: AtomicU32::new(0),
        hushed: Mutex::new(None),
    };
    assignment.claim(&context)?;
    Ok(Some(assignment))
}

/// Enters the world as a rank that waits in this way.
fn enter(segment: &Arc<Segment>, rank: u32, policy: WaitPolicy) -> Result<Context> {
    let asymmetry =
        Asymmetry::joined(segment.uses_membarrier()).ok_or(SegmentError::NoMembarrier)?;
    let waiting = Waiting { policy, asymmetry, line_wait: LineWait::detect(), spare: 0 };
    Ok(Context::enter(Arc::clone(segment), rank, waiting)?)
}

/// Whether this process has reached the intended call.
#[derive(Debug, Default)]
struct Meant {
    /// The thread that has reached the call.
    taken: Mutex<Option<ThreadId>>,
    changed: Condvar,
    /// Whether another thread made a call from the same origin, so that its call may have been the intended one.
    doubtful: AtomicBool,
}

/// How long a thread whose call is not intended waits for another thread to reach the intended call.
const PATIENCE: Duration = Duration::from_secs(60);

impl Meant {
    fn take(&self) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let first = taken.is_none();
        taken.get_or_insert(std::thread::current().id());
        self.changed.notify_all();
        first
    }

    /// Waits for the end of the process, which comes after another thread has reached and run the intended call.
    /// Returns if no thread reaches that call in time.
    fn wait_for_the_end(&self) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.changed.wait_timeout_while(taken, PATIENCE, |taken| taken.is_none());
        let taken = wait.unwrap_or_else(PoisonError::into_inner).0;
        if taken.is_some() {
            drop(self.changed.wait_while(taken, |_| true));
        }
    }
}

/// Makes the error for rank code that joins a world.
pub(crate) fn inside() -> Error {
    let reason = "a rank's code can't join a world, because it is a rank already: leave the first one before";
    ErrorKind::BadWorld(reason.to_owned()).into()
}

/// This rank's part in a call of `run` of all ranks.
struct Round<'a> {
    _turn: MutexGuard<'a, ()>,
    context: Arc<Context>,
    /// What takes the place of the rank's standard output between the calls.
    muted: Option<OwnedFd>,
}

/// The part of a process that has entered its launcher's world without a closure.
pub(crate) struct Membership {
    assignment: &'static Assignment,
    round: Round<'static>,
}

impl Membership {
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.round.context
    }

    /// Tells the world how the rank's code has ended.
    pub(crate) fn end(&self, outcome: outcome::Outcome<Vec<u8>>) -> outcome::Outcome<()> {
        self.assignment.inside.store(false, StdOrdering::Relaxed);
        self.assignment.end(self.context(), outcome)
    }

    /// Waits until the code of all ranks has ended, and returns how it ended.
    pub(crate) fn leave(self) -> Result<Vec<outcome::Outcome<()>>> {
        self.assignment.end_round(self.round)
    }
}

/// The meaning of a call of `run` in this process.
pub(crate) enum Part {
    /// The call runs a world of this process's own.
    Own,
    /// The call runs the rank's code, and the process then ends.
    Rank,
    /// The call runs the rank's code, and the program goes on with the results of all ranks.
    Member,
    /// This is an earlier call. The field is its encoded result.
    Replayed(&'static [u8]),
}

impl Assignment {
    /// Returns whether this process's calls of `run` return to the user. Under a launcher, those of rank 0 do.
    pub(crate) fn speaks(&self) -> bool {
        self.is_launched() && self.rank == 0
    }

    /// Returns whether a launcher started this process, not a call of `run`.
    pub(crate) fn is_launched(&self) -> bool {
        self.briefing.call.is_none()
    }

    /// Returns whether this is the world of this rank, and a launcher started it.
    pub(crate) fn launches(&self, context: &Context) -> bool {
        self.is_launched() && Arc::ptr_eq(&self.segment, &context.segment)
    }

    /// Returns whether another rank has had this one started.
    fn is_later(&self) -> bool {
        self.family.parent.is_some()
    }

    /// Returns whether rank code runs in this thread, or under a launcher in this process.
    fn runs_rank_code(&self) -> bool {
        let in_rank_code = matches!(site::within(), Within::Process);
        in_rank_code || self.is_launched() && self.inside.load(StdOrdering::Relaxed)
    }

    /// Returns an error in a process that was forked from the rank.
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(ErrorKind::BadWorld(format!(
            "this process was forked from rank {}, which alone can enter its world: start a \
             program instead of a fork",
            self.rank
        ))
        .into())
    }

    /// Returns the meaning of this call.
    pub(crate) fn part(&'static self, call: &Call, processes: bool) -> Result<Part> {
        if self.runs_rank_code() {
            return if processes {
                Err(ErrorKind::BadWorld(
                    "a rank's code can't make a world of processes: make one of \
                     threads, or run it outside of the code"
                        .to_owned(),
                )
                .into())
            } else {
                Ok(Part::Own)
            };
        }
        self.check_process()?;
        if self.is_later() {
            return Err(ErrorKind::BadWorld(format!(
                "a rank has started this program as rank {}: such ranks enter their world by `World::join`",
                self.rank
            ))
            .into());
        }
        let Some(meant) = &self.briefing.call else { return Ok(Part::Member) };
        let any = self.briefing.any_call && meant.origin.site == call.origin.site;
        if (any || meant == call) && self.meant.take() {
            return Ok(Part::Rank);
        }
        if let Some(past) = self.briefing.past.iter().find(|past| past.call == *call) {
            return Ok(Part::Replayed(&past.result));
        }
        if !processes {
            return Ok(Part::Own);
        }
        if self.briefing.test && meant.origin.thread != call.origin.thread {
            // The process that made the world refuses such a call, too.
            return Err(harness::away_from_test(&call.origin.thread));
        }
        // This call is made by another thread of the program, beside the intended call, and does not concern this rank.
        if meant.origin.thread != call.origin.thread || !harness::thread_is_unique() {
            let doubtful = !self.briefing.any_call && meant.origin == call.origin;
            self.meant.doubtful.fetch_or(doubtful, StdOrdering::Relaxed);
            self.meant.wait_for_the_end();
        }
        Err(ErrorKind::BadWorld(format!(
            "rank {} took another path than the program that started it: it came to {call} \
             instead of {meant}. What a program does before `run` must be the same in every process: it must not depend \
             on time, chance or standard input",
            self.rank
        ))
        .into())
    }

    /// Returns the value that the caller hands to every rank.
    pub(crate) fn input<I: DeserializeOwned>(&self) -> Result<I> {
        Ok(postcard::from_bytes(&self.briefing.input)?)
    }

    /// Sets whether a core dump of this rank includes the world's memory.
    pub(crate) fn dump_segment(&self, dump: bool) {
        self.segment.dump(dump);
    }

    /// Returns an error if the program asks for another number of ranks than the launcher runs, or for more memory than
    /// the launcher's world has. Otherwise limits this rank to the memory that the program asks for. All ranks return
    /// the error, and only rank 0 can print it.
    pub(crate) fn admit(&self, size: Option<usize>, segment_size: Option<u64>) -> Result<()> {
        let runs = self.enter(WaitPolicy::default())?.size();
        let admitted = match size {
            Some(asked) if asked != runs => {
                let (run, fix) = match &self.nodes {
                    None => ("launcher runs", format!("start it by mprun -n {asked}")),
                    Some(_) => (
                        "launchers of all nodes run",
                        format!("start it by mprun --nodes -n ... with {asked} ranks on all nodes"),
                    ),
                };
                Err(ErrorKind::BadWorld(format!(
                    "the program asks for a world of {asked} ranks, but the {run} {runs}: {fix}, or let the launcher \
                     choose by World::any_size"
                ))
                .into())
            }
            _ => self.segment.confine(segment_size).map_err(Error::from),
        };
        self.hush(admitted.is_err() && self.rank != 0)?;
        admitted
    }

    /// Makes this process the rank, unless another process is the rank already.
    fn claim(&self, context: &Context) -> Result<()> {
        let claimed = &context.rank(self.rank)?.claimed;
        // Relaxed: the word orders no other memory.
        match claimed.compare_exchange(0, self.process, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(other) => Err(ErrorKind::BadWorld(format!(
                "rank {} is process {other} already: the program that was started as the rank has \
                 started several",
                self.rank
            ))
            .into()),
        }
    }

    /// Enters the world. `own` is the program's wait policy, which applies if the briefing has none.
    fn enter(&self, own: WaitPolicy) -> Result<Context> {
        let policy = self.briefing.policy.map_or(own, WaitPolicy::from);
        let mut context = enter(&self.segment, self.rank, policy)?;
        let ranks = context.world()?.threads.load(Ordering::Relaxed);
        context.waiting.spare = Waiting::spare(self.briefing.cores as usize, ranks as usize);
        if let Some(nodes) = &self.nodes {
            context.know_nodes(Arc::clone(nodes));
        }
        Ok(context)
    }

    /// Takes the rank's place in the world.
    fn take_place(&self, context: &Context) -> Result<()> {
        let control = context.rank(self.rank)?;
        if !control.claim() {
            let rank = self.rank;
            return Err(ErrorKind::BadWorld(format!(
                "another process or thread is rank {rank} of this world already"
            ))
            .into());
        }
        control.pid.store(std::process::id(), Ordering::Relaxed);
        if self.is_later() {
            // To ranks that know of no other than those with which the world began, it is one more working thread.
            context.helper_begins();
        } else {
            context.world()?.begin_round();
        }
        outcome::forget(context, self.rank)?;
        let (first, count) = match self.is_later() {
            true => (self.family.first, self.family.size()),
            false => (context.here().start as usize, context.here().len()),
        };
        let place = self.rank as usize - first;
        match self.briefing.cpus.get(place).filter(|_| !self.is_later()) {
            Some(&Some(cpu)) => pin_current_thread(cpu)?,
            _ => start_in_blocks(place, count)?,
        }
        Ok(())
    }

    /// Runs the code as the rank, and tells the world how the code ended.
    fn perform<T: Serialize>(
        &self,
        context: &Arc<Context>,
        code: impl FnOnce(&Rank) -> Result<T>,
    ) -> outcome::Outcome<()> {
        self.inside.store(true, StdOrdering::Relaxed);
        let before = site::set_within(Within::Process);
        // The value is encoded and dropped in there, too, because this runs code of the program.
        let mut outcome = outcome::outcome_of(|| {
            let value = at_end::run(context, || code(&Rank::new(Arc::clone(context))))?;
            outcome::encode(value)
        });
        site::set_within(before);
        self.inside.store(false, StdOrdering::Relaxed);
        if let Some(meant) = &self.briefing.call
            && self.meant.doubtful.load(StdOrdering::Relaxed)
        {
            outcome = Err(Cause::Error(meant.origin.ambiguous().to_string()));
        }
        self.end(context, outcome)
    }

    /// Tells the world how the rank's code has ended.
    fn end(&self, context: &Context, outcome: outcome::Outcome<Vec<u8>>) -> outcome::Outcome<()> {
        // The failure is noted before other ranks can fail because of it. The flush may take long.
        if outcome.is_err() {
            self.note_failure(context);
        }
        // The output is flushed before the end is announced, because a reader may rely on having all lines then.
        let _ = std::io::stdout().flush();
        let posted = outcome::post(context, &outcome);
        let mut ended = outcome.map(drop);
        if let Err(error) = posted {
            let cause = Cause::Error(error.to_string());
            // The error is small, so that it may fit where the value did not.
            let _ = outcome::post(context, &Err(cause.clone()));
            ended = ended.and(Err(cause));
            self.note_failure(context);
        }
        if self.is_later() {
            context.helper_ends();
        }
        let state = match ended {
            Err(Cause::Panic(_)) => RankState::Lost,
            _ => RankState::Finished,
        };
        let _ = burial::end(context, self.rank, state);
        if ended.is_err() {
            self.ring();
        }
        ended
    }

    fn note_failure(&self, context: &Context) {
        if let Ok(world) = context.world() {
            world.note_failure(self.rank);
        }
    }

    /// Rings the launcher's bell.
    pub(crate) fn ring(&self) {
        // An eventfd takes a number of 64 bits. If it is full, it has been rung.
        let _ = nix::unistd::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Unmutes the rank's standard output.
    fn speak(&self) -> Result<()> {
        // A part of a line that was printed before is discarded with the rest.
        let _ = std::io::stdout().flush();
        dup2_stdout(&self.output).map_err(Error::os("dup2"))
    }

    /// Runs the rank's code, and ends the process.
    pub(crate) fn run_and_exit<T: Serialize>(
        &self,
        own: WaitPolicy,
        code: impl FnOnce(&Rank) -> Result<T>,
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

    /// Takes part in the next call of `run` of all ranks.
    fn begin_round(&self, own: WaitPolicy) -> Result<Round<'_>> {
        let turn = match self.round.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(ErrorKind::BadWorld(
                    "two threads of a launcher's rank call `run` at the same time, and other ranks \
                     can't tell which call is which: run the worlds one after another"
                        .to_owned(),
                ).into());
            }
        };
        let context = Arc::new(self.enter(own)?);
        if !self.is_later() {
            self.await_round(&context)?;
        } else if self.rounds.load(StdOrdering::Relaxed) > 0 {
            return Err(ErrorKind::BadWorld(format!(
                "a rank has started this one, {}, which has left the world and can't join it again",
                self.rank
            ))
            .into());
        }
        self.take_place(&context)?;
        let muted = (self.rank != 0)
            .then(|| nix::unistd::dup(std::io::stdout()).map_err(Error::os("dup")))
            .transpose()?;
        self.speak()?;
        Ok(Round { _turn: turn, context, muted })
    }

    /// Waits until the code of all ranks has ended, and returns the outcomes.
    fn end_round<T: DeserializeOwned>(&self, round: Round<'_>) -> Result<Vec<outcome::Outcome<T>>> {
        if let Some(muted) = round.muted {
            dup2_stdout(&muted).map_err(Error::os("dup2"))?;
        }
        if self.is_later() {
            self.rounds.store(1, StdOrdering::Relaxed);
            return Ok(Vec::new());
        }
        let results = self.gather(&round.context);
        self.depart(&round.context)?;
        results
    }

    /// Enters the launcher's world without a closure.
    pub(crate) fn join(&'static self, own: WaitPolicy) -> Result<Membership> {
        if self.runs_rank_code() {
            return Err(inside());
        }
        self.check_process()?;
        if !self.is_launched() {
            return Err(ErrorKind::BadWorld(
                "this process is a rank of `World::run`, and enters its world there: `World::join` is for programs \
                 that a launcher starts"
                    .to_owned(),
            )
            .into());
        }
        self.admit(None, None)?;
        let round = self.begin_round(own)?;
        self.inside.store(true, StdOrdering::Relaxed);
        Ok(Membership { assignment: self, round })
    }

    /// Runs the rank's code, and returns the outcomes of all ranks. With `one_report`, the standard error of all ranks
    /// but one is discarded from a failure to the next call.
    pub(crate) fn run_as_member<T: Serialize + DeserializeOwned>(
        &self,
        own: WaitPolicy,
        one_report: bool,
        code: impl FnOnce(&Rank) -> Result<T>,
    ) -> Result<Vec<outcome::Outcome<T>>> {
        let round = self.begin_round(own)?;
        let _ = self.perform(&round.context, code);
        let results = self.end_round(round)?;
        if one_report {
            // All ranks let the same rank report: the first that has posted an outcome, because its process continues.
            let gone = |outcome: &outcome::Outcome<T>| {
                matches!(outcome, Err(Cause::Exit(_) | Cause::Signal(_) | Cause::Vanished))
            };
            let speaker = results.iter().position(|outcome| !gone(outcome));
            let failed = results.iter().any(|outcome| outcome.is_err());
            self.hush(failed && speaker != Some(self.rank as usize))?;
        }
        Ok(results)
    }

    /// Discards what this process writes to its standard error from now on, or stops discarding it. All ranks of a
    /// launched world return the same failures from `run`, and each of them would print them.
    fn hush(&self, hush: bool) -> Result<()> {
        let mut hushed = self.hushed.lock().unwrap_or_else(PoisonError::into_inner);
        match hushed.take() {
            Some(real) if !hush => dup2_stderr(&real).map_err(Error::os("dup2"))?,
            None if hush => {
                let real = std::io::stderr().as_fd().try_clone_to_owned()?;
                let null = File::options().write(true).open("/dev/null")?;
                dup2_stderr(null).map_err(Error::os("dup2"))?;
                *hushed = Some(real);
            }
            unchanged => *hushed = unchanged,
        }
        Ok(())
    }

    /// Waits until all ranks have left the last call.
    fn await_round(&self, context: &Context) -> Result<()> {
        let mine = self.rounds.load(StdOrdering::Relaxed);
        let world = context.world()?;
        // Acquire: pairs with the Release in `begin_next`.
        self.await_others(context, || world.rounds.load(Ordering::Acquire) == mine)
    }

    fn await_others(&self, context: &Context, done: impl Fn() -> bool) -> Result<()> {
        struct NoFlag;
        impl crate::wait::Flag for NoFlag {
            fn raise(&self) {}
            fn lower(&self) {}
        }
        let doing = Doing { operation: Operation::Results, channel: 0 };
        // The rank that makes the condition true rings every doorbell, whether a flag is raised or not.
        context.wait(Wait::forever(), doing, std::ptr::null(), &NoFlag, || done().then_some(()))?;
        Ok(())
    }

    fn gather<T: DeserializeOwned>(&self, context: &Context) -> Result<Vec<outcome::Outcome<T>>> {
        let ranks = || 0..context.size() as u32;
        let state = |rank| context.rank(rank).map_or(RankState::Lost, |control| control.state());
        self.await_others(context, || ranks().all(|rank| state(rank).ended()))?;
        let mut outcomes = Vec::new();
        for rank in ranks() {
            // This says how the rank's process ended, if it ended before its code did. It is stored before the burial.
            let ending = Ending::from_word(context.rank(rank)?.ending.load(Ordering::Relaxed));
            let posted = outcome::read(context, rank)?;
            outcomes.push(posted.unwrap_or(Err(ending.map_or(Cause::Vanished, Cause::from))));
        }
        Ok(outcomes)
    }

    /// Leaves the round: see `renewal`.
    fn depart(&self, context: &Context) -> Result<()> {
        let left = self.rounds.fetch_add(1, StdOrdering::Relaxed) + 1;
        // Release: pairs with the Acquire in `keeps_open`.
        context.rank(self.rank)?.left.store(left, Ordering::Release);
        Ok(renewal::end_round(context, left)?)
    }
}
