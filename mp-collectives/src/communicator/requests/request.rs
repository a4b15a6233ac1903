//! Sends and receives that make progress while the caller does something else.

use std::{
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use mp_core::{
    Buffer, BufferMut, ElementType, Error, Failed, Pending, Plain, Recipient, Request, Result,
    Wait,
    requests::{Landing, Operation, UnderWay},
};

use crate::communicator::{
    messages::engine::{Engine, Handle},
    messages::matching::Sending,
    messages::posted::Posted,
    messages::send_queue::{Cargo, Course, Kept, Step},
    point_to_point::{Communicator, Stream, status},
    requests::home::Home,
    status::{Source, Status, Tag},
};

/// A request's place at the matching.
#[derive(Clone)]
struct Place {
    home: Rc<Home>,
    handle: Handle,
}

/// A pending request. It gives up its place when it is dropped.
pub(crate) struct Ticket {
    place: Place,
    is_over: bool,
}

impl Ticket {
    fn new(home: &Rc<Home>, handle: Handle) -> Self {
        Self { place: Place { home: Rc::clone(home), handle }, is_over: false }
    }

    /// Drops the ticket of a request that no longer has a place.
    #[inline]
    fn forget(mut self) {
        self.is_over = true;
    }

    #[inline(never)]
    fn abandon(&self) {
        let Place { home, handle } = &self.place;
        // The engine is borrowed here only if a panic came out of it. Then nothing is done.
        home.engine.amend(|engine| match *handle {
            Handle::Receive(place) => engine.matching.abandon(place),
            Handle::Send(place) => engine.matching.abandon_send(place),
        });
    }
}

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        if !self.is_over {
            self.abandon();
        }
    }
}

/// A nonblocking send. It owns what is sent until that is on its way, and then returns it.
///
/// The request is done when its message is on its way or, if it is synchronous, when its receiver has a receive for it.
/// A message that the receiver's [limit](Communicator::set_unexpected_limit) keeps here is on its way when it is
/// received. The request can be cancelled as long as no part of the message has been sent, not even its envelope.
///
/// Dropping a request releases it; the message is sent all the same. Leaking it does no further harm. Its errors are
/// those of [`Communicator::send`].
pub type SendRequest<B> = Request<SendOperation<B>>;

/// A nonblocking receive. It owns the buffer, and returns it with the status of the message.
///
/// The request can be cancelled until its message begins to arrive. Dropping a request cancels it; a message that has
/// come for it is dropped with it. A leaked request stays, and takes a message. Its errors are those of
/// [`Communicator::receive_into`].
pub type ReceiveRequest<B> = Request<ReceiveOperation<B>>;

/// The operation of a [`SendRequest`].
pub struct SendOperation<B: Buffer + 'static> {
    ticket: Option<Ticket>,
    outcome: Option<Result<()>>,
    /// Present unless the request is pending.
    buffer: Option<B>,
}

/// The operation of a [`ReceiveRequest`].
pub struct ReceiveOperation<B: BufferMut> {
    ticket: Option<Ticket>,
    outcome: Option<Result<Status>>,
    /// Present until it is returned.
    buffer: Option<B>,
}

impl Communicator {
    fn ticket(&self, handle: Handle) -> Ticket {
        Ticket::new(&self.home, handle)
    }

