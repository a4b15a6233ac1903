//! MP-SERVER, section 6.1.2 of Petrović's thesis: requests and responses are messages, which go through two of the
//! library's channels for each client. Only the channels are shared, so the orderings, and the models of them, are the
//! channels' own. In simulations the channels are simulated ones.
//!
//! ```text
//! request     operation  operation …
//! response    fates      result     result …
//! ```
//!
//! A client that has no operation in flight sends an operation at once. With operations in flight it fills a message
//! first, up to what fits in a cache line, as the clients of `slot.rs` do: the server is busy anyway.
//!
//! An operation that its client may take back is alone in its message. A word of the client's seat names it, by its
//! number among those that were sent to this server. In this word either the server writes that it begins with the
//! operation, or the client writes that it takes the operation back, whichever is first.
//!
//! **A server's death.** Requests that were on their way to the server are lost with its channels: each request that it
//! has not answered was executed once or not at all, and its client is told so. Requests that the client had not sent
//! yet go to the successor. A server that stands by opens channels of its own when it takes over, and clients open
//! their ends when they next ask. A word of shared memory says that the dead server was in the middle of an operation.
//! It is not read before the take-over.

use std::time::Duration;

use mp_core::{
    Channel, Plain, Rank, Receiver, Select, Sender, Wait,
    names::Namespace,
    progress::ring,
    waits::{look, looks},
};

use crate::critical::{
    fate::{Fate, Outcome},
    object::words_of,
    place::{Place, head},
    site::{AnyWord, Limit, Seat, Site, seat},
    stop::Stop,
};

/// Returns the name of the two channels between a client and a server. No other object has it, not even one of the same
/// name: messages that were left in the channels of one object reach no server of the next.
fn name(place: &Place) -> String {
    /// The most bytes of a channel's name.
    const LONGEST: usize = 64;
    let of = format!(" (critical section no. {})", place.region.serial());
    let mut name = place.region.name().to_owned();
    while name.len() + of.len() > LONGEST {
        name.pop();
    }
    name + &of
}

/// The number of words of a message that fills a cache line together with the channel's own word.
const LINE: usize = 7;
/// The bits for each operation in the first word of a response.
const FATE_BITS: usize = 2;

/// Returns the most operations in a message.
const fn batch<Op, Ret>() -> usize {
    let (asked, told) = (LINE / words_of::<Op>(), (LINE - 1) / words_of::<Ret>());
    let most = if asked < told { asked } else { told };
    if most == 0 { 1 } else { most }
}

fn channel(in_flight: usize, words: usize) -> Channel {
    Channel::degree(in_flight.clamp(1, 1 << 20) as u32).max_len(words)
}

fn requests<Op, Ret>(in_flight: usize) -> Channel {
    const ASK: Namespace = Namespace::new("ask");
    ASK.channel(channel(in_flight, batch::<Op, Ret>() * words_of::<Op>()))
}

fn responses<Op, Ret>(in_flight: usize) -> Channel {
    const TELL: Namespace = Namespace::new("tell");
    TELL.channel(channel(in_flight, 1 + batch::<Op, Ret>() * words_of::<Ret>()))
}

fn ended(error: mp_core::Error) -> Stop {
    match error.kind() {
        mp_core::ErrorKind::PeerLost { .. } | mp_core::ErrorKind::Disconnected { .. } => {
            Stop::Unserved
        }
        _ => error.into(),
    }
}

/// The sending end of a channel.
pub trait Outlet {
    /// Sends a message of so many words, written where it will be read. Waits for room.
    fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop>;
}

/// The receiving end of a channel.
pub trait Inlet {
    /// Returns whether a look finds nothing. It takes less time than [`try_receive`](Self::try_receive), and need not
    /// see that the other end is gone.
    fn seems_empty(&self) -> bool {
        false
    }

    /// Waits for a message, and reads it in place.
    fn receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<T, Stop>;

