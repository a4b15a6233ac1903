//! HYBCOMB, algorithm 4 of Petrović's thesis: the combiner gets the operations of others as messages, and shared memory
//! says which seat combines.
//!
//! A combiner's message queue is a row of lines that belong to its node. A seat that registers by the fetch-and-add on
//! `n_ops` has one of these lines to itself, and writes its request there. The response goes to a line of the
//! requesting seat. A node can be used again and again; its round, beside `n_ops`, tells the requests of one use from
//! those of the previous one. Numbers of lines are those of the algorithm.
//!
//! With the compare-and-swap of line 20 a thread can starve if it fails again and again. After some failures it is a
//! swap, as the thesis proposes (section 6.1.3, additional comments).

use std::cell::Cell;

use mp_core::Plain;

use super::Combiner;
use crate::critical::{
    fate::{Fate, Outcome},
    heal::CLOSED,
    object::{get, put, words_of},
    site::{AnyWord, BLOCK, Mortal, Seat, Site, someone, who},
    stop::Stop,
};

/// Asserts what the thesis proves, where the model checker runs.
macro_rules! lemma {
    ($($claim:tt)+) => { if cfg!(loom) { assert!($($claim)+); } };
}

/// Index in a node: its round, and the number of operations registered in it. It is closed in round 0, which is the
/// first.
const N_OPS: usize = 0;
const ROUND_AT: u64 = 32;
/// Index in a node: the seat that combines with it, `thread_id`.
const OWNER: usize = 1;
/// Index in a node: not 0 until its owner has done combining, the opposite of `combining_done`.
const COMBINING: usize = 2;
/// Index in a node: the seat that may sleep until then.
const WAITER: usize = 3;
/// Words of a node before its lines.
const NODE: usize = BLOCK;

/// Index in a line of a node: the round, when the request is there.
const ROUND: usize = 0;
const SENDER: usize = 1;
/// The sender's number of the request.
const NUMBER: usize = 2;
const OP: usize = 3;

/// Index in a seat's line: the number of the request that is answered, and its fate.
const ANSWERED: usize = 0;
const FATE_BITS: u64 = 2;
const RET: usize = 1;

/// The number of failures before the swap.
const FAILURES: u32 = if cfg!(loom) { 1 } else { 8 };

/// See the module.
#[derive(Debug)]
pub struct HybComb {
    /// `last_registered_combiner`.
    last: usize,
    /// `departed_combiner`.
    departed: usize,
    nodes: usize,
    /// The number of words of a node with its lines, of a line, and of a seat's answer.
    node: usize,
    line: usize,
    answer: usize,
    answers: usize,
    /// Index of the words that name the seats' nodes. They stay when other handles take the seats. 0 stands for the
    /// first node.
    owns: usize,
    seats: usize,
    me: Seat,
    max_ops: usize,
    failures: u32,
    /// The node that this seat left last.
    left: Cell<usize>,
    /// The number of this seat's request, from when it is in a line until its result is known; otherwise 0.
    asked: Cell<u64>,
}

impl HybComb {
    fn line_words<Op>() -> usize {
        (OP + words_of::<Op>()).next_multiple_of(BLOCK)
    }

    fn answer_words<Ret>() -> usize {
        (RET + words_of::<Ret>()).next_multiple_of(BLOCK)
    }

    fn node_words<Op>(max_ops: usize) -> usize {
        NODE + max_ops * Self::line_words::<Op>()
    }

    /// Returns how many words are needed: the two words that all seats change, a node for each seat and one more, an
    /// answer and a word for each seat.
    pub fn words<Op, Ret>(seats: usize, max_ops: usize) -> usize {
        let each = Self::answer_words::<Ret>() + BLOCK;
        2 * BLOCK + (1 + seats) * Self::node_words::<Op>(max_ops) + seats * each
    }

