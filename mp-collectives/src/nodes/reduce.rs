//! Reductions between nodes.
//!
//! The ranks of each node combine a piece at their leader. For two nodes, the leaders then exchange their results. For
//! more, each piece is combined by one of the leaders, in turn, which sends the result to the others. Leaders combine in
//! the order of the nodes, so that the elements are combined in the order of ranks, and all have the same bits.
//!
//! If the communicator's ranks are not in the order of nodes, or if the elements must be combined one after the other
//! ([`Order::Ranks`]), all ranks get all vectors and combine them.

use std::ops::Range;

use mp_core::{Plain, Result};

use super::{Nodes, pieces};
use crate::arguments::Cut;
use crate::layout::{Blocks, Layout};
use crate::reduce::{Operation, Order, Vector};

impl Nodes {
    /// Combines the vectors of all ranks, for all ranks.
    pub(crate) fn all_reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let pieces = pieces::<T>(vector.len())?;
        self.begin()?;
        if self.one_by_one() {
            return pieces
                .into_iter()
                .try_for_each(|piece| self.combine_all(&mut vector[piece], operation));
        }
        let groups = self.groups.len();
        // The leader that combines a piece for all others, unless each combines all.
        let combiner = |piece: usize| (groups > 2 && pieces.len() > 1).then_some(piece % groups);
        let behind = if combiner(0).is_some() { 2 } else { 1 };
        let piece = |number: Option<usize>| Some((number?, pieces.get(number?)?.clone()));
        let mut room = Vec::new();
        for step in 0..pieces.len() + behind {
            if let Some((number, piece)) = piece(Some(step)) {
                self.here.reduce(&mut vector[piece.clone()], operation)?;
                if self.leads() {
                    let to = self.others().filter(|&to| combiner(number).is_none_or(|by| by == to));
                    self.send_to(to, &vector[piece])?;
                }
            }
            if self.leads()
                && let Some((number, piece)) = piece(step.checked_sub(1))
                && combiner(number).is_none_or(|by| by == self.mine)
            {
                self.combine(&mut vector[piece.clone()], operation, &mut room)?;
                if combiner(number).is_some() {
                    self.send_to(self.others(), &vector[piece])?;
                }
            }
            if let Some((number, piece)) = piece(step.checked_sub(behind)) {
                if self.leads()
                    && let Some(by) = combiner(number).filter(|&by| by != self.mine)
                {
                    let piece = bytemuck::cast_slice_mut(&mut vector[piece.clone()]);
                    self.link(by)?.receive(piece)?;
                }
                self.here.broadcast(bytemuck::cast_slice_mut(&mut vector[piece]), 0)?;
            }
        }
        Ok(())
    }

    /// Does what [`all_reduce`](Self::all_reduce) does with elements that are only read, and leaves the result in another
    /// place of the same length.
    pub(crate) fn all_reduce_from<T: Plain>(
        &mut self,
        own: &[T],
        result: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        self.all_reduce(Vector::apart(own, result)?.begin(), operation)
    }

    /// Does what [`reduce`](Self::reduce) does with elements that are only read, and leaves the result in another place of
    /// the same length at the root.
    pub(crate) fn reduce_from<T: Plain>(
        &mut self,
        own: &[T],
        result: &mut [T],
        operation: &impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        match self.me == root {
            true => self.reduce(Vector::apart(own, result)?.begin(), operation, root),
            false => self.reduce(&mut own.to_vec(), operation, root),
        }
    }

    /// Combines the vectors of all ranks in that of the root.
    pub(crate) fn reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        let (at, place) = self.place(root);
        let mut room = Vec::new();
        let pieces = pieces::<T>(vector.len())?;
        self.begin()?;
        for piece in pieces {
            let piece = &mut vector[piece];
            if self.one_by_one() {
                self.combine_all(piece, operation)?;
                continue;
            }
            self.here.reduce(piece, operation)?;
            if self.leads() && self.mine == at {
                self.combine(piece, operation, &mut room)?;
            } else if self.leads() {
                self.send_to([at], piece)?;
            }
            if self.mine == at && place > 0 {
                self.hand_to(place, bytemuck::cast_slice_mut(piece))?;
            }
        }
        Ok(())
    }

    /// Combines the vectors of all ranks, and leaves a block of the result at each.
    pub(crate) fn reduce_scatter<T: Plain>(
        &mut self,
        cut: Cut<'_, T>,
        blocks: Blocks<'_>,
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let own = match &cut {
            Cut::Apart { own, .. } => Some(own.len()),
            Cut::InPlace(_) => None,
        };
        let block =
            Layout::new(blocks, (self.me, self.members.len()), (own, cut.all()), 1)?.block(self.me);
        let mut all = match &cut {
            Cut::Apart { all, .. } => all.to_vec(),
            Cut::InPlace(all) => all.to_vec(),
        };
        self.all_reduce(&mut all, operation)?;
        match cut {
            Cut::Apart { own, .. } => own.copy_from_slice(&all[block]),
            Cut::InPlace(vector) => vector[block.clone()].copy_from_slice(&all[block]),
        }
        Ok(())
    }

    /// Returns whether the vectors have to be combined rank by rank, and not node by node.
    fn one_by_one(&self) -> bool {
        !self.in_order || self.settings.order == Order::Ranks
    }

    /// Sends a piece to the leaders of some groups.
    fn send_to<T: Plain>(
        &mut self,
        groups: impl IntoIterator<Item = usize>,
        piece: &[T],
    ) -> Result<()> {
        let piece = bytemuck::cast_slice(piece);
        groups.into_iter().try_for_each(|group| self.link(group)?.send(piece))
    }

    /// Combines a piece with those of the other leaders, in the order of the groups.
    fn combine<T: Plain>(
        &mut self,
        piece: &mut [T],
        operation: &impl Operation<T>,
        room: &mut Vec<T>,
    ) -> Result<()> {
        let mut left: Option<Vec<T>> = None;
        for group in self.others() {
            if group > self.mine
                && let Some(left) = left.take()
            {
                combine(piece, operation, |own, at| (left[at], own));
            }
            room.resize(piece.len(), T::zeroed());
            self.link(group)?.receive(bytemuck::cast_slice_mut(room))?;
            match &mut left {
                _ if group > self.mine => combine(piece, operation, |own, at| (own, room[at])),
                Some(left) => combine(left, operation, |left, at| (left, room[at])),
                None => left = Some(std::mem::take(room)),
            }
        }
        if let Some(left) = left {
            combine(piece, operation, |own, at| (left[at], own));
        }
        Ok(())
    }

    /// Combines the pieces of all ranks, in their order, at each of them.
    fn combine_all<T: Plain>(
        &mut self,
        piece: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let (length, ranks) = (piece.len(), self.members.len());
        let mut all = vec![T::zeroed(); length * ranks];
        self.all_gather(Some(piece), &mut all, Blocks::Equal)?;
        piece.copy_from_slice(&all[..length]);
        for next in all.chunks_exact(length).skip(1) {
            combine(piece, operation, |own, at| (own, next[at]));
        }
        Ok(())
    }

    /// Moves the leader's piece to another rank of this node.
    fn hand_to(&mut self, place: usize, piece: &mut [u8]) -> Result<()> {
        let leads = self.leads();
        let only: Range<usize> = place..place + 1;
        let length = piece.len() as u64;
        let lengths: Vec<u64> = match leads {
            true => (0..self.here.size())
                .map(|rank| if only.contains(&rank) { length } else { 0 })
                .collect(),
            false => Vec::new(),
        };
        let (all, own) = match leads {
            true => (&*piece, &mut [][..]),
            false if self.here.me() == place => (&[][..], piece),
            false => (&[][..], &mut [][..]),
        };
        self.here.scatter(&lengths, all, own)
    }
}

/// Replaces each element by the combination of the two that `operands` returns for it and its place.
fn combine<T: Plain>(
    elements: &mut [T],
    operation: &impl Operation<T>,
    operands: impl Fn(T, usize) -> (T, T),
) {
    for (at, element) in elements.iter_mut().enumerate() {
        let (left, right) = operands(*element, at);
        *element = operation.combine(left, right);
    }
}
