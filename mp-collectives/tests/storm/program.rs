//! Programs that MPI's rules allow, however much or little a send is buffered.
//!
//! Events are drawn one after another, each with what the model knows to be true by then. An event
//! that waits is drawn only where everything it needs has been drawn before, so that ranks which
//! execute their events in this order, each as fast as it can, never wait for each other in a circle.
//! A blocking send needs a receive that is posted, or that is drawn in the same event: it may wait for
//! one.
//!
//! In the first communicators every receive names its source. What it gets then depends on the order of
//! events alone, also where it takes any tag: the model says which message. In the other two every
//! receive takes any source, in one of them by a tag and in the other whatever the tag; there the
//! model only counts, so that each receive finds some message. What is sent there is not waited for
//! before the end, since it is not known which receive takes it.
//!
//! The communicators are of two sets, of which each rank has its own engine of messages. A collective
//! operation is one event of all ranks: whoever waits in it brings on all else that it has under way, so that
//! no other event needs to be waited for before.

use std::collections::BTreeMap;

use crate::support::Random;

/// Communicators in which each receive names its source.
pub const DIRECT: usize = 2;
/// The communicator in which receives take any source by a tag.
pub const BY_TAG: usize = DIRECT;
/// The communicator in which receives take any source and tag.
pub const BY_NOTHING: usize = DIRECT + 1;
/// All of them.
pub const COMMUNICATORS: usize = DIRECT + 2;

/// Bytes of a message in a communicator in which receives take any source.
pub const ANY_LONGEST: usize = 5000;

const TAGS: u64 = 3;

/// Bytes of messages: around every border between the ways they travel.
const SHORT: [usize; 14] = [0, 1, 8, 39, 40, 41, 79, 80, 81, 136, 300, 471, 472, 473];
const MIDDLE: [usize; 6] = [1000, 4095, 4096, 5000, 20_000, 33_000];
const LONG: [usize; 3] = [66_000, 140_000, 300_000];

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub comm: usize,
    pub from: usize,
    pub to: usize,
    pub tag: u32,
    pub len: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Receive {
    pub comm: usize,
    pub at: usize,
    pub source: Option<usize>,
    pub tag: Option<u32>,
    /// The message that it gets, where the model knows.
    pub gets: Option<usize>,
}

/// How something is sent that waits for nobody.
#[derive(Clone, Copy, Debug)]
pub enum Later {
    Immediate,
    Synchronous,
    Persistent,
    /// Immediate, and nobody asks what became of it.
    Dropped,
    Buffered,
}

/// How something is sent that may wait for its receive.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {
    Send,
    Synchronous,
    Moved,
}

/// How a message is received at once.
#[derive(Clone, Copy, Debug)]
pub enum Taken {
    Into,
    Vec,
    Buffer,
    Timeout,
    Probed,
    TriedProbe,
}

/// A collective operation. Its elements are made of its number.
#[derive(Clone, Copy, Debug)]
pub enum Collective {
    Barrier,
    Broadcast { root: usize, len: usize, number: usize },
    AllReduce { len: usize, number: usize },
}

/// How requests are waited for.
#[derive(Clone, Copy, Debug)]
pub enum Waited {
    Each,
    All,
    Any,
    Some,
    Tested,
    TestedAll,
    Timed,
}

/// What a rank does. Requests have numbers of their rank; messages and receives, of the program.
#[derive(Clone, Debug)]
pub enum Act {
    Delay(u64),
    SendLater {
        message: usize,
        how: Later,
        request: usize,
    },
    Send {
        message: usize,
        how: Blocking,
    },
    Post {
        receive: usize,
        persistent: bool,
        request: usize,
    },
    Receive {
        receive: usize,
        how: Taken,
    },
    Exchange {
        sends: Vec<usize>,
        receives: Vec<usize>,
    },
    /// Waits for those that are `sure` to be done; others can be in the same call.
    Wait {
        how: Waited,
        sure: Vec<usize>,
        more: Vec<usize>,
    },
    /// A collective operation of all ranks of a communicator, which waits for it.
    Together {
        comm: usize,
        operation: Collective,
    },
    /// One that goes on until the request is waited for.
    Begin {
        comm: usize,
        operation: Collective,
        request: usize,
    },
    /// A receive that nothing comes for is posted and taken back.
    Cancel {
        source: usize,
    },
}

#[derive(Debug, Default)]
pub struct Program {
    pub messages: Vec<Message>,
    pub receives: Vec<Receive>,
    /// Of each rank, in its order.
    pub acts: Vec<Vec<Act>>,
}