    /// Creates the access of one seat to the combiner whose words begin at `first`.
    pub fn new<Op, Ret>(first: usize, seats: usize, me: Seat, max_ops: usize) -> Self {
        let (node, answer) = (Self::node_words::<Op>(max_ops), Self::answer_words::<Ret>());
        let nodes = first + 2 * BLOCK;
        let answers = nodes + (1 + seats) * node;
        Self {
            last: first,
            departed: first + BLOCK,
            nodes,
            node,
            line: Self::line_words::<Op>(),
            answer,
            answers,
            owns: answers + seats * answer,
            seats,
            me,
            max_ops,
            failures: FAILURES,
            left: Cell::new(usize::MAX),
            asked: Cell::new(0),
        }
    }

    /// Returns the words that are messages: to the combiner, in each of the nodes; and to each seat.
    #[cfg(feature = "internals")]
    pub fn messages(
        &self,
        seats: usize,
    ) -> impl Iterator<Item = (std::ops::Range<usize>, Option<Seat>)> {
        let Self { nodes, node, answers, answer, .. } = *self;
        let lines =
            (0..=seats).map(move |at| (nodes + at * node + NODE..nodes + (at + 1) * node, None));
        let answer = move |seat| answers + seat * answer..answers + (seat + 1) * answer;
        lines.chain((0..seats).map(move |seat| (answer(seat), Some(seat))))
    }

    /// Creates a combiner that never tries a compare-and-swap.
    #[cfg(all(test, loom))]
    pub(super) fn impatient(self) -> Self {
        Self { failures: 0, ..self }
    }

