//! A rank's handle of a protected value, and how operations get from the handle to the algorithm.
//!
//! Handles are used by reference, and requests borrow them. The private state of a lock or a combiner lies in cells.
//! That is safe because the thread's list of the sections that it is in (`nesting.rs`) refuses a second call before it
//! gets there. A call is entered in the list before it waits, since the rank may advance something meanwhile that calls
//! the handle again. The client of a server is behind a `RefCell` for the same reason. Handles that share a seat wait
//! for their turn at the seat's place, so that they advance what their thread has pending.
//!
//! A request is passed from call to call in registers, and a guard is one pointer, because a value that is written in
//! parts and then read as a whole costs as much as a locked instruction. So the client's side of a slot server and the
//! locks are inlined into callers, and the rest is not.

use std::{
    cell::{Cell, RefCell, RefMut},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak},
    time::Duration,
};

use mp_core::{
    Error, ErrorKind, Operation, Plain, Rank, Result, Wait, memory::Region, names::Namespace,
};
use nix::sched::sched_getcpu;

use super::{
    combiners::{Combiner, cc_synch::CcSynch, hyb_comb::HybComb},
    error::{Stop, TryApplyError, bad, failed, stopped},
    locks::{AnyLock, MOST_SEATS, clh::Clh, hyb::Hyb, mcs::Mcs, tas::Tas},
    nesting::{self, Inside},
    object::{Fate, Object, Outcome},
    request::{CriticalOperation, Request},
    section::{Scheme, Section},
    servers::{mp, slot},
    site::{BLOCK, Limit, OBJECTS, Place, Seat, Site, head, open_region},
    value::{Guard, Locked, Value, combined, combined_within},
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
    /// There are more handles than seats, so they take turns.
    Shared(Member<O>),
}

/// One of the handles that share a seat.
struct Member<O: Object>(Arc<Crowd<O>>);

impl<O: Object> Member<O> {
    fn new(crowd: Arc<Crowd<O>>) -> Self {
        crowd.place().join();
        Self(crowd)
    }
}

impl<O: Object> Deref for Member<O> {
    type Target = Crowd<O>;

    fn deref(&self) -> &Crowd<O> {
        &self.0
    }
}

impl<O: Object> Drop for Member<O> {
    fn drop(&mut self) {
        self.0.place().part();
    }
}

/// The data that the handles of a seat share.
struct Crowd<O: Object> {
    family: Arc<Family<O>>,
    region: Region,
    /// The seat. Handles that want a turn wait there, too.
    me: Seat,
    /// Held while one of the handles executes an operation or waits for it. It can't be waited for in the middle of an
    /// operation.
    core: Mutex<Core<O>>,
}

impl<O: Object> Crowd<O> {
    /// Waits until no other thread has the turn. The wait makes progress on this thread's pending requests.
    fn turn(&self) -> Result<Turn<'_, O>> {
        self.check()?;
        if let Some(core) = self.try_lock() {
            return Ok(self.has_turn(core));
        }
        let place = self.place();
        let is_first = self.family.section.scheme.needs_server() && place.begin_wait();
        let core = self.region.wait(self.me, None, None, || self.try_lock());
        if is_first {
            place.end_wait();
        }
        Ok(self.has_turn(core?))
    }

    /// Waits for a turn until the limit is over.
    fn turn_within(&self, limit: &Limit) -> Result<Option<Turn<'_, O>>> {
        self.check()?;
        let core = self.region.wait_with(self.me, None, limit.left(), || self.try_lock())?;
        Ok(core.map(|core| self.has_turn(core)))
    }

    /// Takes a turn if no other thread has it.
    fn try_turn(&self) -> Result<Option<Turn<'_, O>>> {
        self.check()?;
        Ok(self.try_lock().map(|core| self.has_turn(core)))
    }

    fn place(&self) -> Place {
        Place::new(self.region.clone(), self.family.section.seats + 1)
    }

    fn check(&self) -> Result<()> {
        let (object, served) = (self.region.id(), self.family.section.scheme.needs_server());
        if nesting::is_deep()
            && (nesting::refuses(object, served)
                || nesting::refuses(object | nesting::SHARED, false))
        {
            return Err(ErrorKind::NestedOperation { object: self.region.name().into() }.into());
        }
        Ok(())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Core<O>>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::Poisoned(core)) => Some(core.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn has_turn<'a>(&'a self, core: MutexGuard<'a, Core<O>>) -> Turn<'a, O> {
        let _inside = Inside::enter(self.region.id() | nesting::SHARED, false);
        Turn { core, _next: Next(self), _inside }
    }
}