impl Program {
    /// The program of this seed for so many ranks.
    pub fn new(seed: u64, ranks: usize) -> Self {
        let mut random = Random::new(seed);
        let events = 20 + random.below(60) * ranks as u64;
        // Whether messages of some lines prevail: those that can be stopped in the middle.
        let lines = random.below(2) == 0;
        let acts = vec![Vec::new(); ranks];
        let program = Self { acts, ..Self::default() };
        let (open, requests) = (vec![Vec::new(); ranks], vec![0; ranks]);
        let (matched, pairs, classes) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut draft =
            Draft { random, lines, ranks, program, matched, pairs, classes, open, requests };
        for _ in 0..events {
            draft.event();
        }
        draft.close();
        draft.program
    }
}

/// What is between two ranks in a communicator in which receives name their source.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Messages that no receive has taken.
    sent: Vec<usize>,
    /// Receives that no message was for.
    posted: Vec<usize>,
}

/// Receives that take the same messages, whichever come first.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    sent: usize,
    received: usize,
}

#[derive(Clone, Copy, Debug)]
enum Open {
    /// All ranks have begun it.
    Collective,
    Send(usize),
    /// The receive, and for how many messages of its class it waits.
    Receive(usize, usize),
}

struct Draft {
    random: Random,
    lines: bool,
    ranks: usize,
    program: Program,
    /// By message.
    matched: Vec<bool>,
    /// By communicator, source, and destination.
    pairs: BTreeMap<(usize, usize, usize), Pair>,
    /// By communicator, destination, and tag.
    classes: BTreeMap<(usize, usize, u32), Class>,
    /// By rank: requests that were not waited for.
    open: Vec<Vec<(usize, Open)>>,
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

    fn len(&mut self, comm: usize) -> usize {
        let len = match self.below(20) {
            _ if self.lines && !self.one_in(10) => self.of(&[80, 300, 472]),
            0 if comm < DIRECT => self.of(&LONG),
            0..5 => self.of(&MIDDLE),
            _ => self.of(&SHORT),
        };
        // Those say which they are.
        if comm < DIRECT { len } else { len.clamp(8, ANY_LONGEST) }
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
        self.classes.entry((comm, to, if comm == BY_TAG { tag } else { 0 })).or_default()
    }

    fn pair(&mut self, comm: usize, from: usize, to: usize) -> &mut Pair {
        self.pairs.entry((comm, from, to)).or_default()
    }

    // --- the model ---

    /// The posted receive that would get this message.
    fn receive_for(&mut self, message: &Message) -> Option<usize> {
        let posted = self.pair(message.comm, message.from, message.to).posted.clone();
        let takes = |&receive: &usize| {
            self.program.receives[receive].tag.is_none_or(|tag| tag == message.tag)
        };
        posted.into_iter().find(takes)
    }

