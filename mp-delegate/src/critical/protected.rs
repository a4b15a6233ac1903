//! A rank's handle of a protected value, and how operations get from it to the algorithm.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use mp_core::{Rank, memory::Region, names::Namespace};
use nix::sched::sched_getcpu;

use super::{
    combiners::{Combiner, cc_synch::CcSynch, hyb_comb::HybComb},
    error::{Error, Result, Stop},
    locks::{AnyLock, clh::Clh, hyb::Hyb, mcs::Mcs, tas::Tas},
    nesting,
    object::{Fate, Object, Outcome},
    section::{Scheme, Section},
    servers::{mp, slot},
    site::{BLOCK, OBJECTS, Place, Seat, head, open_region},
    value::{Guard, Locked, Value, combined},
};

/// A protected value, in the hands of one rank.
///
/// Every rank that uses the value opens it by its name, in the same way; whoever is first makes
/// it. [`another`](Self::another) gives further threads of the rank handles of their own. The value
/// lives until all of them are dropped.
///
/// ```
/// use mp_core::World;
/// use mp_delegate::critical::{Object, Protected, Scheme};
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
///     let mut hits = Protected::<Counter>::open(rank, "hits", Scheme::HybComb, |_| ())?;
///     let mut last = 0;
///     for _ in 0..100 {
///         last = hits.apply(1)?;
///     }
///     Ok(last)
/// })?;
/// assert_eq!(last.into_iter().max(), Some(300));
/// # Ok::<(), mp_core::Error>(())
/// ```
pub struct Protected<O: Object>(Access<O>);

enum Access<O: Object> {
    Own(Box<Core<O>>),
    /// More handles than seats: they take turns.
    Shared(Arc<Crowd<O>>),
}

/// What handles that share a seat have.
struct Crowd<O: Object> {
    family: Arc<Family<O>>,
    region: Region,
    seat: Seat,
    /// Held while one of them executes an operation or waits for it: in the middle of an operation it
    /// can't be waited for.
    core: Mutex<Core<O>>,
}

impl<O: Object> Crowd<O> {
    /// Refuses what another handle has submitted that is none of these.
    fn check_owner(&self, owner: Owner) -> Result<()> {
        match owner == (self.region.id(), self.seat) {
            true => Ok(()),
            false => Err(of_another(self.region.name())),
        }
    }

    fn turn(&self) -> Result<MutexGuard<'_, Core<O>>> {
        let served = self.family.section.scheme.needs_server();
        if nesting::is_deep() && nesting::refuses(self.region.id(), served) {
            return Err(Error::Nested { object: self.region.name().to_owned() });
        }
        Ok(locked(&self.core))
    }
}

/// What one who takes part has.
pub(super) struct Core<O: Object> {
    family: Arc<Family<O>>,
    place: Place,
    value: Value<O>,
    me: Seat,
    algorithm: Algorithm<O>,
    /// An operation was given up in the middle: who was lost.
    broken: Option<usize>,
}

enum Algorithm<O: Object> {
    Lock(Box<Locked<O>>),
    Cc(CcSynch),
    Comb(HybComb),
    Slot(slot::Client),
    Mp(Box<mp::Client<O::Ret>>),
    /// The rank is to serve, through these, and has no way to itself.
    Server(Option<mp::Served>),
}

/// What all handles of a rank have in common.
struct Family<O: Object> {
    rank: Rank,
    section: Section,
    /// Memory that this object and others have in common.
    common: Option<Region>,
    /// The rank's own seats that are taken.
    taken: Mutex<Vec<bool>>,
    /// The handles that share a seat.
    crowd: Mutex<Weak<Crowd<O>>>,
}

