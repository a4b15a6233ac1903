//! The two ends of a channel on simulated words, for [`MpServer`](mp_delegate::critical::Scheme::MpServer).
//!
//! This is not the code of the library's channels, but it accesses memory in the same way. Each message has a sequence
//! word beside it, and the receiver polls only that word. The count of taken messages has its own line, and the sender
//! reads it when it knows of no free slot. On chips that pass messages, slots are messages, and the count is local to
//! the sender.

use mp_delegate::critical::internals::{
    AnyWord, BLOCK, Site, Stop,
    mp::{Inlet, Outlet},
};

use super::cores::{Core, LINE};

/// The longest message, in words.
pub(super) const LEN: usize = 7;
/// The number of words of a slot: the sequence word, and the message.
const SLOT: usize = 1 + LEN;
/// The bits for the message's number of words in the sequence word, below the number.
const LEN_BITS: u32 = 8;

/// The place of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    first: usize,
    slots: usize,
}

impl Ring {
    pub(super) fn new(first: usize, slots: usize) -> Self {
        Self { first, slots }
    }

    /// Returns the number of words of a channel with so many slots.
    pub(super) fn words(slots: usize) -> usize {
        BLOCK + (slots * SLOT).next_multiple_of(BLOCK)
    }

    fn slot(&self, position: u64) -> usize {
        self.first + BLOCK + position as usize % self.slots * SLOT
    }

    /// Turns writes to the channel into messages, on chips that support this.
    pub(super) fn pass_messages(&self, core: &super::cores::Engine, receiver: usize) {
        core.pass_messages(self.first..self.first + LINE, Some(receiver));
        core.pass_messages(self.first + BLOCK..self.first + Self::words(self.slots), None);
    }
}

/// The sending end.
pub(super) struct Into<'e> {
    pub(super) core: Core<'e>,
    pub(super) ring: Ring,
    position: u64,
    /// The limit of free positions: all positions below it are free.
    room: u64,
}

/// The receiving end.
pub(super) struct OutOf<'e> {
    core: Core<'e>,
    ring: Ring,
    position: u64,
}

impl<'e> Into<'e> {
    pub(super) fn new(core: Core<'e>, ring: Ring) -> Self {
        Self { core, ring, position: 0, room: ring.slots as u64 }
    }
}

impl<'e> OutOf<'e> {
    pub(super) fn new(core: Core<'e>, ring: Ring) -> Self {
        Self { core, ring, position: 0 }
    }

    fn take<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop> {
        let slot = self.core.words(self.ring.slot(self.position), SLOT)?;
        let head = slot[0].load();
        if head >> LEN_BITS != self.position + 1 {
            return Ok(None);
        }
        let mut message = [0; LEN];
        let words = head as usize & ((1 << LEN_BITS) - 1);
        let message = message.get_mut(..words).ok_or(Stop::Corrupt)?;
        for (content, word) in message.iter_mut().zip(&slot[1..]) {
            *content = word.load_relaxed();
        }
        let answer = read(message);
        self.position += 1;
        self.core.word(self.ring.first)?.store(self.position);
        Ok(Some(answer))
    }
}

impl Outlet for Into<'_> {
    fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop> {
        if self.position == self.room {
            let head = self.core.word(self.ring.first)?;
            let slots = self.ring.slots as u64;
            let (position, look) = (self.position, || head.load());
            let taken = self.core.look(|| Some(look()).filter(|taken| taken + slots > position));
            self.room = taken + slots;
        }
        let mut message = [0; LEN];
        write(message.get_mut(..words).ok_or(Stop::Corrupt)?);
        let slot = self.core.words(self.ring.slot(self.position), SLOT)?;
        for (word, &content) in slot[1..].iter().zip(&message[..words]) {
            word.store_relaxed(content);
        }
        self.position += 1;
        slot[0].store(self.position << LEN_BITS | words as u64);
        Ok(())
    }
}

impl Inlet for OutOf<'_> {
    fn receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<T, Stop> {
        let slot = self.core.word(self.ring.slot(self.position))?;
        let here = self.position + 1;
        self.core.look(|| (slot.load() >> LEN_BITS == here).then_some(()));
        self.take(read)?.ok_or(Stop::Corrupt)
    }

    fn try_receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop> {
        self.take(read)
    }
}
