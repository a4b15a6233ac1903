//! Blocks of all sizes, chunk by chunk through buffers for each pair of ranks.
//!
//! Each rank has buffers in its own MPB for what it sends to each other rank.
//!
//! 1. The sender waits until the receiver has got the chunk that was in the buffer before.
//! 2. It puts the chunk and tells the receiver.
//! 3. The receiver gets it.
//! 4. After every half of the buffers, the receiver reports how many chunks it has got: a flag is a line that two ranks
//!    take from each other.
//!
//! A long block that lies in the world's memory may also be [lent](MpbAccess::lend): the sender puts its place instead of
//! its first chunk, and before it returns it waits until the receiver has copied the block.
//!
//! The lines of an MPB, from [`ChunkOptions::first_line`] on:
//!
//! ```text
//! P                    put: twice as many chunks as rank i has put for     set by rank i
//!                      this one, and 1 if the last is the place of a block
//! P                    got: twice as many of this one's as rank i has got, set by rank i
//!                      and 1 if it was slow to borrow the last
//! (P − 1) · n · chunk  the buffers for each other rank, which its chunks   got by that rank
//!                      go through in turn
//! ```
//!
//! Every pair of ranks counts its chunks by itself, in 64 bits, which do not wrap around. So roots change at no cost.
//!
//! # Why no rank waits for ever
//!
//! In round i a rank puts chunk i of each block and gets chunk i − a of the others' blocks. Here a is the number of
//! chunks that it puts ahead; a is at most the number of buffers less the half after which a receiver reports. So the
//! chunks that the rank waits for before it puts chunk i were got and reported in rounds before i, and what it gets in
//! round i was put in that round or before. A rank in the earliest round of the earliest call can therefore continue.

use mp_core::mpb::{Line, MpbAccess};

use super::traffic::Traffic;
use super::{Extremes, ReduceOptionsError};
use crate::lending::{LENT_LEAST, Lending};
use crate::others::{after, before};

/// Returns the value of a flag: a number of chunks, and a fact about the last of them. The last one put may be the place
/// of a block. To borrow the last one got may have been slow.
pub(super) fn flag(number: u64, fact: bool) -> u64 {
    number << 1 | u64::from(fact)
}

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// The number of cache lines in a chunk, and in a buffer.
    pub chunk_lines: usize,
    /// The number of chunks that a rank may have pending to another rank.
    pub buffers: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own. Those of flags are initially zero.
    pub first_line: usize,
}

impl ChunkOptions {
    /// Returns the number of lines that a [`ChunkExchange`] takes of each MPB with this many ranks, or `None` when they
    /// are too many to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        self.lines_for(ranks, ranks.saturating_sub(1))
    }

    /// Returns the number of lines with buffers for this many destinations.
    pub(super) fn lines_for(self, ranks: usize, destinations: usize) -> Option<usize> {
        let buffers = self.buffers.checked_mul(self.chunk_lines)?.checked_mul(destinations)?;
        buffers.checked_add(Self::flag_lines(ranks))
    }

    /// Returns the number of lines for flags, which come first.
    pub(super) fn flag_lines(ranks: usize) -> usize {
        ranks.saturating_mul(2)
    }

    pub(super) fn check<M: MpbAccess>(
        self,
        mpb: &M,
        needed: Option<usize>,
    ) -> Result<Self, ReduceOptionsError> {
        let room = self.chunk_lines.min(self.buffers);
        ReduceOptionsError::check(room, needed, self.first_line, mpb.lines())?;
        Ok(self)
    }

    /// Returns the number of chunks after which a receiver reports what it has got.
    pub(super) fn half(self) -> u64 {
        self.buffers.div_ceil(2) as u64
    }

    /// Returns by how many chunks a rank with this many rounds before it puts ahead of what it gets.
    pub(super) fn ahead(self, rounds: usize) -> usize {
        (self.buffers / 2).min(rounds.saturating_sub(1))
    }

    pub(super) fn put_line(self, rank: usize) -> usize {
        self.first_line + rank
    }

    pub(super) fn got_line(self, ranks: usize, rank: usize) -> usize {
        self.first_line + ranks + rank
    }

    /// Returns the line where this chunk for a destination is put.
    pub(super) fn buffer_line(self, ranks: usize, destination: usize, chunk: u64) -> usize {
        let buffer = destination * self.buffers + (chunk % self.buffers as u64) as usize;
        self.first_line + Self::flag_lines(ranks) + buffer * self.chunk_lines
    }
}

