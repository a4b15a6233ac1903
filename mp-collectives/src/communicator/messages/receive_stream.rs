//! The way from one rank: its two channels, and the message that is being received.
//!
//! A stream has ended when its channel has ended and everything in it was looked at. A receive fails when nothing can
//! come for it any more: its source has ended, or all other members have. A receive from any source also fails for each
//! lost member that was not acknowledged, as soon as everything that this member had sent was looked at.

use bytemuck::bytes_of;
use mp_core::{
    ElementType, Error, ErrorKind, Message, Rank, Receiver, Result as CoreResult, Select,
    SharedBuffer, loan::Borrower,
};

use crate::communicator::{
    error::lost,
    members::Members,
    messages::call::Call,
    messages::cells::Cells,
    messages::channels::{LINE_CHANNEL, chunk_channel, names},
    messages::direct,
    messages::matching::{Direct, Matching, NOBODY},
    messages::send_queue::End,
    messages::store::{Arrived, Content, Pattern},
    messages::wire::{Envelope, FIRST, Kind, LINE, Line, Place, Words},
};

impl Call<'_, '_> {
    /// Returns whether it can sleep until this message is complete.
    fn waits_for(&mut self, to: To, matching: &Matching) -> bool {
        self.alone && matches!(to, To::Receive(place) if self.landing(place, matching).is_some())
    }
}

/// A message that is longer than its first line.
struct Body {
    envelope: Envelope,
    kind: Kind,
    to: To,
    got: usize,
    /// The number of bytes that are in the landing; `rest` follows them. `None` if no landing was prepared.
    landed: Option<usize>,
    rest: Vec<u8>,
    /// Where the next piece lies, if a line has told it already.
    next: Option<Place>,
    moved: Option<SharedBuffer<u8>>,
}

/// Where a piece of a message goes.
enum Target<'a> {
    Landing(&'a mut [u8]),
    /// Behind what is there.
    Rest(&'a mut Vec<u8>),
    Nowhere,
}

/// The number of messages of one rank that are brought in at a time.
const BURST: u32 = 64;

/// The destination of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Receive(usize),
    /// No receive has matched it yet.
    Store,
    /// It is the name of a type.
    Types,
    /// It says why nothing more comes.
    End,
}

impl Body {
    /// Puts the next piece into the landing, if the current call has it and nothing is in `rest` yet; otherwise into
    /// `rest`.
    fn take(&mut self, piece: &[u8], matching: &mut Matching, call: &mut Call<'_, '_>) {
        let piece = &piece[..piece.len().min(self.envelope.bytes - self.got)];
        match self.target(piece.len(), matching, call) {
            Target::Landing(into) => mp_core::copy(piece, into),
            Target::Rest(rest) => rest.extend_from_slice(piece),
            Target::Nowhere => {}
        }
    }

