//! Something that a rank has lent to a communication thread. It lies in the loan, except while the thread advances it.
//! The rank can take it back at any time, and waits at most until the thread has put it back.
//!
//! The rank has priority: while it [wants](State::wanted) what it has lent, no thread takes it out.

use std::{mem, sync::PoisonError};

use mp_core::progress::Advanced;

#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};

/// Something that can be lent.
pub(crate) trait Lendable {
    /// Goes on as far as it can without waiting. Returns whether anything moved.
    fn bring_on(&mut self) -> bool;

    /// Returns whether [`bring_on`](Self::bring_on) may move something.
    fn is_ready(&self) -> bool;

    /// Requests that the rank's doorbell is rung when it may be ready.
    fn raise(&self);

    /// Withdraws the request of [`raise`](Self::raise).
    fn lower(&self);
}

/// See the [module](self).
pub(crate) struct Loan<L: Lendable> {
    state: Mutex<State<L>>,
    /// Signalled when what is [wanted](State::wanted) is put back, and when it is no longer wanted.
    changed: Condvar,
}

struct State<L> {
    /// `None` while the rank has it, and while a thread advances it.
    lent: Option<Box<L>>,
    /// Whether a thread has taken it out to advance it.
    is_out: bool,
    /// Whether the rank waits to have it back.
    wanted: bool,
    /// Whether the thread looks at it again even if [`Lendable::is_ready`] is false.
    fresh: bool,
    /// Whether its flags are raised.
    raised: bool,
    /// Whether a thread looks after this.
    served: bool,
}

impl<L: Lendable> State<L> {
    fn lower(&mut self) {
        if mem::take(&mut self.raised)
            && let Some(lent) = &self.lent
        {
            lent.lower();
        }
    }
}

impl<L: Lendable> Loan<L> {
    pub(crate) fn new() -> Self {
        let state = State {
            lent: None,
            is_out: false,
            wanted: false,
            fresh: false,
            raised: false,
            served: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State<L>>) -> MutexGuard<'a, State<L>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    // --- the rank ---

    /// Lends something. Returns whether a thread already looks after the loan: in that case the caller rings the
    /// thread.
    pub(crate) fn give(&self, lent: Box<L>) -> bool {
        let mut state = self.lock();
        state.lent = Some(lent);
        state.fresh = true;
        mem::replace(&mut state.served, true)
    }

    /// Takes it back.
    pub(crate) fn take(&self) -> Option<Box<L>> {
        let mut state = self.wait_until_it_is_in();
        state.lower();
        state.lent.take()
    }

    /// Looks at it, or changes it, in place. Returns `None` if nothing is lent.
    pub(crate) fn glance<T>(&self, look: impl FnOnce(&mut L) -> T) -> Option<T> {
        Some(look(self.wait_until_it_is_in().lent.as_mut()?))
    }

    /// Makes the thread look again. The caller must ring the thread.
    pub(crate) fn refresh(&self) {
        self.lock().fresh = true;
    }

    /// Waits until no thread is advancing it.
    fn wait_until_it_is_in(&self) -> MutexGuard<'_, State<L>> {
        let mut state = self.lock();
        if state.is_out {
            state.wanted = true;
            while state.is_out {
                state = self.wait(state);
            }
            state.wanted = false;
            // A thread may wait to take it out again.
            self.changed.notify_all();
        }
        state
    }

    // --- the thread ---

    /// Advances it, if it is lent.
    pub(crate) fn advance(&self) -> Advanced {
        match self.take_out() {
            Some(mut out) => out.advance(),
            None => Advanced::Over,
        }
    }

    fn take_out(&self) -> Option<Out<'_, L>> {
        let mut state = self.lock();
        // The rank goes first. Otherwise it would get the loan back only by luck.
        while state.wanted {
            state = self.wait(state);
        }
        if state.lent.is_none() {
            state.served = false;
            return None;
        }
        state.lower();
        state.fresh = false;
        state.is_out = true;
        Some(Out { loan: self, lent: state.lent.take(), moved: false })
    }

    /// Returns whether [`advance`](Self::advance) may move something, or would say that it is over.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.lock();
        let Some(lent) = &state.lent else { return true };
        state.fresh || lent.is_ready()
    }

    /// Raises its flags, before the thread looks for the last time and sleeps.
    pub(crate) fn raise(&self) {
        let mut state = self.lock();
        if let Some(lent) = &state.lent {
            lent.raise();
            state.raised = true;
        }
    }

    /// Lowers its flags again.
    pub(crate) fn lower(&self) {
        self.lock().lower();
    }

    /// Records that no thread looks after the loan any more.
    pub(crate) fn leave(&self) {
        self.lock().served = false;
    }
}

/// What a thread has taken out. It is put back when this is dropped, even by a panic.
struct Out<'a, L: Lendable> {
    loan: &'a Loan<L>,
    lent: Option<Box<L>>,
    moved: bool,
}

impl<L: Lendable> Out<'_, L> {
    fn advance(&mut self) -> Advanced {
        let Some(lent) = &mut self.lent else { return Advanced::Over };
        self.moved = lent.bring_on();
        match self.moved {
            true => Advanced::Moved,
            false => Advanced::Waits,
        }
    }
}

impl<L: Lendable> Drop for Out<'_, L> {
    fn drop(&mut self) {
        let mut state = self.loan.lock();
        state.lent = self.lent.take();
        state.is_out = false;
        state.fresh = self.moved;
        if state.wanted {
            self.loan.changed.notify_all();
        }
    }
}

#[cfg(all(test, loom))]
mod model;