    /// Begins to send (`MPI_Isend`), and returns at once. The request owns the elements until [`wait`](Request::wait)
    /// returns them. They are a `Vec`, an array, a boxed slice, a [`SharedBuffer`](mp_core::SharedBuffer), or a slice
    /// with a `'static` lifetime. Elements that are only borrowed can be sent in an [`exchange`](Self::exchange), or as
    /// a copy by [`buffered_send`](Self::buffered_send).
    ///
    /// If there is no room for the message, it is sent while the rank waits in any later call of the library, or while
    /// it computes if there is [a thread for that](crate::communicator::Joint::lend_messages_to).
    ///
    /// All errors, including those of this call, are returned by [`wait`](Request::wait). If this rank has no memory to
    /// send to `to`, the next wait of the rank, of any kind, returns [`NotSent`](mp_core::ErrorKind::NotSent) instead
    /// of sleeping, unless the request has already reported the error. Rank `to` receives all earlier messages. After
    /// that, its receives from this rank, and those from any source, return
    /// [`PeerBroken`](mp_core::ErrorKind::PeerBroken).
    ///
    /// ```
    /// use onchip::{ANY_TAG, Communicator};
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let other = 1 - world.rank();
    ///     let sent = world.nonblocking_send(vec![world.rank() as u64; 100_000], other, 0);
    ///     let received = world.nonblocking_receive(vec![0u64; 100_000], other, ANY_TAG);
    ///     let (numbers, status) = received.wait()?;
    ///     assert_eq!((numbers[99_999], status.count), (other as u64, 100_000));
    ///     assert_eq!(sent.wait()?.len(), 100_000);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    #[inline]
    pub fn nonblocking_send<B: Buffer + 'static>(
        &self,
        buffer: B,
        to: usize,
        tag: u32,
    ) -> SendRequest<B> {
        if let Ok(world) = self.destination(to) {
            let context = self.context_of(Stream::Program);
            let elements = buffer.elements();
            if self.engine.here().send_at_once(context, world, tag, elements) {
                let outcome = Some(Ok(()));
                return Request::new(SendOperation { ticket: None, outcome, buffer: Some(buffer) });
            }
        }
        self.send_meanwhile(Stream::Program, buffer, to, tag, false)
    }

    /// Sends a message that goes in lines, if nothing prevents that and there is room for all of them. Then nothing is
    /// left of which a request could tell.
    #[doc(hidden)]
    #[inline]
    pub fn send_without_request<T: Plain>(&self, elements: &[T], to: usize, tag: u32) -> bool {
        let Ok(to) = self.destination(to) else { return false };
        let (context, mut engine) = (self.context_of(Stream::Program), self.engine.here());
        engine.send_at_once(context, to, tag, elements)
            || engine.send_lines(context, to, tag, elements)
    }

    /// Works like [`nonblocking_send`](Self::nonblocking_send), but the request is done when the receiver has a receive
    /// for the message (`MPI_Issend`).
    pub fn nonblocking_synchronous_send<B: Buffer + 'static>(
        &self,
        buffer: B,
        to: usize,
        tag: u32,
    ) -> SendRequest<B> {
        self.send_meanwhile(Stream::Program, buffer, to, tag, true)
    }

    /// Begins a send, and builds its request in the caller from values that are in registers. A request that is written
    /// field by field and then copied would wait for all earlier stores, also for that of the message to its line.
    #[inline(always)]
    pub(crate) fn send_meanwhile<B: Buffer + 'static>(
        &self,
        stream: Stream,
        buffer: B,
        to: usize,
        tag: u32,
        synchronous: bool,
    ) -> SendRequest<B> {
        let mut kept = Some(buffer);
        let (ticket, outcome) = match self.begin_send(stream, &mut kept, to, tag, synchronous) {
            Ok(None) => (None, Some(Ok(()))),
            Ok(Some(place)) => (Some(self.ticket(Handle::Send(place))), None),
            Err(error) => (None, Some(Err(self.localized(error)))),
        };
        Request::new(SendOperation { ticket, outcome, buffer: kept })
    }

    /// Sends as far as there is room. Returns the send's place at the matching if it is still pending. In that case the
    /// matching has taken the buffer, unless only the receiver's answer is missing.
    #[inline(never)]
    fn begin_send<B: Buffer + 'static>(
        &self,
        stream: Stream,
        kept: &mut Option<B>,
        to: usize,
        tag: u32,
        synchronous: bool,
    ) -> Result<Option<usize>> {
        let to = self.destination(to)?;
        let Some(buffer) = kept else { return Ok(None) };
        let (context, elements) = (self.context_of(stream), buffer.elements());
        if !synchronous && self.engine.here().send_lines(context, to, tag, elements) {
            return Ok(None);
        }
        let mut engine = self.engine.work();
        let mut envelope = engine.envelope(context, tag, elements)?;
        let element = ElementType::of::<B::Element>;
        let begun = (|| {
            engine.announce(to, envelope.fingerprint, element)?;
            let mut place = None;
            if synchronous {
                let (ticket, sync) = engine.ticket(to, (context, tag), true)?;
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
                    place.map(|place| engine.matching.take_send(place));
                    Err(error)
                }
            }
        })();
        let (place, rest) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // The failed send gets a place, so that a call that waits for the answer to it fails instead of
                // sleeping.
                let sending = Sending::new(to, envelope.context, tag);
                let place = engine.matching.sends.insert(sending);
                engine.not_sent(place, owned(kept), error);
                return Ok(Some(place));
            }
        };
        let Some(course) = rest else {
            if let Some(sending) = place.and_then(|place| engine.matching.sends.get_mut(place)) {
                sending.gone = true;
            }
            return Ok(place);
        };
        let place = match place {
            Some(place) => place,
            None => engine.ticket(to, (context, tag), false)?.0,
        };
        engine.queue(to, course, owned(kept), Some(place));
        Ok(Some(place))
    }

    /// Posts a receive (`MPI_Irecv`), and returns at once. The buffer is a `Vec`, an array, a boxed slice, a
    /// [`SharedBuffer`](mp_core::SharedBuffer), or a slice that is borrowed until the request is done. Only calls that
    /// have the request write to it.
    ///
    /// Receives get their messages in the order in which they are posted. All errors, including those of this call, are
    /// returned by [`wait`](Request::wait).
    #[inline(always)]
    pub fn nonblocking_receive<B: BufferMut>(
        &self,
        buffer: B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> ReceiveRequest<B> {
        self.receive_meanwhile(Stream::Program, buffer, source.into(), tag.into())
    }

    /// Begins a receive. The request is made in one piece where the caller has it, because a copy would wait for the
    /// stores that made it.
    #[inline(always)]
    pub(crate) fn receive_meanwhile<B: BufferMut>(
        &self,
        stream: Stream,
        mut buffer: B,
        source: Source,
        tag: Tag,
    ) -> ReceiveRequest<B> {
        let (ticket, outcome) = match self.begin_receive(stream, &mut buffer, source, tag) {
            Begun::Posted(place) => (Some(self.ticket(Handle::Receive(place))), None),
            Begun::Line { source, tag, count } => {
                let source = self.members.local(source).unwrap_or(source as usize);
                let (tag, count) = (tag, count as usize);
                let bytes = count * size_of::<B::Element>();
                (None, Some(Ok(Status { source, tag, count, bytes })))
            }
            Begun::Ended(outcome) => (None, Some(*outcome)),
        };
        Request::new(ReceiveOperation { ticket, outcome, buffer: Some(buffer) })
    }

    fn begin_receive<B: BufferMut>(
        &self,
        stream: Stream,
        buffer: &mut B,
        source: Source,
        tag: Tag,
    ) -> Begun {
        let ended = |outcome| Begun::Ended(Box::new(outcome));
        let pattern = match self.pattern(stream, source, tag) {
            Ok(pattern) => pattern,
            Err(error) => return ended(Err(error)),
        };
        let mut engine = self.engine.here();
        if let Some(source) = pattern.source()
            && let Some((tag, count)) =
                engine.receive_at_once(pattern, false, false, buffer.elements_mut())
        {
            // No line has more than 255 elements.
            return Begun::Line { source, tag, count: count as u32 };
        }
        let mut engine = self.engine.work_with(engine);
        let want = engine.want::<B::Element>(buffer.room(), false);
        let place = match engine.post(pattern, want, &self.members) {
            Ok(place) => place,
            Err(error) => return ended(Err(self.localized(error))),
        };
        engine.matching.receives.set_fixed(place, buffer.fixed());
        if engine.matching.receives.wanted(place).is_some() {
            return Begun::Posted(place);
        }
        match engine.matching.land(place, buffer) {
            None => Begun::Posted(place),
            Some(Ok(envelope)) => ended(Ok(self.status(&envelope))),
            Some(Err(error)) => ended(Err(self.localized(error))),
        }
    }
}

