//! The trees from which the search begins.

use super::Pattern;
use crate::Time;
use crate::cla::machine::Machine;
use crate::cla::tree::{Tree, TreeError};

/// Returns trees to begin with: fixed shapes, and what is best in one group, joined over groups in several ways.
pub(super) fn seeds(
    machine: &Machine,
    root: usize,
    pattern: Pattern,
) -> Result<Vec<Tree>, TreeError> {
    let placement = &machine.placement;
    let mut seeds = vec![
        Tree::flat(root, placement)?,
        Tree::k_ary(root, 2, placement)?,
        Tree::chain(root, placement)?,
        Tree::binomial(root, placement)?,
    ];
    let mut groups = placement.groups();
    groups.sort_by_key(|group| !placement.near(group[0], root));
    // The root is first in its group.
    groups[0].sort_by_key(|&rank| rank != root);
    let heads: Vec<usize> = groups.iter().map(|group| group[0]).collect();
    let even = even_degrees(machine, pattern);
    let waves = waves(machine, pattern);
    let within = |by_waves: bool, group: &[usize], children: &mut [Vec<Vec<usize>>]| match by_waves
    {
        true => deal_waves(group[0], &group[1..], &waves, children),
        false => deal_evenly(group, &even, children),
    };
    // Several waves pay only if readers contend.
    let dealings: &[bool] =
        if machine.parameters.contention.is_some() { &[false, true] } else { &[false] };
    for &by_waves in dealings {
        // One rank of each group is in a tree of some degree. It notifies those ranks before the ranks of its own
        // group.
        for degree in [1, 2, 3, heads.len().max(2) - 1] {
            let mut children = vec![Vec::new(); placement.ranks()];
            for (index, &head) in heads.iter().enumerate().skip(1) {
                children[heads[(index - 1) / degree]].push(vec![head]);
            }
            groups.iter().for_each(|group| within(by_waves, group, &mut children));
            seeds.push(Tree::new(root, children)?);
        }
        // The root serves all ranks of the other groups.
        let mut children = vec![Vec::new(); placement.ranks()];
        children[root].extend(groups[1..].iter().cloned());
        within(by_waves, &groups[0], &mut children);
        seeds.push(Tree::new(root, children)?);
    }
    Ok(seeds)
}

/// Returns, by the number of ranks of a subtree, how many children its root has in the best one. The root is counted.
fn even_degrees(machine: &Machine, pattern: Pattern) -> Vec<usize> {
    let ranks = machine.ranks();
    let levels: Vec<Time> = (0..ranks).map(|children| pattern.level(machine, children)).collect();
    let mut best = vec![(Time::ZERO, 0); ranks + 1];
    for size in 2..=ranks {
        let cost =
            |children: usize| (levels[children] + best[(size - 1).div_ceil(children)].0, children);
        best[size] = (1..size).map(cost).min().expect("one child at least");
    }
    best.into_iter().map(|(_, children)| children).collect()
}

fn deal_evenly(ranks: &[usize], degrees: &[usize], children: &mut [Vec<Vec<usize>>]) {
    let [head, below @ ..] = ranks else { return };
    if below.is_empty() {
        return;
    }
    let parts = evenly(below, degrees[ranks.len()]);
    children[*head].push(parts.iter().map(|part| part[0]).collect());
    parts.into_iter().for_each(|part| deal_evenly(part, degrees, children));
}

/// Returns, by the number of ranks below a parent, how many are in its next wave in the best tree.
fn waves(machine: &Machine, pattern: Pattern) -> Vec<usize> {
    let p = &machine.parameters;
    let step = |readers: usize| match pattern {
        Pattern::Reduction | Pattern::ManyToOne => pattern.level(machine, readers),
        _ => p.near.memory + p.read(true, readers as u64) + p.local,
    };
    let mut best = vec![(Time::ZERO, 0); machine.ranks() + 1];
    for below in 1..=machine.ranks() {
        let cost = |readers: usize| {
            (step(readers) + best[(below - readers).div_ceil(readers + 1)].0, readers)
        };
        best[below] = (1..=below).map(cost).min().expect("one reader at least");
    }
    best.into_iter().map(|(_, readers)| readers).collect()
}

/// Deals the first wave. The rest is then "split evenly among the available parents", which include the one that has
/// just notified.
fn deal_waves(parent: usize, below: &[usize], waves: &[usize], children: &mut [Vec<Vec<usize>>]) {
    if below.is_empty() {
        return;
    }
    let (wave, rest) = below.split_at(waves[below.len()]);
    children[parent].push(wave.to_vec());
    let parents = wave.iter().chain([&parent]);
    for (&parent, part) in parents.zip(evenly(rest, wave.len() + 1)) {
        deal_waves(parent, part, waves, children);
    }
}

/// Splits ranks into `parts` parts, none empty, as equal as can be, the larger first; fewer if there are too few ranks.
fn evenly(ranks: &[usize], parts: usize) -> Vec<&[usize]> {
    let mut rest = ranks;
    let mut dealt = Vec::with_capacity(parts);
    for left in (1..=parts).rev() {
        let (part, after) = rest.split_at(rest.len().div_ceil(left));
        if !part.is_empty() {
            dealt.push(part);
        }
        rest = after;
    }
    dealt
}
