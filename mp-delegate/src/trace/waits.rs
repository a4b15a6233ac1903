//! Spans for the waits of a rank's thread, whatever call they are in, and for the messages that its calls advance.

use std::{
    cell::Cell,
    sync::{Arc, Mutex, Weak},
};

use mp_core::{
    Operation,
    waits::{Listener, listen},
};

use super::{
    span::{Detail, Kind},
    store::{Begun, On, Shared, Thread, lock},
};

thread_local! {
    /// The place where this thread's waits are recorded. The pointer is only compared.
    static RECORDED: Cell<*const Mutex<Thread>> = const { Cell::new(std::ptr::null()) };
}

/// Records the waits of the calling thread with this recorder from now on.
pub(super) fn record(on: &On) {
    let thread = Arc::as_ptr(&on.thread);
    if RECORDED.replace(thread) != thread {
        // The weak pointer keeps the address from being used again, but does not keep the recording.
        let (thread, shared) = (Arc::downgrade(&on.thread), Arc::downgrade(&on.shared));
        listen(Some(Box::new(Waits { thread, shared, open: Cell::new(None) })));
    }
}

struct Waits {
    thread: Weak<Mutex<Thread>>,
    shared: Weak<Shared>,
    open: Cell<Option<(On, Begun, Kind)>>,
}

impl Waits {
    /// Returns the recorder, as long as there is one besides the recording.
    fn on(&self) -> Option<On> {
        let on =
            On { thread: self.thread.upgrade()?, shared: self.shared.upgrade()?, is_rank: true };
        (Arc::strong_count(&on.thread) > 2).then_some(on)
    }
}

impl Listener for Waits {
    fn begin(&self, operation: Operation) {
        let kind = match operation {
            Operation::Receive | Operation::Select => Kind::Receive,
            _ => Kind::Wait,
        };
        let Some(on) = self.on() else { return };
        let within = lock(&on.thread).open.last().map(|&(_, kind)| kind);
        if within.is_none_or(|kind| kind == Kind::Compute) {
            let begun = on.begin(kind);
            self.open.set(Some((on, begun, kind)));
        }
    }

    fn end(&self) {
        if let Some((on, begun, kind)) = self.open.take() {
            on.end(begun, kind, Detail::default());
        }
    }

    fn messages(&self, advance: &mut dyn FnMut() -> bool) -> bool {
        let Some(on) = self.on() else { return advance() };
        let begun = on.begin(Kind::Messages);
        let moved = advance();
        match moved {
            true => on.end(begun, Kind::Messages, Detail::default()),
            false => on.forget(begun.start),
        }
        moved
    }
}
