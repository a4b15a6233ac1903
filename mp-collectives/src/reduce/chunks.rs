//! Reductions of long vectors to one rank, by chunks that the rank gets from all others, or along a tree.
//!
//! Each other rank puts chunk after chunk into its MPB and tells the root. The root gets them, combines them in rank
//! order, and reports what it has got when half as many chunks as there are buffers have followed: a flag is a line that
//! two ranks take from each other, and what the root does next would have to wait for it. Along a tree, each rank does
//! the same with its children's chunks, on behalf of its parent, so that several chunks are in transit at a time. A scan
//! goes from each rank to the next in the same way. Every pair of ranks has flags of its own, so that roots may change at
//! no cost.
//!
//! An element that is longer than a chunk is sent in several chunks and is combined when all of them have arrived, so
//! elements may be of any size. This also applies where each rank gets the result of a block (the ranks are root one
//! after the other) and where all ranks get the result (the root puts it for all others).
//!
//! The lines of an MPB, from [`ChunkOptions::first_line`] on:
//!
//! ```text
//! P           put: which chunk rank i has put for this one                set by rank i
//! P           got: which chunk rank i has got from this one               set by rank i
//! n · chunk   the buffers, which chunks go through in turn                got by the root,
//!                                                                         a parent, the next rank
//! ```
//!
//! All ranks count chunks in the same way, in 64 bits, which do not wrap around. So a rank that waits for the report of
//! chunk c, because it is to put chunk c + n where that was, gets it: the other rank comes to chunk c + n / 2 before,
//! as the putting or the getting rank, and then reports.
//!
//! This does not hold where elements take several chunks: a rank gets all chunks of an element before it turns to the
//! next rank, so it may wait for a chunk that is put after chunk c + n. Such an operation begins with the report of all
//! chunks that have not been reported, and each of its chunks is reported at once.

use std::{mem, ops::Range};

use mp_core::Plain;
use mp_core::mpb::{Line, MpbAccess};
use mp_model::in_order::{Child, Place};

use super::choice::Prefix;
use super::fold::{Fold, combine_from};
use super::operations::Operation;
use super::places::Places;
use super::scratch::Scratch;
use super::vector::Vector;
use super::vectors::{combine, prepend};
use super::{Parts, ReduceError, ReduceOptionsError};

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// The number of cache lines in a chunk, and in a buffer.
    pub chunk_lines: usize,
    /// The number of chunks that a rank may have pending to the root.
    pub buffers: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own. Those of flags are initially zero.
    pub first_line: usize,
}

impl ChunkOptions {
    /// Returns the number of lines that this takes of each MPB with this many ranks, or `None` when they are too many
    /// to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        let buffers = self.buffers.checked_mul(self.chunk_lines)?;
        buffers.checked_add(Self::flag_lines(ranks))
    }

    /// Returns the number of lines for flags, which come first.
    pub(super) fn flag_lines(ranks: usize) -> usize {
        ranks.saturating_mul(2)
    }
}

/// One rank's part in a series of reductions to a root, and of scans.
#[derive(Debug)]
pub struct ChunkReduce {
    options: ChunkOptions,
    ranks: usize,
    line_bytes: usize,
    /// The number of the last chunk.
    chunk: u64,
    /// The chunk in each buffer that another rank may still be getting.
    filled: Vec<Option<Filled>>,
    /// The value of each rank's got flag when it was last read.
    got: Vec<u64>,
    /// The last chunk that this rank has got from each rank and has not reported.
    unreported: Vec<Option<u64>>,
    /// The first chunk that it has not reported, if there is one.
    first_unreported: Option<u64>,
    scratch: Scratch,
    /// This rank's partial result for its subtree.
    sum: Scratch,
    places: Places,
}

#[derive(Clone, Debug)]
struct Filled {
    readers: Range<usize>,
    chunk: u64,
}

