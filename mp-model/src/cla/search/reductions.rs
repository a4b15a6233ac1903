//! The costs of reductions to a root in this library, and the best tree for a reduction that keeps the order of ranks.
//!
//! The minimum of the graph rules for [`Schedule::reduce_along`](crate::cla::Schedule::reduce_along) and
//! [`Schedule::reduce_scattered`](crate::cla::Schedule::reduce_scattered) is computed rank by rank and without a graph,
//! so that it takes microseconds. It includes the time by which [writing](crate::cla::Parameters::write) a line takes
//! longer than reading it, because each message here is written on its way. For several pieces it is less exact: no
//! rank waits for a buffer or says that it is empty, and each flag counts as one that is written for the first time.

use crate::Time;
use crate::cla::Machine;
use crate::cla::schedule::By;
use crate::in_order::{Place, Shape};

/// A λ that was chosen, and the time along its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LambdaChoice {
    /// The λ of [`in_order`](crate::in_order). With P − 1 or more the tree is flat.
    pub lambda: usize,
    /// The least that a reduction along it takes.
    pub predicted: Time,
}

/// Returns the λ with which a reduction to rank 0 takes the least time by the model. Tries 1, 2, 3, 4, 6, 8, 12 and so
/// on, and the flat tree. Of equal ones, takes the greatest.
pub fn best_lambda(machine: &Machine, by: By) -> LambdaChoice {
    let ranks = machine.ranks();
    let choice = |lambda| {
        let predicted = reduction_along(machine, Shape::new(ranks, lambda), 0, by);
        LambdaChoice { lambda, predicted }
    };
    let powers = (0..usize::BITS).map(|bit| 1_usize << bit);
    let between = |power: usize| [power, power.saturating_add(power / 2)];
    let smaller = powers.flat_map(between).take_while(|&lambda| lambda + 1 < ranks);
    let mut best = choice(ranks);
    for lambda in smaller {
        let other = choice(lambda);
        if (other.predicted, best.lambda) < (best.predicted, other.lambda) {
            best = other;
        }
    }
    best
}

/// Returns the time of a reduction along a tree.
///
/// # Panics
/// If there is no such root, or the tree has other ranks than the machine.
pub fn reduction_along(machine: &Machine, shape: Shape, root: usize, by: By) -> Time {
    assert_eq!(shape.ranks(), machine.ranks(), "the ranks of the tree and of the machine");
    let places = shape.places(root).expect("the root is one of the ranks");
    let done = Costs { machine, by }.handed_on(&places, root);
    done.last().copied().unwrap_or_default()
}

/// Returns the time of a reduction in which each rank combines a part, and the root gets the parts. `by` describes a
/// whole vector.
pub fn reduction_scattered(machine: &Machine, root: usize, by: By) -> Time {
    let part = by.part(machine.ranks() as u64);
    let costs = Costs { machine, by: part };
    let units = part.pieces() * part.count();
    let others = || (0..machine.ranks()).filter(|&rank| rank != root);
    // All ranks do at the same time what the root does.
    let given: Time = others().map(|other| costs.send(root, other, false)).sum();
    let taken: Time = others().map(|other| costs.take(root, other)).sum();
    let first = others().next().map(|other| costs.send(other, root, part.count() == 1));
    units * (given + 2 * taken) + first.unwrap_or_default()
}

struct Costs<'a> {
    machine: &'a Machine,
    by: By,
}

impl Costs<'_> {
    /// Returns when a rank has handed on each unit, which is a line or a piece; for the root, when it has combined it.
    fn handed_on(&self, places: &[Place], rank: usize) -> Vec<Time> {
        let place = &places[rank];
        let theirs: Vec<(usize, Vec<Time>)> = place
            .children
            .iter()
            .map(|child| (child.rank, self.handed_on(places, child.rank)))
            .collect();
        let (pieces, count) = (self.by.pieces() as usize, self.by.count() as usize);
        let (mut clock, mut done) = (Time::ZERO, Vec::with_capacity(pieces * count));
        for piece in 0..pieces {
            let units = piece * count..(piece + 1) * count;
            for (child, times) in &theirs {
                for &there in &times[units.clone()] {
                    clock = clock.max(there) + self.take(rank, *child);
                }
            }
            // The unit that was combined last is in the rank's cache.
            let at_hand = count == 1 && !theirs.is_empty();
            for _ in units {
                if let Some(parent) = place.parent {
                    clock += self.send(rank, parent, at_hand);
                }
                done.push(clock);
            }
        }
        done
    }

    fn send(&self, from: usize, to: usize, at_hand: bool) -> Time {
        let (parameters, width) = (&self.machine.parameters, self.by.width());
        let load = if at_hand { Time::ZERO } else { width * parameters.local };
        // A buffer of several lines is stored to as part of what copying them takes.
        let buffered = matches!(self.by, By::Buffers { .. }) && width == 1;
        let store = if buffered { self.transfer(from, to) } else { Time::ZERO };
        load + store + parameters.near.memory + parameters.more_to_write()
    }

    fn take(&self, by: usize, from: usize) -> Time {
        let (parameters, width) = (&self.machine.parameters, self.by.width());
        let flag = self.transfer(by, from);
        match (self.by, width) {
            (By::Lines { .. }, _) => flag + parameters.local,
            (By::Buffers { .. }, 1) => 2 * flag + parameters.local,
            (By::Buffers { .. }, _) => {
                let near = self.machine.placement.near(by, from);
                flag + parameters.link(near).lines.cost(1, width)
            }
        }
    }

    fn transfer(&self, one: usize, other: usize) -> Time {
        self.machine.parameters.link(self.machine.placement.near(one, other)).transfer
    }
}
