//! [`MpbAccess`] of the MPBs of a world.
//!
//! An operation is done when it is called, and its future is ready at once. An error is one word. With futures that
//! did their work when they were polled, and errors of a hundred bytes, the same code took 55 ns for 8 bytes instead of
//! 17.

use std::future::{Future, ready};

use super::{Interrupts, Line, Mpb, MpbAccess};
use crate::{
    error::{Error, Result},
    plain::Plain,
};

/// A type that algorithms use as an [`Mpb`], with [`MpbAccess`]. It may wait in its own way, and may
/// [compare](MpbAccess::compare) the ranks' calls; everything else is as for the [`Mpb`].
pub trait AsMpb {
    /// Returns the MPBs.
    fn as_mpb(&self) -> &Mpb;

    /// Waits for a flag. `setter` is the only rank that sets the flag, if there is one. `together` is true if the flag
    /// is set by [`Mpb::set_flags`]. By default, the call blocks.
    #[inline(always)]
    fn wait(
        &self,
        setter: Option<usize>,
        line: usize,
        together: bool,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64>> {
        ready(self.as_mpb().wait_in(None, setter, line, reached, together))
    }

    /// Waits for a flag that only rank `setter` sets, unless `before` is an error. Returns the result of `then`, which
    /// gets the flag's value. By default, the call blocks.
    #[inline(always)]
    fn wait_between(
        &self,
        before: Result<()>,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
        then: impl FnOnce(u64) -> Result<()>,
    ) -> impl Future<Output = Result<()>> {
        let waited = before.and_then(|()| self.as_mpb().wait_flag_from(setter, line, reached));
        ready(match waited {
            Ok(seen) => then(seen),
            Err(error) => Err(error),
        })
    }

    /// Returns whether [`MpbAccess::lend`] lends slices.
    #[inline(always)]
    fn lends(&self) -> bool {
        false
    }

    /// Does what [`MpbAccess::mark`] does.
    #[inline(always)]
    fn mark(&self) -> u64 {
        0
    }

    /// Does what [`MpbAccess::compare_mark`] does.
    ///
    /// # Errors
    /// When the calls differ.
    #[inline(always)]
    fn compare_mark(&self, from: usize, seen: u64) -> Result<()> {
        let _ = (from, seen);
        Ok(())
    }

    /// Does what [`MpbAccess::blocks_differ`] does.
    #[inline(always)]
    fn blocks_differ(&self) -> bool {
        false
    }

    /// Does what [`MpbAccess::mark_of`] does.
    #[inline(always)]
    fn mark_of(&self, bytes: usize) -> u64 {
        let _ = bytes;
        self.mark()
    }

    /// Does what [`MpbAccess::compare_block`] does.
    ///
    /// # Errors
    /// When the calls differ, or the block is longer than the room.
    #[inline(always)]
    fn compare_block(&self, from: usize, seen: u64, room: usize) -> Result<()> {
        let _ = room;
        self.compare_mark(from, seen)
    }

    /// Does what [`MpbAccess::announce_block`] does.
    ///
    /// # Errors
    /// As [`Mpb::set_flag`].
    #[inline(always)]
    fn announce_block(&mut self, flag: Line, value: u64, bytes: usize) -> Result<()> {
        let _ = bytes;
        self.announce(flag, value)
    }

    /// Does what [`MpbAccess::compare_announced`] does.
    ///
    /// # Errors
    /// When the calls differ, or the block is longer than the room.
    #[inline(always)]
    fn compare_announced(&mut self, from: usize, line: usize, room: usize) -> Result<()> {
        let _ = room;
        self.compare(from, line)
    }

    /// Does what [`MpbAccess::announce`] does.
    ///
    /// # Errors
    /// As [`Mpb::set_flag`].
    #[inline(always)]
    fn announce(&self, flag: Line, value: u64) -> Result<()> {
        self.as_mpb().set_flag(flag, value)
    }

    /// Does what [`MpbAccess::announce_news`] does.
    ///
    /// # Errors
    /// As [`Mpb::set_flag`].
    #[inline(always)]
    fn announce_news(&self, flag: Line, value: u64) -> Result<()> {
        self.announce(flag, value)
    }

    /// Does what [`MpbAccess::compare`] does.
    ///
    /// # Errors
    /// When the calls differ.
    #[inline(always)]
    fn compare(&mut self, from: usize, line: usize) -> Result<()> {
        let _ = (from, line);
        Ok(())
    }
}

impl AsMpb for Mpb {
    #[inline(always)]
    fn as_mpb(&self) -> &Mpb {
        self
    }
}

/// Lets several threads use the same MPBs at the same time.
impl AsMpb for &Mpb {
    #[inline(always)]
    fn as_mpb(&self) -> &Mpb {
        self
    }
}

impl<M: AsMpb> MpbAccess for M {
    type Error = Error;

    const LENDS: bool = true;

    #[inline]
    fn rank(&self) -> usize {
        self.as_mpb().rank()
    }

    #[inline]
    fn ranks(&self) -> usize {
        self.as_mpb().ranks()
    }

    #[inline]
    fn lines(&self) -> usize {
        self.as_mpb().lines()
    }