    /// Returns where the next piece goes, which has this number of bytes.
    fn target<'a>(
        &'a mut self,
        bytes: usize,
        matching: &'a mut Matching,
        call: &'a mut Call<'_, '_>,
    ) -> Target<'a> {
        self.got += bytes;
        let To::Receive(place) = self.to else { return Target::Rest(&mut self.rest) };
        if !matching.is_wanted(place) {
            return Target::Nowhere;
        }
        if let Some(landed) = &mut self.landed
            && self.rest.is_empty()
            && let Some(whole) = call.room(place, self.envelope.bytes, matching)
        {
            let into = &mut whole[*landed..][..bytes];
            *landed += bytes;
            return Target::Landing(into);
        }
        Target::Rest(&mut self.rest)
    }

    /// Takes the lines that have come, if they can be written to the landing. Returns whether there were any.
    fn take_lines(
        &mut self,
        lines: &Receiver<Words>,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
    ) -> bool {
        if let To::Receive(place) = self.to
            && let Some(landed) = &mut self.landed
            && self.rest.is_empty()
            && matching.is_wanted(place)
            && let Some(whole) = call.room(place, self.envelope.bytes, matching)
        {
            let bytes = copy_lines(lines, &mut whole[*landed..]);
            *landed += bytes;
            self.got += bytes;
            return bytes > 0;
        }
        false
    }

    /// Takes the available pieces that lie in cells. If `alone`, waits for all of them. `way` has the channel and the
    /// cells of the message, and where it comes from. Returns whether there are no more.
    #[inline(never)]
    fn take_cells(
        &mut self,
        rank: &Rank,
        (lines, cells, from, serial): (&Receiver<Words>, &Cells, usize, u64),
        alone: bool,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
        moved: &mut bool,
    ) -> Result<bool, End> {
        while self.kind == Kind::Cells && self.got < self.envelope.bytes {
            let place = match (self.next.take(), alone) {
                (Some(place), _) => place,
                (None, true) => Place::of(&*lines.receive_called(|| self.call(matching))?),
                (None, false) => match lines.try_receive()? {
                    Some(words) => Place::of(&words),
                    None => return Ok(false),
                },
            };
            *moved = true;
            if place == Place::IN_CHUNKS {
                self.kind = Kind::Chunks;
                return Ok(true);
            }
            let bytes = place.bytes();
            if bytes == 0 || bytes > self.envelope.bytes - self.got {
                return Err(End::wrong_cell());
            }
            let into = match self.target(bytes, matching, call) {
                Target::Landing(into) => Some(into),
                Target::Rest(rest) => {
                    let before = rest.len();
                    rest.resize(before + bytes, 0);
                    Some(&mut rest[before..])
                }
                Target::Nowhere => None,
            };
            if !cells.take(rank, from, serial, place, into)? {
                return Err(End::wrong_cell());
            }
        }
        Ok(true)
    }

    /// Returns the call that waits for it, as reports tell it.
    fn call(&self, matching: &Matching) -> Option<String> {
        match self.to {
            To::Receive(place) => matching.receive_call(place),
            _ => None,
        }
    }

    fn is_whole(&self) -> bool {
        match self.kind {
            Kind::Moved => self.moved.is_some(),
            _ => self.got == self.envelope.bytes,
        }
    }

    /// Returns its receive, if all of it is in the landing.
    fn has_landed(&self) -> Option<usize> {
        match (self.to, self.landed) {
            (To::Receive(place), Some(bytes)) if bytes == self.envelope.bytes => Some(place),
            _ => None,
        }
    }

    /// Returns the memory of this rank that it takes as an unexpected message.
    fn unexpected_bytes(&self) -> usize {
        let counts = self.to == To::Store && self.kind != Kind::Moved;
        if counts { self.envelope.bytes } else { 0 }
    }

    fn deliver(self, matching: &mut Matching) {
        let unexpected = self.unexpected_bytes();
        let Self { envelope, to, landed, rest, moved, .. } = self;
        let content = match moved {
            Some(buffer) => Content::Moved(buffer),
            None => Content::Bytes { landed, rest },
        };
        match to {
            To::Receive(place) => matching.complete(place, Arrived { envelope, content }),
            To::Types => {
                let Content::Bytes { rest, .. } = content else { return };
                let name = String::from_utf8_lossy(&rest).into_owned();
                let (size, align) = (envelope.context as usize, envelope.tag as usize);
                matching.learn(envelope.fingerprint, ElementType::new(name, size, align));
            }
            // `bring_in` has dealt with it.
            To::End => {}
            To::Store => matching.arrived(Arrived { envelope, content }, unexpected),
        }
    }
}

/// See the [module](self).
pub(crate) struct ReceiveStream {
    pub(crate) from: u32,
    serial: u64,
    pub(crate) lines: Receiver<Words>,
    chunks: Option<Receiver<[u8]>>,
    pub(crate) cells: Cells,
    loans: Loans,
    /// A message that was taken off the channel and is not matched yet.
    head: Option<Line>,
    body: Option<Body>,
    pub(crate) end: Option<End>,
    /// Whether the matching knows of the end.
    end_is_known: bool,
    /// Whether the other rank matches nothing any more, and sends only payloads.
    finalized: bool,
    /// The notice that the other rank has of what may come.
    notice: u64,
}

impl ReceiveStream {
    pub(crate) fn open(
        rank: &Rank,
        from: u32,
        serial: u64,
        matching: &Matching,
        cells: Cells,
    ) -> CoreResult<Self> {
        let [name, _] = names(serial);
        let lines = rank.receiver(&name, from as usize, LINE_CHANNEL)?;
        let mut way = Self {
            from,
            serial,
            lines,
            chunks: None,
            cells,
            loans: Loans::default(),
            head: None,
            body: None,
            end: None,
            end_is_known: false,
            finalized: false,
            notice: 0,
        };
        way.set_notice(matching);
        Ok(way)
    }