/// Takes the buffer for the matching.
fn owned<B: Buffer + 'static>(kept: &mut Option<B>) -> Kept {
    kept.take().map_or(Kept::Nothing, |buffer| Kept::Owned(Box::new(buffer)))
}

/// The result of the call that begins a receive.
enum Begun {
    /// It waits in this place at the matching.
    Posted(usize),
    /// A message of one line was there, from this rank of the world.
    Line {
        source: u32,
        tag: u32,
        count: u32,
    },
    Ended(Box<Result<Status>>),
}

/// What both kinds of requests have in common.
trait Ticketed {
    fn place(&self) -> Option<&Place>;
    fn landing(&mut self) -> Option<&mut dyn Landing>;
}

/// Works on one request for at most `limit`, and returns whether it is done.
fn drive(request: &mut (impl Ticketed + Pending), limit: Option<Duration>) -> Result<bool> {
    drive_or(request, limit, |_, _| ())
}

/// Works like [`drive`], but if that fails, calls `failed` with the engine and the request's place in it before the
/// engine is lent again.
fn drive_or(
    request: &mut (impl Ticketed + Pending),
    limit: Option<Duration>,
    failed: impl FnOnce(&mut Engine, usize),
) -> Result<bool> {
    let Some(Place { home, handle }) = request.place().cloned() else { return Ok(true) };
    let number = handle.number();
    let mut landing = request.landing().map(|landing| (number, landing));
    let mut working = home.engine.work();
    let settled = working
        .work_on(&[number], landing.as_mut_slice(), &mut [], limit)
        .inspect_err(|_| failed(&mut working, handle.place()));
    drop(working);
    let settled = settled?;
    if settled {
        request.settle();
    }
    Ok(settled)
}

