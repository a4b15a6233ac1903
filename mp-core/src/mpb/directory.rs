//! How ranks find their MPBs, and which of the ranks are still there.
//!
//! The MPBs that several ranks, its members, open by one name are one block of the heap: a [`Descriptor`], a [`Side`]
//! for each member, and the buffers. The member that opens them first makes them. If they [grow](Mpbs::growing_from),
//! this block has only the first lines. The others are a second block, which is made by the first member that uses one
//! of them, found by the number of the first block, and freed with it. A member that will set no flag any more is
//! **gone**. Its memory is **released** when nothing of it can touch the memory any more. The block is freed when every
//! member is gone and everything that was opened is released. All of this happens under the heap's lock, as with
//! channels.
//!
//! Members are numbered by their places in the list that all of them name. The sets in the descriptor are of the
//! world's ranks.
//!
//! Members mostly open MPBs at the same time. One of them makes them, alone but without the heap's lock
//! (`Context::make_alone`), and the others sleep until they find them.

use std::{ptr::NonNull, sync::Arc};

use crossbeam_utils::CachePadded;

use super::{
    Mpbs, interrupt,
    interrupt::Status,
    mark::{MOST_LINES, Mark},
};
use crate::{
    ErrorKind,
    context::{Context, Leaving, Namespace, RankControl, RankSet, RankState, Text, hash},
    error::{Error, Place},
    line::{LINE_BYTES, Line},
    segment::{BlockKey, BlockKind, LockedHeap, Offset, PAGE, SegmentError, Shared, fingerprint},
    sync::{AtomicPtr, AtomicU32, AtomicU64, Futex, Ordering},
    wait::Operation,
};

/// Bytes of a name that are kept.
const NAME: usize = 64;

/// The structure at the start of the block.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Descriptor {
    /// A [`Namespace`]'s word.
    namespace: AtomicU64,
    name: Text<{ NAME / 8 }>,
    lines: AtomicU64,
    /// The number of lines that are in this block.
    near: AtomicU64,
    /// The word proposed by the rank that made them.
    agreed: AtomicU64,
    /// What a rank with different settings asked for; 0 for none.
    other: AtomicU64,
    other_near: AtomicU64,
    /// The members that that rank named.
    others: RankSet,
    members: RankSet,
    /// Distinguishes them from earlier ones of that name.
    serial: AtomicU64,
    opened: RankSet,
    gone: RankSet,
    /// Members that are gone because they died.
    lost: RankSet,
    /// Members that will not send any more interrupts that a rank waits for: they may go.
    farewells: RankSet,
    released: RankSet,
    /// 1 + the member for whose loss the others have given up the contents, or that has revoked them; 0 for none.
    given_up: AtomicU32,
    /// What a waiting rank must know: the number of members that are gone, [`LOST`], [`MISMATCH`], [`GIVEN_UP`]. It is
    /// hardly ever written, so looking at it costs a hit in the first-level cache.
    ends: CachePadded<AtomicU32>,
    /// The bell of all members that sleep until they are released together. Its value means nothing.
    bell: CachePadded<Futex>,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Descriptor {}

/// In `ends`: a rank was lost.
const LOST: u32 = 1 << 31;
/// In `ends`: a rank wanted different MPBs.
const MISMATCH: u32 = 1 << 30;
/// In `ends`: they are given up.
const GIVEN_UP: u32 = 1 << 29;

/// The structure in front of the buffers for each member.
#[derive(Debug)]
#[repr(C)]
struct Side {
    seat: CachePadded<Seat>,
    status: Status,
}

#[derive(Debug)]
#[repr(C)]
struct Seat {
    mark: Mark,
    /// Its number in the world.
    rank: AtomicU32,
}

/// See [`Descriptor::outline`].
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    /// The members that have not closed them and have not ended, as ranks of the world.
    pub(crate) present: Vec<u32>,
}

impl Descriptor {
    /// Returns the MPBs as a reader outside the world sees them.
    pub(crate) fn outline(&self) -> Outline {
        let present = self.members.iter().filter(|&rank| !self.gone.contains(rank)).collect();
        Outline { name: self.name.read(), present }
    }