    fn node<'a, S: Site>(&self, site: &'a S, node: usize) -> Result<&'a [S::Word], Stop> {
        site.words(self.nodes.wrapping_add(node.wrapping_mul(self.node)), self.node)
    }

    /// Returns the word that names the seat's node.
    fn own<'a, S: Site>(&self, site: &'a S, seat: Seat) -> Result<&'a S::Word, Stop> {
        site.word(self.owns.wrapping_add(seat.wrapping_mul(BLOCK)))
    }

    fn line<'a, W>(&self, node: &'a [W], line: usize) -> &'a [W] {
        &node[NODE + line * self.line..]
    }

    fn line_of<'a, S: Site>(&self, site: &'a S, seat: Seat) -> Result<&'a [S::Word], Stop> {
        site.words(self.answers.wrapping_add(seat.wrapping_mul(self.answer)), self.answer)
    }

    /// Returns whether no seat can register in the node.
    fn is_closed(&self, node: &[impl AnyWord]) -> bool {
        !self.is_open(node[N_OPS].load_relaxed())
    }

    fn is_open(&self, n_ops: u64) -> bool {
        let (round, registered) = split(n_ops);
        round != 0 && registered < self.max_ops
    }

    /// Prepares this seat's node to be the last in the queue.
    #[inline(always)]
    fn prepare(&self, mine: &[impl AnyWord]) {
        mine[WAITER].store_relaxed(0);
        mine[COMBINING].store_relaxed(1);
        mine[OWNER].store_relaxed(someone(self.me));
    }

    /// Lines 16, 17.
    #[inline(always)]
    fn send<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        node: &[S::Word],
        (round, place): (u32, usize),
        op: &Op,
    ) -> Result<Outcome<Ret>, Stop> {
        let answer = self.line_of(site, self.me)?;
        let answered = &answer[ANSWERED];
        let number = (answered.load_relaxed() >> FATE_BITS) + 1;
        let line = self.line(node, place);
        put(op, &line[OP..]);
        line[SENDER].store_relaxed(someone(self.me));
        line[NUMBER].store_relaxed(number);
        lemma!(node[COMBINING].load_relaxed() != 0, "lemma 4: a request to one who left the queue");
        line[ROUND].store(round.into());
        self.asked.set(number);
        let combiner = who(node[OWNER].load_relaxed().max(1));
        site.wake(combiner);
        let fate = site.wait(self.me, Some(combiner), answered, || {
            let answer = answered.load();
            (answer >> FATE_BITS == number).then_some(Fate::from_bits(answer))
        });
        // The combiner may live, and still execute the request.
        let fate = fate.map_err(Stop::unsure)?;
        self.asked.set(0);
        Ok(Outcome { fate, ret: get(&answer[RET..]) })
    }

    /// Lines 26–46: one combiner at a time.
    #[inline(always)]
    fn combine<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        (my_id, mine): (usize, &[S::Word]),
        round: u32,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Outcome<Ret>, Stop> {
        // 26
        site.enter(self.me);
        let outcome = run(self.me, *op);
        // 27–31
        let here = u64::from(round);
        let mut completed = 0;
        while completed < self.max_ops {
            let line = self.line(mine, completed);
            if line[ROUND].load() != here {
                break;
            }
            self.serve(site, (my_id, completed), line, run)?;
            completed += 1;
        }
        // 32–35
        let closed = here << ROUND_AT | self.max_ops as u64;
        let (still, total) = split(mine[N_OPS].swap(closed));
        lemma!(still == round, "proposition 1: nobody else has used the node");
        lemma!(completed <= total, "lemma 6: a request that nobody registered");
        // 36–40
        while completed < total.min(self.max_ops) {
            let line = self.line(mine, completed);
            let there = &line[ROUND];
            match site.wait(self.me, None, there, || (there.load() == here).then_some(())) {
                Ok(()) => self.serve(site, (my_id, completed), line, run)?,
                // This seat's operation was executed, and the seats that are not served begin again. The node stays in
                // the void queue.
                Err(Stop::Void) => {
                    return Ok(outcome);
                }
                // The seat must not go on, because it remains the head of the queue.
                Err(stop) => return Err(stop.unsure()),
            }
            completed += 1;
        }
        // 41–46
        let departed = site.word(self.departed)?;
        let next = departed.load_relaxed();
        departed.store_relaxed(my_id as u64);
        self.left.set(my_id);
        self.own(site, self.me)?.store_relaxed(someone(next as usize));
        lemma!(
            mine[COMBINING].load_relaxed() != 0,
            "lemma 1: the departing one is not in the queue"
        );
        lemma!(self.is_closed(mine), "lemma 2: one that is open leaves the queue");
        mine[COMBINING].store(0);
        site.fence();
        let waiter = mine[WAITER].load_relaxed();
        if waiter != 0 {
            site.wake(who(waiter));
        }
        Ok(outcome)
    }

    /// Executes the request in a line of a node, and answers it.
    #[inline(always)]
    fn serve<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        (node, place): (usize, usize),
        line: &[S::Word],
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<(), Stop> {
        let (sender, number) = request(line)?;
        lemma!(sender != self.me, "lemma 5: a combiner's own request");
        lemma!(
            self.line_of(site, sender)?[ANSWERED].load_relaxed() >> FATE_BITS == number - 1,
            "lemma 3: nobody waits for this request"
        );
        site.begin(self.me, (self.nodes + node * self.node + NODE + place * self.line) as u64);
        self.tell(site, (sender, number), run(sender, get(&line[OP..])))?;
        // The note is cleared before the node changes hands and the line is reused.
        site.approach(self.me);
        Ok(())
    }

    /// Records the outcome of a request.
    #[inline(always)]
    fn tell<S: Site, Ret: Plain>(
        &self,
        site: &S,
        (sender, number): (Seat, u64),
        Outcome { fate, ret }: Outcome<Ret>,
    ) -> Result<(), Stop> {
        let answer = self.line_of(site, sender)?;
        put(&ret, &answer[RET..]);
        // This comes after the result and all that the operation has written, for seats that find this rank dead.
        answer[ANSWERED].store(number << FATE_BITS | fate as u64);
        site.wake(sender);
        Ok(())
    }
}

