//! A world for models: words, a place for each seat to sleep, and deaths.
//!
//! A thread can die instead of performing a store to a `Word`, at every such store and in every interleaving. The
//! others must end, and what each was told of its operations must be true.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::{self, Arc},
};

use loom::{
    sync::{Condvar, Mutex},
    thread::{self, JoinHandle},
};
use mp_core::memory::{RaceMarker, Word, full_fence, interleavings, live_for};

use super::{
    site::{Limit, Mortal, Seat, Site, seat},
    stop::Stop,
};

/// The number of looks before a limit is over.
const LOOKS: usize = 2;

/// See the [module](self).
#[derive(Clone)]
pub(super) struct Model(Rc<Inner>);

struct Inner {
    /// The words. Few of a block's words are used.
    words: Vec<Word>,
    /// How often each was rung.
    beds: Vec<(Mutex<u64>, Condvar)>,
    /// For each seat, a value that is not 0 while others may wait for it.
    inside: Vec<Word>,
    /// A bit for each seat that is dead.
    dead: Word,
    /// A bit for each seat of a rank that is gone, of which a thread may still be at work.
    gone: Word,
    /// 1 + the seat whose loss makes all seats give up.
    given_up: Word,
    healer: Word,
    void: Word,
    protected: RaceMarker,
    /// The two words that an operation writes. The seat may die between the two writes. In a good value they are equal.
    value: [Word; 2],
    /// How often the value was repaired.
    repairs: Cell<usize>,
    /// How often something was done in mutual exclusion.
    count: Cell<usize>,
    /// For each seat: the count when it began to wait for its operation.
    since: Vec<Cell<Option<usize>>>,
    /// The most operations that were executed between that and the seat's own.
    overtaken: Cell<usize>,
    /// How often each operation was begun, and how it ended for the seat that had asked for it.
    begun: RefCell<BTreeMap<u64, usize>>,
    /// How often each operation may be executed again.
    permitted: RefCell<BTreeMap<u64, usize>>,
    ended: RefCell<BTreeMap<u64, Ended>>,
}

/// How an operation ended for the seat that had asked for it, if that lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// It was executed once or not at all.
    Unknown,
    /// It was not executed.
    Lost,
    /// A rank is gone that may have executed it, or may yet do so.
    Gone,
}

impl Model {
    pub(super) fn new(words: usize, seats: usize) -> Self {
        let some = |count: usize| (0..count).map(|_| Word::new(0)).collect();
        Self(Rc::new(Inner {
            words: some(words),
            beds: (0..seats).map(|_| (Mutex::new(0), Condvar::new())).collect(),
            inside: some(seats),
            dead: Word::new(0),
            gone: Word::new(0),
            given_up: Word::new(0),
            healer: Word::new(0),
            void: Word::new(0),
            protected: RaceMarker::new(),
            value: [Word::new(0), Word::new(0)],
            repairs: Cell::default(),
            count: Cell::default(),
            since: (0..seats).map(|_| Cell::default()).collect(),
            overtaken: Cell::default(),
            begun: RefCell::default(),
            permitted: RefCell::default(),
            ended: RefCell::default(),
        }))
    }

    /// Does what is to be done in mutual exclusion. Returns how often it was done before.
    pub(super) fn count(&self) -> usize {
        self.0.protected.writing();
        self.0.count.replace(self.0.count.get() + 1)
    }

    pub(super) fn counted(&self) -> usize {
        self.0.protected.reading();
        self.0.count.get()
    }

    /// Returns the most operations that were executed between the beginning of a seat's wait and its own.
    pub(super) fn overtaken(&self) -> usize {
        self.0.overtaken.get()
    }

    /// The seat acts, and dies instead of its store of this number, if there is one. Returns whether it lived.
    pub(super) fn live_for(
        &self,
        me: Seat,
        stores: impl Into<Option<u64>>,
        act: impl FnOnce(),
    ) -> bool {
        let lived = match stores.into() {
            Some(stores) => live_for(stores, act),
            None => {
                act();
                true
            }
        };
        if !lived {
            self.0.dead.fetch_add(1 << me);
            self.wake_all();
        }
        lived
    }

    /// Makes the seat's rank go, whatever the seat is in the middle of.
    pub(super) fn go(&self, seat: Seat) {
        self.0.gone.fetch_add(1 << seat);
        self.wake_all();
    }

