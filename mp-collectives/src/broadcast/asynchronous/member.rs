//! One rank's part in algorithm 2.

use std::collections::VecDeque;
use std::sync::Arc;

use mp_core::mpb::{Interrupts, Line, MpbAccess};
use mp_model::tree::{Node, Shape};

use super::header::{Header, Kind};
use super::inbox::{Delivery, Inbox, PlaceError, Whole};
use super::{AsyncError, AsyncOptions, AsyncOptionsError, Leaves, Order};

/// The rank that determines the order in which messages are handled, where all ranks must have the same order.
const SEQUENCER: usize = 0;

/// One rank's part in asynchronous broadcasts: its state and its steps. None of the steps waits; the [module's
/// documentation](super) says what calls them and when.
#[derive(Debug)]
pub struct Member {
    shape: Shape,
    options: AsyncOptions,
    rank: usize,
    line_bytes: usize,
    chunk_bytes: usize,
    links: Vec<Link>,
    /// The children that have yet to take what is in this rank's MPB. The MPB is available when there are none.
    awaited: VecDeque<usize>,
    /// The entries to be published, in this order.
    queue: VecDeque<Entry>,
    inbox: Inbox,
    /// The number of this rank's own chunks, modulo 2³².
    sent: u32,
    /// How many more chunks the window is certain to admit.
    room: u32,
    /// The sources whose messages have no place in the order yet, at the sequencer.
    unordered: Vec<usize>,
    /// The number of chunks in the queue that announce an order.
    orders_queued: usize,
    farewell: Farewell,
    /// A buffer for headers that are put or got.
    header: [u8; Header::BYTES],
}

/// The state between this rank and another. Counts are modulo 2³².
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The number of chunks published for it as a child.
    published: u32,
    /// The value of its flag here when it was last read.
    said: Answer,
    /// The value that this rank's flag there is to have.
    own: Answer,
    /// How many of its handled chunks the other rank has been told of.
    told: u32,
}

/// The value of a rank's flag in the MPB of another rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    /// The number of chunks taken from its MPB.
    taken: u32,
    /// The number of chunks handled whose source it is.
    handled: u32,
}

impl Answer {
    fn value(self) -> u64 {
        u64::from(self.taken) << 32 | u64::from(self.handled)
    }

    fn of(value: u64) -> Answer {
        Answer { taken: (value >> 32) as u32, handled: value as u32 }
    }
}

#[derive(Debug)]
enum Entry {
    Chunk(Chunk),
    /// The turn of the sender, which has the chunk.
    Turn,
}

#[derive(Debug)]
struct Chunk {
    header: Header,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    /// A part of a message that is being assembled.
    Growing,
    /// The bytes of a complete message, from this position on.
    Kept(Arc<Vec<u8>>, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    No,
    /// The farewell is to be queued.
    Wanted,
    Queued,
}

/// How much of a message has been sent.
#[derive(Debug, Default)]
pub struct Sending {
    offset: usize,
    /// Whether the chunk at the offset counts in the window.
    admitted: bool,
    /// Whether its turn is in the queue.
    queued: bool,
    done: bool,
}

/// The outcome of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All of the message is in transit, and its buffer can be reused.
    Done,
    /// This rank's MPB is not available: try again when [`Member::progress`] has made it available.
    Busy,
    /// This rank has yet to handle earlier messages of the sender: try again when it has reported that, which
    /// [`Member::flag_of`] shows.
    Window(usize),
}

