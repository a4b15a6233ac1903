//! The algorithms with which libraries for networks broadcast and reduce, as rounds of messages.
//!
//! The same algorithms run among all ranks of all nodes, which is flat, and among the leaders, of which each node has
//! one. Of flat ones, those that send to ranks nearby exchange much within nodes, because the ranks of a node have
//! neighbouring numbers. Blocks are all counted as long as the longest one.

use std::fmt;

use super::leaders::{self, distances};
use super::simulation::{Arriving, Message, Simulation, World};
use crate::Time;

/// An algorithm of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A broadcast in which each of 2ⁱ ranks sends everything to another one in round i.
    Binomial,
    /// A broadcast that scatters a block to each rank along a binomial tree. When all have theirs, they gather all
    /// blocks in ⌈log₂ P⌉ rounds, in which each rank sends all that it has (Bruck and others).
    ScatterDoubling,
    /// The same, but in P − 1 rounds in which each rank sends a block to the next.
    ScatterRing,
    /// An all-reduce in which ranks at distance 1, 2, 4 and so on exchange everything. Of P ranks, those above a power
    /// of two first give what they have to a neighbour, and get the result from it.
    Doubling,
    /// An all-reduce in which blocks are combined in ⌈log₂ P⌉ rounds, so that each rank has one of the result, and
    /// gathered in as many: ScatterDoubling's second half, first backwards and then forwards. It suits operations that
    /// commute.
    Halving,
    /// An all-reduce in which blocks are combined in P − 1 rounds around a ring, and gathered in as many.
    Ring,
}

/// An algorithm that was chosen, and the time that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its time, from when all ranks begin to when the last one is done.
    pub time: Time,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Binomial => "a binomial tree",
            Algorithm::ScatterDoubling => "scatter, and all-gather by doubling",
            Algorithm::ScatterRing => "scatter, and all-gather around a ring",
            Algorithm::Doubling => "recursive doubling",
            Algorithm::Halving => "reduce-scatter by halving, and all-gather by doubling",
            Algorithm::Ring => "reduce-scatter and all-gather around a ring",
        })
    }
}

impl Algorithm {
    /// Those that broadcast.
    pub const BROADCASTS: [Algorithm; 3] =
        [Algorithm::Binomial, Algorithm::ScatterDoubling, Algorithm::ScatterRing];
    /// Those that reduce to all.
    pub const ALL_REDUCES: [Algorithm; 3] =
        [Algorithm::Doubling, Algorithm::Halving, Algorithm::Ring];

    pub(super) fn time(self, world: World<'_>, bytes: u64) -> Time {
        let ranks = world.ranks();
        let block = bytes.div_ceil(ranks as u64);
        match self {
            Algorithm::Binomial => down(world, |_| bytes),
            Algorithm::ScatterDoubling | Algorithm::ScatterRing => {
                let scattered = down(world, |below| below * block);
                let mut rest = Simulation::of_one(world);
                match self {
                    Algorithm::ScatterDoubling => gather(&mut rest, ranks, block),
                    _ => around(&mut rest, Arriving::Kept, ranks, block),
                }
                scattered + rest.end()
            }
            Algorithm::Doubling => doubling(world, bytes),
            Algorithm::Halving => {
                let mut simulation = Simulation::of_one(world);
                for far in distances(ranks).collect::<Vec<_>>().into_iter().rev() {
                    shift(&mut simulation, Arriving::Combined, ranks, far, block);
                }
                gather(&mut simulation, ranks, block);
                simulation.end()
            }
            Algorithm::Ring => {
                let mut simulation = Simulation::of_one(world);
                around(&mut simulation, Arriving::Combined, ranks, block);
                around(&mut simulation, Arriving::Kept, ranks, block);
                simulation.end()
            }
        }
    }

    /// Returns the fastest of these, the first one of equal ones.
    pub(super) fn best(of: &[Algorithm], world: World<'_>, bytes: u64) -> Option<Run> {
        let runs =
            of.iter().map(|&algorithm| Run { algorithm, time: algorithm.time(world, bytes) });
        runs.min_by_key(|run| run.time)
    }
}

/// Sends along a binomial tree, to the rank farthest away first, what a rank with this many below it and itself needs.
fn down(world: World<'_>, bytes: impl Fn(u64) -> u64) -> Time {
    let (ranks, mut simulation) = (world.ranks(), Simulation::of_all(world));
    for far in distances(ranks).collect::<Vec<_>>().into_iter().rev() {
        let targets = (far..ranks).step_by(2 * far);
        let messages = targets.map(|to| {
            let bytes = bytes(far.min(ranks - to) as u64);
            Message { from: to - far, to, bytes }
        });
        simulation.round(Arriving::Kept, messages);
    }
    simulation.end()
}

/// Gathers a block of each rank. All nodes do the same.
pub(super) fn gather(simulation: &mut Simulation<'_>, ranks: usize, block: u64) {
    distances(ranks).for_each(|far| shift(simulation, Arriving::Kept, ranks, far, block));
}

/// Lets each rank send as many blocks as the distance is, or as there are, to the rank at that distance.
fn shift(
    simulation: &mut Simulation<'_>,
    arriving: Arriving,
    ranks: usize,
    far: usize,
    block: u64,
) {
    let bytes = far.min(ranks - far) as u64 * block;
    let to = |from| Message { from, to: (from + far) % ranks, bytes };
    simulation.round(arriving, (0..simulation.simulated()).map(to));
}

/// Lets each rank send a block to the next, as often as there are others. All nodes do the same.
pub(super) fn around(
    simulation: &mut Simulation<'_>,
    arriving: Arriving,
    ranks: usize,
    block: u64,
) {
    let simulated = simulation.simulated();
    let next = |from| Message { from, to: (from + 1) % ranks, bytes: block };
    simulation.rounds(ranks - 1, arriving, || (0..simulated).map(next));
}

fn doubling(world: World<'_>, bytes: u64) -> Time {
    let mut simulation = Simulation::of_doubling(world);
    for round in leaders::doubling(world.ranks()) {
        let sent = simulation.send_in(round, bytes);
        simulation.receive_in(round, sent);
    }
    simulation.end()
}
