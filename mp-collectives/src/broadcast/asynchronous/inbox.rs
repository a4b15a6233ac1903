//! The messages that have come to a rank: those that are being assembled, and those that are complete, in the order in
//! which they may be handled.

use std::collections::VecDeque;
use std::sync::Arc;

use super::header::{Header, Kind};
use super::{AsyncOptions, Order};

/// A message to be handled.
#[derive(Debug)]
pub struct Delivery {
    pub(super) source: usize,
    pub(super) message: Arc<Vec<u8>>,
    /// How many of the source's chunks count as handled with it.
    pub(super) chunks: u32,
}

impl Delivery {
    /// Returns the rank that sent the message.
    pub fn source(&self) -> usize {
        self.source
    }

    /// Returns the contents of the message.
    pub fn message(&self) -> &[u8] {
        &self.message
    }
}

/// What is wrong with data that has come.
pub(super) type Wrong = &'static str;

#[derive(Debug)]
pub(super) struct Inbox {
    order: Order,
    ranks: usize,
    chunk_bytes: usize,
    /// How many of a message's last chunks count only when the message is handled.
    last: usize,
    sources: Vec<Source>,
    ready: VecDeque<Delivery>,
    /// The ranks whose messages come next, as far as the sequencer has said. Only with a total order.
    sequence: VecDeque<usize>,
}

#[derive(Debug, Default)]
struct Source {
    /// A message of the user and one of the sequencer, whose chunks may alternate.
    growing: [Option<Growing>; 2],
    /// Messages that have no place in the total order yet.
    held: VecDeque<Delivery>,
    finished: bool,
}

#[derive(Debug)]
struct Growing {
    header: Header,
    bytes: Vec<u8>,
}

/// A message that has become complete.
pub(super) struct Whole {
    pub(super) header: Header,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Inbox {
    pub(super) fn new(ranks: usize, chunk_bytes: usize, options: &AsyncOptions) -> Inbox {
        Inbox {
            order: options.order,
            ranks,
            chunk_bytes,
            last: options.counted_with_message() as usize,
            sources: (0..ranks).map(|_| Source::default()).collect(),
            ready: VecDeque::new(),
            sequence: VecDeque::new(),
        }
    }

    /// Returns the number of chunks of a message: at least one.
    pub(super) fn chunks(&self, length: usize) -> usize {
        length.div_ceil(self.chunk_bytes).max(1)
    }

    /// Returns whether the chunk counts as handled as soon as it has arrived, as all chunks but the last ones do. A
    /// message longer than the window could not be sent otherwise.
    pub(super) fn counts_at_once(&self, length: usize, offset: usize) -> bool {
        self.chunks(length) - offset / self.chunk_bytes > self.last
    }

    /// Makes room for the chunk that this header announces.
    ///
    /// # Errors
    /// Fails when the header contradicts what came before.
    pub(super) fn place(&mut self, header: Header) -> Result<(), PlaceError> {
        let source = &mut self.sources[header.source];
        if source.finished {
            return Err(PlaceError::Wrong("something comes after a farewell"));
        }
        let growing = &mut source.growing[kind(header)];
        if header.offset == 0 {
            if growing.is_some() {
                return Err(PlaceError::Wrong("a message begins within another"));
            }
            let mut bytes = Vec::new();
            bytes
                .try_reserve_exact(header.length)
                .map_err(|_| PlaceError::OutOfMemory { bytes: header.length })?;
            *growing = Some(Growing { header: Header { offset: 0, ..header }, bytes });
        }
        match growing {
            Some(Growing { header: first, bytes })
                if *first == (Header { offset: 0, ..header }) && bytes.len() == header.offset =>
            {
                let end = header.length.min(header.offset.saturating_add(self.chunk_bytes));
                bytes.resize(end, 0);
                Ok(())
            }
            _ => Err(PlaceError::Wrong("chunks do not follow each other")),
        }
    }

    /// Returns the bytes of a chunk of a message that is being assembled.
    pub(super) fn chunk(&mut self, header: Header) -> &mut [u8] {
        match &mut self.sources[header.source].growing[kind(header)] {
            Some(growing) => &mut growing.bytes[header.offset..],
            None => &mut [],
        }
    }

    /// Returns a part of a message that is being assembled.
    pub(super) fn part(&self, header: Header, length: usize) -> &[u8] {
        self.sources[header.source].growing[kind(header)]
            .as_ref()
            .and_then(|growing| growing.bytes.get(header.offset..header.offset + length))
            .unwrap_or_default()
    }

    /// Returns the message that this chunk belongs to, if the chunk was the last one.
    pub(super) fn take_whole(&mut self, header: Header) -> Option<Whole> {
        let growing = &mut self.sources[header.source].growing[kind(header)];
        let Growing { header, bytes } =
            growing.take_if(|growing| growing.bytes.len() == growing.header.length)?;
        Some(Whole { header, bytes: Arc::new(bytes) })
    }

    /// Delivers a complete message to be handled: now, or when its turn comes.
    pub(super) fn deliver(&mut self, source: usize, message: Arc<Vec<u8>>) {
        let chunks = self.chunks(message.len()).min(self.last) as u32;
        let delivery = Delivery { source, message, chunks };
        match self.order {
            Order::PerSource => self.ready.push_back(delivery),
            Order::Total => {
                self.sources[source].held.push_back(delivery);
                self.release();
            }
        }
    }

    /// Reads the sequencer's message about whose messages come next.
    pub(super) fn sequence(&mut self, message: &[u8]) -> Result<(), Wrong> {
        let (entries, rest) = message.as_chunks();
        if !rest.is_empty() {
            return Err("half a place in the order");
        }
        for &entry in entries {
            let source = u32::from_le_bytes(entry) as usize;
            if source >= self.ranks {
                return Err("a place in the order for a rank that is not there");
            }
            self.sequence.push_back(source);
        }
        self.release();
        Ok(())
    }

    fn release(&mut self) {
        while let Some(&source) = self.sequence.front() {
            let Some(delivery) = self.sources[source].held.pop_front() else { break };
            self.sequence.pop_front();
            self.ready.push_back(delivery);
        }
    }

    pub(super) fn finish(&mut self, source: usize) {
        self.sources[source].finished = true;
    }

    /// Returns whether all ranks but `rank` have said farewell.
    pub(super) fn others_finished(&self, rank: usize) -> bool {
        self.sources.iter().enumerate().all(|(source, state)| source == rank || state.finished)
    }

    pub(super) fn next(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Returns whether a message can be handled.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether there are no complete or incomplete messages.
    pub(super) fn is_empty(&self) -> bool {
        let empty =
            |source: &Source| source.held.is_empty() && source.growing.iter().all(Option::is_none);
        self.ready.is_empty() && self.sources.iter().all(empty)
    }

    /// Returns the number of bytes of the growing messages, and the complete messages.
    pub(super) fn kept(&self) -> (usize, impl Iterator<Item = &Arc<Vec<u8>>>) {
        let growing = self.sources.iter().flat_map(|source| source.growing.iter().flatten());
        let held = self.sources.iter().flat_map(|source| &source.held);
        let whole = held.chain(&self.ready).map(|delivery| &delivery.message);
        (growing.map(|growing| growing.header.length).sum(), whole)
    }
}

fn kind(header: Header) -> usize {
    usize::from(header.kind != Kind::Message)
}

/// The reason why there is no place for a chunk.
pub(super) enum PlaceError {
    Wrong(Wrong),
    OutOfMemory { bytes: usize },
}