/// A thread's turn among those whose handles share a seat.
struct Turn<'a, O: Object> {
    /// Released before the next thread is woken.
    core: MutexGuard<'a, Core<O>>,
    _next: Next<'a, O>,
    _inside: Inside,
}

impl<O: Object> Deref for Turn<'_, O> {
    type Target = Core<O>;

    fn deref(&self) -> &Core<O> {
        &self.core
    }
}

/// Wakes the threads that wait for a turn when it is dropped.
struct Next<'a, O: Object>(&'a Crowd<O>);

impl<O: Object> Drop for Next<'_, O> {
    fn drop(&mut self) {
        let Crowd { region, me, .. } = self.0;
        region.wake(region.rank(), *me);
    }
}

/// Notes that requests of a handle have asked for a ring.
#[derive(Clone, Copy)]
struct Raised {
    number: u32,
    requests: usize,
}

/// The data of one participant.
pub(super) struct Core<O: Object> {
    family: Arc<Family<O>>,
    place: Place,
    value: Value<O>,
    me: Seat,
    algorithm: Algorithm<O>,
    /// The rank that was lost, if an operation was given up in the middle.
    broken: Cell<Option<usize>>,
    raised: Cell<Option<Raised>>,
}

enum Algorithm<O: Object> {
    Lock(Box<Locked<O>>),
    Cc(CcSynch),
    Comb(HybComb),
    Slot(RefCell<slot::Client>),
    Mp(Box<RefCell<mp::Client<O::Ret>>>),
    /// The rank is to serve, through these channels, and has none to itself.
    Server(Option<mp::Served>),
}