    /// Executes an operation of a seat. The operation has its own number. The seat may die in the middle.
    pub(super) fn execute(&self, seat: Seat, op: u64) {
        *self.0.begun.borrow_mut().entry(op).or_default() += 1;
        let before = self.count();
        if let Some(since) = self.0.since[seat].take() {
            self.0.overtaken.set(self.0.overtaken.get().max(before - since));
        }
        let [first, second] = &self.0.value;
        assert_eq!(first.load_relaxed(), second.load_relaxed(), "half a value, before {op}");
        first.store_relaxed(first.load_relaxed() + 1);
        second.store_relaxed(second.load_relaxed() + 1);
    }

    /// Repairs the value. The seat may die before or after that.
    pub(super) fn repair(&self) {
        self.0.protected.writing();
        self.0.repairs.set(self.0.repairs.get() + 1);
        let [first, second] = &self.0.value;
        second.store_relaxed(first.load_relaxed());
    }

    pub(super) fn repairs(&self) -> usize {
        self.0.repairs.get()
    }

    /// Notes how the operation ended for the seat that had asked for it.
    pub(super) fn note(&self, op: u64, ended: Ended) {
        self.0.ended.borrow_mut().insert(op, ended);
    }

    /// Notes that the operation was interrupted, and may be executed again.
    pub(super) fn permit(&self, op: u64) -> bool {
        *self.0.permitted.borrow_mut().entry(op).or_default() += 1;
        true
    }

    /// Checks that nothing was executed twice, unless it was interrupted, and that everything happened as it was
    /// reported.
    pub(super) fn check(&self) {
        let begun = self.0.begun.borrow();
        for (op, times) in &*begun {
            let permitted = self.0.permitted.borrow().get(op).copied().unwrap_or_default();
            assert!(*times <= 1 + permitted, "{op} was executed {times} times");
        }
        for (op, ended) in &*self.0.ended.borrow() {
            let times = begun.get(op).copied().unwrap_or_default();
            match ended {
                Ended::Done => assert!(times >= 1, "{op} was not executed"),
                Ended::Lost => assert_eq!(times, 0, "{op} was executed, and its result is lost"),
                Ended::Unknown | Ended::Gone => {}
            }
        }
    }

    /// Returns whether an operation of the seat was begun, and the seat was not told how it ended.
    pub(super) fn has_begun(&self, seat: Seat) -> bool {
        let ended = self.0.ended.borrow();
        self.0.begun.borrow().keys().any(|op| op / 100 == seat as u64 && !ended.contains_key(op))
    }

    /// Returns how many operations ended in this way.
    pub(super) fn ended(&self, how: Ended) -> usize {
        self.0.ended.borrow().values().filter(|&&ended| ended == how).count()
    }
}

impl Mortal for Model {
    fn seats(&self) -> usize {
        self.0.inside.len()
    }

    fn mark(&self, seat: Seat) -> &Word {
        &self.0.inside[seat]
    }

    fn is_dead(&self, seat: Seat) -> bool {
        self.0.dead.load() >> seat & 1 != 0
    }

    fn lost(&self) -> Option<Stop> {
        if let Some(seat) = self.0.given_up.load().checked_sub(1) {
            return Some(Stop::Lost(seat as Seat));
        }
        let missing = self.0.gone.load();
        let entered = |seat: Seat| seat::kind(self.mark(seat).load()) == seat::ENTERED;
        let lost = |&seat: &Seat| missing >> seat & 1 != 0 && entered(seat);
        let seat = (0..self.seats()).find(lost)?;
        if self.0.given_up.compare_exchange(0, seat as u64 + 1).is_ok() {
            self.wake_all();
        }
        Some(Stop::Lost(seat))
    }

    fn healer(&self) -> &Word {
        &self.0.healer
    }

    fn void(&self) -> &Word {
        &self.0.void
    }

    fn broken(&self) -> Option<Stop> {
        // As long as all live, no wait ends for another reason than its answer.
        if self.0.dead.load() | self.0.gone.load() == 0 {
            return None;
        }
        let void = || (self.is_stuck() || self.0.void.load() != 0).then_some(Stop::Void);
        self.lost().or_else(void)
    }

    /// Ends the limit after some looks: there is no time.
    fn linger<T>(
        &self,
        _: Seat,
        limit: Option<&Limit>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let mut looks = 0;
        loop {
            let answer = poll();
            looks += 1;
            if answer.is_some() || limit.is_some() && looks == LOOKS {
                return Ok(answer);
            }
            thread::yield_now();
        }
    }
}