#[cold]
fn of_another(object: &str) -> Error {
    Error::bad(object, "the request was submitted by another handle; wait for it there")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A result that is asked for later: see [`Protected::submit`].
#[must_use = "the result of an operation comes from `wait`"]
pub struct Request<O: Object> {
    submitted: Submitted<O::Ret>,
    /// The handle that has submitted it.
    of: Owner,
}

/// Tells a handle from all others of this process: its region, and its seat there.
type Owner = (u64, Seat);

enum Submitted<Ret> {
    Done(Outcome<Ret>),
    Slot(slot::Ticket),
    Mp(u64),
}

impl<O: Object> Protected<O> {
    /// Opens the object of this name, of 64 bytes at most. `make` makes its value out of zeros, in whichever rank comes
    /// first; the others wait for that. Opening it again in the same rank makes another object of
    /// that name: those of several calls pair up in their order.
    ///
    /// A value that is served ([`Scheme::needs_server`]) is used once a [`Server`](super::Server)
    /// has it; until then operations wait.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when another rank opened it as something else; [`Error::Bad`] for a
    /// section that can't be; [`Error::Lost`] when the one who made it was lost; those of
    /// [`Rank::mpb`], for a name that is too long or for lack of memory.
    pub fn open(
        rank: &Rank,
        name: &str,
        section: impl Into<Section>,
        make: impl FnOnce(&mut O::State),
    ) -> Result<Self> {
        Self::open_as(rank, (OBJECTS, name), section.into(), 0, None, make)
    }

    /// [`open`](Self::open), for ranks that say the same `identity`; `common` is what operations on
    /// this object and on others have in common.
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
            .ok_or_else(|| Error::bad(name, "a value of such a length or alignment"))?;
        let region = open_region(rank, namespace, name, words, bytes)?;
        let place = Place::new(region, seats);
        let spec = fingerprint::<O>(&section, identity);
        if let Err(other) = place.head(head::SPEC).exchange(0, spec)
            && other != spec
        {
            return Err(Error::Mismatch { object: name.to_owned() });
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

    /// Another handle of the same rank, for another thread of it. Where all
    /// [seats](Section::seats) of the rank are taken, it shares one with all further ones: then one
    /// operation at a time is executed or in flight for all of them.
    ///
    /// # Errors
    /// [`Error::Bad`] with a [`Scheme::MpServer`], whose channels are between ranks.
    pub fn another(&self) -> Result<Self> {
        let (family, place) = (Arc::clone(self.family()), self.place());
        if let Scheme::MpServer(_) = family.section.scheme {
            return Err(Error::bad(place.region.name(), "MpServer has one handle for each rank"));
        }
        let seat = locked(&family.taken).iter().any(|taken| !taken);
        if seat && let Ok(core) = Core::sit(Arc::clone(&family), place.clone(), |_, _, _| Ok(())) {
            return Ok(Self(Access::Own(Box::new(core))));
        }
        let mut crowd = locked(&family.crowd);
        if let Some(shared) = crowd.upgrade() {
            return Ok(Self(Access::Shared(shared)));
        }
        let me = place.shared_seat();
        let region = place.region.clone();
        let core = Mutex::new(Core::at(Arc::clone(&family), place, me)?);
        let shared = Arc::new(Crowd { family: Arc::clone(&family), region, seat: me, core });
        *crowd = Arc::downgrade(&shared);
        Ok(Self(Access::Shared(shared)))
    }

    /// Executes an operation, in mutual exclusion, wherever that happens; waits for its result.
    ///
    /// # Errors
    /// [`Error::Panicked`], [`Error::Poisoned`], [`Error::Nested`]; [`Error::Unknown`] when the rank that
    /// executed it was killed in the middle, or nobody serves. Where ranks are threads,
    /// [`Error::Lost`] or `Unknown` when one has ended that this one has to wait for; after that the handle
    /// gets nothing but `Lost`.
    #[inline]
    pub fn apply(&mut self, op: O::Op) -> Result<O::Ret> {
        match &mut self.0 {
            Access::Own(core) => core.apply(op),
            Access::Shared(crowd) => apply_among(crowd, op),
        }
    }

    /// Hands over an operation without waiting for its result. With a server it is executed while
    /// this thread goes on; with the other schemes, before the call returns, as it is with a handle
    /// that [shares](Self::another) its seat.
    ///
    /// Operations of a handle are executed in their order. While some are in flight, further ones
    /// may be gathered, and go to the server when a cache line is full, when a result is asked for,
    /// and with [`flush`](Self::flush).
    ///
    /// The last [`in_flight`](Section::in_flight) results are kept at least, and can be asked for in
    /// any order, or not at all. Whoever submits more waits for the oldest to be executed.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), as far as it is known yet.
    #[inline]
    pub fn submit(&mut self, op: O::Op) -> Result<Request<O>> {
        match &mut self.0 {
            Access::Own(core) => {
                let submitted = core.submit(op)?;
                Ok(Request { submitted, of: core.owner() })
            }
            Access::Shared(crowd) => submit_among(crowd, op),
        }
    }

    /// Waits for the result of an operation that this handle has submitted.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`Error::Forgotten`]; [`Error::Bad`] for a request of another handle.
    #[inline]
    pub fn wait(&mut self, request: Request<O>) -> Result<O::Ret> {
        match &mut self.0 {
            Access::Own(core) => {
                core.check_owner(request.of)?;
                core.wait(request.submitted)
            }
            Access::Shared(crowd) => wait_among(crowd, request),
        }
    }

    /// Whether an operation that this handle has submitted was executed, so that its result can be
    /// had without waiting.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn test(&mut self, request: &Request<O>) -> Result<bool> {
        match &mut self.0 {
            Access::Own(core) => {
                core.check_owner(request.of)?;
                core.test(&request.submitted)
            }
            // It was executed when it was submitted.
            Access::Shared(crowd) => crowd.check_owner(request.of).map(|()| true),
        }
    }

    /// Sends to the server what was submitted and not sent yet.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.0 {
            Access::Own(core) => core.flush(),
            Access::Shared(_) => Ok(()),
        }
    }

    /// Takes the lock: the value itself, until the guard is dropped. With a [lock](Scheme::is_lock)
    /// only, and a handle that has its seat for itself.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`Error::Bad`].
    #[inline]
    pub fn lock(&mut self) -> Result<Guard<'_, O>> {
        match &mut self.0 {
            Access::Own(core) => core.lock(),
            Access::Shared(crowd) => {
                Err(Error::bad(crowd.region.name(), "a lock needs a seat of its own"))
            }
        }
    }

    /// Whether an operation did not come to its end, so that others are refused.
    pub fn is_poisoned(&self) -> bool {
        self.region().words()[head::POISONED].load() != 0
    }

    /// Lets operations go on after one did not come to its end. To be called when the value is
    /// known to be good.
    pub fn clear_poison(&self) {
        self.region().words()[head::POISONED].store(0);
    }

    /// How it is protected.
    pub fn section(&self) -> Section {
        self.family().section
    }

    /// Tells the object from all others that are open in this process, if all ranks are in it.
    pub(super) fn key(&self) -> Option<u64> {
        let region = self.region();
        region.is_in_one_process().then(|| region.id())
    }

    /// The object's name.
    pub fn name(&self) -> String {
        self.region().name().to_owned()
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

    /// For a server: the seat is given up.
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
        let misfit = || Error::bad(place.region.name(), "its memory is too short");
        let value = Value::new(&place.region, len, poison, family.common.as_ref());
        let value = value.ok_or_else(misfit)?;
        Ok(Served { rank: family.rank.clone(), section: family.section, place, value, first })
    }
}

