//! A broadcast of a few lines, each with its payload in the notification (Ramos & Hoefler, section
//! 4.1): the receiver waits for the very line that the data is in, so that a hop is one line
//! transfer.
//!
//! A rank *pushes* lines to its children in a k-ary tree, and they pass them on. Every pair of ranks
//! has lines of its own (the paper's line privatization), so that no flag ever has two writers:
//! changing roots cost nothing.
//!
//! The lines of an MPB, from [`LineOptions::first_line`] on:
//!
//! ```text
//! P       taken: how many lines rank i has taken of those from this one     set by rank i
//! P · s   from rank i: the last s lines, each with its number               set by rank i
//! ```
//!
//! 1. The parent waits until the child has taken the lines that the slots held before.
//! 2. It writes the payload of each line, then its number (one line transfer).
//! 3. The child waits for the number of the last line, up to half of the slots ahead, copies the
//!    payloads, passes them on.
//! 4. After every half of the slots the child says how many lines it has taken. As long as it keeps
//!    up, the parent never waits for that.
//!
//! Lines are counted in 64 bits, which do not come round.

use mp_model::mpb::{Line, Mpb};
use mp_model::tree::{Shape, TreeError};
use thiserror::Error;

use super::oc_bcast::BroadcastError;
use super::routes::{Above, Route, Routes};

/// What can be chosen. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// k: the most children that a rank has, from 1 to P − 1.
    pub degree: usize,
    /// Lines that may be under way between two ranks; taken up to the next power of two.
    pub slots: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own, and zero at
    /// first.
    pub first_line: usize,
}

impl LineOptions {
    /// Lines that this takes of each MPB, with so many ranks; `None` when they are too many to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        self.slots.checked_next_power_of_two()?.checked_add(1)?.checked_mul(ranks)
    }
}

