//! The MPBs of real ranks, threads or processes, as algorithms see them.
//!
//! An operation is done when it is called, and its future is ready at once. An error is one word, kept off the hot
//! path. With futures that did their work when they were polled, and errors of a hundred bytes, the same code took 55
//! ns for 8 bytes instead of 17.

use std::borrow::Borrow;
use std::future::{Ready, ready};
use std::sync::Arc;

use mp_core::{Plain, mpb, waits::Caller};
use mp_model::interrupts::Interrupts;
use mp_model::mpb::{Line, Misfit, Mpb, NEWS};
use thiserror::Error;

use crate::broadcast::{BroadcastError, OptionsError};
use crate::calls::{Board, Checked, Mark};
use crate::exchange::ExchangeError;
use crate::layout::LayoutError;
use crate::reduce::ReduceError;
use crate::two_sided::NoRoom;

/// A rank's access to the message passing buffers of its world, for algorithms that are generic over [`Mpb`]. Its
/// operations block, so [`complete`](mp_model::mpb::complete) runs an algorithm from beginning to end.
///
/// ```
/// use onchip::broadcast::{OcBcast, Options, RealMpb, complete};
/// use onchip::{World, mpb::Mpbs};
///
/// let got = World::threads(3).run(|rank| {
///     let mut mpb = RealMpb::new(rank.mpb("broadcast", Mpbs::lines(256))?);
///     let mut broadcasts = OcBcast::new(&mpb, Options::scc(2))?;
///     let mut message = if rank.id() == 0 { *b"to all of you" } else { [0; 13] };
///     complete(broadcasts.broadcast(&mut mpb, &mut message, 0))?;
///     Ok(String::from_utf8_lossy(&message).into_owned())
/// })?;
/// assert_eq!(got, ["to all of you"; 3]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct RealMpb<M = mpb::Mpb> {
    mpb: M,
    pub(crate) checked: Checked,
}

impl<M: Borrow<mpb::Mpb>> RealMpb<M> {
    /// Wraps buffers that [`Rank::mpb`](mp_core::Rank::mpb) has opened, or a reference to them.
    pub fn new(mpb: M) -> Self {
        Self { mpb, checked: Checked::default() }
    }

    /// Wraps buffers where the ranks compare their calls.
    pub(crate) fn checked(mpb: M) -> Self {
        let checked = Checked::new(mpb.borrow().ranks());
        Self { mpb, checked }
    }

    /// Begins a call.
    #[inline(always)]
    pub(crate) fn begin(&mut self, mark: Mark) {
        self.checked.begin(mark);
    }

    /// Does what [`begin`](Self::begin) does, for a front whose calls are all the same.
    #[inline(always)]
    pub(crate) fn begin_again(&mut self, mark: Mark) {
        self.checked.begin_again(mark);
    }

    #[inline(always)]
    fn mpb(&self) -> &mpb::Mpb {
        self.mpb.borrow()
    }

    #[inline(always)]
    fn compared(&mut self) -> (&mpb::Mpb, &mut Checked) {
        (self.mpb.borrow(), &mut self.checked)
    }
}

impl RealMpb {
    /// Returns the buffers, which other threads of the rank may use in the meantime.
    pub fn get_ref(&self) -> &mpb::Mpb {
        &self.mpb
    }

    /// Returns the buffers, to set how calls wait.
    pub fn get_mut(&mut self) -> &mut mpb::Mpb {
        &mut self.mpb
    }

    /// Connects this to the board of a communicator, as the communicator's fronts do.
    pub(crate) fn watch(&mut self, board: &Arc<Board>) {
        self.checked.share(board.history());
        self.mpb.set_watch(Arc::clone(board) as Arc<dyn mpb::Watch>);
        self.mpb.set_caller(Arc::clone(board) as Arc<dyn Caller>);
    }

    /// Returns the buffers.
    pub fn into_inner(self) -> mpb::Mpb {
        self.mpb
    }

    pub(crate) fn into_parts(self) -> (mpb::Mpb, Checked) {
        (self.mpb, self.checked)
    }
}

