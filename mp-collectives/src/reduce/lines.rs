//! Reductions of a few lines, each with its payload beside its number (Ramos & Hoefler, section 5.1): a rank that waits
//! for another rank's elements waits for the very line that they are in.
//!
//! Every pair of ranks has lines of its own (`pairs.rs`), so that roots may change at no cost.

use mp_core::mpb::{Line, MpbAccess, complete};
use mp_core::{Plain, mpb::PAYLOAD_BYTES};

use super::choice::Prefix;
use super::fold::Fold;
use super::operations::Operation;
use super::places::Places;
use super::scratch::{ALIGNMENT, Scratch};
use super::vector::Vector;
use super::vectors::{append, combine, prepend};
use super::{Parts, ReduceError};
use crate::broadcast::LineOptionsError;
use crate::calls::CheckedMpb;
use crate::others::after;
use crate::pairs::{Numbered, Pairs, is_line, marked};

/// One rank's part in a series of reductions of few elements.
#[derive(Debug)]
pub struct LineReduce {
    pairs: Pairs,
    scratch: Scratch,
    places: Places,
}

/// The way in which all ranks get the result of a few lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meeting {
    /// By *recursive doubling*: in each round a rank exchanges its elements with another rank, so that both have those
    /// of twice as many ranks. If P is not a power of two, the ranks in excess first give their elements to a
    /// neighbour. The order is a tree over the ranks, the same at all of them: with four ranks (0 ∘ 1) ∘ (2 ∘ 3).
    Doubling,
    /// At rank 0, which combines the elements in rank order and sends the result to all: each other rank needs to be
    /// woken once.
    FirstRank,
}

