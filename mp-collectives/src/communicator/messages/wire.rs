//! The layout of messages in the channels between two ranks.
//!
//! A message begins with a line, which is one message of a channel and, with its number there, one
//! line of the cache:
//!
//! ```text
//! context: u32, tag: u32                     8 bytes, compared as one word
//! fingerprint: u32, sync: u16, kind, count   8 bytes
//! up to 40 bytes of elements; or the count, the bytes (48 bits) with the upper half of sync above them,
//! and 24 bytes of elements or the loan
//! ```
//!
//! A synchronous send whose number has more than 16 bits is never `INLINE`.
//!
//! | kind | the rest of it |
//! |---|---|
//! | `INLINE` | nothing: all elements are in the line |
//! | `LINES` | follows in the same channel, 56 bytes in each line |
//! | `CHUNKS` | comes through a second channel with larger slots, in the order of the lines |
//! | `MOVED` | is the shared buffer that comes through the second channel, in the order of the lines |
//! | `ACK` | nothing: the synchronous send, or `RENDEZVOUS`, of this number was matched, or dropped if the tag is 1 |
//! | `LENT` | is on [loan](mp_core::loan), for a moment; after that it comes as `CHUNKS` |
//! | `TYPE` | as `LINES`: the name of the type that has this fingerprint |
//! | `FAREWELL` | as `LINES`: why the sender can send nothing more |
//! | `RENDEZVOUS` | may be on loan for a moment; after that stays with the sender until the receiver has a receive for it and sends the `ACK` of its number. If the line has its place, the receiver may copy it first, and says so by tag 2, or 3 if that was slow |
//! | `PAYLOAD` | as `CHUNKS`: the elements of the `RENDEZVOUS` of this number |
//! | `CELLS` | lies in [cells](super::cells): this line has the place of the first piece, and each further line that of the next one, or says that the rest comes as `CHUNKS` |
//! | `FINALIZE` | nothing: the sender will match nothing any more, and send nothing but `PAYLOAD` |
//!
//! [`eager`](crate::communicator::messages::eager) explains which messages are sent as a `RENDEZVOUS`, and why.

use std::ops::RangeInclusive;

use bytemuck::{Pod, Zeroable};
use mp_core::Plain;

/// Bytes of a line.
pub(crate) const LINE: usize = 56;
/// Bytes of a message that goes in one line.
pub(crate) const INLINE_BYTES: usize = 40;
/// Bytes of a longer message in its first line.
pub(crate) const FIRST: usize = 24;
/// Messages of more than this many bytes go in chunks. Up to here, a line with its own word costs no more than a slot
/// whose word lies in another line.
pub(crate) const LINES_MOST: usize = FIRST + 8 * LINE;

/// Slots of a channel of lines: the number of lines that can be pending without waiting for the receiver.
pub(crate) const LINES: u32 = 128;
/// The largest number of bytes of a chunk.
pub(crate) const CHUNK: usize = 32 << 10;
/// Messages of at least this many bytes are cut into chunks of [`CHUNK`] bytes. Shorter ones are cut into halves of
/// such a chunk, so that the receiver begins sooner: 64 KiB take a tenth less time (`cargo bench --bench ratios --
/// tagged`). Cutting messages that fit into half a chunk would cost more than it gains.
pub(crate) const HALVED: usize = 4 * CHUNK;
/// The number of chunks that may be pending to a rank, if the channel has as many slots. Two ranks that each send 64
/// messages of 512 bytes before they receive any take less than half the time that they take with 8.
pub(crate) const WINDOW: u32 = 64;

/// The number of bytes of a [cell](super::cells).
pub(crate) const CELL: usize = CHUNK / 2;
/// The number of cells that each of two ranks has at first.
pub(crate) const CELLS: u32 = 8;
/// The lengths of messages that go in cells: half of a rank's cells at most, so that it has some for the next message.
/// For a shorter message a cell costs more than it saves. Longer ones that two ranks send each other at the same time
/// are faster in chunks, because all cells together are in the caches of both ranks, and not all chunks are.
pub(crate) const IN_CELLS: RangeInclusive<usize> = 4 << 10..=CELLS as usize / 2 * CELL;