    /// Waits for a message until the limit is over. In simulations there are no limits.
    fn receive_until<T>(
        &mut self,
        _limit: &Limit,
        read: impl FnOnce(&[u64]) -> T,
    ) -> Result<Option<T>, Stop> {
        self.receive(read).map(Some)
    }

    /// Reads a message in place, if one is there.
    fn try_receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop>;
}

impl Outlet for Sender<[u64]> {
    #[inline(always)]
    fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop> {
        let mut slot = self.reserve(words).map_err(ended)?;
        write(&mut slot);
        slot.publish().map_err(ended)
    }
}

impl Inlet for Receiver<[u64]> {
    #[inline(always)]
    fn seems_empty(&self) -> bool {
        !self.has_message()
    }

    #[inline(always)]
    fn receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<T, Stop> {
        Receiver::receive(self).map(|message| read(&message)).map_err(ended)
    }

    fn receive_until<T>(
        &mut self,
        limit: &Limit,
        read: impl FnOnce(&[u64]) -> T,
    ) -> Result<Option<T>, Stop> {
        match self.receive_with(limit.left().despite_failure()).map_err(mp_core::Error::into_kind) {
            Ok(message) => Ok(Some(read(&message))),
            Err(mp_core::ErrorKind::Timeout { .. }) => Ok(None),
            Err(error) => Err(ended(error.into())),
        }
    }

    #[inline(always)]
    fn try_receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop> {
        let message = Receiver::try_receive(self).map_err(ended)?;
        Ok(message.map(|message| read(&message)))
    }
}

/// How a client gets from a server that is gone to its successor.
pub trait Follow<S, A, B> {
    /// Waits for the succeeding server, if there is to be one: until the limit is over, if there is one.
    fn follow<Op: Plain, Ret: Plain>(
        &mut self,
        site: &S,
        in_flight: usize,
        limit: Option<&Limit>,
    ) -> Result<Option<(A, B)>, Stop>;
}

/// There is no successor.
impl<S, A, B> Follow<S, A, B> for () {
    fn follow<Op: Plain, Ret: Plain>(
        &mut self,
        _site: &S,
        _: usize,
        _: Option<&Limit>,
    ) -> Result<Option<(A, B)>, Stop> {
        Err(Stop::Unserved)
    }
}

/// A client's connection to real servers.
pub struct Way {
    rank: Rank,
    me: Seat,
    /// The server that the scheme names, followed by the one that the channels lead to.
    first: usize,
    server: usize,
}

/// A client's ends.
type Ends = (Sender<[u64]>, Receiver<[u64]>);

impl Way {
    fn connect<Op: Plain, Ret: Plain>(
        &self,
        place: &Place,
        in_flight: usize,
    ) -> Result<Ends, mp_core::Error> {
        let (Self { rank, server, .. }, name) = (self, name(place));
        let mut ask = rank.sender(&name, *server, requests::<Op, Ret>(in_flight))?;
        let told = rank.receiver(&name, *server, responses::<Op, Ret>(in_flight))?;
        // A wait here must not end with the error of something else, because a result would be lost.
        let wait = Wait::forever().despite_failure();
        ask.set_wait(wait);
        told.set_wait(wait);
        Ok((ask, told))
    }
}

