//! The best tree for a collective operation (sections 3.1, 3.2, 4 and 5).
//!
//! What is best is what has the smallest minimum by the graph rules: "T_max is usually too
//! pessimistic" (section 2.3). Of equal ones, the one with the smaller maximum.
//!
//! **In one group, with one wave for each rank**, a tree costs what its root's level costs, and its
//! most expensive subtree (equations 32 and 34). A subtree of fewer ranks never costs more, so the
//! ranks below a root with k children are best dealt out evenly, and
//!
//! best(n) = min over k of T_lev(k) + best(⌈(n − 1) / k⌉)
//!
//! is the best of all trees, for any number of ranks; the paper generates them one by one up to 20.
//!
//! **With groups or waves**, that is where the search begins: from it, from the paper's waves ("the
//! remaining threads are split evenly among the available parents", section 3.2), and from fixed shapes,
//! ranks and subtrees are moved while that makes the tree better, and the best is disturbed a few hundred
//! times to see whether there is a better one near it. On the paper's dual-socket machine that finds what
//! looking at all trees of up to seven ranks finds; with any other parameters it comes within 5% of that
//! (see the tests). It is never worse than a fixed shape.

use super::chance::Chance;
use super::equations;
use super::graph::{Bounds, Graph, Notifications, Rules};
use super::machine::{Machine, Placement};
use super::patterns;
use super::program::Program;
use super::tree::{Tree, TreeError};
use crate::Time;

/// What a tree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One notifies all (section 3.2).
    OneToMany,
    /// All notify one (section 3.1).
    ManyToOne,
    /// So many lines from the root to all, acknowledged (section 4).
    Broadcast {
        /// N. One line goes with the notification.
        lines: u64,
    },
    /// One line of each rank, combined at the root (section 5.1).
    Reduction,
}

/// A tree that was chosen, and what the graph says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeChoice {
    /// The tree.
    pub tree: Tree,
    /// Its bounds.
    pub predicted: Bounds,
}

impl Pattern {
    /// As primitives, over a tree.
    pub fn program(self, tree: &Tree, placement: &Placement) -> Program {
        match self {
            Pattern::OneToMany => patterns::notification_tree(tree),
            Pattern::ManyToOne => patterns::gathering_tree(tree, placement),
            Pattern::Broadcast { lines } => patterns::broadcast(tree, placement, lines),
            Pattern::Reduction => patterns::reduction(tree, placement),
        }
    }

    /// What the graph rules say of it over a tree.
    ///
    /// # Panics
    /// If the tree has other ranks than the machine.
    pub fn predicted(self, tree: &Tree, machine: &Machine, rules: Rules) -> Bounds {
        let program = self.program(tree, &machine.placement);
        Graph::new(&program, machine)
            .expect("each wait of a pattern has its write, and the tree is the machine's")
            .bounds(rules)
    }

    /// T_lev within a group, one wave: what the root's level adds to its most expensive subtree.
    fn level(self, machine: &Machine, children: usize) -> Time {
        let (p, k) = (&machine.parameters, children as u64);
        match self {
            Pattern::OneToMany => p.near.memory + p.read(true, k),
            Pattern::ManyToOne => equations::many_to_one_same_line(p, k, 0).min,
            Pattern::Broadcast { lines } => equations::broadcast_level(p, k, lines),
            Pattern::Reduction => equations::reduction_level(p, k).min,
        }
    }
}

/// The best tree that the search finds.
///
/// # Errors
/// [`TreeError::Root`].
pub fn best_tree(
    machine: &Machine,
    root: usize,
    pattern: Pattern,
) -> Result<TreeChoice, TreeError> {
    best_tree_by(machine, root, pattern, Notifications::Together)
}

/// The same, with a say in how notifications of siblings are counted.
///
/// # Errors
/// [`TreeError::Root`].
pub fn best_tree_by(
    machine: &Machine,
    root: usize,
    pattern: Pattern,
    notifications: Notifications,
) -> Result<TreeChoice, TreeError> {
    let rules = Rules { notifications, ..Rules::default() };
    let drafts = seeds(machine, root, pattern)?.into_iter();
    let mut drafts: Vec<Draft> =
        drafts.map(|tree| Draft { root, waves: tree.into_waves() }).collect();
    let cost = |draft: &Draft| Evaluation { machine, pattern, notifications, draft }.minimum();
    drafts.sort_by_cached_key(|draft| (cost(draft), draft.waves.clone()));
    drafts.dedup_by(|one, other| one.waves == other.waves);
    let one_group = machine.placement.groups().len() == 1;
    let known_best = one_group
        && machine.parameters.contention.is_none()
        && notifications == Notifications::Together;
    if !known_best {
        drafts = improve_all(machine, drafts, cost);
    }
    let mut best: Option<(Bounds, Tree)> = None;
    let least = drafts.iter().map(cost).min();
    for draft in drafts.into_iter().filter(|draft| Some(cost(draft)) == least) {
        let tree = Tree::new(root, draft.waves)?;
        let predicted = pattern.predicted(&tree, machine, rules);
        let key = |bounds: &Bounds| (bounds.min, bounds.max);
        if best.as_ref().is_none_or(|(bounds, _)| key(&predicted) < key(bounds)) {
            best = Some((predicted, tree));
        }
    }
    let (predicted, tree) = best.expect("there are seeds");
    Ok(TreeChoice { tree, predicted })
}