/// One rank's part in a series of exchanges of blocks of any size.
#[derive(Debug)]
pub struct ChunkExchange {
    options: ChunkOptions,
    chunk_bytes: usize,
    /// The counts for each rank.
    counts: Vec<Counts>,
}

/// The chunks to and from a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    put: u64,
    /// Whether the last of those is the place of a block that is lent in this call.
    lends: bool,
    lending: Lending,
    /// The got flag when this rank last looked.
    seen_got: u64,
    got: Got,
}

/// The chunks from a rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    count: u64,
    /// The put flag when this rank last looked.
    seen_put: u64,
    /// Whether the block of this call was lent, so that it is here.
    is_whole: bool,
}

impl Got {
    /// Gets chunk `round` of a block from a rank, or all of a block that is lent. `destination` is this rank's number
    /// among that rank's destinations.
    pub(super) async fn get<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        (options, chunk_bytes): (ChunkOptions, usize),
        block: &mut [u8],
        round: usize,
        (from, destination): (usize, usize),
    ) -> Result<(), M::Error> {
        self.is_whole &= round > 0;
        let (room, start) = (block.len(), round * chunk_bytes);
        if self.is_whole || start >= room {
            return Ok(());
        }
        let (me, ranks, number) = (mpb.rank(), mpb.ranks(), self.count + 1);
        let wanted = flag(number, false);
        if self.seen_put < wanted {
            let line = options.put_line(from);
            self.seen_put = mpb.wait_flag_from(from, line, |put| put >= wanted).await?;
        }
        mpb.compare_announced(from, options.put_line(from), room)?;
        let line = Line { rank: from, line: options.buffer_line(ranks, destination, number) };
        self.is_whole = round == 0 && self.seen_put == flag(number, true);
        let mut slow = false;
        if self.is_whole {
            slow = mpb.borrow(line, block).await?;
        } else {
            mpb.get(line, &mut block[start..room.min(start + chunk_bytes)]).await?;
        }
        self.count = number;
        if self.is_whole || number.is_multiple_of(options.half()) {
            let line = Line { rank: from, line: options.got_line(ranks, me) };
            mpb.set_flag(line, flag(number, slow)).await?;
        }
        Ok(())
    }
}

/// Lends a whole block by this line of the own MPB, if it is long enough, lies where others can copy it from, and that is
/// of use. Returns whether it is lent.
pub(super) async fn lend<M: MpbAccess>(
    mpb: &mut M,
    lending: &mut Lending,
    block: &[u8],
    line: usize,
) -> Result<bool, M::Error> {
    let rank = mpb.rank();
    let tries = block.len() >= LENT_LEAST && lending.try_next();
    Ok(tries && mpb.lend(block, Line { rank, line }).await?)
}

