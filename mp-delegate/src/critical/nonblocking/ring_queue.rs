//! A bounded queue of two rings: places with values go through one, free places through the other.

use mp_core::Rank;

use super::{
    handle::{Handle, OWN},
    pool::first_use,
    ring::Ring,
};
use crate::critical::{
    Result,
    error::Stop,
    objects::Full,
    site::{AnyWord, BLOCK},
};

/// A queue whose ends are changed by fetch-and-add, as in Morrison's and Afek's LCRQ (PPoPP 2013), so
/// that whoever comes at the same time gets a place of its own and does not have to try again.
///
/// What LCRQ is not, and this is: bounded, with all memory in the world's segment. LCRQ changes two
/// words in one instruction, a value and a sequence number, which the words of a segment are not made
/// for; the thesis did with values of 32 bits where that instruction lacks (section 6.2.4). Here it is
/// Nikolaev's SCQ (DISC 2019), whose rings hold numbers of places with the sequence number in the same
/// word, and values of 64 bits lie beside. Its price is a second ring, for free places: each
/// operation takes a number out of one and puts it into the other, which is two fetch-and-adds and two
/// changes of an entry instead of one. And where LCRQ begins another ring, when one is full or when
/// somebody has bad luck too often, there is only this one: a budget of tries sees to it that those
/// who find nothing don't keep off those who bring something.
///
/// **Room.** There is always room for the number of values that it was opened for. Places that are on
/// their way from one ring to the other can't be seen in either, so there are as many more as there
/// can be handles, but for one: so many values more may find room. Whoever gets [`Full`] was refused
/// at a moment with at least as many values in the queue as it was opened for.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{nonblocking::RingQueue, objects::Full};
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
    /// Opens the queue of this name, with room for `capacity` values and up to `handles` handles of
    /// each rank. All ranks open it, and say the same.
    ///
    /// # Errors
    /// [`Mismatch`](crate::critical::ErrorKind::Mismatch) when another rank opened it as something
    /// else; [`Bad`](crate::critical::ErrorKind::Bad) when one of the numbers is 0, or when values
    /// and handles are 2²⁴ or more; those of [`Rank::mpb`].
    pub fn open(rank: &Rank, name: &str, capacity: usize, handles: usize) -> Result<Self> {
        let words = |places| Rings::new(places - 1).words();
        let numbers = (capacity, handles);
        let (handle, places) = Handle::open(rank, name, "RingQueue", numbers, words)?;
        Ok(Self { handle, queue: Rings::new(places - 1) })
    }

    /// Another handle of the same rank, for another thread of it.
    ///
    /// # Errors
    /// [`Bad`](crate::critical::ErrorKind::Bad) when as many are open as it was opened for.
    pub fn another(&self) -> Result<Self> {
        Ok(Self { handle: self.handle.another()?, queue: self.queue })
    }

    /// Puts a value behind the others.
    ///
    /// # Errors
    /// [`Bad`](crate::critical::ErrorKind::Bad) for control words without a meaning. In what it
    /// returns: [`Full`].
    #[inline]
    pub fn enqueue(&self, value: u64) -> Result<Result<(), Full>> {
        let put = self.queue.enqueue(self.handle.region.words(), value);
        put.map_err(|stop| self.handle.stopped(stop))
    }

    /// Takes the value that came first, if there is one.
    ///
    /// # Errors
    /// [`Bad`](crate::critical::ErrorKind::Bad) for control words without a meaning.
    #[inline]
    pub fn dequeue(&self) -> Result<Option<u64>> {
        let taken = self.queue.dequeue(self.handle.region.words());
        taken.map_err(|stop| self.handle.stopped(stop))
    }

    /// The most values that can be in it: the number that it was opened for, and one for each handle
    /// that there can be in all ranks, but for one.
    pub fn most(&self) -> usize {
        self.queue.places as usize
    }
}

/// Places that were used already: those that never were are in no ring yet.
const USED: usize = OWN;
const RINGS: usize = OWN + BLOCK;

/// Where everything is in the words of a region.
#[derive(Clone, Copy, Debug)]
pub(in crate::critical) struct Rings {
    filled: Ring,
    free: Ring,
    values: usize,
    places: u64,
}

impl Rings {
    /// With one place less than values and handles: each of the other handles may have one in its
    /// hands when somebody looks for one.
    pub(in crate::critical) fn new(places: usize) -> Self {
        let free = RINGS + Ring::words(places).next_multiple_of(BLOCK);
        let values = free + Ring::words(places).next_multiple_of(BLOCK);
        let [filled, free] = [RINGS, free].map(|first| Ring::new(first, places));
        Self { filled, free, values, places: places as u64 }
    }

    pub(in crate::critical) fn words(&self) -> usize {
        self.values + self.places as usize
    }

    fn value<'a, W>(&self, words: &'a [W], number: u64) -> Result<&'a W, Stop> {
        words.get(self.values + number as usize - 1).ok_or(Stop::Corrupt)
    }

    #[inline]
    pub(in crate::critical) fn enqueue(
        &self,
        words: &[impl AnyWord],
        value: u64,
    ) -> Result<Result<(), Full>, Stop> {
        // First of all: when none is free afterwards, all others were used already by then.
        let number = match first_use(&words[USED], self.places) {
            Some(number) => number,
            None => match self.free.take(words)? {
                Some(number) => number,
                None => return Ok(Err(Full(value))),
            },
        };
        self.value(words, number)?.set(value);
        self.filled.put(words, number);
        Ok(Ok(()))
    }

    #[inline]
    pub(in crate::critical) fn dequeue(&self, words: &[impl AnyWord]) -> Result<Option<u64>, Stop> {
        let Some(number) = self.filled.take(words)? else { return Ok(None) };
        let value = self.value(words, number)?.peek();
        self.free.put(words, number);
        Ok(Some(value))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    /// Whatever is in the entries: a number that is no place's is told of.
    #[test]
    fn words_that_have_no_meaning_are_told_of() {
        let queue = Rings::new(2);
        for number in [3, 4, 1000, (1 << 24) - 1] {
            let words: Vec<_> = (0..queue.words()).map(|_| Word::new(0)).collect();
            queue.filled.put(&words, number);
            assert!(queue.dequeue(&words).is_err());
            words[USED].set(2);
            queue.free.put(&words, number);
            assert!(queue.enqueue(&words, 7).is_err());
        }
    }
}
