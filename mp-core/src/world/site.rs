//! Places in the source where worlds are run, and what each thread has run so far.
//!
//! A process rank re-executes the program, and must know which of its `run` calls is meant. A
//! place may be passed several times, so that the calls are counted; and what a call before the
//! meant one returned is replayed in the rank, so that the program takes the same path.

use std::{cell::RefCell, collections::HashMap, panic::Location};

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Site {
    file: String,
    line: u32,
    column: u32,
}

impl Site {
    pub(crate) fn new(location: &Location<'_>) -> Self {
        let (file, line) = (location.file().to_owned(), location.line());
        Self { file, line, column: location.column() }
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One call of `run`: where, and the how-manieth on its thread (from 0).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Call {
    pub(crate) site: Site,
    pub(crate) nth: u32,
}

/// A call that is over, with its result encoded.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Past {
    pub(crate) call: Call,
    pub(crate) result: Vec<u8>,
}

#[derive(Default)]
struct Journal {
    counts: HashMap<Site, u32>,
    past: Vec<Past>,
}

thread_local! {
    static JOURNAL: RefCell<Journal> = RefCell::default();
}

/// Counts a call at this place.
pub(crate) fn count(site: Site) -> Call {
    JOURNAL.with_borrow_mut(|journal| {
        let count = journal.counts.entry(site.clone()).or_default();
        let nth = *count;
        *count += 1;
        Call { site, nth }
    })
}

/// Keeps the result of a call of this thread for its later process ranks.
pub(crate) fn remember(call: Call, result: Vec<u8>) {
    JOURNAL.with_borrow_mut(|journal| journal.past.push(Past { call, result }));
}

/// What this thread has run so far.
pub(crate) fn past() -> Vec<Past> {
    JOURNAL.with_borrow(|journal| journal.past.clone())
}