    /// Returns whether every rank is there and wants the same.
    #[inline(always)]
    fn all_there(&self) -> bool {
        // Acquire: pairs with the Release in `tell_ends`, so that a look after this one sees the
        // flags that a rank had set before it went.
        self.ends.load(Ordering::Acquire) == 0
    }

    /// Updates `ends`. Must be called after a change, under the heap's lock.
    fn tell_ends(&self) {
        let lost = if self.lost.first().is_some() { LOST } else { 0 };
        let mismatch = if self.other.load(Ordering::Relaxed) != 0 { MISMATCH } else { 0 };
        let given_up = if self.given_up.load(Ordering::Relaxed) != 0 { GIVEN_UP } else { 0 };
        // Release: pairs with the Acquire in `all_there`: what a rank did before it went, and the
        // sets that tell of it.
        self.ends.store(self.gone.len() | lost | mismatch | given_up, Ordering::Release);
    }
}

/// Returns a number that changes when the structures in this module change.
pub(crate) fn layout() -> u64 {
    fingerprint([size_of::<Descriptor>(), size_of::<Side>(), size_of::<Line>()])
}

/// The layout of a block: the lines of so many ranks behind so many bytes.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    ranks: usize,
    lines: usize,
    before: usize,
}

const SIDES: usize = size_of::<Descriptor>();

impl Geometry {
    /// Returns the layout of the block with the first lines.
    fn near(ranks: usize, near: usize) -> Self {
        Self { ranks, lines: near, before: SIDES + ranks * size_of::<Side>() }
    }

    /// Returns the layout of the block with the other lines.
    fn far(ranks: usize, far: usize) -> Self {
        Self { ranks, lines: far, before: 0 }
    }

    /// Returns the alignment of each rank's lines in bytes: a page, or for few lines the pair of lines that goes from
    /// core to core together.
    fn grain(self) -> usize {
        if self.lines * LINE_BYTES < PAGE as usize { 2 * LINE_BYTES } else { PAGE as usize }
    }

    /// Returns the number of lines from one rank's MPB to the next.
    fn stride(self) -> usize {
        (self.lines * LINE_BYTES).next_multiple_of(self.grain()) / LINE_BYTES
    }

    /// Returns the distance from the start of a block's payload that lies at this place in the segment.
    fn first_line(self, payload: u64) -> u64 {
        (payload + self.before as u64).next_multiple_of(self.grain() as u64) - payload
    }

    fn buffers(self) -> u64 {
        (self.stride() * LINE_BYTES * self.ranks) as u64
    }

