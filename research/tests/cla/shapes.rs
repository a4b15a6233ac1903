//! The shapes that this library takes for broadcasts and barriers, and what they are better than.

use proptest::prelude::*;

use crate::machines::any_machine;
use mp_model::Time;
use mp_model::cla::barrier::{
    Exchange, Round, fewest_flags, pushed_barrier, pushed_program, pushed_time,
};
use mp_model::cla::outward::{Fan, Outward};
use mp_model::cla::search::{Load, best_outward, outward_time};
use mp_model::cla::{Barrier, Graph, Machine, Parameters, Placement, Program, Rules, patterns};
use onchip_research::cla::run::{Options, run};

const SANDY: Parameters = Parameters::SANDY_BRIDGE;

fn cached(parameters: Parameters, groups: &[usize]) -> Machine {
    let placement = Placement::packed(groups.iter().sum(), groups).unwrap();
    Machine { parameters: parameters.with_cached_flags(), placement }
}

fn minimum(machine: &Machine, program: &Program) -> Time {
    Graph::new(program, machine).unwrap().bounds(Rules::default()).min
}

/// In whole nanoseconds, where those who wait are served in turn.
fn simulated(machine: &Machine, program: &Program) -> u64 {
    let options = Options { congestion: true, ..Options::default() };
    run(program, machine, options).unwrap().end().as_nanos() as u64
}

fn program(tree: &Outward, root: usize, load: Load) -> Program {
    let tree = tree.tree(root).unwrap();
    match load {
        Load::Line => patterns::pushed_broadcast(&tree),
        Load::Chunks { lines, chunks } => patterns::chunked_broadcast(&tree, lines, chunks),
    }
}

/// Returns which ranks each rank knows of after these rounds.
fn known(rounds: &[Vec<Round>]) -> Vec<Vec<bool>> {
    let ranks = rounds.len();
    let mut known: Vec<Vec<bool>> =
        (0..ranks).map(|me| (0..ranks).map(|rank| rank == me).collect()).collect();
    for round in 0..rounds[0].len() {
        let before = known.clone();
        for (known, rounds) in known.iter_mut().zip(rounds) {
            for &setter in &rounds[round].reads {
                known.iter_mut().zip(&before[setter]).for_each(|(known, &theirs)| *known |= theirs);
            }
        }
    }
    known
}

/// Returns the predicted and the simulated time of a shape.
fn of_tree(machine: &Machine, tree: &Outward, load: Load) -> [u64; 2] {
    let predicted = outward_time(machine, tree, 0, load);
    [predicted.as_nanos() as u64, simulated(machine, &program(tree, 0, load))]
}

fn of_barrier(machine: &Machine, groups: &Placement) -> [u64; 2] {
    let rounds = pushed_barrier(groups).rounds(groups);
    [pushed_time(machine, &rounds).as_nanos() as u64, simulated(machine, &pushed_program(&rounds))]
}

/// Nanoseconds, predicted and simulated: what was always taken, 7-ary trees and rounds for one group, and then
/// what is chosen now.
#[test]
fn shapes_for_groups_are_better() {
    let phi = Parameters::XEON_PHI;
    for (parameters, groups, lines, chunks, barriers) in [
        (SANDY, &[48][..], [[519, 552], [333, 366]], [[39559; 2]; 2], [[420; 2]; 2]),
        (phi, &[48], [[3413, 3640], [2191, 2418]], [[257055, 256774]; 2], [[2829; 2]; 2]),
        (
            SANDY,
            &[4; 4],
            [[429, 878], [352, 562]],
            [[73146, 43481], [50925, 38979]],
            [[516, 638], [398, 488]],
        ),
        (
            SANDY,
            &[8; 2],
            [[429, 878], [317, 409]],
            [[73087, 42371], [38648, 38949]],
            [[516, 602], [339, 384]],
        ),
        (
            SANDY,
            &[64; 2],
            [[725, 1186], [502, 593]],
            [[84727, 94578], [62226, 62406]],
            [[903, 1586], [549, 930]],
        ),
        (
            SANDY,
            &[16; 8],
            [[725, 1275], [558, 779]],
            [[99648, 113030], [79840, 70035]],
            [[903, 2277], [667, 1836]],
        ),
    ] {
        let machine = cached(parameters, groups);
        let (place, one) = (&machine.placement, Placement::one_group(machine.ranks()).unwrap());
        let before = Outward::new(&one, Fan::Degree(7), Fan::Degree(7));
        let row = |load, most| {
            let best = best_outward(&machine, place, load, most);
            let now = Outward::new(place, best.between, best.within);
            [&before, &now].map(|tree| of_tree(&machine, tree, load))
        };
        assert_eq!(row(Load::Line, usize::MAX), lines, "{groups:?}");
        assert_eq!(row(Load::Chunks { lines: 1024, chunks: 2 }, 7), chunks, "{groups:?}");
        assert_eq!(
            [&one, place].map(|groups| of_barrier(&machine, groups)),
            barriers,
            "{groups:?}"
        );
    }
}

