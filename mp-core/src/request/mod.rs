//! Requests: operations that go on while their rank does something else, and for which the rank waits later.
//!
//! There is one type, [`Request`], for all pending operations: non-blocking sends and receives, collective operations,
//! and delegated sends. A request owns the values that were given to the call, and returns them. A rank can wait for
//! several requests of any kinds together: see [`wait_all`] and its siblings, which take `&mut dyn Pending` if the
//! types of the requests differ.
//!
//! ```text
//! Request<O>     what the program has: wait, test, cancel, a future
//!   O            what is under way: an Operation, which is Pending
//!     Driven       by an engine of messages, which puts what comes where the requests want it
//!     Watched      by somebody else, who rings the rank when it is done
//! ```
//!
//! A wait for several requests gives the landings of all requests of one engine to that engine, which copies arriving
//! data into them. Meanwhile the wait watches the other requests. Those of another engine advance as a part of the
//! rank's thread (`wait/progress.rs`).

mod cut_buffer;
mod delegated;
mod fixed;
mod landing;
mod raw_buffer;
mod several;
mod under_way;

use std::{
    pin::Pin,
    task::{Context as Task, Poll},
    time::Duration,
};

pub use self::{
    cut_buffer::CutBuffer,
    fixed::FixedBytes,
    landing::{Buffer, BufferMut, Landing},
    raw_buffer::RawBuffer,
    several::{settle_in_rounds, test_all, test_any, test_some, wait_all, wait_any, wait_some},
    under_way::{Beside, Driven, Driver, Pending, UnderWay, Watch, all_of},
};
use crate::{error::Result, wait::Wait};

/// A pending operation that a call has begun (`MPI_Request`).
///
/// It owns the values that were given to the call, and returns them with the result or with the error. Dropping a
/// request lets go of the operation; leaking it does nothing worse. The documentation of the call that begins a receive
/// or a collective operation says what this means for the operation.
///
/// It is also a future, for programs that have a runtime. If only the rank's own calls advance the operation, the task
/// is woken again and again until the operation is done.
#[must_use = "what comes of it, and its errors, come from `wait`"]
#[derive(Debug)]
pub struct Request<O>(O);

/// The operation behind a [`Request`]. The library's own crates implement it.
pub trait Operation: Pending + Sized {
    /// The result of the operation.
    type Output;
    /// The reason why the operation failed, mostly with the values that were given to the call.
    type Error;
    /// The values that are given back when the operation is cancelled.
    type Back;

    /// Waits until the operation is done.
    ///
    /// # Errors
    /// The error of the operation.
    fn wait(self) -> Result<Self::Output, Self::Error>;

    /// Returns whether the operation is done, without advancing it.
    fn is_done(&self) -> bool;

    /// Cancels the operation.
    ///
    /// # Errors
    /// The operation itself, when it is too late to cancel it.
    fn cancel(self) -> Result<Self::Back, Self>;

    /// Returns the result if the operation is done. Otherwise makes sure that the task is woken when the operation may
    /// be done.
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
    #[inline(always)]
    pub fn new(operation: O) -> Self {
        Self(operation)
    }

    /// Returns the operation.
    #[doc(hidden)]
    #[inline(always)]
    pub fn operation(&self) -> &O {
        &self.0
    }

    /// Waits until the operation is done, and returns its result (`MPI_Wait`).
    ///
    /// # Errors
    /// The errors of the call that began the operation, mostly with the values that were given to that call.
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

    /// Returns whether the operation is known to be done. This advances nothing, so an operation that goes on only in
    /// the rank's calls is never completed by this alone.
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
    /// Same as [`test`](Self::test); the error of another operation that the rank has begun, if no call has returned
    /// that error yet; for an operation in a critical section, an error in the middle of another call of its handle.
    pub fn wait_with(&mut self, wait: impl Into<Wait>) -> Result<bool> {
        self.0.wait_within(wait.into().or_failure())
    }

    /// Cancels the operation (`MPI_Cancel`), and returns the values that were given to the call.
    ///
    /// A send can be cancelled if no part of the message has been sent, and a receive if no message for it has begun to
    /// arrive. If a delegated send is just being carried out, this waits for its end. Collective operations can't be
    /// cancelled.
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
    /// When the request is polled after it has returned its result.
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

    #[inline]
    fn settle(&mut self) {
        self.0.settle();
    }

    #[inline]
    fn settle_at_once(&mut self, last: bool) -> bool {
        self.0.settle_at_once(last)
    }
}
