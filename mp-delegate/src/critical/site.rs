//! An algorithm's view of the world: words, other seats, and waits. Models implement it differently than real ranks.
//!
//! A *seat* takes part in an algorithm. Each rank has some seats, and one more that all its further handles share, one
//! at a time. A waker finds a waiting seat by the mark of its rank, as it does for a rank that waits for a flag, so the
//! proofs and models for lost wake-ups are those of flags. Where the waker can't know which seat waits (CLH, and a seat
//! that departs in HYBCOMB and CC-Synch), the waiting seat writes down its number before its last look, and the waker
//! reads it after [`Site::fence`].

use std::time::{Duration, Instant};

use mp_core::{Wait, memory, waits::pauses};

pub use mp_core::memory::Word;

use super::stop::Stop;

/// The number of words in two cache lines, which processors fetch together (T 7.2.1). Words that different seats write
/// lie this far apart.
pub const BLOCK: usize = if cfg!(loom) { 4 } else { 16 };

/// A participant, which does one thing at a time.
pub type Seat = usize;

/// Returns 1 + the seat, the form in which a word holds a seat; 0 means no seat.
#[inline(always)]
pub(super) fn someone(seat: Seat) -> u64 {
    (seat as u64).wrapping_add(1)
}

/// Returns the seat in a word that is not 0. For 0, returns a seat that cannot exist.
#[inline(always)]
pub(super) fn who(word: u64) -> Seat {
    word.wrapping_sub(1) as usize
}

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

/// The longest time for a wait, counted from when the limit was made.
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
    pub(super) fn at_most(&self, time: Duration) -> Wait {
        let left = self.left();
        left.limit(left.time_limit().map_or(time, |left| left.min(time)))
    }
}

/// See the module.
pub trait Site {
    /// A word of the shared memory.
    type Word: AnyWord;

    /// Returns word number `index`. The index may be any number if it was read from shared memory.
    fn word(&self, index: usize) -> Result<&Self::Word, Stop>;

    /// Returns `count` words from `first` on.
    fn words(&self, first: usize, count: usize) -> Result<&[Self::Word], Stop>;

    /// Waits as `me` until `poll` answers, or a rank is gone in the middle of an operation. `watched` is the word that
    /// `poll` depends on.
    fn wait<T>(
        &self,
        me: Seat,
        on: Option<Seat>,
        watched: &Self::Word,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop>;

    /// Waits like [`wait`](Self::wait), but returns `None` when the limit is over. Simulations have no limits.
    fn wait_until<T>(
        &self,
        me: Seat,
        watched: &Self::Word,
        _limit: &Limit,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        self.wait(me, None, watched, poll).map(Some)
    }

    /// Spins for this number of the processor's pauses.
    #[inline(always)]
    fn pause(&self, pauses: u32) {
        (0..pauses).for_each(|_| std::hint::spin_loop());
    }

    /// Returns the number of pauses that take about this time.
    fn pauses(&self, time: Duration) -> u32 {
        pauses(time)
    }

    /// See [`memory::settle`].
    #[inline(always)]
    fn settle(&self) {
        memory::settle();
    }

    /// Declares that the seat is in the code of a lock or a combiner and does not have the value: if the seat dies, the
    /// value is intact. From now to [`leave`](Self::leave) others may wait for this seat.
    fn approach(&self, me: Seat);

    /// Declares that the seat has the value, for an operation of its own.
    fn enter(&self, me: Seat) {
        self.begin(me, 0);
    }

    /// Declares that the seat has the value, and begins with the request of another seat. `request` is the algorithm's
    /// word for it, not 0.
    fn begin(&self, me: Seat, request: u64);

    /// Ends what [`approach`](Self::approach) began.
    fn leave(&self, me: Seat);

    /// Returns the reason if nothing more will come from a seat.
    fn gone(&self, seat: Seat) -> Option<Stop>;

    /// Called before an operation: see `turns.rs`. Models do without.
    fn take_turn(&self, _me: Seat) {}

    /// Called after an operation, if [`take_turn`](Self::take_turn) was called before it.
    fn end_turn(&self, _me: Seat) {}

    /// Wakes the server, after a request was written.
    fn wake_server(&self);

    /// Returns whether no rank serves or will serve.
    fn unserved(&self) -> bool;

    /// Begins a handle's wait, without a limit, for a server, if no rank serves yet. The wait lasts until
    /// [`end_wait`](Self::end_wait). Returns whether no rank serves: only then must the wait be ended.
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

    /// Orders the write of what a seat waits for before the look at which seat waits, in case that seat is just
    /// starting to wait; see [`Region::fence`](memory::Region::fence).
    fn fence(&self);
}

/// What healing needs in addition; see `heal.rs`.
pub trait Mortal: Site {
    /// Returns how many seats there are.
    fn seats(&self) -> usize;