    /// Tells the other rank how long a message that comes eagerly may be.
    #[inline]
    pub(crate) fn set_notice(&mut self, matching: &Matching) {
        let notice = matching.backlog.notice();
        if self.notice != notice {
            self.notice = notice;
            self.lines.set_notice(notice);
        }
    }

    /// Returns whether the next line of the channel begins a message and nothing comes before it.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.head.is_none() && self.body.is_none() && self.end.is_none() && !self.finalized
    }

    /// Returns whether a part of a message has come.
    pub(crate) fn is_in_a_message(&self) -> bool {
        self.body.is_some()
    }

    /// Puts back a line that was taken off the channel.
    pub(crate) fn put_back(&mut self, line: Line) {
        self.head = Some(line);
    }

    /// Looks for a short time for what comes next: the first line of a message, or its next piece. Of lines, the last is
    /// looked at. Returns whether it is there.
    pub(crate) fn appears(&self) -> bool {
        let chunk = || self.chunks.as_ref().is_none_or(|chunks| chunks.appear(1));
        match (&self.body, &self.head) {
            (Some(body), _) => match body.kind {
                Kind::Chunks | Kind::Moved => chunk(),
                Kind::Cells => body.next.is_some() || self.lines.appear(1),
                _ => {
                    let left = body.envelope.bytes.saturating_sub(body.got);
                    self.lines.appear(left.div_ceil(LINE) as u64)
                }
            },
            (None, Some(line)) if line.is_in_chunks() => chunk(),
            (None, Some(line)) => self.lines.appear(line.lines_behind()),
            (None, None) => self.lines.appear(1),
        }
    }

    /// Takes the line that was put back, if nothing comes before its message.
    pub(crate) fn take_head(&mut self) -> Option<Line> {
        match self.body.is_none() && !self.finalized {
            true => self.head.take(),
            false => None,
        }
    }

    /// Keeps the error of the channel, unless it only says that there is news.
    #[cold]
    pub(crate) fn note(&mut self, error: mp_core::Error) {
        if !matches!(error.kind(), ErrorKind::Timeout { .. }) {
            self.end = Some(error.into());
        }
    }

    /// Returns the message that was not matched yet, if there is one.
    pub(crate) fn head(&self, matching: &Matching) -> Option<Envelope> {
        let (_, envelope) = self.read_head(matching)?.ok()?;
        Some(envelope)
    }

    /// Returns why nothing more comes from this rank, when everything that came was looked at.
    pub(crate) fn has_ended(&self) -> Option<&End> {
        self.end.as_ref().filter(|_| self.head.is_none())
    }

    /// Works like [`has_ended`](Self::has_ended), for messages and acknowledgements; payloads that were asked for may
    /// still come.
    pub(crate) fn has_finalized(&self) -> Option<&End> {
        self.has_ended().or_else(|| self.finalized.then_some(&End::Ended))
    }

    /// Reads the head, if there is one, and fills in the bytes of its elements. Fails if it is invalid.
    fn read_head(&self, matching: &Matching) -> Option<Result<(Kind, Envelope), String>> {
        let line = self.head.as_ref()?;
        let Some((kind, mut envelope)) = line.read(self.from) else {
            return Some(Err("a message of no known kind".to_owned()));
        };
        if !kind.is_message() {
            return Some(Ok((kind, envelope)));
        }
        let bytes = matching
            .known(envelope.fingerprint)
            .and_then(|element| envelope.count.checked_mul(element.size));
        match (kind, bytes) {
            (Kind::Inline, Some(bytes)) if bytes <= line.inline_bytes().len() => {
                envelope.bytes = bytes;
            }
            (Kind::Lines | Kind::Chunks | Kind::Cells | Kind::Moved | Kind::Lent, Some(bytes))
                if bytes == envelope.bytes => {}
            (Kind::Rendezvous, Some(bytes)) if bytes == envelope.bytes && envelope.sync != 0 => {}
            _ => return Some(Err("a message whose length and type do not fit".to_owned())),
        }
        Some(Ok((kind, envelope)))
    }

    /// Brings in what has come, up to a message that no receive waits for and that need not be passed over. Returns
    /// whether there was anything.
    pub(crate) fn pump(
        &mut self,
        rank: &Rank,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
    ) -> bool {
        let moved = self.bring_in(rank, matching, call);
        let Some(end) = self.end.as_ref().filter(|_| !self.end_is_known) else { return moved };
        matching.source_has_ended(self.from, end);
        self.end_is_known = true;
        true
    }

    fn bring_in(&mut self, rank: &Rank, matching: &mut Matching, call: &mut Call<'_, '_>) -> bool {
        let mut moved = false;
        // The number of rounds is limited, because a sender that is as fast could keep this going although what the
        // call waits for has come.
        for _ in 0..BURST {
            if call.is_over(matching) {
                return moved;
            }
            self.set_notice(matching);
            if self.body.is_some() {
                moved |= self.pull_body(rank, matching, call);
                if let Some(body) = &self.body
                    && let Some(place) = body.has_landed()
                {
                    let Envelope { source, tag, count, .. } = body.envelope;
                    matching.landed(place, source, tag, count);
                    self.body = None;
                    continue;
                }
                match self.body.take_if(|body| body.is_whole()) {
                    Some(Body { to: To::End, rest, .. }) => {
                        let reason = String::from_utf8_lossy(&rest).into_owned();
                        self.end = Some(End::Broken(reason));
                    }
                    Some(body) => body.deliver(matching),
                    None => return moved,
                }
            }
            if self.head.is_none() {
                if !self.pull_line(matching) {
                    return moved;
                }
                moved = true;
            }
            if let Some(line) = self.head
                && self.take_at_once(&line, matching, call)
            {
                self.head = None;
                moved = true;
            }
            let Some(line) = self.head else { continue };
            let (kind, mut envelope) = match self.read_head(matching) {
                Some(Ok(head)) => head,
                Some(Err(reason)) => {
                    self.head = None;
                    self.end = Some(End::Broken(reason));
                    return moved;
                }
                None => return moved,
            };
            let to = match kind {
                Kind::Ack => {
                    matching.answered(self.from, envelope.sync, envelope.answer());
                    self.head = None;
                    moved = true;
                    continue;
                }
                Kind::Finalize => {
                    self.finalized = true;
                    self.head = None;
                    moved = true;
                    continue;
                }
                Kind::Type => To::Types,
                Kind::Farewell => To::End,
                Kind::Payload => match matching.invited(self.from, envelope.sync) {
                    Some((of, place)) if of.bytes == envelope.bytes => {
                        envelope = of;
                        To::Receive(place)
                    }
                    // The receive that had asked for it failed when its communicator was revoked.
                    None if matching.has_revoked() => To::Receive(NOBODY),
                    other => {
                        self.head = None;
                        let end = End::Broken("a payload that was not asked for".to_owned());
                        if let Some((_, place)) = other {
                            matching.fail(place, end.error(self.from));
                        }
                        self.end = Some(end);
                        return true;
                    }
                },
                Kind::Rendezvous if matching.is_revoked(envelope.context) => {
                    matching.refuse(&envelope);
                    self.head = None;
                    moved = true;
                    continue;
                }
                _ if matching.is_revoked(envelope.context) => {
                    matching.refuse(&envelope);
                    To::Receive(NOBODY)
                }
                _ => match matching.offer(&envelope) {
                    Some(place) => To::Receive(place),
                    // The first message that a probe would take stays the head.
                    None if call.probe.is_some_and(|probe| probe.takes(&envelope)) => return moved,
                    None if matching.looks_at(self.from) || call.probes(self.from) => To::Store,
                    None => return moved,
                },
            };
            self.head = None;
            moved = true;
            self.begin(rank, (kind, envelope), to, &line, matching, call);
        }
        moved
    }

    /// Begins a message whose first line is known.
    fn begin(
        &mut self,
        rank: &Rank,
        (kind, envelope): (Kind, Envelope),
        to: To,
        line: &Line,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
    ) {
        match (kind, to) {
            (Kind::Rendezvous, To::Receive(place)) => {
                return self.begin_rendezvous(rank, &envelope, place, line, matching, call);
            }
            (Kind::Rendezvous, _) => {
                let content = Content::Away { place: line.direct_place() };
                return matching.store(Arrived { envelope, content });
            }
            // It was acknowledged when its envelope was matched.
            (Kind::Payload, _) => {}
            (_, To::Receive(place)) if place != NOBODY => matching.matched(&envelope),
            _ => {}
        }
        if kind == Kind::Inline {
            let arrived = Arrived { envelope, content: Content::Inline(line.inline_words()) };
            match to {
                To::Receive(place) => matching.complete(place, arrived),
                _ => matching.store(arrived),
            }
            return;
        }
        let to = match to {
            To::Receive(place) => To::Receive(matching.receive_for(place)),
            other => other,
        };
        let (rest, moved) = (Vec::new(), None);
        let kind = if matches!(kind, Kind::Lent | Kind::Payload) { Kind::Chunks } else { kind };
        let next = line.place();
        let mut body = Body { envelope, kind, to, got: 0, landed: None, rest, next, moved };
        matching.backlog.add(body.unexpected_bytes());
        if let To::Receive(place) = to
            && kind != Kind::Moved
        {
            match call.begin(place, (envelope.count, envelope.bytes), matching) {
                Ok(None) => {}
                Ok(Some(whole)) => {
                    let taken = self.loans.take(rank, self.from, self.serial, line, whole);
                    body.got = if taken { envelope.bytes } else { 0 };
                    body.landed = Some(body.got);
                }
                // The receive fails, and its message is dropped.
                Err(error) => {
                    matching.fail(place, error);
                    body.to = To::Receive(matching.receive_for(NOBODY));
                }
            }
        }
        if matches!(kind, Kind::Lines | Kind::Type | Kind::Farewell) {
            let here = envelope.bytes.min(FIRST);
            body.take(&line.first_bytes()[..here], matching, call);
        }
        self.body = Some(body);
    }

    /// Takes a message on loan whose receive was found, or asks for its payload.
    fn begin_rendezvous(
        &mut self,
        rank: &Rank,
        envelope: &Envelope,
        place: usize,
        line: &Line,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
    ) {
        if line.loan().is_some() {
            let length = (envelope.count, envelope.bytes);
            let taken = call.begin(place, length, matching).map(|whole| {
                whole
                    .is_some_and(|whole| self.loans.take(rank, self.from, self.serial, line, whole))
            });
            match taken {
                Ok(false) => {}
                Ok(true) => {
                    let content = Content::Bytes { landed: Some(envelope.bytes), rest: Vec::new() };
                    return matching.complete(place, Arrived { envelope: *envelope, content });
                }
                Err(error) => {
                    matching.fail(place, error);
                    return matching.invite(envelope, NOBODY);
                }
            }
        }
        match line.direct_place() {
            Some(from) => {
                let message = Direct { envelope: *envelope, receive: place, place: from };
                direct::copy(message, rank, matching, call);
            }
            None => matching.invite(envelope, place),
        }
    }

    /// Takes the next line off the channel, if there is one. The line then becomes the head, unless a receive has got
    /// it.
    fn pull_line(&mut self, matching: &mut Matching) -> bool {
        if self.end.is_some() {
            return false;
        }
        match self.lines.try_receive() {
            Ok(Some(words)) => {
                let line = Line::of(&words);
                if !matching.take_line(self.from, line) {
                    self.head = Some(*line);
                }
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.end = Some(error.into());
                false
            }
        }
    }

    /// Gives the message that begins with this line to the receive that has waited longest, if it comes in lines or
    /// chunks and is exactly what that receive takes, and takes what has come of it. A message that is whole then never
    /// becomes the [body](Body): what that moves and asks again for each line takes longer than all the rest.
    #[inline]
    fn take_at_once(
        &mut self,
        line: &Line,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
    ) -> bool {
        let Some((place, count, bytes)) = matching.wants(self.from, line) else { return false };
        let in_chunks = line.is_in_chunks();
        if in_chunks && self.chunks.is_none() {
            return false;
        }
        // What is not that simple is done, or fails, where the body begins.
        let Ok(Some(into)) = call.begin(place, (count, bytes), matching) else { return false };
        let got = match &self.chunks {
            Some(chunks) if in_chunks => copy_chunks(chunks, into),
            _ => {
                let (first, behind) = into.split_at_mut(FIRST);
                first.copy_from_slice(line.first_bytes());
                Ok(FIRST + copy_lines(&self.lines, behind))
            }
        };
        match got {
            Ok(got) if got == bytes => {
                matching.receives.landed(place, self.from, line.tag(), count);
            }
            Ok(got) => {
                matching.receives.set_coming(place);
                let known = line.read(self.from);
                let (kind, envelope) = known.unwrap_or((Kind::Lines, Envelope::default()));
                let (to, landed) = (To::Receive(place), Some(got));
                let (rest, next, moved) = (Vec::new(), None, None);
                self.body = Some(Body { envelope, kind, to, got, landed, rest, next, moved });
            }
            Err(end) => {
                matching.fail(place, end.error(self.from));
                self.end = Some(end);
            }
        }
        true
    }

    /// Waits for the whole message that begins with this line, which is as long as `into`, and for nothing else.
    /// Returns whether it has come: a message that has to be asked for has not.
    #[inline(never)]
    pub(crate) fn pull_directly(
        &mut self,
        rank: &Rank,
        line: &Line,
        into: &mut [u8],
        call: &dyn Fn() -> Option<String>,
    ) -> Result<bool, End> {
        if self.loans.take(rank, self.from, self.serial, line, into) {
            return Ok(true);
        }
        if line.is_rendezvous() {
            return Ok(false);
        }
        let (into, in_chunks) = match line.place() {
            Some(first) => match self.fill_from_cells(rank, first, into, call) {
                Ok(rest) => (rest, true),
                Err(end) => {
                    self.end = Some(end.clone());
                    return Err(end);
                }
            },
            None => (into, line.is_in_chunks()),
        };
        let pulled = match in_chunks {
            true if into.is_empty() => Ok(()),
            true => chunks_of(&mut self.chunks, rank, self.from, self.serial, &self.cells)
                .and_then(|chunks| fill_from_chunks(into, chunks, call)),
            false => {
                let (here, rest) = into.split_at_mut(into.len().min(FIRST));
                here.copy_from_slice(&line.first_bytes()[..here.len()]);
                fill_from_lines(rest, &self.lines, call)
            }
        };
        pulled.map(|()| true).inspect_err(|end| self.end = Some(end.clone()))
    }

    /// Waits for the pieces of a message that lie in cells. Returns the part of `into` that comes in chunks.
    #[inline(never)]
    fn fill_from_cells<'i>(
        &self,
        rank: &Rank,
        first: Place,
        mut into: &'i mut [u8],
        call: &dyn Fn() -> Option<String>,
    ) -> Result<&'i mut [u8], End> {
        let mut place = first;
        while place != Place::IN_CHUNKS {
            let Some((here, rest)) = into.split_at_mut_checked(place.bytes()) else {
                return Err(End::wrong_cell());
            };
            if here.is_empty()
                || !self.cells.take(rank, self.from as usize, self.serial, place, Some(here))?
            {
                return Err(End::wrong_cell());
            }
            into = rest;
            if into.is_empty() {
                break;
            }
            place = Place::of(&*self.lines.receive_called(call)?);
        }
        Ok(into)
    }

    /// Takes the available part of the message that is coming. If there is nothing else to do, waits for all of it.
    fn pull_body(&mut self, rank: &Rank, matching: &mut Matching, call: &mut Call<'_, '_>) -> bool {
        let mut moved = false;
        let pulled = self.try_pull_body(rank, matching, call, &mut moved);
        if let Err(end) = pulled {
            // The message will never be whole.
            if let Some(body) = self.body.take() {
                matching.backlog.remove(body.unexpected_bytes());
                if let To::Receive(place) = body.to {
                    matching.fail(place, end.error(self.from));
                }
            }
            self.end = Some(end);
        }
        moved
    }

    fn try_pull_body(
        &mut self,
        rank: &Rank,
        matching: &mut Matching,
        call: &mut Call<'_, '_>,
        moved: &mut bool,
    ) -> Result<(), End> {
        let Some(body) = &mut self.body else { return Ok(()) };
        let alone = call.waits_for(body.to, matching);
        if body.kind == Kind::Cells {
            let way = (&self.lines, &self.cells, self.from as usize, self.serial);
            if !body.take_cells(rank, way, alone, matching, call, moved)? {
                return Ok(());
            }
        }
        if !matches!(body.kind, Kind::Chunks | Kind::Moved) {
            *moved |= body.take_lines(&self.lines, matching, call);
            return pull(&self.lines, bytes_of, body, matching, call, moved);
        }
        let chunks = chunks_of(&mut self.chunks, rank, self.from, self.serial, &self.cells)?;
        if body.kind == Kind::Chunks {
            return pull(chunks, |chunk| chunk, body, matching, call, moved);
        }
        let buffer = match alone {
            true => Some(chunks.receive_buffer_called(&|| body.call(matching))?),
            false => chunks.try_receive_buffer()?,
        };
        if let Some(buffer) = buffer {
            if buffer.len() != body.envelope.bytes {
                return Err(End::Broken("a moved buffer of another length".to_owned()));
            }
            body.moved = Some(buffer);
            *moved = true;
        }
        Ok(())
    }

    /// Adds to a wait what would allow progress.
    pub(crate) fn wait_in<'a>(&'a self, select: &mut Select<'a>) {
        match (&self.body, &self.chunks) {
            _ if self.end.is_some() => {}
            (Some(Body { kind: Kind::Chunks | Kind::Moved, .. }), Some(chunks)) => {
                select.add(chunks);
            }
            (Some(_), _) => {
                select.add(&self.lines);
            }
            // A message that no receive waits for stays the head, and nothing behind it is taken meanwhile.
            (None, _) if self.head.is_some() => {}
            (None, _) => {
                select.add(&self.lines);
            }
        }
    }
}

