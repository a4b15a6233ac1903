//! The value itself: the one place where memory that all ranks share is taken for an ordinary
//! value, by whoever has it alone.
#![allow(
    unsafe_code,
    reason = "the value is reached by whoever the algorithms let in, one at a time"
)]

use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    thread::panicking,
};

use mp_core::{Message, memory::Region};

use super::{
    error::Stop,
    locks::{AnyLock, Lock},
    nesting::Inside,
    object::{Fate, Object, Outcome},
    once::once,
    site::{Place, Seat, Site, head},
};

/// The value of an object in a region.
pub(super) struct Value<O: Object> {
    first: NonNull<<O::State as Message>::Element>,
    len: usize,
    poisons: bool,
    /// What it has in common with other objects.
    common: Option<Box<Region>>,
    object: PhantomData<fn() -> O>,
}

// SAFETY: a place in shared memory, to which nothing of a thread's belongs; elements are plain data.
unsafe impl<O: Object> Send for Value<O> {}

impl<O: Object> Value<O> {
    /// Bytes of a value of so many elements; `None` if there are too many, or if they are aligned
    /// to more than a region is.
    pub(super) fn bytes(len: usize) -> Option<usize> {
        let aligned = align_of::<<O::State as Message>::Element>() <= 128;
        let bytes = len.checked_mul(size_of::<<O::State as Message>::Element>());
        bytes.filter(|_| aligned && (O::State::SLICE || len == 1))
    }

    /// `region` has room for it. Its operations reach the words of `common`, too.
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

    /// Where it lies: in range, aligned, and any bits are one, as `new` and regions see to.
    #[inline(always)]
    fn at(&self) -> NonNull<O::State> {
        O::State::at(self.first, self.len)
    }

    /// # Safety
    /// Nobody else has it meanwhile, in any rank, and the region is open.
    #[inline(always)]
    unsafe fn state<'a>(&self) -> &'a mut O::State {
        // SAFETY: `at` says what of it is so always; it is the caller's alone, for as long as he
        // says.
        unsafe { self.at().as_mut() }
    }

    /// Sees to it that the value is made before anybody reaches it, by whoever comes first.
    pub(super) fn make(
        &self,
        place: &Place,
        me: Seat,
        make: impl FnOnce(&mut O::State),
    ) -> Result<(), Stop> {
        // SAFETY: nobody else has it before it is made, whatever becomes of this.
        once(place, me, place.head(head::MADE), || make(unsafe { self.state() }))
    }

    /// Executes operations for an algorithm, which calls it for one at a time: in all ranks
    /// together. That is what the algorithms are for, and what their models check.
    ///
    /// The operation is that of a seat, which gets to know why it panics.
    #[inline(always)]
    pub(super) fn runner<'a>(
        &'a self,
        place: &'a Place,
    ) -> impl FnMut(Seat, O::Op) -> Outcome<O::Ret> + 'a {
        move |seat, op| {
            let poisoned = place.head(head::POISONED);
            if poisoned.peek() != 0 {
                return Outcome::without(Fate::Poisoned);
            }
            // SAFETY: algorithms call this in mutual exclusion; the reference ends with the call.
            let state = unsafe { self.state() };
            let common = || self.common.as_ref().map_or(&[][..], |common| common.words());
            match catch_unwind(AssertUnwindSafe(|| O::apply_beside(state, op, common()))) {
                Ok(ret) => Outcome::done(ret),
                Err(payload) => {
                    let text = payload.downcast_ref::<&str>().copied();
                    let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
                    place.set_message(seat, text.unwrap_or("(no message)"));
                    if self.poisons {
                        poisoned.store(1);
                    }
                    // What it carries may panic in its turn, and others wait.
                    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                        std::mem::forget(another);
                    }
                    Outcome::without(Fate::Panicked)
                }
            }
        }
    }

    /// Somebody was lost in the middle of an operation.
    #[cold]
    pub(super) fn broke_off(&self, place: &Place) {
        if self.poisons {
            place.head(head::POISONED).store(1);
        }
    }
}

/// A value that a lock protects, in the hands of whoever has the lock, until this is dropped.
///
/// A guard that is leaked keeps the lock. If the thread panics meanwhile the value is poisoned, or
/// not, by [choice](super::Section::poison).
pub struct Guard<'a, O: Object> {
    value: &'a Value<O>,
    place: &'a Place,
    lock: &'a mut AnyLock,
    me: Seat,
    /// It was taken in the course of a panic, which so is not one in the middle of it.
    panicking: bool,
    _inside: Inside,
}

impl<'a, O: Object> Guard<'a, O> {
    /// Waits until the seat has the lock, which protects the value.
    #[inline(always)]
    pub(super) fn acquire(
        value: &'a Value<O>,
        place: &'a Place,
        lock: &'a mut AnyLock,
        me: Seat,
    ) -> Result<Self, Stop> {
        place.take_turn(me);
        place.enter(me);
        lock.acquire(place)?;
        let inside = Inside::enter(place.region.id(), false);
        Ok(Self { value, place, lock, me, panicking: panicking(), _inside: inside })
    }
}

impl<O: Object> Deref for Guard<'_, O> {
    type Target = O::State;

    #[inline]
    fn deref(&self) -> &O::State {
        // SAFETY: the guard has the lock, and is borrowed: nobody writes. Not by way of `state`, since
        // there may be other looks at it.
        unsafe { self.value.at().as_ref() }
    }
}

impl<O: Object> DerefMut for Guard<'_, O> {
    #[inline]
    fn deref_mut(&mut self) -> &mut O::State {
        // SAFETY: the guard has the lock, and is borrowed alone.
        unsafe { self.value.state() }
    }
}

impl<O: Object> Drop for Guard<'_, O> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.panicking && panicking() {
            self.value.broke_off(self.place);
        }
        // What is wrong with the lock is found by the next who takes it.
        if self.lock.release(self.place).is_ok() {
            self.place.leave(self.me);
        }
        self.place.end_turn(self.me);
    }
}

impl<O: Object> std::fmt::Debug for Guard<'_, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("object", &self.place.region.name()).finish_non_exhaustive()
    }
}