    /// Returns the seat's mark: see [`seat`].
    fn mark(&self, seat: Seat) -> &Self::Word;

    /// Declares that the seat waits for the healer, and that its request is still in the queue.
    fn park(&self, me: Seat) {
        self.mark(me).store(seat::PARKED);
    }

    /// Does the same as [`approach`](Site::approach). Returns the seat's mark, so that the caller can write the next
    /// state to it.
    #[inline(always)]
    fn come(&self, me: Seat) -> &Self::Word {
        self.approach(me);
        self.mark(me)
    }

    /// Returns whether the seat's rank can't act here any more, from any of its threads.
    fn is_dead(&self, seat: Seat) -> bool;

    /// Returns a rank that is gone and that others can neither wait for nor skip, because it is not dead.
    fn lost(&self) -> Option<Stop>;

    /// Returns the word that holds 1 + the healer. The word of [`void`](Self::void) says whether the queue is void.
    fn healer(&self) -> &Self::Word;
    fn void(&self) -> &Self::Word;

    /// Returns the reason if a rank is gone in the middle of an operation, so that seats must not wait for it.
    fn broken(&self) -> Option<Stop>;

    /// Waits like [`linger`](Self::linger), until the limit is over or a rank is gone in the middle of an operation.
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

    /// Looks once if there is no limit, otherwise until the limit is over.
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

    /// Waits for something that wakes no seat. Returns `None` when the limit, if any, is over. The wait makes progress
    /// on the rank's pending requests, because the seat that has the value may wait for them.
    fn linger<T>(
        &self,
        me: Seat,
        limit: Option<&Limit>,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop>;

    /// Returns whether a rank died inside the code of the algorithm.
    fn is_stuck(&self) -> bool {
        (0..self.seats()).any(|seat| self.is_dead(seat) && self.mark(seat).load() != 0)
    }
}

/// The words of a seat that all algorithms have.
pub(super) mod seat {
    /// Not 0 while the seat is in the code of a lock or a combiner. The lower bits say where. Above them, with
    /// [`ENTERED`], is the [request] that is executed.
    pub(in super::super) const MARK: usize = 0;
    const KIND_BITS: u64 = 2;
    /// In [`MARK`]: the seat has the value.
    pub(in super::super) const ENTERED: u64 = 1;
    /// In [`MARK`]: the seat does not have the value.
    pub(in super::super) const APPROACHES: u64 = 2;
    /// In [`MARK`]: the seat waits for the healer, and its request is still in the queue.
    pub(in super::super) const PARKED: u64 = 3;

    /// Returns the state in a mark.
    pub(in super::super) const fn kind(mark: u64) -> u64 {
        mark & ((1 << KIND_BITS) - 1)
    }

    /// Returns the request in a mark with [`ENTERED`]; 0 is the seat's own.
    pub(in super::super) const fn request(mark: u64) -> u64 {
        mark >> KIND_BITS
    }

    pub(in super::super) const fn entered(request: u64) -> u64 {
        ENTERED | request << KIND_BITS
    }

    /// The number of the rank's servers that serve the object, or will do so when its server is gone. In the rank's
    /// first seat.
    pub(in super::super) const SERVES: usize = 1;
    /// The number of the rank's open handles, times [`HANDLE`], plus the number of its handles that wait, without a
    /// limit, for a server to come. In the rank's first seat.
    pub(in super::super) const CREW: usize = 2;
    pub(in super::super) const HANDLE: u64 = 1 << 32;
    /// Not 0 if the rank submitted a request before any rank served. In the rank's first seat.
    pub(in super::super) const ASKED: usize = 3;
    /// The message of the last panic: its length in bytes, then the bytes.
    pub(in super::super) const MESSAGE: usize = 4;
    pub(in super::super) const TEXT: usize = 5;
    /// The number of words of the text.
    pub(in super::super) const TEXT_WORDS: usize = WISH - TEXT;
    /// For a client of a server behind channels: whether its last operation may be begun; see `mp.rs`.
    pub(in super::super) const WISH: usize = 15;
}
