//! The results of the searches, compared with other trees and with all trees.

use proptest::prelude::*;

use super::machines::{any_machine, any_parameters};
use crate::cla::barrier::{self, Barrier, best_barrier_on, best_mixed_ways, best_ways};
use crate::cla::graph::{Bounds, Graph, Notifications, Rules};
use crate::cla::schedule::{By, Schedule};
use crate::cla::search::{
    Draft, Levels, Pattern, best_lambda, best_tree, best_tree_by, reduction_along,
    reduction_scattered,
};
use crate::cla::{Machine, Parameters, Placement, Tree, best_barrier, equations};
use crate::in_order::Shape;

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

fn bounds(schedule: &Schedule, machine: &Machine) -> Bounds {
    Graph::new(&schedule.program(), machine).unwrap().bounds(Rules::default())
}

proptest! {
    #[test]
    fn reductions_in_order_are_what_the_graph_says(
        machine in any_machine(1..25, 3),
        lambda in 1_usize..9,
        root in any::<prop::sample::Index>(),
        lines in 1_u64..20,
    ) {
        let (ranks, root) = (machine.ranks(), root.index(machine.ranks()));
        let shape = Shape::new(ranks, lambda);
        for by in [By::Lines { lines }, By::Buffers { lines, piece: 20, buffers: 4 }] {
            let graph = bounds(&Schedule::reduce_along(shape, root, by), &machine);
            prop_assert_eq!(reduction_along(&machine, shape, root, by), graph.min, "{:?}", by);
        }
    }

    #[test]
    fn scattered_reductions_are_what_the_graph_says(
        parameters in any_parameters(),
        ranks in 1_usize..12,
        lines in 1_u64..100,
    ) {
        let parameters = parameters.without_contention();
        let machine = Machine { parameters, placement: Placement::one_group(ranks).unwrap() };
        let by = By::Buffers { lines, piece: 100, buffers: 4 };
        let graph = bounds(&Schedule::reduce_scattered(ranks, 0, by), &machine);
        prop_assert_eq!(reduction_scattered(&machine, 0, by), graph.min);
    }

    #[test]
    fn no_tree_in_order_that_is_looked_at_is_better(
        machine in any_machine(1..40, 2),
        lambda in 1_usize..60,
        lines in 1_u64..9,
    ) {
        for by in [By::Lines { lines }, By::Buffers { lines, piece: 4, buffers: 4 }] {
            let best = best_lambda(&machine, by);
            let shape = |lambda| Shape::new(machine.ranks(), lambda);
            let least = reduction_along(&machine, shape(best.lambda), 0, by);
            prop_assert_eq!(least, best.predicted);
            if [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48].contains(&lambda) {
                prop_assert!(least <= reduction_along(&machine, shape(lambda), 0, by));
            }
        }
    }

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
            // If the search is exact, it must find a tree at least as good as those that it did not start from.
            let known = index != 2 || placement.groups().len() == 1
                && machine.parameters.contention.is_none()
                && notifications == Notifications::Together;
            if known {
                let other = pattern.predicted(&tree.unwrap(), &machine, rules).min;
                prop_assert!(choice.predicted.min <= other);
            }
        }
    }

    /// In one group without contention, no tree is better.
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

    /// With two groups, no tree is much better, for numbers of ranks for which all trees can be tried.
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

fn papers_machines(ranks: usize) -> [Machine; 2] {
    [Parameters::SANDY_BRIDGE, Parameters::XEON_PHI].map(|parameters| {
        let placement = Placement::one_group(ranks).unwrap();
        Machine { parameters: parameters.with_cached_flags(), placement }
    })
}

/// Where the arithmetic is not the graph's: by no more than it leaves out.
#[test]
fn reductions_of_several_pieces_are_about_within_the_graphs_bounds() {
    for machine in [3, 8, 17].into_iter().flat_map(papers_machines) {
        let ranks = machine.ranks();
        for (lines, piece) in [(64, 42), (100, 10), (200, 32)] {
            let by = By::Buffers { lines, piece, buffers: 4 };
            let is_within = |schedule: &Schedule, time| {
                let Bounds { min, max } = bounds(schedule, &machine);
                let min = min - min / 10;
                assert!(min <= time && time <= max, "{ranks}, {by:?}: {time}, {min} to {max}");
            };
            for lambda in [1, 2, 5] {
                let shape = Shape::new(ranks, lambda);
                let along = reduction_along(&machine, shape, 1, by);
                is_within(&Schedule::reduce_along(shape, 1, by), along);
            }
            let scattered = reduction_scattered(&machine, 0, by);
            is_within(&Schedule::reduce_scattered(ranks, 0, by), scattered);
        }
    }
}

/// With the paper's parameters a line takes about twice as long to come as to be taken. A chunk is mostly
/// taken, and of several one is taken while others come.
#[test]
fn trees_in_order_of_the_papers_machines() {
    let one = By::Lines { lines: 1 };
    let chunks = By::Buffers { lines: 100, piece: 42, buffers: 4 };
    for machine in [2, 3].into_iter().flat_map(papers_machines) {
        assert_eq!(best_lambda(&machine, one).lambda, machine.ranks(), "flat");
    }
    for machine in [33, 48, 200].into_iter().flat_map(papers_machines) {
        for (by, expected) in [(one, 2..=2), (chunks, 1..=2)] {
            let best = best_lambda(&machine, by);
            assert!(expected.contains(&best.lambda), "{}: {best:?}", machine.ranks());
            let flat = Shape::new(machine.ranks(), machine.ranks());
            assert!(reduction_along(&machine, flat, 0, by) > 4 * best.predicted);
        }
    }
}
