//! Work for a rank that proceeds in steps. Between the steps it waits for flags of other ranks. A communication thread
//! carries it on, or the rank does so within its own calls.
//!
//! A communication thread advances errands beside its lanes. Otherwise they are at *home*: one of the rank's threads
//! that wait *leads*, and advances all errands of the rank, not only the one that it waits for. The others follow, and
//! one of them is the next to lead. So ranks may call operations of several fronts in different orders, and nothing
//! blocks, whichever thread runs them. A thread that is stopped gives its errands to another, or home.
//!
//! Every errand that waits marks its line in its MPBs, as a blocking wait does; then, after the fence, all flags are
//! looked at once more. Nothing is advanced between marking and sleeping, because an errand that went on would wait for
//! another line than the marked one. Setters ring the rank's doorbell. The rank sleeps on it, and a communication
//! thread sleeps on its own bell and the doorbells of all ranks that it works for.

use std::{
    cell::{Cell, RefCell},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Waker,
    time::Duration,
};

use mp_core::{
    Rank, Result, Wait,
    delegate::{Awaited, discard},
    mpb::{Delegation, Polled, Tick},
    progress::{Advanced, Helper, Lent, Part},
};

use super::{
    CommThreads,
    record::{About, Log},
};

/// A pending operation of a rank, such as a collective operation.
pub trait Errand: Send {
    /// Advances the errand as far as possible without waiting, or until one of several things is done. It must not
    /// panic.
    fn advance(&mut self) -> Step;

    /// Returns what the errand does next, for a [trace](crate::trace).
    fn about(&self) -> About {
        About::default()
    }

    /// Returns what the errand waits for. Before the errand is first advanced, this may be any of its rank.
    fn polled(&self) -> Arc<Polled>;
}

/// The result of advancing an [`Errand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The errand waits for a flag.
    Waits,
    /// One thing is done, and the errand can go on with the next one at once.
    Next,
    /// The errand is finished.
    Over,
}

/// What carries on a rank's pending operations: a communication thread, or the rank itself.
#[derive(Clone, Debug, Default)]
pub enum Progress {
    /// A thread of the rank's own carries them on if there is a core for it, that is, if the world has at least two
    /// cores for each rank. Otherwise the rank itself does, as with [`InCalls`](Self::InCalls).
    #[default]
    Automatic,
    /// The rank itself carries them on, in its calls: while it waits for anything, it carries on everything
    /// else. While the rank computes, nothing makes progress. This costs no core and no thread switch.
    InCalls,
    /// One of these threads carries them on, whatever the rank does. If there are no threads, the rank itself does.
    By(CommThreads),
}

impl From<&CommThreads> for Progress {
    fn from(threads: &CommThreads) -> Self {
        Self::By(threads.clone())
    }
}

impl From<CommThreads> for Progress {
    fn from(threads: CommThreads) -> Self {
        Self::By(threads)
    }
}

/// The thread that a rank has for itself by [`Progress::Automatic`], shared by all its users.
struct Own(CommThreads);

impl Progress {
    fn threads(self, rank: &Rank) -> Result<Option<CommThreads>> {
        let threads = match self {
            Self::InCalls => None,
            Self::By(threads) => Some(threads),
            Self::Automatic if rank.cores() < 2 * rank.size() => None,
            Self::Automatic => {
                let name = format!("kt of {}", rank.id());
                let own = rank.kept(|| CommThreads::builder(1).name(name).start().map(Own))?;
                Some(own.0.clone())
            }
        };
        Ok(threads.filter(|threads| !threads.is_empty()))
    }

    /// Returns the threads as a helper to which a rank lends its work between its calls, or `None` if the rank carries
    /// the work on itself.
    ///
    /// # Errors
    /// The same as those of [`Errands::of`].
    pub fn helper(self, rank: &Rank) -> Result<Option<Box<dyn Helper>>> {
        let helper = |threads: CommThreads| {
            let first = threads.turn();
            Box::new(Borrowers { threads, first }) as Box<dyn Helper>
        };
        Ok(self.threads(rank)?.map(helper))
    }
}

/// Threads to which a rank lends work. The first thread that accepts the work takes it.
struct Borrowers {
    threads: CommThreads,
    first: usize,
}

impl Helper for Borrowers {
    fn carry_on(&self, lent: Arc<dyn Lent>) -> bool {
        self.threads.take_errand(Task::lent(lent), self.first).is_none()
    }
}

