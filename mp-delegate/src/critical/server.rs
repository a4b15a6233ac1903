//! A rank that serves: the loop around the server sides of objects.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mp_core::{
    Rank, Result,
    memory::{Region, Word},
    waits::{end_look, looks, pauses},
};

use super::{
    error::{bad, stopped},
    nesting::Inside,
    object::Object,
    place::{Place, head},
    plan::slots,
    protected::{self, Protected},
    section::Scheme,
    servers::{mp, slot},
    site::{Site, seat},
    stop::Stop,
    value::Value,
};

/// A rank that executes other ranks' operations, on one object or on several.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Object, Protected, Scheme, Server};
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
/// World::threads(3).run(|rank| {
///     let hits = Protected::<Counter>::open(rank, "hits", Scheme::SlotServer, |_| ())?;
///     if rank.id() == 0 {
///         let mut server = Server::new();
///         server.add(hits)?;
///         return server.serve().map_err(Into::into);
///     }
///     let requests = [1, 2, 3].map(|by| hits.submit(by));
///     for request in requests {
///         assert!(request?.wait()? <= 12);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// **Standing by.** If another rank already serves an object, this server stands by and takes over when that rank is
/// gone. No operation is executed twice. If the other rank was killed in the middle of an operation, this server first
/// [repairs](Object::repair) the value. A value that can't be repaired is poisoned, unless [`Section::poison`] says
/// otherwise.
///
/// - Behind a [`Scheme::SlotServer`], this server answers the requests that the other server had not answered, because
///   the slots show for each operation whether it was executed. Only the operation in the middle of which the other
///   server was killed is [unknown](mp_core::ErrorKind::OutcomeUnknown).
/// - Behind a [`Scheme::MpServer`], requests are lost with the channels that they were in. Every operation that the
///   other server had received or was to receive and had not answered is unknown; later requests go to this server.
///
/// If no server stands by, clients get [`OutcomeUnknown`](mp_core::ErrorKind::OutcomeUnknown) at once. Clients do not
/// wait forever for a first server, either. They get this error when a server that was [added](Self::add) is gone
/// before it began; when a rank is lost that had the object open and had submitted nothing, because it may have been
/// the rank that was to serve; and when all open handles wait without a limit: in a call, or as a future from its first
/// poll until it is ready or dropped. A rank that waits with a limit may serve afterwards. A server that comes later
/// still serves.
///
/// **Nested calls.** An operation that a server executes can't submit an operation on any object that is served, by
/// this or another server: [`NestedOperation`](mp_core::ErrorKind::NestedOperation). It can use objects that are not
/// served.
///
/// [`Section::poison`]: super::Section::poison
#[derive(Default)]
pub struct Server {
    objects: Vec<Box<dyn Serving>>,
    waker: Waker,
    /// The server executes operations in the thread that has it, so the server ends no later than that thread.
    _not_send: PhantomData<*const ()>,
}

impl Server {
    /// Creates a server that serves nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves an object from now on, or stands by for it. All objects of a server belong to one rank.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) if the object's scheme has no server, or has another one.
    pub fn add<O: Object>(&mut self, object: Protected<O>) -> Result<()> {
        let protected::Served { rank, section, place, value, first, handle } =
            object.into_served()?;
        match section.scheme {
            Scheme::SlotServer => {
                let slots = slots::<O>(&section, place.all_seats());
                let (served, cut_short) = (None, 0);
                self.objects.push(if section.shuffled {
                    let order = slot::Shuffled::new(place.all_seats());
                    Box::new(Slots::<O, _> { order, slots, place, value, served, cut_short })
                } else {
                    let order = slot::InOrder;
                    Box::new(Slots::<O, _> { order, slots, place, value, served, cut_short })
                });
            }
            Scheme::MpServer(named) => {
                let in_flight = section.in_flight;
                let turn = Turn { named, first };
                let served = None;
                let messages =
                    Messages { rank, in_flight, place, value, turn, served, cut_short: 0 };
                self.objects.push(Box::new(messages));
            }
            _ => return Err(bad(place.region.name(), "it is not to be served")),
        }
        if let Some(object) = self.objects.last() {
            object.place().serves().fetch_add(1);
            self.waker.places().push(object.place().clone());
        }
        // The handle is dropped only after this rank is counted as one that serves.
        drop(handle);
        Ok(())
    }

    /// Returns a waker. With it another thread of the rank makes this server check whether to continue: see
    /// [`serve_while`](Self::serve_while).
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Executes operations until every other rank has closed all of the objects, or ended, or serves them too, and this
    /// rank has no other handle of them.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning, and errors of the world.
    pub fn serve(&mut self) -> Result<()> {
        self.serve_while(|| true)
    }

