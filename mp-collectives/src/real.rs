//! The MPBs of real ranks, threads or processes, as algorithms see them.

use std::borrow::Borrow;

use mp_core::mpb;
use mp_model::interrupts::Interrupts;
use mp_model::mpb::{Line, Misfit, Mpb};
use thiserror::Error;

use crate::broadcast::{BroadcastError, OptionsError};
use crate::two_sided::NoRoom;

/// A rank's access to the message passing buffers of its world, for algorithms that are generic
/// over [`Mpb`]. Its operations block, so that [`complete`](mp_model::mpb::complete) runs an
/// algorithm from beginning to end.
///
/// ```
/// use mp_collectives::{RealMpb, broadcast::{OcBcast, Options}, complete};
/// use mp_core::{World, mpb::Mpbs};
///
/// let got = World::threads(3).run(|rank| {
///     let mut mpb = RealMpb::new(rank.mpb("broadcast", Mpbs::lines(256))?);
///     let mut broadcasts = OcBcast::new(&mpb, Options::scc(2))?;
///     let mut message = if rank.id() == 0 { *b"to all of you" } else { [0; 13] };
///     complete(broadcasts.broadcast(&mut mpb, &mut message, 0))?;
///     Ok(String::from_utf8_lossy(&message).into_owned())
/// })?;
/// assert_eq!(got, ["to all of you"; 3]);
/// # Ok::<(), mp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RealMpb<M = mpb::Mpb>(M);

impl<M: Borrow<mpb::Mpb>> RealMpb<M> {
    /// Of buffers that [`Rank::mpb`](mp_core::Rank::mpb) has opened, or of a reference to them.
    pub fn new(mpb: M) -> Self {
        Self(mpb)
    }
}

impl RealMpb {
    /// The buffers, which other threads of the rank may use meanwhile.
    pub fn get_ref(&self) -> &mpb::Mpb {
        &self.0
    }

    /// The buffers, to set how calls wait.
    pub fn get_mut(&mut self) -> &mut mpb::Mpb {
        &mut self.0
    }

    /// The buffers again.
    pub fn into_inner(self) -> mpb::Mpb {
        self.0
    }
}

/// Why an operation on real ranks' buffers failed.
#[derive(Debug, Error)]
pub enum RealError {
    /// A place that does not exist, found by the algorithm.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// What the buffers say.
    #[error(transparent)]
    Core(#[from] mp_core::Error),
}

/// So that rank code can return it with `?`.
impl From<RealError> for mp_core::Error {
    fn from(error: RealError) -> Self {
        match error {
            RealError::Misfit(misfit) => Self::other(misfit),
            RealError::Core(error) => error,
        }
    }
}

/// So that rank code can return it with `?`.
impl From<BroadcastError<RealError>> for mp_core::Error {
    fn from(error: BroadcastError<RealError>) -> Self {
        match error {
            BroadcastError::Mpb(error) => error.into(),
            other => Self::other(other),
        }
    }
}

/// So that rank code can return it with `?`.
impl From<OptionsError> for mp_core::Error {
    fn from(error: OptionsError) -> Self {
        Self::other(error)
    }
}

/// So that rank code can return it with `?`.
impl From<NoRoom> for mp_core::Error {
    fn from(error: NoRoom) -> Self {
        Self::other(error)
    }
}

#[inline(always)]
fn real(line: Line) -> mpb::Line {
    mpb::Line { rank: line.rank, line: line.line }
}

impl<M: Borrow<mpb::Mpb>> Mpb for RealMpb<M> {
    type Error = RealError;

    #[inline]
    fn rank(&self) -> usize {
        self.0.borrow().rank()
    }

    #[inline]
    fn ranks(&self) -> usize {
        self.0.borrow().ranks()
    }

    #[inline]
    fn lines(&self) -> usize {
        self.0.borrow().lines()
    }

    #[inline]
    fn line_bytes(&self) -> usize {
        self.0.borrow().line_bytes()
    }

    #[inline]
    async fn put(&mut self, source: &[u8], to: Line) -> Result<(), RealError> {
        Ok(self.0.borrow().put(source, real(to))?)
    }

    #[inline]
    async fn put_own(&mut self, from: usize, count: usize, to: Line) -> Result<(), RealError> {
        Ok(self.0.borrow().put_own(from, count, real(to))?)
    }

    #[inline]
    async fn get(&mut self, from: Line, target: &mut [u8]) -> Result<(), RealError> {
        Ok(self.0.borrow().get(real(from), target)?)
    }

    #[inline]
    async fn get_own(&mut self, from: Line, count: usize, to: usize) -> Result<(), RealError> {
        Ok(self.0.borrow().get_own(real(from), count, to)?)
    }

    #[inline]
    async fn set_flag(&mut self, flag: Line, value: u64) -> Result<(), RealError> {
        Ok(self.0.borrow().set_flag(real(flag), value)?)
    }

    #[inline]
    async fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> Result<(), RealError> {
        Ok(self.0.borrow().set_flag_with(real(flag), value, payload)?)
    }

    #[inline]
    async fn flag(&mut self, line: usize) -> Result<u64, RealError> {
        Ok(self.0.borrow().flag(line)?)
    }

    #[inline]
    async fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, RealError> {
        Ok(self.0.borrow().wait_flag(line, reached)?)
    }

    #[inline]
    async fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, RealError> {
        Ok(self.0.borrow().wait_flag_from(setter, line, reached)?)
    }

    #[inline]
    async fn flag_payload(&mut self, line: usize, target: &mut [u8]) -> Result<(), RealError> {
        Ok(self.0.borrow().flag_payload(line, target)?)
    }
}

impl<M: Borrow<mpb::Mpb>> Interrupts for RealMpb<M> {
    #[inline]
    async fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), RealError> {
        Ok(self.0.borrow().interrupt(ranks)?)
    }

    #[inline]
    async fn take_interrupts(&mut self, sources: &mut Vec<usize>) -> Result<(), RealError> {
        self.0.borrow().take_interrupts(sources);
        Ok(())
    }

    #[inline]
    async fn answer(&mut self, flag: Line, value: u64) -> Result<(), RealError> {
        Ok(self.0.borrow().answer(real(flag), value)?)
    }
}
