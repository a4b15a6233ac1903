//! Barriers on simulated machines: no rank goes on before the last one has come.

use mp_collectives::barrier::{Barrier, BarrierError, Central, Dissemination, Placement};
use mp_core::mpb::MpbAccess;
use mp_model::Time;
use mp_model::cla::barrier::{Exchange, Round};
use mp_model::cla::chance::Chance;
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

/// Returns what each rank does not know after these rounds: the first rank that lacks one, and the first that it lacks.
fn unaware(rounds: &[Vec<Round>]) -> Option<BarrierError> {
    let ranks = rounds.len();
    let mut known: Vec<Vec<bool>> =
        (0..ranks).map(|me| (0..ranks).map(|of| of == me).collect()).collect();
    for number in 0..rounds.iter().map(Vec::len).max()? {
        let before = known.clone();
        for (known, rounds) in known.iter_mut().zip(rounds) {
            for &setter in rounds.get(number).map_or(&[][..], |round| &round.reads) {
                known.iter_mut().zip(&before[setter]).for_each(|(known, theirs)| *known |= theirs);
            }
        }
    }
    let lacks = |known: &Vec<bool>| known.iter().position(|known| !known);
    let (rank, of) =
        known.iter().enumerate().find_map(|(rank, known)| Some((rank, lacks(known)?)))?;
    Some(BarrierError::Unaware { rank, of })
}

/// Rounds at random: some are barriers, and most are not.
#[test]
fn rounds_after_which_a_rank_does_not_know_all_are_refused() {
    let (mut chance, mut barriers) = (Chance::new(1), 0);
    for case in 0..400 {
        let ranks = 2 + case % 7;
        let mut round = || {
            let mut reads: Vec<usize> = (0..chance.draw(4)).map(|_| chance.draw(ranks)).collect();
            reads.sort_unstable();
            reads.dedup();
            Round { writes: true, reads }
        };
        let rounds: Vec<Vec<Round>> =
            (0..ranks).map(|_| (0..4).map(|_| round()).collect()).collect();
        let run = run(machine(ranks), async |core| {
            Dissemination::with_rounds(core, &rounds, 0).map(|_| ())
        });
        let expected = unaware(&rounds).map_or(Ok(()), Err);
        barriers += usize::from(expected.is_ok());
        assert!(run.unwrap().outputs.iter().all(|got| *got == expected), "{rounds:?}");
    }
    assert!((40..360).contains(&barriers), "{barriers}");
}

#[test]
fn rounds_for_other_ranks_are_refused() {
    let round = |reads| vec![Round { writes: true, reads }];
    for (rounds, given) in [
        (vec![round(vec![1])], 1),
        (vec![round(vec![1]), round(vec![0]), round(vec![0])], 3),
        (vec![round(vec![1]), round(vec![7])], 8),
    ] {
        let run =
            run(machine(2), async |core| Dissemination::with_rounds(core, &rounds, 0).map(|_| ()));
        let expected = Err(BarrierError::Ranks { given, ranks: 2 });
        assert_eq!(run.unwrap().outputs, [expected; 2]);
    }
}
