//! The MPBs of one name in the segment.
//!
//! The MPBs that several ranks open by one name are one block of the heap: a [`Descriptor`], a [`Side`] for each
//! member, and the buffers. They are a [named](crate::named) object. If the MPBs [grow](super::Mpbs::growing_from),
//! this block has only the near lines, and the [far lines](super::lines) lie in further blocks.
//!
//! A member's number is its place in the list of ranks that all members name. The sets in the descriptor contain
//! numbers of ranks in the world.

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::{
    interrupt::{Status, wake_everybody},
    lines::{Geometry, free_far},
    mark::Mark,
    sheet::Sheet,
    spec::{Growth, LATER, Mpbs},
    wanted::Wanted,
};
use crate::{
    context::{Context, Namespace},
    error::Error,
    line::Line,
    named::{Leaving, Members, Name, Named, Object, RankSet, Title, find, find_or_make},
    segment::{BlockKind, LockedHeap, SegmentError, Shared, fingerprint},
    sync::{AtomicU32, AtomicU64, Futex, Ordering},
    word::Word,
};

/// The structure at the start of the block.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Descriptor {
    title: Title,
    /// The number of each rank's lines, and the first one of each part that gets its memory later.
    growth: [AtomicU64; 1 + LATER],
    /// The word proposed by the rank that made the MPBs.
    pub(super) agreed: AtomicU64,
    /// What a rank with different settings asked for, in the same order; zeros if there is no such rank.
    other: [AtomicU64; 1 + LATER],
    /// The members that the rank with different settings named.
    others: RankSet,
    pub(crate) members: Members,
    /// Members that will send no interrupt any more that a rank waits for. They may close their MPBs.
    pub(super) farewells: RankSet,
    /// 1 + the rank of the world because of whose loss the members have given up the contents, or that has revoked the
    /// MPBs; 0 if there is none.
    given_up: AtomicU32,
    /// Whether some members are on other nodes: [`HERE`], [`CROSSES`] or [`TOLD`].
    crosses: AtomicU32,
    /// What a waiting rank must know: the number of members that are gone, and the bits [`LOST`], [`MISMATCH`] and
    /// [`GIVEN_UP`]. It is hardly ever written, so a look at it usually hits the first-level cache.
    ends: CachePadded<AtomicU32>,
    /// The common bell, on which members sleep that are released together. Its value has no meaning.
    pub(super) bell: CachePadded<Futex>,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Descriptor {}

/// In `crosses`: all members are on this node.
const HERE: u32 = 0;
/// In `crosses`: some members are on other nodes, and this node's [`Bridge`](crate::bridge::Bridge) still has to tell what
/// members here do. The MPBs are not freed before it has.
const CROSSES: u32 = 1;
/// In `crosses`: some members are on other nodes, which know that all members here are gone.
const TOLD: u32 = 2;

/// In `ends`: a rank was lost.
pub(super) const LOST: u32 = 1 << 31;
/// In `ends`: a rank wanted different MPBs.
pub(super) const MISMATCH: u32 = 1 << 30;
/// In `ends`: the contents are given up.
pub(super) const GIVEN_UP: u32 = 1 << 29;

/// The structure in front of the buffers for each member.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Side {
    pub(super) seat: CachePadded<Seat>,
    pub(super) status: Status,
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Seat {
    pub(super) mark: Mark,
    /// The member's number in the world.
    rank: AtomicU32,
}

/// See [`Descriptor::outline`].
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    /// The members that have neither closed the MPBs nor ended, as ranks of the world.
    pub(crate) present: Vec<u32>,
}

impl Descriptor {
    /// Returns the MPBs as a reader outside the world sees them.
    pub(crate) fn outline(&self) -> Outline {
        Outline { name: self.title.name(), present: self.members.present() }
    }

    /// Returns whether no member is gone, all members want the same, and the contents are not given up.
    #[inline(always)]
    pub(super) fn all_there(&self) -> bool {
        self.ends() == 0
    }

