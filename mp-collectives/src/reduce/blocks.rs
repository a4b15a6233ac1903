//! Reductions of long vectors by blocks in the buffers of all ranks.
//!
//! The vector is cut into segments, and each segment into one block for each rank.
//!
//! 1. A rank puts its elements of a segment into its MPB and tells each other rank.
//! 2. It gets its own block from all others, combines them in rank order (*reduce-scatter*), puts the result into its
//!    MPB and tells all others.
//! 3. It gets the other blocks' results (*all-gather*). It puts the next segment before that, so that no rank waits for
//!    the slowest one in every step.
//!
//! With two ranks, each reads the other's elements of its own block once and then no longer needs them. While it
//! combines them, it leaves the result in the same lines that it reads them from, and the other rank gets the result
//! from its own MPB. That takes a third less time than a put to other lines: these lines are near already, and nothing
//! is read twice. More than two ranks would have to report when all of them had got it from there.
//!
//! A *whole* reduction omits steps 2 and 3: every rank gets all elements of all others and combines them. That means
//! more data to get and less waiting. A reduction that ends with the reduce-scatter omits step 3 and cuts the vector as
//! requested; a rank that has no more elements in its block still waits for what all others put.
//!
//! The lines of an MPB, from [`BlockOptions::first_line`] on:
//!
//! ```text
//! P           put: which segment rank i has put                           set by rank i
//! P           result: of which segment rank i's block is done             set by rank i
//! 2 · P · b   the own elements of two segments, block by block            got by the others
//! 2 · b       the results of the own block of two segments                got by the others,
//!                                                                         if there are several
//! ```
//!
//! # Why no rank needs to say that it has got something
//!
//! All ranks count segments in the same way, in 64 bits, which do not wrap around. Segment n goes where n − 2 was. A
//! rank puts n after all others have told it the results of n − 2 (or, if n − 2 had no results to report, after they
//! have told it of n − 1, which they put after it): by then they have got its elements of n − 2. It puts its result of
//! n after all others have told it of their elements of n, which they put after they had got the results of n − 2.
//!
//! With two ranks, the lines that hold a result are the own elements of the rank that gets it. That rank puts its
//! elements of n there after it has itself got the results of n − 2. Before that, only the other rank writes there, and
//! it has already read what it overwrites.
//!
//! # How long blocks are
//!
//! Blocks are shorter the more ranks there are, since each rank has some for every other rank. With two ranks they have
//! 64 KiB: a line comes sooner from the cache that cores share than from the cache of the core that wrote it, and ranks
//! wait for each other less often.

use std::mem;

use mp_core::Plain;
use mp_core::mpb::{Line, MpbAccess};

use super::fold::Fold;
use super::operations::Operation;
use super::scratch::Scratch;
use super::vector::Vector;
use super::{Parts, ReduceError, ReduceOptionsError};
use crate::others::after;

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// The number of cache lines in a block.
    pub block_lines: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own. Those of flags are initially zero.
    pub first_line: usize,
}

impl BlockOptions {
    /// Returns the number of lines that this takes of each MPB with this many ranks, or `None` when they are too many
    /// to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        let blocks = ranks.checked_add(1)?.checked_mul(self.block_lines)?.checked_mul(2)?;
        blocks.checked_add(Self::flag_lines(ranks))
    }

    /// Returns the number of lines for flags, which come first.
    pub(super) fn flag_lines(ranks: usize) -> usize {
        ranks.saturating_mul(2)
    }
}

/// One rank's part in a series of reductions of long vectors.
#[derive(Debug)]
pub struct BlockReduce {
    options: BlockOptions,
    ranks: usize,
    line_bytes: usize,
    /// The number of the last segment.
    segment: u64,
    /// The value of each rank's put flag when it was last read.
    put: Vec<u64>,
    scratch: Scratch,
    /// The place for results that only other ranks want.
    room: Scratch,
}

/// About as many bytes are got from each rank at a time, so that the elements combined earlier are still near.
const PIECE: usize = 32 << 10;

/// The segments of a vector.
#[derive(Clone, Copy)]
struct Segments {
    elements: usize,
    segment: usize,
    ranks: usize,
}

impl Segments {
    /// Returns the range of elements in a rank's block of segment `index`.
    fn block(self, index: usize, rank: usize) -> std::ops::Range<usize> {
        let start = index * self.segment;
        let length = self.segment.min(self.elements - start);
        let block = length.div_ceil(self.ranks);
        start + (rank * block).min(length)..start + ((rank + 1) * block).min(length)
    }
}

