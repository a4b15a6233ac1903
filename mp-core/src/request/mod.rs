//! Requests: what goes on while its rank does something else, and is waited for later.
//!
//! There is one [`Request`], whatever is under way: an immediate send or receive, a collective operation,
//! a delegated send. Each owns what was given to it, and gives it back. Requests of one rank can be
//! waited for together, whatever they are: see [`wait_all`] and its siblings, which take them as
//! `&mut dyn Pending` where their types differ.
//!
//! ```text
//! Request<O>     what the program has: wait, test, cancel, a future
//!   O            what is under way: an Operation, which is Pending
//!     Driven       by an engine of messages, which puts what comes where the requests want it
//!     Watched      by somebody else, who rings the rank when it is done
//! ```

mod delegated;
mod landing;
mod several;

use std::{
    pin::Pin,
    task::{Context as Task, Poll},
    time::Duration,
};

pub use self::{
    landing::{Buffer, BufferMut, Landing},
    several::{test_all, test_any, test_some, wait_all, wait_any, wait_some},
};
use crate::{
    error::Result,
    wait::{Operation as Doing, Wait},
    world::Rank,
};

/// What one call has begun, and what comes of it (`MPI_Request`).
///
/// It owns what was given to the call, and gives it back with the result, or with the error. Dropping a
/// request lets go of it, leaking it does nothing worse: what that means for a receive or a collective
/// operation, the call says that began it.
///
/// It is also a future, for programs that have a runtime. Where nothing but the rank's own calls bring it on,
/// the task is woken again and again until it is done.
#[must_use = "what comes of it, and its errors, come from `wait`"]
#[derive(Debug)]
pub struct Request<O>(O);

/// What a [`Request`] is of. Implemented by the library's own crates.
pub trait Operation: Pending + Sized {
    /// What comes of it.
    type Output;
    /// Why it failed, mostly with what was given.
    type Error;
    /// What is given back when it is cancelled.
    type Back;

    /// Waits until it is done.
    ///
    /// # Errors
    /// Its own.
    fn wait(self) -> Result<Self::Output, Self::Error>;

    /// Returns whether it is done, and brings nothing on.
    fn is_done(&self) -> bool;

    /// Takes back what was begun.
    ///
    /// # Errors
    /// Itself, when it is too late for that.
    fn cancel(self) -> Result<Self::Back, Self>;

    /// Returns what came of it, if it is done, and else sees to it that the task is woken when it may be.
    fn poll_output(&mut self, task: &mut Task<'_>) -> Poll<Result<Self::Output, Self::Error>>;

    /// [`wait_with`](Request::wait_with).
    ///
    /// # Errors
    /// As there.
    fn wait_within(&mut self, wait: Wait) -> Result<bool> {
        several::wait_one(self, wait)
    }
}

impl<O: Operation> Request<O> {
    /// For the call that begins something.
    #[doc(hidden)]
    pub fn new(operation: O) -> Self {
        Self(operation)
    }

    /// Waits until it is done, and returns what came of it (`MPI_Wait`).
    ///
    /// # Errors
    /// Those of the call that began it, mostly with what was given to that.
    ///
    /// # Panics
    /// When it has given its answer as a future.
    #[inline]
    pub fn wait(self) -> Result<O::Output, O::Error> {
        self.0.wait()
    }

    /// Returns whether it is done, so that [`wait`](Self::wait) returns at once (`MPI_Test`). Brings on
    /// whatever the rank has under way.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken.
    #[inline]
    pub fn test(&mut self) -> Result<bool> {
        self.0.wait_within(Duration::ZERO.into())
    }

    /// Returns whether it is known to be done. Brings nothing on, so that this alone never makes a request done
    /// that goes on in the rank's calls.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Waits at most for `limit`, and returns whether it is done. If not, it is still under way.
    ///
    /// # Errors
    /// As [`wait_with`](Self::wait_with).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<bool> {
        self.0.wait_within(Wait::from(limit).or_failure())
    }

