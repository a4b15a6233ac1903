//! The graph rules against the printed equations.

use mp_model::Time;
use mp_model::cla::barrier::{Barrier, Exchange};
use mp_model::cla::graph::{Bounds, Graph, Node, Rules, Stealing};
use mp_model::cla::{Machine, Parameters, Placement, Program, Tree};
use onchip_research::cla::equations as eq;
use onchip_research::cla::graph::{EdgeKind, critical_path, edges};
use onchip_research::cla::patterns::{self, Flags};

const SANDY: Parameters = Parameters::SANDY_BRIDGE;
const PHI: Parameters = Parameters::XEON_PHI;

fn bounds(machine: &Machine, program: &Program) -> Bounds {
    bounds_by(machine, program, Rules::default())
}

fn bounds_by(machine: &Machine, program: &Program, rules: Rules) -> Bounds {
    Graph::new(program, machine).unwrap().bounds(rules)
}

/// One rank, `near` more in its group, and `far` in another.
fn machine(parameters: Parameters, near: u64, far: u64) -> Machine {
    let groups: Vec<usize> = std::iter::repeat_n(0, near as usize + 1)
        .chain(std::iter::repeat_n(1, far as usize))
        .collect();
    Machine { parameters, placement: Placement::new(groups).unwrap() }
}

/// (near, far): in one group, across, and both.
fn splits() -> impl Iterator<Item = (u64, u64)> {
    (0..=20).flat_map(|near| (0..=12).map(move |far| (near, far)))
}

/// Equations 6 to 9.
#[test]
fn many_to_one_on_one_line() {
    for (near, far) in splits() {
        for parameters in [SANDY, PHI] {
            let machine = machine(parameters, near, far);
            let program = patterns::many_to_one(&machine.placement, 0, Flags::SameLine);
            let printed = eq::many_to_one_same_line(&parameters, near, far);
            assert_eq!(bounds(&machine, &program), printed, "{near} and {far}");
        }
    }
}

/// Equations 10 to 13.
#[test]
fn many_to_one_on_lines() {
    for (near, far) in splits() {
        for parameters in [SANDY, PHI] {
            let machine = machine(parameters.without_contention(), near, far);
            let program = patterns::many_to_one(&machine.placement, 0, Flags::DifferentLines);
            let printed = eq::many_to_one_lines(&parameters, near, far);
            assert_eq!(bounds(&machine, &program), printed, "{near} and {far}");
        }
    }
}

/// Equations 14 to 19: the minima; the maxima have the second look that 17 and 19 lack, and the price
/// of what lies between groups.
#[test]
fn one_to_many_on_one_line() {
    for (near, far) in splits().skip(1) {
        let machine = machine(SANDY, near, far);
        let program = patterns::one_to_many(&machine.placement, 0, Flags::SameLine);
        let (graph, printed) =
            (bounds(&machine, &program), eq::one_to_many_same_line(&SANDY, near, far));
        assert_eq!(graph.min, printed.min, "{near} and {far}");
        let (r_r, r_q) = (SANDY.near.transfer, SANDY.far.transfer);
        let look = if far == 0 { r_r } else { Time::ZERO };
        // With few near ranks, taking back takes less time than what crosses.
        let crosses = if far > 0 { r_q.saturating_sub((near + far) * r_r) } else { Time::ZERO };
        // A late far reader may be in the way of the write, longer than memory would take.
        let in_the_way = match (near + far, far) {
            (1, _) | (_, 0) => Time::ZERO,
            _ => r_q.saturating_sub(SANDY.near.memory),
        };
        assert_eq!(graph.max, printed.max + look + crosses + in_the_way, "{near} and {far}");
    }
    for readers in 1..60 {
        let machine = machine(PHI, readers, 0);
        let program = patterns::one_to_many(&machine.placement, 0, Flags::SameLine);
        let (graph, printed) =
            (bounds(&machine, &program), eq::one_to_many_same_line(&PHI, readers, 0));
        let alone =
            if readers == 1 { PHI.contended(true, 1) - PHI.near.transfer } else { Time::ZERO };
        assert_eq!(graph.min, printed.min - alone);
        assert_eq!(graph.max, printed.max + PHI.near.transfer);
    }
}

