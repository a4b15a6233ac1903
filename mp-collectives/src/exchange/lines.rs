//! Blocks of a few lines, each with its payload beside its number (Ramos & Hoefler, section 4.1): a rank that waits for
//! a block waits for the line that contains it.
//!
//! Every pair of ranks has lines of its own in each direction (`pairs.rs`): the P · (s + 1) lines of an MPB from the
//! first line on that they may use. A rank sends to all others before it waits for any. Longer blocks take as many
//! rounds as they need, each of up to half of the slots.
//!
//! # Why no rank waits for ever
//!
//! To send a round's lines, a rank waits at most until the lines before that round have been taken (`pairs.rs`, 4),
//! which their receiver does before it sends lines of a later round. A rank in the earliest round of the earliest call
//! can therefore continue.

use mp_core::mpb::{Line, MpbAccess};

use super::Extremes;
use super::traffic::Traffic;
use crate::broadcast::LineOptionsError;
use crate::others::{after, before};
use crate::pairs::{Numbered, Pairs, is_line, marked_of};

/// One rank's part in a series of exchanges of short blocks.
#[derive(Debug)]
pub struct LineExchange {
    pairs: Pairs,
}

impl LineExchange {
    /// Creates this rank's part, with the MPBs of these ranks and the given number of lines that may be pending between
    /// two of them. The number is rounded up to the next power of two and is at least 2. The lines from `first_line` on
    /// belong to it and are initially zero.
    ///
    /// # Errors
    /// [`LineOptionsError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        slots: usize,
        first_line: usize,
    ) -> Result<LineExchange, LineOptionsError> {
        Ok(LineExchange { pairs: Pairs::new(mpb, slots, first_line)? })
    }

    /// Returns the number of lines that this takes of each MPB, or `None` when they are too many to count.
    pub fn lines(slots: usize, ranks: usize) -> Option<usize> {
        Pairs::lines(slots, ranks)
    }

    /// Returns the greatest length in bytes of a block that goes in one round.
    pub fn round_bytes(&self) -> usize {
        self.pairs.most()
    }

    /// Carries out an exchange. All ranks call this with their parts of the same traffic. A rank that gets nothing
    /// returns as soon as everything is pending.
    ///
    /// # Errors
    /// The errors of the MPBs; after one of these, this rank is out of step with the others.
    #[inline]
    pub async fn exchange<T: Traffic, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut T,
    ) -> Result<(), M::Error> {
        self.send(mpb, traffic, 0).await?;
        traffic.keep();
        self.receive(mpb, traffic, 0).await?;
        let Extremes { most, .. } = traffic.extremes();
        let mut start = self.pairs.most();
        while start < most {
            self.send(mpb, traffic, start).await?;
            self.receive(mpb, traffic, start).await?;
            start += self.pairs.most();
        }
        Ok(())
    }

    /// Sends the round of all blocks that begins at this byte of each block.
    #[inline]
    pub(super) async fn send<T: Traffic, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &T,
        start: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, pairs) = (mpb.rank(), mpb.ranks(), &mut self.pairs);
        for rank in after(me, ranks) {
            let Some(block @ [_, ..]) = traffic.outgoing(rank).get(start..) else { continue };
            if block.len() > pairs.payload() {
                let mut piece = &block[..block.len().min(pairs.most())];
                if mpb.blocks_differ() && pairs.is_near_to(rank) {
                    // A receiver that has room for one line only looks there.
                    let (first, rest) = piece.split_at(pairs.payload());
                    pairs.send_one(mpb, first, piece.len(), rank).await?;
                    piece = rest;
                }
                pairs.send(mpb, piece, rank).await?;
                continue;
            }
            // A single line is sent as in `Pairs::send`, without the work for several lines.
            let Numbered { number, line } = pairs.next_to(me, rank);
            if let Some(before) = pairs.must_wait(rank, number) {
                pairs.wait_until_taken(mpb, rank, before).await?;
            }
            let value = marked_of(mpb, number, block.len());
            mpb.set_flag_with(Line { rank, line }, value, block).await?;
        }
        Ok(())
    }

    /// Receives the same round from the others.
    #[inline]
    pub(super) async fn receive<T: Traffic, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut T,
        start: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, pairs) = (mpb.rank(), mpb.ranks(), &mut self.pairs);
        for rank in before(me, ranks) {
            let Some(block @ [_, ..]) = traffic.incoming(rank).get_mut(start..) else { continue };
            if block.len() > pairs.payload() {
                let most = block.len().min(pairs.most());
                let mut piece = &mut block[..most];
                if mpb.blocks_differ() && pairs.is_near_from(rank) {
                    let (first, rest) = piece.split_at_mut(pairs.payload());
                    pairs.receive_one(mpb, first, most, rank).await?;
                    piece = rest;
                }
                pairs.receive(mpb, piece, rank).await?;
                continue;
            }
            let Numbered { number, line } = pairs.next_from(rank);
            let seen = mpb.wait_flag_from(rank, line, is_line(number)).await?;
            mpb.compare_block(rank, seen, block.len())?;
            mpb.flag_payload(line, block).await?;
            if let Some(flag) = pairs.says_taken(me, rank, number - 1, number) {
                mpb.set_flag(flag, number).await?;
            }
        }
        Ok(())
    }
}
