//! A ring of numbers with two ends, each of which is a word that is only added to. This is the algorithm of Nikolaev's
//! SCQ (A scalable, portable, and memory-efficient lock-free FIFO queue, DISC 2019), which does with single words what
//! LCRQ's rings do with pairs of words.
//!
//! A thread that comes to an end gets a ticket, by fetch-and-add, and so an entry of the ring. The lap is the ticket
//! divided by the entries. An entry is one word: the lap of the thread that was here last, a number if there is one,
//! and whether it is *unsafe*.
//!
//! - A putter finds an empty entry of an earlier lap, and writes lap and number. If it does not, the ticket is given up
//!   and another one drawn.
//! - A taker finds a number of its lap. If it finds an earlier lap, then the thread with the same ticket at the other
//!   end is late: the taker writes its own lap into an empty entry, so that the late thread goes elsewhere. If there is
//!   a number of an earlier lap, another taker is about to take it, and nothing can be written: the entry is marked
//!   unsafe instead. A late putter that finds the mark checks whether the taker with its ticket has already come, and
//!   goes elsewhere if so.
//! - A taker has drawn a ticket that no other taker draws, even if there is nothing to take. Tickets that takers have
//!   drawn in excess are skipped by putters.
//! - So that takers do not draw tickets forever and keep putters from their entries, there is a *budget*, which each
//!   number that is put in restores, and which each ticket in vain uses up. The ring has at least twice as many entries
//!   as there are numbers. Then a number in the ring is found within three times as many tickets as there can be
//!   numbers, and a used-up budget means that the ring is empty.

use mp_delegate::critical::internals::{AnyWord, BLOCK, Stop};

use super::{NUMBER_BITS, NUMBERS};

/// The bit above the number in an entry: whether it is unsafe. Above it is the lap.
const UNSAFE: u64 = 1 << NUMBER_BITS;
const LAP: u32 = NUMBER_BITS + 1;
/// The number of laps before their numbers repeat.
const LAPS: u64 = u64::MAX >> LAP;

/// The index of the number of tickets that takers have drawn.
pub(super) const HEAD: usize = 0;
const TAIL: usize = BLOCK;
/// The index of the budget: how many tickets may still be drawn in vain. It is 0 at first, so the ring is empty.
const BUDGET: usize = 2 * BLOCK;
const ENTRIES: usize = 3 * BLOCK;

/// Consecutive entries are so many entries apart, so that they lie in different lines.
const APART: u32 = BLOCK.trailing_zeros();

/// The place of a ring in the words of a region. Zeroed words are an empty ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    first: usize,
    /// The ring has 2 to the power of this many entries.
    order: u32,
}

impl Ring {
    /// Returns how many words are needed for so many numbers at the same time.
    pub(super) fn words(numbers: usize) -> usize {
        ENTRIES + (1 << order(numbers))
    }

    pub(super) fn new(first: usize, numbers: usize) -> Self {
        Self { first, order: order(numbers) }
    }

    fn budget(&self) -> u64 {
        // 3 n for 2 n entries. A budget of 0 allows no ticket.
        3 << (self.order - 1)
    }

