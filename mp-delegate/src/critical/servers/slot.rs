//! Algorithm 5 of Petrović's thesis, the core of remote core locking: each client has a line of shared memory, and the
//! server looks at these lines in turn.
//!
//! There are three changes. Requests and responses have a line each, so that neither side takes from the other a line
//! that it is going to write. A client has several of both, so that it need not wait before it asks again. And short
//! operations share a line. A line is written once and then published by its first word, so that a request costs one
//! transfer, and so does its response.
//!
//! ```text
//! client's lines of requests:   number | operations in it    operation  operation …
//! server's lines of responses:  number | fates | operations  result     result    …
//! ```
//!
//! Lines of different clients lie two lines apart or more (section 7.2.1). Those of one client follow each other,
//! because the rank that wants one will want the next.
//!
//! Neither side looks at a line that the other is writing: both write a draft first, and then the whole line at once.
//!
//! A client that has no operation in flight publishes a line with one operation at once. With operations in flight it
//! fills the line first: the server is busy anyway, and many operations in a line cost no more transfers than one
//! (Nagle's rule).
//!
//! A request that its client may take back is alone in its line, and marked. The server takes the mark away before it
//! executes the request, and the client takes the operation away, whichever is first. A line without operations is
//! answered like others.
//!
//! **A server's death.** The server records what it executes before it does so. So its successor knows of each
//! operation whether it was executed, was not, or was in the middle. The outcome of the operation in the middle is
//! unknown, and its client is told so.

use std::time::Duration;

use mp_core::Plain;

use crate::critical::{
    fate::{Fate, Outcome},
    object::{get, put, words_of},
    section::Backoff,
    site::{AnyWord, BLOCK, Limit, Seat, Site},
    stop::Stop,
};

/// The number of words of a cache line.
const LINE: usize = 8;
/// The most operations in a line: as many as there is room for their fates.
const MOST: usize = LINE - 1;
const FATE_BITS: u64 = 3;
/// The bits for the count in a request's first word, below its number.
const COUNT_BITS: u64 = 8;
const COUNT: u64 = 0xf;
/// Beside the count: the client may take the operation back.
const OFFERED: u64 = 0x80;
/// The place of the low half of a response's number in its first word. Below it are the fates, and the count.
const NUMBER: u64 = 32;

/// Where the lines of each seat's requests lie. All ranks compute the same.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    first: usize,
    seats: usize,
    /// The number of lines of each seat, a power of 2.
    depth: usize,
    /// The number of words of a line.
    line: usize,
    /// The number of operations in a line.
    per_line: usize,
    /// The number of words of an operation or its result.
    unit: usize,
    /// The number of words of a seat's requests, and of its responses.
    ring: usize,
    streaming: bool,
}

/// The words of the server: what it is executing (see [`progress`]), which line the fates beside belong to, and the
/// fates so far.
const SERVER: usize = 3;
const SEAT_AT: u64 = 48;
const INDEX_AT: u64 = 40;

/// Returns the word for the seat, the operation in the line, and the line's number.
fn progress(seat: Seat, index: usize, number: u64) -> u64 {
    // It has 1 + the seat, so that 0 means nothing.
    (seat as u64 + 1) << SEAT_AT | (index as u64) << INDEX_AT | number & ((1 << INDEX_AT) - 1)
}

impl Slots {
    /// The most seats that progress has room for.
    pub(in crate::critical) const SEATS: usize = (1 << (64 - SEAT_AT)) - 2;

    /// Returns the layout of the slots whose words begin at `first`.
    pub fn new<Op, Ret>(first: usize, seats: usize, in_flight: usize, streaming: bool) -> Self {
        let unit = words_of::<Op>().max(words_of::<Ret>());
        // A streamed response is one word, and beside it the fate of one operation.
        let per_line = if streaming { 1 } else { (MOST / unit).max(1) };
        let line = (1 + per_line * unit).next_multiple_of(if cfg!(loom) { 1 } else { LINE });
        let depth = in_flight.max(1).next_power_of_two();
        let ring = (depth * line).next_multiple_of(BLOCK);
        Self { first, seats, depth, line, per_line, unit, ring, streaming }
    }

    /// Returns whether results of this type can be streamed.
    pub(in crate::critical) const fn streams<Ret>() -> bool {
        size_of::<Ret>() <= 4
    }

