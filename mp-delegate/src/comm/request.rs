//! What the caller holds while a send is carried out.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use mp_core::{
    Result, SendError, Wait,
    delegate::{Pending, Submitted, Untyped},
};

/// A delegated send. It owns what is sent, and gives it back when that is done: an `S` if the
/// message was sent, a `U` within the error if it was not.
///
/// For a message that is copied both are what was given to [`Delegated::send`]; of a buffer that
/// moves nothing is left after it was sent.
///
/// Dropping a request lets go of it: the message is sent all the same, and what was given is
/// dropped afterwards. Leaking it does nothing worse.
///
/// It is also a future, for programs that have a runtime.
///
/// [`Delegated::send`]: super::Delegated::send
#[derive(Debug)]
pub struct Request<S, U = S> {
    /// `None` once a future has given its answer.
    state: Option<Submitted<S, U>>,
}

impl<S, U> Request<S, U> {
    #[inline]
    pub(super) fn new(submitted: Submitted<S, U>) -> Self {
        Self { state: Some(submitted) }
    }

    fn pending(&mut self) -> Option<&mut Pending<S, U>> {
        match &mut self.state {
            Some(Submitted::Pending(pending)) => Some(pending),
            _ => None,
        }
    }

    /// Waits until the send is done.
    ///
    /// # Errors
    /// As [`Sender::send`](mp_core::Sender::send), with what was to be sent; and
    /// [`Error::NotSent`](mp_core::Error::NotSent) when the threads were stopped before.
    ///
    /// # Panics
    /// When it has given its answer as a future.
    #[inline]
    pub fn wait(mut self) -> Result<S, SendError<U>> {
        loop {
            match self.state {
                Some(Submitted::Pending(mut pending)) => {
                    pending.untyped().wait_done();
                    match pending.take() {
                        Ok(answer) => return answer,
                        Err(pending) => self.state = Some(Submitted::Pending(pending)),
                    }
                }
                Some(Submitted::Here(answer)) => return answer,
                None => panic!("the request has given its answer as a future"),
            }
        }
    }

    /// Whether the send is done, so that [`wait`](Self::wait) returns at once.
    #[inline]
    pub fn test(&self) -> bool {
        match &self.state {
            Some(Submitted::Pending(pending)) => pending.is_done(),
            _ => true,
        }
    }

    /// Waits at most for `limit`; whether the send is done. If not, it is still under way.
    ///
    /// # Errors
    /// [`Error::Segment`](mp_core::Error::Segment) when the world's memory is broken.
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<bool> {
        self.wait_with(limit)
    }

    /// Waits as `wait` says; whether the send is done. If not, it is still under way.
    ///
    /// # Errors
    /// As [`wait_timeout`](Self::wait_timeout).
    pub fn wait_with(&mut self, wait: impl Into<Wait>) -> Result<bool> {
        match self.pending() {
            Some(pending) => pending.untyped().wait(wait.into()),
            None => Ok(true),
        }
    }
}

impl<S, U> Request<S, U> {
    /// Takes back what was to be sent: it is not sent then, and the messages after it move up. One
    /// that is just being sent is waited for.
    ///
    /// # Errors
    /// The request, when there is nothing to take back any more: it is done, and
    /// [`wait`](Self::wait) says at once whether the message was sent.
    ///
    /// # Panics
    /// When it has given its answer as a future.
    pub fn cancel(self) -> Result<U, Self> {
        match self.state {
            Some(Submitted::Pending(pending)) => {
                pending.cancel().map_err(|done| Self::new(Submitted::Pending(done)))
            }
            Some(here) => Err(Self::new(here)),
            None => panic!("the request has given its answer as a future"),
        }
    }
}

impl<S, U> Unpin for Request<S, U> {}

impl<S, U> Future for Request<S, U> {
    type Output = Result<S, SendError<U>>;

    /// # Panics
    /// After it has been ready.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(pending) = self.pending()
            && pending.untyped().poll_done(task).is_pending()
        {
            return Poll::Pending;
        }
        match self.state.take() {
            Some(Submitted::Here(answer)) => Poll::Ready(answer),
            Some(Submitted::Pending(pending)) => match pending.take() {
                Ok(answer) => Poll::Ready(answer),
                Err(_) => unreachable!("it is done"),
            },
            None => panic!("the request has given its answer already"),
        }
    }
}

/// Waits until all of several sends are done; what came of each, in the same order.
pub fn wait_all<S, U>(
    requests: impl IntoIterator<Item = Request<S, U>>,
) -> Vec<Result<S, SendError<U>>> {
    requests.into_iter().map(Request::wait).collect()
}

/// Waits until one of several sends is done; its index. [`Request::wait`] gives its answer.
///
/// # Errors
/// [`Error::BadWorld`](mp_core::Error::BadWorld) when there are no requests, or when they are not
/// all of one rank.
pub fn wait_any<S, U>(requests: &mut [Request<S, U>]) -> Result<usize> {
    if let Some(done) = requests.iter().position(Request::test) {
        return Ok(done);
    }
    let mut pending: Vec<&mut Untyped> =
        requests.iter_mut().filter_map(|r| r.pending().map(Pending::untyped)).collect();
    loop {
        if let Some(done) = Untyped::wait_any(&mut pending, Wait::forever())? {
            return Ok(done);
        }
    }
}
