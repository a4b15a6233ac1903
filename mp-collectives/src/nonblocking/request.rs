//! The request that the caller holds while a collective operation continues.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// MPBs of the operation's front.
    polled: Arc<Polled>,
    /// The operation's name.
    name: &'static str,
    /// Whether the answer is there, or was taken.
    done: AtomicBool,
    state: Mutex<State<B>>,
}

struct State<B> {
    /// The answer, until it is taken.
    answer: Option<Answer<B>>,
    /// The thread that sleeps until the operation is done.
    waiting: Option<ThreadId>,
    task: Option<Arc<Awaiting>>,
}

pub(super) type Answer<B> = Result<B, Failed<B>>;

impl<B> Reply<B> {
    pub(super) fn new(polled: Arc<Polled>, name: &'static str) -> Self {
        let state = State { answer: None, waiting: None, task: None };
        Self { polled, name, done: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn answer(&self, answer: Answer<B>) {
        let mut state = self.lock();
        state.answer = Some(answer);
        // Release: Acquire in `is_done`.
        self.done.store(true, Ordering::Release);
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
        // Acquire: Release in `answer`.
        self.done.load(Ordering::Acquire)
    }

    fn take(&self) -> Answer<B> {
        let answer = self.lock().answer.take();
        answer.unwrap_or_else(|| answered())
    }
}

#[cold]
fn answered() -> ! {
    panic!("the request has given its answer already")
}

/// A front, for the requests of its operations.
pub(super) trait Place: Send + Sync {
    fn errands(&self) -> &Errands;

    /// Returns the first MPBs of the front.
    fn polled(&self) -> &Arc<Polled>;

    /// Returns where the current operation waits, or where the last one waited.
    fn now(&self) -> Arc<Polled>;

    /// Carries on the front's operations in this thread, as long as what they wait for comes within a short time, and
    /// at most until `is_done` returns true. Returns whether it does.
    fn attend(&self, is_done: &dyn Fn() -> bool) -> bool;
}

/// A pending collective operation. It owns the elements and returns them when it is done, even if it has failed.
///
/// The request is done when this rank's part in the operation is done. It can't be cancelled. When a request is dropped
/// or leaked, its operation continues, so that the other ranks are not kept waiting. Its errors are those of the
/// operation's blocking form, [`OperationPanicked`](mp_core::ErrorKind::OperationPanicked) and
/// [`FailedBefore`](mp_core::ErrorKind::FailedBefore).
pub type CollectiveRequest<B> = Request<CollectiveOperation<B>>;

/// The operation of a [`CollectiveRequest`].
pub struct CollectiveOperation<B>(Stage<B>);

enum Stage<B> {
    /// The operation was done when its call returned. This is its answer, until it is taken.
    Done(Option<Answer<B>>),
    Submitted(Submitted<B>),
}

/// An operation that was not done when its call returned.
struct Submitted<B> {
    reply: Arc<Reply<B>>,
    place: Arc<dyn Place>,
    /// Decides when to check next whether the wait is in vain.
    next_look: Tick,
}

impl<B> CollectiveOperation<B> {
    pub(super) fn done(answer: Answer<B>) -> CollectiveRequest<B> {
        Request::new(Self(Stage::Done(Some(answer))))
    }

    pub(super) fn under_way(reply: Arc<Reply<B>>, place: Arc<dyn Place>) -> CollectiveRequest<B> {
        Request::new(Self(Stage::Submitted(Submitted { reply, place, next_look: Tick::default() })))
    }
}

impl<B> Watch for Submitted<B> {
    fn rank(&self) -> Rank {
        self.place.errands().rank().clone()
    }

    fn is_done(&self) -> bool {
        let done = self.reply.is_done();
        if !done && self.next_look.is_due(self.tick()) {
            self.place.now().look();
        }
        done
    }

    fn attend(&self) -> bool {
        self.reply.is_done()
            || self.place.errands().threads().is_none()
                && self.place.attend(&|| self.reply.is_done())
    }

    fn raise(&self) {
        self.reply.lock().waiting = Some(thread::current().id());
    }

    fn lower(&self) {
        self.reply.lock().waiting = None;
    }

    fn tick(&self) -> Option<Duration> {
        self.place.polled().interval()
    }

    fn waited(&self) -> (mp_core::Operation, Vec<u64>) {
        self.place.now().waited(self.place.errands().are_in_calls())
    }

    fn call(&self) -> Option<String> {
        self.place.polled().call(Some(self.reply.name))
    }
}

impl<B> Pending for CollectiveOperation<B> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        match &self.0 {
            Stage::Submitted(operation) if !operation.reply.is_done() => {
                operation.place.errands().join();
                Some(UnderWay::Watched(operation))
            }
            _ => None,
        }
    }
}

impl<B> Operation for CollectiveOperation<B> {
    type Output = B;
    type Error = Failed<B>;
    type Back = Infallible;

    fn wait(mut self) -> Result<B, Failed<B>> {
        if let Stage::Submitted(operation) = &self.0
            && !operation.attend()
        {
            let mut backoff = Backoff::new();
            // If the world is too broken to sleep in, this looks again and again, because every operation ends in any
            // case.
            while !self.wait_within(Wait::forever()).is_ok_and(|done| done) && !self.is_done() {
                backoff.pause();
            }
        }
        match self.0 {
            Stage::Done(answer) => answer.unwrap_or_else(|| answered()),
            Stage::Submitted(operation) => operation.reply.take(),
        }
    }

    fn is_done(&self) -> bool {
        match &self.0 {
            Stage::Done(_) => true,
            Stage::Submitted(operation) => operation.reply.is_done(),
        }
    }

    fn cancel(self) -> Result<Infallible, Self> {
        Err(self)
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<B, Failed<B>>> {
        let Submitted { reply, place, .. } = match &mut self.0 {
            Stage::Done(answer) => return Poll::Ready(answer.take().unwrap_or_else(|| answered())),
            Stage::Submitted(operation) => operation,
        };
        let errands = place.errands();
        errands.advance();
        let mut state = reply.lock();
        if !reply.is_done() {
            state
                .task
                .get_or_insert_with(|| {
                    let awaiting = Arc::default();
                    errands.wake_when_left(&awaiting);
                    awaiting
                })
                .set(task.waker());
            drop(state);
            // If no thread carries the operation on, no thread will wake the task, so the task wakes itself.
            if errands.are_in_calls() || errands.are_left_to_rank() {
                task.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        drop(state);
        Poll::Ready(reply.take())
    }
}

impl<B> std::fmt::Debug for CollectiveOperation<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectiveOperation").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
