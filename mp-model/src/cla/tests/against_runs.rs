//! The bounds against programs that run in virtual time.

use proptest::prelude::*;

use super::any_machine;
use crate::Time;
use crate::cla::barrier::{Barrier, Exchange, best_barrier, best_mixed_ways, best_ways};
use crate::cla::graph::{Graph, Notifications, Rules};
use crate::cla::patterns::{self, Flags};
use crate::cla::run::{Options, Order, Polling, run};
use crate::cla::{Machine, Program, Tree, search::Pattern};

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
    }
    programs.push(("long reduction", patterns::binomial_reduction(placement, root, lines + 2)));
    programs
}

/// The same machine where nothing that is not certain takes time: a bound from below of whatever
/// happens.
fn kind(machine: &Machine) -> Machine {
    let mut parameters = machine.parameters.without_contention().with_cached_flags();
    if let Some(contention) = machine.parameters.contention {
        // Copies of several lines have another constant there (section 4.2.2).
        for link in [&mut parameters.near, &mut parameters.far] {
            link.lines.start = link.lines.start.min(contention.cost(1));
            link.lines.congestion = Time::ZERO;
        }
    }
    Machine { parameters, ..machine.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Minimum ≤ run ≤ maximum, whoever is next.
    #[test]
    fn runs_are_within_the_bounds(
        machine in any_machine(1..14, 3),
        root in any::<prop::sample::Index>(),
        lines in 0_u64..4,
        seed in any::<u64>(),
    ) {
        let root = root.index(machine.ranks());
        for (name, program) in programs(&machine, root, lines) {
            let bounds = |machine, rules| Graph::new(&program, machine).unwrap().bounds(rules);
            // Early notifications do overlap with work elsewhere.
            let overlap = Rules { notifications: Notifications::AsTheyCome, ..Rules::default() };
            let kind = kind(&machine);
            let low = bounds(&kind, overlap).min;
            let high = bounds(&machine, Rules::default()).max;
            for order in [Order::Fifo, Order::Random(seed), Order::Random(!seed)] {
                for polling in [Polling::Eager, Polling::Lucky] {
                    let options = Options { order, polling, congestion: false };
                    let end = run(&program, &machine, options).unwrap().end();
                    prop_assert!(low <= end, "{}: {} below {}, {:?}", name, end, low, options);
                    prop_assert!(end <= high, "{}: {} above {}, {:?}", name, end, high, options);
                }
            }
        }
    }
}
