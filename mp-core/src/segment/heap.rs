//! The allocator of a segment: blocks for channels and buffers, which are freed and reused.
//!
//! The heap is one row of blocks from the first block to `top`, each with a header of its own. Requested sizes are
//! rounded up in quarters of a doubling. A freed block goes onto the *warm* list of its size. The list is last in,
//! first out, because the block that was freed last is still in the caches. Only when no list has a block that fits,
//! the warm blocks are merged with their free neighbours or with the space behind `top`, and are put into the *bins*,
//! whose blocks can be split. A block is merged at most once for each time that it is freed, so this cost is constant,
//! whatever the heap holds. The pages of free blocks can be given back ([`Heap::trim`]).
//!
//! Ranks can die at any instruction. The extents and states in the headers, and `top`, are authoritative, and each
//! change of them is one store. The lists are redundant: a rank that gets the lock of a dead rank rebuilds the lists
//! from the headers ([`LockedHeap::mend`]). A block that was handed out belongs to its owner until it is settled, that
//! is, recorded in the tree of names or in the owner's table of buffers. The unsettled blocks of a dead rank are freed.
//! A key consists of a block and its generation, and each block that is handed out gets a new generation, so that
//! freeing a block twice is harmless.
//!
//! Each authoritative word has check bits that are computed from the other bits and from the word's place. So an
//! overwritten word is detected, and never makes blocks overlap.
//!
//! The allocators of other crates can't be repaired after a rank has died during a change.

use super::{
    Offset, Segment, SegmentError, Shared,
    lock::RobustLock,
    names::Names,
    sizes::{LARGE, PAGE},
};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Sizes and places of blocks are multiples of this: two cache lines, which the adjacent-line prefetcher fetches
/// together (T 7.2.1).
const GRAIN: u64 = 128;
/// log2 of the smallest block.
const SMALLEST: u32 = 9;
/// The number of block sizes: four for each doubling.
const CLASSES: usize = 4 * 37;
/// The least and the largest number of bytes that are committed ahead of their use.
const AHEAD: std::ops::Range<u64> = (2 << 20)..(16 << 20);
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
    /// Notes that ranks have left about a name of channels.
    Farewell,
    /// The ranks that have made channels of a name to a rank.
    Roll,
    /// Lines of message passing buffers that were made when the first of them was used.
    Lines,
    /// What a rank asks of its launcher, an answer, or what the launcher tells ranks that it starts later.
    Notice,
}

impl BlockKind {
    const ALL: [Self; 10] = [
        Self::World,
        Self::Channel,
        Self::Buffer,
        Self::Table,
        Self::Outcome,
        Self::Mpbs,
        Self::Farewell,
        Self::Roll,
        Self::Lines,
        Self::Notice,
    ];

    fn from_word(word: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == word)
    }
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct HeapControl {
    lock: RobustLock,
    /// The place of the next fresh block, [sealed](seal).
    top: AtomicU64,
    /// The start of the last block; 0 for none.
    last: AtomicU64,
    /// The largest value that `top` has ever had.
    peak: AtomicU64,
    /// If this is larger than `top`, all pages between the two exist.
    ready: AtomicU64,
    /// Bytes in blocks that are in use, headers included.
    used: AtomicU64,
    /// The generation of the block that was handed out last.
    generation: AtomicU32,
    /// Free blocks that have not been merged since they were freed, by size.
    warm: [AtomicU64; CLASSES],
    /// Free blocks that were merged with their neighbours, by size.
    bins: [AtomicU64; CLASSES],
    names: Names,
}

impl HeapControl {
    /// Makes an empty heap of zeroed memory.
    pub(super) fn format(&self) {
        self.top.store(seal(TOP, BASE), Ordering::Relaxed);
        self.peak.store(BASE, Ordering::Relaxed);
    }
}

/// The place of the first block.
const BASE: u64 = super::HEADER;
/// The place that the seal of `top` uses.
const TOP: u64 = 1;

/// Seals a place or a size: returns it in grains, together with check bits that are computed from it and from `place`,
/// which says where it is stored.
fn seal(place: u64, bytes: u64) -> u64 {
    let grains = bytes / GRAIN;
    grains | sum(place, grains) >> 40 << 40
}

/// Returns the value in a sealed word, or `None` if the word was overwritten.
fn unseal(place: u64, word: u64) -> Option<u64> {
    let bytes = (word & ((1 << 40) - 1)) * GRAIN;
    (seal(place, bytes) == word).then_some(bytes)
}

/// Returns a checksum whose upper bits depend on all bits of the two words.
fn sum(place: u64, word: u64) -> u64 {
    (place.rotate_left(32) ^ word ^ 0x0b10_c4ed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The structure in front of every block's payload. All fields change only under the heap's lock, except that the owner
/// of a block sets `settled` and `committed` without it.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct BlockHeader {
    /// The block's size, [sealed](seal).
    extent: AtomicU64,
    /// Whether the block is in use, and its generation. They are one word so that one store changes both: a key that a
    /// dead user left can't free the block again.
    state: AtomicU64,
    kind: AtomicU32,
    owner: AtomicU32,
    settled: AtomicU32,
    /// Whether the payload's pages exist.
    committed: AtomicU32,
    /// The number of bytes asked for.
    len: AtomicU64,
    /// Whether the block is in the tree of names, under its hash.
    named: AtomicU32,
    /// Whether a free block is in a bin.
    binned: AtomicU32,
    /// The start of the block before this one; 0 for the first.
    before: AtomicU64,
    /// The next block of the same list.
    pub(super) next: AtomicU64,
    /// The previous block in the same bin; 0 for the first.
    previous: AtomicU64,
    pub(super) hash: AtomicU64,
    /// The blocks below this one in the tree of names.
    pub(super) children: [AtomicU64; 2],
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for BlockHeader {}

/// Returns a state word for the block at this place: [`FREE`] or [`USED`], the generation, and check bits.
fn state_word(place: u64, state: u32, generation: u32) -> u64 {
    let word = u64::from(generation << 8 | state);
    word | sum(place, word) >> 32 << 32
}

impl BlockHeader {
    /// Returns whether the block is in use and has this generation.
    fn is_used(&self, place: u64, generation: u32) -> bool {
        self.state.load(Ordering::Relaxed) == state_word(place, USED, generation)
    }

    /// Returns the generation of a block in use; `None` for a free block, or if the word is invalid.
    fn in_use(&self, place: u64) -> Option<u32> {
        let generation = (self.state.load(Ordering::Relaxed) as u32) >> 8;
        self.is_used(place, generation).then_some(generation)
    }

    fn is_free(&self, place: u64) -> bool {
        let word = self.state.load(Ordering::Relaxed);
        word == state_word(place, FREE, (word as u32) >> 8)
    }

    fn set_state(&self, place: u64, state: u32, generation: u32) {
        // Release: the header is complete before its state says so, even for a rank that reads it after this rank's
        // death.
        self.state.store(state_word(place, state, generation), Ordering::Release);
    }

    fn set_size(&self, place: u64, size: u64) {
        // Release: the header of a part that was split off, or of a block behind this one, is complete before this
        // store.
        self.extent.store(seal(place, size), Ordering::Release);
    }

    /// Returns whether the block is in the tree of names, or is just being put there.
    pub(super) fn is_named(&self) -> bool {
        self.named.load(Ordering::Relaxed) != 0
    }

    fn is_settled(&self) -> bool {
        // Acquire: pairs with the Release in `Heap::settle`.
        self.settled.load(Ordering::Acquire) != 0
    }

    fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed) != 0
    }
}

