//! Requests: operations that a program waits for later, and the statuses of what is done.

use std::{
    cell::RefCell,
    ffi::c_int,
    mem::{self, MaybeUninit},
    rc::Rc,
};

use mp_collectives::communicator::{
    Communicator, Pending, ReceiveRequest, SendRequest, Source, Status, Tag, test_some,
};
use mp_core::{
    Buffer,
    requests::{CutBuffer, RawBuffer},
};

use crate::{
    attributes::Attributes,
    buffered,
    callbacks::Owner,
    collective::Collective,
    comm::{Comm, sent_tag, wanted_tag},
    completed::Completed,
    constants::MPI_REQUEST_NULL,
    datatype::data::{Data, Kept},
    error::{Class, Error},
    generalized::{self, Functions, Generalized},
    going::Going,
    handles::sent,
    order::Order,
    partitioned::{self, Partitioned},
    splitting,
    state::of_rank,
    threads::{self, wait_all},
    types::Handle,
};

/// An operation that is under way.
enum Active {
    Send(SendRequest<RawBuffer<u8>>),
    SendPacked(SendRequest<Vec<u8>>),
    Receive {
        request: Receiving,
        room: usize,
    },
    /// A receive whose data is unpacked when it has come.
    ReceivePacked {
        request: Receiving,
        unpacked: Box<Unpacked>,
    },
    Collective(Box<dyn Going>),
    Generalized(Box<Generalized>),
    Done(Completed),
    Nothing,
}

/// What a request receives, and where it belongs.
struct Unpacked {
    /// The request writes to this.
    packed: Vec<u8>,
    kept: Kept,
}

/// How a send is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standard,
    Synchronous,
    Buffered,
}

/// What a persistent request does each time.
enum Persistent {
    /// Sends in this mode, or receives.
    Message {
        what: Option<Mode>,
        data: Kept,
        rank: c_int,
        tag: c_int,
    },
    /// The operation runs in a communicator of its own, because ranks may start their requests in any order.
    Collective(Collective, Rc<Comm>),
    Partitioned(Partitioned),
}

/// `MPI_Request`.
pub(crate) struct Request {
    active: Active,
    persistent: Option<Box<Persistent>>,
    /// Whose error handler gets its errors.
    pub comm: Option<Rc<Comm>>,
}

