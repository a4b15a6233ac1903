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
//! The lines of an MPB, from [`ChunkOptions::first_line`] on:
//!
//! ```text
//! P                    put: how many chunks rank i has put for this one    set by rank i
//! P                    got: how many of this one's rank i has got          set by rank i
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
use crate::others::{after, before};

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// The number of cache lines in a chunk, and in a buffer.
    pub chunk_lines: usize,
    /// The number of chunks that a rank may have pending to another rank.
    pub buffers: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own and initially zero.
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
        buffers.checked_add(ranks.checked_mul(2)?)
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
        self.first_line + 2 * ranks + buffer * self.chunk_lines
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
    /// The number of those chunks that the other rank had got when this rank last looked.
    seen_got: u64,
    got: Got,
}

/// The chunks from a rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    count: u64,
    /// The number of chunks that the other rank had put when this rank last looked.
    seen_put: u64,
}

impl Got {
    /// Gets the next chunk from a rank. `destination` is this rank's number among that rank's destinations, and `room` is
    /// the length of the place for the whole block.
    pub(super) async fn get<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        options: ChunkOptions,
        chunk: &mut [u8],
        (from, destination): (usize, usize),
        room: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, number) = (mpb.rank(), mpb.ranks(), self.count + 1);
        if self.seen_put < number {
            let line = options.put_line(from);
            self.seen_put = mpb.wait_flag_from(from, line, |put| put >= number).await?;
        }
        mpb.compare_announced(from, options.put_line(from), room)?;
        let line = options.buffer_line(ranks, destination, number);
        mpb.get(Line { rank: from, line }, chunk).await?;
        self.count = number;
        if number.is_multiple_of(options.half()) {
            mpb.set_flag(Line { rank: from, line: options.got_line(ranks, me) }, number).await?;
        }
        Ok(())
    }
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
                let start = round * self.chunk_bytes;
                let block = traffic.outgoing(rank);
                if let Some(rest @ [_, ..]) = block.get(start..) {
                    let chunk = &rest[..rest.len().min(self.chunk_bytes)];
                    self.put(mpb, chunk, rank, block.len()).await?;
                }
            }
            if round == ahead {
                // This copies while the others' chunks are on their way, and while the others get the chunks from here.
                traffic.keep();
            }
            let Some(round) = round.checked_sub(ahead) else { continue };
            for rank in before(me, ranks) {
                let start = round * self.chunk_bytes;
                let block = traffic.incoming(rank);
                let room = block.len();
                if let Some(rest @ [_, ..]) = block.get_mut(start..) {
                    let most = rest.len().min(self.chunk_bytes);
                    let (options, from) = (self.options, (rank, destination(rank, me, ranks)));
                    let got = &mut self.counts[rank].got;
                    got.get(mpb, options, &mut rest[..most], from, room).await?;
                }
            }
        }
        Ok(())
    }

    async fn put<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        chunk: &[u8],
        to: usize,
        bytes: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, options) = (mpb.rank(), mpb.ranks(), self.options);
        let counts = &mut self.counts[to];
        counts.put += 1;
        let before = counts.put.saturating_sub(options.buffers as u64);
        if counts.seen_got < before {
            let line = options.got_line(ranks, to);
            counts.seen_got = mpb.wait_flag_from(to, line, |got| got >= before).await?;
        }
        let line = options.buffer_line(ranks, destination(me, to, ranks), counts.put);
        mpb.put(chunk, Line { rank: me, line }).await?;
        let flag = Line { rank: to, line: options.put_line(me) };
        mpb.announce_block(flag, counts.put, bytes).await
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
