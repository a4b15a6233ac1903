//! Each rank's block goes to all others once, through its MPB, chunk by chunk: all others get it from there.
//!
//! The lines of an MPB, from [`ChunkOptions::first_line`] on:
//!
//! ```text
//! P          put: how many chunks rank i has put                      set by rank i
//! P          got: how many of this one's chunks rank i has got        set by rank i
//! n · chunk  the buffers, which this rank's chunks go through in turn got by all others
//! ```
//!
//! Otherwise this works as in `chunks.rs`, which explains why no rank waits for ever.

use mp_core::mpb::{Line, MpbAccess};

use super::chunks::{ChunkOptions, Got};
use super::traffic::{AllGather, Traffic};
use super::{Extremes, ReduceOptionsError};
use crate::others::{after, before};

/// One rank's part in a series of all-gathers of blocks of any size.
#[derive(Debug)]
pub struct SharedAllGather {
    options: ChunkOptions,
    chunk_bytes: usize,
    /// The number of chunks that this rank has put.
    put: u64,
    /// The counts for each rank.
    counts: Vec<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// The number of this rank's chunks that the other rank had got when this rank last looked.
    seen_got: u64,
    got: Got,
}

impl SharedAllGather {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`ReduceOptionsError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        options: ChunkOptions,
    ) -> Result<SharedAllGather, ReduceOptionsError> {
        let ranks = mpb.ranks();
        let options = options.check(mpb, SharedAllGather::lines(options, ranks))?;
        let chunk_bytes = options.chunk_lines.saturating_mul(mpb.line_bytes());
        Ok(SharedAllGather { options, chunk_bytes, put: 0, counts: vec![Counts::default(); ranks] })
    }

    /// Returns the number of lines that this takes of each MPB with this many ranks, or `None` when they are too many
    /// to count.
    pub fn lines(options: ChunkOptions, ranks: usize) -> Option<usize> {
        options.lines_for(ranks, 1)
    }

    /// Carries out an all-gather. All ranks call this with their parts of the same all-gather.
    ///
    /// # Errors
    /// The errors of the MPBs; after one of these, this rank is out of step with the others.
    pub async fn all_gather<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut AllGather<'_>,
    ) -> Result<(), M::Error> {
        self.above(mpb, traffic, 0).await
    }

    /// Carries out the part for blocks of more than this many bytes.
    pub(super) async fn above<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut AllGather<'_>,
        short: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        let Extremes { most, .. } = traffic.extremes();
        let rounds = most.div_ceil(self.chunk_bytes);
        let ahead = self.options.ahead(rounds);
        for round in 0..rounds + ahead {
            let start = round * self.chunk_bytes;
            let own = traffic.own();
            if ranks > 1
                && own.len() > short
                && let Some(rest @ [_, ..]) = own.get(start..)
            {
                self.put(mpb, &rest[..rest.len().min(self.chunk_bytes)], own.len()).await?;
            }
            if round == 0 {
                // This copies while the others' chunks are on their way.
                traffic.keep();
            }
            let Some(round) = round.checked_sub(ahead) else { continue };
            let start = round * self.chunk_bytes;
            for rank in before(me, ranks) {
                let block = traffic.incoming(rank);
                let room = block.len();
                if block.len() > short
                    && let Some(rest @ [_, ..]) = block.get_mut(start..)
                {
                    let most = rest.len().min(self.chunk_bytes);
                    // All other ranks share a rank's first destination.
                    let (options, from) = (self.options, (rank, 0));
                    let got = &mut self.counts[rank].got;
                    got.get(mpb, options, &mut rest[..most], from, room).await?;
                }
            }
        }
        Ok(())
    }

    /// Puts a chunk of a block of this length.
    async fn put<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        chunk: &[u8],
        bytes: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, options) = (mpb.rank(), mpb.ranks(), self.options);
        self.put += 1;
        let put = self.put;
        let free = put.saturating_sub(options.buffers as u64);
        for rank in after(me, ranks) {
            let counts = &mut self.counts[rank];
            if counts.seen_got < free {
                let line = options.got_line(ranks, rank);
                counts.seen_got = mpb.wait_flag_from(rank, line, |got| got >= free).await?;
            }
        }
        let line = options.buffer_line(ranks, 0, put);
        mpb.put(chunk, Line { rank: me, line }).await?;
        for rank in after(me, ranks) {
            let flag = Line { rank, line: options.put_line(me) };
            mpb.announce_block(flag, put, bytes).await?;
        }
        Ok(())
    }
}
