//! The place of an object: a region, which is memory of all ranks under one name, and a seat's access to it.

use std::cell::Cell;

#[cfg(all(test, not(loom)))]
use mp_core::World;
use mp_core::{Error, ErrorKind, Rank, memory::Region, names::Namespace};

use super::{
    site::{BLOCK, Seat, Word, seat},
    waits::Waits,
};

/// The head of a region.
pub(super) mod head {
    /// The fingerprint with which the object was opened.
    pub(in super::super) const SPEC: usize = 0;
    /// Whether the value exists: see `value.rs`.
    pub(in super::super) const MADE: usize = 1;
    /// Not 0: an operation did not finish.
    pub(in super::super) const POISONED: usize = 2;
    /// An upper bound for the seats: every seat that was ever taken has a lower number.
    pub(in super::super) const SEATS: usize = 3;
    /// The server: 0 if there was none yet, otherwise 1 + the rank, with [`LEFT`] if it has left; [`LEFT`] alone if
    /// none will come.
    pub(in super::super) const SERVER: usize = 4;
    /// In [`SERVER`]: the rank does not serve any more.
    pub(in super::super) const LEFT: u64 = 1 << 63;
    /// 1 + the seat that heals a queue, and whether the queue is void: see `heal.rs`.
    pub(in super::super) const HEALER: usize = 5;
    pub(in super::super) const VOID: usize = 6;
    /// If not 0, the time until which seats take turns, because one of them waited for long; see `turns.rs`. This word
    /// is in a line that is rarely written.
    pub(in super::super) const TURNS: usize = 7;
    /// 1 + the seat whose turn it is, while turns are taken; see `turns.rs`.
    pub(in super::super) const TURN: usize = 8;
    /// How long turns were taken the last time, in nanoseconds, and when that period ended.
    pub(in super::super) const TURNS_TIME: usize = 9;
    pub(in super::super) const TURNS_END: usize = 10;
    pub(in super::super) const WORDS: usize = 16;
}

/// The names of all kinds of objects. Opening two kinds under the same name is a mismatch.
pub const OBJECTS: Namespace = Namespace::new("objects");

/// Opens a region. All ranks must ask for the same size.
pub fn open_region(
    rank: &Rank,
    namespace: Namespace,
    name: &str,
    words: usize,
    bytes: usize,
) -> Result<Region, Error> {
    Region::open(rank, namespace, name, words, bytes).map_err(|error| match error.into_kind() {
        mp_core::ErrorKind::MpbMismatch { .. } => {
            Error::from(ErrorKind::ObjectMismatch { object: name.into() })
        }
        error => error.into(),
    })
}

/// A seat's access to the region of an object.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) region: Region,
    /// The number of seats of each rank.
    pub(super) seats: usize,
    /// A value of [`Region::ends`] at which no rank was missing.
    pub(super) whole: Cell<u32>,
    /// This handle's waits for a first server, nested or as futures.
    pub(super) awaits_first: Cell<usize>,
    pub(super) waits: Waits,
}

impl Place {
    pub(super) fn new(region: Region, seats: usize) -> Self {
        Self {
            region,
            seats,
            whole: Cell::new(0),
            awaits_first: Cell::new(0),
            waits: Waits::default(),
        }
    }

    /// Returns the number of seats of all ranks.
    pub(super) fn all_seats(&self) -> usize {
        self.seats * self.region.ranks()
    }

    pub(super) fn rank_of(&self, seat: Seat) -> usize {
        seat / self.seats
    }

    /// Returns the index at which the algorithm's own words begin, if there are `all_seats` seats.
    pub(super) fn own(all_seats: usize) -> usize {
        head::WORDS + all_seats * BLOCK
    }

    /// Returns a word of a region's head, which always exists.
    #[inline(always)]
    pub(super) fn head(&self, index: usize) -> &Word {
        &self.region.words()[index]
    }

    /// Returns the words of an existing seat.
    #[inline(always)]
    pub(super) fn seat(&self, seat: Seat) -> &[Word] {
        let first = head::WORDS + seat * BLOCK;
        &self.region.words()[first..first + BLOCK]
    }

    /// Returns the index of one of a seat's words among all words.
    pub(super) fn index(&self, seat: Seat, word: usize) -> usize {
        head::WORDS + seat * BLOCK + word
    }

    /// Returns the seat that further handles of this rank share.
    pub(super) fn shared_seat(&self) -> Seat {
        self.seats * (1 + self.region.rank()) - 1
    }

    pub(super) fn first_seat(&self, rank: usize) -> &[Word] {
        self.seat(rank * self.seats)
    }

    /// Records why an operation of the seat panicked.
    pub(super) fn set_message(&self, seat: Seat, message: &str) {
        let Some(words) = self.region.words().get(head::WORDS + seat * BLOCK..) else { return };
        let mut end = message.len().min(8 * seat::TEXT_WORDS);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        words[seat::MESSAGE].store_relaxed(end as u64);
        for (bytes, word) in message.as_bytes()[..end].chunks(8).zip(&words[seat::TEXT..]) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store_relaxed(u64::from_ne_bytes(whole));
        }
    }

    pub(super) fn message(&self, seat: Seat) -> String {
        let words = self.seat(seat);
        let len = (words[seat::MESSAGE].load_relaxed() as usize).min(8 * seat::TEXT_WORDS);
        let bytes: Vec<u8> =
            words[seat::TEXT..].iter().flat_map(|word| word.load_relaxed().to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }
}

#[cfg(all(test, not(loom)))]
impl Place {
    /// Creates the place of the only rank of a world, with two seats and `words` words for an algorithm.
    pub(super) fn of_two(words: usize) -> Self {
        let rank = World::solo().unwrap();
        Self::new(open_region(&rank, OBJECTS, "two", Self::own(2) + words, 0).unwrap(), 2)
    }
}