/// For handles that share a seat.
#[inline(never)]
fn apply_among<O: Object>(crowd: &Crowd<O>, op: O::Op) -> Result<O::Ret> {
    crowd.turn()?.apply(op)
}

#[inline(never)]
fn submit_among<O: Object>(crowd: &Crowd<O>, op: O::Op) -> Result<Request<O>> {
    let mut core = crowd.turn()?;
    let submitted = core.submit(op)?;
    let of = core.owner();
    core.collect(submitted).map(|outcome| Request { submitted: Submitted::Done(outcome), of })
}

#[inline(never)]
fn wait_among<O: Object>(crowd: &Crowd<O>, request: Request<O>) -> Result<O::Ret> {
    crowd.check_owner(request.of)?;
    match request.submitted {
        Submitted::Done(Outcome { fate: Fate::Done, ret }) => Ok(ret),
        Submitted::Done(Outcome { fate, .. }) => {
            let place = Place::new(crowd.region.clone(), crowd.family.section.seats + 1);
            let name = crowd.region.name();
            Err(Error::of(name, fate, || place.message(place.shared_seat())))
        }
        in_flight => crowd.turn()?.wait(in_flight),
    }
}

/// What a server needs of an object.
pub(super) struct Served<O: Object> {
    pub(super) rank: Rank,
    pub(super) section: Section,
    pub(super) place: Place,
    pub(super) value: Value<O>,
    /// The channels of the server that the scheme names.
    pub(super) first: Option<mp::Served>,
}

