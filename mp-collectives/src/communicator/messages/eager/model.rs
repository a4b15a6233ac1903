//! Eager messages and rendezvous between ranks in all interleavings: small programs that MPI allows, run in
//! every order of their ranks' steps.
//! A step is what a rank does without looking at what others do meanwhile: looking at a notice, putting a line into a
//! channel, taking one out, beginning a call. Programs are rank code as [`Act`]s. These properties must hold: no rank
//! waits forever, messages go to receives in their order, a payload is taken by the receive that asked for it, and no
//! rank keeps more than the bound. A rank may die at any step.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// Lines of a channel.
const ROOM: usize = 2;
/// The length of the longest message that comes eagerly while there is room.
const FRACTION: usize = 1;
const LIMIT: usize = 2;

/// An action of a rank's code. The messages of the program are numbered; a receive is named by its place in the rank's
/// code.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A nonblocking send.
    Later(usize),
    /// A send, which waits.
    Send(usize),
    /// A nonblocking receive.
    Post {
        from: usize,
        tag: u8,
    },
    Wait(usize),
    Drop(usize),
}
use Act::{Drop, Later, Post, Send, Wait};

#[derive(Clone, Copy, Debug)]
struct Message {
    to: usize,
    tag: u8,
    bytes: usize,
}

fn message(to: usize, tag: u8, bytes: usize) -> Message {
    Message { to, tag, bytes }
}

struct Program {
    messages: Vec<Message>,
    ranks: Vec<Vec<Act>>,
    /// The rank that may die.
    victim: Option<usize>,
    rules: Rules,
}

/// The rules that are in force; the model must notice when one of them is not.
#[derive(Clone, Copy)]
struct Rules {
    /// A rank that has asked for a payload looks past what comes before it.
    asked_look_past: bool,
    /// A rank that holds a payload looks past what comes before the answer.
    holders_look_past: bool,
    /// Whether a message goes eagerly is decided when its turn comes.
    decided_in_turn: bool,
    /// Ranks that have asked for a payload notice an end.
    ends_fail_receives: bool,
}

