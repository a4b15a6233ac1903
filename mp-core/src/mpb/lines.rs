//! How the lines of MPBs lie in blocks of the segment.
//!
//! The near lines lie behind the descriptor. Each part of the far lines lies in a block of its own, which is made when a rank
//! first uses one of them. That block is found by the key of the block with the near lines, and freed with it.

use std::ptr::NonNull;

use super::spec::LATER;
use crate::{
    context::{Context, hash},
    line::{LINE_BYTES, Line},
    named::{Object, find_or_make},
    segment::{BlockKey, BlockKind, LockedHeap, PAGE, SegmentError, Shared},
};

/// The layout of a block: `before` bytes, followed by `lines` lines for each of `ranks` ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) ranks: usize,
    lines: usize,
    before: usize,
}

impl Geometry {
    /// Returns the layout of lines for this many ranks, behind `before` bytes.
    pub(super) fn new(ranks: usize, lines: usize, before: usize) -> Self {
        Self { ranks, lines, before }
    }

    /// Returns the alignment of each rank's lines in bytes: a page or, for less than a page of lines, a pair of lines,
    /// which processors transfer together.
    fn grain(self) -> usize {
        if self.lines * LINE_BYTES < PAGE as usize { 2 * LINE_BYTES } else { PAGE as usize }
    }

    /// Returns the number of lines from one rank's MPB to the next.
    pub(super) fn stride(self) -> usize {
        (self.lines * LINE_BYTES).next_multiple_of(self.grain()) / LINE_BYTES
    }

    /// Returns the distance of the first line from the start of the block's payload. `payload` is the payload's place
    /// in the segment.
    pub(super) fn first_line(self, payload: u64) -> u64 {
        (payload + self.before as u64).next_multiple_of(self.grain() as u64) - payload
    }

    pub(super) fn buffers(self) -> u64 {
        (self.stride() * LINE_BYTES * self.ranks) as u64
    }

    /// Returns a size that suffices for the block, wherever it lies.
    pub(super) fn block(self) -> u64 {
        self.first_line(0) + self.grain() as u64 + self.buffers()
    }
}

/// The block of far lines. The lines begin at an aligned place in it.
#[derive(Debug)]
#[repr(C)]
struct Far;

// SAFETY: the type has no bytes.
unsafe impl Shared for Far {}

/// Returns the first member's first line in a part of the far lines of the MPBs in this block. Makes the lines if no rank has
/// done so, with zeros in the first `zeroed` lines of each rank. To write zeros to a ring of long messages, too, would
/// take longer than the first of these messages.
pub(super) fn open_far(
    context: &Context,
    (block, part): (BlockKey, usize),
    geometry: Geometry,
    zeroed: usize,
) -> Result<NonNull<Line>, SegmentError> {
    let find = |heap: &LockedHeap<'_>| {
        let mut found = far_of(heap, (block, part))?;
        found.next().map(|key| Object::<Far>::at(context, key)).transpose()
    };
    let lines = |far: &Object<'_, Far>| {
        let first = far.key.payload() + geometry.first_line(far.key.payload());
        context.segment.range(first, geometry.buffers(), "MPBs").map(NonNull::cast::<Line>)
    };
    let make = || {
        let far = Object::at(context, context.allocate(BlockKind::Lines, geometry.block())?)?;
        let first = lines(&far)?;
        for rank in 0..geometry.ranks {
            // SAFETY: `lines` has checked that the lines are in the segment, and they are aligned. No other rank knows the
            // new block, and zeros are valid lines.
            unsafe {
                first.add(rank * geometry.stride()).write_bytes(0, zeroed.min(geometry.lines))
            };
        }
        Ok(far)
    };
    let publish = |heap: &mut LockedHeap<'_>, far: &Object<'_, Far>| {
        heap.enlist(far.key, hash_of_far((block, part)))
    };
    let (_heap, far, _) = find_or_make(context, true, find, make, publish)?;
    let room = context.segment.heap().check(far.key, BlockKind::Lines)?;
    if room < geometry.block() {
        let what = "the length of further lines of MPBs";
        return Err(context.segment.corrupt(what, far.key.payload(), room));
    }
    lines(&far)
}

/// Frees the far lines of the MPBs in this block that were made.
pub(super) fn free_far(heap: &mut LockedHeap<'_>, block: BlockKey) -> Result<(), SegmentError> {
    (1..=LATER).try_for_each(|part| far_of(heap, (block, part))?.try_for_each(|far| heap.free(far)))
}

fn hash_of_far((block, part): (BlockKey, usize)) -> u64 {
    hash([BlockKind::Lines as u64, block.word(), part as u64].into_iter())
}

fn far_of(
    heap: &LockedHeap<'_>,
    part: (BlockKey, usize),
) -> Result<impl Iterator<Item = BlockKey> + use<>, SegmentError> {
    let found = heap.by_hash(hash_of_far(part))?.into_iter();
    Ok(found.filter(|found| found.kind == BlockKind::Lines).map(|found| found.key))
}