/// What the other rank lends, if both are threads of one process.
#[derive(Default)]
struct Loans {
    /// Looked up when the first loan comes; contains `None` if lending is not possible.
    borrower: Option<Option<Borrower>>,
}

impl Loans {
    /// Takes the message that begins with this line, if it is on loan and still available.
    fn take(&mut self, rank: &Rank, from: u32, serial: u64, line: &Line, into: &mut [u8]) -> bool {
        let Some(number) = line.loan() else { return false };
        let borrower = self.borrower.get_or_insert_with(|| rank.borrower(from as usize, serial));
        borrower.as_ref().is_some_and(|borrower| borrower.take(number, into))
    }
}

/// Returns the channel of chunks, opened when the first chunk comes.
fn chunks_of<'a>(
    chunks: &'a mut Option<Receiver<[u8]>>,
    rank: &Rank,
    from: u32,
    serial: u64,
    cells: &Cells,
) -> Result<&'a Receiver<[u8]>, End> {
    Ok(match chunks {
        Some(chunks) => chunks,
        closed => {
            let [_, name] = names(serial);
            cells.hear();
            closed.insert(rank.receiver(&name, from as usize, chunk_channel(rank)?)?)
        }
    })
}

/// Copies the lines of a message that have come, up to the length of `into`. Returns the number of bytes.
#[inline]
fn copy_lines(lines: &Receiver<Words>, mut into: &mut [u8]) -> usize {
    let bytes = into.len();
    // An error of the channel comes again when the rest is looked for.
    while !into.is_empty()
        && let Ok(Some(line)) = lines.try_receive()
    {
        into = copy_line(&line, into);
    }
    bytes - into.len()
}

