//! A world for models: words, and waiting by letting others run.

use std::{cell::Cell, rc::Rc};

use mp_core::memory::{RaceMarker, Word};

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
    protected: RaceMarker,
    count: Cell<usize>,
}

impl Model {
    pub(super) fn new(words: usize) -> Self {
        let words = (0..words).map(|_| Word::new(0)).collect();
        let (protected, count) = (RaceMarker::new(), Cell::new(0));
        Self(Rc::new(Inner { words, protected, count }))
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
    fn word(&self, index: usize) -> Result<&Word, Stop> {
        self.0.words.get(index).ok_or(Stop::Corrupt)
    }

    fn words(&self, first: usize, count: usize) -> Result<&[Word], Stop> {
        self.0.words.get(first..first + count).ok_or(Stop::Corrupt)
    }

    fn wait<T>(
        &self,
        _: Seat,
        _: Option<Seat>,
        _: &Word,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        loop {
            if let Some(answer) = poll() {
                return Ok(answer);
            }
            loom::thread::yield_now();
        }
    }

    fn wake(&self, _: Seat) {}

    fn wake_server(&self) {}

    fn unserved(&self) -> bool {
        false
    }

    fn spins(&self) -> bool {
        false
    }

    fn wake_all(&self) {}

    fn fence(&self) {}
}

/// As in mp-core: all interleavings with up to so many involuntary changes of the thread.
pub(super) fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(preemptions));
    model.max_branches = 10_000;
    model.check(test);
}
