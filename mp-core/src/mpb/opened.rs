//! A rank's access to MPBs, and how it opens and closes them.
//!
//! Members mostly open MPBs at the same time. One member makes the MPBs without the heap's lock, while it is the only
//! one to do so (`Context::make_alone`). The other members sleep until they find the MPBs.

use std::{ptr::NonNull, sync::Arc};

use super::{
    descriptor::{self, Descriptor, GIVEN_UP, LOST, MISMATCH, Side, geometry},
    interrupt::Status,
    lines::{Geometry, open_far},
    mark::{MOST_LINES, Mark},
    spec::{Growth, LATER, Mpbs},
    wanted::{Wanted, check},
};
use crate::{
    ErrorKind,
    context::{Context, RankControl, RankState},
    error::{Error, Place},
    line::{LINE_BYTES, Line},
    named::{Leaving, NAME, Name, Named, Object, find_or_make},
    segment::{BlockKey, SegmentError},
    sync::{AtomicPtr, Futex, Ordering},
    wait::Operation,
};

/// A rank's MPBs in this process's memory.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) context: Arc<Context>,
    pub(super) name: Arc<str>,
    pub(super) me: usize,
    pub(super) ranks: usize,
    growth: Growth,
    /// How many lines of each part that gets its memory later must be zero at first.
    zeroed: [usize; LATER],
    /// The near lines, and the parts that get their memory later.
    parts: [Part; 1 + LATER],
    pub(super) agreed: u64,
    /// The members' numbers in the world.
    members: Box<[u32]>,
    block: BlockKey,
    descriptor: NonNull<Descriptor>,
    sides: NonNull<Side>,
    first: NonNull<Line>,
}

/// A part of the lines of all members.
#[derive(Debug)]
struct Part {
    /// The first member's first line of this part. Null until this rank has used the part.
    base: AtomicPtr<Line>,
    /// The number of the part's first line, and that of the lines of each member.
    start: usize,
    count: usize,
    /// The number of lines from one member's to the next one's.
    stride: usize,
}

impl Part {
    /// Returns whether these lines are all of this part.
    #[inline(always)]
    fn has(&self, first: usize, count: usize) -> bool {
        // A line before the part wraps around to a great number.
        let offset = first.wrapping_sub(self.start);
        offset <= self.count && count <= self.count - offset
    }

    /// Returns lines of a member.
    ///
    /// # Safety
    /// `base` must be the part's first line. The part must [have](Self::has) the lines, and the member must exist.
    #[inline(always)]
    unsafe fn at(&self, base: NonNull<Line>, rank: usize, first: usize, count: usize) -> &[Line] {
        // SAFETY: `parts` or `open_far` has checked that all lines of the part are in the segment. Lines are atomics, so
        // they may be shared. Their block is freed together with the descriptor's, which this rank keeps until the owner
        // of this part is dropped.
        unsafe {
            let start = base.add(rank * self.stride + (first - self.start));
            std::slice::from_raw_parts(start.as_ptr(), count)
        }
    }
}

// SAFETY: the pointers lead to atomics in the segment, which `context` keeps mapped, whichever thread uses them.
unsafe impl Send for Opened {}
// SAFETY: as for `Send`. Several threads may use atomics at the same time, and the other fields are `Sync`.
unsafe impl Sync for Opened {}