/// Why there can be no such broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LineOptionsError {
    /// No tree of that degree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// No slots.
    #[error("no slots for lines under way")]
    NoSlots,
    /// Lines that have no room for a payload beside a flag.
    #[error("lines of {line_bytes} bytes have no room beside a flag")]
    NoPayload {
        /// Bytes in a line.
        line_bytes: usize,
    },
    /// It does not fit into the MPB.
    #[error(
        "{slots} slots and a flag for each of {ranks} ranks do not fit into an MPB of {lines} lines, \
         from line {first_line} on"
    )]
    NoRoom {
        /// The slots asked for.
        slots: usize,
        /// The number of ranks.
        ranks: usize,
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

/// One rank's part in a series of broadcasts.
#[derive(Debug)]
pub struct LineBcast {
    routes: Routes,
    pairs: Pairs,
}

/// The lines between this rank and all others.
#[derive(Debug)]
struct Pairs {
    first_line: usize,
    /// Bytes beside a flag.
    payload: usize,
    /// A power of two.
    slots: u64,
    /// Counts of lines, for each rank.
    sent: Vec<u64>,
    /// Of those: how many it had taken when this rank last looked.
    taken: Vec<u64>,
    received: Vec<u64>,
}

impl LineBcast {
    /// With the MPBs of these ranks.
    ///
    /// # Errors
    /// [`LineOptionsError`].
    pub fn new<M: Mpb>(mpb: &M, options: LineOptions) -> Result<LineBcast, LineOptionsError> {
        let (ranks, lines, line_bytes) = (mpb.ranks(), mpb.lines(), mpb.line_bytes());
        let shape = Shape::new(ranks, options.degree)?;
        let LineOptions { slots, first_line, .. } = options;
        if slots == 0 {
            return Err(LineOptionsError::NoSlots);
        }
        let payload = line_bytes.saturating_sub(size_of::<u64>());
        if payload == 0 {
            return Err(LineOptionsError::NoPayload { line_bytes });
        }
        match options.lines(ranks).and_then(|needed| needed.checked_add(first_line)) {
            Some(end) if end <= lines => {}
            _ => return Err(LineOptionsError::NoRoom { slots, ranks, first_line, lines }),
        }
        let slots = slots.next_power_of_two() as u64;
        let counts = || vec![0; ranks];
        let (sent, taken, received) = (counts(), counts(), counts());
        let pairs = Pairs { first_line, payload, slots, sent, taken, received };
        Ok(LineBcast { routes: Routes::new(shape, mpb.rank()), pairs })
    }

    /// Bytes that go with one line.
    pub fn payload_bytes(&self) -> usize {
        self.pairs.payload
    }

    /// Broadcasts the root's message: all ranks call this with the same root and length, and have
    /// the message when it returns. The root's own is only read; it returns as soon as all lines are
    /// under way. None are nothing to send.
    ///
    /// # Errors
    /// [`BroadcastError::Root`], and those of the MPBs; after one of those, this rank is out of step
    /// with the others.
    #[inline]
    pub async fn broadcast<M: Mpb>(
        &mut self,
        mpb: &mut M,
        message: &mut [u8],
        root: usize,
    ) -> Result<(), BroadcastError<M::Error>> {
        let route = self.routes.under(root).map_err(BroadcastError::Root)?;
        let pairs = &mut self.pairs;
        if message.len() > pairs.payload {
            return Ok(pairs.broadcast_many(mpb, message, route).await?);
        }
        if message.is_empty() {
            return Ok(());
        }
        // One line: as `broadcast_many` does it, without what it takes to have many.
        if let Some(Above { parent, .. }) = route.above {
            let number = pairs.received[parent] + 1;
            pairs.received[parent] = number;
            let line = pairs.slot_line(parent, number);
            mpb.wait_flag_from(parent, line, |seen| seen == number).await?;
            mpb.flag_payload(line, message).await?;
            if let Some(flag) = pairs.says_taken(mpb.rank(), parent, number - 1, number) {
                mpb.set_flag(flag, number).await?;
            }
        }
        for &child in &route.children {
            let number = pairs.sent[child] + 1;
            pairs.sent[child] = number;
            let before = number.saturating_sub(pairs.slots);
            if pairs.taken[child] < before {
                pairs.wait_until_taken(mpb, child, before).await?;
            }
            let slot = Line { rank: child, line: pairs.slot_line(mpb.rank(), number) };
            mpb.set_flag_with(slot, number, message).await?;
        }
        Ok(())
    }
}

impl Pairs {
    async fn broadcast_many<M: Mpb>(
        &mut self,
        mpb: &mut M,
        message: &mut [u8],
        route: &Route,
    ) -> Result<(), M::Error> {
        for pieces in message.chunks_mut(self.half() as usize * self.payload) {
            if let Some(Above { parent, .. }) = route.above {
                self.receive(mpb, pieces, parent).await?;
            }
            for &child in &route.children {
                self.send(mpb, pieces, child).await?;
            }
        }
        Ok(())
    }

    /// Up to half of the slots.
    async fn send<M: Mpb>(
        &mut self,
        mpb: &mut M,
        pieces: &[u8],
        child: usize,
    ) -> Result<(), M::Error> {
        let (me, sent) = (mpb.rank(), self.sent[child]);
        let last = sent + self.lines(pieces.len());
        self.sent[child] = last;
        let before = last.saturating_sub(self.slots);
        if self.taken[child] < before {
            self.wait_until_taken(mpb, child, before).await?;
        }
        let slot = |number| Line { rank: child, line: self.slot_line(me, number) };
        let (upper, around) = pieces.split_at(self.up_to_the_end(sent + 1, pieces.len()));
        mpb.set_flags_with(slot(sent + 1), sent + 1, upper).await?;
        if !around.is_empty() {
            let number = sent + 1 + self.lines(upper.len());
            mpb.set_flags_with(slot(number), number, around).await?;
        }
        Ok(())
    }

    async fn receive<M: Mpb>(
        &mut self,
        mpb: &mut M,
        pieces: &mut [u8],
        parent: usize,
    ) -> Result<(), M::Error> {
        let received = self.received[parent];
        let last = received + self.lines(pieces.len());
        self.received[parent] = last;
        // The last one comes after all others. To look at one that is being written would take it
        // away from the writer.
        let line = self.slot_line(parent, last);
        mpb.wait_flag_from(parent, line, |seen| seen == last).await?;
        let (upper, around) = pieces.split_at_mut(self.up_to_the_end(received + 1, pieces.len()));
        mpb.flag_payloads(self.slot_line(parent, received + 1), upper).await?;
        if !around.is_empty() {
            let number = received + 1 + self.lines(upper.len());
            mpb.flag_payloads(self.slot_line(parent, number), around).await?;
        }
        if let Some(flag) = self.says_taken(mpb.rank(), parent, received, last) {
            mpb.set_flag(flag, last).await?;
        }
        Ok(())
    }

    async fn wait_until_taken<M: Mpb>(
        &mut self,
        mpb: &mut M,
        child: usize,
        number: u64,
    ) -> Result<(), M::Error> {
        let line = self.taken_line(child);
        self.taken[child] = mpb.wait_flag_from(child, line, |taken| taken >= number).await?;
        Ok(())
    }

    /// Where to say that lines up to `last` were taken, if another half of the slots begins after
    /// line `before`.
    #[inline]
    fn says_taken(&self, me: usize, parent: usize, before: u64, last: u64) -> Option<Line> {
        // A power of two: another half begins where the bits from it on change.
        let begins = (before ^ last) & !(self.half() - 1) != 0;
        begins.then(|| Line { rank: parent, line: self.taken_line(me) })
    }

    /// Of so many bytes, those in the slots from the one of line `number` up to the last slot.
    fn up_to_the_end(&self, number: u64, bytes: usize) -> usize {
        let slots = self.slots - (number & (self.slots - 1));
        bytes.min(slots as usize * self.payload)
    }

    fn lines(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.payload) as u64
    }

    #[inline]
    fn half(&self) -> u64 {
        self.slots.div_ceil(2)
    }

    #[inline]
    fn taken_line(&self, child: usize) -> usize {
        self.first_line + child
    }

    #[inline]
    fn slot_line(&self, parent: usize, number: u64) -> usize {
        let slots = self.slots as usize;
        let slot = number as usize & (slots - 1);
        self.first_line + self.sent.len() + parent * slots + slot
    }
}
