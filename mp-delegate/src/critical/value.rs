//! The value itself: the only place where memory that all ranks share is treated as an ordinary value, by the seat that
//! has exclusive access.
#![allow(
    unsafe_code,
    reason = "the value is reached by whoever the algorithms let in, one at a time"
)]

use std::{
    any::Any,
    cell::Cell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    thread::panicking,
};

use mp_core::{
    Message,
    memory::{Region, Word},
};

use super::{
    combiners::{Combiner, Rescue, combine_again, combine_within},
    fate::{Fate, Outcome},
    locks::{self, AnyLock, Lock, quick::Quick, take_behind, with_lock},
    nesting::{self, Inside},
    object::Object,
    once::once,
    place::{Place, head},
    site::{Limit, Seat, Site},
    stop::Stop,
    turns::Turn,
};

/// The value of an object in a region.
pub(super) struct Value<O: Object> {
    first: NonNull<<O::State as Message>::Element>,
    len: usize,
    poisons: bool,
    /// Memory that it shares with other objects.
    common: Option<Box<Region>>,
    object: PhantomData<fn() -> O>,
}

// SAFETY: it is a place in shared memory, to which nothing of a thread's belongs; elements are plain data.
unsafe impl<O: Object> Send for Value<O> {}

impl<O: Object> Value<O> {
    /// Returns how many bytes a value of so many elements takes. Returns `None` if there are too many, or if they are
    /// aligned to more than a region is.
    pub(super) fn bytes(len: usize) -> Option<usize> {
        let aligned = align_of::<<O::State as Message>::Element>() <= 128;
        let bytes = len.checked_mul(size_of::<<O::State as Message>::Element>());
        bytes.filter(|_| aligned && (O::State::SLICE || len == 1))
    }

    /// Creates the value, for which `region` has room. Its operations reach the words of `common`, too.
    pub(super) fn new(
        region: &Region,
        len: usize,
        poisons: bool,
        common: Option<&Region>,
    ) -> Option<Self> {
        let (first, room) = region.bytes();
        let fits = Self::bytes(len).is_some_and(|bytes| bytes <= room);
        let common = common.map(|common| Box::new(common.clone()));
        fits.then(|| Self { first: first.cast(), len, poisons, common, object: PhantomData })
    }

    /// Returns where the value lies. It is in range and aligned, and any bits are a valid value, as `new` and regions
    /// ensure.
    #[inline(always)]
    fn at(&self) -> NonNull<O::State> {
        O::State::at(self.first, self.len)
    }

    /// # Safety
    /// No other rank or thread has the value meanwhile, and the region is open.
    #[inline(always)]
    unsafe fn state<'a>(&self) -> &'a mut O::State {
        // SAFETY: `at` returns a place that is aligned and in range, where any bits are a valid value. The caller
        // guarantees that no other reference to the value exists meanwhile.
        unsafe { self.at().as_mut() }
    }

    /// Ensures that the value is initialized before any rank reaches it. The first rank that arrives initializes it.
    pub(super) fn make(
        &self,
        place: &Place,
        me: Seat,
        make: impl FnOnce(&mut O::State),
    ) -> Result<(), Stop> {
        // SAFETY: `once` lets in one seat, and no seat uses the value before that has made it.
        once(place, me, place.head(head::MADE), || make(unsafe { self.state() }))
    }

