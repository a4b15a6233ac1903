//! Each rank's block goes to all others once, through its MPB, chunk by chunk: all others get it from there.
//!
//! The lines of an MPB, from [`ChunkOptions::first_line`] on:
//!
//! ```text
//! P          put: twice as many chunks as rank i has put, and 1 if    set by rank i
//!            the last is the place of a block
//! P          got: twice as many of this one's chunks as rank i has    set by rank i
//!            got, and 1 if it was slow to borrow the last
//! n · chunk  the buffers, which this rank's chunks go through in turn got by all others
//! ```
//!
//! Otherwise this works as in `chunks.rs`, which explains why no rank waits for ever, and how a block is lent.

use mp_core::mpb::{Line, MpbAccess};

use super::chunks::{ChunkOptions, Got, flag, lend};
use super::traffic::{AllGather, Traffic};
use super::{Extremes, ReduceOptionsError};
use crate::lending::Lending;
use crate::others::{after, before};

/// One rank's part in a series of all-gathers of blocks of any size.
#[derive(Debug)]
pub struct SharedAllGather {
    options: ChunkOptions,
    chunk_bytes: usize,
    /// The number of chunks that this rank has put.
    put: u64,
    /// Whether the last of those is the place of a block that is lent in this call.
    lends: bool,
    lending: Lending,
    /// The counts for each rank.
    counts: Vec<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// The got flag when this rank last looked.
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
        let counts = vec![Counts::default(); ranks];
        let (put, lends, lending) = (0, false, Lending::default());
        Ok(SharedAllGather { options, chunk_bytes, put, lends, lending, counts })
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
        self.lends = false;
        for round in 0..rounds + ahead {
            let own = traffic.own();
            if ranks > 1 && own.len() > short {
                self.put(mpb, own, round).await?;
            }
            if round == 0 {
                // This copies while the others' chunks are on their way.
                traffic.keep();
            }
            let Some(round) = round.checked_sub(ahead) else { continue };
            for rank in before(me, ranks) {
                let block = traffic.incoming(rank);
                if block.len() > short {
                    // All other ranks share a rank's first destination.
                    let (options, from) = ((self.options, self.chunk_bytes), (rank, 0));
                    let got = &mut self.counts[rank].got;
                    got.get(mpb, options, block, round, from).await?;
                }
            }
        }
        if self.lends {
            self.wait_until_got(mpb, self.put).await?;
            let fast = flag(self.put, false);
            self.lending
                .was_useful(after(me, ranks).all(|rank| self.counts[rank].seen_got == fast));
        }
        Ok(())
    }

    /// Puts chunk `round` of a block, or lends all of it.
    async fn put<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        block: &[u8],
        round: usize,
    ) -> Result<(), M::Error> {
        let (me, ranks, options) = (mpb.rank(), mpb.ranks(), self.options);
        let start = round * self.chunk_bytes;
        if start >= block.len() || self.lends {
            return Ok(());
        }
        self.put += 1;
        self.wait_until_got(mpb, self.put.saturating_sub(options.buffers as u64)).await?;
        let line = options.buffer_line(ranks, 0, self.put);
        self.lends = round == 0 && lend(mpb, &mut self.lending, block, line).await?;
        if !self.lends {
            let chunk = &block[start..block.len().min(start + self.chunk_bytes)];
            mpb.put(chunk, Line { rank: me, line }).await?;
        }
        for rank in after(me, ranks) {
            let line = Line { rank, line: options.put_line(me) };
            mpb.announce_block(line, flag(self.put, self.lends), block.len()).await?;
        }
        Ok(())
    }

    /// Waits until all others have got this many chunks from here.
    async fn wait_until_got<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        count: u64,
    ) -> Result<(), M::Error> {
        let wanted = flag(count, false);
        for rank in after(mpb.rank(), mpb.ranks()) {
            let seen = &mut self.counts[rank].seen_got;
            if *seen < wanted {
                let line = self.options.got_line(mpb.ranks(), rank);
                *seen = mpb.wait_flag_from(rank, line, |got| got >= wanted).await?;
            }
        }
        Ok(())
    }
}
