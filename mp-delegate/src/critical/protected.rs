//! A rank's handle of a protected value. Handles are used by reference, and requests borrow them.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use mp_core::{Error, ErrorKind, Rank, Result, Wait, memory::Region, names::Namespace};

use super::{
    core::{Algorithm, Core, Family, Submitted, locked},
    crowd::{Crowd, Member},
    error::{TryApplyError, bad},
    object::Object,
    place::{OBJECTS, Place, head, open_region},
    plan::{check, fingerprint, own_words},
    request::{CriticalOperation, Request},
    section::{Scheme, Section, Told},
    servers::mp,
    site::Limit,
    value::{Guard, Value},
};

/// One rank's handle of a protected value.
///
/// Every rank that uses the value opens it by its name, in the same way; the first rank that does so initializes it.
/// The value lives until all handles are dropped.
///
/// A handle is used by reference, so that several parts of a thread can share it. It can go to another thread, but two
/// threads can't use it: [`another`](Self::another) gives further threads of the rank handles of their own. A call
/// within an operation on the same object, or while the handle has its [lock](Self::lock), is refused with
/// [`NestedOperation`](mp_core::ErrorKind::NestedOperation).
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Object, Protected, Scheme};
///
/// struct Counter;
///
/// impl Object for Counter {
///     type State = u64;
///     type Op = u64;
///     type Ret = u64;
///
///     fn apply(count: &mut u64, by: u64) -> u64 {
///         *count += by;
///         *count
///     }
/// }
///
/// let last = World::threads(3).run(|rank| {
///     let hits = Protected::<Counter>::open(rank, "hits", Scheme::HybComb, |_| ())?;
///     let mut last = 0;
///     for _ in 0..100 {
///         last = hits.apply(1)?;
///     }
///     Ok(last)
/// })?;
/// assert_eq!(last.into_iter().max(), Some(300));
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct Protected<O: Object>(Access<O>);

enum Access<O: Object> {
    Own(Box<Core<O>>),
    /// The handle shares a seat with others, because there are more handles than seats. They take turns.
    Shared(Arc<Family<O>>, Member<Core<O>>),
}

