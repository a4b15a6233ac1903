//! Slices that lie in the world's memory, and that other ranks copy from there.
//!
//! All ranks of a node have the world's memory mapped, so that a rank can copy a slice of another rank if it knows where
//! the slice lies. For a long message, this saves the copy of its sender: the sender sends the *place* of the slice, and
//! leaves the slice as it is until the receiver says that it has copied it.
//!
//! A slice that its owner has just written lies in the owner's caches. To read it from there takes several times as long
//! as a copy within the reader's own caches, and the owner waits again when it writes the next one. Then a copy of the
//! owner's, through memory that both go through in turn, is better. So readers time their copies, and tell the owner which
//! ones were [slow](is_slow).
//!
//! When the owner is lost, its memory goes to other ranks, which may write there. When another rank is lost, the owner's
//! call may fail, and the owner may write there. So a reader first copies, and then looks whether such a rank is lost.

use std::{
    ptr::NonNull,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    context::Context,
    copy::copy_bytes,
    costs,
    error::Result,
    segment::{BlockKey, BlockKind},
    sync::{Ordering, fence},
    topology::second_level_cache,
};

/// Memory of the world that no rank holds: if the rank that has allocated it dies, it stays as it is. So it can be lent
/// even to ranks that go on after such a loss. It is freed when this is dropped.
#[derive(Debug)]
pub struct WorldMemory {
    context: Arc<Context>,
    key: BlockKey,
    start: NonNull<u8>,
}

// SAFETY: the pointer leads to memory that `context` keeps mapped, whichever thread has it.
unsafe impl Send for WorldMemory {}

impl WorldMemory {
    /// Allocates `bytes` bytes with any contents, aligned to a cache line. Returns `None` if there is no room, or if less
    /// than half of the world's memory would be left for its messages.
    pub(crate) fn allocate(context: &Arc<Context>, bytes: usize) -> Option<Self> {
        let (heap, bytes) = (context.segment.heap(), bytes.max(1) as u64);
        if heap.used().checked_add(bytes)? > context.segment.end() / 2 {
            return None;
        }
        let key = context.allocate(BlockKind::Buffer, bytes).ok()?;
        let start = context.segment.range(key.payload(), bytes, "memory of the program");
        let settled = start.and_then(|start| heap.settle(key).map(|()| start));
        let start = settled.inspect_err(|_| context.free(key)).ok()?;
        Some(Self { context: Arc::clone(context), key, start })
    }

    /// Returns its address.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns its place in the world's memory, from which other ranks can
    /// [reach](crate::Rank::address_of) it.
    pub fn place(&self) -> u64 {
        self.key.payload()
    }
}

impl Drop for WorldMemory {
    fn drop(&mut self) {
        self.context.free(self.key);
    }
}

/// Returns the place of a slice, if it lies in the world's memory.
pub(crate) fn place_of(context: &Context, slice: &[u8]) -> Option<u64> {
    context.segment.offset_of(NonNull::from(slice).cast(), slice.len())
}

/// A copy is slow if it takes this many times as long as one within the reader's own caches, or, for slices that do not
/// [stay there](CACHED), as long as one past the caches. `docs/constants.md` has the figures.
const SLOW: u32 = 2;
/// Slices of more than this part of the second-level cache do not stay there: the reader has more than one, and the places
/// for them.
const CACHED: usize = 8;

fn is_slow(bytes: usize, took: Duration) -> bool {
    let usual = match bytes <= second_level_cache() / CACHED {
        true => costs::in_caches(bytes),
        false => costs::past_caches(bytes),
    };
    usual.is_some_and(|usual| took > SLOW * usual)
}

/// Copies the slice at a place, and returns whether that was [slow](is_slow). Afterwards the caller must look whether a
/// rank is lost that had to leave the slice as it is. If it finds none, the copy is that of the slice.
///
/// # Errors
/// [`Segment`](crate::ErrorKind::Segment) when no slice of this length lies there that `into` is not part of.
pub(crate) fn copy_from(context: &Context, place: u64, into: &mut [u8]) -> Result<bool> {
    let (what, len) = ("a slice that another rank copies", into.len() as u64);
    let from = context.segment.range(place, len, what)?;
    let overlaps = place_of(context, into).is_some_and(|own| own.abs_diff(place) < len);
    if overlaps {
        return Err(context.segment.corrupt(what, place, len).into());
    }
    let began = Instant::now();
    // SAFETY: both ranges are valid: `range` has found the first in the mapping, and the second is borrowed. They do not
    // overlap. The owner does not write to the slice until it is told of the copy. If the owner is lost, other ranks may
    // write there during the copy. The copy then has arbitrary bytes. Any bytes are valid, and the caller does not use them.
    unsafe { copy_bytes(from, NonNull::from(&mut *into).cast(), into.len()) };
    // This fence keeps the loads of the copy before the caller's look at the states of ranks. A rank is marked as lost
    // before its memory goes to other ranks. So a caller that has copied a byte of theirs sees the mark.
    fence(Ordering::Acquire);
    Ok(is_slow(into.len(), began.elapsed()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Error, ErrorKind, World};

    #[test]
    fn a_slice_in_the_worlds_memory_is_copied_from_its_place() {
        World::threads(1)
            .run(|rank| {
                let context = rank.context();
                let buffer = rank.buffer_from(&[1u8, 2, 3, 4, 5])?;
                let place = super::place_of(context, &buffer[1..4]);
                let place = place.ok_or_else(|| Error::other("it is not found"))?;
                assert_eq!(super::place_of(context, &[0; 3]), None);
                let mut copy = [0; 3];
                super::copy_from(context, place, &mut copy)?;
                assert_eq!(copy, [2, 3, 4]);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn a_place_that_is_none_is_an_error() {
        World::threads(1)
            .run(|rank| {
                let context = rank.context();
                let mut buffer = rank.buffer_zeroed::<u8>(100)?;
                let place = super::place_of(context, &buffer).unwrap_or_default();
                for (place, bytes) in
                    [(u64::MAX, 1), (u64::MAX - 10, 20), (place - 99, 100), (place + 99, 100)]
                {
                    let copied = super::copy_from(context, place, &mut buffer[..bytes]);
                    assert!(matches!(copied.unwrap_err().kind(), ErrorKind::Segment(_)));
                }
                super::copy_from(context, place, &mut [0; 100]).map(drop)
            })
            .unwrap();
    }
}
