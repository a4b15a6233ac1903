//! Scans between nodes. The last rank of a node sends what the ranks up to it have combined to the first rank of the next
//! node, which combines that with its own elements before the node's scan. So no rank waits for ranks above it.
//!
//! If the communicator's ranks are not in the order of nodes, each rank sends to the next one.

use mp_core::{Plain, Result};

use super::link::Link;
use super::{Nodes, pieces};
use crate::errors::bad_call;
use crate::reduce::{Operation, Prefix};

impl Nodes {
    /// Combines, for each rank, the vectors of the ranks below it, with or without its own.
    pub(crate) fn scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
        prefix: Prefix,
    ) -> Result<()> {
        let ranks = &self.groups[self.mine];
        let (first, last) = (ranks.first() == Some(&self.me), ranks.last() == Some(&self.me));
        let receives = self.me > 0 && (first || !self.in_order);
        let sends = self.me + 1 < self.members.len() && (last || !self.in_order);
        let alone = ranks.len() == 1 || !self.in_order;
        for piece in pieces::<T>(vector.len())? {
            let piece = &mut vector[piece];
            let before = match receives {
                true => Some(self.from_below(piece.len())?),
                false => None,
            };
            let own = piece.to_vec();
            if let Some(before) = &before {
                let all = before.iter().zip(piece.iter_mut());
                all.for_each(|(&before, own)| *own = operation.combine(before, *own));
            }
            let combined = match prefix {
                _ if alone => piece.to_vec(),
                Prefix::Inclusive => {
                    self.here.scan(piece, operation)?;
                    piece.to_vec()
                }
                Prefix::Exclusive => {
                    self.here.exclusive_scan(piece, operation)?;
                    piece
                        .iter()
                        .zip(&own)
                        .map(|(&left, &own)| operation.combine(left, own))
                        .collect()
                }
            };
            if sends {
                self.to_above(bytemuck::cast_slice(&combined))?;
            }
            if prefix == Prefix::Exclusive && (first || alone) {
                // The first rank of all keeps its elements.
                piece.copy_from_slice(before.as_deref().unwrap_or(&own));
            }
        }
        Ok(())
    }

    fn from_below<T: Plain>(&mut self, length: usize) -> Result<Vec<T>> {
        let mut before = vec![T::zeroed(); length];
        if self.below.is_none() {
            self.below = Some(self.neighbour(self.me - 1)?);
        }
        let below = self.below.as_mut().ok_or_else(|| bad_call("no rank is below"))?;
        below.receive(bytemuck::cast_slice_mut(&mut before))?;
        Ok(before)
    }

    fn to_above(&mut self, piece: &[u8]) -> Result<()> {
        if self.above.is_none() {
            self.above = Some(self.neighbour(self.me + 1)?);
        }
        self.above.as_mut().ok_or_else(|| bad_call("no rank is above"))?.send(piece)
    }

    fn neighbour(&self, rank: usize) -> Result<Link> {
        let name = format!("{}scans", self.name);
        Link::open(&self.rank, &name, (rank, self.members[rank]), self.settings.wait)
    }
}
