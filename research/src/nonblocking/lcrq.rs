//! Morrison's and Afek's LCRQ: a list of rings. If a ring is closed, another one follows.

use mp_core::{Rank, Result};
use mp_delegate::critical::{
    internals::{AnyWord, BLOCK, Stop},
    objects::Full,
};

use super::{
    closing_ring::ClosingRing,
    handle::{Handle, OWN},
};

/// An unbounded list of rings in theory, and here as many rings as it was opened for: Morrison's and Afek's LCRQ (PPoPP
/// 2013). Values have 32 bits, as in the thesis (section 6.2.4).
///
/// Its ends are changed by fetch-and-add, so threads that arrive at the same time get different places and do not have
/// to try again. A putter that fails too often closes the ring, and begins another one.
///
/// **Room.** A ring that was emptied is used again as soon as no handle looks at it. Each handle may look at one ring
/// as long as it is open, so there is a ring for each handle in addition. A single thread finds room for as many values
/// as the rings have entries. If threads overtake each other, a ring may be closed before it is full.
///
/// ```
/// use onchip::{World, critical::objects::Full};
/// use onchip_research::nonblocking::Lcrq;
///
/// let rank = World::solo()?;
/// let jobs = Lcrq::open(&rank, "jobs", 2, 1, 1)?;
/// jobs.enqueue(7)??;
/// jobs.enqueue(8)??;
/// assert_eq!([jobs.dequeue()?, jobs.dequeue()?, jobs.dequeue()?], [Some(7), Some(8), None]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Lcrq {
    handle: Handle,
    queue: RingList,
    /// The handle's own words: first those of its rank, and which of them it is.
    seats: (usize, usize),
    seat: usize,
}

impl Lcrq {
    /// Opens the queue of this name, with so many rings of at least so many entries, and up to `handles` handles of
    /// each rank. All ranks open it, with the same arguments.
    ///
    /// # Errors
    /// [`ObjectMismatch`](mp_core::ErrorKind::ObjectMismatch) when another rank opened it as something
    /// else; [`BadObject`](mp_core::ErrorKind::BadObject) when there are no rings or no handles, or 2²⁴
    /// or more; those of [`Rank::mpb`].
    pub fn open(
        rank: &Rank,
        name: &str,
        entries: usize,
        rings: usize,
        handles: usize,
    ) -> Result<Self> {
        let order = entries.max(1).next_power_of_two().trailing_zeros();
        let list = |all: usize| RingList::new(order, all, handles * rank.size());
        let kind = format!("Lcrq of {order}");
        let words = |all| list(all).words();
        let (handle, all) = Handle::open(rank, name, &kind, (rings, handles), words)?;
        let seats = (rank.id() * handles, handles);
        Self::with(handle, list(all), seats)
    }

    fn with(handle: Handle, queue: RingList, seats: (usize, usize)) -> Result<Self> {
        let words = handle.region.words();
        let mut all = seats.0..seats.0 + seats.1;
        // There is one for each handle that can be open, unless another process had the same rank before and died.
        let seat = all.find(|&seat| queue.come(words, seat));
        let seat = seat.ok_or_else(|| handle.stopped(Stop::Corrupt))?;
        Ok(Self { handle, queue, seats, seat })
    }

    /// Opens another handle of the same rank, for another thread of it.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) if as many handles are open as the queue was opened for.
    pub fn another(&self) -> Result<Self> {
        Self::with(self.handle.another()?, self.queue, self.seats)
    }

    /// Puts a value behind the others.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning. The inner result is [`Full`]
    /// if the last ring is closed and there is no other.
    #[inline]
    pub fn enqueue(&self, value: u32) -> Result<std::result::Result<(), Full>> {
        let put = self.queue.enqueue(self.handle.region.words(), self.seat, value, |_| ());
        put.map_err(|stop| self.handle.stopped(stop))
    }

    /// Takes the value that came first, if there is one.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning.
    #[inline]
    pub fn dequeue(&self) -> Result<Option<u32>> {
        let taken = self.queue.dequeue(self.handle.region.words(), self.seat, |_| ());
        taken.map_err(|stop| self.handle.stopped(stop))
    }
}

impl Drop for Lcrq {
    fn drop(&mut self) {
        self.queue.go(self.handle.region.words(), self.seat);
    }
}

/// Waits until it is the group's turn, or takes it when `wait` returns false. With this, the queue is LCRQ+H: threads of
/// one group of cores use a ring at a time, and others wait for a while before they make their group the one that does.
pub(crate) fn take_turn(word: &impl AnyWord, mine: u64, mut wait: impl FnMut() -> bool) {
    loop {
        let seen = word.load();
        if seen == mine {
            return;
        }
        if seen == 0 || !wait() {
            // If this fails, another thread has just taken it, and an operation may begin in any group's turn.
            let _ = word.compare_exchange(seen, mine);
            return;
        }
    }
}

