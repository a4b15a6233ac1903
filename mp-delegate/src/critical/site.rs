//! An algorithm's view of the world: words, other seats, waiting. Models have another one.
//!
//! The real site is a place in a region, which is memory of all ranks under one name. A *seat* takes part in an
//! algorithm. Each rank has some seats, and one more that all its further handles share, one at a time. A waiting seat
//! is found by its rank's mark, as a rank that waits for a flag is, so the proofs and models for lost wake-ups are
//! those of flags. Where the waker can't know which seat waits (CLH, and a seat that departs in HYBCOMB and CC-Synch),
//! the waiter writes down its number before its last look, and the waker looks after [`Site::fence`].

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use mp_core::{
    Error, ErrorKind, Rank, Wait,
    memory::{self, Region},
    names::Namespace,
    waits::pauses,
};

pub use mp_core::memory::Word;

use super::{error::Stop, turns};

/// The number of words in two cache lines, which processors fetch together (T 7.2.1). Words that different seats write
/// lie this far apart.
pub const BLOCK: usize = if cfg!(loom) { 4 } else { 16 };

/// A participant, which does one thing at a time.
pub type Seat = usize;

/// The operations of an algorithm on a word: see [`Word`], which is the real implementation.
pub trait AnyWord {
    /// See [`Word::load`].
    fn load(&self) -> u64;
    /// See [`Word::load_relaxed`].
    fn load_relaxed(&self) -> u64;
    /// See [`Word::store`].
    fn store(&self, value: u64);
    /// See [`Word::note`].
    fn note(&self, value: u64);
    /// See [`Word::store_relaxed`].
    fn store_relaxed(&self, value: u64);
    /// See [`Word::stream`].
    fn stream(&self, value: u64);
    /// See [`Word::swap`].
    fn swap(&self, value: u64) -> u64;
    /// See [`Word::fetch_add`].
    fn fetch_add(&self, value: u64) -> u64;
    /// See [`Word::compare_exchange`].
    fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64>;
}

macro_rules! forward {
    ($($name:ident($($value:ident),*) $(-> $returns:ty)?;)+) => { $(
        #[inline(always)]
        fn $name(&self, $($value: u64),*) $(-> $returns)? {
            Word::$name(self, $($value),*)
        }
    )+ };
}

impl AnyWord for Word {
    forward! {
        load() -> u64;
        load_relaxed() -> u64;
        store(value);
        note(value);
        store_relaxed(value);
        stream(value);
        swap(value) -> u64;
        fetch_add(value) -> u64;
        compare_exchange(current, new) -> Result<(), u64>;
    }
}

/// The most time that something is waited for, counted from when the limit was made.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    wait: Wait,
    began: Instant,
}

impl Limit {
    pub(super) fn new(wait: Wait) -> Self {
        Self { wait, began: Instant::now() }
    }

    /// Creates a limit for a single look.
    pub(super) fn at_once() -> Self {
        Self::new(Duration::ZERO.into())
    }

    /// Returns the remaining time.
    pub(super) fn left(&self) -> Wait {
        self.wait.since(self.began)
    }

    pub(super) fn is_over(&self) -> bool {
        self.left().time_limit().is_some_and(|left| left.is_zero())
    }

    /// Returns the remaining time, but not more than `time`.
    fn at_most(&self, time: Duration) -> Wait {
        let left = self.left();
        left.limit(left.time_limit().map_or(time, |left| left.min(time)))
    }
}

/// See the module.
pub trait Site {
    /// A word of the shared memory.
    type Word: AnyWord;

    /// Returns word number `index`. An index that was read from shared memory may be any number.
    fn word(&self, index: usize) -> Result<&Self::Word, Stop>;

    /// Returns `count` words from `first` on.
    fn words(&self, first: usize, count: usize) -> Result<&[Self::Word], Stop>;

