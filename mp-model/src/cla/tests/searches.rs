//! What the searches find, against other trees and against all trees.

use proptest::prelude::*;

use super::{any_machine, any_parameters};
use crate::cla::barrier::{self, Barrier, best_barrier_on, best_mixed_ways, best_ways};
use crate::cla::graph::{Notifications, Rules};
use crate::cla::search::{Draft, Levels, Pattern, best_tree, best_tree_by};
use crate::cla::{Machine, Parameters, Placement, Tree, best_barrier, equations};

fn any_pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::OneToMany),
        Just(Pattern::ManyToOne),
        Just(Pattern::Reduction),
        (0_u64..4).prop_map(|lines| Pattern::Broadcast { lines }),
    ]
}

fn any_notifications() -> impl Strategy<Value = Notifications> {
    prop_oneof![Just(Notifications::Together), Just(Notifications::AsTheyCome)]
}

/// A tree with waves of one group each.
fn any_tree(machine: &Machine) -> impl Strategy<Value = Tree> + use<> {
    let placement = machine.placement.clone();
    let ranks = placement.ranks();
    let picks = proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), ranks);
    (picks, 0..ranks).prop_map(move |(picks, root)| {
        let mut there = vec![root];
        let mut waves: Vec<Vec<Vec<usize>>> = vec![Vec::new(); ranks];
        for (rank, (parent, join)) in (0..ranks).zip(picks).filter(|&(rank, _)| rank != root) {
            let parent = there[parent.index(there.len())];
            there.push(rank);
            match waves[parent].last_mut() {
                Some(wave) if join && placement.near(wave[0], rank) => wave.push(rank),
                _ => waves[parent].push(vec![rank]),
            }
        }
        Tree::new(root, waves).unwrap()
    })
}

fn evaluate(
    machine: &Machine,
    pattern: Pattern,
    notifications: Notifications,
    tree: Tree,
) -> crate::Time {
    let draft = Draft { root: tree.root(), waves: tree.into_waves() };
    Levels { machine, pattern, notifications, draft: &draft }.minimum()
}