/// From this number of bytes on, a message that fits into a cell is sent in halves.
const HALVED_CELL: usize = CELL / 2 + 1;

/// Returns the number of bytes of the pieces of a message of `bytes` bytes that goes in cells.
pub(crate) fn piece_of(bytes: usize) -> usize {
    // The receiver copies the first half of such a message while the sender copies the second: 16 KiB take a tenth less
    // time. Halves of shorter messages would take longer.
    match bytes {
        HALVED_CELL..=CELL => bytes.div_ceil(2).next_multiple_of(64),
        _ => CELL,
    }
}

/// Returns how many slots a channel of chunks has in a world of `ranks` ranks, whose rings are made for `cache` bytes
/// ([`Rank::cache_for_rings`](mp_core::Rank::cache_for_rings)).
///
/// A line that its reader still has in a cache must be taken away from there before it is written again. A core does
/// that for a few lines at a time only: 64 KiB took 8.3 µs in a ring that stayed in the caches, and 2.5 µs in one that
/// is larger (`cargo bench --bench ratios -- tagged.64KB tagged.1MB`). So all rings to a rank together are four times
/// as large as its cache, but each has 256 KiB at least. Twice the cache is not enough, because a chunk of a short
/// message fills only a part of its slot.
pub(crate) fn chunks(ranks: usize, cache: usize) -> u32 {
    const FEWEST: usize = 8;
    const MOST: usize = 256;
    let bytes = cache.saturating_mul(4) / ranks.saturating_sub(1).max(1);
    (bytes / CHUNK).clamp(FEWEST, MOST) as u32
}

/// Messages of at least this many bytes are copied [from their place](super::direct) where that is wanted and possible.
/// Shorter ones take as long through cells, if both ranks send at the same time.
pub(crate) const DIRECT_LEAST: usize = 16 << 10;

/// Messages of at least this many bytes are lent where possible. A message that is sent again, and is still in the
/// receiver's caches, takes at most half as long as in chunks. A message that was written anew takes as long as in
/// chunks with 8 KiB or 1 MiB, and a fifth longer with 64 KiB, because the sender must get its lines back before it
/// writes there again.
pub(crate) const LENT_LEAST: usize = 4 << 10;

/// Bits of a message's length in bytes: no process has more addresses.
const BYTES_BITS: u32 = 48;

/// How a message travels. A byte in its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Inline = 1,
    Lines = 2,
    Chunks = 3,
    Moved = 4,
    Ack = 5,
    Type = 6,
    Lent = 7,
    Farewell = 8,
    Rendezvous = 9,
    Payload = 10,
    Finalize = 11,
    Cells = 12,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        use Kind::{
            Ack, Cells, Chunks, Farewell, Finalize, Inline, Lent, Lines, Moved, Payload,
            Rendezvous, Type,
        };
        let all = [
            Inline, Lines, Chunks, Moved, Ack, Type, Lent, Farewell, Rendezvous, Payload, Finalize,
            Cells,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Returns whether such a line begins a message that a receive takes. The other kinds are for the engines of both
    /// sides.
    pub(crate) fn is_message(self) -> bool {
        use Kind::{Cells, Chunks, Inline, Lent, Lines, Moved, Rendezvous};
        matches!(self, Inline | Lines | Chunks | Cells | Moved | Lent | Rendezvous)
    }
}

/// Where a piece of a message lies: its cell, and its number of bytes. One word of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Says that the rest of the message comes in chunks.
    pub(crate) const IN_CHUNKS: Self = Self(u64::MAX);

    pub(crate) fn new(cell: u32, bytes: usize) -> Self {
        Self((bytes as u64) << 32 | u64::from(cell))
    }

    pub(crate) fn cell(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn bytes(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Returns the line that says where the next piece lies.
    pub(crate) fn words(self) -> Words {
        let mut words = Words::default();
        words[0] = self.0;
        words
    }

    pub(crate) fn of(words: &Words) -> Self {
        Self(words[0])
    }
}

/// The answer of an `ACK` to a message. It is the tag in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Answer {
    Matched = 0,
    /// It was dropped, because its communicator is revoked.
    Refused = 1,
    /// It was matched, and its elements were copied [from their place](super::direct).
    Copied = 2,
    /// The same, and the copy was slow.
    CopiedSlowly = 3,
}