/// The errands of one rank, all carried on in the same way. Clones refer to the same errands.
#[derive(Clone, Debug)]
pub struct Errands {
    home: Arc<Home>,
    /// The threads that carry the errands on, and the thread that new errands go to.
    threads: Option<(CommThreads, usize)>,
}

/// The errands that a rank must carry on by itself, in its calls.
pub(super) struct Home {
    rank: Rank,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Errands that no thread is carrying on at the moment.
    idle: Vec<Idle>,
    /// Whether a thread of the rank has taken the other errands.
    led: bool,
    /// The number of the rank's threads that wait beside that thread.
    followers: usize,
    /// The number of errands that communication threads carry on, and may give back.
    away: usize,
    /// The tasks to wake when a thread has given an errand back.
    awaiting: Vec<Weak<Awaiting>>,
}

/// The task that awaits the result of an errand, if there is such a task.
#[derive(Debug, Default)]
pub struct Awaiting(Mutex<Option<Waker>>);

impl Awaiting {
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the task.
    pub fn set(&self, task: &Waker) {
        self.lock().get_or_insert_with(|| task.clone()).clone_from(task);
    }

    /// Wakes the task.
    pub fn wake(&self) {
        let task = self.lock().take();
        // A panic of the waker must not reach the thread that wakes the task.
        discard(catch_unwind(AssertUnwindSafe(|| task.map(Waker::wake))));
    }
}

/// An errand, and whether it is advanced the first time without a check that it is ready.
struct Idle {
    errand: Box<dyn Errand>,
    fresh: bool,
}

/// Work that a communication thread carries on beside its lanes.
pub(super) struct Task {
    work: Work,
    _at_work: Delegation,
}

enum Work {
    /// An errand, until it is given back.
    Errand(Option<Box<dyn Errand>>, Arc<Home>),
    /// Work that a rank has lent while it makes no call.
    Lent(Arc<dyn Lent>),
}

impl Task {
    fn errand(errand: Box<dyn Errand>, home: &Arc<Home>) -> Self {
        let _at_work = errand.polled().delegate();
        home.lock().away += 1;
        Self { work: Work::Errand(Some(errand), Arc::clone(home)), _at_work }
    }

    pub(super) fn lent(lent: Arc<dyn Lent>) -> Self {
        let _at_work = Delegation::of(lent.rank());
        Self { work: Work::Lent(lent), _at_work }
    }

    /// Returns what the task waits for.
    pub(super) fn awaited(&self) -> Option<Awaited> {
        match &self.work {
            Work::Errand(errand, _) => Some(Awaited::Flag(errand.as_ref()?.polled())),
            Work::Lent(lent) => Some(Awaited::Lent(Arc::clone(lent))),
        }
    }

    /// Returns whether the task is worth advancing.
    pub(super) fn is_ready(&self) -> bool {
        match &self.work {
            Work::Errand(errand, _) => {
                errand.as_ref().is_none_or(|errand| errand.polled().is_ready())
            }
            Work::Lent(lent) => lent.is_ready(),
        }
    }

    /// Advances the task and records that. Returns whether the task is still pending.
    pub(super) fn advance(&mut self, log: &Log) -> bool {
        match &mut self.work {
            Work::Errand(errand, _) => {
                let Some(errand) = errand else { return false };
                loop {
                    let span = log.collective(|| errand.about());
                    let step = errand.advance();
                    drop(span);
                    match step {
                        Step::Waits => return true,
                        Step::Next => {}
                        Step::Over => return false,
                    }
                }
            }
            Work::Lent(lent) => {
                let span = log.messages(lent.rank());
                let advanced = lent.advance();
                match advanced {
                    Advanced::Moved => drop(span),
                    Advanced::Waits | Advanced::Over => span.cancel(),
                }
                advanced != Advanced::Over
            }
        }
    }

    /// Takes back the errand, which no thread has taken.
    fn taken_back(&mut self) -> Option<Box<dyn Errand>> {
        match &mut self.work {
            Work::Errand(errand, _) => errand.take(),
            Work::Lent(_) => None,
        }
    }