    /// Returns how many words are needed: the server's words, its draft, and the requests and the responses of each
    /// seat.
    pub fn words(&self) -> usize {
        self.rings() - self.first + self.seats * 2 * self.ring
    }

    fn rings(&self) -> usize {
        self.first + BLOCK + self.line.next_multiple_of(BLOCK)
    }

    /// Returns where results are until the line is full. Only the server looks there.
    fn draft<'a, S: Site>(&self, site: &'a S) -> Result<&'a [S::Word], Stop> {
        site.words(self.first + BLOCK, self.line)
    }

    #[inline(always)]
    fn lines<'a, S: Site>(
        &self,
        site: &'a S,
        ring: usize,
        number: u64,
    ) -> Result<&'a [S::Word], Stop> {
        let line = number as usize & (self.depth - 1);
        site.words(self.rings() + ring * self.ring + line * self.line, self.line)
    }

    #[inline(always)]
    fn request<'a, S: Site>(
        &self,
        site: &'a S,
        seat: Seat,
        number: u64,
    ) -> Result<&'a [S::Word], Stop> {
        self.lines(site, 2 * seat, number)
    }

    #[inline(always)]
    fn response<'a, S: Site>(
        &self,
        site: &'a S,
        seat: Seat,
        number: u64,
    ) -> Result<&'a [S::Word], Stop> {
        self.lines(site, 2 * seat + 1, number)
    }

    /// Returns the highest number that the seat has published, and the highest that was answered.
    fn history<S: Site>(&self, site: &S, seat: Seat) -> Result<(u64, u64), Stop> {
        let (mut published, mut answered) = (0, 0);
        for line in 0..self.depth as u64 {
            let asked = self.request(site, seat, line)?[0].load() >> COUNT_BITS;
            let response = self.response(site, seat, line)?[0].load();
            let is_answer = asked != 0 && response >> NUMBER == asked & u64::from(u32::MAX);
            published = published.max(asked);
            let before = asked.saturating_sub(self.depth as u64);
            answered = answered.max(if is_answer { asked } else { before });
        }
        Ok((published, answered))
    }
}

/// Names an operation that a client has submitted: its line's number, and its place there. It is one word, which is
/// passed from call to call in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(in crate::critical) u64);

impl Ticket {
    #[inline(always)]
    fn new(number: u64, index: usize) -> Self {
        Self(number << COUNT_BITS | index as u64)
    }

    #[inline(always)]
    fn number(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & ((1 << COUNT_BITS) - 1)) as usize
    }
}

/// One client.
#[derive(Debug)]
pub struct Client {
    slots: Slots,
    me: Seat,
    /// The line that is being filled. The server does not look there, since it would take the line away.
    draft: Vec<u64>,
    /// The number of operations in it.
    filled: usize,
    /// The number of the last published line; lines are numbered from 1.
    published: u64,
    /// The number of the last line whose response was seen.
    answered: u64,
    backoff: Backoff,
    /// Pauses between two looks.
    pauses: u32,
}

impl Client {
    /// Creates the client of one seat.
    pub fn new<S: Site>(slots: Slots, site: &S, me: Seat, backoff: Backoff) -> Result<Self, Stop> {
        // Another handle may have had the seat.
        let (published, answered) = slots.history(site, me)?;
        let pauses = match backoff {
            Backoff::None => 0,
            Backoff::Fixed(pauses) => pauses,
            Backoff::Tuned => 1,
        };
        let draft = vec![0; slots.line];
        Ok(Self { slots, me, draft, filled: 0, published, answered, backoff, pauses })
    }

    /// Hands over an operation. Waits only if as many operations as there is room for are in flight.
    #[inline(always)]
    pub fn submit<S: Site, Op: Plain>(&mut self, site: &S, op: &Op) -> Result<Ticket, Stop> {
        let number = self.published + 1;
        let index = self.filled;
        if index == 0 && number > self.answered + self.slots.depth as u64 {
            self.await_line(site, number - self.slots.depth as u64)?;
        }
        let bytes = bytemuck::bytes_of(op);
        let words = &mut self.draft[index * self.slots.unit..];
        bytemuck::cast_slice_mut(words)[..bytes.len()].copy_from_slice(bytes);
        self.filled = index + 1;
        if self.filled == self.slots.per_line || self.answered == self.published {
            self.flush(site)?;
        }
        Ok(Ticket::new(number, index))
    }

