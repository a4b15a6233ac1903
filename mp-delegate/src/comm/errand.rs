//! Work for a rank that goes on in steps, between which it waits for flags of other ranks: carried
//! on by a communication thread, or within the rank's own calls.

use std::{
    cell::{Cell, RefCell},
    mem,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use mp_core::{
    Rank, Result, Wait,
    mpb::{Delegation, Polled},
    progress::{Advanced, Part},
};

use super::{
    CommThreads,
    record::{About, Log},
};

/// Something under way, like a collective operation.
pub trait Errand: Send {
    /// Goes on as far as it can without waiting, or until one of several things is done. It must not
    /// panic.
    fn advance(&mut self) -> Step;

    /// What it goes on with next, for a [trace](crate::trace).
    fn about(&self) -> About {
        About::default()
    }

    /// What it waits for; any of its rank, before it was ever advanced.
    fn polled(&self) -> Arc<Polled>;
}

/// What became of an [`Errand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It waits for a flag.
    Waits,
    /// One thing is done, and it can go on with the next at once.
    Next,
    /// There is nothing more to do.
    Over,
}

/// Who carries on what a rank has under way.
#[derive(Clone, Debug, Default)]
pub enum Progress {
    /// A thread of the rank's own, if there is a core for one: when the world has at least two cores
    /// for each rank. Otherwise the rank itself, as with [`InCalls`](Self::InCalls).
    #[default]
    Automatic,
    /// The rank itself, in its calls: whatever it waits for by an errand's request, it carries on
    /// everything else meanwhile. While it computes, nothing goes on. That costs no core, and no
    /// change of threads.
    InCalls,
    /// One of these threads, whatever the rank does. With none of them it is the rank itself.
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

/// The thread that a rank has for itself by [`Progress::Automatic`], shared by all who ask.
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
}

/// Errands of one rank, all carried on in the same way. Clones are the same.
#[derive(Clone, Debug)]
pub struct Errands {
    home: Arc<Home>,
    /// And the thread that new errands go to.
    threads: Option<(CommThreads, usize)>,
}

/// What a rank must carry on by itself, in its calls.
pub(super) struct Home {
    rank: Rank,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that nobody is carrying on at the moment.
    idle: Vec<Idle>,
    /// Whether a thread of the rank has taken the others.
    led: bool,
    /// Threads of the rank that wait beside it.
    followers: usize,
    /// Those that communication threads carry on, and may give back.
    away: usize,
}

/// An errand, and whether it is to be advanced before anybody asks whether it can be.
struct Idle {
    errand: Box<dyn Errand>,
    fresh: bool,
}

/// An errand in the hands of a communication thread.
pub(super) struct Task {
    /// Until it is given back.
    errand: Option<Box<dyn Errand>>,
    home: Arc<Home>,
    _at_work: Delegation,
}

impl Task {
    fn new(errand: Box<dyn Errand>, home: &Arc<Home>) -> Self {
        let _at_work = errand.polled().delegate();
        home.lock().away += 1;
        Self { errand: Some(errand), home: Arc::clone(home), _at_work }
    }

    /// What it waits for.
    pub(super) fn polled(&self) -> Option<Arc<Polled>> {
        self.errand.as_ref().map(|errand| errand.polled())
    }

    /// Whether it is worth advancing.
    pub(super) fn is_ready(&self) -> bool {
        self.errand.as_ref().is_none_or(|errand| errand.polled().is_ready())
    }