    /// Returns the entry of a ticket, and its lap. Entries in zeroed memory are in lap 0.
    #[inline]
    pub(super) fn entry<'a, W>(&self, words: &'a [W], ticket: u64) -> (&'a W, u64) {
        let at = ticket & ((1 << self.order) - 1);
        let high = self.order.saturating_sub(APART);
        let at = (at << (self.order - high) | at >> high) & ((1 << self.order) - 1);
        (&words[self.first + ENTRIES + at as usize], ((ticket >> self.order) + 1) & LAPS)
    }

    /// Puts in a number, from 1. The ring must have been made for at least this many numbers.
    #[inline]
    pub(super) fn put(&self, words: &[impl AnyWord], number: u64) {
        let [head, tail, budget] = [HEAD, TAIL, BUDGET].map(|at| &words[self.first + at]);
        loop {
            let ticket = tail.fetch_add(1);
            let (entry, lap) = self.entry(words, ticket);
            let mut seen = entry.load();
            while is_before(seen >> LAP, lap)
                && seen & NUMBERS == 0
                // The taker that marked the entry has drawn its ticket before.
                && (seen & UNSAFE == 0 || is_drawn_up_to(head, ticket))
            {
                match entry.compare_exchange(seen, lap << LAP | number) {
                    Ok(()) => {
                        // Adding 0 reads the latest value, and this can't take place before the entry was written.
                        if budget.fetch_add(0) != self.budget() {
                            budget.swap(self.budget());
                        }
                        return;
                    }
                    Err(now) => seen = now,
                }
            }
        }
    }

    /// Takes out the number that has been in the ring longest, if there is one.
    #[inline]
    pub(super) fn take(&self, words: &[impl AnyWord]) -> Result<Option<u64>, Stop> {
        let [head, tail, budget] = [HEAD, TAIL, BUDGET].map(|at| &words[self.first + at]);
        if budget.load() as i64 <= 0 {
            return Ok(None);
        }
        loop {
            let ticket = head.fetch_add(1);
            let (entry, lap) = self.entry(words, ticket);
            let mut seen = entry.load();
            loop {
                let number = seen & NUMBERS;
                if seen >> LAP == lap {
                    if number == 0 {
                        return Err(Stop::Corrupt);
                    }
                    // No other thread changes the number, but takers may mark the entry meanwhile.
                    entry.fetch_add(number.wrapping_neg());
                    return Ok(Some(number));
                }
                if !is_before(seen >> LAP, lap) {
                    break;
                }
                // The exchange is also needed if the entry is already marked, so that a thread that finds the mark also
                // sees this ticket.
                let left = if number == 0 { lap << LAP | seen & UNSAFE } else { seen | UNSAFE };
                match entry.compare_exchange(seen, left) {
                    Ok(()) => break,
                    Err(now) => seen = now,
                }
            }
            let next = ticket.wrapping_add(1);
            let drawn = tail.load();
            if drawn.wrapping_sub(next) as i64 <= 0 {
                catch_up(tail, head, drawn, next);
                budget.fetch_add(u64::MAX);
                return Ok(None);
            }
            if budget.fetch_add(u64::MAX) as i64 <= 1 {
                return Ok(None);
            }
        }
    }
}

/// Returns the power of 2 for the entries of so many numbers: there are at least twice as many entries.
fn order(numbers: usize) -> u32 {
    (2 * numbers.max(1)).next_power_of_two().trailing_zeros()
}

/// Returns whether a lap comes before another. Laps wrap around.
fn is_before(lap: u64, other: u64) -> bool {
    (1..=LAPS / 2).contains(&(other.wrapping_sub(lap) & LAPS))
}

/// Returns whether the ticket has not been drawn at this end yet.
fn is_drawn_up_to(end: &impl AnyWord, ticket: u64) -> bool {
    ticket.wrapping_sub(end.load()) as i64 >= 0
}

