//! No rank goes on before all have come.

use std::{thread::sleep, time::Duration};

use mp_collectives::{
    barrier::{Barrier, Barriers, Central, Dissemination, Placement},
    collectives::{Algorithm, Settings},
    complete,
    near::Near,
};
use mp_core::{
    Error, ErrorKind, Rank, Result, World,
    mpb::{Line, Mpb, Mpbs},
};
use mp_model::cla::barrier::{Exchange, fewest_flags};

use crate::{
    mortal::{self, Mortal},
    support::{Random, Watchdog, on_all},
};

/// Flags with which each rank tells all others how far it has come.
struct Witness(Mpb);

impl Witness {
    fn new(rank: &Rank) -> Result<Self> {
        rank.mpb("witness", Mpbs::lines(rank.size())).map(Self)
    }

    fn come(&self, number: u64) -> Result<()> {
        let line = self.0.rank();
        (0..self.0.ranks()).try_for_each(|rank| self.0.set_flag(Line { rank, line }, number))
    }

    /// Checks that all ranks have come to barrier `number`, and none to the barrier after the next one.
    fn check(&self, number: u64) -> Result<()> {
        for rank in 0..self.0.ranks() {
            let come = self.0.flag(rank)?;
            ensure!(come == number || come == number + 1, "rank {rank}: {come} at {number}");
        }
        Ok(())
    }
}

fn forced(barrier: Barrier) -> Settings {
    Settings { barrier: Some(barrier), ..Settings::default() }
}

/// Waits, or arrives and waits, and is sometimes late.
fn series(rank: &Rank, settings: Settings, barriers: u64) -> Result<()> {
    let witness = Witness::new(rank)?;
    let mut all = Barriers::open(rank, "barriers", settings)?;
    let mut random = Random::new(rank.id() as u64);
    for number in 1..=barriers {
        if barriers < 100 && random.below(20) == 0 {
            sleep(Duration::from_micros(300));
        }
        witness.come(number)?;
        if random.below(3) == 0 {
            let arrived = all.arrive()?;
            if random.below(2) == 0 {
                std::thread::yield_now();
            }
            arrived.wait()?;
        } else {
            all.wait()?;
        }
        witness.check(number)?;
    }
    Ok(())
}

/// Returns m-way disseminations for all m, and some with several m.
fn disseminations(ranks: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    for ways in [1, 2, 3, ranks.max(2) - 1] {
        let (mut known, mut rounds) = (1, Vec::new());
        while known < ranks {
            known *= ways + 1;
            rounds.push(ways);
        }
        if ways < ranks && !all.contains(&rounds) {
            all.push(rounds);
        }
    }
    if ranks > 4 {
        all.push(vec![1, 2, ranks.div_ceil(6)]);
        all.push(vec![ranks.div_ceil(2) - 1, 1]);
    }
    all
}

#[test]
fn all_barriers_on_ranks_of_all_kinds() {
    for ranks in [1, 2, 3, 5, 8, 16] {
        on_all(ranks, |rank| {
            series(rank, Settings::default(), 40)?;
            series(rank, forced(Barrier::Central), 40)?;
            for ways in disseminations(ranks) {
                series(rank, forced(Barrier::Dissemination(ways)), 40)?;
            }
            Ok(())
        });
    }
}

#[test]
fn groups() {
    for (groups, within) in [
        (vec![0, 1, 0, 1, 1], vec![vec![1], vec![1, 1]]),
        (vec![0, 0, 0, 1], vec![vec![2], vec![]]),
        (vec![0, 1, 2, 2, 1, 0, 2], vec![vec![1], vec![1], vec![2]]),
        (vec![3, 3, 2, 0, 1, 4, 4, 4], vec![vec![], vec![], vec![], vec![1], vec![2]]),
    ] {
        on_all(groups.len(), |rank| {
            let others = within.len() - 1;
            let rounds = [vec![others], vec![1; others], fewest_flags(within.len())];
            let rounds = rounds.map(Exchange::Ways);
            for exchange in [Exchange::Pairs, Exchange::Roots].into_iter().chain(rounds) {
                let placement = Placement::new(groups.clone()).map_err(Error::other)?;
                let barrier = Barrier::Grouped { within: within.clone(), exchange };
                let (barrier, placement) = (Some(barrier), Some(placement));
                let settings = Settings { barrier, placement, ..Settings::default() };
                series(rank, settings, 60)?;
            }
            Ok(())
        });
    }
}

#[test]
fn thousands_in_a_row() {
    for ranks in [2, 4] {
        on_all(ranks, |rank| {
            series(rank, Settings::default(), 5_000)?;
            series(rank, forced(Barrier::Central), 2_000)
        });
    }
}

