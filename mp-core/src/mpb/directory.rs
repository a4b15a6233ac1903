//! Where ranks find their MPBs, and who of them is still there.
//!
//! The MPBs of all ranks by one name are one block of the heap: a [`Descriptor`], a [`Side`] for
//! each rank, and from the next page on the buffers, each on pages of its own. Whoever opens them
//! first makes them. A rank that will set no flag any more is **gone**; what it had is
//! **released** when nothing of it can touch the memory any more. The block is freed when every
//! rank is gone and everything that was opened is released. All of this happens under the heap's
//! lock, as with channels.

use std::{ptr::NonNull, sync::Arc};

use crossbeam_utils::CachePadded;

use super::{
    Mpbs, interrupt,
    interrupt::Status,
    mark::{MOST_LINES, Mark},
};
use crate::{
    context::{Context, Leaving, RankSet, RankState, Text, hash},
    error::Error,
    line::{LINE_BYTES, Line},
    segment::{BlockKey, BlockKind, LockedHeap, Offset, PAGE, SegmentError, Shared, fingerprint},
    sync::{AtomicU32, AtomicU64, Ordering},
    wait::Operation,
};

/// Bytes of a name that are kept.
const NAME: usize = 64;

/// What stands at the start of the block.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Descriptor {
    name: Text<{ NAME / 8 }>,
    lines: AtomicU64,
    /// What a rank asked for that wanted something else; 0 for none.
    other: AtomicU64,
    /// Tells them from others of that name that were made before.
    serial: AtomicU64,
    opened: RankSet,
    gone: RankSet,
    /// Gone by dying.
    lost: RankSet,
    /// Who will interrupt nobody any more that does not wait for it: they may go.
    farewells: RankSet,
    released: RankSet,
    /// What a waiting rank must know: how many ranks are gone, [`LOST`], [`MISMATCH`]. Hardly ever
    /// written, so that looking costs a hit in the first-level cache.
    ends: CachePadded<AtomicU32>,
}

// SAFETY: atomics only, repr(C).
unsafe impl Shared for Descriptor {}

/// In `ends`: a rank was lost.
const LOST: u32 = 1 << 31;
/// In `ends`: a rank wanted other MPBs.
const MISMATCH: u32 = 1 << 30;

/// What stands in front of the buffers for each rank.
#[derive(Debug)]
#[repr(C)]
struct Side {
    mark: CachePadded<Mark>,
    status: Status,
}

/// See [`Descriptor::outline`].
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    /// The ranks that have not closed them, and not ended.
    pub(crate) present: Vec<u32>,
}

impl Descriptor {
    /// The MPBs of a world of `size` ranks as a reader outside the world sees them.
    pub(crate) fn outline(&self, size: u32) -> Outline {
        let present = (0..size).filter(|&rank| !self.gone.contains(rank)).collect();
        Outline { name: self.name.read(), present }
    }

    /// Whether every rank is there and wants the same.
    #[inline(always)]
    fn all_there(&self) -> bool {
        // Acquire: pairs with the Release in `tell_ends`, so that a look after this one sees the
        // flags that a rank had set before it went.
        self.ends.load(Ordering::Acquire) == 0
    }

    /// To be called after a change, under the heap's lock.
    fn tell_ends(&self) {
        let lost = if self.lost.first().is_some() { LOST } else { 0 };
        let mismatch = if self.other.load(Ordering::Relaxed) != 0 { MISMATCH } else { 0 };
        // Release: pairs with the Acquire in `all_there`: what a rank did before it went, and the
        // sets that tell of it.
        self.ends.store(self.gone.len() | lost | mismatch, Ordering::Release);
    }
}

/// What changes when the structures here do.
pub(crate) fn layout() -> u64 {
    fingerprint([size_of::<Descriptor>(), size_of::<Side>(), size_of::<Line>()])
}

/// Where in a block what lies.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    ranks: usize,
    lines: usize,
}

const SIDES: usize = size_of::<Descriptor>();

impl Geometry {
    /// Lines from one rank's MPB to the next.
    fn stride(self) -> usize {
        (self.lines * LINE_BYTES).next_multiple_of(PAGE as usize) / LINE_BYTES
    }

    /// From the start of a block's payload at this place in the segment.
    fn first_line(self, payload: u64) -> u64 {
        let sides = self.ranks * size_of::<Side>();
        (payload + (SIDES + sides) as u64).next_multiple_of(PAGE) - payload
    }

    fn buffers(self) -> u64 {
        (self.stride() * LINE_BYTES * self.ranks) as u64
    }