/// Copies the chunks of a message that have come, up to the length of `into`. Returns the number of bytes.
fn copy_chunks(chunks: &Receiver<[u8]>, into: &mut [u8]) -> Result<usize, End> {
    let mut got = 0;
    // As for lines.
    while got < into.len()
        && let Ok(Some(piece)) = chunks.try_receive()
    {
        if piece.is_empty() {
            return Err(End::empty_piece());
        }
        let rest = &mut into[got..];
        let bytes = piece.len().min(rest.len());
        mp_core::copy(&piece[..bytes], &mut rest[..bytes]);
        got += bytes;
    }
    Ok(got)
}

/// Copies a line of a message. Returns the place of the next one.
#[inline(always)]
fn copy_line<'i>(line: &Words, into: &'i mut [u8]) -> &'i mut [u8] {
    let line: &[u8; LINE] = bytemuck::cast_ref(line);
    let (here, rest) = into.split_at_mut(into.len().min(LINE));
    match here.first_chunk_mut() {
        // This needs no call.
        Some(whole) => *whole = *line,
        None => here.copy_from_slice(&line[..here.len()]),
    }
    rest
}

/// Waits for the lines of a message. `call` is what waits.
fn fill_from_lines(
    mut into: &mut [u8],
    lines: &Receiver<Words>,
    call: &dyn Fn() -> Option<String>,
) -> Result<(), End> {
    while !into.is_empty() {
        into = copy_line(&*lines.receive_called(call)?, into);
    }
    Ok(())
}