    /// Leaves the task to the rank.
    pub(super) fn give_back(mut self) {
        match &mut self.work {
            Work::Errand(errand, home) => {
                if let Some(errand) = errand.take() {
                    home.add(errand);
                    home.wake_tasks();
                }
            }
            Work::Lent(lent) => lent.leave(),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Work::Errand(_, home) = &self.work {
            home.lock().away -= 1;
        }
    }
}

impl Home {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, errand: Box<dyn Errand>) {
        let polled = errand.polled();
        let mut state = self.lock();
        state.idle.push(Idle { errand, fresh: true });
        if state.led {
            polled.ring();
        }
    }

    fn wake_tasks(&self) {
        let awaiting = self.lock().awaiting.clone();
        awaiting.iter().filter_map(Weak::upgrade).for_each(|awaiting| awaiting.wake());
    }

    /// Takes all errands, to carry them on. Returns false when another thread has taken them.
    fn lead(&self) -> bool {
        !mem::replace(&mut self.lock().led, true)
    }

    /// Leaves all errands to the thread that leads next.
    fn lead_no_more(&self, errands: Vec<Box<dyn Errand>>) {
        let mut state = self.lock();
        let rest = errands.into_iter().map(|errand| Idle { errand, fresh: false });
        state.idle.extend(rest);
        state.led = false;
        // This wakes a thread that follows, which leads next.
        if state.followers > 0
            && let Some(first) = state.idle.first()
        {
            first.errand.polled().ring();
        }
    }
}

/// The errands of a home, as a part that one of the rank's threads advances.
struct Carrier {
    home: Weak<Home>,
    /// The errands that this thread carries on while it leads.
    led: RefCell<Option<Vec<Box<dyn Errand>>>>,
    follows: Cell<bool>,
    tick: Tick,
}

impl Carrier {
    /// Makes the rank's waits in this thread carry on its errands.
    fn join(home: &Arc<Home>) {
        home.rank.progress_with(Arc::as_ptr(home).addr(), || {
            Rc::new(Self {
                home: Arc::downgrade(home),
                led: RefCell::default(),
                follows: Cell::default(),
                tick: Tick::default(),
            })
        });
    }

    /// Calls `with` for each errand that this thread carries on.
    fn each(&self, mut with: impl FnMut(&Polled)) {
        if let Ok(led) = self.led.try_borrow() {
            led.iter().flatten().for_each(|errand| with(&errand.polled()));
        }
    }

    /// Checks from time to time whether what this thread carries on is in vain.
    fn look(&self) {
        if self.tick.is_due(self.tick()) {
            self.each(Polled::look);
        }
    }
}

impl Part for Carrier {
    fn advance(&self) -> Advanced {
        let Some(home) = self.home.upgrade() else { return Advanced::Over };
        // The errands are borrowed while they are advanced, and one of them may call this in turn.
        let Ok(mut led) = self.led.try_borrow_mut() else { return Advanced::Waits };
        let led = match &mut *led {
            Some(led) => led,
            none if home.lead() => none.insert(Vec::new()),
            _ => return Advanced::Waits,
        };
        let mut moved = false;
        let (news, away) = {
            let mut state = home.lock();
            (mem::take(&mut state.idle), state.away)
        };
        led.retain_mut(|errand| {
            let ready = errand.polled().is_ready();
            moved |= ready;
            !ready || until_it_waits(&mut **errand)
        });
        for Idle { mut errand, fresh } in news {
            let ready = fresh || errand.polled().is_ready();
            moved |= ready;
            if !ready || until_it_waits(&mut *errand) {
                led.push(errand);
            }
        }
        match moved {
            true => Advanced::Moved,
            false if led.is_empty() && away == 0 => Advanced::Over,
            false => Advanced::Waits,
        }
    }

    fn is_gone(&self) -> bool {
        self.home.strong_count() == 0
    }

    fn is_ready(&self) -> bool {
        let Some(home) = self.home.upgrade() else { return true };
        let led = self.led.try_borrow().is_ok_and(|led| led.is_some());
        let mut ready = false;
        match led {
            true => self.each(|polled| ready |= polled.is_ready()),
            false => ready = !home.lock().led,
        }
        if !ready {
            self.look();
        }
        ready || led && !home.lock().idle.is_empty()
    }

    fn raise(&self) {
        self.each(Polled::raise);
        if self.led.borrow().is_none()
            && !self.follows.replace(true)
            && let Some(home) = self.home.upgrade()
        {
            home.lock().followers += 1;
        }
    }