    /// Serves as [`serve`](Self::serve) does, as long as `go_on` returns true. The server calls `go_on` often; while
    /// there is nothing to execute, it does so when a [`Waker`] of this server wakes it.
    ///
    /// ```
    /// use std::sync::{Mutex, mpsc};
    ///
    /// use onchip::World;
    /// use onchip::critical::{Scheme, Server, objects::Counter};
    ///
    /// let rank = World::solo()?;
    /// let mut server = Server::new();
    /// let counter = Counter::open(&rank, "count", Scheme::SlotServer)?;
    /// // This handle would keep the server from ending by itself.
    /// let client = counter.another()?;
    /// server.add(counter)?;
    /// let (waker, (stop, stopped)) = (server.waker(), mpsc::channel());
    /// std::thread::scope(|scope| {
    ///     scope.spawn(move || {
    ///         let _ = stop.send(());
    ///         waker.wake();
    ///     });
    ///     server.serve_while(|| stopped.try_recv().is_err())
    /// })?;
    /// drop(client);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `serve`.
    pub fn serve_while(&mut self, go_on: impl FnMut() -> bool) -> Result<()> {
        let served = self.rounds(go_on);
        self.push();
        served
    }

    fn rounds(&mut self, mut go_on: impl FnMut() -> bool) -> Result<()> {
        loop {
            let (looks, pauses) = self.patience();
            while self.looks(looks, end_look)? || self.looks(pauses + 1, std::hint::spin_loop)? {
                if !go_on() {
                    return Ok(());
                }
            }
            if !go_on() || !self.rest()? {
                return Ok(());
            }
        }
    }

    /// Looks up to `times` times at each client of each object, with a pause after each look. Returns whether a look
    /// found an operation, which was then executed.
    #[inline(always)]
    fn looks(&mut self, times: u32, pause: impl Fn()) -> Result<bool> {
        for _ in 0..times {
            if round(&mut self.objects)? {
                return Ok(true);
            }
            pause();
        }
        Ok(false)
    }

    /// Looks once at each client of each object, and executes what it finds. Returns whether there was any operation.
    ///
    /// # Errors
    /// As `serve`.
    #[inline]
    pub fn round(&mut self) -> Result<bool> {
        let worked = round(&mut self.objects);
        self.push();
        worked
    }

    /// Returns how many interrupted operations the server found when it took over from servers that were killed.
    pub fn cut_short(&self) -> u64 {
        self.objects.iter().map(|object| object.cut_short()).sum()
    }

    fn push(&mut self) {
        self.objects.iter_mut().for_each(|object| object.push());
    }

    /// Returns how often the server looks in vain before it rests: first without a pause, then with a pause after each
    /// look.
    fn patience(&self) -> (u32, u32) {
        /// A request may be about to arrive. With many clients this lasts longer, because each round looks at all of
        /// them.
        const FIRST: Duration = Duration::from_nanos(1400);
        /// This is about as long as a wake-up takes.
        const SPIN: Duration = Duration::from_micros(20);
        /// Where ranks share cores, this is about as long as a running client takes until its next request.
        const LEAST: Duration = Duration::from_nanos(900);
        match self.objects.first() {
            None => (0, 0),
            Some(object) if object.place().spins() => (looks(FIRST), pauses(SPIN)),
            Some(_) => (0, pauses(LEAST)),
        }
    }

    /// Waits until there is something to do. Returns false if there never will be.
    fn rest(&mut self) -> Result<bool> {
        let places: Vec<Place> = self.objects.iter().map(|o| o.place().clone()).collect();
        let regions: Vec<(&Region, usize)> =
            places.iter().map(|place| (&place.region, place.region.rank() * place.seats)).collect();
        if regions.is_empty() {
            return Ok(false);
        }
        let (objects, waker) = (&mut self.objects, &self.waker);
        Region::wait_for_any(&regions, None, None, Some("server"), || match round(objects) {
            Ok(false) if waker.was_called() => Some(Ok(true)),
            Ok(false) if !places.iter().all(is_over) => None,
            // What the other ranks had submitted before they left is visible by now.
            Ok(false) => match round(objects) {
                Ok(false) => Some(Ok(false)),
                worked => Some(worked),
            },
            worked => Some(worked),
        })?
    }
}

fn round(objects: &mut [Box<dyn Serving>]) -> Result<bool> {
    let mut worked = false;
    for object in objects {
        worked |= object.round().map_err(|stop| stopped(object.name(), stop))?;
    }
    Ok(worked)
}

