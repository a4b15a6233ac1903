//! What is still to be sent when the last communicator is dropped.
//!
//! To wait for it there would hang where the rank's code fails: its communicators are dropped on the way
//! out, and the receiver may sit in an operation that this rank never comes to. So such an engine lingers
//! in its thread. Calls of other communicators bring it on, and when the rank's code has returned, the
//! rank waits until it is done; when the code has failed, or panicked, what was to be sent is given up.
//!
//! An engine that has something to send, or keeps payloads until they are asked for, is brought on in the same way
//! while its communicators are there: its rank may wait in a communicator of another one for something that
//! depends on that.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
};

use mp_core::Rank;

use crate::{
    engine::{Engine, Shared},
    error::Error,
};

thread_local! {
    /// Looked at by every call that waits.
    static ANY: Cell<bool> = const { Cell::new(false) };
    static ENGINES: RefCell<Vec<Shared>> = const { RefCell::new(Vec::new()) };
}

/// Whether there are any engines in this thread that other engines' calls bring on.
#[inline(always)]
pub(crate) fn any() -> bool {
    ANY.get()
}

/// Those engines.
pub(crate) fn all() -> Vec<Shared> {
    match any() {
        true => ENGINES.with_borrow(Clone::clone),
        false => Vec::new(),
    }
}

/// Has other engines' calls bring on an engine, until it is [forgotten](forget).
pub(crate) fn join(engine: &Weak<RefCell<Engine>>) {
    if let Some(engine) = engine.upgrade() {
        insert(&engine);
    }
}

/// See [`join`].
pub(crate) fn forget(engine: &Weak<RefCell<Engine>>) {
    ENGINES.with_borrow_mut(|engines| {
        engines.retain(|other| !Weak::ptr_eq(&Rc::downgrade(other), engine));
        ANY.set(!engines.is_empty());
    });
}

fn insert(engine: &Shared) {
    ENGINES.with_borrow_mut(|engines| {
        if !engines.iter().any(|other| Rc::ptr_eq(other, engine)) {
            engines.push(Rc::clone(engine));
        }
    });
    ANY.set(true);
}

/// Keeps an engine until it is done, or its rank has failed.
pub(crate) fn keep(rank: &Rank, engine: &Shared) {
    /// Gives up what is left when it is dropped.
    struct Keeper;
    impl Drop for Keeper {
        fn drop(&mut self) {
            ANY.set(false);
            drop(ENGINES.take());
        }
    }
    insert(engine);
    let keeper = Keeper;
    let finish = move || {
        let _keeper = keeper;
        for engine in all() {
            finish(&engine);
        }
    };
    // Another thread of the rank, of which nobody knows how it ends.
    if let Some(finish) = rank.at_end(finish) {
        finish();
    }
}

fn finish(engine: &Shared) {
    if let Ok(mut engine) = engine.try_borrow_mut() {
        // The program has no call left that could fail.
        while let Err(Error::Unsent { .. }) = engine.finish() {}
    }
}

/// Brings on what can be brought on, and drops the engines that are done. Returns whether there were any.
pub(crate) fn bring_on() -> bool {
    let mut done = Vec::new();
    for engine in all() {
        if engine.try_borrow_mut().is_ok_and(|mut engine| engine.is_finished()) {
            done.push(engine);
        }
    }
    ENGINES.with_borrow_mut(|engines| {
        engines.retain(|engine| !done.iter().any(|done| Rc::ptr_eq(done, engine)));
        ANY.set(!engines.is_empty());
    });
    !done.is_empty()
}