/// The data that all handles of a rank share.
struct Family<O: Object> {
    rank: Rank,
    section: Section,
    /// Memory that this object shares with others.
    common: Option<Region>,
    /// Whether each of the rank's own seats is taken.
    taken: Mutex<Vec<bool>>,
    /// The handles that share a seat.
    crowd: Mutex<Weak<Crowd<O>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that was handed over.
pub(super) enum Submitted<Ret> {
    Done(Outcome<Ret>),
    /// The operation is at a server, under this number.
    InFlight(u64),
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
        // Of each rank: its own, and the one for the crowd.
        let seats = section.seats + 1;
        let all_seats = seats * rank.size();
        let words = Place::own(all_seats) + own_words::<O>(&section, all_seats);
        let bytes = Value::<O>::bytes(section.len)
            .ok_or_else(|| bad(name, "a value of such a length or alignment"))?;
        let region = open_region(rank, namespace, name, words, bytes)?;
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
    /// taken, the handle shares one more seat with all further ones. Then one operation at a time is executed or in
    /// flight for all of them.
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
        if let Some(shared) = crowd.upgrade() {
            return Ok(Self(Access::Shared(Member::new(shared))));
        }
        let me = place.shared_seat();
        let region = place.region.clone();
        let core = Mutex::new(Core::at(Arc::clone(&family), place, me)?);
        let shared = Arc::new(Crowd { family: Arc::clone(&family), region, me, core });
        *crowd = Arc::downgrade(&shared);
        Ok(Self(Access::Shared(Member::new(shared))))
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
            Access::Shared(crowd) => apply_among(crowd, op),
        }
    }

    /// Executes an operation if no other handle uses the object, and returns the operation otherwise. It never waits in
    /// a queue.
    ///
    /// - With a lock: it is executed if no seat has the lock or waits for it.
    /// - With a combiner: it is executed if no seat combines or waits for that. Operations that arrive meanwhile are
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
            Access::Shared(crowd) => match crowd.try_turn()? {
                Some(core) => core.try_apply(op),
                None => Ok(None),
            },
        };
        applied?.ok_or(TryApplyError::Busy(op))
    }

    /// Executes an operation as [`apply`](Self::apply) does, but gives up if the time limit, which is made from a
    /// [`Duration`] for example, expires before the operation was begun. After
    /// [`Timeout`](mp_core::ErrorKind::Timeout) the operation was not executed, and never will be. If the
    /// operation was begun in time, the call waits for its end, however long that takes.
    ///
    /// A call with a limit has no place in the queue of a lock or a combiner: it takes its turn when no other seat has
    /// or wants it, and seats that queue up come before it. At a server it is one of all clients, and takes its request
    /// back.
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
            Access::Shared(crowd) => match crowd.turn_within(limit)? {
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

    /// Hands over an operation without waiting for its result. With a server it is executed while this thread
    /// continues. With the other schemes, and with a handle that [shares](Self::another) its seat, it is executed
    /// before the call returns.
    ///
    /// Operations of a handle are executed in their order. While some are in flight, further ones may be gathered. They
    /// go to the server when a cache line is full, when a result is asked for, and with [`flush`](Self::flush).
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
            Access::Shared(crowd) => Ok(CriticalOperation::here(submit_among(crowd, op)?)),
        }
    }

    /// Sends the operations to the server that were submitted and not sent yet.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn flush(&self) -> Result<()> {
        match &self.0 {
            Access::Own(core) => core.flush(),
            Access::Shared(_) => Ok(()),
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
            Access::Shared(crowd) => {
                Err(bad(crowd.region.name(), "a lock needs a seat of its own"))
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
            Access::Shared(crowd) => {
                Err(bad(crowd.region.name(), "a lock needs a seat of its own"))
            }
        }
    }

    /// Returns whether an operation did not finish, so that others are refused.
    pub fn is_poisoned(&self) -> bool {
        self.region().words()[head::POISONED].load() != 0
    }

    /// Lets operations continue after one did not finish. Call it when the value is known to be good.
    pub fn clear_poison(&self) {
        self.region().words()[head::POISONED].store(0);
    }

    /// Returns the section that the value was opened with.
    pub fn section(&self) -> Section {
        self.family().section
    }

    /// Returns a key that tells the object from all others that are open in this process, if all ranks are in it.
    pub(super) fn key(&self) -> Option<u64> {
        let region = self.region();
        region.is_in_one_process().then(|| region.id())
    }

    /// Returns the object's name.
    pub fn name(&self) -> String {
        self.region().name().to_owned()
    }

    /// Returns the error for an operation that would wait for the one that this thread is in the middle of.
    #[cold]
    pub(super) fn nested(&self) -> Error {
        Error::from(ErrorKind::NestedOperation { object: self.name().into() })
    }

    fn family(&self) -> &Arc<Family<O>> {
        match &self.0 {
            Access::Own(core) => &core.family,
            Access::Shared(crowd) => &crowd.family,
        }
    }

    fn region(&self) -> &Region {
        match &self.0 {
            Access::Own(core) => &core.place.region,
            Access::Shared(crowd) => &crowd.region,
        }
    }

    fn place(&self) -> Place {
        Place::new(self.region().clone(), self.family().section.seats + 1)
    }

    /// Returns what a server needs, with the handle, whose seat is given up when it is dropped.
    pub(super) fn into_served(mut self) -> Result<Served<O>> {
        let first = match &mut self.0 {
            Access::Own(core) => match &mut core.algorithm {
                Algorithm::Server(channels) => channels.take(),
                _ => None,
            },
            Access::Shared(_) => None,
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
fn apply_among<O: Object>(crowd: &Crowd<O>, op: O::Op) -> Result<O::Ret> {
    crowd.turn()?.apply(op)
}

/// Submits an operation for one of them. The outer error means that the operation could not be asked for; the inner
/// result is the operation's.
#[inline(never)]
fn submit_among<O: Object>(crowd: &Crowd<O>, op: O::Op) -> Result<Result<O::Ret>> {
    let core = crowd.turn()?;
    Ok(match core.submit(op)? {
        Submitted::Done(outcome) => core.result(outcome),
        Submitted::InFlight(number) => core.collect(number),
    })
}

/// What a server needs of an object.
pub(super) struct Served<O: Object> {
    pub(super) rank: Rank,
    pub(super) section: Section,
    pub(super) place: Place,
    pub(super) value: Value<O>,
    /// The channels of the server that the scheme names.
    pub(super) first: Option<mp::Served>,
    /// To be dropped once this rank is counted among those that serve. If it were dropped before, waiting clients would
    /// find that no rank is left that could serve.
    pub(super) handle: Protected<O>,
}

fn check<O: Object>(rank: &Rank, name: &str, section: &Section) -> Result<()> {
    let bad = |reason: &str| Err(bad(name, reason));
    match section.scheme {
        Scheme::MpServer(server) if server >= rank.size() => {
            return bad("its server is no rank of the world");
        }
        _ => {}
    }
    if section.streaming
        && !(section.scheme == Scheme::SlotServer && slot::Slots::streams::<O::Ret>())
    {
        return bad("results are streamed by a SlotServer, and have 4 bytes at most");
    }
    if section.seats == 0 || section.max_ops == 0 || section.in_flight == 0 {
        return bad("seats, max_ops and in_flight are at least 1");
    }
    if section.seats > 1 << 12 || section.max_ops > 1 << 20 || section.in_flight > 1 << 20 {
        return bad("seats, max_ops or in_flight are too many");
    }
    let all_seats = (section.seats + 1) * rank.size();
    if section.scheme == Scheme::SlotServer && all_seats > slot::Slots::SEATS {
        return bad("a server has not so many seats");
    }
    if all_seats > MOST_SEATS {
        return bad("a queue has not so many seats");
    }
    if section.groups == Some(0) {
        return bad("there is at least one group");
    }
    Ok(())
}

/// Returns how many words the algorithm needs for so many seats.
fn own_words<O: Object>(section: &Section, seats: usize) -> usize {
    match section.scheme {
        Scheme::Tas => Tas::words(seats),
        Scheme::Mcs => Mcs::words(seats),
        Scheme::Clh => Clh::words(seats),
        Scheme::HybLock => Hyb::words(seats),
        Scheme::CcSynch => CcSynch::words::<O::Op, O::Ret>(seats, 1),
        Scheme::HSynch => CcSynch::words::<O::Op, O::Ret>(seats, groups(section)),
        Scheme::HybComb => HybComb::words::<O::Op, O::Ret>(seats, section.max_ops),
        Scheme::SlotServer => slots::<O>(section, seats).words(),
        // Its server's: see `server.rs`.
        Scheme::MpServer(_) => BLOCK,
    }
}

pub(super) fn slots<O: Object>(section: &Section, seats: usize) -> slot::Slots {
    let Section { in_flight, streaming, .. } = *section;
    slot::Slots::new::<O::Op, O::Ret>(Place::own(seats), seats, in_flight, streaming)
}

/// Returns the number of groups of ranks that are near each other.
fn groups(section: &Section) -> usize {
    let nodes = || mp_core::topology::Topology::read().map_or(1, |machine| machine.nodes().len());
    section.groups.unwrap_or_else(nodes).max(1)
}

fn group_here(section: &Section, rank: usize) -> usize {
    if let Some(groups) = section.groups {
        return rank % groups;
    }
    let (Ok(cpu), Ok(machine)) = (sched_getcpu(), mp_core::topology::Topology::read()) else {
        return 0;
    };
    machine.nodes().iter().position(|node| node.cpus.contains(cpu)).unwrap_or(0)
}

/// Returns a hash of everything that must be the same in all ranks.
fn fingerprint<O: Object>(section: &Section, identity: u64) -> u64 {
    fn of<T: ?Sized>() -> &'static str {
        std::any::type_name::<T>()
    }
    // The same in all processes: its keys are fixed.
    let mut hasher = DefaultHasher::new();
    (of::<O>(), of::<O::State>(), of::<O::Op>(), of::<O::Ret>()).hash(&mut hasher);
    (size_of::<O::Op>(), size_of::<O::Ret>(), section.scheme.number()).hash(&mut hasher);
    let Section { len, seats, max_ops, in_flight, poison, streaming, groups, .. } = *section;
    (len, seats, max_ops, in_flight, poison, streaming, groups).hash(&mut hasher);
    identity.hash(&mut hasher);
    hasher.finish().max(1)
}

impl<O: Object> Core<O> {
    /// Takes one of the rank's own seats that are free.
    fn sit(
        family: Arc<Family<O>>,
        place: Place,
        first: impl FnOnce(&Value<O>, &Place, Seat) -> Result<(), Stop>,
    ) -> Result<Self> {
        let name = place.region.name().to_owned();
        let seat = {
            let mut taken = locked(&family.taken);
            let free = taken.iter().position(|taken| !taken);
            let free = free.ok_or_else(|| bad(&name, "all seats are taken"))?;
            taken[free] = true;
            free
        };
        let me = place.region.rank() * place.seats + seat;
        let core = Self::at(Arc::clone(&family), place, me).inspect_err(|_| {
            locked(&family.taken)[seat] = false;
        })?;
        first(&core.value, &core.place, me).map_err(|stop| stopped(&name, stop))?;
        Ok(core)
    }

    fn at(family: Arc<Family<O>>, mut place: Place, me: Seat) -> Result<Self> {
        let name = place.region.name().to_owned();
        let section = &family.section;
        place.waits.in_queue = section.scheme.is_lock();
        let stopped = |stop| stopped(&name, stop);
        let misfit = || bad(&name, "its memory is too short");
        let Section { len, poison, .. } = *section;
        let value = || {
            let value = Value::new(&place.region, len, poison, family.common.as_ref());
            value.ok_or_else(misfit)
        };
        let with = |lock| -> Result<Algorithm<O>> {
            let locked = Locked::new(value()?, place.clone(), me, lock).ok_or_else(misfit)?;
            Ok(Algorithm::Lock(Box::new(locked)))
        };
        // Servers look at no more seats than were ever taken.
        let seats = place.head(head::SEATS);
        let mut seen = seats.load();
        while seen <= me as u64 {
            match seats.compare_exchange(seen, me as u64 + 1) {
                Ok(()) => break,
                Err(other) => seen = other,
            }
        }
        let all = place.all_seats();
        let first = Place::own(all);
        let max_ops = section.max_ops;
        let algorithm = match section.scheme {
            Scheme::Tas => with(AnyLock::Tas(Tas::new(first, me)))?,
            Scheme::Mcs => with(AnyLock::Mcs(Mcs::new(first, me)))?,
            Scheme::Clh => with(AnyLock::Clh(Clh::new(first, all, me)))?,
            Scheme::HybLock => with(AnyLock::Hyb(Hyb::new(first, me)))?,
            Scheme::CcSynch => {
                Algorithm::Cc(CcSynch::new::<O::Op, O::Ret>(first, all, me, max_ops, (0, 1)))
            }
            Scheme::HSynch => {
                let groups = groups(section);
                let group = if groups > 1 { group_here(section, family.rank.id()) } else { 0 };
                let group = (group.min(groups - 1), groups);
                Algorithm::Cc(CcSynch::new::<O::Op, O::Ret>(first, all, me, max_ops, group))
            }
            Scheme::HybComb => {
                Algorithm::Comb(HybComb::new::<O::Op, O::Ret>(first, all, me, max_ops))
            }
            Scheme::SlotServer => {
                let slots = slots::<O>(section, all);
                let client = slot::Client::new(slots, &place, me, section.backoff);
                Algorithm::Slot(RefCell::new(client.map_err(stopped)?))
            }
            Scheme::MpServer(server) if server == family.rank.id() => {
                // Here already: who closes this without serving closes them, and clients know.
                let (rank, in_flight) = (&family.rank, section.in_flight);
                let channels = mp::Served::open::<O::Op, O::Ret>(rank, in_flight, &place)?;
                Algorithm::Server(Some(channels))
            }
            Scheme::MpServer(server) => {
                let (rank, in_flight) = (&family.rank, section.in_flight);
                let client = mp::Client::open::<O::Op>(rank, &place, me, server, in_flight)?;
                Algorithm::Mp(Box::new(RefCell::new(client)))
            }
        };
        let value = value()?;
        // Handles that share a seat are counted one by one.
        if me != place.shared_seat() {
            place.join();
        }
        Ok(Self {
            family,
            place,
            value,
            me,
            algorithm,
            broken: Cell::new(None),
            raised: Cell::new(None),
        })
    }

    fn name(&self) -> &str {
        self.place.region.name()
    }

    #[cold]
    fn bad(&self, reason: &str) -> Error {
        bad(self.name(), reason)
    }

    #[cold]
    fn stopped(&self, stop: Stop) -> Error {
        if let Stop::Lost(rank) | Stop::Unsure(rank) = stop {
            self.broken.set(Some(rank));
        }
        stopped(self.name(), stop)
    }

    /// Returns the error for an operation that was not executed as it should have been.
    #[cold]
    fn failed(&self, fate: Fate) -> Error {
        failed(self.name(), fate, || self.place.message(self.me))
    }

    #[cold]
    fn nested(&self) -> Error {
        Error::from(ErrorKind::NestedOperation { object: self.name().into() })
    }

    /// Returns a server's client, unless this thread is in the middle of another call of this handle: the rank's
    /// pending work may call it while that call waits.
    #[inline(always)]
    fn alone<'a, C>(&self, client: &'a RefCell<C>) -> Result<RefMut<'a, C>> {
        client.try_borrow_mut().map_err(|_| self.nested())
    }

    /// Refuses a wait in the middle of another call of this handle, because it would wait for itself.
    pub(super) fn check_alone(&self) -> Result<()> {
        match &self.algorithm {
            Algorithm::Slot(client) => self.alone(client).map(drop),
            Algorithm::Mp(client) => self.alone(client).map(drop),
            _ => Ok(()),
        }
    }

    /// Checks whether an operation can be asked for, in the middle of another or after a loss.
    #[cold]
    fn check(&self, served: bool) -> Result<()> {
        if nesting::refuses(self.place.region.id(), served) {
            return Err(self.nested());
        }
        match self.broken.get() {
            None => Ok(()),
            Some(rank) => Err(stopped(self.name(), Stop::Lost(rank))),
        }
    }

    #[inline(always)]
    fn apply(&self, op: O::Op) -> Result<O::Ret> {
        match self.submit(op)? {
            Submitted::Done(outcome) => self.result(outcome),
            Submitted::InFlight(number) => self.collect(number),
        }
    }

    /// Executes an operation if no other rank uses the object.
    fn try_apply(&self, op: O::Op) -> Result<Option<O::Ret>> {
        /// The time in which a server begins with an operation if it is at no other.
        const BEGINS: Duration = Duration::from_micros(100);
        if !self.family.section.scheme.needs_server() {
            return self.apply_within(op, None);
        }
        match self.place.serving() {
            Some(_) => self.apply_within(op, Some(&Limit::new(BEGINS.into()))),
            None => {
                self.check_all()?;
                Ok(None)
            }
        }
    }

    /// Executes an operation unless others use the object, now or until the limit is over.
    fn apply_within(&self, op: O::Op, limit: Option<&Limit>) -> Result<Option<O::Ret>> {
        self.check_all()?;
        let Self { place, value, me, algorithm, .. } = self;
        let outcome = match (algorithm, limit) {
            (Algorithm::Slot(client), Some(limit)) => {
                within_slot(&mut *self.alone(client)?, place, op, limit)
            }
            (Algorithm::Mp(client), Some(limit)) => {
                within_mp(&mut *self.alone(client)?, place, op, limit)
            }
            (Algorithm::Slot(_) | Algorithm::Mp(_), None) => Ok(None),
            (Algorithm::Server(_), _) => {
                return Err(self.bad("its server has no channel to itself"));
            }
            (Algorithm::Lock(locked), _) => locked.apply_within(op, limit),
            (Algorithm::Cc(combiner), _) => {
                combined_within(combiner, place, value, (*me, op), limit)
            }
            (Algorithm::Comb(combiner), _) => {
                combined_within(combiner, place, value, (*me, op), limit)
            }
        };
        let outcome = outcome.map_err(|stop| self.stopped(stop))?;
        outcome.map(|outcome| self.result(outcome)).transpose()
    }

    fn lock_within(&self, limit: Option<&Limit>) -> Result<Option<Guard<'_, O>>> {
        self.check_all()?;
        let Algorithm::Lock(locked) = &self.algorithm else {
            return Err(self.bad("it is not protected by a lock"));
        };
        let guard = locked.acquire_within(limit).map_err(|stop| self.stopped(stop))?;
        match guard {
            // Not before: whoever had the lock may have panicked.
            Some(guard) if locked.is_poisoned() => Err(self.poisoned(guard)),
            guard => Ok(guard),
        }
    }

    /// Takes back an operation that was handed over and not sent, if it was the last.
    pub(super) fn cancel(&self, number: u64) -> Option<O::Op> {
        match &self.algorithm {
            Algorithm::Slot(client) => client.try_borrow_mut().ok()?.cancel(slot::Ticket(number)),
            Algorithm::Mp(client) => client.try_borrow_mut().ok()?.cancel(number),
            _ => None,
        }
    }

    fn check_all(&self) -> Result<()> {
        if nesting::is_deep() || self.broken.get().is_some() {
            self.check(self.family.section.scheme.needs_server())?;
        }
        Ok(())
    }

    /// Hands over an operation. The client of a slot server is inlined into the caller, so that its requests stay in
    /// registers: one that goes through memory takes longer than everything else. Each of the others is a separate
    /// call.
    #[inline(always)]
    fn submit(&self, op: O::Op) -> Result<Submitted<O::Ret>> {
        if nesting::is_deep() || self.broken.get().is_some() {
            self.check(self.family.section.scheme.needs_server())?;
        }
        let Self { place, value, me, algorithm, .. } = self;
        let outcome = match algorithm {
            Algorithm::Slot(client) => {
                let ticket = self
                    .alone(client)?
                    .submit(place, &op)
                    .map(|ticket| Submitted::InFlight(ticket.0));
                return ticket.map_err(|stop| self.stopped(stop));
            }
            Algorithm::Mp(client) => {
                let number = self.alone(client)?.submit(place, &op).map(Submitted::InFlight);
                return number.map_err(|stop| self.stopped(stop));
            }
            Algorithm::Server(_) => {
                return Err(self.bad("its server has no channel to itself"));
            }
            Algorithm::Lock(locked) => locked.apply(op),
            Algorithm::Cc(combiner) => by_combiner(combiner, place, value, *me, op),
            Algorithm::Comb(combiner) => by_combiner(combiner, place, value, *me, op),
        };
        match outcome {
            Ok(outcome) => Ok(Submitted::Done(outcome)),
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    /// Returns the result of an operation that was executed.
    #[inline(always)]
    pub(super) fn result(&self, Outcome { fate, ret }: Outcome<O::Ret>) -> Result<O::Ret> {
        if fate == Fate::Done { Ok(ret) } else { Err(self.failed(fate)) }
    }

    /// Waits for the result of an operation that was handed over.
    #[inline(always)]
    pub(super) fn collect(&self, number: u64) -> Result<O::Ret> {
        let collected = match &self.algorithm {
            Algorithm::Slot(client) => {
                self.alone(client)?.collect(&self.place, slot::Ticket(number))
            }
            Algorithm::Mp(client) => self.alone(client)?.collect::<_, O::Op>(&self.place, number),
            _ => Ok(None),
        };
        match collected {
            Ok(Some(outcome)) => self.result(outcome),
            Ok(None) => Err(self.forgotten()),
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    #[cold]
    fn forgotten(&self) -> Error {
        let kept = self.family.section.in_flight;
        Error::from(ErrorKind::ResultForgotten { object: self.name().into(), kept })
    }

    /// Sends the operations that were handed over, as far as that needs no wait. Returns false if it is in vain.
    pub(super) fn bring_on(&self) -> bool {
        let brought = match &self.algorithm {
            Algorithm::Slot(client) => {
                client.try_borrow_mut().map(|mut client| client.flush(&self.place).is_ok())
            }
            Algorithm::Mp(client) => client
                .try_borrow_mut()
                .map(|mut client| client.bring_on::<_, O::Op>(&self.place).is_ok()),
            _ => Ok(false),
        };
        // Whoever is in the middle of a call of this handle brings it on.
        brought.unwrap_or(true)
    }

    /// Returns whether the result of an operation is known, or never will be.
    pub(super) fn is_done(&self, number: u64) -> bool {
        let done = match &self.algorithm {
            Algorithm::Slot(client) => client.try_borrow_mut().map(|mut client| {
                let ticket = slot::Ticket(number);
                let mut look = || client.is_done(&self.place, ticket);
                match look() {
                    // What was answered before the end is visible by then.
                    Ok(false) if self.place.unserved() => look().map(|_| true),
                    done => done,
                }
            }),
            Algorithm::Mp(client) => client.try_borrow_mut().map(|mut client| {
                Ok(client.is_done(number)? || client.bring_on::<_, O::Op>(&self.place).is_err())
            }),
            _ => Ok(Ok(true)),
        };
        // What is wrong is told by a wait.
        done.is_ok_and(|done| done.unwrap_or(true))
    }

    /// Asks for a ring of the rank's doorbell when there may be something to see. The call is for a request that has
    /// not asked yet, or asks `again`.
    pub(super) fn raise(&self, again: bool) {
        let Self { place: Place { region, .. }, me, algorithm, .. } = self;
        let raised = self.raised.get();
        let raised = raised.unwrap_or_else(|| Raised { number: region.next_wait(), requests: 0 });
        region.raise(*me, raised.number);
        if let Algorithm::Mp(client) = algorithm
            && let Ok(client) = client.try_borrow()
        {
            client.raise();
        }
        let requests = raised.requests + usize::from(!again);
        self.raised.set(Some(Raised { requests, ..raised }));
    }

    /// Takes the ring back, for one request.
    pub(super) fn lower(&self) {
        let Some(Raised { number, requests }) = self.raised.take() else { return };
        if requests > 1 {
            self.raised.set(Some(Raised { number, requests: requests - 1 }));
            return;
        }
        if let Algorithm::Mp(client) = &self.algorithm
            && let Ok(client) = client.try_borrow()
        {
            client.lower();
        }
        self.place.region.lower(self.me, number);
    }

    /// Begins a wait of the handle without a limit for a first server, if no rank serves yet. It lasts until
    /// [`end_wait`](Self::end_wait). Returns whether no rank serves yet.
    pub(super) fn begin_wait(&self) -> bool {
        matches!(self.algorithm, Algorithm::Slot(_)) && self.place.begin_wait()
    }

    pub(super) fn end_wait(&self) {
        self.place.end_wait();
    }

    pub(super) fn rank(&self) -> &Rank {
        &self.family.rank
    }

    /// Returns what a report says of a wait.
    pub(super) fn awaits(&self) -> (Operation, Vec<u64>) {
        match &self.algorithm {
            Algorithm::Mp(client) => match client.try_borrow() {
                Ok(client) => (Operation::Receive, client.awaits()),
                Err(_) => self.place.region.awaits(self.me),
            },
            _ => self.place.region.awaits(self.me),
        }
    }

    fn flush(&self) -> Result<()> {
        let flushed = match &self.algorithm {
            Algorithm::Slot(client) => self.alone(client)?.flush(&self.place),
            Algorithm::Mp(client) => self.alone(client)?.flush::<_, O::Op>(&self.place),
            _ => Ok(()),
        };
        flushed.map_err(|stop| self.stopped(stop))
    }

    #[inline(always)]
    fn lock(&self) -> Result<Guard<'_, O>> {
        if nesting::is_deep() || self.broken.get().is_some() {
            self.check(false)?;
        }
        let Algorithm::Lock(locked) = &self.algorithm else {
            return Err(self.bad("it is not protected by a lock"));
        };
        match locked.acquire() {
            // Not before: whoever had the lock may have panicked.
            Ok(guard) if locked.is_poisoned() => Err(self.poisoned(guard)),
            Ok(guard) => Ok(guard),
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    /// Gives up the lock, and returns the error for a value that an unfinished operation has poisoned.
    #[cold]
    #[inline(never)]
    fn poisoned(&self, guard: Guard<'_, O>) -> Error {
        drop(guard);
        Error::from(ErrorKind::Poisoned { object: self.name().into() })
    }
}

/// Asks a server, and takes the operation back when the limit is over or no rank serves.
fn within_slot<Op: Plain, Ret: Plain>(
    client: &mut slot::Client,
    place: &Place,
    op: Op,
    limit: &Limit,
) -> Result<Option<Outcome<Ret>>, Stop> {
    let Some(ticket) = client.offer(place, &op, limit)? else { return Ok(None) };
    let answered = client.is_answered(place, ticket, limit);
    match answered {
        Ok(true) => {}
        Ok(false) | Err(_) if client.take_back(place, ticket)? => {
            return answered.map(|_| None);
        }
        Ok(false) | Err(_) => {}
    }
    client.collect(place, ticket)
}

fn within_mp<Op: Plain, Ret: Plain>(
    client: &mut mp::Client<Ret>,
    place: &Place,
    op: Op,
    limit: &Limit,
) -> Result<Option<Outcome<Ret>>, Stop> {
    loop {
        let Some(number) = client.offer(place, &op, limit)? else { return Ok(None) };
        let answered = client.is_answered(number, limit)?;
        if answered {
            let outcome = client.collect::<_, Op>(place, number)?;
            let is_unknown = outcome.is_some_and(|outcome| outcome.fate == Fate::Unknown);
            // Its server is gone, and had not begun with it: to the one who follows.
            if is_unknown && client.take_back(place, number)? {
                continue;
            }
            return Ok(outcome);
        }
        if client.take_back(place, number)? {
            return Ok(None);
        }
        return client.collect::<_, Op>(place, number);
    }
}

#[inline(never)]
fn by_combiner<O: Object>(
    combiner: &impl Combiner,
    place: &Place,
    value: &Value<O>,
    me: Seat,
    op: O::Op,
) -> Result<Outcome<O::Ret>, Stop> {
    combined(combiner, place, value, me, op)
}

impl<O: Object> Drop for Core<O> {
    fn drop(&mut self) {
        // What was submitted is executed, if anybody serves: with lines also if somebody will.
        self.bring_on();
        if self.me != self.place.shared_seat() {
            self.place.part();
        }
        // An algorithm may still expect somebody on a seat that was left in the middle.
        if self.broken.get().is_some() {
            return;
        }
        let seat = self.me % self.place.seats;
        if let Some(taken) = locked(&self.family.taken).get_mut(seat) {
            *taken = false;
        }
    }
}

impl<O: Object> fmt::Debug for Protected<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Protected");
        shown.field("name", &self.region().name()).field("section", &self.family().section);
        match &self.0 {
            Access::Own(core) => shown.field("seat", &core.me).finish(),
            Access::Shared(_) => shown.finish_non_exhaustive(),
        }
    }
}
