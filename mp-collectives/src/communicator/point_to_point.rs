//! Communicators: their ranks, their context, and the tagged messages between them.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use mp_core::{
    ElementType, Error, ErrorKind, Failed, Plain, Rank, Result, SharedBuffer,
    requests::{CutBuffer, Landing},
    waits::News,
};

use crate::communicator::{
    agreement::check::Check,
    agreement::together::Together,
    error::revoked,
    group::Group,
    members::Members,
    messages::background,
    messages::eager::Unexpected,
    messages::elements::{Grown, Taken},
    messages::engine::{Handle, OWN, Waited},
    messages::owner::{Owner, Shared, Working},
    messages::send_queue::{Cargo, Course, Kept, Step},
    messages::store::Pattern,
    messages::wire::Envelope,
    requests::home::Home,
    shelf::Shelf,
    status::{Source, Status, Tag},
};
use crate::errors::bad_call;

pub(crate) use crate::communicator::stream::{OWN_TAGS, Stream};

/// A group of ranks that exchange tagged messages (`MPI_Comm`). The [module](crate::communicator) lists the calls.
///
/// A communicator belongs to the thread that made it. Communicators made from one another share their channels, but a
/// message that is sent in one is never received in another. The settings of a communicator's collective operations,
/// and whether they are [checked](crate::communicator::Check), also apply to the communicators that are made from it
/// afterwards.
pub struct Communicator {
    pub(crate) engine: Shared,
    pub(crate) members: Arc<Members>,
    /// Ranks below this one have the same number in the world, so no table has to be read for them.
    alike: usize,
    spans_nodes: bool,
    /// The same two, for its requests.
    pub(crate) home: Rc<Home>,
    /// Agreed on by all members, and used by no other communicator of any of them.
    pub(crate) context: u32,
    /// See [`Joint::keep`](crate::communicator::Joint::keep).
    pub(crate) kept: Shelf,
    /// See [`Joint::hand_down`](crate::communicator::Joint::hand_down).
    pub(crate) handed_down: RefCell<Vec<Rc<dyn Any>>>,
    check: Cell<Check>,
    /// Whether calls are compared in this communicator. Every collective operation reads this.
    checks: Cell<bool>,
    /// The number of calls that this rank has made and that all ranks make together: see
    /// [`crate::communicator::agreement::agree`].
    pub(crate) agreements: Cell<u32>,
    news: News,
    /// The number of the news after which this was not revoked.
    heard: Cell<u32>,
}

impl Communicator {
    /// Returns a communicator of all ranks of the world (`MPI_COMM_WORLD`).
    ///
    /// Each call makes another communicator, with channels of its own. All ranks that communicate in it must make it in
    /// the same position: as their first, their second, and so on. Usually one is enough;
    /// [`duplicate`](Self::duplicate) creates further contexts at a lower cost.
    pub fn world(rank: &Rank) -> Self {
        let engine = Owner::new(rank, rank.ordinal());
        let all = (0..rank.size() as u32).collect();
        let members = Members::new(all, rank.id() as u32, "world");
        Self::new(engine, members, 0)
    }

    /// Returns a communicator of the ranks that were started together with this one: of all ranks with which the world
    /// began, like [`world`](Self::world), or of those that a rank has had [started](Rank::start), with a number that it
    /// has got from [`Joint::number`](crate::communicator::Joint::number) for them. All ranks that communicate in it or
    /// with its ranks must make it in the same position.
    ///
    /// # Errors
    /// [`Segment`](mp_core::ErrorKind::Segment) when the world's memory was overwritten.
    #[doc(hidden)]
    pub fn family(rank: &Rank) -> Result<Self> {
        let family = rank.family()?;
        let engine = Owner::new(rank, rank.ordinal());
        let all = (family.first..family.first + family.size()).map(|rank| rank as u32).collect();
        let members = Members::new(all, rank.id() as u32, "world");
        Ok(Self::new(engine, members, family.number))
    }

    /// Returns a communicator of this rank alone (`MPI_COMM_SELF`).
    pub fn comm_self(rank: &Rank) -> Self {
        let me = rank.id() as u32;
        let engine = Owner::new(rank, OWN);
        let members = Members::new(vec![me], me, "self");
        Self::new(engine, members, 0)
    }

    /// Returns a communicator of other ranks, or of the same ranks in another context, over the same channels. It
    /// inherits the settings.
    pub(crate) fn of(&self, members: Members, context: u32) -> Self {
        let of = Self::new(Rc::clone(&self.engine), members, context);
        of.set_check(self.check.get());
        of.handed_down.replace(self.handed_down.borrow().clone());
        of
    }

