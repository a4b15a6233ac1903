//! The map with every scheme.

use mp_core::{Error, ErrorKind, Rank, Result};
use mp_delegate::critical::{
    Protected, Scheme, Section,
    objects::{Bytes, Map, MapOp, Table, TableFull},
};

use crate::{
    objects::{expect, users, with},
    support::{Random, Together, on_all},
};

const RANKS: usize = 3;

fn section(scheme: Scheme, capacity: usize) -> Section {
    Section::new(scheme).len(capacity)
}

/// Each rank has its own keys, and knows their values. They collide with the keys of other ranks.
#[test]
fn every_rank_finds_its_own_keys() {
    on_all(RANKS, |rank| {
        for scheme in Scheme::ALL {
            for capacity in [0, 1, 40, 64] {
                with::<Map<u32, [u64; 3]>, _>(rank, section(scheme, capacity), |map| {
                    own_keys(rank, map, capacity)
                })?;
            }
        }
        Ok(())
    });
}

fn own_keys(
    rank: &Rank,
    map: &Protected<Map<u32, [u64; 3]>>,
    capacity: usize,
) -> mp_core::Result<()> {
    const KEYS: usize = 20;
    // With 64 places there is always room.
    let room = capacity >= KEYS * RANKS;
    let mut random = Random::new(rank.id() as u64);
    let mut model = [None; KEYS];
    for round in 1..200 {
        let index = random.below(KEYS as u64) as usize;
        let key = (index * RANKS + rank.id()) as u32;
        let new = [round, u64::from(key), round];
        let value = Some(new);
        let is = model[index];
        match random.below(6) {
            0 | 1 => {
                let answer = map.insert(key, new)?;
                expect(answer.is_err() && (room || is.is_some()), false)?;
                if let Ok(before) = answer {
                    expect(before, is)?;
                    model[index] = value;
                }
            }
            2 => {
                expect(map.remove(key)?, is)?;
                model[index] = None;
            }
            3 => {
                let answer = map.compare_and_swap(key, is, value)?;
                expect(answer.is_done(), !answer.is_full())?;
                expect(answer.is_full() && (room || is.is_some()), false)?;
                if answer.is_done() {
                    expect(answer.before(), is)?;
                    model[index] = value;
                }
            }
            4 => {
                let answer = map.compare_and_swap(key, value, None)?;
                expect((answer.is_done(), answer.before()), (false, is))?;
                let answer = map.compare_and_swap(key, is, None)?;
                expect((answer.is_done(), answer.before()), (true, is))?;
                model[index] = None;
            }
            _ => expect(map.get(key)?, is)?,
        }
        expect(map.len()? <= capacity, true)?;
    }
    Ok(())
}

/// All ranks add to the same keys, based on the values they have read.
#[test]
fn nothing_is_lost_between_ranks() {
    const TIMES: u64 = 200;
    let sums = on_all(RANKS, |rank| {
        let mut sums = Vec::new();
        for scheme in Scheme::ALL {
            let sum = with::<Map<Bytes<7>, u64>, _>(rank, section(scheme, 5), |map| {
                let keys = ["", "a", "b", "key", "longest"];
                for time in 0..TIMES {
                    let key = Bytes::new(keys[time as usize % 5].as_bytes())
                        .map_err(mp_core::Error::other)?;
                    let mut seen = map.get(key)?;
                    loop {
                        let more = Some(seen.unwrap_or(0) + 1);
                        let answer = map.compare_and_swap(key, seen, more)?;
                        if answer.is_done() {
                            break;
                        }
                        seen = answer.before();
                    }
                }
                meet(rank, scheme)?;
                let sum = keys.iter().try_fold(0, |sum, key| {
                    let key = Bytes::new(key.as_bytes()).map_err(mp_core::Error::other)?;
                    Ok::<u64, mp_core::Error>(sum + map.get(key)?.unwrap_or(0))
                })?;
                meet(rank, scheme)?;
                Ok(sum)
            })?;
            sums.push(sum);
        }
        Ok(sums)
    });
    for (at, scheme) in Scheme::ALL.into_iter().enumerate() {
        let wanted = TIMES * users(scheme, RANKS);
        let serves = usize::from(scheme.needs_server());
        assert!(sums[serves..].iter().all(|rank| rank[at] == wanted), "{scheme}: {sums:?}");
    }
}