const HEADER: u64 = size_of::<BlockHeader>() as u64;

/// A block and its generation in one word: the place in grains (40 bits), the generation (24).
/// Zero is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey(u64);

impl BlockKey {
    /// The alignment of every payload.
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

    /// Returns the place where the payload begins.
    pub(crate) fn payload(self) -> u64 {
        self.block().bytes() + HEADER
    }
}

/// What the header of a block says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockInfo {
    pub(crate) key: BlockKey,
    pub(crate) kind: BlockKind,
    pub(crate) owner: u32,
    pub(crate) settled: bool,
    /// The number of bytes asked for.
    #[cfg(test)]
    pub(crate) len: u64,
}

fn class_size(class: usize) -> u64 {
    (4 + class as u64 % 4) << (SMALLEST - 2 + class as u32 / 4)
}

/// Returns the smallest class whose blocks have at least `bytes` bytes, header included. Returns `None` if no class
/// has.
fn class_of(bytes: u64) -> Option<usize> {
    let bytes = bytes.max(1 << SMALLEST);
    let doubling = 63 - bytes.leading_zeros();
    let quarter = 1u64 << (doubling - 2);
    let class = 4 * (doubling - SMALLEST) as usize + (bytes.div_ceil(quarter) - 4) as usize;
    (class < CLASSES).then_some(class)
}

/// Returns the largest class for which a block of `bytes` is large enough.
fn class_within(bytes: u64) -> usize {
    match class_of(bytes) {
        Some(class) if class_size(class) > bytes => class - 1,
        Some(class) => class,
        None => CLASSES - 1,
    }
}

#[cfg(test)]
thread_local! {
    /// The number of headers that this thread has read.
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A segment's heap. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap<'a> {
    segment: &'a Segment,
    control: &'a HeapControl,
}

/// A block that was just reserved, and whose pages may not exist yet.
#[derive(Debug)]
struct Reserved {
    key: BlockKey,
    size: u64,
    committed: bool,
    /// Whether the block comes from behind `top`, so that it was the last one when it was taken.
    fresh: bool,
}

impl<'a> Heap<'a> {
    pub(super) fn new(segment: &'a Segment, control: &'a HeapControl) -> Self {
        Self { segment, control }
    }

    /// Takes the heap's lock as rank `me`. If a holder died during a change, repairs the heap.
    pub(crate) fn lock(
        self,
        me: u32,
        gone: impl Fn(u32) -> bool,
    ) -> Result<LockedHeap<'a>, SegmentError> {
        let broken = self.control.lock.acquire(me, gone);
        let mut locked = LockedHeap { heap: self, whole: !broken };
        if broken {
            locked.mend()?;
            locked.whole = true;
        }
        Ok(locked)
    }

    /// Returns the rank that holds the heap's lock.
    pub(crate) fn holder(self) -> Option<u32> {
        self.control.lock.holder()
    }

    /// Hands out a committed block of at least `len` bytes, owned by `me` and not yet settled. The block still has the
    /// contents that its last user left.
    pub(crate) fn allocate(
        self,
        me: u32,
        gone: impl Fn(u32) -> bool + Copy,
        kind: BlockKind,
        len: u64,
    ) -> Result<BlockKey, SegmentError> {
        let reserved = self.lock(me, gone)?.reserve(me, kind, len);
        let reserved = match reserved {
            // There was no memory for the header of a part that is split off.
            Err(SegmentError::OutOfMemory { .. }) => {
                self.trim(me, gone)?;
                self.lock(me, gone)?.reserve(me, kind, len)?
            }
            reserved => reserved?,
        };
        let key = reserved.key;
        if reserved.committed {
            return Ok(key);
        }
        // The pages are committed without the lock, because this takes milliseconds for a large block, and seconds for
        // a huge one.
        let done = self.commit_ahead(me, gone, &reserved).or_else(|error| match error {
            SegmentError::OutOfMemory { .. } => {
                self.trim(me, gone)?;
                self.commit(&reserved, reserved.size).map(drop)
            }
            error => Err(error),
        });
        if let Err(error) = done {
            self.lock(me, gone)?.free(key)?;
            return Err(error);
        }
        Ok(key)
    }

    /// Makes the pages of a block exist. For a fresh large block, this includes pages for later blocks, because one
    /// call takes as long for many huge pages as for one.
    fn commit_ahead(
        self,
        me: u32,
        gone: impl Fn(u32) -> bool,
        reserved: &Reserved,
    ) -> Result<(), SegmentError> {
        let start = reserved.key.block().bytes();
        // A quarter of the heap's present size, within `AHEAD`.
        let ahead =
            (start / 4).clamp(AHEAD.start, AHEAD.end).min(self.segment.end().saturating_sub(start));
        if !reserved.fresh || !(LARGE..=ahead).contains(&reserved.size) {
            return self.commit(reserved, reserved.size).map(drop);
        }
        // There may be enough memory for the block alone.
        let Ok(end) = self.commit(reserved, ahead) else {
            return self.commit(reserved, reserved.size).map(drop);
        };
        let _locked = self.lock(me, gone)?;
        // If another block was handed out in the meantime, it may lie or have lain in these pages, so `ready` does not
        // change.
        if self.control.generation.load(Ordering::Relaxed) == reserved.key.generation() {
            self.control.ready.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the pages of `bytes` bytes from the block's start exist. Returns the end of the pages that exist.
    fn commit(self, reserved: &Reserved, bytes: u64) -> Result<u64, SegmentError> {
        let end = self.segment.commit(reserved.key.block().bytes(), bytes, reserved.size)?;
        self.segment.at(reserved.key.block())?.committed.store(1, Ordering::Relaxed);
        Ok(end)
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
            if header.is_free(offset) && first < end {
                header.committed.store(0, Ordering::Relaxed);
                self.segment.punch(first, end - first);
            }
            Ok(())
        })
    }

    /// Checks that the block of `key` is in use, and of this kind and generation. Returns the number of bytes that were
    /// asked for.
    #[inline]
    pub(crate) fn check(self, key: BlockKey, kind: BlockKind) -> Result<u64, SegmentError> {
        let offset = key.block().bytes();
        let header = self.segment.at(key.block())?;
        let len = header.len.load(Ordering::Relaxed);
        let good = header.is_used(offset, key.generation())
            && unseal(offset, header.extent.load(Ordering::Relaxed))
                .is_some_and(|size| len <= size.saturating_sub(HEADER))
            && header.kind.load(Ordering::Relaxed) == kind as u32;
        if !good {
            return Err(self.segment.corrupt("a live block", offset, HEADER));
        }
        self.segment.range(key.payload(), len, "a block's payload")?;
        Ok(len)
    }

    /// Checks that the payload of a block in use, of this kind, begins at `payload`. Returns `payload`.
    pub(crate) fn payload_of(self, payload: u64, kind: BlockKind) -> Result<u64, SegmentError> {
        let corrupt = || self.segment.corrupt("a live block", payload, 0);
        let offset = payload.checked_sub(HEADER).ok_or_else(corrupt)?;
        let header = self.segment.at(Offset::<BlockHeader>::new(offset))?;
        let generation = header.in_use(offset).ok_or_else(corrupt)?;
        self.check(BlockKey::new(offset, generation), kind)?;
        Ok(payload)
    }

    /// Marks the block as settled: it is now recorded elsewhere than in its owner field.
    pub(crate) fn settle(self, key: BlockKey) -> Result<(), SegmentError> {
        // Release: a rank that sees the block as settled (`LockedHeap::blocks`) also sees where it is recorded.
        self.segment.at(key.block())?.settled.store(1, Ordering::Release);
        Ok(())
    }

    /// Returns the number of bytes in blocks that are in use, including headers and rounding.
    pub(crate) fn used(self) -> u64 {
        self.control.used.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes from the first block to the end of the last one ever handed out.
    pub(crate) fn touched(self) -> u64 {
        self.control.peak.load(Ordering::Relaxed).saturating_sub(BASE)
    }

    fn top(self) -> Result<u64, SegmentError> {
        // Acquire: pairs with the Release in `set_top`.
        let word = self.control.top.load(Ordering::Acquire);
        unseal(TOP, word)
            .filter(|top| (BASE..=self.segment.len()).contains(top))
            .ok_or_else(|| self.segment.corrupt("the end of the blocks", word, 0))
    }

    /// Returns the header of the block at `offset`, and its size, after checking that the block lies in front of `top`.
    pub(super) fn header(self, offset: u64) -> Result<(&'a BlockHeader, u64), SegmentError> {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        let header = self.segment.at(Offset::<BlockHeader>::new(offset))?;
        let corrupt = || self.segment.corrupt("a block's header", offset, HEADER);
        let size = unseal(offset, header.extent.load(Ordering::Relaxed)).ok_or_else(corrupt)?;
        let end = offset.saturating_add(size);
        if offset < BASE || size < 1 << SMALLEST || end > self.top()? {
            return Err(corrupt());
        }
        Ok((header, size))
    }

    /// Returns the header of a block, after checking that the block is in the tree of names.
    pub(super) fn named(self, offset: u64) -> Result<&'a BlockHeader, SegmentError> {
        let (header, _) = self.header(offset)?;
        if header.in_use(offset).is_none() || !header.is_named() {
            return Err(self.corrupt("a block with a name", offset));
        }
        Ok(header)
    }

    pub(super) fn corrupt(self, what: &'static str, offset: u64) -> SegmentError {
        self.segment.corrupt(what, offset, HEADER)
    }
}

