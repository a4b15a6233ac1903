//! Which rank sends to which, and what the bounds of that are.

use proptest::prelude::*;

use crate::machines::any_machine;
use mp_model::cla::graph::{Graph, Rules};
use mp_model::cla::schedule::{By, Schedule};
use mp_model::cla::{Machine, Parameters, Placement, Tree, patterns};
use mp_model::in_order::Shape;
use onchip_research::cla::certain;
use onchip_research::cla::run::{Options, Order, Polling, run};

fn all(ranks: usize, root: usize, by: By) -> Vec<(&'static str, Schedule)> {
    vec![
        ("gather", Schedule::gather(ranks, root, by)),
        ("scatter", Schedule::scatter(ranks, root, by)),
        ("all-gather", Schedule::all_gather(ranks, by, false)),
        ("shared all-gather", Schedule::all_gather(ranks, by, true)),
        ("all-to-all", Schedule::all_to_all(ranks, by)),
        ("reduce-scatter", Schedule::reduce_scatter(ranks, by)),
        ("reduce", Schedule::reduce(ranks, root, by)),
        ("binomial reduce", Schedule::reduce_along(Shape::new(ranks, 1), root, by)),
        ("reduce along a tree", Schedule::reduce_along(Shape::new(ranks, 3), root, by)),
        ("scattered reduce", Schedule::reduce_scattered(ranks, root, by)),
        ("scattered all-reduce", Schedule::all_reduce_scattered(ranks, by)),
        ("whole all-reduce", Schedule::all_reduce_whole(ranks, by)),
        ("all-reduce at rank 0", Schedule::all_reduce_at_first(ranks, by)),
        ("all-reduce by doubling", Schedule::all_reduce_doubling(ranks, by)),
        ("scan by doubling", Schedule::scan_doubling(ranks, by)),
        ("scan from rank to rank", Schedule::scan_chain(ranks, by)),
    ]
}

/// Returns whose elements each rank has combined, and how often. A round brings what its senders had when it began.
fn combined(schedule: &Schedule, last_replaces: bool) -> Vec<Vec<u32>> {
    let ranks = schedule.ranks();
    let mut has: Vec<Vec<u32>> =
        (0..ranks).map(|rank| (0..ranks).map(|of| u32::from(of == rank)).collect()).collect();
    for (number, round) in schedule.rounds().iter().enumerate() {
        let before = has.clone();
        let replaces = last_replaces && number + 1 == schedule.rounds().len();
        for &(from, to) in round.messages() {
            for of in 0..ranks {
                has[to][of] = before[from][of] + if replaces { 0 } else { has[to][of] };
            }
        }
    }
    has
}

#[test]
fn everybody_is_combined_once() {
    let by = By::Lines { lines: 1 };
    for ranks in 1..40 {
        let each = vec![vec![1; ranks]; ranks];
        let upper = !ranks.is_power_of_two();
        assert_eq!(combined(&Schedule::all_reduce_doubling(ranks, by), upper), each, "{ranks}");
        assert_eq!(combined(&Schedule::all_reduce_whole(ranks, by), false), each, "{ranks}");
        let first = Schedule::all_reduce_at_first(ranks, by);
        assert_eq!(combined(&first, true), each, "{ranks}");
        let reduce = Schedule::reduce(ranks, ranks / 2, by);
        assert_eq!(combined(&reduce, false)[ranks / 2], vec![1; ranks]);
        for lambda in [1, 2, 5, ranks] {
            let along = Schedule::reduce_along(Shape::new(ranks, lambda), ranks / 3, by);
            assert_eq!(combined(&along, false)[ranks / 3], vec![1; ranks], "{ranks}, {lambda}");
        }
        let up_to = |rank: usize| (0..ranks).map(|of| u32::from(of <= rank)).collect::<Vec<_>>();
        let prefixes: Vec<_> = (0..ranks).map(up_to).collect();
        assert_eq!(combined(&Schedule::scan_doubling(ranks, by), false), prefixes, "{ranks}");
        assert_eq!(combined(&Schedule::scan_chain(ranks, by), false), prefixes, "{ranks}");
    }
}

