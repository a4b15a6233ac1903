//! The records of this process, by number. An operation that is a closure names a record.
//!
//! A record is never freed, only used again, and no turn of it occurs twice. So a number and a turn, from any source,
//! lead to a closure whose caller waits for it, or to none.

use std::sync::{Mutex, OnceLock, PoisonError};

use mp_core::memory::Word;

/// The link from an operation to a closure.
pub(super) struct Record {
    /// The turn's number, and how far it has got.
    pub(super) turn: Word,
    /// The object that the closure is an operation on.
    pub(super) object: Word,
    /// A `fn(*mut ())` and its argument, both set by the caller whose turn it is.
    pub(super) code: Word,
    pub(super) task: Word,
}

impl Record {
    fn new() -> Self {
        let [turn, object, code, task] = [0; 4].map(Word::new);
        Self { turn, object, code, task }
    }
}

/// The chunks of records. Each has twice as many as the one before. They never move, so that a lookup needs no lock.
static CHUNKS: [OnceLock<Box<[Record]>>; 24] = [const { OnceLock::new() }; 24];
const FIRST: u64 = 16;

static UNUSED: Mutex<Unused> = Mutex::new(Unused { numbers: Vec::new(), made: 0 });

struct Unused {
    numbers: Vec<u64>,
    /// Numbers from this one on were never used.
    made: u64,
}

/// Returns the chunk of a number, and the place in it.
fn place(number: u64) -> Option<(usize, usize)> {
    let from_first = number.checked_add(FIRST)?;
    let chunk = (from_first / FIRST).ilog2() as usize;
    Some((chunk, (from_first - (FIRST << chunk)) as usize))
}

/// Returns the record of this number, if there is one.
#[inline]
pub(super) fn find(number: u64) -> Option<&'static Record> {
    let (chunk, at) = place(number)?;
    CHUNKS.get(chunk)?.get()?.get(at)
}

/// A record that belongs to one caller.
pub(super) struct Own {
    pub(super) number: u64,
    pub(super) record: &'static Record,
}

impl Own {
    /// Takes a record that no other caller has. Returns `None` when there are too many.
    pub(super) fn take() -> Option<Self> {
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        let number = unused.numbers.last().copied().unwrap_or(unused.made);
        let (chunk, at) = place(number)?;
        let make = || (0..FIRST << chunk).map(|_| Record::new()).collect();
        let record = CHUNKS.get(chunk)?.get_or_init(make).get(at)?;
        if unused.numbers.pop().is_none() {
            unused.made += 1;
        }
        Some(Self { number, record })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        unused.numbers.push(self.number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for number in 0..FIRST * 31 {
            assert_eq!(place(number), Some(next));
            next.1 += 1;
            if next.1 as u64 == FIRST << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        for number in [u64::MAX, u64::MAX - FIRST, 1 << 63, FIRST << CHUNKS.len()] {
            assert!(find(number).is_none());
        }
    }

    #[test]
    fn records_have_one_owner_and_are_used_again() {
        let mut all: Vec<Own> = (0..100).map(|_| Own::take().unwrap()).collect();
        for own in &all {
            assert!(std::ptr::eq(find(own.number).unwrap(), own.record));
        }
        let mut numbers: Vec<u64> = all.iter().map(|own| own.number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        let last = all.pop().unwrap();
        let (number, record) = (last.number, last.record);
        drop(last);
        // Another test may have it by now, but not for long.
        assert!(std::ptr::eq(find(number).unwrap(), record));
    }
}