    /// Returns a word that changes whenever a rank leaves.
    #[inline(always)]
    pub(super) fn ends(&self) -> u32 {
        // Acquire: pairs with the Release in `tell_ends`, so that a later look at a flag sees what a rank had set
        // before it left.
        self.ends.load(Ordering::Acquire)
    }

    /// Updates `ends` after a change of the other fields. Must be called under the heap's lock.
    fn tell_ends(&self) {
        let lost = if self.members.lost.first().is_some() { LOST } else { 0 };
        let mismatch = if read(&self.other).lines != 0 { MISMATCH } else { 0 };
        let given_up = if self.given_up().is_some() { GIVEN_UP } else { 0 };
        // Release: pairs with the Acquire in `ends`: a rank that sees the change also sees what the rank that left had
        // done, and the changed sets.
        self.ends.store(self.members.gone.len() | lost | mismatch | given_up, Ordering::Release);
    }

    /// Notes that the contents are given up because of this rank of the world. Returns false if they were given up already.
    pub(super) fn give_up(&self, rank: u32) -> bool {
        let first = self.given_up().is_none();
        if first {
            self.given_up.store(rank + 1, Ordering::Relaxed);
            self.tell_ends();
        }
        first
    }

    /// Returns the rank of the world because of which the contents are given up. A thread that saw [`ends`](Self::ends) change for
    /// that reason also sees the rank.
    pub(super) fn given_up(&self) -> Option<u32> {
        self.given_up.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes what a rank with different settings asks for. The bit [`MISMATCH`] is set when that rank leaves.
    pub(super) fn note_other(&self, other: &Wanted) {
        self.others.assign(&other.members);
        write(&self.other, other.growth);
    }

    /// Returns what the rank with different settings asked for.
    pub(super) fn other(&self) -> Wanted {
        Wanted { growth: read(&self.other), members: self.others.iter().collect() }
    }
}

fn read([lines, from @ ..]: &[AtomicU64; 1 + LATER]) -> Growth {
    let number = |word: &AtomicU64| word.load(Ordering::Relaxed) as usize;
    Growth { lines: number(lines), from: from.each_ref().map(number) }
}

fn write(growth: &[AtomicU64; 1 + LATER], Growth { lines, from }: Growth) {
    for (word, number) in growth.iter().zip([lines].into_iter().chain(from)) {
        word.store(number as u64, Ordering::Relaxed);
    }
}

/// Returns a number that changes when the structures in this module change.
pub(crate) fn layout() -> u64 {
    fingerprint([size_of::<Descriptor>(), size_of::<Side>(), size_of::<Line>()])
}

const SIDES: u64 = size_of::<Descriptor>() as u64;

/// Returns the layout of the block with the near lines.
pub(super) fn geometry(ranks: usize, near: usize) -> Geometry {
    Geometry::new(ranks, near, size_of::<Descriptor>() + ranks * size_of::<Side>())
}

impl Object<'_, Descriptor> {
    /// Initializes new MPBs.
    pub(super) fn write(
        &self,
        wanted: &Wanted,
        geometry: Geometry,
        (proposal, crosses): (u64, bool),
    ) -> Result<(), SegmentError> {
        self.crosses.store(if crosses { CROSSES } else { HERE }, Ordering::Relaxed);
        self.members.all.assign(&wanted.members);
        write(&self.growth, wanted.growth);
        self.agreed.store(proposal, Ordering::Relaxed);
        let (made, lines) = self.parts(geometry)?;
        // SAFETY: `parts` has checked that the places are in the segment, and they are aligned. No other rank knows the
        // new block. Zeros are valid lines, and valid sides of ranks that do nothing yet.
        unsafe {
            made.write_bytes(0, geometry.ranks);
            lines.write_bytes(0, geometry.stride() * geometry.ranks);
        }
        for (side, &rank) in self.members_sides(geometry.ranks)?.iter().zip(&wanted.members) {
            side.seat.rank.store(rank, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns what the maker of the MPBs asked for.
    pub(super) fn wanted(&self) -> Result<Wanted, SegmentError> {
        let members = self.seats()?.map(|(rank, _)| rank).collect();
        Ok(Wanted { growth: read(&self.growth), members })
    }

    /// Returns the ranks of the world that are members, in order, and the word that their maker proposed, if some of the
    /// members are on other nodes.
    pub(crate) fn crossing(&self) -> Result<Option<(Vec<u32>, u64)>, SegmentError> {
        if self.crosses.load(Ordering::Relaxed) == HERE {
            return Ok(None);
        }
        let members = self.seats()?.map(|(rank, _)| rank).collect();
        Ok(Some((members, self.agreed.load(Ordering::Relaxed))))
    }

    /// Returns the first `words` words of the buffers.
    fn words(&self, words: usize) -> Result<&[Word], SegmentError> {
        let geometry = geometry(self.members.all.len() as usize, read(&self.growth).near());
        let (_, first) = self.parts(geometry)?;
        let bytes = (words * size_of::<Word>()) as u64;
        if bytes > geometry.buffers() {
            return Err(self.corrupt("the words of a ballot"));
        }
        // SAFETY: `parts` has checked that the buffers are in the segment, which `context` keeps mapped, and they have so
        // many words, which are aligned. Words are atomics, for which all bytes are valid. Callers hold the heap's lock, so
        // the block is not freed meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(first.cast::<Word>().as_ptr(), words) })
    }

    /// Returns the sheet of a ballot, in which votes have `vote` words.
    pub(crate) fn sheet(&self, vote: usize) -> Result<Sheet<'_>, SegmentError> {
        let members = self.members.all.len() as usize;
        let sheet = Sheet::new(self.words(Sheet::words(members, vote))?, members, vote);
        sheet.ok_or_else(|| self.corrupt("the words of a ballot"))
    }

    /// Returns the name of the MPBs, with its namespace.
    pub(crate) fn name(&self) -> (Namespace, String) {
        (self.title.namespace(), self.title.name())
    }

    /// Notes that the other nodes know that all members here are gone. Frees the MPBs if all members are.
    pub(crate) fn let_go(&self, heap: &mut LockedHeap<'_>) -> Result<(), SegmentError> {
        self.crosses.store(TOLD, Ordering::Relaxed);
        self.free_if_over(heap, None).map(drop)
    }

    /// Returns the members, in order, each with the status of its interrupts.
    fn seats(&self) -> Result<impl Iterator<Item = (u32, &Status)>, SegmentError> {
        let sides = self.members_sides(self.members.all.len() as usize)?;
        Ok(sides.iter().map(|side| (side.seat.rank.load(Ordering::Relaxed), &side.status)))
    }

    /// Returns the members' sides.
    fn members_sides(&self, ranks: usize) -> Result<&[Side], SegmentError> {
        let (first, length) = (self.key.payload() + SIDES, (ranks * size_of::<Side>()) as u64);
        let sides = self.context.segment.range(first, length, "MPBs")?;
        // SAFETY: `range` has checked that the sides are in the segment, which `context` keeps mapped. They are aligned
        // because the payload is, and consist of atomics. Callers hold the heap's lock, so the block is not freed
        // meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(sides.cast::<Side>().as_ptr(), ranks) })
    }

    /// Returns the members' sides and the first member's first line.
    pub(super) fn parts(
        &self,
        geometry: Geometry,
    ) -> Result<(NonNull<Side>, NonNull<Line>), SegmentError> {
        let (payload, segment) = (self.key.payload(), &self.context.segment);
        let first = geometry.first_line(payload);
        let sides = segment.range(payload + SIDES, first - SIDES, "MPBs")?;
        let lines = segment.range(payload + first, geometry.buffers(), "MPBs")?;
        Ok((sides.cast(), lines.cast()))
    }
}

impl Named for Descriptor {
    const KIND: BlockKind = BlockKind::Mpbs;
    type Known = ();

    fn title(&self) -> &Title {
        &self.title
    }

    fn sides(&self) -> &[Members] {
        std::slice::from_ref(&self.members)
    }

    fn is_held(&self) -> bool {
        self.crosses.load(Ordering::Relaxed) == CROSSES
    }

    fn tell(mpbs: &Object<'_, Self>, _: usize) -> Result<(), SegmentError> {
        mpbs.tell_ends();
        if mpbs.crosses.load(Ordering::Relaxed) != HERE {
            mpbs.context.world()?.channels.fetch_add(1, Ordering::Relaxed);
        }
        mpbs.members.all.iter().for_each(|rank| mpbs.context.ring(rank));
        wake_everybody(mpbs.context, mpbs.seats()?);
        Ok(())
    }

    /// Frees the far lines.
    fn clear(
        mpbs: &Object<'_, Self>,
        heap: &mut LockedHeap<'_>,
        _: Option<&()>,
    ) -> Result<(), SegmentError> {
        free_far(heap, mpbs.key)
    }
}

/// Returns the oldest MPBs of this name that this rank is a member of and has not opened yet.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    name: Name<'_>,
) -> Result<Option<Object<'a, Descriptor>>, SegmentError> {
    find(context, heap, name, |found: &Descriptor| found.members.expect(context.me))
}