/// The index of the ring from which values are taken, and of the ring into which they are put.
const HEAD: usize = OWN;
const TAIL: usize = OWN + BLOCK;
const SEATS: usize = OWN + 2 * BLOCK;
/// A handle's word if it looks at no ring. Above it is the ring, and 0 is no handle.
const NO_RING: u64 = 1;

/// The layout in the words of a region. Zeroed words are an empty queue, with the first ring in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingList {
    order: u32,
    rings: usize,
    seats: usize,
}

impl RingList {
    pub(crate) fn new(order: u32, rings: usize, seats: usize) -> Self {
        Self { order, rings, seats }
    }

    fn states(&self) -> usize {
        SEATS + self.seats * BLOCK
    }

    fn first(&self) -> usize {
        self.states() + self.rings.next_multiple_of(BLOCK)
    }

    pub(crate) fn words(&self) -> usize {
        self.first() + self.rings * ClosingRing::words(self.order)
    }

    fn ring(&self, number: u64) -> std::result::Result<ClosingRing, Stop> {
        let number = usize::try_from(number).ok().filter(|&number| number < self.rings);
        let first = self.first() + number.ok_or(Stop::Corrupt)? * ClosingRing::words(self.order);
        Ok(ClosingRing::new(first, self.order))
    }

    /// Takes a seat for a handle. Returns false if another handle has it.
    pub(crate) fn come(&self, words: &[impl AnyWord], seat: usize) -> bool {
        words[SEATS + seat * BLOCK].compare_exchange(0, NO_RING).is_ok()
    }

    /// Gives the seat up.
    pub(crate) fn go(&self, words: &[impl AnyWord], seat: usize) {
        words[SEATS + seat * BLOCK].store(0);
    }

    /// Returns the ring at one end of the list. It is not used again for another part of the list as long as the seat's
    /// word names it.
    fn look<W: AnyWord>(&self, words: &[W], seat: usize, end: usize) -> u64 {
        let (mine, end) = (&words[SEATS + seat * BLOCK], &words[end]);
        loop {
            let at = end.load();
            let named = at + 1 + NO_RING;
            if mine.load_relaxed() == named {
                return at;
            }
            mine.swap(named);
            // Adding 0 reads the latest value: whoever has looked at the seats before has moved the end before that.
            if end.fetch_add(0) == at {
                return at;
            }
        }
    }

    /// Returns whether a ring is in the list, by the number of its changes.
    fn is_listed(ring: usize, changes: u64) -> bool {
        (changes % 2 == 1) != (ring == 0)
    }

    /// Takes a ring that no handle looks at, and puts a value in.
    fn take_ring(
        &self,
        words: &[impl AnyWord],
        value: u32,
    ) -> std::result::Result<Option<u64>, Stop> {
        for number in 0..self.rings {
            let state = &words[self.states() + number];
            let changes = state.load();
            let named = number as u64 + 1 + NO_RING;
            let is_seen =
                || (0..self.seats).any(|s| words[SEATS + s * BLOCK].fetch_add(0) == named);
            if !Self::is_listed(number, changes)
                && !is_seen()
                && state.compare_exchange(changes, changes + 1).is_ok()
            {
                self.ring(number as u64)?.reset(words, value);
                return Ok(Some(number as u64));
            }
        }
        Ok(None)
    }

    fn give_ring(&self, words: &[impl AnyWord], number: u64) {
        words[self.states() + number as usize].fetch_add(1);
    }

    /// Puts a value in. `turn` is called with a ring's word for groups before the ring is used.
    #[inline]
    pub(crate) fn enqueue<W: AnyWord>(
        &self,
        words: &[W],
        seat: usize,
        value: u32,
        turn: impl Fn(&W),
    ) -> std::result::Result<std::result::Result<(), Full>, Stop> {
        loop {
            let at = self.look(words, seat, TAIL);
            let ring = self.ring(at)?;
            let next = ring.next(words);
            if let Some(number) = next.load().checked_sub(1) {
                let _ = words[TAIL].compare_exchange(at, number);
                continue;
            }
            turn(ring.group(words));
            if ring.put(words, value) {
                return Ok(Ok(()));
            }
            if next.load() != 0 {
                continue;
            }
            let Some(fresh) = self.take_ring(words, value)? else {
                return Ok(Err(Full(value.into())));
            };
            if next.compare_exchange(0, fresh + 1).is_ok() {
                let _ = words[TAIL].compare_exchange(at, fresh);
                return Ok(Ok(()));
            }
            self.give_ring(words, fresh);
        }
    }