impl Opened {
    /// Opens this rank's access to the MPBs of these ranks of the world. Makes the MPBs if no other rank has done so.
    pub(super) fn open(
        context: Arc<Context>,
        name: &str,
        members: &[usize],
        mpbs: Mpbs,
    ) -> Result<Self, Error> {
        let Mpbs { growth, zeroed, namespace, proposal, crosses, .. } = mpbs;
        let Growth { lines, .. } = growth;
        let bad = |reason: String| Err(ErrorKind::BadMpbs { mpbs: name.into(), reason }.into());
        let named = Name::new(namespace, name);
        if !named.is_valid() {
            return bad(format!("their name must have 1 to {NAME} bytes, none of them zero"));
        }
        let members = match check(&context, members)? {
            Ok(members) => members,
            Err(reason) => return bad(reason),
        };
        // This limit is so low that no sum of lengths overflows.
        let most = MOST_LINES.min((usize::MAX >> 16) / LINE_BYTES / members.world.len());
        if lines == 0 || lines > most {
            return bad(format!(
                "they are of {lines} lines for each rank, and can be of 1 to {most}"
            ));
        }
        if let Some(reason) = mpbs.fault() {
            return bad(reason);
        }
        if !crosses {
            let what = "message passing buffers, and what is made of them,";
            context.check_here(members.world.iter().copied(), what)?;
        }
        let geometry = geometry(members.world.len(), growth.near());
        let ours = Wanted { growth, members: members.world.clone() };
        let make = || {
            let new = Object::<Descriptor>::new(&context, named, geometry.block())?;
            new.write(&ours, geometry, (proposal, crosses))?;
            Ok(new)
        };
        // The MPBs are made `alone`, because all members come at the same time and the block is large.
        let (mut heap, descriptor, _) = find_or_make(
            &context,
            true,
            |heap| descriptor::of(&context, heap, named),
            make,
            |heap, new| new.publish(heap, named, |_| false),
        )?;
        let theirs = descriptor.wanted()?;
        if theirs != ours {
            descriptor.note_other(&ours);
            descriptor.take_out(&mut heap, (0, context.me), Leaving::CLOSED, None)?;
            return Err(ours.differ(theirs, name.into()));
        }
        let (sides, first) = descriptor.parts(geometry)?;
        let block = descriptor.key;
        descriptor.check_len(geometry.block(), "the length of MPBs")?;
        descriptor.members.opened.insert(context.me);
        let agreed = descriptor.agreed.load(Ordering::Relaxed);
        let parts = std::array::from_fn(|part| Part {
            base: AtomicPtr::new(if part == 0 { first.as_ptr() } else { std::ptr::null_mut() }),
            start: growth.part(part).start,
            count: growth.part(part).len(),
            stride: far_geometry(geometry.ranks, growth, part).stride(),
        });
        let descriptor = NonNull::from(&*descriptor);
        drop(heap);
        Ok(Self {
            me: members.me,
            ranks: geometry.ranks,
            name: name.into(),
            members: members.world,
            context,
            growth,
            zeroed,
            parts,
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

    /// Returns the place of a rank of the world among the members.
    pub(super) fn member(&self, world_rank: u32) -> Option<usize> {
        self.members.iter().position(|&member| member == world_rank)
    }

    /// Wakes a member that exists.
    pub(super) fn ring(&self, rank: usize) {
        self.context.ring(self.members[rank]);
    }

    /// Returns the common bell, on which ranks sleep that are released together.
    pub(super) fn bell(&self) -> &Futex {
        &self.descriptor().bell
    }

    fn descriptor(&self) -> &Descriptor {
        // SAFETY: `open` found the descriptor in the segment, which `context` keeps mapped. The block is not freed
        // before this rank leaves in `drop`.
        unsafe { self.descriptor.as_ref() }
    }

    pub(super) fn serial(&self) -> u64 {
        self.descriptor().title().serial()
    }

    /// Returns the place of the descriptor in the segment.
    pub(super) fn place(&self) -> u64 {
        self.block.payload()
    }

    /// Returns lines of a rank's MPB.
    #[inline(always)]
    pub(super) fn lines(&self, rank: usize, first: usize, count: usize) -> Result<&[Line], Error> {
        // The first two parts have what is short, so that this takes a considerable share of the time.
        let part = &self.parts[usize::from(first >= self.growth.near())];
        // Acquire: pairs with the Release in `grow`, which another thread of the rank may have called.
        match NonNull::new(part.base.load(Ordering::Acquire)) {
            // SAFETY: the rank and the lines were checked.
            Some(base) if rank < self.ranks && part.has(first, count) => unsafe {
                Ok(part.at(base, rank, first, count))
            },
            _ => self.far_lines(rank, first, count),
        }
    }

    #[inline(always)]
    pub(super) fn line(&self, rank: usize, line: usize) -> Result<&Line, Error> {
        Ok(&self.lines(rank, line, 1)?[0])
    }

    /// Works like [`lines`](Self::lines), for lines of any part.
    #[inline(never)]
    fn far_lines(&self, rank: usize, first: usize, count: usize) -> Result<&[Line], Error> {
        let Growth { lines, .. } = self.growth;
        if rank >= self.ranks || first > lines || count > lines - first {
            return Err(self.misfit(rank, first, count));
        }
        if count == 0 {
            return Ok(&[]);
        }
        let number = self.growth.part_of(first);
        let part = &self.parts[number];
        if !part.has(first, count) {
            let later = part.start + part.count;
            let reason = format!(
                "{count} lines from line {first} on are of two parts: those from line {later} on come later"
            );
            return Err(ErrorKind::BadMpbs { mpbs: self.name.clone(), reason }.into());
        }
        // Acquire: as in `lines`.
        let base = match NonNull::new(part.base.load(Ordering::Acquire)) {
            Some(base) => base,
            None => self.grow(number)?,
        };
        // SAFETY: the rank and the lines were checked.
        Ok(unsafe { part.at(base, rank, first, count) })
    }

    /// Finds the block of a part of the lines that get their memory later, or makes it.
    #[cold]
    fn grow(&self, part: usize) -> Result<NonNull<Line>, Error> {
        let geometry = far_geometry(self.ranks, self.growth, part);
        let far = open_far(&self.context, (self.block, part), geometry, self.zeroed[part - 1])?;
        // Release: pairs with the Acquire in `lines` and `far_lines`.
        self.parts[part].base.store(far.as_ptr(), Ordering::Release);
        Ok(far)
    }

    /// Returns the number of lines of each rank.
    pub(super) fn lines_of_each(&self) -> usize {
        self.growth.lines
    }

    /// Returns the first of the lines of all MPBs, which lie one after the other.
    #[inline(always)]
    pub(super) fn whole(&self) -> NonNull<Line> {
        self.first
    }

    /// Returns a word that changes whenever a rank leaves; see [`Descriptor`].
    #[inline(always)]
    pub(super) fn ends(&self) -> u32 {
        self.descriptor().ends()
    }

    fn flag_wait(&self) -> Place {
        Place::Named { operation: Operation::Flag, name: self.name.clone() }
    }

    fn lost(&self, rank: usize) -> Error {
        ErrorKind::PeerLost { rank, world_rank: rank, place: self.flag_wait() }.into()
    }

    /// Returns the error of a member that was lost, even if the descriptor does not show the loss yet.
    pub(super) fn loss(&self) -> Option<Error> {
        let state = |rank| self.context.rank(rank).map(RankControl::state);
        let lost = |&&rank: &&u32| matches!(state(rank), Ok(RankState::Lost));
        self.failed(self.descriptor()).or_else(|| {
            let rank = *self.members.iter().find(lost)? as usize;
            Some(self.lost(rank))
        })
    }

    /// Returns whether this member has opened its MPB. It may have closed it since.
    pub(super) fn was_opened(&self, member: usize) -> bool {
        let rank = self.members.get(member);
        rank.is_some_and(|&rank| self.descriptor().members.opened.contains(rank))
    }

    pub(super) fn is_gone(&self, rank: usize) -> bool {
        self.descriptor().members.gone.contains(rank as u32)
    }

    pub(super) fn is_lost(&self, rank: usize) -> bool {
        self.descriptor().members.lost.contains(rank as u32)
    }

    pub(super) fn is_released(&self, rank: usize) -> bool {
        self.descriptor().members.released.contains(rank as u32)
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
                let (mpbs, lines) = (self.name.clone(), self.growth.lines);
                ErrorKind::NoSuchLines { mpbs, first, count, lines }.into()
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
        // SAFETY: `parts` has checked that the segment has a side for each member, and callers have checked the rank.
        unsafe { self.sides.add(rank).as_ref() }
    }

    /// States that this rank will not send any more interrupts that a rank waits for.
    pub(super) fn say_farewell(&self) {
        self.descriptor().farewells.insert(self.context.me);
    }

    /// Returns why an awaited interrupt may never come: a member was lost, or is gone without a farewell.
    pub(super) fn over_for_interrupts(&self) -> Option<Error> {
        let descriptor = self.descriptor();
        if descriptor.all_there() {
            return None;
        }
        let lost = self.failed(descriptor);
        let left = || !descriptor.members.gone.is_subset_of(&descriptor.farewells);
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
        self.leave(Leaving { lost, released: false })
    }

    fn leave(&self, leaving: Leaving) -> Result<(), SegmentError> {
        let mut heap = self.context.lock_heap()?;
        let mpbs = Object::<Descriptor>::at(&self.context, self.block)?;
        mpbs.take_out(&mut heap, (0, self.context.me), leaving, None).map(drop)
    }

    /// Tells all members that the contents are given up because of this rank of the world. Only the first call has an effect.
    #[cold]
    pub(super) fn give_up(&self, rank: u32) -> Result<(), SegmentError> {
        let _heap = self.context.lock_heap()?;
        let descriptor = self.descriptor();
        if descriptor.give_up(rank) {
            descriptor.members.all.iter().for_each(|rank| self.context.ring(rank));
        }
        Ok(())
    }

    /// Returns the rank of the world because of which the contents are given up. A thread that saw [`ends`](Self::ends) change for
    /// that reason also sees the rank.
    pub(super) fn given_up(&self) -> Option<u32> {
        self.descriptor().given_up()
    }

    /// Returns why no flag will be set any more. If `setter` is given, returns why `setter` will set no flag any more.
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
            Some(&setter) => descriptor.members.gone.contains(setter),
            None => descriptor.members.gone.len() as usize + 1 >= self.ranks,
        };
        disconnected.then(|| Error::from(ErrorKind::Disconnected { channel: self.name.clone() }))
    }

    /// Returns the error of a revocation, of a member that wanted different MPBs, or of a member that was lost.
    #[cold]
    fn failed(&self, descriptor: &Descriptor) -> Option<Error> {
        let name = self.name.clone();
        let ends = descriptor.ends();
        if ends & GIVEN_UP != 0 {
            return Some(ErrorKind::Revoked { place: self.flag_wait() }.into());
        }
        if ends & MISMATCH != 0 {
            let ours = Wanted { growth: self.growth, members: self.members.clone() };
            return Some(ours.differ(descriptor.other(), name));
        }
        if ends & LOST != 0 {
            let rank = descriptor.members.lost.first().unwrap_or_default() as usize;
            return Some(self.lost(rank));
        }
        None
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // If the heap is too broken for this, the next allocation reports it.
        let _ = self.leave(Leaving::by_drop(false));
    }
}

/// Returns the layout of a part of the lines in a block of its own.
fn far_geometry(ranks: usize, growth: Growth, part: usize) -> Geometry {
    Geometry::new(ranks, growth.part(part).len(), 0)
}
