//! This library's collective operations that use no tree, as programs: which rank sends to which, round by round.
//!
//! A [`Schedule`] contains the messages, the order in which each rank handles them, and the way they are sent.
//! [`Schedule::program`] writes them as primitives, for which a [`Graph`](super::Graph) gives the bounds.
//!
//! ```
//! use mp_model::cla::schedule::{By, Schedule};
//! use mp_model::cla::{Graph, Machine, Rules};
//!
//! let machine = Machine::sandy_bridge(4)?;
//! let gather = Schedule::gather(4, 0, By::Lines { lines: 1 });
//! let program = gather.program();
//! let bounds = Graph::new(&program, &machine)?.bounds(Rules::default());
//! assert!(bounds.min <= bounds.max);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;

use super::program::{Line, Program};
use crate::in_order::Shape;

/// A collective operation: its rounds, which all ranks go through in this order, for each piece of a
/// message that does not go whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    ranks: usize,
    pieces: u64,
    rounds: Vec<Round>,
}

/// In a round, a rank first sends what it has to send, and then takes what comes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    messages: Vec<(usize, usize)>,
    /// Whether a rank sends the same to several ranks.
    same: bool,
    what: What,
    by: By,
}

/// What happens to a message where it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// It has its own place.
    Kept,
    /// It is combined with what the rank has, which it sends in later rounds.
    Combined,
    /// It replaces the rank's own data.
    Result,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// In lines of the receiver, each beside its flag.
    Lines {
        /// The number of lines.
        lines: u64,
    },
    /// Through buffers of the sender. The receiver is told, and gets the message from there.
    Buffers {
        /// Lines of a message.
        lines: u64,
        /// The most lines of a piece.
        piece: u64,
        /// How many pieces may be under way to a rank.
        buffers: u64,
    },
}

impl By {
    /// Returns the number of lines that are moved together.
    pub(super) fn width(self) -> u64 {
        match self {
            By::Lines { .. } => 1,
            // The last piece may be shorter; this is the average.
            By::Buffers { lines, .. } => lines.div_ceil(self.pieces()),
        }
    }

    /// Returns how many such units there are in a piece of a message.
    pub(super) fn count(self) -> u64 {
        match self {
            By::Lines { lines } => lines,
            By::Buffers { .. } => 1,
        }
    }

    pub(super) fn pieces(self) -> u64 {
        match self {
            By::Lines { .. } => 1,
            By::Buffers { lines, piece, .. } => lines.div_ceil(piece.max(1)).max(1),
        }
    }

    /// Returns the way of a part of each message.
    pub(super) fn part(self, of: u64) -> By {
        match self {
            By::Lines { lines } => By::Lines { lines: lines.div_ceil(of.max(1)) },
            By::Buffers { lines, piece, buffers } => {
                By::Buffers { lines: lines.div_ceil(of.max(1)), piece, buffers }
            }
        }
    }
}

impl Round {
    fn new(
        what: What,
        same: bool,
        by: By,
        messages: impl IntoIterator<Item = (usize, usize)>,
    ) -> Round {
        Round { messages: messages.into_iter().collect(), same, what, by }
    }

    /// Returns the senders and receivers, in the order in which senders deal with them.
    pub fn messages(&self) -> &[(usize, usize)] {
        &self.messages
    }
}

/// Returns the messages from each rank to each other one, the next one first.
fn each_to_each(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..ranks).flat_map(move |far| (0..ranks).map(move |rank| (rank, (rank + far) % ranks)))
}

fn others(ranks: usize, one: usize) -> impl Iterator<Item = usize> {
    (0..ranks).filter(move |&rank| rank != one)
}

/// The operations. All ranks have one block each for what they send and receive, of as many lines as the
/// way says.
impl Schedule {
    fn new(ranks: usize, rounds: Vec<Round>) -> Schedule {
        let pieces = rounds.iter().map(|round| round.by.pieces()).max().unwrap_or(1);
        Schedule { ranks, pieces, rounds }
    }

    /// Returns a gather: all ranks send to one.
    pub fn gather(ranks: usize, root: usize, by: By) -> Schedule {
        let messages = others(ranks, root).map(|rank| (rank, root));
        Schedule::new(ranks, vec![Round::new(What::Kept, true, by, messages)])
    }