    fn new(engine: Shared, members: Members, context: u32) -> Self {
        let members = Arc::new(members);
        engine.work().add(context, &members);
        let news = engine.rank.news();
        let (kept, agreements) = (Shelf::default(), Cell::new(0));
        let (alike, here) = (members.alike(), engine.rank.ranks_here());
        let is_elsewhere = |&rank: &u32| !here.contains(&(rank as usize));
        let of = Self {
            spans_nodes: members.all().iter().any(is_elsewhere),
            heard: Cell::new(news.number().wrapping_sub(1)),
            news,
            home: Rc::new(Home {
                engine: Rc::clone(&engine),
                members: Arc::clone(&members),
                context,
            }),
            engine,
            members,
            alike,
            context,
            kept,
            handed_down: RefCell::default(),
            check: Cell::default(),
            checks: Cell::default(),
            agreements,
        };
        of.set_check(Check::default());
        of
    }

    pub(crate) fn set_check(&self, check: Check) {
        self.check.set(check);
        // Calls are compared in memory that all ranks have.
        self.checks.set(!self.spans_nodes && check.is_on(self.size()));
    }

    pub(crate) fn check(&self) -> Check {
        self.check.get()
    }

    #[inline(always)]
    pub(crate) fn checks(&self) -> bool {
        self.checks.get()
    }

    /// Returns this rank's number in the communicator, from 0 (`MPI_Comm_rank`).
    pub fn rank(&self) -> usize {
        self.members.me
    }

    /// Returns the number of ranks (`MPI_Comm_size`).
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns whether the ranks are on several nodes.
    #[inline(always)]
    pub(crate) fn spans_nodes(&self) -> bool {
        self.spans_nodes
    }

    /// Returns the communicator's name (`MPI_Comm_get_name`): the one that was [set](Self::set_name), or `world`,
    /// `self`, and for a communicator that was made from another one, that one's name and the call: `world/split 1`.
    pub fn name(&self) -> String {
        self.members.title.name().to_string()
    }