impl Follow<Place, Sender<[u64]>, Receiver<[u64]>> for Way {
    fn follow<Op: Plain, Ret: Plain>(
        &mut self,
        place: &Place,
        in_flight: usize,
        limit: Option<&Limit>,
    ) -> Result<Option<Ends>, Stop> {
        let word = place.head(head::SERVER);
        let look = || {
            let next = place.serving()?;
            (next != self.server).then_some(Ok(next))
        };
        let poll = || {
            look().or_else(|| {
                // The successor may have come, and gone, since the first look.
                place.unserved_after(self.first).then(|| look().unwrap_or(Err(Stop::Unserved)))
            })
        };
        let next = match limit {
            // With a limit that is over this looks once, because the rank may be in a wait that brings this on.
            Some(limit) if limit.is_over() => poll().transpose()?,
            Some(limit) => place.wait_until(self.me, word, limit, poll)?.transpose()?,
            None => Some(place.wait(self.me, None, word, poll)??),
        };
        let Some(next) = next else { return Ok(None) };
        self.server = next;
        let ends = self.connect::<Op, Ret>(place, in_flight)?;
        // The rank may be about to sleep in a wait that has brought this on, after it asked to be rung by the server
        // before. This ends the sleep, and the next one asks this server.
        ring(&self.rank);
        Ok(Some(ends))
    }
}

/// How long to look for a response before the wait that may sleep.
const LOOKING: Duration = Duration::from_micros(1);

/// One client. Operations are numbered from 1.
pub struct Client<Ret, A = Sender<[u64]>, B = Receiver<[u64]>, W = Way> {
    way: W,
    ask: A,
    told: B,
    in_flight: usize,
    /// The same number, or 0 when the server is gone.
    room: u64,
    /// The number of operations that were handed over.
    asked: u64,
    /// How many of those were sent to servers before this one.
    earlier: u64,
    /// Index of the word that names the operation that may be taken back, followed by the last operation that it named.
    wish: usize,
    offered: u64,
    /// Operations that were not sent.
    draft: Vec<u64>,
    /// [`LOOKING`], as a number of looks.
    looks: u32,
    answers: Answers<Ret>,
}

/// The results of a client's operations.
struct Answers<Ret> {
    /// The number of operations that were sent, followed by the number of those whose results are known.
    sent: u64,
    known: u64,
    /// The last results, each at its number modulo as many as there are.
    kept: Box<[Outcome<Ret>]>,
}

impl<Ret: Plain> Answers<Ret> {
    /// Adds the result of the next operation.
    #[inline(always)]
    fn keep(&mut self, outcome: Outcome<Ret>) {
        self.known += 1;
        let at = self.known as usize & (self.kept.len() - 1);
        self.kept[at] = outcome;
    }

    #[inline(always)]
    fn decode(&mut self, response: &[u64]) -> Result<(), Stop> {
        let (&fates, results) = response.split_first().ok_or(Stop::Corrupt)?;
        let results = results.chunks_exact(words_of::<Ret>());
        let asked = 1..=self.sent - self.known;
        if !asked.contains(&(results.len() as u64)) || !results.remainder().is_empty() {
            return Err(Stop::Corrupt);
        }
        for (at, result) in results.enumerate() {
            let fate = Fate::from_bits(fates >> (FATE_BITS * at).min(63));
            self.keep(Outcome { fate, ret: read(result) });
        }
        Ok(())
    }
}

impl<Ret: Plain> Client<Ret> {
    /// Asks for a ring when there is a response, or when the server is gone.
    pub(in crate::critical) fn raise(&self) {
        self.select().raise();
    }

    /// Takes the ring back.
    pub(in crate::critical) fn lower(&self) {
        self.select().lower();
    }

    /// Returns what a report says of a wait for a response.
    pub(in crate::critical) fn awaits(&self) -> Vec<u64> {
        self.select().awaits()
    }

    fn select(&self) -> Select<'_> {
        let mut select = Select::new();
        select.add(&self.told);
        select
    }

    pub(in crate::critical) fn open<Op: Plain>(
        rank: &Rank,
        place: &Place,
        me: Seat,
        server: usize,
        in_flight: usize,
    ) -> Result<Self, mp_core::Error> {
        let way = Way { rank: rank.clone(), me, first: server, server };
        let (ask, told) = way.connect::<Op, Ret>(place, in_flight)?;
        Ok(Self { wish: place.index(me, seat::WISH), ..Self::over(way, ask, told, in_flight) })
    }
}

