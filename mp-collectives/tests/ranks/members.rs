//! Collectives of some ranks of the world.

use mp_collectives::{
    Members,
    barrier::{self, Barriers},
    broadcast::{self, Broadcasts},
    reduce::{self, Reductions, Sum},
};
use mp_core::{Error, ErrorKind, Rank, Result, World};

use crate::support::{Random, Watchdog, on_all, scenarios};

/// All fronts of some ranks.
struct Fronts<'a> {
    ranks: &'a [usize],
    barriers: Barriers,
    broadcasts: Broadcasts,
    reductions: Reductions,
}

impl<'a> Fronts<'a> {
    fn open(rank: &Rank, name: &str, ranks: &'a [usize]) -> Result<Fronts<'a>> {
        let members = Members::of(rank, ranks);
        let named = |what: &str| format!("{what} of {name}");
        Ok(Fronts {
            ranks,
            barriers: Barriers::open(members, &named("barriers"), barrier::Settings::default())?,
            broadcasts: Broadcasts::open(members, &named("casts"), broadcast::Settings::default())?,
            reductions: Reductions::open(members, &named("sums"), reduce::Settings::default())?,
        })
    }

    /// Calls one of each operation, with so many elements whose numbers follow from `seed`.
    fn call(&mut self, rank: &Rank, seed: u64, length: usize) -> Result<()> {
        let mut random = Random::new(seed);
        let root = random.below(self.ranks.len() as u64) as usize;
        let of = |rank: usize| (rank as u64 + 1).wrapping_mul(seed + 7);
        let me = self.broadcasts.rank();
        ensure!(self.ranks[me] == rank.id(), "{me} of {:?}", self.ranks);
        let mut message = vec![of(rank.id()); length];
        self.broadcasts.broadcast(&mut message, root)?;
        ensure!(message == vec![of(self.ranks[root]); length], "broadcast {seed}");
        let sum = |ranks: &[usize]| vec![ranks.iter().map(|&rank| of(rank)).sum::<u64>(); length];
        let mut vector = vec![of(rank.id()); length];
        self.reductions.all_reduce(&mut vector, Sum)?;
        ensure!(vector == sum(self.ranks), "all-reduce {seed}");
        let mut vector = vec![of(rank.id()); length];
        self.reductions.scan(&mut vector, Sum)?;
        ensure!(vector == sum(&self.ranks[..=me]), "scan {seed}");
        let mut vector = vec![of(rank.id()); length];
        self.reductions.reduce(&mut vector, Sum, root)?;
        ensure!(me != root || vector == sum(self.ranks), "reduce {seed}");
        self.barriers.wait()
    }
}

#[test]
fn halves_of_a_world_by_themselves() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let half: Vec<_> =
                (0..ranks).rev().filter(|other| other % 2 == rank.id() % 2).collect();
            let mut fronts = Fronts::open(rank, "half", &half)?;
            for (seed, length) in (0..).zip([0, 1, 21, 22, 500, 3_000, 40_000, 1]) {
                fronts.call(rank, seed, length)?;
            }
            Ok(())
        });
    }
}

#[test]
fn groups_that_overlap_by_turns() {
    on_all(4, |rank| {
        let groups: [(&str, &[usize]); 4] =
            [("a", &[2, 0]), ("b", &[1, 2, 3]), ("c", &[3, 0, 1]), ("d", &[3, 2, 1, 0])];
        let mine = groups.into_iter().filter(|(_, ranks)| ranks.contains(&rank.id()));
        let mut mine: Vec<_> =
            mine.map(|(name, ranks)| Fronts::open(rank, name, ranks)).collect::<Result<_>>()?;
        for (seed, length) in (0..).zip([3, 1_000, 1, 20_000, 30]) {
            for fronts in &mut mine {
                fronts.call(rank, seed, length)?;
            }
        }
        Ok(())
    });
}

/// Rank 1 dies. The ranks outside of its objects go on, and the others hear of it: at once in all objects, or in one
/// after another.
fn one_dies(rank: &Rank, die: fn(), by_and_by: bool) -> Result<()> {
    let ranks: &[usize] = if rank.id() < 3 { &[2, 1, 0] } else { &[4, 3] };
    let mut fronts = Fronts::open(rank, "part", ranks)?;
    fronts.call(rank, 0, 10)?;
    if rank.id() == 1 {
        die();
    }
    for seed in 1..200 {
        match fronts.call(rank, seed, 100).map_err(Error::into_kind) {
            Ok(()) => {}
            // The error names the rank's number in the world.
            Err(ErrorKind::PeerLost { rank: 1, .. }) if rank.id() < 3 => return Ok(()),
            // A thread that panics leaves one object after the other. Another member may hear of it in the first
            // object, and close the others earlier.
            Err(ErrorKind::Disconnected { .. }) if by_and_by && rank.id() < 3 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(rank.id() >= 3, "nobody said that it was lost");
    Ok(())
}

#[test]
fn a_death_is_for_members_alone() {
    let panics = |rank: &Rank, die| one_dies(rank, die, true);
    crate::mortal::panics(World::threads(5), 1, "a panic", panics);
    let _watchdog = Watchdog::start();
    let result =
        World::processes(5).run(|rank| one_dies(rank, || match scenarios::die() {}, false));
    scenarios::check(result, 1).unwrap();
}

#[test]
fn no_members_at_all() {
    on_all(2, |rank| {
        let nobody = Members::of(rank, &[]);
        let refused = |result: Option<Error>| match result.map(Error::into_kind) {
            Some(ErrorKind::BadMpbs { .. }) => Ok(()),
            other => Err(Error::other(format!("{other:?}"))),
        };
        refused(Barriers::open(nobody, "none", barrier::Settings::default()).err())?;
        refused(Broadcasts::open(nobody, "none", broadcast::Settings::default()).err())?;
        refused(Reductions::open(nobody, "none", reduce::Settings::default()).err())
    });
}