    /// Takes the first value. `turn` is called with a ring's word for groups before the ring is used.
    #[inline]
    pub(crate) fn dequeue<W: AnyWord>(
        &self,
        words: &[W],
        seat: usize,
        turn: impl Fn(&W),
    ) -> std::result::Result<Option<u32>, Stop> {
        loop {
            let at = self.look(words, seat, HEAD);
            let ring = self.ring(at)?;
            turn(ring.group(words));
            if let Some(value) = ring.take(words) {
                return Ok(Some(value));
            }
            let Some(next) = ring.next(words).load().checked_sub(1) else { return Ok(None) };
            // The ring is closed, but a value may have come between the two looks.
            if let Some(value) = ring.take(words) {
                return Ok(Some(value));
            }
            // The tail must not stay behind, at a ring that is used again.
            let _ = words[TAIL].compare_exchange(at, next);
            if words[HEAD].compare_exchange(at, next).is_ok() {
                self.give_ring(words, at);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    fn zeros(list: &RingList) -> Vec<Word> {
        (0..list.words()).map(|_| Word::new(0)).collect()
    }

    #[test]
    fn rings_are_used_again_and_values_stay_in_order() {
        let list = RingList::new(1, 4, 1);
        let words = zeros(&list);
        assert!(list.come(&words, 0));
        let (mut put, mut taken) = (0, 0);
        for round in 0..200 {
            for _ in 0..=round % 7 {
                match list.enqueue(&words, 0, put, |_| ()).unwrap() {
                    Ok(()) => put += 1,
                    Err(Full(value)) => assert_eq!(value, u64::from(put)),
                }
            }
            for _ in 0..=round % 5 {
                if let Some(value) = list.dequeue(&words, 0, |_| ()).unwrap() {
                    assert_eq!(value, taken);
                    taken += 1;
                }
            }
        }
        assert!(taken > 400, "{taken}");
    }

    #[test]
    fn a_ring_at_which_a_handle_looks_is_not_used_again() {
        let list = RingList::new(0, 2, 2);
        let words = zeros(&list);
        assert!(list.come(&words, 0) && list.come(&words, 1) && !list.come(&words, 1));
        let put = |value| list.enqueue(&words, 0, value, |_| ()).unwrap();
        let take = |seat| list.dequeue(&words, seat, |_| ()).unwrap();
        put(1).unwrap();
        assert_eq!(take(1), Some(1), "the second handle looks at the first ring");
        put(2).unwrap();
        put(3).unwrap();
        assert_eq!(
            (take(0), take(0)),
            (Some(2), Some(3)),
            "the first handle goes on to the second"
        );
        put(4).unwrap();
        assert_eq!(put(5), Err(Full(5)), "the first ring is looked at");
        list.go(&words, 1);
        put(5).unwrap();
        assert_eq!((take(0), take(0), take(0)), (Some(4), Some(5), None));
    }

    #[test]
    fn groups_wait_for_their_turn() {
        let word = Word::new(0);
        take_turn(&word, 1, || panic!("it is nobody's turn"));
        take_turn(&word, 1, || panic!("it is this group's turn"));
        let mut waits = 0;
        take_turn(&word, 2, || {
            waits += 1;
            waits < 5
        });
        assert_eq!((waits, word.load()), (5, 2));
    }

    /// Values of each putter come in order, and each once. Rings are short, so they are closed and used again.
    #[test]
    fn threads_lose_no_value() {
        const THREADS: u32 = 3;
        const EACH: u32 = 5000;
        let list = RingList::new(2, 8, THREADS as usize);
        let words = zeros(&list);
        let work = &|thread: u32| {
            let seat = thread as usize;
            assert!(list.come(&words, seat));
            let mut taken = Vec::new();
            for number in 0..EACH {
                while list.enqueue(&words, seat, thread << 24 | number, |_| ()).unwrap().is_err() {
                    taken.extend(list.dequeue(&words, seat, |_| ()).unwrap());
                }
                taken.extend(list.dequeue(&words, seat, |_| ()).unwrap());
            }
            taken
        };
        let mut all = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        all.push(std::iter::from_fn(|| list.dequeue(&words, 0, |_| ()).unwrap()).collect());
        for taken in &all {
            for putter in 0..THREADS {
                let own = taken.iter().filter(|&&value| value >> 24 == putter);
                assert!(own.is_sorted(), "values of {putter} overtook each other");
            }
        }
        let mut all = all.concat();
        all.sort_unstable();
        let put = (0..THREADS).flat_map(|thread| (0..EACH).map(move |n| thread << 24 | n));
        assert!(all.into_iter().eq(put));
    }

    #[test]
    fn words_that_have_no_meaning_are_told_of() {
        let list = RingList::new(1, 2, 1);
        let words = zeros(&list);
        words[HEAD].store(7);
        words[TAIL].store(7);
        assert!(list.dequeue(&words, 0, |_| ()).is_err());
        assert!(list.enqueue(&words, 0, 1, |_| ()).is_err());
    }
}
