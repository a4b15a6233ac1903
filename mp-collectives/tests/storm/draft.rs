//! Draws programs.
//!
//! Events are drawn one after another, each from what the model knows by then. An event that waits is drawn only if
//! everything it needs was drawn before. So ranks that execute their events in this order, each as fast as it can,
//! never wait for each other in a circle. A blocking send needs a receive that is posted, or drawn in the same event,
//! because it may wait for one.
//!
//! In [direct](Kind::Direct) communicators every receive names its source. Its message then depends only on the order
//! of events, even if it takes any tag, and the model predicts it. In the other communicators every receive takes any
//! source, with one tag or any tag. There the model only counts, so that each receive finds some message. Sends in
//! these communicators are waited for only at the end, because it is not known which receive takes them.
//!
//! The first communicators are of two sets, and each rank has an engine of messages for each set. A collective
//! operation is one event of all ranks. A rank that waits in it makes progress for all its other pending operations, so
//! no other event needs to be waited for before. The same holds for the making of communicators, agreements, and
//! revocations. When a communicator is revoked, all its ranks have come to that event. Only the operations that are
//! pending in it at that time may fail.
//!
//! An additional channel is a queue: the model counts the messages put and taken.

use std::collections::BTreeMap;

use mp_delegate::critical::Scheme;

use super::program::{
    ANY_LONGEST, Act, Added, Beside, Blocking, Collective, Comm, FIRST, Heard, Kind, Later,
    Message, Posted, Program, Put, Receive, Taken, Waited,
};
use crate::support::Random;

const TAGS: u64 = 3;
/// The most communicators in use at the same time.
const MOST_COMMS: usize = 8;
/// The most messages in an additional channel, and on their way to it.
const MOST_BESIDE: usize = 20;

/// Bytes of messages: lengths around every change in the way messages are sent.
const SHORT: [usize; 14] = [0, 1, 8, 39, 40, 41, 79, 80, 81, 136, 300, 471, 472, 473];
const MIDDLE: [usize; 6] = [1000, 4095, 4096, 5000, 20_000, 33_000];
const LONG: [usize; 3] = [66_000, 140_000, 300_000];

impl Program {
    /// Makes the program of this seed for so many ranks.
    pub fn new(seed: u64, ranks: usize) -> Self {
        let mut random = Random::new(seed);
        let events = 20 + random.below(60) * ranks as u64;
        // Whether messages of a few lines prevail, which can be interrupted in the middle.
        let lines = random.below(2) == 0;
        let members: Vec<usize> = (0..ranks).collect();
        let comm = |kind| Comm { kind, members: members.clone(), revoked: false };
        let program = Self {
            comms: FIRST.map(comm).to_vec(),
            acts: vec![Vec::new(); ranks],
            ..Self::default()
        };
        let mut draft = Draft {
            random,
            lines,
            ranks,
            program,
            live: (0..FIRST.len()).collect(),
            matched: Vec::new(),
            pairs: BTreeMap::new(),
            classes: BTreeMap::new(),
            beside: Vec::new(),
            open: vec![Vec::new(); ranks],
            requests: vec![0; ranks],
        };
        draft.prepare();
        for _ in 0..events {
            draft.event();
        }
        draft.close();
        draft.program
    }
}

/// The messages and receives between two ranks in a communicator in which receives name their source.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Messages that no receive has taken.
    sent: Vec<usize>,
    /// Receives that have no message.
    posted: Vec<usize>,
}

/// Receives that take the same messages, in the order of their arrival.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    sent: usize,
    received: usize,
}

/// The messages put into an additional channel, and taken out.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    put: usize,
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
enum Open {
    /// All ranks have begun the operation, or its communicator is revoked.
    Sure,
    Send(usize),
    /// The receive, and the number of messages of its class that it needs.
    Receive(usize, usize),
    /// The channel, and the number of the message in it.
    Put(usize, usize),
}

/// A request that was not waited for.
#[derive(Clone, Copy, Debug)]
struct Undone {
    request: usize,
    comm: Option<usize>,
    open: Open,
}