impl<O: Object> Protected<O> {
    /// Opens the object of this name, which has 64 bytes at most. The first rank that opens it calls `make`, which
    /// makes the value out of zeros; the others wait for that. Opening the same name again in a rank makes another
    /// object of that name: the n-th calls of all ranks open the same object.
    ///
    /// A value that is served ([`Scheme::needs_server`]) is used once a [`Server`](super::Server) has it; until then
    /// operations wait.
    ///
    /// # Errors
    /// [`ObjectMismatch`](mp_core::ErrorKind::ObjectMismatch) if another rank opened it as something else;
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for an impossible section;
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost) if the rank that ran `make` was lost, or `make` panicked there; those
    /// of [`Rank::mpb`], for a name that is too long or for lack of memory.
    pub fn open(
        rank: &Rank,
        name: &str,
        section: impl Into<Section>,
        make: impl FnOnce(&mut O::State),
    ) -> Result<Self> {
        Self::open_as(rank, (OBJECTS, name), section.into(), 0, None, make)
    }

    /// Opens an object as [`open`](Self::open) does, for ranks that pass the same `identity`; `common` is memory that
    /// operations on this object and on others share.
    pub(super) fn open_as(
        rank: &Rank,
        (namespace, name): (Namespace, &str),
        section: Section,
        identity: u64,
        common: Option<Region>,
        make: impl FnOnce(&mut O::State),
    ) -> Result<Self> {
        check::<O>(rank, name, &section)?;
        // Each rank has its own seats, and one more for the handles that share a seat.
        let seats = section.seats + 1;
        let all_seats = seats * rank.size();
        let words = Place::own(all_seats) + own_words::<O>(&section, all_seats);
        let bytes = Value::<O>::bytes(section.len)
            .ok_or_else(|| bad(name, "a value of such a length or alignment"))?;
        let mut region = open_region(rank, namespace, name, words, bytes)?;
        region.set_caller(Arc::new(Told { name: name.into(), scheme: section.scheme }));
        let place = Place::new(region, seats);
        let spec = fingerprint::<O>(&section, identity);
        if let Err(other) = place.head(head::SPEC).compare_exchange(0, spec)
            && other != spec
        {
            return Err(ErrorKind::ObjectMismatch { object: name.into() }.into());
        }
        let family = Arc::new(Family {
            rank: rank.clone(),
            section,
            common,
            taken: Mutex::new(vec![false; section.seats]),
            crowd: Mutex::default(),
        });
        let core = Core::sit(family, place, |value, place, me| value.make(place, me, make))?;
        Ok(Self(Access::Own(Box::new(core))))
    }

    /// Opens another handle of the same rank, for another thread of it. If all [seats](Section::seats) of the rank are
    /// taken, the handle shares one more seat with all further handles. They then execute one operation at a time, or
    /// have one in flight.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) with a [`Scheme::MpServer`], whose channels are between ranks.
    pub fn another(&self) -> Result<Self> {
        let (family, place) = (Arc::clone(self.family()), self.place());
        if let Scheme::MpServer(_) = family.section.scheme {
            return Err(bad(place.region.name(), "MpServer has one handle for each rank"));
        }
        let seat = locked(&family.taken).iter().any(|taken| !taken);
        if seat && let Ok(core) = Core::sit(Arc::clone(&family), place.clone(), |_, _, _| Ok(())) {
            return Ok(Self(Access::Own(Box::new(core))));
        }
        let mut crowd = locked(&family.crowd);
        let shared = match crowd.upgrade() {
            Some(shared) => shared,
            None => {
                let core = Core::at(Arc::clone(&family), place.clone(), place.shared_seat())?;
                let is_served = family.section.scheme.needs_server();
                let shared = Arc::new(Crowd::new(&place, is_served, core));
                *crowd = Arc::downgrade(&shared);
                shared
            }
        };
        drop(crowd);
        Ok(Self(Access::Shared(family, Member::new(shared))))
    }

    /// Executes an operation in mutual exclusion, possibly in another rank, and waits for its result.
    ///
    /// # Errors
    /// [`OperationPanicked`](mp_core::ErrorKind::OperationPanicked), [`Poisoned`](mp_core::ErrorKind::Poisoned),
    /// [`NestedOperation`](mp_core::ErrorKind::NestedOperation); [`OutcomeUnknown`](mp_core::ErrorKind::OutcomeUnknown)
    /// if the rank that executed it was killed in the middle, or no rank serves. Where ranks are threads,
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost) or `OutcomeUnknown` if a rank has ended that this call has to wait
    /// for; after that the handle returns only `PeerLost`.
    #[inline]
    pub fn apply(&self, op: O::Op) -> Result<O::Ret> {
        match &self.0 {
            Access::Own(core) => core.apply(op),
            Access::Shared(_, crowd) => apply_among(crowd, op),
        }
    }

    /// Executes an operation if no other handle uses the object, and returns the operation otherwise. It never waits in
    /// a queue.
    ///
    /// - With a lock: the operation is executed if no seat has the lock or waits for it.
    /// - With a combiner: it is executed if no seat combines or waits to combine. Operations that arrive meanwhile are
    ///   executed as well.
    /// - With a server: it is executed if a server serves, and begins with the operation within 100 µs; otherwise the
    ///   operation is taken back. So a server that sleeps and is slow to wake may seem busy.
    ///
    /// Another thread that shares the handle's [seat](Self::another) counts as another user, and so do earlier
    /// operations of this handle that are in flight. If a rank was killed in the queue, the call repairs what it has
    /// left, provided that all others are out of the queue; otherwise it gives up.
    ///
    /// ```
    /// use onchip::World;
    /// use onchip::critical::{Scheme, Section, TryApplyError, objects::Counter};
    ///
    /// let rank = World::solo()?;
    /// let hits = Counter::open(&rank, "hits", Section::new(Scheme::Mcs).seats(2))?;
    /// assert_eq!(hits.try_apply(7)?, 0);
    /// let others = hits.another()?;
    /// std::thread::scope(|scope| {
    ///     let guard = hits.lock().unwrap();
    ///     let tried = scope.spawn(move || others.try_apply(1)).join().unwrap();
    ///     assert!(matches!(tried, Err(TryApplyError::Busy(1))));
    ///     drop(guard);
    /// });
    /// assert_eq!(hits.apply(0)?, 7);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TryApplyError::Busy`], with the operation; those of [`apply`](Self::apply).
    pub fn try_apply(&self, op: O::Op) -> Result<O::Ret, TryApplyError<O::Op>> {
        let applied = match &self.0 {
            Access::Own(core) => core.try_apply(op),
            Access::Shared(_, crowd) => match crowd.try_turn()? {
                Some(core) => core.try_apply(op),
                None => Ok(None),
            },
        };
        applied?.ok_or(TryApplyError::Busy(op))
    }

    /// Executes an operation as [`apply`](Self::apply) does, but gives up if the time limit, which is made from a
    /// [`Duration`](std::time::Duration) for example, expires before the operation was begun. After
    /// [`Timeout`](mp_core::ErrorKind::Timeout) the operation was not executed, and never will be. If the
    /// operation was begun in time, the call waits for its end, however long that takes.
    ///
    /// A call with a limit has no place in the queue of a lock or a combiner: it takes its turn when no other seat has
    /// or wants it, and seats that queue up come before it. At a server it is a client like any other, and withdraws
    /// its request when the limit is over.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use onchip::critical::{Scheme, Section, objects::Counter};
    /// use onchip::{ErrorKind, World};
    ///
    /// let rank = World::solo()?;
    /// let hits = Counter::open(&rank, "hits", Section::new(Scheme::HybLock).seats(2))?;
    /// let others = hits.another()?;
    /// std::thread::scope(|scope| {
    ///     let guard = hits.lock().unwrap();
    ///     let late = scope.spawn(move || others.apply_with(1, Duration::from_millis(2)));
    ///     let late = late.join().unwrap().unwrap_err();
    ///     assert!(matches!(late.kind(), ErrorKind::Timeout { .. }));
    ///     drop(guard);
    /// });
    /// assert_eq!(hits.apply_with(1, Duration::from_secs(1))?, 0);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `apply`; [`Timeout`](mp_core::ErrorKind::Timeout).
    pub fn apply_with(&self, op: O::Op, wait: impl Into<Wait>) -> Result<O::Ret> {
        let wait = wait.into();
        if wait.time_limit().is_none() {
            return self.apply(op);
        }
        let limit = &Limit::new(wait);
        let applied = match &self.0 {
            Access::Own(core) => core.apply_within(op, Some(limit))?,
            Access::Shared(_, crowd) => match crowd.turn_within(limit)? {
                Some(core) => core.apply_within(op, Some(limit))?,
                None => None,
            },
        };
        applied.ok_or_else(|| self.timeout(wait))
    }

    #[cold]
    fn timeout(&self, wait: Wait) -> Error {
        Error::from(ErrorKind::Timeout {
            place: mp_core::Place::Object(self.name().into()),
            limit: wait.time_limit().unwrap_or_default(),
        })
    }

    /// Submits an operation without waiting for its result. With a server, the operation is executed while this thread
    /// continues. With the other schemes, and with a handle that [shares](Self::another) its seat, it is executed
    /// before the call returns.
    ///
    /// Operations of a handle are executed in their order. While some are in flight, further ones may be gathered. They
    /// go to the server when a cache line is full, when the handle waits for a result, and with [`flush`](Self::flush).
    ///
    /// Returns a [`Request`] like any other: its result can be waited for together with messages and collective
    /// operations of the rank, and it is a future. At least the last [`in_flight`](Section::in_flight) results are
    /// kept. They can be asked for in any order, or not at all. A call that submits more waits until the oldest is
    /// executed.
    ///
    /// ```
    /// use onchip::{World, wait_all};
    /// use onchip::critical::{Scheme, Server, objects::Counter};
    ///
    /// World::threads(3).run(|rank| {
    ///     let hits = Counter::open(rank, "hits", Scheme::SlotServer)?;
    ///     if rank.id() == 0 {
    ///         let mut server = Server::new();
    ///         server.add(hits)?;
    ///         return Ok(server.serve()?);
    ///     }
    ///     let mut both = [hits.submit(1)?, hits.submit(1)?];
    ///     wait_all(&mut both)?;
    ///     let [first, second] = both;
    ///     assert!(first.wait()? < second.wait()?);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply) that are already known.
    #[inline]
    pub fn submit(&self, op: O::Op) -> Result<Request<'_, O>> {
        match &self.0 {
            Access::Own(core) => Ok(match core.submit(op)? {
                Submitted::InFlight(number) => CriticalOperation::there(core, number),
                Submitted::Done(outcome) => CriticalOperation::here(core.result(outcome)),
            }),
            Access::Shared(_, crowd) => Ok(CriticalOperation::here(submit_among(crowd, op)?)),
        }
    }

    /// Sends the submitted operations that have not been sent yet to the server.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn flush(&self) -> Result<()> {
        match &self.0 {
            Access::Own(core) => core.flush(),
            Access::Shared(..) => Ok(()),
        }
    }

    /// Takes the lock, and gives access to the value itself until the guard is dropped. This works only with a
    /// [lock](Scheme::is_lock), and with a handle that has a seat of its own.
    ///
    /// ```
    /// use onchip::critical::{Scheme, objects::Counter};
    /// use onchip::{ErrorKind, World};
    ///
    /// let rank = World::solo()?;
    /// let hits = Counter::open(&rank, "hits", Scheme::Clh)?;
    /// let mut guard = hits.lock()?;
    /// *guard += 7;
    /// // It would wait for itself.
    /// let nested = hits.lock().unwrap_err();
    /// assert!(matches!(nested.kind(), ErrorKind::NestedOperation { .. }));
    /// drop(guard);
    /// assert_eq!(hits.fetch_add(1)?, 7);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`NestedOperation`](mp_core::ErrorKind::NestedOperation) also if the handle already
    /// has the lock; [`BadObject`](mp_core::ErrorKind::BadObject) for another scheme or a shared seat.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, O>> {
        match &self.0 {
            Access::Own(core) => core.lock(),
            Access::Shared(_, crowd) => {
                Err(bad(crowd.region().name(), "a lock needs a seat of its own"))
            }
        }
    }

    /// Takes the lock if no other handle has it or waits for it.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<Guard<'_, O>>> {
        self.lock_within(None)
    }

    /// Takes the lock as [`lock`](Self::lock) does, but gives up when the time is over, as
    /// [`apply_with`](Self::apply_with) does.
    ///
    /// # Errors
    /// As `lock`; [`Timeout`](mp_core::ErrorKind::Timeout).
    pub fn lock_with(&self, wait: impl Into<Wait>) -> Result<Guard<'_, O>> {
        let wait = wait.into();
        match wait.time_limit() {
            None => self.lock(),
            Some(_) => self.lock_within(Some(&Limit::new(wait)))?.ok_or_else(|| self.timeout(wait)),
        }
    }

    fn lock_within(&self, limit: Option<&Limit>) -> Result<Option<Guard<'_, O>>> {
        match &self.0 {
            Access::Own(core) => core.lock_within(limit),
            Access::Shared(_, crowd) => {
                Err(bad(crowd.region().name(), "a lock needs a seat of its own"))
            }
        }
    }

    /// Returns whether the value is poisoned: an operation did not finish, and further ones are refused.
    pub fn is_poisoned(&self) -> bool {
        self.region().words()[head::POISONED].load() != 0
    }

    /// Lets operations continue although an earlier one did not finish. Call it when the value is known to be good.
    pub fn clear_poison(&self) {
        self.region().words()[head::POISONED].store(0);
    }

    /// Returns the section that the value was opened with.
    pub fn section(&self) -> Section {
        self.family().section
    }

    /// Returns a key that distinguishes the object from all others that are open in this process, if all ranks are in
    /// it.
    pub(super) fn key(&self) -> Option<u64> {
        let region = self.region();
        region.is_in_one_process().then(|| region.id())
    }

    /// Returns the object's name.
    pub fn name(&self) -> String {
        self.region().name().to_owned()
    }

    /// Returns the error for an operation that would wait for the operation that this thread is in the middle of.
    #[cold]
    pub(super) fn nested(&self) -> Error {
        Error::from(ErrorKind::NestedOperation { object: self.name().into() })
    }

    fn family(&self) -> &Arc<Family<O>> {
        match &self.0 {
            Access::Own(core) => &core.family,
            Access::Shared(family, _) => family,
        }
    }

    fn region(&self) -> &Region {
        match &self.0 {
            Access::Own(core) => &core.place.region,
            Access::Shared(_, crowd) => crowd.region(),
        }
    }

    fn place(&self) -> Place {
        Place::new(self.region().clone(), self.family().section.seats + 1)
    }

    /// Returns what a server needs. The result holds this handle, whose seat becomes free when the handle is dropped.
    pub(super) fn into_served(mut self) -> Result<Served<O>> {
        let first = match &mut self.0 {
            Access::Own(core) => match &mut core.algorithm {
                Algorithm::Server(channels) => channels.take(),
                _ => None,
            },
            Access::Shared(..) => None,
        };
        let (family, place) = (Arc::clone(self.family()), self.place());
        let Section { len, poison, .. } = family.section;
        let misfit = || bad(place.region.name(), "its memory is too short");
        let value = Value::new(&place.region, len, poison, family.common.as_ref());
        let value = value.ok_or_else(misfit)?;
        let (rank, section) = (family.rank.clone(), family.section);
        Ok(Served { rank, section, place, value, first, handle: self })
    }
}

