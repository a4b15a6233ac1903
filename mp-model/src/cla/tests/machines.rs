//! Machines with any costs that machines can have.

use proptest::prelude::*;

use crate::Time;
use crate::cla::{Contention, Invalidation, Lines, Link, Machine, Parameters, Placement};

/// Costs in the order that nature has them, of machines of both kinds.
pub fn any_parameters() -> impl Strategy<Value = Parameters> {
    let picos = |most: u64| (0..most).prop_map(Time::from_picos);
    let lines = (picos(500_000), picos(50_000), picos(5_000))
        .prop_map(|(start, line, congestion)| Lines { start, line, congestion, saved: Time::ZERO });
    let times = (picos(20_000), picos(300_000), picos(300_000), picos(400_000), picos(200_000));
    (times, lines, any::<bool>(), proptest::option::of((0_u64..=50, 0_u64..=100))).prop_map(
        |((local, more, far, memory, far_memory), lines, each, contention)| {
            let transfer = local + more + Time::from_picos(1);
            let near_lines = Lines { congestion: Time::ZERO, ..lines };
            let contention = contention.map(|(reader, start)| {
                let reader = transfer * reader / 100;
                // Between R_R and 2 R_R for one reader.
                let one = transfer + transfer * start / 100;
                Contention { start: one.saturating_sub(reader), reader, saved: Time::ZERO }
            });
            let parameters = Parameters {
                local,
                near: Link { transfer, memory, lines: near_lines },
                far: Link { transfer: transfer + far, memory: memory + far_memory, lines },
                contention,
                invalidation: if each { Invalidation::EachSharer } else { Invalidation::Once },
                write: None,
            };
            assert_eq!(parameters.check(), Ok(()));
            parameters
        },
    )
}

pub fn any_machine(ranks: std::ops::Range<usize>, groups: usize) -> impl Strategy<Value = Machine> {
    let placement = proptest::collection::vec(0..groups, ranks);
    (any_parameters(), placement).prop_map(|(parameters, groups)| Machine {
        parameters,
        placement: Placement::new(groups).unwrap(),
    })
}
