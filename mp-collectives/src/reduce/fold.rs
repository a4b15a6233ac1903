//! Combination of the elements of all ranks in rank order.

use mp_core::Plain;
use mp_core::mpb::{Line, MpbAccess};

use super::operations::Operation;
use super::scratch::Scratch;
use super::vector::Vector;
use super::vectors::{append, combine, prepend};

/// Returns whether elements are combined word by word. Elements of other sizes cross the ends of lines, or are
/// structures, whose parts are vectorized only by a loop over many elements.
const fn goes_by_words<T>() -> bool {
    size_of::<T>() <= size_of::<u64>() && size_of::<T>().is_power_of_two()
}

/// Combines elements in an MPB with those of adjacent ranks. If `is_above`, the elements in the MPB are those of the
/// higher ranks.
pub(super) async fn combine_from<T: Plain, O: Operation<T>, M: MpbAccess>(
    mpb: &mut M,
    from: Line,
    target: &mut [T],
    operation: &O,
    is_above: bool,
    scratch: &mut Scratch,
) -> Result<(), M::Error> {
    if !goes_by_words::<T>() {
        let theirs = scratch.elements::<T>(target.len());
        mpb.get(from, bytemuck::cast_slice_mut(theirs)).await?;
        combine(operation, target, theirs, is_above);
        return Ok(());
    }
    if is_above {
        mpb.get_with(from, None, target, |left, right| operation.combine(left, right)).await
    } else {
        mpb.get_with(from, None, target, |right, left| operation.combine(left, right)).await
    }
}

/// A rank's own elements, and the place for the result, with room for the elements of the others. The elements of each
/// rank in turn are [got](Fold::get) from its MPB, or go to its [`room`](Fold::room) in some other way and are
/// [taken](Fold::take) from there.
pub(super) struct Fold<'a, T, O> {
    operation: &'a O,
    me: usize,
    vector: Vector<'a, T>,
    /// The combined elements of the ranks below this one.
    before: &'a mut [T],
    theirs: &'a mut [T],
}

impl<'a, T: Plain, O: Operation<T>> Fold<'a, T, O> {
    const WORDS: bool = goes_by_words::<T>();

    pub(super) fn new(
        operation: &'a O,
        me: usize,
        vector: Vector<'a, T>,
        scratch: &'a mut Scratch,
    ) -> Self {
        let count = vector.len();
        let (before, theirs) = scratch.elements(2 * count).split_at_mut(count);
        Fold { operation, me, vector, before, theirs }
    }

    /// Gets the next rank's elements from there on, or takes this rank's own in their turn.
    pub(super) async fn get<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        from: Line,
    ) -> Result<(), M::Error> {
        if !Self::WORDS {
            if from.rank != self.me {
                mpb.get(from, self.room(from.rank)).await?;
            }
            self.take(from.rank);
            return Ok(());
        }
        let Fold { operation, me, vector, before, .. } = self;
        let append = |left, right| operation.combine(left, right);
        let prepend = |right, left| operation.combine(left, right);
        match (from.rank, *me) {
            (0, 1) => {
                let (own, result) = vector.combined();
                mpb.get_with(from, own, result, prepend).await
            }
            // These are combined with those of rank 1, or were combined with those of rank 0.
            (0, 0) | (1, 1) => Ok(()),
            (rank, me) if rank == me => {
                self.take(me);
                Ok(())
            }
            (rank, me) if rank > me => {
                let (own, result) = vector.combined();
                mpb.get_with(from, own, result, append).await
            }
            (0, _) => mpb.get(from, bytemuck::cast_slice_mut(before)).await,
            _ => mpb.get_with(from, None, before, append).await,
        }
    }

    /// Combines the elements of two ranks, where the other rank's elements are already there. Leaves the result in
    /// their place as well.
    pub(super) async fn pass<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        there: Line,
    ) -> Result<(), M::Error> {
        if !Self::WORDS {
            for rank in 0..2 {
                self.get(mpb, Line { rank, ..there }).await?;
            }
            return mpb.put(bytemuck::cast_slice(self.vector.own()), there).await;
        }
        let Fold { operation, me, vector, .. } = self;
        let (own, result) = vector.combined();
        if *me == 0 {
            let append = |left, right| operation.combine(left, right);
            mpb.pass_with(there, own, result, append, there).await
        } else {
            let prepend = |right, left| operation.combine(left, right);
            mpb.pass_with(there, own, result, prepend, there).await
        }
    }

    /// Returns the room for the elements of another rank.
    pub(super) fn room(&mut self, rank: usize) -> &mut [u8] {
        bytemuck::cast_slice_mut(if rank == 0 { &mut *self.before } else { &mut *self.theirs })
    }

    /// Takes the next rank's elements; this rank's own come in their turn.
    pub(super) fn take(&mut self, rank: usize) {
        let Fold { operation, me, vector, before, theirs } = self;
        if rank == *me {
            let own = vector.begin();
            if rank > 0 {
                prepend(*operation, before, own);
            }
        } else if rank > *me {
            append(*operation, vector.begin(), theirs);
        } else if rank > 0 {
            append(*operation, before, theirs);
        }
    }
}
