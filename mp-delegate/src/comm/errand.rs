//! Work for a rank that goes on in steps, between which it waits for flags of other ranks: carried
//! on by a communication thread, or within the rank's own calls.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use mp_core::{
    Rank, Result, Wait,
    mpb::{Delegation, Polled},
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
#[derive(Default)]
pub(super) struct Home {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that nobody is carrying on at the moment.
    idle: Vec<Fresh>,
    /// Whether a thread of the rank has taken the others.
    led: bool,
    /// Threads of the rank that wait beside it.
    followers: usize,
}

/// An errand that is to be advanced before anybody asks whether it can be.
struct Fresh(Box<dyn Errand>);

/// An errand in the hands of a communication thread.
pub(super) struct Task {
    pub(super) errand: Box<dyn Errand>,
    home: Arc<Home>,
    _at_work: Delegation,
}

impl Task {
    /// Goes on, which is recorded; whether it is still under way.
    pub(super) fn advance(&mut self, log: &Log) -> bool {
        loop {
            let span = log.collective(|| self.errand.about());
            let step = self.errand.advance();
            drop(span);
            match step {
                Step::Waits => return true,
                Step::Next => {}
                Step::Over => return false,
            }
        }
    }

    /// Leaves it to the rank.
    pub(super) fn give_back(self) {
        self.home.add(self.errand);
    }
}

impl Home {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, errand: Box<dyn Errand>) {
        let polled = errand.polled();
        let mut state = self.lock();
        state.idle.push(Fresh(errand));
        if state.led {
            polled.ring();
        }
    }

    /// Takes everything, to carry it on. `None` when another thread has.
    fn lead<'a>(&'a self, polled: &'a Polled) -> Option<Lead<'a>> {
        let mut state = self.lock();
        (!mem::replace(&mut state.led, true)).then(|| Lead { home: self, polled, all: Vec::new() })
    }

    fn has_news(&self) -> bool {
        !self.lock().idle.is_empty()
    }
}

/// A thread that carries on a rank's errands.
struct Lead<'a> {
    home: &'a Home,
    polled: &'a Polled,
    all: Vec<Box<dyn Errand>>,
}

impl Lead<'_> {
    fn advance(&mut self) {
        let news = mem::take(&mut self.home.lock().idle);
        let new = self.all.len();
        self.all.extend(news.into_iter().map(|fresh| fresh.0));
        let mut at = 0;
        self.all.retain_mut(|errand| {
            at += 1;
            let asleep = at <= new && !errand.polled().is_ready();
            asleep || until_it_waits(&mut **errand)
        });
    }

    /// Until `done` is true, or the limit is over: then false.
    fn wait(&mut self, wait: Wait, began: Instant, done: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            self.advance();
            if done() {
                return Ok(true);
            }
            let polled: Vec<_> = self.all.iter().map(|errand| errand.polled()).collect();
            let several: Vec<_> = polled.iter().map(|polled| &**polled).collect();
            let also = || done() || self.home.has_news();
            if !Polled::wait_any(self.polled, &several, wait.since(began), also)? {
                return Ok(done());
            }
        }
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

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = self.home.lock();
        state.idle.extend(self.all.drain(..).map(Fresh));
        state.led = false;
        if state.followers > 0 {
            // One of them is the next to lead.
            self.polled.ring();
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
        let home = rank.kept(|| Ok(Home::default()))?;
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

    /// Whether both are of the same rank.
    pub fn is_of_same_rank(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.home, &other.home)
    }

    /// Something is to be done. A thread that is switched off or was stopped gets nothing new: then
    /// another of its set does, or the rank itself, at once as far as it can without waiting.
    pub fn begin(&self, errand: Box<dyn Errand>) {
        let polled = errand.polled();
        let Some((threads, turn)) = &self.threads else {
            self.home.add(errand);
            return self.advance(&polled);
        };
        let task = Task { errand, home: Arc::clone(&self.home), _at_work: polled.delegate() };
        if let Some(task) = threads.take_errand(task, *turn) {
            task.give_back();
            self.advance(&polled);
        }
    }

    /// Carries on what the rank has to carry on itself, as far as that can be without waiting.
    /// `polled` is any of the rank.
    pub fn advance(&self, polled: &Polled) {
        if let Some(mut lead) = self.home.lead(polled) {
            lead.advance();
        }
    }

    /// Waits until `done` is true of a moment after `polled` was [rung](Polled::ring); false when the
    /// limit of `wait` was over before. What the rank has to carry on itself goes on meanwhile. A
    /// report shows it as a wait for the flag of `polled`.
    ///
    /// # Errors
    /// [`Error::Segment`](mp_core::Error::Segment) when the world's memory is broken.
    pub fn wait(&self, polled: &Polled, wait: Wait, done: &dyn Fn() -> bool) -> Result<bool> {
        let began = Instant::now();
        loop {
            if let Some(mut lead) = self.home.lead(polled) {
                return lead.wait(wait, began, done);
            }
            self.home.lock().followers += 1;
            let free = || done() || !self.home.lock().led;
            let woken = Polled::wait_any(polled, &[], wait.since(began), free);
            self.home.lock().followers -= 1;
            if done() {
                return Ok(true);
            }
            if !woken? {
                return Ok(false);
            }
        }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("polled", &self.errand.polled()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Home").field("idle", &state.idle.len()).field("led", &state.led).finish()
    }
}