proptest! {
    /// The search's arithmetic is the graph's.
    #[test]
    fn levels_are_what_the_graph_says(
        (machine, tree) in any_machine(1..25, 3).prop_flat_map(|machine| {
            let tree = any_tree(&machine);
            (Just(machine), tree)
        }),
        pattern in any_pattern(),
        notifications in any_notifications(),
    ) {
        let rules = Rules { notifications, ..Rules::default() };
        let graph = pattern.predicted(&tree, &machine, rules).min;
        prop_assert_eq!(evaluate(&machine, pattern, notifications, tree), graph);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The search is never worse than a fixed shape, and its tree spans all ranks (or it would not be a
    /// [`Tree`]) with waves of one group each.
    #[test]
    fn no_fixed_shape_is_better(
        machine in any_machine(1..24, 3),
        pattern in any_pattern(),
        notifications in any_notifications(),
        root in any::<prop::sample::Index>(),
    ) {
        let root = root.index(machine.ranks());
        let choice = best_tree_by(&machine, root, pattern, notifications).unwrap();
        prop_assert_eq!(choice.tree.root(), root);
        prop_assert_eq!(choice.tree.ranks(), machine.ranks());
        let mut reached = choice.tree.preorder();
        reached.sort_unstable();
        prop_assert_eq!(reached, (0..machine.ranks()).collect::<Vec<_>>());
        for rank in 0..machine.ranks() {
            for wave in choice.tree.waves(rank) {
                prop_assert!(wave.iter().all(|&child| machine.placement.near(child, wave[0])));
            }
        }
        let rules = Rules { notifications, ..Rules::default() };
        let placement = &machine.placement;
        let fixed = [
            Tree::flat(root, placement),
            Tree::k_ary(root, 2, placement),
            Tree::k_ary(root, 4, placement),
            Tree::binomial(root, placement),
            Tree::chain(root, placement),
        ];
        for (index, tree) in fixed.into_iter().enumerate() {
            // What the search is not told of, it finds as good or better where it is exact.
            let known = index != 2 || placement.groups().len() == 1
                && machine.parameters.contention.is_none()
                && notifications == Notifications::Together;
            if known {
                let other = pattern.predicted(&tree.unwrap(), &machine, rules).min;
                prop_assert!(choice.predicted.min <= other);
            }
        }
    }

    /// In one group without contention, nothing is better at all.
    #[test]
    fn no_tree_is_better_in_one_group(
        parameters in any_parameters(),
        ranks in 1_usize..=6,
        pattern in any_pattern(),
    ) {
        let placement = Placement::one_group(ranks).unwrap();
        let machine = Machine { parameters: parameters.without_contention(), placement };
        let choice = best_tree(&machine, 0, pattern).unwrap();
        for tree in all_trees(&machine.placement) {
            let other = evaluate(&machine, pattern, Notifications::Together, tree);
            prop_assert!(choice.predicted.min <= other);
        }
    }

    /// Nor, by more than a little, with two groups, for as many ranks as all trees can be looked at.
    #[test]
    fn no_tree_is_much_better_in_two_groups(
        machine in any_machine(1..7, 2),
        pattern in any_pattern(),
    ) {
        let parameters = machine.parameters.without_contention();
        let machine = Machine { parameters, ..machine };
        let choice = best_tree(&machine, 0, pattern).unwrap();
        for tree in all_trees(&machine.placement) {
            let drawn = tree.to_string();
            let other = evaluate(&machine, pattern, Notifications::Together, tree);
            prop_assert!(
                choice.predicted.min.as_nanos() <= 1.05 * other.as_nanos() + 1e-3,
                "{} is better than {}", drawn, choice.tree
            );
        }
    }

    /// The multi-m barrier needs as many rounds as it takes, and is the best of all.
    #[test]
    fn no_rounds_are_better(parameters in any_parameters(), ranks in 1_usize..=40) {
        let machine = Machine { parameters, placement: Placement::one_group(ranks).unwrap() };
        let cost = |ways: &[usize]| {
            let ways: Vec<u64> = ways.iter().map(|&ways| ways as u64).collect();
            equations::mixed_dissemination(&parameters, &ways).min
        };
        let best = best_mixed_ways(&machine, ranks);
        prop_assert!(best.iter().map(|ways| ways + 1).product::<usize>() >= ranks);
        let (ways, rounds) = best_ways(&machine, ranks);
        prop_assert!(cost(&best) <= cost(&vec![ways; rounds]));
        for one in 1..ranks {
            let rounds = equations::rounds(ranks as u64, one as u64) as usize;
            prop_assert!(cost(&vec![ways; best_ways(&machine, ranks).1]) <= cost(&vec![one; rounds]));
            for other in 1..ranks {
                if (one + 1) * (other + 1) >= ranks {
                    prop_assert!(cost(&best) <= cost(&[one, other]));
                }
            }
        }
    }

    /// After a barrier, everyone knows of everyone.
    #[test]
    fn a_barrier_is_one(machine in any_machine(1..40, 3)) {
        let placement = &machine.placement;
        let groups = placement.groups();
        let mixed = |ranks: usize| best_mixed_ways(&machine, ranks);
        let within: Vec<_> = groups.iter().map(|group| mixed(group.len())).collect();
        let exchanges = [barrier::Exchange::Pairs, barrier::Exchange::Roots];
        let mut barriers: Vec<_> = exchanges
            .map(|exchange| Barrier::Grouped { within: within.clone(), exchange })
            .into();
        let (ways, rounds) = best_ways(&machine, machine.ranks());
        barriers.push(Barrier::Dissemination(vec![ways; rounds]));
        barriers.push(Barrier::Dissemination(mixed(machine.ranks())));
        barriers.push(best_barrier(&machine).barrier);
        for barrier in barriers {
            let rounds = barrier.rounds(placement);
            let mut known: Vec<Vec<bool>> =
                (0..machine.ranks()).map(|rank| (0..machine.ranks()).map(|other| other == rank).collect()).collect();
            let count = rounds[0].len();
            prop_assert!(rounds.iter().all(|rounds| rounds.len() == count));
            let of_all = |number: usize| rounds.iter().map(move |rounds| &rounds[number]);
            for round in (0..count).map(|number| of_all(number).collect::<Vec<_>>()) {
                let before = known.clone();
                for (rank, known) in known.iter_mut().enumerate() {
                    for &other in &round[rank].reads {
                        prop_assert!(round[other].writes && other != rank);
                        known.iter_mut().zip(&before[other]).for_each(|(known, &new)| *known |= new);
                    }
                }
            }
            prop_assert!(known.iter().flatten().all(|&known| known), "{}", barrier);
        }
    }
}

/// All trees with root 0, a wave for each group.
fn all_trees(placement: &Placement) -> Vec<Tree> {
    let ranks = placement.ranks();
    let count = ranks.pow(ranks as u32 - 1);
    let parents = |mut number: usize| -> Vec<Option<usize>> {
        let mut digit = || {
            let digit = number % ranks;
            number /= ranks;
            Some(digit)
        };
        std::iter::once(None).chain((1..ranks).map(|_| digit())).collect()
    };
    (0..count)
        .filter_map(|number| Tree::from_parents(0, &parents(number), placement).ok())
        .collect()
}

#[test]
fn all_trees_are_as_many_as_cayley_says() {
    for (ranks, count) in [(1, 1), (2, 1), (3, 3), (4, 16), (5, 125)] {
        assert_eq!(all_trees(&Placement::one_group(ranks).unwrap()).len(), count);
    }
}

/// On the paper's machine, no tree of seven ranks is better, however they are distributed.
#[test]
fn no_tree_of_seven_is_better() {
    for near in 1..=7_usize {
        let groups: Vec<usize> = (0..7).map(|rank| usize::from(rank >= near)).collect();
        let placement = Placement::new(groups).unwrap();
        let machine = Machine { parameters: Parameters::SANDY_BRIDGE, placement };
        let trees = all_trees(&machine.placement);
        for pattern in [
            Pattern::Broadcast { lines: 1 },
            Pattern::Broadcast { lines: 128 },
            Pattern::Reduction,
            Pattern::ManyToOne,
        ] {
            let choice = best_tree(&machine, 0, pattern).unwrap();
            for tree in &trees {
                let other = evaluate(&machine, pattern, Notifications::Together, tree.clone());
                assert!(choice.predicted.min <= other, "{tree} is better than {}", choice.tree);
            }
        }
    }
}

#[test]
fn more_ranks_than_cores_take_the_central_barrier() {
    let machine = Machine::sandy_bridge(4).unwrap();
    let choice = best_barrier_on(&machine, 2);
    assert_eq!((choice.barrier, choice.predicted), (Barrier::Central, None));
    assert_eq!(best_barrier_on(&machine, 4), best_barrier(&machine));
    assert_eq!(Barrier::Central.to_string(), "central counter, one wake");
}

#[test]
fn one_rank_needs_nothing() {
    let machine = Machine::sandy_bridge(1).unwrap();
    let choice = best_barrier(&machine);
    assert_eq!(choice.barrier, Barrier::Dissemination(vec![]));
    assert_eq!(choice.predicted, Some(Default::default()));
    assert_eq!(choice.barrier.to_string(), "dissemination, no rounds");
    for pattern in [Pattern::Broadcast { lines: 1 }, Pattern::Reduction, Pattern::OneToMany] {
        assert_eq!(best_tree(&machine, 0, pattern).unwrap().predicted, Default::default());
    }
    assert!(best_tree(&machine, 1, Pattern::Reduction).is_err());
}
