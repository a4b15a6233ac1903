//! Communicators made from others: their members, and that their messages never mix.

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator, Group, Shared};
use mp_core::{Bind, ErrorKind, Result};

use crate::{
    missing,
    support::{Random, SIZES, on_all, on_all_with},
};

/// Each rank sends its number to all others through this communicator.
fn roll_call(communicator: &Communicator, wanted: &[usize]) -> Result<()> {
    ensure!(communicator.size() == wanted.len(), "{communicator:?} for {wanted:?}");
    for (rank, &world) in wanted.iter().enumerate() {
        ensure!(communicator.world_rank(rank)? == world, "{communicator:?} for {wanted:?}");
    }
    let me = communicator.rank();
    for to in (0..wanted.len()).filter(|&to| to != me) {
        communicator.send(&[me as u64, wanted[me] as u64], to, 4)?;
    }
    let mut seen = vec![false; wanted.len()];
    for _ in 1..wanted.len() {
        let mut who = [0u64; 2];
        let status = communicator.receive_into(&mut who, ANY_SOURCE, ANY_TAG)?;
        let source = status.source;
        ensure!(who == [source as u64, wanted[source] as u64], "{who:?} as {source}");
        ensure!(!std::mem::replace(&mut seen[source], true), "{source} twice");
    }
    Ok(())
}

#[test]
fn splits_have_the_ranks_of_their_color_in_order() {
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            roll_call(&world, &(0..size).collect::<Vec<_>>())?;
            for seed in 0..4 {
                let mut random = Random::new(seed);
                let colors: Vec<Option<u64>> =
                    (0..size).map(|_| Some(random.below(3)).filter(|&c| c < 2)).collect();
                let keys: Vec<i64> = (0..size).map(|_| random.below(5) as i64 - 2).collect();
                let me = world.rank();
                let part = world.split(colors[me], keys[me])?;
                ensure!(part.is_some() == colors[me].is_some(), "a color, and no communicator");
                let Some(part) = part else { continue };
                let mut wanted: Vec<usize> =
                    (0..size).filter(|&rank| colors[rank] == colors[me]).collect();
                wanted.sort_by_key(|&rank| keys[rank]);
                roll_call(&part, &wanted)?;
                // Splits the part once more.
                let half = part.split(Some((part.rank() % 2) as u64), 0)?;
                let odd = part.rank() % 2;
                let wanted: Vec<usize> = wanted.into_iter().skip(odd).step_by(2).collect();
                if let Some(half) = half {
                    roll_call(&half, &wanted)?;
                }
            }
            Ok(())
        });
    }
}

/// The same message is sent in several contexts, and received in the opposite order.
#[test]
fn contexts_never_mix() {
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let (me, size) = (world.rank(), world.size());
            let copy = world.duplicate()?;
            let again = copy.duplicate()?;
            let back = world.split(Some(0), -(me as i64))?.ok_or_else(missing)?;
            let second = Communicator::world(rank);
            let all = [&world, &copy, &again, &second];
            for len in [1, 10, 3000] {
                for (i, communicator) in all.iter().enumerate() {
                    communicator.buffered_send(&vec![i as u32; len], (me + 1) % size, 1)?;
                }
                back.buffered_send(&vec![9u32; len], (back.rank() + 1) % size, 1)?;
                let (got, status) = back.receive_vec::<u32>(ANY_SOURCE, ANY_TAG)?;
                ensure!(got == vec![9; len], "of another context: {status:?}");
                ensure!(status.source == (back.rank() + size - 1) % size, "{status:?}");
                for (i, communicator) in all.iter().enumerate().rev() {
                    let (got, status) = communicator.receive_vec::<u32>(ANY_SOURCE, ANY_TAG)?;
                    ensure!(got == vec![i as u32; len], "{i}: of another context: {status:?}");
                }
            }
            Ok(())
        });
    }
}

