//! A seat's share of a protected value: the algorithm, and how operations reach it from the seat's handle.
//!
//! The private state of a lock or a combiner lies in cells. That is safe because each thread keeps a list of the
//! sections that it is in (`nesting.rs`), and the list refuses a second call before the call reaches the cells. A call
//! enters the list before it waits, since the rank may meanwhile advance other work that calls the handle again. The
//! client of a server is behind a `RefCell` for the same reason.
//!
//! A request is passed from call to call in registers, and a guard is one pointer, because a value that is written in
//! parts and then read as a whole costs as much as a locked instruction. Therefore the client's side of a slot server
//! and the locks are inlined into callers, and the rest is not.

use std::{
    cell::{Cell, RefCell, RefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use mp_core::{Error, ErrorKind, Operation, Plain, Rank, Result, memory::Region};

use super::{
    combiners::{Combiner, cc_synch::CcSynch, hyb_comb::HybComb},
    crowd::Crowd,
    error::{bad, failed, stopped},
    fate::{Fate, Outcome},
    locks::{AnyLock, clh::Clh, hyb::Hyb, mcs::Mcs, tas::Tas},
    nesting,
    object::Object,
    place::{Place, head},
    plan::{group_here, groups, slots},
    section::{Scheme, Section},
    servers::{mp, slot},
    site::{Limit, Seat, Site},
    stop::Stop,
    value::{Guard, Locked, Value, combined, combined_within},
};

/// Records that requests of a handle have asked for a ring of the doorbell.
#[derive(Clone, Copy)]
struct Raised {
    number: u32,
    requests: usize,
}

/// The data of one participant.
pub(super) struct Core<O: Object> {
    pub(super) family: Arc<Family<O>>,
    pub(super) place: Place,
    value: Value<O>,
    pub(super) me: Seat,
    pub(super) algorithm: Algorithm<O>,
    /// The rank that was lost while an operation was under way, if the operation was given up.
    broken: Cell<Option<usize>>,
    raised: Cell<Option<Raised>>,
}

pub(super) enum Algorithm<O: Object> {
    Lock(Box<Locked<O>>),
    Cc(CcSynch),
    Comb(HybComb),
    Slot(RefCell<slot::Client>),
    Mp(Box<RefCell<mp::Client<O::Ret>>>),
    /// The rank is to serve, through these channels. It has no channel to itself.
    Server(Option<mp::Served>),
}

/// The data that all handles of a rank share.
pub(super) struct Family<O: Object> {
    pub(super) rank: Rank,
    pub(super) section: Section,
    /// Memory that this object shares with others.
    pub(super) common: Option<Region>,
    /// Whether each of the rank's own seats is taken.
    pub(super) taken: Mutex<Vec<bool>>,
    /// The handles that share a seat.
    pub(super) crowd: Mutex<Weak<Crowd<Core<O>>>>,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that was handed over.
pub(super) enum Submitted<Ret> {
    Done(Outcome<Ret>),
    /// The operation is at a server, under this number.
    InFlight(u64),
}

impl<O: Object> Core<O> {
    /// Takes one of the rank's own free seats.
    pub(super) fn sit(
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

    pub(super) fn at(family: Arc<Family<O>>, mut place: Place, me: Seat) -> Result<Self> {
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
        // Servers look only at seats that were ever taken, so the number of these seats is recorded.
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
                // The channels are opened here, so that clients notice if the handle is dropped without serving.
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
        // The handles that share a seat are counted one by one elsewhere: see `crowd.rs`.
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

    /// Returns the error for an operation that was not executed properly.
    #[cold]
    fn failed(&self, fate: Fate) -> Error {
        failed(self.name(), fate, || self.place.message(self.me))
    }

    #[cold]
    fn nested(&self) -> Error {
        Error::from(ErrorKind::NestedOperation { object: self.name().into() })
    }

    /// Returns a server's client, unless this thread is in the middle of another call of this handle. While that call
    /// waits, the rank's pending work may call the handle.
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

    /// Checks whether an operation may be submitted: not inside another one that excludes it, and not after a loss.
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
    pub(super) fn apply(&self, op: O::Op) -> Result<O::Ret> {
        match self.submit(op)? {
            Submitted::Done(outcome) => self.result(outcome),
            Submitted::InFlight(number) => self.collect(number),
        }
    }

    /// Executes an operation if no other rank uses the object.
    pub(super) fn try_apply(&self, op: O::Op) -> Result<Option<O::Ret>> {
        /// The time within which an idle server begins with an operation.
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

    /// Executes an operation if no other handle uses the object, now or before the limit is over.
    pub(super) fn apply_within(&self, op: O::Op, limit: Option<&Limit>) -> Result<Option<O::Ret>> {
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

    pub(super) fn lock_within(&self, limit: Option<&Limit>) -> Result<Option<Guard<'_, O>>> {
        self.check_all()?;
        let Algorithm::Lock(locked) = &self.algorithm else {
            return Err(self.bad("it is not protected by a lock"));
        };
        let guard = locked.acquire_within(limit).map_err(|stop| self.stopped(stop))?;
        match guard {
            // Poisoning is checked while the lock is held, because the previous holder may have panicked.
            Some(guard) if locked.is_poisoned() => Err(self.poisoned(guard)),
            guard => Ok(guard),
        }
    }

    /// Takes back an operation that was submitted and not sent, if it was the last one.
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

    /// Submits an operation. The client of a slot server is inlined into the caller, so that its requests stay in
    /// registers: passing a request through memory takes longer than everything else. The other algorithms are separate
    /// calls.
    #[inline(always)]
    pub(super) fn submit(&self, op: O::Op) -> Result<Submitted<O::Ret>> {
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

    /// Waits for the result of a submitted operation.
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

    /// Sends the submitted operations, as far as that is possible without waiting. Returns false if no operation can be
    /// sent any more.
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
        // If the client is borrowed, the call that holds it sends them.
        brought.unwrap_or(true)
    }

    /// Returns whether the result of an operation is known, or will never be known.
    pub(super) fn is_done(&self, number: u64) -> bool {
        let done = match &self.algorithm {
            Algorithm::Slot(client) => client.try_borrow_mut().map(|mut client| {
                let ticket = slot::Ticket(number);
                let mut look = || client.is_done(&self.place, ticket);
                match look() {
                    // Responses that were written before the server's end are visible by now.
                    Ok(false) if self.place.unserved() => look().map(|_| true),
                    done => done,
                }
            }),
            Algorithm::Mp(client) => client.try_borrow_mut().map(|mut client| {
                Ok(client.is_done(number)? || client.bring_on::<_, O::Op>(&self.place).is_err())
            }),
            _ => Ok(Ok(true)),
        };
        // An error counts as done, because the wait for the result returns it.
        done.is_ok_and(|done| done.unwrap_or(true))
    }

    /// Asks for a ring of the rank's doorbell when there may be something to see. The call is for a request that has
    /// not asked yet, or that asks `again`.
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

    /// Withdraws one request's wish for a ring.
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

    /// Begins this handle's wait, without a limit, for a first server, if no rank serves yet. The wait lasts until
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

    /// Returns the call that a wait belongs to, in the words of a report.
    pub(super) fn call(&self) -> Option<String> {
        self.place.region.call(None)
    }

    /// Returns what a report says about a wait.
    pub(super) fn awaits(&self) -> (Operation, Vec<u64>) {
        match &self.algorithm {
            Algorithm::Mp(client) => match client.try_borrow() {
                Ok(client) => (Operation::Receive, client.awaits()),
                Err(_) => self.place.region.awaits(self.me),
            },
            _ => self.place.region.awaits(self.me),
        }
    }

    pub(super) fn flush(&self) -> Result<()> {
        let flushed = match &self.algorithm {
            Algorithm::Slot(client) => self.alone(client)?.flush(&self.place),
            Algorithm::Mp(client) => self.alone(client)?.flush::<_, O::Op>(&self.place),
            _ => Ok(()),
        };
        flushed.map_err(|stop| self.stopped(stop))
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Result<Guard<'_, O>> {
        if nesting::is_deep() || self.broken.get().is_some() {
            self.check(false)?;
        }
        let Algorithm::Lock(locked) = &self.algorithm else {
            return Err(self.bad("it is not protected by a lock"));
        };
        match locked.acquire() {
            // Poisoning is checked while the lock is held, because the previous holder may have panicked.
            Ok(guard) if locked.is_poisoned() => Err(self.poisoned(guard)),
            Ok(guard) => Ok(guard),
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    /// Releases the lock, and returns the error for a value that an unfinished operation has poisoned.
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
            // The server is gone and had not begun with the operation, so the operation goes to the successor.
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
        // Submitted operations are executed if a rank serves. A slot server executes them even if it begins to serve
        // later.
        self.bring_on();
        if self.me != self.place.shared_seat() {
            self.place.part();
        }
        // A seat whose operation was given up stays taken, because the algorithm may still expect its handle there.
        if self.broken.get().is_some() {
            return;
        }
        let seat = self.me % self.place.seats;
        if let Some(taken) = locked(&self.family.taken).get_mut(seat) {
            *taken = false;
        }
    }
}