    /// Names the communicator (`MPI_Comm_set_name`), for reports of what this rank waits for. Each rank names it for
    /// itself.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     assert_eq!(world.name(), "world");
    ///     assert_eq!(world.duplicate()?.name(), "world/duplicate 1");
    ///     world.set_name("all");
    ///     let row = world.split(Some(0), 0)?.expect("a color was named");
    ///     assert_eq!(row.name(), "all/split 2");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    pub fn set_name(&self, name: &str) {
        self.members.title.set_name(name);
    }

    /// Returns the name of a communicator that the last call of all ranks makes from this one.
    pub(crate) fn name_of(&self, made_by: Together) -> String {
        format!("{}/{} {}", self.name(), made_by.name(), self.agreements.get())
    }

    /// Returns the number in the world of a rank of the communicator.
    ///
    /// # Errors
    /// [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank).
    pub fn world_rank(&self, rank: usize) -> Result<usize> {
        Ok(self.to_world(rank)? as usize)
    }

    /// Returns the ranks as a group (`MPI_Comm_group`).
    pub fn group(&self) -> Group {
        Group::new(self.members.all().to_vec(), self.engine.me)
    }

    #[inline(always)]
    pub(crate) fn context_of(&self, stream: Stream) -> u32 {
        self.context << 1 | stream as u32
    }

    #[inline(always)]
    pub(crate) fn to_world(&self, rank: usize) -> Result<u32> {
        if rank < self.alike {
            return Ok(rank as u32);
        }
        match self.members.world(rank) {
            Some(world) => Ok(world),
            None => Err(ErrorKind::NoSuchRank { rank, size: self.size() }.into()),
        }
    }

    /// Returns the world's number of a rank to which something is to be sent.
    #[inline(always)]
    pub(crate) fn destination(&self, rank: usize) -> Result<u32> {
        self.check_revoked()?;
        self.to_world(rank)
    }

    /// Returns an error if the communicator is revoked.
    #[inline(always)]
    pub(crate) fn check_revoked(&self) -> Result<()> {
        match self.news.number() == self.heard.get() {
            true => Ok(()),
            false => self.look_whether_revoked(),
        }
    }

    #[cold]
    fn look_whether_revoked(&self) -> Result<()> {
        let number = self.news.number();
        self.engine.work().hear();
        if self.members.is_revoked() {
            return Err(revoked());
        }
        self.heard.set(number);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn pattern(&self, stream: Stream, source: Source, tag: Tag) -> Result<Pattern> {
        self.check_revoked()?;
        let source = match source {
            Source::Any => None,
            Source::Rank(rank) => Some(self.to_world(rank)?),
        };
        Ok(Pattern::new(self.context_of(stream), source, tag.wanted()))
    }

    // --- sending ---

    /// Sends elements to rank `to` (`MPI_Send`).
    ///
    /// If there is room for the message, it is copied and this call returns. Between any two ranks there is room for
    /// 128 lines of 56 bytes (a message of up to 40 bytes is one line) and for 64 chunks of up to 32 KiB. Where the
    /// chunks from all other ranks together would take more than four times a core's second-level cache, there is room
    /// for fewer, but for 8 at least. A longer message, or one more, waits until the receiver has taken earlier
    /// messages. Receives that were [posted](Self::nonblocking_receive) here make progress meanwhile. Between
    /// threads, a receiver that waits for a long message copies it directly from `elements`. A message waits for its
    /// receive if it is longer than an eighth of the receiver's [limit](Self::set_unexpected_limit) on unexpected
    /// messages, or if it is longer than 40 bytes and the receiver exceeds the limit.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     if world.rank() == 0 {
    ///         world.send(&[1.5, 2.5], 1, 7)?;
    ///     } else {
    ///         let mut pair = [0.0; 2];
    ///         let status = world.receive_into(&mut pair, 0, 7)?;
    ///         assert_eq!((pair, status.count), ([1.5, 2.5], 2));
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost) and [`PeerEnded`](mp_core::ErrorKind::PeerEnded) when the rank no
    /// longer receives anything, [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank),
    /// [`Segment`](mp_core::ErrorKind::Segment) and [`PeerBroken`](mp_core::ErrorKind::PeerBroken) for lack of memory.
    #[inline]
    pub fn send<T: Plain>(&self, elements: &[T], to: usize, tag: u32) -> Result<()> {
        self.send_in(Stream::Program, elements, to, tag)
    }

    /// Sends. The code for a message of one line is inlined into the caller, so that the compiler can keep its elements
    /// in registers.
    #[inline(always)]
    pub(crate) fn send_in<T: Plain>(
        &self,
        stream: Stream,
        elements: &[T],
        to: usize,
        tag: u32,
    ) -> Result<()> {
        if let Ok(to) = self.destination(to)
            && self.engine.here().send_at_once(self.context_of(stream), to, tag, elements)
        {
            return Ok(());
        }
        self.send_otherwise(stream, elements, to, tag)
    }

    #[inline(never)]
    fn send_otherwise<T: Plain>(
        &self,
        stream: Stream,
        elements: &[T],
        to: usize,
        tag: u32,
    ) -> Result<()> {
        let to = self.destination(to)?;
        let context = self.context_of(stream);
        if self.engine.here().send_lines(context, to, tag, elements) {
            return Ok(());
        }
        let mut engine = self.engine.work();
        if let Some(sent) = engine.send_directly(context, to, tag, elements) {
            return sent.map_err(|error| self.localized(error));
        }
        self.send_slowly(engine, context, elements, to, tag, false)
    }

    #[cold]
    fn send_slowly<T: Plain>(
        &self,
        mut engine: Working<'_>,
        context: u32,
        elements: &[T],
        to: u32,
        tag: u32,
        synchronous: bool,
    ) -> Result<()> {
        let mut envelope = engine.envelope(context, tag, elements)?;
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let mut place = None;
        let sent = (|| {
            engine.announce(to, envelope.fingerprint, ElementType::of::<T>)?;
            if synchronous {
                let (ticket, sync) = engine.ticket(to, (context, tag), true)?;
                envelope.sync = sync;
                place = Some(ticket);
            }
            let mut cargo = Cargo::Bytes(bytes);
            if to == engine.me {
                engine.send_to_self(envelope, cargo);
                return Ok(());
            }
            engine.send_whole(to, &mut Course::new(&envelope, bytes), &mut cargo)
        })();
        let matched = match (sent, place) {
            (Ok(()), Some(place)) => {
                let matched = engine.await_match(place);
                // Its number is in use for as long as it may be answered.
                engine.matching.abandon_send(place);
                matched
            }
            (Err(error), Some(place)) => {
                engine.matching.take_send(place);
                Err(error)
            }
            (sent, None) => sent,
        };
        drop(engine);
        matched.map_err(|error| self.localized(error))
    }

    /// Sends a message, and returns when the receiver has a receive for it (`MPI_Ssend`).
    ///
    /// # Errors
    /// As [`send`](Self::send); and [`WaitsForItself`](mp_core::ErrorKind::WaitsForItself) if a rank sends a message to
    /// itself and has [posted](Self::nonblocking_receive) no receive for it. The message can still be received.
    pub fn synchronous_send<T: Plain>(&self, elements: &[T], to: usize, tag: u32) -> Result<()> {
        let to = self.destination(to)?;
        let context = self.context_of(Stream::Program);
        self.send_slowly(self.engine.work(), context, elements, to, tag, true)
    }

    /// Sends without waiting (`MPI_Bsend`, `MPI_Ibsend`). If there is no room for the message, it is copied. The copy
    /// is sent while the rank waits in any later call of the library, or while it computes if there is [a thread for
    /// that](crate::communicator::Joint::lend_messages_to). It is sent at the latest when the rank's code has returned
    /// without an error. [`flush`](Self::flush) waits for it. If the receiver's [limit](Self::set_unexpected_limit)
    /// requires it, the copy stays here until it is received.
    ///
    /// # Errors
    /// As [`send`](Self::send). If a copy could not be sent later for lack of memory, the next call that would wait
    /// returns that error ([`NotSent`](mp_core::ErrorKind::NotSent)). It is not an error if the receiver of a copy had
    /// ended.
    pub fn buffered_send<T: Plain>(&self, elements: &[T], to: usize, tag: u32) -> Result<()> {
        let to = self.destination(to)?;
        let context = self.context_of(Stream::Program);
        let mut engine = self.engine.here();
        if engine.send_at_once(context, to, tag, elements) {
            return Ok(());
        }
        let mut engine = self.engine.work_with(engine);
        let envelope = engine.envelope(context, tag, elements)?;
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let sent = (|| {
            engine.announce(to, envelope.fingerprint, ElementType::of::<T>)?;
            let mut cargo = Cargo::Bytes(bytes);
            if to == engine.me {
                engine.send_to_self(envelope, cargo);
                return Ok(());
            }
            let mut course = Course::new(&envelope, bytes);
            if engine.advance(to, &mut course, &mut cargo)? != Step::Done {
                engine.queue(to, course, Kept::Owned(Box::new(bytes.to_vec())), None);
            }
            Ok(())
        })();
        drop(engine);
        sent.map_err(|error| self.localized(error))
    }

    /// Waits until all messages of this rank, in any communicator made from the same [`world`](Self::world), are on
    /// their way (`MPI_Comm_flush_buffer`). This includes messages that no other call waits for. Messages that can no
    /// longer be sent, because their receiver has ended, are given up. Messages that the receiver's
    /// [limit](Self::set_unexpected_limit) keeps here are waited for until they are received.
    ///
    /// # Errors
    /// [`NotSent`](mp_core::ErrorKind::NotSent); [`Segment`](mp_core::ErrorKind::Segment) when the world's memory is
    /// broken.
    pub fn flush(&self) -> Result<()> {
        self.engine.work().finish().map_err(|error| self.localized(error))
    }

    /// Moves a buffer to rank `to`. Nothing is copied, however long the buffer is. If it is received by
    /// [`receive_buffer`](Self::receive_buffer), it is not copied there either; any other receive takes it, too. (Other
    /// sends copy a message once or twice: see [Copies](crate::communicator#guarantees).)
    ///
    /// # Errors
    /// As [`send`](Self::send); the error returns the buffer.
    pub fn send_buffer<T: Plain>(
        &self,
        buffer: SharedBuffer<T>,
        to: usize,
        tag: u32,
    ) -> Result<(), Failed<SharedBuffer<T>>> {
        let count = buffer.len();
        let fail = |error, buffer| Err(Failed { error: self.localized(error), buffer });
        let to = match self.destination(to) {
            Ok(to) => to,
            Err(error) => return fail(error, buffer),
        };
        let mut engine = self.engine.work();
        let context = self.context_of(Stream::Program);
        let envelope = match engine.envelope(context, tag, &buffer) {
            Ok(envelope) => envelope,
            Err(error) => return fail(error, buffer),
        };
        let bytes = match buffer.recast::<u8>(envelope.bytes) {
            Ok(bytes) => bytes,
            Err(buffer) => {
                return fail(bad_call("the size of the buffer is not known"), buffer);
            }
        };
        let mut moving = Some(bytes);
        let sent = (|| {
            engine.announce(to, envelope.fingerprint, ElementType::of::<T>)?;
            let mut cargo = Cargo::Moved(&mut moving);
            if to == engine.me {
                engine.send_to_self(envelope, cargo);
                return Ok(());
            }
            engine.send_whole(to, &mut Course::moved(&envelope), &mut cargo)
        })();
        match (sent, moving.map(|bytes| bytes.recast(count))) {
            (Err(error), Some(Ok(buffer))) => fail(error, buffer),
            _ => Ok(()),
        }
    }

    /// Returns statistics of the unexpected messages that this rank keeps, in all communicators made from the same
    /// [`world`](Self::world) together.
    pub fn unexpected(&self) -> Unexpected {
        self.engine.work().matching.unexpected()
    }

    /// Limits the bytes of unexpected messages that this rank keeps in all communicators made from the same
    /// [`world`](Self::world) together. These are the messages that a receive has looked past. `usize::MAX` means no
    /// limit. Without this call, the limit is the number of bytes in the environment variable
    /// [`UNEXPECTED_VARIABLE`](crate::communicator::UNEXPECTED_VARIABLE), or else 64 MiB.
    ///
    /// A message of more than an eighth of the limit comes as an envelope alone. While the rank keeps more bytes than
    /// the limit, so does any message of more than 40 bytes. The payload stays with its sender until a receive takes
    /// the message: [`send`](Self::send) waits until then, a nonblocking send keeps its buffer, and a buffered send
    /// keeps its copy. Senders return to normal operation when the bytes have fallen to half the limit. With a limit of
    /// 0, every message of more than 40 bytes comes as an envelope.
    ///
    /// A rank therefore never keeps more bytes than the limit plus, for each other rank, an eighth of the limit and the
    /// contents of the channels: the message that was just begun, and what may be [pending](Self::send) from that rank,
    /// which is 264 KiB in a world of many ranks and 2056 KiB at most. The count excludes messages of up to 40 bytes
    /// and envelopes, which take some 200 bytes each; [buffers that move](Self::send_buffer), which stay in the memory
    /// of the world; and messages of a rank to itself, which are never held back.
    ///
    /// Each rank limits what it receives itself. Until it has first looked for a message from a sender, that sender
    /// applies its own limit.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     world.set_unexpected_limit(1 << 20);
    ///     if world.rank() == 0 {
    ///         let sent: Vec<_> =
    ///             (0..100).map(|i| world.nonblocking_send(vec![i; 10_000], 1, 0)).collect();
    ///         world.send(&[1u8], 1, 1)?;
    ///         for sent in sent {
    ///             sent.wait()?;
    ///         }
    ///     } else {
    ///         // This looks past a hundred messages of 40 kB.
    ///         world.receive::<u8>(0, 1)?;
    ///         let unexpected = world.unexpected();
    ///         assert_eq!(unexpected.messages, 100);
    ///         assert!(unexpected.most_bytes < (1 << 20) + (1 << 17) + (2056 << 10));
    ///         for i in 0..100 {
    ///             assert_eq!(world.receive_vec::<i32>(0, 0)?.0, vec![i; 10_000]);
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    pub fn set_unexpected_limit(&self, bytes: usize) {
        self.engine.work().set_unexpected_limit(bytes);
    }

    /// Lets the receivers of long messages copy them directly from the memory of their sender, if that is memory of the
    /// world. A send of such a message waits until it is received. This holds for all communicators of the family.
    #[doc(hidden)]
    pub fn set_direct(&self) {
        self.engine.work().set_direct();
    }

    // --- receiving ---

    /// Receives a message into a buffer that is long enough (`MPI_Recv`). Waits until there is one. The part of the
    /// buffer beyond the message stays as it was.
    ///
    /// # Errors
    /// [`Truncated`](mp_core::ErrorKind::Truncated) and [`WrongElements`](mp_core::ErrorKind::WrongElements), which
    /// leave the message where it is, so that another call can receive it. [`PeerLost`](mp_core::ErrorKind::PeerLost)
    /// and [`PeerEnded`](mp_core::ErrorKind::PeerEnded) when everything that the rank had sent was received. For [any
    /// source](crate::communicator::ANY_SOURCE): `PeerLost` as soon as any other member is lost that this rank has not
    /// acknowledged, and [`NobodyLeft`](mp_core::ErrorKind::NobodyLeft) when all other members have ended.
    /// [`WaitsForItself`](mp_core::ErrorKind::WaitsForItself), [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank).
    #[inline]
    pub fn receive_into<T: Plain>(
        &self,
        into: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        self.receive_in(Stream::Program, into, source.into(), tag.into(), false)
    }

    /// Receives one element: see [`receive_into`](Self::receive_into).
    ///
    /// # Errors
    /// As `receive_into`; a message of another length is [`Truncated`](mp_core::ErrorKind::Truncated) or
    /// [`WrongElements`](mp_core::ErrorKind::WrongElements).
    #[inline]
    pub fn receive<T: Plain>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status)> {
        let mut one = T::zeroed();
        let into = std::slice::from_mut(&mut one);
        let status = self.receive_in(Stream::Program, into, source.into(), tag.into(), true)?;
        Ok((one, status))
    }

    /// Receives. The code for a message of one line is inlined into the caller, as in [`send_in`](Self::send_in).
    #[inline(always)]
    pub(crate) fn receive_in<T: Plain>(
        &self,
        stream: Stream,
        into: &mut [T],
        source: Source,
        tag: Tag,
        exact: bool,
    ) -> Result<Status> {
        if let Some(status) = self.receive_line(stream, into, source, tag, exact) {
            return Ok(status);
        }
        self.receive_otherwise(stream, into, source, tag, exact)
    }

    /// Receives a message of one line. Returns `None` if it is not that simple.
    #[inline(always)]
    fn receive_line<T: Plain>(
        &self,
        stream: Stream,
        into: &mut [T],
        source: Source,
        tag: Tag,
        exact: bool,
    ) -> Option<Status> {
        let Source::Rank(rank) = source else { return None };
        let pattern = self.pattern(stream, source, tag).ok()?;
        let (tag, count) = self.engine.here().receive_at_once(pattern, exact, true, into)?;
        Some(Status { source: rank, tag, count, bytes: count * size_of::<T>() })
    }

    #[inline(never)]
    fn receive_otherwise<T: Plain>(
        &self,
        stream: Stream,
        mut into: &mut [T],
        source: Source,
        tag: Tag,
        exact: bool,
    ) -> Result<Status> {
        let pattern = self.pattern(stream, source, tag)?;
        if let Some(received) = self.receive_directly(pattern, source, exact, into) {
            return received;
        }
        let room = Some(into.len());
        self.receive_slowly::<T>(pattern, room, exact, &mut into, None)
    }

    /// Receives the message whose first line has come and that is longer than a line. Returns `None` if it is not that
    /// simple.
    fn receive_directly<T: Plain>(
        &self,
        pattern: Pattern,
        source: Source,
        exact: bool,
        into: &mut [T],
    ) -> Option<Result<Status>> {
        let Source::Rank(source) = source else { return None };
        let received = self.engine.here().receive_directly(pattern, exact, into)?;
        Some(received.map_err(|error| self.localized(error)).map(|(tag, count)| Status {
            source,
            tag,
            count,
            bytes: count * size_of::<T>(),
        }))
    }

    /// Works like [`receive_into`](Self::receive_into), but takes a message that is longer as well: only as many
    /// elements as fit are kept. The status tells how many the message had.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     if world.rank() == 0 {
    ///         return world.send(&[1, 2, 3, 4], 1, 7);
    ///     }
    ///     let mut first = [0; 2];
    ///     let status = world.receive_prefix(&mut first, 0, 7)?;
    ///     assert_eq!((first, status.count), ([1, 2], 4));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `receive_into`, without [`Truncated`](mp_core::ErrorKind::Truncated);
    /// [`OutOfMemory`](mp_core::ErrorKind::OutOfMemory) for a longer message.
    #[inline(always)]
    pub fn receive_prefix<T: Plain>(
        &self,
        into: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        if let Some(status) = self.receive_line(Stream::Program, into, source, tag, false) {
            return Ok(status);
        }
        self.receive_prefix_otherwise(into, source, tag)
    }

    #[inline(never)]
    fn receive_prefix_otherwise<T: Plain>(
        &self,
        into: &mut [T],
        source: Source,
        tag: Tag,
    ) -> Result<Status> {
        let pattern = self.pattern(Stream::Program, source, tag)?;
        if let Some(received) = self.receive_directly(pattern, source, false, into) {
            return received;
        }
        let mut prefix = CutBuffer::new(into);
        let status = self.receive_slowly::<T>(pattern, None, false, &mut prefix, None)?;
        prefix.cut();
        Ok(status)
    }

    /// Works like [`receive_in`](Self::receive_in), but waits at most for the given time.
    pub(crate) fn receive_within<T: Plain>(
        &self,
        stream: Stream,
        mut into: &mut [T],
        source: Source,
        tag: Tag,
        exact: bool,
        limit: Option<Duration>,
    ) -> Result<Status> {
        let pattern = self.pattern(stream, source, tag)?;
        let room = Some(into.len());
        self.receive_slowly::<T>(pattern, room, exact, &mut into, limit)
    }

    /// Works like [`receive_into`](Self::receive_into), but waits at most for `limit`. The limit applies to the arrival
    /// of the message: if the message has begun to arrive, the call waits for the rest.
    ///
    /// # Errors
    /// As `receive_into`, and [`Timeout`](mp_core::ErrorKind::Timeout).
    pub fn receive_timeout<T: Plain>(
        &self,
        into: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        limit: Duration,
    ) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        self.receive_within(Stream::Program, into, source, tag, false, Some(limit))
    }

    /// Receives a message of any length. Waits until there is one.
    ///
    /// # Errors
    /// As [`receive_into`](Self::receive_into).
    pub fn receive_vec<T: Plain>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Vec<T>, Status)> {
        self.receive_vec_in(Stream::Program, source.into(), tag.into())
    }

    pub(crate) fn receive_vec_in<T: Plain>(
        &self,
        stream: Stream,
        source: Source,
        tag: Tag,
    ) -> Result<(Vec<T>, Status)> {
        let pattern = self.pattern(stream, source, tag)?;
        let mut grown = Grown(Vec::new());
        let status = self.receive_slowly::<T>(pattern, None, false, &mut grown, None)?;
        Ok((grown.0, status))
    }

    /// Receives a message of any length as a buffer. This is the buffer that was [sent](Self::send_buffer), or a new
    /// one if the message was sent in another way.
    ///
    /// # Errors
    /// As [`receive_into`](Self::receive_into).
    pub fn receive_buffer<T: Plain>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(SharedBuffer<T>, Status)> {
        let pattern = self.pattern(Stream::Program, source.into(), tag.into())?;
        let mut taken = Taken { rank: &self.engine.rank, buffer: None };
        let status = self.receive_slowly::<T>(pattern, None, false, &mut taken, None)?;
        match taken.buffer {
            Some(buffer) => Ok((buffer, status)),
            None => Err(bad_call("the message came without a buffer")),
        }
    }

    #[cold]
    fn receive_slowly<T: Plain>(
        &self,
        pattern: Pattern,
        room: Option<usize>,
        exact: bool,
        landing: &mut dyn Landing,
        limit: Option<Duration>,
    ) -> Result<Status> {
        let mut engine = self.engine.work();
        let want = engine.want::<T>(room, exact);
        let place =
            engine.post(pattern, want, &self.members).map_err(|error| self.localized(error))?;
        let handle = Handle::Receive(place).number();
        let worked = {
            let mut landings: [(usize, &mut dyn Landing); 1] = [(handle, &mut *landing)];
            match engine.work_on(&[handle], &mut landings, &mut [], limit) {
                // Out of time; but what has begun to come is waited for.
                Ok(false) if engine.is_coming(place) => {
                    engine.work_on(&[handle], &mut landings, &mut [], None)
                }
                worked => worked,
            }
        };
        let landed = engine.matching.land(place, landing);
        if landed.is_none() {
            engine.matching.abandon(place);
        }
        drop(engine);
        match (worked, landed) {
            (_, Some(Ok(envelope))) => Ok(self.status(&envelope)),
            (_, Some(Err(error))) | (Err(error), None) => Err(self.localized(error)),
            (Ok(_), None) => {
                let (place, limit) = (mp_core::Place::Communicator, limit.unwrap_or_default());
                Err(ErrorKind::Timeout { place, limit }.into())
            }
        }
    }

    /// Sends one message and receives another, in whichever order is possible (`MPI_Sendrecv`). Two ranks, or a ring of
    /// ranks, that do this with messages of any size do not deadlock.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive_into`](Self::receive_into). The call returns after it has done what could
    /// still be done.
    pub fn send_receive<T: Plain, U: Plain>(
        &self,
        elements: &[T],
        to: usize,
        send_tag: u32,
        into: &mut [U],
        source: impl Into<Source>,
        receive_tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (source, receive_tag) = (source.into(), receive_tag.into());
        let context = self.context_of(Stream::Program);
        let world = self.destination(to)?;
        let mut engine = self.engine.here();
        let sent = engine.send_at_once(context, world, send_tag, elements)
            || engine.send_lines(context, world, send_tag, elements);
        drop(engine);
        if sent {
            return self.receive_in(Stream::Program, into, source, receive_tag, false);
        }
        let mut exchange = self.exchange();
        exchange.send(elements, to, send_tag).receive(into, source, receive_tag);
        match exchange.run()?.pop() {
            Some(status) => Ok(status),
            None => Err(bad_call("the exchange has no receive")),
        }
    }

    // --- probing ---

    /// Waits until a message can be received, and returns its status (`MPI_Probe`). The next receive of that source and
    /// tag gets it.
    ///
    /// # Errors
    /// As [`receive_into`](Self::receive_into), when such a receive could never get a message.
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let pattern = self.pattern(Stream::Program, source.into(), tag.into())?;
        // The probe keeps the engine from each look to the sleep after it. So no thread brings messages in between.
        let mut engine = self.engine.work();
        engine.open_for(pattern, Some(&self.members))?;
        loop {
            if let Some(envelope) = engine.look_for(pattern) {
                return Ok(self.status(&envelope));
            }
            engine.matching.check_revoked(pattern.context())?;
            if let Some(error) = engine.hopeless(pattern, Some(&self.members)) {
                return Err(self.localized(error));
            }
            if engine.only_from_itself(pattern, Some(&self.members)) {
                return Err(ErrorKind::WaitsForItself.into());
            }
            let slept = engine.sleep(&[], Waited::Probe(pattern));
            slept.map_err(|error| self.localized(error))?;
        }
    }

    /// Works like [`probe`](Self::probe), but does not wait (`MPI_Iprobe`).
    ///
    /// # Errors
    /// As `probe`, except for [`WaitsForItself`](mp_core::ErrorKind::WaitsForItself).
    pub fn try_probe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Status>> {
        let pattern = self.pattern(Stream::Program, source.into(), tag.into())?;
        let mut engine = self.engine.work();
        engine.open_for(pattern, Some(&self.members))?;
        if let Some(envelope) = engine.look_for(pattern) {
            return Ok(Some(self.status(&envelope)));
        }
        match engine.hopeless(pattern, Some(&self.members)) {
            None => Ok(None),
            Some(error) => Err(self.localized(error)),
        }
    }

    // --- what others are made of ---

    pub(crate) fn status(&self, envelope: &Envelope) -> Status {
        status(&self.members, envelope)
    }

    /// See [`Home::localized`].
    pub(crate) fn localized(&self, error: Error) -> Error {
        self.home.localized(error)
    }
}