impl Member {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`AsyncOptionsError`].
    pub fn new<M: MpbAccess>(mpb: &M, options: AsyncOptions) -> Result<Member, AsyncOptionsError> {
        let shape = Shape::new(mpb.ranks(), options.degree)?;
        let (lines, line_bytes) = (mpb.lines(), mpb.line_bytes());
        let AsyncOptions { chunk_lines, window, first_line, .. } = options;
        if chunk_lines == 0 {
            return Err(AsyncOptionsError::NoChunk);
        }
        if window == 0 || window > u32::MAX / 2 {
            return Err(AsyncOptionsError::Window { window });
        }
        let flags = AsyncOptions::lines_before_chunk(shape.ranks(), line_bytes);
        let end = flags.checked_add(chunk_lines).and_then(|end| end.checked_add(first_line));
        if end.is_none_or(|end| end > lines) {
            return Err(AsyncOptionsError::NoRoom { flags, chunk_lines, first_line, lines });
        }
        let chunk_bytes = chunk_lines.saturating_mul(line_bytes);
        Ok(Member {
            shape,
            options,
            rank: mpb.rank(),
            line_bytes,
            chunk_bytes,
            links: vec![Link::default(); shape.ranks()],
            awaited: VecDeque::new(),
            queue: VecDeque::new(),
            inbox: Inbox::new(shape.ranks(), chunk_bytes, &options),
            sent: 0,
            room: window,
            unordered: Vec::new(),
            orders_queued: 0,
            farewell: Farewell::No,
            header: [0; Header::BYTES],
        })
    }

    /// Continues as if all ranks had sent, taken and handled this many chunks before, modulo 2³²; the number must be
    /// the same at all ranks. It shows in a short time what happens when the counts wrap around. The flags must have
    /// that value too: this rank's own lines are set.
    ///
    /// # Errors
    /// The errors of the MPBs.
    pub async fn counted_from<M: MpbAccess>(
        mut self,
        mpb: &mut M,
        before: u32,
    ) -> Result<Member, M::Error> {
        let answer = Answer { taken: before, handled: before };
        self.links.fill(Link { published: before, said: answer, own: answer, told: before });
        self.sent = before;
        for rank in 0..self.shape.ranks() {
            let flag = Line { rank: self.rank, line: self.flag_of(rank) };
            mpb.set_flag(flag, answer.value()).await?;
        }
        Ok(self)
    }

    /// Returns the number of bytes in the longest chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Returns the line of this rank's MPB that holds the flag of another rank.
    pub fn flag_of(&self, rank: usize) -> usize {
        self.options.first_line + rank
    }

    /// Returns the child that has been awaited longest, if this rank's MPB is not available. Its flag changes when it
    /// has taken what is there.
    pub fn awaited(&self) -> Option<usize> {
        self.awaited.front().copied()
    }

    /// Returns whether something is to be published as soon as this rank's MPB is available.
    pub fn is_queued(&self) -> bool {
        !self.queue.is_empty() || !self.unordered.is_empty()
    }

    /// Returns the value of another rank's flag when it was last read.
    pub fn said(&self, rank: usize) -> u64 {
        self.links[rank].said.value()
    }

    /// Records that the flag of a rank was read while waiting for it, with its value.
    pub fn saw(&mut self, rank: usize, value: u64) {
        self.links[rank].said = Answer::of(value);
        while self.awaited.front().is_some_and(|&child| self.has_taken(child)) {
            self.awaited.pop_front();
        }
    }

    /// Sends as much of a message as can be sent now (algorithm 2, lines 8 to 14). Chunks keep their turn among those
    /// that are to be forwarded. No other message may be sent before this one is done.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn send<M: Interrupts>(
        &mut self,
        mpb: &mut M,
        message: &[u8],
        sending: &mut Sending,
    ) -> Result<Progress, AsyncError<M::Error>> {
        while !sending.done {
            if let Some(rank) = self.admit(mpb, sending).await? {
                return Ok(Progress::Window(rank));
            }
            self.progress(mpb).await?;
            match self.queue.front() {
                Some(Entry::Turn) if self.awaited.is_empty() => {
                    self.queue.pop_front();
                }
                None if self.awaited.is_empty() => {}
                _ => {
                    if !sending.queued {
                        self.queue.push_back(Entry::Turn);
                        sending.queued = true;
                    }
                    return Ok(Progress::Busy);
                }
            }
            let header = self.own_header(Kind::Message, message.len(), sending.offset);
            let end = self.end(header);
            self.put_and_notify(mpb, header, &message[sending.offset..end]).await?;
            self.sent_chunk(message, sending)?;
            self.tell(mpb, self.rank).await?;
        }
        Ok(Progress::Done)
    }

    /// Does what [`send`](Member::send) does, but copies what cannot be published now, as far as the window allows, so
    /// that the caller need not wait for its turn.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn send_or_copy<M: Interrupts>(
        &mut self,
        mpb: &mut M,
        message: &[u8],
        sending: &mut Sending,
    ) -> Result<Progress, AsyncError<M::Error>> {
        while !sending.done {
            if let Some(rank) = self.admit(mpb, sending).await? {
                return Ok(Progress::Window(rank));
            }
            self.progress(mpb).await?;
            let header = self.own_header(Kind::Message, message.len(), sending.offset);
            let chunk = &message[sending.offset..self.end(header)];
            if self.awaited.is_empty() && self.queue.is_empty() {
                self.put_and_notify(mpb, header, chunk).await?;
            } else {
                let bytes = Bytes::Kept(Arc::new(copy(chunk)?), 0);
                self.queue.push_back(Entry::Chunk(Chunk { header, bytes }));
            }
            self.sent_chunk(message, sending)?;
            self.tell(mpb, self.rank).await?;
        }
        Ok(Progress::Done)
    }

    /// Returns whether the window admits this many chunks; if it does not, returns a rank to wait for.
    ///
    /// # Errors
    /// The errors of the MPBs.
    pub async fn has_room<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        chunks: u32,
    ) -> Result<Result<(), usize>, M::Error> {
        if self.room >= chunks {
            return Ok(Ok(()));
        }
        let mut room = self.options.window;
        for rank in 0..self.links.len() {
            if rank == self.rank && self.options.order == Order::PerSource {
                continue;
            }
            if self.room_at(rank) < chunks {
                self.read_flag(mpb, rank).await?;
            }
            if self.room_at(rank) < chunks {
                return Ok(Err(rank));
            }
            room = room.min(self.room_at(rank));
        }
        self.room = room;
        Ok(Ok(()))
    }

    /// Returns how many chunks a message of `bytes` bytes has.
    pub fn chunks(&self, bytes: usize) -> usize {
        self.inbox.chunks(bytes)
    }

    /// Takes the chunk for which this rank's parent has interrupted it (algorithm 2, lines 16 to 30). If this rank's
    /// MPB is available, the chunk goes there and on to the children; otherwise it goes into memory and the queue.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn receive<M: Interrupts>(
        &mut self,
        mpb: &mut M,
        parent: usize,
    ) -> Result<(), AsyncError<M::Error>> {
        self.progress(mpb).await?;
        let wrong = |what| AsyncError::Corrupt { rank: parent, what };
        mpb.get(self.header_line(parent), &mut self.header).await?;
        let (header, options) = Header::decode(&self.header).ok_or(wrong("no header"))?;
        if options != self.options.fingerprint() {
            return Err(wrong("it has other options"));
        }
        let node = self.node(header.source).ok_or(wrong("no such source"))?;
        if node.parent() != Some(parent) {
            return Err(wrong("not the parent in the source's tree"));
        }
        if header.kind == Kind::Order && header.source != SEQUENCER {
            return Err(wrong("an order that is not the sequencer's"));
        }
        self.inbox.place(header).map_err(|error| match error {
            PlaceError::Wrong(what) => wrong(what),
            PlaceError::OutOfMemory { bytes } => AsyncError::OutOfMemory { bytes },
        })?;
        let at_once =
            header.kind == Kind::Message && self.inbox.counts_at_once(header.length, header.offset);
        self.links[header.source].own.handled =
            self.links[header.source].own.handled.wrapping_add(at_once.into());

        let by_mpb = !node.is_leaf() || self.options.leaves == Leaves::ByMpb;
        if by_mpb && self.awaited.is_empty() && self.queue.is_empty() {
            let first = self.header_line(self.rank).line;
            let lines = (self.end(header) - header.offset).div_ceil(self.line_bytes);
            mpb.get_own(self.header_line(parent), self.header_lines() + lines, first).await?;
            self.take(mpb, parent).await?;
            self.notify(mpb, node).await?;
            mpb.get(self.chunk_line(self.rank), self.inbox.chunk(header)).await?;
        } else {
            mpb.get(self.chunk_line(parent), self.inbox.chunk(header)).await?;
            self.take(mpb, parent).await?;
            if !node.is_leaf() {
                self.queue.push_back(Entry::Chunk(Chunk { header, bytes: Bytes::Growing }));
            }
        }
        if let Some(whole) = self.inbox.take_whole(header) {
            self.keep(&whole);
            self.arrived(whole).map_err(wrong)?;
        }
        self.tell(mpb, header.source).await?;
        self.progress(mpb).await
    }

    /// Checks whether the children have taken what is in this rank's MPB; if they have, publishes the next entry in the
    /// queue (algorithm 2, lines 31 to 36).
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn progress<M: Interrupts>(
        &mut self,
        mpb: &mut M,
    ) -> Result<(), AsyncError<M::Error>> {
        loop {
            while let Some(&child) = self.awaited.front() {
                self.read_flag(mpb, child).await?;
                if self.awaited.front() == Some(&child) {
                    return Ok(());
                }
            }
            self.queue_order()?;
            self.queue_farewell();
            if !matches!(self.queue.front(), Some(Entry::Chunk(_))) {
                return Ok(());
            }
            let Some(Entry::Chunk(Chunk { header, bytes })) = self.queue.pop_front() else {
                return Ok(());
            };
            self.orders_queued -=
                usize::from(header.kind == Kind::Order && header.source == self.rank);
            let length = self.end(header) - header.offset;
            let node = self.node(header.source);
            self.header = header.encode(self.options.fingerprint());
            mpb.put(&self.header, self.header_line(self.rank)).await?;
            let bytes = match &bytes {
                Bytes::Growing => self.inbox.part(header, length),
                Bytes::Kept(bytes, start) => &bytes[*start..start + length],
            };
            mpb.put(bytes, self.chunk_line(self.rank)).await?;
            if let Some(node) = node {
                self.notify(mpb, node).await?;
            }
        }
    }

    /// Returns the next message to be handled. [`handled`](Member::handled) must be called when it has been handled.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        self.inbox.next()
    }

    /// Returns whether there is a message to be handled.
    pub fn has_delivery(&self) -> bool {
        self.inbox.is_ready()
    }

    /// Reports that a message has been handled, so that its source may send more.
    ///
    /// # Errors
    /// The errors of the MPBs.
    pub async fn handled<M: Interrupts>(
        &mut self,
        mpb: &mut M,
        delivery: Delivery,
    ) -> Result<(), M::Error> {
        let own = &mut self.links[delivery.source].own;
        own.handled = own.handled.wrapping_add(delivery.chunks);
        self.tell(mpb, delivery.source).await
    }

    /// Announces that this rank will send no more messages. It still has to take part until
    /// [`is_over`](Member::is_over).
    pub fn say_farewell(&mut self) {
        if self.farewell == Farewell::No {
            self.farewell = Farewell::Wanted;
        }
    }

    /// Returns whether this rank has said farewell.
    pub fn has_said_farewell(&self) -> bool {
        self.farewell != Farewell::No
    }

    /// Returns whether something waits for the awaited child's answer.
    pub fn wants_answer(&self) -> bool {
        !self.awaited.is_empty() && (self.is_queued() || self.has_said_farewell())
    }

    /// Returns whether all ranks have said farewell, everything that came has been passed on and handled, and nothing
    /// more can come.
    pub fn is_over(&self) -> bool {
        self.farewell == Farewell::Queued
            && self.queue.is_empty()
            && self.awaited.is_empty()
            && self.inbox.others_finished(self.rank)
            && self.inbox.is_empty()
    }

    /// Returns the number of bytes of the messages kept here: growing, to be handled, or to be forwarded.
    pub fn kept_bytes(&self) -> usize {
        let (growing, whole) = self.inbox.kept();
        let queued = self.queue.iter().filter_map(|entry| match entry {
            Entry::Chunk(Chunk { bytes: Bytes::Kept(bytes, _), .. }) => Some(bytes),
            _ => None,
        });
        let mut kept: Vec<_> = whole.chain(queued).map(|m| (Arc::as_ptr(m), m.len())).collect();
        kept.sort_unstable();
        kept.dedup();
        growing + kept.iter().map(|(_, bytes)| bytes).sum::<usize>()
    }

    /// Lets the next chunk into the window, or returns the rank to wait for.
    async fn admit<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        sending: &mut Sending,
    ) -> Result<Option<usize>, AsyncError<M::Error>> {
        if self.has_said_farewell() {
            return Err(AsyncError::Farewell);
        }
        if !sending.admitted {
            if let Err(rank) = self.has_room(mpb, 1).await? {
                return Ok(Some(rank));
            }
            self.room -= 1;
            self.sent = self.sent.wrapping_add(1);
            sending.admitted = true;
        }
        Ok(None)
    }

    /// Records that the chunk at the offset is in transit.
    fn sent_chunk<E: std::error::Error>(
        &mut self,
        message: &[u8],
        sending: &mut Sending,
    ) -> Result<(), AsyncError<E>> {
        let header = self.own_header(Kind::Message, message.len(), sending.offset);
        let end = self.end(header);
        if self.options.order == Order::Total
            && self.inbox.counts_at_once(message.len(), header.offset)
        {
            let own = &mut self.links[self.rank].own;
            own.handled = own.handled.wrapping_add(1);
        }
        *sending = Sending { offset: end, done: end == message.len(), ..Sending::default() };
        if sending.done && self.options.order == Order::Total {
            self.inbox.deliver(self.rank, Arc::new(copy(message)?));
            self.wants_place(self.rank);
        }
        Ok(())
    }

    fn wants_place(&mut self, source: usize) {
        if self.rank == SEQUENCER {
            self.unordered.push(source);
        }
    }

    /// Handles the arrival of a complete message.
    fn arrived(&mut self, whole: Whole) -> Result<(), &'static str> {
        let Whole { header, bytes } = whole;
        match header.kind {
            Kind::Message => {
                self.inbox.deliver(header.source, bytes);
                if self.options.order == Order::Total {
                    self.wants_place(header.source);
                }
            }
            Kind::Order => self.inbox.sequence(&bytes)?,
            Kind::Farewell => self.inbox.finish(header.source),
        }
        Ok(())
    }

    /// Makes the queued parts of a message that was growing refer to the complete message.
    fn keep(&mut self, whole: &Whole) {
        for entry in &mut self.queue {
            if let Entry::Chunk(Chunk { header, bytes: bytes @ Bytes::Growing }) = entry
                && whole.header == (Header { offset: 0, ..*header })
            {
                *bytes = Bytes::Kept(Arc::clone(&whole.bytes), header.offset);
            }
        }
    }

    /// Gives places in the order to messages that have none. Does so only when no such order message is in the queue,
    /// so that under load one order message serves many messages.
    fn queue_order<E: std::error::Error>(&mut self) -> Result<(), AsyncError<E>> {
        if self.unordered.is_empty() || self.orders_queued > 0 {
            return Ok(());
        }
        let entry = |source: usize| (source as u32).to_le_bytes();
        let message: Vec<u8> = self.unordered.drain(..).flat_map(entry).collect();
        let wrong = |what| AsyncError::Corrupt { rank: self.rank, what };
        self.inbox.sequence(&message).map_err(wrong)?;
        self.orders_queued = self.queue_own(Kind::Order, message);
        Ok(())
    }

    /// Queues the farewell. The sequencer is the last to leave, because the others' messages may need a place.
    fn queue_farewell(&mut self) {
        let sequences = self.options.order == Order::Total && self.rank == SEQUENCER;
        let waits =
            sequences && !(self.inbox.others_finished(self.rank) && self.unordered.is_empty());
        if self.farewell == Farewell::Wanted && !waits {
            self.farewell = Farewell::Queued;
            self.queue_own(Kind::Farewell, Vec::new());
        }
    }

    /// Puts a message of this rank into the queue that does not count in the window. Returns the number of its chunks.
    fn queue_own(&mut self, kind: Kind, message: Vec<u8>) -> usize {
        if self.shape.ranks() == 1 {
            return 0;
        }
        let message = Arc::new(message);
        let chunks = self.inbox.chunks(message.len());
        for offset in (0..chunks).map(|chunk| chunk * self.chunk_bytes) {
            let header = self.own_header(kind, message.len(), offset);
            let bytes = Bytes::Kept(Arc::clone(&message), offset);
            self.queue.push_back(Entry::Chunk(Chunk { header, bytes }));
        }
        chunks
    }

    /// Puts one of this rank's own chunks into its available MPB and tells the children.
    async fn put_and_notify<M: Interrupts>(
        &mut self,
        mpb: &mut M,
        header: Header,
        chunk: &[u8],
    ) -> Result<(), AsyncError<M::Error>> {
        let Some(node) = self.node(self.rank).filter(|node| !node.is_leaf()) else {
            return Ok(());
        };
        self.header = header.encode(self.options.fingerprint());
        mpb.put(&self.header, self.header_line(self.rank)).await?;
        mpb.put(chunk, self.chunk_line(self.rank)).await?;
        self.notify(mpb, node).await
    }

    async fn notify<M: Interrupts>(
        &mut self,
        mpb: &mut M,
        node: Node,
    ) -> Result<(), AsyncError<M::Error>> {
        if !node.is_leaf() {
            for child in node.children() {
                self.awaited.push_back(child);
                self.links[child].published = self.links[child].published.wrapping_add(1);
            }
            mpb.interrupt(node.children()).await?;
        }
        Ok(())
    }

    /// Reports that the chunk in the parent's MPB has been taken.
    async fn take<M: Interrupts>(&mut self, mpb: &mut M, parent: usize) -> Result<(), M::Error> {
        let own = &mut self.links[parent].own;
        own.taken = own.taken.wrapping_add(1);
        self.answer(mpb, parent).await
    }

    /// Tells a source how many of its chunks have been handled, when they are half a window.
    async fn tell<M: Interrupts>(&mut self, mpb: &mut M, source: usize) -> Result<(), M::Error> {
        let Link { own, told, .. } = self.links[source];
        let untold = own.handled.wrapping_sub(told);
        let counts = source != self.rank || self.options.order == Order::Total;
        if counts && untold >= self.options.told_after() {
            self.answer(mpb, source).await?;
        }
        Ok(())
    }

    async fn answer<M: Interrupts>(&mut self, mpb: &mut M, rank: usize) -> Result<(), M::Error> {
        let link = &mut self.links[rank];
        link.told = link.own.handled;
        let value = link.own.value();
        mpb.answer(Line { rank, line: self.flag_of(self.rank) }, value).await
    }

    async fn read_flag<M: MpbAccess>(&mut self, mpb: &mut M, rank: usize) -> Result<(), M::Error> {
        let value = mpb.flag(self.flag_of(rank)).await?;
        self.saw(rank, value);
        Ok(())
    }

    fn has_taken(&self, child: usize) -> bool {
        self.links[child].said.taken == self.links[child].published
    }

    /// Returns how much of the window a rank leaves open, as far as is known.
    fn room_at(&self, rank: usize) -> u32 {
        let unhandled = self.sent.wrapping_sub(self.links[rank].said.handled);
        self.options.window.saturating_sub(unhandled)
    }

    fn node(&self, source: usize) -> Option<Node> {
        self.shape.rooted(source).and_then(|tree| tree.node(self.rank)).ok()
    }

    fn own_header(&self, kind: Kind, length: usize, offset: usize) -> Header {
        Header { kind, source: self.rank, length, offset }
    }

    /// Returns the position in its message where a chunk ends.
    fn end(&self, header: Header) -> usize {
        header.length.min(header.offset.saturating_add(self.chunk_bytes))
    }

    fn header_lines(&self) -> usize {
        Header::BYTES.div_ceil(self.line_bytes)
    }

    fn header_line(&self, rank: usize) -> Line {
        Line { rank, line: self.options.first_line + self.shape.ranks() }
    }

    fn chunk_line(&self, rank: usize) -> Line {
        self.header_line(rank).offset(self.header_lines())
    }
}

fn copy<E: std::error::Error>(bytes: &[u8]) -> Result<Vec<u8>, AsyncError<E>> {
    let mut copy = Vec::new();
    let failed = |_| AsyncError::OutOfMemory { bytes: bytes.len() };
    copy.try_reserve_exact(bytes.len()).map_err(failed)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}