struct Draft {
    random: Random,
    lines: bool,
    ranks: usize,
    program: Program,
    /// The communicators in use.
    live: Vec<usize>,
    /// Whether each message is matched.
    matched: Vec<bool>,
    /// By communicator, source, and destination.
    pairs: BTreeMap<(usize, usize, usize), Pair>,
    /// By communicator, destination, and tag.
    classes: BTreeMap<(usize, usize, u32), Class>,
    /// By channel.
    beside: Vec<Queue>,
    /// By rank: the requests that were not waited for.
    open: Vec<Vec<Undone>>,
    /// By rank: the next request's number.
    requests: Vec<usize>,
}

impl Draft {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn tag(&mut self) -> u32 {
        self.random.below(TAGS) as u32
    }

    fn tag_or_any(&mut self, tag: u32) -> Option<u32> {
        (!self.one_in(3)).then_some(tag)
    }

    fn kind(&self, comm: usize) -> Kind {
        self.program.comms[comm].kind
    }

    /// Returns a communicator, and one of its ranks.
    fn comm(&mut self) -> (usize, usize) {
        let live = self.live.clone();
        let comm = self.of(&live);
        (comm, self.member(comm))
    }

    fn direct(&mut self) -> (usize, usize) {
        let live = self.live.iter().copied();
        let direct: Vec<usize> = live.filter(|&comm| self.kind(comm) == Kind::Direct).collect();
        let comm = self.of(&direct);
        (comm, self.member(comm))
    }

    fn member(&mut self, comm: usize) -> usize {
        let members = self.program.comms[comm].members.clone();
        self.of(&members)
    }

    fn members(&self, comm: usize) -> Vec<usize> {
        self.program.comms[comm].members.clone()
    }

    fn add_comm(&mut self, kind: Kind, members: Vec<usize>) -> usize {
        self.program.comms.push(Comm { kind, members, revoked: false });
        self.program.comms.len() - 1
    }

    fn len(&mut self, comm: usize) -> usize {
        let direct = self.kind(comm) == Kind::Direct;
        let len = match self.below(20) {
            _ if self.lines && !self.one_in(10) => self.of(&[80, 300, 472]),
            0 if direct => self.of(&LONG),
            0..5 => self.of(&MIDDLE),
            _ => self.of(&SHORT),
        };
        // Messages to any source contain their number, which takes 8 bytes.
        if direct { len } else { len.clamp(8, ANY_LONGEST) }
    }

    fn message(&mut self, comm: usize, from: usize, to: usize, tag: u32) -> Message {
        let len = self.len(comm);
        Message { comm, from, to, tag, len }
    }

    fn act(&mut self, rank: usize, act: Act) {
        if self.one_in(12) {
            let delay = self.random.below(400);
            self.program.acts[rank].push(Act::Delay(delay));
        }
        self.program.acts[rank].push(act);
    }

    fn class(&mut self, comm: usize, to: usize, tag: u32) -> &mut Class {
        let tag = if self.kind(comm) == Kind::ByTag { tag } else { 0 };
        self.classes.entry((comm, to, tag)).or_default()
    }

    fn pair(&mut self, comm: usize, from: usize, to: usize) -> &mut Pair {
        self.pairs.entry((comm, from, to)).or_default()
    }

    fn request(&mut self, rank: usize) -> usize {
        self.requests[rank] += 1;
        self.requests[rank] - 1
    }

    fn opened(&mut self, rank: usize, comm: Option<usize>, open: Open) -> usize {
        let request = self.request(rank);
        self.open[rank].push(Undone { request, comm, open });
        request
    }

    // --- the model ---

    /// Returns the posted receive that this message would match.
    fn receive_for(&mut self, message: &Message) -> Option<usize> {
        let posted = self.pair(message.comm, message.from, message.to).posted.clone();
        let takes = |&receive: &usize| {
            self.program.receives[receive].tag.is_none_or(|tag| tag == message.tag)
        };
        posted.into_iter().find(takes)
    }

    /// Returns the message that this receive would match.
    fn message_for(&mut self, receive: &Receive) -> Option<usize> {
        let sent = self.pair(receive.comm, receive.source?, receive.at).sent.clone();
        let takes = |&message: &usize| {
            receive.tag.is_none_or(|tag| tag == self.program.messages[message].tag)
        };
        sent.into_iter().find(takes)
    }

