//! Scans between nodes. The last rank of a node sends what the ranks up to it have combined to the first rank of the next
//! node, which combines that with its own elements before the node's scan. So ranks wait for those above them only for room:
//! a node can be four pieces ahead of the next one.
//!
//! If the communicator's ranks are not in the order of nodes, each rank sends to the next one.

use mp_core::{Plain, Result};

use super::waiting::Waiting;
use super::{Nodes, pieces};
use crate::reduce::{Operation, Prefix};

impl<M: Waiting> Nodes<M> {
    /// Combines, for each rank, the vectors of the ranks below it, with or without its own.
    pub(crate) async fn scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
        prefix: Prefix,
    ) -> Result<()> {
        let pieces = pieces::<T>(vector.len())?;
        self.begin()?;
        self.open_scans()?;
        let (first, alone) = (self.is_first(), self.here.size() == 1 || !self.in_order);
        for piece in pieces {
            let piece = &mut vector[piece];
            let mut before = None;
            if let Some(below) = &mut self.below {
                let room = before.insert(vec![T::zeroed(); piece.len()]);
                below.receive(bytemuck::cast_slice_mut(room)).await?;
            }
            let own = piece.to_vec();
            if let Some(before) = &before {
                let all = before.iter().zip(piece.iter_mut());
                all.for_each(|(&before, own)| *own = operation.combine(before, *own));
            }
            let combined = match prefix {
                _ if alone => piece.to_vec(),
                Prefix::Inclusive => {
                    self.here.scan(piece, operation, prefix).await?;
                    piece.to_vec()
                }
                Prefix::Exclusive => {
                    self.here.scan(piece, operation, prefix).await?;
                    piece
                        .iter()
                        .zip(&own)
                        .map(|(&left, &own)| operation.combine(left, own))
                        .collect()
                }
            };
            if let Some(above) = &mut self.above {
                above.send(bytemuck::cast_slice(&combined)).await?;
            }
            if prefix == Prefix::Exclusive && (first || alone) {
                // The first rank of all keeps its elements.
                piece.copy_from_slice(before.as_deref().unwrap_or(&own));
            }
        }
        Ok(())
    }

    /// Opens the channels from the rank below and to the rank above, if this rank has any.
    pub(super) fn open_scans(&mut self) -> Result<()> {
        let last = self.groups[self.mine].last() == Some(&self.me);
        if self.below.is_none() && self.me > 0 && (self.is_first() || !self.in_order) {
            self.below = Some(self.open(self.me - 1, "scans")?);
        }
        if self.above.is_none() && self.me + 1 < self.members.len() && (last || !self.in_order) {
            self.above = Some(self.open(self.me + 1, "scans")?);
        }
        Ok(())
    }

    /// Returns whether this is the first rank of its node.
    fn is_first(&self) -> bool {
        self.groups[self.mine].first() == Some(&self.me)
    }
}