/// Equations 20 to 25: the minima; 24 bounds the maxima, and 23 and 25 are not to be had.
#[test]
fn one_to_many_on_lines() {
    for (near, far) in splits().skip(1) {
        let machine = machine(SANDY, near, far);
        let program = patterns::one_to_many(&machine.placement, 0, Flags::DifferentLines);
        let (graph, printed) =
            (bounds(&machine, &program), eq::one_to_many_lines(&SANDY, near, far));
        assert_eq!(graph.min, printed.min, "{near} and {far}");
        let (r_i, r_r, r_q) = (SANDY.near.memory, SANDY.near.transfer, SANDY.far.transfer);
        let taken = near * (r_i + r_r) + far * (r_i + r_q);
        let last_look = if far > 0 { r_q } else { r_r };
        assert_eq!(graph.max, taken + last_look, "{near} and {far}");
        let equation_24 = (near + far) * r_i + 2 * (near * r_r + far * r_q);
        assert!(graph.max <= equation_24);
        if far > 0 {
            assert_eq!(printed.max, equation_24);
        }
    }
    // Memory a little slower, and 23 is below 20.
    let mut slow = SANDY;
    slow.near.memory = Time::from_nanos(90);
    let printed = eq::one_to_many_lines(&slow, 3, 0);
    assert!(printed.max < printed.min);
}

/// Equation 26, of trees in which each parent has one wave; with R_I for the write.
#[test]
fn notification_trees() {
    let step = |p: &Parameters, readers: u64| {
        let printed = eq::notification_step(p, readers).min;
        let alone = if readers == 1 { p.contended(true, 1) - p.near.transfer } else { Time::ZERO };
        printed - alone + (p.near.memory - p.near.transfer)
    };
    for tree in trees(40) {
        for parameters in [SANDY, PHI] {
            let machine = machine(parameters, tree.ranks() as u64 - 1, 0);
            let graph = bounds(&machine, &patterns::notification_tree(&tree));
            assert_eq!(graph.min, levels(&tree, tree.root(), &|k| step(&parameters, k)), "{tree}");
        }
    }
}

/// The cost of the root's level and of its most expensive subtree.
fn levels(tree: &Tree, rank: usize, level: &dyn Fn(u64) -> Time) -> Time {
    let children = tree.children(rank).count() as u64;
    if children == 0 {
        return Time::ZERO;
    }
    let below = tree.children(rank).map(|child| levels(tree, child, level)).max();
    level(children) + below.unwrap_or_default()
}

/// Trees of all sizes up to so many ranks, fixed shapes and irregular ones, in one group.
fn trees(most: usize) -> impl Iterator<Item = Tree> {
    (1..=most).flat_map(|ranks| {
        let placement = Placement::one_group(ranks).unwrap();
        let irregular: Vec<Option<usize>> =
            (0..ranks).map(|rank| rank.checked_sub(1).map(|last| last * last % rank)).collect();
        [
            Tree::flat(ranks - 1, &placement),
            Tree::k_ary(0, 3, &placement),
            Tree::chain(0, &placement),
            Tree::binomial(ranks / 2, &placement),
            Tree::from_parents(0, &irregular, &placement),
        ]
        .map(Result::unwrap)
    })
}

/// Equations 27 and 29 hold if the last round is full. If it is not, no rank reads in vain, and the barrier is faster.
#[test]
fn dissemination_minimum() {
    for parameters in [SANDY, PHI, PHI.without_contention()] {
        for ranks in (1..=28_u64).chain([60, 64]) {
            for ways in 1..=ranks.max(2) - 1 {
                let rounds = eq::rounds(ranks, ways);
                let machine = machine(parameters, ranks - 1, 0);
                let graph = Barrier::Dissemination(vec![ways as usize; rounds as usize])
                    .predicted(&machine);
                let alone = match ways {
                    1 => rounds * (parameters.contended(true, 1) - parameters.near.transfer),
                    _ => Time::ZERO,
                };
                let printed = eq::dissemination(&parameters, rounds, ways).min - alone;
                let full = rounds == 0 || ways * (ways + 1).pow(rounds as u32 - 1) < ranks;
                match full {
                    true => assert_eq!(graph.min, printed, "n = {ranks}, m = {ways}"),
                    // One reader that is left over does not contend.
                    false => assert!(graph.min <= printed, "n = {ranks}, m = {ways}"),
                }
            }
        }
    }
}

