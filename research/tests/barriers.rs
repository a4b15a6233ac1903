//! Barriers on simulated machines: no rank goes on before the last one has come.

use mp_collectives::barrier::{Barrier, Central, Dissemination, Placement};
use mp_core::mpb::MpbAccess;
use mp_model::Time;
use mp_model::cla::barrier::Exchange;
use onchip_research::sim::{Core, Layout, Machine, run};

fn machine(cores: usize) -> Machine {
    Machine { layout: Layout::shared(cores), lines: 200, ..Machine::scc() }
}

enum Any {
    Dissemination(Dissemination),
    Central(Central),
}

impl Any {
    async fn wait(&mut self, core: &mut Core) {
        match self {
            Any::Dissemination(barrier) => barrier.wait(core).await.unwrap(),
            Any::Central(barrier) => barrier.wait(core).await.unwrap(),
        }
    }

    async fn arrive(&mut self, core: &mut Core) {
        match self {
            Any::Dissemination(barrier) => barrier.arrive(core).await.unwrap(),
            Any::Central(barrier) => barrier.arrive(core).await.unwrap(),
        }
    }
}

/// Checks the times at which each core came to each barrier and went on.
fn check(cores: usize, what: &str, new: impl Fn(&Core) -> Any) {
    const BARRIERS: usize = 12;
    let run = run(machine(cores), async |core| {
        let rank = core.rank();
        let mut barrier = new(core);
        let mut times = Vec::new();
        for number in 0..BARRIERS {
            if (rank * 5 + number).is_multiple_of(7) {
                core.spend(Time::from_nanos(7_000));
            }
            let come = core.now();
            if (rank + number).is_multiple_of(3) {
                barrier.arrive(core).await;
                core.spend(Time::from_nanos(1_000));
            }
            barrier.wait(core).await;
            times.push((come, core.now()));
        }
        times
    });
    let times = run.unwrap().outputs;
    for number in 0..BARRIERS {
        let last = times.iter().map(|times| times[number].0).max().unwrap();
        for (rank, times) in times.iter().enumerate() {
            let gone = times[number].1;
            assert!(
                gone >= last,
                "{what}, {cores} cores: rank {rank} at {number}: {gone:?} {last:?}"
            );
        }
    }
}

#[test]
fn all_numbers_of_cores() {
    for cores in 1..=48_usize {
        check(cores, "central", |core| Any::Central(Central::new(core, 3).unwrap()));
        for ways in [1, 2, 4, cores.max(2) - 1] {
            if ways >= cores.max(2) {
                continue;
            }
            let (mut known, mut rounds) = (1, Vec::new());
            while known < cores {
                known *= ways + 1;
                rounds.push(ways);
            }
            check(cores, "m-way", |core| {
                Any::Dissemination(Dissemination::new(core, &rounds, 2).unwrap())
            });
        }
    }
}

#[test]
fn groups_of_unequal_sizes() {
    for cores in [2, 5, 16, 31] {
        for size in [1, 2, 7] {
            let placement = Placement::new((0..cores).map(|rank| rank / size).collect::<Vec<_>>());
            let placement = placement.unwrap();
            let ways =
                |group: &Vec<usize>| if group.len() > 1 { vec![group.len() - 1] } else { vec![] };
            let within: Vec<_> = placement.groups().iter().map(ways).collect();
            for exchange in [Exchange::Pairs, Exchange::Roots] {
                let barrier = Barrier::Grouped { within: within.clone(), exchange };
                let rounds = barrier.rounds(&placement);
                check(cores, "groups", |core| {
                    Any::Dissemination(Dissemination::with_rounds(core, &rounds, 0).unwrap())
                });
            }
        }
    }
}

/// In a barrier of two ranks, each sets one flag and waits for one. It must take as long as an exchange of flags.
#[test]
fn two_ranks_exchange_flags() {
    let times = |barrier: bool| {
        let run = run(machine(2), async |core| {
            let other = 1 - core.rank();
            if barrier {
                Dissemination::new(core, &[1], 0).unwrap().wait(core).await.unwrap();
            } else {
                let flag = mp_core::mpb::Line { rank: other, line: 0 };
                core.set_flag(flag, 1).await.unwrap();
                core.wait_flag(0, |seen| seen == 1).await.unwrap();
            }
            core.now()
        });
        run.unwrap().outputs
    };
    assert_eq!(times(true), times(false));
}