/// Sends, and returns when the buffer may be used again.
pub(crate) fn send(
    comm: &Comm,
    data: Data<'_>,
    to: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<(), Error> {
    let tag = sent_tag(tag)?;
    let Some(to) = comm.destination(to)? else { return Ok(()) };
    let communicator = &comm.communicator;
    if threads::are_many() && mode != Mode::Buffered {
        return send_meanwhile(communicator, data, to, tag, mode);
    }
    match mode {
        Mode::Standard => match data.plain() {
            Some(plain) => communicator.send(plain, to, tag)?,
            None => communicator.send(&data.packed()[..], to, tag)?,
        },
        Mode::Synchronous => communicator.synchronous_send(&data.packed()[..], to, tag)?,
        Mode::Buffered => buffered::send(comm, data, to, tag)?,
    }
    Ok(())
}

/// Sends, and lets other threads call meanwhile.
#[cold]
#[inline(never)]
fn send_meanwhile(
    communicator: &Communicator,
    data: Data<'_>,
    to: usize,
    tag: u32,
    mode: Mode,
) -> Result<(), Error> {
    send_by_request(communicator, &data.packed(), to, tag, mode)
}

/// Sends, as a request that is waited for.
fn send_by_request(
    communicator: &Communicator,
    bytes: &[u8],
    to: usize,
    tag: u32,
    mode: Mode,
) -> Result<(), Error> {
    // SAFETY: the bytes stay where they are until the request is waited for, below, and nobody writes to them.
    let buffer = unsafe { RawBuffer::new(bytes.as_ptr().cast_mut(), bytes.len()) };
    let mut send = begin_to_send(communicator, buffer, to, tag, mode);
    let waited = wait_all(&mut [&mut send]);
    send.wait().map_err(|failed| failed.error)?;
    Ok(waited?)
}

/// Receives. The data may be written to.
#[inline(always)]
pub(crate) fn receive(
    comm: &Comm,
    data: Data<'_>,
    source: c_int,
    tag: c_int,
) -> Result<Completed, Error> {
    let tag = wanted_tag(tag)?;
    let Some(source) = comm.source(source)? else { return Ok(Completed::FROM_NOBODY) };
    receive_from(comm, data, source, tag)
}

/// Receives. What comes in one piece is received by code in the caller, so that its status stays in registers: a call
/// would return it in memory, and the reads of it would hold up what the program does next.
#[inline(always)]
pub(crate) fn receive_from(
    comm: &Comm,
    data: Data<'_>,
    source: Source,
    tag: Tag,
) -> Result<Completed, Error> {
    if threads::are_many() {
        return receive_meanwhile(comm, data, source, tag);
    }
    // SAFETY: nothing else uses this memory during the call: MPI demands it of the program.
    if let Some(plain) = unsafe { data.plain_mut() } {
        let status = comm.communicator.receive_prefix(plain, source, tag)?;
        return Ok(Completed::received(comm.told(status), plain.len()));
    }
    receive_packed(comm, data, source, tag)
}

/// Receives what does not come in one piece.
#[inline(never)]
fn receive_packed(
    comm: &Comm,
    data: Data<'_>,
    source: Source,
    tag: Tag,
) -> Result<Completed, Error> {
    let mut packed = vec![0u8; data.bytes()];
    let status = comm.communicator.receive_prefix(&mut packed, source, tag)?;
    data.unpack(&packed[..packed.len().min(status.bytes)]);
    Ok(Completed::received(comm.told(status), packed.len()))
}

/// Receives, and lets other threads call meanwhile.
#[cold]
#[inline(never)]
fn receive_meanwhile(
    comm: &Comm,
    data: Data<'_>,
    source: Source,
    tag: Tag,
) -> Result<Completed, Error> {
    let mut packed = Vec::new();
    // SAFETY: nothing else uses this memory during the call: MPI demands it of the program.
    let (mut request, room) = unsafe { post(comm, data, source, tag, &mut packed) };
    let waited = wait_all(&mut [&mut request]);
    let landed = land(comm, request, data, (&packed, room));
    waited?;
    landed
}

type Receiving = ReceiveRequest<CutBuffer<RawBuffer<u8>>>;

/// Begins to receive. Returns the request, and the number of bytes that there is room for. The message comes into
/// `packed` if the data is not in one piece.
///
/// # Safety
/// Until the request is gone, the data can be written to, nobody else uses it, and `packed` stays as it is.
unsafe fn post(
    comm: &Comm,
    data: Data<'_>,
    source: Source,
    tag: Tag,
    packed: &mut Vec<u8>,
) -> (Receiving, usize) {
    // SAFETY: the caller says so.
    let place = unsafe { data.plain_or(packed) };
    let room = place.len();
    // SAFETY: as above.
    let buffer = CutBuffer::new(unsafe { RawBuffer::new(place.as_mut_ptr(), room) });
    (comm.communicator.nonblocking_receive(buffer, source, tag), room)
}

/// Waits for a receive, and gives the program what has come.
fn land(
    comm: &Comm,
    request: Receiving,
    data: Data<'_>,
    (packed, room): (&[u8], usize),
) -> Result<Completed, Error> {
    let (mut buffer, status) = request.wait().map_err(|failed| failed.error)?;
    buffer.cut();
    drop(buffer);
    data.unpack(&packed[..packed.len().min(status.bytes)]);
    Ok(Completed::received(comm.told(status), room))
}

/// Sends one message and receives another, in whichever order is possible. The data may be written to.
pub(crate) fn exchange(
    comm: &Comm,
    bytes: &[u8],
    (to, send_tag): (c_int, c_int),
    data: Data<'_>,
    (source, receive_tag): (c_int, c_int),
) -> Result<Completed, Error> {
    let (tag, wanted) = (sent_tag(send_tag)?, wanted_tag(receive_tag)?);
    let from = comm.source(source)?;
    let Some(to) = comm.destination(to)? else {
        return receive(comm, data, source, receive_tag);
    };
    let communicator = &comm.communicator;
    let Some(from) = from else {
        send_by_request(communicator, bytes, to, tag, Mode::Standard)?;
        return Ok(Completed::FROM_NOBODY);
    };
    // SAFETY: the bytes stay where they are until the request is waited for, below, and nobody writes to them.
    let buffer = unsafe { RawBuffer::new(bytes.as_ptr().cast_mut(), bytes.len()) };
    let send = begin_to_send(communicator, buffer, to, tag, Mode::Standard);
    let Some(mut send) = unless_sent(send)? else {
        return receive_from(comm, data, from, wanted);
    };
    let mut packed = Vec::new();
    // SAFETY: nothing else uses this memory during the call: MPI demands it of the program.
    let (mut received, room) = unsafe { post(comm, data, from, wanted, &mut packed) };
    let waited = wait_all(&mut [&mut send, &mut received]);
    let (sent, received) = (send.wait(), land(comm, received, data, (&packed, room)));
    waited?;
    sent.map_err(|failed| failed.error)?;
    received
}

impl Request {
    #[inline(always)]
    fn new(active: Active, comm: &Comm) -> Self {
        Self { active, persistent: None, comm: Some(comm.keep()) }
    }

    /// Returns a handle, which owns the request.
    #[inline(always)]
    fn into_handle(self) -> Handle {
        let mut memory =
            SPARE.with(|spare| spare.borrow_mut().pop()).unwrap_or_else(Box::new_uninit);
        memory.write(self);
        Box::into_raw(memory).cast()
    }

    /// Begins a send.
    ///
    /// # Safety
    /// The data can be read, and nobody writes to it, until the request is complete.
    pub unsafe fn send(
        comm: &Comm,
        data: Data<'_>,
        to: c_int,
        tag: c_int,
        mode: Mode,
    ) -> Result<Handle, Error> {
        // SAFETY: the caller says so.
        let active = unsafe { begin_send(comm, data, to, tag, mode)? };
        Ok(match active {
            None => sent(),
            Some(active) => Self::new(active, comm).into_handle(),
        })
    }

    /// Makes a request that is done.
    pub fn done(completed: Completed, comm: Option<&Comm>) -> Handle {
        let comm = comm.map(Comm::keep);
        Self { active: Active::Done(completed), persistent: None, comm }.into_handle()
    }

    /// Begins a receive of elements whose type has this handle.
    ///
    /// # Safety
    /// The data can be written to, and nobody else uses it, until the request is complete.
    // Always inlined, so that the request is built where it stays: a copy would wait for the stores that made it. In
    // MPI_Irecv, such copies took more time than all the rest.
    #[inline(always)]
    pub unsafe fn receive(
        comm: &Comm,
        data: Data<'_>,
        datatype: Handle,
        source: c_int,
        tag: c_int,
    ) -> Result<Handle, Error> {
        // SAFETY: the caller says that nobody else uses the data until the request is complete.
        if let Some(plain) = unsafe { data.plain_mut() }
            && let Ok(tag) = wanted_tag(tag)
            && let Ok(Some(source)) = comm.source(source)
        {
            // SAFETY: as above.
            let buffer = unsafe { RawBuffer::new(plain.as_mut_ptr(), plain.len()) };
            let buffer = CutBuffer::new(buffer);
            let request = comm.communicator.nonblocking_receive(buffer, source, tag);
            let active = Active::Receive { request, room: plain.len() };
            return Ok(Self::new(active, comm).into_handle());
        }
        // SAFETY: the caller says so.
        unsafe {
            let kept = Kept::of(data, datatype)?;
            Ok(Self::new(begin_receive(comm, &kept, source, tag)?, comm).into_handle())
        }
    }

    /// Makes a request that is started later: a send in this mode, or a receive.
    pub fn persistent(
        comm: &Comm,
        data: Kept,
        rank: c_int,
        tag: c_int,
        what: Option<Mode>,
    ) -> Result<Handle, Error> {
        match what {
            Some(_) => {
                sent_tag(tag)?;
                comm.destination(rank)?;
            }
            None => {
                wanted_tag(tag)?;
                comm.source(rank)?;
            }
        }
        let persistent = Some(Box::new(Persistent::Message { what, data, rank, tag }));
        Ok(Self { persistent, ..Self::new(Active::Nothing, comm) }.into_handle())
    }

    /// Begins a collective operation.
    ///
    /// # Safety
    /// As for [`Collective::begin`], until the request is complete.
    pub unsafe fn collective(comm: &Comm, what: &Collective) -> Result<Handle, Error> {
        // SAFETY: the caller says so.
        let begun = unsafe { what.begin(comm, Order::Nonblocking)? };
        Ok(begun.map_or(sent(), |going| Self::of(comm, going)))
    }

    /// Makes a request for what is under way.
    pub fn of(comm: &Comm, going: Box<dyn Going>) -> Handle {
        Self::new(Active::Collective(going), comm).into_handle()
    }

    /// Makes a request that the program completes.
    ///
    /// # Safety
    /// The program has given the functions for this request.
    pub unsafe fn generalized(functions: Functions) -> Result<Handle, Error> {
        // SAFETY: the caller says so.
        let (made, is_complete) = unsafe { Generalized::new(functions)? };
        let active = Active::Generalized(Box::new(made));
        let handle = Self { active, persistent: None, comm: None }.into_handle();
        generalized::open(handle, is_complete);
        Ok(handle)
    }

    /// Makes a request for a collective operation that is started later. All ranks make it together.
    pub fn persistent_collective(comm: &Comm, what: Collective) -> Result<Handle, Error> {
        let own = comm.copy(splitting::duplicate(comm)?, Attributes::new(Owner::Comm));
        let persistent = Some(Box::new(Persistent::Collective(what, Rc::new(own))));
        Ok(Self { persistent, ..Self::new(Active::Nothing, comm) }.into_handle())
    }

    /// Makes a request for a partitioned message, which is started later.
    pub fn partitioned(comm: &Comm, what: Partitioned) -> Handle {
        let parts = what.parts();
        let persistent = Some(Box::new(Persistent::Partitioned(what)));
        let handle = Self { persistent, ..Self::new(Active::Nothing, comm) }.into_handle();
        partitioned::open(handle, parts);
        handle
    }

    /// Returns whether the request is one of a partitioned receive.
    pub fn is_partitioned_receive(&self) -> bool {
        matches!(self.persistent.as_deref(), Some(Persistent::Partitioned(what)) if what.parts().is_none())
    }

    /// Returns the request of a handle, or `None` if there is nothing to wait for.
    ///
    /// # Safety
    /// The handle is one of a request that is not freed during `'a`, or any number below 4096. There is no other
    /// reference to the request.
    pub unsafe fn look<'a>(handle: Handle) -> Result<Option<&'a mut Self>, Error> {
        match handle.addr() {
            ..4096 if handle == MPI_REQUEST_NULL => Ok(None),
            ..4096 => Err(Error::new(Class::Request, "the handle is not one of a request")),
            _ if handle == sent() => Ok(None),
            // SAFETY: the handle came from `into_handle`, and owns the request.
            _ => Ok(Some(unsafe { &mut *handle.cast::<Self>() })),
        }
    }

    pub fn is_persistent(&self) -> bool {
        self.persistent.is_some()
    }

    /// Returns whether the request has begun something that no call has completed.
    pub fn is_active(&self) -> bool {
        !matches!(self.active, Active::Nothing)
    }

    /// Begins what a persistent request does.
    ///
    /// # Safety
    /// As for [`send`](Self::send), [`receive`](Self::receive) or [`collective`](Self::collective).
    pub unsafe fn start(&mut self) -> Result<(), Error> {
        let (Some(persistent), Some(comm)) = (&self.persistent, &self.comm) else {
            return Err(Error::new(Class::Request, "the request is not persistent"));
        };
        if self.is_active() {
            return Err(Error::new(Class::Request, "the request was started and is not complete"));
        }
        // SAFETY: the caller says so.
        self.active = unsafe {
            match &**persistent {
                &Persistent::Message { what: Some(mode), ref data, rank, tag } => {
                    begin_send(comm, data.data(), rank, tag, mode)?
                        .unwrap_or(Active::Done(Completed::EMPTY))
                }
                &Persistent::Message { what: None, ref data, rank, tag } => {
                    begin_receive(comm, data, rank, tag)?
                }
                Persistent::Collective(what, own) => going(what.begin(own, Order::Nonblocking)?),
                Persistent::Partitioned(what) => going(what.begin(comm)?),
            }
        };
        Ok(())
    }

    /// Returns what is under way, unless it is done. A collective operation may have several parts, of which this
    /// returns one that is not done.
    pub fn pending(&mut self) -> Option<&mut dyn Pending> {
        match &mut self.active {
            Active::Send(request) => Some(request),
            Active::SendPacked(request) => Some(request),
            Active::Receive { request, .. } => Some(request),
            Active::ReceivePacked { request, .. } => Some(request),
            Active::Collective(going) => going.pending(),
            Active::Generalized(request) => {
                Some(&mut **request).filter(|one| !one.is_complete()).map(|one| one as _)
            }
            Active::Done(_) | Active::Nothing => None,
        }
    }

    /// Waits until the operation is done, and returns what it has to say. Without one, the status is empty.
    #[inline]
    pub fn finish(&mut self) -> Completed {
        self.settle_at_once(true);
        // A receive that is done stays where it is: to take it out would wait for the stores that made it.
        if let Active::Receive { request, room } = &self.active
            && let Some(&status) = request.operation().status()
            && status.bytes <= *room
        {
            let completed = Completed::of(self.told(status));
            self.active = Active::Nothing;
            return completed;
        }
        self.finish_otherwise()
    }

    /// Ends what is under way, if that is possible without work on other operations: see [`Pending::settle_at_once`].
    /// Returns whether it is done.
    #[inline]
    pub fn settle_at_once(&mut self, last: bool) -> bool {
        match &mut self.active {
            Active::Receive { request, .. } if !threads::are_many() => request.settle_at_once(last),
            Active::Done(_) | Active::Nothing => true,
            _ => false,
        }
    }

    /// Returns a status with the rank that the communicator of the request has for its source.
    #[inline]
    fn told(&self, status: Status) -> Status {
        self.comm.as_deref().map_or(status, |comm| comm.told(status))
    }

    #[inline(never)]
    fn finish_otherwise(&mut self) -> Completed {
        let comm = self.comm.as_deref();
        let told = |status| comm.map_or(status, |comm| comm.told(status));
        match mem::replace(&mut self.active, Active::Nothing) {
            Active::Nothing => Completed::EMPTY,
            Active::Done(completed) => completed,
            Active::Collective(going) => going.finish(),
            Active::Generalized(mut request) => match wait_all(&mut [&mut *request]) {
                Ok(()) => request.finish(),
                Err(error) => Completed::failed(error.into()),
            },
            Active::Send(request) => sent_or(request.wait().map_err(|failed| failed.error)),
            Active::SendPacked(request) => sent_or(request.wait().map_err(|failed| failed.error)),
            Active::Receive { request, room } => match request.wait() {
                Ok((mut buffer, status)) => {
                    buffer.cut();
                    Completed::received(told(status), room)
                }
                Err(failed) => Completed::failed(failed.error.into()),
            },
            Active::ReceivePacked { request, unpacked } => match request.wait() {
                Ok((mut buffer, status)) => {
                    buffer.cut();
                    drop(buffer);
                    let Unpacked { packed, kept } = *unpacked;
                    kept.data().unpack(&packed[..packed.len().min(status.bytes)]);
                    Completed::received(told(status), packed.len())
                }
                Err(failed) => Completed::failed(failed.error.into()),
            },
        }
    }

    /// Ends what is done, and what nobody asks about.
    fn end(mut self) {
        match mem::replace(&mut self.active, Active::Nothing) {
            // Nobody gets the error of the program's function.
            Active::Generalized(request) => drop(request.free()),
            active => drop(Self { active, ..self }.finish()),
        }
    }

    /// Returns what the operation has to say, if it is done, and keeps that for a later call.
    pub fn keep_done(&mut self) -> &Completed {
        const EMPTY: &Completed = &Completed::EMPTY;
        if !self.is_active() {
            return EMPTY;
        }
        if !matches!(self.active, Active::Generalized(_)) {
            self.active = Active::Done(self.finish());
        }
        match &mut self.active {
            Active::Generalized(request) => request.query(),
            Active::Done(completed) => completed,
            _ => EMPTY,
        }
    }

    pub fn is_collective(&self) -> bool {
        matches!(self.active, Active::Collective(_))
    }

    /// Gives up the operation, if that is still possible.
    pub fn cancel(&mut self) -> Result<(), Error> {
        if let Active::Generalized(request) = &self.active {
            return request.cancel().map_or(Ok(()), Err);
        }
        let cancelled = || Active::Done(Completed { cancelled: true, ..Completed::EMPTY });
        self.active = match mem::replace(&mut self.active, Active::Nothing) {
            Active::Receive { request, room } => match request.cancel() {
                Ok(_) => cancelled(),
                Err(request) => Active::Receive { request, room },
            },
            Active::ReceivePacked { request, unpacked } => match request.cancel() {
                Ok(_) => cancelled(),
                Err(request) => Active::ReceivePacked { request, unpacked },
            },
            Active::Send(request) => request.cancel().map_or_else(Active::Send, |_| cancelled()),
            Active::SendPacked(request) => {
                request.cancel().map_or_else(Active::SendPacked, |_| cancelled())
            }
            other => other,
        };
        Ok(())
    }
}

/// Returns what is under way, or that nothing has to be waited for.
fn going(begun: Option<Box<dyn Going>>) -> Active {
    begun.map_or(Active::Done(Completed::EMPTY), Active::Collective)
}

fn sent_or<T>(sent: mp_core::Result<T>) -> Completed {
    match sent {
        Ok(_) => Completed::EMPTY,
        Err(error) => Completed::failed(error.into()),
    }
}

/// Begins a send. Returns `None` if it is complete.
///
/// # Safety
/// As for [`Request::send`].
unsafe fn begin_send(
    comm: &Comm,
    data: Data<'_>,
    to: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<Option<Active>, Error> {
    let tag = sent_tag(tag)?;
    let Some(to) = comm.destination(to)? else { return Ok(None) };
    let communicator = &comm.communicator;
    let active = match (mode, data.plain()) {
        (Mode::Standard, Some(plain)) if communicator.send_without_request(plain, to, tag) => None,
        (Mode::Buffered, _) => {
            buffered::send(comm, data, to, tag)?;
            None
        }
        (mode, Some(plain)) => {
            // SAFETY: the caller says that nobody writes to the data until the request is complete.
            let plain = unsafe { RawBuffer::new(plain.as_ptr().cast_mut(), plain.len()) };
            let send = begin_to_send(communicator, plain, to, tag, mode);
            unless_sent(send)?.map(Active::Send)
        }
        (mode, None) => {
            let mut packed = Vec::new();
            data.pack(&mut packed);
            let send = begin_to_send(communicator, packed, to, tag, mode);
            unless_sent(send)?.map(Active::SendPacked)
        }
    };
    Ok(active)
}

/// Begins to send a buffer, synchronously or not.
#[inline]
fn begin_to_send<B: Buffer + 'static>(
    communicator: &Communicator,
    buffer: B,
    to: usize,
    tag: u32,
    mode: Mode,
) -> SendRequest<B> {
    match mode {
        Mode::Synchronous => communicator.nonblocking_synchronous_send(buffer, to, tag),
        _ => communicator.nonblocking_send(buffer, to, tag),
    }
}

/// Returns the request of a send, unless the send is complete.
#[inline]
fn unless_sent<B: Buffer + 'static>(
    mut send: SendRequest<B>,
) -> Result<Option<SendRequest<B>>, Error> {
    if send.under_way().is_some() {
        return Ok(Some(send));
    }
    send.wait().map_err(|failed| failed.error)?;
    Ok(None)
}