#[test]
fn what_was_arrived_at_and_not_waited_for_is_waited_for_next() {
    on_all(3, |rank| {
        let witness = Witness::new(rank)?;
        for barrier in [Barrier::Central, Barrier::Dissemination(vec![1, 1])] {
            let mut all = Barriers::open(rank, "dropped", forced(barrier))?;
            witness.come(1)?;
            drop(all.arrive()?);
            all.wait()?;
            witness.check(1)?;
            witness.come(2)?;
            drop(all.arrive()?);
            let again = all.arrive()?;
            // All ranks have passed the second barrier, and only come to the third.
            for rank in 0..3 {
                ensure!(witness.0.flag(rank)? >= 2, "rank {rank}");
            }
            again.wait()?;
            all.wait()?;
            witness.come(0)?;
            all.wait()?;
        }
        Ok(())
    });
}

#[test]
fn what_is_told_of_the_choice() {
    on_all(2, |rank| {
        let all = Barriers::open(rank, "told", Settings::default())?;
        let told = all.explain();
        let one_round = Algorithm::Barrier(Barrier::Dissemination(vec![1]), Near::All);
        ensure!(told.algorithm == one_round, "{told}");
        ensure!(all.rank() == rank.id(), "{}", all.rank());
        Ok(())
    });
}

#[test]
fn barriers_that_make_no_sense_are_refused() {
    on_all(4, |rank| {
        let refused = |settings: Settings| match Barriers::open(rank, "senseless", settings) {
            Ok(_) => Err(Error::other("was not refused")),
            Err(error) => Ok(error.to_string()),
        };
        for (barrier, why) in [
            (Barrier::Dissemination(vec![1]), "rank 0 does not know that rank 2 has come"),
            (Barrier::Dissemination(vec![]), "rank 0 does not know that rank 1 has come"),
            (Barrier::Dissemination(vec![0, 3]), "a round of a barrier sends 0 flags"),
            (Barrier::Dissemination(vec![usize::MAX]), "sends 18446744073709551615 flags"),
            (
                Barrier::Grouped { within: vec![vec![3], vec![]], exchange: Exchange::Pairs },
                "for 2 groups of ranks, but there are 1",
            ),
        ] {
            let told = refused(forced(barrier))?;
            ensure!(told.contains(why), "{told}");
        }
        let placement = Some(Placement::new(vec![0, 0, 1]).map_err(Error::other)?);
        let told = refused(Settings { placement, ..Settings::default() })?;
        ensure!(told.contains("for 3 ranks, but there are 4"), "{told}");
        let mpb = rank.mpb("small", Mpbs::lines(3))?;
        ensure!(Central::new(&mpb, 0).is_err(), "4 flags in 3 lines");
        ensure!(Dissemination::new(&mpb, &[1, 1], 2).is_err(), "2 flags in one line");
        ensure!(Dissemination::new(&mpb, &[1, 1], 1).is_ok(), "2 flags in two lines");
        Ok(())
    });
}

#[derive(Clone, Copy, Debug)]
struct Fate {
    ranks: usize,
    victim: usize,
    operations: u64,
    central: bool,
}

impl Fate {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(5) as usize;
        let victim = random.below(ranks as u64) as usize;
        Self { ranks, victim, operations: random.below(60), central: seed.is_multiple_of(2) }
    }
}

/// No rank passes a barrier that the victim had not come to, and all ranks hear of the loss.
fn until_death(rank: &Rank, fate: Fate, death: fn()) -> Result<()> {
    let mpb = rank.mpb("mortal", Mpbs::lines(40))?;
    let left = if rank.id() == fate.victim { fate.operations } else { u64::MAX };
    let mut mpb = Mortal { mpb, left, death };
    let ways = vec![1; fate.ranks.next_power_of_two().ilog2() as usize];
    let mut central = Central::new(&mpb, 20).map_err(Error::other)?;
    let mut dissemination = Dissemination::new(&mpb, &ways, 0).map_err(Error::other)?;
    loop {
        let passed = match fate.central {
            true => complete(central.wait(&mut mpb)),
            false => complete(dissemination.wait(&mut mpb)),
        };
        match passed.map_err(Error::into_kind) {
            Ok(()) => {}
            Err(ErrorKind::PeerLost { rank, .. }) if rank == fate.victim => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[test]
fn a_rank_dies_in_the_middle_of_a_barrier() {
    let _watchdog = Watchdog::start();
    for seed in 0..40 {
        let fate = Fate::of(seed);
        for world in [World::threads(fate.ranks), World::threads_on_heap(fate.ranks)] {
            mortal::panics(world, fate.victim, fate, |rank, death| until_death(rank, fate, death));
        }
    }
}

#[test]
fn a_rank_is_killed_in_the_middle_of_a_barrier() {
    for seed in 0..20 {
        let _watchdog = Watchdog::start();
        let fate = Fate::of(seed);
        let until_death = |rank: &Rank, death| until_death(rank, fate, death);
        mortal::is_killed(fate.ranks, fate.victim, fate, until_death);
    }
}
