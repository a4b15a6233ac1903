//! The last calls of a rank, and their comparison with those of another rank.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mark::{MARK, MARK_BITS, Mark};
use mp_core::{Callers, Calls, ErrorKind};

/// The number of calls that are remembered.
pub(super) const REMEMBERED: usize = 4;

/// A rank's last calls. The history is written by one thread at a time.
///
/// For a call that is the same as the four before it, only the number is kept. All the entries then have its mark, and
/// their numbers stay behind.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The number of the last call.
    count: AtomicU64,
    /// The entry of call n is at n modulo the number of entries.
    entries: [AtomicU64; REMEMBERED],
    /// The difference, once one has been found.
    found: OnceLock<Difference>,
}

/// The different calls of two ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference([(usize, Mark); 2]);

impl Difference {
    pub(super) fn new(one: (usize, Mark), other: (usize, Mark)) -> Self {
        Self(if one.0 < other.0 { [one, other] } else { [other, one] })
    }

    pub(super) fn error(self, ranks: usize) -> mp_core::Error {
        let told =
            |(rank, mark): (usize, Mark)| Callers { call: mark.call(ranks), ranks: vec![rank] };
        let calls = Calls::of(self.0.map(told).to_vec());
        ErrorKind::CallsDiffer(Box::new(calls)).into()
    }

    /// Returns the words in which a rank shows the difference to the others.
    pub(super) fn words(self) -> [u64; 2] {
        self.0.map(|(rank, mark)| (rank as u64) << MARK_BITS | mark.0)
    }

    pub(super) fn of_words(words: [u64; 2]) -> Self {
        Self(words.map(|word| ((word >> MARK_BITS) as usize, Mark(word & MARK))))
    }
}

/// A call's number and mark, in a word.
#[derive(Clone, Copy)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    #[inline(always)]
    fn new(number: u64, mark: Mark) -> Self {
        Self(number << MARK_BITS | mark.0)
    }

    #[inline(always)]
    fn number(self) -> u64 {
        self.0 >> MARK_BITS
    }

    /// Returns whether the entry belongs to one of the calls that follow this number. Numbers begin again at 0.
    #[inline(always)]
    fn is_just_after(self, number: u64) -> bool {
        let ahead = Self::new(self.number().wrapping_sub(number), Mark(0)).number();
        (1..1 << 16).contains(&ahead)
    }

    /// Returns the entry that the next call has if it is the same.
    #[inline(always)]
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << MARK_BITS))
    }

    /// Returns the word in which a rank announces the length of its block in this call.
    #[inline(always)]
    pub(super) fn with_length(self, bytes: usize) -> u64 {
        Self::new(self.number(), Mark((bytes as u64).min(MARK))).0
    }

    /// Returns the length that such a word has, if it is for the same call.
    #[inline(always)]
    pub(super) fn length_in(self, call: Self) -> Option<usize> {
        (self.number() == call.number()).then_some((self.0 & MARK) as usize)
    }

    pub(super) fn mark(self) -> Mark {
        Mark(self.0 & MARK)
    }

    /// Returns whether two ranks made different calls at the same place.
    #[inline(always)]
    fn differs(self, other: Self) -> bool {
        let difference = self.0 ^ other.0;
        difference != 0 && difference >> MARK_BITS == 0 && self.number() != 0
    }
}

impl History {
    /// Records a call. Returns its entry, and whether all remembered calls are now the same.
    #[inline(always)]
    pub(super) fn note(&self, mark: Mark) -> (Entry, bool) {
        let now = Entry::new(self.count.load(Ordering::Relaxed) + 1, mark);
        self.kept(now.number()).store(now.0, Ordering::Relaxed);
        // Release: Acquire in `last`.
        self.count.store(now.number(), Ordering::Release);
        (now, (0..REMEMBERED as u64).all(|at| self.at(at).mark() == mark))
    }

    /// Records a call that is the same as `last`, provided that `last` is still the last call. Returns whether it was
    /// recorded. All remembered calls must be the same.
    #[inline(always)]
    pub(super) fn note_again(&self, last: Entry) -> bool {
        let is_last = self.count.load(Ordering::Relaxed) == last.number();
        if is_last {
            // Release: Acquire in `last`.
            self.count.store(last.next().number(), Ordering::Release);
        }
        is_last
    }