fn is_done(request: &impl Ticketed) -> bool {
    request.place().is_none_or(|Place { home, handle }| home.engine.is_settled(*handle))
}

/// Returns the request of a ticket, if it is pending.
#[inline]
fn under_way<'a>(
    ticket: &'a Option<Ticket>,
    landing: Option<&'a mut dyn Landing>,
) -> Option<UnderWay<'a>> {
    let Place { home, handle } = &ticket.as_ref()?.place;
    let driver = &**home.engine.background();
    Some(UnderWay::Driven { driver, handle: handle.number(), landing })
}

impl<B: Buffer + 'static> Ticketed for SendOperation<B> {
    fn place(&self) -> Option<&Place> {
        Some(&self.ticket.as_ref()?.place)
    }

    fn landing(&mut self) -> Option<&mut dyn Landing> {
        None
    }
}

impl<B: Buffer + 'static> Pending for SendOperation<B> {
    #[inline]
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        under_way(&self.ticket, None)
    }

    #[inline]
    fn settle(&mut self) {
        if self.ticket.is_some() {
            self.settle_ticket();
        }
    }
}

impl<B: Buffer + 'static> SendOperation<B> {
    fn settle_ticket(&mut self) {
        let Some(Place { home, handle: handle @ Handle::Send(place) }) = self.place().cloned()
        else {
            return;
        };
        let settled = home.engine.glance(|engine| {
            let settled = engine.is_settled(handle);
            settled.then(|| engine.matching.take_send(place))
        });
        let Some(Some(sending)) = settled else { return };
        if let Some(ticket) = self.ticket.take() {
            ticket.forget();
        }
        let Some(sending) = sending else { return };
        let outcome = sending.failed.map_or(Ok(()), |error| Err(home.localized(error)));
        self.outcome = Some(outcome);
        if let Some(back) = sending.back.and_then(|back| back.downcast::<B>().ok()) {
            self.buffer = Some(*back);
        }
    }
}

impl<B: Buffer + 'static> Operation for SendOperation<B> {
    type Output = B;
    type Error = Failed<B>;
    type Back = B;

    #[inline]
    fn wait(self) -> Result<B, Failed<B>> {
        match self {
            Self { ticket: None, outcome: Some(Ok(())), buffer: Some(buffer) } => Ok(buffer),
            other => other.finish(Ok(())),
        }
    }

    fn is_done(&self) -> bool {
        is_done(self)
    }

    fn cancel(mut self) -> Result<B, Self> {
        self.taken_back().ok_or(self)
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<B, Failed<B>>> {
        match drive(self, Some(Duration::ZERO)) {
            Ok(false) => {
                task.waker().wake_by_ref();
                Poll::Pending
            }
            driven => {
                let (ticket, outcome) = (self.ticket.take(), self.outcome.take());
                let done = Self { ticket, outcome, buffer: self.buffer.take() };
                Poll::Ready(done.finish(driven.map(drop)))
            }
        }
    }

    fn wait_within(&mut self, wait: Wait) -> mp_core::Result<bool> {
        drive(self, wait.time_limit())
    }
}