    /// Returns a scatter: one rank sends each other rank something else.
    pub fn scatter(ranks: usize, root: usize, by: By) -> Schedule {
        let messages = others(ranks, root).map(|rank| (root, rank));
        Schedule::new(ranks, vec![Round::new(What::Kept, false, by, messages)])
    }

    /// Returns an all-gather: each rank sends the same to all others. With `shared` buffers, each puts it once and all
    /// get it.
    pub fn all_gather(ranks: usize, by: By, shared: bool) -> Schedule {
        Schedule::new(ranks, vec![Round::new(What::Kept, shared, by, each_to_each(ranks))])
    }

    /// Returns an all-to-all: each rank sends each other rank something else.
    pub fn all_to_all(ranks: usize, by: By) -> Schedule {
        Schedule::new(ranks, vec![Round::new(What::Kept, false, by, each_to_each(ranks))])
    }

    /// Returns a reduce-scatter: each rank sends each other rank what that rank combines.
    pub fn reduce_scatter(ranks: usize, by: By) -> Schedule {
        Schedule::new(ranks, vec![Round::new(What::Combined, false, by, each_to_each(ranks))])
    }

    /// Returns a reduction: all ranks send to one, which combines everything.
    pub fn reduce(ranks: usize, root: usize, by: By) -> Schedule {
        let messages = others(ranks, root).map(|rank| (rank, root));
        Schedule::new(ranks, vec![Round::new(What::Combined, true, by, messages)])
    }

    /// Returns a reduction along a tree: each rank combines what its children have, and hands that on.
    ///
    /// # Panics
    /// If there is no such root.
    pub fn reduce_along(shape: Shape, root: usize, by: By) -> Schedule {
        let places = shape.places(root).expect("the root is one of the ranks");
        // Level by level, the lowest one first.
        let (mut rounds, mut parents) = (Vec::new(), vec![root]);
        while !parents.is_empty() {
            let children = |parent: usize| places[parent].children.iter().map(|child| child.rank);
            let of = |&parent: &usize| children(parent).map(move |child| (child, parent));
            let messages: Vec<_> = parents.iter().flat_map(of).collect();
            parents = messages.iter().map(|&(child, _)| child).collect();
            if !messages.is_empty() {
                rounds.push(Round::new(What::Combined, true, by, messages));
            }
        }
        rounds.reverse();
        Schedule::new(shape.ranks(), rounds)
    }

    /// Returns a reduction in which each rank combines a part of all vectors, and the root gets the parts. `by`
    /// describes a whole vector.
    pub fn reduce_scattered(ranks: usize, root: usize, by: By) -> Schedule {
        let part = by.part(ranks as u64);
        let combine = Round::new(What::Combined, false, part, each_to_each(ranks));
        let messages = others(ranks, root).map(|rank| (rank, root));
        let gather = Round::new(What::Kept, true, part, messages);
        Schedule::new(ranks, vec![combine, gather])
    }

    /// Returns an all-reduce in which each rank combines a part of all vectors, and all get all parts.
    pub fn all_reduce_scattered(ranks: usize, by: By) -> Schedule {
        let part = by.part(ranks as u64);
        let combine = Round::new(What::Combined, false, part, each_to_each(ranks));
        let gather = Round::new(What::Kept, true, part, each_to_each(ranks));
        Schedule::new(ranks, vec![combine, gather])
    }

    /// Returns an all-reduce in which each rank gets all vectors.
    pub fn all_reduce_whole(ranks: usize, by: By) -> Schedule {
        Schedule::new(ranks, vec![Round::new(What::Combined, true, by, each_to_each(ranks))])
    }

    /// Returns an all-reduce at rank 0, which sends the result to all.
    pub fn all_reduce_at_first(ranks: usize, by: By) -> Schedule {
        let meet = Round::new(What::Combined, true, by, (1..ranks).map(|rank| (rank, 0)));
        let go = Round::new(What::Result, true, by, (1..ranks).map(|rank| (0, rank)));
        Schedule::new(ranks, vec![meet, go])
    }

