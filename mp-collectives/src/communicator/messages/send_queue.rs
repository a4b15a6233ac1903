//! The way to one rank: its two channels, the messages that wait to be sent, and the progress of each message.
//!
//! **No memory.** The second channel is opened before the first line of a message that needs it is sent. If there is no
//! memory for it, nothing more is sent to that rank, and a last message of lines (`FAREWELL`) tells the receiver why.
//! If even the channel of lines can't be opened, the receiver is not told. A nonblocking or buffered send that fails in
//! this way is *untold* until a call returns its error. While there is one, no call of the communicators sleeps;
//! instead it fails with `NotSent`, unless a message is just arriving or the call has sent a part of its own. Waits for
//! channels, flags and other requests fail in the same way (`Part::failure`), but not waits of critical sections,
//! because the result of an operation would be lost (`Wait::despite_failure`).

use std::{any::Any, collections::VecDeque};

use bytemuck::bytes_of_mut;
use mp_core::{
    ElementType, Error as CoreError, ErrorKind, Rank, Select, Sender, SharedBuffer, Wait,
    loan::Lender,
};

use crate::communicator::{
    messages::cells::Cells,
    messages::channels::{LINE_CHANNEL, chunk_channel, names},
    messages::communicators::Communicators,
    messages::eager::is_eager,
    messages::elements::{Payload, fingerprint},
    messages::wire::{
        self, Answer, CHUNK, DIRECT_LEAST, Envelope, FIRST, HALVED, IN_CELLS, INLINE_BYTES, Kind,
        LENT_LEAST, LINE, LINES_MOST, Line, Place, WINDOW, Words, piece_of,
    },
};
use crate::lending::Lending;

/// The reason why nothing goes to a rank, or comes from it, any more.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// It was lost.
    Lost,
    /// It has ended, or dropped its communicators.
    Ended,
    /// What it sends is invalid, or its channels can't be used.
    Broken(String),
}

impl From<CoreError> for End {
    #[cold]
    fn from(error: CoreError) -> Self {
        match error.kind() {
            ErrorKind::PeerLost { .. } => Self::Lost,
            ErrorKind::Disconnected { .. } => Self::Ended,
            kind => Self::Broken(kind.to_string()),
        }
    }
}

/// Returns whether there was no free slot, or there is further [news](SendQueue::heed).
fn is_full(error: &CoreError) -> bool {
    matches!(error.kind(), ErrorKind::Full { .. } | ErrorKind::Timeout { .. })
}

/// How a message is sent, and how much of it has been sent.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    first: Line,
    kind: Kind,
    /// The message's context; [`NO_CONTEXT`] for lines between the two sides.
    context: u32,
    bytes: usize,
    /// Whether the first line has been sent.
    begun: bool,
    /// The number of bytes that have been sent.
    gone: usize,
}

/// See [`Course::context`]. No communicator has this number.
const NO_CONTEXT: u32 = u32::MAX;

/// The result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// There is no free slot in the channel of lines, or in that of chunks.
    Full(Which),
    /// The receiver does not accept such a message eagerly: it goes as a [rendezvous](Course::rendezvous).
    TooLong,
}

/// One of the two channels to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Lines,
    Chunks,
}

