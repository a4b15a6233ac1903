//! The bounds against programs that run in virtual time.

use proptest::prelude::*;

use crate::machines::any_machine;
use mp_model::cla::barrier::{Barrier, Exchange, best_barrier, best_mixed_ways, best_ways};
use mp_model::cla::graph::{Graph, GraphError, Node, Notifications, Rules};
use mp_model::cla::{Machine, Parameters, Placement, Program, Tree, search::Pattern};
use onchip_research::cla::patterns::{self, Flags};
use onchip_research::cla::run::{Options, Order, Polling, RunError, run};
use onchip_research::cla::{certain, equations};

fn programs(machine: &Machine, root: usize, lines: u64) -> Vec<(&'static str, Program)> {
    let placement = &machine.placement;
    let flags = [Flags::SameLine, Flags::DifferentLines, Flags::LinePerGroup];
    let mut programs: Vec<_> = flags
        .iter()
        .flat_map(|&flags| {
            [
                ("many-to-one", patterns::many_to_one(placement, root, flags)),
                ("one-to-many", patterns::one_to_many(placement, root, flags)),
            ]
        })
        .collect();
    let (ways, rounds) = best_ways(machine, machine.ranks());
    let within: Vec<_> =
        placement.groups().iter().map(|group| best_mixed_ways(machine, group.len())).collect();
    let barriers = [
        Barrier::Dissemination(vec![1; rounds * ways]),
        Barrier::Dissemination(vec![ways; rounds]),
        Barrier::Grouped { within: within.clone(), exchange: Exchange::Pairs },
        Barrier::Grouped { within, exchange: Exchange::Roots },
        Barrier::Central,
        best_barrier(machine).barrier,
    ];
    programs.extend(barriers.iter().map(|barrier| ("barrier", barrier.program(placement))));
    let trees = [
        Tree::flat(root, placement),
        Tree::k_ary(root, 2, placement),
        Tree::binomial(root, placement),
        Tree::chain(root, placement),
    ];
    for tree in trees.map(Result::unwrap) {
        for (name, pattern) in [
            ("notification", Pattern::OneToMany),
            ("gathering", Pattern::ManyToOne),
            ("broadcast", Pattern::Broadcast { lines }),
            ("reduction", Pattern::Reduction),
        ] {
            programs.push((name, pattern.program(&tree, placement)));
        }
        programs.push(("pushed broadcast", patterns::pushed_broadcast(&tree)));
        programs.push(("pushed reduction", patterns::pushed_reduction(&tree)));
    }
    programs.push(("long reduction", patterns::binomial_reduction(placement, root, lines + 2)));
    programs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Minimum ≤ run ≤ maximum, in any order of ranks. If no rank polls too early, T_min holds with R_I for first
    /// accesses, too.
    #[test]
    fn runs_are_within_the_bounds(
        machine in any_machine(1..14, 3),
        root in any::<prop::sample::Index>(),
        lines in 0_u64..4,
        seed in any::<u64>(),
    ) {
        let root = root.index(machine.ranks());
        for (name, program) in programs(&machine, root, lines) {
            let certain = certain(&program, &machine).unwrap();
            let apart = machine.parameters.without_contention();
            let apart = Machine { parameters: apart, ..machine.clone() };
            let overlap = Rules { notifications: Notifications::AsTheyCome, ..Rules::default() };
            let unstolen = Graph::new(&program, &apart).unwrap().bounds(overlap).min;
            for order in [Order::Fifo, Order::Random(seed), Order::Random(!seed)] {
                for polling in [Polling::Eager, Polling::Lucky] {
                    let options = Options { order, polling, congestion: false };
                    let end = run(&program, &machine, options).unwrap().end();
                    let low = match polling {
                        Polling::Eager => certain.min,
                        // No rank brings a flag from memory for another.
                        Polling::Lucky if lines <= 1 => unstolen,
                        Polling::Lucky => certain.min,
                    };
                    prop_assert!(low <= end, "{}: {} below {}, {:?}", name, end, low, options);
                    let high = certain.max;
                    prop_assert!(end <= high, "{}: {} above {}, {:?}", name, end, high, options);
                }
            }
        }
    }
}