impl<B: Buffer + 'static> SendOperation<B> {
    /// Waits until the request is done, after an earlier call had this outcome.
    fn finish(mut self, mut outcome: Result<()>) -> Result<B, Failed<B>> {
        loop {
            let driven = drive(&mut self, None);
            let another = matches!(
                driven.as_ref().map_err(Error::kind),
                Err(mp_core::ErrorKind::NotSent { to: Recipient::Rank(_), .. })
            );
            outcome = outcome.and(driven.and_then(|_| self.outcome.take().unwrap_or(Ok(()))));
            if self.buffer.is_none() {
                self.buffer = self.taken_back().or_else(|| self.given_back());
            }
            // If another send has failed and a part of this message has gone, the wait goes on.
            if !another || self.buffer.is_some() {
                break;
            }
        }
        if self.buffer.is_none()
            && let Some(Place { home, handle: Handle::Send(place) }) = self.place().cloned()
        {
            home.engine.work().break_off(place);
            self.settle();
            outcome = outcome.and(self.outcome.take().unwrap_or(Ok(())));
        }
        match (outcome, self.buffer) {
            (Ok(()), Some(buffer)) => Ok(buffer),
            (Err(error), Some(buffer)) => Err(Failed { error, buffer }),
            (_, None) => panic!("the request has given its answer as a future"),
        }
    }

    /// Returns what was sent, when only the acknowledgement is missing.
    fn given_back(&mut self) -> Option<B> {
        let Place { home, handle: Handle::Send(place) } = self.place()?.clone() else {
            return None;
        };
        let back = home.engine.work().matching.sends.get_mut(place)?.back.take()?;
        Some(*back.downcast::<B>().ok()?)
    }

    fn taken_back(&mut self) -> Option<B> {
        let Place { home, handle: Handle::Send(place) } = self.place()?.clone() else {
            return None;
        };
        let mut engine = home.engine.work();
        let to = engine.matching.sends.get(place)?.to;
        let kept = engine.take_back(to, place)?;
        engine.matching.take_send(place);
        drop(engine);
        self.ticket.take()?.forget();
        Some(*kept.back()?.downcast::<B>().ok()?)
    }
}

impl<B: BufferMut> Ticketed for ReceiveOperation<B> {
    fn place(&self) -> Option<&Place> {
        Some(&self.ticket.as_ref()?.place)
    }

    fn landing(&mut self) -> Option<&mut dyn Landing> {
        Some(self.buffer.as_mut()?)
    }
}

impl<B: BufferMut> Pending for ReceiveOperation<B> {
    #[inline]
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        under_way(&self.ticket, self.buffer.as_mut().map(|buffer| buffer as &mut dyn Landing))
    }

    fn settle(&mut self) {
        let Self { ticket: Some(Ticket { place, .. }), buffer: Some(buffer), .. } = self else {
            return;
        };
        let Place { home, handle } = place;
        let at = handle.place();
        let outcome = match home.engine.glance(|engine| engine.matching.land_at_once(at, buffer)) {
            Some(Some((source, tag, count))) => {
                let source = home.members.local(source).unwrap_or(source as usize);
                Ok(Status { source, tag, count, bytes: count * size_of::<B::Element>() })
            }
            _ => match settled(place, buffer) {
                Some(outcome) => outcome,
                None => return,
            },
        };
        self.end(outcome);
    }

    #[inline]
    fn settle_at_once(&mut self, last: bool) -> bool {
        let Self { ticket: Some(Ticket { place, .. }), buffer: Some(buffer), .. } = self else {
            return true;
        };
        let Place { home, handle } = place;
        let (at, mut engine) = (handle.place(), home.engine.work());
        let Some(received) = engine.receive_posted(at, last, buffer) else {
            let has_ended = engine.matching.receives.get(at).is_none_or(Posted::has_ended);
            drop(engine);
            if has_ended {
                self.settle();
            }
            return self.ticket.is_none();
        };
        drop(engine);
        let outcome = match received {
            Ok((source, tag, count)) => {
                let source = home.members.local(source).unwrap_or(source as usize);
                Ok(Status { source, tag, count, bytes: count * size_of::<B::Element>() })
            }
            Err(error) => Err(home.localized(error)),
        };
        self.end(outcome);
        true
    }
}