/// Waits for the other users of the map, which are all ranks or all but rank 0.
fn meet(rank: &Rank, scheme: Scheme) -> Result<()> {
    if !scheme.needs_server() {
        return Together::new(rank)?.wait();
    }
    let peer = 3 - rank.id();
    let one = mp_core::Channel::degree(1);
    rank.sender::<u8>("met", peer, one)?.send(&0)?;
    rank.receiver::<u8>("met", peer, one)?.receive().map(drop)
}

#[test]
fn operations_in_flight_come_in_order() {
    on_all(2, |rank| {
        for scheme in Scheme::ALL {
            with::<Map<u64, u64>, _>(rank, section(scheme, 100), |map| {
                let key = rank.id() as u64;
                let ops = [
                    MapOp::insert(key, 1),
                    MapOp::get(key),
                    MapOp::compare_and_swap(key, Some(1), Some(2)),
                    MapOp::compare_and_swap(key, Some(1), Some(3)),
                    MapOp::remove(key),
                    MapOp::get(key),
                ];
                let requests =
                    ops.map(|op| map.submit(op)).into_iter().collect::<Result<Vec<_>, _>>()?;
                let answers = requests
                    .into_iter()
                    .map(|request| request.wait())
                    .map(|answer| answer.map(|answer| (answer.is_done(), answer.before())))
                    .collect::<Result<Vec<_>, _>>()?;
                let wanted = [
                    (true, None),
                    (true, Some(1)),
                    (true, Some(1)),
                    (false, Some(2)),
                    (true, Some(2)),
                    (false, None),
                ];
                expect(answers.as_slice(), &wanted)
            })?;
        }
        Ok(())
    });
}

#[test]
fn a_lock_gives_the_whole_table() {
    on_all(2, |rank| {
        let map = Protected::<Map<u8, ()>>::open(rank, "map", section(Scheme::Clh, 3), |state| {
            // The value is made once, with one entry.
            let _ = Table::new(state).insert(7, ());
        })?;
        let mut others = Together::new(rank)?;
        others.wait()?;
        {
            let mut guard = map.lock()?;
            let table = Table::new(&mut guard);
            expect((table.capacity(), table.get(7), table.get(8)), (3, Some(()), None))?;
            expect(table.iter().collect::<Vec<_>>(), vec![(7, ())])?;
        }
        others.wait()?;
        if rank.id() == 0 {
            expect([map.insert(8, ())?, map.insert(9, ())?], [Ok(None); 2])?;
            expect([map.insert(10, ())?, map.insert(9, ())?], [Err(TableFull), Ok(Some(()))])?;
            expect((map.repair()?, map.clear()?, map.is_empty()?), (0, 3, true))?;
        }
        Ok(())
    });
}

#[test]
fn all_ranks_must_want_the_same_map() {
    on_all(2, |rank| {
        let mut others = Together::new(rank)?;
        let open = |capacity| {
            let section = section(Scheme::Mcs, capacity);
            Protected::<Map<u8, u8>>::open(rank, "map", section, |_| ())
        };
        let first = (rank.id() == 0).then(|| open(10)).transpose()?;
        others.wait()?;
        if rank.id() == 1 {
            let other = open(11);
            expect(
                matches!(
                    other.as_ref().map_err(Error::kind),
                    Err(ErrorKind::ObjectMismatch { .. })
                ),
                true,
            )?;
        }
        others.wait()?;
        drop(first);
        Ok(())
    });
}
