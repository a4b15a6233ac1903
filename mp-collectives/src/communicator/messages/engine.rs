//! The engine that moves messages: one for each rank and set of communicators. It works only while a call of the
//! communicators lasts.
//!
//! A rank that has nothing to do waits in one `Select` for all incoming channels that can go on and all outgoing ones
//! that are full. While a rank waits to send, it goes on receiving what was posted, so two ranks that send each other
//! messages of any length do not wait for each other for ever. A message that has begun is finished before anything
//! else goes to the same rank, acknowledgements included, because the receiver takes the next lines for the rest of it.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use mp_core::{
    ElementType, Error, ErrorKind, Plain, Rank, Result, Select, Wait,
    progress::Apart,
    requests::{Beside, Landing, all_of},
    waits::{News, tell_messages},
};

use crate::communicator::{
    agreement::board::{Board, Whose},
    error::{not_sent, reason_in_this_rank, revoked},
    members::Members,
    messages::call::Call,
    messages::cells::Cells,
    messages::channels::{LINE_CHANNEL, names},
    messages::direct,
    messages::elements::Fingerprints,
    messages::listening::Listening,
    messages::matching::{Due, Matching, Sending},
    messages::posted::{Posted, Want, Wanted},
    messages::receive_stream::{ReceiveStream, hopeless, only_from_itself},
    messages::send_queue::{Cargo, Course, End, Flushed, Item, Kept, SendQueue, Step},
    messages::store::{Arrived, Content, Pattern},
    messages::wire::{
        self, Answer, Envelope, INLINE_BYTES, Inline, Kind, LINES_MOST, Line, copy_inline,
    },
};
use crate::errors::bad_call;
use crate::lending::Lending;

/// A pending request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    Receive(usize),
    Send(usize),
}

impl Handle {
    /// Returns it as one number, for waits for requests of several kinds.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Receive(place) => place << 1,
            Self::Send(place) => place << 1 | 1,
        }
    }

    pub(crate) fn from_number(number: usize) -> Self {
        match number & 1 {
            0 => Self::Receive(number >> 1),
            _ => Self::Send(number >> 1),
        }
    }

    /// Returns its place at the matching.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Receive(place) | Self::Send(place) => place,
        }
    }
}

/// A send whose elements the caller keeps while the call lasts.
pub(crate) struct Local<'a> {
    pub(crate) to: u32,
    course: Course,
    bytes: &'a [u8],
    pub(crate) outcome: Option<Result<()>>,
    /// Its place at the matching, once it was sent as a rendezvous.
    held: Option<usize>,
    /// Whether the receiver has asked for the payload.
    released: bool,
}

impl<'a> Local<'a> {
    pub(crate) fn new(
        to: u32,
        envelope: &Envelope,
        bytes: &'a [u8],
        outcome: Option<Result<()>>,
    ) -> Self {
        let course = Course::new(envelope, bytes);
        Self { to, course, bytes, outcome, held: None, released: false }
    }

    /// Returns whether it waits for a slot, or for earlier messages, and not for the receiver's answer.
    fn waits_to_go(&self) -> bool {
        self.outcome.is_none() && (self.held.is_none() || self.released)
    }

    /// Returns the receiver and the course, if it is not sent yet.
    pub(crate) fn unfinished(&self) -> Option<(u32, &Course)> {
        self.outcome.is_none().then_some((self.to, &self.course))
    }

    /// Returns why it failed, if the reason lies in this rank.
    fn unsent(&self) -> Option<Error> {
        let reason = reason_in_this_rank(self.outcome.as_ref()?.as_ref().err()?)?;
        Some(not_sent(self.to as usize, reason))
    }
}