    /// Returns an all-reduce by recursive doubling. Of P ranks, those above a power of two first give what they have to
    /// a neighbour, and get the result from it.
    pub fn all_reduce_doubling(ranks: usize, by: By) -> Schedule {
        if ranks < 2 {
            return Schedule::new(ranks, Vec::new());
        }
        let places = 1_usize << ranks.ilog2();
        let doubled = ranks - places;
        let rank_of = |place: usize| if place < doubled { 2 * place } else { place + doubled };
        let mut rounds = Vec::new();
        if doubled > 0 {
            let messages = (0..doubled).map(|place| (2 * place + 1, 2 * place));
            rounds.push(Round::new(What::Combined, true, by, messages));
        }
        for far in (0..places.ilog2()).map(|bit| 1 << bit) {
            let messages = (0..places).map(|place| (rank_of(place), rank_of(place ^ far)));
            rounds.push(Round::new(What::Combined, true, by, messages));
        }
        if doubled > 0 {
            let messages = (0..doubled).map(|place| (2 * place, 2 * place + 1));
            rounds.push(Round::new(What::Result, true, by, messages));
        }
        Schedule::new(ranks, rounds)
    }

    /// Returns a scan in which each rank sends to the next, the second next, the fourth next rank, and so on.
    pub fn scan_doubling(ranks: usize, by: By) -> Schedule {
        let far = (0..usize::BITS).map(|bit| 1 << bit).take_while(|&far| far < ranks);
        let rounds = far.map(|far| {
            let messages = (0..ranks - far).map(|rank| (rank, rank + far));
            Round::new(What::Combined, true, by, messages)
        });
        Schedule::new(ranks, rounds.collect())
    }

    /// Returns a scan in which each rank sends to the next.
    pub fn scan_chain(ranks: usize, by: By) -> Schedule {
        let rounds =
            (1..ranks).map(|rank| Round::new(What::Combined, true, by, [(rank - 1, rank)]));
        Schedule::new(ranks, rounds.collect())
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns its rounds.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Returns the number of its pieces, each of which goes through all rounds.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Returns the number of messages, pieces counted one by one. The length of its program is proportional to it.
    pub fn messages(&self) -> u64 {
        let in_rounds: usize = self.rounds.iter().map(|round| round.messages.len()).sum();
        self.pieces * in_rounds as u64
    }

    /// Returns the operation as primitives. The only acknowledgements are those for buffers that another piece will
    /// fill again. Everything else has further lines.
    pub fn program(&self) -> Program {
        let mut program = Program::new(self.ranks);
        let mut ways: Vec<Ways> =
            self.rounds.iter().map(|round| Ways::new(&mut program, self.ranks, round)).collect();
        // Each rank's own elements, which it combines with what comes.
        let mut own: Vec<Vec<Line>> = Vec::new();
        let count = self.rounds.iter().map(|round| round.by.count()).max().unwrap_or(0);
        for rank in 0..self.ranks {
            own.push((0..count).map(|_| program.data(rank, self.width())).collect());
        }
        for piece in 0..self.pieces {
            for (round, way) in self.rounds.iter().zip(&mut ways) {
                if piece < round.by.pieces() {
                    for &(from, to) in &round.messages {
                        way.send(&mut program, round, (from, to), &own[from], piece);
                    }
                    for &(from, to) in &round.messages {
                        way.take(&mut program, round, (from, to), &own[to], piece);
                    }
                }
            }
        }
        program
    }

    /// Returns the width of what a rank has itself: see [`By::width`].
    fn width(&self) -> u64 {
        self.rounds.iter().map(|round| round.by.width()).max().unwrap_or(1)
    }
}

/// The lines of a round's messages.
struct Ways {
    /// By sender and receiver.
    messages: HashMap<(usize, usize), Way>,
    /// By sender: the last piece that it has put for all.
    put: Vec<Option<u64>>,
}

struct Way {
    /// The data, if it is for this receiver alone.
    data: Vec<Line>,
    /// The place where it goes, if it has its own.
    room: Vec<Line>,
    /// For lines, all of them; for a buffer, the flag that says that it is filled.
    flags: Vec<Line>,
    /// For a buffer, the flag that says that it is empty again.
    emptied: Option<Line>,
    /// The buffers that may be filled at the same time.
    buffers: Vec<Line>,
}

impl Ways {
    fn new(program: &mut Program, ranks: usize, round: &Round) -> Ways {
        let mut messages = HashMap::new();
        // By sender: buffers that all readers have in common.
        let mut common: Vec<Option<Vec<Line>>> = vec![None; ranks];
        for &(from, to) in &round.messages {
            let (count, width) = (round.by.count(), round.by.width());
            let mut of = |count: u64, owner: usize| -> Vec<Line> {
                (0..count).map(|_| program.data(owner, width)).collect()
            };
            let data = of(if round.same { 0 } else { count }, from);
            let room = of(if round.what == What::Kept { count } else { 0 }, to);
            let (flags, emptied, buffers) = match round.by {
                By::Lines { lines } => {
                    ((0..lines).map(|_| program.flag(to)).collect(), None, Vec::new())
                }
                By::Buffers { buffers, .. } => {
                    let mut make = || -> Vec<Line> {
                        let needed = buffers.clamp(1, round.by.pieces());
                        (0..needed).map(|_| program.buffer(from, to, width)).collect()
                    };
                    let buffers = match round.same {
                        true => common[from].get_or_insert_with(make).clone(),
                        false => make(),
                    };
                    (vec![program.flag(to)], Some(program.flag(from)), buffers)
                }
            };
            messages.insert((from, to), Way { data, room, flags, emptied, buffers });
        }
        Ways { messages, put: vec![None; ranks] }
    }