    fn lower(&self) {
        self.each(Polled::lower);
        if self.follows.replace(false)
            && let Some(home) = self.home.upgrade()
        {
            home.lock().followers -= 1;
        }
    }

    /// Leaves the errands to the thread that waits next.
    fn pause(&self) {
        if let Some(errands) = self.led.take()
            && let Some(home) = self.home.upgrade()
        {
            home.lead_no_more(errands);
        }
    }

    fn tick(&self) -> Option<Duration> {
        let mut tick = None;
        self.each(|polled| tick = tick.into_iter().chain(polled.interval()).min());
        tick
    }

    fn awaits(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.each(|polled| all.push(polled.awaits()));
        all
    }
}

/// Advances the errand until it waits. Returns whether it is still pending.
fn until_it_waits(errand: &mut dyn Errand) -> bool {
    loop {
        match errand.advance() {
            Step::Waits => return true,
            Step::Next => {}
            Step::Over => return false,
        }
    }
}

impl Errands {
    /// Returns the errands of a rank.
    ///
    /// # Errors
    /// The same as those of [`Builder::start`](super::Builder::start), for an automatic thread.
    pub fn of(rank: &Rank, progress: impl Into<Progress>) -> Result<Self> {
        let threads = progress.into().threads(rank)?;
        let home = rank.kept(|| Ok(Home { rank: rank.clone(), state: Mutex::default() }))?;
        Ok(Self { home, threads: threads.map(|threads| (threads.clone(), threads.turn())) })
    }

    /// Returns the threads that carry the errands on, or `None` if the rank does.
    pub fn threads(&self) -> Option<&CommThreads> {
        self.threads.as_ref().map(|(threads, _)| threads)
    }

    /// Returns whether the errands make progress only in calls of the rank, by design or because their threads were
    /// stopped.
    pub fn are_in_calls(&self) -> bool {
        self.threads.as_ref().is_none_or(|(threads, _)| !threads.any_open())
    }

    /// Registers a task to be woken when a thread gives an errand back to the rank.
    pub fn wake_when_left(&self, awaiting: &Arc<Awaiting>) {
        let mut state = self.home.lock();
        let known = &mut state.awaiting;
        if known.len() == known.capacity() {
            known.retain(|awaiting| awaiting.strong_count() > 0);
        }
        known.push(Arc::downgrade(awaiting));
    }

    /// Returns whether any errand is left to the rank. This is also the case if the threads are switched off.
    pub fn are_left_to_rank(&self) -> bool {
        let state = self.home.lock();
        state.led || !state.idle.is_empty()
    }

    /// Returns the rank whose errands these are.
    pub fn rank(&self) -> &Rank {
        &self.home.rank
    }

    /// Makes the rank's waits in this thread carry on what the rank must carry on itself.
    pub fn join(&self) {
        Carrier::join(&self.home);
    }

    /// Begins an errand. A thread that is switched off or was stopped gets nothing new. In that case another thread of
    /// its set gets the errand, or the rank itself does, which at once advances it as far as possible without waiting.
    pub fn begin(&self, errand: Box<dyn Errand>) {
        let given = match &self.threads {
            None => Err(errand),
            Some((threads, turn)) => {
                match threads.take_errand(Task::errand(errand, &self.home), *turn) {
                    Some(mut task) => task.taken_back().map_or(Ok(()), Err),
                    None => Ok(()),
                }
            }
        };
        Carrier::join(&self.home);
        if let Err(errand) = given {
            self.home.add(errand);
            self.advance();
        }
    }

    /// Advances the rank's pending operations in this thread as far as possible without waiting.
    pub fn advance(&self) {
        Carrier::join(&self.home);
        self.home.rank.progress(0);
    }

    /// Waits until `done` returns true at a moment after `polled` was [rung](Polled::ring). Returns false if the limit
    /// of `wait` was over before that. Meanwhile it advances what the rank must carry on itself. A report shows this
    /// wait as a wait for the flag of `polled`.
    ///
    /// # Errors
    /// [`Segment`](mp_core::ErrorKind::Segment) when the world's memory is broken.
    pub fn wait(&self, polled: &Polled, wait: Wait, done: &dyn Fn() -> bool) -> Result<bool> {
        Carrier::join(&self.home);
        polled.wait_until(wait, self.are_in_calls(), done)
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("awaited", &self.awaited()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Home").field("idle", &state.idle.len()).field("led", &state.led).finish()
    }
}