    /// Goes on, which is recorded; whether it is still under way.
    pub(super) fn advance(&mut self, log: &Log) -> bool {
        let Some(errand) = &mut self.errand else { return false };
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

    /// Leaves it to the rank.
    pub(super) fn give_back(mut self) {
        if let Some(errand) = self.errand.take() {
            self.home.add(errand);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.home.lock().away -= 1;
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

    /// Takes everything, to carry it on; false when another thread has.
    fn lead(&self) -> bool {
        !mem::replace(&mut self.lock().led, true)
    }

    /// Leaves everything to whoever leads next.
    fn lead_no_more(&self, errands: Vec<Box<dyn Errand>>) {
        let mut state = self.lock();
        let rest = errands.into_iter().map(|errand| Idle { errand, fresh: false });
        state.idle.extend(rest);
        state.led = false;
        // One of those who wait is the next to lead.
        if state.followers > 0
            && let Some(first) = state.idle.first()
        {
            first.errand.polled().ring();
        }
    }
}

/// A home's errands as what goes on in one of the rank's threads.
struct Carrier {
    home: Weak<Home>,
    /// What this thread carries on, while it leads.
    led: RefCell<Option<Vec<Box<dyn Errand>>>>,
    follows: Cell<bool>,
    next_look: Cell<Option<Instant>>,
}

impl Carrier {
    /// Sees to it that the rank's waits in this thread carry its errands on.
    fn join(home: &Arc<Home>) {
        home.rank.progress_with(Arc::as_ptr(home).addr(), || {
            Rc::new(Self {
                home: Arc::downgrade(home),
                led: RefCell::default(),
                follows: Cell::default(),
                next_look: Cell::default(),
            })
        });
    }

    /// Calls `with` for each errand that this thread carries on.
    fn each(&self, mut with: impl FnMut(&Polled)) {
        if let Ok(led) = self.led.try_borrow() {
            led.iter().flatten().for_each(|errand| with(&errand.polled()));
        }
    }

    /// Looks now and then whether what it carries on is in vain.
    fn look(&self) {
        let Some(interval) = self.tick() else { return };
        let now = Instant::now();
        if self.next_look.get().is_none_or(|next| now >= next) {
            // Not before a first interval is over.
            if self.next_look.replace(Some(now + interval)).is_some() {
                self.each(Polled::look);
            }
        }
    }
}

impl Part for Carrier {
    fn advance(&self) -> Advanced {
        let Some(home) = self.home.upgrade() else { return Advanced::Over };
        // It is borrowed where an errand calls this in turn.
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

    /// Leaves the errands to whichever thread waits next.
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

/// Whether it is still under way.
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
    /// Those of a rank.
    ///
    /// # Errors
    /// As [`Builder::start`](super::Builder::start), for an automatic thread.
    pub fn of(rank: &Rank, progress: impl Into<Progress>) -> Result<Self> {
        let threads = progress.into().threads(rank)?;
        let home = rank.kept(|| Ok(Home { rank: rank.clone(), state: Mutex::default() }))?;
        Ok(Self { home, threads: threads.map(|threads| (threads.clone(), threads.turn())) })
    }

    /// The threads that carry them on; `None` when the rank does.
    pub fn threads(&self) -> Option<&CommThreads> {
        self.threads.as_ref().map(|(threads, _)| threads)
    }

    /// Whether they go on only in calls of the rank, as by design or because their threads were
    /// stopped.
    pub fn are_in_calls(&self) -> bool {
        self.threads.as_ref().is_none_or(|(threads, _)| !threads.any_open())
    }

    /// The rank whose they are.
    pub fn rank(&self) -> &Rank {
        &self.home.rank
    }

    /// Sees to it that the rank's waits in this thread carry on what the rank has to carry on itself.
    pub fn join(&self) {
        Carrier::join(&self.home);
    }

    /// Something is to be done. A thread that is switched off or was stopped gets nothing new: then
    /// another of its set does, or the rank itself, at once as far as it can without waiting.
    pub fn begin(&self, errand: Box<dyn Errand>) {
        let given = match &self.threads {
            None => Err(errand),
            Some((threads, turn)) => {
                match threads.take_errand(Task::new(errand, &self.home), *turn) {
                    Some(mut task) => task.errand.take().map_or(Ok(()), Err),
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

    /// Brings on whatever the rank has under way in this thread, as far as that can be without waiting.
    pub fn advance(&self) {
        Carrier::join(&self.home);
        self.home.rank.progress(0);
    }

    /// Waits until `done` is true of a moment after `polled` was [rung](Polled::ring); false when the
    /// limit of `wait` was over before. What the rank has to carry on itself goes on meanwhile. A
    /// report shows it as a wait for the flag of `polled`.
    ///
    /// # Errors
    /// [`Error::Segment`](mp_core::Error::Segment) when the world's memory is broken.
    pub fn wait(&self, polled: &Polled, wait: Wait, done: &dyn Fn() -> bool) -> Result<bool> {
        Carrier::join(&self.home);
        polled.wait_until(wait, done)
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("polled", &self.polled()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Home").field("idle", &state.idle.len()).field("led", &state.led).finish()
    }
}
