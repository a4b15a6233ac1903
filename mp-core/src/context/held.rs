//! A record of the shared buffers that a rank holds, where other ranks find them when the rank is dead.
//!
//! A sender that moves a buffer writes the buffer's key into the channel's slot, removes the buffer from its own table,
//! and only then publishes the slot. The receiver enters the buffer into its own table before it gives the slot back.
//! So at every instant, a dead rank's buffers are in its table, or in a slot that was not published or not received
//! (the channel's `stranded` finds those). No cache line of the buffer itself is transferred for this, because each
//! rank writes only its own table.
//!
//! The owner of a buffer is not recorded in the buffer's header, because each move would have to write that word and
//! cost a second line transfer. A buffer is entered in these places:
//!
//! | moment | where it is entered |
//! |---|---|
//! | handed out | as an unsettled block of its owner |
//! | held | in the rank's table |
//! | its key was written into a slot | in the table and the slot, which is not published yet |
//! | taken off the table | in the slot |
//! | published | in the slot |
//! | received | in the slot and in the receiver's table, until the slot is given back |
//! | dropped | in the table, until the block has been freed |
//!
//! A key that is entered in two places does no harm: the second free of the block finds another generation, and does
//! nothing.

use std::{ptr::NonNull, sync::PoisonError};

use super::{
    Context,
    control::TABLES,
    tables::{Entry, Sweep},
};
use crate::{
    segment::{BlockKey, BlockKind, Offset, SegmentError},
    sync::Ordering,
};

/// The number of entries of the first table.
const FIRST: usize = 512;

/// The place of a held buffer in its rank's tables: the entry, in this process's mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldAt {
    entry: NonNull<Entry>,
}

// SAFETY: the pointer leads to one atomic word, which any thread may use.
unsafe impl Send for HeldAt {}
// SAFETY: a shared `HeldAt` gives access only to its pointer, which leads to one atomic word.
unsafe impl Sync for HeldAt {}

/// An entry that is reserved for a buffer that does not exist yet.
#[derive(Debug)]
pub(crate) struct Reserved {
    entry: NonNull<Entry>,
}

// SAFETY: the pointer leads to one atomic word, which any thread may use.
unsafe impl Send for Reserved {}

impl Reserved {
    /// Records in the rank's tables that it holds the buffer.
    #[inline]
    pub(crate) fn hold(self, key: BlockKey) -> HeldAt {
        // SAFETY: the pointer leads to an entry of a table in the segment. The segment stays mapped, because the caller
        // of `Context::reserve` keeps the context.
        let entry = unsafe { self.entry.as_ref() };
        // Release: pairs with the Acquire in `held_by`.
        entry.0.store(key.word(), Ordering::Release);
        HeldAt { entry: self.entry }
    }
}

/// The word of a reserved entry.
const RESERVED: u64 = u64::MAX;

fn entries(table: usize) -> usize {
    FIRST << table
}

