//! What the caller holds while a collective operation goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use mp_core::delegate::{Backoff, discard};
use mp_core::{Error, Result, Wait, mpb::Polled};
use mp_delegate::comm::Errands;
use thiserror::Error;

/// Why an operation was not carried out, besides what its MPBs say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImmediateError {
    /// The program's own code panicked, with this message.
    #[error("an operation panicked: {0}")]
    Panicked(Arc<str>),
    /// The front is over because of this.
    #[error("nothing more is possible here after: {0}")]
    Broken(Arc<str>),
}

impl From<ImmediateError> for Error {
    fn from(error: ImmediateError) -> Self {
        Self::other(error)
    }
}

/// An operation failed; its buffer is back. What is in it is not determined.
#[derive(Error)]
#[error("{error}")]
pub struct Failed<B> {
    /// Why.
    #[source]
    pub error: Error,
    /// What was given.
    pub buffer: B,
}

impl<B> std::fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error
    }
}

/// Where an operation's answer is left.
pub(super) struct Reply<B> {
    /// Of the operation's front, whose rank waits.
    polled: Arc<Polled>,
    state: Mutex<State<B>>,
}

struct State<B> {
    done: bool,
    /// Until it is taken.
    answer: Option<Answer<B>>,
    /// Who sleeps until it is done.
    waiting: Option<ThreadId>,
    task: Option<Waker>,
}

type Answer<B> = Result<B, Failed<B>>;

impl<B> Reply<B> {
    pub(super) fn new(polled: Arc<Polled>) -> Self {
        let state = State { done: false, answer: None, waiting: None, task: None };
        Self { polled, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn answer(&self, outcome: Result<()>, buffer: B) {
        let answer = match outcome {
            Ok(()) => Ok(buffer),
            Err(error) => Err(Failed { error, buffer }),
        };
        let mut state = self.lock();
        (state.done, state.answer) = (true, Some(answer));
        let (waiting, task) = (state.waiting.take(), state.task.take());
        drop(state);
        if waiting.is_some_and(|thread| thread != thread::current().id()) {
            self.polled.ring();
        }
        // Whatever it does, it is the task's.
        discard(catch_unwind(AssertUnwindSafe(|| task.map(Waker::wake))));
    }

    fn is_done(&self) -> bool {
        self.lock().done
    }
}

/// A collective operation that is under way (`MPI_Request`). It owns the elements, and gives them back
/// when it is done, also when it has failed.
///
/// Dropping a request lets go of it: the operation goes on, so that the other ranks are not kept
/// waiting. Leaking it does nothing worse.
///
/// It is also a future, for programs that have a runtime. Where the rank itself carries its operations
/// on ([`Progress::InCalls`](mp_delegate::comm::Progress::InCalls)) the task is woken again and again
/// until it is done.
#[must_use = "its result and errors come from `wait`"]
pub struct CollectiveRequest<B> {
    reply: Arc<Reply<B>>,
    errands: Errands,
}

impl<B> CollectiveRequest<B> {
    pub(super) fn new(reply: Arc<Reply<B>>, errands: Errands) -> Self {
        Self { reply, errands }
    }

    /// Waits until this rank's part in the operation is done (`MPI_Wait`).
    ///
    /// # Errors
    /// Those of the operation's blocking form, with the buffer; [`ImmediateError`].
    ///
    /// # Panics
    /// When it has given its answer as a future.
    pub fn wait(mut self) -> Result<B, Failed<B>> {
        let mut backoff = Backoff::new();
        // In a world too broken to sleep in, every operation ends all the same.
        while !self.drive(Wait::forever()).is_ok_and(|done| done) && !self.reply.is_done() {
            backoff.pause();
        }
        match self.reply.lock().answer.take() {
            Some(answer) => answer,
            None => panic!("the request has given its answer as a future"),
        }
    }

    /// Whether it is done, so that [`wait`](Self::wait) returns at once (`MPI_Test`). Carries on what
    /// this rank has to carry on.
    pub fn test(&mut self) -> bool {
        self.reply.is_done() || {
            self.errands.advance();
            self.reply.is_done()
        }
    }

    /// Waits at most for `limit`; whether it is done. If not, it is still under way.
    ///
    /// # Errors
    /// [`Error::Segment`] when the world's memory is broken.
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<bool> {
        self.drive(limit.into())
    }

    /// Waits as `wait` says; whether it is done. If not, it is still under way.
    ///
    /// # Errors
    /// As [`wait_timeout`](Self::wait_timeout).
    pub fn wait_with(&mut self, wait: impl Into<Wait>) -> Result<bool> {
        self.drive(wait.into())
    }

    fn drive(&mut self, wait: Wait) -> Result<bool> {
        if self.test() {
            return Ok(true);
        }
        let this: &dyn UnderWay = self;
        work(&[this], wait, &|| this.is_done())
    }
}

impl<B> Unpin for CollectiveRequest<B> {}

impl<B> Future for CollectiveRequest<B> {
    type Output = Result<B, Failed<B>>;

    /// # Panics
    /// After it has been ready.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.test();
        let mut state = self.reply.lock();
        if !state.done {
            state.task = Some(task.waker().clone());
            drop(state);
            if self.errands.are_in_calls() {
                task.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => panic!("the request has given its answer already"),
        }
    }
}

impl<B> std::fmt::Debug for CollectiveRequest<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectiveRequest")
            .field("done", &self.reply.is_done())
            .finish_non_exhaustive()
    }
}