#[test]
fn each_gets_what_it_should_once() {
    let by = By::Lines { lines: 1 };
    for ranks in 1..12 {
        let pairs = |schedule: Schedule| {
            let mut pairs: Vec<_> = schedule.rounds()[0].messages().to_vec();
            pairs.sort_unstable();
            pairs
        };
        let each: Vec<_> = (0..ranks)
            .flat_map(|from| (0..ranks).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        assert_eq!(pairs(Schedule::all_to_all(ranks, by)), each);
        assert_eq!(pairs(Schedule::all_gather(ranks, by, true)), each);
        assert_eq!(pairs(Schedule::reduce_scatter(ranks, by)), each);
        let root = ranks - 1;
        let to_root: Vec<_> = each.iter().copied().filter(|pair| pair.1 == root).collect();
        assert_eq!(pairs(Schedule::gather(ranks, root, by)), to_root);
        let from_root: Vec<_> = each.iter().copied().filter(|pair| pair.0 == root).collect();
        assert_eq!(pairs(Schedule::scatter(ranks, root, by)), from_root);
        let scattered = Schedule::all_reduce_scattered(ranks, by);
        assert_eq!((scattered.rounds().len(), scattered.messages()), (2, 2 * each.len() as u64));
    }
}

/// A schedule of one line to a root agrees with the pattern for it.
#[test]
fn one_line_is_a_pushed_reduction() {
    for ranks in 1..9 {
        let placement = Placement::packed(ranks, &[4, 4]).unwrap();
        let machine = Machine { parameters: Parameters::SANDY_BRIDGE, placement };
        let bounds = |program| Graph::new(&program, &machine).unwrap().bounds(Rules::default());
        // In the order of ranks.
        let mut waves = vec![Vec::new(); ranks];
        waves[0] = (1..ranks).map(|rank| vec![rank]).collect();
        let flat = Tree::new(0, waves).unwrap();
        let schedule = Schedule::reduce(ranks, 0, By::Lines { lines: 1 });
        assert_eq!(
            bounds(schedule.program()),
            bounds(patterns::pushed_reduction(&flat)),
            "{ranks}"
        );
    }
}

/// All children of one rank: no tree.
#[test]
fn a_flat_tree_is_none() {
    for by in [By::Lines { lines: 2 }, By::Buffers { lines: 9, piece: 4, buffers: 2 }] {
        for ranks in 2..9 {
            let along = Schedule::reduce_along(Shape::new(ranks, ranks), 0, by);
            assert_eq!(along.program(), Schedule::reduce(ranks, 0, by).program(), "{ranks}");
        }
    }
}

/// By hand, in one group, without contention: the rank that sends last in a chain has waited for all others.
#[test]
fn least_times_by_hand() {
    let parameters = Parameters::SANDY_BRIDGE.with_cached_flags();
    let machine = |ranks| Machine { parameters, placement: Placement::one_group(ranks).unwrap() };
    let least = |schedule: &Schedule| {
        let machine = machine(schedule.ranks());
        Graph::new(&schedule.program(), &machine).unwrap().bounds(Rules::default()).min
    };
    let (local, transfer) = (parameters.local, parameters.near.transfer);
    let one = By::Lines { lines: 1 };
    // The own element is read, the line is written, and the other rank reads it.
    let message = local + 2 * transfer;
    assert_eq!(least(&Schedule::gather(2, 0, one)), message + local);
    for ranks in 2..7 {
        let chain = Schedule::scan_chain(ranks, one);
        let sum = (ranks as u64 - 1) * (message + local);
        assert!(least(&chain) <= sum && least(&chain) >= sum - ranks as u64 * local, "{ranks}");
    }
    let doubling = |ranks| least(&Schedule::all_reduce_doubling(ranks, one));
    assert!(doubling(8) > doubling(4) && doubling(4) > doubling(2));
    assert!(doubling(8) < least(&Schedule::scan_chain(8, one)));
}

/// A message that is waited for is taken back once: its maximum has one write that takes longer.
#[test]
fn writes_that_take_longer_are_in_the_maximum() {
    let least_and_most = |write| {
        let parameters = Parameters { write, ..Parameters::SANDY_BRIDGE.with_cached_flags() };
        let placement = Placement::one_group(2).unwrap();
        let program = Schedule::reduce(2, 0, By::Lines { lines: 1 }).program();
        let machine = Machine { parameters, placement };
        let bounds = Graph::new(&program, &machine).unwrap().bounds(Rules::default());
        (bounds.min, bounds.max)
    };
    let transfer = Parameters::SANDY_BRIDGE.near.transfer;
    let (min, max) = least_and_most(None);
    assert_eq!(least_and_most(Some(transfer)), (min, max));
    assert_eq!(least_and_most(Some(2 * transfer)), (min, max + transfer));
    assert_eq!(least_and_most(Some(transfer / 2)), (min, max));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In one piece or several, by lines or through buffers: a program without deadlock, whose run is
    /// within its bounds.
    #[test]
    fn runs_are_within_the_bounds(
        machine in any_machine(1..8, 2),
        root in any::<prop::sample::Index>(),
        lines in 1_u64..4,
        seed in any::<u64>(),
    ) {
        let root = root.index(machine.ranks());
        for (name, schedule) in all(machine.ranks(), root, By::Lines { lines }) {
            let program = schedule.program();
            let certain = certain(&program, &machine).unwrap();
            for order in [Order::Fifo, Order::Random(seed)] {
                for polling in [Polling::Eager, Polling::Lucky] {
                    let options = Options { order, polling, congestion: false };
                    let end = run(&program, &machine, options).unwrap().end();
                    prop_assert!(certain.min <= end && end <= certain.max, "{}: {} of {}", name, end, certain);
                }
            }
        }
    }

    #[test]
    fn pieces_go_through_all_rounds(
        machine in any_machine(1..7, 2),
        lines in 1_u64..200,
        piece in 1_u64..50,
        buffers in 1_u64..5,
    ) {
        for (name, schedule) in all(machine.ranks(), 0, By::Buffers { lines, piece, buffers }) {
            let program = schedule.program();
            let bounds = Graph::new(&program, &machine).unwrap().bounds(Rules::default());
            prop_assert!(bounds.min <= bounds.max, "{}: {}", name, bounds);
            prop_assert!(run(&program, &machine, Options::default()).is_ok(), "{}", name);
            let is_moved = machine.ranks() > 1;
            prop_assert_eq!(bounds.min > mp_model::Time::ZERO, is_moved, "{}", name);
        }
    }
}
