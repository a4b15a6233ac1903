//! The ownership of an engine: the rank's calls have it, or between them a communication thread to which it is lent.
//!
//! ```text
//! Owner, in the rank's thread         Loan, known to both            Helper: communication threads
//!   a call begins: takes it back <----  engine, if it is lent <-----  take it out to advance it, and put
//!   a call ends with something   ---->                       ----->   it back; sleep for what it awaits
//!   under way: lends it
//! ```
//!
//! While the engine is lent, the owner has a stand-in that knows no channel: the shortest ways of sending and receiving
//! find nothing there that they could use, so they need not check whether the engine is lent.
//!
//! Every call takes the engine back first and lends it again at its end, and so does every wait of the rank, through
//! the engine's part (`background.rs`). So one thread at a time has the engine, its channels and their flags, and the
//! path of a message needs no further atomics. The rank waits for the thread at most until the end of one advance, and
//! gets the engine before the thread's next advance. Operations that need no channel, such as testing a request, look
//! at the engine in place. A thread that is stopped gives the loan to another, or leaves it where it is until the
//! rank's next call; a thread that is switched off gets no new loan. The engine is always dropped in its rank's thread.

use std::{
    cell::{Cell, RefCell, RefMut},
    mem,
    ops::{Deref, DerefMut},
    rc::{Rc, Weak},
    sync::Arc,
};

use mp_core::{
    Rank,
    progress::{Advanced, Helper, Lent, ring},
};

use crate::communicator::{
    messages::background::Background,
    messages::engine::{Engine, Handle},
    messages::loan::{Lendable, Loan},
};

/// An engine, shared by the communicators and requests of one rank.
pub(crate) type Shared = Rc<Owner>;

/// See the [module](self).
pub(crate) struct Owner {
    pub(crate) rank: Rank,
    pub(crate) me: u32,
    /// Identifies the set of communicators of this rank.
    pub(crate) serial: u64,
    /// The engine, or its stand-in while it is lent.
    here: RefCell<Engine>,
    /// Whether the engine is lent.
    lent: Cell<bool>,
    /// Whether [`lending`](Self::lending) contains something.
    lends: Cell<bool>,
    lending: RefCell<Option<Lending>>,
    background: Rc<Background>,
    /// The numbers of communicators that this rank has taken: see [`Joint::number`](crate::communicator::Joint::number).
    pub(crate) numbers: Cell<u32>,
}

/// The helper that an engine is lent to, and the way to lend it.
struct Lending {
    helper: Box<dyn Helper>,
    lent: Arc<Engines>,
    /// The stand-in, while the engine is here; `None` while the engine is lent.
    stand_in: Option<Box<Engine>>,
}

impl Drop for Lending {
    /// Makes the thread that looks after the engine release it.
    fn drop(&mut self) {
        ring(&self.lent.rank);
    }
}

/// An engine that one of the rank's calls uses. If the call ends with pending operations, the engine is lent.
pub(crate) struct Working<'a> {
    owner: &'a Owner,
    engine: RefMut<'a, Engine>,
    /// Whether it may be lent afterwards.
    lend: bool,
}

impl Owner {
    pub(crate) fn new(rank: &Rank, serial: u64) -> Shared {
        Rc::new_cyclic(|this| Self {
            rank: rank.clone(),
            me: rank.id() as u32,
            serial,
            here: RefCell::new(Engine::new(rank, serial)),
            lent: Cell::new(false),
            lends: Cell::new(false),
            lending: RefCell::default(),
            background: Background::new(rank, this.clone()),
            numbers: Cell::new(0),
        })
    }

    pub(crate) fn background(&self) -> &Rc<Background> {
        &self.background
    }

