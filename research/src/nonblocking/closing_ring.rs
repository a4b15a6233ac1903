//! A ring of values that can be closed: the CRQ of Morrison and Afek (*Fast Concurrent Queues for x86 Processors*,
//! PPoPP 2013), with values of 32 bits, so that an entry is one word (thesis, section 6.2.4).
//!
//! A thread that comes to an end gets a ticket, by fetch-and-add, and so an entry of the ring. The lap is the ticket
//! divided by the entries, plus 1. An entry has a value or none, a lap, and the mark *unsafe*.
//!
//! - A putter finds an entry without a value, of its own lap or an earlier one, and writes its value there. If the
//!   entry is unsafe, the putter first checks that the taker with its ticket has not come yet. If it fails too often, or
//!   the ring is full, it closes the ring.
//! - A taker finds a value of its own lap, and empties the entry for the next lap. If there is no value, the putter
//!   with its ticket is late: the taker leaves the entry for the next lap, so that the putter goes elsewhere. If there
//!   is a value of an earlier lap, it marks the entry unsafe instead.
//! - A closed ring takes no more values, and is never opened again before it is [reset](ClosingRing::reset). A ring is
//!   also closed when there are no more laps.

use mp_delegate::critical::internals::{AnyWord, BLOCK};

/// The number of bits for a value, plus 1; 0 is none.
const VALUE_BITS: u32 = 33;
const VALUE: u64 = (1 << VALUE_BITS) - 1;
const UNSAFE: u64 = 1 << 63;
/// The last lap that putters use.
const LAPS: u64 = (1 << (63 - VALUE_BITS)) - 2;

/// The index of the takers' tickets.
const HEAD: usize = 0;
/// The index of the putters' tickets, and of the mark of a closed ring.
const TAIL: usize = BLOCK;
const CLOSED: u64 = 1 << 63;
/// The index of the ring that follows, plus 1, or 0.
const NEXT: usize = 2 * BLOCK;
/// The index of the group of cores that uses the ring, for queues that have groups.
const GROUP: usize = 2 * BLOCK + 1;
const ENTRIES: usize = 3 * BLOCK;

/// Consecutive entries are so many entries apart, so that they lie in different lines.
const APART: u32 = BLOCK.trailing_zeros();

/// After so many tickets in vain a putter closes the ring.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 10 };

/// The place of a ring in the words of a region. Zeroed words are an empty ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosingRing {
    first: usize,
    /// The ring has 2 to the power of this many entries.
    order: u32,
}

impl ClosingRing {
    pub(super) fn words(order: u32) -> usize {
        ENTRIES + (1_usize << order).next_multiple_of(BLOCK)
    }

    pub(super) fn new(first: usize, order: u32) -> Self {
        Self { first, order }
    }