pub(crate) fn status(members: &Members, envelope: &Envelope) -> Status {
    let Envelope { source, tag, count, bytes, .. } = *envelope;
    Status { source: members.local(source).unwrap_or(source as usize), tag, count, bytes }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // The engine is borrowed here only if a panic came out of it. Then nothing is done.
        let Some(mut engine) = self.engine.try_work() else { return };
        engine.remove(self.context, &self.members);
        if engine.communicators > 0 {
            return;
        }
        // What a rank that panics had to send is given up.
        if !std::thread::panicking() && engine.is_left() {
            drop(engine);
            background::keep(&self.engine);
        }
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank())
            .field("ranks", &self.members.all())
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mp_core::{Place, World};

    use super::*;

    /// Covers calls that looked whether the communicator is revoked before the engine heard that it is, and that begin
    /// something after that.
    #[test]
    fn nothing_begins_in_a_communicator_that_the_engine_knows_to_be_revoked() {
        let rank = World::solo().unwrap();
        let world = Communicator::world(&rank);
        let copy = world.duplicate().unwrap();
        let context = copy.context_of(Stream::Program);
        copy.revoke().unwrap();
        let revoked = |ended: Result<()>| {
            assert!(
                matches!(ended.as_ref().map_err(Error::kind), Err(ErrorKind::Revoked { .. })),
                "{ended:?}"
            )
        };

        for synchronous in [false, true] {
            revoked(copy.send_slowly(copy.engine.work(), context, &[1u8], 0, 0, synchronous));
        }
        for source in [None, Some(0)] {
            let pattern = Pattern::new(context, source, None);
            let mut byte = [0u8];
            let mut into = &mut byte[..];
            revoked(copy.receive_slowly::<u8>(pattern, Some(1), false, &mut into, None).map(drop));
        }
        let mut engine = copy.engine.work();
        assert!(engine.envelope(context, 0, &[1u8]).is_err());
        assert!(engine.matching.receives.len() == 0 && engine.matching.sends.is_empty());
    }

    /// A channel may report that a rank is gone before the engine has heard of the rank's revocation.
    #[test]
    fn the_end_of_a_rank_that_had_revoked_is_reported_as_a_revocation() {
        let revoked_by_then = std::sync::Barrier::new(2);
        let ran = World::threads(2).run(|rank| {
            let world = Communicator::world(rank);
            let copy = world.duplicate()?;
            if rank.id() == 0 {
                copy.revoke()?;
                revoked_by_then.wait();
                return Ok(());
            }
            revoked_by_then.wait();
            let lost =
                || ErrorKind::PeerLost { rank: 0, world_rank: 0, place: Place::Communicator };
            let ended = || ErrorKind::PeerEnded { rank: 0 };
            for end in [&lost as &dyn Fn() -> ErrorKind, &ended] {
                let error = copy.localized(end().into());
                assert!(matches!(error.kind(), ErrorKind::Revoked { .. }), "{error:?}");
                let elsewhere = world.localized(end().into());
                assert!(!matches!(elsewhere.kind(), ErrorKind::Revoked { .. }), "{elsewhere:?}");
            }
            Ok(())
        });
        ran.unwrap();
    }
}
