//! Lines between every two ranks, each with its payload beside its number. Short messages use these lines.
//!
//! Every pair of ranks has lines of its own in each direction (Ramos & Hoefler's line privatization),
//! so that no flag ever has two writers.
//!
//! The lines of each MPB, from `first_line` on:
//!
//! ```text
//! P       taken: how many lines rank i has taken of those from this one     set by rank i
//! P · 2   from rank i: the last two of its first lines                      set by rank i
//! P · s   from rank i: the last s of those behind them, each with its number  set by rank i
//! ```
//!
//! Between two ranks there are only two slots at first, so that ranks that make few calls need little memory. A message
//! of more than one line, or the 65th line, goes to the s slots, and so does everything after it. Both ranks see when
//! this happens. Buffers that [grow](mp_core::mpb::Mpbs::growing_from) behind the first [`Pairs::near_lines`] have no
//! memory for the s slots before that.
//!
//! 1. The sender waits until the receiver has taken the lines that were in the slots before.
//! 2. The sender writes the payload of each line, then its number (one line transfer).
//! 3. The receiver waits for the number of the last line, up to half of the slots ahead, and copies the payloads.
//! 4. After every half of the slots, the receiver reports how many lines it has taken. As long as it keeps up, the
//!    sender never waits for that report. Two ranks that send to each other and then receive, no more than half of the
//!    slots at a time, do not wait for it either.
//! 5. Two ranks that [exchange](Pairs::exchange) a line in the same operation know from it that the other rank has
//!    taken everything that was sent before, and report nothing.
//!
//! Lines are counted in 64 bits, which do not wrap around. A line's flag holds the lower 32 bits of its number, which
//! distinguish it from everything else that the slot may hold. Above them is the [mark](MpbAccess::mark) of the
//! sender's call, which the receiver compares with its own.

use mp_core::mpb::{Line, MpbAccess};

use crate::broadcast::LineOptionsError;

/// The least number of slots. Half of them is at least one, so that something is reported after every exchange, and a
/// line can be sent before the report.
const LEAST: usize = 2;

/// The number of near slots, which take the first lines.
const NEAR: usize = 2;

/// The number of the last line that can use a near slot.
const FIRST: u64 = 64;

/// The lines between this rank and all others.
#[derive(Debug)]
pub(crate) struct Pairs {
    first_line: usize,
    /// The number of bytes beside a flag.
    payload: usize,
    /// The number of slots, a power of two.
    slots: u64,
    /// The counts for each rank.
    counts: Vec<Counts>,
}

/// Counts of lines.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: Way,
    /// The number of sent lines that are known to be taken.
    taken: u64,
    received: Way,
}

/// The lines in one direction.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The number of the last line.
    last: u64,
    /// The number of the first line that is not in the near slots, if there is such a line yet.
    far: u64,
}

impl Default for Way {
    fn default() -> Self {
        Self { last: 0, far: u64::MAX }
    }
}

impl Way {
    /// Counts more lines, which are sent together.
    #[inline(always)]
    fn advance(&mut self, count: u64) {
        let before = self.last;
        self.last = before + count;
        if self.last < self.far && (self.last > FIRST || count > 1) {
            self.far = before + 1;
        }
    }

    /// Returns the state of this way after `count` more lines.
    fn after(mut self, count: u64) -> Self {
        self.advance(count);
        self
    }

    #[inline(always)]
    fn is_near(self, number: u64) -> bool {
        number < self.far
    }
}

/// Returns the value of a line's flag: its number and the call's mark. A carry out of the number goes into the bit
/// between number and mark, which is not compared.
#[inline(always)]
pub(crate) fn marked<M: MpbAccess>(mpb: &M, number: u64) -> u64 {
    u64::from(number as u32) | mpb.mark()
}

/// Does the same for a line of a block of this length.
#[inline(always)]
pub(crate) fn marked_of<M: MpbAccess>(mpb: &M, number: u64, bytes: usize) -> u64 {
    u64::from(number as u32) | mpb.mark_of(bytes)
}