    fn send(&mut self, message: Message) -> usize {
        let number = self.program.messages.len();
        let Message { comm, from, to, tag, .. } = message;
        self.program.messages.push(message);
        self.matched.push(false);
        if self.kind(comm) != Kind::Direct {
            self.class(comm, to, tag).sent += 1;
        } else if let Some(receive) = self.receive_for(&message) {
            self.pair(comm, from, to).posted.retain(|&posted| posted != receive);
            self.program.receives[receive].gets = Some(number);
            self.matched[number] = true;
        } else {
            self.pair(comm, from, to).sent.push(number);
        }
        number
    }

    /// Adds a receive. Returns its number, and how many messages of its class it needs.
    fn receive(&mut self, mut receive: Receive) -> (usize, usize) {
        let number = self.program.receives.len();
        let Receive { comm, at, source, tag, .. } = receive;
        let mut needs = 0;
        if self.kind(comm) != Kind::Direct {
            let class = self.class(comm, at, tag.unwrap_or(0));
            class.received += 1;
            needs = class.received;
        } else if let Some(message) = self.message_for(&receive) {
            let source = source.unwrap_or(0);
            self.pair(comm, source, at).sent.retain(|&sent| sent != message);
            receive.gets = Some(message);
            self.matched[message] = true;
        } else {
            self.pair(comm, source.unwrap_or(0), at).posted.push(number);
        }
        self.program.receives.push(receive);
        (number, needs)
    }

    fn is_sure(&mut self, open: Open) -> bool {
        match open {
            Open::Sure => true,
            Open::Send(message) => self.matched[message],
            Open::Receive(receive, needs) => {
                let Receive { comm, at, tag, gets, .. } = self.program.receives[receive];
                match self.kind(comm) {
                    Kind::Direct => gets.is_some(),
                    _ => self.class(comm, at, tag.unwrap_or(0)).sent >= needs,
                }
            }
            Open::Put(channel, number) => {
                let Beside { degree, cancels, .. } = self.program.channels[channel];
                let room = if cancels { 0 } else { degree as usize };
                number < self.beside[channel].taken + room
            }
        }
    }

    // --- events ---