/// A free block.
#[derive(Clone, Copy)]
struct Free<'a> {
    offset: u64,
    header: &'a BlockHeader,
    size: u64,
}

/// Returns whether the rest of a block is large enough for another block, when a part of this size is split off.
fn leaves_a_block(free: Free<'_>, size: u64) -> bool {
    free.size.saturating_sub(size) >= 1 << SMALLEST
}

/// The heap while its lock is held.
#[derive(Debug)]
pub(crate) struct LockedHeap<'a> {
    heap: Heap<'a>,
    /// False while a change is under way, so that a panic now would leave the lists half changed.
    whole: bool,
}

impl<'a> LockedHeap<'a> {
    /// Calls `change`, which changes the lists. If `change` unwinds or finds an invalid list, the next rank that takes
    /// the lock rebuilds the lists. May be called while the thread unwinds for another reason.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&Self) -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        let whole = std::mem::replace(&mut self.whole, false);
        let changed = change(self);
        self.whole = whole && !matches!(changed, Err(SegmentError::Corrupt { .. }));
        changed
    }

    /// Reserves a block of at least `len` bytes.
    fn reserve(&mut self, owner: u32, kind: BlockKind, len: u64) -> Result<Reserved, SegmentError> {
        self.change(|heap| heap.take(owner, kind, len))
    }

    fn take(&self, owner: u32, kind: BlockKind, len: u64) -> Result<Reserved, SegmentError> {
        let class = len.checked_add(HEADER).and_then(class_of);
        let (free, fresh) = match class {
            Some(class) => match self.fitting(class)? {
                Some(free) => (free, false),
                None => match self.extend(class_size(class))? {
                    Some(free) => (free, true),
                    None => return Err(self.full(len)?),
                },
            },
            None => return Err(self.full(len)?),
        };
        let Free { offset, header, size } = free;
        let control = self.heap.control;
        // Generations have 24 bits and are never 0, so no key is 0.
        let generation = (control.generation.load(Ordering::Relaxed) % ((1 << 24) - 1)) + 1;
        control.generation.store(generation, Ordering::Relaxed);
        header.kind.store(kind as u32, Ordering::Relaxed);
        header.owner.store(owner, Ordering::Relaxed);
        header.settled.store(0, Ordering::Relaxed);
        header.named.store(0, Ordering::Relaxed);
        header.len.store(len, Ordering::Relaxed);
        header.set_state(offset, USED, generation);
        self.count_used(size, true);
        let key = BlockKey::new(offset, generation);
        Ok(Reserved { key, size, committed: header.is_committed(), fresh })
    }

    fn full(&self, asked: u64) -> Result<SegmentError, SegmentError> {
        let size = self.heap.segment.end();
        Ok(SegmentError::Full { asked, left: size.saturating_sub(self.heap.top()?), size })
    }

    fn count_used(&self, size: u64, more: bool) {
        let used = self.heap.control.used.load(Ordering::Relaxed);
        let used = if more { used.saturating_add(size) } else { used.saturating_sub(size) };
        self.heap.control.used.store(used, Ordering::Relaxed);
    }

    /// Takes a free block of this class, or a larger one, off the lists.
    fn fitting(&self, class: usize) -> Result<Option<Free<'a>>, SegmentError> {
        for near in class..CLASSES.min(class + 3) {
            if let Some(free) = self.pop_warm(near)? {
                return Ok(Some(free));
            }
        }
        if let Some(free) = self.part_of_bin(class)? {
            return Ok(Some(free));
        }
        if self.merge_warm()? { self.part_of_bin(class) } else { Ok(None) }
    }

    /// Takes the most recently freed block off a class's list.
    fn pop_warm(&self, class: usize) -> Result<Option<Free<'a>>, SegmentError> {
        let list = &self.heap.control.warm[class];
        let offset = list.load(Ordering::Relaxed);
        if offset == 0 {
            return Ok(None);
        }
        let free = self.free_block(offset, class)?;
        list.store(free.header.next.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(Some(free))
    }

    /// Returns the free block at `offset`, after checking that it belongs in a list of this class.
    fn free_block(&self, offset: u64, class: usize) -> Result<Free<'a>, SegmentError> {
        let (header, size) = self.heap.header(offset)?;
        if !header.is_free(offset) || class_within(size) != class {
            return Err(self.heap.corrupt("a free block", offset));
        }
        Ok(Free { offset, header, size })
    }

    fn push_warm(&self, free: Free<'_>) {
        let list = &self.heap.control.warm[class_within(free.size)];
        free.header.binned.store(0, Ordering::Relaxed);
        free.header.next.store(list.load(Ordering::Relaxed), Ordering::Relaxed);
        list.store(free.offset, Ordering::Relaxed);
    }

    /// Takes a block of this class out of the smallest bin that has one. The rest stays in the bins.
    fn part_of_bin(&self, class: usize) -> Result<Option<Free<'a>>, SegmentError> {
        for bin in class..CLASSES {
            let offset = self.heap.control.bins[bin].load(Ordering::Relaxed);
            if offset == 0 {
                continue;
            }
            let free = self.free_block(offset, bin)?;
            let size = class_size(class);
            // This is done while the block is still in its bin, because it fails if there is no memory for the header
            // of the rest.
            if leaves_a_block(free, size) && !free.header.is_committed() {
                self.heap.segment.commit(free.offset + size, HEADER, HEADER)?;
            }
            self.unbin(free)?;
            return self.split(free, size).map(Some);
        }
        Ok(None)
    }

    /// Splits a free block in two, if it is large enough. Returns the first part, of this size. The rest goes to the
    /// bins. The page of its header must exist.
    fn split(&self, free: Free<'a>, size: u64) -> Result<Free<'a>, SegmentError> {
        if !leaves_a_block(free, size) {
            return Ok(free);
        }
        let (offset, left) = (free.offset + size, free.size - size);
        let committed = free.header.is_committed();
        let rest = self.write_header(offset, left, free.offset, committed)?;
        // This store turns one block into two.
        free.header.set_size(free.offset, size);
        self.say_before(offset + left, offset)?;
        self.bin(rest)?;
        Ok(Free { size, ..free })
    }

    /// Writes the header of a free block at a place where no block begins yet.
    fn write_header(
        &self,
        offset: u64,
        size: u64,
        before: u64,
        committed: bool,
    ) -> Result<Free<'a>, SegmentError> {
        let header = self.heap.segment.at(Offset::<BlockHeader>::new(offset))?;
        header.before.store(before, Ordering::Relaxed);
        header.committed.store(committed.into(), Ordering::Relaxed);
        header.binned.store(0, Ordering::Relaxed);
        header.set_state(offset, FREE, 0);
        header.set_size(offset, size);
        Ok(Free { offset, header, size })
    }

    /// Records that the block at `offset`, or the next one that is made there, follows the block at `before`.
    fn say_before(&self, offset: u64, before: u64) -> Result<(), SegmentError> {
        let behind = match offset < self.heap.top()? {
            true => &self.heap.header(offset)?.0.before,
            false => &self.heap.control.last,
        };
        behind.store(before, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a free block into its bin.
    fn bin(&self, free: Free<'_>) -> Result<(), SegmentError> {
        let list = &self.heap.control.bins[class_within(free.size)];
        let next = list.load(Ordering::Relaxed);
        if next != 0 {
            self.heap.header(next)?.0.previous.store(free.offset, Ordering::Relaxed);
        }
        free.header.next.store(next, Ordering::Relaxed);
        free.header.previous.store(0, Ordering::Relaxed);
        free.header.binned.store(1, Ordering::Relaxed);
        list.store(free.offset, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a free block out of its bin.
    fn unbin(&self, free: Free<'_>) -> Result<(), SegmentError> {
        let (next, previous) = (&free.header.next, &free.header.previous);
        let (next, previous) = (next.load(Ordering::Relaxed), previous.load(Ordering::Relaxed));
        let first = &self.heap.control.bins[class_within(free.size)];
        let link = if previous == 0 { first } else { &self.heap.header(previous)?.0.next };
        if link.load(Ordering::Relaxed) != free.offset {
            return Err(self.heap.corrupt("the list of a free block", free.offset));
        }
        if next != 0 {
            self.heap.header(next)?.0.previous.store(previous, Ordering::Relaxed);
        }
        link.store(next, Ordering::Relaxed);
        free.header.binned.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Merges all blocks of the warm lists with their free neighbours. Returns whether there were any.
    fn merge_warm(&self) -> Result<bool, SegmentError> {
        let mut any = false;
        for class in 0..CLASSES {
            while let Some(free) = self.pop_warm(class)? {
                any = true;
                self.merge(free)?;
            }
        }
        Ok(any)
    }

    /// Merges a free block that is in no list with its neighbours that are in bins. Puts the result into a bin, or
    /// moves `top` before it if it is the last block.
    fn merge(&self, mut free: Free<'a>) -> Result<(), SegmentError> {
        let before = free.header.before.load(Ordering::Relaxed);
        if before != 0 {
            let (header, size) = self.heap.header(before)?;
            if before + size != free.offset {
                return Err(self.heap.corrupt("the block before a free one", free.offset));
            }
            if let Some(first) = self.binned(before)? {
                self.unbin(first)?;
                free = self.join(Free { offset: before, header, size }, free);
            }
        }
        let end = free.offset + free.size;
        let top = self.heap.top()?;
        if end < top
            && let Some(last) = self.binned(end)?
        {
            self.unbin(last)?;
            free = self.join(free, last);
        }
        if free.offset + free.size < top {
            self.say_before(free.offset + free.size, free.offset)?;
            return self.bin(free);
        }
        // The block is the last one, and becomes part of the space behind `top`.
        let ready = &self.heap.control.ready;
        if free.header.is_committed() {
            ready.store(ready.load(Ordering::Relaxed).max(top), Ordering::Relaxed);
        } else {
            ready.store(0, Ordering::Relaxed);
        }
        self.set_top(free.offset);
        let before = free.header.before.load(Ordering::Relaxed);
        free.header.extent.store(0, Ordering::Relaxed);
        self.say_before(free.offset, before)
    }

    /// Returns the block at `offset`, if it is free and in a bin.
    fn binned(&self, offset: u64) -> Result<Option<Free<'a>>, SegmentError> {
        let (header, size) = self.heap.header(offset)?;
        let binned = header.is_free(offset) && header.binned.load(Ordering::Relaxed) != 0;
        Ok(binned.then_some(Free { offset, header, size }))
    }

    /// Joins two adjacent free blocks.
    fn join(&self, first: Free<'a>, second: Free<'_>) -> Free<'a> {
        if !second.header.is_committed() {
            first.header.committed.store(0, Ordering::Relaxed);
        }
        let size = first.size + second.size;
        // This store turns two blocks into one.
        first.header.set_size(first.offset, size);
        // After this store, the second block's place is not taken for the beginning of a block.
        second.header.extent.store(0, Ordering::Relaxed);
        Free { size, ..first }
    }

    fn set_top(&self, top: u64) {
        // Release: pairs with the Acquire in `Heap::top`: the header of the last block is complete before `top` moves
        // behind the block.
        self.heap.control.top.store(seal(TOP, top), Ordering::Release);
    }

    /// Makes a fresh block behind the last one. Returns `None` if the segment has no room for it.
    fn extend(&self, size: u64) -> Result<Option<Free<'a>>, SegmentError> {
        let control = self.heap.control;
        let top = self.heap.top()?;
        let Some(end) = top.checked_add(size).filter(|&end| end <= self.heap.segment.end()) else {
            return Ok(None);
        };
        let committed = end <= control.ready.load(Ordering::Relaxed);
        if !committed {
            self.heap.segment.commit(top, HEADER, HEADER)?;
        }
        let before = control.last.load(Ordering::Relaxed);
        let free = self.write_header(top, size, before, committed)?;
        self.set_top(end);
        self.say_before(end, top)?;
        control.peak.store(control.peak.load(Ordering::Relaxed).max(end), Ordering::Relaxed);
        Ok(Some(free))
    }

    /// Frees the block of `key`. Does nothing if the block was freed already.
    pub(crate) fn free(&mut self, key: BlockKey) -> Result<(), SegmentError> {
        let offset = key.block().bytes();
        self.heap.top()?;
        // If the block was freed and merged, no block begins at its place now.
        let Ok((header, size)) = self.heap.header(offset) else { return Ok(()) };
        if !header.is_used(offset, key.generation()) {
            return Ok(());
        }
        self.delist(key)?;
        self.change(|heap| {
            heap.count_used(size, false);
            header.set_state(offset, FREE, 0);
            heap.push_warm(Free { offset, header, size });
            Ok(())
        })
    }

    /// Puts a block into the tree of names, where [`LockedHeap::by_hash`] finds it, and settles it.
    pub(crate) fn enlist(&mut self, key: BlockKey, hash: u64) -> Result<(), SegmentError> {
        let offset = key.block().bytes();
        let (header, _) = self.heap.header(offset)?;
        self.change(|LockedHeap { heap, .. }| {
            header.hash.store(hash, Ordering::Relaxed);
            header.named.store(1, Ordering::Relaxed);
            // This store gives the block its name. If this rank dies before it, the block is unsettled and is freed, so
            // it must not be in the tree yet. If this rank dies after it, `mend` puts the block into the tree.
            header.settled.store(1, Ordering::Relaxed);
            heap.control.names.insert(*heap, offset)
        })
    }

    /// Removes a block from the tree of names.
    fn delist(&mut self, key: BlockKey) -> Result<(), SegmentError> {
        let offset = key.block().bytes();
        let (header, _) = self.heap.header(offset)?;
        if !header.is_named() {
            return Ok(());
        }
        self.change(|LockedHeap { heap, .. }| {
            heap.control.names.remove(*heap, offset)?;
            header.named.store(0, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Returns the blocks that were enlisted with this hash.
    pub(crate) fn by_hash(&self, hash: u64) -> Result<Vec<BlockInfo>, SegmentError> {
        let mut found = Vec::new();
        for block in self.heap.control.names.all_of(self.heap, hash)? {
            let offset = block?;
            found.extend(self.info(offset, self.heap.header(offset)?.0));
        }
        Ok(found)
    }

    /// Returns all blocks in use.
    pub(crate) fn blocks(&self) -> Result<Vec<BlockInfo>, SegmentError> {
        let mut found = Vec::new();
        self.walk(|offset, header, _| {
            found.extend(self.info(offset, header));
            Ok(())
        })?;
        Ok(found)
    }

    fn info(&self, offset: u64, header: &BlockHeader) -> Option<BlockInfo> {
        Some(BlockInfo {
            key: BlockKey::new(offset, header.in_use(offset)?),
            kind: BlockKind::from_word(header.kind.load(Ordering::Relaxed))?,
            owner: header.owner.load(Ordering::Relaxed),
            settled: header.is_settled(),
            #[cfg(test)]
            len: header.len.load(Ordering::Relaxed),
        })
    }

    /// Calls `visit` for every block, with its place, header, and size.
    fn walk(
        &self,
        mut visit: impl FnMut(u64, &'a BlockHeader, u64) -> Result<(), SegmentError>,
    ) -> Result<(), SegmentError> {
        let (mut offset, top) = (BASE, self.heap.top()?);
        while offset < top {
            let (header, size) = self.heap.header(offset)?;
            visit(offset, header, size)?;
            offset += size;
        }
        Ok(())
    }

    /// Rebuilds the lists, the tree of names, and the count of used bytes from the headers.
    fn mend(&self) -> Result<(), SegmentError> {
        let control = self.heap.control;
        for list in control.warm.iter().chain(&control.bins) {
            list.store(0, Ordering::Relaxed);
        }
        control.names.clear();
        control.used.store(0, Ordering::Relaxed);
        let mut before = 0;
        self.walk(|offset, header, size| {
            header.before.store(before, Ordering::Relaxed);
            before = offset;
            if header.is_free(offset) {
                self.push_warm(Free { offset, header, size });
                return Ok(());
            }
            // The block is in use, or its state is invalid. A block of an invalid state is never handed out again.
            self.count_used(size, true);
            if header.in_use(offset).is_some() && header.is_settled() && header.is_named() {
                control.names.insert(self.heap, offset)?;
            }
            Ok(())
        })?;
        control.last.store(before, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for LockedHeap<'_> {
    fn drop(&mut self) {
        self.heap.control.lock.release(self.whole);
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
        for round in 0..if cfg!(miri) { 300 } else { 10_000u64 } {
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
        // If nothing else is left, a small block may use up a much larger one.
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
        // Rank 3 dies while it holds the lock and after it has destroyed every list.
        std::mem::forget(heap.lock(3, NOBODY_GONE).unwrap());
        for list in heap.control.warm.iter().chain(&heap.control.bins) {
            list.store(0xdead, Ordering::Relaxed);
        }
        heap.control.names.root.store(0xdead, Ordering::Relaxed);
        let locked = heap.lock(0, |rank| rank == 3).unwrap();
        assert_eq!(locked.by_hash(7).unwrap().len(), 1);
        assert_eq!(locked.by_hash(7).unwrap()[0].key, kept);
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
            let key = locked.reserve(0, BlockKind::Channel, 10).unwrap().key;
            locked.enlist(key, 5).unwrap();
            keys.push(key);
        }
        assert_eq!(locked.by_hash(5).unwrap().len(), 7);
        // The list begins with the first block. The others follow in reverse order of their insertion.
        let keys: Vec<_> = [1, 2, 3, 4, 5, 6, 0].map(|n| keys[n]).into();
        for from in 0..7 {
            for to in from..7 {
                let next = &segment.at(keys[from].block()).unwrap().next;
                let true_next = next.load(Ordering::Relaxed);
                next.store(keys[to].block().bytes(), Ordering::Relaxed);
                let error = locked.by_hash(5).unwrap_err();
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
        assert_eq!(locked.by_hash(5).unwrap().len(), 0);
    }

    #[test]
    fn a_block_in_use_is_never_handed_out() {
        let segment = segment();
        let heap = segment.heap();
        let used = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap();
        let class = class_of(1000 + HEADER).unwrap();
        heap.control.warm[class].store(used.block().bytes(), Ordering::Relaxed);
        let error = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 1000).unwrap_err();
        assert!(matches!(error, SegmentError::Corrupt { .. }), "{error}");
        // After the error, the lists are rebuilt. The next wrong entry is a free block of another size.
        let free = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100).unwrap();
        heap.lock(0, NOBODY_GONE).unwrap().free(free).unwrap();
        heap.control.warm[class].store(free.block().bytes(), Ordering::Relaxed);
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

    #[cfg(not(miri))]
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
        // The huge pages at both ends belong to the block only in part, so they stay.
        assert!(pages() * 512 < 5 << 20, "{} blocks left", pages());
        let again = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 8 << 20).unwrap();
        assert_eq!(again.payload(), key.payload());
        assert!(pages() * 512 >= 8 << 20);
    }

    #[cfg(not(miri))]
    #[test]
    fn more_memory_than_there_is_is_an_error_value() {
        let segment = Segment::in_memfd(1 << 42, false, 0).unwrap();
        let error =
            segment.heap().allocate(0, NOBODY_GONE, BlockKind::Buffer, 1 << 40).unwrap_err();
        assert!(matches!(error, SegmentError::OutOfMemory { .. }), "{error}");
        assert_eq!(segment.heap().used(), 0);
    }

    /// Makes a heap whose blocks have all kinds of neighbours: used, warm, binned, and the last one.
    fn lived_in(segment: &Segment) -> Vec<(BlockKey, u64)> {
        let heap = segment.heap();
        let take = |kind, len| heap.allocate(0, NOBODY_GONE, kind, len).unwrap();
        let mut keys: Vec<_> = (0..12).map(|n| take(BlockKind::Buffer, 600 + 900 * n)).collect();
        let mut locked = heap.lock(0, NOBODY_GONE).unwrap();
        for n in [10, 8, 7, 4, 2, 1] {
            locked.free(keys.swap_remove(n)).unwrap();
        }
        locked.change(|heap| heap.merge_warm()).unwrap();
        locked.free(keys.remove(3)).unwrap();
        drop(locked);
        let mut live: Vec<_> = keys.into_iter().map(|key| (key, 0)).collect();
        for name in [3 << 61, 5 << 61, 5 << 60, 1 << 61, 3 << 61, 7] {
            let key = take(BlockKind::Channel, 100);
            heap.lock(0, NOBODY_GONE).unwrap().enlist(key, name).unwrap();
            live.push((key, name));
        }
        live
    }

    /// Asserts that the lists agree with the headers, and that the blocks in use are `live`.
    fn assert_consistent(locked: &LockedHeap<'_>, live: &[(BlockKey, u64)]) {
        let control = locked.heap.control;
        let (mut used, mut free, mut last) = (0, Vec::new(), 0);
        locked
            .walk(|offset, header, size| {
                assert_eq!(header.before.load(Ordering::Relaxed), last);
                last = offset;
                match header.in_use(offset) {
                    Some(_) => used += size,
                    None => free.push((offset, class_within(size))),
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(control.last.load(Ordering::Relaxed), last);
        assert_eq!(locked.heap.used(), used);
        let mut listed = Vec::new();
        for lists in [&control.warm, &control.bins] {
            for (class, list) in lists.iter().enumerate() {
                let mut at = list.load(Ordering::Relaxed);
                while at != 0 {
                    listed.push((at, class));
                    at = locked.heap.header(at).unwrap().0.next.load(Ordering::Relaxed);
                }
            }
        }
        listed.sort_unstable();
        assert_eq!(listed, free);
        let mut keys: Vec<_> = locked.blocks().unwrap().iter().map(|block| block.key.0).collect();
        let mut expected: Vec<_> = live.iter().map(|(key, _)| key.0).collect();
        keys.sort_unstable();
        expected.sort_unstable();
        assert_eq!(keys, expected);
        for &(key, name) in live.iter().filter(|&&(_, name)| name != 0) {
            let found = locked.by_hash(name).unwrap();
            assert_eq!(found.iter().filter(|block| block.key == key).count(), 1);
            let named = live.iter().filter(|&&(_, other)| other == name);
            assert_eq!(found.len(), named.count());
        }
    }

    /// Kills a rank at every store of a change (under Miri at every seventh), and checks that the next rank finds an
    /// intact heap.
    fn at_every_store(change: impl Fn(&mut LockedHeap<'_>, &[(BlockKey, u64)])) {
        use crate::sync::life::live_for;
        for stores in (0..).step_by(if cfg!(miri) { 7 } else { 1 }) {
            let segment = segment();
            let heap = segment.heap();
            let live = lived_in(&segment);
            assert_consistent(&heap.lock(0, NOBODY_GONE).unwrap(), &live);
            let lived = live_for(stores, || {
                change(&mut heap.lock(3, NOBODY_GONE).unwrap(), &live);
            });
            let mut locked = heap.lock(0, |rank| rank == 3).unwrap();
            // The unsettled blocks of the victim are freed. The block that it was freeing is free, or still in use.
            for block in locked.blocks().unwrap() {
                if block.owner == 3 && !block.settled {
                    locked.free(block.key).unwrap();
                }
            }
            let left = locked.blocks().unwrap();
            let name = |key: BlockKey| {
                let header = locked.heap.header(key.block().bytes()).unwrap().0;
                if header.is_named() { header.hash.load(Ordering::Relaxed) } else { 0 }
            };
            let now: Vec<_> = left.iter().map(|block| (block.key, name(block.key))).collect();
            let lost = live.iter().filter(|(key, _)| !now.iter().any(|(left, _)| left == key));
            assert!(lost.count() <= 1);
            assert_consistent(&locked, &now);
            locked.change(|heap| heap.merge_warm()).unwrap();
            assert_consistent(&locked, &now);
            for &(key, _) in &now {
                locked.free(key).unwrap();
            }
            locked.change(|heap| heap.merge_warm()).unwrap();
            assert_consistent(&locked, &[]);
            assert_eq!(locked.heap.top().unwrap(), BASE, "all is one again");
            if lived {
                assert!(stores > 3, "died {stores} times only");
                return;
            }
        }
    }

    #[test]
    fn a_death_while_a_block_is_split() {
        at_every_store(|heap, _| {
            heap.reserve(3, BlockKind::Buffer, 400).unwrap();
        });
    }

    #[test]
    fn a_death_while_blocks_are_merged_and_one_is_split() {
        at_every_store(|heap, _| {
            heap.reserve(3, BlockKind::Buffer, 15_000).unwrap();
        });
    }

    #[test]
    fn a_death_while_all_is_given_back() {
        at_every_store(|heap, live| {
            heap.free(live.iter().map(|live| live.0).max_by_key(|key| key.payload()).unwrap())
                .unwrap();
            heap.change(|heap| heap.merge_warm()).unwrap();
        });
    }

    #[test]
    fn a_death_while_a_name_is_given() {
        for name in [3 << 61, 1, 5 << 61].into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
            at_every_store(|heap, _| {
                let key = heap.reserve(3, BlockKind::Channel, 100).unwrap().key;
                heap.enlist(key, name).unwrap();
                heap.free(key).unwrap();
            });
        }
    }

    #[test]
    fn a_death_while_a_named_block_is_freed() {
        for from_end in if cfg!(miri) { 2..=2 } else { 1..=6 } {
            at_every_store(|heap, live| heap.free(live[live.len() - from_end].0).unwrap());
        }
    }

    #[test]
    fn a_buffer_that_grows_by_an_eighth_gets_as_far_as_there_is_room() {
        let segment = Segment::on_heap(64 << 20, false, 0).unwrap();
        let heap = segment.heap();
        let mut len = 1000;
        let mut held = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, len).unwrap();
        while let Ok(longer) = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, len + len / 8) {
            heap.lock(0, NOBODY_GONE).unwrap().free(held).unwrap();
            (held, len) = (longer, len + len / 8);
        }
        // There is no room for the next buffer, neither in front of the present one nor behind it.
        assert!(len > segment.len() * 3 / 10, "{len} of {}", segment.len());
    }

    #[test]
    fn small_blocks_that_are_freed_make_a_large_one() {
        let bytes = if cfg!(miri) { 1 << 17 } else { 1 << 20 };
        let segment = Segment::on_heap(bytes, false, 0).unwrap();
        let heap = segment.heap();
        let mut keys = Vec::new();
        while let Ok(key) = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100) {
            keys.push(key);
        }
        // The blocks are freed in an order that leaves every second one for the end.
        let (odd, even): (Vec<_>, Vec<_>) = (0..keys.len()).partition(|n| n % 2 == 1);
        for n in odd.into_iter().chain(even) {
            heap.lock(0, NOBODY_GONE).unwrap().free(keys[n]).unwrap();
        }
        assert!(heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, bytes / 3 * 2).is_ok());
    }

    /// The cost of a change, in headers read, hardly grows if there are a thousand times as many blocks.
    #[test]
    #[cfg(not(miri))]
    fn the_cost_of_a_change_does_not_grow_with_what_is_held() {
        let looks = |held: u64| {
            let segment = Segment::on_heap(32 << 20, false, 0).unwrap();
            let heap = segment.heap();
            let take = |len| heap.allocate(0, NOBODY_GONE, BlockKind::Channel, len).unwrap();
            for n in 0..held {
                let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let key = take(100);
                heap.lock(0, NOBODY_GONE).unwrap().enlist(key, hash).unwrap();
                // These are blocks between the named ones.
                take(100 + n % 1000);
            }
            let before = LOOKS.get();
            for n in 1..=100 {
                let key = take(2000);
                heap.lock(0, NOBODY_GONE).unwrap().enlist(key, n << 50).unwrap();
                assert_eq!(heap.lock(0, NOBODY_GONE).unwrap().by_hash(n << 50).unwrap().len(), 1);
                heap.lock(0, NOBODY_GONE).unwrap().free(key).unwrap();
            }
            LOOKS.get() - before
        };
        let (few, many) = (looks(10), looks(10_000));
        // The larger tree is ten levels deeper.
        assert!(many < 8 * few, "{few} looks among 10, {many} among 10,000");
    }

    /// Dropping buffers while a thread panics requires no repair of the heap.
    #[test]
    fn a_free_while_the_thread_panics_leaves_the_heap_whole() {
        struct Freed<'a>(Heap<'a>, BlockKey);
        impl Drop for Freed<'_> {
            fn drop(&mut self) {
                self.0.lock(0, NOBODY_GONE).unwrap().free(self.1).unwrap();
            }
        }
        let segment = segment();
        let heap = segment.heap();
        let _ = std::panic::catch_unwind(|| {
            let key = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100).unwrap();
            let _freed = Freed(heap, key);
            std::panic::resume_unwind(Box::new(()));
        });
        assert_eq!(heap.used(), 0);
        assert!(!heap.control.lock.acquire(0, NOBODY_GONE), "nothing is to be mended");
    }

    #[test]
    fn a_panic_in_the_middle_of_a_change_is_mended() {
        let segment = segment();
        let heap = segment.heap();
        let key = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, 100).unwrap();
        let _ = std::panic::catch_unwind(|| {
            let mut locked = heap.lock(0, NOBODY_GONE).unwrap();
            locked.change(|_| -> Result<(), _> { std::panic::resume_unwind(Box::new(())) })
        });
        assert!(heap.control.lock.acquire(0, NOBODY_GONE), "said to be mended");
        heap.control.lock.release(false);
        assert_consistent(&heap.lock(0, NOBODY_GONE).unwrap(), &[(key, 0)]);
    }

    /// Overwrites one bit of an authoritative word, or the whole word.
    #[test]
    #[cfg(not(miri))]
    fn an_overwritten_word_gives_an_error_and_no_block_twice() {
        let spoils: Vec<_> = (0..64).map(|bit| (1 << bit, false)).collect();
        let words = [0, 1, BASE, BASE + 512, u64::MAX, 0x100, 1 << 40];
        let spoils = spoils.into_iter().chain(words.map(|word| (word, true)));
        for (with, whole) in spoils {
            for which in 0..3 {
                let segment = segment();
                let heap = segment.heap();
                let live = lived_in(&segment);
                let (first, _) = heap.header(live[2].0.block().bytes()).unwrap();
                let word = [&heap.control.top, &first.extent, &first.state][which];
                let old = word.load(Ordering::Relaxed);
                word.store(if whole { with } else { old ^ with }, Ordering::Relaxed);
                if word.load(Ordering::Relaxed) == old {
                    continue;
                }
                let mut places: Vec<_> = live.iter().map(|(key, _)| key.payload()).collect();
                for len in [100, 5000, 100, 20_000] {
                    if let Ok(key) = heap.allocate(0, NOBODY_GONE, BlockKind::Buffer, len) {
                        places.push(key.payload());
                    }
                    std::mem::forget(heap.lock(3, NOBODY_GONE));
                    drop(heap.lock(0, |rank| rank == 3));
                }
                places.sort_unstable();
                let all = places.len();
                places.dedup();
                assert_eq!(places.len(), all, "word {which} with {with:x}");
            }
        }
    }

    /// A machine whose answers about its available memory are given one by one. Each look waits for its answer.
    #[cfg(not(miri))]
    struct Memory {
        folder: tempfile::TempDir,
        answers: std::sync::mpsc::Sender<u64>,
        given: std::sync::mpsc::Receiver<()>,
    }

    #[cfg(not(miri))]
    impl Memory {
        fn of(segment: &mut Segment) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root: &std::path::Path = Box::leak(folder.path().to_owned().into_boxed_path());
            std::fs::create_dir_all(root.join("proc")).unwrap();
            let (file, next) = (root.join("proc/meminfo"), root.join("proc/next"));
            // Each look gets a new pipe, because its reader must see the end of the answer.
            let renew = move |file: &std::path::Path| {
                nix::unistd::mkfifo(&next, nix::sys::stat::Mode::S_IRWXU).unwrap();
                std::fs::rename(&next, file).unwrap();
            };
            renew(&file);
            let (answers, to_give) = std::sync::mpsc::channel();
            let (gives, given) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                for available in to_give {
                    let mut look = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
                    renew(&file);
                    let text = format!("MemAvailable: {} kB\n", available >> 10);
                    std::io::Write::write_all(&mut look, text.as_bytes()).unwrap();
                    let _ = gives.send(());
                }
            });
            segment.look_at_machine(root);
            segment.advance.store(0, Ordering::Relaxed);
            Self { folder, answers, given }
        }

        /// Gives this answer to the next look, and returns after it was given.
        fn answer(&self, available: u64) {
            self.answers.send(available).unwrap();
            self.given.recv().unwrap();
        }

        /// Makes all looks from now on find no memory.
        fn is_over(&self) {
            (0..100).for_each(|_| self.answers.send(0).unwrap());
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_failed_commit_ahead_leaves_the_neighbours_alone() {
        const LEN: u64 = 100_000;
        let mut segment = Segment::in_memfd(64 << 20, false, 0).unwrap();
        let file = segment.fd().unwrap().try_clone_to_owned().unwrap();
        let other = Segment::attach(file, true, 0).unwrap();
        let memory = Memory::of(&mut segment);
        std::thread::scope(|scope| {
            let refused = scope
                .spawn(|| segment.heap().allocate(0, NOBODY_GONE, BlockKind::Buffer, 300 << 10));
            // These answers are for the header and for a first piece.
            memory.answer(52 << 20);
            memory.answer(52 << 20);
            // Another rank allocates the memory behind that piece, and writes it.
            let heap = other.heap();
            let key = heap.allocate(1, NOBODY_GONE, BlockKind::Buffer, LEN).unwrap();
            let place = other.range(key.payload(), LEN, "a test's block").unwrap();
            // SAFETY: the block has this length, and only this thread uses it.
            unsafe { place.write_bytes(0xee, LEN as usize) };
            memory.is_over();
            let refused = refused.join().unwrap();
            assert!(matches!(refused, Err(SegmentError::OutOfMemory { .. })), "{refused:?}");
            heap.check(key, BlockKind::Buffer).unwrap();
            // SAFETY: as above. No thread writes to the block now.
            let now = unsafe { std::slice::from_raw_parts(place.as_ptr(), LEN as usize) };
            assert!(now.iter().all(|&byte| byte == 0xee), "the neighbour's bytes are gone");
        });
        drop(memory.folder);
    }

    #[cfg(not(miri))]
    #[test]
    fn a_block_that_can_not_be_split_stays_in_its_bin() {
        let mut segment = Segment::in_memfd(64 << 20, false, 0).unwrap();
        let allocate = |segment: &Segment, len| {
            segment.heap().allocate(0, NOBODY_GONE, BlockKind::Buffer, len)
        };
        let key = allocate(&segment, 4 << 20).unwrap();
        allocate(&segment, 100).unwrap();
        segment.heap().lock(0, NOBODY_GONE).unwrap().free(key).unwrap();
        segment.heap().trim(0, NOBODY_GONE).unwrap();
        let touched = segment.heap().touched();
        let memory = Memory::of(&mut segment);
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| allocate(&segment, 1000));
            memory.is_over();
            let refused = refused.join().unwrap();
            assert!(matches!(refused, Err(SegmentError::OutOfMemory { .. })), "{refused:?}");
        });
        segment.look_at_machine(std::path::Path::new("/"));
        allocate(&segment, 3 << 20).unwrap();
        assert_eq!(segment.heap().touched(), touched, "the free block is not found any more");
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
            let live: Vec<_> = live.into_iter().map(|(key, _)| (key, 0)).collect();
            assert_consistent(&heap.lock(0, NOBODY_GONE).unwrap(), &live);
            let mut locked = heap.lock(0, NOBODY_GONE).unwrap();
            locked.change(|heap| heap.merge_warm()).unwrap();
            assert_consistent(&locked, &live);
        }
    }
}