    /// Publishes the line that is being filled.
    #[inline(never)]
    pub fn flush<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        if self.filled == 0 {
            return Ok(());
        }
        let number = self.published + 1;
        let line = self.slots.request(site, self.me, number)?;
        for (word, &content) in line[1..].iter().zip(&self.draft[..self.filled * self.slots.unit]) {
            word.store_relaxed(content);
        }
        line[0].store(number << COUNT_BITS | self.filled as u64);
        (self.filled, self.published) = (0, number);
        site.wake_server();
        Ok(())
    }

    /// Hands over an operation that can be [taken back](Self::take_back), if there is room before the limit
    /// is over.
    pub(in crate::critical) fn offer<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        op: &Op,
        limit: &Limit,
    ) -> Result<Option<Ticket>, Stop> {
        self.flush(site)?;
        let number = self.published + 1;
        let depth = self.slots.depth as u64;
        if number > self.answered + depth && !self.await_until(site, number - depth, limit)? {
            return Ok(None);
        }
        let line = self.slots.request(site, self.me, number)?;
        put(op, &line[1..]);
        line[0].store(number << COUNT_BITS | OFFERED | 1);
        self.published = number;
        site.wake_server();
        Ok(Some(Ticket::new(number, 0)))
    }

    /// Waits for the response until the limit is over. Returns whether it is there.
    pub(in crate::critical) fn is_answered<S: Site>(
        &mut self,
        site: &S,
        ticket: Ticket,
        limit: &Limit,
    ) -> Result<bool, Stop> {
        self.await_until(site, ticket.number(), limit)
    }

    /// Takes back an offered operation. Returns false if the server has begun with it.
    pub(in crate::critical) fn take_back<S: Site>(
        &self,
        site: &S,
        ticket: Ticket,
    ) -> Result<bool, Stop> {
        let number = ticket.number();
        let head = &self.slots.request(site, self.me, number)?[0];
        let empty = number << COUNT_BITS;
        Ok(head.compare_exchange(empty | OFFERED | 1, empty).is_ok())
    }

    /// Takes back an operation that was handed over last, and is not published yet.
    pub(in crate::critical) fn cancel<Op: Plain>(&mut self, ticket: Ticket) -> Option<Op> {
        let last = self.filled.checked_sub(1)?;
        if ticket != Ticket::new(self.published + 1, last) {
            return None;
        }
        self.filled = last;
        let mut op = Op::zeroed();
        let bytes = bytemuck::bytes_of_mut(&mut op);
        let words = &self.draft[last * self.slots.unit..];
        bytes.copy_from_slice(&bytemuck::cast_slice(words)[..bytes.len()]);
        Some(op)
    }

    /// Returns whether the operation was executed.
    pub fn is_done<S: Site>(&mut self, site: &S, ticket: Ticket) -> Result<bool, Stop> {
        let number = ticket.number();
        if number > self.answered {
            let response = self.slots.response(site, self.me, number)?[0].load();
            if response >> NUMBER == number & u64::from(u32::MAX) {
                self.answered = number;
            }
        }
        Ok(number <= self.answered)
    }

    /// Waits for the result of an operation. Returns `None` if so many were submitted since that the result is not
    /// there any more, or if the operation is none of this client's.
    #[inline(always)]
    pub fn collect<S: Site, Ret: Plain>(
        &mut self,
        site: &S,
        ticket: Ticket,
    ) -> Result<Option<Outcome<Ret>>, Stop> {
        let (number, index) = (ticket.number(), ticket.index());
        if number > self.published {
            self.flush(site)?;
        }
        if number > self.published || self.published >= number + self.slots.depth as u64 {
            return Ok(None);
        }
        if number > self.answered {
            self.await_line(site, number)?;
        }
        let line = self.slots.response(site, self.me, number)?;
        let head = line[0].load();
        if self.slots.streaming {
            return Ok(Some(streamed(line, head, number)));
        }
        let fate = Fate::from_bits(head >> COUNT_BITS >> (FATE_BITS * index as u64));
        if fate != Fate::Done {
            return Ok(Some(Outcome::without(fate)));
        }
        Ok(Some(Outcome::done(get(&line[1 + index * self.slots.unit..]))))
    }

    /// Waits for the response to line `number`, and so for all before it.
    #[inline(never)]
    fn await_line<S: Site>(&mut self, site: &S, number: u64) -> Result<(), Stop> {
        let head = &self.slots.response(site, self.me, number)?[0];
        let look = || {
            let answered = head.load() >> NUMBER == number & u64::from(u32::MAX);
            answered.then_some(Ok(()))
        };
        if self.pauses > 0 && site.spins() {
            self.look_seldom(site, || look().is_some());
        }
        let is_first = site.begin_wait();
        let waited = site.wait(self.me, None, head, || {
            look().or_else(|| {
                // A response from before the server's end is visible by now.
                site.unserved().then(|| look().unwrap_or(Err(Stop::Unserved)))
            })
        });
        if is_first {
            site.end_wait();
        }
        waited??;
        self.answered = number;
        Ok(())
    }

    /// Works like [`await_line`](Self::await_line) until the limit is over. Returns whether the response is there.
    fn await_until<S: Site>(&mut self, site: &S, number: u64, limit: &Limit) -> Result<bool, Stop> {
        if number <= self.answered {
            return Ok(true);
        }
        let head = &self.slots.response(site, self.me, number)?[0];
        let look = || {
            let answered = head.load() >> NUMBER == number & u64::from(u32::MAX);
            answered.then_some(Ok(()))
        };
        let waited = site.wait_until(self.me, head, limit, || {
            look().or_else(|| {
                // A response from before the server's end is visible by now.
                site.unserved().then(|| look().unwrap_or(Err(Stop::Unserved)))
            })
        })?;
        let is_there = waited.transpose()?.is_some();
        if is_there {
            self.answered = number;
        }
        Ok(is_there)
    }

    fn look_seldom<S: Site>(&mut self, site: &S, mut look: impl FnMut() -> bool) {
        /// After this many looks the server is busy with others, or absent.
        const LOOKS: u32 = 100;
        /// The longest time between two looks.
        const LONGEST: Duration = Duration::from_micros(57);
        let mut looks = 0;
        while looks < LOOKS {
            site.pause(self.pauses);
            looks += 1;
            if look() {
                break;
            }
        }
        if self.backoff == Backoff::Tuned {
            self.pauses = match looks {
                // The response may have been there for long, so the pause becomes shorter.
                1 => (self.pauses - self.pauses / 8).max(2) - 1,
                2 => self.pauses,
                _ => (self.pauses + 1 + self.pauses / 8).min(site.pauses(LONGEST)),
            };
        }
    }
}

