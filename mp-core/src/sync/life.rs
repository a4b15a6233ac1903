//! Threads that can be made to die at any store, for tests of the state that a killed rank leaves behind.
//!
//! A dead thread unwinds, so that the test can go on. Its later stores have no effect, so that shared memory stays as a
//! kill would have left it.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

#[derive(Clone, Copy)]
enum Life {
    Immortal,
    /// The thread dies at the store after this many.
    Left(u64),
    Ghost,
}

#[cfg(not(loom))]
thread_local! {
    static LIFE: Cell<Life> = const { Cell::new(Life::Immortal) };
}

#[cfg(loom)]
loom::thread_local! {
    static LIFE: Cell<Life> = Cell::new(Life::Immortal);
}

struct Death;

/// Runs `act`, and kills it in place of its store number `stores` (from 0). Returns whether `act` came to its end.
pub fn live_for(stores: u64, act: impl FnOnce()) -> bool {
    LIFE.with(|life| life.set(Life::Left(stores)));
    let ended = catch_unwind(AssertUnwindSafe(act));
    LIFE.with(|life| life.set(Life::Immortal));
    match ended {
        Ok(()) => true,
        Err(payload) if payload.is::<Death>() => false,
        Err(payload) => resume_unwind(payload),
    }
}

/// Counts a store. Returns whether the store may have its effect.
pub(crate) fn arrives() -> bool {
    match LIFE.with(Cell::get) {
        Life::Immortal => true,
        Life::Left(0) => {
            LIFE.with(|life| life.set(Life::Ghost));
            // `resume_unwind` prints nothing, unlike `panic!`.
            resume_unwind(Box::new(Death))
        }
        Life::Left(more) => {
            LIFE.with(|life| life.set(Life::Left(more - 1)));
            true
        }
        Life::Ghost => false,
    }
}
