//! Messages that threads look for, which no request brings about, and a wait that ends when anything has moved.
//!
//! Waits advance the pending operations of the rank as its [parts](mp_core::progress). A part that only counts this sees
//! when the others have moved:
//!
//! ```text
//! advance, pause                     what is there already is taken, and may be what is looked for
//! advance, pause                     only if that has moved anything: then this wait is over
//! advance, sleep, advance .. pause   or the wait: it is over when an operation may go on, and has been advanced
//! ```

use std::{cell::Cell, rc::Rc};

use mp_collectives::communicator::{Communicator, Source, Status, Tag};
use mp_core::{
    Operation, Pending, Rank, Result,
    progress::{Advanced, Part},
    requests::{UnderWay, Watch},
};

/// A message that a thread looks for, without taking it.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'a> {
    pub communicator: &'a Communicator,
    pub source: Source,
    pub tag: Tag,
}

impl Sought<'_> {
    /// Returns the status of the message, if it is there. Messages that come before it may be stored.
    pub fn find(self) -> Result<Option<Status>> {
        self.communicator.try_probe(self.source, self.tag)
    }

    /// Returns how many messages are stored, among which other threads may find theirs.
    pub fn stored(self) -> usize {
        self.communicator.unexpected().messages
    }
}

/// What is done when an operation of the rank has moved in one wait of this thread.
pub(crate) struct Moves {
    rank: Rank,
    count: Rc<Count>,
}

/// How often the rank's parts were advanced.
#[derive(Debug, Default)]
struct Count {
    /// In the current wait.
    rounds: Cell<usize>,
    /// How many waits are over.
    waits: Cell<usize>,
}

impl Moves {
    /// Begins to count, until this is dropped.
    pub fn begin(rank: &Rank) -> Self {
        let count = Rc::new(Count::default());
        let rank = rank.clone();
        let part = Rc::clone(&count);
        rank.progress_with(key(&count), move || part);
        Self { rank, count }
    }
}

fn key(count: &Rc<Count>) -> usize {
    Rc::as_ptr(count).addr()
}

impl Drop for Moves {
    fn drop(&mut self) {
        self.rank.progress_without(key(&self.count));
    }
}

impl Pending for Moves {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        Some(UnderWay::Watched(self))
    }
}

impl Watch for Moves {
    fn rank(&self) -> Rank {
        self.rank.clone()
    }

    fn is_done(&self) -> bool {
        self.count.rounds.get() > 1 || self.count.waits.get() > 1
    }

    fn waited(&self) -> (Operation, Vec<u64>) {
        (Operation::Receive, Vec::new())
    }

    fn call(&self) -> Option<String> {
        Some("a message that is looked for".to_owned())
    }
}

impl Part for Count {
    fn advance(&self) -> Advanced {
        self.rounds.set(self.rounds.get() + 1);
        Advanced::Waits
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn raise(&self) {}

    fn lower(&self) {}

    fn pause(&self) {
        self.rounds.set(0);
        self.waits.set(self.waits.get() + 1);
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn awaits(&self) -> Vec<u64> {
        Vec::new()
    }
}