/// The elements of a message that is one line, and what comes after them.
pub(crate) type Inline = [u64; INLINE_BYTES / 8];

/// Copies the elements of a message that is one line. Returns `None` if they can't be there.
#[inline(always)]
pub(crate) fn copy_inline<T: Plain>(from: &[u8], into: &mut [T]) -> Option<()> {
    match into {
        // The usual number needs no call.
        [one] => *one = bytemuck::pod_read_unaligned(from.get(..size_of::<T>())?),
        into => {
            let into: &mut [u8] = bytemuck::cast_slice_mut(into);
            into.copy_from_slice(from.get(..into.len())?);
        }
    }
    Some(())
}

/// The type of message of a channel of lines.
pub(crate) type Words = [u64; LINE / 8];

/// The first line of a message. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Line {
    address: u64,
    what: u64,
    payload: Inline,
}

/// The description of a message before its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) context: u32,
    /// The sender's rank in the world.
    pub(crate) source: u32,
    pub(crate) tag: u32,
    pub(crate) fingerprint: u32,
    /// The number of elements.
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    /// The number of a synchronous send, or 0.
    pub(crate) sync: u32,
}

impl Envelope {
    /// Returns its answer if it is the envelope of an `ACK`.
    pub(crate) fn answer(&self) -> Answer {
        let others = [Answer::Refused, Answer::Copied, Answer::CopiedSlowly];
        others.into_iter().find(|&answer| answer as u32 == self.tag).unwrap_or(Answer::Matched)
    }

    /// Returns whether the line has room for the whole description of a message of no more than [`INLINE_BYTES`].
    pub(crate) fn fits_a_line(&self) -> bool {
        self.count <= 255 && self.sync <= u32::from(u16::MAX)
    }
}

/// Returns context and tag in one word.
#[inline(always)]
pub(crate) fn address(context: u32, tag: u32) -> u64 {
    u64::from(context) << 32 | u64::from(tag)
}

/// Returns the second word, without its count, of a message of this type that is in one line.
#[inline(always)]
pub(crate) fn inline_of(fingerprint: u32) -> u64 {
    u64::from(fingerprint) << 32 | (Kind::Inline as u64) << 8
}

/// Returns the second word of the first line of a longer message of this type that has no number.
#[inline(always)]
pub(crate) fn first_of(fingerprint: u32, kind: Kind) -> u64 {
    u64::from(fingerprint) << 32 | (kind as u64) << 8
}

impl Line {
    /// Returns a line from the words of its channel.
    #[inline(always)]
    pub(crate) fn of(words: &Words) -> &Self {
        bytemuck::cast_ref(words)
    }

    /// See [`of`](Self::of).
    #[inline(always)]
    pub(crate) fn of_mut(words: &mut Words) -> &mut Self {
        bytemuck::cast_mut(words)
    }

    /// Makes it a message in one line, of no more than [`INLINE_BYTES`], and 255 elements. The words behind the
    /// elements keep their values. Each word is written where the receiver will read it: copying a line that was made
    /// elsewhere would wait until its words are written.
    #[inline(always)]
    pub(crate) fn put_inline(
        &mut self,
        address: u64,
        fingerprint: u32,
        count: usize,
        bytes: &[u8],
    ) {
        self.address = address;
        self.what = inline_of(fingerprint) | count as u64;
        match bytes.len() {
            // The usual length needs no call.
            8 => self.payload[0] = u64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
            len => self.elements_mut(0)[..len].copy_from_slice(bytes),
        }
    }