/// What a call of the message engine waits for.
#[derive(Clone, Copy)]
pub(crate) enum Waited<'a> {
    /// For the requests with these [numbers](Handle::number), and for sends that the call itself makes.
    Requests(&'a [usize], &'a [Local<'a>]),
    /// For room for a message to this rank of the world.
    Room(u32, &'a Course),
    /// For a message, to look at it.
    Probe(Pattern),
    /// For everything that is to be sent.
    Flush,
}

/// See the [module](self).
pub(crate) struct Engine {
    pub(crate) rank: Rank,
    pub(crate) me: u32,
    serial: u64,
    /// By rank of the world; opened when first needed.
    send_queue: Vec<Option<Box<SendQueue>>>,
    pub(super) receive_stream: Vec<Option<Box<ReceiveStream>>>,
    /// Ranks from which a way is open.
    open: Vec<u32>,
    /// Opened by the first receive from any source.
    listening: Option<Listening>,
    /// The reason why a way could not be opened from a rank that has opened its end.
    unheard: Option<Error>,
    /// Ranks for which messages wait.
    busy: Vec<u32>,
    pub(crate) matching: Matching,
    pub(crate) fingerprints: Fingerprints,
    /// The first context that was never used at this rank.
    pub(crate) next_context: u32,
    /// The place where the next look at the open ways begins.
    turn: usize,
    /// Whether the last round of progress moved anything. If so, another round may move more, and there is no sleep
    /// before it.
    moved: bool,
    news: News,
    /// The news that this engine has heard of.
    heard: u32,
    /// The world's ranks that were lost, in ascending order.
    lost: Vec<u32>,
    /// The existing communicators, by context.
    live: Vec<(u32, Weak<Members>)>,
    /// The contexts of dropped communicators whose boards do not show that they were dropped.
    dropped: Vec<u32>,
    /// The number of communicators that were not dropped.
    pub(crate) communicators: usize,
    /// Whether every wait of the rank must bring this engine on, because it has pending operations.
    pub(crate) joined: bool,
    /// Whether every wait already does: see [`Owner`](crate::communicator::messages::owner::Owner).
    pub(crate) registered: bool,
    /// Whether the others must be told that this rank matches nothing any more.
    finalizing: bool,
    /// Whether receivers may copy long messages [from their place](super::direct).
    direct: bool,
}

/// Used instead of a number for a rank's communicators with itself alone, which open no channel.
pub(crate) const OWN: u64 = u64::MAX;

impl Engine {
    pub(crate) fn new(rank: &Rank, serial: u64) -> Self {
        Self::of(rank, serial, rank.room())
    }

    /// Returns an engine that knows no rank, to replace one that is lent.
    pub(crate) fn stand_in(rank: &Rank) -> Self {
        Self::of(rank, OWN, 0)
    }

    fn of(rank: &Rank, serial: u64, size: usize) -> Self {
        Self {
            rank: rank.clone(),
            me: rank.id() as u32,
            serial,
            send_queue: (0..size).map(|_| None).collect(),
            receive_stream: (0..size).map(|_| None).collect(),
            open: Vec::new(),
            listening: None,
            unheard: None,
            busy: Vec::new(),
            matching: Matching::new(rank.id() as u32),
            fingerprints: Fingerprints::default(),
            next_context: 1,
            turn: 0,
            moved: false,
            news: rank.news(),
            // This number differs from the current one, so that the first look finds news.
            heard: rank.news().number().wrapping_sub(1),
            lost: Vec::new(),
            live: Vec::new(),
            dropped: Vec::new(),
            communicators: 0,
            joined: false,
            registered: false,
            finalizing: false,
            direct: false,
        }
    }

    fn out(&mut self, to: u32) -> Result<&mut SendQueue> {
        if self.send_queue[to as usize].is_none() {
            // A rank that has ended has closed its end of this way, too. An end that is opened only now would not
            // notice that.
            if let Some(end) = self.closed(to) {
                return Err(end.error(to));
            }
            let longest = self.matching.backlog.longest();
            let mut way = SendQueue::open(
                &self.rank,
                to as usize,
                self.serial,
                longest,
                self.matching.communicators.clone(),
                self.cells(to),
            )?;
            let is_near = self.direct && self.rank.ranks_here().contains(&(to as usize));
            way.direct = is_near.then(Lending::default);
            self.send_queue[to as usize] = Some(Box::new(way));
        }
        self.send_queue[to as usize].as_deref_mut().ok_or_else(|| ErrorKind::WaitsForItself.into())
    }

    /// Returns the cells of this rank and another one.
    fn cells(&self, other: u32) -> Cells {
        let to = self.send_queue[other as usize].as_ref().map(|way| way.cells());
        let from = self.receive_stream[other as usize].as_ref().map(|way| &way.cells);
        to.or(from).cloned().unwrap_or_default()
    }

    fn open_from(&mut self, from: u32) -> Result<()> {
        if from != self.me && self.receive_stream[from as usize].is_none() {
            let way = ReceiveStream::open(
                &self.rank,
                from,
                self.serial,
                &self.matching,
                self.cells(from),
            )?;
            self.receive_stream[from as usize] = Some(Box::new(way));
            self.open.push(from);
        }
        Ok(())
    }

    /// Opens the ways on which a message can come that the pattern takes; from any source, when they are opened at the
    /// other end.
    #[inline(always)]
    pub(crate) fn open_for(&mut self, pattern: Pattern, among: Option<&Members>) -> Result<()> {
        match pattern.source() {
            Some(source) if self.receive_stream[source as usize].is_some() => Ok(()),
            Some(source) => self.open_from(source),
            None => self.listen_for(pattern, among),
        }
    }

    #[inline(never)]
    fn listen_for(&mut self, pattern: Pattern, among: Option<&Members>) -> Result<()> {
        let Some(members) = among.filter(|_| !self.only_from_itself(pattern, among)) else {
            return Ok(());
        };
        let listening = match &mut self.listening {
            Some(listening) => listening,
            none => none.insert(Listening::open(&self.rank, self.serial)?),
        };
        if listening.begin(members.all(), self.me) {
            self.open_from_callers();
        }
        self.unheard.take().map_or(Ok(()), Err)
    }

    /// Opens the ways from the ranks that have opened their ends. Returns whether there are any.
    fn open_from_callers(&mut self) -> bool {
        let mut any = false;
        while let Some(rank) = self.listening.as_mut().and_then(Listening::next) {
            if let Err(error) = self.open_from(rank) {
                self.unheard = Some(error);
            }
            any = true;
        }
        any
    }

    /// Returns whether nothing is pending but this number of receives, which the caller waits for.
    #[inline(always)]
    pub(super) fn is_alone(&self, receives: usize) -> bool {
        self.matching.receives.len() == receives
            && self.busy.is_empty()
            && self.matching.unacknowledged.is_empty()
            && self.matching.untold.is_empty()
            && self.matching.direct.is_empty()
    }

    // --- sending ---

    /// Sends a message that is one line, if nothing prevents that.
    #[inline(always)]
    pub(crate) fn send_at_once<T: Plain>(
        &mut self,
        context: u32,
        to: u32,
        tag: u32,
        elements: &[T],
    ) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        if bytes.len() > INLINE_BYTES || elements.len() > 255 {
            return false;
        }
        let Some(Some(way)) = self.send_queue.get_mut(to as usize) else { return false };
        let fingerprint = self.fingerprints.of::<T>();
        way.send_line(fingerprint, |line| {
            line.put_inline(wire::address(context, tag), fingerprint, elements.len(), bytes);
        })
    }

    /// Sends an eager message of several lines, if nothing prevents that and there is room for all of them.
    #[inline(always)]
    pub(crate) fn send_lines<T: Plain>(
        &mut self,
        context: u32,
        to: u32,
        tag: u32,
        elements: &[T],
    ) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        if !(INLINE_BYTES + 1..=LINES_MOST).contains(&bytes.len()) {
            return false;
        }
        let Ok(envelope) = self.envelope(context, tag, elements) else { return false };
        let Some(Some(way)) = self.send_queue.get_mut(to as usize) else { return false };
        way.is_eager(bytes.len()) && way.send_lines(&envelope, bytes)
    }

    /// Sends any message whose type is known at the receiver, if there is nothing to do but wait for room. Returns
    /// `None` if it is not that simple.
    #[inline(never)]
    pub(crate) fn send_directly<T: Plain>(
        &mut self,
        context: u32,
        to: u32,
        tag: u32,
        elements: &[T],
    ) -> Option<Result<()>> {
        if !self.is_alone(0) {
            return None;
        }
        let envelope = match self.envelope(context, tag, elements) {
            Ok(envelope) => envelope,
            Err(error) => return Some(Err(error)),
        };
        let heard = self.heard;
        let way = self.send_queue.get_mut(to as usize)?.as_deref_mut()?;
        let bytes = bytemuck::cast_slice(elements);
        let goes = way.is_eager(envelope.bytes) && !way.goes_directly(bytes);
        if !way.is_ready_for(envelope.fingerprint) || !goes {
            return None;
        }
        let mut course = Course::new(&envelope, bytes);
        way.heed(heard);
        Some(match way.send(&envelope, &mut course, bytes) {
            Ok(Step::Done) => Ok(()),
            Ok(_) => self.send_whole(to, &mut course, &mut Cargo::Bytes(bytes)),
            Err(end) => Err(self.stopped(to, &end)),
        })
    }

    /// Returns the envelope of a message that is to be sent.
    #[inline(always)]
    pub(crate) fn envelope<T: Plain>(
        &mut self,
        context: u32,
        tag: u32,
        elements: &[T],
    ) -> Result<Envelope> {
        self.matching.check_revoked(context)?;
        let fingerprint = self.fingerprints.of::<T>();
        let (count, bytes) = (elements.len(), size_of_val(elements));
        Ok(Envelope { context, source: self.me, tag, fingerprint, count, bytes, sync: 0 })
    }

    /// Makes sure that the type is known at the receiver.
    pub(crate) fn announce(
        &mut self,
        to: u32,
        fingerprint: u32,
        element: fn() -> ElementType,
    ) -> Result<()> {
        if to == self.me {
            self.matching.learn(fingerprint, element());
            return Ok(());
        }
        let way = self.out(to)?;
        if !way.is_ready_for(fingerprint) {
            way.announce(fingerprint, element);
            self.flush_to(to);
        }
        Ok(())
    }

    /// Sends a message to this same rank.
    pub(crate) fn send_to_self(&mut self, envelope: Envelope, cargo: Cargo<'_>) {
        let content = match cargo {
            Cargo::Bytes(bytes) if bytes.len() <= INLINE_BYTES => {
                let mut words = Inline::default();
                bytemuck::bytes_of_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
                Content::Inline(words)
            }
            Cargo::Bytes(bytes) => Content::Bytes { landed: None, rest: bytes.to_vec() },
            Cargo::Moved(buffer) => match buffer.take() {
                Some(buffer) => Content::Moved(buffer),
                None => return,
            },
        };
        self.matching.arrived(Arrived { envelope, content }, 0);
        self.send_acknowledgements();
    }

    /// Sends a message of the caller's as far as there is room.
    pub(crate) fn advance(
        &mut self,
        to: u32,
        course: &mut Course,
        cargo: &mut Cargo<'_>,
    ) -> Result<Step> {
        if self.send_queue[to as usize].as_ref().is_some_and(|way| !way.is_idle()) {
            self.flush_to(to);
        }
        let way = self.out(to)?;
        let step = match way.advance(course, cargo, false) {
            Ok(step) => step,
            Err(end) => return Err(self.stopped(to, &end)),
        };
        if step == Step::Done && !way.is_idle() {
            // Acknowledgements became due meanwhile.
            self.flush_to(to);
        }
        Ok(step)
    }

    /// Sends a message of the caller's. Waits while there is no room.
    pub(crate) fn send_whole(
        &mut self,
        to: u32,
        course: &mut Course,
        cargo: &mut Cargo<'_>,
    ) -> Result<()> {
        loop {
            let (alone, heard) = (self.is_alone(0), self.heard);
            let way = self.out(to)?;
            way.heed(heard);
            let step = match way.advance(course, cargo, alone) {
                Ok(step) => step,
                Err(end) => return Err(self.stopped(to, &end)),
            };
            match (step, &cargo) {
                (Step::Done, _) => {
                    if !way.is_idle() {
                        // Acknowledgements became due meanwhile.
                        self.flush_to(to);
                    }
                    return Ok(());
                }
                (Step::TooLong, Cargo::Bytes(bytes)) => {
                    return self.send_when_matched(to, course, bytes);
                }
                _ => {}
            }
            self.progress(&mut Call::of_nothing());
            if let Err(error) = self.sleep(&[to], Waited::Room(to, course)) {
                self.break_off_unfinished(to);
                return Err(error);
            }
            if self.matching.is_revoked(course.context()) {
                match &*cargo {
                    Cargo::Bytes(bytes) => return Err(self.let_go(to, course, bytes)),
                    Cargo::Moved(_) if !course.has_begun() => return Err(revoked()),
                    // A buffer that moves can't be copied, so it goes on. The receiver takes it as soon as it looks.
                    Cargo::Moved(_) => {}
                }
            }
        }
    }

    /// Sends a message of the caller's as a rendezvous. Waits until it is matched and sent.
    fn send_when_matched(&mut self, to: u32, course: &Course, bytes: &[u8]) -> Result<()> {
        let envelope = course.envelope(self.me);
        let place = self.hold_for_call(to, &envelope)?;
        let sent = self.send_held(to, place, envelope, bytes);
        // In a revoked communicator, the receiver does not wait for the payload.
        if sent.as_ref().is_err_and(|error| !matches!(error.kind(), ErrorKind::Revoked { .. })) {
            self.forsake(to, place);
        }
        if envelope.sync == 0 {
            self.matching.take_send(place);
        }
        sent
    }

    fn send_held(&mut self, to: u32, place: usize, envelope: Envelope, bytes: &[u8]) -> Result<()> {
        let sync = self.number_of(place);
        let direct = self.out(to)?.place_of(bytes);
        let mut course = Course::rendezvous(&Envelope { sync, ..envelope }).at(direct);
        match self.out(to)?.lend_rendezvous(&mut course, bytes) {
            Ok(true) => {
                self.matching.answered(to, sync, Answer::Matched);
                return Ok(());
            }
            Ok(false) if course.has_begun() => {}
            Ok(false) => self.queue(to, course, Kept::Nothing, Some(place)),
            Err(end) => return Err(self.stopped(to, &end)),
        }
        let handle = Handle::Send(place);
        self.work(&[handle.number()], &mut [], &mut [], None, None, |engine| {
            engine.is_matched(place) || engine.is_settled(handle)
        })?;
        self.failure_of(place)?;
        if self.is_copied(place) {
            return Ok(());
        }
        let mut course = Course::payload(sync, bytes.len(), envelope.context);
        self.send_whole(to, &mut course, &mut Cargo::Bytes(bytes))
    }

    /// Reserves a place at the matching for a message whose payload the caller keeps, and a number.
    fn hold_for_call(&mut self, to: u32, envelope: &Envelope) -> Result<usize> {
        let place = match (envelope.sync as usize).checked_sub(1) {
            Some(place) => place,
            None => self.ticket(to, (envelope.context, envelope.tag), true)?.0,
        };
        self.matching.hold(place, Kept::Nothing);
        Ok(place)
    }

    fn number_of(&self, place: usize) -> u32 {
        self.matching.sends.get(place).map_or(0, |sending| sending.sync)
    }

    /// Makes sure that the receiver does not wait for a payload that the caller takes back.
    fn forsake(&mut self, to: u32, place: usize) {
        let context = self.matching.sends.get(place).map(|sending| sending.context);
        if context.is_some_and(|context| self.matching.is_revoked(context)) {
            // The receiver does not wait for the payload, because its receive fails, too.
            return;
        }
        let over = self.send_queue[to as usize].as_ref().is_none_or(|way| way.end().is_some());
        if self.take_back(to, place).is_none() && !over && self.ended(to).is_none() {
            self.break_off(place);
        }
    }

    /// Keeps the payload of a message that waited, and puts its envelope in its place.
    fn hold_item(&mut self, to: u32, Item { course, cargo, ticket }: Item) {
        let envelope = course.envelope(self.me);
        let way = self.send_queue[to as usize].as_ref();
        let direct = match cargo.cargo() {
            Cargo::Bytes(bytes) => way.and_then(|way| way.place_of(bytes)),
            Cargo::Moved(_) => None,
        };
        // A message without a ticket is a copy, for which no request exists.
        let place = ticket.unwrap_or_else(|| {
            self.matching.sends.insert(Sending {
                abandoned: true,
                ..Sending::new(to, envelope.context, envelope.tag)
            })
        });
        // The answer comes on this way.
        if let Err(error) = self.open_from(to) {
            return self.matching.not_sent(place, cargo, error);
        }
        let Some(sync) = self.matching.hold(place, cargo) else {
            return self.matching.not_sent(place, Kept::Nothing, too_many());
        };
        self.join();
        if let Some(way) = &mut self.send_queue[to as usize] {
            way.push_envelope(&Envelope { sync, ..envelope }, direct, place);
        }
    }

    /// Records that a send of the program has failed at once. The next wait of the program reports it.
    pub(crate) fn not_sent(&mut self, place: usize, cargo: Kept, error: Error) {
        self.matching.not_sent(place, cargo, error);
        self.join();
    }

    /// Makes every wait of the rank bring this engine on until nothing is pending.
    fn join(&mut self) {
        self.joined = true;
    }

    /// Returns whether anything is pending on which the rank's waits must make progress.
    pub(crate) fn is_under_way(&self) -> bool {
        let coming = |&from: &u32| {
            self.receive_stream[from as usize].as_ref().is_some_and(|way| way.is_in_a_message())
        };
        self.has_to_send()
            || !self.matching.untold.is_empty()
            || !self.matching.due.is_empty()
            || !self.matching.unacknowledged.is_empty()
            || self.matching.is_receiving()
            || self.open.iter().any(coming)
    }

    /// Sends the payloads that their receivers have asked for.
    fn send_released(&mut self) {
        for place in std::mem::take(&mut self.matching.released) {
            let Some(payload) = self.matching.take_held(place) else { continue };
            let Some(&Sending { to, sync, context, .. }) = self.matching.sends.get(place) else {
                continue;
            };
            let course = Course::payload(sync, payload.len(), context);
            self.queue(to, course, payload, Some(place));
        }
    }

    /// Gives up the payloads that will never be asked for.
    fn give_up_held(&mut self) {
        if self.open.iter().all(|&rank| self.ended(rank).is_none()) {
            return;
        }
        for place in self.matching.held_for(|to| self.ended(to).is_some()) {
            let Some(to) = self.matching.sends.get(place).map(|sending| sending.to) else {
                continue;
            };
            let Some(error) = self.ended(to).map(|end| end.error(to)) else { continue };
            self.matching.not_sent(place, Kept::Nothing, error);
        }
    }

    /// Returns whether a send was matched by a receive. If the payload is still here, the receiver waits for it.
    fn is_matched(&self, place: usize) -> bool {
        let matched = |sending: &Sending| sending.acknowledged && sending.failed.is_none();
        self.matching.sends.get(place).is_some_and(matched)
    }

    /// Returns whether the receiver of a matched send has copied its elements, so that nothing is left to be sent.
    fn is_copied(&self, place: usize) -> bool {
        self.matching.sends.get(place).is_some_and(|sending| sending.gone)
    }

    /// Returns the error of a send, if it has failed.
    fn failure_of(&mut self, place: usize) -> Result<()> {
        let failed = self.matching.sends.get_mut(place).and_then(|sending| sending.failed.take());
        failed.map_or(Ok(()), Err)
    }

    /// Puts a message behind those that wait, on a way that is open.
    pub(crate) fn queue(&mut self, to: u32, course: Course, cargo: Kept, ticket: Option<usize>) {
        if let Some(way) = &mut self.send_queue[to as usize] {
            way.push(course, cargo, ticket);
            self.flush_to(to);
        }
    }

    /// Takes back a message that has not begun to be sent.
    pub(crate) fn take_back(&mut self, to: u32, ticket: usize) -> Option<Kept> {
        let kept = self.send_queue[to as usize].as_mut()?.take_back(ticket)?;
        Some(self.matching.take_held(ticket).unwrap_or(kept))
    }

    /// Returns the error of a way on which nothing can be sent any more. Gives up what waits for it.
    fn stopped(&mut self, to: u32, end: &End) -> Error {
        self.flush_to(to);
        end.error(to)
    }

    fn flush_to(&mut self, to: u32) -> bool {
        let mut any = false;
        loop {
            let Some(way) = &mut self.send_queue[to as usize] else { return false };
            let mut gone = Vec::new();
            let flushed = way.flush(&mut gone);
            for (ticket, cargo) in gone {
                self.matching.gone(ticket, cargo);
            }
            match flushed {
                Ok(Flushed::Moved(moved)) => {
                    any |= moved;
                    break;
                }
                Ok(Flushed::TooLong(item)) => {
                    self.hold_item(to, item);
                    any = true;
                }
                Err(end) => {
                    self.give_up_on(to, &end);
                    any = true;
                    break;
                }
            }
        }
        let way = self.send_queue[to as usize].as_ref();
        if let Some(end) = way.and_then(|way| way.end().cloned()) {
            for place in self.matching.held_for(|other| other == to) {
                self.matching.not_sent(place, Kept::Nothing, end.error(to));
            }
        }
        let idle = self.send_queue[to as usize].as_ref().is_none_or(|way| way.is_idle());
        let place = self.busy.iter().position(|&busy| busy == to);
        match place {
            Some(place) if idle => drop(self.busy.swap_remove(place)),
            None if !idle => {
                self.busy.push(to);
                self.join();
            }
            _ => {}
        }
        any
    }

    /// Gives up everything that waits for a way on which nothing can be sent any more.
    fn give_up_on(&mut self, to: u32, end: &End) {
        let Some(way) = &mut self.send_queue[to as usize] else { return };
        for (ticket, cargo) in way.give_up() {
            match (ticket, cargo) {
                (Some(ticket), cargo) => self.matching.not_sent(ticket, cargo, end.error(to)),
                (None, Kept::Owned(_)) => self.matching.copy_not_sent(to, &end.error(to)),
                // An acknowledgement, or a type's name.
                (None, _) => {}
            }
        }
    }

    fn flush(&mut self) -> bool {
        let mut moved = false;
        for place in (0..self.busy.len()).rev() {
            if let Some(&to) = self.busy.get(place) {
                moved |= self.flush_to(to);
            }
        }
        moved
    }

    fn send_acknowledgements(&mut self) {
        for due in std::mem::take(&mut self.matching.due) {
            let Due { to, sync, answer } = due;
            if to == self.me {
                self.matching.answered(to, sync, answer);
            } else if self.out(to).is_ok() {
                self.queue(to, Course::ack(sync, answer), Kept::Nothing, None);
            } else if self.closed(to).is_none() {
                // There is no memory for a way to that rank now. The answer is kept, because the sender waits for it.
                self.matching.due.push(due);
                self.join();
            }
        }
    }

    // --- receiving ---

    /// Lets the receivers of this node copy long messages [from their place](super::direct).
    pub(crate) fn set_direct(&mut self) {
        self.direct = true;
        let here = self.rank.ranks_here();
        let ways = self.send_queue[here].iter_mut();
        ways.flatten().for_each(|way| way.direct = Some(Lending::default()));
    }

    pub(crate) fn set_unexpected_limit(&mut self, bytes: usize) {
        self.matching.backlog.set_limit(bytes);
        let longest = self.matching.backlog.longest();
        self.send_queue.iter_mut().flatten().for_each(|way| way.longest = longest);
        for way in self.receive_stream.iter_mut().flatten() {
            way.set_notice(&self.matching);
        }
    }

    /// Receives the next message if it is one line, when there is nothing else to do. Waits for it if told to. Returns
    /// `None` if it is not that simple.
    #[inline(always)]
    pub(crate) fn receive_at_once<T: Plain>(
        &mut self,
        pattern: Pattern,
        exact: bool,
        wait: bool,
        into: &mut [T],
    ) -> Option<(u32, usize)> {
        if !self.is_alone(0) || !self.matching.store.is_empty() {
            return None;
        }
        self.receive_line(pattern, exact, wait, into)
    }

    /// Receives the next message of the pattern's source if it is one line that the pattern takes. Waits for it if told to.
    #[inline(always)]
    pub(super) fn receive_line<T: Plain>(
        &mut self,
        pattern: Pattern,
        exact: bool,
        wait: bool,
        into: &mut [T],
    ) -> Option<(u32, usize)> {
        let fingerprint = self.fingerprints.of::<T>();
        let way = self.receive_stream.get_mut(pattern.source()? as usize)?.as_deref_mut()?;
        if !way.is_clear() {
            return None;
        }
        let line = {
            let received = match wait {
                // News ends this wait, too.
                true => {
                    let wait = Wait::forever().until_news(self.heard);
                    let communicators = &self.matching.communicators;
                    let call = || communicators.receive("receive", pattern);
                    way.lines.receive_called_with(wait, call).map(Some)
                }
                // To find nothing takes less time so. The channel's end is noticed by the wait that follows.
                false if !way.lines.has_message() => Ok(None),
                false => way.lines.try_receive(),
            };
            match received {
                Ok(None) => return None,
                Ok(Some(words)) => {
                    let line = Line::of(&words);
                    if let Some(count) = take_line(line, pattern, fingerprint, exact, into) {
                        return Some((line.tag(), count));
                    }
                    Ok(*line)
                }
                Err(error) => Err(error),
            }
        };
        match line {
            Ok(line) => {
                way.lines.prefetch(line.lines_behind());
                way.put_back(line);
            }
            Err(error) => way.note(error),
        }
        None
    }

    /// Receives the message whose first line was [put back](ReceiveStream::put_back) and that is longer than a line,
    /// when there is nothing to do but wait for all of it. Returns `None` if it is not that simple.
    pub(crate) fn receive_directly<T: Plain>(
        &mut self,
        pattern: Pattern,
        exact: bool,
        into: &mut [T],
    ) -> Option<Result<(u32, usize)>> {
        if !self.is_alone(0) || !self.matching.store.is_empty() {
            return None;
        }
        self.receive_rest(pattern, exact, into)
    }

    /// Receives the message whose first line was put back, if the pattern takes it, and waits for all of it.
    #[inline(always)]
    pub(super) fn receive_rest<T: Plain>(
        &mut self,
        pattern: Pattern,
        exact: bool,
        into: &mut [T],
    ) -> Option<Result<(u32, usize)>> {
        let fingerprint = self.fingerprints.of::<T>();
        let way = self.receive_stream.get_mut(pattern.source()? as usize)?.as_deref_mut()?;
        let line = way.take_head()?;
        if let Some(count) = fits(&line, way.from, pattern, fingerprint, exact, into) {
            let into = bytemuck::cast_slice_mut(&mut into[..count]);
            let communicators = &self.matching.communicators;
            let call = || communicators.receive("receive", pattern);
            match way.pull_directly(&self.rank, &line, into, &call) {
                Ok(true) => return Some(Ok((line.tag(), count))),
                Ok(false) => {}
                Err(end) => return Some(Err(end.error(way.from))),
            }
        }
        way.put_back(line);
        None
    }

    pub(crate) fn want<T: Plain>(&mut self, room: Option<usize>, exact: bool) -> Want {
        let (size, element) = (size_of::<T>(), ElementType::of::<T> as fn() -> ElementType);
        Want { fingerprint: self.fingerprints.of::<T>(), size, room, exact, element }
    }

    /// Takes back a receive, if nothing has come for it.
    pub(crate) fn withdraw(&mut self, place: usize) -> bool {
        let withdrawn = self.matching.receives.wanted(place).is_some();
        if withdrawn {
            self.matching.abandon(place);
        }
        withdrawn
    }

    /// Posts a receive.
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        pattern: Pattern,
        want: Want,
        members: &Arc<Members>,
    ) -> Result<usize> {
        self.matching.check_revoked(pattern.context())?;
        self.open_for(pattern, Some(members))?;
        let place = self.matching.post(pattern, want, members);
        if !self.matching.due.is_empty() {
            self.send_acknowledgements();
        }
        if self.matching.is_receiving() {
            self.join();
        }
        place
    }

    /// Looks for a message that the pattern takes, among all messages that have come.
    pub(crate) fn look_for(&mut self, pattern: Pattern) -> Option<Envelope> {
        if let Some((_, arrived)) = self.matching.store.find(pattern) {
            return Some(arrived.envelope);
        }
        self.progress(&mut Call { probe: Some(pattern), ..Call::of_nothing() });
        if let Some((_, arrived)) = self.matching.store.find(pattern) {
            return Some(arrived.envelope);
        }
        let heads =
            self.open.iter().filter_map(|&from| self.receive_stream[from as usize].as_ref());
        heads.filter_map(|way| way.head(&self.matching)).find(|head| pattern.takes(head))
    }

    /// Returns why nothing can come that the pattern takes, if nothing can.
    pub(crate) fn hopeless(&self, pattern: Pattern, among: Option<&Members>) -> Option<Error> {
        let lost = self.lost.iter().chain(&self.matching.broken).copied();
        hopeless(pattern, among, self.me, lost, |rank| self.ended(rank))
    }

    /// Returns whether only this same rank can send what the pattern takes.
    pub(crate) fn only_from_itself(&self, pattern: Pattern, among: Option<&Members>) -> bool {
        only_from_itself(pattern, among, self.me)
    }

    /// Returns whether only this same rank could complete a pending request.
    fn waits_for_itself(&self, handle: Handle) -> bool {
        match handle {
            Handle::Receive(place) => self.matching.receives.wanted(place).is_some_and(|wanted| {
                self.only_from_itself(wanted.pattern, wanted.among.as_deref())
            }),
            Handle::Send(place) => {
                let sending = self.matching.sends.get(place);
                sending.is_some_and(|sending| sending.to == self.me && !sending.is_done())
            }
        }
    }

    /// Returns whether some requests are pending, and only this same rank could complete any of them.
    fn only_wait_for_itself(&mut self, handles: &[usize]) -> bool {
        let mut any = false;
        let mut handles = handles.iter().map(|&handle| Handle::from_number(handle));
        let all = handles.all(|handle| {
            let own = self.waits_for_itself(handle);
            any |= own;
            own || self.is_settled(handle)
        });
        all && any
    }

    /// Returns whether this rank is known to be lost, from its world or from its channel.
    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        self.rank.is_lost(rank as usize) || matches!(self.ended(rank), Some(End::Lost))
    }

    /// Returns why no message and no acknowledgement comes from this rank any more.
    fn ended(&self, rank: u32) -> Option<&End> {
        match &self.receive_stream[rank as usize] {
            Some(way) => way.has_finalized(),
            None => self.listening.as_ref()?.end(rank),
        }
    }

    /// Returns why nothing at all comes from this rank any more.
    fn closed(&self, rank: u32) -> Option<&End> {
        match &self.receive_stream[rank as usize] {
            Some(way) => way.has_ended(),
            None => self.listening.as_ref()?.end(rank),
        }
    }

    // --- waiting ---

    /// Makes whatever progress is possible, here and in the rank's other pending operations. Returns whether there was
    /// any.
    pub(crate) fn progress(&mut self, call: &mut Call<'_, '_>) -> bool {
        let moved = self.rank.progress(usize::from(self.registered));
        self.bring_on_own(call) || moved
    }

    /// Makes whatever progress is possible here. Returns whether there was any.
    pub(crate) fn bring_on(&mut self) -> bool {
        self.bring_on_own(&mut Call::of_nothing())
    }

    /// Brings in what has come from one rank. Returns whether there was anything.
    pub(super) fn bring_in_from(&mut self, source: u32, call: &mut Call<'_, '_>) -> bool {
        let Some(way) = &mut self.receive_stream[source as usize] else { return false };
        let moved = tell_messages(|| way.pump(&self.rank, &mut self.matching, call));
        if !self.matching.due.is_empty() {
            self.send_acknowledgements();
        }
        moved
    }

    fn bring_on_own(&mut self, call: &mut Call<'_, '_>) -> bool {
        tell_messages(|| self.move_messages(call))
    }

    fn move_messages(&mut self, call: &mut Call<'_, '_>) -> bool {
        let mut moved = self.hear();
        moved |= !self.busy.is_empty() && self.flush();
        if self.listening.as_ref().is_some_and(Listening::has_news) {
            moved |= self.open_from_callers();
        }
        let count = self.open.len();
        self.turn = self.turn.wrapping_add(1);
        for place in 0..count {
            let from = self.open[(self.turn + place) % count] as usize;
            if let Some(way) = &mut self.receive_stream[from] {
                moved |= way.pump(&self.rank, &mut self.matching, call);
            }
        }
        for message in std::mem::take(&mut self.matching.direct) {
            direct::copy(message, &self.rank, &mut self.matching, call);
            moved = true;
        }
        for (to, fast) in std::mem::take(&mut self.matching.copied) {
            if let Some(way) = &mut self.send_queue[to as usize] {
                way.was_copied(fast);
            }
        }
        if !self.matching.due.is_empty() {
            self.send_acknowledgements();
        }
        if self.matching.is_holding() {
            self.send_released();
            self.give_up_held();
        }
        if self.finalizing && self.matching.receives.first().is_none() {
            self.finalize();
        }
        if self.joined && !self.is_under_way() {
            self.joined = false;
        }
        self.moved = moved;
        moved
    }

    /// Checks which ranks were lost and what was revoked, if there is news. Returns whether there was.
    #[inline(always)]
    pub(crate) fn hear(&mut self) -> bool {
        let number = self.news.number();
        let any = number != self.heard;
        if any {
            self.hear_news(number);
        }
        any
    }

    /// Returns whether there is news that it has not heard of.
    pub(crate) fn has_news(&self) -> bool {
        self.news.number() != self.heard
    }

    #[cold]
    fn hear_news(&mut self, number: u32) {
        self.heard = number;
        if number == 0 {
            return;
        }
        let ranks = 0..self.rank.begun();
        self.lost = ranks.filter(|&rank| self.rank.is_lost(rank)).map(|rank| rank as u32).collect();
        self.live.retain(|(_, members)| members.strong_count() > 0);
        for place in 0..self.live.len() {
            let (context, members) = &self.live[place];
            let (context, Some(members)) = (*context, members.upgrade()) else { continue };
            // An error means that the segment is broken, which every other call reports.
            let looks_revoked = || members.looks_revoked(&self.rank, self.whose(context));
            if !members.is_revoked() && looks_revoked().unwrap_or(false) {
                members.set_revoked();
                self.revoke(context);
            }
        }
    }

    fn whose(&self, context: u32) -> Whose {
        Whose { serial: self.serial, context }
    }

    /// Returns the communicator's board, and opens it if it is not open.
    pub(crate) fn board(&self, context: u32, members: &Members) -> Result<Arc<Board>> {
        members.board(&self.rank, self.whose(context))
    }

    /// Fails all pending operations of a communicator.
    fn revoke(&mut self, context: u32) {
        self.matching.retire(context);
        for to in 0..self.send_queue.len() {
            let Some(way) = &mut self.send_queue[to] else { continue };
            for (ticket, cargo) in way.revoke(context) {
                if let Some(ticket) = ticket {
                    self.matching.not_sent(ticket, cargo, revoked());
                }
            }
            self.flush_to(to as u32);
        }
        self.matching.revoke(context);
        self.send_acknowledgements();
    }

    /// Adds a communicator.
    pub(crate) fn add(&mut self, context: u32, members: &Arc<Members>) {
        self.communicators += 1;
        self.live.retain(|(_, members)| members.strong_count() > 0);
        self.live.push((context, Arc::downgrade(members)));
        self.matching.communicators.add(context, members);
        // Another member may have revoked the communicator before this engine knew it. So the engine must look at the
        // news again.
        self.heard = self.news.number().wrapping_sub(1);
    }

    /// Removes a communicator that is dropped: no member waits for this rank in it.
    pub(crate) fn remove(&mut self, context: u32, members: &Members) {
        self.communicators -= 1;
        if members.len() == 1 {
            return;
        }
        let whose = self.whose(context);
        self.leave_board(whose, members);
        Board::decline_ledger(&self.rank, whose);
    }

    /// Shows members that decide something later that this rank has gone, by opening the board and closing it. If there
    /// is no memory for the board, they wait until this rank's engine ends. After the last communicator, it ends soon.
    fn leave_board(&mut self, whose: Whose, members: &Members) {
        if members.take_board().is_some() {
            return;
        }
        let here = self.rank.ranks_here();
        if members.all().iter().any(|&member| !here.contains(&(member as usize))) {
            // Ranks of other nodes don't see what this rank declines. A rank that panics is lost, and its world says so.
            if !std::thread::panicking() {
                let _ = members.open_board(&self.rank, whose);
            }
            return;
        }
        if self.communicators == 0 || members.open_board(&self.rank, whose).is_err() {
            Board::decline(&self.rank, whose);
            self.dropped.push(whose.context);
        }
    }

    /// Gives up a message of the caller's whose communicator was revoked. A message that has begun goes on as a copy.
    fn let_go(&mut self, to: u32, course: &Course, bytes: &[u8]) -> Error {
        if course.has_begun() {
            self.queue(to, course.clone(), Kept::Owned(Box::new(bytes.to_vec())), None);
        }
        revoked()
    }

    /// Returns calls that wait, and how many requests there are besides that were not looked at. A report names few calls,
    /// and it is made before each long sleep. So only the first and the last of many requests are looked at: with all of
    /// 100,000, two ranks that wait for each other's messages would mostly wait for each other's reports.
    pub(crate) fn calls_of(&self, waited: Waited<'_>) -> (Vec<String>, usize) {
        let all = &self.matching.communicators;
        let send = |(to, course): (u32, &Course)| course.call(all, to as usize);
        let calls = match waited {
            Waited::Requests(handles, locals) => {
                const LOOKED_AT: usize = 32;
                let (first, rest) = handles.split_at(handles.len().min(LOOKED_AT));
                let (between, last) = rest.split_at(rest.len().saturating_sub(LOOKED_AT));
                let handles = first.iter().chain(last).map(|&handle| Handle::from_number(handle));
                let sends = locals.iter().filter_map(Local::unfinished).filter_map(send);
                let calls = handles.filter_map(|handle| self.call_of(handle)).chain(sends);
                return (calls.collect(), between.len());
            }
            Waited::Room(to, course) => Vec::from_iter(send((to, course))),
            Waited::Probe(pattern) => Vec::from_iter(all.receive("probe", pattern)),
            Waited::Flush => {
                let held = self.matching.sends.iter().filter(|(_, sending)| !sending.is_done());
                let mut to: Vec<u32> = held.map(|(_, sending)| sending.to).collect();
                to.extend(&self.busy);
                to.sort_unstable();
                to.dedup();
                let to: Vec<String> = to.iter().map(|rank| format!("rank {rank}")).collect();
                vec![format!("flush of messages to {}", to.join(" and "))]
            }
        };
        (calls, 0)
    }

    /// Returns the call that a pending request waits in, as reports tell it.
    pub(crate) fn call_of(&self, handle: Handle) -> Option<String> {
        match handle {
            Handle::Receive(place) => self.matching.receive_call(place),
            Handle::Send(place) => self.matching.send_call(place),
        }
    }

    /// Waits until something may have changed since the caller's last [progress](Self::progress). Returns at once if
    /// that has moved anything, because a wait is only for what an engine lacks that has done all it can. `to` are the
    /// ranks for which the caller has something to send, and `waited` is what it waits for.
    pub(crate) fn sleep(&mut self, to: &[u32], waited: Waited<'_>) -> Result<()> {
        self.sleep_beside(to, None, None, waited).map(drop)
    }

    /// Works like [`sleep`](Self::sleep). Returns false if the limit passed before.
    fn sleep_beside(
        &mut self,
        to: &[u32],
        limit: Option<Duration>,
        beside: Option<&Beside<'_>>,
        waited: Waited<'_>,
    ) -> Result<bool> {
        if self.moved {
            return Ok(true);
        }
        if !self.matching.untold.is_empty()
            && self.can_be_left(to)
            && let Some(error) = self.matching.tell()
        {
            return Err(error);
        }
        if let Some(error) = self.unheard.take() {
            return Err(error);
        }
        let mut select = Select::new();
        self.wait_in(&mut select, to);
        let wait = limit.map_or(Wait::forever(), Wait::from).until_news(self.heard);
        let wait = if self.can_be_left(to) { wait.or_failure() } else { wait };
        // The wait need not ask this engine's own part, which could do nothing.
        let _apart = self.registered.then(Apart::begin);
        if let Some(beside) = beside.filter(|beside| !beside.is_empty()) {
            return beside.wait(&select, wait, &|| self.calls_of(waited));
        }
        if select.is_empty() {
            return Err(ErrorKind::WaitsForItself.into());
        }
        let call = || match beside {
            Some(beside) => beside.call(self.calls_of(waited)),
            None => {
                let (calls, more) = self.calls_of(waited);
                all_of((&calls, more))
            }
        };
        select.wait(wait, &call)
    }

    /// Calls `with` with everything that this engine waits for.
    pub(crate) fn with_select<T>(&self, with: impl FnOnce(&Select<'_>) -> T) -> T {
        let mut select = Select::new();
        self.wait_in(&mut select, &[]);
        with(&select)
    }

    /// Adds what this engine waits for, and room for the caller's messages to the ranks `to`.
    fn wait_in<'a>(&'a self, select: &mut Select<'a>, to: &[u32]) {
        if let Some(listening) = &self.listening {
            listening.wait_in(select);
        }
        for &from in &self.open {
            if let Some(way) = &self.receive_stream[from as usize] {
                way.wait_in(select);
            }
        }
        for &to in self.busy.iter().chain(to) {
            if let Some(way) = &self.send_queue[to as usize] {
                way.wait_in(select);
            }
        }
    }

    /// Waits for the receiver of a synchronous send whose message has been sent.
    pub(crate) fn await_match(&mut self, place: usize) -> Result<()> {
        let Some(sending) = self.matching.sends.get_mut(place) else { return Ok(()) };
        sending.gone = true;
        let handle = Handle::Send(place);
        self.work_on(&[handle.number()], &mut [], &mut [], None)?;
        self.failure_of(place).inspect_err(|_| drop(self.matching.take_send(place)))
    }

    /// Gives up everything that waits to go to the receiver of this send, when there is no way to wait for it.
    pub(crate) fn break_off(&mut self, place: usize) {
        let Some(to) = self.matching.sends.get(place).map(|sending| sending.to) else { return };
        if let Some(way) = &mut self.send_queue[to as usize] {
            way.stop(End::Broken("there is no way to wait for it".to_owned()));
            self.flush_to(to);
        }
    }

    /// Returns whether a call that has messages for the ranks `to` can fail and lose only what has not begun: no part
    /// of those messages has been sent, and no message is coming.
    fn can_be_left(&self, to: &[u32]) -> bool {
        let mut ways = to.iter().filter_map(|&to| self.send_queue[to as usize].as_ref());
        let mut receives = self.matching.receives.iter();
        !ways.any(|way| way.is_unfinished())
            && !self.matching.call_holds()
            && !receives.any(Posted::is_coming)
    }

    /// Sends nothing more to a rank for which the caller gives up a message of which a part has been sent.
    fn break_off_unfinished(&mut self, to: u32) {
        if let Some(way) = &mut self.send_queue[to as usize]
            && way.is_unfinished()
        {
            way.stop(End::Broken("a message to it was given up half sent".to_owned()));
            self.flush_to(to);
        }
    }

    /// Returns whether the message of a receive has begun to come.
    pub(crate) fn is_coming(&self, place: usize) -> bool {
        self.matching.receives.get(place).is_some_and(Posted::is_coming)
    }

    /// Returns whether a request is done, or will never be.
    #[inline]
    pub(crate) fn is_settled(&mut self, handle: Handle) -> bool {
        match handle {
            Handle::Receive(place)
                if self.matching.receives.get(place).is_some_and(Posted::has_ended) =>
            {
                true
            }
            _ => self.settles(handle),
        }
    }

    /// Works like [`is_settled`](Self::is_settled), for a request for which nothing has come yet.
    fn settles(&mut self, handle: Handle) -> bool {
        match handle {
            Handle::Receive(place) => {
                let Some(posted) = self.matching.receives.get(place) else { return true };
                let Some(Wanted { pattern, among, .. }) = posted.waits_for() else {
                    return !posted.is_coming();
                };
                let Some(error) = self.hopeless(*pattern, among.as_deref()) else { return false };
                self.matching.fail(place, error);
                true
            }
            Handle::Send(place) => {
                let Some(sending) = self.matching.sends.get(place) else { return true };
                if sending.is_done() {
                    return true;
                }
                let (to, waits) = (sending.to, sending.awaits_answer());
                let Some(end) = self.ended(to).filter(|_| waits) else { return false };
                let error = end.error(to);
                if let Some(sending) = self.matching.sends.get_mut(place) {
                    sending.failed = Some(error);
                }
                true
            }
        }
    }

    /// Sends what the caller keeps, as far as there is room. Returns whether anything moved.
    fn push(&mut self, locals: &mut [Local<'_>]) -> bool {
        let mut moved = false;
        for place in 0..locals.len() {
            let (before, rest) = locals.split_at_mut(place);
            let Some(local) = rest.first_mut().filter(|local| local.outcome.is_none()) else {
                continue;
            };
            // Messages go in the order of the calls. But a message that has begun is finished before earlier ones that
            // went as envelopes and whose payloads were asked for since.
            if !local.course.has_begun()
                && before.iter().any(|other| other.to == local.to && other.waits_to_go())
            {
                continue;
            }
            if self.matching.is_revoked(local.course.context()) {
                let (to, bytes) = (local.to, local.bytes);
                local.outcome = Some(Err(self.let_go(to, &local.course, bytes)));
                local.held.take().map(|place| self.matching.take_send(place));
                moved = true;
                continue;
            }
            let before = (local.course.progress(), local.held, local.released);
            match self.push_one(local) {
                Ok(true) => local.outcome = Some(Ok(())),
                Ok(false) => {}
                Err(error) => local.outcome = Some(Err(error)),
            }
            if local.outcome.is_some()
                && let Some(place) = local.held
            {
                self.matching.take_send(place);
            }
            let after = (local.course.progress(), local.held, local.released);
            moved |= local.outcome.is_some() || before != after;
        }
        moved
    }

    /// Sends a message that the caller keeps as far as there is room. Returns whether it has been sent.
    fn push_one(&mut self, local: &mut Local<'_>) -> Result<bool> {
        let (to, bytes) = (local.to, local.bytes);
        if let Some(place) = local.held.filter(|_| !local.released) {
            if !self.is_matched(place) {
                self.is_settled(Handle::Send(place));
                return self.failure_of(place).map(|()| false);
            }
            if self.is_copied(place) {
                return Ok(true);
            }
            local.released = true;
            let context = local.course.context();
            local.course = Course::payload(self.number_of(place), bytes.len(), context);
        }
        match self.advance(to, &mut local.course, &mut Cargo::Bytes(bytes))? {
            Step::Done => Ok(true),
            Step::Full(_) => Ok(false),
            Step::TooLong => {
                let envelope = local.course.envelope(self.me);
                let place = self.hold_for_call(to, &envelope)?;
                local.held = Some(place);
                let sync = self.number_of(place);
                let direct = self.out(to)?.place_of(bytes);
                let course = Course::rendezvous(&Envelope { sync, ..envelope }).at(direct);
                self.queue(to, course, Kept::Nothing, Some(place));
                Ok(false)
            }
        }
    }

    /// Works until all of these requests are settled. Returns false if the limit passed before. Requests and what
    /// belongs to them are named by the [numbers](Handle::number) of their handles.
    pub(crate) fn work_on(
        &mut self,
        handles: &[usize],
        landings: &mut [(usize, &mut dyn Landing)],
        locals: &mut [Local<'_>],
        limit: Option<Duration>,
    ) -> Result<bool> {
        let mut settled = 0;
        self.work(handles, landings, locals, limit, None, |engine| {
            // Requests that were settled before are not checked again.
            let mut rest = handles[settled..].iter();
            settled +=
                rest.by_ref().take_while(|&&h| engine.is_settled(Handle::from_number(h))).count();
            settled == handles.len()
        })
    }

    /// Works until everything is sent and `done` is true, which may also result from what is waited for `beside`.
    /// Returns false if the limit passed before. See [`work_on`](Self::work_on).
    pub(crate) fn work(
        &mut self,
        handles: &[usize],
        landings: &mut [(usize, &mut dyn Landing)],
        locals: &mut [Local<'_>],
        limit: Option<Duration>,
        beside: Option<&Beside<'_>>,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let places = landings.iter().map(|(handle, _)| Handle::from_number(*handle).place());
        self.matching.expect(places);
        let mut to = Vec::new();
        loop {
            let mut moved = !locals.is_empty() && self.push(locals);
            let sent = locals.iter().all(|local| local.outcome.is_some());
            let unsent = locals.iter().any(|local| local.unsent().is_some());
            let alone =
                landings.len() == 1 && sent && !unsent && limit.is_none() && self.is_alone(1);
            moved |=
                self.progress(&mut Call { landings: &mut *landings, alone, ..Call::of_nothing() });
            if sent && done(self) {
                return Ok(true);
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            if moved {
                continue;
            }
            if beside.is_none_or(Beside::is_empty) && sent && self.only_wait_for_itself(handles) {
                // Only this rank could send what the requests wait for, and it sends nothing while it waits.
                return if limit.is_some() {
                    Ok(false)
                } else {
                    Err(ErrorKind::WaitsForItself.into())
                };
            }
            to.clear();
            to.extend(locals.iter().filter(|local| local.waits_to_go()).map(|l| l.to));
            if let Some(error) = locals.iter().find_map(Local::unsent)
                && self.can_be_left(&to)
            {
                // The call does not wait for the other requests, because their messages may be answers to the one that
                // failed.
                return Err(error);
            }
            if let Err(error) =
                self.sleep_beside(&to, left, beside, Waited::Requests(handles, locals))
            {
                to.iter().for_each(|&to| self.break_off_unfinished(to));
                for local in locals.iter().filter(|local| local.outcome.is_none()) {
                    if let Some(place) = local.held {
                        self.forsake(local.to, place);
                        self.matching.take_send(place);
                    }
                }
                return Err(error);
            }
        }
    }

    pub(crate) fn has_to_send(&self) -> bool {
        !self.busy.is_empty() || self.matching.is_holding()
    }

    /// Notes that the last communicator was dropped. Returns whether something is still to be sent. When no receive is
    /// posted any more, other ranks are told that this one matches nothing any more. They then give up what they hold
    /// for it, and what they wait for from it.
    pub(crate) fn is_left(&mut self) -> bool {
        self.bring_on();
        self.finalizing = self.has_to_send();
        self.finalizing
    }

    fn finalize(&mut self) {
        self.finalizing = false;
        for to in 0..self.send_queue.len() as u32 {
            let known = self.receive_stream[to as usize].is_some()
                || self.send_queue[to as usize].is_some();
            if known && let Ok(way) = self.out(to) {
                way.finalize();
                self.flush_to(to);
            }
        }
    }

    /// Waits until everything that waits is sent, or can't be sent.
    pub(crate) fn finish(&mut self) -> Result<()> {
        while self.has_to_send() {
            self.progress(&mut Call::of_nothing());
            self.sleep(&[], Waited::Flush)?;
        }
        self.matching.tell().map_or(Ok(()), Err)
    }

    /// Makes a place for a send that is not done at once.
    pub(crate) fn ticket(
        &mut self,
        to: u32,
        (context, tag): (u32, u32),
        synchronous: bool,
    ) -> Result<(usize, u32)> {
        if synchronous {
            // The answer comes on this way.
            self.open_from(to)?;
        }
        let place = self.matching.sends.insert(Sending::new(to, context, tag));
        if !synchronous {
            return Ok((place, 0));
        }
        match self.matching.number(place) {
            Some(sync) => {
                self.join();
                Ok((place, sync))
            }
            None => {
                self.matching.sends.remove(place);
                Err(too_many())
            }
        }
    }
}

fn too_many() -> Error {
    bad_call(format!("{} sends are under way", u32::MAX))
}

impl Drop for Engine {
    /// Tells the ranks with which this rank has no channel that there will be none. (The existing channels close after
    /// this.) A rank that panics is lost, and its world says so.
    fn drop(&mut self) {
        // The receiving ends close first: a rank that sees that nothing more comes from this one must find that it
        // can't send to it either.
        self.receive_stream.clear();
        if self.serial != OWN && !std::thread::panicking() {
            for name in names(self.serial) {
                // If there is no memory for that, the others are told when the rank's code has ended.
                let _ = self.rank.withdraw(&name, LINE_CHANNEL);
            }
            self.send_queue.iter().flatten().for_each(|way| way.decline_cells());
            // This must come after `withdraw`: see `Board::open`.
            for &context in &self.dropped {
                Board::decline(&self.rank, self.whose(context));
                Board::decline_ledger(&self.rank, self.whose(context));
            }
        }
    }
}

/// Returns the number of elements of a message that is longer than its first line, if it fits and its sender does not
/// wait for an acknowledgement.
#[inline(never)]
fn fits<T: Plain>(
    line: &Line,
    from: u32,
    pattern: Pattern,
    fingerprint: u32,
    exact: bool,
    into: &[T],
) -> Option<usize> {
    let (kind, envelope) = line.read(from)?;
    let Envelope { count, bytes, .. } = envelope;
    let room = if exact { count == into.len() } else { count <= into.len() };
    let comes =
        matches!(kind, Kind::Lines | Kind::Chunks | Kind::Cells | Kind::Lent) && envelope.sync == 0;
    let is_lent = line.is_rendezvous() && line.loan().is_some();
    let fits = (comes || is_lent)
        && pattern.takes(&envelope)
        && envelope.fingerprint == fingerprint
        && room
        && count * size_of::<T>() == bytes;
    fits.then_some(count)
}

/// Takes the elements out of a message, if it is one line that fits. Returns their number.
#[inline(always)]
fn take_line<T: Plain>(
    line: &Line,
    pattern: Pattern,
    fingerprint: u32,
    exact: bool,
    into: &mut [T],
) -> Option<usize> {
    let count = pattern.count_in(line, fingerprint, size_of::<T>(), Some(into.len()), exact)?;
    copy_inline(line.inline_bytes(), &mut into[..count])?;
    Some(count)
}

/// An engine goes from thread to thread: see [`owner`](crate::communicator::messages::owner).
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Engine>();
};