/// Returns whether no rank is left that could submit an operation.
fn is_over(place: &Place) -> bool {
    let others = (0..place.region.ranks()).filter(|&rank| rank != place.region.rank());
    let is_out = |rank: usize| place.region.is_gone(rank) || place.stands_by(rank);
    !place.is_open() && { others }.all(is_out)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.waker.places().clear();
        for object in &self.objects {
            let place = object.place();
            place.serves().fetch_add(1u64.wrapping_neg());
            let (server, me) = (place.head(head::SERVER), place.region.rank() as u64 + 1);
            // From now on another server may serve.
            if object.is_serving() {
                let _ = server.compare_exchange(me, me | head::LEFT);
            } else if object.may_begin() {
                let _ = server.compare_exchange(0, head::LEFT);
            }
            // This server may have been the last one that stood by.
            place.region.wake_all();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.objects.iter().map(|object| object.name()).collect();
        f.debug_struct("Server").field("objects", &names).finish()
    }
}

/// Makes a server check whether to continue: see [`Server::serve_while`]. It may outlive the server.
#[derive(Clone)]
pub struct Waker(Arc<Bell>);

struct Bell {
    /// Not 0: a waker was called since the server last looked.
    called: Word,
    /// The places of the server's objects.
    places: Mutex<Vec<Place>>,
}

impl Default for Waker {
    fn default() -> Self {
        Self(Arc::new(Bell { called: Word::new(0), places: Mutex::default() }))
    }
}

impl Waker {
    /// Wakes the server if it rests. In any case the server checks whether to continue.
    pub fn wake(&self) {
        self.0.called.store(1);
        if let Some(place) = self.places().first() {
            // Either the server sees the call before it sleeps, or this thread sees that the server sleeps.
            place.region.fence();
            place.wake(place.region.rank() * place.seats);
        }
    }