    /// Waits as `me` until `poll` answers, or a rank is gone in the middle of something. `watched` is the word that
    /// decides.
    fn wait<T>(
        &self,
        me: Seat,
        on: Option<Seat>,
        watched: &Self::Word,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop>;

    /// Waits as [`wait`](Self::wait) does until the limit is over; then returns `None`. In simulations there are no
    /// limits.
    fn wait_until<T>(
        &self,
        me: Seat,
        watched: &Self::Word,
        _limit: &Limit,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        self.wait(me, None, watched, poll).map(Some)
    }

    /// Pauses for so many of the processor's pauses.
    #[inline(always)]
    fn pause(&self, pauses: u32) {
        (0..pauses).for_each(|_| std::hint::spin_loop());
    }

    /// Returns how many pauses take about so long.
    fn pauses(&self, time: Duration) -> u32 {
        pauses(time)
    }

    /// See [`memory::settle`].
    #[inline(always)]
    fn settle(&self) {
        memory::settle();
    }

    /// Says that the seat is in the code of a lock or a combiner, and does not have the value: if it dies, the value is
    /// intact. From here to [`leave`](Self::leave) others may wait for this seat.
    fn approach(&self, me: Seat);

    /// Says that it has the value, for an operation of its own.
    fn enter(&self, me: Seat) {
        self.begin(me, 0);
    }

    /// Says that it has the value, and begins with a request of another seat: the algorithm's word for it, not 0.
    fn begin(&self, me: Seat, request: u64);

    /// Ends what [`approach`](Self::approach) began.
    fn leave(&self, me: Seat);

    /// Returns why nothing more comes from a seat, if so.
    fn gone(&self, seat: Seat) -> Option<Stop>;

    /// Called before an operation: see `turns.rs`. Models do without.
    fn take_turn(&self, _me: Seat) {}

    /// Called after an operation, if [`take_turn`](Self::take_turn) was called before it.
    fn end_turn(&self, _me: Seat) {}

    /// Wakes the server, after a request was written.
    fn wake_server(&self);

    /// Returns whether no rank serves, nor will.
    fn unserved(&self) -> bool;

    /// Begins a handle's wait without a limit for a server, if no rank serves yet. It lasts until
    /// [`end_wait`](Self::end_wait). Returns whether no rank serves: then the wait is to be ended.
    fn begin_wait(&self) -> bool {
        false
    }

    /// Ends what [`begin_wait`](Self::begin_wait) began.
    fn end_wait(&self) {}

    /// Returns whether there are enough cores to look again and again.
    fn spins(&self) -> bool;

    /// Wakes a seat if it waits. Call it after writing what the seat waits for.
    fn wake(&self, seat: Seat);

    /// Wakes all seats that wait.
    fn wake_all(&self);

    /// Orders a write for a seat that may just be starting to wait before the look which seat that is; see
    /// [`Region::fence`].
    fn fence(&self);
}

/// What healing needs in addition; see `heal.rs`.
pub trait Mortal: Site {
    /// Returns how many seats there are.
    fn seats(&self) -> usize;

    /// Says that the seat waits for the healer, and its request is still in the queue.
    fn park(&self, me: Seat);

    /// Returns the seat's mark: see [`seat`].
    fn mark(&self, seat: Seat) -> &Self::Word;

    /// Does what [`approach`](Site::approach) does. Returns the seat's mark, for what it says next.
    #[inline(always)]
    fn come(&self, me: Seat) -> &Self::Word {
        self.approach(me);
        self.mark(me)
    }

    /// Returns whether nothing of the seat's rank comes here any more, from any thread of it.
    fn is_dead(&self, seat: Seat) -> bool;

    /// Returns a rank that is gone and that others can't wait for or skip, because it is not dead.
    fn lost(&self) -> Option<Stop>;

    /// Returns the word that has 1 + the healer, and whether the queue is void.
    fn healer(&self) -> &Self::Word;
    fn void(&self) -> &Self::Word;

    /// Returns a rank that is gone in the middle of something, so that no seat is to wait for it.
    fn broken(&self) -> Option<Stop>;

    /// Waits as [`linger`](Self::linger) does until the limit is over, or a rank is gone in the middle of something.
    fn linger_until<T>(
        &self,
        me: Seat,
        limit: &Limit,
        mut poll: impl FnMut() -> Result<Option<T>, Stop>,
    ) -> Result<Option<T>, Stop> {
        let look = || match poll() {
            Ok(None) => self.broken().map(Err),
            found => found.transpose(),
        };
        self.linger(me, Some(limit), look)?.transpose()
    }