/// If all ranks do the same at the same time, none polls too early, and the run takes T_min.
#[test]
fn ranks_in_step_take_the_minimum() {
    for ranks in 2..=60 {
        let placement = Placement::one_group(ranks).unwrap();
        let parameters = [Parameters::SANDY_BRIDGE, Parameters::XEON_PHI.without_contention()];
        for machine in
            parameters.map(|parameters| Machine { parameters, placement: placement.clone() })
        {
            let choice = best_barrier(&machine);
            let program = choice.barrier.program(&placement);
            let run = run(&program, &machine, Options::default()).unwrap();
            assert_eq!(Some(run.end()), choice.predicted.map(|bounds| bounds.min), "{ranks}");
        }
    }
}

/// "t₀ may steal the line between every two writes": chance finds the worst case of equation 8.
#[test]
fn stealing_costs_what_equation_8_says() {
    let machine = Machine::sandy_bridge(4).unwrap();
    let program = patterns::many_to_one(&machine.placement, 0, Flags::SameLine);
    let worst = equations::many_to_one_same_line(&machine.parameters, 3, 0);
    let ends: Vec<_> = (0..200)
        .map(|seed| {
            let options = Options { order: Order::Random(seed), ..Options::default() };
            run(&program, &machine, options).unwrap().end()
        })
        .collect();
    assert_eq!(ends.iter().max(), Some(&worst.max));
    let lucky = Options { polling: Polling::Lucky, ..Options::default() };
    let lucky = run(&program, &machine, lucky).unwrap();
    assert_eq!((lucky.end(), lucky.transfers), (worst.min, 4));
}

#[test]
fn a_run_is_the_same_every_time() {
    let machine = Machine::xeon_phi(30).unwrap();
    let tree = Tree::k_ary(0, 3, &machine.placement).unwrap();
    let program = patterns::reduction(&tree, &machine.placement);
    let options = Options { order: Order::Random(7), ..Options::default() };
    assert_eq!(run(&program, &machine, options), run(&program, &machine, options));
}

#[test]
fn programs_that_do_not_end_are_named() {
    let machine = Machine::sandy_bridge(2).unwrap();
    let mut program = Program::new(2);
    let (one, other) = (program.flag(0), program.flag(1));
    program.wait(0, one, 1);
    program.write(0, other, 1);
    program.wait(1, other, 1);
    program.write(1, one, 1);
    assert_eq!(run(&program, &machine, Options::default()), Err(RunError::Deadlock(vec![0, 1])));
    let stuck = GraphError::Deadlock(Node { rank: 0, step: 0 });
    assert_eq!(Graph::new(&program, &machine).map(|_| ()), Err(stuck));
    let mut program = Program::new(2);
    let flag = program.flag(0);
    program.write(1, flag, 1);
    program.wait(0, flag, 2);
    let never = GraphError::NeverWritten(Node { rank: 0, step: 0 });
    assert_eq!(Graph::new(&program, &machine).map(|_| ()), Err(never));
    assert_eq!(run(&program, &machine, Options::default()), Err(RunError::Deadlock(vec![0])));
    let few = Program::new(1);
    assert_eq!(
        run(&few, &machine, Options::default()),
        Err(RunError::Ranks { program: 1, machine: 2 })
    );
    assert_eq!(
        Graph::new(&few, &machine).map(|_| ()),
        Err(GraphError::Ranks { program: 1, machine: 2 })
    );
}

#[test]
fn waits_for_some_of_several_writes_are_ambiguous() {
    let machine = Machine::sandy_bridge(3).unwrap();
    let mut program = Program::new(3);
    let flag = program.flag(0);
    program.add(1, flag);
    program.add(2, flag);
    program.wait(0, flag, 1);
    let ambiguous = GraphError::Ambiguous(Node { rank: 0, step: 0 });
    assert_eq!(Graph::new(&program, &machine).map(|_| ()), Err(ambiguous));
    assert!(ambiguous.to_string().starts_with("step 0 of rank 0 waits for a value that several"));
}

/// One hop takes one line transfer, and what the two ranks have in their own caches.
#[test]
fn a_pushed_line_is_one_transfer() {
    let p = Parameters::SANDY_BRIDGE.with_cached_flags();
    let machine = Machine { parameters: p, placement: Placement::one_group(2).unwrap() };
    let tree = Tree::flat(0, &machine.placement).unwrap();
    for program in [patterns::pushed_broadcast(&tree), patterns::pushed_reduction(&tree)] {
        let bounds = Graph::new(&program, &machine).unwrap().bounds(Rules::default());
        assert!(bounds.min >= p.near.transfer, "{bounds}");
        assert!(bounds.min < 2 * p.near.transfer + 4 * p.local, "{bounds}");
    }
}