impl LineReduce {
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
    ) -> Result<LineReduce, LineOptionsError> {
        Ok(LineReduce {
            pairs: Pairs::new(mpb, slots, first_line)?,
            scratch: Scratch::default(),
            places: Places::new(mpb.ranks(), mpb.rank()),
        })
    }

    /// Returns the number of lines that this takes of each MPB, or `None` when they are too many to count.
    pub fn lines(slots: usize, ranks: usize) -> Option<usize> {
        Pairs::lines(slots, ranks)
    }

    /// Returns the greatest length of a vector in bytes: what goes with half of the slots.
    pub fn most_bytes(&self) -> usize {
        self.pairs.most()
    }

    /// Reduces to all ranks. All ranks call this with vectors of the same length, and have the result in them when it
    /// returns, with the same bits on every rank.
    ///
    /// # Errors
    /// [`ReduceError::TooLong`], and the errors of the MPBs; after one of those, this rank is out of step with the
    /// others.
    #[inline]
    pub async fn all_reduce<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &mut [T],
        operation: &O,
        meeting: Meeting,
    ) -> Result<(), ReduceError<M::Error>> {
        let bytes = size_of_val(vector);
        self.check(bytes)?;
        if bytes == 0 || mpb.ranks() == 1 {
            return Ok(());
        }
        if mpb.ranks() > 2 || bytes > self.pairs.payload() {
            let done = match meeting {
                Meeting::Doubling => self.double(mpb, vector, operation).await,
                Meeting::FirstRank => self.meet(mpb, vector, operation).await,
            };
            return done.map_err(ReduceError::Mpb);
        }
        let (me, theirs) = (mpb.rank(), self.scratch.elements::<T>(vector.len()));
        let (own, there) = (bytemuck::cast_slice(vector), bytemuck::cast_slice_mut(theirs));
        self.pairs.exchange(mpb, own, there, 1 - me).await?;
        combine(operation, vector, theirs, me == 0);
        Ok(())
    }

    /// Does what [`all_reduce`](LineReduce::all_reduce) does for two real ranks and one line, if only the other rank's
    /// line must be waited for. It uses no future, whose state would have a noticeable cost for such a call.
    #[inline(always)]
    pub(super) fn exchange<T: Plain, O: Operation<T>>(
        &mut self,
        mpb: &mut CheckedMpb,
        vector: &mut [T],
        operation: &O,
    ) -> Option<mp_core::Result<()>> {
        let (me, other) = (mpb.rank(), 1 - mpb.rank());
        if !self.pairs.is_clear(other) {
            return None;
        }
        let (to, from) = (self.pairs.next_to(me, other), self.pairs.next_from(other));
        let mut theirs = [0; PAYLOAD_BYTES.div_ceil(ALIGNMENT)];
        let theirs: &mut [u8] = bytemuck::cast_slice_mut::<u128, u8>(&mut theirs);
        let theirs = &mut theirs[..size_of_val(vector)];
        let (flag, own) = (Line { rank: other, line: to.line }, bytemuck::cast_slice(vector));
        let number = marked(mpb, to.number);
        let exchanged =
            complete(mpb.exchange_flags(flag, number, own, from.line, from.number, theirs));
        if exchanged.is_ok() {
            self.pairs.exchanged(other, to.number);
            combine(operation, vector, bytemuck::cast_slice(theirs), me == 0);
        }
        Some(exchanged)
    }

    /// Returns the greatest number of bytes that [`exchange`](LineReduce::exchange) takes.
    pub(super) fn exchanged(&self) -> usize {
        self.pairs.payload()
    }

    /// Reduces to a root. All ranks call this with vectors of the same length and the same root. The root has the
    /// result in its vector when its call returns, combined in rank order. The vectors of the other ranks are only
    /// read.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](LineReduce::all_reduce); [`ReduceError::Root`].
    #[inline]
    pub async fn reduce<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: impl Into<Vector<'_, T>>,
        operation: &O,
        root: usize,
    ) -> Result<(), ReduceError<M::Error>> {
        let mut vector = vector.into();
        let bytes = size_of_val(vector.own());
        ReduceError::check_root(root, mpb.ranks())?;
        self.check(bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let one = bytes <= self.pairs.payload();
        match mpb.rank() == root {
            true if one && mpb.ranks() == 2 => {
                self.take_one(mpb, vector.begin(), operation).await?;
            }
            true => self.collect(mpb, vector, operation).await?,
            false if one => self.send_one(mpb, vector.own(), root).await?,
            false => self.pairs.send(mpb, bytemuck::cast_slice(vector.own()), root).await?,
        }
        Ok(())
    }

    /// Does what [`reduce`](LineReduce::reduce) does, along a tree of this λ ([`in_order`](mp_model::in_order)), which
    /// is the same at all ranks. Each rank combines its children's elements with its own and passes the result on
    /// (Ramos & Hoefler's binomial reduction, section 5.2). The order is that of the tree.
    ///
    /// # Errors
    /// The same as for [`reduce`](LineReduce::reduce).
    pub async fn reduce_along<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: impl Into<Vector<'_, T>>,
        operation: &O,
        lambda: usize,
        root: usize,
    ) -> Result<(), ReduceError<M::Error>> {
        let mut vector = vector.into();
        let (ranks, count, bytes) = (mpb.ranks(), vector.len(), size_of_val(vector.own()));
        self.check(bytes)?;
        let LineReduce { pairs, scratch, places } = self;
        let place = places.under(lambda, root).ok_or(ReduceError::Root { root, ranks })?;
        if bytes == 0 {
            return Ok(());
        }
        let (theirs, sum) = scratch.elements::<T>(2 * count).split_at_mut(count);
        // Only the root's vector is changed. Other ranks add up in memory of their own.
        let sum = match place.parent {
            None => vector.begin(),
            Some(parent) if place.children.is_empty() => {
                let own = bytemuck::cast_slice(vector.own());
                return Ok(pairs.send(mpb, own, parent).await?);
            }
            Some(_) => {
                sum.copy_from_slice(vector.own());
                sum
            }
        };
        for child in &place.children {
            pairs.receive(mpb, bytemuck::cast_slice_mut(theirs), child.rank).await?;
            combine(operation, sum, theirs, child.is_above);
        }
        if let Some(parent) = place.parent {
            pairs.send(mpb, bytemuck::cast_slice(sum), parent).await?;
        }
        Ok(())
    }

    /// Combines a block of the vectors for each rank. All ranks call this with vectors of the same length and the same
    /// blocks, and have the result of their own block when it returns, combined in rank order. Each rank sends to each
    /// other rank what that rank is to combine.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](LineReduce::all_reduce), for the longest block.
    pub async fn reduce_scatter<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        parts: &mut Parts<'_, T>,
        operation: &O,
    ) -> Result<(), ReduceError<M::Error>> {
        self.check(parts.longest().saturating_mul(size_of::<T>()))?;
        for rank in after(mpb.rank(), mpb.ranks()) {
            let elements = bytemuck::cast_slice(parts.block(rank));
            if !elements.is_empty() {
                self.pairs.send(mpb, elements, rank).await?;
            }
        }
        let own = parts.own();
        if size_of_val(own.own()) > 0 {
            self.collect(mpb, own, operation).await?;
        }
        Ok(())
    }

    /// Combines the vectors of this rank and those below it, by doubling: in each round a rank sends its result for
    /// twice as many ranks to a rank that is twice as far above it. All ranks call this with vectors of the same
    /// length. An exclusive scan leaves rank 0's vector as it was.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](LineReduce::all_reduce).
    pub async fn scan<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &mut [T],
        operation: &O,
        prefix: Prefix,
    ) -> Result<(), ReduceError<M::Error>> {
        self.check(size_of_val(vector))?;
        if size_of_val(vector) == 0 {
            return Ok(());
        }
        let LineReduce { pairs, scratch, .. } = self;
        let (me, ranks, count) = (mpb.rank(), mpb.ranks(), vector.len());
        let (before, theirs) = scratch.elements::<T>(2 * count).split_at_mut(count);
        let mut far = 1;
        while far < ranks {
            if far < ranks - me {
                pairs.send(mpb, bytemuck::cast_slice(vector), me + far).await?;
            }
            if far <= me {
                pairs.receive(mpb, bytemuck::cast_slice_mut(theirs), me - far).await?;
                prepend(operation, theirs, vector);
                match far {
                    1 => before.copy_from_slice(theirs),
                    _ => prepend(operation, theirs, before),
                }
            }
            far *= 2;
        }
        if prefix == Prefix::Exclusive && me > 0 {
            vector.copy_from_slice(before);
        }
        Ok(())
    }

    /// Sends a vector in one line as [`Pairs::send`] does, without what is needed for several lines.
    #[inline(always)]
    async fn send_one<T: Plain, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &[T],
        to: usize,
    ) -> Result<(), M::Error> {
        let pairs = &mut self.pairs;
        let Numbered { number, line } = pairs.next_to(mpb.rank(), to);
        if let Some(before) = pairs.must_wait(to, number) {
            pairs.wait_until_taken(mpb, to, before).await?;
        }
        let own = bytemuck::cast_slice(vector);
        let value = marked(mpb, number);
        mpb.set_flag_with(Line { rank: to, line }, value, own).await
    }

    /// Takes the other one of two ranks' vector in one line and combines it with this rank's own.
    #[inline(always)]
    async fn take_one<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &mut [T],
        operation: &O,
    ) -> Result<(), M::Error> {
        let (me, other) = (mpb.rank(), 1 - mpb.rank());
        let Numbered { number, line } = self.pairs.next_from(other);
        let theirs = self.scratch.elements::<T>(vector.len());
        let seen = mpb.wait_flag_from(other, line, is_line(number)).await?;
        mpb.compare_mark(other, seen)?;
        mpb.flag_payload(line, bytemuck::cast_slice_mut(theirs)).await?;
        if let Some(flag) = self.pairs.says_taken(me, other, number - 1, number) {
            mpb.set_flag(flag, number).await?;
        }
        combine(operation, vector, theirs, me == 0);
        Ok(())
    }

    #[inline]
    fn check<E>(&self, bytes: usize) -> Result<(), ReduceError<E>> {
        let most = self.pairs.most();
        if bytes <= most { Ok(()) } else { Err(ReduceError::TooLong { bytes, most }) }
    }

    /// Combines by recursive doubling. A neighbour stands for itself and for the rank below or above whose elements it
    /// has, so that the elements combined are always those of adjacent ranks.
    async fn double<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &mut [T],
        operation: &O,
    ) -> Result<(), M::Error> {
        let LineReduce { pairs, scratch, .. } = self;
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        let places = 1 << ranks.ilog2();
        // The first `doubled` places are of two ranks each.
        let doubled = ranks - places;
        let rank_of = |place: usize| if place < doubled { 2 * place } else { place + doubled };
        let theirs = scratch.elements::<T>(vector.len());
        if me < 2 * doubled && !me.is_multiple_of(2) {
            pairs.send(mpb, bytemuck::cast_slice(vector), me - 1).await?;
            return pairs.receive(mpb, bytemuck::cast_slice_mut(vector), me - 1).await;
        }
        if me < 2 * doubled {
            pairs.receive(mpb, bytemuck::cast_slice_mut(theirs), me + 1).await?;
            append(operation, vector, theirs);
        }
        let place = if me < 2 * doubled { me / 2 } else { me - doubled };
        let mut far = 1;
        while far < places {
            let other = rank_of(place ^ far);
            pairs.send(mpb, bytemuck::cast_slice(vector), other).await?;
            pairs.receive(mpb, bytemuck::cast_slice_mut(theirs), other).await?;
            combine(operation, vector, theirs, place & far == 0);
            far *= 2;
        }
        if me < 2 * doubled {
            pairs.send(mpb, bytemuck::cast_slice(vector), me + 1).await?;
        }
        Ok(())
    }

    /// Combines at rank 0.
    async fn meet<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: &mut [T],
        operation: &O,
    ) -> Result<(), M::Error> {
        if mpb.rank() > 0 {
            self.pairs.send(mpb, bytemuck::cast_slice(vector), 0).await?;
            return self.pairs.receive(mpb, bytemuck::cast_slice_mut(vector), 0).await;
        }
        self.collect(mpb, Vector::from(&mut *vector), operation).await?;
        for rank in 1..mpb.ranks() {
            self.pairs.send(mpb, bytemuck::cast_slice(vector), rank).await?;
        }
        Ok(())
    }

    /// Combines the elements of all others, in rank order.
    async fn collect<T: Plain, O: Operation<T>, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        vector: Vector<'_, T>,
        operation: &O,
    ) -> Result<(), M::Error> {
        let (me, ranks, bytes) = (mpb.rank(), mpb.ranks(), size_of_val(vector.own()));
        let LineReduce { pairs, scratch, .. } = self;
        // The rank that is released last is likely the last to come. When its elements are there, those of the others
        // mostly are, too, and no wait is needed for each.
        if let Some(last) = (0..ranks).rfind(|&rank| rank != me) {
            pairs.await_from(mpb, bytes, last).await?;
        }
        let mut fold = Fold::new(operation, me, vector, scratch);
        for rank in 0..ranks {
            if rank != me {
                pairs.receive(mpb, fold.room(rank), rank).await?;
            }
            fold.take(rank);
        }
        Ok(())
    }
}
