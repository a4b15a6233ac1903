//! The waits of this process, counted from when a tool first asks for it. Those that end within the first looks, which
//! take some microseconds, are not counted.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use mp_core::{
    Operation,
    waits::{Listener, listen},
};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages, room for messages, or requests.
    Messages,
    /// Flags that other ranks set, in blocking collective operations and with windows.
    Flags,
}

/// What there was of one kind.
#[derive(Debug)]
struct Sum {
    waits: AtomicU64,
    nanos: AtomicU64,
}

static SUMS: [Sum; 2] = [const { Sum { waits: AtomicU64::new(0), nanos: AtomicU64::new(0) } }; 2];

/// Whether waits are counted.
static COUNTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the waits of this thread are counted.
    static COUNTS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// A wait that is counted when this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    kind: Kind,
    began: Instant,
}

impl Counted {
    fn new(kind: Kind) -> Self {
        Self { kind, began: Instant::now() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let sum = &SUMS[self.kind as usize];
        sum.waits.fetch_add(1, Relaxed);
        sum.nanos.fetch_add(self.began.elapsed().as_nanos() as u64, Relaxed);
    }
}

/// Counts the waits of a thread.
struct Counter(Cell<Option<Counted>>);

impl Listener for Counter {
    fn begin(&self, operation: Operation) {
        let kind = match operation {
            Operation::Flag => Kind::Flags,
            _ => Kind::Messages,
        };
        self.0.set(Some(Counted::new(kind)));
    }

    fn end(&self) {
        self.0.take();
    }
}

/// Counts the waits of this thread from now on, and those of all threads that wait for others' turns.
pub(crate) fn count() {
    COUNTS.store(true, Relaxed);
    if !COUNTS_HERE.replace(true) {
        listen(Some(Box::new(Counter(Cell::new(None)))));
    }
}

/// Begins a wait for requests, if waits are counted.
pub(crate) fn begin() -> Option<Counted> {
    COUNTS.load(Relaxed).then(|| Counted::new(Kind::Messages))
}

/// Returns how many waits of a kind there were.
pub(crate) fn number(kind: Kind) -> u64 {
    SUMS[kind as usize].waits.load(Relaxed)
}

/// Returns how many nanoseconds they took.
pub(crate) fn nanos(kind: Kind) -> u64 {
    SUMS[kind as usize].nanos.load(Relaxed)
}