impl ChunkExchange {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`ReduceOptionsError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        options: ChunkOptions,
    ) -> Result<ChunkExchange, ReduceOptionsError> {
        let ranks = mpb.ranks();
        let options = options.check(mpb, options.lines(ranks))?;
        let chunk_bytes = options.chunk_lines.saturating_mul(mpb.line_bytes());
        Ok(ChunkExchange { options, chunk_bytes, counts: vec![Counts::default(); ranks] })
    }

    /// Carries out an exchange. All ranks call this with their parts of the same traffic. A rank that gets nothing
    /// returns as soon as everything is in its MPB.
    ///
    /// # Errors
    /// The errors of the MPBs; after one of these, this rank is out of step with the others.
    pub async fn exchange<T: Traffic, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut T,
    ) -> Result<(), M::Error> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        let Extremes { most, .. } = traffic.extremes();
        let rounds = most.div_ceil(self.chunk_bytes);
        let ahead = self.options.ahead(rounds);
        for round in 0..rounds + ahead {
            for rank in after(me, ranks) {
                self.put(mpb, traffic, rank, round).await?;
            }
            if round == ahead {
                // This copies while the others' chunks are on their way, and while the others get the chunks from here.
                traffic.keep();
            }
            let Some(round) = round.checked_sub(ahead) else { continue };
            for rank in before(me, ranks) {
                let options = (self.options, self.chunk_bytes);
                let from = (rank, destination(rank, me, ranks));
                let got = &mut self.counts[rank].got;
                got.get(mpb, options, traffic.incoming(rank), round, from).await?;
            }
        }
        for rank in after(me, ranks) {
            if std::mem::take(&mut self.counts[rank].lends) {
                let put = self.counts[rank].put;
                self.wait_until_got(mpb, rank, put).await?;
                let Counts { lending, seen_got, .. } = &mut self.counts[rank];
                lending.was_useful(*seen_got == flag(put, false));
            }
        }
        Ok(())
    }

    /// Puts chunk `round` of the block for a rank, or lends all of it.
    async fn put<T: Traffic, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &T,
        to: usize,
        round: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, options) = (mpb.rank(), mpb.ranks(), self.options);
        let (block, start) = (traffic.outgoing(to), round * self.chunk_bytes);
        self.counts[to].lends &= round > 0;
        if start >= block.len() || self.counts[to].lends {
            return Ok(());
        }
        let put = self.counts[to].put + 1;
        self.counts[to].put = put;
        self.wait_until_got(mpb, to, put.saturating_sub(options.buffers as u64)).await?;
        let line = options.buffer_line(ranks, destination(me, to, ranks), put);
        let lending = &mut self.counts[to].lending;
        let lends = round == 0 && traffic.stays() && lend(mpb, lending, block, line).await?;
        if !lends {
            let chunk = &block[start..block.len().min(start + self.chunk_bytes)];
            mpb.put(chunk, Line { rank: me, line }).await?;
        }
        self.counts[to].lends = lends;
        let line = Line { rank: to, line: options.put_line(me) };
        mpb.announce_block(line, flag(put, lends), block.len()).await
    }

    /// Waits until a rank has got this many chunks from here.
    async fn wait_until_got<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        rank: usize,
        count: u64,
    ) -> Result<(), M::Error> {
        let (seen, wanted) = (&mut self.counts[rank].seen_got, flag(count, false));
        if *seen < wanted {
            let line = self.options.got_line(mpb.ranks(), rank);
            *seen = mpb.wait_flag_from(rank, line, |got| got >= wanted).await?;
        }
        Ok(())
    }
}

/// Returns the number of another rank among a rank's destinations.
fn destination(from: usize, to: usize, ranks: usize) -> usize {
    (if to > from { to - from } else { to + ranks - from }) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_destination_has_its_buffers() {
        for ranks in 2..6 {
            for me in 0..ranks {
                let mut all: Vec<_> =
                    after(me, ranks).map(|rank| destination(me, rank, ranks)).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..ranks - 1));
            }
        }
    }

    /// As much as the argument for progress allows, and never more.
    #[test]
    fn chunks_ahead() {
        for buffers in 1..9 {
            let options = ChunkOptions { chunk_lines: 1, buffers, first_line: 0 };
            assert_eq!(options.ahead(100) as u64, buffers as u64 - options.half());
            assert_eq!((options.ahead(0), options.ahead(1)), (0, 0));
        }
    }
}