impl<Ret: Plain, A: Outlet, B: Inlet, W> Client<Ret, A, B, W> {
    /// Creates a client with channels that have room for so many messages.
    pub fn over(way: W, ask: A, told: B, in_flight: usize) -> Self {
        let kept = vec![Outcome::without(Fate::Unknown); in_flight.next_power_of_two()].into();
        let answers = Answers { sent: 0, known: 0, kept };
        let (room, asked, draft) = (in_flight as u64, 0, Vec::with_capacity(LINE));
        Self {
            way,
            ask,
            told,
            in_flight,
            room,
            asked,
            earlier: 0,
            wish: 0,
            offered: 0,
            draft,
            looks: looks(LOOKING),
            answers,
        }
    }

    /// Hands over an operation, and returns its number. Waits only if as many operations as there is room for are in
    /// flight, or if the server is gone and another one stands by.
    #[inline(never)]
    pub fn submit<S: Site, Op: Plain>(&mut self, site: &S, op: &Op) -> Result<u64, Stop>
    where
        W: Follow<S, A, B>,
    {
        if self.asked == self.answers.known && self.room > 0 {
            // Nothing is in flight, so the operation is sent without the draft.
            match self.ask.send(words_of::<Op>(), |words| write(op, words)) {
                Ok(()) => {
                    self.asked += 1;
                    self.answers.sent = self.asked;
                    site.wake_server();
                    return Ok(self.asked);
                }
                Err(stop) => self.give_up(stop)?,
            }
        }
        if self.asked - self.answers.known >= self.room {
            self.make_room::<S, Op>(site)?;
        }
        let unit = words_of::<Op>();
        let before = self.draft.len();
        self.draft.resize(before + unit, 0);
        write(op, &mut self.draft[before..]);
        self.asked += 1;
        let is_full = self.draft.len() + unit > batch::<Op, Ret>() * unit;
        if (is_full || self.answers.known == self.answers.sent)
            && let Err(stop) = self.flush::<S, Op>(site)
        {
            self.draft.truncate(before);
            self.asked -= 1;
            return Err(stop);
        }
        Ok(self.asked)
    }

    /// Sends the operations that were handed over, to the server or its successor.
    #[inline]
    pub fn flush<S: Site, Op: Plain>(&mut self, site: &S) -> Result<(), Stop>
    where
        W: Follow<S, A, B>,
    {
        self.flush_within::<S, Op>(site, None).map(drop)
    }

