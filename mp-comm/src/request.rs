//! Sends and receives that go on while the caller does something else.

use std::{rc::Rc, time::Duration};

use crate::{
    communicator::{Communicator, Stream, localized, status},
    desk::{Posted, Receiving, Sending},
    elements::{Buffer, BufferMut, ElementType, Landing, misuse},
    engine::{Handle, Shared},
    error::{Failed, Result},
    members::Members,
    outward::{Cargo, Course, Kept, Step},
    status::{Source, Status, Tag},
};

/// A request's place at the desk. Dropped, it lets go of it.
#[derive(Clone)]
struct Place {
    engine: Shared,
    members: Rc<Members>,
    handle: Handle,
}

/// See [`Place`].
pub(crate) struct Ticket(Option<Place>);

impl Ticket {
    /// Nothing is left to let go of.
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // It is borrowed only where a panic came out of it.
        if let Some(Place { engine, handle, .. }) = self.0.take()
            && let Ok(mut engine) = engine.try_borrow_mut()
        {
            match handle {
                Handle::Receive(place) => engine.desk.abandon(place),
                Handle::Send(place) => engine.desk.abandon_send(place),
            }
        }
    }
}

pub(crate) mod sealed {
    use super::{Handle, Landing, Result, Shared};

    /// What a request that is under way gives to those who wait for it.
    pub struct UnderWay<'a> {
        pub(crate) engine: Shared,
        pub(crate) handle: Handle,
        pub(crate) landing: Option<&'a mut dyn Landing>,
    }

    pub trait Sealed {
        /// Whether it was started and not waited for: one that is not has nothing that could be done.
        #[doc(hidden)]
        fn is_active(&self) -> bool {
            true
        }

        /// `None` when it is done.
        #[doc(hidden)]
        fn under_way(&mut self) -> Option<UnderWay<'_>>;

        /// Takes the answer of one that is settled.
        #[doc(hidden)]
        fn settle(&mut self);

        #[doc(hidden)]
        fn drive(&mut self, limit: Option<std::time::Duration>) -> Result<bool> {
            let Some(UnderWay { engine, handle, landing }) = self.under_way() else {
                return Ok(true);
            };
            let mut landings = Vec::new();
            if let (Handle::Receive(place), Some(landing)) = (handle, landing) {
                landings.push((place, landing));
            }
            let mut working = engine.borrow_mut();
            let settled = working.work_on(&[handle], &mut landings, &mut [], limit);
            drop(working);
            drop(landings);
            let settled = settled?;
            if settled {
                self.settle();
            }
            Ok(settled)
        }
    }
}

use sealed::{Sealed, UnderWay};

/// A send or receive that is under way, or done. For functions that wait for several, of different
/// types if need be: as `&mut dyn Pending`.
///
/// The trait is sealed.
pub trait Pending: Sealed {}

impl<P: Pending + ?Sized> Sealed for &mut P {
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

impl<P: Pending + ?Sized> Pending for &mut P {}

/// An immediate send (`MPI_Request`). It owns what is sent, until it is on its way, and gives it
/// back.
///
/// Dropping a request lets go of it: the message is sent all the same. Leaking it does nothing
/// worse.
#[must_use = "its errors come from `wait`"]
pub struct SendRequest<B: Buffer + 'static> {
    ticket: Option<Ticket>,
    outcome: Option<Result<()>>,
    /// Here, unless it is under way.
    buffer: Option<B>,
}

/// An immediate receive (`MPI_Request`). It has the buffer, and gives it back with the message.
///
/// Dropping a request takes it back, as [`cancel`](Self::cancel) does; a message that has come for
/// it goes with it. A leaked one stays, and takes a message.
#[must_use = "a request that is dropped receives nothing"]
pub struct ReceiveRequest<B: BufferMut> {
    ticket: Option<Ticket>,
    outcome: Option<Result<Status>>,
    buffer: B,
}

