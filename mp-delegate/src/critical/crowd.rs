//! Handles that share a seat, because a rank has more handles than seats. They wait for their turn at the seat's place,
//! so that a wait advances the pending work of their thread.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
};

use mp_core::{ErrorKind, Result, memory::Region};

use super::{
    nesting::{self, Inside},
    place::Place,
    site::{Limit, Seat, Site},
};

/// One of the handles that share a seat.
pub(super) struct Member<C>(Arc<Crowd<C>>);

impl<C> Member<C> {
    pub(super) fn new(crowd: Arc<Crowd<C>>) -> Self {
        crowd.place().join();
        Self(crowd)
    }
}

impl<C> Deref for Member<C> {
    type Target = Crowd<C>;

    fn deref(&self) -> &Crowd<C> {
        &self.0
    }
}

impl<C> Drop for Member<C> {
    fn drop(&mut self) {
        self.0.place().part();
    }
}

/// The data that the handles of a seat share.
pub(super) struct Crowd<C> {
    /// The number of seats of each rank.
    seats: usize,
    /// Whether the object is served.
    is_served: bool,
    region: Region,
    /// The seat. Handles that want a turn also wait there.
    me: Seat,
    /// Held while one of the handles executes an operation or waits for its result. A thread in the middle of an
    /// operation can't wait for it.
    core: Mutex<C>,
}

impl<C> Crowd<C> {
    /// Creates the crowd of the place's shared seat. `core` is the seat's share of the object.
    pub(super) fn new(place: &Place, is_served: bool, core: C) -> Self {
        let (seats, me, region) = (place.seats, place.shared_seat(), place.region.clone());
        Self { seats, is_served, region, me, core: Mutex::new(core) }
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// Waits until no other thread has the turn. The wait makes progress on this thread's pending requests.
    pub(super) fn turn(&self) -> Result<Turn<'_, C>> {
        self.check()?;
        if let Some(core) = self.try_lock() {
            return Ok(self.has_turn(core));
        }
        let place = self.place();
        let is_first = self.is_served && place.begin_wait();
        let core = self.region.wait(self.me, None, None, || self.try_lock());
        if is_first {
            place.end_wait();
        }
        Ok(self.has_turn(core?))
    }

    /// Waits for a turn until the limit is over.
    pub(super) fn turn_within(&self, limit: &Limit) -> Result<Option<Turn<'_, C>>> {
        self.check()?;
        let core = self.region.wait_with(self.me, None, limit.left(), || self.try_lock())?;
        Ok(core.map(|core| self.has_turn(core)))
    }

    /// Takes a turn if no other thread has it.
    pub(super) fn try_turn(&self) -> Result<Option<Turn<'_, C>>> {
        self.check()?;
        Ok(self.try_lock().map(|core| self.has_turn(core)))
    }

    fn place(&self) -> Place {
        Place::new(self.region.clone(), self.seats)
    }

    fn check(&self) -> Result<()> {
        let (object, served) = (self.region.id(), self.is_served);
        if nesting::is_deep()
            && (nesting::refuses(object, served)
                || nesting::refuses(object | nesting::SHARED, false))
        {
            return Err(ErrorKind::NestedOperation { object: self.region.name().into() }.into());
        }
        Ok(())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, C>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::Poisoned(core)) => Some(core.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn has_turn<'a>(&'a self, core: MutexGuard<'a, C>) -> Turn<'a, C> {
        let _inside = Inside::enter(self.region.id() | nesting::SHARED, false);
        Turn { core, _next: Next(self), _inside }
    }
}

/// A thread's turn among those whose handles share a seat.
pub(super) struct Turn<'a, C> {
    /// Released before the next thread is woken.
    core: MutexGuard<'a, C>,
    _next: Next<'a, C>,
    _inside: Inside,
}

impl<C> Deref for Turn<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.core
    }
}

/// Wakes the threads that wait for a turn when it is dropped.
struct Next<'a, C>(&'a Crowd<C>);

impl<C> Drop for Next<'_, C> {
    fn drop(&mut self) {
        let Crowd { region, me, .. } = self.0;
        region.wake(region.rank(), *me);
    }
}