impl Combiner for HybComb {
    #[inline(always)]
    fn attempt<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Outcome<Ret>, Stop> {
        let last = site.word(self.last)?;
        let own = self.own(site, self.me)?;
        let my_id = if own.load_relaxed() == 0 { self.me + 1 } else { who(own.load_relaxed()) };
        let mine = self.node(site, my_id)?;
        let mut failed = 0;
        // 11–24
        let before = loop {
            let seen = last.load();
            if seen == CLOSED {
                return Err(Stop::Void);
            }
            let node = self.node(site, node_of(seen))?;
            // 14
            // If no seat has come since this one left the node, the node is closed and still in the cache: a look is
            // enough.
            let is_left = node_of(seen) == self.left.get() && self.is_closed(node);
            let (round, place) = if is_left { (0, 0) } else { split(node[N_OPS].fetch_add(1)) };
            if round != 0 && place < self.max_ops {
                lemma!(
                    node[COMBINING].load_relaxed() != 0,
                    "lemma 2: what is open is in the queue"
                );
                lemma!(self.is_closed(mine), "lemma 5: requests to one that is not in the queue");
                return self.send(site, node, (round, place), op);
            }
            self.prepare(mine);
            // 20
            if failed >= self.failures {
                break last.swap(me_in(my_id, mine));
            }
            if last.compare_exchange(seen, me_in(my_id, mine)).is_ok() {
                break seen;
            }
            failed += 1;
            lemma!(failed <= self.failures, "starvation freedom: one more, and it is a swap");
        };
        // A node of this seat that is in the queue already was left there when the queue became void: see `combine`.
        let is_closed = before == CLOSED;
        let before = node_of(before);
        if is_closed || before == my_id {
            return Err(Stop::Void);
        }
        let round = open(mine);
        // 22, 23
        let ahead = self.node(site, before)?;
        let combining = &ahead[COMBINING];
        if combining.load() != 0 {
            ahead[WAITER].store(someone(self.me));
            site.wait(self.me, None, combining, || (combining.load() == 0).then_some(()))?;
        }
        lemma!(
            site.word(self.departed)?.load_relaxed() == before as u64,
            "lemma 1: the head of the queue is the departed one"
        );
        self.combine(site, (my_id, mine), round, op, run)
    }

    fn try_attempt<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Option<Outcome<Ret>>, Stop> {
        let last = site.word(self.last)?;
        let seen = last.load();
        if seen == CLOSED {
            return Err(Stop::Void);
        }
        if self.node(site, node_of(seen))?[COMBINING].load() != 0 {
            return Ok(None);
        }
        let own = self.own(site, self.me)?;
        let my_id = if own.load_relaxed() == 0 { self.me + 1 } else { who(own.load_relaxed()) };
        // A node of this seat that is in the queue already was left there when the queue became void: see `combine`.
        if node_of(seen) == my_id {
            return Err(Stop::Void);
        }
        let mine = self.node(site, my_id)?;
        self.prepare(mine);
        // If the word is unchanged, no seat has combined with that node since the look.
        if last.compare_exchange(seen, me_in(my_id, mine)).is_err() {
            return Ok(None);
        }
        let round = open(mine);
        self.combine(site, (my_id, mine), round, op, run).map(Some)
    }

    fn has_asked(&self) -> bool {
        self.asked.get() != 0
    }

    fn look<S: Site, Op: Plain, Ret: Plain>(&self, site: &S) -> Result<Option<Outcome<Ret>>, Stop> {
        let asked = self.asked.take();
        let answer = self.line_of(site, self.me)?;
        let answered = answer[ANSWERED].load();
        let is_answered = asked != 0 && answered >> FATE_BITS == asked;
        let outcome = || Outcome { fate: Fate::from_bits(answered), ret: get(&answer[RET..]) };
        Ok(is_answered.then(outcome))
    }