/// The elements of a message that is being sent.
pub(crate) enum Cargo<'a> {
    Bytes(&'a [u8]),
    /// A buffer that moves; `None` once it has moved.
    Moved(&'a mut Option<SharedBuffer<u8>>),
}

impl Course {
    pub(crate) fn new(envelope: &Envelope, elements: &[u8]) -> Self {
        let kind = match elements.len() {
            ..=INLINE_BYTES if envelope.fits_a_line() => Kind::Inline,
            ..=LINES_MOST => Kind::Lines,
            _ => Kind::Chunks,
        };
        Self::of(envelope, kind, elements)
    }

    pub(crate) fn moved(envelope: &Envelope) -> Self {
        Self::of(envelope, Kind::Moved, &[])
    }

    pub(crate) fn ack(sync: u32, answer: Answer) -> Self {
        Self::of(&Envelope { sync, tag: answer as u32, ..Envelope::default() }, Kind::Ack, &[])
    }

    /// Returns the course of a message whose payload the receiver has to ask for.
    pub(crate) fn rendezvous(envelope: &Envelope) -> Self {
        Self { bytes: 0, ..Self::of(envelope, Kind::Rendezvous, &[]) }
    }

    /// Says where the receiver of a rendezvous can copy its elements from.
    pub(crate) fn at(mut self, place: Option<u64>) -> Self {
        self.first.set_place(place);
        self
    }

    /// Returns the course of the payload that the receiver has asked for by this number.
    pub(crate) fn payload(sync: u32, bytes: usize, context: u32) -> Self {
        let course = Self::of(&Envelope { bytes, sync, ..Envelope::default() }, Kind::Payload, &[]);
        Self { context, ..course }
    }

    pub(crate) fn context(&self) -> u32 {
        self.context
    }

    /// Returns the call that sends the message to a rank of the world, as reports tell it. The tag of a payload that
    /// the receiver has asked for is not known.
    pub(crate) fn call(&self, communicators: &Communicators, to: usize) -> Option<String> {
        let tag = (self.kind != Kind::Payload).then(|| self.first.tag());
        communicators.send(self.context, tag, to as u32)
    }

    /// Returns the course of a line that says that this rank matches nothing any more.
    fn finalize() -> Self {
        Self::of(&Envelope::default(), Kind::Finalize, &[])
    }

    /// Returns the envelope of the message, as rank `source` sends it.
    pub(crate) fn envelope(&self, source: u32) -> Envelope {
        self.first.read(source).map(|(_, envelope)| envelope).unwrap_or_default()
    }

    /// Returns whether it is a message that may be sent in another way than eagerly.
    fn may_be_held(&self) -> bool {
        matches!(self.kind, Kind::Lines | Kind::Chunks) && !self.has_begun()
    }

    /// Returns whether only a message that has begun may come before it.
    fn is_next(&self) -> bool {
        self.kind == Kind::Payload || self.has_begun()
    }

    fn announcement(element: &ElementType) -> Self {
        let name = element.name.as_bytes();
        let envelope = Envelope {
            context: element.size as u32,
            source: 0,
            tag: element.align as u32,
            fingerprint: fingerprint(element),
            count: 1,
            bytes: name.len(),
            sync: 0,
        };
        Self::of(&envelope, Kind::Type, name)
    }

    /// Returns the course of a line that says why nothing more comes.
    fn farewell(reason: &str) -> Self {
        let envelope = Envelope { count: 1, bytes: reason.len(), ..Envelope::default() };
        Self::of(&envelope, Kind::Farewell, reason.as_bytes())
    }

    fn of(envelope: &Envelope, kind: Kind, elements: &[u8]) -> Self {
        let first = Line::first(envelope, kind, elements);
        let context = if kind.is_message() { envelope.context } else { NO_CONTEXT };
        Self { first, kind, context, bytes: envelope.bytes, begun: false, gone: 0 }
    }

    /// Returns a value that changes when some of the message has been sent.
    pub(crate) fn progress(&self) -> (bool, usize) {
        (self.begun, self.gone)
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun || self.gone > 0
    }

    /// Sends as far as there are free slots; or, if `patient`, to the end, or until there is further
    /// [news](SendQueue::heed).
    fn advance(
        &mut self,
        to: &mut Channels,
        cargo: &mut Cargo<'_>,
        patient: bool,
    ) -> Result<Step, End> {
        if !self.begun && matches!(self.kind, Kind::Chunks | Kind::Moved | Kind::Payload) {
            // The channel of chunks is opened before the line is sent: if that fails, the line must not make the
            // receiver look for chunks.
            to.chunks()?;
        }
        if IN_CELLS.contains(&self.bytes)
            && let (Kind::Chunks, false, Cargo::Bytes(bytes)) =
                (self.kind, self.has_begun(), &*cargo)
        {
            to.begin_in_cells(self, bytes)?;
        }
        if matches!(self.kind, Kind::Chunks | Kind::Payload)
            && self.gone == 0
            && to.rank.is_crowded()
        {
            // In a crowded world the receiver may sleep. If the chunk is there before the line, the receiver is woken
            // only once. This does not wait for room, because a receiver that must know of the message before it makes
            // room would never be told. In a world that is not crowded, the line goes first, and the receiver reads it
            // while the chunk is written.
            to.chunk(self, cargo, false)?;
        }
        if !self.begun {
            if !to.line(self, |words| *Line::of_mut(words) = self.first, patient)? {
                return Ok(Step::Full(Which::Lines));
            }
            self.begun = true;
            match self.kind {
                Kind::Inline | Kind::Ack | Kind::Rendezvous | Kind::Finalize => {
                    self.gone = self.bytes;
                }
                Kind::Lines | Kind::Type | Kind::Farewell => self.gone = self.bytes.min(FIRST),
                Kind::Chunks | Kind::Cells | Kind::Moved | Kind::Lent | Kind::Payload => {}
            }
        }
        if let (Kind::Cells, Cargo::Bytes(bytes)) = (self.kind, &*cargo) {
            while self.kind == Kind::Cells && self.gone < self.bytes {
                if !to.cell(self, bytes, patient)? {
                    return Ok(Step::Full(Which::Lines));
                }
            }
        }
        match (self.kind, cargo) {
            (Kind::Moved, Cargo::Moved(buffer)) => return to.buffer(self, buffer, patient),
            (Kind::Chunks | Kind::Payload, cargo) => {
                while self.gone < self.bytes {
                    if !to.chunk(self, cargo, patient)? {
                        return Ok(Step::Full(Which::Chunks));
                    }
                }
            }
            (_, Cargo::Bytes(bytes)) => {
                while self.gone < self.bytes {
                    let piece = &bytes[self.gone..self.bytes.min(self.gone + LINE)];
                    let write = |words: &mut Words| {
                        bytes_of_mut(words)[..piece.len()].copy_from_slice(piece);
                    };
                    if !to.line(self, write, patient)? {
                        return Ok(Step::Full(Which::Lines));
                    }
                    self.gone += piece.len();
                }
            }
            (_, Cargo::Moved(_)) => {}
        }
        Ok(Step::Done)
    }
}

/// The ends of the channels to one rank.
struct Channels {
    lines: Sender<Words>,
    chunks: Option<Sender<[u8]>>,
    cells: Cells,
    /// What is needed to open the channel of chunks.
    rank: Rank,
    to: usize,
    serial: u64,
    /// The world's news that this rank has heard of: other news ends a patient send.
    heard: u32,
    /// For reports.
    communicators: Communicators,
}

impl Channels {
    /// Sends a line of a message, if there is room, or, if `patient`, when there is.
    #[inline(always)]
    fn line(
        &mut self,
        course: &Course,
        write: impl FnOnce(&mut Words),
        patient: bool,
    ) -> Result<bool, End> {
        let (communicators, to) = (&self.communicators, self.to);
        let call = || course.call(communicators, to);
        let sent = match patient {
            true => self.lines.send_in_place_called(write, call),
            false => self.lines.try_send_in_place(write),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the channel of chunks, and what tells reports of a wait for room there.
    fn chunks(&mut self) -> Result<(&mut Sender<[u8]>, &Communicators), End> {
        let chunks = match &mut self.chunks {
            Some(chunks) => chunks,
            closed => {
                let [_, name] = names(self.serial);
                let mut chunks = self.rank.sender(&name, self.to, chunk_channel(&self.rank)?)?;
                chunks.set_window(WINDOW);
                chunks.set_wait(Wait::forever().until_news(self.heard));
                closed.insert(chunks)
            }
        };
        Ok((chunks, &self.communicators))
    }

    /// Sends the buffer of a message that moves.
    fn buffer(
        &mut self,
        course: &Course,
        buffer: &mut Option<SharedBuffer<u8>>,
        patient: bool,
    ) -> Result<Step, End> {
        let Some(moving) = buffer.take() else { return Ok(Step::Done) };
        let to = self.to;
        let (chunks, communicators) = match self.chunks() {
            Ok(chunks) => chunks,
            Err(end) => {
                *buffer = Some(moving);
                return Err(end);
            }
        };
        let sent = match patient {
            true => chunks.send_buffer_called(moving, &|| course.call(communicators, to)),
            false => chunks.try_send_buffer(moving),
        };
        sent.map(|()| Step::Done).or_else(|back| {
            *buffer = Some(back.message);
            match is_full(&back.error) {
                true => Ok(Step::Full(Which::Chunks)),
                false => Err(back.error.into()),
            }
        })
    }

    /// Sends the first piece of a message in a cell, if there are a cell and room for the line. The receiver then finds
    /// the piece as soon as it sees the line.
    #[inline(never)]
    fn begin_in_cells(&mut self, course: &mut Course, bytes: &[u8]) -> Result<(), End> {
        if self.lines.known_room() == 0 {
            return Ok(());
        }
        let piece = &bytes[..bytes.len().min(piece_of(bytes.len()))];
        let Some(place) = self.cells.put_first(&self.rank, self.to, self.serial, piece) else {
            return Ok(());
        };
        let first = course.first.in_cells(place);
        if !self.line(course, |words| *Line::of_mut(words) = first, false)? {
            self.cells.take_back(place);
            return Ok(());
        }
        (course.begun, course.kind, course.gone) = (true, Kind::Cells, piece.len());
        Ok(())
    }

    /// Sends the next piece of a message in a cell. If there is none, says that the rest comes in chunks.
    #[inline(never)]
    fn cell(&mut self, course: &mut Course, bytes: &[u8], patient: bool) -> Result<bool, End> {
        let end = course.bytes.min(course.gone + piece_of(course.bytes));
        let piece = &bytes[course.gone..end];
        let place = self.cells.put(piece);
        let words = place.unwrap_or(Place::IN_CHUNKS).words();
        let sent = self.line(course, |line| *line = words, patient)?;
        match (sent, place) {
            (true, Some(_)) => course.gone = end,
            (true, None) => course.kind = Kind::Chunks,
            (false, Some(place)) => self.cells.take_back(place),
            (false, None) => {}
        }
        Ok(sent)
    }

    /// Sends the next chunk of a message.
    fn chunk(
        &mut self,
        course: &mut Course,
        cargo: &Cargo<'_>,
        patient: bool,
    ) -> Result<bool, End> {
        let Cargo::Bytes(bytes) = cargo else { return Ok(true) };
        let most = if bytes.len() < HALVED { CHUNK / 2 } else { CHUNK };
        let piece = &bytes[course.gone..course.bytes.min(course.gone + most)];
        let to = self.to;
        let (chunks, communicators) = self.chunks()?;
        let sent = match patient {
            true => chunks.send_called(piece, &|| course.call(communicators, to)),
            false => chunks.try_send(piece),
        };
        match sent {
            Ok(()) => {
                course.gone += piece.len();
                Ok(true)
            }
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Messages lent to a rank instead of sent, where both are threads of one process.
struct Loans {
    /// `None` if lending is not possible.
    lender: Option<Lender>,
    /// Lending is of use if the receiver was not too late.
    lending: Lending,
}

impl Loans {
    /// Lends a message of which nothing has been sent, if that seems worthwhile, by this line. Returns whether it was
    /// taken. If not, the `course` goes on from where it is now.
    fn lend(
        &mut self,
        channels: &mut Channels,
        mut first: Line,
        course: &mut Course,
        bytes: &[u8],
    ) -> Result<bool, End> {
        let Some(lender) = &mut self.lender else { return Ok(false) };
        if !self.lending.try_next() {
            return Ok(false);
        }
        // The channel of chunks is opened first: if that fails, the line must not make the receiver look for chunks.
        channels.chunks()?;
        let tell = |number| {
            first.set_loan(number);
            course.begun = channels.line(course, |words| *Line::of_mut(words) = first, false)?;
            Ok::<_, End>(course.begun)
        };
        let taken = lender.lend(bytes, tell)?;
        if taken || course.begun {
            self.lending.was_useful(taken);
        }
        Ok(taken)
    }
}

/// A message that waits for its turn, or for free slots.
pub(crate) struct Item {
    pub(crate) course: Course,
    pub(crate) cargo: Kept,
    /// The ticket of its owner: see `Matching::sends`.
    pub(crate) ticket: Option<usize>,
}

/// The progress of the messages that wait.
pub(crate) enum Flushed {
    /// They went as far as there are free slots. The value tells whether anything has been sent.
    Moved(bool),
    /// All before this message went. It must not go eagerly.
    TooLong(Item),
}

/// The elements of a message that waits.
pub(crate) enum Kept {
    Nothing,
    Owned(Box<dyn Payload>),
    Text(String),
}

impl Kept {
    pub(crate) fn cargo(&self) -> Cargo<'_> {
        match self {
            Self::Nothing => Cargo::Bytes(&[]),
            Self::Owned(payload) => Cargo::Bytes(payload.bytes()),
            Self::Text(text) => Cargo::Bytes(text.as_bytes()),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns the number of bytes of the elements.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Owned(payload) => payload.bytes().len(),
            Self::Text(text) => text.len(),
        }
    }

    /// Returns the buffer that the request gives back.
    pub(crate) fn back(self) -> Option<Box<dyn Any + Send>> {
        match self {
            Self::Owned(payload) => Some(payload.into_any()),
            _ => None,
        }
    }
}

/// A message that waited and has been sent: its ticket, its elements.
pub(crate) type Gone = (usize, Kept);

/// See the [module](self).
pub(crate) struct SendQueue {
    channels: Channels,
    /// Types whose names the receiver knows.
    announced: Vec<u32>,
    /// The longest message, in bytes, that goes eagerly before the receiver says which may.
    pub(crate) longest: usize,
    /// The announced type that was sent last.
    last: Option<u32>,
    queue: VecDeque<Item>,
    /// Whether the receiver may copy long messages [from their place](super::direct), and whether it is to do so, if its
    /// copies are not slow.
    pub(crate) direct: Option<Lending>,
    /// `None` until the first message that is long enough to be lent.
    loans: Option<Loans>,
    full: Which,
    /// Whether a message of the caller's has begun and waits for room. Until it is complete, nothing else may be sent,
    /// because the receiver takes what comes next for the rest of it.
    unfinished: bool,
    end: Option<End>,
    /// What the receiver must still be told, when this rank can send nothing more.
    farewell: Option<Item>,
}

impl SendQueue {
    pub(crate) fn open(
        rank: &Rank,
        to: usize,
        serial: u64,
        longest: usize,
        communicators: Communicators,
        cells: Cells,
    ) -> mp_core::Result<Self> {
        let [name, _] = names(serial);
        let lines = rank.sender(&name, to, LINE_CHANNEL)?;
        let (rank, heard) = (rank.clone(), 0);
        let channels =
            Channels { lines, chunks: None, cells, rank, to, serial, heard, communicators };
        Ok(Self {
            channels,
            announced: Vec::new(),
            longest,
            last: None,
            queue: VecDeque::new(),
            direct: None,
            loans: None,
            full: Which::Lines,
            unfinished: false,
            end: None,
            farewell: None,
        })
    }

    pub(crate) fn cells(&self) -> &Cells {
        &self.channels.cells
    }

    /// Declares that this rank will not open the cells any more, if the other rank may have opened them. It may if a
    /// message in pieces has gone to it.
    pub(crate) fn decline_cells(&self) {
        let Channels { cells, chunks, rank, to, serial, .. } = &self.channels;
        if chunks.is_some() {
            cells.decline(rank, *to, *serial);
        }
    }

    /// Makes calls that wait for room return when the number of the world's news is no longer `heard`.
    #[inline]
    pub(crate) fn heed(&mut self, heard: u32) {
        let Channels { lines, chunks, heard: before, .. } = &mut self.channels;
        if *before != heard {
            *before = heard;
            let wait = Wait::forever().until_news(heard);
            lines.set_wait(wait);
            chunks.iter_mut().for_each(|chunks| chunks.set_wait(wait));
        }
    }

    /// Takes out the messages that wait in a communicator that is revoked, with their tickets. A message that has begun
    /// goes on as a copy.
    pub(crate) fn revoke(&mut self, communicator: u32) -> Vec<(Option<usize>, Kept)> {
        let mut out = Vec::new();
        let items = std::mem::take(&mut self.queue);
        for mut item in items {
            if item.course.context >> 1 != communicator {
                self.queue.push_back(item);
                continue;
            }
            if !item.course.has_begun() {
                out.push((item.ticket, item.cargo));
                continue;
            }
            if let (Some(ticket), Cargo::Bytes(bytes)) = (item.ticket.take(), item.cargo.cargo()) {
                let copy = Kept::Owned(Box::new(bytes.to_vec()));
                out.push((Some(ticket), std::mem::replace(&mut item.cargo, copy)));
            }
            self.queue.push_back(item);
        }
        out
    }

    /// Sends a message that is one line, if nothing prevents that.
    #[inline(always)]
    pub(crate) fn send_line(&mut self, fingerprint: u32, write: impl FnOnce(&mut Line)) -> bool {
        let known = self.last == Some(fingerprint) || self.knows(fingerprint);
        known
            && self.queue.is_empty()
            && self.channels.lines.send_in_place_at_once(|words| write(Line::of_mut(words)))
    }

    /// Sends an eager message of several lines, if nothing prevents that and there is room for all of them.
    #[inline(always)]
    pub(crate) fn send_lines(&mut self, envelope: &Envelope, bytes: &[u8]) -> bool {
        let Envelope { context, tag, fingerprint, count, .. } = *envelope;
        let Some((first, rest)) = bytes.split_at_checked(FIRST) else { return false };
        let lines = &mut self.channels.lines;
        if lines.known_room() < 1 + rest.len().div_ceil(LINE) as u64 {
            return false;
        }
        let begun = self.send_line(fingerprint, |line| {
            line.put_first(wire::address(context, tag), fingerprint, count, bytes.len(), first);
        });
        // If a line can't be sent, no rank is left that could receive it.
        begun
            && rest.chunks(LINE).all(|piece| {
                self.channels.lines.send_in_place_at_once(|words| {
                    bytes_of_mut(words)[..piece.len()].copy_from_slice(piece);
                })
            })
    }

    /// Returns whether a message of this type could be sent at once, if there were room.
    #[inline(always)]
    pub(crate) fn is_ready_for(&mut self, fingerprint: u32) -> bool {
        let known = self.last == Some(fingerprint) || self.knows(fingerprint);
        known && self.queue.is_empty()
    }

    #[cold]
    fn knows(&mut self, fingerprint: u32) -> bool {
        let known = self.announced.contains(&fingerprint);
        self.last = known.then_some(fingerprint);
        known
    }

    /// Makes sure that the receiver learns the type's name before the next message.
    pub(crate) fn announce(&mut self, fingerprint: u32, element: impl FnOnce() -> ElementType) {
        if self.end.is_some() || self.announced.contains(&fingerprint) {
            return;
        }
        self.announced.push(fingerprint);
        let element = element();
        let course = Course::announcement(&element);
        self.push(course, Kept::Text(element.name), None);
    }

    /// Returns whether a message of `bytes` bytes is sent together with its payload.
    #[inline(always)]
    pub(crate) fn is_eager(&self, bytes: usize) -> bool {
        bytes <= INLINE_BYTES || is_eager(bytes, self.channels.lines.notice(), self.longest)
    }

    /// Returns where the receiver can copy a message from.
    #[inline]
    pub(crate) fn place_of(&self, bytes: &[u8]) -> Option<u64> {
        let is_long = self.direct.is_some() && bytes.len() >= DIRECT_LEAST;
        if is_long { self.channels.rank.place_of(bytes) } else { None }
    }

    /// Notes whether the receiver of a message has copied it from its place without being slow.
    pub(crate) fn was_copied(&mut self, fast: bool) {
        if let Some(lending) = &mut self.direct {
            lending.was_useful(fast);
        }
    }

    /// Returns whether the receiver is to copy a message from its place.
    #[inline]
    pub(crate) fn goes_directly(&self, bytes: &[u8]) -> bool {
        self.direct.is_some_and(|lending| lending.is_on()) && self.place_of(bytes).is_some()
    }

    /// Counts a message that was sent with its payload.
    fn passed(&mut self, bytes: usize) {
        if let Some(lending) = &mut self.direct
            && bytes >= DIRECT_LEAST
        {
            lending.pass();
        }
    }

    fn is_too_long(&self, course: &Course, cargo: &Cargo<'_>) -> bool {
        let is_direct = || matches!(cargo, Cargo::Bytes(bytes) if self.goes_directly(bytes));
        course.may_be_held() && (!self.is_eager(course.bytes) || is_direct())
    }

    /// Puts a message behind those that wait. A message that has begun goes before them, and a payload that was asked
    /// for goes before those that have not begun.
    pub(crate) fn push(&mut self, course: Course, cargo: Kept, ticket: Option<usize>) {
        self.unfinished &= !course.has_begun();
        let place = match (course.has_begun(), course.is_next()) {
            (true, _) => 0,
            (_, true) => self.queue.iter().take_while(|item| item.course.is_next()).count(),
            _ => self.queue.len(),
        };
        self.queue.insert(place, Item { course, cargo, ticket });
    }

    /// Puts the envelope of a message that was [too long](Flushed::TooLong) in front of those that wait.
    pub(crate) fn push_envelope(&mut self, envelope: &Envelope, place: Option<u64>, ticket: usize) {
        let (course, cargo) = (Course::rendezvous(envelope).at(place), Kept::Nothing);
        self.queue.push_front(Item { course, cargo, ticket: Some(ticket) });
    }

    /// Says, after everything that waits, that this rank matches nothing any more. If nothing waits and there is no
    /// room, the receiver notices it when the channel ends.
    pub(crate) fn finalize(&mut self) {
        let mut course = Course::finalize();
        if self.queue.is_empty() {
            // An error of the way makes no difference any more.
            let _ = self.advance(&mut course, &mut Cargo::Bytes(&[]), false);
        } else {
            self.push(course, Kept::Nothing, None);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.farewell.is_none()
    }

    /// Sends what waits, as far as there are free slots. Adds each message that has been sent to `gone`.
    pub(crate) fn flush(&mut self, gone: &mut Vec<Gone>) -> Result<Flushed, End> {
        if let Some(end) = &self.end {
            return match self.queue.is_empty() {
                true => Ok(Flushed::Moved(self.say_farewell())),
                false => Err(end.clone()),
            };
        }
        let mut moved = false;
        if self.unfinished {
            return Ok(Flushed::Moved(moved));
        }
        while let Some(front) = self.queue.front() {
            if self.is_too_long(&front.course, &front.cargo.cargo())
                && let Some(item) = self.queue.pop_front()
            {
                return Ok(Flushed::TooLong(item));
            }
            let Some(item) = self.queue.front_mut() else { break };
            let before = item.course.progress();
            let step = item.course.advance(&mut self.channels, &mut item.cargo.cargo(), false);
            moved |= before != item.course.progress();
            let step = match step {
                Ok(step) => step,
                Err(end) => return Err(self.stop(end)),
            };
            match step {
                Step::Full(which) => {
                    self.full = which;
                    return Ok(Flushed::Moved(moved));
                }
                // Only `SendQueue::advance` returns this; `Course::advance` does not.
                Step::TooLong => return Ok(Flushed::Moved(moved)),
                Step::Done => {
                    moved = true;
                    let Some(Item { course, cargo, ticket }) = self.queue.pop_front() else {
                        break;
                    };
                    self.passed(course.bytes);
                    if let Some(ticket) = ticket {
                        gone.push((ticket, cargo));
                    }
                }
            }
        }
        Ok(Flushed::Moved(moved))
    }

    /// Returns why nothing can be sent any more.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Stops sending for this reason, and tells the receiver. If only a part of a message has been sent, it stays so.
    /// The receiver can't be told then, because it would take the notice for the rest of that message.
    pub(crate) fn stop(&mut self, end: End) -> End {
        // [`send_line`](Self::send_line) only checks whether the type is known. From now on none is.
        self.announced.clear();
        self.last = None;
        let begun = self.queue.front().is_some_and(|item| item.course.has_begun());
        if let End::Broken(reason) = &end
            && self.end.is_none()
            && !begun
            && !self.unfinished
        {
            let reason = format!("it can send nothing more: {reason}");
            let course = Course::farewell(&reason);
            self.farewell = Some(Item { course, cargo: Kept::Text(reason), ticket: None });
        }
        self.end = Some(end.clone());
        end
    }

    /// Tells the receiver why nothing more comes, as far as there are free slots. Returns whether anything has been
    /// sent.
    fn say_farewell(&mut self) -> bool {
        let Some(Item { course, cargo, .. }) = &mut self.farewell else { return false };
        let before = course.progress();
        match course.advance(&mut self.channels, &mut cargo.cargo(), false) {
            Ok(Step::Full(which)) => {
                self.full = which;
                before != course.progress()
            }
            Ok(Step::Done | Step::TooLong) | Err(_) => {
                self.farewell = None;
                true
            }
        }
    }

    /// Returns whether a message of the caller's has begun and waits for room.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Returns everything that waits, when it can't be sent any more.
    pub(crate) fn give_up(&mut self) -> Vec<(Option<usize>, Kept)> {
        let items = std::mem::take(&mut self.queue);
        self.say_farewell();
        items.into_iter().map(|item| (item.ticket, item.cargo)).collect()
    }

    /// Takes back a message that has not begun to be sent.
    pub(crate) fn take_back(&mut self, ticket: usize) -> Option<Kept> {
        let place = self
            .queue
            .iter()
            .position(|item| item.ticket == Some(ticket) && !item.course.is_next())?;
        Some(self.queue.remove(place)?.cargo)
    }

    /// Sends a message of the caller's as far as there are free slots, behind those that wait, or before them if it has
    /// begun. If `patient` and its turn has come, sends it to the end.
    pub(crate) fn advance(
        &mut self,
        course: &mut Course,
        cargo: &mut Cargo<'_>,
        patient: bool,
    ) -> Result<Step, End> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let goes_before = |item: &Item| course.is_next() && !item.course.has_begun();
        if !course.has_begun()
            && (self.unfinished || self.queue.front().is_some_and(|item| !goes_before(item)))
        {
            return Ok(Step::Full(self.full));
        }
        if self.is_too_long(course, cargo) {
            return Ok(Step::TooLong);
        }
        self.go_on(course, cargo, patient)
    }

    fn go_on(
        &mut self,
        course: &mut Course,
        cargo: &mut Cargo<'_>,
        patient: bool,
    ) -> Result<Step, End> {
        let step = course.advance(&mut self.channels, cargo, patient);
        self.unfinished = course.has_begun() && !matches!(step, Ok(Step::Done));
        match step {
            Ok(Step::Full(which)) => self.full = which,
            Ok(Step::Done) => self.passed(course.bytes),
            _ => {}
        }
        step.map_err(|end| self.stop(end))
    }

    /// Sends an eager message of the caller's to the end, or until there is further [news](Self::heed), when none
    /// waits. It is sent in one copy if the receiver is ready for it, or in as many pieces as necessary.
    pub(crate) fn send(
        &mut self,
        envelope: &Envelope,
        course: &mut Course,
        bytes: &[u8],
    ) -> Result<Step, End> {
        if bytes.len() >= LENT_LEAST
            && self.lend(Line::first(envelope, Kind::Lent, &[]), course, bytes)?
        {
            return Ok(Step::Done);
        }
        // The caller has just found that the message may go eagerly, so it does, even if the notice has changed since.
        self.go_on(course, &mut Cargo::Bytes(bytes), true)
    }

    /// Lends the payload of a [rendezvous](Course::rendezvous) with its envelope, if that is possible and nothing
    /// waits. Returns whether it was taken. If not, the envelope has been sent if the `course` has begun.
    pub(crate) fn lend_rendezvous(
        &mut self,
        course: &mut Course,
        bytes: &[u8],
    ) -> Result<bool, End> {
        if bytes.len() < LENT_LEAST || self.unfinished || !self.queue.is_empty() {
            return Ok(false);
        }
        self.lend(course.first, course, bytes)
    }

    fn lend(&mut self, first: Line, course: &mut Course, bytes: &[u8]) -> Result<bool, End> {
        if self.end.is_some() {
            return Ok(false);
        }
        let loans = self.loans.get_or_insert_with(|| {
            let Channels { rank, to, serial, .. } = &self.channels;
            Loans { lender: rank.lender(*to, *serial), lending: Lending::default() }
        });
        let lent = loans.lend(&mut self.channels, first, course, bytes);
        lent.map_err(|end| self.stop(end))
    }

    /// Adds the channel that was full to the wait.
    pub(crate) fn wait_in<'a>(&'a self, select: &mut Select<'a>) {
        match (self.full, &self.channels.chunks) {
            (Which::Chunks, Some(chunks)) => select.add_sender(chunks),
            _ => select.add_sender(&self.channels.lines),
        };
    }
}