/// Finds the ballot of this name and these ranks of several nodes, or makes it in the name of this rank, which is one of
/// them and is not thereby taken to have opened it. `proposal` is the word that its members propose, and `lines` is the
/// number of lines of each.
pub(crate) fn find_or_make_ballot<'a>(
    context: &'a Context,
    name: Name<'_>,
    members: &[u32],
    (lines, proposal): (usize, u64),
) -> Result<(LockedHeap<'a>, Object<'a, Descriptor>), SegmentError> {
    let geometry = geometry(members.len(), lines);
    let wanted = Wanted { growth: Mpbs::lines(lines).growth, members: members.into() };
    let make = || {
        let new = Object::<Descriptor>::new(context, name, geometry.block())?;
        new.write(&wanted, geometry, (proposal, true))?;
        Ok(new)
    };
    let (heap, found, _) = find_or_make(
        context,
        false,
        |heap| find_ballot(context, heap, name, members),
        make,
        |heap, new| new.publish(heap, name, |_| false),
    )?;
    Ok((heap, found))
}

/// Finds the ballot of this name and these ranks of several nodes.
pub(crate) fn find_ballot<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    name: Name<'_>,
    members: &[u32],
) -> Result<Option<Object<'a, Descriptor>>, SegmentError> {
    find(context, heap, name, |found: &Descriptor| {
        found.crosses.load(Ordering::Relaxed) != HERE && found.members.all.equals(members)
    })
}