/// The reason why an operation on real ranks' buffers failed: an [`Error`](mp_core::Error) behind a pointer, so that
/// algorithms pass on a single word where nothing failed.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RealError(Box<mp_core::Error>);

impl From<Misfit> for RealError {
    fn from(misfit: Misfit) -> Self {
        mp_core::Error::other(misfit).into()
    }
}

impl From<mp_core::Error> for RealError {
    #[cold]
    fn from(error: mp_core::Error) -> Self {
        Self(error.into())
    }
}

/// Allows rank code to return it with `?`.
impl From<RealError> for mp_core::Error {
    fn from(error: RealError) -> Self {
        *error.0
    }
}

/// Allows rank code to return it with `?`.
impl From<BroadcastError<RealError>> for mp_core::Error {
    fn from(error: BroadcastError<RealError>) -> Self {
        match error {
            BroadcastError::Mpb(error) => error.into(),
            other => Self::other(other),
        }
    }
}

/// Allows rank code to return it with `?`.
impl From<ReduceError<RealError>> for mp_core::Error {
    fn from(error: ReduceError<RealError>) -> Self {
        match error {
            ReduceError::Mpb(error) => error.into(),
            other => Self::other(other),
        }
    }
}

/// Allows rank code to return it with `?`.
impl From<ExchangeError> for mp_core::Error {
    #[cold]
    fn from(error: ExchangeError) -> Self {
        Self::other(error)
    }
}

/// Allows rank code to return it with `?`.
impl From<LayoutError> for mp_core::Error {
    #[cold]
    fn from(error: LayoutError) -> Self {
        Self::other(error)
    }
}

/// Allows rank code to return it with `?`.
impl From<OptionsError> for mp_core::Error {
    fn from(error: OptionsError) -> Self {
        Self::other(error)
    }
}

/// Allows rank code to return it with `?`.
impl From<NoRoom> for mp_core::Error {
    fn from(error: NoRoom) -> Self {
        Self::other(error)
    }
}

#[inline(always)]
pub(crate) fn real(line: Line) -> mpb::Line {
    mpb::Line { rank: line.rank, line: line.line }
}

/// Returns the future of an operation that is already done.
#[inline(always)]
pub(crate) fn done<T>(result: mp_core::Result<T>) -> Ready<Result<T, RealError>> {
    ready(match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.into()),
    })
}

/// Sets a flag, with calls beside it if there are any.
#[inline(always)]
pub(crate) fn set_with<const CALLS: usize>(
    mpb: &mpb::Mpb,
    flag: Line,
    value: u64,
    calls: Option<[u64; CALLS]>,
) -> mp_core::Result<()> {
    match calls {
        Some(calls) => mpb.set_flag_with(real(flag), value, bytemuck::cast_slice(&calls)),
        None => mpb.set_flag(real(flag), value),
    }
}