/// Compares groups with sets of numbers.
#[test]
fn groups_are_sets() {
    on_all(8, |rank| {
        let world = Communicator::world(rank).group();
        let mut random = Random::new(5);
        let mut some = || {
            let mut ranks: Vec<usize> = (0..8).collect();
            random.shuffle(&mut ranks);
            ranks.truncate(random.below(9) as usize);
            ranks
        };
        let members = |group: &Group| -> Result<Vec<usize>> {
            let all: Vec<usize> = (0..group.size()).collect();
            let ranks = group.translate(&all, &world);
            ranks.into_iter().map(|rank| rank.ok_or_else(missing)).collect()
        };
        for _ in 0..50 {
            let (a, b) = (some(), some());
            let (ga, gb) = (world.include(&a)?, world.include(&b)?);
            ensure!(members(&ga)? == a && ga.size() == a.len(), "{a:?}");
            ensure!(ga.rank() == a.iter().position(|&r| r == rank.id()), "{a:?}");
            let not = |set: &[usize], of: &[usize]| -> Vec<usize> {
                of.iter().copied().filter(|rank| !set.contains(rank)).collect()
            };
            ensure!(members(&world.exclude(&a)?)? == not(&a, &[0, 1, 2, 3, 4, 5, 6, 7]), "{a:?}");
            ensure!(members(&ga.union(&gb))? == [a.clone(), not(&a, &b)].concat(), "{a:?} {b:?}");
            ensure!(members(&ga.difference(&gb))? == not(&b, &a), "{a:?} {b:?}");
            ensure!(members(&ga.intersection(&gb))? == not(&not(&b, &a), &a), "{a:?} {b:?}");
            let places: Vec<_> = a.iter().map(|r| b.iter().position(|other| other == r)).collect();
            ensure!(ga.translate(&(0..a.len()).collect::<Vec<_>>(), &gb) == places, "{a:?} {b:?}");
            let (mut sa, mut sb) = (a.clone(), b.clone());
            sa.sort_unstable();
            sb.sort_unstable();
            ensure!(ga.is_similar(&gb) == (sa == sb) && (ga == gb) == (a == b), "{a:?} {b:?}");
        }
        let twice = world.include(&[1, 1]).unwrap_err();
        ensure!(matches!(twice.kind(), ErrorKind::BadCall { .. }), "{twice}");
        let none = world.exclude(&[8]).unwrap_err();
        ensure!(matches!(none.kind(), ErrorKind::NoSuchRank { rank: 8, size: 8 }), "{none}");
        ensure!(world.translate(&[9], &world) == [None], "a rank that there is not");
        Ok(())
    });
}

#[test]
fn groups_become_communicators() {
    on_all(5, |rank| {
        let world = Communicator::world(rank);
        for ranks in [&[3, 0, 4][..], &[2], &[], &[4, 3, 2, 1, 0]] {
            let group = world.group().include(ranks)?;
            match world.create(&group)? {
                Some(part) => roll_call(&part, ranks)?,
                None => ensure!(!ranks.contains(&world.rank()), "no communicator for a member"),
            }
        }
        // The groups of the ranks differ, and the next one contains ranks that do not exist.
        let mine = world.group().include(&[world.rank() / 4])?;
        let error = world.create(&mine).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::BadCall { .. }), "{error}");
        let odd = world.split(Some(world.rank() as u64 % 2), 0)?.ok_or_else(missing)?;
        let error = odd.create(&world.group()).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::BadCall { .. }), "{error}");
        Ok(())
    });
}

#[test]
fn ranks_that_call_something_else_are_named() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let error = match world.rank() {
            1 => world.split(Some(0), 0).err(),
            _ => world.duplicate().err(),
        };
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        ensure!(text.contains("duplicate") && text.contains("split"), "{text:?}");
        // After that the communicator can be used again.
        roll_call(&world.duplicate()?, &[0, 1, 2])
    });
}

/// Ranks bound to one CPU share its core, its cache and its package.
#[test]
fn ranks_are_put_together_by_what_they_share() {
    for shared in [Shared::Package, Shared::Cache, Shared::Core] {
        on_all_with(
            1,
            |world| world.bind(Bind::List(vec![0])),
            |rank| {
                let world = Communicator::world(rank);
                roll_call(&world.split_shared(shared)?, &[0])
            },
        );
        on_all(3, |rank| {
            let world = Communicator::world(rank);
            let part = world.split_shared(shared)?;
            ensure!(part.world_rank(part.rank())? == rank.id(), "{part:?}");
            Ok(())
        });
    }
}

/// Each communicator has its own state of joint operations, and their messages are not received elsewhere.
#[test]
fn joint_operations_have_a_room_of_their_own() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let copy = world.duplicate()?;
        let second = Communicator::world(rank);
        let made = |communicator: &Communicator, what: u32| -> Result<u32> {
            Ok(*communicator.joint().keep(|_| Ok(what))?)
        };
        ensure!(made(&world, 1)? == 1 && made(&copy, 2)? == 2, "each its own");
        ensure!(made(&world, 3)? == 1, "made twice");
        ensure!(*world.joint().keep(|joint| Ok(joint.world_ranks()))? == [0, 1], "another type");
        let error = world.joint().keep(|_| Err::<u8, _>(missing())).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::Other(_)), "{error}");
        ensure!(*world.joint().keep(|_| Ok(4u8))? == 4, "nothing was kept after an error");

        let names = [&world, &copy, &second].map(|of| of.joint().name("lines"));
        ensure!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
        let name: Vec<u8> = names[1].bytes().collect();
        world.joint().send(&name, other, 1)?;
        world.send(&[0u8], other, 1)?;
        ensure!(world.receive::<u8>(ANY_SOURCE, ANY_TAG)?.0 == 0, "the joint one came");
        let mut theirs = vec![0; name.len()];
        world.joint().receive_into(&mut theirs, other, 1)?;
        ensure!(theirs == name, "names differ");
        ensure!(world.joint().send(&name, other, 1 << 31).is_err(), "a tag that is taken");
        Ok(())
    });
}