/// Executes an operation for one of the handles that share a seat.
#[inline(never)]
fn apply_among<O: Object>(crowd: &Crowd<Core<O>>, op: O::Op) -> Result<O::Ret> {
    crowd.turn()?.apply(op)
}

/// Submits an operation for one of these handles. The outer error means that the operation could not be submitted; the
/// inner result is the operation's.
#[inline(never)]
fn submit_among<O: Object>(crowd: &Crowd<Core<O>>, op: O::Op) -> Result<Result<O::Ret>> {
    let core = crowd.turn()?;
    Ok(match core.submit(op)? {
        Submitted::Done(outcome) => core.result(outcome),
        Submitted::InFlight(number) => core.collect(number),
    })
}

/// The parts of an object that a server needs.
pub(super) struct Served<O: Object> {
    pub(super) rank: Rank,
    pub(super) section: Section,
    pub(super) place: Place,
    pub(super) value: Value<O>,
    /// The channels of the server that the scheme names.
    pub(super) first: Option<mp::Served>,
    /// This handle is dropped once this rank is counted among those that serve. If it were dropped before, waiting
    /// clients would find that no rank is left that could serve.
    pub(super) handle: Protected<O>,
}

impl<O: Object> fmt::Debug for Protected<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Protected");
        shown.field("name", &self.region().name()).field("section", &self.family().section);
        match &self.0 {
            Access::Own(core) => shown.field("seat", &core.me).finish(),
            Access::Shared(..) => shown.finish_non_exhaustive(),
        }
    }
}
