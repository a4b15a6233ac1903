//! A request: what a caller holds while an operation is in flight.

use std::{
    cell::Cell,
    fmt,
    task::{Context, Poll},
};

use mp_core::{
    Error, Operation as Doing, Pending, Rank, Result,
    requests::{Operation, UnderWay, Watch},
};

use super::{core::Core, object::Object};

/// An operation that was given to a [`Protected`](super::Protected) value by [`submit`](super::Protected::submit). It
/// is waited for like all requests.
///
/// Its errors are those of [`apply`](super::Protected::apply). It also fails with
/// [`ResultForgotten`](mp_core::ErrorKind::ResultForgotten) if since then as many operations were submitted as results
/// are kept, and with [`NestedOperation`](mp_core::ErrorKind::NestedOperation) for a wait in the middle of another call
/// of the same handle, which may happen in work that this call makes progress on. Waits that leave the request as it is
/// can fail with it, too; the request can be waited for later. Waiting, testing, and polling the request as a
/// future send gathered operations to the server.
///
/// Cancelling a request returns its operation if that was gathered and not sent yet, and is the last one of its handle.
/// Dropping a request lets go of it: the operation is executed all the same. Leaking it does nothing worse. The only
/// operations that are lost are those gathered for an [`MpServer`](super::Scheme::MpServer) and not sent before their
/// handle is dropped, if no server is there at that time.
pub type Request<'a, O> = mp_core::Request<CriticalOperation<'a, O>>;

/// The operation of a [`Request`].
pub struct CriticalOperation<'a, O: Object> {
    state: State<'a, O>,
    /// Whether the request has asked to be rung.
    raised: Cell<bool>,
    /// Set while a future of the request waits for a first server.
    awaits_first: Option<AwaitsFirst<'a, O>>,
}

/// A wait for a first server, which lasts until this is dropped.
struct AwaitsFirst<'a, O: Object>(&'a Core<O>);

impl<O: Object> Drop for AwaitsFirst<'_, O> {
    fn drop(&mut self) {
        self.0.end_wait();
    }
}

enum State<'a, O: Object> {
    /// The operation is at a server, under this number.
    There(&'a Core<O>, u64),
    /// The result. An error is boxed, so that a request is short.
    Here(Result<O::Ret, Box<Error>>),
    /// A future has returned the result.
    Taken,
}

impl<'a, O: Object> CriticalOperation<'a, O> {
    #[inline(always)]
    pub(super) fn there(core: &'a Core<O>, number: u64) -> Request<'a, O> {
        Request::new(Self::new(State::There(core, number)))
    }

    #[inline(always)]
    pub(super) fn here(result: Result<O::Ret>) -> Request<'a, O> {
        Request::new(Self::new(State::Here(result.map_err(Box::new))))
    }

    #[inline(always)]
    fn new(state: State<'a, O>) -> Self {
        Self { state, raised: Cell::new(false), awaits_first: None }
    }
}

impl<O: Object> Pending for CriticalOperation<'_, O> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        match self.state {
            State::There(core, _) if core.bring_on() && !Watch::is_done(self) => {
                Some(UnderWay::Watched(self))
            }
            _ => None,
        }
    }
}

impl<O: Object> Watch for CriticalOperation<'_, O> {
    fn rank(&self) -> Rank {
        match self.state {
            State::There(core, _) => core.rank().clone(),
            _ => unreachable!("it is done, and nobody watches it"),
        }
    }

    fn is_done(&self) -> bool {
        match self.state {
            State::There(core, number) => core.is_done(number),
            _ => true,
        }
    }

    fn raise(&self) {
        if let State::There(core, _) = self.state {
            core.raise(self.raised.replace(true));
        }
    }

    fn lower(&self) {
        if let State::There(core, _) = self.state
            && self.raised.take()
        {
            core.lower();
        }
    }

    fn check(&self) -> mp_core::Result<()> {
        match self.state {
            State::There(core, _) => Ok(core.check_alone()?),
            _ => Ok(()),
        }
    }

    fn begin_wait(&self) -> bool {
        matches!(self.state, State::There(core, _) if core.begin_wait())
    }

    fn end_wait(&self) {
        if let State::There(core, _) = self.state {
            core.end_wait();
        }
    }

    fn waited(&self) -> (Doing, Vec<u64>) {
        match self.state {
            State::There(core, _) => core.awaits(),
            _ => unreachable!("it is done, and nobody watches it"),
        }
    }

    fn call(&self) -> Option<String> {
        match self.state {
            State::There(core, _) => core.call(),
            _ => None,
        }
    }
}

impl<O: Object> Operation for CriticalOperation<'_, O> {
    type Output = O::Ret;
    type Error = Error;
    type Back = O::Op;

    #[inline(always)]
    fn wait(self) -> Result<O::Ret> {
        match self.state {
            State::There(core, number) => core.collect(number),
            State::Here(result) => result.map_err(|error| *error),
            State::Taken => panic!("the request has given its answer as a future"),
        }
    }

    fn is_done(&self) -> bool {
        Watch::is_done(self)
    }

    fn cancel(self) -> Result<O::Op, Self> {
        match self.state {
            State::There(core, number) => core.cancel(number).ok_or(self),
            State::Here(_) => Err(self),
            State::Taken => panic!("the request has given its answer as a future"),
        }
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<O::Ret>> {
        if let State::There(core, _) = self.state
            && core.bring_on()
            && !Watch::is_done(self)
        {
            if self.awaits_first.is_none() && core.begin_wait() {
                self.awaits_first = Some(AwaitsFirst(core));
            }
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.awaits_first = None;
        Poll::Ready(Self::new(std::mem::replace(&mut self.state, State::Taken)).wait())
    }
}

impl<O: Object> fmt::Debug for CriticalOperation<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CriticalOperation");
        shown.field("done", &Watch::is_done(self)).finish_non_exhaustive()
    }
}