    /// Works like [`flush`](Self::flush) if there is a server before the limit, if any, is over. Returns whether all
    /// operations were sent.
    #[inline]
    fn flush_within<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        limit: Option<&Limit>,
    ) -> Result<bool, Stop>
    where
        W: Follow<S, A, B>,
    {
        while self.answers.sent < self.asked {
            if self.room == 0 && !self.follow::<S, Op>(site, limit)? {
                return Ok(false);
            }
            if let Err(stop) = self.send_draft(site) {
                self.give_up(stop)?;
            }
        }
        Ok(true)
    }

    #[inline]
    fn send_draft<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        let draft = &self.draft;
        self.ask.send(draft.len(), |words| words.copy_from_slice(draft))?;
        self.draft.clear();
        self.answers.sent = self.asked;
        site.wake_server();
        Ok(())
    }

    /// Switches to the succeeding server. Returns false if there was none before the limit was over.
    #[cold]
    fn follow<S: Site, Op: Plain>(&mut self, site: &S, limit: Option<&Limit>) -> Result<bool, Stop>
    where
        W: Follow<S, A, B>,
    {
        let followed = self.way.follow::<Op, Ret>(site, self.in_flight, limit)?;
        let Some((ask, told)) = followed else { return Ok(false) };
        (self.ask, self.told) = (ask, told);
        // Operations are counted anew, and the word must not name one of them because of an earlier offer.
        site.word(self.wish)?.store_relaxed(0);
        self.earlier = self.answers.sent;
        self.room = self.in_flight as u64;
        Ok(true)
    }

    /// Sends an operation that can be [taken back](Self::take_back), if there is a server and room before the limit is
    /// over. Returns its number.
    pub(in crate::critical) fn offer<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        op: &Op,
        limit: &Limit,
    ) -> Result<Option<u64>, Stop>
    where
        W: Follow<S, A, B>,
    {
        loop {
            if self.room == 0 && !self.follow::<S, Op>(site, Some(limit))?
                || !self.flush_within::<S, Op>(site, Some(limit))?
            {
                return Ok(None);
            }
            let known = self.answers.known;
            if self.asked - known < self.room && known >= self.offered {
                break;
            }
            if self.room > 0 && !self.receive_until(limit)? {
                return Ok(None);
            }
        }
        let number = self.asked + 1;
        self.offered = number;
        // The server sees the wish when it sees the message.
        make_wish(site.word(self.wish)?, number - self.earlier);
        match self.ask.send(words_of::<Op>(), |words| write(op, words)) {
            Ok(()) => {
                (self.asked, self.answers.sent) = (number, number);
                site.wake_server();
                Ok(Some(number))
            }
            Err(stop) => {
                self.give_up(stop)?;
                self.offer(site, op, limit)
            }
        }
    }

    /// Waits for the result of an operation until the limit is over. Returns whether it is there, or never will be.
    pub(in crate::critical) fn is_answered(
        &mut self,
        number: u64,
        limit: &Limit,
    ) -> Result<bool, Stop> {
        while self.answers.known < number {
            if !self.receive_until(limit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes back an offered operation. Returns false if the server has begun with it.
    pub(in crate::critical) fn take_back<S: Site>(
        &self,
        site: &S,
        number: u64,
    ) -> Result<bool, Stop> {
        Ok(take_wish_back(site.word(self.wish)?, number - self.earlier))
    }

    /// Takes back an operation that was handed over last, and is not sent yet.
    pub(in crate::critical) fn cancel<Op: Plain>(&mut self, number: u64) -> Option<Op> {
        if number != self.asked || number <= self.answers.sent {
            return None;
        }
        let at = self.draft.len().checked_sub(words_of::<Op>())?;
        let op = read(&self.draft[at..]);
        self.draft.truncate(at);
        self.asked -= 1;
        Some(op)
    }

    fn receive_until(&mut self, limit: &Limit) -> Result<bool, Stop> {
        let Self { told, answers, .. } = self;
        match told.receive_until(limit, |response| answers.decode(response)) {
            Ok(Some(decoded)) => decoded.map(|()| true),
            Ok(None) => Ok(false),
            Err(stop) => self.give_up(stop).map(|()| true),
        }
    }

    fn make_room<S: Site, Op: Plain>(&mut self, site: &S) -> Result<(), Stop>
    where
        W: Follow<S, A, B>,
    {
        while self.asked - self.answers.known >= self.room {
            if self.room == 0 {
                self.follow::<S, Op>(site, None)?;
            } else {
                self.flush::<S, Op>(site)?;
                self.receive()?;
            }
        }
        Ok(())
    }

    /// Sends the operations that were handed over, as far as that needs no wait. Returns whether all were sent.
    pub(in crate::critical) fn bring_on<S: Site, Op: Plain>(
        &mut self,
        site: &S,
    ) -> Result<bool, Stop>
    where
        W: Follow<S, A, B>,
    {
        Ok(self.answers.sent == self.asked
            || self.flush_within::<S, Op>(site, Some(&Limit::at_once()))?)
    }

    /// Returns whether the outcome of an operation is known.
    pub fn is_done(&mut self, number: u64) -> Result<bool, Stop> {
        while self.answers.known < number.min(self.answers.sent) {
            match self.poll() {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                Err(stop) => self.give_up(stop)?,
            }
        }
        Ok(self.answers.known >= number.min(self.asked))
    }

    /// Waits for the result of an operation. Returns `None` if so many were submitted since that the result is not kept
    /// any more, or if the operation is none of this client's.
    #[inline(never)]
    pub fn collect<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        number: u64,
    ) -> Result<Option<Outcome<Ret>>, Stop>
    where
        W: Follow<S, A, B>,
    {
        if number > self.asked {
            return Ok(None);
        }
        if number > self.answers.sent {
            self.flush::<S, Op>(site)?;
        }
        while self.answers.known < number {
            self.receive()?;
        }
        let Answers { known, kept, .. } = &self.answers;
        let is_kept = known - number < kept.len() as u64;
        Ok(is_kept.then(|| kept[number as usize & (kept.len() - 1)]))
    }

    /// Waits for a response to a message that was sent.
    #[inline(always)]
    fn receive(&mut self) -> Result<(), Stop> {
        let Self { told, answers, looks, .. } = self;
        // The channel looks only a few times where ranks share cores, but the server may have a core of its own.
        look(*looks, || (!told.seems_empty()).then_some(()));
        match told.receive(|response| answers.decode(response)).flatten() {
            Ok(()) => Ok(()),
            Err(stop) => self.give_up(stop),
        }
    }

    /// Takes a response that has arrived.
    #[inline(always)]
    fn poll(&mut self) -> Result<bool, Stop> {
        let Self { told, answers, .. } = self;
        let decoded = told.try_receive(|response| answers.decode(response))?;
        Ok(decoded.transpose()?.is_some())
    }

    /// Handles an error: the server is gone, unless something else is wrong. What it has not answered is unknown.
    #[cold]
    fn give_up(&mut self, stop: Stop) -> Result<(), Stop> {
        let Stop::Unserved = stop else { return Err(stop) };
        // Answers that the server has sent are still there.
        while let Ok(true) = self.poll() {}
        while self.answers.known < self.answers.sent {
            self.answers.keep(Outcome::without(Fate::Unknown));
        }
        self.room = 0;
        Ok(())
    }
}

/// The state of the operation that a wish names, below the operation's number.
const STATE_BITS: u64 = 2;
const OFFERED: u64 = 1;
const ACCEPTED: u64 = 2;
const TAKEN_BACK: u64 = 3;

fn wish(number: u64, state: u64) -> u64 {
    number << STATE_BITS | state
}

/// Offers operation `number`, before its message is sent.
pub(in crate::critical) fn make_wish(word: &impl AnyWord, number: u64) {
    word.store_relaxed(wish(number, OFFERED));
}

/// Takes the operation back. Returns whether the server has not begun with it, and never will.
pub(in crate::critical) fn take_wish_back(word: &impl AnyWord, number: u64) -> bool {
    word.compare_exchange(wish(number, OFFERED), wish(number, TAKEN_BACK)).is_ok()
}

/// Returns whether a server may begin with operation `number` of a client with this wish.
#[inline(always)]
pub(in crate::critical) fn may_begin(wish: &impl AnyWord, number: u64) -> bool {
    wish.load_relaxed() >> STATE_BITS != number || accept(wish, number)
}

#[cold]
fn accept(word: &impl AnyWord, number: u64) -> bool {
    word.compare_exchange(wish(number, OFFERED), wish(number, ACCEPTED))
        != Err(wish(number, TAKEN_BACK))
}

/// Writes word by word, since the compiler does not know how many words there are.
#[inline(always)]
fn write<T: Plain>(value: &T, to: &mut [u64]) {
    let (whole, rest) = bytemuck::bytes_of(value).as_chunks();
    for (bytes, word) in whole.iter().zip(&mut *to) {
        *word = u64::from_ne_bytes(*bytes);
    }
    if let Some(word) = to.get_mut(whole.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; size_of::<u64>()];
        last[..rest.len()].copy_from_slice(rest);
        *word = u64::from_ne_bytes(last);
    }
}