/// Trees to begin with: fixed shapes, and what is best in one group, joined over groups in several ways.
fn seeds(machine: &Machine, root: usize, pattern: Pattern) -> Result<Vec<Tree>, TreeError> {
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
    // Several waves are for readers that contend.
    let dealings: &[bool] =
        if machine.parameters.contention.is_some() { &[false, true] } else { &[false] };
    for &by_waves in dealings {
        // One rank of each group, in a tree of some degree; notified before those of their own group.
        for degree in [1, 2, 3, heads.len().max(2) - 1] {
            let mut children = vec![Vec::new(); placement.ranks()];
            for (index, &head) in heads.iter().enumerate().skip(1) {
                children[heads[(index - 1) / degree]].push(vec![head]);
            }
            groups.iter().for_each(|group| within(by_waves, group, &mut children));
            seeds.push(Tree::new(root, children)?);
        }
        // All of the other groups by the root.
        let mut children = vec![Vec::new(); placement.ranks()];
        children[root].extend(groups[1..].iter().cloned());
        within(by_waves, &groups[0], &mut children);
        seeds.push(Tree::new(root, children)?);
    }
    Ok(seeds)
}

/// By the number of ranks of a subtree, its root included: how many children that has in the best.
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

/// By the number of ranks below a parent: how many the next wave has in the best.
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

/// The first wave, then what remains "split evenly among the available parents", of which the one that
/// has just notified is one.
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

/// So many parts, none empty, as equal as can be, the larger first; fewer if there are too few ranks.
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

/// How many trees are looked at besides those to begin with, of which the best has the first turn. With
/// 60 ranks, that many take a tenth of a second; with 16, so many are not needed.
const LOOKS: usize = 40_000;

/// How many of them for one to begin with.
const LOOKS_FROM_ONE: usize = 10_000;

/// How often the best is disturbed, to see whether another is near.
const KICKS: usize = 300;

/// Improves each, the first ones first; then disturbs the best, and improves it again.
fn improve_all(machine: &Machine, drafts: Vec<Draft>, cost: impl Fn(&Draft) -> Time) -> Vec<Draft> {
    let mut looks = LOOKS;
    let improved = drafts.into_iter().map(|draft| improve(machine, draft, &cost, &mut looks));
    let mut drafts: Vec<Draft> = improved.collect();
    drafts.sort_by_cached_key(&cost);
    let (mut best, mut chance) = (drafts[0].clone(), Chance::new(0));
    for kick in 0..KICKS {
        if looks == 0 {
            break;
        }
        let mut kicked = best.clone();
        for _ in 0..=kick % 3 {
            let rank = chance.draw(kicked.waves.len());
            let moves = kicked.moves(rank, machine);
            if !moves.is_empty() {
                kicked.apply(&moves[chance.draw(moves.len())], machine);
            }
        }
        let kicked = improve(machine, kicked, &cost, &mut looks);
        if cost(&kicked) <= cost(&best) {
            best = kicked;
        }
    }
    drafts.push(best);
    drafts
}

/// Moves subtrees and swaps ranks while that makes the tree better: rank after rank, until none of them
/// can be moved to a better place.
fn improve(
    machine: &Machine,
    mut draft: Draft,
    cost: impl Fn(&Draft) -> Time,
    looks: &mut usize,
) -> Draft {
    let ranks = draft.waves.len();
    let mut least = cost(&draft);
    let until = looks.saturating_sub(LOOKS_FROM_ONE);
    let mut in_place = 0;
    for rank in (0..ranks).cycle() {
        if in_place == ranks {
            break;
        }
        in_place += 1;
        for step in draft.moves(rank, machine) {
            if *looks == until {
                return draft;
            }
            *looks -= 1;
            let mut moved = draft.clone();
            moved.apply(&step, machine);
            let cost = cost(&moved);
            if cost < least {
                (draft, least, in_place) = (moved, cost, 0);
                break;
            }
        }
    }
    draft
}