fn check<O: Object>(rank: &Rank, name: &str, section: &Section) -> Result<()> {
    let bad = |reason: &str| Err(Error::bad(name, reason));
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
    if section.scheme == Scheme::SlotServer
        && (section.seats + 1) * rank.size() > slot::Slots::SEATS
    {
        return bad("a server has not so many seats");
    }
    if section.groups == Some(0) {
        return bad("there is at least one group");
    }
    Ok(())
}

/// Words of the algorithm for so many seats.
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

/// Groups of ranks that are near each other.
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

/// What all ranks must say alike.
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
    /// Takes one of the rank's own seats that is free.
    fn sit(
        family: Arc<Family<O>>,
        place: Place,
        first: impl FnOnce(&Value<O>, &Place, Seat) -> Result<(), Stop>,
    ) -> Result<Self> {
        let name = place.region.name().to_owned();
        let seat = {
            let mut taken = locked(&family.taken);
            let free = taken.iter().position(|taken| !taken);
            let free = free.ok_or_else(|| Error::bad(&name, "all seats are taken"))?;
            taken[free] = true;
            free
        };
        let me = place.region.rank() * place.seats + seat;
        let core = Self::at(Arc::clone(&family), place, me).inspect_err(|_| {
            locked(&family.taken)[seat] = false;
        })?;
        first(&core.value, &core.place, me).map_err(|stop| Error::stopped(&name, stop))?;
        Ok(core)
    }

    fn at(family: Arc<Family<O>>, mut place: Place, me: Seat) -> Result<Self> {
        let name = place.region.name().to_owned();
        let section = &family.section;
        place.waits.observed = section.scheme.is_lock();
        let stopped = |stop| Error::stopped(&name, stop);
        let misfit = || Error::bad(&name, "its memory is too short");
        let Section { len, poison, .. } = *section;
        let value = || {
            let value = Value::new(&place.region, len, poison, family.common.as_ref());
            value.ok_or_else(misfit)
        };
        let with = |lock| -> Result<Algorithm<O>> {
            Ok(Algorithm::Lock(Box::new(Locked::new(value()?, place.clone(), me, lock))))
        };
        // Servers look at no more seats than were ever taken.
        let seats = place.head(head::SEATS);
        let mut seen = seats.load();
        while seen <= me as u64 {
            match seats.exchange(seen, me as u64 + 1) {
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
                Algorithm::Slot(client.map_err(stopped)?)
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
                Algorithm::Mp(Box::new(client))
            }
        };
        let value = value()?;
        place.join();
        Ok(Self { family, place, value, me, algorithm, broken: None })
    }

    fn name(&self) -> &str {
        self.place.region.name()
    }

    #[cold]
    fn bad(&self, reason: &str) -> Error {
        Error::bad(self.name(), reason)
    }

    #[cold]
    fn stopped(&mut self, stop: Stop) -> Error {
        if let Stop::Lost(rank) | Stop::Unsure(rank) = stop {
            self.broken = Some(rank);
        }
        Error::stopped(self.name(), stop)
    }

    /// What was not executed as it was to be.
    #[cold]
    fn failed(&self, fate: Fate) -> Error {
        Error::of(self.name(), fate, || self.place.message(self.me))
    }

    #[cold]
    fn nested(&self) -> Error {
        Error::Nested { object: self.name().to_owned() }
    }

    /// Whether an operation can be asked for, in the middle of another or after a loss.
    #[cold]
    fn check(&self, served: bool) -> Result<()> {
        if nesting::refuses(self.place.region.id(), served) {
            return Err(self.nested());
        }
        match self.broken {
            None => Ok(()),
            Some(rank) => Err(Error::stopped(self.name(), Stop::Lost(rank))),
        }
    }

    #[inline(always)]
    fn apply(&mut self, op: O::Op) -> Result<O::Ret> {
        let submitted = self.submit(op)?;
        self.wait(submitted)
    }

    /// A client of lines is inlined into the caller, so that its requests stay in registers: one that
    /// goes through memory takes longer than all else. The others are a call away, each alone.
    #[inline(always)]
    fn submit(&mut self, op: O::Op) -> Result<Submitted<O::Ret>> {
        if nesting::is_deep() || self.broken.is_some() {
            self.check(self.family.section.scheme.needs_server())?;
        }
        let Self { place, value, me, algorithm, .. } = self;
        let outcome = match algorithm {
            Algorithm::Slot(client) => {
                let ticket = client.submit(place, &op).map(Submitted::Slot);
                return ticket.map_err(|stop| self.stopped(stop));
            }
            Algorithm::Mp(client) => {
                let number = client.submit(place, &op).map(Submitted::Mp);
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

    #[inline(always)]
    fn owner(&self) -> Owner {
        (self.place.region.id(), self.me)
    }

    /// Refuses what another handle has submitted.
    #[inline(always)]
    fn check_owner(&self, owner: Owner) -> Result<()> {
        match owner == self.owner() {
            true => Ok(()),
            false => Err(of_another(self.place.region.name())),
        }
    }

    #[inline(always)]
    fn collect(&mut self, submitted: Submitted<O::Ret>) -> Result<Outcome<O::Ret>> {
        let collected = match (submitted, &mut self.algorithm) {
            (Submitted::Done(outcome), _) => return Ok(outcome),
            (Submitted::Slot(ticket), Algorithm::Slot(client)) => {
                client.collect(&self.place, ticket)
            }
            (Submitted::Mp(number), Algorithm::Mp(client)) => {
                client.collect::<_, O::Op>(&self.place, number)
            }
            _ => Ok(None),
        };
        match collected {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => Err(self.forgotten()),
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    #[cold]
    fn forgotten(&self) -> Error {
        let kept = self.family.section.in_flight;
        Error::Forgotten { object: self.name().to_owned(), kept }
    }

    #[inline(always)]
    fn wait(&mut self, submitted: Submitted<O::Ret>) -> Result<O::Ret> {
        let Outcome { fate, ret } = self.collect(submitted)?;
        if fate == Fate::Done { Ok(ret) } else { Err(self.failed(fate)) }
    }

    fn test(&mut self, submitted: &Submitted<O::Ret>) -> Result<bool> {
        let done = match (submitted, &mut self.algorithm) {
            (Submitted::Slot(ticket), Algorithm::Slot(client)) => {
                client.is_done(&self.place, *ticket)
            }
            (Submitted::Mp(number), Algorithm::Mp(client)) => {
                client.is_done::<_, O::Op>(&self.place, *number)
            }
            _ => Ok(true),
        };
        done.map_err(|stop| self.stopped(stop))
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = match &mut self.algorithm {
            Algorithm::Slot(client) => client.flush(&self.place),
            Algorithm::Mp(client) => client.flush::<_, O::Op>(&self.place),
            _ => Ok(()),
        };
        flushed.map_err(|stop| self.stopped(stop))
    }

    #[inline(always)]
    fn lock(&mut self) -> Result<Guard<'_, O>> {
        if nesting::is_deep() || self.broken.is_some() {
            self.check(false)?;
        }
        let Self { place, algorithm, broken, .. } = self;
        let Algorithm::Lock(locked) = algorithm else {
            return Err(Error::bad(place.region.name(), "it is not protected by a lock"));
        };
        match locked.acquire() {
            // Not before: whoever had the lock may have panicked.
            Ok(_) if place.head(head::POISONED).peek() != 0 => Err(poisoned(place)),
            Ok(guard) => Ok(guard),
            Err(stop) => {
                if let Stop::Lost(rank) = stop {
                    *broken = Some(rank);
                }
                Err(Error::stopped(place.region.name(), stop))
            }
        }
    }
}

#[cold]
fn poisoned(place: &Place) -> Error {
    Error::Poisoned { object: place.region.name().to_owned() }
}

#[inline(never)]
fn by_combiner<O: Object>(
    combiner: &mut impl Combiner,
    place: &Place,
    value: &Value<O>,
    me: Seat,
    op: O::Op,
) -> Result<Outcome<O::Ret>, Stop> {
    combined(combiner, place, value, me, op)
}

impl<O: Object> Drop for Core<O> {
    fn drop(&mut self) {
        // What was submitted is executed, if anybody serves.
        match &mut self.algorithm {
            Algorithm::Slot(client) => _ = client.flush(&self.place),
            Algorithm::Mp(client) => client.part(&self.place),
            _ => {}
        }
        self.place.part();
        // An algorithm may still expect somebody on a seat that was left in the middle.
        if self.broken.is_some() {
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

impl<O: Object> fmt::Debug for Request<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}