    /// Executes operations for an algorithm, which calls it for one operation at a time in all ranks together. Ensuring
    /// this is the task of the algorithms, and their models check it.
    ///
    /// The operation belongs to a seat, which is told why it panics.
    #[inline(always)]
    pub(super) fn runner<'a>(
        &'a self,
        place: &'a Place,
    ) -> impl FnMut(Seat, O::Op) -> Outcome<O::Ret> + 'a {
        move |seat, op| {
            let poisoned = place.head(head::POISONED);
            if poisoned.load_relaxed() != 0 {
                return Outcome::without(Fate::Poisoned);
            }
            // SAFETY: algorithms call this in mutual exclusion, so there is no other reference. This one ends with the
            // call.
            let state = unsafe { self.state() };
            match catch_unwind(AssertUnwindSafe(|| O::apply_beside(state, op, self.common()))) {
                Ok(ret) => Outcome::done(ret),
                Err(payload) => self.panicked(place, seat, payload),
            }
        }
    }

    /// Notes that an operation of a seat has panicked, and why.
    #[cold]
    #[inline(never)]
    fn panicked(
        &self,
        place: &Place,
        seat: Seat,
        payload: Box<dyn std::any::Any + Send>,
    ) -> Outcome<O::Ret> {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
        place.set_message(seat, text.unwrap_or("(no message)"));
        if self.poisons {
            place.head(head::POISONED).store(1);
        }
        dispose(payload);
        Outcome::without(Fate::Panicked)
    }

    #[inline(always)]
    fn common(&self) -> &[Word] {
        self.common.as_ref().map_or(&[], |common| common.words())
    }

    /// Repairs the value, or else poisons it, after a rank was killed in the middle of an operation. Returns whether
    /// the value is good.
    #[cold]
    pub(super) fn repair(&self, place: &Place) -> bool {
        // SAFETY: a server calls this before any rank serves after the death. The healer of a lock or a combiner calls
        // it while the queue is closed, and all other seats are out of it, or still.
        let state = unsafe { self.state() };
        let is_good = is_sure(|| O::repair_beside(state, self.common()));
        if !is_good {
            self.broke_off(place);
        }
        is_good
    }

    /// Returns whether the object says that the operation may be executed again.
    #[cold]
    pub(super) fn is_idempotent(&self, op: &O::Op) -> bool {
        is_sure(|| O::is_idempotent(op))
    }

    /// Poisons the value after an operation that did not finish, if the section says so.
    #[cold]
    pub(super) fn broke_off(&self, place: &Place) {
        if self.poisons {
            place.head(head::POISONED).store(1);
        }
    }
}

/// Returns an object's answer after a death. It is no if the object panics. Others wait, so no panic leaves this
/// function.
fn is_sure(ask: impl FnOnce() -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|payload| {
        dispose(payload);
        false
    })
}

/// Drops the payload of a panic, which may itself panic.
#[cold]
fn dispose(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}

/// Has an operation executed by a combiner. This thread is marked as inside it.
#[inline(always)]
pub(super) fn combined<O: Object>(
    combiner: &impl Combiner,
    place: &Place,
    value: &Value<O>,
    me: Seat,
    op: O::Op,
) -> Result<Outcome<O::Ret>, Stop> {
    let _inside = Inside::enter(place.region.id(), false);
    let _turn = Turn::take(place, me);
    place.approach(me);
    let outcome = match combiner.attempt(place, &op, &mut value.runner(place)) {
        Ok(outcome) => outcome,
        Err(stop) => combined_again(combiner, place, value, me, op, stop)?,
    };
    place.leave(me);
    Ok(outcome)
}

/// Works like [`combined`] if no other seat is at the object, now or before the limit is over. Takes no turn: turns are
/// for seats that queue up.
#[inline(never)]
pub(super) fn combined_within<O: Object>(
    combiner: &impl Combiner,
    place: &Place,
    value: &Value<O>,
    (me, op): (Seat, O::Op),
    limit: Option<&Limit>,
) -> Result<Option<Outcome<O::Ret>>, Stop> {
    let _inside = Inside::enter(place.region.id(), false);
    let rescue = &mut Rescued { value, place };
    combine_within(combiner, (place, me), &op, limit, &mut value.runner(place), rescue)
}