    /// Adds the channels and counters outside of communicators.
    fn prepare(&mut self) {
        if self.ranks > 1 {
            for _ in 0..1 + self.below(self.ranks) {
                let from = self.below(self.ranks);
                let to = (from + 1 + self.below(self.ranks - 1)) % self.ranks;
                let (degree, delegated) = (self.of(&[0, 1, 4]), self.one_in(2));
                let cancels = delegated && self.one_in(2);
                self.program.channels.push(Beside { from, to, degree, delegated, cancels });
                self.beside.push(Queue::default());
            }
        }
        let all = Scheme::ALL;
        let (locks, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|scheme| scheme.is_lock());
        let (servers, combiners): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|scheme| scheme.needs_server());
        for schemes in [locks, combiners, servers] {
            let scheme = self.of(&schemes);
            self.program.counters.push((scheme, 0));
        }
    }

    fn event(&mut self) {
        match self.below(26) {
            0..4 => self.send_some_later(),
            4..7 => self.post_some(),
            7..10 => self.send_to_posted(),
            10..13 => self.send_and_receive(),
            13..15 => self.receive_what_was_sent(),
            15 if self.one_in(2) => self.cross(),
            15 => self.exchange(),
            16 => {
                let (comm, at) = self.comm();
                let source = self.member(comm);
                self.act(at, Act::Cancel { comm, source });
            }
            17 if self.one_in(2) => self.together(),
            18 => self.start_some(),
            19..21 => self.beside(),
            21..23 => self.add(),
            23 => match self.below(6) {
                0 => self.duplicate(),
                1 => self.split(),
                2 => self.agree(),
                3 => self.revoke(),
                _ => {
                    let (comm, at) = self.comm();
                    self.act(at, Act::Acknowledge { comm });
                }
            },
            _ => self.wait(),
        }
    }

    /// Adds a collective operation of all ranks, or some that all ranks begin.
    fn together(&mut self) {
        let (comm, _) = self.comm();
        let (begin, members) = (self.one_in(2), self.members(comm));
        for _ in 0..1 + self.below(3) {
            let number = self.below(1000);
            let len = self.of(&[1, 7, 100, 5_000, 40_000]);
            let operation = match self.below(3) {
                0 => Collective::Barrier,
                1 => Collective::Broadcast { root: self.below(members.len()), len, number },
                _ => Collective::AllReduce { len, number },
            };
            for &rank in &members {
                if !begin {
                    self.act(rank, Act::Together { comm, operation });
                    continue;
                }
                let request = self.opened(rank, Some(comm), Open::Sure);
                self.act(rank, Act::Begin { comm, operation, request });
            }
        }
    }

    fn duplicate(&mut self) {
        let (comm, _) = self.comm();
        let members = self.members(comm);
        let keeps = self.live.len() < MOST_COMMS && !self.one_in(3);
        let to = keeps.then(|| self.add_comm(self.kind(comm), members.clone()));
        self.live.extend(to);
        for rank in members {
            self.act(rank, Act::Duplicate { comm, to });
        }
    }

    fn split(&mut self) {
        if self.live.len() + 2 > MOST_COMMS {
            return;
        }
        let (comm, _) = self.comm();
        let (members, kind) = (self.members(comm), self.kind(comm));
        // By color: the keys, and the ranks that have them.
        let mut parts: BTreeMap<u64, Vec<(i64, usize, usize)>> = BTreeMap::new();
        let mut named = Vec::new();
        for (place, &rank) in members.iter().enumerate() {
            let color = (!self.one_in(6)).then(|| self.random.below(2) * 77);
            let key = self.below(5) as i64 - 2;
            if let Some(color) = color {
                parts.entry(color).or_default().push((key, place, rank));
            }
            named.push((rank, color, key));
        }
        let mut to = BTreeMap::new();
        for (color, mut part) in parts {
            part.sort_unstable();
            let part = part.into_iter().map(|(.., rank)| rank).collect();
            to.insert(color, self.add_comm(kind, part));
        }
        self.live.extend(to.values());
        for (rank, color, key) in named {
            let to = color.map(|color| to[&color]);
            self.act(rank, Act::Split { comm, color, key, to });
        }
    }

    fn agree(&mut self) {
        let (comm, _) = self.comm();
        let flags: Vec<(usize, u64)> = self
            .members(comm)
            .into_iter()
            .map(|rank| (rank, !(1 << self.random.below(64))))
            .collect();
        let together = flags.iter().fold(u64::MAX, |all, (_, flag)| all & flag);
        for (rank, flag) in flags {
            self.act(rank, Act::Agree { comm, flag, together });
        }
    }

    /// All ranks of a communicator go on in another one, whatever requests they have pending in this one.
    fn revoke(&mut self) {
        let (comm, by) = self.comm();
        let (members, kind) = (self.members(comm), self.kind(comm));
        let to = self.add_comm(kind, members.clone());
        self.program.comms[comm].revoked = true;
        self.live.iter_mut().filter(|live| **live == comm).for_each(|live| *live = to);
        self.pairs.retain(|&(of, ..), _| of != comm);
        self.classes.retain(|&(of, ..), _| of != comm);
        // All ranks must make the same joint call.
        let call = self.of(&[Heard::Barrier, Heard::Split]);
        let ways = [Heard::Receive, Heard::Send, Heard::Probe, Heard::Asks, Heard::Shrink, call];
        for rank in members {
            let mut void = Vec::new();
            for undone in self.open[rank].iter_mut().filter(|undone| undone.comm == Some(comm)) {
                undone.open = Open::Sure;
                undone.comm = None;
                void.push(undone.request);
            }
            let heard = if rank == by { Heard::Revokes } else { self.of(&ways) };
            self.act(rank, Act::Revoke { comm, heard, to, void });
        }
    }

    /// Adds an operation outside of all communicators.
    fn beside(&mut self) {
        if self.beside.is_empty() {
            return;
        }
        let channel = self.below(self.beside.len());
        for _ in 0..self.burst().min(MOST_BESIDE) {
            let Beside { from, degree, delegated, cancels, .. } = self.program.channels[channel];
            let Queue { put, taken } = self.beside[channel];
            let waiting = put - taken;
            if waiting > 0 && self.one_in(3) {
                self.take(channel);
                continue;
            }
            if delegated && !self.one_in(4) {
                if waiting < MOST_BESIDE {
                    let request = self.opened(from, None, Open::Put(channel, put));
                    let again = cancels && self.one_in(2);
                    self.put(
                        channel,
                        if again { Put::Again(request) } else { Put::Delegated(request) },
                    );
                }
                continue;
            }
            let has_room = waiting < degree as usize && !cancels;
            self.put(channel, Put::Here);
            while !has_room && self.beside[channel].taken <= put {
                self.take(channel);
            }
        }
    }

    fn put(&mut self, channel: usize, how: Put) {
        let (rank, number) = (self.program.channels[channel].from, self.beside[channel].put);
        self.beside[channel].put += 1;
        self.act(rank, Act::Put { channel, number, how });
    }

    fn take(&mut self, channel: usize) {
        let (rank, number) = (self.program.channels[channel].to, self.beside[channel].taken);
        self.beside[channel].taken += 1;
        self.act(rank, Act::Take { channel, number });
    }

    /// Lets a rank add to a counter.
    fn add(&mut self) {
        let (rank, counter) = (self.below(self.ranks), self.below(self.program.counters.len()));
        // A message server has no channel to itself.
        if rank == 0 && matches!(self.program.counters[counter].0, Scheme::MpServer(_)) {
            return;
        }
        for _ in 0..self.burst() {
            let how = self.of(&[Added::At1, Added::Submitted, Added::Submitted, Added::Locked]);
            self.program.counters[counter].1 += 1;
            self.act(rank, Act::Add { counter, how });
        }
    }

    fn send_later(&mut self, message: Message) {
        let (comm, from) = (message.comm, message.from);
        let hows = [
            Later::Nonblocking,
            Later::Synchronous,
            Later::Persistent,
            Later::Buffered,
            Later::Again,
        ];
        let how = if self.one_in(10) { Later::Dropped } else { self.of(&hows) };
        let message = self.send(message);
        let request = match how {
            Later::Dropped | Later::Buffered => self.request(from),
            _ => self.opened(from, Some(comm), Open::Send(message)),
        };
        self.act(from, Act::SendLater { message, how, request });
    }

    fn burst(&mut self) -> usize {
        match self.below(8) {
            0 => 1 + self.below(60),
            1 => 1 + self.below(8),
            _ => 1,
        }
    }

    fn send_some_later(&mut self) {
        let (comm, from) = self.comm();
        let to = self.member(comm);
        for _ in 0..self.burst() {
            let tag = self.tag();
            let message = self.message(comm, from, to, tag);
            self.send_later(message);
        }
    }

    /// Makes a receive that suits the communicator's kind. Returns it, and how many messages of its class it needs.
    fn some_receive(&mut self, comm: usize, at: usize, from: usize) -> (usize, usize) {
        let tag = self.tag();
        let (source, tag) = match self.kind(comm) {
            Kind::ByTag => (None, Some(tag)),
            Kind::ByNothing => (None, None),
            Kind::Direct => (Some(from), self.tag_or_any(tag)),
        };
        self.receive(Receive { comm, at, source, tag, gets: None })
    }

    fn post_some(&mut self) {
        let (comm, at) = self.comm();
        let from = self.member(comm);
        for _ in 0..self.burst() {
            let (receive, needs) = self.some_receive(comm, at, from);
            let hows =
                [Posted::Nonblocking, Posted::Nonblocking, Posted::Persistent, Posted::Again];
            let how = self.of(&hows);
            let request = self.opened(at, Some(comm), Open::Receive(receive, needs));
            self.act(at, Act::Post { receive, how, request });
        }
    }

    /// Starts persistent receives and sends in one call.
    fn start_some(&mut self) {
        let (comm, at) = self.comm();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for _ in 0..self.below(4) {
            let from = self.member(comm);
            let (receive, needs) = self.some_receive(comm, at, from);
            receives.push((receive, self.opened(at, Some(comm), Open::Receive(receive, needs))));
        }
        for _ in 0..1 + self.below(4) {
            let (to, tag) = (self.member(comm), self.tag());
            let message = self.message(comm, at, to, tag);
            let message = self.send(message);
            sends.push((message, self.opened(at, Some(comm), Open::Send(message))));
        }
        self.act(at, Act::Start { sends, receives });
    }

    fn send_now(&mut self, message: Message) {
        let from = message.from;
        let hows = [Blocking::Send, Blocking::Send, Blocking::Synchronous, Blocking::Moved];
        let how = self.of(&hows);
        let message = self.send(message);
        self.act(from, Act::Send { message, how });
    }

    fn receive_now(&mut self, receive: Receive) {
        let hows = [
            Taken::Into,
            Taken::Into,
            Taken::Vec,
            Taken::Buffer,
            Taken::Timeout,
            Taken::Probed,
            Taken::TriedProbe,
        ];
        let how = self.of(&hows);
        let at = receive.at;
        let (receive, _) = self.receive(receive);
        self.act(at, Act::Receive { receive, how });
    }

    /// Sends messages for which receives are posted.
    fn send_to_posted(&mut self) {
        let posted = |pair: &Pair| !pair.posted.is_empty();
        if let Some((comm, from, to)) = self.some_pair(posted) {
            self.send_to_all_posted(comm, from, to);
        }
    }

    fn send_to_all_posted(&mut self, comm: usize, from: usize, to: usize) {
        while let Some(&receive) = self.pair(comm, from, to).posted.first() {
            let tag = self.tag();
            let tag = self.program.receives[receive].tag.unwrap_or(tag);
            let message = self.message(comm, from, to, tag);
            match self.one_in(4) {
                true => self.send_later(message),
                false => self.send_now(message),
            }
        }
    }

    fn some_pair(&mut self, wanted: impl Fn(&Pair) -> bool) -> Option<(usize, usize, usize)> {
        let pairs = self.pairs.iter().filter(|(_, pair)| wanted(pair));
        let all: Vec<_> = pairs.map(|(&key, _)| key).collect();
        (!all.is_empty()).then(|| self.of(&all))
    }

    /// Returns whether these two match each other, and neither would match another one.
    fn meet(&mut self, message: &Message, receive: &Receive) -> bool {
        message.from != message.to
            && self.receive_for(message).is_none()
            && self.message_for(receive).is_none()
    }

    /// Makes a message and a receive that match.
    fn both(&mut self, comm: usize, from: usize, to: usize) -> Option<(Message, Receive)> {
        let tag = self.tag();
        let message = self.message(comm, from, to, tag);
        let tag = self.tag_or_any(tag);
        let receive = Receive { comm, at: to, source: Some(from), tag, gets: None };
        self.meet(&message, &receive).then_some((message, receive))
    }

    fn send_and_receive(&mut self) {
        let (comm, from) = self.direct();
        let to = self.member(comm);
        for _ in 0..self.burst() {
            if let Some((message, receive)) = self.both(comm, from, to) {
                self.send_now(message);
                self.receive_now(receive);
            }
        }
    }

    /// A rank that has posted receives sends one message after another. The other rank sends to those receives before
    /// it takes any of the messages.
    fn cross(&mut self) {
        let (comm, one) = self.direct();
        let other = self.member(comm);
        for _ in 0..1 + self.below(4) {
            let (receive, needs) = self.some_receive(comm, one, other);
            let request = self.opened(one, Some(comm), Open::Receive(receive, needs));
            self.act(one, Act::Post { receive, how: Posted::Nonblocking, request });
        }
        self.program.acts[other].push(Act::Delay(500));
        self.send_to_all_posted(comm, other, one);
        for _ in 0..self.below(60) {
            if let Some((message, receive)) = self.both(comm, one, other) {
                self.send_now(message);
                self.receive_now(receive);
            }
        }
    }

    fn receive_what_was_sent(&mut self) {
        if self.one_in(2) {
            for _ in 0..self.burst() {
                self.receive_from_anybody();
            }
            return;
        }
        let Some((comm, from, at)) = self.some_pair(|pair| !pair.sent.is_empty()) else { return };
        for _ in 0..self.burst() {
            let sent = self.pair(comm, from, at).sent.clone();
            if sent.is_empty() {
                return;
            }
            let message = self.of(&sent);
            let tag = self.program.messages[message].tag;
            let tag = self.tag_or_any(tag);
            self.receive_now(Receive { comm, at, source: Some(from), tag, gets: None });
        }
    }

    /// Adds one more receive from any source if more was sent than received. Returns whether it did.
    fn receive_from_anybody(&mut self) -> bool {
        let more = self.classes.iter().filter(|(_, class)| class.sent > class.received);
        let more: Vec<_> = more.map(|(&key, _)| key).collect();
        if more.is_empty() {
            return false;
        }
        let (comm, at, tag) = self.of(&more);
        let tag = (self.kind(comm) == Kind::ByTag).then_some(tag);
        self.receive_now(Receive { comm, at, source: None, tag, gets: None });
        true
    }

    /// Adds an exchange in a ring: each rank sends to the next one and receives from the one before.
    fn exchange(&mut self) {
        let (comm, _) = self.direct();
        let mut ring = self.members(comm);
        self.random.shuffle(&mut ring);
        ring.truncate(2 + self.below(self.ranks));
        if ring.len() < 2 {
            return;
        }
        let each = if self.one_in(3) { 1 + self.below(30) } else { 1 };
        let next = |place: usize| (place + 1) % ring.len();
        let mut acts = vec![(Vec::new(), Vec::new()); ring.len()];
        for place in 0..ring.len() {
            let (from, to) = (ring[place], ring[next(place)]);
            for _ in 0..each {
                // These pairs must also match each other in the exchange, in the same order.
                let Some((message, receive)) = self.both(comm, from, to) else { continue };
                acts[place].0.push(self.send(message));
                acts[next(place)].1.push(self.receive(receive).0);
            }
        }
        for (rank, (sends, receives)) in ring.into_iter().zip(acts) {
            self.act(rank, Act::Exchange { sends, receives });
        }
    }

    fn wait(&mut self) {
        let rank = self.below(self.ranks);
        let (mut sure, mut more) = (Vec::new(), Vec::new());
        for Undone { request, open, .. } in self.open[rank].clone() {
            match self.is_sure(open) {
                true => sure.push(request),
                false => more.push(request),
            }
        }
        let most = 1 + self.below(10);
        self.random.shuffle(&mut sure);
        sure.truncate(most);
        self.random.shuffle(&mut more);
        more.truncate(most / 2);
        if sure.is_empty() {
            return;
        }
        let hows = [
            Waited::Each,
            Waited::All,
            Waited::Any,
            Waited::Some,
            Waited::Tested,
            Waited::TestedAll,
            Waited::TestedAny,
            Waited::TestedSome,
            Waited::Timed,
            Waited::Awaited,
        ];
        let how = self.of(&hows);
        if !how.for_some() {
            more.clear();
            // After a wait for some of them, the other requests may be waited for again.
            self.open[rank].retain(|undone| !sure.contains(&undone.request));
        }
        self.act(rank, Act::Wait { how, sure, more });
    }

    /// Adds the missing receives and sends, and waits for everything.
    fn close(&mut self) {
        while let Some((comm, from, at)) = self.some_pair(|pair| !pair.sent.is_empty()) {
            let tag = self.one_in(2).then(|| self.pair(comm, from, at).sent[0]);
            let tag = tag.map(|message| self.program.messages[message].tag);
            self.receive_now(Receive { comm, at, source: Some(from), tag, gets: None });
        }
        while self.some_pair(|pair| !pair.posted.is_empty()).is_some() {
            self.send_to_posted();
        }
        while self.receive_from_anybody() {}
        let missing = |(&(comm, to, tag), class): (&(usize, usize, u32), &Class)| {
            (class.received - class.sent, comm, to, tag)
        };
        let missing: Vec<_> = self.classes.iter().map(missing).collect();
        for (count, comm, to, tag) in missing {
            for _ in 0..count {
                let from = self.member(comm);
                let tag = if self.kind(comm) == Kind::ByTag { tag } else { self.tag() };
                let message = self.message(comm, from, to, tag);
                self.send_later(message);
            }
        }
        for channel in 0..self.beside.len() {
            while self.beside[channel].taken < self.beside[channel].put {
                self.take(channel);
            }
        }
        for rank in 0..self.ranks {
            let sure = self.open[rank].iter().map(|undone| undone.request).collect();
            let how = self.of(&[
                Waited::Each,
                Waited::All,
                Waited::Tested,
                Waited::TestedAll,
                Waited::Awaited,
            ]);
            self.act(rank, Act::Wait { how, sure, more: Vec::new() });
        }
    }
}