    /// Wherever it lies.
    fn block(self) -> u64 {
        self.first_line(0) + PAGE + self.buffers()
    }
}

/// A rank's MPBs in this process's memory.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) context: Arc<Context>,
    pub(super) name: Arc<str>,
    pub(super) me: usize,
    pub(super) ranks: usize,
    pub(super) lines: usize,
    block: BlockKey,
    descriptor: NonNull<Descriptor>,
    sides: NonNull<Side>,
    first: NonNull<Line>,
    stride: usize,
}

// SAFETY: the pointers lead into the segment that `context` keeps mapped, to atomics.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Opened {
    /// Opens this rank's access, making the MPBs if no other rank has.
    pub(super) fn open(context: Arc<Context>, name: &str, mpbs: Mpbs) -> Result<Self, Error> {
        let lines = mpbs.lines;
        let bad = |reason: String| Err(Error::BadMpbs { mpbs: name.into(), reason });
        if name.len() > NAME || name.is_empty() || name.contains('\0') {
            return bad(format!("their name must have 1 to {NAME} bytes, none of them zero"));
        }
        // So many that no sum of lengths overflows.
        let most = MOST_LINES.min((usize::MAX >> 16) / LINE_BYTES / context.size());
        if lines == 0 || lines > most {
            return bad(format!("{lines} lines, of which there can be 1 to {most}"));
        }
        let geometry = Geometry { ranks: context.size(), lines };
        let me = context.me;
        let mut heap = context.lock_heap()?;
        let block = match find(&context, &heap, name)? {
            Some(block) => block,
            None => make(&context, &mut heap, name, geometry)?,
        };
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        let theirs = descriptor.lines.load(Ordering::Relaxed) as usize;
        if theirs != lines {
            descriptor.other.store(lines as u64, Ordering::Relaxed);
            leave(&context, &mut heap, descriptor, block, me, Leaving::NeverOpened)?;
            let (ours, theirs) = (mpbs, Mpbs::lines(theirs));
            return Err(Error::MpbMismatch { mpbs: name.into(), ours, theirs });
        }
        let (sides, first) = parts(&context, block, geometry)?;
        descriptor.opened.insert(me);
        let descriptor = NonNull::from(descriptor);
        drop(heap);
        Ok(Self {
            me: me as usize,
            ranks: geometry.ranks,
            stride: geometry.stride(),
            name: name.into(),
            context,
            lines,
            block,
            descriptor,
            sides,
            first,
        })
    }

    fn descriptor(&self) -> &Descriptor {
        // SAFETY: placed by `open` in the segment that `context` keeps mapped; the block is this
        // rank's at least until `drop`.
        unsafe { self.descriptor.as_ref() }
    }

    /// Where the descriptor lies in the segment.
    pub(super) fn place(&self) -> u64 {
        self.block.payload()
    }

    /// Lines of a rank's MPB.
    #[inline(always)]
    pub(super) fn lines(&self, rank: usize, first: usize, count: usize) -> Result<&[Line], Error> {
        if rank >= self.ranks || first > self.lines || count > self.lines - first {
            return Err(self.misfit(rank, first, count));
        }
        // SAFETY: checked just now, and by `parts`: the MPB has these lines; they are atomics.
        Ok(unsafe {
            let start = self.first.add(rank * self.stride + first);
            std::slice::from_raw_parts(start.as_ptr(), count)
        })
    }

    #[inline(always)]
    pub(super) fn line(&self, rank: usize, line: usize) -> Result<&Line, Error> {
        if rank >= self.ranks || line >= self.lines {
            return Err(self.misfit(rank, line, 1));
        }
        // SAFETY: as in `lines`.
        Ok(unsafe { self.first.add(rank * self.stride + line).as_ref() })
    }

    /// The first of the lines of all MPBs, which lie one after the other.
    #[inline(always)]
    pub(super) fn whole(&self) -> NonNull<Line> {
        self.first
    }

    /// Changes whenever a rank leaves; see [`Descriptor`].
    #[inline(always)]
    pub(super) fn ends(&self) -> u32 {
        // Acquire: as in `all_there`.
        self.descriptor().ends.load(Ordering::Acquire)
    }

    pub(super) fn is_gone(&self, rank: usize) -> bool {
        self.descriptor().gone.contains(rank as u32)
    }

    pub(super) fn is_lost(&self, rank: usize) -> bool {
        self.descriptor().lost.contains(rank as u32)
    }

    /// The mark of a rank, if it exists.
    #[inline(always)]
    pub(super) fn checked_mark(&self, rank: usize) -> Option<&Mark> {
        (rank < self.ranks).then(|| self.mark(rank))
    }

    #[cold]
    fn misfit(&self, rank: usize, first: usize, count: usize) -> Error {
        match self.context.check_rank(rank) {
            Err(error) => error,
            Ok(_) => {
                Error::NoSuchLines { mpbs: self.name.clone(), first, count, lines: self.lines }
            }
        }
    }

    /// The mark of a rank that exists.
    #[inline(always)]
    pub(super) fn mark(&self, rank: usize) -> &Mark {
        &self.side(rank).mark
    }

    /// The interrupts of a rank that exists.
    pub(super) fn status(&self, rank: usize) -> &Status {
        &self.side(rank).status
    }

    #[inline(always)]
    fn side(&self, rank: usize) -> &Side {
        debug_assert!(rank < self.ranks);
        // SAFETY: there is one for each rank (`parts`), and callers have checked the rank.
        unsafe { self.sides.add(rank).as_ref() }
    }

    /// This rank will interrupt nobody any more that does not wait for it.
    pub(super) fn say_farewell(&self) {
        self.descriptor().farewells.insert(self.context.me);
    }

    /// Why an interrupt may never come that is waited for: a rank is gone that had not said so.
    pub(super) fn over_for_interrupts(&self) -> Option<Error> {
        let descriptor = self.descriptor();
        if descriptor.all_there() {
            return None;
        }
        let lost = self.why_over(descriptor, Some(self.context.size()));
        let left = || !descriptor.gone.is_subset_of(&descriptor.farewells);
        lost.or_else(|| left().then(|| Error::Disconnected { channel: self.name.clone() }))
    }

    /// Leaves as if the rank had died: who waits for it gets [`Error::PeerLost`].
    pub(super) fn abandon(&self) -> Result<(), SegmentError> {
        let mut heap = self.context.lock_heap()?;
        let leaving = Leaving::Ended { lost: true, released: false };
        leave(&self.context, &mut heap, self.descriptor(), self.block, self.context.me, leaving)
    }

    /// Why no flag will be set any more: none that `setter` alone sets, if it is known.
    pub(super) fn over(&self, setter: Option<usize>) -> Option<Error> {
        let descriptor = self.descriptor();
        if descriptor.all_there() {
            return None;
        }
        self.why_over(descriptor, setter)
    }

    #[cold]
    fn why_over(&self, descriptor: &Descriptor, setter: Option<usize>) -> Option<Error> {
        let name = || self.name.clone();
        let ends = descriptor.ends.load(Ordering::Acquire);
        if ends & MISMATCH != 0 {
            let theirs = descriptor.other.load(Ordering::Relaxed) as usize;
            let (ours, theirs) = (Mpbs::lines(self.lines), Mpbs::lines(theirs));
            return Some(Error::MpbMismatch { mpbs: name(), ours, theirs });
        }
        if ends & LOST != 0 {
            let rank = descriptor.lost.first().unwrap_or_default() as usize;
            return Some(Error::PeerLost { rank, operation: Operation::Flag, channel: name() });
        }
        let disconnected = match setter {
            Some(setter) => descriptor.gone.contains(setter as u32),
            None => ends as usize + 1 >= self.ranks,
        };
        disconnected.then(|| Error::Disconnected { channel: name() })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let closed = || -> Result<(), SegmentError> {
            let mut heap = self.context.lock_heap()?;
            let (descriptor, me) = (self.descriptor(), self.context.me);
            // Dropped by a panic it was not closed: others may wait for what would have come.
            let leaving = match std::thread::panicking() {
                true => Leaving::Ended { lost: true, released: true },
                false => Leaving::Closed,
            };
            leave(&self.context, &mut heap, descriptor, self.block, me, leaving)
        };
        // A heap too broken for that is found by the next who allocates.
        let _ = closed();
    }
}