impl Communicator {
    fn ticket(&self, handle: Handle) -> Ticket {
        let (engine, members) = (Rc::clone(&self.engine), Rc::clone(&self.members));
        Ticket(Some(Place { engine, members, handle }))
    }

    /// Begins to send (`MPI_Isend`), and returns at once. The elements are given away until
    /// [`SendRequest::wait`] gives them back: a `Vec`, an array, a boxed slice, a
    /// [`SharedBuffer`](mp_core::SharedBuffer), or a slice that lives for ever. What is only borrowed can be sent along
    /// with others in an [`exchange`](Self::exchange), or as a copy by
    /// [`buffered_send`](Self::buffered_send).
    ///
    /// What there is no room for goes during later calls of any communicator made from the same
    /// [`world`](Self::world).
    ///
    /// Errors, also of this call, come from [`SendRequest::wait`]. When this rank has no memory to send
    /// to `to`, calls that would sleep do not, but return [`Error::Unsent`](crate::Error::Unsent) once,
    /// unless the request was asked first; and `to` receives all that went before, then
    /// [`Error::Broken`](crate::Error::Broken).
    ///
    /// ```
    /// use mp_comm::{ANY_TAG, Communicator, wait_all};
    ///
    /// mp_core::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let other = 1 - world.rank();
    ///     let sent = world.immediate_send(vec![world.rank() as u64; 100_000], other, 0);
    ///     let received = world.immediate_receive(vec![0u64; 100_000], other, ANY_TAG);
    ///     let (numbers, status) = received.wait()?;
    ///     assert_eq!((numbers[99_999], status.count), (other as u64, 100_000));
    ///     assert_eq!(sent.wait()?.len(), 100_000);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), mp_core::Error>(())
    /// ```
    pub fn immediate_send<B: Buffer + 'static>(
        &self,
        buffer: B,
        to: usize,
        tag: u32,
    ) -> SendRequest<B> {
        if let Ok(world) = self.destination(to) {
            let context = self.context_of(Stream::Program);
            let elements = buffer.elements();
            if self.engine.borrow_mut().send_at_once(context, world, tag, elements) {
                return SendRequest { ticket: None, outcome: Some(Ok(())), buffer: Some(buffer) };
            }
        }
        self.begin_send(buffer, to, tag, false)
    }

    /// As [`immediate_send`](Self::immediate_send), done when the receiver has a receive for the
    /// message (`MPI_Issend`).
    pub fn immediate_synchronous_send<B: Buffer + 'static>(
        &self,
        buffer: B,
        to: usize,
        tag: u32,
    ) -> SendRequest<B> {
        self.begin_send(buffer, to, tag, true)
    }

    fn begin_send<B: Buffer + 'static>(
        &self,
        buffer: B,
        to: usize,
        tag: u32,
        synchronous: bool,
    ) -> SendRequest<B> {
        let failed = |error, buffer| SendRequest {
            ticket: None,
            outcome: Some(Err(self.localized(error))),
            buffer: Some(buffer),
        };
        let to = match self.destination(to) {
            Ok(to) => to,
            Err(error) => return failed(error, buffer),
        };
        let mut engine = self.engine.borrow_mut();
        let elements = buffer.elements();
        let mut envelope = engine.envelope(self.context_of(Stream::Program), tag, elements);
        let element = ElementType::of::<B::Element>;
        let begun = (|| {
            engine.announce(to, envelope.fingerprint, element)?;
            let mut place = None;
            if synchronous {
                let (ticket, sync) = engine.ticket(to, envelope.context, true)?;
                envelope.sync = sync;
                place = Some(ticket);
            }
            let bytes: &[u8] = bytemuck::cast_slice(elements);
            let mut cargo = Cargo::Bytes(bytes);
            if to == engine.me {
                engine.send_to_self(envelope, cargo);
                return Ok((place, None));
            }
            let mut course = Course::new(&envelope, bytes);
            match engine.advance(to, &mut course, &mut cargo) {
                Ok(Step::Done) => Ok((place, None)),
                Ok(_) => Ok((place, Some(course))),
                Err(error) => {
                    place.map(|place| engine.desk.take_send(place));
                    Err(error)
                }
            }
        })();
        let (place, rest) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // A call that waits for the answer to it must not sleep.
                let place = engine.desk.sends.insert(Sending::new(to, envelope.context));
                engine.desk.not_sent(place, Kept::Owned(Box::new(buffer)), error);
                let ticket = Some(self.ticket(Handle::Send(place)));
                return SendRequest { ticket, outcome: None, buffer: None };
            }
        };
        let mut request = SendRequest { ticket: None, outcome: None, buffer: None };
        match rest {
            None => {
                if let Some(sending) = place.and_then(|place| engine.desk.sends.get_mut(place)) {
                    sending.gone = true;
                }
                request.buffer = Some(buffer);
            }
            Some(course) => {
                let place = match place
                    .map_or_else(|| engine.ticket(to, envelope.context, false), |p| Ok((p, 0)))
                {
                    Ok((place, _)) => place,
                    Err(error) => return failed(error, buffer),
                };
                engine.queue(to, course, Kept::Owned(Box::new(buffer)), Some(place));
                request.ticket = Some(self.ticket(Handle::Send(place)));
                return request;
            }
        }
        match place {
            Some(place) => request.ticket = Some(self.ticket(Handle::Send(place))),
            None => request.outcome = Some(Ok(())),
        }
        request
    }

    /// Posts a receive (`MPI_Irecv`), and returns at once. The buffer is a `Vec`, an array, a boxed
    /// slice, a [`SharedBuffer`](mp_core::SharedBuffer), or a slice that is borrowed until the request is done: it is
    /// written only by calls that have the request.
    ///
    /// Receives get their messages in the order in which they are posted. Errors, also of this
    /// call, come from [`ReceiveRequest::wait`].
    pub fn immediate_receive<B: BufferMut>(
        &self,
        mut buffer: B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> ReceiveRequest<B> {
        let pattern = match self.pattern(Stream::Program, source.into(), tag.into()) {
            Ok(pattern) => pattern,
            Err(error) => {
                return ReceiveRequest { ticket: None, outcome: Some(Err(error)), buffer };
            }
        };
        let mut engine = self.engine.borrow_mut();
        if let Some(Ok((tag, count))) =
            engine.receive_at_once(&pattern, false, false, buffer.elements_mut())
        {
            let source = pattern.source.and_then(|source| self.members.local(source));
            let (source, bytes) = (source.unwrap_or(0), count * size_of::<B::Element>());
            let outcome = Some(Ok(Status { source, tag, count, bytes }));
            return ReceiveRequest { ticket: None, outcome, buffer };
        }
        let want = engine.want::<B::Element>(Some(buffer.elements().len()), false);
        let members = Rc::clone(&self.members);
        let posted = Posted { pattern, want, members, state: Receiving::Waiting };
        let outcome = match engine.post(posted) {
            Ok(place) => match engine.desk.land(place, &mut buffer) {
                Some(landed) => landed.map(|envelope| self.status(&envelope)),
                None => {
                    let ticket = Some(self.ticket(Handle::Receive(place)));
                    return ReceiveRequest { ticket, outcome: None, buffer };
                }
            },
            Err(error) => Err(error),
        };
        let outcome = Some(outcome.map_err(|error| self.localized(error)));
        ReceiveRequest { ticket: None, outcome, buffer }
    }
}