    /// Returns the engine if it is here, or else one that knows no channel. This is for ways that begin nothing that
    /// would be pending afterwards.
    #[inline(always)]
    pub(crate) fn here(&self) -> RefMut<'_, Engine> {
        self.here.borrow_mut()
    }

    /// Works like [`here`](Self::here), unless a call of the engine is going on.
    pub(crate) fn try_here(&self) -> Option<RefMut<'_, Engine>> {
        self.here.try_borrow_mut().ok()
    }

    /// Returns the engine, for one call.
    #[inline]
    pub(crate) fn work(&self) -> Working<'_> {
        self.work_with(self.here.borrow_mut())
    }

    /// Returns the engine, for the call that has got this by [`here`](Self::here).
    #[inline]
    pub(crate) fn work_with<'a>(&'a self, mut engine: RefMut<'a, Engine>) -> Working<'a> {
        if self.lent.get() {
            self.take_back(&mut engine);
        }
        Working { owner: self, engine, lend: true }
    }

    /// Returns the engine, unless another call of it is going on. This is the case for work that is done in the waits
    /// of that call, and when a panic came out of it.
    pub(crate) fn try_work(&self) -> Option<Working<'_>> {
        Some(self.work_with(self.here.try_borrow_mut().ok()?))
    }

    /// Returns whether the engine is lent.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.get()
    }

    /// Looks at the engine, or makes changes that need no channel, while it stays where it is. Returns `None` where
    /// [`try_work`](Self::try_work) does.
    #[inline]
    pub(crate) fn glance<T>(&self, look: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        let mut here = self.here.try_borrow_mut().ok()?;
        if !self.lent.get() {
            return Some(look(&mut here));
        }
        let lending = self.lending.borrow();
        lending.as_ref()?.lent.loan.glance(look)
    }

    /// Works like [`glance`](Self::glance), but changes what an engine waits for: a thread to which it is lent looks
    /// again.
    pub(crate) fn amend(&self, change: impl FnOnce(&mut Engine)) {
        self.glance(change);
        if self.lent.get()
            && let Some(lending) = &*self.lending.borrow()
        {
            lending.lent.loan.refresh();
            ring(&self.rank);
        }
    }

    /// Returns whether a request is done, or will never be. `false` while a call of the engine is going on.
    pub(crate) fn is_settled(&self, handle: Handle) -> bool {
        self.glance(|engine| engine.is_settled(handle)).unwrap_or(false)
    }

    /// Sets the helper that carries on pending operations between the rank's calls; with `None`, none does.
    pub(crate) fn lend_to(self: &Rc<Self>, helper: Option<Box<dyn Helper>>) {
        /// Takes the engine back when the rank's code has ended, because a request that was leaked keeps it.
        struct Recall(Weak<Owner>);
        impl Drop for Recall {
            fn drop(&mut self) {
                if let Some(owner) = self.0.upgrade() {
                    owner.lend_to(None);
                }
            }
        }
        if helper.is_some() {
            let recall = Recall(Rc::downgrade(self));
            // `at_end` gives the work back in other threads of the rank. There, an engine that was leaked stays lent.
            if let Some(work) = self.rank.at_end(move || drop(recall)) {
                mem::forget(work);
            }
        }
        // This takes the engine back from the helper that has it now.
        let mut working = self.work();
        self.lends.set(helper.is_some());
        let lending = helper.map(|helper| Lending {
            helper,
            lent: Arc::new(Engines { rank: self.rank.clone(), loan: Loan::new() }),
            stand_in: Some(Box::new(Engine::stand_in(&self.rank))),
        });
        let before = self.lending.replace(lending);
        working.lend = self.lends.get();
        drop(working);
        // If this is the last handle of communication threads, they end.
        drop(before);
    }

    /// Lends the engine, which a wait of the rank has had, if it has pending operations.
    pub(crate) fn lend_again(&self) {
        if self.lends.get() && !self.lent.get() {
            drop(self.try_work());
        }
    }

    /// Lends the engine.
    #[cold]
    fn lend(&self, here: &mut Engine) {
        let mut lending = self.lending.borrow_mut();
        let Some(Lending { helper, lent, stand_in }) = &mut *lending else { return };
        let Some(mut engine) = stand_in.take() else { return };
        mem::swap(here, &mut engine);
        self.lent.set(true);
        if lent.loan.give(engine) {
            // The thread sleeps on the rank's doorbell, or is about to look at the loan.
            return ring(&self.rank);
        }
        if !helper.carry_on(Arc::clone(lent) as Arc<dyn Lent>) {
            lent.leave();
            drop(lending);
            self.take_back(here);
        }
    }

    /// Takes the engine back.
    #[cold]
    fn take_back(&self, here: &mut Engine) {
        let mut lending = self.lending.borrow_mut();
        let Some(lending) = &mut *lending else { return };
        let Some(mut engine) = lending.lent.loan.take() else { return };
        mem::swap(here, &mut engine);
        lending.stand_in = Some(engine);
        self.lent.set(false);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let here = self.here.get_mut();
        if self.lent.get() {
            // The engine is taken back before the threads' handle is dropped, because it must be dropped in its rank's
            // thread.
            let lending = self.lending.get_mut().as_mut();
            if let Some(mut engine) = lending.and_then(|lending| lending.lent.loan.take()) {
                mem::swap(here, &mut engine);
            }
        }
        self.background.leave();
    }
}

impl Working<'_> {
    /// Prevents that the engine is lent afterwards, because another call needs it soon.
    pub(crate) fn keep(mut self) -> Self {
        self.lend = false;
        self
    }

    /// Makes the waits of the rank bring the engine on, or no longer, as its state demands.
    #[inline]
    pub(super) fn register(&mut self) {
        let engine = &mut *self.engine;
        if engine.joined != engine.registered {
            engine.registered = engine.joined;
            match engine.joined {
                true => self.owner.background.join(),
                false => self.owner.background.rest(),
            }
        }
    }
}

impl Deref for Working<'_> {
    type Target = Engine;

    #[inline(always)]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Working<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for Working<'_> {
    /// Makes sure that pending operations go on.
    #[inline]
    fn drop(&mut self) {
        self.register();
        let engine = &mut *self.engine;
        if self.lend && engine.joined && self.owner.lends.get() && !std::thread::panicking() {
            self.owner.lend(engine);
        }
    }
}

/// The [loan](Loan) of an engine, as a communication thread sees it.
struct Engines {
    rank: Rank,
    loan: Loan<Engine>,
}

impl Lendable for Engine {
    fn bring_on(&mut self) -> bool {
        self.bring_on()
    }

    fn is_ready(&self) -> bool {
        self.has_news() || self.with_select(|select| select.is_ready())
    }

    fn raise(&self) {
        self.with_select(|select| select.raise());
    }

    fn lower(&self) {
        self.with_select(|select| select.lower());
    }
}

impl Lent for Engines {
    fn rank(&self) -> &Rank {
        &self.rank
    }

    fn advance(&self) -> Advanced {
        self.loan.advance()
    }

    fn is_ready(&self) -> bool {
        self.loan.is_ready()
    }

    fn raise(&self) {
        self.loan.raise();
    }

    fn lower(&self) {
        self.loan.lower();
    }

    fn leave(&self) {
        self.loan.leave();
    }
}