    /// Makes it the first line of a message of more bytes than fit into it, which comes in lines.
    #[inline(always)]
    pub(crate) fn put_first(
        &mut self,
        address: u64,
        fingerprint: u32,
        count: usize,
        bytes: usize,
        first: &[u8],
    ) {
        self.address = address;
        self.what = first_of(fingerprint, Kind::Lines);
        self.payload[0] = count as u64;
        self.payload[1] = bytes as u64;
        self.elements_mut(2).copy_from_slice(first);
    }

    /// Makes the first line of any message.
    pub(crate) fn first(envelope: &Envelope, kind: Kind, elements: &[u8]) -> Self {
        let Envelope { context, tag, fingerprint, count, bytes, sync, .. } = *envelope;
        let mut line = Self {
            address: address(context, tag),
            what: u64::from(fingerprint) << 32 | u64::from(sync as u16) << 16 | (kind as u64) << 8,
            payload: [0; 5],
        };
        if kind == Kind::Inline {
            line.what |= count as u64;
            line.elements_mut(0)[..bytes].copy_from_slice(elements);
            return line;
        }
        line.payload[0] = count as u64;
        line.payload[1] = bytes as u64 | u64::from(sync >> 16) << BYTES_BITS;
        if matches!(kind, Kind::Lines | Kind::Type | Kind::Farewell) {
            let here = bytes.min(FIRST);
            line.elements_mut(2)[..here].copy_from_slice(&elements[..here]);
        }
        line
    }

    /// Sets the number of the loan of the message.
    pub(crate) fn set_loan(&mut self, number: u64) {
        self.payload[2] = number;
    }

    /// Returns the number of the message's loan; loans are numbered from 1.
    pub(crate) fn loan(&self) -> Option<u64> {
        let may_be = self.kind_byte() == Kind::Lent as u8 || self.is_rendezvous();
        (may_be && self.payload[2] != 0).then_some(self.payload[2])
    }

    /// Sets the place from which the receiver can copy the message.
    pub(crate) fn set_place(&mut self, place: Option<u64>) {
        self.payload[3] = place.unwrap_or(0);
    }

    /// Returns the [place](Self::set_place) from which this rank can copy the message. No message is at place 0.
    pub(crate) fn direct_place(&self) -> Option<u64> {
        (self.is_rendezvous() && self.payload[3] != 0).then_some(self.payload[3])
    }

    /// Returns the first line of the same message for its way in cells, of which this is the first.
    pub(crate) fn in_cells(mut self, first: Place) -> Self {
        self.what = self.what & !0xff00 | (Kind::Cells as u64) << 8;
        self.payload[2] = first.0;
        self
    }

    /// Returns where the first piece lies, if the message comes in cells.
    pub(crate) fn place(&self) -> Option<Place> {
        (self.kind_byte() == Kind::Cells as u8).then_some(Place(self.payload[2]))
    }

    fn kind_byte(&self) -> u8 {
        (self.what >> 8) as u8
    }