const RIGHT: Rules = Rules {
    asked_look_past: true,
    holders_look_past: true,
    decided_in_turn: true,
    ends_fail_receives: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Line {
    Eager(usize),
    Rendezvous(usize),
    Ack(usize),
    Payload(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    /// A message, and whether it goes eagerly, once that is decided.
    Message(usize, Option<bool>),
    Ack(usize),
    Payload(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Receiving {
    Posted,
    Coming(usize),
    Got(usize),
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rank {
    at: usize,
    over: bool,
    /// By receiver.
    queues: Vec<VecDeque<Waiting>>,
    held: BTreeSet<usize>,
    gone: BTreeSet<usize>,
    receives: BTreeMap<usize, Receiving>,
    dropped: BTreeSet<usize>,
    /// Messages in the order of arrival, and whether their payload is here.
    store: Vec<(usize, bool)>,
    full: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    ranks: Vec<Rank>,
    /// By sender and receiver.
    channels: Vec<Vec<VecDeque<Line>>>,
    /// By receiver and sender: whether only messages that are asked for may come.
    notices: Vec<Vec<bool>>,
    dead: Option<usize>,
}

impl Program {
    fn new(messages: Vec<Message>, ranks: Vec<Vec<Act>>) -> Self {
        Self { messages, ranks, victim: None, rules: RIGHT }
    }

    fn source(&self, number: usize) -> usize {
        let sends = |act: &Act| matches!(*act, Later(n) | Send(n) if n == number);
        self.ranks.iter().position(|acts| acts.iter().any(sends)).unwrap()
    }

    fn begin(&self) -> State {
        let size = self.ranks.len();
        let rank = Rank { queues: vec![VecDeque::new(); size], ..Rank::default() };
        State {
            ranks: vec![rank; size],
            channels: vec![vec![VecDeque::new(); size]; size],
            notices: vec![vec![false; size]; size],
            dead: None,
        }
    }

    /// Runs the program in all interleavings. Returns the number of states.
    fn check(&self) -> Result<usize, String> {
        let mut seen = HashSet::from([self.begin()]);
        let mut left = vec![self.begin()];
        while let Some(state) = left.pop() {
            self.look_at(&state)?;
            let next = self.steps(&state);
            if next.is_empty() {
                self.look_at_end(&state)?;
            }
            for state in next {
                if seen.insert(state.clone()) {
                    left.push(state);
                }
            }
        }
        Ok(seen.len())
    }

    fn kept(&self, rank: &Rank) -> usize {
        rank.store.iter().filter(|(_, here)| *here).map(|(n, _)| self.messages[*n].bytes).sum()
    }

    fn look_at(&self, state: &State) -> Result<(), String> {
        let others = state.ranks.len() - 1;
        let bound = LIMIT + others * (ROOM + 1) * FRACTION;
        for rank in &state.ranks {
            if self.kept(rank) > bound {
                return Err(format!("more than {bound} bytes: {state:?}"));
            }
        }
        Ok(())
    }

    fn look_at_end(&self, state: &State) -> Result<(), String> {
        for (me, rank) in state.ranks.iter().enumerate() {
            if state.dead == Some(me) {
                continue;
            }
            if !rank.over {
                return Err(format!("rank {me} waits for ever: {state:?}"));
            }
            let mut last = BTreeMap::new();
            for (place, receiving) in &rank.receives {
                let Receiving::Got(number) = *receiving else {
                    if state.dead.is_none() && !rank.dropped.contains(place) {
                        return Err(format!("receive {place} of rank {me} got nothing: {state:?}"));
                    }
                    continue;
                };
                let Message { to, tag, .. } = self.messages[number];
                let before = last.insert((self.source(number), tag), number);
                let wanted = self.takes(me, *place, number);
                if to != me || !wanted || before.is_some_and(|before| before >= number) {
                    return Err(format!("receive {place} of rank {me}: {state:?}"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether this receive takes this message.
    fn takes(&self, me: usize, receive: usize, number: usize) -> bool {
        let Post { from, tag } = self.ranks[me][receive] else { return false };
        from == self.source(number) && tag == self.messages[number].tag
    }

    /// Returns all states that one step leads to.
    fn steps(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        if let (Some(victim), None) = (self.victim, state.dead)
            && !state.ranks[victim].over
        {
            let mut dies = state.clone();
            dies.dead = Some(victim);
            next.push(dies);
        }
        for me in 0..state.ranks.len() {
            if state.dead == Some(me) || state.ranks[me].over {
                continue;
            }
            let mut add = |step: &dyn Fn(&mut State) -> bool| {
                let mut after = state.clone();
                if step(&mut after) {
                    next.push(after);
                }
            };
            add(&|state| self.go_on(state, me));
            for other in (0..state.ranks.len()).filter(|&other| other != me) {
                add(&|state| self.flush(state, me, other));
                add(&|state| self.take(state, me, other));
                add(&|state| self.see_end(state, me, other));
            }
        }
        next
    }

    fn has_ended(&self, state: &State, rank: usize) -> bool {
        state.dead == Some(rank) || state.ranks[rank].over
    }

    /// Runs the rank's code, as far as it does not wait.
    fn go_on(&self, state: &mut State, me: usize) -> bool {
        let rank = &mut state.ranks[me];
        let Some(act) = self.ranks[me].get(rank.at).copied() else {
            // At its end, the rank waits until everything is sent.
            rank.over = rank.held.is_empty() && rank.queues.iter().all(VecDeque::is_empty);
            return rank.over;
        };
        match act {
            Later(number) => self.queue(state, me, number),
            Send(number) => {
                let Message { to, .. } = self.messages[number];
                let queued = rank.queues[to]
                    .iter()
                    .any(|w| matches!(w, Waiting::Message(n, _) if *n == number));
                let begun = queued || rank.held.contains(&number);
                if rank.gone.contains(&number) {
                } else if begun || rank.queues[to].contains(&Waiting::Payload(number)) {
                    return false;
                } else {
                    self.queue(state, me, number);
                    return true;
                }
            }
            Post { .. } => {
                let place = rank.at;
                let found = rank.store.iter().position(|(n, _)| self.takes(me, place, *n));
                let receiving = match found.map(|at| rank.store.remove(at)) {
                    None => Receiving::Posted,
                    Some((number, true)) => Receiving::Got(number),
                    Some((number, false)) => {
                        rank.queues[self.source(number)].push_back(Waiting::Ack(number));
                        Receiving::Coming(number)
                    }
                };
                rank.receives.insert(place, receiving);
                rank.full &= self.kept(rank) > LIMIT / 2;
            }
            Wait(place) => match rank.receives[&place] {
                Receiving::Got(_) | Receiving::Failed => {}
                Receiving::Posted | Receiving::Coming(_) => return false,
            },
            Drop(place) => {
                rank.dropped.insert(place);
                if rank.receives[&place] == Receiving::Posted {
                    rank.receives.remove(&place);
                }
            }
        }
        state.ranks[me].at += 1;
        true
    }

    fn queue(&self, state: &mut State, me: usize, number: usize) {
        let Message { to, bytes, .. } = self.messages[number];
        let decided = !self.rules.decided_in_turn;
        let eager = decided.then_some(bytes <= FRACTION && !state.notices[to][me]);
        state.ranks[me].queues[to].push_back(Waiting::Message(number, eager));
    }

    /// Looks at a notice, or puts a line into a channel.
    fn flush(&self, state: &mut State, me: usize, to: usize) -> bool {
        let receiver_has_ended = self.has_ended(state, to);
        let rank = &mut state.ranks[me];
        let channel = &mut state.channels[me][to];
        let Some(waiting) = rank.queues[to].front_mut() else { return false };
        if receiver_has_ended {
            if let Waiting::Message(number, _) | Waiting::Payload(number) = *waiting {
                rank.gone.insert(number);
            }
            rank.queues[to].pop_front();
            return true;
        }
        if let Waiting::Message(number, eager @ None) = waiting {
            *eager = Some(self.messages[*number].bytes <= FRACTION && !state.notices[to][me]);
            return true;
        }
        if channel.len() == ROOM {
            return false;
        }
        let line = match *waiting {
            Waiting::Message(number, Some(true)) => Line::Eager(number),
            Waiting::Message(number, _) => Line::Rendezvous(number),
            Waiting::Ack(number) => Line::Ack(number),
            Waiting::Payload(number) => Line::Payload(number),
        };
        match line {
            Line::Eager(number) | Line::Payload(number) => drop(rank.gone.insert(number)),
            Line::Rendezvous(number) => drop(rank.held.insert(number)),
            Line::Ack(_) => {}
        }
        channel.push_back(line);
        rank.queues[to].pop_front();
        true
    }

    /// Leaves the notice and takes a line out of a channel, if the rank may take it.
    fn take(&self, state: &mut State, me: usize, from: usize) -> bool {
        let rank = &mut state.ranks[me];
        let Some(line) = state.channels[from][me].front().copied() else { return false };
        let asked = rank.receives.values().any(|receiving| match receiving {
            Receiving::Coming(number) => self.source(*number) == from,
            _ => false,
        });
        let posted = rank.receives.iter().any(|(place, receiving)| {
            let source =
                matches!(self.ranks[me][*place], Post { from: source, .. } if source == from);
            source && *receiving == Receiving::Posted
        });
        let holds = rank.held.iter().any(|&number| self.messages[number].to == from);
        let looks_past =
            posted || asked && self.rules.asked_look_past || holds && self.rules.holders_look_past;
        state.notices[me][from] = rank.full;
        match line {
            Line::Ack(number) => {
                if rank.held.remove(&number) {
                    let queue = &mut rank.queues[from];
                    // The payload goes behind other payloads, and before messages that have not begun.
                    let next = |w: &&Waiting| matches!(w, Waiting::Payload(_));
                    let place = queue.iter().take_while(next).count();
                    queue.insert(place, Waiting::Payload(number));
                }
            }
            Line::Payload(number) => {
                let mut receives = rank.receives.values_mut();
                let Some(coming) = receives.find(|r| **r == Receiving::Coming(number)) else {
                    unreachable!("a payload that nobody asked for")
                };
                *coming = Receiving::Got(number);
            }
            Line::Eager(number) | Line::Rendezvous(number) => {
                let here = matches!(line, Line::Eager(_));
                let mut receives = rank.receives.iter_mut();
                let receive = receives.find(|(place, receiving)| {
                    **receiving == Receiving::Posted && self.takes(me, **place, number)
                });
                match receive {
                    Some((_, receiving)) if here => *receiving = Receiving::Got(number),
                    Some((_, receiving)) => {
                        *receiving = Receiving::Coming(number);
                        rank.queues[from].push_back(Waiting::Ack(number));
                    }
                    None if !looks_past => return false,
                    None => {
                        rank.store.push((number, here));
                        rank.full |= self.kept(rank) > LIMIT;
                    }
                }
            }
        }
        // The notice is left before the slot is given back.
        state.notices[me][from] = rank.full;
        state.channels[from][me].pop_front();
        true
    }

    /// Notices that nothing more comes from a rank, when everything was looked at.
    fn see_end(&self, state: &mut State, me: usize, from: usize) -> bool {
        if !self.has_ended(state, from) || !state.channels[from][me].is_empty() {
            return false;
        }
        let rank = &mut state.ranks[me];
        let before = rank.clone();
        let given_up = rank.held.iter().copied().filter(|n| self.messages[*n].to == from);
        let given_up: BTreeSet<usize> = given_up.collect();
        rank.held.retain(|number| !given_up.contains(number));
        rank.gone.extend(given_up);
        rank.store.retain(|(number, here)| *here || self.source(*number) != from);
        for (place, receiving) in &mut rank.receives {
            let source =
                matches!(self.ranks[me][*place], Post { from: source, .. } if source == from);
            let asked = matches!(receiving, Receiving::Coming(_)) && self.rules.ends_fail_receives;
            if source && (*receiving == Receiving::Posted || asked) {
                *receiving = Receiving::Failed;
            }
        }
        *rank != before
    }
}

/// Rank 0 sends three messages before the one that rank 1 wants first.
fn looked_past() -> Program {
    let messages = vec![
        message(1, 1, 1),
        message(1, 1, 3),
        message(1, 1, 1),
        message(1, 1, 1),
        message(1, 1, 1),
        message(1, 2, 1),
    ];
    let sender = (0..6).map(Later).collect();
    let mut receiver = vec![Post { from: 0, tag: 2 }, Wait(0)];
    for at in [2, 4, 6, 8, 10] {
        receiver.extend([Post { from: 0, tag: 1 }, Wait(at)]);
    }
    Program::new(messages, vec![sender, receiver])
}

/// The queue already holds more than the bound when the first message is looked past.
fn queued() -> Program {
    let mut messages = vec![message(1, 1, 1); 7];
    messages.push(message(1, 2, 1));
    let mut receiver = vec![Post { from: 0, tag: 2 }, Wait(0)];
    for at in (2..16).step_by(2) {
        receiver.extend([Post { from: 0, tag: 1 }, Wait(at)]);
    }
    Program::new(messages, vec![(0..8).map(Later).collect(), receiver])
}

/// A message that is asked for comes behind one that is not.
fn followed() -> Program {
    let messages = vec![message(1, 1, 3), message(1, 2, 1), message(1, 2, 1), message(1, 2, 1)];
    let post = |tag| Post { from: 0, tag };
    let receiver = vec![post(1), Wait(0), post(2), Wait(2), post(2), Wait(4), post(2), Wait(6)];
    Program::new(messages, vec![(0..4).map(Later).collect(), receiver])
}

/// The answer comes behind a message that the sender has not asked for.
fn answered_late() -> Program {
    let messages = vec![message(1, 1, 3), message(0, 2, 1), message(0, 2, 3)];
    let post = |from, tag| Post { from, tag };
    let sender = vec![Send(0), post(1, 2), Wait(1), post(1, 2), Wait(3)];
    let receiver = vec![Later(1), Later(2), post(0, 1), Wait(2)];
    Program::new(messages, vec![sender, receiver])
}

/// Both send long and short unexpected messages, then receive them in the opposite order.
fn crossed() -> Program {
    let messages = [0, 1].map(|to| [message(to, 1, 3), message(to, 1, 1), message(to, 2, 3)]);
    let ranks = [1, 0].map(|other: usize| {
        let mut acts: Vec<Act> = (0..3).map(|i| Later(other * 3 + i)).collect();
        for (tag, at) in [(2, 3), (1, 5), (1, 7)] {
            acts.extend([Post { from: other, tag }, Wait(at)]);
        }
        acts
    });
    Program::new(messages.concat(), ranks.into())
}

/// Both post receives and then send by calls that wait.
fn posted() -> Program {
    let messages = [0, 1].map(|to| [message(to, 1, 3), message(to, 2, 3)]);
    let ranks = [1, 0].map(|other: usize| {
        let post = |tag| Post { from: other, tag };
        vec![post(2), post(1), Send(other * 2), Send(other * 2 + 1), Wait(0), Wait(1)]
    });
    Program::new(messages.concat(), ranks.into())
}

/// Receives are dropped before their message comes, while it comes, and after.
fn dropped() -> Program {
    let messages = vec![message(1, 1, 3), message(1, 1, 3), message(1, 1, 1), message(1, 2, 1)];
    let sender = (0..4).map(Later).collect();
    let post = |tag| Post { from: 0, tag };
    let receiver = vec![post(1), post(1), Drop(0), post(1), post(2), Wait(4), Drop(1), Wait(3)];
    Program::new(messages, vec![sender, receiver])
}

/// A ring of three, in which each rank sends a message that is asked for later than the one behind it.
fn ring() -> Program {
    let messages = [0, 1, 2].map(|to| [message(to, 1, 3), message(to, 2, 1)]);
    let ranks = [0, 1, 2].map(|me: usize| {
        let (next, before) = ((me + 1) % 3, (me + 2) % 3);
        let post = |tag| Post { from: before, tag };
        vec![Later(next * 2), Later(next * 2 + 1), post(2), Wait(2), post(1), Wait(4)]
    });
    Program::new(messages.concat(), ranks.into())
}

/// Two ranks send to one, which looks past all of it.
fn two_to_one() -> Program {
    let from = |tag| [message(2, tag, 1), message(2, tag, 1), message(2, tag, 1), message(2, 9, 1)];
    let senders = [0, 4].map(|first| (first..first + 4).map(Later).collect());
    let mut receiver = Vec::new();
    for (source, tag) in [(1, 9), (0, 9), (0, 1), (1, 1), (1, 1), (0, 1), (0, 1), (1, 1)] {
        receiver.extend([Post { from: source, tag }, Wait(receiver.len())]);
    }
    let [one, two] = senders;
    Program::new([from(1), from(1)].concat(), vec![one, two, receiver])
}

type Named = (&'static str, fn() -> Program);

const PROGRAMS: [Named; 9] = [
    ("queued", queued),
    ("answered late", answered_late),
    ("followed", followed),
    ("looked past", looked_past),
    ("crossed", crossed),
    ("posted", posted),
    ("dropped", dropped),
    ("ring", ring),
    ("two to one", two_to_one),
];

#[test]
fn nobody_waits_for_ever_and_nobody_keeps_too_much() {
    for (name, program) in PROGRAMS {
        let states = program().check().unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        assert!(states > 100, "{name}: {states}");
    }
}

#[test]
fn a_death_at_any_step_ends_every_wait() {
    for (name, program) in &PROGRAMS[..7] {
        for victim in 0..2 {
            let program = Program { victim: Some(victim), ..program() };
            program.check().unwrap_or_else(|wrong| panic!("{name}, {victim} dies: {wrong}"));
        }
    }
}

/// Each of the rules is needed.
#[test]
fn the_model_sees_what_is_wrong() {
    let wrong = |rules: Rules, victim: Option<usize>| {
        PROGRAMS.iter().any(|(_, program)| {
            let program = program();
            program.ranks.len() == 2 && Program { rules, victim, ..program }.check().is_err()
        })
    };
    assert!(wrong(Rules { asked_look_past: false, ..RIGHT }, None));
    assert!(wrong(Rules { holders_look_past: false, ..RIGHT }, None));
    assert!(wrong(Rules { decided_in_turn: false, ..RIGHT }, None));
    assert!(wrong(Rules { ends_fail_receives: false, ..RIGHT }, Some(0)));
}