    /// The message that this receive would get.
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
        if comm >= DIRECT {
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

    /// Adds a receive; its number, and how many messages of its class it needs.
    fn receive(&mut self, mut receive: Receive) -> (usize, usize) {
        let number = self.program.receives.len();
        let Receive { comm, at, source, tag, .. } = receive;
        let mut needs = 0;
        if comm >= DIRECT {
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
            Open::Collective => true,
            Open::Send(message) => self.matched[message],
            Open::Receive(receive, needs) => {
                let Receive { comm, at, tag, gets, .. } = self.program.receives[receive];
                match comm < DIRECT {
                    true => gets.is_some(),
                    false => self.class(comm, at, tag.unwrap_or(0)).sent >= needs,
                }
            }
        }
    }

    // --- events ---

    fn event(&mut self) {
        match self.below(20) {
            0..4 => self.send_some_later(),
            4..7 => self.post_some(),
            7..10 => self.send_to_posted(),
            10..13 => self.send_and_receive(),
            13..15 => self.receive_what_was_sent(),
            15 if self.one_in(2) => self.cross(),
            15 => self.exchange(),
            16 => {
                let (at, source) = (self.below(self.ranks), self.below(self.ranks));
                self.act(at, Act::Cancel { source });
            }
            17 if self.one_in(2) => self.together(),
            _ => self.wait(),
        }
    }

    /// A collective operation of all ranks, or some that they begin.
    fn together(&mut self) {
        let comm = self.below(COMMUNICATORS);
        let begin = self.one_in(2);
        for _ in 0..1 + self.below(3) {
            let number = self.below(1000);
            let len = self.of(&[1, 7, 100, 5_000, 40_000]);
            let operation = match self.below(3) {
                0 => Collective::Barrier,
                1 => Collective::Broadcast { root: self.below(self.ranks), len, number },
                _ => Collective::AllReduce { len, number },
            };
            for rank in 0..self.ranks {
                if !begin {
                    self.act(rank, Act::Together { comm, operation });
                    continue;
                }
                let request = self.request(rank);
                self.act(rank, Act::Begin { comm, operation, request });
                self.open[rank].push((request, Open::Collective));
            }
        }
    }

    fn send_later(&mut self, message: Message) {
        let from = message.from;
        let hows = [Later::Immediate, Later::Synchronous, Later::Persistent, Later::Buffered];
        let how = if self.one_in(10) { Later::Dropped } else { self.of(&hows) };
        let message = self.send(message);
        let request = self.request(from);
        self.act(from, Act::SendLater { message, how, request });
        if !matches!(how, Later::Dropped | Later::Buffered) {
            self.open[from].push((request, Open::Send(message)));
        }
    }

    fn request(&mut self, rank: usize) -> usize {
        self.requests[rank] += 1;
        self.requests[rank] - 1
    }

    fn burst(&mut self) -> usize {
        match self.below(8) {
            0 => 1 + self.below(60),
            1 => 1 + self.below(8),
            _ => 1,
        }
    }

    fn send_some_later(&mut self) {
        let (comm, from, to) =
            (self.below(COMMUNICATORS), self.below(self.ranks), self.below(self.ranks));
        for _ in 0..self.burst() {
            let tag = self.tag();
            let message = self.message(comm, from, to, tag);
            self.send_later(message);
        }
    }

    fn post_some(&mut self) {
        let (comm, at, from) =
            (self.below(COMMUNICATORS), self.below(self.ranks), self.below(self.ranks));
        for _ in 0..self.burst() {
            let tag = self.tag();
            let (source, tag) = match comm {
                BY_TAG => (None, Some(tag)),
                BY_NOTHING => (None, None),
                _ => (Some(from), self.tag_or_any(tag)),
            };
            let (receive, needs) = self.receive(Receive { comm, at, source, tag, gets: None });
            let (persistent, request) = (self.one_in(4), self.request(at));
            self.act(at, Act::Post { receive, persistent, request });
            self.open[at].push((request, Open::Receive(receive, needs)));
        }
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

    /// Sends something that a receive is posted for.
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

    /// Whether these two find each other, and neither finds another.
    fn meet(&mut self, message: &Message, receive: &Receive) -> bool {
        message.from != message.to
            && self.receive_for(message).is_none()
            && self.message_for(receive).is_none()
    }

    /// A message, and a receive of it.
    fn both(&mut self, comm: usize, from: usize, to: usize) -> Option<(Message, Receive)> {
        let tag = self.tag();
        let message = self.message(comm, from, to, tag);
        let tag = self.tag_or_any(tag);
        let receive = Receive { comm, at: to, source: Some(from), tag, gets: None };
        self.meet(&message, &receive).then_some((message, receive))
    }

    fn send_and_receive(&mut self) {
        let (comm, from, to) = (self.below(DIRECT), self.below(self.ranks), self.below(self.ranks));
        for _ in 0..self.burst() {
            if let Some((message, receive)) = self.both(comm, from, to) {
                self.send_now(message);
                self.receive_now(receive);
            }
        }
    }

    /// A rank that has posted receives sends one message after another; the other meets those
    /// receives before it takes any of them.
    fn cross(&mut self) {
        let (comm, one, other) =
            (self.below(DIRECT), self.below(self.ranks), self.below(self.ranks));
        for _ in 0..1 + self.below(4) {
            let tag = self.tag();
            let (source, tag) = (Some(other), self.tag_or_any(tag));
            let (receive, needs) = self.receive(Receive { comm, at: one, source, tag, gets: None });
            let request = self.request(one);
            self.act(one, Act::Post { receive, persistent: false, request });
            self.open[one].push((request, Open::Receive(receive, needs)));
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

    /// One more receive where more is sent than received.
    fn receive_from_anybody(&mut self) -> bool {
        let more = self.classes.iter().filter(|(_, class)| class.sent > class.received);
        let more: Vec<_> = more.map(|(&key, _)| key).collect();
        if more.is_empty() {
            return false;
        }
        let (comm, at, tag) = self.of(&more);
        let tag = (comm == BY_TAG).then_some(tag);
        self.receive_now(Receive { comm, at, source: None, tag, gets: None });
        true
    }

    /// A ring of ranks, each of which sends to the next and receives from the one before.
    fn exchange(&mut self) {
        let comm = self.below(DIRECT);
        let mut ring: Vec<usize> = (0..self.ranks).collect();
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
                // They also must find each other among those of this exchange: in the same order.
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
        for (request, open) in self.open[rank].clone() {
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
            Waited::Timed,
        ];
        let how = self.of(&hows);
        if !matches!(how, Waited::Any | Waited::Some) {
            more.clear();
            // Of those others, some may be waited for again.
            self.open[rank].retain(|(request, _)| !sure.contains(request));
        }
        self.act(rank, Act::Wait { how, sure, more });
    }

    /// Receives and sends what is missing, and waits for everything.
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
                let from = self.below(self.ranks);
                let tag = if comm == BY_TAG { tag } else { self.tag() };
                let message = self.message(comm, from, to, tag);
                self.send_later(message);
            }
        }
        for rank in 0..self.ranks {
            let sure = self.open[rank].iter().map(|(request, _)| *request).collect();
            let how = self.of(&[Waited::Each, Waited::All, Waited::Tested, Waited::TestedAll]);
            self.act(rank, Act::Wait { how, sure, more: Vec::new() });
        }
    }
}
