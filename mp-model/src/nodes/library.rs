//! Operations on several nodes as this library does them: the steps of `mp-collectives/src/nodes/`, in virtual time.
//!
//! A leader does one thing after the other. What it does together with the ranks of its node occupies it from beginning to
//! end. What relays do for it is left out.

use std::mem;
use std::ops::Range;

use super::leaders::{Combining, PIECE, Parts, around, below, doubling, runs};
use super::on_node::{self, OnNode};
use super::simulation::{Arriving, Message, Sent, Simulation, World};
use crate::Time;
use crate::cla::Machine;
use crate::cla::search::OutwardChoice;

/// An operation as this library does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// The number of pieces. A message without elements has one, too.
    pub pieces: u64,
    /// The bytes of a piece. The last one may have fewer.
    pub piece: u64,
    /// How many pieces the ranks of a node reduce, or broadcast, in one operation. `reduce` and `broadcast` have the times of
    /// such an operation.
    pub together: u64,
    /// How the leaders combine the pieces. A broadcast doesn't.
    pub combining: Option<Combining>,
    /// How the ranks of each node reduce to their leader. A broadcast doesn't.
    pub reduce: Option<OnNode>,
    /// How each leader broadcasts on its node.
    pub broadcast: OutwardChoice,
    /// The time of the whole.
    pub time: Time,
}

/// A piece, and how long it takes on a node.
#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    reduce: OnNode,
    broadcast: OutwardChoice,
}

impl Piece {
    fn new(machine: &Machine, bytes: u64) -> Piece {
        let (reduce, broadcast) =
            (on_node::reduce(machine, bytes), on_node::broadcast(machine, bytes));
        Piece { bytes, reduce, broadcast }
    }

    fn message(self, from: usize, to: usize) -> Message {
        Message { from, to, bytes: self.bytes }
    }
}

/// What is cut into pieces.
#[derive(Clone, Copy)]
struct Cut {
    count: u64,
    whole: Piece,
    last: Piece,
}

impl Cut {
    fn new(machine: &Machine, bytes: u64, piece: u64) -> Cut {
        let count = bytes.div_ceil(piece.max(1)).max(1);
        let [whole, last] = [bytes.min(piece), bytes - (count - 1) * piece];
        Cut { count, whole: Piece::new(machine, whole), last: Piece::new(machine, last) }
    }

    fn piece(&self, number: u64) -> Option<Piece> {
        let last = self.count - 1;
        (number <= last).then_some(if number == last { self.last } else { self.whole })
    }
}

pub(super) fn all_reduce(world: World<'_>, bytes: u64) -> Library {
    let combining = Combining::of(world.nodes, bytes as usize);
    let Parts { length: piece, together } = match combining {
        Combining::InTurns => Parts::of(world.nodes, bytes as usize, 1),
        _ => Parts { length: PIECE, together: 1 },
    };
    let cut = Cut::new(world.machine, bytes, piece as u64);
    let on_node = Piece::new(world.machine, cut.whole.bytes * together as u64);
    let time = match combining {
        Combining::Doubling => by_doubling(world, cut),
        Combining::Everywhere => everywhere(world, cut.whole),
        Combining::InTurns => in_turns(world, cut, together),
    };
    Library {
        pieces: cut.count,
        piece: cut.whole.bytes,
        together: together as u64,
        combining: Some(combining),
        reduce: Some(on_node.reduce),
        broadcast: on_node.broadcast,
        time,
    }
}

fn by_doubling(world: World<'_>, cut: Cut) -> Time {
    let mut simulation = Simulation::of_doubling(world);
    let mut rounds = doubling(world.nodes);
    let first = rounds.next();
    let mut sent = Sent::default();
    for step in 0..=cut.count {
        let mut next = Sent::default();
        if let Some(piece) = cut.piece(step) {
            simulation.work(piece.reduce.time);
            next = first.map(|round| simulation.send_in(round, piece.bytes)).unwrap_or_default();
        }
        let sent = mem::replace(&mut sent, next);
        let Some(piece) = step.checked_sub(1).and_then(|last| cut.piece(last)) else { continue };
        if let Some(round) = first {
            simulation.receive_in(round, sent);
        }
        for round in rounds.clone() {
            let sent = simulation.send_in(round, piece.bytes);
            simulation.receive_in(round, sent);
        }
        simulation.work(piece.broadcast.predicted);
    }
    simulation.end()
}

/// All nodes do the same.
fn everywhere(world: World<'_>, piece: Piece) -> Time {
    let mut simulation = Simulation::of_one(world);
    simulation.work(piece.reduce.time);
    simulation.round(Arriving::Combined, (1..world.nodes).map(|to| piece.message(0, to)));
    simulation.work(piece.broadcast.predicted);
    simulation.end()
}

/// All nodes do the same as the first one, if a last turn of fewer pieces counts as a whole one.
fn in_turns(world: World<'_>, Cut { count, whole: piece, .. }: Cut, together: usize) -> Time {
    let turns = count.div_ceil(world.nodes as u64);
    let on_node = |run: Range<usize>| {
        let bytes = run.len() as u64 * piece.bytes;
        (run, Piece::new(world.machine, bytes))
    };
    let runs: Vec<_> = runs(0, world.nodes, together).map(on_node).collect();
    let mut simulation = Simulation::of_one(world);
    let (mut given, mut returned) = (Vec::new(), Vec::new());
    for turn in 0..turns + 2 {
        let (mut gives, mut returns) = (Vec::new(), Vec::new());
        for (run, on_node) in runs.iter().filter(|_| turn < turns) {
            simulation.work(on_node.reduce.time);
            let others = run.clone().filter(|&by| by != 0);
            gives.extend(others.map(|by| simulation.send([piece.message(0, by)])));
        }
        for part in mem::replace(&mut given, gives) {
            simulation.receive(Arriving::Combined, part);
        }
        if (1..=turns).contains(&turn) {
            let others = around(0, world.nodes).filter(|&to| to != 0);
            returns.extend(others.map(|to| simulation.send([piece.message(0, to)])));
        }
        let mut results = mem::replace(&mut returned, returns).into_iter();
        for (run, on_node) in runs.iter().rev().filter(|_| turn > 1) {
            for result in results.by_ref().take(run.clone().filter(|&by| by != 0).count()) {
                simulation.receive(Arriving::Kept, result);
            }
            simulation.work(on_node.broadcast.predicted);
        }
    }
    simulation.end()
}

/// Broadcasts from the leader of node 0.
pub(super) fn broadcast(world: World<'_>, bytes: u64) -> Library {
    let cut = Cut::new(world.machine, bytes, PIECE as u64);
    let mut simulation = Simulation::of_all(world);
    let along = |simulation: &mut Simulation<'_>, piece: Piece| {
        for from in 0..world.nodes {
            let children = below(from, world.nodes);
            simulation.round(Arriving::Kept, children.map(|to| piece.message(from, to)));
        }
        simulation.work(piece.broadcast.predicted);
    };
    simulation.repeat(cut.count as usize - 1, 1, |simulation| along(simulation, cut.whole));
    along(&mut simulation, cut.last);
    let Piece { bytes: piece, broadcast, .. } = cut.whole;
    let (pieces, together, time) = (cut.count, 1, simulation.end());
    Library { pieces, piece, together, combining: None, reduce: None, broadcast, time }
}
