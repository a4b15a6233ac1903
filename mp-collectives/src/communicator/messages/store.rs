//! Messages that have arrived and that no receive has matched yet.

use std::collections::{BTreeMap, BTreeSet};

use mp_core::SharedBuffer;

use crate::communicator::{
    messages::wire::{self, Envelope, FIRST, INLINE_BYTES, Inline, Kind, LINES_MOST, Line},
    stream::Stream,
};

/// The messages that a receive or probe takes.
///
/// It fits in two registers, so that no call has it in memory. A pattern that was built in memory and copied would wait
/// for the stores that built it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Context and tag as in a [`Line`]; with tag 0 for any.
    address: u64,
    /// A rank of the world, or [`ANY`].
    source: u32,
    /// The bits of the tag that count: all of them, or none for any tag.
    tag_mask: u32,
}

/// Stands for any rank.
const ANY: u32 = u32::MAX;

impl Pattern {
    pub(crate) const NOTHING: Self = Self { address: 0, source: 0, tag_mask: 0 };

    /// Makes a pattern in a context, with a rank of the world as its source and with a tag; `None` for any.
    #[inline(always)]
    pub(crate) fn new(context: u32, source: Option<u32>, tag: Option<u32>) -> Self {
        Self {
            address: wire::address(context, tag.unwrap_or(0)),
            source: source.unwrap_or(ANY),
            tag_mask: if tag.is_some() { u32::MAX } else { 0 },
        }
    }

    #[inline(always)]
    pub(crate) fn context(self) -> u32 {
        (self.address >> 32) as u32
    }

    /// Returns the source, a rank of the world; `None` for any.
    #[inline(always)]
    pub(crate) fn source(self) -> Option<u32> {
        (self.source != ANY).then_some(self.source)
    }

    /// Returns the tag; `None` for any.
    #[inline(always)]
    pub(crate) fn tag(self) -> Option<u32> {
        (self.tag_mask != 0).then_some(self.address as u32)
    }

    #[inline]
    pub(crate) fn takes(self, envelope: &Envelope) -> bool {
        self.is_at(wire::address(envelope.context, envelope.tag))
            && self.source().is_none_or(|source| source == envelope.source)
    }

    /// Returns whether it takes messages of this context and tag.
    #[inline(always)]
    fn is_at(self, address: u64) -> bool {
        let mask = u64::from(u32::MAX) << 32 | u64::from(self.tag_mask);
        (address ^ self.address) & mask == 0
    }

    /// Returns how many elements a line has that is a complete message, if this pattern takes it, its type has this
    /// fingerprint, with elements of this size, and it fits: there is `room` for so many elements, or for any number.
    #[inline(always)]
    pub(crate) fn count_in(
        self,
        line: &Line,
        fingerprint: u32,
        size: usize,
        room: Option<usize>,
        exact: bool,
    ) -> Option<usize> {
        let count = line.count();
        let takes = self.is_at(line.address())
            && line.what() == wire::inline_of(fingerprint)
            && fits(count, room, exact)
            && count * size <= INLINE_BYTES;
        takes.then_some(count)
    }

    /// Returns how many elements and bytes a message has that begins with this line, under the same conditions as
    /// [`count_in`](Self::count_in), if it comes in lines, of which this one is full, or in chunks.
    #[inline(always)]
    pub(crate) fn length_in(
        self,
        line: &Line,
        fingerprint: u32,
        size: usize,
        room: Option<usize>,
        exact: bool,
    ) -> Option<(usize, usize)> {
        let (count, bytes) = line.length();
        let is_long = if line.what() == wire::first_of(fingerprint, Kind::Lines) {
            (FIRST as u64..=LINES_MOST as u64).contains(&bytes)
        } else {
            line.what() == wire::first_of(fingerprint, Kind::Chunks)
        };
        let takes =
            is_long && self.is_at(line.address()) && count.checked_mul(size as u64) == Some(bytes);
        let (count, bytes) = (count as usize, bytes as usize);
        (takes && fits(count, room, exact)).then_some((count, bytes))
    }

    /// Returns whether it is for a receive of a collective operation. A message that such a receive refuses is dropped:
    /// no other receive will ever ask for it, and the next operation must not find it.
    pub(crate) fn is_together(self) -> bool {
        self.context() & 1 == Stream::Together as u32
    }

    /// Returns whether it takes anything from this rank.
    pub(crate) fn looks_at(self, source: u32) -> bool {
        self.source().is_none_or(|wanted| wanted == source)
    }
}

/// Returns whether `count` elements fit into the room, which is unlimited if it is `None`. If `exact`, they must fill it.
#[inline(always)]
fn fits(count: usize, room: Option<usize>, exact: bool) -> bool {
    room.is_none_or(|room| if exact { count == room } else { count <= room })
}

/// The elements of a message that has arrived.
#[derive(Debug)]
pub(crate) enum Content {
    Inline(Inline),
    /// The first `landed` bytes are in the landing, and `rest` follows them. Nothing has landed with `None`.
    Bytes {
        landed: Option<usize>,
        rest: Vec<u8>,
    },
    Moved(SharedBuffer<u8>),
    /// Still with the sender: a rendezvous, which this rank can copy if there is a place.
    Away {
        place: Option<u64>,
    },
}