/// Returns whether a flag is that of the line of this number.
#[inline(always)]
pub(crate) fn is_line(number: u64) -> impl Fn(u64) -> bool {
    move |seen| seen as u32 == number as u32
}

/// A line that is to be sent or received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) line: usize,
}

impl Pairs {
    pub(crate) fn new<M: MpbAccess>(
        mpb: &M,
        slots: usize,
        first_line: usize,
    ) -> Result<Pairs, LineOptionsError> {
        let (ranks, lines, line_bytes) = (mpb.ranks(), mpb.lines(), mpb.line_bytes());
        if slots == 0 {
            return Err(LineOptionsError::NoSlots);
        }
        let payload = line_bytes.saturating_sub(size_of::<u64>());
        if payload == 0 {
            return Err(LineOptionsError::NoPayload { line_bytes });
        }
        match Pairs::lines(slots, ranks).and_then(|needed| needed.checked_add(first_line)) {
            Some(end) if end <= lines => {}
            _ => return Err(LineOptionsError::NoRoom { slots, ranks, first_line, lines }),
        }
        let slots = slots.max(LEAST).next_power_of_two() as u64;
        Ok(Pairs { first_line, payload, slots, counts: vec![Counts::default(); ranks] })
    }

    /// Returns the number of lines that this needs in each MPB, or `None` if the number overflows.
    pub(crate) fn lines(slots: usize, ranks: usize) -> Option<usize> {
        let slots = slots.max(LEAST).checked_next_power_of_two()?;
        slots.checked_add(NEAR)?.checked_add(1)?.checked_mul(ranks)
    }

    /// Returns how many of these lines belong to the near slots and the reports. They come before all others.
    pub(crate) fn near_lines(ranks: usize) -> usize {
        ranks.saturating_mul(1 + NEAR)
    }

    /// Returns the number of bytes that go with one line.
    #[inline]
    pub(crate) fn payload(&self) -> usize {
        self.payload
    }

    /// Returns the greatest number of bytes for one [`send`](Pairs::send) with this many slots, if lines hold `payload`
    /// bytes beside their numbers.
    pub(crate) fn room(slots: usize, payload: usize) -> usize {
        let slots = slots.max(LEAST).checked_next_power_of_two().unwrap_or(usize::MAX);
        (slots / 2).saturating_mul(payload)
    }

    /// Returns the greatest number of bytes for one [`send`](Pairs::send).
    #[inline]
    pub(crate) fn most(&self) -> usize {
        self.half() as usize * self.payload
    }

    /// Returns the next line to be sent to this rank. The caller must then check [`must_wait`](Pairs::must_wait).
    #[inline]
    pub(crate) fn next_to(&mut self, me: usize, to: usize) -> Numbered {
        let way = &mut self.counts[to].sent;
        way.advance(1);
        let (way, number) = (*way, way.last);
        Numbered { number, line: self.slot_line(me, way, number) }
    }

    /// Returns how many lines must have been taken before this line is sent, or `None` if they have already been.
    #[inline]
    pub(crate) fn must_wait(&self, to: usize, number: u64) -> Option<u64> {
        let Counts { sent, taken, .. } = self.counts[to];
        let slots = if sent.is_near(number) { NEAR as u64 } else { self.slots };
        let before = number.saturating_sub(slots);
        (taken < before).then_some(before)
    }

    /// Returns whether the next line to this rank goes to a near slot if it is sent alone.
    pub(crate) fn is_near_to(&self, to: usize) -> bool {
        let next = self.counts[to].sent.after(1);
        next.is_near(next.last)
    }

    /// Returns whether the next line from this rank comes to a near slot if it comes alone.
    pub(crate) fn is_near_from(&self, from: usize) -> bool {
        let next = self.counts[from].received.after(1);
        next.is_near(next.last)
    }

