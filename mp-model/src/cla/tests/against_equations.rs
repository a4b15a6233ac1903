//! The graph rules against the printed equations.

use crate::Time;
use crate::cla::equations as eq;
use crate::cla::graph::{Bounds, Graph, Rules, Stealing};
use crate::cla::patterns::{self, Flags};
use crate::cla::{Machine, Parameters, Placement, Program, Tree};

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
    let groups: Vec<usize> =
        std::iter::repeat_n(0, near as usize + 1).chain(std::iter::repeat_n(1, far as usize)).collect();
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
        let taken_back = far * (r_q - r_r);
        // A late far reader may be in the way of the write, longer than memory would take.
        let in_the_way = match near + far {
            1 => Time::ZERO,
            _ if far == 0 => Time::ZERO,
            _ => r_q.saturating_sub(SANDY.near.memory),
        };
        assert_eq!(graph.max, printed.max + look + taken_back + in_the_way, "{near} and {far}");
    }
    for readers in 1..60 {
        let machine = machine(PHI, readers, 0);
        let program = patterns::one_to_many(&machine.placement, 0, Flags::SameLine);
        let (graph, printed) =
            (bounds(&machine, &program), eq::one_to_many_same_line(&PHI, readers, 0));
        let alone = if readers == 1 { PHI.contended(true, 1) - PHI.near.transfer } else { Time::ZERO };
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
        let (graph, printed) = (bounds(&machine, &program), eq::one_to_many_lines(&SANDY, near, far));
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
