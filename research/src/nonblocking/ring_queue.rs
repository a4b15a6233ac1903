//! A bounded queue of two rings: one holds the places with values, and the other the free places.

use mp_core::{Rank, Result};
use mp_delegate::critical::{
    internals::{AnyWord, BLOCK, Stop},
    objects::Full,
};

use super::{
    handle::{Handle, OWN},
    pool::first_use,
    ring::Ring,
};

/// A queue whose ends are changed by fetch-and-add, as in Morrison's and Afek's LCRQ (PPoPP 2013), so that threads that
/// arrive at the same time get different places and do not have to try again.
///
/// Unlike LCRQ, this queue is bounded, with all memory in the world's segment. LCRQ changes two words in one
/// instruction, a value and a sequence number, which the words of a segment do not support. The thesis used values of
/// 32 bits on machines without that instruction (section 6.2.4). This queue is Nikolaev's SCQ (DISC 2019), whose rings
/// hold numbers of places with the sequence number in the same word; values of 64 bits lie beside them. The price is a
/// second ring, for free places: each operation takes a number out of one ring and puts it into the other, which is two
/// LCRQ begins another ring when one is full or an operation fails too often. Here there is only one ring: a budget of
/// tries ensures that threads that take in vain do not prevent others from putting values in.
///
/// **Room.** There is always room for the number of values that the queue was opened for. Places that are on their way
/// from one ring to the other can't be seen in either, so there are as many more places as there can be handles, minus
/// one: so many more values may find room. A call that returns [`Full`] was refused at a moment when the queue held at
/// least as many values as it was opened for.
///
/// ```
/// use onchip::{World, critical::objects::Full};
/// use onchip_research::nonblocking::RingQueue;
///
/// let rank = World::solo()?;
/// let jobs = RingQueue::open(&rank, "jobs", 2, 1)?;
/// jobs.enqueue(7)??;
/// jobs.enqueue(8)??;
/// assert_eq!(jobs.enqueue(9)?, Err(Full(9)));
/// assert_eq!([jobs.dequeue()?, jobs.dequeue()?, jobs.dequeue()?], [Some(7), Some(8), None]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct RingQueue {
    handle: Handle,
    queue: Rings,
}

impl RingQueue {
    /// Opens the queue of this name, with room for `capacity` values and up to `handles` handles of each rank. All
    /// ranks open it, with the same arguments.
    ///
    /// # Errors
    /// [`ObjectMismatch`](mp_core::ErrorKind::ObjectMismatch) when another rank opened it as something
    /// else; [`BadObject`](mp_core::ErrorKind::BadObject) when one of the numbers is 0, or when values
    /// and handles are 2²⁴ or more; those of [`Rank::mpb`].
    pub fn open(rank: &Rank, name: &str, capacity: usize, handles: usize) -> Result<Self> {
        let words = |places| Rings::new(places - 1).words();
        let numbers = (capacity, handles);
        let (handle, places) = Handle::open(rank, name, "RingQueue", numbers, words)?;
        Ok(Self { handle, queue: Rings::new(places - 1) })
    }

    /// Opens another handle of the same rank, for another thread of it.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) if as many handles are open as the queue was opened for.
    pub fn another(&self) -> Result<Self> {
        Ok(Self { handle: self.handle.another()?, queue: self.queue })
    }

    /// Puts a value behind the others.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning. The inner result can be
    /// [`Full`].
    #[inline]
    pub fn enqueue(&self, value: u64) -> Result<Result<(), Full>> {
        let put = self.queue.enqueue(self.handle.region.words(), value);
        put.map_err(|stop| self.handle.stopped(stop))
    }

    /// Takes the value that came first, if there is one.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning.
    #[inline]
    pub fn dequeue(&self) -> Result<Option<u64>> {
        let taken = self.queue.dequeue(self.handle.region.words());
        taken.map_err(|stop| self.handle.stopped(stop))
    }

    /// Returns the most values that the queue can hold: the number that it was opened for, plus the number of possible
    /// handles in all ranks, minus one.
    pub fn most(&self) -> usize {
        self.queue.places as usize
    }
}

/// The index of the number of places that were used. Places that were never used are in no ring.
const USED: usize = OWN;
const RINGS: usize = OWN + BLOCK;

/// The layout in the words of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rings {
    filled: Ring,
    free: Ring,
    values: usize,
    places: u64,
}

impl Rings {
    /// Creates a queue with one place less than values and handles, because each of the other handles may hold a place
    /// when a handle looks for one.
    pub(crate) fn new(places: usize) -> Self {
        let free = RINGS + Ring::words(places).next_multiple_of(BLOCK);
        let values = free + Ring::words(places).next_multiple_of(BLOCK);
        let [filled, free] = [RINGS, free].map(|first| Ring::new(first, places));
        Self { filled, free, values, places: places as u64 }
    }

    pub(crate) fn words(&self) -> usize {
        self.values + self.places as usize
    }

    fn value<'a, W>(&self, words: &'a [W], number: u64) -> Result<&'a W, Stop> {
        words.get(self.values + number as usize - 1).ok_or(Stop::Corrupt)
    }

    #[inline]
    pub(crate) fn enqueue(
        &self,
        words: &[impl AnyWord],
        value: u64,
    ) -> Result<Result<(), Full>, Stop> {
        // Places that were never used come first. If no place is free afterwards, all places are in use.
        let number = match first_use(&words[USED], self.places) {
            Some(number) => number,
            None => match self.free.take(words)? {
                Some(number) => number,
                None => return Ok(Err(Full(value))),
            },
        };
        self.value(words, number)?.store_relaxed(value);
        self.filled.put(words, number);
        Ok(Ok(()))
    }

    #[inline]
    pub(crate) fn dequeue(&self, words: &[impl AnyWord]) -> Result<Option<u64>, Stop> {
        let Some(number) = self.filled.take(words)? else { return Ok(None) };
        let value = self.value(words, number)?.load_relaxed();
        self.free.put(words, number);
        Ok(Some(value))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    /// An entry that contains no valid number of a place is reported.
    #[test]
    fn words_that_have_no_meaning_are_told_of() {
        let queue = Rings::new(2);
        for number in [3, 4, 1000, (1 << 24) - 1] {
            let words: Vec<_> = (0..queue.words()).map(|_| Word::new(0)).collect();
            queue.filled.put(&words, number);
            assert!(queue.dequeue(&words).is_err());
            words[USED].store_relaxed(2);
            queue.free.put(&words, number);
            assert!(queue.enqueue(&words, 7).is_err());
        }
    }
}