/// Calls [`combine_again`]. It is a call of its own, so that its arguments are written to memory only here.
#[cold]
#[inline(never)]
fn combined_again<O: Object>(
    combiner: &impl Combiner,
    place: &Place,
    value: &Value<O>,
    me: Seat,
    op: O::Op,
    stop: Stop,
) -> Result<Outcome<O::Ret>, Stop> {
    let rescue = &mut Rescued { value, place };
    combine_again(combiner, (place, me), &op, stop, &mut value.runner(place), rescue)
}

/// A value in the middle of whose operation a rank was killed.
struct Rescued<'a, O: Object> {
    value: &'a Value<O>,
    place: &'a Place,
}

impl<O: Object> Rescue<O::Op> for Rescued<'_, O> {
    fn repair(&mut self) -> bool {
        self.value.repair(self.place)
    }

    fn is_idempotent(&mut self, op: &O::Op) -> bool {
        self.value.is_idempotent(op)
    }
}

/// A value, and a seat's access to the lock that protects it.
pub(super) struct Locked<O: Object> {
    value: Value<O>,
    place: Place,
    me: Seat,
    lock: AnyLock,
    /// The seat's access to the lock, on words that were found once.
    quick: Quick,
    /// The object's number.
    id: u64,
    /// Whether the lock was taken during a panic. That panic then does not count as one in the middle of the operation.
    panicking: Cell<bool>,
}

impl<O: Object> Locked<O> {
    /// Creates it. Returns `None` if the region is too short for the lock.
    pub(super) fn new(value: Value<O>, place: Place, me: Seat, lock: AnyLock) -> Option<Self> {
        let id = place.region.id();
        let quick = Quick::new(&place, me, lock.words())?;
        Some(Self { value, place, me, lock, quick, id, panicking: Cell::new(false) })
    }

    /// Executes an operation with the lock.
    #[inline(always)]
    pub(super) fn apply(&self, op: O::Op) -> Result<Outcome<O::Ret>, Stop> {
        with_lock!(&self.lock, lock => self.apply_by(lock, op))
    }

    #[inline(always)]
    fn apply_by(&self, lock: &impl Lock, op: O::Op) -> Result<Outcome<O::Ret>, Stop> {
        let _inside = Inside::enter(self.id, false);
        self.take_by(lock)?;
        let outcome = self.value.runner(&self.place)(self.me, op);
        self.give_by(lock);
        Ok(outcome)
    }

    /// Waits until the seat has its turn, where turns are taken, and then the lock.
    #[inline(always)]
    fn take(&self) -> Result<(), Stop> {
        with_lock!(&self.lock, lock => self.take_by(lock))
    }

    #[inline(always)]
    fn take_by(&self, lock: &impl Lock) -> Result<(), Stop> {
        let taken = self.quick.take(lock, &self.place, self.me);
        taken.or_else(|before| self.wait_behind(lock, before))
    }

    /// Gives up the lock, and the turn.
    #[inline(always)]
    fn give(&self) {
        match &self.lock {
            AnyLock::Hyb(lock) => self.give_by(lock),
            _ => self.give_any(),
        }
    }

    /// Gives up any kind of lock, in a call of its own: with all kinds in one place, giving up a hybrid lock takes
    /// longer.
    #[inline(never)]
    fn give_any(&self) {
        with_lock!(&self.lock, lock => self.give_by(lock))
    }

    #[inline(always)]
    fn give_by(&self, lock: &impl Lock) {
        if !self.quick.give(lock, &self.place, self.me) {
            self.hand_over(lock);
        }
    }

    /// Waits for a lock behind another seat.
    #[cold]
    #[inline(never)]
    fn wait_behind(&self, lock: &impl Lock, before: u64) -> Result<(), Stop> {
        let Self { value, place, me, .. } = self;
        let taken = take_behind(lock, place, (*me, before), || _ = value.repair(place));
        taken.inspect_err(|_| place.end_turn(*me))
    }

