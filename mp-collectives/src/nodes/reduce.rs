//! Reductions between nodes.
//!
//! The ranks of each node combine a piece at their leader. Then the leaders combine what they have, in one of several ways
//! ([`Combining`]): short vectors in rounds, in each of which they have the combination of twice as many nodes, and long
//! ones each a part, of which they send the result to the others. To a root, elements go along a tree. Leaders combine in
//! the order of the nodes, so that the elements are combined in the order of ranks, and all have the same bits.
//!
//! If the communicator's ranks are not in the order of nodes, or if the elements must be combined one after the other
//! ([`Order::Ranks`]), all ranks get all vectors and combine them.

use std::ops::Range;

use mp_core::{Plain, Result};
use mp_model::nodes::leaders::{Combining, Parts, Round, around, doubling, runs, to_root};

use super::waiting::Waiting;
use super::{Nodes, cut, pieces};
use crate::arguments::Cut;
use crate::layout::{Blocks, Layout};
use crate::reduce::{Operation, Order, Vector};

impl<M: Waiting> Nodes<M> {
    /// Combines the vectors of all ranks, for all ranks.
    pub(crate) async fn all_reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let pieces = pieces::<T>(vector.len())?;
        self.begin()?;
        if self.one_by_one() {
            for piece in pieces {
                self.combine_all(&mut vector[piece], operation).await?;
            }
            return Ok(());
        }
        match Combining::of(self.groups.len(), size_of_val(vector)) {
            Combining::Doubling => self.all_reduce_by_doubling(vector, &pieces, operation).await,
            Combining::InTurns => self.all_reduce_in_turns(vector, operation).await,
            Combining::Everywhere => {
                for piece in pieces {
                    let piece = &mut vector[piece];
                    self.here.reduce(piece, operation).await?;
                    if self.leads() {
                        self.send_to(self.others(), piece).await?;
                        self.combine(piece, operation, &mut Vec::new()).await?;
                    }
                    self.here.broadcast(bytemuck::cast_slice_mut(piece), 0).await?;
                }
                Ok(())
            }
        }
    }

    /// Combines the vectors of all ranks in turns, in each of which each leader combines a part. While leaders combine the
    /// parts of a turn, those of the next one are on their way, and the results of the last one.
    async fn all_reduce_in_turns<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let (groups, mine, leads) = (self.groups.len(), self.mine, self.leads());
        let mut room = Vec::new();
        let Parts { length, together } = Parts::of(groups, vector.len(), size_of::<T>());
        let parts = cut(vector.len(), length);
        let turns: Vec<&[Range<usize>]> = parts.chunks(groups).collect();
        let part = |turn: Option<usize>, by: usize| turns.get(turn?)?.get(by).cloned();
        // All parts of a run that the turn has.
        let span = |turn: Option<usize>, run: &Range<usize>| {
            let turn = turns.get(turn?)?;
            let parts = turn.get(run.start..run.end.min(turn.len()))?;
            Some(parts.first()?.start..parts.last()?.end)
        };
        for turn in 0..turns.len() + 2 {
            let (last, before) = (turn.checked_sub(1), turn.checked_sub(2));
            for run in runs(mine, groups, together) {
                let Some(span) = span(Some(turn), &run) else { continue };
                self.here.reduce(&mut vector[span], operation).await?;
                for by in run.filter(|&by| leads && by != mine) {
                    let Some(part) = part(Some(turn), by) else { break };
                    self.send_to([by], &vector[part]).await?;
                }
            }
            if leads && let Some(part) = part(last, mine) {
                self.combine(&mut vector[part.clone()], operation, &mut room).await?;
                self.send_to(around(mine, groups).filter(|&to| to != mine), &vector[part]).await?;
            }
            for run in runs(mine, groups, together).rev() {
                let Some(span) = span(before, &run) else { continue };
                for by in run.rev().filter(|&by| leads && by != mine) {
                    let Some(part) = part(before, by) else { continue };
                    let part = bytemuck::cast_slice_mut(&mut vector[part]);
                    self.link(by)?.receive(part).await?;
                }
                self.here.broadcast(bytemuck::cast_slice_mut(&mut vector[span]), 0).await?;
            }
        }
        Ok(())
    }

    /// Combines the vectors of all ranks in rounds in which two leaders exchange what they have. The first round of a piece
    /// begins before the others of the last one.
    async fn all_reduce_by_doubling<T: Plain>(
        &mut self,
        vector: &mut [T],
        pieces: &[Range<usize>],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let (mut rounds, mut room) = (doubling(self.groups.len()), Vec::new());
        let first = rounds.next();
        for step in 0..pieces.len() + 1 {
            if let Some(piece) = pieces.get(step) {
                let piece = &mut vector[piece.clone()];
                self.here.reduce(piece, operation).await?;
                self.send_in(first, piece).await?;
            }
            if let Some(piece) = step.checked_sub(1).and_then(|last| pieces.get(last)) {
                let piece = &mut vector[piece.clone()];
                self.receive_in(first, piece, operation, &mut room).await?;
                for round in rounds.clone() {
                    self.send_in(Some(round), piece).await?;
                    self.receive_in(Some(round), piece, operation, &mut room).await?;
                }
                self.here.broadcast(bytemuck::cast_slice_mut(piece), 0).await?;
            }
        }
        Ok(())
    }

    /// Does what [`all_reduce`](Self::all_reduce) does with elements that are only read, and leaves the result in another
    /// place of the same length.
    pub(crate) async fn all_reduce_from<T: Plain>(
        &mut self,
        own: &[T],
        result: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        self.all_reduce(Vector::apart(own, result)?.begin(), operation).await
    }

    /// Does what [`reduce`](Self::reduce) does with elements that are only read, and leaves the result in another place of
    /// the same length at the root.
    pub(crate) async fn reduce_from<T: Plain>(
        &mut self,
        own: &[T],
        result: &mut [T],
        operation: &impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        match self.me == root {
            true => self.reduce(Vector::apart(own, result)?.begin(), operation, root).await,
            false => self.reduce(&mut own.to_vec(), operation, root).await,
        }
    }

    /// Combines the vectors of all ranks in that of the root.
    pub(crate) async fn reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        let (at, place) = self.place(root)?;
        let mut room = Vec::new();
        let pieces = pieces::<T>(vector.len())?;
        self.begin()?;
        for piece in pieces {
            let piece = &mut vector[piece];
            if self.one_by_one() {
                self.combine_all(piece, operation).await?;
                continue;
            }
            self.here.reduce(piece, operation).await?;
            for round in to_root(self.groups.len(), at) {
                self.send_in(Some(round), piece).await?;
                self.receive_in(Some(round), piece, operation, &mut room).await?;
            }
            if self.mine == at && place > 0 {
                self.hand_to(place, bytemuck::cast_slice_mut(piece)).await?;
            }
        }
        Ok(())
    }

    /// Combines the vectors of all ranks, and leaves a block of the result at each.
    pub(crate) async fn reduce_scatter<T: Plain>(
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
        self.all_reduce(&mut all, operation).await?;
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
    async fn send_to<T: Plain>(
        &mut self,
        groups: impl IntoIterator<Item = usize>,
        piece: &[T],
    ) -> Result<()> {
        let piece = bytemuck::cast_slice(piece);
        for group in groups {
            self.link(group)?.send(piece).await?;
        }
        Ok(())
    }

    /// Sends what this leader has of a piece to the leader that gets it in a round. Other ranks send nothing.
    async fn send_in<T: Plain>(&mut self, round: Option<Round>, piece: &[T]) -> Result<()> {
        let to = round.filter(|_| self.leads()).and_then(|round| round.to(self.mine));
        self.send_to(to, piece).await
    }

    /// Receives what this leader gets in a round, and combines what it has with that, or replaces it by the result. Other
    /// ranks receive nothing.
    async fn receive_in<T: Plain>(
        &mut self,
        round: Option<Round>,
        piece: &mut [T],
        operation: &impl Operation<T>,
        room: &mut Vec<T>,
    ) -> Result<()> {
        let Some(round) = round.filter(|_| self.leads()) else { return Ok(()) };
        let Some(from) = round.from(self.mine) else { return Ok(()) };
        if !round.combines() {
            return self.link(from)?.receive(bytemuck::cast_slice_mut(piece)).await;
        }
        room.resize(piece.len(), T::zeroed());
        self.link(from)?.receive(bytemuck::cast_slice_mut(room)).await?;
        match from < self.mine {
            true => combine(piece, operation, |own, at| (room[at], own)),
            false => combine(piece, operation, |own, at| (own, room[at])),
        }
        Ok(())
    }

    /// Combines a piece with those of the other leaders, in the order of the groups.
    async fn combine<T: Plain>(
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
            self.link(group)?.receive(bytemuck::cast_slice_mut(room)).await?;
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
    async fn combine_all<T: Plain>(
        &mut self,
        piece: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        let (length, ranks) = (piece.len(), self.members.len());
        let mut all = vec![T::zeroed(); length * ranks];
        self.all_gather(Some(piece), &mut all, Blocks::Equal).await?;
        piece.copy_from_slice(&all[..length]);
        for next in all.chunks_exact(length).skip(1) {
            combine(piece, operation, |own, at| (own, next[at]));
        }
        Ok(())
    }

    /// Moves the leader's piece to another rank of this node.
    async fn hand_to(&mut self, place: usize, piece: &mut [u8]) -> Result<()> {
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
        self.here.scatter(&lengths, all, own).await
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