    /// Sends one line of a block of this length.
    pub(crate) async fn send_one<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        payload: &[u8],
        bytes: usize,
        to: usize,
    ) -> Result<(), M::Error> {
        let Numbered { number, line } = self.next_to(mpb.rank(), to);
        if let Some(before) = self.must_wait(to, number) {
            self.wait_until_taken(mpb, to, before).await?;
        }
        let value = marked_of(mpb, number, bytes);
        mpb.set_flag_with(Line { rank: to, line }, value, payload).await
    }

    /// Receives what was sent by one [`send_one`](Pairs::send_one), of a block for which there is this much room.
    pub(crate) async fn receive_one<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        payload: &mut [u8],
        room: usize,
        from: usize,
    ) -> Result<(), M::Error> {
        let Numbered { number, line } = self.next_from(from);
        let seen = mpb.wait_flag_from(from, line, is_line(number)).await?;
        mpb.compare_block(from, seen, room)?;
        mpb.flag_payload(line, payload).await?;
        if let Some(flag) = self.says_taken(mpb.rank(), from, number - 1, number) {
            mpb.set_flag(flag, number).await?;
        }
        Ok(())
    }

    /// Returns the next line from this rank.
    #[inline]
    pub(crate) fn next_from(&mut self, from: usize) -> Numbered {
        let way = &mut self.counts[from].received;
        way.advance(1);
        let (way, number) = (*way, way.last);
        Numbered { number, line: self.slot_line(from, way, number) }
    }

    /// Sends up to [`most`](Pairs::most) bytes.
    pub(crate) async fn send<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        pieces: &[u8],
        to: usize,
    ) -> Result<(), M::Error> {
        let (me, sent, count) = (mpb.rank(), self.counts[to].sent.last, self.count(pieces.len()));
        self.counts[to].sent.advance(count);
        let way = self.counts[to].sent;
        if let Some(before) = self.must_wait(to, way.last) {
            self.wait_until_taken(mpb, to, before).await?;
        }
        let slot = |number| Line { rank: to, line: self.slot_line(me, way, number) };
        let (upper, around) = pieces.split_at(self.up_to_the_end(way, sent + 1, pieces.len()));
        let value = |mpb: &M, number| marked_of(mpb, number, pieces.len());
        mpb.set_flags_with(slot(sent + 1), value(mpb, sent + 1), upper).await?;
        if !around.is_empty() {
            let number = sent + 1 + self.count(upper.len());
            mpb.set_flags_with(slot(number), value(mpb, number), around).await?;
        }
        Ok(())
    }

    /// Receives what was sent by one [`send`](Pairs::send).
    pub(crate) async fn receive<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        pieces: &mut [u8],
        from: usize,
    ) -> Result<(), M::Error> {
        let (received, count) = (self.counts[from].received.last, self.count(pieces.len()));
        self.counts[from].received.advance(count);
        let way = self.counts[from].received;
        let last = way.last;
        // The last line is written after all others. Looking at a line that is being written would take it away from
        // the writer's cache.
        let line = self.slot_line(from, way, last);
        let seen = mpb.wait_flag_from(from, line, is_line(last)).await?;
        mpb.compare_block(from, seen, pieces.len())?;
        let (upper, around) =
            pieces.split_at_mut(self.up_to_the_end(way, received + 1, pieces.len()));
        mpb.flag_payloads(self.slot_line(from, way, received + 1), upper).await?;
        if !around.is_empty() {
            let number = received + 1 + self.count(upper.len());
            mpb.flag_payloads(self.slot_line(from, way, number), around).await?;
        }
        if let Some(flag) = self.says_taken(mpb.rank(), from, received, last) {
            mpb.set_flag(flag, last).await?;
        }
        Ok(())
    }

    /// Sends a line to a rank that sends a line to this rank as part of the same operation. By the time
    /// its line arrives, the other rank has received everything that was sent to it before.
    pub(crate) async fn exchange<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        own: &[u8],
        theirs: &mut [u8],
        other: usize,
    ) -> Result<(), M::Error> {
        if let Some(before) = self.before_next(other) {
            self.wait_until_taken(mpb, other, before).await?;
        }
        let (to, from) = (self.next_to(mpb.rank(), other), self.next_from(other));
        let flag = Line { rank: other, line: to.line };
        let number = marked(mpb, to.number);
        mpb.exchange_flags(flag, number, own, from.line, from.number, theirs).await?;
        self.exchanged(other, to.number);
        Ok(())
    }

    /// Returns whether the next line can be sent to this rank without waiting.
    #[inline(always)]
    pub(crate) fn is_clear(&self, to: usize) -> bool {
        self.before_next(to).is_none()
    }

    /// Returns [`must_wait`](Self::must_wait) for the next line to be sent to this rank.
    #[inline(always)]
    fn before_next(&self, to: usize) -> Option<u64> {
        let next = self.counts[to].sent.after(1);
        let slots = if next.is_near(next.last) { NEAR as u64 } else { self.slots };
        let before = next.last.saturating_sub(slots);
        (self.counts[to].taken < before).then_some(before)
    }

    /// Records that both ranks have the other's line: everything sent before line `number` has been taken. Those lines
    /// need no report. Later lines are reported before they fill half of the slots.
    #[inline(always)]
    pub(crate) fn exchanged(&mut self, other: usize, number: u64) {
        self.counts[other].taken = number - 1;
    }

    /// Waits until this many bytes can be received.
    pub(crate) async fn await_from<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        bytes: usize,
        from: usize,
    ) -> Result<(), M::Error> {
        let way = self.counts[from].received.after(self.count(bytes));
        let (line, last) = (self.slot_line(from, way, way.last), way.last);
        let seen = mpb.wait_flag_from(from, line, is_line(last)).await?;
        mpb.compare_mark(from, seen)
    }

    pub(crate) async fn wait_until_taken<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        by: usize,
        number: u64,
    ) -> Result<(), M::Error> {
        let line = self.taken_line(by);
        self.counts[by].taken = mpb.wait_flag_from(by, line, |taken| taken >= number).await?;
        Ok(())
    }

    /// Returns where to report that lines up to `last` were taken, if a new half of the slots begins after line
    /// `before`.
    #[inline]
    pub(crate) fn says_taken(
        &self,
        me: usize,
        from: usize,
        before: u64,
        last: u64,
    ) -> Option<Line> {
        let near = self.counts[from].received.is_near(last);
        let half = if near { NEAR as u64 / 2 } else { self.half() };
        // The half is a power of two, so a new half begins where the bits from it upwards change.
        let begins = (before ^ last) & !(half - 1) != 0;
        begins.then(|| Line { rank: from, line: self.taken_line(me) })
    }

    /// Returns how many of `bytes` bytes are in the slots from the one of line `number` up to the last slot.
    fn up_to_the_end(&self, way: Way, number: u64, bytes: usize) -> usize {
        let all = if way.is_near(number) { NEAR as u64 } else { self.slots };
        let slots = all - (number & (all - 1));
        bytes.min(slots as usize * self.payload)
    }

    fn count(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.payload) as u64
    }

    #[inline]
    fn half(&self) -> u64 {
        self.slots.div_ceil(2)
    }

    #[inline]
    fn taken_line(&self, rank: usize) -> usize {
        self.first_line + rank
    }

    #[inline]
    fn slot_line(&self, from: usize, way: Way, number: u64) -> usize {
        let ranks = self.counts.len();
        if way.is_near(number) {
            return self.first_line + ranks + from * NEAR + (number as usize & (NEAR - 1));
        }
        let slots = self.slots as usize;
        let slot = number as usize & (slots - 1);
        self.first_line + Self::near_lines(ranks) + from * slots + slot
    }
}
