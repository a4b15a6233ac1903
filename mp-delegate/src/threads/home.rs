//! Errands that a rank carries on within its own calls.
//!
//! A communication thread advances errands beside its lanes. Otherwise they are at *home*: one of the rank's threads
//! that wait *leads*, and advances all errands of the rank, not only the one that it waits for. The others follow, and
//! one of them is the next to lead. So ranks may call operations of several fronts in different orders, and nothing
//! blocks, whichever thread runs them. A thread that is stopped gives its errands to another, or home.
//!
//! Every errand that waits marks its line in its MPBs, as a blocking wait does; after the fence, all flags are looked
//! at once more. Nothing is advanced between marking and sleeping, because an errand that was advanced might wait for
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
    Rank, Result,
    delegate::discard,
    mpb::{Polled, Tick},
    progress::{Advanced, Part, as_part},
};

use super::errand::{Errand, Step};

/// The errands that a rank must carry on by itself, in its calls.
pub(super) struct Home {
    pub(super) rank: Rank,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// Errands that no thread is carrying on at the moment.
    pub(super) idle: Vec<Idle>,
    /// Whether a thread of the rank has taken the other errands.
    pub(super) led: bool,
    /// The number of the rank's threads that wait beside that thread.
    followers: usize,
    /// The number of errands that communication threads carry on, and may give back.
    pub(super) away: usize,
    /// The tasks to wake when a thread has given an errand back.
    pub(super) awaiting: Vec<Weak<Awaiting>>,
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
pub(super) struct Idle {
    errand: Box<dyn Errand>,
    fresh: bool,
}

impl Home {
    /// Returns the home of a rank's errands.
    pub(super) fn of(rank: &Rank) -> Result<Arc<Self>> {
        rank.kept(|| Ok(Self { rank: rank.clone(), state: Mutex::default() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, errand: Box<dyn Errand>) {
        let polled = errand.polled();
        let mut state = self.lock();
        state.idle.push(Idle { errand, fresh: true });
        if state.led {
            polled.ring();
        }
    }

    pub(super) fn wake_tasks(&self) {
        let awaiting = self.lock().awaiting.clone();
        awaiting.iter().filter_map(Weak::upgrade).for_each(|awaiting| awaiting.wake());
    }

    /// Takes all errands, to carry them on. Returns false when another thread has taken them.
    fn lead(&self) -> bool {
        !mem::replace(&mut self.lock().led, true)
    }

    /// Does some work as the only thread that carries on errands. Returns `None` when another thread has taken them.
    pub(super) fn while_leading<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        struct Leading<'a>(&'a Home);
        impl Drop for Leading<'_> {
            fn drop(&mut self) {
                self.0.lead_no_more(Vec::new());
            }
        }
        self.lead().then(|| {
            let _leading = Leading(self);
            as_part(work)
        })
    }

    /// Makes the thread that carries on the errands, if there is one, look at what they wait for now.
    pub(super) fn renew(&self, polled: &Polled) {
        if self.lock().led {
            polled.ring();
        }
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
pub(super) struct Carrier {
    home: Weak<Home>,
    /// The errands that this thread carries on while it leads.
    led: RefCell<Option<Vec<Box<dyn Errand>>>>,
    follows: Cell<bool>,
    tick: Tick,
}

impl Carrier {
    /// Makes the rank's waits in this thread carry on its errands.
    pub(super) fn join(home: &Arc<Home>) {
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

    /// Checks from time to time whether the errands of this thread wait in vain.
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

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Home").field("idle", &state.idle.len()).field("led", &state.led).finish()
    }
}