/// A send and a receive that are one request.
struct Both {
    send: Request,
    receive: Request,
}

impl Going for Both {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        let both = [self.receive.pending(), self.send.pending()];
        both.into_iter().flatten().find_map(|part| part.under_way().is_some().then_some(part))
    }

    fn finish(mut self: Box<Self>) -> Completed {
        let (sent, received) = (self.send.finish(), self.receive.finish());
        Completed { error: received.error.or(sent.error), ..received }
    }
}

/// Begins to send and to receive. What is sent is packed first, so that it may be received to the same place.
///
/// # Safety
/// As for [`Request::receive`].
pub(crate) unsafe fn begin_exchange(
    comm: &Comm,
    packed: Vec<u8>,
    (to, send_tag): (c_int, c_int),
    place: Kept,
    (source, receive_tag): (c_int, c_int),
) -> Result<Handle, Error> {
    let (tag, to) = (sent_tag(send_tag)?, comm.destination(to)?);
    // SAFETY: the caller says so.
    let receive = unsafe { begin_receive(comm, &place, source, receive_tag)? };
    let send = match to {
        Some(to) => {
            let send = begin_to_send(&comm.communicator, packed, to, tag, Mode::Standard);
            unless_sent(send)?.map(Active::SendPacked)
        }
        None => None,
    };
    let send = Request::new(send.unwrap_or(Active::Nothing), comm);
    let both = Both { send, receive: Request::new(receive, comm) };
    Ok(Request::of(comm, Box::new(both)))
}

