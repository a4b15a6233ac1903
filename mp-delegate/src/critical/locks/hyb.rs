//! HYBLOCK, algorithm 3 of Petrović's thesis: the lock's state is a word of shared memory, and it is
//! handed over by a message.
//!
//! Each seat has a mailbox for each lock: one line, in which there is room for the two messages that
//! can come, the successor's number and ALLOW. So a thread may hold several locks, which the
//! thesis's one queue for each thread does not let it, and looks at one line while it waits.
//! Numbers of lines are those of the algorithm.

use super::{Lock, heal::CLOSED, someone, who};
use crate::critical::{
    error::Stop,
    site::{AnyWord, BLOCK, Mortal, Seat, Site},
};

const UNLOCKED: u64 = 0;
/// In a mailbox: the successor's message, who it is.
const SUCCESSOR: usize = 0;
/// In a mailbox: the predecessor's message.
const ALLOW: usize = 1;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::critical) struct Hyb {
    lock: usize,
    boxes: usize,
    me: Seat,
    /// Who gets the lock next, if that is known: 0 for not.
    next: u64,
}

impl Hyb {
    pub(in crate::critical) const fn words(seats: usize) -> usize {
        BLOCK * (1 + seats)
    }

    pub(in crate::critical) fn new(first: usize, me: Seat) -> Self {
        Self { lock: first, boxes: first + BLOCK, me, next: 0 }
    }

    fn mailbox(&self, seat: Seat) -> usize {
        self.boxes.wrapping_add(seat.wrapping_mul(BLOCK))
    }

    /// The words that are messages to a seat.
    #[cfg(feature = "simulated")]
    pub(in crate::critical) fn messages(&self, seat: Seat) -> std::ops::Range<usize> {
        self.mailbox(seat)..self.mailbox(seat) + BLOCK
    }

    #[inline(always)]
    fn send<S: Site>(&self, site: &S, to: Seat, message: usize, content: u64) -> Result<(), Stop> {
        site.word(self.mailbox(to).wrapping_add(message))?.store(content);
        site.wake(to);
        Ok(())
    }

    /// The message, if it is there; then the mailbox has room for the next one.
    #[inline(always)]
    fn take<S: Site>(&self, site: &S, message: usize) -> Result<u64, Stop> {
        let word = site.word(self.mailbox(self.me) + message)?;
        let content = word.load();
        if content != 0 {
            word.set(0);
        }
        Ok(content)
    }

    /// Lines 10 to 14, behind a seat.
    #[cold]
    #[inline(never)]
    fn queue<S: Site>(&mut self, site: &S, before: u64) -> Result<(), Stop> {
        site.approach(self.me);
        if before == CLOSED {
            return Err(Stop::Void);
        }
        let before = who(before);
        // 10
        self.send(site, before, SUCCESSOR, someone(self.me))?;
        // 11–14
        let allow = site.word(self.mailbox(self.me) + ALLOW)?;
        site.wait(self.me, Some(before), allow, || (allow.load() != 0).then_some(()))?;
        allow.set(0);
        site.enter(self.me);
        self.next = self.take(site, SUCCESSOR)?;
        Ok(())
    }

    /// Lines 17, 23 and 24, to the next seat, or whose message is on its way if it is 0.
    #[cold]
    #[inline(never)]
    fn hand_over<S: Site>(&mut self, site: &S, mut next: u64) -> Result<(), Stop> {
        self.next = 0;
        site.approach(self.me);
        if next == 0 {
            // 23
            let successor = site.word(self.mailbox(self.me) + SUCCESSOR)?;
            next = site.wait(self.me, None, successor, || {
                Some(successor.load()).filter(|&next| next != 0)
            })?;
            successor.set(0);
        }
        // 17, 24
        self.send(site, who(next), ALLOW, 1)
    }
}

impl Lock for Hyb {
    const TERSE: bool = true;

    #[inline(always)]
    fn acquire<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        // 8, 9
        let before = site.word(self.lock)?.swap(someone(self.me));
        if before == UNLOCKED { Ok(()) } else { self.queue(site, before) }
    }

    #[inline(always)]
    fn release<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        // 16–19
        let mut next = self.next;
        if next == 0 {
            // 20–22
            next = self.take(site, SUCCESSOR)?;
            if next == 0 && site.word(self.lock)?.exchange(someone(self.me), UNLOCKED).is_ok() {
                return Ok(());
            }
        }
        self.hand_over(site, next)
    }

    fn close<S: Mortal>(&self, site: &S) -> Result<(), Stop> {
        site.word(self.lock)?.swap(CLOSED);
        Ok(())
    }

    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        for seat in 0..site.seats() {
            for message in [SUCCESSOR, ALLOW] {
                site.word(self.mailbox(seat) + message)?.set(0);
            }
        }
        Ok(site.word(self.lock)?.exchange(CLOSED, UNLOCKED).is_ok())
    }
}