    /// Returns the size of the block, wherever it lies.
    fn block(self) -> u64 {
        self.first_line(0) + self.grain() as u64 + self.buffers()
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
    /// The number of lines that `first` leads to.
    near: usize,
    /// The first member's first line of the others, once this rank has used one.
    far: AtomicPtr<Line>,
    pub(super) agreed: u64,
    /// By their numbers in the world.
    members: Box<[u32]>,
    block: BlockKey,
    descriptor: NonNull<Descriptor>,
    sides: NonNull<Side>,
    first: NonNull<Line>,
    stride: usize,
}

// SAFETY: the pointers lead into the segment that `context` keeps mapped, to atomics.
unsafe impl Send for Opened {}
// SAFETY: a shared `Value` gives access to its pointer only, and the algorithms let in one thread at a time.
unsafe impl Sync for Opened {}

impl Opened {
    /// Opens this rank's access to the MPBs of these ranks of the world, and makes them if no other rank has.
    pub(super) fn open(
        context: Arc<Context>,
        name: &str,
        members: &[usize],
        mpbs: Mpbs,
    ) -> Result<Self, Error> {
        let Mpbs { lines, near, namespace, .. } = mpbs;
        let bad = |reason: String| Err(ErrorKind::BadMpbs { mpbs: name.into(), reason }.into());
        if name.len() > NAME || name.is_empty() || name.contains('\0') {
            return bad(format!("their name must have 1 to {NAME} bytes, none of them zero"));
        }
        let members = match check(&context, members)? {
            Ok(members) => members,
            Err(reason) => return bad(reason),
        };
        // So many that no sum of lengths overflows.
        let most = MOST_LINES.min((usize::MAX >> 16) / LINE_BYTES / members.world.len());
        if lines == 0 || lines > most {
            return bad(format!(
                "they are of {lines} lines for each rank, and can be of 1 to {most}"
            ));
        }
        let geometry = Geometry::near(members.world.len(), near);
        let named = (namespace, name);
        let heap = context.lock_heap()?;
        let (mut heap, block) = match find(&context, &heap, named)? {
            Some(block) => (heap, block),
            None => {
                drop(heap);
                // All members come at the same time, and what they want is large.
                let _alone = context.make_alone()?;
                context.find_or_make(
                    |heap| find(&context, heap, named),
                    || make(&context, named, &members.world, geometry, mpbs),
                    |heap, block| announce(&context, heap, named, &members.world, block),
                )?
            }
        };
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        let theirs = Wanted::read(&context, block, descriptor)?;
        let ours = Wanted { lines, near, members: members.world.clone() };
        if theirs != ours {
            descriptor.others.assign(&ours.members);
            descriptor.other_near.store(near as u64, Ordering::Relaxed);
            descriptor.other.store(lines as u64, Ordering::Relaxed);
            leave(&context, &mut heap, descriptor, block, context.me, Leaving::NeverOpened)?;
            return Err(ours.differ(theirs, name.into()));
        }
        let (sides, first) = parts(&context, block, geometry)?;
        let room = context.segment.heap().check(block, BlockKind::Mpbs)?;
        if room < geometry.block() {
            return Err(context
                .segment
                .corrupt("the length of MPBs", block.payload(), room)
                .into());
        }
        descriptor.opened.insert(context.me);
        let agreed = descriptor.agreed.load(Ordering::Relaxed);
        let descriptor = NonNull::from(descriptor);
        drop(heap);
        Ok(Self {
            me: members.me,
            ranks: geometry.ranks,
            stride: geometry.stride(),
            name: name.into(),
            members: members.world,
            context,
            lines,
            near,
            far: AtomicPtr::new(std::ptr::null_mut()),
            agreed,
            block,
            descriptor,
            sides,
            first,
        })
    }

    /// Returns the number in the world of a member.
    pub(super) fn world_rank(&self, rank: usize) -> Result<u32, Error> {
        let no_such = || ErrorKind::NoSuchRank { rank, size: self.ranks }.into();
        self.members.get(rank).copied().ok_or_else(no_such)
    }

    /// Wakes a member that exists.
    pub(super) fn ring(&self, rank: usize) {
        self.context.ring(self.members[rank]);
    }

    /// Returns the bell on which ranks sleep that are released together.
    pub(super) fn bell(&self) -> &Futex {
        &self.descriptor().bell
    }

    fn descriptor(&self) -> &Descriptor {
        // SAFETY: placed by `open` in the segment that `context` keeps mapped; the block is this
        // rank's at least until `drop`.
        unsafe { self.descriptor.as_ref() }
    }

    pub(super) fn serial(&self) -> u64 {
        self.descriptor().serial.load(Ordering::Relaxed)
    }

    /// Returns the place of the descriptor in the segment.
    pub(super) fn place(&self) -> u64 {
        self.block.payload()
    }

    /// Returns lines of a rank's MPB.
    #[inline(always)]
    pub(super) fn lines(&self, rank: usize, first: usize, count: usize) -> Result<&[Line], Error> {
        if rank >= self.ranks || first > self.near || count > self.near - first {
            return self.far_lines(rank, first, count);
        }
        // SAFETY: checked just now, and by `parts`: the MPB has these lines; they are atomics.
        Ok(unsafe {
            let start = self.first.add(rank * self.stride + first);
            std::slice::from_raw_parts(start.as_ptr(), count)
        })
    }

    #[inline(always)]
    pub(super) fn line(&self, rank: usize, line: usize) -> Result<&Line, Error> {
        if rank >= self.ranks || line >= self.near {
            return Ok(&self.far_lines(rank, line, 1)?[0]);
        }
        // SAFETY: as in `lines`.
        Ok(unsafe { self.first.add(rank * self.stride + line).as_ref() })
    }