    /// Looks once, or until the limit is over.
    fn attempt<T>(
        &self,
        me: Seat,
        limit: Option<&Limit>,
        mut poll: impl FnMut() -> Result<Option<T>, Stop>,
    ) -> Result<Option<T>, Stop> {
        match limit {
            Some(limit) => self.linger_until(me, limit, poll),
            None => match poll()? {
                None => self.broken().map_or(Ok(None), Err),
                found => Ok(found),
            },
        }
    }

    /// Waits for something that wakes no seat, until the limit, if any, is over; then returns `None`. Makes progress on
    /// the rank's pending requests: the seat that has the value may wait for them.
    fn linger<T>(
        &self,
        me: Seat,
        limit: Option<&Limit>,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop>;

    /// Returns whether a rank died in the code.
    fn is_stuck(&self) -> bool {
        (0..self.seats()).any(|seat| self.is_dead(seat) && self.mark(seat).load() != 0)
    }
}

/// The words of a seat that all algorithms have.
pub(super) mod seat {
    /// Not 0: the seat is in the code of a lock or a combiner. The lower bits say where. Above them, in [`ENTERED`], is
    /// the [request] that is executed.
    pub(in super::super) const MARK: usize = 0;
    const KIND_BITS: u64 = 2;
    /// In [`MARK`]: the seat has the value.
    pub(in super::super) const ENTERED: u64 = 1;
    /// In [`MARK`]: the seat does not have the value.
    pub(in super::super) const APPROACHES: u64 = 2;
    /// In [`MARK`]: the seat waits for the healer, and its request is still in the queue.
    pub(in super::super) const PARKED: u64 = 3;

    /// Returns what a mark says.
    pub(in super::super) const fn kind(mark: u64) -> u64 {
        mark & ((1 << KIND_BITS) - 1)
    }

    /// Returns the request that a seat with [`ENTERED`] says it executes; 0 is its own.
    pub(in super::super) const fn request(mark: u64) -> u64 {
        mark >> KIND_BITS
    }

    pub(in super::super) const fn entered(request: u64) -> u64 {
        ENTERED | request << KIND_BITS
    }