/// A tree under construction.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) root: usize,
    pub(super) waves: Vec<Vec<Vec<usize>>>,
}

enum Move {
    /// A rank and all below it, to a parent: into this of its waves, or one of its own before that.
    Subtree { rank: usize, parent: usize, wave: usize, own: bool },
    /// Two ranks take each other's places.
    Swap(usize, usize),
    /// A parent serves one of its waves first.
    First { parent: usize, wave: usize },
}

impl Draft {
    /// Where a rank could be instead.
    fn moves(&self, rank: usize, machine: &Machine) -> Vec<Move> {
        let placement = &machine.placement;
        let later = 1..self.waves[rank].len();
        let mut moves: Vec<Move> = later.map(|wave| Move::First { parent: rank, wave }).collect();
        if rank == self.root {
            return moves;
        }
        let ranks = || 0..self.waves.len();
        let mut below = vec![false; self.waves.len()];
        self.below(rank).into_iter().for_each(|rank| below[rank] = true);
        for parent in ranks().filter(|&parent| !below[parent]) {
            let waves = self.waves[parent].iter().enumerate();
            let same = waves.filter(|(_, wave)| placement.near(wave[0], rank));
            let before = moves.len();
            moves.extend(same.map(|(wave, _)| Move::Subtree { rank, parent, wave, own: false }));
            // One wave for each group is enough where readers do not contend.
            if moves.len() == before || machine.parameters.contention.is_some() {
                let last = self.waves[parent].len();
                let places = if last > 0 { vec![last, 0] } else { vec![0] };
                let own = |wave| Move::Subtree { rank, parent, wave, own: true };
                moves.extend(places.into_iter().map(own));
            }
        }
        let others = ranks().filter(|&other| other != self.root && !placement.near(rank, other));
        moves.extend(others.map(|other| Move::Swap(rank, other)));
        moves
    }

    fn below(&self, rank: usize) -> Vec<usize> {
        let mut below = vec![rank];
        let mut next = 0;
        while let Some(&rank) = below.get(next) {
            below.extend(self.waves[rank].iter().flatten());
            next += 1;
        }
        below
    }

    fn apply(&mut self, step: &Move, machine: &Machine) {
        match *step {
            Move::Subtree { rank, parent, wave, own } => {
                // Empty waves go last, so that the places of the others stay what they were.
                self.waves
                    .iter_mut()
                    .flatten()
                    .for_each(|wave| wave.retain(|&child| child != rank));
                match own {
                    false => self.waves[parent][wave].push(rank),
                    true => self.waves[parent].insert(wave, vec![rank]),
                }
                self.waves.iter_mut().for_each(|waves| waves.retain(|wave| !wave.is_empty()));
            }
            Move::First { parent, wave } => self.waves[parent][..=wave].rotate_right(1),
            Move::Swap(one, other) => {
                for child in self.waves.iter_mut().flatten().flatten() {
                    *child = match *child {
                        child if child == one => other,
                        child if child == other => one,
                        child => child,
                    };
                }
                self.waves.swap(one, other);
                self.regroup(machine);
            }
        }
    }

    /// Splits waves that are no longer of one group.
    fn regroup(&mut self, machine: &Machine) {
        let placement = &machine.placement;
        for (rank, waves) in self.waves.iter_mut().enumerate() {
            let mut whole: Vec<Vec<usize>> = Vec::with_capacity(waves.len());
            for wave in std::mem::take(waves) {
                let mixed = whole.len();
                for child in wave {
                    let join = match machine.parameters.contention {
                        Some(_) => mixed,
                        None => 0,
                    };
                    let same = whole[join..].iter_mut().find(|wave| placement.near(wave[0], child));
                    match same {
                        Some(wave) => wave.push(child),
                        None => whole.push(vec![child]),
                    }
                }
            }
            if machine.parameters.contention.is_none() {
                whole.sort_by_key(|wave| placement.near(wave[0], rank));
            }
            *waves = whole;
        }
    }
}

/// The minimum of the graph rules for a pattern over a tree, level by level: equations 32 and 34 with
/// groups and waves.
pub(super) struct Evaluation<'a> {
    pub(super) machine: &'a Machine,
    pub(super) pattern: Pattern,
    pub(super) notifications: Notifications,
    pub(super) draft: &'a Draft,
}

