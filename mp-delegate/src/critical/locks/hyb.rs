//! HYBLOCK, algorithm 3 of Petrović's thesis. The lock's state is a word of shared memory, and the lock is handed over
//! by a message.
//!
//! Each seat has a mailbox for each lock: one line, with room for the two messages that can arrive, the successor's
//! number and ALLOW. So a thread may hold several locks, which the thesis's single queue per thread does not allow, and
//! it looks at one line while it waits. Numbers of lines are those of the algorithm.
//!
//! Taking a message out writes its line, which costs one more transfer if the line was just read. So the successor's
//! message is taken out while the seat waits, and ALLOW is not taken out at all. It is a number that changes: the seat
//! that asks for it tells which number it waits for this time.

use std::cell::Cell;

use super::Lock;
use crate::critical::{
    heal::CLOSED,
    site::{AnyWord, BLOCK, Mortal, Seat, Site, someone, who},
    stop::Stop,
};

const UNLOCKED: u64 = 0;
/// Index in a mailbox: the successor's message, which says who it is, and which number it waits for.
const SUCCESSOR: usize = 0;
const NUMBER_AT: u64 = 32;
const NUMBERS: u64 = (1 << NUMBER_AT) - 1;
/// Index in a mailbox: the predecessor's message, a number.
const ALLOW: usize = 1;

/// See the module.
#[derive(Debug)]
pub struct Hyb {
    lock: usize,
    boxes: usize,
    me: Seat,
    /// The successor's message, if it was taken out; otherwise 0.
    next: Cell<u64>,
}

impl Hyb {
    /// Returns how many words this takes, for so many seats.
    pub const fn words(seats: usize) -> usize {
        BLOCK * (1 + seats)
    }

    /// Creates the access of one seat to the lock whose words begin at `first`.
    pub fn new(first: usize, me: Seat) -> Self {
        Self { lock: first, boxes: first + BLOCK, me, next: Cell::new(0) }
    }

    fn mailbox(&self, seat: Seat) -> usize {
        self.boxes.wrapping_add(seat.wrapping_mul(BLOCK))
    }

    /// Returns the words that are messages to a seat.
    #[cfg(feature = "internals")]
    pub fn messages(&self, seat: Seat) -> std::ops::Range<usize> {
        self.mailbox(seat)..self.mailbox(seat) + BLOCK
    }

    #[inline(always)]
    fn send<S: Site>(&self, site: &S, to: Seat, message: usize, content: u64) -> Result<(), Stop> {
        site.word(self.mailbox(to).wrapping_add(message))?.store(content);
        site.wake(to);
        Ok(())
    }
}

impl Lock for Hyb {
    const TERSE: bool = true;

    fn words(&self) -> [usize; 3] {
        let successor = self.mailbox(self.me) + SUCCESSOR;
        [self.lock, successor, successor]
    }

    /// Lines 8 and 9.
    #[inline(always)]
    fn come<S: Site>(&self, _site: &S, [lock, ..]: [&S::Word; 3]) -> Result<(), u64> {
        match lock.swap(someone(self.me)) {
            UNLOCKED => Ok(()),
            before => Err(before),
        }
    }

    /// Lines 10 to 14, behind a seat.
    #[cold]
    #[inline(never)]
    fn queue<S: Site>(&self, site: &S, before: u64) -> Result<(), Stop> {
        if before == CLOSED {
            return Err(Stop::Void);
        }
        let before = who(before);
        let [successor, allow] = site.words(self.mailbox(self.me), 2)? else {
            return Err(Stop::Corrupt);
        };
        // 10
        let number = allow.load_relaxed().wrapping_add(1) & NUMBERS;
        self.send(site, before, SUCCESSOR, number << NUMBER_AT | someone(self.me))?;
        // 11–14
        let mut next = 0;
        site.wait(self.me, Some(before), allow, || {
            if next == 0 {
                next = successor.load();
                if next != 0 {
                    successor.store_relaxed(0);
                }
            }
            (allow.load() == number).then_some(())
        })?;
        self.next.set(next);
        Ok(())
    }

    fn try_acquire<S: Site>(&self, site: &S) -> Result<bool, Stop> {
        let lock = site.word(self.lock)?;
        Ok(lock.load_relaxed() == UNLOCKED
            && lock.compare_exchange(UNLOCKED, someone(self.me)).is_ok())
    }

    /// Lines 20 to 22.
    #[inline(always)]
    fn go<S: Site>(&self, _site: &S, [lock, successor, _]: [&S::Word; 3]) -> bool {
        self.next.get() == 0
            && successor.load() == 0
            && lock.compare_exchange(someone(self.me), UNLOCKED).is_ok()
    }

    /// Lines 16 to 19, 23 and 24.
    #[cold]
    #[inline(never)]
    fn hand_over<S: Site>(&self, site: &S) -> Result<(), Stop> {
        let mut next = self.next.replace(0);
        if next == 0 {
            // 16, 23
            let successor = site.word(self.mailbox(self.me) + SUCCESSOR)?;
            next = site.wait(self.me, None, successor, || {
                Some(successor.load()).filter(|&next| next != 0)
            })?;
            successor.store_relaxed(0);
        }
        // 17, 24
        let seat = (next & NUMBERS).checked_sub(1).ok_or(Stop::Corrupt)?;
        self.send(site, seat as Seat, ALLOW, next >> NUMBER_AT)
    }

    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop> {
        site.word(self.lock)?.swap(CLOSED);
        Ok(())
    }

    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        for seat in 0..site.seats() {
            for message in [SUCCESSOR, ALLOW] {
                site.word(self.mailbox(seat) + message)?.store_relaxed(0);
            }
        }
        Ok(site.word(self.lock)?.compare_exchange(CLOSED, UNLOCKED).is_ok())
    }
}
