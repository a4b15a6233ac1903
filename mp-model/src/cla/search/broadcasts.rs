//! The costs of broadcasts in this library, and the trees with which they are best.
//!
//! The minimum of the graph rules for [`pushed_broadcast`](crate::cla::patterns::pushed_broadcast) and
//! [`chunked_broadcast`](crate::cla::patterns::chunked_broadcast) is computed rank by rank and without a graph, so that
//! it takes microseconds. It includes the time by which [writing](crate::cla::Parameters::write) a line takes longer
//! than reading it, because each message here is written on its way, and the congestion of ranks that copy a chunk from
//! afar at the same time. For several chunks it is less exact: each flag counts as one that is written for the first
//! time.

use std::iter;

use crate::Time;
use crate::cla::outward::{Fan, Outward, Place};
use crate::cla::{Machine, Placement};
use crate::tree::told_siblings;

/// The data that is sent to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// A line, pushed from rank to rank.
    Line,
    /// This many chunks of this many lines, of which there are two at least, through buffers.
    Chunks {
        /// Lines of a chunk.
        lines: u64,
        /// The number of chunks.
        chunks: u64,
    },
}

/// Fans that were chosen, and the time of a broadcast along them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutwardChoice {
    /// Between the heads of groups.
    pub between: Fan,
    /// Within each group.
    pub within: Fan,
    /// The least that a broadcast takes.
    pub predicted: Time,
}

/// Returns the fans with which a broadcast from rank 0 takes least by the model, for the groups of this placement,
/// which may differ from those of the machine. The tree for a line has a λ, and the tree for chunks a degree: a rank is
/// told of a chunk by a sibling, so no child is much later than another. The values 1, 2, 3, 4, 6, 8, 12 and so on are
/// tried up to `most`, and the flat tree if it is within `most`. Of equal ones, the greatest is returned.
///
/// # Panics
/// If the placement has another number of ranks than the machine.
pub fn best_outward(
    machine: &Machine,
    groups: &Placement,
    load: Load,
    most: usize,
) -> OutwardChoice {
    let fan = |number| match load {
        Load::Line => Fan::Lambda(number),
        Load::Chunks { .. } => Fan::Degree(number),
    };
    let sizes = groups.groups();
    let largest = sizes.iter().map(Vec::len).max().unwrap_or(1);
    let choice = |[between, within]: [usize; 2]| {
        let [between, within] = [between, within].map(fan);
        let predicted = outward_time(machine, &Outward::new(groups, between, within), 0, load);
        OutwardChoice { between, within, predicted }
    };
    let (mut fans, mut best) = ([1, 1], choice([1, 1]));
    // The best fan within groups hardly depends on the one between them.
    for (which, flat) in [(1, largest - 1), (0, sizes.len() - 1), (1, largest - 1)] {
        for number in candidates(flat.min(most)) {
            let mut other = fans;
            other[which] = number;
            let tried = choice(other);
            if (tried.predicted, fans[which]) < (best.predicted, number) {
                (fans, best) = (other, tried);
            }
        }
    }
    best
}

/// Returns 1, 2, 3, 4, 6, 8, 12 and so on, and the last one.
fn candidates(last: usize) -> impl Iterator<Item = usize> {
    let powers = (0..usize::BITS - 1).map(|bit| 1_usize << bit);
    let between = |power: usize| [power, power.saturating_add(power / 2)];
    let smaller = powers.flat_map(between).skip(1).take_while(move |&number| number < last);
    smaller.chain(iter::once(last.max(1)))
}

/// Returns the time of a broadcast along a tree.
///
/// # Panics
/// If there is no such root, or the tree has other ranks than the machine.
pub fn outward_time(machine: &Machine, outward: &Outward, root: usize, load: Load) -> Time {
    assert_eq!(outward.ranks(), machine.ranks(), "the ranks of the tree and of the machine");
    let places = outward.places(root).expect("the root is one of the ranks");
    match load {
        Load::Line => pushed(machine, &places, root),
        Load::Chunks { lines, chunks } => chunked(machine, &places, root, lines.max(2), chunks),
    }
}

fn transfer(machine: &Machine, one: usize, other: usize) -> Time {
    machine.parameters.link(machine.placement.near(one, other)).transfer
}

fn write(machine: &Machine) -> Time {
    machine.parameters.near.memory + machine.parameters.more_to_write()
}

fn pushed(machine: &Machine, places: &[Place], root: usize) -> Time {
    let (local, mut last) = (machine.parameters.local, Time::ZERO);
    let mut open = vec![(root, Time::ZERO)];
    while let Some((rank, mut clock)) = open.pop() {
        for (index, &child) in places[rank].children.iter().enumerate() {
            // Data that has just come is at hand.
            let load = if index == 0 && rank != root { Time::ZERO } else { local };
            clock += load + write(machine);
            open.push((child, clock + transfer(machine, rank, child) + local));
        }
        last = last.max(clock);
    }
    last
}

fn chunked(machine: &Machine, places: &[Place], root: usize, lines: u64, chunks: u64) -> Time {
    let own = lines * machine.parameters.local;
    // Each rank after its parent, and after the sibling that tells it.
    let mut order = vec![root];
    for next in 0..places.len() {
        order.extend_from_slice(&places[order[next]].children);
    }
    let mut clocks = vec![Time::ZERO; places.len()];
    // When each rank was told, and by which rank.
    let mut told = vec![(Time::ZERO, root); places.len()];
    for _ in 0..chunks {
        for &rank in &order {
            let (place, mut clock, (said, by)) = (&places[rank], clocks[rank], told[rank]);
            let mut tell = |clock: &mut Time, other: usize| {
                *clock += write(machine);
                told[other] = (*clock, rank);
            };
            match place.parent {
                Some(parent) => {
                    let siblings = &places[parent].children;
                    clock = clock.max(said) + transfer(machine, rank, by);
                    let near = machine.placement.near(rank, parent);
                    let far = |other: &&usize| !machine.placement.near(**other, parent);
                    let others = siblings.iter().filter(far).count().saturating_sub(1) as u64;
                    // A parent gets its own copy from there, too, except for the root.
                    let readers = siblings.len() as u64 + u64::from(parent != root);
                    told_siblings(siblings, rank).for_each(|sibling| tell(&mut clock, sibling));
                    clock += machine.parameters.copy(near, readers, lines);
                    if !near {
                        clock += others * lines * machine.parameters.far.lines.congestion;
                    }
                }
                None => clock += own,
            }
            place.children.iter().take(2).for_each(|&child| tell(&mut clock, child));
            if place.parent.is_some() && !place.children.is_empty() {
                clock += own;
            }
            clocks[rank] = clock;
        }
    }
    clocks.into_iter().max().unwrap_or_default()
}