impl BlockReduce {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`ReduceOptionsError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        options: BlockOptions,
    ) -> Result<BlockReduce, ReduceOptionsError> {
        let ranks = mpb.ranks();
        let BlockOptions { block_lines, first_line } = options;
        ReduceOptionsError::check(block_lines, options.lines(ranks), first_line, mpb.lines())?;
        Ok(BlockReduce {
            options,
            ranks,
            line_bytes: mpb.line_bytes(),
            segment: 0,
            put: vec![0; ranks],
            scratch: Scratch::default(),
            room: Scratch::default(),
        })
    }

    /// Reduces by having each rank get all elements of all others. All ranks call this with vectors of the same length,
    /// and have the result in them when it returns, with the same bits on every rank.
    ///
    /// # Errors
    /// [`ReduceError::ElementTooLong`], and the errors of the MPBs; after one of those, this rank is out of step with
    /// the others.
    pub async fn whole<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: impl Into<Vector<'_, T>>,
        operation: &O,
    ) -> Result<(), ReduceError<M::Error>> {
        let mut vector = vector.into();
        if self.ranks == 1 || size_of_val(vector.own()) == 0 {
            vector.begin();
            return Ok(());
        }
        let most = self.block_elements::<T, _>()? * self.ranks;
        for range in vector.parts(most) {
            let segment = vector.part(range);
            self.segment += 1;
            let line = self.own_line(self.segment, 0);
            mpb.put(bytemuck::cast_slice(segment.own()), Line { rank: mpb.rank(), line }).await?;
            for rank in after(mpb.rank(), self.ranks) {
                let flag = Line { rank, line: self.put_line(mpb.rank()) };
                mpb.announce(flag, self.segment).await?;
            }
            self.combine(mpb, segment, operation, line, false).await?;
        }
        Ok(())
    }

    /// Reduces by having each rank combine a part. All ranks call this with vectors of the same length. When it
    /// returns, all have the result, with the same bits; or, if a root is given, only the root has it, and what is in the
    /// other ranks' places for the result, if they have any, is unspecified.
    ///
    /// # Errors
    /// The same as for [`whole`](BlockReduce::whole); [`ReduceError::Root`].
    pub async fn scattered<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: impl Into<Vector<'_, T>>,
        operation: &O,
        root: Option<usize>,
    ) -> Result<(), ReduceError<M::Error>> {
        let (me, ranks, mut vector) = (mpb.rank(), self.ranks, vector.into());
        root.map_or(Ok(()), |root| ReduceError::check_root(root, ranks))?;
        if ranks == 1 || size_of_val(vector.own()) == 0 {
            vector.begin();
            return Ok(());
        }
        let elements = vector.len();
        let count = elements.div_ceil(self.block_elements::<T, _>()?.saturating_mul(ranks));
        let segments = Segments { elements, segment: elements.div_ceil(count), ranks };
        // There may be fewer segments, because their length was rounded up.
        let count = elements.div_ceil(segments.segment);
        let first = self.segment + 1;
        for index in 0..=count {
            let number = first + index as u64;
            if index < count {
                for rank in after(me, ranks) {
                    let elements = &vector.own()[segments.block(index, rank)];
                    let elements = bytemuck::cast_slice(elements);
                    let line = self.own_line(number, rank);
                    mpb.put(elements, Line { rank: me, line }).await?;
                    mpb.announce(Line { rank, line: self.put_line(me) }, number).await?;
                }
            }
            if index > 0 {
                for rank in after(me, ranks) {
                    let told = |segment| segment >= number - 1;
                    mpb.wait_flag_from(rank, self.result_line(rank), told).await?;
                    if root.is_none_or(|root| root == me) {
                        let mut block = vector.part(segments.block(index - 1, rank));
                        let (_, elements) = block.combined();
                        let at = match ranks {
                            2 => Line { rank: me, line: self.own_line(number - 1, rank) },
                            _ => Line { rank, line: self.result_block(number - 1) },
                        };
                        mpb.get(at, bytemuck::cast_slice_mut(elements)).await?;
                    }
                }
            }
            if index < count {
                self.segment = number;
                let block = segments.block(index, me);
                let line = self.own_line(number, me);
                if ranks == 2 {
                    self.combine(mpb, vector.part(block), operation, line, true).await?;
                } else {
                    let mut room = mem::take(&mut self.room);
                    let count = block.len();
                    let mut own = vector.part(block).or_in(|| room.elements(count));
                    self.combine(mpb, own.part(0..count), operation, line, false).await?;
                    let line = self.result_block(number);
                    let (_, result) = own.combined();
                    mpb.put(bytemuck::cast_slice(result), Line { rank: me, line }).await?;
                    self.room = room;
                }
                for rank in after(me, ranks) {
                    mpb.set_flag(Line { rank, line: self.result_line(me) }, number).await?;
                }
            }
        }
        Ok(())
    }

    /// Combines a block of the vectors for each rank. All ranks call this with vectors of the same length and the same
    /// blocks, and have the result of their own block when it returns.
    ///
    /// # Errors
    /// The same as for [`whole`](BlockReduce::whole).
    pub async fn reduce_scatter<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        parts: &mut Parts<'_, T>,
        operation: &O,
    ) -> Result<(), ReduceError<M::Error>> {
        let (me, ranks, longest) = (mpb.rank(), self.ranks, parts.longest());
        if ranks == 1 || longest * size_of::<T>() == 0 {
            parts.own().begin();
            return Ok(());
        }
        let count = longest.div_ceil(self.block_elements::<T, _>()?);
        let most = longest.div_ceil(count);
        for start in (0..longest).step_by(most) {
            self.segment += 1;
            let piece = |length: usize| start.min(length)..(start + most).min(length);
            for rank in after(me, ranks) {
                let block = parts.block(rank);
                let line = self.own_line(self.segment, rank);
                let elements = bytemuck::cast_slice(&block[piece(block.len())]);
                mpb.put(elements, Line { rank: me, line }).await?;
                mpb.announce(Line { rank, line: self.put_line(me) }, self.segment).await?;
            }
            let mut own = parts.own();
            let piece = piece(own.len());
            let line = self.own_line(self.segment, me);
            self.combine(mpb, own.part(piece), operation, line, false).await?;
        }
        Ok(())
    }

    /// Combines these elements with those that all others have put from this line on. With two ranks and `pass`, leaves
    /// the result there as well.
    async fn combine<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        mut own: Vector<'_, T>,
        operation: &O,
        line: usize,
        pass: bool,
    ) -> Result<(), M::Error> {
        let (me, number) = (mpb.rank(), self.segment);
        // As many elements as a line has bytes fill whole lines, whatever their size.
        let whole_lines = self.line_bytes;
        let piece = (PIECE / (whole_lines * size_of::<T>())).max(1) * whole_lines;
        let lines = piece / self.line_bytes * size_of::<T>();
        // Flags are waited for even if this block has no elements, because they tell when buffers can be used again.
        for rank in after(me, self.ranks) {
            if self.put[rank] < number {
                let flag = self.put_line(rank);
                self.put[rank] = mpb.wait_flag_from(rank, flag, |put| put >= number).await?;
            }
            mpb.compare(rank, self.put_line(rank))?;
        }
        for (index, range) in own.parts(piece).enumerate() {
            let count = range.len();
            let own = own.part(range).or_in(|| self.room.elements(count));
            let mut fold = Fold::new(operation, me, own, &mut self.scratch);
            let line = line + index * lines;
            if pass {
                fold.pass(mpb, Line { rank: 1 - me, line }).await?;
                continue;
            }
            for rank in 0..self.ranks {
                fold.get(mpb, Line { rank, line }).await?;
            }
        }
        Ok(())
    }

    /// Returns the length in bytes of the longest element.
    #[inline]
    pub(super) fn most_bytes(&self) -> usize {
        self.options.block_lines.saturating_mul(self.line_bytes)
    }

    fn block_elements<T, E>(&self) -> Result<usize, ReduceError<E>> {
        ReduceError::elements_in::<T>(self.most_bytes())
    }

    fn put_line(&self, rank: usize) -> usize {
        self.options.first_line + rank
    }

    fn result_line(&self, rank: usize) -> usize {
        self.options.first_line + self.ranks + rank
    }

    /// Returns the line of this rank's own elements of a block of a segment.
    fn own_line(&self, segment: u64, block: usize) -> usize {
        let buffer = (segment % 2) as usize * self.ranks;
        self.options.first_line + 2 * self.ranks + (buffer + block) * self.options.block_lines
    }

    fn result_block(&self, segment: u64) -> usize {
        self.own_line(0, 2 * self.ranks) + (segment % 2) as usize * self.options.block_lines
    }
}
