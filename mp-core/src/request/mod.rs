//! Requests: operations that go on while their rank does something else, and that it waits for later.
//!
//! There is one [`Request`], whatever is pending: a non-blocking send or receive, a collective operation, or a
//! delegated send. A request owns what was given to it, and returns it. Requests of one rank can be waited for
//! together, whatever their kinds: see [`wait_all`] and its siblings, which take them as `&mut dyn Pending` where their
//! types differ.
//!
//! ```text
//! Request<O>     what the program has: wait, test, cancel, a future
//!   O            what is under way: an Operation, which is Pending
//!     Driven       by an engine of messages, which puts what comes where the requests want it
//!     Watched      by somebody else, who rings the rank when it is done
//! ```
//!
//! A wait for several requests hands the landings of all requests of one engine to that engine, which copies arriving
//! data to where it belongs. The other requests are watched meanwhile; those of another engine advance as a part of the
//! rank's thread (`wait/progress.rs`).

mod delegated;
mod landing;
mod several;
mod under_way;

use std::{
    pin::Pin,
    task::{Context as Task, Poll},
    time::Duration,
};

pub use self::{
    landing::{Buffer, BufferMut, Landing},
    several::{test_all, test_any, test_some, wait_all, wait_any, wait_some},
    under_way::{Beside, Driven, Driver, Pending, UnderWay, Watch},
};
use crate::{error::Result, wait::Wait};

/// A pending operation that a call has begun, and its result (`MPI_Request`).
///
/// It owns what was given to the call, and returns it with the result or with the error. Dropping a request lets go of
/// the operation; leaking it does nothing worse. The call that begins a receive or a collective operation says what
/// that means for it.
///
/// It is also a future, for programs that have a runtime. Where only the rank's own calls advance the operation, the
/// task is woken again and again until it is done.
#[must_use = "what comes of it, and its errors, come from `wait`"]
#[derive(Debug)]
pub struct Request<O>(O);

/// The operation behind a [`Request`]. The library's own crates implement it.
pub trait Operation: Pending + Sized {
    /// The result of the operation.
    type Output;
    /// The reason why it failed, mostly with what was given to the call.
    type Error;
    /// What is given back when the operation is cancelled.
    type Back;

    /// Waits until the operation is done.
    ///
    /// # Errors
    /// The operation's own.
    fn wait(self) -> Result<Self::Output, Self::Error>;

    /// Returns whether the operation is done, without advancing it.
    fn is_done(&self) -> bool;

    /// Cancels what was begun.
    ///
    /// # Errors
    /// The operation itself, when it is too late to cancel it.
    fn cancel(self) -> Result<Self::Back, Self>;

    /// Returns the result if the operation is done. Otherwise makes sure that the task is woken when it may be.
    fn poll_output(&mut self, task: &mut Task<'_>) -> Poll<Result<Self::Output, Self::Error>>;

    /// Waits as [`wait_with`](Request::wait_with) does.
    ///
    /// # Errors
    /// Same as there.
    fn wait_within(&mut self, wait: Wait) -> Result<bool> {
        several::wait_one(self, wait)
    }
}

impl<O: Operation> Request<O> {
    /// Makes a request, for the call that begins an operation.
    #[doc(hidden)]
    pub fn new(operation: O) -> Self {
        Self(operation)
    }

    /// Waits until the operation is done, and returns its result (`MPI_Wait`).
    ///
    /// # Errors
    /// The errors of the call that began the operation, mostly with what was given to that call.
    ///
    /// # Panics
    /// When the request has already returned its result as a future.
    #[inline]
    pub fn wait(self) -> Result<O::Output, O::Error> {
        self.0.wait()
    }

    /// Returns whether the operation is done, so that [`wait`](Self::wait) returns at once (`MPI_Test`). Also advances
    /// all pending operations of the rank.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken.
    #[inline]
    pub fn test(&mut self) -> Result<bool> {
        self.0.wait_within(Duration::ZERO.into())
    }

    /// Returns whether the operation is known to be done. This advances nothing, so that it alone never completes an
    /// operation that goes on in the rank's calls.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Waits at most for `limit`, and returns whether the operation is done. If not, it is still pending.
    ///
    /// # Errors
    /// Same as [`wait_with`](Self::wait_with).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<bool> {
        self.0.wait_within(Wait::from(limit).or_failure())
    }

    /// Waits as `wait` says, and returns whether the operation is done. If not, it is still pending.
    ///
    /// # Errors
    /// Same as [`test`](Self::test); the error of something else that the rank has begun, if no call has returned that
    /// error yet; for an operation in a critical section, an error in the middle of another call of its handle.
    pub fn wait_with(&mut self, wait: impl Into<Wait>) -> Result<bool> {
        self.0.wait_within(wait.into().or_failure())
    }

    /// Cancels what was begun (`MPI_Cancel`), and returns what was given to the call.
    ///
    /// A send is not sent if nothing of it has gone yet. A receive gets no message if none has begun to arrive. If a
    /// delegated send is just being sent, this waits for it. Collective operations can't be cancelled.
    ///
    /// # Errors
    /// The request itself, when it is too late to cancel it.
    ///
    /// # Panics
    /// Same as [`wait`](Self::wait).
    pub fn cancel(self) -> Result<O::Back, Self> {
        self.0.cancel().map_err(Self)
    }
}

impl<O> Unpin for Request<O> {}

impl<O: Operation> Future for Request<O> {
    type Output = Result<O::Output, O::Error>;

    /// # Panics
    /// When it is polled after it has been ready.
    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        self.0.poll_output(task)
    }
}

impl<O: Operation> Pending for Request<O> {
    fn is_active(&self) -> bool {
        self.0.is_active()
    }

    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        self.0.under_way()
    }

    fn settle(&mut self) {
        self.0.settle();
    }
}