impl ChunkReduce {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`ReduceOptionsError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        options: ChunkOptions,
    ) -> Result<ChunkReduce, ReduceOptionsError> {
        let ranks = mpb.ranks();
        let ChunkOptions { chunk_lines, buffers, first_line } = options;
        let room = chunk_lines.min(buffers);
        ReduceOptionsError::check(room, options.lines(ranks), first_line, mpb.lines())?;
        Ok(ChunkReduce {
            options,
            ranks,
            line_bytes: mpb.line_bytes(),
            chunk: 0,
            filled: vec![None; buffers],
            got: vec![0; ranks],
            unreported: vec![None; ranks],
            first_unreported: None,
            scratch: Scratch::default(),
            sum: Scratch::default(),
            places: Places::new(ranks, mpb.rank()),
        })
    }

    /// Reduces to a root. All ranks call this with vectors of the same length and the same root, which has the result
    /// in its vector when its call returns. The vectors of the other ranks are only read; their calls return as soon as
    /// everything is in their MPBs.
    ///
    /// # Errors
    /// [`ReduceError::Root`], and the errors of the MPBs; after one of those, this rank is out of step with the others.
    pub async fn reduce<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: impl Into<Vector<'_, T>>,
        operation: &O,
        root: usize,
    ) -> Result<(), ReduceError<M::Error>> {
        let mut vector = vector.into();
        ReduceError::check_root(root, self.ranks)?;
        if self.ranks == 1 || size_of_val(vector.own()) == 0 {
            vector.begin();
            return Ok(());
        }
        if mpb.rank() == root {
            // The others put their first chunks meanwhile. To copy chunk by chunk, or to combine on the way to the place
            // for the result, takes longer: 1 MiB between two ranks 70 µs and more instead of 47.
            vector.begin();
        }
        let at_a_time = self.begin::<T, M>(mpb).await?;
        for range in vector.parts(at_a_time) {
            let elements = vector.part(range);
            if mpb.rank() == root {
                self.collect(mpb, elements, operation).await?;
            } else {
                self.put(mpb, bytemuck::cast_slice(elements.own()), root).await?;
            }
        }
        Ok(())
    }

    /// Reduces to all ranks. All ranks call this with vectors of the same length, and have the result in them when it
    /// returns, with the same bits on every rank. The vectors are combined in rank order, at rank 0.
    ///
    /// # Errors
    /// The same as for [`reduce`](ChunkReduce::reduce).
    pub async fn all_reduce<T: Plain, O: Operation<T>, M: MpbAccess>(
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
        let at_a_time = self.begin::<T, M>(mpb).await?;
        for range in vector.parts(at_a_time) {
            if mpb.rank() == 0 {
                self.collect(mpb, vector.part(range.clone()), operation).await?;
                let mut elements = vector.part(range);
                let (_, elements) = elements.combined();
                self.put_for(mpb, bytemuck::cast_slice(elements), 1..self.ranks).await?;
            } else {
                let mut elements = vector.part(range);
                self.put(mpb, bytemuck::cast_slice(elements.own()), 0).await?;
                let (_, elements) = elements.combined();
                self.receive(mpb, bytemuck::cast_slice_mut(elements), 0).await?;
            }
        }
        Ok(())
    }

    /// Combines a block of the vectors for each rank, in rank order. All ranks call this with vectors of the same
    /// length and the same blocks, and have the result of their own block when it returns.
    ///
    /// # Errors
    /// The same as for [`reduce`](ChunkReduce::reduce).
    pub async fn reduce_scatter<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        parts: &mut Parts<'_, T>,
        operation: &O,
    ) -> Result<(), ReduceError<M::Error>> {
        if self.ranks == 1 || parts.longest() * size_of::<T>() == 0 {
            parts.own().begin();
            return Ok(());
        }
        let at_a_time = self.begin::<T, M>(mpb).await?;
        for root in 0..self.ranks {
            if mpb.rank() == root {
                let mut own = parts.own();
                for range in own.parts(at_a_time) {
                    self.collect(mpb, own.part(range), operation).await?;
                }
            } else {
                for elements in parts.block(root).chunks(at_a_time) {
                    self.put(mpb, bytemuck::cast_slice(elements), root).await?;
                }
            }
        }
        Ok(())
    }

    /// Does what [`reduce`](ChunkReduce::reduce) does, along a tree of this λ ([`in_order`](mp_model::in_order)), which
    /// is the same at all ranks. The order is that of the tree.
    ///
    /// # Errors
    /// The same as for [`reduce`](ChunkReduce::reduce).
    pub async fn reduce_along<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: impl Into<Vector<'_, T>>,
        operation: &O,
        lambda: usize,
        root: usize,
    ) -> Result<(), ReduceError<M::Error>> {
        let mut vector = vector.into();
        let place = self.places.under(lambda, root).cloned();
        let Place { parent, children } =
            place.ok_or(ReduceError::Root { root, ranks: self.ranks })?;
        if self.ranks == 1 || size_of_val(vector.own()) == 0 {
            vector.begin();
            return Ok(());
        }
        let at_a_time = self.begin::<T, M>(mpb).await?;
        for range in vector.parts(at_a_time) {
            let mut elements = vector.part(range);
            let Some(parent) = parent else {
                self.collect_from(mpb, elements.begin(), operation, &children).await?;
                continue;
            };
            let own = elements.own();
            if children.is_empty() {
                self.put(mpb, bytemuck::cast_slice(own), parent).await?;
                continue;
            }
            // Only the root's vector is changed. Other ranks add up in memory of their own.
            let mut room = mem::take(&mut self.sum);
            let sum = room.elements::<T>(own.len());
            sum.copy_from_slice(own);
            let before = self.chunk;
            self.collect_from(mpb, sum, operation, &children).await?;
            self.chunk = before;
            self.put(mpb, bytemuck::cast_slice(sum), parent).await?;
            self.sum = room;
        }
        Ok(())
    }

    /// Combines the vectors of this rank and those below it, along a chain. Chunk by chunk, each rank gets the result
    /// of the rank below, adds its own vector, and passes the sum on. The order is that of ranks. All ranks call this
    /// with vectors of the same length. An exclusive scan leaves rank 0's vector as it was.
    ///
    /// # Errors
    /// The same as for [`reduce`](ChunkReduce::reduce).
    pub async fn scan<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &mut [T],
        operation: &O,
        prefix: Prefix,
    ) -> Result<(), ReduceError<M::Error>> {
        if self.ranks == 1 || size_of_val(vector) == 0 {
            return Ok(());
        }
        let at_a_time = self.begin::<T, M>(mpb).await?;
        for own in vector.chunks_mut(at_a_time) {
            let (me, before) = (mpb.rank(), self.chunk);
            if let Some(below) = me.checked_sub(1) {
                let mut scratch = mem::take(&mut self.scratch);
                let theirs = scratch.elements::<T>(own.len());
                self.receive(mpb, bytemuck::cast_slice_mut(theirs), below).await?;
                prepend(operation, theirs, own);
                self.scratch = scratch;
            }
            if me + 1 < self.ranks {
                self.chunk = before;
                self.put(mpb, bytemuck::cast_slice(own), me + 1).await?;
            }
            if prefix == Prefix::Exclusive && me > 0 {
                own.copy_from_slice(self.scratch.elements(own.len()));
            }
        }
        Ok(())
    }

    fn chunk_bytes(&self) -> usize {
        self.options.chunk_lines.saturating_mul(self.line_bytes)
    }

    /// Begins an operation: returns how many elements are combined at a time, which is those of a chunk, or one element
    /// that takes several chunks. Then nothing that was got before must stay unreported.
    async fn begin<T, M: MpbAccess>(&mut self, mpb: &mut M) -> Result<usize, M::Error> {
        if self.takes_several::<T>() {
            self.report_all(mpb).await?;
        }
        Ok((self.chunk_bytes() / size_of::<T>().max(1)).max(1))
    }

    /// Tells whether an element takes several chunks.
    fn takes_several<T>(&self) -> bool {
        size_of::<T>() > self.chunk_bytes()
    }

    async fn put<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        elements: &[u8],
        reader: usize,
    ) -> Result<(), M::Error> {
        self.put_for(mpb, elements, reader..reader + 1).await
    }

    /// Puts elements into the next chunks.
    async fn put_for<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        elements: &[u8],
        readers: Range<usize>,
    ) -> Result<(), M::Error> {
        let me = mpb.rank();
        for piece in elements.chunks(self.chunk_bytes()) {
            self.chunk += 1;
            self.report(mpb).await?;
            let (chunk, buffer) = (self.chunk, self.buffer());
            let filled = Filled { readers: readers.clone(), chunk };
            if let Some(Filled { readers, chunk }) = self.filled[buffer].replace(filled) {
                for reader in readers {
                    if self.got[reader] < chunk {
                        let line = self.got_line(reader);
                        let got = |got| got >= chunk;
                        self.got[reader] = mpb.wait_flag_from(reader, line, got).await?;
                    }
                }
            }
            mpb.put(piece, Line { rank: me, line: self.buffer_line() }).await?;
            for reader in readers.clone() {
                mpb.announce(Line { rank: reader, line: self.put_line(me) }, chunk).await?;
            }
        }
        Ok(())
    }

    /// Gets what a rank has put for this rank into the next chunks.
    async fn receive<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        elements: &mut [u8],
        from: usize,
    ) -> Result<(), M::Error> {
        let (put, most) = (self.put_line(from), self.chunk_bytes());
        let at_once = elements.len() > most;
        for piece in elements.chunks_mut(most) {
            self.chunk += 1;
            let (chunk, line) = (self.chunk, self.buffer_line());
            mpb.wait_flag_from(from, put, |put| put >= chunk).await?;
            mpb.compare(from, put)?;
            mpb.get(Line { rank: from, line }, piece).await?;
            self.have_got(mpb, chunk, from).await?;
            if at_once {
                self.report_all(mpb).await?;
            }
        }
        Ok(())
    }

    /// Notes that this rank has got a chunk.
    async fn have_got<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        chunk: u64,
        from: usize,
    ) -> Result<(), M::Error> {
        self.unreported[from] = Some(chunk);
        self.first_unreported.get_or_insert(chunk);
        self.report(mpb).await
    }

    /// Tells all ranks what this one has got from them, if half as many chunks as there are buffers have followed.
    async fn report<M: MpbAccess>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
        let half = (self.options.buffers / 2).max(1) as u64;
        if self.first_unreported.is_none_or(|first| self.chunk + 1 < first + half) {
            return Ok(());
        }
        self.report_all(mpb).await
    }

    /// Tells all ranks what this one has got from them.
    async fn report_all<M: MpbAccess>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
        if self.first_unreported.take().is_none() {
            return Ok(());
        }
        let line = self.got_line(mpb.rank());
        for (rank, last) in self.unreported.iter_mut().enumerate() {
            if let Some(last) = last.take() {
                mpb.set_flag(Line { rank, line }, last).await?;
            }
        }
        Ok(())
    }

    /// Combines what the children in a tree have of the next elements, the nearest child's first.
    async fn collect_from<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        sum: &mut [T],
        operation: &O,
        children: &[Child],
    ) -> Result<(), M::Error> {
        let before = self.chunk;
        if self.takes_several::<T>() {
            let mut scratch = mem::take(&mut self.scratch);
            let theirs = scratch.elements::<T>(sum.len());
            for &Child { rank, is_above } in children {
                self.chunk = before;
                self.receive(mpb, bytemuck::cast_slice_mut(theirs), rank).await?;
                combine(operation, sum, theirs, is_above);
            }
            self.scratch = scratch;
            return Ok(());
        }
        self.chunk += 1;
        let (chunk, line) = (self.chunk, self.buffer_line());
        for &Child { rank, is_above } in children {
            mpb.wait_flag_from(rank, self.put_line(rank), |put| put >= chunk).await?;
            mpb.compare(rank, self.put_line(rank))?;
            let there = Line { rank, line };
            combine_from(mpb, there, sum, operation, is_above, &mut self.scratch).await?;
            self.have_got(mpb, chunk, rank).await?;
        }
        Ok(())
    }

    /// Combines what all others have of the next elements, in rank order.
    async fn collect<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        own: Vector<'_, T>,
        operation: &O,
    ) -> Result<(), M::Error> {
        let (me, ranks, before) = (mpb.rank(), self.ranks, self.chunk);
        if self.takes_several::<T>() {
            let mut scratch = mem::take(&mut self.scratch);
            let mut fold = Fold::new(operation, me, own, &mut scratch);
            for rank in 0..ranks {
                if rank != me {
                    self.chunk = before;
                    self.receive(mpb, fold.room(rank), rank).await?;
                }
                fold.take(rank);
            }
            self.scratch = scratch;
            return Ok(());
        }
        self.chunk += 1;
        let (chunk, line, put) = (self.chunk, self.buffer_line(), self.put_line(0));
        let mut fold = Fold::new(operation, me, own, &mut self.scratch);
        for rank in 0..ranks {
            if rank != me {
                mpb.wait_flag_from(rank, put + rank, |put| put >= chunk).await?;
                mpb.compare(rank, put + rank)?;
            }
            fold.get(mpb, Line { rank, line }).await?;
        }
        for rank in (0..ranks).filter(|&rank| rank != me) {
            self.have_got(mpb, chunk, rank).await?;
        }
        Ok(())
    }

    fn put_line(&self, rank: usize) -> usize {
        self.options.first_line + rank
    }

    fn got_line(&self, rank: usize) -> usize {
        self.options.first_line + self.ranks + rank
    }

    /// Returns the buffer for this chunk.
    fn buffer(&self) -> usize {
        (self.chunk % self.options.buffers as u64) as usize
    }

    fn buffer_line(&self) -> usize {
        let before = self.buffer() * self.options.chunk_lines;
        self.options.first_line + ChunkOptions::flag_lines(self.ranks) + before
    }
}