#[inline(always)]
fn read<T: Plain>(from: &[u64]) -> T {
    let mut value = T::zeroed();
    let bytes = bytemuck::bytes_of_mut(&mut value);
    bytes.copy_from_slice(&bytemuck::cast_slice(from)[..bytes.len()]);
    value
}

/// The server's side of a client.
struct Line<A, B> {
    seat: Seat,
    asked: A,
    tell: B,
    /// The number of operations that have arrived.
    count: u64,
}

/// The server's side.
pub struct Served<A = Receiver<[u64]>, B = Sender<[u64]>> {
    lines: Vec<Line<A, B>>,
    /// The words of a response, until it is complete.
    results: Vec<u64>,
}

impl Served {
    /// Opens the channels of the clients that are still there, and do not serve themselves.
    pub(in crate::critical) fn open<Op: Plain, Ret: Plain>(
        rank: &Rank,
        in_flight: usize,
        place: &Place,
    ) -> Result<Self, mp_core::Error> {
        let name = name(place);
        let clients =
            (0..rank.size()).filter(|&other| other != rank.id() && !place.region.is_gone(other));
        let lines = clients.filter(|&other| !place.stands_by(other)).map(|client| {
            Ok(Line {
                seat: client * place.seats,
                asked: rank.receiver(&name, client, requests::<Op, Ret>(in_flight))?,
                tell: rank.sender(&name, client, responses::<Op, Ret>(in_flight))?,
                count: 0,
            })
        });
        let lines = lines.collect::<Result<_, mp_core::Error>>()?;
        Ok(Self { lines, results: Vec::with_capacity(1 + LINE) })
    }
}

