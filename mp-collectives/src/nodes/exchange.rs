//! Gathers, scatters and all-to-alls between nodes: leaders gather what the ranks of their node send, exchange it, and
//! scatter what these receive.
//!
//! What a leader sends to another is a *pack*: the number of bytes of each block, and then the blocks.

use std::borrow::Cow;

use mp_core::{ErrorKind, Plain, Result};
use mp_model::nodes::leaders::PIECE;

use super::Nodes;
use super::waiting::Waiting;
use crate::arguments::Cut;
use crate::layout::{Blocks, Layout, LayoutError, packed};

/// The number of bytes of a block's length in a pack.
const WORD: usize = size_of::<u64>();

impl<M: Waiting> Nodes<M> {
    /// Gathers the blocks of all ranks at the root.
    pub(crate) async fn gather<T: Plain>(
        &mut self,
        own: Option<&[T]>,
        all: &mut [T],
        blocks: Blocks<'_>,
        root: usize,
    ) -> Result<()> {
        let (at, place) = self.place(root)?;
        let layout = match self.me == root {
            true => Some(self.layout(blocks, own.map(<[T]>::len), all)?),
            false => None,
        };
        self.begin()?;
        let all: &mut [u8] = bytemuck::cast_slice_mut(all);
        let own: Cow<'_, [u8]> = match (own, &layout) {
            (Some(own), _) => bytemuck::cast_slice(own).into(),
            (None, Some(layout)) => all[layout.block(self.me)].to_vec().into(),
            (None, None) => Cow::Borrowed(&*all),
        };
        let pack = pack(self.here.gather(&own).await?);
        if self.mine != at {
            return if self.leads() { self.link(at)?.send_all(&pack).await } else { Ok(()) };
        }
        let mut packs = Vec::new();
        if self.leads() {
            for group in 0..self.groups.len() {
                match group == at {
                    true => packs.extend_from_slice(&pack),
                    false => packs.extend(self.link(group)?.receive_all().await?),
                }
            }
        }
        let packs = self.here.hand_down(packs, place).await?;
        let Some(layout) = layout else { return Ok(()) };
        let mut rest = &packs[..];
        let mut fits = Ok(());
        for ranks in &self.groups {
            let Some((blocks, after)) = unpack(rest, ranks.len()) else { return Err(torn(root)) };
            rest = after;
            for (&rank, block) in ranks.iter().zip(blocks) {
                // The rest is received before an error is returned, so that this rank stays in step with the others.
                let place = &mut all[layout.block(rank)];
                match place.len() == block.len() {
                    true => place.copy_from_slice(block),
                    false => {
                        fits = Err(LayoutError::Length { length: place.len(), needed: block.len() })
                    }
                }
            }
        }
        // The call is over, so the next one can be made.
        self.begun = false;
        Ok(fits?)
    }

    /// Scatters the root's blocks to the ranks.
    pub(crate) async fn scatter<T: Plain>(
        &mut self,
        cut: Cut<'_, T>,
        blocks: Blocks<'_>,
        root: usize,
    ) -> Result<()> {
        let (at, place) = self.place(root)?;
        let mut packs = Vec::new();
        if self.me == root {
            let (own, all) = match &cut {
                Cut::Apart { all, own } => (Some(own.len()), *all),
                Cut::InPlace(all) => (None, &**all),
            };
            let layout = self.layout(blocks, own, all)?;
            let all: &[u8] = bytemuck::cast_slice(all);
            for ranks in &self.groups {
                let blocks: Vec<&[u8]> =
                    ranks.iter().map(|&rank| &all[layout.block(rank)]).collect();
                let lengths = blocks.iter().map(|block| block.len() as u64).collect();
                packs.extend(pack((lengths, blocks.concat())));
            }
        }
        self.begin()?;
        let pack = if self.mine == at {
            let packs = self.here.hand_up(packs, place).await?;
            self.send_packs(&packs, root).await?
        } else if self.leads() {
            self.link(at)?.receive_all().await?
        } else {
            Vec::new()
        };
        let mut kept;
        let own: &mut [u8] = match cut {
            Cut::Apart { own, .. } => bytemuck::cast_slice_mut(own),
            Cut::InPlace(all) if self.me != root => bytemuck::cast_slice_mut(all),
            // The root's block stays where it is, and comes here as well.
            Cut::InPlace(all) => {
                let layout = self.layout(blocks, None, all)?;
                kept = vec![0; layout.block(root).len()];
                &mut kept
            }
        };
        let ranks = if self.leads() { self.here.size() } else { 0 };
        let Some((blocks, _)) = unpack(&pack, ranks) else { return Err(torn(root)) };
        let lengths: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
        self.here.scatter(&lengths, &blocks.concat(), own).await
    }

    /// Sends the other leaders their packs, at the leader of the root's node. Returns the node's own.
    async fn send_packs(&mut self, packs: &[u8], root: usize) -> Result<Vec<u8>> {
        let (mut own, mut rest) = (Vec::new(), packs);
        if self.leads() {
            for group in 0..self.groups.len() {
                let before = rest;
                let Some((_, after)) = unpack(rest, self.groups[group].len()) else {
                    return Err(torn(root));
                };
                rest = after;
                let pack = &before[..before.len() - after.len()];
                match group == self.mine {
                    true => own = pack.to_vec(),
                    false => self.link(group)?.send_all(pack).await?,
                }
            }
        }
        Ok(own)
    }

    /// Gathers the blocks of all ranks at every rank.
    pub(crate) async fn all_gather<T: Plain>(
        &mut self,
        own: Option<&[T]>,
        all: &mut [T],
        blocks: Blocks<'_>,
    ) -> Result<()> {
        let layout = self.layout(blocks, own.map(<[T]>::len), all)?;
        self.begin()?;
        let all: &mut [u8] = bytemuck::cast_slice_mut(all);
        let own: Cow<'_, [u8]> = match own {
            Some(own) => bytemuck::cast_slice(own).into(),
            None => all[layout.block(self.me)].to_vec().into(),
        };
        let (_, mut together) = self.here.gather(&own).await?;
        let order = self.groups.concat();
        let total = order.iter().map(|&rank| layout.block(rank).len()).sum();
        if self.leads() {
            let out = self.others().map(|group| (group, together.clone())).collect();
            let mut packs = self.swap(out).await?;
            packs.insert(self.mine, together);
            together = packs.concat();
            if together.len() != total {
                let (source_rank, bytes, room) = (self.me, together.len(), total);
                return Err(ErrorKind::BlockTooLong { source_rank, bytes, room }.into());
            }
        }
        together.resize(total, 0);
        self.here.broadcast(&mut together, 0).await?;
        let mut rest = &together[..];
        for rank in order {
            let place = &mut all[layout.block(rank)];
            let (block, after) = rest.split_at(place.len());
            place.copy_from_slice(block);
            rest = after;
        }
        Ok(())
    }

    /// Exchanges blocks between all ranks.
    pub(crate) async fn all_to_all<T: Plain>(
        &mut self,
        sent: Option<(&[T], Blocks<'_>)>,
        (received, blocks): (&mut [T], Blocks<'_>),
    ) -> Result<()> {
        let incoming = self.layout(blocks, None, received)?;
        let received: &mut [u8] = bytemuck::cast_slice_mut(received);
        let own = match sent {
            Some((sent, blocks)) => {
                let outgoing = self.layout(blocks, None, sent)?;
                self.rows(bytemuck::cast_slice(sent), &outgoing)
            }
            None => self.rows(received, &incoming),
        };
        self.begin()?;
        let (lengths, rows) = self.here.gather(&own).await?;
        let mut to_ranks = (Vec::new(), Vec::new());
        if self.leads() {
            let packs = self.swap_blocks(&lengths, &rows).await?;
            to_ranks = self.sorted(&packs)?;
        }
        let ranks = self.members.len();
        let length: usize = (0..ranks).map(|rank| incoming.block(rank).len()).sum();
        let mut column = vec![0; WORD * ranks + length];
        self.here.scatter(&to_ranks.0, &to_ranks.1, &mut column).await?;
        let Some((blocks, _)) = unpack(&column, ranks) else { return Err(torn(self.me)) };
        for (rank, block) in blocks.into_iter().enumerate() {
            let place = &mut received[incoming.block(rank)];
            if place.len() != block.len() {
                let (bytes, room) = (block.len(), place.len());
                return Err(ErrorKind::BlockTooLong { source_rank: rank, bytes, room }.into());
            }
            place.copy_from_slice(block);
        }
        Ok(())
    }

    /// Returns a pack of the blocks that a rank sends to all ranks.
    fn rows(&self, sent: &[u8], layout: &Layout<'_>) -> Vec<u8> {
        let blocks: Vec<&[u8]> =
            (0..self.members.len()).map(|rank| &sent[layout.block(rank)]).collect();
        pack((blocks.iter().map(|block| block.len() as u64).collect(), blocks.concat()))
    }

    /// Exchanges what the ranks of each node send to those of all others. Returns for each group a pack of the blocks from
    /// its ranks to those of this one, by sender and then by receiver.
    async fn swap_blocks(&mut self, lengths: &[u64], rows: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut senders = Vec::new();
        for row in packed(lengths.iter().map(|&length| length as usize)) {
            let row = unpack(&rows[row], self.members.len()).ok_or_else(|| torn(self.me))?;
            senders.push(row.0);
        }
        let to = |group: usize| {
            let ranks = &self.groups[group];
            let blocks: Vec<&[u8]> =
                senders.iter().flat_map(|blocks| ranks.iter().map(|&rank| blocks[rank])).collect();
            pack((blocks.iter().map(|block| block.len() as u64).collect(), blocks.concat()))
        };
        let (out, own) = (self.others().map(|group| (group, to(group))).collect(), to(self.mine));
        let mut packs = self.swap(out).await?;
        packs.insert(self.mine, own);
        Ok(packs)
    }

    /// Returns for each rank of this node a pack of the blocks from all ranks, in their order, one after the other; and
    /// before that the number of bytes of each pack.
    fn sorted(&self, packs: &[Vec<u8>]) -> Result<(Vec<u64>, Vec<u8>)> {
        let here = self.here.size();
        let mut columns: Vec<Vec<&[u8]>> = vec![vec![&[]; self.members.len()]; here];
        for (ranks, pack) in self.groups.iter().zip(packs) {
            let (blocks, _) = unpack(pack, ranks.len() * here).ok_or_else(|| torn(ranks[0]))?;
            for (from, blocks) in ranks.iter().zip(blocks.chunks(here)) {
                for (column, block) in columns.iter_mut().zip(blocks) {
                    column[*from] = block;
                }
            }
        }
        let packs: Vec<Vec<u8>> = columns
            .into_iter()
            .map(|blocks| {
                pack((blocks.iter().map(|block| block.len() as u64).collect(), blocks.concat()))
            })
            .collect();
        Ok((packs.iter().map(|pack| pack.len() as u64).collect(), packs.concat()))
    }

    /// Sends each other leader a message, and receives one from each. Returns these in the order of the groups.
    async fn swap(&mut self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<Vec<u8>>> {
        for (group, message) in &out {
            self.link(*group)?.send(&(message.len() as u64).to_le_bytes()).await?;
        }
        let mut all = Vec::new();
        for (group, _) in &out {
            all.push(vec![0; self.link(*group)?.receive_length().await?]);
        }
        let longest = out.iter().map(|(_, message)| message).chain(&all).map(Vec::len).max();
        for start in (0..longest.unwrap_or(0)).step_by(PIECE) {
            for (group, message) in &out {
                if let Some(rest) = message.get(start..).filter(|rest| !rest.is_empty()) {
                    self.link(*group)?.send(&rest[..rest.len().min(PIECE)]).await?;
                }
            }
            for ((group, _), message) in out.iter().zip(&mut all) {
                if let Some(rest) = message.get_mut(start..).filter(|rest| !rest.is_empty()) {
                    let length = rest.len().min(PIECE);
                    self.link(*group)?.receive(&mut rest[..length]).await?;
                }
            }
        }
        Ok(all)
    }

    /// Returns the layout of a buffer, in bytes.
    fn layout<'a, T>(
        &self,
        blocks: Blocks<'a>,
        own: Option<usize>,
        all: &[T],
    ) -> Result<Layout<'a>, LayoutError> {
        Layout::new(blocks, (self.me, self.members.len()), (own, all.len()), size_of::<T>())
    }
}

fn pack((lengths, blocks): (Vec<u64>, Vec<u8>)) -> Vec<u8> {
    let mut pack: Vec<u8> = lengths.into_iter().flat_map(u64::to_le_bytes).collect();
    pack.extend(blocks);
    pack
}

/// Returns the blocks of the pack with which the bytes begin, and the bytes after it.
fn unpack(bytes: &[u8], blocks: usize) -> Option<(Vec<&[u8]>, &[u8])> {
    let (lengths, mut rest) = bytes.split_at_checked(WORD * blocks)?;
    let mut found = Vec::with_capacity(blocks);
    for length in lengths.as_chunks().0 {
        let (block, after) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        found.push(block);
        rest = after;
    }
    Some((found, rest))
}

/// Makes the error for a pack that does not hold what it says.
#[cold]
fn torn(rank: usize) -> mp_core::Error {
    let reason = "what came from another node is not what its leader sends".to_owned();
    ErrorKind::PeerBroken { rank, reason }.into()
}