impl Site for Model {
    type Word = Word;

    fn word(&self, index: usize) -> Result<&Word, Stop> {
        self.0.words.get(index).ok_or(Stop::Corrupt)
    }

    fn words(&self, first: usize, count: usize) -> Result<&[Word], Stop> {
        self.0.words.get(first..first + count).ok_or(Stop::Corrupt)
    }

    /// Looks once before it sleeps, as real sites do. Nothing else orders what it sees then.
    fn wait<T>(
        &self,
        me: Seat,
        _: Option<Seat>,
        _: &Word,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        if let Some(answer) = poll() {
            return Ok(answer);
        }
        let since = &self.0.since[me];
        since.set(since.get().or(Some(self.0.count.get())));
        let (bed, bell) = &self.0.beds[me];
        loop {
            // The lock is not held during the look, because a seat may die while it looks.
            let heard = *bed.lock().unwrap();
            full_fence();
            let answer = poll().map(Ok).or_else(|| {
                let broken = self.broken()?;
                Some(poll().ok_or(broken))
            });
            if let Some(answer) = answer {
                return answer;
            }
            let rung = bed.lock().unwrap();
            if *rung == heard {
                drop(bell.wait(rung).unwrap());
            }
        }
    }

    fn wait_until<T>(
        &self,
        me: Seat,
        _: &Word,
        limit: &Limit,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        self.linger_until(me, limit, || Ok(poll()))
    }

    fn begin(&self, me: Seat, request: u64) {
        self.0.inside[me].store(seat::entered(request));
    }

    fn approach(&self, me: Seat) {
        self.0.since[me].set(None);
        self.0.inside[me].store(seat::APPROACHES);
    }

    fn leave(&self, me: Seat) {
        // `hand_over` may have waited, and set this.
        self.0.since[me].set(None);
        self.0.inside[me].store(0);
    }

    fn gone(&self, seat: Seat) -> Option<Stop> {
        (self.0.dead.load() >> seat & 1 != 0).then_some(Stop::Lost(seat))
    }

    fn wake(&self, seat: Seat) {
        if let Some((bed, bell)) = self.0.beds.get(seat) {
            *bed.lock().unwrap() += 1;
            bell.notify_one();
        }
    }

    fn wake_all(&self) {
        (0..self.0.beds.len()).for_each(|seat| self.wake(seat));
    }

    /// Wakes the server, which sleeps in the last bed.
    fn wake_server(&self) {
        self.wake(self.0.beds.len() - 1);
    }

    fn fence(&self) {
        full_fence();
    }

    fn unserved(&self) -> bool {
        false
    }

    fn spins(&self) -> bool {
        false
    }
}

/// Runs `act` for each of the seats from 0 on, the first in this thread.
pub(super) fn each<T: 'static>(
    model: &Model,
    seats: usize,
    act: impl Fn(Seat, &Model) -> T + Copy + 'static,
) -> Vec<T> {
    let spawn = |me| {
        let model = model.clone();
        thread::spawn(move || act(me, &model))
    };
    let others: Vec<JoinHandle<T>> = (1..seats).map(spawn).collect();
    let first = act(0, model);
    std::iter::once(first).chain(others.into_iter().map(|other| other.join().unwrap())).collect()
}

/// Runs `test` in these [`interleavings`], which may be longer than those of mp-core.
pub(super) fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = interleavings(preemptions);
    model.max_branches = 10_000;
    model.check(test);
}

/// Returns the distance between the stores at which a seat dies: 1, or what `MODELS_EVERY` says.
fn every() -> usize {
    match std::env::var("MODELS_EVERY") {
        Ok(every) => every.parse().expect("MODELS_EVERY is a number from 1 on"),
        Err(_) => 1,
    }
}

/// [`explore`]s once for each store at which a seat can die. `test` is told after how many stores, and returns whether
/// the seat lived.
pub(super) fn at_every_store(
    preemptions: usize,
    test: impl Fn(u64) -> bool + Clone + Sync + Send + 'static,
) {
    for stores in (0..).step_by(every()) {
        let died = Arc::new(sync::Mutex::new(false));
        let (test, dead) = (test.clone(), Arc::clone(&died));
        explore(preemptions, move || {
            if !test(stores) {
                *dead.lock().unwrap() = true;
            }
        });
        if !*died.lock().unwrap() {
            assert!(stores > 1, "died {stores} times only");
            return;
        }
    }
}
