//! The request that the caller holds while a send is carried out.

use std::task::{Context, Poll};

use mp_core::{
    Pending, Result, SendError, Wait,
    delegate::{self, Submitted},
    requests::{Operation, UnderWay},
};

/// A delegated send. The request owns what is sent, and returns it when the send is done: an `S` if the message was
/// sent, a `U` within the error if it was not.
///
/// For a message that is copied, both are what was given to [`Delegated::send`]. For a buffer that moves, nothing is
/// left after it was sent.
///
/// Its errors are those of [`Sender::send`](mp_core::Sender::send), and [`NotSent`](mp_core::ErrorKind::NotSent) if the
/// threads were stopped before. If the request is cancelled, the message is not sent, and the messages after it move
/// up. A message that is just being sent is waited for.
///
/// If a request is dropped, the message is still sent, and what was given is dropped afterwards. Leaking a request does
/// no further harm.
///
/// [`Delegated::send`]: super::Delegated::send
pub type Request<S, U = S> = mp_core::Request<DelegatedSend<S, U>>;

/// The operation behind a [`Request`] of a delegated send.
#[derive(Debug)]
pub struct DelegatedSend<S, U = S> {
    /// `None` once a future has given its answer.
    state: Option<Submitted<S, U>>,
}

impl<S, U> DelegatedSend<S, U> {
    #[inline]
    pub(super) fn request(submitted: Submitted<S, U>) -> Request<S, U> {
        mp_core::Request::new(Self { state: Some(submitted) })
    }

    fn pending(&mut self) -> Option<&mut delegate::Pending<S, U>> {
        match &mut self.state {
            Some(Submitted::Pending(pending)) => Some(pending),
            _ => None,
        }
    }
}

impl<S, U> Pending for DelegatedSend<S, U> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        match self.is_done() {
            true => None,
            false => Some(UnderWay::Watched(self.pending()?.untyped())),
        }
    }
}

impl<S, U> Operation for DelegatedSend<S, U> {
    type Output = S;
    type Error = SendError<U>;
    type Back = U;

    #[inline]
    fn wait(mut self) -> Result<S, SendError<U>> {
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

    #[inline]
    fn is_done(&self) -> bool {
        match &self.state {
            Some(Submitted::Pending(pending)) => pending.is_done(),
            _ => true,
        }
    }

    fn cancel(self) -> Result<U, Self> {
        match self.state {
            Some(Submitted::Pending(pending)) => {
                pending.cancel().map_err(|done| Self { state: Some(Submitted::Pending(done)) })
            }
            Some(here) => Err(Self { state: Some(here) }),
            None => panic!("the request has given its answer as a future"),
        }
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<S, SendError<U>>> {
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

    fn wait_within(&mut self, wait: Wait) -> Result<bool> {
        match self.pending() {
            Some(pending) => pending.untyped().wait(wait),
            None => Ok(true),
        }
    }
}