    /// Works like [`lines`](Self::lines), for lines that are not near, if there are any.
    #[inline(never)]
    fn far_lines(&self, rank: usize, first: usize, count: usize) -> Result<&[Line], Error> {
        if rank >= self.ranks || first > self.lines || count > self.lines - first {
            return Err(self.misfit(rank, first, count));
        }
        if first < self.near {
            let reason = format!(
                "{count} lines from line {first} on are of both kinds: those from line {} on come later",
                self.near
            );
            return Err(ErrorKind::BadMpbs { mpbs: self.name.clone(), reason }.into());
        }
        // Acquire: pairs with the Release in `grow`, of another thread of the rank.
        let far = match NonNull::new(self.far.load(Ordering::Acquire)) {
            Some(far) => far,
            None => self.grow()?,
        };
        let stride = self.far_geometry().stride();
        // SAFETY: checked just now, and by `far_part`: there are these lines; they are atomics, and their block is
        // freed with that of this rank.
        Ok(unsafe {
            let start = far.add(rank * stride + first - self.near);
            std::slice::from_raw_parts(start.as_ptr(), count)
        })
    }

    fn far_geometry(&self) -> Geometry {
        Geometry::far(self.ranks, self.lines - self.near)
    }

    /// Finds the lines that are not near, or makes them.
    #[cold]
    fn grow(&self) -> Result<NonNull<Line>, Error> {
        let (context, geometry) = (&self.context, self.far_geometry());
        let heap = context.lock_heap()?;
        let (heap, block) = match far_of(&heap, self.block)? {
            Some(block) => (heap, block),
            None => {
                drop(heap);
                // All members come at the same time, and they are large.
                let _alone = context.make_alone()?;
                context.find_or_make(
                    |heap| far_of(heap, self.block),
                    || make_far(context, geometry),
                    |heap, block| Ok::<_, Error>(heap.enlist(block, far_hash(self.block))?),
                )?
            }
        };
        let room = context.segment.heap().check(block, BlockKind::Lines)?;
        if room < geometry.block() {
            let what = "the length of further lines of MPBs";
            return Err(context.segment.corrupt(what, block.payload(), room).into());
        }
        let far = far_part(context, block, geometry)?;
        drop(heap);
        // Release: pairs with the Acquire in `far_lines`.
        self.far.store(far.as_ptr(), Ordering::Release);
        Ok(far)
    }

    /// Returns the first of the lines of all MPBs, which lie one after the other.
    #[inline(always)]
    pub(super) fn whole(&self) -> NonNull<Line> {
        self.first
    }

    /// Returns a word that changes whenever a rank leaves; see [`Descriptor`].
    #[inline(always)]
    pub(super) fn ends(&self) -> u32 {
        // Acquire: as in `all_there`.
        self.descriptor().ends.load(Ordering::Acquire)
    }

    /// Returns the error of a member that was lost, even if these MPBs have not been told of it yet.
    pub(super) fn loss(&self) -> Option<Error> {
        let state = |rank| self.context.rank(rank).map(RankControl::state);
        let lost = |&&rank: &&u32| matches!(state(rank), Ok(RankState::Lost));
        self.failed(self.descriptor()).or_else(|| {
            let rank = *self.members.iter().find(lost)? as usize;
            Some(self.lost(rank))
        })
    }

    fn flag_wait(&self) -> Place {
        Place::Named { operation: Operation::Flag, name: self.name.clone() }
    }

    fn lost(&self, rank: usize) -> Error {
        ErrorKind::PeerLost { rank, world_rank: rank, place: self.flag_wait() }.into()
    }

    /// Returns whether this member has opened its MPB. It may have closed it since.
    pub(super) fn was_opened(&self, member: usize) -> bool {
        let rank = self.members.get(member);
        rank.is_some_and(|&rank| self.descriptor().opened.contains(rank))
    }

    pub(super) fn is_gone(&self, rank: usize) -> bool {
        self.descriptor().gone.contains(rank as u32)
    }

    pub(super) fn is_lost(&self, rank: usize) -> bool {
        self.descriptor().lost.contains(rank as u32)
    }