impl Evaluation<'_> {
    pub(super) fn minimum(&self) -> Time {
        let root = self.draft.root;
        match self.pattern {
            Pattern::OneToMany => self.told(root, Time::ZERO),
            Pattern::ManyToOne => self.gathered(root),
            Pattern::Broadcast { lines } => self.acknowledged(root, Time::ZERO, lines),
            Pattern::Reduction => self.reduced(root),
        }
    }

    fn waves(&self, rank: usize) -> &[Vec<usize>] {
        &self.draft.waves[rank]
    }

    /// When the last below a rank has been told, if it is told now.
    fn told(&self, rank: usize, now: Time) -> Time {
        let (mut clock, mut last) = (now, now);
        for wave in self.waves(rank) {
            clock += self.machine.parameters.near.memory;
            last = last.max(clock);
            for &child in wave {
                last = last.max(self.told(child, clock + self.read(rank, child, wave.len())));
            }
        }
        last
    }

    /// When all below a rank have notified it.
    fn gathered(&self, rank: usize) -> Time {
        self.collect(rank, Time::ZERO, |child| self.gathered(child), |_| Time::ZERO)
    }

    /// When all below a rank have acknowledged, if it has the data now.
    fn acknowledged(&self, rank: usize, now: Time, lines: u64) -> Time {
        let p = &self.machine.parameters;
        let mut clock = now;
        let mut starts = vec![Time::ZERO; self.draft.waves.len()];
        let readers = self.waves(rank).iter().map(Vec::len).sum::<usize>() as u64;
        for (index, wave) in self.waves(rank).iter().enumerate() {
            // What has just been copied here is at hand.
            let at_hand = index == 0 && rank != self.draft.root;
            if lines == 1 && !at_hand {
                clock += p.local;
            }
            clock += p.near.memory;
            for &child in wave {
                let data = match lines {
                    0 => Time::ZERO,
                    1 => p.local,
                    _ => p.copy(self.near(rank, child), readers, lines),
                };
                let there = clock + self.read(rank, child, wave.len()) + data;
                starts[child] = self.acknowledged(child, there, lines);
            }
        }
        self.collect(rank, clock, |child| starts[child], |_| Time::ZERO)
    }

    /// When a rank has combined what is below it.
    fn reduced(&self, rank: usize) -> Time {
        let p = &self.machine.parameters;
        let waves = self.waves(rank);
        let mut starts = vec![Time::ZERO; self.draft.waves.len()];
        for (index, wave) in waves.iter().enumerate() {
            let flag = (index as u64 + 1) * p.near.memory;
            for &child in wave {
                let told = self.reduced(child).max(flag) + self.read(rank, child, wave.len());
                starts[child] = told + p.local + self.transfer(rank, child);
            }
        }
        let combine = |children: &[usize]| {
            let reads = children.iter().map(|&child| self.transfer(rank, child)).sum::<Time>();
            reads + p.local
        };
        let written = waves.len() as u64 * p.near.memory;
        self.collect(rank, written, |child| starts[child], combine)
    }

    /// Waits for the children, group by group, and does something with each group.
    fn collect(
        &self,
        rank: usize,
        now: Time,
        start: impl Fn(usize) -> Time,
        then: impl Fn(&[usize]) -> Time,
    ) -> Time {
        let placement = &self.machine.placement;
        let mut children: Vec<usize> = self.waves(rank).iter().flatten().copied().collect();
        children.sort_by_key(|&child| {
            let far = !placement.near(rank, child);
            (
                far,
                if far { std::cmp::Reverse(placement.group(child)) } else { std::cmp::Reverse(0) },
            )
        });
        let mut clock = now;
        for group in children.chunk_by(|&one, &other| placement.near(one, other)) {
            let mut starts: Vec<Time> = group.iter().map(|&child| start(child)).collect();
            let written = self.counted(&mut starts);
            clock = clock.max(written) + self.transfer(rank, group[0]) + then(group);
        }
        clock
    }

    /// When ranks of one group, who come at these times, have counted up a line.
    fn counted(&self, starts: &mut [Time]) -> Time {
        let p = &self.machine.parameters;
        match self.notifications {
            Notifications::Together => {
                let last = starts.iter().copied().max().unwrap_or_default();
                last + p.near.memory + (starts.len() as u64 - 1) * p.near.transfer
            }
            Notifications::AsTheyCome => {
                starts.sort_unstable();
                let mut written = Time::ZERO;
                for (index, &start) in starts.iter().enumerate() {
                    let cost = if index == 0 { p.near.memory } else { p.near.transfer };
                    written = written.max(start) + cost;
                }
                written
            }
        }
    }

    fn near(&self, rank: usize, other: usize) -> bool {
        self.machine.placement.near(rank, other)
    }

    fn transfer(&self, rank: usize, other: usize) -> Time {
        self.machine.parameters.link(self.near(rank, other)).transfer
    }

    fn read(&self, rank: usize, child: usize, readers: usize) -> Time {
        self.machine.parameters.read(self.near(rank, child), readers as u64)
    }
}