/// Begins a receive.
///
/// # Safety
/// As for [`Request::receive`].
unsafe fn begin_receive(
    comm: &Comm,
    kept: &Kept,
    source: c_int,
    tag: c_int,
) -> Result<Active, Error> {
    let tag = wanted_tag(tag)?;
    let Some(source) = comm.source(source)? else {
        return Ok(Active::Done(Completed::FROM_NOBODY));
    };
    let mut packed = Vec::new();
    // SAFETY: the caller says that nobody else uses the data until the request is complete. The copy stays where it is
    // as long as the request.
    let (request, room) = unsafe { post(comm, kept.data(), source, tag, &mut packed) };
    Ok(match kept.data().start() {
        Some(_) => Active::Receive { request, room },
        None => {
            let unpacked = Box::new(Unpacked { packed, kept: kept.clone() });
            Active::ReceivePacked { request, unpacked }
        }
    })
}

of_rank! {
    /// Receives and operations of the program whose requests the program has freed, and which are still to be done.
    static FREED: RefCell<Vec<Request>> = RefCell::new(Vec::new());
}

of_rank! {
    /// The memory of some requests that are gone, for others.
    static SPARE: RefCell<Vec<Box<MaybeUninit<Request>>>> = RefCell::new(Vec::new());
}

/// How many requests' memory is kept at most.
const MOST_SPARE: usize = 256;