/// Advances the tail past the tickets that takers drew in vain, so that putters skip them.
#[cold]
fn catch_up<W: AnyWord>(tail: &W, head: &W, mut drawn: u64, mut next: u64) {
    while let Err(now) = tail.compare_exchange(drawn, next) {
        drawn = now;
        next = head.load();
        if drawn.wrapping_sub(next) as i64 >= 0 {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    fn words(numbers: usize) -> Vec<Word> {
        (0..Ring::words(numbers)).map(|_| Word::new(0)).collect()
    }

    #[test]
    fn every_ticket_of_a_lap_has_an_entry_of_its_own() {
        for numbers in [1, 2, 3, 4, 7, 8, 9, 31, 100] {
            let (ring, words) = (Ring::new(0, numbers), words(numbers));
            let entries = 1 << ring.order;
            assert!(entries >= 2 * numbers as u64);
            let of = |lap: u64| {
                let place = |ticket| {
                    let (entry, found) = ring.entry(&words, lap * entries + ticket);
                    assert_eq!(found, lap + 1);
                    std::ptr::from_ref(entry)
                };
                let mut places: Vec<_> = (0..entries).map(place).collect();
                places.sort_unstable();
                places.dedup();
                places.len() as u64
            };
            assert_eq!([of(0), of(1), of(5)], [entries; 3]);
        }
    }

    #[test]
    fn numbers_come_in_order_over_many_laps() {
        for numbers in [1, 2, 5] {
            let (ring, words) = (Ring::new(0, numbers), words(numbers));
            for round in 0..50 {
                // Takers draw more tickets in vain than there are entries.
                (0..round).for_each(|_| assert_eq!(ring.take(&words).unwrap(), None));
                (1..=numbers as u64).for_each(|number| ring.put(&words, number));
                for number in 1..=numbers as u64 {
                    assert_eq!(ring.take(&words).unwrap(), Some(number));
                }
            }
        }
    }

    /// Sets all words as if so many tickets had been drawn, so that laps or tickets soon wrap around.
    #[test]
    fn laps_and_tickets_wrap_around() {
        let numbers = 2;
        let ring = Ring::new(0, numbers);
        let entries = 1 << ring.order;
        for drawn in [LAPS * entries, (LAPS / 2) * entries, 0] {
            let words = words(numbers);
            let drawn = u64::wrapping_sub(drawn, 3 * entries);
            words[HEAD].store_relaxed(drawn);
            words[TAIL].store_relaxed(drawn);
            for ticket in 0..entries {
                let (entry, lap) = ring.entry(&words, drawn + ticket);
                entry.store_relaxed((lap.wrapping_sub(1) & LAPS) << LAP);
            }
            for round in 0..100 {
                assert_eq!(ring.take(&words).unwrap(), None);
                ring.put(&words, 1 + round % 2);
                ring.put(&words, 2 - round % 2);
                assert_eq!(ring.take(&words).unwrap(), Some(1 + round % 2));
                assert_eq!(ring.take(&words).unwrap(), Some(2 - round % 2));
            }
        }
    }

    #[test]
    fn a_late_one_goes_elsewhere() {
        let (ring, words) = (Ring::new(0, 1), words(1));
        // A putter has drawn a ticket, and is late. Other putters have set the budget.
        words[BUDGET].store_relaxed(ring.budget());
        words[TAIL].store_relaxed(1);
        assert_eq!(ring.take(&words).unwrap(), None);
        let (entry, lap) = ring.entry(&words, 0);
        assert_eq!(entry.load_relaxed(), lap << LAP);
        ring.put(&words, 1);
        assert_eq!(ring.take(&words).unwrap(), Some(1));
    }

    /// A taker with ticket 0 is late, so its number is still in the ring a lap later.
    #[test]
    fn an_unsafe_entry_is_used_only_ahead_of_takers() {
        let (ring, words) = (Ring::new(0, 1), words(1));
        ring.put(&words, 1);
        let late = words[HEAD].fetch_add(1);
        let (entry, lap) = ring.entry(&words, late);
        // One of the next takers comes to the same entry.
        while words[HEAD].load_relaxed() <= 2 {
            assert_eq!(ring.take(&words).unwrap(), None);
            words[BUDGET].store_relaxed(ring.budget());
        }
        assert_eq!(entry.load_relaxed(), lap << LAP | UNSAFE | 1);
        entry.fetch_add(1u64.wrapping_neg());
        // The entry is used again, but not for a ticket that takers have passed.
        for _ in 0..4 {
            ring.put(&words, 1);
            assert_eq!(ring.take(&words).unwrap(), Some(1));
        }
        assert_eq!(entry.load_relaxed() & UNSAFE, 0);
    }
}