/// Returns the one result in a line that was streamed.
#[inline(never)]
fn streamed<Ret: Plain>(line: &[impl AnyWord], head: u64, number: u64) -> Outcome<Ret> {
    if line[1].load() >> COUNT_BITS == number {
        return Outcome::without(Fate::from_bits(line[1].load_relaxed()));
    }
    let mut ret = Ret::zeroed();
    let bytes = bytemuck::bytes_of_mut(&mut ret);
    let len = bytes.len().min(4);
    bytes[..len].copy_from_slice(&(head as u32).to_le_bytes()[..len]);
    Outcome::done(ret)
}

/// The order in which a server looks at seats.
pub trait Order {
    /// Returns the seats below `seats`, each once.
    fn first(&self, seats: usize) -> impl Iterator<Item = Seat>;
}

/// The order in which their lines lie.
#[derive(Debug)]
pub struct InOrder;

impl Order for InOrder {
    #[inline(always)]
    fn first(&self, seats: usize) -> impl Iterator<Item = Seat> {
        0..seats
    }
}

/// A random order, the same every time (T 7.2.2).
#[derive(Debug)]
pub struct Shuffled(Vec<Seat>);

impl Shuffled {
    /// Draws the order of so many seats.
    pub fn new(seats: usize) -> Self {
        let mut order: Vec<Seat> = (0..seats).collect();
        // Numbers that look like chance, from the number of the seat.
        order.sort_by_cached_key(|&seat| {
            let mixed = (seat as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        });
        Self(order)
    }
}

impl Order for Shuffled {
    fn first(&self, seats: usize) -> impl Iterator<Item = Seat> {
        self.0.iter().copied().filter(move |&seat| seat < seats)
    }
}

/// The server's side.
#[derive(Debug)]
pub struct Served {
    slots: Slots,
    /// The next line of each seat.
    next: Vec<u64>,
    /// The seats to which a response was streamed, which may be on its way as long as nothing pushes it.
    streamed: Vec<Seat>,
}

/// How many responses are streamed before they are pushed, even if there is more to do.
const STREAMED: usize = 64;

impl Served {
    /// Takes over from the previous server. Returns what that server was in the middle of, if anything. Must not be
    /// called before the previous server has stopped.
    pub fn take_over<S: Site>(slots: Slots, site: &S) -> Result<(Self, Option<Unfinished>), Stop> {
        let next = (0..slots.seats)
            .map(|seat| Ok(slots.history(site, seat)?.1 + 1))
            .collect::<Result<Vec<_>, Stop>>()?;
        let at = site.word(slots.first)?.load();
        let mut unfinished = None;
        if let Some(seat) = (at >> SEAT_AT).checked_sub(1) {
            let (seat, index) = (seat as usize, (at >> INDEX_AT) as usize & 0xff);
            let number = *next.get(seat).ok_or(Stop::Corrupt)?;
            if at == progress(seat, index, number) {
                unfinished = Some(Unfinished { seat, index });
            }
        }
        Ok((Self { slots, next, streamed: Vec::with_capacity(STREAMED) }, unfinished))
    }