/// Drops a request that a handle has owned, and keeps its memory for another.
///
/// # Safety
/// The handle came from [`Request::into_handle`], and is not used afterwards.
#[inline]
unsafe fn end_of(handle: Handle) {
    // SAFETY: the memory was that of a box, and the caller has the request in it.
    let memory = unsafe {
        let request = handle.cast::<Request>();
        request.drop_in_place();
        Box::from_raw(request.cast::<MaybeUninit<Request>>())
    };
    SPARE.with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < MOST_SPARE {
            spare.push(memory);
        }
    });
}

/// Lets go of a request. What it has begun goes on.
///
/// # Safety
/// The handle is one of a request that was not freed, or any number below 4096. It is not used afterwards.
pub(crate) unsafe fn free(handle: Handle) -> Result<(), Error> {
    // SAFETY: the caller says so.
    if unsafe { Request::look(handle)? }.is_none() {
        return match handle {
            MPI_REQUEST_NULL => Err(Error::new(Class::Request, "the request is null")),
            _ => Ok(()),
        };
    }
    // SAFETY: the handle came from `Request::into_handle`, and owns the request.
    let request = unsafe { Box::from_raw(handle.cast::<Request>()) };
    if let Some(Persistent::Partitioned(_)) = request.persistent.as_deref() {
        partitioned::close(handle);
    }
    match request.active {
        Active::Receive { .. } | Active::ReceivePacked { .. } => {
            FREED.with(|freed| freed.borrow_mut().push(*request));
        }
        Active::Generalized(done) if done.is_complete() => return done.free().map_or(Ok(()), Err),
        Active::Generalized(_) => FREED.with(|freed| freed.borrow_mut().push(*request)),
        _ => {}
    }
    Ok(())
}