    /// How many servers of the rank serve the object, or will when its server is gone. In the rank's first seat.
    pub(in super::super) const SERVES: usize = 1;
    /// How many handles of the rank are open, times [`HANDLE`], plus how many of them wait without a limit for a server
    /// to come. In the rank's first seat.
    pub(in super::super) const CREW: usize = 2;
    pub(in super::super) const HANDLE: u64 = 1 << 32;
    /// Not 0: the rank asked for something before any rank served. In the rank's first seat.
    pub(in super::super) const ASKED: usize = 3;
    /// The last panic's message: its length in bytes, then the bytes.
    pub(in super::super) const MESSAGE: usize = 4;
    pub(in super::super) const TEXT: usize = 5;
    /// Words of it.
    pub(in super::super) const TEXT_WORDS: usize = WISH - TEXT;
    /// For a client of a server behind channels: whether its last operation may be begun; see `mp.rs`.
    pub(in super::super) const WISH: usize = 15;
}

/// The head of a region.
pub(super) mod head {
    /// What the object was opened as.
    pub(in super::super) const SPEC: usize = 0;
    /// Whether the value is there: see `value.rs`.
    pub(in super::super) const MADE: usize = 1;
    /// Not 0: an operation did not finish.
    pub(in super::super) const POISONED: usize = 2;
    /// All seats that were ever taken are below this number.
    pub(in super::super) const SEATS: usize = 3;
    /// The server: 0 if there was none yet, otherwise 1 + the rank, and [`LEFT`]; [`LEFT`] alone if none came.
    pub(in super::super) const SERVER: usize = 4;
    /// In [`SERVER`]: the rank does not serve any more.
    pub(in super::super) const LEFT: u64 = 1 << 63;
    /// 1 + the seat that heals a queue, and whether the queue is void: see `heal.rs`.
    pub(in super::super) const HEALER: usize = 5;
    pub(in super::super) const VOID: usize = 6;
    /// Not 0: until when turns are taken because a seat waited for long; see `turns.rs`. This is in a line that is
    /// rarely written.
    pub(in super::super) const TURNS: usize = 7;
    /// 1 + the seat whose turn it is, where turns are taken; see `turns.rs`.
    pub(in super::super) const TURN: usize = 8;
    /// How long turns were taken the last time, in nanoseconds, and when that was over.
    pub(in super::super) const TURNS_TIME: usize = 9;
    pub(in super::super) const TURNS_END: usize = 10;
    pub(in super::super) const WORDS: usize = 16;
}

/// The names of all kinds of objects. Two kinds with the same name are a mismatch.
pub const OBJECTS: Namespace = Namespace::new("objects");

/// Opens a region. All ranks must want the same size.
pub fn open_region(
    rank: &Rank,
    namespace: Namespace,
    name: &str,
    words: usize,
    bytes: usize,
) -> Result<Region, Error> {
    Region::open(rank, namespace, name, words, bytes).map_err(|error| match error.into_kind() {
        mp_core::ErrorKind::MpbMismatch { .. } => {
            Error::from(ErrorKind::ObjectMismatch { object: name.into() })
        }
        error => error.into(),
    })
}

/// A seat's access to the region of an object.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) region: Region,
    /// The number of seats of each rank.
    pub(super) seats: usize,
    /// A value of [`Region::ends`] at which no rank was missing.
    whole: Cell<u32>,
    /// This handle's waits for a first server, nested or as futures.
    awaits_first: Cell<usize>,
    pub(super) waits: turns::Waits,
}

impl Place {
    pub(super) fn new(region: Region, seats: usize) -> Self {
        Self {
            region,
            seats,
            whole: Cell::new(0),
            awaits_first: Cell::new(0),
            waits: turns::Waits::default(),
        }
    }

    /// Returns the number of seats of all ranks.
    pub(super) fn all_seats(&self) -> usize {
        self.seats * self.region.ranks()
    }

    pub(super) fn rank_of(&self, seat: Seat) -> usize {
        seat / self.seats
    }

    /// Returns where the algorithm's own words begin, for so many seats.
    pub(super) fn own(all_seats: usize) -> usize {
        head::WORDS + all_seats * BLOCK
    }

    /// Returns a word of a region's head, which always exists.
    #[inline(always)]
    pub(super) fn head(&self, index: usize) -> &Word {
        &self.region.words()[index]
    }

    /// Returns the words of an existing seat.
    #[inline(always)]
    pub(super) fn seat(&self, seat: Seat) -> &[Word] {
        let first = head::WORDS + seat * BLOCK;
        &self.region.words()[first..first + BLOCK]
    }

    /// Returns the index of one of a seat's words among all words.
    pub(super) fn index(&self, seat: Seat, word: usize) -> usize {
        head::WORDS + seat * BLOCK + word
    }

    /// Returns the seat that further handles of this rank share.
    pub(super) fn shared_seat(&self) -> Seat {
        self.seats * (1 + self.region.rank()) - 1
    }

    fn first_seat(&self, rank: usize) -> &[Word] {
        self.seat(rank * self.seats)
    }

    /// Returns the word that counts the servers of this rank that serve the object, or stand by.
    pub(super) fn serves(&self) -> &Word {
        &self.first_seat(self.region.rank())[seat::SERVES]
    }

    /// Returns whether the rank serves the object, or will when its server is gone.
    pub(super) fn stands_by(&self, rank: usize) -> bool {
        self.first_seat(rank)[seat::SERVES].load() != 0
    }

    fn crew(&self) -> &Word {
        &self.first_seat(self.region.rank())[seat::CREW]
    }

    /// Notes that a handle of this rank is opened.
    pub(super) fn join(&self) {
        self.crew().fetch_add(seat::HANDLE);
    }