    pub(super) fn found(&self) -> Option<Difference> {
        self.found.get().copied()
    }

    /// Keeps the first difference that was found.
    pub(super) fn differs(&self, difference: Difference) {
        let _ = self.found.set(difference);
    }

    #[inline(always)]
    fn kept(&self, number: u64) -> &AtomicU64 {
        &self.entries[number as usize % REMEMBERED]
    }

    #[inline(always)]
    fn at(&self, number: u64) -> Entry {
        Entry(self.kept(number).load(Ordering::Relaxed))
    }

    /// Returns the number of the last call. The entries are those of that call, or newer.
    #[inline(always)]
    pub(super) fn last(&self) -> u64 {
        // Acquire: Release in `note` and `note_again`.
        self.count.load(Ordering::Acquire)
    }

    /// Returns the entry of the call of this number, where `last` is the number of the last call. Returns zero if the
    /// call is not remembered, or if another thread is just overwriting its entry.
    #[inline(always)]
    pub(super) fn entry(&self, number: u64, last: u64) -> Entry {
        let kept = self.at(number);
        let remembered = last.wrapping_sub(number) < REMEMBERED as u64;
        let is_call = remembered && kept.0 != 0 && !kept.is_just_after(last);
        if is_call { Entry::new(number, kept.mark()) } else { Entry(0) }
    }

    /// Returns the last calls, most recent first.
    #[inline(always)]
    pub(super) fn recent(&self) -> [u64; REMEMBERED] {
        let last = self.last();
        array::from_fn(|back| self.entry(last.wrapping_sub(back as u64), last).0)
    }

    /// Returns the calls that this rank and another one made at the same place, if they differ.
    pub(super) fn difference(&self, there: [u64; REMEMBERED]) -> Option<(Mark, Mark)> {
        let last = self.last();
        there.into_iter().map(Entry).find_map(|there| {
            let mine = self.entry(there.number(), last);
            mine.differs(there).then(|| (mine.mark(), there.mark()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Kind;

    /// This holds however many calls are only counted. The other history notes each of them.
    #[test]
    fn calls_that_are_only_counted_are_told_as_well() {
        let (counted, noted) = (History::default(), History::default());
        let [one, other] = [Mark::barrier(), Mark::new::<u8>(Kind::Broadcast, Some(1), Some(0))];
        let (mut last, mut repeats, mut skipped) = (Entry(0), false, 0);
        for (run, mark) in (0..60).map(|run| (run, if run % 2 == 0 { one } else { other })) {
            for _ in 0..run % 11 {
                noted.note(mark);
                if repeats && last.mark() == mark && counted.note_again(last) {
                    (last, skipped) = (last.next(), skipped + 1);
                } else {
                    (last, repeats) = counted.note(mark);
                }
                assert_eq!(counted.recent(), noted.recent());
                assert_eq!(counted.difference(noted.recent()), None);
            }
        }
        assert!(skipped > 100, "{skipped}");
        // Another front has noted a call in the meantime.
        assert!(!counted.note_again(Entry(last.0 - (1 << MARK_BITS))));
    }

    #[test]
    fn numbers_begin_again() {
        let history = History::default();
        history.count.store((1 << (u64::BITS - MARK_BITS)) - 3, Ordering::Relaxed);
        let marks = [Mark::barrier(), Mark::new::<u8>(Kind::Reduce, Some(1), Some(0))];
        for mark in marks.into_iter().cycle().take(5) {
            history.note(mark);
        }
        let numbers = history.recent().map(|entry| Entry(entry).number());
        assert_eq!(numbers, [2, 1, 0, (1 << (u64::BITS - MARK_BITS)) - 1]);
    }

    #[test]
    fn calls_are_compared_at_the_same_place_alone() {
        let (one, other) = (History::default(), History::default());
        let broadcast = Mark::new::<u8>(Kind::Broadcast, Some(1), Some(0));
        let (mine, _) = one.note(broadcast);
        for mark in [broadcast, Mark::barrier(), Mark::barrier()] {
            other.note(mark);
        }
        let there = other.recent().map(Entry);
        assert!(there.iter().all(|&entry| !mine.differs(entry)));
        let (mine, _) = one.note(broadcast);
        assert_eq!(there.iter().filter(|&&entry| mine.differs(entry)).count(), 1);
    }
}