/// Leaves MPBs of this name that this rank is a member of and has not opened, if there are any.
pub(super) fn decline(context: &Context, text: &str, namespace: Namespace) -> Result<(), Error> {
    let mut heap = context.lock_heap()?;
    if let Some(mpbs) = of(context, &heap, Name::new(namespace, text))? {
        mpbs.take_out(&mut heap, (0, context.me), Leaving::by_drop(false), None)?;
    }
    Ok(())
}

/// Returns whether there are MPBs of this name that this rank is a member of and has not opened.
pub(super) fn is_there(context: &Context, text: &str, namespace: Namespace) -> Result<bool, Error> {
    let heap = context.lock_heap()?;
    Ok(of(context, &heap, Name::new(namespace, text))?.is_some())
}

/// Revokes all MPBs, in any namespace, whose names begin with `prefix` and that this rank is a member of. Tells all
/// ranks of the world that there is news.
pub(super) fn revoke(context: &Context, prefix: &str) -> Result<(), SegmentError> {
    let heap = context.lock_heap()?;
    // Tell the news before the lock is released, so that a rank that opens MPBs afterwards sees the news.
    context.world()?.tell_news();
    for block in heap.blocks()?.iter().filter(|b| b.kind == BlockKind::Mpbs && b.settled) {
        let mpbs = Object::<Descriptor>::at(context, block.key)?;
        if mpbs.members.all.contains(context.me) && mpbs.title().name().starts_with(prefix) {
            mpbs.give_up(context.me);
        }
    }
    drop(heap);
    for rank in 0..context.begun() {
        context.ring(rank);
    }
    Ok(())
}