    fn elements_mut(&mut self, from: usize) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.payload[from..])
    }

    #[inline(always)]
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> u32 {
        self.address as u32
    }

    /// Returns the word that [`inline_of`] and [`first_of`] are compared with.
    #[inline(always)]
    pub(crate) fn what(&self) -> u64 {
        self.what & !0xff
    }

    /// Returns the number of elements of a message that is in one line.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.what as usize & 0xff
    }

    #[inline(always)]
    pub(crate) fn inline_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.payload)
    }

    pub(crate) fn inline_words(&self) -> Inline {
        self.payload
    }

    /// Returns the numbers of elements and of bytes of a longer message that has no number of more than 16 bits.
    #[inline(always)]
    pub(crate) fn length(&self) -> (u64, u64) {
        (self.payload[0], self.payload[1])
    }

    /// Returns the elements of a longer message that are in its first line.
    #[inline(always)]
    pub(crate) fn first_bytes(&self) -> &[u8; FIRST] {
        let [_, _, first @ ..] = &self.payload;
        bytemuck::cast_ref(first)
    }

    /// Returns whether it is the envelope of a message whose elements come when they are asked for, unless it is taken
    /// on loan.
    pub(crate) fn is_rendezvous(&self) -> bool {
        self.kind_byte() == Kind::Rendezvous as u8
    }

    /// Returns whether it begins a message whose elements come in chunks, unless it is taken on loan.
    pub(crate) fn is_in_chunks(&self) -> bool {
        [Kind::Chunks as u8, Kind::Lent as u8].contains(&self.kind_byte())
    }

    /// Returns the number of lines that follow in the same channel, if it is the first of a message.
    pub(crate) fn lines_behind(&self) -> u64 {
        if self.kind_byte() != Kind::Lines as u8 {
            return 0;
        }
        let bytes = self.payload[1].min(LINES_MOST as u64);
        bytes.saturating_sub(FIRST as u64).div_ceil(LINE as u64)
    }

    /// Returns the kind and the envelope of a line from rank `source`. `None` if it is not a valid line. The caller
    /// that knows the type must check whether bytes and count fit together.
    pub(crate) fn read(&self, source: u32) -> Option<(Kind, Envelope)> {
        let kind = Kind::from_byte(self.kind_byte())?;
        let (count, bytes, upper) = match kind {
            // The line has no number of bytes: it follows from the count and the type.
            Kind::Inline => (self.count() as u64, 0, 0),
            _ => {
                let [count, bytes, ..] = self.payload;
                (count, bytes & ((1 << BYTES_BITS) - 1), bytes >> BYTES_BITS)
            }
        };
        let envelope = Envelope {
            context: (self.address >> 32) as u32,
            source,
            tag: self.address as u32,
            fingerprint: (self.what >> 32) as u32,
            count: usize::try_from(count).ok()?,
            bytes: usize::try_from(bytes).ok()?,
            sync: (upper as u32) << 16 | u32::from((self.what >> 16) as u16),
        };
        Some((kind, envelope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(count: usize, bytes: usize) -> Envelope {
        let (context, source, tag, fingerprint, sync) = (7, 3, u32::MAX, 0xdead_beef, 0xfff1);
        Envelope { context, source, tag, fingerprint, count, bytes, sync }
    }

    #[test]
    fn rings_of_chunks_are_larger_than_caches_and_small_among_many_ranks() {
        let bytes = |ranks, cache| chunks(ranks, cache) as usize * CHUNK;
        assert_eq!(bytes(2, 1 << 20), 4 << 20);
        assert_eq!(bytes(2, 1280 << 10), 5 << 20);
        for cache in [0, 256 << 10, 1 << 20, 2 << 20, usize::MAX] {
            for ranks in [1, 2, 3, 5, 8, 16, 100, 1024] {
                let (ring, others) = (bytes(ranks, cache), ranks - 1);
                assert!((256 << 10..=8 << 20).contains(&ring), "{ranks} ranks: {ring}");
                let all = cache.saturating_mul(4);
                assert!(ring == 256 << 10 || others * ring <= all, "{ranks} ranks: {ring}");
            }
        }
        assert_eq!(bytes(1024, 1 << 20), 256 << 10);
    }

    #[test]
    fn a_line_says_what_it_was_made_of() {
        for bytes in [0, 1, 7, 8, 39, 40] {
            let elements: Vec<u8> = (1..=bytes as u8).collect();
            let sent = envelope(bytes, bytes);
            let line = Line::first(&sent, Kind::Inline, &elements);
            assert_eq!(line.read(3), Some((Kind::Inline, Envelope { bytes: 0, ..sent })));
            assert_eq!(line.inline_bytes()[..bytes], elements);
            let mut plain = Line::zeroed();
            plain.put_inline(line.address(), sent.fingerprint, bytes, &elements);
            assert_eq!(plain, Line::first(&Envelope { sync: 0, ..sent }, Kind::Inline, &elements));
            assert_eq!((plain.what(), plain.count()), (inline_of(sent.fingerprint), bytes));
        }
        for bytes in [0, 23, 24, 25, 1000] {
            let elements: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            for kind in [
                Kind::Lines,
                Kind::Chunks,
                Kind::Cells,
                Kind::Moved,
                Kind::Type,
                Kind::Lent,
                Kind::Farewell,
                Kind::Rendezvous,
                Kind::Payload,
            ] {
                let sent = envelope(bytes * 3, bytes);
                for sync in [0, 1, 0xffff, 0x1_0000, u32::MAX] {
                    let sent = Envelope { sync, ..sent };
                    assert_eq!(Line::first(&sent, kind, &elements).read(3), Some((kind, sent)));
                }
                let line = Line::first(&sent, kind, &elements);
                let lines = matches!(kind, Kind::Lines | Kind::Type | Kind::Farewell);
                let here = if lines { bytes.min(24) } else { 0 };
                assert_eq!(line.first_bytes()[..here], elements[..here]);
            }
        }
    }

    #[test]
    fn a_first_line_is_the_same_however_it_is_made() {
        for (bytes, behind) in [(41, 1), (80, 1), (81, 2), (LINES_MOST - 1, 8), (LINES_MOST, 8)] {
            let elements: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            let sent = Envelope { sync: 0, ..envelope(bytes, bytes) };
            let line = Line::first(&sent, Kind::Lines, &elements);
            let mut plain = Line { payload: [u64::MAX; 5], ..Line::zeroed() };
            let address = address(sent.context, sent.tag);
            plain.put_first(address, sent.fingerprint, bytes, bytes, &elements[..FIRST]);
            assert_eq!((plain, plain.lines_behind()), (line, behind));
        }
        let line = |kind, bytes| Line::first(&envelope(bytes, bytes), kind, &vec![0; bytes]);
        assert_eq!(line(Kind::Inline, 40).lines_behind(), 0);
        assert_eq!(line(Kind::Chunks, 8000).lines_behind(), 0);
        // A line may say anything.
        let mut wrong = line(Kind::Lines, 41);
        wrong.payload[1] = u64::MAX;
        assert_eq!(wrong.lines_behind(), 8);
    }

    #[test]
    fn only_a_loan_has_a_number() {
        for kind in [Kind::Lent, Kind::Rendezvous] {
            let mut line = Line::first(&envelope(1000, 8000), kind, &[]);
            assert_eq!(line.loan(), None);
            line.set_loan(u64::MAX);
            assert_eq!(line.loan(), Some(u64::MAX));
            assert_eq!(line.read(3), Some((kind, envelope(1000, 8000))));
        }
        assert_eq!(Line::first(&envelope(1000, 8000), Kind::Chunks, &[]).loan(), None);
    }

    #[test]
    fn a_message_in_cells_says_where_they_are() {
        let sent = envelope(1000, 8000);
        let line = Line::first(&sent, Kind::Chunks, &[]);
        assert_eq!(line.place(), None);
        let place = Place::new(2 * CELLS - 1, CELL);
        let line = line.in_cells(place);
        assert_eq!(line.read(3), Some((Kind::Cells, sent)));
        assert_eq!(line.place(), Some(place));
        assert_eq!((place.cell(), place.bytes()), (2 * CELLS - 1, CELL));
        assert_eq!(Place::of(&place.words()), place);
        assert_eq!(Place::of(&Place::IN_CHUNKS.words()), Place::IN_CHUNKS);
        for bytes in [1, CELL / 2, CELL / 2 + 1, CELL - 1, CELL, CELL + 1, 10 * CELL] {
            let (pieces, expected) = (bytes.div_ceil(piece_of(bytes)), bytes.div_ceil(CELL));
            let halved = (HALVED_CELL..=CELL).contains(&bytes);
            assert_eq!(pieces, expected + usize::from(halved), "{bytes}");
            assert!(piece_of(bytes) <= CELL);
        }
    }

    #[test]
    fn what_is_no_line_is_told() {
        for byte in [0, 13, 255] {
            let line = Line { address: 0, what: byte << 8, payload: [0; 5] };
            assert_eq!(line.read(0), None);
        }
    }
}