/// A postal tree over all ranks is predicted to be a little quicker than one within groups and between them, and
/// takes longer where lines that cross at the same time hinder each other, which the minimum leaves out.
#[test]
fn lines_that_cross_are_few() {
    for (groups, [all, grouped]) in [
        (&[4; 4][..], [[339, 620], [352, 562]]),
        (&[8; 2], [[317, 586], [317, 409]]),
        (&[64; 2], [[467, 731], [502, 593]]),
        (&[16; 8], [[545, 1006], [558, 779]]),
    ] {
        let machine = cached(SANDY, groups);
        let one = Placement::one_group(machine.ranks()).unwrap();
        let of = |groups| {
            let best = best_outward(&machine, groups, Load::Line, usize::MAX);
            of_tree(&machine, &Outward::new(groups, best.between, best.within), Load::Line)
        };
        assert_eq!([of(&one), of(&machine.placement)], [all, grouped], "{groups:?}");
    }
}

#[test]
fn fewest_flags_by_hand() {
    let ways =
        [vec![], vec![], vec![1], vec![2], vec![1, 1], vec![1, 2], vec![1, 2], vec![1, 1, 1]];
    for (ranks, ways) in ways.into_iter().enumerate() {
        assert_eq!(fewest_flags(ranks), ways, "{ranks}");
    }
    assert_eq!((fewest_flags(9), fewest_flags(64)), (vec![2, 2], vec![1; 6]));
    assert_eq!((fewest_flags(1), fewest_flags(128)), (vec![], vec![1; 7]));
}

/// Where a round has one flag, the paper's program is this library's.
#[test]
fn flags_of_one_reader_are_the_same_in_both_forms() {
    let machine = cached(SANDY, &[8, 8]);
    for barrier in [
        Barrier::Dissemination(vec![1; 4]),
        Barrier::Grouped { within: vec![vec![1; 3]; 2], exchange: Exchange::Pairs },
    ] {
        let (papers, ours) = (
            barrier.program(&machine.placement),
            pushed_program(&barrier.rounds(&machine.placement)),
        );
        assert_eq!(minimum(&machine, &papers), minimum(&machine, &ours));
        assert_eq!(simulated(&machine, &papers), simulated(&machine, &ours));
    }
    let wide = Barrier::Dissemination(vec![3, 3]);
    let ours = pushed_program(&wide.rounds(&machine.placement));
    assert!(minimum(&machine, &wide.program(&machine.placement)) < minimum(&machine, &ours));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn costs_are_those_of_the_graph(
        mut machine in any_machine(1..24, 4),
        fans in [(any::<bool>(), 1_usize..24), (any::<bool>(), 1_usize..24)],
        by_one in any::<bool>(),
        root in any::<prop::sample::Index>(),
        lines in 2_u64..100,
    ) {
        machine.parameters.far.lines.congestion = Time::ZERO;
        let one = Placement::one_group(machine.ranks()).unwrap();
        let groups = if by_one { &one } else { &machine.placement };
        let [between, within] =
            fans.map(|(degree, number)| if degree { Fan::Degree(number) } else { Fan::Lambda(number) });
        let (tree, root) = (Outward::new(groups, between, within), root.index(machine.ranks()));
        for load in [Load::Line, Load::Chunks { lines, chunks: 1 }] {
            let graph = minimum(&machine, &program(&tree, root, load));
            prop_assert_eq!(outward_time(&machine, &tree, root, load), graph, "{:?}", load);
        }
    }

    #[test]
    fn barriers_cost_what_the_graph_says(machine in any_machine(1..40, 5)) {
        let rounds = pushed_barrier(&machine.placement).rounds(&machine.placement);
        prop_assert_eq!(pushed_time(&machine, &rounds), minimum(&machine, &pushed_program(&rounds)));
    }

    #[test]
    fn after_an_exchange_in_rounds_all_know_of_all(
        groups in proptest::collection::vec(0_usize..9, 1..60),
    ) {
        let placement = Placement::new(groups).unwrap();
        let count = placement.groups().len();
        let within: Vec<_> = placement.groups().iter().map(|group| fewest_flags(group.len())).collect();
        for ways in [fewest_flags(count), vec![count.max(2) - 1], vec![1; count]] {
            let exchange = Exchange::Ways(ways);
            let rounds = Barrier::Grouped { within: within.clone(), exchange }.rounds(&placement);
            prop_assert!(known(&rounds).iter().flatten().all(|&known| known));
        }
    }

    #[test]
    fn what_is_chosen_is_no_worse_than_fixed_trees(machine in any_machine(1..40, 4)) {
        for load in [Load::Line, Load::Chunks { lines: 16, chunks: 2 }] {
            let groups = &machine.placement;
            let best = best_outward(&machine, groups, load, 7);
            let tree = Outward::new(groups, best.between, best.within);
            prop_assert_eq!(outward_time(&machine, &tree, 0, load), best.predicted);
            let fan = |number| if load == Load::Line { Fan::Lambda(number) } else { Fan::Degree(number) };
            let fixed = Outward::new(groups, fan(1), fan(1));
            prop_assert!(best.predicted <= outward_time(&machine, &fixed, 0, load));
        }
    }
}