impl<B: BufferMut> ReceiveOperation<B> {
    /// Notes the outcome of a receive that no longer has a place.
    #[inline]
    fn end(&mut self, outcome: Result<Status>) {
        self.outcome = Some(outcome);
        if let Some(ticket) = self.ticket.take() {
            ticket.forget();
        }
    }
}

/// Returns the result of a receive, if it is done, with its message in `landing`.
#[inline(never)]
fn settled(Place { home, handle }: &Place, landing: &mut dyn Landing) -> Option<Result<Status>> {
    let landed = home.engine.glance(|engine| {
        // This also settles a receive for which nothing can come any more.
        let settled = engine.is_settled(*handle);
        settled.then(|| engine.matching.land(handle.place(), landing))?
    });
    Some(match landed?? {
        Ok(envelope) => Ok(status(&home.members, &envelope)),
        Err(error) => Err(home.localized(error)),
    })
}

impl<B: BufferMut> Operation for ReceiveOperation<B> {
    type Output = (B, Status);
    type Error = Failed<B>;
    type Back = B;

    #[inline]
    fn wait(self) -> Result<(B, Status), Failed<B>> {
        match self {
            Self { ticket: None, outcome: Some(Ok(status)), buffer: Some(buffer) } => {
                Ok((buffer, status))
            }
            other => other.drive_and_finish(),
        }
    }

    fn is_done(&self) -> bool {
        is_done(self)
    }

    fn cancel(mut self) -> Result<B, Self> {
        let Some(Place { home, handle: Handle::Receive(place) }) = self.place().cloned() else {
            return Err(self);
        };
        if !home.engine.work().withdraw(place) {
            return Err(self);
        }
        if let Some(ticket) = self.ticket.take() {
            ticket.forget();
        }
        self.buffer.take().ok_or(self)
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<(B, Status), Failed<B>>> {
        match drive(self, Some(Duration::ZERO)) {
            Ok(false) => {
                task.waker().wake_by_ref();
                Poll::Pending
            }
            driven => {
                let (ticket, outcome) = (self.ticket.take(), self.outcome.take());
                let done = Self { ticket, outcome, buffer: self.buffer.take() };
                Poll::Ready(done.finish(driven))
            }
        }
    }

    fn wait_within(&mut self, wait: Wait) -> mp_core::Result<bool> {
        drive(self, wait.time_limit())
    }
}

impl<B: BufferMut> ReceiveOperation<B> {
    /// Returns the status of the message, if an earlier call has found that the receive is done and has not failed.
    #[doc(hidden)]
    #[inline(always)]
    pub fn status(&self) -> Option<&Status> {
        self.outcome.as_ref()?.as_ref().ok()
    }

    fn drive_and_finish(mut self) -> Result<(B, Status), Failed<B>> {
        if self.settle_at_once(true) {
            return self.finish(Ok(true));
        }
        // A receive that fails is taken back before the engine is lent again. Later, it might have taken a message
        // already.
        let driven = drive_or(&mut self, None, |engine, place| engine.matching.abandon(place));
        if driven.is_err()
            && let Some(ticket) = self.ticket.take()
        {
            ticket.forget();
        }
        self.finish(driven)
    }

    /// Returns the result of the receive, after a call that had this outcome.
    fn finish(self, driven: Result<bool>) -> Result<(B, Status), Failed<B>> {
        let outcome = driven.map_or_else(|error| Some(Err(error)), |_| self.outcome);
        match (outcome, self.buffer) {
            (Some(Ok(status)), Some(buffer)) => Ok((buffer, status)),
            (Some(Err(error)), Some(buffer)) => Err(Failed { error, buffer }),
            _ => panic!("the request has given its answer as a future"),
        }
    }
}

impl<B: Buffer + 'static> std::fmt::Debug for SendOperation<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendOperation").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl<B: BufferMut> std::fmt::Debug for ReceiveOperation<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveOperation").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