/// Drops the request of a handle, which is complete, or keeps it if it is persistent.
///
/// # Safety
/// As for [`free`]; `at` can be written to.
#[inline]
pub(crate) unsafe fn complete(at: *mut Handle) {
    // SAFETY: the caller says so.
    unsafe {
        match Request::look(*at) {
            Ok(Some(request)) if request.is_persistent() => {}
            Ok(Some(_)) => {
                end_of(*at);
                *at = MPI_REQUEST_NULL;
            }
            _ => *at = MPI_REQUEST_NULL,
        }
    }
}

/// Completes receives whose requests were freed, as far as their messages have come, and what the program has completed.
pub(crate) fn advance_freed() {
    let done = FREED.with(|freed| {
        let freed = &mut *freed.borrow_mut();
        if freed.is_empty() {
            return Vec::new();
        }
        let mut pending: Vec<_> = freed.iter_mut().filter_map(Request::pending).collect();
        // If this fails, the messages are lost with their ranks.
        let _ = test_some(&mut pending);
        drop(pending);
        freed.extract_if(.., |request| request.pending().is_none()).collect()
    });
    // Functions of the program, which this calls, may come here again.
    done.into_iter().for_each(Request::end);
}

/// Gives up receives whose requests were freed, and frees the memory that is kept for others.
pub(crate) fn drop_freed() {
    advance_freed();
    drop(FREED.with(|freed| freed.take()));
    drop(SPARE.with(|spare| spare.take()));
}