    pub(super) fn is_released(&self, rank: usize) -> bool {
        self.descriptor().released.contains(rank as u32)
    }

    /// Returns the mark of a rank, if the rank exists.
    #[inline(always)]
    pub(super) fn checked_mark(&self, rank: usize) -> Option<&Mark> {
        (rank < self.ranks).then(|| self.mark(rank))
    }

    #[cold]
    fn misfit(&self, rank: usize, first: usize, count: usize) -> Error {
        match self.world_rank(rank) {
            Err(error) => error,
            Ok(_) => {
                ErrorKind::NoSuchLines { mpbs: self.name.clone(), first, count, lines: self.lines }
                    .into()
            }
        }
    }

    /// Returns the mark of a member that exists.
    #[inline(always)]
    pub(super) fn mark(&self, rank: usize) -> &Mark {
        &self.side(rank).seat.mark
    }

    /// Returns the interrupts of a member that exists.
    pub(super) fn status(&self, rank: usize) -> &Status {
        &self.side(rank).status
    }

    #[inline(always)]
    fn side(&self, rank: usize) -> &Side {
        debug_assert!(rank < self.ranks);
        // SAFETY: there is one for each member (`parts`), and callers have checked the rank.
        unsafe { self.sides.add(rank).as_ref() }
    }

    /// States that this rank will not send any more interrupts that a rank waits for.
    pub(super) fn say_farewell(&self) {
        self.descriptor().farewells.insert(self.context.me);
    }

    /// Returns why an interrupt that is waited for may never come: a rank is gone that had not said so.
    pub(super) fn over_for_interrupts(&self) -> Option<Error> {
        let descriptor = self.descriptor();
        if descriptor.all_there() {
            return None;
        }
        let lost = self.failed(descriptor);
        let left = || !descriptor.gone.is_subset_of(&descriptor.farewells);
        lost.or_else(|| {
            left().then(|| Error::from(ErrorKind::Disconnected { channel: self.name.clone() }))
        })
    }

    /// Leaves as if the rank had ended: ranks that wait for its flags get
    /// [`Disconnected`](crate::ErrorKind::Disconnected).
    pub(super) fn depart(&self) -> Result<(), SegmentError> {
        self.leave_early(false)
    }

    /// Leaves as if the rank had died: ranks that wait for it get [`PeerLost`](crate::ErrorKind::PeerLost).
    pub(super) fn abandon(&self) -> Result<(), SegmentError> {
        self.leave_early(true)
    }

    fn leave_early(&self, lost: bool) -> Result<(), SegmentError> {
        let mut heap = self.context.lock_heap()?;
        let leaving = Leaving::Ended { lost, released: false };
        leave(&self.context, &mut heap, self.descriptor(), self.block, self.context.me, leaving)
    }

    /// Tells all members that the contents are given up because of this member. The first call counts.
    #[cold]
    pub(super) fn give_up(&self, rank: u32) -> Result<(), SegmentError> {
        let _heap = self.context.lock_heap()?;
        let descriptor = self.descriptor();
        if descriptor.given_up.load(Ordering::Relaxed) == 0 {
            descriptor.given_up.store(rank + 1, Ordering::Relaxed);
            descriptor.tell_ends();
            descriptor.members.iter().for_each(|rank| self.context.ring(rank));
        }
        Ok(())
    }