#[cfg(test)]
thread_local! {
    /// The number of entries that this thread has looked at.
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Context {
    fn entry(&self, table: BlockKey, index: usize) -> Result<&Entry, SegmentError> {
        self.segment.at(Offset::new(table.payload() + 8 * index as u64))
    }

    /// Records in this rank's tables that it holds the buffer.
    #[inline]
    pub(crate) fn hold(&self, key: BlockKey) -> Result<HeldAt, SegmentError> {
        self.take_entry(key.word()).map(|entry| HeldAt { entry })
    }

    /// Reserves an entry of this rank's tables. The caller must give it back by `unreserve`, or turn it into that of a
    /// buffer by `hold`, and must use it only while it keeps the context.
    pub(crate) fn reserve(&self) -> Result<Reserved, SegmentError> {
        self.take_entry(RESERVED).map(|entry| Reserved { entry })
    }

    /// Gives a reserved entry back.
    pub(crate) fn unreserve(&self, reserved: &Reserved) {
        self.let_go(HeldAt { entry: reserved.entry });
    }

    #[inline]
    fn take_entry(&self, word: u64) -> Result<NonNull<Entry>, SegmentError> {
        // The entry that was given back last is usually still free.
        if let Some(entry) = NonNull::new(self.free_entry.load(Ordering::Relaxed)) {
            // SAFETY: the pointer leads to an entry of a table in the segment, which this context keeps mapped.
            let found = unsafe { entry.as_ref() };
            if found.0.load(Ordering::Relaxed) == 0 && take(found, word) {
                return Ok(entry);
            }
        }
        self.take_any_entry(word)
    }

    #[cold]
    fn take_any_entry(&self, word: u64) -> Result<NonNull<Entry>, SegmentError> {
        // A panic under this lock leaves a usable sweep, so a poisoned lock does no harm.
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let place = self.rank(self.me)?.tables.get(sweep.table);
            let block = place.and_then(|place| BlockKey::from_word(place.load(Ordering::Acquire)));
            let block = match block {
                Some(block) => block,
                None if 4 * sweep.found >= entries(sweep.table) => {
                    *sweep = Sweep::default();
                    continue;
                }
                None if sweep.table < TABLES => self.add_table(sweep.table)?,
                None => {
                    return Err(self.segment.corrupt("a free entry in a table of buffers", 0, 8));
                }
            };
            while sweep.index < entries(sweep.table) {
                let entry = self.entry(block, sweep.index)?;
                sweep.index += 1;
                if take(entry, word) {
                    sweep.found += 1;
                    return Ok(NonNull::from(entry));
                }
            }
            (sweep.table, sweep.index) = (sweep.table + 1, 0);
        }
    }

    fn add_table(&self, table: usize) -> Result<BlockKey, SegmentError> {
        let len = 8 * entries(table) as u64;
        let block = self.allocate(BlockKind::Table, len)?;
        for index in 0..entries(table) {
            self.entry(block, index)?.0.store(0, Ordering::Relaxed);
        }
        let place = &self.rank(self.me)?.tables[table];
        // AcqRel: a rank that finds the table sees that its entries are zero. If another thread has added a table
        // meanwhile, this thread sees the zeros of that table.
        match place.compare_exchange(0, block.word(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.segment.heap().settle(block)?;
                Ok(block)
            }
            Err(found) => {
                self.free(block);
                BlockKey::from_word(found)
                    .ok_or_else(|| self.segment.corrupt("a table of buffers", found, len))
            }
        }
    }

    /// Removes a buffer from the tables.
    #[inline]
    pub(crate) fn let_go(&self, held: HeldAt) {
        self.free_entry.store(held.entry.as_ptr(), Ordering::Relaxed);
        // SAFETY: the pointer leads to an entry of a table in the segment, which this context keeps mapped.
        let entry = unsafe { held.entry.as_ref() };
        // Release: pairs with the Acquire in `held_by`: a rank that sees the entry empty also sees what was written
        // before, namely the channel's slot.
        entry.0.store(0, Ordering::Release);
    }

    /// Returns the buffers in the tables of `rank`, and the blocks of the tables themselves.
    pub(crate) fn held_by(&self, rank: u32) -> Result<Vec<BlockKey>, SegmentError> {
        let mut keys = Vec::new();
        for (table, place) in self.rank(rank)?.tables.iter().enumerate() {
            let Some(block) = BlockKey::from_word(place.load(Ordering::Acquire)) else { break };
            for index in 0..entries(table) {
                let word = self.entry(block, index)?.0.load(Ordering::Acquire);
                keys.extend(BlockKey::from_word(word).filter(|_| word != RESERVED));
            }
            keys.push(block);
        }
        Ok(keys)
    }
}

fn take(entry: &Entry, word: u64) -> bool {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    entry.0.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        segment::Segment,
        wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
    };

    fn rank() -> Context {
        let waiting = Waiting {
            policy: WaitPolicy::Park,
            asymmetry: Asymmetry::Ordinary,
            line_wait: LineWait::Pause,
            spare: 0,
        };
        let segment = Segment::on_heap(4 << 20, false, 0).unwrap();
        Context::create(Arc::new(segment), (1, 1), false, waiting).unwrap().as_rank(0)
    }

    fn key(number: usize) -> BlockKey {
        BlockKey::from_word(1 + number as u64).unwrap()
    }

    #[test]
    fn an_entry_costs_a_few_looks_however_many_are_taken() {
        let most = if cfg!(miri) { 1_200 } else { 60_000 };
        let (context, mut held) = (rank(), Vec::new());
        let before = LOOKS.get();
        for number in 0..most {
            held.push(context.hold(key(number)).unwrap());
        }
        assert!(LOOKS.get() - before < 4 * most as u64, "{} looks", LOOKS.get() - before);
        // From here on, the number of held buffers stays the same.
        let before = LOOKS.get();
        for number in 0..most {
            for _ in 0..2 {
                context.let_go(held.swap_remove(number * 7919 % held.len()));
            }
            (0..2).for_each(|_| held.push(context.hold(key(number)).unwrap()));
        }
        assert!(LOOKS.get() - before < 16 * most as u64, "{} looks", LOOKS.get() - before);
        assert_eq!(context.held_by(0).unwrap().len() - held.len(), tables(&context));
    }

    #[test]
    fn tables_do_not_grow_when_what_is_held_does_not() {
        let (context, mut held) = (rank(), Vec::new());
        for number in 0..if cfg!(miri) { 1_500 } else { 100_000 } {
            held.push(context.hold(key(number)).unwrap());
            if held.len() == 300 {
                held.drain(100..).for_each(|held| context.let_go(held));
            }
        }
        assert_eq!(tables(&context), 1);
    }

    fn tables(context: &Context) -> usize {
        let tables = &context.rank(0).unwrap().tables;
        tables.iter().filter(|table| table.load(Ordering::Relaxed) != 0).count()
    }
}