    /// Notes that it is closed. A server of this rank may have waited for that. If no server has come yet, all ranks
    /// that wait for the first one must see whether any handle is left that could serve.
    pub(super) fn part(&self) {
        // A future that was leaked waits no longer.
        let waits = u64::from(self.awaits_first.take() > 0);
        self.crew().fetch_add(seat::HANDLE.wrapping_neg().wrapping_sub(waits));
        self.region.fence();
        match self.head(head::SERVER).load() {
            0 => self.region.wake_all(),
            _ => self.wake(self.region.rank() * self.seats),
        }
    }

    /// Returns whether this rank has handles that ask.
    pub(super) fn is_open(&self) -> bool {
        self.crew().load() >= seat::HANDLE
    }

    /// Returns the rank that serves, if it is there.
    pub(super) fn serving(&self) -> Option<usize> {
        let server = self.head(head::SERVER).load();
        let rank = (server & !head::LEFT).checked_sub(1)? as usize;
        (server & head::LEFT == 0 && !self.region.is_gone(rank)).then_some(rank)
    }

    /// Notes that this handle waits for a server, and notifies the others.
    #[cold]
    fn wait_for_the_first(&self) -> bool {
        let waits = self.awaits_first.get();
        self.awaits_first.set(waits + 1);
        if waits == 0 {
            self.crew().fetch_add(1);
            self.region.fence();
            self.region.wake_all();
        }
        true
    }

    /// Returns whether no rank serves, nor will, if `first` was to begin.
    #[cold]
    pub(super) fn unserved_after(&self, first: usize) -> bool {
        match self.head(head::SERVER).load() {
            0 => self.nobody_serves(first as u64 + 1),
            server => self.nobody_serves(server),
        }
    }

    #[cold]
    fn nobody_serves(&self, server: u64) -> bool {
        let here = |rank: usize| !self.region.is_gone(rank);
        if server != 0 && server & head::LEFT == 0 && here(server as usize - 1) {
            return false;
        }
        !(0..self.region.ranks()).any(|rank| here(rank) && self.stands_by(rank))
    }

    /// Returns whether no rank has served yet, and none will. If so, this is recorded for all.
    #[cold]
    fn nobody_comes(&self) -> bool {
        let ranks = || 0..self.region.ranks();
        // Before the look who stands by: who was lost after it began to is taken for one that does.
        let is_missing = ranks().any(|rank| {
            let first = self.first_seat(rank);
            let was_to_serve = || first[seat::SERVES].load() != 0;
            let may_have_served = || self.region.is_lost(rank) && first[seat::ASKED].load() == 0;
            self.region.is_gone(rank) && (was_to_serve() || may_have_served())
        });
        // A handle that does not wait may be the one to serve, and so may one that waits for a time only.
        let all_wait = |rank: usize| {
            let crew = self.first_seat(rank)[seat::CREW].load();
            crew != 0 && crew / seat::HANDLE <= crew % seat::HANDLE
        };
        let here = |rank: &usize| !self.region.is_gone(*rank);
        if !is_missing && !ranks().filter(here).all(all_wait) || !self.nobody_serves(0) {
            return false;
        }
        match self.head(head::SERVER).compare_exchange(0, head::LEFT) {
            Ok(()) => self.region.wake_all(),
            Err(server) => return self.nobody_serves(server),
        }
        true
    }

    /// Writes down why an operation of the seat panicked.
    pub(super) fn set_message(&self, seat: Seat, message: &str) {
        let Some(words) = self.region.words().get(head::WORDS + seat * BLOCK..) else { return };
        let mut end = message.len().min(8 * seat::TEXT_WORDS);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        words[seat::MESSAGE].store_relaxed(end as u64);
        for (bytes, word) in message.as_bytes()[..end].chunks(8).zip(&words[seat::TEXT..]) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store_relaxed(u64::from_ne_bytes(whole));
        }
    }