/// Equation 28: one interference per operation.
#[test]
fn dissemination_maximum() {
    for parameters in [SANDY, PHI] {
        for (ranks, ways, rounds) in
            [(2, 1, 1), (8, 1, 3), (9, 2, 2), (16, 3, 2), (27, 2, 3), (60, 3, 3)]
        {
            let machine = machine(parameters, ranks - 1, 0);
            let barrier = Barrier::Dissemination(vec![ways; rounds]);
            let program = barrier.program(&machine.placement);
            let rules = Rules { stealing: Stealing::Once, ..Rules::default() };
            let graph = bounds_by(&machine, &program, rules);
            let printed = eq::dissemination(&parameters, rounds as u64, ways as u64);
            assert_eq!(graph.max, printed.max, "n = {ranks}, m = {ways}");
            // By each reader that polls, from m = 2 on the maximum is larger.
            let each = bounds(&machine, &program).max;
            assert_eq!(each > printed.max, ways > 1, "n = {ranks}, m = {ways}");
        }
    }
}

/// Equations 30 and 31: the minima. The maxima are printed as coarse estimates, and (31) is not one for
/// groups whose sizes differ much.
#[test]
fn exchange_between_groups() {
    for near in 1..=12_u64 {
        for far in 1..=12_u64 {
            let machine = machine(SANDY, near - 1, far);
            let of_group = |ranks: u64| {
                let within = mp_model::cla::barrier::best_mixed_ways(&machine, ranks as usize);
                let alone = self::machine(SANDY, ranks - 1, 0);
                let bounds = Barrier::Dissemination(within.clone()).predicted(&alone);
                (within, bounds)
            };
            let ((first, one), (second, other)) = (of_group(near), of_group(far));
            let slower = if one.min > other.min { one } else { other };
            for exchange in [Exchange::Pairs, Exchange::Roots] {
                let within = vec![first.clone(), second.clone()];
                let barrier = Barrier::Grouped { within, exchange: exchange.clone() };
                let graph = barrier.predicted(&machine);
                let printed = match exchange {
                    Exchange::Pairs => eq::pairwise_exchange(&SANDY, slower, [near, far]),
                    _ => eq::root_exchange(&SANDY, slower, [near, far]),
                };
                assert_eq!(graph.min, printed.min, "{near} and {far}, {exchange:?}");
            }
        }
    }
}

/// Equation 32, and the root's look at its own data.
#[test]
fn broadcast() {
    for tree in trees(40) {
        for parameters in [SANDY, PHI] {
            for lines in [0, 1, 2, 128] {
                let machine = machine(parameters, tree.ranks() as u64 - 1, 0);
                let graph =
                    bounds(&machine, &patterns::broadcast(&tree, &machine.placement, lines));
                let level = |children| match lines {
                    0 => eq::broadcast_level(&parameters, children, 1) - parameters.local,
                    _ => eq::broadcast_level(&parameters, children, lines),
                };
                let own =
                    if lines == 1 && tree.ranks() > 1 { parameters.local } else { Time::ZERO };
                assert_eq!(
                    graph.min,
                    own + levels(&tree, tree.root(), &level),
                    "{lines} over {tree}"
                );
            }
        }
    }
}

/// Equations 33 and 34, and the first write of the lowest level.
#[test]
fn reduction() {
    for tree in trees(40).filter(|tree| tree.ranks() > 1) {
        for parameters in [SANDY, PHI.without_contention()] {
            let machine = machine(parameters, tree.ranks() as u64 - 1, 0);
            let graph = bounds(&machine, &patterns::reduction(&tree, &machine.placement));
            let min = levels(&tree, tree.root(), &|k| eq::reduction_level(&parameters, k).min);
            assert_eq!(graph.min, parameters.near.memory + min, "{tree}");
            if tree.depth() == 1 && parameters == SANDY {
                let printed = eq::reduction_level(&SANDY, tree.ranks() as u64 - 1);
                assert_eq!(graph.max, SANDY.near.memory + printed.max, "{tree}");
            }
        }
    }
}