impl<B: Buffer + 'static> Sealed for SendRequest<B> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        let Place { engine, handle, .. } = self.ticket.as_ref()?.0.clone()?;
        Some(UnderWay { engine, handle, landing: None })
    }

    fn settle(&mut self) {
        let Some(place) = self.ticket.as_ref().and_then(|ticket| ticket.0.clone()) else { return };
        let Place { engine, members, handle: Handle::Send(at) } = place else { return };
        let mut engine = engine.borrow_mut();
        if !engine.is_settled(Handle::Send(at)) {
            return;
        }
        let sending = engine.desk.take_send(at);
        drop(engine);
        if let Some(ticket) = self.ticket.take() {
            ticket.forget();
        }
        let Some(sending) = sending else { return };
        self.outcome = Some(sending.failed.map_or(Ok(()), |error| Err(localized(&members, error))));
        if let Some(back) = sending.back.and_then(|back| back.downcast::<B>().ok()) {
            self.buffer = Some(*back);
        }
    }
}

impl<B: Buffer + 'static> Pending for SendRequest<B> {}

impl<B: Buffer + 'static> SendRequest<B> {
    /// Waits until the send is done (`MPI_Wait`): its message is on its way, or, if it is
    /// synchronous, its receiver has a receive for it. One that the receiver's
    /// [limit](Communicator::set_unexpected_limit) keeps here is on its way when it is received.
    ///
    /// # Errors
    /// As [`Communicator::send`], with what was to be sent.
    pub fn wait(mut self) -> Result<B, Failed<B>> {
        let mut outcome = Ok(());
        loop {
            let driven = self.drive(None);
            let another = matches!(driven, Err(crate::Error::Unsent { .. }));
            outcome = outcome.and(driven.and_then(|_| self.outcome.take().unwrap_or(Ok(()))));
            if self.buffer.is_none() {
                self.buffer = self.taken_back().or_else(|| self.given_back());
            }
            // Where another send has failed, this one goes on when a part of it has gone.
            if !another || self.buffer.is_some() {
                break;
            }
        }
        if self.buffer.is_none()
            && let Some(Place { engine, handle: Handle::Send(place), .. }) =
                self.ticket.as_ref().and_then(|ticket| ticket.0.clone())
        {
            engine.borrow_mut().break_off(place);
            self.settle();
            outcome = outcome.and(self.outcome.take().unwrap_or(Ok(())));
        }
        match (outcome, self.buffer) {
            (Ok(()), Some(buffer)) => Ok(buffer),
            (Err(error), Some(buffer)) => Err(Failed { error, buffer }),
            (_, None) => unreachable!("what is not under way any more was given back"),
        }
    }

    /// What was sent, when only the acknowledgement is missing.
    fn given_back(&mut self) -> Option<B> {
        let Place { engine, handle: Handle::Send(place), .. } = self.ticket.as_ref()?.0.clone()?
        else {
            return None;
        };
        let back = engine.borrow_mut().desk.sends.get_mut(place)?.back.take()?;
        Some(*back.downcast::<B>().ok()?)
    }

    fn taken_back(&mut self) -> Option<B> {
        let Place { engine, handle: Handle::Send(place), .. } = self.ticket.as_ref()?.0.clone()?
        else {
            return None;
        };
        let mut engine = engine.borrow_mut();
        let to = engine.desk.sends.get(place)?.to;
        let kept = engine.take_back(to, place)?;
        engine.desk.take_send(place);
        drop(engine);
        self.ticket.take()?.forget();
        Some(*kept.back()?.downcast::<B>().ok()?)
    }

    /// Whether the send is done, so that [`wait`](Self::wait) returns at once (`MPI_Test`). Brings
    /// on what can be brought on.
    ///
    /// # Errors
    /// [`Error::World`](crate::Error::World) when the world's memory is broken.
    pub fn test(&mut self) -> Result<bool> {
        self.drive(Some(Duration::ZERO))
    }

    /// Waits at most for `limit`; whether the send is done.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<bool> {
        self.drive(Some(limit))
    }

    /// Takes back what was to be sent (`MPI_Cancel`): nothing of it has gone, no envelope either, and
    /// nothing does.
    ///
    /// # Errors
    /// The request, when it is too late for that.
    pub fn cancel(mut self) -> Result<B, Self> {
        self.taken_back().ok_or(self)
    }
}

