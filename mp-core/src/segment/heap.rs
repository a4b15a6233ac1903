//! The allocator of a segment: blocks for channels and buffers, freed and used again.
//!
//! The heap is one row of blocks from its first to `top`, each with a header of its own. Sizes go
//! up in quarters of a doubling; a freed block goes onto the list of its size, last in, first
//! out, because the last one is the warmest. Blocks are never merged: address space is plenty,
//! and the pages of free blocks can be given back ([`Heap::trim`]).
//!
//! Ranks can die at any instruction. The headers are the truth, and each change of them is one
//! store; the lists only say the same again. Whoever finds the lock left by a dead rank builds
//! the lists anew from the headers ([`LockedHeap::mend`]). A block that was handed out counts as
//! its owner's until it is settled somewhere (in a list, in the owner's table of buffers): the
//! unsettled blocks of a dead rank are freed. And a key names a block together with its
//! generation, so that freeing twice is harmless.

use super::{LARGE, Offset, PAGE, Segment, SegmentError, Shared, lock::RobustLock};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Sizes and places of blocks are multiples of this: two cache lines, which the adjacent-line
/// prefetcher fetches together (T 7.2.1).
const GRAIN: u64 = 128;
/// log2 of the smallest block.
const SMALLEST: u32 = 9;
/// Four sizes for each doubling.
const CLASSES: usize = 4 * 37;
/// How many bytes are committed ahead of the blocks that will use them.
const AHEAD: std::ops::Range<u64> = (2 << 20)..(16 << 20);
/// Lists of blocks that are in use, for finding channels by name. One in tests, so that everything
/// has neighbours there.
const BUCKETS: usize = if cfg!(test) { 1 } else { 256 };
const MARK: u32 = 0x0b10_c4ed;
const FREE: u32 = 1;
const USED: u32 = 2;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum BlockKind {
    /// The world's control block.
    World = 1,
    /// A channel: descriptor and slots.
    Channel,
    /// A shared buffer's elements.
    Buffer,
    /// A rank's table of the buffers that it holds.
    Table,
    /// A rank's result or error.
    Outcome,
    /// The message passing buffers of all ranks by one name.
    Mpbs,
    /// The ranks that open no channel by a name any more.
    Farewell,
}

impl BlockKind {
    const ALL: [Self; 7] = [
        Self::World,
        Self::Channel,
        Self::Buffer,
        Self::Table,
        Self::Outcome,
        Self::Mpbs,
        Self::Farewell,
    ];

    fn from_word(word: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == word)
    }
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct HeapControl {
    lock: RobustLock,
    /// Where the first block lies.
    base: AtomicU64,
    /// Where the next fresh block will lie.
    top: AtomicU64,
    /// From `top` up to here, if it is more, all pages exist.
    ready: AtomicU64,
    /// Bytes in blocks that are in use, headers included.
    used: AtomicU64,
    free: [AtomicU64; CLASSES],
    buckets: [AtomicU64; BUCKETS],
}

impl HeapControl {
    /// Zeroed memory becomes an empty heap.
    pub(super) fn format(&self, base: u64) {
        self.base.store(base, Ordering::Relaxed);
        self.top.store(base, Ordering::Relaxed);
    }
}

/// What stands before every block's payload. All fields change under the heap's lock, except
/// `settled`, which the owner alone sets.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct BlockHeader {
    mark: AtomicU32,
    class: AtomicU32,
    /// Whether the block is in use, and its generation: one word, because a block that was freed
    /// under its old generation could be freed again by a key that its dead user left.
    state: AtomicU32,
    kind: AtomicU32,
    owner: AtomicU32,
    settled: AtomicU32,
    /// 1 + the bucket in whose list the block stands; 0 for none.
    bucket: AtomicU32,
    /// The next block of the same list (free blocks of a class, or a bucket).
    next: AtomicU64,
    /// Bytes asked for.
    len: AtomicU64,
    /// Whether the payload's pages exist.
    committed: AtomicU32,
}

// SAFETY: atomics only, repr(C).
unsafe impl Shared for BlockHeader {}

impl BlockHeader {
    /// [`FREE`] or [`USED`], and the generation.
    fn state(&self) -> (u32, u32) {
        let word = self.state.load(Ordering::Relaxed);
        (word & 0xff, word >> 8)
    }