    fn send(
        &mut self,
        program: &mut Program,
        round: &Round,
        (from, to): (usize, usize),
        own: &[Line],
        piece: u64,
    ) {
        let Some(way) = self.messages.get(&(from, to)) else { return };
        let data = if round.same { own } else { &way.data };
        if way.buffers.is_empty() {
            for (&data, &line) in data.iter().zip(&way.flags) {
                program.copy(from, data, line);
                program.write(from, line, 1);
            }
            return;
        }
        let buffer = way.buffers[piece as usize % way.buffers.len()];
        if !round.same || self.put[from] != Some(piece) {
            // Before a buffer is filled again, all have got what was in it.
            let before = piece.checked_sub(way.buffers.len() as u64);
            let readers: Vec<usize> = match round.same {
                true => {
                    let mine = round.messages.iter().filter(|message| message.0 == from);
                    mine.map(|message| message.1).collect()
                }
                false => vec![to],
            };
            for reader in readers {
                let emptied = self.messages.get(&(from, reader)).and_then(|way| way.emptied);
                if let (Some(before), Some(emptied)) = (before, emptied) {
                    program.wait(from, emptied, before + 1);
                }
            }
            if let Some(&data) = data.first() {
                program.copy(from, data, buffer);
            }
            self.put[from] = Some(piece);
        }
        program.write(from, way.flags[0], piece + 1);
    }

    fn take(
        &self,
        program: &mut Program,
        round: &Round,
        (from, to): (usize, usize),
        own: &[Line],
        piece: u64,
    ) {
        let Some(way) = self.messages.get(&(from, to)) else { return };
        let place = |at: usize| match round.what {
            What::Kept => way.room[at],
            What::Combined | What::Result => own[at],
        };
        let pass = |program: &mut Program, source: Line, at: usize| match round.what {
            What::Combined => program.combine(to, source, place(at)),
            What::Kept | What::Result => program.copy(to, source, place(at)),
        };
        if way.buffers.is_empty() {
            for (at, &line) in way.flags.iter().enumerate() {
                program.wait(to, line, 1);
                pass(program, line, at);
            }
            return;
        }
        program.wait(to, way.flags[0], piece + 1);
        pass(program, way.buffers[piece as usize % way.buffers.len()], 0);
        let again = piece + (way.buffers.len() as u64) < round.by.pieces();
        if let (true, Some(emptied)) = (again, way.emptied) {
            program.write(to, emptied, piece + 1);
        }
    }
}