    /// Looks once at each of the first `seats` seats, and executes a line of each that has one. Returns whether there
    /// was any.
    #[inline(always)]
    pub fn round<S: Site, Op: Plain, Ret: Plain>(
        &mut self,
        site: &S,
        order: &impl Order,
        seats: usize,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<bool, Stop> {
        let mut worked = false;
        for seat in order.first(self.next.len().min(seats)) {
            let next = self.next[seat];
            let request = &self.slots.request(site, seat, next)?[0];
            let mut head = request.load();
            if head >> COUNT_BITS == next {
                if head & OFFERED != 0 {
                    head = accept(request, head);
                }
                self.answer(site, seat, (head & COUNT) as usize, 0, run)?;
                worked = true;
            }
        }
        if !worked && !self.streamed.is_empty() || self.streamed.len() >= STREAMED {
            self.push(site);
        }
        Ok(worked)
    }

    /// Makes streamed responses arrive, and wakes the seats that sleep until then. A seat that was woken when its
    /// response was streamed may have looked before the response was there, and gone to sleep again.
    #[inline(never)]
    pub(in crate::critical) fn push<S: Site>(&mut self, site: &S) {
        if self.streamed.is_empty() {
            return;
        }
        site.settle();
        for seat in self.streamed.drain(..) {
            site.wake(seat);
        }
    }

    /// Answers a line in which the operation at `index` may have been executed, all before it were, and none after it
    /// was. The operation at `index` is executed if `again` says so, or else unknown.
    pub(in crate::critical) fn finish<S: Site, Op: Plain, Ret: Plain>(
        &mut self,
        site: &S,
        Unfinished { seat, index }: Unfinished,
        again: impl FnOnce(&Op) -> bool,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<(), Stop> {
        let next = *self.next.get(seat).ok_or(Stop::Corrupt)?;
        if index >= MOST {
            return Err(Stop::Corrupt);
        }
        let request = self.slots.request(site, seat, next)?;
        let head = request[0].load();
        let op = request.get(1 + index * self.slots.unit..).ok_or(Stop::Corrupt)?;
        let [_, fated, fates] = site.words(self.slots.first, SERVER)? else {
            return Err(Stop::Corrupt);
        };
        // The results of earlier operations of the line are in the draft. The fates may be those of another line.
        if fated.load() != progress(seat, 0, next) {
            fates.store_relaxed(0);
            fated.store(progress(seat, 0, next));
        }
        let at = FATE_BITS * index as u64;
        let others = fates.load() & !(((1 << FATE_BITS) - 1) << at);
        let mut is_first = again(&get(op));
        let from = if is_first {
            fates.store_relaxed(others);
            index
        } else {
            fates.store_relaxed(others | (Fate::Unknown as u64) << at);
            index + 1
        };
        let mut finish = |seat, op| match (run(seat, op), std::mem::take(&mut is_first)) {
            // `Poisoned` would tell the client that its operation was not begun, but it may have panicked before.
            (Outcome { fate: Fate::Poisoned, .. }, true) => Outcome::without(Fate::Unknown),
            (outcome, _) => outcome,
        };
        self.answer(site, seat, (head & COUNT) as usize, from, &mut finish)
    }

    #[inline(always)]
    fn answer<S: Site, Op: Plain, Ret: Plain>(
        &mut self,
        site: &S,
        seat: Seat,
        count: usize,
        from: usize,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<(), Stop> {
        let slots = self.slots;
        let number = self.next[seat];
        let request = slots.request(site, seat, number)?;
        let response = slots.response(site, seat, number)?;
        let draft = slots.draft(site)?;
        let [at, fated, fates] = site.words(slots.first, SERVER)? else {
            return Err(Stop::Corrupt);
        };
        let count = count.min(slots.per_line);
        let mut bad = if from > 0 { fates.load_relaxed() } else { 0 };
        let mut streamed = 0;
        for index in from..count {
            at.note(progress(seat, index, number));
            let words = 1 + index * slots.unit;
            let outcome = run(seat, get(&request[words..]));
            if outcome.fate != Fate::Done {
                bad |= (outcome.fate as u64) << (FATE_BITS * index as u64);
                fates.store_relaxed(bad);
                fated.store(progress(seat, 0, number));
            } else if slots.streaming {
                streamed = short(&outcome.ret);
            } else {
                put(&outcome.ret, &draft[words..]);
            }
        }
        self.next[seat] = number + 1;
        let half = number << NUMBER;
        if !slots.streaming {
            // The line is written at once, because a client that looks takes it away.
            let words = 1..1 + count * slots.unit;
            for (word, result) in response[words.clone()].iter().zip(&draft[words]) {
                word.store_relaxed(result.load_relaxed());
            }
            response[0].store(half | bad << COUNT_BITS | count as u64);
        } else if bad == 0 {
            response[0].stream(half | u64::from(streamed));
            self.streamed.push(seat);
        } else {
            response[1].store(number << COUNT_BITS | bad);
            response[0].store(half);
        }
        site.wake(seat);
        Ok(())
    }
}

/// Accepts an offered operation. Returns what the request's first word is then: one without operations, if the client
/// was first.
#[cold]
fn accept(request: &impl AnyWord, head: u64) -> u64 {
    match request.compare_exchange(head, head & !OFFERED) {
        Ok(()) => head & !OFFERED,
        Err(taken_back) => taken_back,
    }
}

/// What a server was in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    seat: Seat,
    index: usize,
}

/// Returns a result of up to 4 bytes.
fn short<Ret: Plain>(ret: &Ret) -> u32 {
    let mut bytes = [0; 4];
    let from = bytemuck::bytes_of(ret);
    let len = from.len().min(4);
    bytes[..len].copy_from_slice(&from[..len]);
    u32::from_le_bytes(bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::critical::place::Place;

    /// The server died after the operation had panicked, and before that was reported. The operation was begun, so it
    /// is not reported as refused; those behind it are.
    #[test]
    fn what_panicked_and_was_not_told_is_unknown() {
        let slots = Slots::new::<u64, u64>(Place::own(2), 2, 4, false);
        let place = Place::of_two(slots.words());
        let mut client = Client::new(slots, &place, 0, Backoff::None).unwrap();
        let first = client.submit(&place, &1u64).unwrap();
        let others = [2, 3].map(|op: u64| client.submit(&place, &op).unwrap());
        client.flush(&place).unwrap();

        place.word(Place::own(2)).unwrap().store(progress(0, 0, 1));
        let (mut served, unfinished) = Served::take_over(slots, &place).unwrap();
        let unfinished = unfinished.unwrap();
        let mut refuse = |_, _: u64| Outcome::<u64>::without(Fate::Poisoned);
        served.finish(&place, unfinished, |_| true, &mut refuse).unwrap();
        served.round(&place, &InOrder, 2, &mut refuse).unwrap();
        let mut fate =
            |ticket| client.collect::<_, u64>(&place, ticket).unwrap().map(|outcome| outcome.fate);
        assert_eq!(fate(first), Some(Fate::Unknown));
        assert_eq!(others.map(&mut fate), [Some(Fate::Poisoned); 2]);
    }

    #[test]
    fn everybody_comes_once_in_any_order() {
        for most in [0, 1, 2, 9, 80] {
            let shuffled = Shuffled::new(most);
            for seats in [0, 1, most / 2, most].into_iter().filter(|&seats| seats <= most) {
                let mut order: Vec<Seat> = shuffled.first(seats).collect();
                // If there are many seats, few follow their neighbour.
                let follow = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
                assert!(seats < 40 || follow < seats / 5, "{order:?}");
                order.sort_unstable();
                assert_eq!(order, InOrder.first(seats).collect::<Vec<_>>());
            }
        }
    }
}