    fn set_state(&self, state: u32, generation: u32) {
        // Release: the header is whole before its state says so, also for who finds it after this
        // rank's death.
        self.state.store(generation << 8 | state, Ordering::Release);
    }
}

const HEADER: u64 = size_of::<BlockHeader>() as u64;

/// A block and its generation in one word: the place in grains (40 bits), the generation (24).
/// Zero is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey(u64);

impl BlockKey {
    /// Alignment of every payload.
    pub(crate) const ALIGN: usize = GRAIN as usize;

    fn new(block: u64, generation: u32) -> Self {
        Self((block / GRAIN) | (u64::from(generation) << 40))
    }

    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    fn block(self) -> Offset<BlockHeader> {
        Offset::new((self.0 & ((1 << 40) - 1)) * GRAIN)
    }

    fn generation(self) -> u32 {
        (self.0 >> 40) as u32
    }

    /// Where the payload begins.
    pub(crate) fn payload(self) -> u64 {
        self.block().bytes() + HEADER
    }
}

/// A block as its header describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockInfo {
    pub(crate) key: BlockKey,
    pub(crate) kind: BlockKind,
    pub(crate) owner: u32,
    pub(crate) settled: bool,
    /// Bytes asked for.
    #[cfg(test)]
    pub(crate) len: u64,
}

fn class_size(class: usize) -> u64 {
    (4 + class as u64 % 4) << (SMALLEST - 2 + class as u32 / 4)
}

/// The smallest class whose blocks have `bytes` in all; `None` past the largest.
fn class_of(bytes: u64) -> Option<usize> {
    let bytes = bytes.max(1 << SMALLEST);
    let doubling = 63 - bytes.leading_zeros();
    let quarter = 1u64 << (doubling - 2);
    let class = 4 * (doubling - SMALLEST) as usize + (bytes.div_ceil(quarter) - 4) as usize;
    (class < CLASSES).then_some(class)
}

/// A segment's heap. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap<'a> {
    segment: &'a Segment,
    control: &'a HeapControl,
}

impl<'a> Heap<'a> {
    pub(super) fn new(segment: &'a Segment, control: &'a HeapControl) -> Self {
        Self { segment, control }
    }

    /// Takes the heap's lock as rank `me`; mends the heap first if a holder died.
    pub(crate) fn lock(
        self,
        me: u32,
        gone: impl Fn(u32) -> bool,
    ) -> Result<LockedHeap<'a>, SegmentError> {
        let broken = self.control.lock.acquire(me, gone);
        let mut locked = LockedHeap { heap: self, whole: false };
        if broken {
            locked.mend()?;
        }
        locked.whole = true;
        Ok(locked)
    }

    /// Hands out a committed block of at least `len` bytes, owned by `me` and not yet settled.
    /// Its content is whatever its last user left.
    pub(crate) fn allocate(
        self,
        me: u32,
        gone: impl Fn(u32) -> bool + Copy,
        kind: BlockKind,
        len: u64,
    ) -> Result<BlockKey, SegmentError> {
        let (key, committed) = self.lock(me, gone)?.reserve(me, kind, len)?;
        if committed {
            return Ok(key);
        }
        // Outside the lock: committing a large block takes milliseconds.
        let done = self.commit(key, len).or_else(|error| match error {
            SegmentError::OutOfMemory { .. } => {
                self.trim(me, gone)?;
                self.commit(key, len)
            }
            error => Err(error),
        });
        if let Err(error) = done {
            self.lock(me, gone)?.free(key)?;
            return Err(error);
        }
        Ok(key)
    }

    fn commit(self, key: BlockKey, len: u64) -> Result<(), SegmentError> {
        let header = self.segment.at(key.block())?;
        let size = class_size(header.class.load(Ordering::Relaxed) as usize).max(len + HEADER);
        self.segment.commit(key.block().bytes(), size)?;
        header.committed.store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the pages of all free blocks back to the system.
    pub(crate) fn trim(self, me: u32, gone: impl Fn(u32) -> bool) -> Result<(), SegmentError> {
        if !self.segment.can_punch() {
            return Ok(());
        }
        let locked = self.lock(me, gone)?;
        locked.walk(|offset, header, size| {
            let first = (offset + HEADER).next_multiple_of(PAGE);
            let end = (offset + size) / PAGE * PAGE;
            if header.state().0 == FREE && first < end {
                header.committed.store(0, Ordering::Relaxed);
                self.segment.punch(first, end - first);
            }
        })
    }

    /// The block of `key`, if it is in use, of this kind and this generation.
    #[inline]
    pub(crate) fn check(self, key: BlockKey, kind: BlockKind) -> Result<u64, SegmentError> {
        let header = self.segment.at(key.block())?;
        let len = header.len.load(Ordering::Relaxed);
        let class = header.class.load(Ordering::Relaxed) as usize;
        let good = header.mark.load(Ordering::Relaxed) == MARK
            && class < CLASSES
            && len <= class_size(class) - HEADER
            && header.state() == (USED, key.generation())
            && header.kind.load(Ordering::Relaxed) == kind as u32;
        if !good {
            return Err(self.segment.corrupt("a live block", key.block().bytes(), HEADER));
        }
        self.segment.range(key.payload(), len, "a block's payload")?;
        Ok(len)
    }

    /// The payload of the block in use, of this kind, that is said to begin at `payload`.
    pub(crate) fn payload_of(self, payload: u64, kind: BlockKind) -> Result<u64, SegmentError> {
        let corrupt = || self.segment.corrupt("a live block", payload, 0);
        let offset = payload.checked_sub(HEADER).ok_or_else(corrupt)?;
        let header = self.segment.at(Offset::<BlockHeader>::new(offset))?;
        let (_, generation) = header.state();
        self.check(BlockKey::new(offset, generation), kind)?;
        Ok(payload)
    }

    /// Says that the block is now known elsewhere than by its owner field.
    pub(crate) fn settle(self, key: BlockKey) -> Result<(), SegmentError> {
        // Release: whoever frees unsettled blocks (`LockedHeap::blocks`) sees where it settled.
        self.segment.at(key.block())?.settled.store(1, Ordering::Release);
        Ok(())
    }

    /// Bytes in blocks that are in use, headers and rounding included.
    pub(crate) fn used(self) -> u64 {
        self.control.used.load(Ordering::Relaxed)
    }

    /// Bytes from the first block to the end of the last one ever handed out.
    pub(crate) fn touched(self) -> u64 {
        let control = self.control;
        control.top.load(Ordering::Relaxed).saturating_sub(control.base.load(Ordering::Relaxed))
    }
}