/// Equation 35: the next stage does not wait until the partner has left.
#[test]
fn binomial_reduction() {
    for parameters in [SANDY, PHI] {
        for (near, far) in
            (1..=33).flat_map(|near| [(near, 0), (near, near), (near, 1), (near, 2 * near)])
        {
            for lines in [2, 64] {
                let machine = machine(parameters, near - 1, far);
                let program = patterns::binomial_reduction(&machine.placement, 0, lines);
                let graph = bounds(&machine, &program).min;
                let printed = eq::binomial_reduction(&parameters, near, far, lines);
                let stages =
                    u64::from(near.max(far).next_power_of_two().ilog2() + u32::from(far > 0));
                let left = stages.saturating_sub(1) * parameters.near.transfer;
                let full = near.is_power_of_two() && (far == 0 || far == near);
                match full {
                    true => assert_eq!(graph, printed - left, "{near} and {far}"),
                    false => assert!(graph <= printed, "{near} and {far}"),
                }
            }
        }
    }
}

/// Figure 5a: the path goes through all writes, and then to the wait.
#[test]
fn the_critical_path_goes_through_all_writes() {
    let machine = machine(SANDY, 3, 1);
    let program = patterns::many_to_one(&machine.placement, 0, Flags::SameLine);
    let graph = Graph::new(&program, &machine).unwrap();
    let path = critical_path(&graph, Rules::default());
    assert_eq!(path.last(), Some(&Node { rank: 0, step: 0 }));
    let mut ranks: Vec<_> = path.iter().map(|node| node.rank).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1, 2, 3, 4]);
}

/// Figures 5, 9, 10, 13 and 17: how many edges of each kind there are.
#[test]
fn edges_are_those_of_the_figures() {
    let count = |machine: &Machine, program: &Program| {
        let edges = edges(&Graph::new(program, machine).unwrap(), program);
        [EdgeKind::Sequence, EdgeKind::Dependency, EdgeKind::Exclusion, EdgeKind::Stealing]
            .map(|kind| edges.iter().filter(|edge| edge.kind == kind).count())
    };
    let four = machine(SANDY, 3, 0);
    let same = patterns::many_to_one(&four.placement, 0, Flags::SameLine);
    assert_eq!(count(&four, &same), [0, 3, 3, 0]);
    let different = patterns::many_to_one(&four.placement, 0, Flags::DifferentLines);
    assert_eq!(count(&four, &different), [2, 3, 0, 0]);
    // One rank writes the flag that all read, or one for each.
    let same = patterns::one_to_many(&four.placement, 0, Flags::SameLine);
    assert_eq!(count(&four, &same), [0, 3, 0, 0]);
    let different = patterns::one_to_many(&four.placement, 0, Flags::DifferentLines);
    assert_eq!(count(&four, &different), [2, 3, 0, 0]);
    // Three ranks, m = 2, one round: each writes once and reads twice.
    let three = machine(SANDY, 2, 0);
    let round = Barrier::Dissemination(vec![2]).program(&three.placement);
    assert_eq!(count(&three, &round), [6, 6, 0, 0]);
    // With one flag for two rounds, polls of each round may steal what is written in the other.
    let plain = onchip_research::cla::baselines::plain_dissemination(&four.placement);
    let single = Barrier::Dissemination(vec![1, 1]).program(&four.placement);
    assert_eq!(count(&four, &plain), [12, 8, 0, 8]);
    assert_eq!(count(&four, &single), [12, 8, 0, 0]);
    // The binary tree of four: the flags' edges, from children 3, to them 3; E3 between the two
    // children of the root. Data and flag share a line, so their edges are one.
    let tree = Tree::k_ary(0, 2, &four.placement).unwrap();
    let broadcast = patterns::broadcast(&tree, &four.placement, 1);
    let [_, dependencies, exclusions, stealing] = count(&four, &broadcast);
    assert_eq!((dependencies, exclusions, stealing), (6, 1, 0));
    // Of each child: its parent's flag, its buffer and its flag. E3 between the two children of the root.
    let [_, dependencies, exclusions, stealing] =
        count(&four, &patterns::reduction(&tree, &four.placement));
    assert_eq!((dependencies, exclusions, stealing), (9, 1, 0));
}