    #[inline]
    fn line_bytes(&self) -> usize {
        self.as_mpb().line_bytes()
    }

    #[inline(always)]
    fn put(&mut self, source: &[u8], to: Line) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().put(source, to))
    }

    #[inline(always)]
    fn put_own(&mut self, from: usize, count: usize, to: Line) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().put_own(from, count, to))
    }

    #[inline(always)]
    fn get(&mut self, from: Line, target: &mut [u8]) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().get(from, target))
    }

    #[inline]
    fn lend(&mut self, slice: &[u8], to: Line) -> impl Future<Output = Result<bool>> {
        ready(if self.lends() { self.as_mpb().lend(slice, to) } else { Ok(false) })
    }

    #[inline]
    fn borrow(&mut self, from: Line, target: &mut [u8]) -> impl Future<Output = Result<bool>> {
        ready(self.as_mpb().borrow(from, target))
    }

    #[inline(always)]
    fn get_with<T: Plain>(
        &mut self,
        from: Line,
        own: Option<&[T]>,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().get_with(from, own, target, combine))
    }

    #[inline(always)]
    fn pass_with<T: Plain>(
        &mut self,
        from: Line,
        own: Option<&[T]>,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
        to: Line,
    ) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().pass_with(from, own, target, combine, to))
    }

    #[inline(always)]
    fn get_own(&mut self, from: Line, count: usize, to: usize) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().get_own(from, count, to))
    }

    #[inline(always)]
    fn set_flag(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().set_flag(flag, value))
    }

    #[inline(always)]
    fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().set_flag_with(flag, value, payload))
    }

    #[inline(always)]
    fn set_flags_with(
        &mut self,
        first: Line,
        value: u64,
        payload: &[u8],
    ) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().set_flags_with(first, value, payload))
    }

    #[inline(always)]
    fn mark(&self) -> u64 {
        AsMpb::mark(self)
    }

    #[inline(always)]
    fn compare_mark(&self, from: usize, seen: u64) -> Result<()> {
        AsMpb::compare_mark(self, from, seen)
    }

    #[inline(always)]
    fn blocks_differ(&self) -> bool {
        AsMpb::blocks_differ(self)
    }

    #[inline(always)]
    fn mark_of(&self, bytes: usize) -> u64 {
        AsMpb::mark_of(self, bytes)
    }

    #[inline(always)]
    fn compare_block(&self, from: usize, seen: u64, room: usize) -> Result<()> {
        AsMpb::compare_block(self, from, seen, room)
    }

    #[inline(always)]
    fn announce_block(
        &mut self,
        flag: Line,
        value: u64,
        bytes: usize,
    ) -> impl Future<Output = Result<()>> {
        ready(AsMpb::announce_block(self, flag, value, bytes))
    }

    #[inline(always)]
    fn compare_announced(&mut self, from: usize, line: usize, room: usize) -> Result<()> {
        AsMpb::compare_announced(self, from, line, room)
    }

    #[inline(always)]
    fn announce(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<()>> {
        ready(AsMpb::announce(self, flag, value))
    }

    #[inline(always)]
    fn announce_news(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<()>> {
        ready(AsMpb::announce_news(self, flag, value))
    }

    #[inline(always)]
    fn compare(&mut self, from: usize, line: usize) -> Result<()> {
        AsMpb::compare(self, from, line)
    }

    #[inline(always)]
    fn flag(&mut self, line: usize) -> impl Future<Output = Result<u64>> {
        ready(self.as_mpb().flag(line))
    }

    #[inline(always)]
    fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64>> {
        self.wait(None, line, false, reached)
    }

    #[inline(always)]
    fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64>> {
        self.wait(Some(setter), line, false, reached)
    }

    #[inline]
    fn set_flags(&mut self, line: usize, value: u64) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().set_flags(line, value))
    }

    #[inline(always)]
    fn wait_flag_together(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64>> {
        self.wait(Some(setter), line, true, reached)
    }

    #[inline(always)]
    fn flag_payload(&mut self, line: usize, target: &mut [u8]) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().flag_payload(line, target))
    }

    #[inline(always)]
    fn exchange_flags(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
        line: usize,
        awaited: u64,
        target: &mut [u8],
    ) -> impl Future<Output = Result<()>> {
        let this = &*self;
        let set = this.as_mpb().set_flag_with(flag, value, payload);
        let reached = move |seen| seen as u32 == awaited as u32;
        this.wait_between(set, flag.rank, line, reached, move |seen| {
            match AsMpb::compare_mark(this, flag.rank, seen) {
                Ok(()) => this.as_mpb().flag_payload(line, target),
                differs => differs,
            }
        })
    }

    #[inline(always)]
    fn flag_payloads(
        &mut self,
        first: usize,
        target: &mut [u8],
    ) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().flag_payloads(first, target))
    }
}

impl<M: AsMpb> Interrupts for M {
    #[inline]
    fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().interrupt(ranks))
    }

    #[inline]
    fn take_interrupts(&mut self, sources: &mut Vec<usize>) -> impl Future<Output = Result<()>> {
        self.as_mpb().take_interrupts(sources);
        ready(Ok(()))
    }

    #[inline]
    fn answer(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<()>> {
        ready(self.as_mpb().answer(flag, value))
    }
}