/// The ranks' sides and the first rank's first line.
fn parts(
    context: &Context,
    block: BlockKey,
    geometry: Geometry,
) -> Result<(NonNull<Side>, NonNull<Line>), SegmentError> {
    let (payload, first) = (block.payload(), geometry.first_line(block.payload()));
    let sides = context.segment.range(payload + SIDES as u64, first - SIDES as u64, "MPBs")?;
    let lines = context.segment.range(payload + first, geometry.buffers(), "MPBs")?;
    Ok((sides.cast(), lines.cast()))
}

/// The oldest MPBs by this name that this rank has not opened yet: those of several calls pair up
/// in the order of opening.
fn find(context: &Context, heap: &LockedHeap<'_>, name: &str) -> Result<Option<BlockKey>, Error> {
    let mut oldest: Option<(u64, BlockKey)> = None;
    for block in heap.bucket(hash(name.bytes().map(u64::from)))? {
        if block.kind != BlockKind::Mpbs {
            continue;
        }
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
        if descriptor.name.read() == name
            && !descriptor.opened.contains(context.me)
            && !descriptor.gone.contains(context.me)
        {
            let serial = descriptor.serial.load(Ordering::Relaxed);
            if oldest.is_none_or(|(other, _)| serial < other) {
                oldest = Some((serial, block.key));
            }
        }
    }
    Ok(oldest.map(|(_, key)| key))
}