    fn was_called(&self) -> bool {
        self.0.called.load_relaxed() != 0 && self.0.called.swap(0) != 0
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.0.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// An object of any kind that is served.
trait Serving {
    fn place(&self) -> &Place;

    /// Returns whether this rank serves the object, and does not merely stand by.
    fn is_serving(&self) -> bool;

    /// Returns whether any rank can be the first to serve. In that case, no other server is known to come if this one
    /// leaves before it serves.
    fn may_begin(&self) -> bool {
        false
    }

    /// Returns how many interrupted operations were found.
    fn cut_short(&self) -> u64;

    fn round(&mut self) -> Result<bool, Stop>;

    /// Makes sure that answers reach the clients. Called before a rest of unknown length.
    fn push(&mut self) {}

    fn name(&self) -> &str {
        self.place().region.name()
    }
}

/// Makes this rank the server, if no rank serves and the previous server has finished what it began. Returns the word
/// of the previous server. The word is 0 if there was none; then only a rank that `may_begin` takes over.
fn begin(place: &Place, may_begin: impl FnOnce() -> bool) -> Option<u64> {
    let server = place.head(head::SERVER);
    let seen = server.load();
    let is_free = match seen {
        0 => may_begin(),
        _ if seen & head::LEFT != 0 => true,
        // It is not enough that the rank is gone, because one of its threads may still execute an operation.
        rank => place.region.is_dead(rank as usize - 1),
    };
    let me = place.region.rank() as u64 + 1;
    (is_free && server.compare_exchange(seen, me).is_ok()).then_some(seen)
}

struct Slots<O: Object, D> {
    order: D,
    slots: slot::Slots,
    place: Place,
    value: Value<O>,
    /// `None` while this rank stands by.
    served: Option<slot::Served>,
    cut_short: u64,
}

/// Leaves the object to other servers after a failed take-over.
#[cold]
fn withdraw(place: &Place) {
    let me = place.region.rank() as u64 + 1;
    let _ = place.head(head::SERVER).compare_exchange(me, me | head::LEFT);
    place.region.wake_all();
}

impl<O: Object, D: slot::Order> Slots<O, D> {
    #[cold]
    fn take_over(&mut self) -> Result<bool, Stop> {
        if begin(&self.place, || true).is_none() {
            return Ok(false);
        }
        self.follow().inspect_err(|_| withdraw(&self.place))
    }

    /// Finishes what the previous server was in the middle of. Returns whether there was such an operation.
    fn follow(&mut self) -> Result<bool, Stop> {
        let place = &self.place;
        let (mut served, unfinished) = slot::Served::take_over(self.slots, place)?;
        let worked = unfinished.is_some();
        if let Some(unfinished) = unfinished {
            let is_good = self.value.repair(place);
            self.cut_short += 1;
            let _inside = Inside::enter(place.region.id(), true);
            let again = |op: &O::Op| is_good && self.value.is_idempotent(op);
            served.finish(place, unfinished, again, &mut self.value.runner(place))?;
        }
        self.served = Some(served);
        Ok(worked)
    }
}

impl<O: Object, D: slot::Order> Serving for Slots<O, D> {
    fn place(&self) -> &Place {
        &self.place
    }

    fn is_serving(&self) -> bool {
        self.served.is_some()
    }

    fn may_begin(&self) -> bool {
        true
    }

    fn cut_short(&self) -> u64 {
        self.cut_short
    }

    #[inline]
    fn round(&mut self) -> Result<bool, Stop> {
        let Self { order, place, value, served, .. } = self;
        let Some(served) = served else { return self.take_over() };
        let _inside = Inside::enter(place.region.id(), true);
        let seats = place.head(head::SEATS).load_relaxed() as usize;
        served.round(place, order, seats, &mut value.runner(place))
    }

    fn push(&mut self) {
        if let Some(served) = &mut self.served {
            served.push(&self.place);
        }
    }
}

struct Messages<O: Object> {
    rank: Rank,
    in_flight: usize,
    place: Place,
    value: Value<O>,
    turn: Turn,
    /// `None` while this rank stands by.
    served: Option<mp::Served>,
    cut_short: u64,
}

/// Decides when it is a server's turn.
struct Turn {
    /// The rank that is to be the first server.
    named: usize,
    /// The channels of that rank.
    first: Option<mp::Served>,
}

impl<O: Object> Messages<O> {
    /// The server's word: not 0 in the middle of an operation.
    fn busy(place: &Place) -> Result<&Word, Stop> {
        place.word(Place::own(place.all_seats()))
    }

    #[cold]
    fn take_over(&mut self) -> Result<bool, Stop> {
        let Self { rank, place, turn, .. } = self;
        let may_begin = || rank.id() == turn.named || place.region.is_gone(turn.named);
        let Some(before) = begin(place, may_begin) else { return Ok(false) };
        self.follow(before).inspect_err(|_| withdraw(&self.place))?;
        // Clients wait for a server to follow.
        self.place.region.wake_all();
        Ok(false)
    }

    /// Repairs the value if the server `before` was in the middle of an operation, and opens channels.
    fn follow(&mut self, before: u64) -> Result<(), Stop> {
        let Self { rank, in_flight, place, value, turn, .. } = self;
        let busy = Self::busy(place)?;
        if busy.load() != 0 {
            value.repair(place);
            self.cut_short += 1;
            // The mark changes after the repair: otherwise the next healer would not know that the value is to be
            // repaired.
            busy.store(0);
        }
        let served = match turn.first.take().filter(|_| before == 0) {
            Some(first) => first,
            None => mp::Served::open::<O::Op, O::Ret>(rank, *in_flight, place)?,
        };
        self.served = Some(served);
        Ok(())
    }
}

impl<O: Object> Serving for Messages<O> {
    fn place(&self) -> &Place {
        &self.place
    }

    fn is_serving(&self) -> bool {
        self.served.is_some()
    }

    fn cut_short(&self) -> u64 {
        self.cut_short
    }

    #[inline]
    fn round(&mut self) -> Result<bool, Stop> {
        let Self { place, value, served, .. } = self;
        let Some(served) = served else { return self.take_over() };
        let _inside = Inside::enter(place.region.id(), true);
        let word = Self::busy(place)?;
        let busy = |busy| if busy { word.note(1) } else { word.store(0) };
        let may_begin = |seat, number| mp::may_begin(&place.seat(seat)[seat::WISH], number);
        served.round(busy, may_begin, &mut value.runner(place))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::World;

    use super::*;
    use crate::critical::{Section, objects::Counter};

    /// A take-over that fails leaves the object to the next server that comes.
    #[test]
    fn who_cannot_take_over_does_not_keep_others_from_it() {
        let rank = World::solo().unwrap();
        let section = Section::new(Scheme::SlotServer).seats(3);
        let counter = Counter::open(&rank, "counter", section).unwrap();
        let [mut first, mut second] = [0, 1].map(|_| {
            let mut server = Server::new();
            server.add(counter.another().unwrap()).unwrap();
            server
        });
        let place = first.objects[0].place().clone();
        // The words of the previous server name an operation of a seat that does not exist.
        let progress = place.word(Place::own(place.all_seats())).unwrap();
        progress.store(u64::MAX);
        let failed = first.round();
        assert!(failed.is_err(), "{failed:?}");
        assert_eq!(place.head(head::SERVER).load(), 1 | head::LEFT);
        progress.store(0);
        let request = counter.submit(1).unwrap();
        second.round().unwrap();
        assert!(second.round().unwrap(), "it does not serve");
        assert_eq!(request.wait().unwrap(), 0);
    }
}