impl<B: BufferMut> Sealed for ReceiveRequest<B> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        let Place { engine, handle, .. } = self.ticket.as_ref()?.0.clone()?;
        Some(UnderWay { engine, handle, landing: Some(&mut self.buffer) })
    }

    fn settle(&mut self) {
        let Some(place) = self.ticket.as_ref().and_then(|ticket| ticket.0.clone()) else { return };
        let Place { engine, members, handle: Handle::Receive(at) } = place else { return };
        let mut engine = engine.borrow_mut();
        if !engine.is_settled(Handle::Receive(at)) {
            return;
        }
        let Some(landed) = engine.desk.land(at, &mut self.buffer) else { return };
        drop(engine);
        self.outcome = Some(match landed {
            Ok(envelope) => Ok(status(&members, &envelope)),
            Err(error) => Err(localized(&members, error)),
        });
        if let Some(ticket) = self.ticket.take() {
            ticket.forget();
        }
    }
}

impl<B: BufferMut> Pending for ReceiveRequest<B> {}

impl<B: BufferMut> ReceiveRequest<B> {
    /// Waits for the message (`MPI_Wait`).
    ///
    /// # Errors
    /// As [`Communicator::receive_into`], with the buffer.
    pub fn wait(mut self) -> Result<(B, Status), Failed<B>> {
        let outcome = match self.drive(None) {
            Ok(_) => self.outcome.take(),
            Err(error) => Some(Err(error)),
        };
        let Self { ticket, buffer, .. } = self;
        drop(ticket);
        match outcome {
            Some(Ok(status)) => Ok((buffer, status)),
            Some(Err(error)) => Err(Failed { error, buffer }),
            None => unreachable!("a request without a limit is settled after the wait for it"),
        }
    }

