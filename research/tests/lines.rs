//! Broadcasts line by line on simulated machines.

use mp_collectives::broadcast::{LineBcast, LineOptions, LineOptionsError};
use mp_core::mpb::MpbAccess;
use mp_model::Time;
use mp_model::tree::TreeError;
use onchip_research::sim::{Layout, Machine, run};

fn machine(cores: usize, lines: usize) -> Machine {
    Machine { layout: Layout::shared(cores), lines, ..Machine::scc() }
}

fn check(cores: usize, options: LineOptions, series: &[(usize, usize)]) {
    let machine = machine(cores, 600);
    let run = run(machine, async |core| {
        let rank = core.rank();
        let mut lines = LineBcast::new(core, options).unwrap();
        for (number, &(root, bytes)) in series.iter().enumerate() {
            if (rank + number).is_multiple_of(7) {
                core.spend(Time::from_nanos(20_000));
            }
            let sent: Vec<_> = (0..bytes).map(|index| (index * 3 + number) as u8 | 1).collect();
            let mut got = if rank == root { sent.clone() } else { vec![0; bytes] };
            lines.broadcast(core, &mut got, root).await.unwrap();
            assert_eq!(got, sent, "{cores} cores, {options:?}, rank {rank}, number {number}");
        }
    });
    run.unwrap();
}

#[test]
fn all_sizes_roots_degrees_and_lengths() {
    for cores in (1..=12).chain([16, 33, 48]) {
        for degree in [1, 2, 3, 7, cores.max(2) - 1] {
            if degree >= cores.max(2) {
                continue;
            }
            for slots in [1, 2, 5] {
                let lengths = [0, 1, 23, 24, 25, 10 * 24 + 3];
                let series: Vec<_> = (0..2 * cores.max(3))
                    .map(|number| (number / 2 % cores, lengths[number % lengths.len()]))
                    .collect();
                check(cores, LineOptions { degree, slots, first_line: 3 }, &series);
            }
        }
    }
}

#[test]
fn what_can_not_be() {
    let machine = machine(4, 28);
    let new = |options| {
        let run = run(machine.clone(), async |core| LineBcast::new(core, options).err());
        run.unwrap().outputs[0]
    };
    let options = LineOptions { degree: 3, slots: 4, first_line: 0 };
    assert_eq!(new(options), None);
    let no_room = |slots, first_line| {
        Some(LineOptionsError::NoRoom { slots, ranks: 4, first_line, lines: 28 })
    };
    assert_eq!(new(LineOptions { slots: 5, ..options }), no_room(5, 0));
    assert_eq!(new(LineOptions { first_line: 1, ..options }), no_room(4, 1));
    assert_eq!(new(LineOptions { slots: usize::MAX, ..options }), no_room(usize::MAX, 0));
    assert_eq!(new(LineOptions { slots: 0, ..options }), Some(LineOptionsError::NoSlots));
    let degree = Some(LineOptionsError::Tree(TreeError::Degree { degree: 4, ranks: 4 }));
    assert_eq!(new(LineOptions { degree: 4, ..options }), degree);
}
