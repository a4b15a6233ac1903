//! Changes that turn a tree into a better one.

use crate::Time;
use crate::cla::Machine;
use crate::cla::chance::Chance;

/// The number of trees that are tried besides those to begin with, of which the best has the first turn. With 60 ranks,
/// this takes a tenth of a second; with 16, fewer are needed.
const LOOKS: usize = 40_000;

/// The number of tries for each tree to begin with.
const LOOKS_FROM_ONE: usize = 10_000;

/// The number of times that the best tree is disturbed, to see whether a better one is near.
const KICKS: usize = 300;

/// Improves each, the first ones first; then disturbs the best, and improves it again.
pub(super) fn improve_all(
    machine: &Machine,
    drafts: Vec<Draft>,
    cost: impl Fn(&Draft) -> Time,
) -> Vec<Draft> {
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
pub(in crate::cla) struct Draft {
    pub(in crate::cla) root: usize,
    pub(in crate::cla) waves: Vec<Vec<Vec<usize>>>,
}

enum Move {
    /// A rank and all ranks below it go to another parent: into this wave, or into a new wave before it.
    Subtree { rank: usize, parent: usize, wave: usize, own: bool },
    /// Two ranks take each other's places.
    Swap(usize, usize),
    /// A parent serves one of its waves first.
    First { parent: usize, wave: usize },
}

impl Draft {
    /// Returns the places where a rank could be instead.
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
            // If readers do not contend, one wave for each group is enough.
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
                // Empty waves are dropped at the end: until then, the others keep their numbers.
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
        for waves in &mut self.waves {
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
            *waves = whole;
        }
    }
}
