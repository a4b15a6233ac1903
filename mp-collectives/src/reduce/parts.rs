//! A rank's input to a reduce-scatter, and the place for its part of the result.

use mp_core::Plain;
use mp_core::mpb::MpbAccess;

use super::vector::Vector;
use crate::arguments::Cut;
use crate::layout::{Blocks, Layout, LayoutError};

/// One rank's vector, cut into a block for each rank, and the place for the result of its own block.
#[derive(Debug)]
pub struct Parts<'a, T> {
    me: usize,
    memory: Cut<'a, T>,
    /// The layout, in elements.
    layout: Layout<'a>,
}

impl<'a, T: Plain> Parts<'a, T> {
    /// Creates the parts of a vector. With a separate result, which is as long as the rank's block, the vector is only
    /// read. In place, the result takes the place of the rank's block, and the blocks of the other ranks stay as they
    /// are.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn new(
        mpb: &impl MpbAccess,
        memory: Cut<'a, T>,
        blocks: Blocks<'a>,
    ) -> Result<Self, LayoutError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        let own = match &memory {
            Cut::Apart { own, .. } => Some(own.len()),
            Cut::InPlace(_) => None,
        };
        let layout = Layout::new(blocks, (me, ranks), (own, memory.all()), 1)?;
        Ok(Parts { me, memory, layout })
    }

    /// Returns the number of elements in the longest block.
    pub(super) fn longest(&self) -> usize {
        self.layout.extremes().most
    }

    /// Returns this rank's elements of a rank's block.
    pub(super) fn block(&self, rank: usize) -> &[T] {
        let vector = match &self.memory {
            Cut::Apart { all, .. } => all,
            Cut::InPlace(vector) => &**vector,
        };
        &vector[self.layout.block(rank)]
    }

    /// Returns this rank's elements of its own block, and the place for the result.
    pub(super) fn own(&mut self) -> Vector<'_, T> {
        let block = self.layout.block(self.me);
        match &mut self.memory {
            // The layout was checked against both lengths.
            Cut::Apart { all, own } => Vector::of_block(&all[block], own),
            Cut::InPlace(vector) => Vector::from(&mut vector[block]),
        }
    }
}