/// The heap while its lock is held.
#[derive(Debug)]
pub(crate) struct LockedHeap<'a> {
    heap: Heap<'a>,
    /// False while an error would leave lists half changed.
    whole: bool,
}

impl LockedHeap<'_> {
    /// A block of at least `len` bytes, and whether its pages exist.
    pub(crate) fn reserve(
        &mut self,
        owner: u32,
        kind: BlockKind,
        len: u64,
    ) -> Result<(BlockKey, bool), SegmentError> {
        let full = || {
            let top = self.heap.control.top.load(Ordering::Relaxed);
            let size = self.heap.segment.end();
            SegmentError::Full { asked: len, left: size.saturating_sub(top), size }
        };
        let class = len.checked_add(HEADER).and_then(class_of).ok_or_else(full)?;
        let near = (class..CLASSES.min(class + 3)).find_map(|class| self.pop(class).transpose());
        let (offset, header) = match near.transpose()? {
            Some(block) => block,
            None => match self.extend(class)? {
                Some(block) => block,
                None => (class + 3..CLASSES)
                    .find_map(|class| self.pop(class).transpose())
                    .transpose()?
                    .ok_or_else(full)?,
            },
        };
        let (_, generation) = header.state();
        header.kind.store(kind as u32, Ordering::Relaxed);
        header.owner.store(owner, Ordering::Relaxed);
        header.settled.store(0, Ordering::Relaxed);
        header.bucket.store(0, Ordering::Relaxed);
        header.len.store(len, Ordering::Relaxed);
        header.set_state(USED, generation);
        self.count_used(header, true);
        let key = BlockKey::new(offset, generation);
        Ok((key, header.committed.load(Ordering::Relaxed) != 0))
    }

    /// Makes the pages of a block just reserved exist, with the lock held.
    pub(crate) fn commit(&self, key: BlockKey, len: u64) -> Result<(), SegmentError> {
        self.heap.commit(key, len)
    }

    fn count_used(&self, header: &BlockHeader, more: bool) {
        let size = class_size(header.class.load(Ordering::Relaxed) as usize);
        let used = self.heap.control.used.load(Ordering::Relaxed);
        let used = if more { used.saturating_add(size) } else { used.saturating_sub(size) };
        self.heap.control.used.store(used, Ordering::Relaxed);
    }

    /// Takes the first block off a class's list.
    fn pop(&self, class: usize) -> Result<Option<(u64, &BlockHeader)>, SegmentError> {
        let list = &self.heap.control.free[class];
        let offset = list.load(Ordering::Relaxed);
        if offset == 0 {
            return Ok(None);
        }
        let header = self.header(offset)?;
        if header.state().0 != FREE || header.class.load(Ordering::Relaxed) as usize != class {
            return Err(self.heap.segment.corrupt("a free block", offset, HEADER));
        }
        list.store(header.next.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(Some((offset, header)))
    }

    /// A fresh block behind the last one, or nothing when the segment's end is reached.
    fn extend(&self, class: usize) -> Result<Option<(u64, &BlockHeader)>, SegmentError> {
        let top = self.heap.control.top.load(Ordering::Relaxed);
        let size = class_size(class);
        if top.checked_add(size).is_none_or(|end| end > self.heap.segment.end()) {
            return Ok(None);
        }
        let committed = self.is_ready(top, size);
        if !committed {
            self.heap.segment.commit(top, HEADER)?;
        }
        let header = self.heap.segment.at(Offset::<BlockHeader>::new(top))?;
        header.mark.store(MARK, Ordering::Relaxed);
        header.class.store(class as u32, Ordering::Relaxed);
        header.set_state(FREE, 1);
        header.committed.store(committed.into(), Ordering::Relaxed);
        // The header is whole before the row of blocks reaches over it.
        self.heap.control.top.store(top + size, Ordering::Release);
        Ok(Some((top, header)))
    }

    /// Whether the pages of a fresh block exist. For a large one they are made to, together with
    /// those of some blocks to come: one call for huge pages takes as long for many as for one.
    fn is_ready(&self, top: u64, size: u64) -> bool {
        let (control, segment) = (self.heap.control, self.heap.segment);
        if top + size <= control.ready.load(Ordering::Relaxed) {
            return true;
        }
        // A quarter of what there is; more than the upper limit is not for under the lock.
        let ahead = (top / 4).clamp(AHEAD.start, AHEAD.end).min(segment.end() - top);
        if !(LARGE..=ahead).contains(&size) {
            return false;
        }
        match segment.commit(top, ahead) {
            Ok(end) => control.ready.store(end, Ordering::Relaxed),
            // Perhaps there is memory for the block alone.
            Err(_) => return false,
        }
        true
    }

    fn header(&self, offset: u64) -> Result<&BlockHeader, SegmentError> {
        let header = self.heap.segment.at(Offset::<BlockHeader>::new(offset))?;
        if header.mark.load(Ordering::Relaxed) != MARK
            || header.class.load(Ordering::Relaxed) as usize >= CLASSES
        {
            return Err(self.heap.segment.corrupt("a block's header", offset, HEADER));
        }
        Ok(header)
    }

    /// Frees the block of `key`; does nothing when it has been freed already.
    pub(crate) fn free(&mut self, key: BlockKey) -> Result<(), SegmentError> {
        let offset = key.block().bytes();
        let header = self.header(offset)?;
        if header.state() != (USED, key.generation()) {
            return Ok(());
        }
        self.count_used(header, false);
        let next = (key.generation() + 1) & ((1 << 24) - 1);
        header.set_state(FREE, next.max(1));
        self.push_free(offset, header);
        Ok(())
    }

    fn push_free(&self, offset: u64, header: &BlockHeader) {
        let list = &self.heap.control.free[header.class.load(Ordering::Relaxed) as usize];
        header.next.store(list.load(Ordering::Relaxed), Ordering::Relaxed);
        list.store(offset, Ordering::Relaxed);
    }

    /// Puts a block onto the list of its bucket, where [`LockedHeap::bucket`] finds it, and
    /// settles it.
    pub(crate) fn enlist(&mut self, key: BlockKey, hash: u64) -> Result<(), SegmentError> {
        let bucket = (hash % BUCKETS as u64) as usize;
        let header = self.header(key.block().bytes())?;
        header.bucket.store(bucket as u32 + 1, Ordering::Relaxed);
        // From this store on the block stands in the bucket: before it, a death leaves an unsettled
        // block, which is freed and must be in no list. After it, `mend` puts the block there.
        header.settled.store(1, Ordering::Relaxed);
        let list = &self.heap.control.buckets[bucket];
        header.next.store(list.load(Ordering::Relaxed), Ordering::Relaxed);
        list.store(key.block().bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Takes a block off the list of its bucket.
    pub(crate) fn delist(&mut self, key: BlockKey) -> Result<(), SegmentError> {
        let offset = key.block().bytes();
        let header = self.header(offset)?;
        let bucket = header.bucket.load(Ordering::Relaxed);
        let Some(list) =
            (bucket as usize).checked_sub(1).and_then(|b| self.heap.control.buckets.get(b))
        else {
            return Ok(());
        };
        let mut link = list;
        for found in self.follow(list.load(Ordering::Relaxed)) {
            let (found, block) = found?;
            if found == offset {
                link.store(header.next.load(Ordering::Relaxed), Ordering::Relaxed);
                break;
            }
            link = &block.next;
        }
        header.bucket.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// The blocks in the bucket of `hash`.
    pub(crate) fn bucket(&self, hash: u64) -> Result<Vec<BlockInfo>, SegmentError> {
        let mut found = Vec::new();
        let list = &self.heap.control.buckets[(hash % BUCKETS as u64) as usize];
        for block in self.follow(list.load(Ordering::Relaxed)) {
            let (offset, header) = block?;
            found.extend(self.info(offset, header));
        }
        Ok(found)
    }

    /// The blocks of a list, from its first one. A list that runs in a circle is an error.
    fn follow(
        &self,
        first: u64,
    ) -> impl Iterator<Item = Result<(u64, &BlockHeader), SegmentError>> {
        let mut next = first;
        // Brent's test: the list comes by an earlier place again, which moves on in doubling steps.
        let (mut earlier, mut steps, mut until) = (0, 0u64, 1);
        std::iter::from_fn(move || {
            let offset = next;
            if offset == 0 {
                return None;
            }
            next = 0;
            if offset == earlier {
                return Some(Err(self.heap.segment.corrupt("the end of a list", offset, HEADER)));
            }
            steps += 1;
            if steps == until {
                (earlier, until) = (offset, 2 * until);
            }
            Some(self.header(offset).map(|header| {
                next = header.next.load(Ordering::Relaxed);
                (offset, header)
            }))
        })
    }

    /// All blocks in use.
    pub(crate) fn blocks(&self) -> Result<Vec<BlockInfo>, SegmentError> {
        let mut found = Vec::new();
        self.walk(|offset, header, _| found.extend(self.info(offset, header)))?;
        Ok(found)
    }

    fn info(&self, offset: u64, header: &BlockHeader) -> Option<BlockInfo> {
        let (state, generation) = header.state();
        if state != USED {
            return None;
        }
        Some(BlockInfo {
            key: BlockKey::new(offset, generation),
            kind: BlockKind::from_word(header.kind.load(Ordering::Relaxed))?,
            owner: header.owner.load(Ordering::Relaxed),
            // Acquire: pairs with the Release in `Heap::settle`.
            settled: header.settled.load(Ordering::Acquire) != 0,
            #[cfg(test)]
            len: header.len.load(Ordering::Relaxed),
        })
    }

    /// Visits every block: its place, header, and size.
    fn walk(&self, mut visit: impl FnMut(u64, &BlockHeader, u64)) -> Result<(), SegmentError> {
        let mut offset = self.heap.control.base.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `extend`.
        let top = self.heap.control.top.load(Ordering::Acquire);
        while offset < top {
            let header = self.header(offset)?;
            let size = class_size(header.class.load(Ordering::Relaxed) as usize);
            visit(offset, header, size);
            offset += size;
        }
        Ok(())
    }

    /// Builds the lists and the count anew from the headers.
    fn mend(&mut self) -> Result<(), SegmentError> {
        let control = self.heap.control;
        for list in control.free.iter().chain(&control.buckets) {
            list.store(0, Ordering::Relaxed);
        }
        control.used.store(0, Ordering::Relaxed);
        self.walk(|offset, header, _| {
            if header.state().0 != USED {
                self.push_free(offset, header);
                return;
            }
            self.count_used(header, true);
            let settled = header.settled.load(Ordering::Relaxed) != 0;
            let bucket = if settled { header.bucket.load(Ordering::Relaxed) as usize } else { 0 };
            if let Some(list) = bucket.checked_sub(1).and_then(|b| control.buckets.get(b)) {
                header.next.store(list.load(Ordering::Relaxed), Ordering::Relaxed);
                list.store(offset, Ordering::Relaxed);
            }
        })
    }
}

impl Drop for LockedHeap<'_> {
    fn drop(&mut self) {
        self.heap.control.lock.release(self.whole && !std::thread::panicking());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOBODY_GONE: fn(u32) -> bool = |_| false;

    fn segment() -> Segment {
        Segment::on_heap(1 << 20, false, 0).unwrap()
    }

    #[test]
    fn classes_grow_by_quarters_and_hold_what_they_are_for() {
        for class in 0..CLASSES {
            assert_eq!(class_size(class) % GRAIN, 0);
            assert_eq!(class_of(class_size(class)), Some(class));
            if class + 1 < CLASSES {
                assert_eq!(class_of(class_size(class) + 1), Some(class + 1));
                assert!(class_size(class + 1) as f64 / class_size(class) as f64 <= 1.25);
            }
        }
        assert_eq!(class_of(0), Some(0));
        assert_eq!(class_of(u64::MAX), None);
    }

    #[test]
    fn work_that_frees_does_not_grow() {
        let segment = segment();
        let heap = segment.heap();
        for round in 0..10_000u64 {
            let len = 1 + round * 37 % 5_000;
            let key = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, len).unwrap();
            assert!(heap.check(key, BlockKind::Buffer).unwrap() >= len);
            heap.lock(0, NOBODY_GONE).unwrap().free(key).unwrap();
        }
        assert_eq!(heap.used(), 0);
        assert!(heap.touched() < 64 << 10, "{}", heap.touched());
    }

    #[test]
    fn a_full_heap_says_so_and_serves_again_after_a_free() {
        let segment = segment();
        let heap = segment.heap();
        let mut keys = Vec::new();
        let error = loop {
            match heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 50_000) {
                Ok(key) => keys.push(key),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SegmentError::Full { asked: 50_000, .. }), "{error}");
        assert!(keys.len() > 10);
        heap.lock(0, NOBODY_GONE).unwrap().free(keys[3]).unwrap();
        // A much smaller block may live in a large one when nothing else is left.
        while heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1).is_ok() {}
        assert!(matches!(
            heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, u64::MAX),
            Err(SegmentError::Full { .. })
        ));
    }

    #[test]
    fn a_stale_key_frees_nothing() {
        let segment = segment();
        let heap = segment.heap();
        let old = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100).unwrap();
        heap.lock(0, NOBODY_GONE).unwrap().free(old).unwrap();
        let new = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100).unwrap();
        assert_eq!(old.payload(), new.payload(), "the warm block comes back");
        heap.lock(0, NOBODY_GONE).unwrap().free(old).unwrap();
        assert!(heap.check(new, BlockKind::Buffer).is_ok());
        assert!(heap.check(old, BlockKind::Buffer).is_err());
        assert!(heap.check(new, BlockKind::Channel).is_err());
    }

    #[test]
    fn a_holder_that_dies_anywhere_leaves_a_heap_that_can_be_mended() {
        let segment = segment();
        let heap = segment.heap();
        let kept = heap.allocate(0, NOBODY_GONE, BlockKind::Channel, 100).unwrap();
        heap.lock(0, NOBODY_GONE).unwrap().enlist(kept, 7).unwrap();
        let free = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap();
        heap.lock(0, NOBODY_GONE).unwrap().free(free).unwrap();
        // Rank 3 dies with the lock held and every list lost.
        std::mem::forget(heap.lock(3, NOBODY_GONE).unwrap());
        for list in heap.control.free.iter().chain(&heap.control.buckets) {
            list.store(0xdead, Ordering::Relaxed);
        }
        let locked = heap.lock(0, |rank| rank == 3).unwrap();
        assert_eq!(locked.bucket(7).unwrap().len(), 1);
        assert_eq!(locked.bucket(7).unwrap()[0].key, kept);
        drop(locked);
        let again = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap();
        assert_eq!(again.payload(), free.payload());
    }

    #[test]
    fn a_list_that_runs_in_a_circle_is_an_error() {
        let segment = segment();
        let heap = segment.heap();
        let mut locked = heap.lock(0, NOBODY_GONE).unwrap();
        let mut keys = Vec::new();
        for _ in 0..7 {
            let (key, _) = locked.reserve(0, BlockKind::Channel, 10).unwrap();
            locked.enlist(key, 5).unwrap();
            keys.push(key);
        }
        assert_eq!(locked.bucket(5).unwrap().len(), 7);
        // The list begins with the last one.
        for from in 0..7 {
            for to in from..7 {
                let next = &segment.at(keys[from].block()).unwrap().next;
                let true_next = next.load(Ordering::Relaxed);
                next.store(keys[to].block().bytes(), Ordering::Relaxed);
                let error = locked.bucket(5).unwrap_err();
                assert!(matches!(error, SegmentError::Corrupt { .. }), "{error}");
                if from > 0 {
                    assert!(locked.delist(keys[0]).is_err(), "{from} to {to}");
                }
                next.store(true_next, Ordering::Relaxed);
            }
        }
        for key in keys {
            locked.delist(key).unwrap();
        }
        assert_eq!(locked.bucket(5).unwrap().len(), 0);
    }

    #[test]
    fn a_block_in_use_is_never_handed_out() {
        let segment = segment();
        let heap = segment.heap();
        let used = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap();
        let class = class_of(1000 + HEADER).unwrap();
        heap.control.free[class].store(used.block().bytes(), Ordering::Relaxed);
        let error = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap_err();
        assert!(matches!(error, SegmentError::Corrupt { .. }), "{error}");
        // Nor a free one of another size.
        let free = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100).unwrap();
        heap.lock(0, NOBODY_GONE).unwrap().free(free).unwrap();
        heap.control.free[class].store(free.block().bytes(), Ordering::Relaxed);
        let error = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap_err();
        assert!(matches!(error, SegmentError::Corrupt { .. }), "{error}");
        assert!(heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 10_000).is_ok());
    }

    #[test]
    fn a_block_longer_than_its_class_is_no_block() {
        let segment = segment();
        let heap = segment.heap();
        let key = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap();
        let header = segment.at(key.block()).unwrap();
        for (len, good) in [(0, true), (1024, true), (1025, true), (5000, false), (u64::MAX, false)]
        {
            header.len.store(len, Ordering::Relaxed);
            assert_eq!(heap.check(key, BlockKind::Buffer).is_ok(), good, "{len}");
        }
    }

    #[test]
    fn freed_pages_go_back_and_can_be_used_again() {
        let segment = Segment::in_memfd(64 << 20, false, 0).unwrap();
        let heap = segment.heap();
        let pages = || nix::sys::stat::fstat(segment.fd().unwrap()).unwrap().st_blocks;
        let key = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 8 << 20).unwrap();
        let held = pages();
        assert!(held * 512 >= 8 << 20);
        heap.lock(0, NOBODY_GONE).unwrap().free(key).unwrap();
        heap.trim(0, NOBODY_GONE).unwrap();
        // The huge pages at either end are only partly the block's.
        assert!(pages() * 512 < 5 << 20, "{} blocks left", pages());
        let again = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 8 << 20).unwrap();
        assert_eq!(again.payload(), key.payload());
        assert!(pages() * 512 >= 8 << 20);
    }

    #[test]
    fn more_memory_than_there_is_is_an_error_value() {
        let segment = Segment::in_memfd(1 << 42, false, 0).unwrap();
        let error =
            segment.heap().allocate(0, NOBODY_GONE, BlockKind::Buffer, 1 << 40).unwrap_err();
        assert!(matches!(error, SegmentError::OutOfMemory { .. }), "{error}");
        assert_eq!(segment.heap().used(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 64 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn live_blocks_never_overlap(steps in prop::collection::vec((0u64..20_000, any::<bool>()), 1..200)) {
            let segment = Segment::on_heap(8 << 20, false, 0).unwrap();
            let heap = segment.heap();
            let mut live: Vec<(BlockKey, u64)> = Vec::new();
            for (n, free) in steps {
                if free && !live.is_empty() {
                    let (key, _) = live.swap_remove(n as usize % live.len());
                    heap.lock(0, NOBODY_GONE).unwrap().free(key).unwrap();
                } else {
                    live.push((heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, n).unwrap(), n));
                }
                let mut ranges: Vec<_> = live.iter().map(|&(key, len)| (key.payload(), len)).collect();
                ranges.sort_unstable();
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].0 + pair[0].1 + HEADER <= pair[1].0);
                }
            }
            prop_assert_eq!(heap.lock(0, NOBODY_GONE).unwrap().blocks().unwrap().len(), live.len());
        }
    }
}
