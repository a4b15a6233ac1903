//! A named object in the segment, and how ranks leave it.

use std::ops::Deref;

use super::{
    members::{Leaving, Members},
    title::{Name, Title},
};
use crate::{
    context::{Context, RankState},
    segment::{BlockKey, BlockKind, LockedHeap, Offset, SegmentError, Shared},
    sync::Ordering,
};

/// The structure at the start of a named object's block.
pub(crate) trait Named: Shared + Sized {
    const KIND: BlockKind;
    /// What a rank that has opened the object knows about it, even if the object's words were overwritten since.
    type Known;

    fn title(&self) -> &Title;

    /// Returns the members, separately for each end if the object has two.
    fn sides(&self) -> &[Members] {
        &[]
    }

    /// Returns whether something else stands in for the members at this side, so that they do not leave it by their ends.
    fn is_kept(&self, _side: usize) -> bool {
        false
    }

    /// Returns whether the object is still needed when no member uses it any more.
    fn is_held(&self) -> bool {
        false
    }

    /// Tells the other members that a rank has left this side of the object.
    fn tell(_: &Object<'_, Self>, _side: usize) -> Result<(), SegmentError> {
        Ok(())
    }

    /// Frees what belongs to the object besides its own block. Called when no rank uses the object any more.
    fn clear(
        _: &Object<'_, Self>,
        _: &mut LockedHeap<'_>,
        _: Option<&Self::Known>,
    ) -> Result<(), SegmentError> {
        Ok(())
    }

    /// Removes a rank that has ended from the object in this block.
    fn retire(
        context: &Context,
        heap: &mut LockedHeap<'_>,
        key: BlockKey,
        rank: u32,
        ended: Leaving,
    ) -> Result<(), SegmentError> {
        let object = Object::<Self>::at(context, key)?;
        for (side, members) in object.leavable() {
            // A rank that never opened the object holds nothing of it.
            let released = ended.released || !members.opened.contains(rank);
            let leaving = Leaving { released, ..ended };
            if members.all.contains(rank) && object.take_out(heap, (side, rank), leaving, None)? {
                break;
            }
        }
        Ok(())
    }
}

/// A structure in the segment, at the start of a block.
#[derive(Debug)]
pub(crate) struct Object<'a, T> {
    pub(crate) context: &'a Context,
    pub(crate) key: BlockKey,
    start: &'a T,
}

impl<T> Deref for Object<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.start
    }
}

impl<'a, T: Shared> Object<'a, T> {
    pub(crate) fn at(context: &'a Context, key: BlockKey) -> Result<Self, SegmentError> {
        let start = context.segment.at(Offset::new(key.payload()))?;
        Ok(Self { context, key, start })
    }
}

impl<'a, T: Named> Object<'a, T> {
    /// Makes an object that no other rank can find yet. Its structure is zeroed, except for its title.
    pub(crate) fn new(
        context: &'a Context,
        name: Name<'_>,
        len: u64,
    ) -> Result<Self, SegmentError> {
        let key = context.allocate(T::KIND, len)?;
        let bytes = size_of::<T>();
        let start = context.segment.range(key.payload(), bytes as u64, "a new object")?;
        // SAFETY: the bytes are in range, no other thread knows the new block, and zeros are valid for the atomics of `T`.
        unsafe { start.write_bytes(0, bytes) };
        let new = Self::at(context, key)?;
        new.title().write(name);
        Ok(new)
    }

    /// Puts a new object where the other ranks find it. First removes the members that have ended or stay away, because
    /// they will never open it. If the maker dies in between, nobody finds an object that still waits for these
    /// members.
    pub(crate) fn publish(
        &self,
        heap: &mut LockedHeap<'_>,
        name: Name<'_>,
        stays_away: impl Fn(u32) -> bool,
    ) -> Result<(), SegmentError> {
        let made = &self.context.world()?.channels;
        let serial = made.load(Ordering::Relaxed);
        made.store(serial.wrapping_add(1), Ordering::Relaxed);
        self.title().serial.store(serial, Ordering::Relaxed);
        for (side, members) in self.leavable() {
            for rank in members.all.iter().filter(|&rank| rank != self.context.me) {
                let state = self.context.rank(rank)?.state();
                if state.ended() || stays_away(rank) {
                    let leaving = Leaving { lost: state == RankState::Lost, released: true };
                    self.take_out(heap, (side, rank), leaving, None)?;
                }
            }
        }
        // The bridge sets this before it looks for objects, and looks under the heap's lock, which is held here. So it finds
        // every object whose maker does not see this.
        if self.context.world()?.severed.load(Ordering::Relaxed) != 0 {
            self.lose_kept(heap)?;
        }
        heap.enlist(self.key, name.hash)
    }

    /// Removes all ranks, as lost, from the sides that a bridge keeps. There is no bridge any more.
    pub(crate) fn lose_kept(&self, heap: &mut LockedHeap<'_>) -> Result<(), SegmentError> {
        let kept = self.sides().iter().enumerate().filter(|&(side, _)| self.is_kept(side));
        for (side, members) in kept {
            for rank in members.all.iter().filter(|&rank| !members.gone.contains(rank)) {
                let lost = Leaving { lost: true, released: true };
                if self.take_out(heap, (side, rank), lost, None)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the sides that ranks leave when they end, with their numbers.
    fn leavable(&self) -> impl Iterator<Item = (usize, &Members)> {
        let sides = self.sides().iter().enumerate();
        sides.filter(|&(side, _)| !self.is_kept(side))
    }

    /// Checks that the block has at least this many bytes.
    pub(crate) fn check_len(&self, len: u64, what: &'static str) -> Result<(), SegmentError> {
        let room = self.context.segment.heap().check(self.key, T::KIND)?;
        if room >= len { Ok(()) } else { Err(self.corrupt(what)) }
    }

    pub(crate) fn corrupt(&self, what: &'static str) -> SegmentError {
        self.context.segment.corrupt(what, self.key.payload(), size_of::<T>() as u64)
    }

    /// Removes a rank from one side, tells the others, and frees the object if the rank was the last member. Returns
    /// whether it was. If this rank knows the object (`known`), its knowledge is used instead of the words in the
    /// segment.
    pub(crate) fn take_out(
        &self,
        heap: &mut LockedHeap<'_>,
        (side, rank): (usize, u32),
        leaving: Leaving,
        known: Option<&T::Known>,
    ) -> Result<bool, SegmentError> {
        self.sides()[side].leave(rank, leaving);
        T::tell(self, side)?;
        self.free_if_over(heap, known)
    }

    /// Frees the object if no member uses it any more, and nothing else needs it. Returns whether it was freed.
    pub(crate) fn free_if_over(
        &self,
        heap: &mut LockedHeap<'_>,
        known: Option<&T::Known>,
    ) -> Result<bool, SegmentError> {
        let over = self.sides().iter().all(Members::are_over) && !self.is_held();
        if over {
            T::clear(self, heap, known)?;
            heap.free(self.key)?;
        }
        Ok(over)
    }
}