    /// Waits as `wait` says, and returns whether it is done. If not, it is still under way.
    ///
    /// # Errors
    /// As [`test`](Self::test); the error of another thing that the rank has begun, if no call has returned
    /// that yet; for an operation in a critical section an error in the middle of another call of its handle.
    pub fn wait_with(&mut self, wait: impl Into<Wait>) -> Result<bool> {
        self.0.wait_within(wait.into().or_failure())
    }

    /// Takes back what was begun (`MPI_Cancel`), and returns what was given to the call.
    ///
    /// A send is not sent then, when nothing of it has gone. A receive gets no message, when none has begun to
    /// come. A delegated send is waited for when it is just being sent. Collective operations can't be
    /// cancelled.
    ///
    /// # Errors
    /// The request, when it is too late for that.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn cancel(self) -> Result<O::Back, Self> {
        self.0.cancel().map_err(Self)
    }
}

impl<O> Unpin for Request<O> {}

impl<O: Operation> Future for Request<O> {
    type Output = Result<O::Output, O::Error>;

    /// # Panics
    /// After it has been ready.
    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        self.0.poll_output(task)
    }
}

/// Something that is under way, or done: for functions that wait for several, of different types if need be, as
/// `&mut dyn Pending`. Implemented by [`Request`] and by persistent requests.
pub trait Pending {
    /// Returns whether it was started: a persistent one that was not has nothing that could be done.
    #[doc(hidden)]
    fn is_active(&self) -> bool {
        true
    }

    /// Returns who knows when it is done; `None` when it is.
    #[doc(hidden)]
    fn under_way(&mut self) -> Option<UnderWay<'_>>;

    /// Takes the answer of one that is done.
    #[doc(hidden)]
    fn settle(&mut self) {}
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

impl<P: Pending + ?Sized> Pending for &mut P {
    fn is_active(&self) -> bool {
        (**self).is_active()
    }

    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        (**self).under_way()
    }

    fn settle(&mut self) {
        (**self).settle();
    }
}

/// Who brings something on, and knows when it is done.
#[doc(hidden)]
pub enum UnderWay<'a> {
    /// An engine that carries on several, with where the message of this one goes.
    Driven { driver: &'a dyn Driver, handle: usize, landing: Option<&'a mut dyn Landing> },
    /// Somebody else.
    Watched(&'a dyn Watch),
}

/// What somebody else brings to its end.
#[doc(hidden)]
pub trait Watch {
    /// The rank whose doorbell is rung when it is done.
    fn rank(&self) -> Rank;

    fn is_done(&self) -> bool;

    /// Asks to have the doorbell rung when it is done.
    fn raise(&self);

    /// Takes that back.
    fn lower(&self);

    /// After how long a sleep it is to be looked at again.
    fn tick(&self) -> Option<Duration> {
        None
    }

    /// Returns an error where a wait for it would wait for itself: in the middle of the call that brings it on.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Notes that a wait for it begins that has no limit. Returns whether its end is to be
    /// [noted](Self::end_wait), too.
    fn begin_wait(&self) -> bool {
        false
    }

    /// Notes that such a wait has ended.
    fn end_wait(&self) {}

    /// What a report says of a wait for it: the operation, and the words that it has in a record.
    fn waited(&self) -> (Doing, Vec<u64>);
}

/// An engine of messages, which carries on several things and holds what they have in common.
#[doc(hidden)]
pub trait Driver {
    fn rank(&self) -> Rank;

    /// Returns whether something of this engine is done, unless the engine is just driven.
    fn is_done(&self, handle: usize) -> bool;

    /// Works until `enough` is true, or the limit of `wait` is over: then false. What comes for one of the
    /// `landings`, by handle, goes there.
    ///
    /// # Errors
    /// When a wait must end before.
    fn drive(
        &self,
        handles: &[usize],
        landings: &mut [(usize, &mut dyn Landing)],
        wait: Wait,
        beside: &Beside<'_>,
        enough: &mut dyn FnMut(&mut dyn Driven) -> bool,
    ) -> Result<bool>;
}

/// An engine while it is driven.
#[doc(hidden)]
pub trait Driven {
    fn is_done(&mut self, handle: usize) -> bool;
}

pub use several::Beside;