    /// Whether the receive is done, so that [`wait`](Self::wait) returns at once (`MPI_Test`).
    /// Brings on what can be brought on.
    ///
    /// # Errors
    /// [`Error::World`](crate::Error::World) when the world's memory is broken.
    pub fn test(&mut self) -> Result<bool> {
        self.drive(Some(Duration::ZERO))
    }

    /// Waits at most for `limit`; whether the receive is done. If not, it is still posted.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<bool> {
        self.drive(Some(limit))
    }

    /// Takes the receive back (`MPI_Cancel`): no message goes to it.
    ///
    /// # Errors
    /// The request, when its message is there or has begun to come.
    pub fn cancel(self) -> Result<B, Self> {
        if let Some(Place { engine, handle: Handle::Receive(place), .. }) =
            self.ticket.as_ref().and_then(|ticket| ticket.0.as_ref())
            && engine.borrow_mut().withdraw(*place)
        {
            let Self { ticket, buffer, .. } = self;
            if let Some(ticket) = ticket {
                ticket.forget();
            }
            return Ok(buffer);
        }
        Err(self)
    }
}

/// Waits until all of several requests are done (`MPI_Waitall`). What came of each,
/// [`wait`](ReceiveRequest::wait) then says at once.
///
/// # Errors
/// [`Error::Misuse`](crate::Error::Misuse) when they are not all of communicators made from one
/// [`world`](Communicator::world).
pub fn wait_all<P: Pending>(requests: &mut [P]) -> Result<()> {
    let UnderWays { engine, handles, mut landings, .. } = under_way(requests)?;
    if let Some(engine) = engine {
        engine.borrow_mut().work_on(&handles, &mut landings, &mut [], None)?;
    }
    requests.iter_mut().for_each(Sealed::settle);
    Ok(())
}

/// Waits until one of several requests is done (`MPI_Waitany`), and returns which. A
/// [persistent](Communicator::persistent_send) request that is not started is passed over.
///
/// # Errors
/// As [`wait_all`], and when there are none to wait for.
pub fn wait_any<P: Pending>(requests: &mut [P]) -> Result<usize> {
    match wait_some(requests)?.first() {
        Some(&first) => Ok(first),
        None => misuse("no request to wait for"),
    }
}