impl Content {
    /// Returns the bytes of the elements for which this rank has its own memory.
    pub(crate) fn kept(&self) -> usize {
        match self {
            Self::Bytes { rest, .. } => rest.len(),
            Self::Inline(_) | Self::Moved(_) | Self::Away { .. } => 0,
        }
    }
}

/// A message that has arrived completely, or as a rendezvous.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) envelope: Envelope,
    pub(crate) content: Content,
}

/// Messages in the order of their arrival. A search by source and tag looks into a sorted tree; with wildcards, it looks
/// from the oldest message on.
#[derive(Debug, Default)]
pub(crate) struct Store {
    messages: BTreeMap<u64, Arrived>,
    /// The same messages by context, source and tag. Those that have these in common are in the order of their arrival.
    alike: BTreeSet<Key>,
    next: u64,
}

/// Context, source and tag of a message, and its place in [`Store::messages`].
type Key = (u32, u32, u32, u64);

fn key(envelope: &Envelope, place: u64) -> Key {
    (envelope.context, envelope.source, envelope.tag, place)
}

impl Store {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Takes out all messages from this rank of which only the envelope has come.
    pub(crate) fn forget_away(&mut self, source: u32) {
        self.forget(|arrived| {
            arrived.envelope.source == source && matches!(arrived.content, Content::Away { .. })
        });
    }

    /// Takes out all messages for which `is_so` is true.
    pub(crate) fn forget(&mut self, is_so: impl Fn(&Arrived) -> bool) -> Vec<Arrived> {
        let Self { messages, alike, .. } = self;
        let mut gone: Vec<Arrived> = Vec::new();
        let places = messages.iter().filter(|(_, arrived)| is_so(arrived));
        for place in places.map(|(&place, _)| place).collect::<Vec<_>>() {
            let Some(arrived) = messages.remove(&place) else { continue };
            alike.remove(&key(&arrived.envelope, place));
            gone.push(arrived);
        }
        gone
    }

    pub(crate) fn push(&mut self, arrived: Arrived) {
        self.alike.insert(key(&arrived.envelope, self.next));
        self.messages.insert(self.next, arrived);
        self.next += 1;
    }

    /// Returns the oldest message that the pattern takes.
    pub(crate) fn find(&self, pattern: Pattern) -> Option<(u64, &Arrived)> {
        let (context, source, tag) = (pattern.context(), pattern.source(), pattern.tag());
        if let (Some(source), Some(tag)) = (source, tag) {
            let mut alike =
                self.alike.range((context, source, tag, 0)..=(context, source, tag, u64::MAX));
            let &(_, _, _, place) = alike.next()?;
            return Some((place, self.messages.get(&place)?));
        }
        let mut messages = self.messages.iter();
        let (&place, arrived) = messages.find(|(_, arrived)| pattern.takes(&arrived.envelope))?;
        Some((place, arrived))
    }

    /// Takes out what [`find`](Self::find) has found: the oldest of its kind.
    pub(crate) fn take(&mut self, place: u64) -> Option<Arrived> {
        let arrived = self.messages.remove(&place)?;
        self.alike.remove(&key(&arrived.envelope, place));
        Some(arrived)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrived(context: u32, source: u32, tag: u32, count: usize) -> Arrived {
        let envelope =
            Envelope { context, source, tag, fingerprint: 0, count, bytes: count, sync: 0 };
        let content = match is_away(&envelope) {
            true => Content::Away { place: None },
            false => Content::Inline(Inline::default()),
        };
        Arrived { envelope, content }
    }

    fn is_away(envelope: &Envelope) -> bool {
        envelope.count.is_multiple_of(3)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32, u32, u32),
        Take(Pattern),
        ForgetAway(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let pattern = (0..2u32, proptest::option::of(0..3u32), proptest::option::of(0..3u32))
            .prop_map(|(context, source, tag)| Step::Take(Pattern::new(context, source, tag)));
        let push = (0..2u32, 0..3u32, 0..3u32).prop_map(|(c, s, t)| Step::Push(c, s, t));
        let forget = (0..3u32).prop_map(Step::ForgetAway);
        proptest::collection::vec(prop_oneof![10 => push, 10 => pattern, 1 => forget], 0..200)
    }

    proptest! {
        /// Compared with a list that is searched from the front.
        #[test]
        fn the_oldest_that_matches_is_found(steps in steps()) {
            let (mut store, mut list) = (Store::default(), Vec::<Envelope>::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(context, source, tag) => {
                        let arrived = arrived(context, source, tag, number);
                        list.push(arrived.envelope);
                        store.push(arrived);
                    }
                    Step::ForgetAway(source) => {
                        list.retain(|envelope| envelope.source != source || !is_away(envelope));
                        store.forget_away(source);
                    }
                    Step::Take(pattern) => {
                        let wanted = list.iter().position(|envelope| pattern.takes(envelope));
                        let wanted = wanted.map(|place| list.remove(place));
                        let found = store.find(pattern).map(|(place, _)| place);
                        let found = found.and_then(|place| store.take(place));
                        prop_assert_eq!(found.map(|arrived| arrived.envelope), wanted);
                    }
                }
                prop_assert_eq!(store.len(), list.len());
                prop_assert_eq!(store.is_empty(), list.is_empty());
            }
        }
    }
}