    pub(super) fn next<'a, W>(&self, words: &'a [W]) -> &'a W {
        &words[self.first + NEXT]
    }

    pub(super) fn group<'a, W>(&self, words: &'a [W]) -> &'a W {
        &words[self.first + GROUP]
    }

    fn entry<'a, W>(&self, words: &'a [W], ticket: u64) -> (&'a W, u64) {
        let last = (1 << self.order) - 1;
        let (at, high) = (ticket & last, self.order.saturating_sub(APART));
        let at = (at << (self.order - high) | at >> high) & last;
        (&words[self.first + ENTRIES + at as usize], (ticket >> self.order) + 1)
    }

    /// Makes this a new ring with one value. No other thread may use it.
    pub(super) fn reset(&self, words: &[impl AnyWord], value: u32) {
        let end = self.first + Self::words(self.order);
        words[self.first..end].iter().for_each(|word| word.store_relaxed(0));
        let (entry, lap) = self.entry(words, 0);
        entry.store_relaxed(filled(lap, value));
        words[self.first + TAIL].store_relaxed(1);
    }

    /// Puts in a value. Returns false if the ring is closed.
    #[inline]
    pub(super) fn put(&self, words: &[impl AnyWord], value: u32) -> bool {
        let [head, tail] = [HEAD, TAIL].map(|at| &words[self.first + at]);
        for tries in 1.. {
            let ticket = tail.fetch_add(1);
            if ticket & CLOSED != 0 {
                return false;
            }
            let (entry, lap) = self.entry(words, ticket);
            let seen = entry.load();
            if lap <= LAPS
                && seen & VALUE == 0
                && lap_of(seen) <= lap
                // The taker that marked the entry has drawn its ticket before.
                && (seen & UNSAFE == 0 || head.load() <= ticket)
                && entry.compare_exchange(seen, filled(lap, value)).is_ok()
            {
                return true;
            }
            let is_full = ticket.wrapping_sub(head.load()) as i64 >= 1 << self.order;
            if is_full || tries >= PATIENCE || lap > LAPS {
                break;
            }
        }
        let mut seen = tail.load();
        while seen & CLOSED == 0 {
            match tail.compare_exchange(seen, seen | CLOSED) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes out the value that has been in the ring longest, if there is one.
    #[inline]
    pub(super) fn take(&self, words: &[impl AnyWord]) -> Option<u32> {
        let [head, tail] = [HEAD, TAIL].map(|at| &words[self.first + at]);
        loop {
            let ticket = head.fetch_add(1);
            let (entry, lap) = self.entry(words, ticket);
            let mut seen = entry.load();
            while lap_of(seen) <= lap && lap <= LAPS {
                let value = seen & VALUE;
                let left = match value {
                    // The mark stays, and the next lap comes.
                    0 => seen & UNSAFE | (lap + 1) << VALUE_BITS,
                    _ if lap_of(seen) == lap => seen & UNSAFE | (lap + 1) << VALUE_BITS,
                    // The exchange is also needed if the entry is already marked, so that a thread that finds the mark
                    // also sees this ticket.
                    _ => seen | UNSAFE,
                };
                match entry.compare_exchange(seen, left) {
                    Ok(()) if value != 0 && lap_of(seen) == lap => return Some((value - 1) as u32),
                    Ok(()) => break,
                    Err(now) => seen = now,
                }
            }
            let drawn = tail.load();
            if drawn & !CLOSED <= ticket + 1 {
                catch_up(tail, head);
                return None;
            }
        }
    }
}

fn lap_of(entry: u64) -> u64 {
    (entry & !UNSAFE) >> VALUE_BITS
}

fn filled(lap: u64, value: u32) -> u64 {
    lap << VALUE_BITS | (u64::from(value) + 1)
}

/// Advances the tail past the tickets that takers drew in vain. The tail of a closed ring stays.
fn catch_up<W: AnyWord>(tail: &W, head: &W) {
    let mut put = tail.load();
    loop {
        let taken = head.load();
        if put >= taken {
            return;
        }
        match tail.compare_exchange(put, taken) {
            Ok(()) => return,
            Err(now) => put = now,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    fn ring(order: u32) -> (ClosingRing, Vec<Word>) {
        let words = (0..ClosingRing::words(order)).map(|_| Word::new(0)).collect();
        (ClosingRing::new(0, order), words)
    }

    #[test]
    fn values_come_in_order_over_many_laps() {
        for order in [0, 1, 3, 5] {
            let (ring, words) = ring(order);
            for round in 0..50_u32 {
                (0..round % 4).for_each(|_| assert_eq!(ring.take(&words), None));
                (0..1 << order).for_each(|value| assert!(ring.put(&words, round + value)));
                (0..1 << order)
                    .for_each(|value| assert_eq!(ring.take(&words), Some(round + value)));
            }
        }
    }

    #[test]
    fn a_full_ring_is_closed_and_a_reset_one_is_new() {
        let (ring, words) = ring(2);
        (0..4).for_each(|value| assert!(ring.put(&words, value)));
        assert!(!ring.put(&words, 4));
        assert_eq!(ring.take(&words), Some(0));
        assert!(!ring.put(&words, 4), "there is room, but it is closed");
        (1..4).for_each(|value| assert_eq!(ring.take(&words), Some(value)));
        assert_eq!([ring.take(&words), ring.take(&words)], [None; 2]);
        ring.next(&words).store(9);
        ring.reset(&words, u32::MAX);
        assert_eq!(ring.next(&words).load(), 0);
        assert!(ring.put(&words, 7));
        assert_eq!([ring.take(&words), ring.take(&words)], [Some(u32::MAX), Some(7)]);
    }

    #[test]
    fn a_late_putter_goes_elsewhere() {
        let (ring, words) = ring(1);
        // A putter has drawn ticket 0, and is late.
        words[TAIL].store_relaxed(1);
        assert_eq!(ring.take(&words), None);
        let (entry, lap) = ring.entry(&words, 0);
        assert_eq!((lap_of(entry.load_relaxed()), lap), (2, 1));
        assert!(ring.put(&words, 5));
        assert_eq!(ring.take(&words), Some(5));
    }

    /// A taker with ticket 0 is late, so its value is still there a lap later.
    #[test]
    fn an_unsafe_entry_is_used_only_ahead_of_takers() {
        let (ring, words) = ring(0);
        assert!(ring.put(&words, 5));
        words[HEAD].store_relaxed(1);
        assert_eq!(ring.take(&words), None);
        let (entry, _) = ring.entry(&words, 0);
        assert_eq!(entry.load_relaxed(), UNSAFE | filled(1, 5));
        // The late taker comes.
        entry.store_relaxed(UNSAFE | 2 << VALUE_BITS);
        // The putter gets the ticket of a taker that has not come yet.
        assert!(ring.put(&words, 6));
        assert_eq!(entry.load_relaxed() & UNSAFE, 0);
        assert_eq!(ring.take(&words), Some(6));
        // The taker with the putter's next ticket has come.
        entry.fetch_add(UNSAFE);
        words[HEAD].fetch_add(1);
        let drawn = words[TAIL].load_relaxed();
        assert!(ring.put(&words, 7));
        assert_eq!(words[TAIL].load_relaxed(), drawn + 2, "the first ticket was in vain");
        assert_eq!(ring.take(&words), Some(7));
    }

    #[test]
    fn a_ring_is_closed_after_its_last_lap() {
        let (ring, words) = ring(1);
        for at in [HEAD, TAIL] {
            words[at].store_relaxed(2 * LAPS - 1);
        }
        assert!(ring.put(&words, 1));
        assert!(!ring.put(&words, 2));
        assert_eq!([ring.take(&words), ring.take(&words)], [Some(1), None]);
    }
}