    pub(super) fn message(&self, seat: Seat) -> String {
        let words = self.seat(seat);
        let len = (words[seat::MESSAGE].load_relaxed() as usize).min(8 * seat::TEXT_WORDS);
        let bytes: Vec<u8> =
            words[seat::TEXT..].iter().flat_map(|word| word.load_relaxed().to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    #[cold]
    fn missing(&self, ends: u32) -> Option<Stop> {
        // A thread that outlives its rank's code may still begin something. First of all, since what follows looks what
        // each rank has said last: one that says more and is released after that look is restless here.
        let restless = |rank: usize| self.region.is_gone(rank) && !self.region.is_released(rank);
        let is_restless = (0..self.region.ranks()).any(restless);
        if let Some(lost) = self.lost() {
            return Some(lost);
        }
        if self.is_stuck() || self.void().load() != 0 {
            return Some(Stop::Void);
        }
        // The healer after those who are stuck: he is there before he lets go of them.
        if !is_restless && self.healer().load() == 0 {
            self.whole.set(ends);
        }
        None
    }

    /// Looks once. Calls `in_vain` if nothing was found. Returns why there will never be anything, if that is so.
    #[inline(always)]
    fn poll<T>(
        &self,
        mut poll: impl FnMut() -> Option<T>,
        in_vain: impl FnOnce(),
    ) -> Option<Result<T, Stop>> {
        if let Some(answer) = poll() {
            return Some(Ok(answer));
        }
        in_vain();
        let broken = self.broken()?;
        // What was done before the end is visible by now.
        Some(poll().ok_or(broken))
    }

    /// Waits after a look that found nothing.
    #[inline(never)]
    fn wait_on<T>(
        &self,
        me: Seat,
        on: Option<Seat>,
        watched: &Word,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        let on = on.map(|seat| self.rank_of(seat));
        let mut observed = turns::Observed::default();
        let answer = self
            .region
            .wait(me, on, Some(watched), || self.poll(&mut poll, || observed.look(self)))?;
        observed.end(self, me);
        answer
    }
}

/// The shortest time between two looks at something that wakes no seat.
const SHORTEST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(1);

impl Mortal for Place {
    fn seats(&self) -> usize {
        self.all_seats()
    }

    #[inline(always)]
    fn mark(&self, seat: Seat) -> &Word {
        &self.seat(seat)[seat::MARK]
    }

    #[inline(always)]
    fn come(&self, me: Seat) -> &Word {
        let mark = self.mark(me);
        mark.store(seat::APPROACHES);
        mark
    }

    fn park(&self, me: Seat) {
        self.mark(me).store(seat::PARKED);
    }

    fn is_dead(&self, seat: Seat) -> bool {
        let rank = self.rank_of(seat);
        self.region.is_dead(rank) || self.region.is_released(rank)
    }

    /// Returns the loss of a rank that is a thread, and so does not die. A rank that has leaked a guard never gives up
    /// the value, and no other rank can take it away. A thread of the rank may still come out. But a seat that learns
    /// of the loss gives up its place, and all behind it would wait forever. So all seats that look afterwards learn of
    /// it.
    ///
    /// A rank that is a process is dead soon after it is gone, or comes out.
    fn lost(&self) -> Option<Stop> {
        if let Some(rank) = self.region.given_up() {
            return Some(Stop::Lost(rank));
        }
        if !self.region.is_in_one_process() {
            return None;
        }
        let first = |is_missing: &dyn Fn(usize) -> bool| {
            (0..self.all_seats())
                .filter(|&seat| is_missing(self.rank_of(seat)))
                // In this order: a mark that is read after that was the rank's last.
                .find(|&seat| seat::kind(self.mark(seat).load()) == seat::ENTERED)
                .map(|seat| self.rank_of(seat))
        };
        // Whoever has given up, because somebody was lost, may have left as well.
        let lost = first(&|rank| self.region.is_lost(rank));
        let rank = lost.or_else(|| first(&|rank| self.region.is_gone(rank)))?;
        if let Err(error) = self.region.give_up(rank) {
            return Some(error.into());
        }
        Some(Stop::Lost(self.region.given_up().unwrap_or(rank)))
    }

    fn healer(&self) -> &Word {
        self.head(head::HEALER)
    }

    fn void(&self) -> &Word {
        self.head(head::VOID)
    }

    #[inline(always)]
    fn broken(&self) -> Option<Stop> {
        let ends = self.region.ends();
        if ends == self.whole.get() { None } else { self.missing(ends) }
    }

    fn linger<T>(
        &self,
        me: Seat,
        limit: Option<&Limit>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let mut nap = SHORTEST_NAP;
        loop {
            let wait = limit.map_or(nap.into(), |limit| limit.at_most(nap));
            if let Some(answer) = self.region.wait_with(me, None, wait, &mut poll)? {
                return Ok(Some(answer));
            }
            if limit.is_some_and(Limit::is_over) {
                return Ok(None);
            }
            nap = (2 * nap).min(LONGEST_NAP);
        }
    }
}

impl Site for Place {
    type Word = Word;

    #[inline(always)]
    fn word(&self, index: usize) -> Result<&Word, Stop> {
        self.region.words().get(index).ok_or(Stop::Corrupt)
    }

    #[inline(always)]
    fn words(&self, first: usize, count: usize) -> Result<&[Word], Stop> {
        let end = first.checked_add(count).ok_or(Stop::Corrupt)?;
        self.region.words().get(first..end).ok_or(Stop::Corrupt)
    }

    #[inline(always)]
    fn wait<T>(
        &self,
        me: Seat,
        on: Option<Seat>,
        watched: &Word,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        match poll() {
            Some(answer) => Ok(answer),
            None => self.wait_on(me, on, watched, poll),
        }
    }

    fn wait_until<T>(
        &self,
        me: Seat,
        watched: &Word,
        limit: &Limit,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let look = || self.poll(&mut poll, || ());
        self.region.wait_with(me, Some(watched), limit.left(), look)?.transpose()
    }

    #[inline(always)]
    fn approach(&self, me: Seat) {
        self.seat(me)[seat::MARK].store(seat::APPROACHES);
    }

    #[inline(always)]
    fn begin(&self, me: Seat, request: u64) {
        // Before what the operation writes, for those who find this rank dead.
        self.seat(me)[seat::MARK].note(seat::entered(request));
    }

    #[inline(always)]
    fn leave(&self, me: Seat) {
        self.seat(me)[seat::MARK].store(0);
    }

    fn gone(&self, seat: Seat) -> Option<Stop> {
        let rank = self.rank_of(seat);
        self.region.is_gone(rank).then_some(Stop::Lost(rank))
    }

    #[inline(always)]
    fn take_turn(&self, me: Seat) {
        if turns::are_taken(self, self.head(head::TURNS)) {
            turns::take(self, self.head(head::TURN), me);
        }
    }

    #[inline(always)]
    fn end_turn(&self, me: Seat) {
        if self.waits.has_turn() {
            turns::end(self, self.head(head::TURN), me);
        }
    }

    #[inline(always)]
    fn wake(&self, seat: Seat) {
        self.region.wake(self.rank_of(seat), seat);
    }

    fn wake_all(&self) {
        self.region.wake_all();
    }

    #[inline(always)]
    fn wake_server(&self) {
        // Whoever begins to serve now sees the request, or is seen.
        self.region.fence();
        let server = self.head(head::SERVER).load_relaxed();
        if server == 0 {
            self.first_seat(self.region.rank())[seat::ASKED].store(1);
        } else if server & head::LEFT == 0 {
            self.wake((server as usize - 1).saturating_mul(self.seats));
        }
        // Whoever comes next looks by himself.
    }

    #[inline(always)]
    fn unserved(&self) -> bool {
        match self.head(head::SERVER).load() {
            0 => self.nobody_comes(),
            server => {
                let served = server & head::LEFT == 0;
                !(served && self.region.ends() == 0) && self.nobody_serves(server)
            }
        }
    }

    #[inline(always)]
    fn begin_wait(&self) -> bool {
        self.head(head::SERVER).load_relaxed() == 0 && self.wait_for_the_first()
    }

    #[cold]
    fn end_wait(&self) {
        let waits = self.awaits_first.get().saturating_sub(1);
        self.awaits_first.set(waits);
        if waits == 0 {
            self.crew().fetch_add(1u64.wrapping_neg());
        }
    }

    #[inline(always)]
    fn spins(&self) -> bool {
        self.region.looks() > 0
    }

    #[inline(always)]
    fn fence(&self) {
        self.region.fence();
    }
}