    /// Returns the rank because of which they are given up. A thread that saw [`ends`](Self::ends) change for that
    /// reason sees it.
    pub(super) fn given_up(&self) -> Option<u32> {
        self.descriptor().given_up.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Returns why no flag will be set any more or, if `setter` is known, no flag that only `setter` sets.
    pub(super) fn over(&self, setter: Option<usize>) -> Option<Error> {
        let descriptor = self.descriptor();
        if descriptor.all_there() {
            return None;
        }
        self.why_over(descriptor, setter)
    }

    /// Returns the error of a member that was lost, that wanted different MPBs, or that has revoked them.
    pub(super) fn failure(&self) -> Option<Error> {
        let descriptor = self.descriptor();
        if descriptor.all_there() { None } else { self.failed(descriptor) }
    }

    #[cold]
    fn why_over(&self, descriptor: &Descriptor, setter: Option<usize>) -> Option<Error> {
        if let Some(error) = self.failed(descriptor) {
            return Some(error);
        }
        let disconnected = match setter.and_then(|setter| self.members.get(setter)) {
            Some(&setter) => descriptor.gone.contains(setter),
            None => descriptor.gone.len() as usize + 1 >= self.ranks,
        };
        disconnected.then(|| Error::from(ErrorKind::Disconnected { channel: self.name.clone() }))
    }

    /// Returns the error of a member that wanted different MPBs or was lost, or of their revocation.
    #[cold]
    fn failed(&self, descriptor: &Descriptor) -> Option<Error> {
        let name = self.name.clone();
        let ends = descriptor.ends.load(Ordering::Acquire);
        if ends & GIVEN_UP != 0 {
            return Some(ErrorKind::Revoked { place: self.flag_wait() }.into());
        }
        if ends & MISMATCH != 0 {
            let theirs = Wanted {
                lines: descriptor.other.load(Ordering::Relaxed) as usize,
                near: descriptor.other_near.load(Ordering::Relaxed) as usize,
                members: descriptor.others.iter().collect(),
            };
            let (lines, near) = (self.lines, self.near);
            let ours = Wanted { lines, near, members: self.members.clone() };
            return Some(ours.differ(theirs, name));
        }
        if ends & LOST != 0 {
            let rank = descriptor.lost.first().unwrap_or_default() as usize;
            return Some(self.lost(rank));
        }
        None
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

/// A list of ranks of the world, checked.
struct Members {
    world: Box<[u32]>,
    /// This rank's place.
    me: usize,
}

/// Returns the reason if these ranks can't be members.
fn check(context: &Context, named: &[usize]) -> Result<Result<Members, String>, Error> {
    let mut world = Vec::with_capacity(named.len());
    let mut known = vec![false; context.size()];
    for &rank in named {
        world.push(context.check_rank(rank)?);
        if std::mem::replace(&mut known[rank], true) {
            return Ok(Err(format!(
                "rank {rank} is named twice among their ranks: name each once"
            )));
        }
    }
    Ok(match world.iter().position(|&rank| rank == context.me) {
        Some(me) => Ok(Members { world: world.into(), me }),
        None => {
            Err(format!("rank {} opens them and is not among their ranks {named:?}", context.me))
        }
    })
}

/// What a rank asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    lines: usize,
    /// The number of lines that are there at once.
    near: usize,
    members: Box<[u32]>,
}

impl Wanted {
    /// Reads what the maker of the MPBs asked for.
    fn read(
        context: &Context,
        block: BlockKey,
        descriptor: &Descriptor,
    ) -> Result<Self, SegmentError> {
        let sides = sides(context, block, descriptor.members.len() as usize)?;
        let members = sides.iter().map(|side| side.seat.rank.load(Ordering::Relaxed)).collect();
        let lines = descriptor.lines.load(Ordering::Relaxed) as usize;
        Ok(Self { lines, near: descriptor.near.load(Ordering::Relaxed) as usize, members })
    }

    /// Returns the error that says how two requests differ.
    fn differ(self, theirs: Self, mpbs: Arc<str>) -> Error {
        if (self.lines, self.near) == (theirs.lines, theirs.near) {
            let ranks = |members: Box<[u32]>| members.iter().map(|&rank| rank as usize).collect();
            let (ours, theirs) = (ranks(self.members), ranks(theirs.members));
            return ErrorKind::MpbRanksMismatch { mpbs, ours, theirs }.into();
        }
        let spec = |of: &Self| Mpbs::lines(of.lines).growing_from(of.near);
        let (ours, theirs) = (spec(&self), spec(&theirs));
        Error::from(ErrorKind::MpbMismatch { mpbs, ours, theirs })
    }
}

/// Leaves MPBs of this name that this rank is a member of and has not opened, if there are any.
pub(super) fn decline(context: &Context, name: &str, namespace: Namespace) -> Result<(), Error> {
    let mut heap = context.lock_heap()?;
    if let Some(block) = find(context, &heap, (namespace, name))? {
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        leave(context, &mut heap, descriptor, block, context.me, Leaving::NeverOpened)?;
    }
    Ok(())
}

/// Returns whether there are MPBs of this name that this rank is a member of and has not opened.
pub(super) fn is_there(context: &Context, name: &str, namespace: Namespace) -> Result<bool, Error> {
    let heap = context.lock_heap()?;
    Ok(find(context, &heap, (namespace, name))?.is_some())
}

/// Revokes all MPBs, of any namespace, whose names begin with `prefix` and that this rank is a member of. Tells the
/// world's ranks that there is news.
pub(super) fn revoke(context: &Context, prefix: &str) -> Result<(), SegmentError> {
    let heap = context.lock_heap()?;
    // Before the lock is given back: who opens further ones after this sees that there are news.
    context.world()?.tell_news();
    for block in heap.blocks()?.iter().filter(|b| b.kind == BlockKind::Mpbs && b.settled) {
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
        if !descriptor.members.contains(context.me) || !descriptor.name.read().starts_with(prefix) {
            continue;
        }
        if descriptor.given_up.load(Ordering::Relaxed) == 0 {
            descriptor.given_up.store(context.me + 1, Ordering::Relaxed);
            descriptor.tell_ends();
        }
    }
    drop(heap);
    for rank in 0..context.size() as u32 {
        context.ring(rank);
    }
    Ok(())
}

/// Returns the members' sides.
fn sides(context: &Context, block: BlockKey, ranks: usize) -> Result<&[Side], SegmentError> {
    let length = (ranks * size_of::<Side>()) as u64;
    let sides = context.segment.range(block.payload() + SIDES as u64, length, "MPBs")?;
    // SAFETY: in the segment, which `context` keeps mapped, and aligned as the payload is; a side is
    // made of atomics. Callers hold the heap's lock, so that the block is not freed meanwhile.
    Ok(unsafe { std::slice::from_raw_parts(sides.cast::<Side>().as_ptr(), ranks) })
}

/// Returns the members' sides and the first member's first line.
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

fn hash_of(namespace: Namespace, name: &str) -> u64 {
    hash(std::iter::once(namespace.word()).chain(name.bytes().map(u64::from)))
}

/// Finds the oldest MPBs by this name that this rank is a member of and has not opened yet. MPBs of several calls pair
/// up in the order of opening.
fn find(
    context: &Context,
    heap: &LockedHeap<'_>,
    (namespace, name): (Namespace, &str),
) -> Result<Option<BlockKey>, Error> {
    let mut oldest: Option<(u64, BlockKey)> = None;
    for block in heap.by_hash(hash_of(namespace, name))? {
        if block.kind != BlockKind::Mpbs {
            continue;
        }
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
        if descriptor.namespace.load(Ordering::Relaxed) == namespace.word()
            && descriptor.name.read() == name
            && descriptor.members.contains(context.me)
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

/// Makes complete MPBs that no rank can find yet.
fn make(
    context: &Context,
    (namespace, name): (Namespace, &str),
    members: &[u32],
    geometry: Geometry,
    mpbs: Mpbs,
) -> Result<BlockKey, Error> {
    let len = geometry.block();
    let block = context.allocate(BlockKind::Mpbs, len)?;
    let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
    let Descriptor { others, opened, gone, lost, farewells, released, .. } = descriptor;
    for set in [others, opened, gone, lost, farewells, released] {
        set.assign(&[]);
    }
    descriptor.members.assign(members);
    descriptor.namespace.store(namespace.word(), Ordering::Relaxed);
    descriptor.name.write(name);
    descriptor.lines.store(mpbs.lines as u64, Ordering::Relaxed);
    descriptor.near.store(mpbs.near as u64, Ordering::Relaxed);
    descriptor.agreed.store(mpbs.proposal, Ordering::Relaxed);
    descriptor.other.store(0, Ordering::Relaxed);
    descriptor.given_up.store(0, Ordering::Relaxed);
    descriptor.tell_ends();
    let (made, lines) = parts(context, block, geometry)?;
    // SAFETY: the block is new and known to nobody else; the places are in its range and aligned,
    // and zeros are sides of ranks that do nothing, and lines.
    unsafe {
        made.write_bytes(0, geometry.ranks);
        lines.write_bytes(0, geometry.stride() * geometry.ranks);
    }
    for (side, &rank) in sides(context, block, geometry.ranks)?.iter().zip(members) {
        side.seat.rank.store(rank, Ordering::Relaxed);
    }
    Ok(block)
}

/// Returns the hash under which the further lines of the MPBs in this block are found.
fn far_hash(block: BlockKey) -> u64 {
    hash([BlockKind::Lines as u64, block.word()].into_iter())
}

/// Returns the further lines of the MPBs in this block, if they were made.
fn far_of(heap: &LockedHeap<'_>, block: BlockKey) -> Result<Option<BlockKey>, Error> {
    let found = heap.by_hash(far_hash(block))?;
    Ok(found.iter().find(|found| found.kind == BlockKind::Lines).map(|found| found.key))
}

/// Makes further lines that no rank can find yet.
fn make_far(context: &Context, geometry: Geometry) -> Result<BlockKey, Error> {
    let block = context.allocate(BlockKind::Lines, geometry.block())?;
    let lines = far_part(context, block, geometry)?;
    // SAFETY: the block is new and known to nobody else; the place is in its range and aligned, and zeros are lines.
    unsafe { lines.write_bytes(0, geometry.stride() * geometry.ranks) };
    Ok(block)
}

/// Returns the first member's first further line.
fn far_part(
    context: &Context,
    block: BlockKey,
    geometry: Geometry,
) -> Result<NonNull<Line>, SegmentError> {
    let first = block.payload() + geometry.first_line(block.payload());
    Ok(context.segment.range(first, geometry.buffers(), "MPBs")?.cast())
}

/// Publishes new MPBs, so that the other ranks find them.
fn announce(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    (namespace, name): (Namespace, &str),
    members: &[u32],
    block: BlockKey,
) -> Result<(), Error> {
    let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
    let made = &context.world()?.channels;
    let serial = made.load(Ordering::Relaxed);
    made.store(serial.wrapping_add(1), Ordering::Relaxed);
    descriptor.serial.store(serial, Ordering::Relaxed);
    // Ranks that ended before will never open it. Before it can be found: a maker that dies here
    // leaves nothing that waits for them.
    for &rank in members {
        let state = context.rank(rank)?.state();
        if state.ended() && rank != context.me {
            let lost = state == RankState::Lost;
            let leaving = Leaving::Ended { lost, released: true };
            leave(context, heap, descriptor, block, rank, leaving)?;
        }
    }
    heap.enlist(block, hash_of(namespace, name))?;
    Ok(())
}

/// Takes a rank out, tells the others, and frees the MPBs when no rank is left.
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
    descriptor.members.iter().for_each(|rank| context.ring(rank));
    let sides = sides(context, block, descriptor.members.len() as usize)?;
    let statuses = sides.iter().map(|side| (side.seat.rank.load(Ordering::Relaxed), &side.status));
    interrupt::wake_everybody(context, statuses);
    let all_gone = descriptor.members.is_subset_of(&descriptor.gone);
    if all_gone && descriptor.opened.is_subset_of(&descriptor.released) {
        // Before the block by whose number they are found.
        for far in heap.by_hash(far_hash(block))? {
            if far.kind == BlockKind::Lines {
                heap.free(far.key)?;
            }
        }
        heap.delist(block)?;
        heap.free(block)?;
    }
    Ok(())
}

/// Takes a rank that ended out of all MPBs. `released` is true when its process is gone.
pub(crate) fn retire(
    context: &Context,
    rank: u32,
    lost: bool,
    released: bool,
) -> Result<(), SegmentError> {
    let mut heap = context.lock_heap()?;
    for block in heap.blocks()?.iter().filter(|b| b.kind == BlockKind::Mpbs && b.settled) {
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
        if !descriptor.members.contains(rank) {
            continue;
        }
        // Who never opened them holds nothing of them.
        let released = released || !descriptor.opened.contains(rank);
        let leaving = Leaving::Ended { lost, released };
        leave(context, &mut heap, descriptor, block.key, rank, leaving)?;
    }
    Ok(())
}