    /// Gives the lock to the next, and ends the turn.
    #[cold]
    #[inline(never)]
    fn hand_over(&self, lock: &impl Lock) {
        locks::hand_over(lock, &self.place, self.me);
        self.place.end_turn(self.me);
    }

    /// Executes an operation if no other seat has the lock, now or before the limit is over. Takes no turn: turns are
    /// for seats that queue up.
    pub(super) fn apply_within(
        &self,
        op: O::Op,
        limit: Option<&Limit>,
    ) -> Result<Option<Outcome<O::Ret>>, Stop> {
        let Self { value, place, me, lock, id, .. } = self;
        let _inside = Inside::enter(*id, false);
        if !lock.take_within(place, *me, limit, || _ = value.repair(place))? {
            return Ok(None);
        }
        let outcome = value.runner(place)(*me, op);
        self.give();
        Ok(Some(outcome))
    }

    /// Takes the lock if no other seat has it, now or before the limit is over.
    pub(super) fn acquire_within(
        &self,
        limit: Option<&Limit>,
    ) -> Result<Option<Guard<'_, O>>, Stop> {
        let Self { value, place, me, lock, id, .. } = self;
        let inside = Inside::enter(*id, false);
        if !lock.take_within(place, *me, limit, || _ = value.repair(place))? {
            return Ok(None);
        }
        Ok(Some(self.acquired(inside)))
    }

    /// Waits until the seat has the lock.
    #[inline(always)]
    pub(super) fn acquire(&self) -> Result<Guard<'_, O>, Stop> {
        // The section is entered before the wait, because the rank may make progress on work that calls this handle
        // again.
        let inside = Inside::enter(self.id, false);
        self.take()?;
        Ok(self.acquired(inside))
    }

    /// Returns whether an operation did not finish. Only the lock holder may call this.
    #[inline(always)]
    pub(super) fn is_poisoned(&self) -> bool {
        self.quick.is_poisoned()
    }

    /// Gives up the lock of a guard.
    #[inline(never)]
    fn release(&self) {
        if panicking() {
            self.note_panic();
        }
        self.give();
        nesting::leave(self.id);
    }

    /// Poisons the value: the thread panics while it has the lock.
    #[cold]
    #[inline(never)]
    fn note_panic(&self) {
        if !self.panicking.get() {
            self.value.broke_off(&self.place);
        }
    }

    /// Returns the guard of a seat that has the lock. When the guard is dropped, it leaves what was entered.
    #[inline(always)]
    fn acquired(&self, inside: Inside) -> Guard<'_, O> {
        std::mem::forget(inside);
        let panicking = panicking();
        if self.panicking.get() != panicking {
            self.panicking.set(panicking);
        }
        Guard(self, PhantomData)
    }
}

/// Exclusive access to a value that a lock protects, until this is dropped.
///
/// A leaked guard keeps the lock. If the thread panics while it has the guard, the value is poisoned or not, depending
/// on the [section](super::Section::poison).
// One pointer, which goes from call to call in a register.
#[must_use = "the lock is given up when the guard is dropped"]
pub struct Guard<'a, O: Object>(&'a Locked<O>, PhantomData<*const ()>);

impl<O: Object> Deref for Guard<'_, O> {
    type Target = O::State;

    #[inline]
    fn deref(&self) -> &O::State {
        // SAFETY: the guard has the lock, and is borrowed, so nobody writes. This does not go through `state`, which
        // makes a mutable reference, because there may be other shared ones.
        unsafe { self.0.value.at().as_ref() }
    }
}

impl<O: Object> DerefMut for Guard<'_, O> {
    #[inline]
    fn deref_mut(&mut self) -> &mut O::State {
        // SAFETY: the guard has the lock, and is borrowed mutably, so there is no other reference.
        unsafe { self.0.value.state() }
    }
}

impl<O: Object> Drop for Guard<'_, O> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<O: Object> std::fmt::Debug for Guard<'_, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("object", &self.0.place.region.name()).finish_non_exhaustive()
    }
}