mod sealed {
    use super::{Errands, Polled, ThreadId};

    pub trait UnderWay {
        #[doc(hidden)]
        fn is_done(&self) -> bool;

        /// From now on the thread is woken when it is done.
        #[doc(hidden)]
        fn expect(&self, thread: ThreadId);

        #[doc(hidden)]
        fn place(&self) -> (&Errands, &Polled);
    }
}

use sealed::UnderWay;

/// An operation that is under way, or done. For functions that wait for several, of different types if
/// need be: as `&mut dyn Pending`.
///
/// The trait is sealed.
pub trait Pending: UnderWay {}

impl<B> UnderWay for CollectiveRequest<B> {
    fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    fn expect(&self, thread: ThreadId) {
        self.reply.lock().waiting = Some(thread);
    }

    fn place(&self) -> (&Errands, &Polled) {
        (&self.errands, &self.reply.polled)
    }
}

impl<B> Pending for CollectiveRequest<B> {}

impl<P: UnderWay + ?Sized> UnderWay for &mut P {
    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn expect(&self, thread: ThreadId) {
        (**self).expect(thread);
    }

    fn place(&self) -> (&Errands, &Polled) {
        (**self).place()
    }
}

impl<P: Pending + ?Sized> Pending for &mut P {}

/// Waits until `enough` is true; false when the limit of `wait` was over before.
fn work<P: UnderWay + ?Sized>(
    requests: &[&P],
    wait: Wait,
    enough: &dyn Fn() -> bool,
) -> Result<bool> {
    let Some(first) = requests.iter().find(|request| !request.is_done()) else {
        return Ok(enough());
    };
    let (errands, polled) = first.place();
    if !requests.iter().all(|other| other.place().0.is_of_same_rank(errands)) {
        let reason = "requests of different ranks or worlds can't be waited for together";
        return Err(Error::BadWorld(reason.to_owned()));
    }
    requests.iter().for_each(|request| request.expect(thread::current().id()));
    errands.wait(polled, wait, enough)
}

fn done<P: Pending>(requests: &[P]) -> Vec<usize> {
    (0..requests.len()).filter(|&index| requests[index].is_done()).collect()
}

fn test<P: Pending>(requests: &[P]) -> Vec<usize> {
    if let Some(first) = requests.iter().find(|request| !request.is_done()) {
        first.place().0.advance();
    }
    done(requests)
}

/// Waits until all of several requests are done (`MPI_Waitall`). What came of each,
/// [`wait`](CollectiveRequest::wait) then says at once.
///
/// # Errors
/// [`Error::BadWorld`] when they are not all of one rank; [`Error::Segment`].
pub fn wait_all<P: Pending>(requests: &mut [P]) -> Result<()> {
    let all: Vec<&P> = requests.iter().collect();
    work(&all, Wait::forever(), &|| all.iter().all(|request| request.is_done()))?;
    Ok(())
}

/// Waits until one of several requests is done (`MPI_Waitany`); which.
///
/// # Errors
/// As [`wait_all`]; [`Error::BadWorld`] also when there are none.
pub fn wait_any<P: Pending>(requests: &mut [P]) -> Result<usize> {
    let none = || Error::BadWorld("no requests to wait for".to_owned());
    wait_some(requests)?.first().copied().ok_or_else(none)
}

/// Waits until at least one of several requests is done (`MPI_Waitsome`); which are. None, when there
/// are none.
///
/// # Errors
/// As [`wait_all`].
pub fn wait_some<P: Pending>(requests: &mut [P]) -> Result<Vec<usize>> {
    let all: Vec<&P> = requests.iter().collect();
    if !all.iter().any(|request| request.is_done()) {
        work(&all, Wait::forever(), &|| all.iter().any(|request| request.is_done()))?;
    }
    Ok(done(requests))
}

/// Whether all of several requests are done (`MPI_Testall`).
pub fn test_all<P: Pending>(requests: &mut [P]) -> bool {
    test(requests).len() == requests.len()
}

/// A request that is done, if one is (`MPI_Testany`).
pub fn test_any<P: Pending>(requests: &mut [P]) -> Option<usize> {
    test(requests).first().copied()
}

/// Which of several requests are done (`MPI_Testsome`).
pub fn test_some<P: Pending>(requests: &mut [P]) -> Vec<usize> {
    test(requests)
}
