//! What the ranks of a node do among themselves, in the way of this library: the costs and shapes of
//! [`search`](crate::cla::search).

use super::simulation::lines;
use crate::Time;
use crate::cla::Machine;
use crate::cla::best_lambda;
use crate::cla::outward::Outward;
use crate::cla::schedule::By;
use crate::cla::search::{
    Load, OutwardChoice, best_outward, outward_time, reduction_along, reduction_scattered,
};
use crate::in_order::Shape;

/// The most lines of a vector that goes in lines, each with its flag.
const MOST_LINES: u64 = 8;
/// The most chunks of a vector for which a tree is tried: with more, it is as good as sure to be slower.
const MOST_CHUNKS: u64 = 64;
/// The lines of a chunk of a broadcast, as in `mp-collectives`.
const CHUNK: u64 = 1024;
/// The most children of a rank in a broadcast of chunks, as in `mp-collectives`.
const MOST_READERS: usize = 7;

/// How the ranks of a node reduce to their leader, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnNode {
    /// The λ of the tree [in the order of ranks](crate::in_order), or `None` if each rank combines a part and the
    /// leader gets the parts.
    pub lambda: Option<usize>,
    /// The time.
    pub time: Time,
}

pub(super) fn reduce(machine: &Machine, bytes: u64) -> OnNode {
    let (ranks, lines) = (machine.ranks(), lines(bytes));
    let along = |by, lambda| {
        let time = reduction_along(machine, Shape::new(ranks, lambda), 0, by);
        OnNode { lambda: Some(lambda), time }
    };
    let piece = (2048 / ranks as u64).clamp(32, 1024);
    let chunks = |lines| By::Buffers { lines, piece, buffers: 4 };
    let blocks = By::Buffers { lines, piece, buffers: 2 };
    let scattered = OnNode { lambda: None, time: reduction_scattered(machine, 0, blocks) };
    // With two chunks, one arrives while the other one is copied.
    let in_chunks = (lines <= MOST_CHUNKS * piece)
        .then(|| along(chunks(lines), best_lambda(machine, chunks(2 * piece)).lambda));
    let by = By::Lines { lines };
    let in_lines = (lines <= MOST_LINES).then(|| along(by, best_lambda(machine, by).lambda));
    let faster = |one: OnNode, other: OnNode| if other.time <= one.time { other } else { one };
    in_chunks.into_iter().chain(in_lines).fold(scattered, faster)
}

pub(super) fn broadcast(machine: &Machine, bytes: u64) -> OutwardChoice {
    let (groups, lines) = (&machine.placement, lines(bytes));
    if lines == 1 {
        return best_outward(machine, groups, Load::Line, usize::MAX);
    }
    let chunks = lines.div_ceil(CHUNK);
    let load = |chunks_of_it| Load::Chunks { lines: lines.div_ceil(chunks), chunks: chunks_of_it };
    let best = best_outward(machine, groups, load(chunks.min(2)), MOST_READERS);
    let outward = Outward::new(groups, best.between, best.within);
    let predicted = match machine.ranks() {
        1 => Time::ZERO,
        _ => outward_time(machine, &outward, 0, load(chunks)),
    };
    OutwardChoice { predicted, ..best }
}
