//! A world for models: words, and a place for each seat to sleep at.

use std::{cell::Cell, rc::Rc};

use loom::sync::{Condvar, Mutex};
use mp_core::memory::{RaceMarker, Word, full_fence};

use super::{
    error::Stop,
    site::{Seat, Site},
};

/// See the [module](self).
#[derive(Clone)]
pub(super) struct Model(Rc<Inner>);

struct Inner {
    /// Few of a block's words are used.
    words: Vec<Word>,
    beds: Vec<(Mutex<()>, Condvar)>,
    protected: RaceMarker,
    count: Cell<usize>,
}

impl Model {
    pub(super) fn new(words: usize, seats: usize) -> Self {
        let beds = (0..seats).map(|_| (Mutex::new(()), Condvar::new())).collect();
        let words = (0..words).map(|_| Word::new(0)).collect();
        let (protected, count) = (RaceMarker::new(), Cell::new(0));
        Self(Rc::new(Inner { words, beds, protected, count }))
    }

    /// What is to be done in mutual exclusion. The number of times before.
    pub(super) fn count(&self) -> usize {
        self.0.protected.writing();
        self.0.count.replace(self.0.count.get() + 1)
    }

    pub(super) fn counted(&self) -> usize {
        self.0.protected.reading();
        self.0.count.get()
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

    /// Looks once before it sleeps, as in earnest; what it sees then nothing else orders.
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
        let (bed, bell) = &self.0.beds[me];
        let mut bed = bed.lock().unwrap();
        loop {
            full_fence();
            if let Some(answer) = poll() {
                return Ok(answer);
            }
            bed = bell.wait(bed).unwrap();
        }
    }

    fn wake(&self, seat: Seat) {
        if let Some((bed, bell)) = self.0.beds.get(seat) {
            drop(bed.lock().unwrap());
            bell.notify_one();
        }
    }

    fn wake_all(&self) {
        (0..self.0.beds.len()).for_each(|seat| self.wake(seat));
    }

    /// The one who serves sleeps in the last bed.
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

/// As in mp-core: all interleavings with up to so many involuntary changes of the thread.
pub(super) fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(preemptions));
    model.max_branches = 10_000;
    model.check(test);
}
