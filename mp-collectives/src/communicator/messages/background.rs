//! An engine as a part of its rank's thread: all waits of the thread make progress on the engine's pending operations.
//! It also sends the remaining messages when the last communicator is dropped.
//!
//! Waiting for those messages would hang if the rank's code fails: its communicators are dropped on the way out, and
//! the receiver may be in an operation that this rank never reaches. So such an engine remains in its thread, and other
//! calls make progress on it. When the rank's code has returned, the rank waits until the engine is done. When the code
//! has failed, or panicked, the remaining messages are given up.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
};

use mp_core::{
    Error, ErrorKind, Rank, Recipient, Select, Wait,
    progress::{Advanced, Part, rest, resume},
    requests::{Beside, Driven, Driver, Landing},
};

use crate::communicator::{
    messages::engine::{Engine, Handle},
    messages::owner::{Owner, Shared, Working},
};
use crate::errors::bad_call;

/// The part of a rank that drives its engine: see the [module](self). It also drives the engine for requests that are
/// waited for together with others. Each owner keeps its part, and [adds](Rank::progress_with) it to the rank's waits
/// while the engine has pending operations.
pub(crate) struct Background {
    rank: Rank,
    owner: Weak<Owner>,
    /// The engine's owner, once it has no communicators any more and has something to send.
    kept: RefCell<Option<Shared>>,
    stage: Cell<Stage>,
}

/// What a part does in its rank's waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is none of their parts.
    Apart,
    Rests,
    Works,
}

impl Background {
    pub(crate) fn new(rank: &Rank, owner: Weak<Owner>) -> Rc<Self> {
        let (kept, stage) = (RefCell::default(), Cell::new(Stage::Apart));
        Rc::new(Self { rank: rank.clone(), owner, kept, stage })
    }

    /// Returns a key that distinguishes it from the other parts of its rank.
    fn key(&self) -> usize {
        self.owner.as_ptr().addr()
    }

    /// Makes this thread's waits bring the engine on, until it [rests](Self::rest) or [leaves](Self::leave).
    #[inline]
    pub(crate) fn join(self: &Rc<Self>) {
        match self.stage.replace(Stage::Works) {
            Stage::Works => {}
            Stage::Rests => resume(),
            Stage::Apart => self.rank.progress_with(self.key(), || self.clone()),
        }
    }

    /// See [`join`](Self::join). Most engines soon have something pending again.
    #[inline]
    pub(crate) fn rest(&self) {
        if self.stage.get() == Stage::Works {
            self.stage.set(Stage::Rests);
            rest();
        }
    }

    /// Makes this thread's waits forget the engine.
    pub(crate) fn leave(&self) {
        if self.stage.get() != Stage::Apart {
            self.rank.progress_without(self.key());
        }
    }

    /// Calls `with` with everything that the engine waits for. While one of the engine's own calls waits, the engine is
    /// borrowed, and this returns `None`: that call waits for the same things itself.
    fn with_select<T>(&self, with: impl FnOnce(&Select<'_>) -> T) -> Option<T> {
        let owner = self.owner.upgrade()?;
        let engine = owner.try_here()?;
        Some(engine.with_select(with))
    }
}

impl Part for Background {
    /// Takes the engine back, if it is lent, until the wait is over.
    fn advance(&self) -> Advanced {
        let Some(owner) = self.owner.upgrade() else { return Advanced::Over };
        let Some(mut engine) = owner.try_work().map(Working::keep) else { return Advanced::Waits };
        let moved = engine.bring_on();
        if !engine.has_to_send() {
            self.kept.take();
        }
        // A round that moved something says so even if nothing is pending any more, because it may have completed what
        // the rank waits for.
        match engine.is_under_way() {
            _ if moved => Advanced::Moved,
            true => Advanced::Waits,
            false => Advanced::Over,
        }
    }

    /// Lends it again.
    fn pause(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.lend_again();
        }
    }

    fn failure(&self) -> Option<mp_core::Error> {
        // If the engine is borrowed, one of its own calls is waiting, and that call reports the failure.
        let owner = self.owner.upgrade()?;
        let mut engine = owner.try_here()?;
        engine.matching.tell()
    }

    fn is_gone(&self) -> bool {
        self.owner.strong_count() == 0
    }

    fn is_resting(&self) -> bool {
        self.stage.get() == Stage::Rests
    }

    fn left(&self) {
        self.stage.set(Stage::Apart);
    }

    fn is_ready(&self) -> bool {
        let Some(owner) = self.owner.upgrade() else { return true };
        // A call that was made during this wait may have lent the engine again. Then `advance` must take it back.
        owner.is_lent() || self.with_select(|select| select.is_ready()).unwrap_or(false)
    }

    fn raise(&self) {
        self.with_select(|select| select.raise());
    }

    fn lower(&self) {
        self.with_select(|select| select.lower());
    }

    fn awaits(&self) -> Vec<u64> {
        self.with_select(|select| select.awaits()).unwrap_or_default()
    }
}

impl Driver for Background {
    fn rank(&self) -> Rank {
        self.rank.clone()
    }

    fn is_done(&self, handle: usize) -> bool {
        let Some(owner) = self.owner.upgrade() else { return true };
        owner.is_settled(Handle::from_number(handle))
    }

    fn call(&self, handle: usize) -> Option<String> {
        let owner = self.owner.upgrade()?;
        owner.glance(|engine| engine.call_of(Handle::from_number(handle)))?
    }

    fn drive(
        &self,
        handles: &[usize],
        landings: &mut [(usize, &mut dyn Landing)],
        wait: Wait,
        beside: &Beside<'_>,
        enough: &mut dyn FnMut(&mut dyn Driven) -> bool,
    ) -> mp_core::Result<bool> {
        let Some(owner) = self.owner.upgrade() else { return Ok(true) };
        let Some(mut engine) = owner.try_work() else {
            let reason = "a request is waited for within another call of its communicator";
            return Err(bad_call(reason));
        };
        let limit = wait.time_limit();
        let done = |engine: &mut Engine| enough(engine);
        engine.work(handles, landings, &mut [], limit, Some(beside), done)
    }
}

impl Driven for Engine {
    fn is_done(&mut self, handle: usize) -> bool {
        self.is_settled(Handle::from_number(handle))
    }
}

/// Keeps an engine without communicators until everything is sent, or until its rank has failed.
pub(crate) fn keep(owner: &Shared) {
    /// Gives up what is left when it is dropped.
    struct Keeper(Rc<Background>);
    impl Drop for Keeper {
        fn drop(&mut self) {
            drop(self.0.kept.take());
        }
    }
    let background = Rc::clone(owner.background());
    *background.kept.borrow_mut() = Some(Rc::clone(owner));
    background.join();
    let keeper = Keeper(background);
    let finish = move || {
        let owner = keeper.0.kept.borrow().clone();
        if let Some(owner) = owner
            && let Some(mut engine) = owner.try_work().map(Working::keep)
        {
            // Sends that failed are ignored: the program has no call left that could report them.
            while let Err(ErrorKind::NotSent { to: Recipient::Rank(_), .. }) =
                engine.finish().map_err(Error::into_kind)
            {}
        }
    };
    // `at_end` gives the work back in other threads of the rank, whose ends are unknown. There, the wait is now.
    if let Some(finish) = owner.rank.at_end(finish) {
        finish();
    }
}
