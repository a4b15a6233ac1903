//! Elements of all ranks, combined in the order of ranks.

use mp_core::Plain;

use super::operations::Operation;
use super::scratch::Scratch;
use super::vectors::{append, prepend};

/// A rank's own elements, which become the result, and room for those of the others: for each rank
/// in turn, its elements go to its [`room`](Fold::room), and then they are [taken](Fold::take).
pub(super) struct Fold<'a, T, O> {
    operation: &'a O,
    me: usize,
    own: &'a mut [T],
    /// Of the ranks below this one.
    before: &'a mut [T],
    theirs: &'a mut [T],
}

impl<'a, T: Plain, O: Operation<T>> Fold<'a, T, O> {
    pub(super) fn new(
        operation: &'a O,
        me: usize,
        own: &'a mut [T],
        scratch: &'a mut Scratch,
    ) -> Self {
        let count = own.len();
        let (before, theirs) = scratch.elements(2 * count).split_at_mut(count);
        Fold { operation, me, own, before, theirs }
    }

    /// For the elements of a rank other than this one.
    pub(super) fn room(&mut self, rank: usize) -> &mut [u8] {
        bytemuck::cast_slice_mut(if rank == 0 { &mut *self.before } else { &mut *self.theirs })
    }

    /// The next rank's elements; this one's own come in their turn.
    pub(super) fn take(&mut self, rank: usize) {
        let Fold { operation, me, own, before, theirs } = self;
        if rank == *me {
            if rank > 0 {
                prepend(*operation, before, own);
            }
        } else if rank > *me {
            append(*operation, own, theirs);
        } else if rank > 0 {
            append(*operation, before, theirs);
        }
    }
}