/// Implements everything that [`Mpb`] requires except the waits, for a type whose `mpb()` returns the buffers. The
/// operations are done when they are called.
macro_rules! at_once {
    () => {
        #[inline]
        fn rank(&self) -> usize {
            self.mpb().rank()
        }

        #[inline]
        fn ranks(&self) -> usize {
            self.mpb().ranks()
        }

        #[inline]
        fn lines(&self) -> usize {
            self.mpb().lines()
        }

        #[inline]
        fn line_bytes(&self) -> usize {
            self.mpb().line_bytes()
        }

        #[inline(always)]
        fn put(&mut self, source: &[u8], to: Line) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().put(source, real(to)))
        }

        #[inline(always)]
        fn put_own(
            &mut self,
            from: usize,
            count: usize,
            to: Line,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().put_own(from, count, real(to)))
        }

        #[inline(always)]
        fn get(
            &mut self,
            from: Line,
            target: &mut [u8],
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().get(real(from), target))
        }

        #[inline(always)]
        fn get_with<T: Plain>(
            &mut self,
            from: Line,
            target: &mut [T],
            combine: impl Fn(T, T) -> T,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().get_with(real(from), target, combine))
        }

        #[inline(always)]
        fn pass_with<T: Plain>(
            &mut self,
            from: Line,
            target: &mut [T],
            combine: impl Fn(T, T) -> T,
            to: Line,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().pass_with(real(from), target, combine, real(to)))
        }

        #[inline(always)]
        fn get_own(
            &mut self,
            from: Line,
            count: usize,
            to: usize,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().get_own(real(from), count, to))
        }

        #[inline(always)]
        fn set_flag(
            &mut self,
            flag: Line,
            value: u64,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().set_flag(real(flag), value))
        }

        #[inline(always)]
        fn set_flag_with(
            &mut self,
            flag: Line,
            value: u64,
            payload: &[u8],
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().set_flag_with(real(flag), value, payload))
        }

        #[inline(always)]
        fn set_flags_with(
            &mut self,
            first: Line,
            value: u64,
            payload: &[u8],
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().set_flags_with(real(first), value, payload))
        }

        #[inline(always)]
        fn flag_payloads(
            &mut self,
            first: usize,
            target: &mut [u8],
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().flag_payloads(first, target))
        }

        #[inline(always)]
        fn mark(&self) -> u64 {
            self.checked.mark()
        }

        #[inline(always)]
        fn compare_mark(&self, from: usize, seen: u64) -> Result<(), RealError> {
            self.checked.compare_mark(self.mpb(), from, seen)
        }

        #[inline(always)]
        fn announce(
            &mut self,
            flag: Line,
            value: u64,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(set_with(self.mpb(), flag, value, self.checked.announced()))
        }

        #[inline(always)]
        fn announce_news(
            &mut self,
            flag: Line,
            value: u64,
        ) -> impl Future<Output = Result<(), RealError>> {
            let news = self.checked.announced_news();
            let value = if news.is_some() { value | NEWS } else { value };
            done(set_with(self.mpb(), flag, value, news))
        }

        #[inline(always)]
        fn compare(&mut self, from: usize, line: usize) -> Result<(), RealError> {
            let (mpb, checked) = self.compared();
            checked.compare(mpb, from, line)
        }

        #[inline(always)]
        fn flag(&mut self, line: usize) -> impl Future<Output = Result<u64, RealError>> {
            done(self.mpb().flag(line))
        }

        #[inline(always)]
        fn flag_payload(
            &mut self,
            line: usize,
            target: &mut [u8],
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().flag_payload(line, target))
        }

        #[inline]
        fn set_flags(
            &mut self,
            line: usize,
            value: u64,
        ) -> impl Future<Output = Result<(), RealError>> {
            done(self.mpb().set_flags(line, value))
        }
    };
}
pub(crate) use at_once;

/// Operations are done when they are called, so that no future has a state.
impl<M: Borrow<mpb::Mpb>> Mpb for RealMpb<M> {
    type Error = RealError;

    at_once!();

    #[inline(always)]
    fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, RealError>> {
        done(self.mpb().wait_flag(line, reached))
    }

    #[inline(always)]
    fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, RealError>> {
        done(self.mpb().wait_flag_from(setter, line, reached))
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
    ) -> impl Future<Output = Result<(), RealError>> {
        let mpb = self.mpb();
        let exchanged = mpb.set_flag_with(real(flag), value, payload).and_then(|()| {
            mpb.wait_flag_from(flag.rank, line, |seen| seen as u32 == awaited as u32)
        });
        ready(match exchanged {
            Ok(seen) => match self.checked.compare_mark(mpb, flag.rank, seen) {
                Ok(()) => mpb.flag_payload(line, target).map_err(RealError::from),
                differs => differs,
            },
            Err(error) => Err(error.into()),
        })
    }

    #[inline(always)]
    fn wait_flag_together(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, RealError>> {
        done(self.mpb().wait_flag_together(setter, line, reached))
    }
}

impl<M: Borrow<mpb::Mpb>> Interrupts for RealMpb<M> {
    #[inline]
    fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> impl Future<Output = Result<(), RealError>> {
        done(self.mpb().interrupt(ranks))
    }

    #[inline]
    fn take_interrupts(
        &mut self,
        sources: &mut Vec<usize>,
    ) -> impl Future<Output = Result<(), RealError>> {
        self.mpb().take_interrupts(sources);
        done(Ok(()))
    }

    #[inline]
    fn answer(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<(), RealError>> {
        done(self.mpb().answer(real(flag), value))
    }
}