    fn unanswered<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        at: u64,
    ) -> Result<Option<(Seat, Op)>, Stop> {
        let line = site.words(at as usize, self.line)?;
        let (sender, number) = request(line)?;
        let answered = self.line_of(site, sender)?[ANSWERED].load();
        let is_answered = answered >> FATE_BITS == number;
        Ok(if is_answered { None } else { Some((sender, get(&line[OP..]))) })
    }

    fn answer<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        at: u64,
        outcome: Outcome<Ret>,
    ) -> Result<(), Stop> {
        self.tell(site, request(site.words(at as usize, self.line)?)?, outcome)
    }

    /// Closes the nodes as well, because a seat that has seen one in the queue before may register there much later. If
    /// it registers before the node is closed, its mark shows that it is in the code. A seat that opens its node
    /// meanwhile is done with that by the next call.
    fn close<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        let mut was_closed = site.word(self.last)?.swap(CLOSED) == CLOSED;
        for node in 0..=self.seats {
            let n_ops = &self.node(site, node)?[N_OPS];
            let mut seen = n_ops.load();
            while self.is_open(seen) {
                was_closed = false;
                let closed = u64::from(split(seen).0) << ROUND_AT | self.max_ops as u64;
                match n_ops.compare_exchange(seen, closed) {
                    Ok(()) => break,
                    Err(other) => seen = other,
                }
            }
        }
        Ok(was_closed)
    }

    /// All seats that live keep their nodes, which they may have read already, and each node keeps its rounds.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        let nodes = (0..self.seats).filter(|&seat| !site.is_dead(seat)).map(|seat| {
            let own = self.own(site, seat)?.load();
            Ok(if own == 0 { seat + 1 } else { who(own) })
        });
        let taken = nodes.collect::<Result<Vec<_>, Stop>>()?;
        let free = (0..=self.seats).find(|node| !taken.contains(node)).ok_or(Stop::Corrupt)?;
        let node = self.node(site, free)?;
        node[COMBINING].store_relaxed(0);
        node[WAITER].store_relaxed(0);
        site.word(self.departed)?.store_relaxed(free as u64);
        Ok(site.word(self.last)?.compare_exchange(CLOSED, free as u64).is_ok())
    }
}

/// Returns the seat whose request a line holds, and the request's number.
#[inline(always)]
fn request(line: &[impl AnyWord]) -> Result<(Seat, u64), Stop> {
    let sender = line[SENDER].load_relaxed().checked_sub(1).ok_or(Stop::Corrupt)? as usize;
    Ok((sender, line[NUMBER].load_relaxed()))
}

/// Returns the word for a node that is the last one in the queue, in a round that is to be opened. No word of an
/// earlier round is equal.
#[inline(always)]
fn me_in(node: usize, words: &[impl AnyWord]) -> u64 {
    u64::from(next_round(words)) << ROUND_AT | node as u64
}

/// Returns the node in such a word.
#[inline(always)]
fn node_of(last: u64) -> usize {
    last as u32 as usize
}

#[inline(always)]
fn next_round(words: &[impl AnyWord]) -> u32 {
    match split(words[N_OPS].load_relaxed()).0 {
        u32::MAX => 1,
        round => round + 1,
    }
}

/// Lets others register in this seat's node (line 21). Returns its round.
#[inline(always)]
fn open(mine: &[impl AnyWord]) -> u32 {
    let round = next_round(mine);
    let open = u64::from(round) << ROUND_AT;
    if cfg!(loom) {
        // Loom may place this store before others' additions that are not ordered with it. No processor does.
        mine[N_OPS].swap(open);
    } else {
        mine[N_OPS].store(open);
    }
    round
}

/// Returns a node's round, and how many operations have registered in it.
fn split(n_ops: u64) -> (u32, usize) {
    ((n_ops >> ROUND_AT) as u32, n_ops as u32 as usize)
}