/// Waits for the chunks of a message. `call` is what waits.
fn fill_from_chunks(
    mut into: &mut [u8],
    chunks: &Receiver<[u8]>,
    call: &dyn Fn() -> Option<String>,
) -> Result<(), End> {
    while !into.is_empty() {
        let piece = chunks.receive_called(call)?;
        if piece.is_empty() {
            return Err(End::empty_piece());
        }
        let (here, rest) = into.split_at_mut(piece.len().min(into.len()));
        mp_core::copy(&piece[..here.len()], here);
        into = rest;
    }
    Ok(())
}

/// Takes the available pieces of a message out of a channel. `bytes` returns the bytes of one piece.
fn pull<M: Message + ?Sized>(
    channel: &Receiver<M>,
    bytes: impl Fn(&M) -> &[u8],
    body: &mut Body,
    matching: &mut Matching,
    call: &mut Call<'_, '_>,
    moved: &mut bool,
) -> Result<(), End> {
    let alone = call.waits_for(body.to, matching);
    while body.got < body.envelope.bytes {
        let piece = match alone {
            true => Some(channel.receive_called(|| body.call(matching))?),
            false => channel.try_receive()?,
        };
        let Some(piece) = piece else { return Ok(()) };
        let piece = bytes(&piece);
        if piece.is_empty() {
            return Err(End::empty_piece());
        }
        body.take(piece, matching, call);
        *moved = true;
    }
    Ok(())
}