/// Waits until at least one of several requests is done (`MPI_Waitsome`), and returns which are: none
/// where there are none to wait for. A persistent request that is not started is passed over.
///
/// # Errors
/// As [`wait_all`].
pub fn wait_some<P: Pending>(requests: &mut [P]) -> Result<Vec<usize>> {
    let (done, _) = work(requests, None, |done, active| done > 0 || active == 0)?;
    Ok(done)
}

/// Returns whether all of several requests are done (`MPI_Testall`), those left out that are not
/// started.
///
/// # Errors
/// As [`wait_all`].
pub fn test_all<P: Pending>(requests: &mut [P]) -> Result<bool> {
    let (done, active) = work(requests, Some(Duration::ZERO), |done, active| done == active)?;
    Ok(done.len() == active)
}

/// Returns a request that is done, if one is (`MPI_Testany`). A persistent request that is not started
/// is passed over.
///
/// # Errors
/// As [`wait_all`].
pub fn test_any<P: Pending>(requests: &mut [P]) -> Result<Option<usize>> {
    Ok(test_some(requests)?.first().copied())
}

/// Returns which of several requests are done (`MPI_Testsome`). A persistent request that is not started
/// is passed over.
///
/// # Errors
/// As [`wait_all`].
pub fn test_some<P: Pending>(requests: &mut [P]) -> Result<Vec<usize>> {
    let (done, _) = work(requests, Some(Duration::ZERO), |done, _| done > 0)?;
    Ok(done)
}

/// Those of several requests that are under way.
struct UnderWays<'a> {
    engine: Option<Shared>,
    handles: Vec<Handle>,
    /// Where they stand among the requests.
    places: Vec<usize>,
    landings: Vec<(usize, &'a mut dyn Landing)>,
}

fn under_way<P: Pending>(requests: &mut [P]) -> Result<UnderWays<'_>> {
    let (handles, places, landings) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = UnderWays { engine: None, handles, places, landings };
    for (place, request) in requests.iter_mut().enumerate() {
        let Some(UnderWay { engine, handle, landing }) = request.under_way() else { continue };
        if !Rc::ptr_eq(all.engine.get_or_insert_with(|| Rc::clone(&engine)), &engine) {
            return misuse("requests of communicators that were not made from one another");
        }
        all.handles.push(handle);
        all.places.push(place);
        if let (Handle::Receive(place), Some(landing)) = (handle, landing) {
            all.landings.push((place, landing));
        }
    }
    Ok(all)
}

/// Works until `enough` requests are done, by their number and that of the active ones. Returns which
/// are done, and how many are active.
fn work<P: Pending>(
    requests: &mut [P],
    limit: Option<Duration>,
    enough: impl Fn(usize, usize) -> bool,
) -> Result<(Vec<usize>, usize)> {
    let mut settled: Vec<bool> = requests.iter().map(|request| request.is_active()).collect();
    let count = |settled: &[bool]| settled.iter().filter(|&&settled| settled).count();
    let active = count(&settled);
    let UnderWays { engine, handles, places, mut landings } = under_way(requests)?;
    places.iter().for_each(|&place| settled[place] = false);
    if !enough(count(&settled), active)
        && let Some(engine) = engine
    {
        engine.borrow_mut().work(&handles, &mut landings, &mut [], limit, |engine| {
            for (&handle, &place) in handles.iter().zip(&places) {
                settled[place] = settled[place] || engine.is_settled(handle);
            }
            enough(count(&settled), active)
        })?;
    }
    drop(landings);
    let done: Vec<usize> = (0..requests.len()).filter(|&place| settled[place]).collect();
    done.iter().for_each(|&place| requests[place].settle());
    Ok((done, active))
}

impl<B: Buffer + 'static> std::fmt::Debug for SendRequest<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendRequest").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl<B: BufferMut> std::fmt::Debug for ReceiveRequest<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveRequest").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