fn make(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    name: &str,
    geometry: Geometry,
) -> Result<BlockKey, Error> {
    let len = geometry.block();
    let (block, committed) = heap.reserve(context.me, BlockKind::Mpbs, len)?;
    if !committed && let Err(error) = heap.commit(block, len) {
        heap.free(block)?;
        return Err(error.into());
    }
    let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
    let Descriptor { opened, gone, lost, farewells, released, .. } = descriptor;
    for set in [opened, gone, lost, farewells, released] {
        set.assign(&[]);
    }
    descriptor.name.write(name);
    descriptor.lines.store(geometry.lines as u64, Ordering::Relaxed);
    descriptor.other.store(0, Ordering::Relaxed);
    let made = &context.world()?.channels;
    let serial = made.load(Ordering::Relaxed);
    made.store(serial.wrapping_add(1), Ordering::Relaxed);
    descriptor.serial.store(serial, Ordering::Relaxed);
    descriptor.tell_ends();
    let (sides, lines) = parts(context, block, geometry)?;
    // SAFETY: the block is new and known to nobody else; the places are in its range and aligned,
    // and zeros are sides of ranks that do nothing, and lines.
    unsafe {
        sides.write_bytes(0, geometry.ranks);
        lines.write_bytes(0, geometry.stride() * geometry.ranks);
    }
    // Ranks that ended before will never open it. Before it can be found: a maker that dies here
    // leaves nothing that waits for them.
    for rank in 0..context.size() as u32 {
        let state = context.rank(rank)?.state();
        if state.ended() && rank != context.me {
            let lost = state == RankState::Lost;
            let leaving = Leaving::Ended { lost, released: true };
            leave(context, heap, descriptor, block, rank, leaving)?;
        }
    }
    heap.enlist(block, hash(name.bytes().map(u64::from)))?;
    Ok(block)
}

/// Takes a rank out, tells the others, and frees the MPBs when nobody is left.
fn leave(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    descriptor: &Descriptor,
    block: BlockKey,
    rank: u32,
    leaving: Leaving,
) -> Result<(), SegmentError> {
    leaving.note(rank, &descriptor.gone, &descriptor.lost, &descriptor.released);
    descriptor.tell_ends();
    for rank in 0..context.size() as u32 {
        context.ring(rank);
    }
    let ranks = context.size();
    let length = (ranks * size_of::<Side>()) as u64;
    let sides = context.segment.range(block.payload() + SIDES as u64, length, "MPBs")?;
    let sides = sides.cast::<Side>();
    // SAFETY: there is one for each rank, made of atomics, in a block that is not freed before the
    // end of this.
    let statuses = (0..ranks).map(|rank| (rank, unsafe { &sides.add(rank).as_ref().status }));
    interrupt::wake_everybody(context, statuses);
    let all_gone = descriptor.gone.len() as usize == context.size();
    if all_gone && descriptor.opened.is_subset_of(&descriptor.released) {
        heap.delist(block)?;
        heap.free(block)?;
    }
    Ok(())
}

/// Takes a rank that ended out of all MPBs. `released` when its process is gone.
pub(crate) fn retire(
    context: &Context,
    rank: u32,
    lost: bool,
    released: bool,
) -> Result<(), SegmentError> {
    let mut heap = context.lock_heap()?;
    for block in heap.blocks()?.iter().filter(|b| b.kind == BlockKind::Mpbs && b.settled) {
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
        // Who never opened them holds nothing of them.
        let released = released || !descriptor.opened.contains(rank);
        let leaving = Leaving::Ended { lost, released };
        leave(context, &mut heap, descriptor, block.key, rank, leaving)?;
    }
    Ok(())
}
