//! The request that the caller holds while a collective operation continues.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::Duration;

use mp_core::delegate::Backoff;
use mp_core::mpb::{Polled, Tick};
use mp_core::requests::{Operation, UnderWay, Watch};
use mp_core::{Failed, Pending, Rank, Request, Result, Wait};
use mp_delegate::threads::{Awaiting, Errands};

/// The place where an operation leaves its answer.
pub(super) struct Reply<B> {
    /// The place of the operation's front at which the rank waits.
    polled: Arc<Polled>,
    /// The operation's name.
    name: &'static str,
    state: Mutex<State<B>>,
}

struct State<B> {
    done: bool,
    /// The answer, until it is taken.
    answer: Option<Answer<B>>,
    /// The thread that sleeps until the operation is done.
    waiting: Option<ThreadId>,
    task: Option<Arc<Awaiting>>,
}

type Answer<B> = Result<B, Failed<B>>;

impl<B> Reply<B> {
    pub(super) fn new(polled: Arc<Polled>, name: &'static str) -> Self {
        let state = State { done: false, answer: None, waiting: None, task: None };
        Self { polled, name, state: Mutex::new(state) }
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
        if let Some(task) = task {
            task.wake();
        }
    }

    fn is_done(&self) -> bool {
        self.lock().done
    }
}

/// A pending collective operation. It owns the elements and returns them when it is done, even if it has failed.
///
/// The request is done when this rank's part in the operation is done. It can't be cancelled. When a request is dropped
/// or leaked, its operation continues, so that the other ranks are not kept waiting. Its errors are those of the
/// operation's blocking form, [`OperationPanicked`](mp_core::ErrorKind::OperationPanicked) and
/// [`FailedBefore`](mp_core::ErrorKind::FailedBefore).
pub type CollectiveRequest<B> = Request<CollectiveOperation<B>>;

/// The operation of a [`CollectiveRequest`].
pub struct CollectiveOperation<B> {
    reply: Arc<Reply<B>>,
    errands: Errands,
    /// Decides when to check next whether the wait is in vain.
    next_look: Tick,
}

impl<B> CollectiveOperation<B> {
    pub(super) fn request(reply: Arc<Reply<B>>, errands: Errands) -> CollectiveRequest<B> {
        Request::new(Self { reply, errands, next_look: Tick::default() })
    }
}

impl<B> Watch for CollectiveOperation<B> {
    fn rank(&self) -> Rank {
        self.errands.rank().clone()
    }

    fn is_done(&self) -> bool {
        let done = self.reply.is_done();
        if !done && self.next_look.is_due(self.tick()) {
            self.reply.polled.look();
        }
        done
    }

    fn raise(&self) {
        self.reply.lock().waiting = Some(thread::current().id());
    }

    fn lower(&self) {
        self.reply.lock().waiting = None;
    }

    fn tick(&self) -> Option<Duration> {
        self.reply.polled.interval()
    }

    fn waited(&self) -> (mp_core::Operation, Vec<u64>) {
        self.reply.polled.waited(self.errands.are_in_calls())
    }

    fn call(&self) -> Option<String> {
        self.reply.polled.call(Some(self.reply.name))
    }
}

impl<B> Pending for CollectiveOperation<B> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        if self.reply.is_done() {
            return None;
        }
        self.errands.join();
        Some(UnderWay::Watched(self))
    }
}

impl<B> Operation for CollectiveOperation<B> {
    type Output = B;
    type Error = Failed<B>;
    type Back = Infallible;

    fn wait(mut self) -> Result<B, Failed<B>> {
        let mut backoff = Backoff::new();
        // If the world is too broken to sleep in, this looks again and again, because every operation ends in any case.
        while !self.wait_within(Wait::forever()).is_ok_and(|done| done) && !self.reply.is_done() {
            backoff.pause();
        }
        match self.reply.lock().answer.take() {
            Some(answer) => answer,
            None => panic!("the request has given its answer as a future"),
        }
    }

    fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    fn cancel(self) -> Result<Infallible, Self> {
        Err(self)
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<B, Failed<B>>> {
        self.errands.advance();
        let mut state = self.reply.lock();
        if !state.done {
            state
                .task
                .get_or_insert_with(|| {
                    let awaiting = Arc::default();
                    self.errands.wake_when_left(&awaiting);
                    awaiting
                })
                .set(task.waker());
            drop(state);
            // If no thread carries the operation on, no thread will wake the task, so the task wakes itself.
            if self.errands.are_in_calls() || self.errands.are_left_to_rank() {
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

impl<B> std::fmt::Debug for CollectiveOperation<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectiveOperation")
            .field("done", &self.reply.is_done())
            .finish_non_exhaustive()
    }
}