impl<A: Inlet, B: Outlet> Served<A, B> {
    /// Creates the server's side with the other ends of clients' channels, by seat.
    #[cfg(feature = "internals")]
    pub fn over(clients: impl Iterator<Item = (Seat, A, B)>) -> Self {
        let lines =
            clients.map(|(seat, asked, tell)| Line { seat, asked, tell, count: 0 }).collect();
        Self { lines, results: Vec::with_capacity(1 + LINE) }
    }

    /// Executes what a message of each client asks for, if there is one. Returns whether there was any. `busy` is
    /// called before an operation and after it. `may_begin` says, for a client and an operation's number, whether the
    /// operation was not taken back.
    #[inline(always)]
    pub fn round<Op: Plain, Ret: Plain>(
        &mut self,
        busy: impl Fn(bool),
        may_begin: impl Fn(Seat, u64) -> bool,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<bool, Stop> {
        let mut worked = false;
        for Line { seat, asked, tell, count } in &mut self.lines {
            let mut execute = |op: &[u64]| {
                *count += 1;
                if !may_begin(*seat, *count) {
                    // The client has taken the operation back, and does not ask for its outcome.
                    return Outcome::without(Fate::Unknown);
                }
                busy(true);
                let outcome = run(*seat, read(op));
                busy(false);
                outcome
            };
            if asked.seems_empty() {
                continue;
            }
            let results = &mut self.results;
            let unit = words_of::<Op>();
            // An error means that the client is gone, and that all its requests have been taken.
            let Ok(Some(only)) = asked.try_receive(|request| {
                if request.len() == unit {
                    return Ok(Some(execute(request)));
                }
                let ops = request.chunks_exact(unit);
                if ops.len() == 0 || !ops.remainder().is_empty() {
                    return Err(Stop::Corrupt);
                }
                results.clear();
                results.push(0);
                for (at, op) in ops.enumerate() {
                    let outcome = execute(op);
                    results[0] |= (outcome.fate as u64) << (FATE_BITS * at).min(63);
                    let before = results.len();
                    results.resize(before + words_of::<Ret>(), 0);
                    write(&outcome.ret, &mut results[before..]);
                }
                Ok(None)
            }) else {
                continue;
            };
            worked = true;
            // There is room, because a client never has more in flight. An error means that the client is gone.
            let _ = match only? {
                Some(Outcome { fate, ret }) => tell.send(1 + words_of::<Ret>(), |response| {
                    response[0] = fate as u64;
                    write(&ret, &mut response[1..]);
                }),
                None => tell.send(results.len(), |response| response.copy_from_slice(results)),
            };
        }
        Ok(worked)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The sending end to a server that dies before it answers anything.
    struct Dying;

    impl Outlet for Dying {
        fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop> {
            write(&mut vec![0; words]);
            Ok(())
        }
    }

    impl Inlet for Dying {
        fn receive<T>(&mut self, _: impl FnOnce(&[u64]) -> T) -> Result<T, Stop> {
            Err(Stop::Unserved)
        }

        fn try_receive<T>(&mut self, _: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop> {
            Err(Stop::Unserved)
        }
    }

    #[test]
    fn nobody_waits_for_room_at_a_dead_server() {
        let place = Place::of_two(0);
        let mut client = Client::<u64, _, _, _>::over((), Dying, Dying, 1);
        let first = client.submit::<Place, u64>(&place, &1).unwrap();
        let second = client.submit::<Place, u64>(&place, &2);
        assert!(matches!(second, Err(Stop::Unserved)));
        let outcome = client.collect::<Place, u64>(&place, first).unwrap().unwrap();
        assert_eq!(outcome.fate, Fate::Unknown);
    }

    /// A server that dies as it is sent the second message, and whose successor comes when the flag says so.
    struct Mortal(bool);

    impl Follow<Place, Fragile, Dying> for Mortal {
        fn follow<Op: Plain, Ret: Plain>(
            &mut self,
            _: &Place,
            _: usize,
            limit: Option<&Limit>,
        ) -> Result<Option<(Fragile, Dying)>, Stop> {
            assert!(limit.is_some(), "it waits without a limit");
            Ok(self.0.then_some((Fragile(1), Dying)))
        }
    }

    /// The sending end to a server that takes this many messages.
    struct Fragile(usize);

    impl Outlet for Fragile {
        fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop> {
            self.0 = self.0.checked_sub(1).ok_or(Stop::Unserved)?;
            Dying.send(words, write)
        }
    }

    /// Returns a client whose first operation goes to the server, and whose second is gathered.
    fn gathered(place: &Place, is_followed: bool) -> Client<u64, Fragile, Dying, Mortal> {
        let mut client = Client::over(Mortal(is_followed), Fragile(1), Dying, 4);
        client.submit::<Place, u64>(place, &1).unwrap();
        client.submit::<Place, u64>(place, &2).unwrap();
        client
    }

    /// The server is found dead by a call that must not wait, when it sends the gathered operations; there is no
    /// successor yet.
    #[test]
    fn what_must_not_wait_waits_for_no_follower() {
        let place = Place::of_two(0);
        let mut client = gathered(&place, false);
        assert!(!client.bring_on::<Place, u64>(&place).unwrap());
        let mut client = gathered(&place, false);
        let limit = Limit::at_once();
        assert_eq!(client.offer::<Place, u64>(&place, &3, &limit).unwrap(), None);
    }

    /// Gathered operations go to the succeeding server, if that is there.
    #[test]
    fn what_was_gathered_goes_to_the_one_who_follows() {
        let place = Place::of_two(0);
        let mut client = gathered(&place, true);
        assert!(client.bring_on::<Place, u64>(&place).unwrap());
        assert_eq!((client.answers.sent, client.answers.known), (2, 1));
    }

    #[test]
    fn messages_fill_a_line() {
        assert_eq!([batch::<u64, u64>(), batch::<(), u8>(), batch::<[u64; 2], u64>()], [6, 6, 3]);
        assert_eq!([batch::<u64, [u64; 3]>(), batch::<[u64; 9], ()>()], [2, 1]);
    }
}