impl End {
    fn wrong_cell() -> Self {
        Self::Broken("a piece of a message in a wrong cell".to_owned())
    }

    fn empty_piece() -> Self {
        Self::Broken("an empty piece of a message".to_owned())
    }

    /// Returns the error for what was to come from world rank `rank`, or go there.
    pub(crate) fn error(&self, rank: u32) -> Error {
        let rank = rank as usize;
        match self {
            Self::Lost => lost(rank, rank),
            Self::Ended => ErrorKind::PeerEnded { rank }.into(),
            Self::Broken(reason) => ErrorKind::PeerBroken { rank, reason: reason.clone() }.into(),
        }
    }
}

/// Returns whether only rank `me` itself can send what the pattern takes. For any source, `among` are the possible
/// senders.
pub(crate) fn only_from_itself(pattern: Pattern, among: Option<&Members>, me: u32) -> bool {
    match pattern.source() {
        Some(source) => source == me,
        None => among.is_some_and(|members| members.all().iter().all(|&rank| rank == me)),
    }
}

/// Returns why no message that `pattern` takes can come any more from ranks that have ended. A receive from any source
/// `among` these also fails if one of the `lost` ranks, or of those that can send nothing more, is a member that was
/// not acknowledged, and everything that it had sent was looked at.
pub(crate) fn hopeless<'a>(
    pattern: Pattern,
    among: Option<&Members>,
    me: u32,
    mut lost: impl Iterator<Item = u32>,
    end: impl Fn(u32) -> Option<&'a End>,
) -> Option<Error> {
    if let Some(source) = pattern.source() {
        return end(source).map(|end| end.error(source));
    }
    let members = among?;
    let not_known = |&rank: &u32| {
        members.local(rank).is_some()
            && !members.has_acknowledged(rank)
            && matches!(end(rank), Some(End::Lost | End::Broken(_)))
    };
    if let Some(error) = lost.find(not_known).and_then(|rank| Some(end(rank)?.error(rank))) {
        return Some(error);
    }
    if only_from_itself(pattern, among, me) {
        return None;
    }
    let mut first = None;
    for rank in members.all().iter().copied().filter(|&rank| rank != me) {
        let end = end(rank)?;
        let is_known = match end {
            End::Ended => true,
            // The channel of a rank that panics shows its loss before its world does.
            End::Lost | End::Broken(_) => members.has_acknowledged(rank),
        };
        if !is_known {
            first.get_or_insert_with(|| end.error(rank));
        }
    }
    Some(first.unwrap_or_else(|| ErrorKind::NobodyLeft.into()))
}

/// Bytes of a whole line.
const _: () = assert!(size_of::<Line>() == LINE);
