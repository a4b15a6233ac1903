//! Grids of ranks, and the exchange of borders against one sequential block.

use mp_collectives::communicator::{Cartesian, Communicator, dims_create, share};
use mp_core::{ErrorKind, Result};

use crate::{missing, support::on_all};

#[test]
fn coordinates_and_ranks_are_each_others_inverse() {
    on_all(8, |rank| {
        let world = Communicator::world(rank);
        for dimensions in [&[8][..], &[2, 4], &[2, 2, 2], &[3, 2], &[1, 5, 1], &[1]] {
            for closed in [false, true] {
                let periodic = vec![closed; dimensions.len()];
                let grid = world.cartesian(dimensions, &periodic)?;
                let places: usize = dimensions.iter().product();
                ensure!(grid.is_some() == (world.rank() < places), "{dimensions:?}");
                let Some(grid) = grid else { continue };
                ensure!(grid.size() == places && grid.rank() == world.rank(), "{grid:?}");
                for place in 0..places {
                    let at = grid.coordinates(place)?;
                    let mut at: Vec<isize> = at.into_iter().map(|c| c as isize).collect();
                    ensure!(grid.rank_at(&at) == Some(place), "{at:?} in {dimensions:?}");
                    at[0] += dimensions[0] as isize * 3;
                    ensure!(grid.rank_at(&at) == Some(place).filter(|_| closed), "{at:?}");
                    at[0] -= dimensions[0] as isize * 6;
                    ensure!(grid.rank_at(&at) == Some(place).filter(|_| closed), "{at:?}");
                }
                ensure!(grid.rank_at(&[]).is_none() && grid.coordinates(places).is_err(), "none");
                ensure!(grid.shift(dimensions.len(), 1).is_err(), "no such dimension");
                for dimension in 0..dimensions.len() {
                    // Messages that are shifted by some places come from the same distance on the other side.
                    for by in [-2, -1, 0, 1, 3] {
                        let (from, to) = grid.shift(dimension, by)?;
                        let mut got = [usize::MAX; 1].map(|n| n as u64);
                        let mut exchange = grid.exchange();
                        let mine = [grid.rank() as u64];
                        if let Some(to) = to {
                            exchange.send(&mine, to, 1);
                        }
                        if let Some(from) = from {
                            exchange.receive(&mut got, from, 1);
                        }
                        exchange.run()?;
                        ensure!(from.is_none_or(|from| got == [from as u64]), "{got:?}, {from:?}");
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn parts_of_grids() {
    on_all(8, |rank| {
        let world = Communicator::world(rank);
        let grid = world.cartesian(&[2, 2, 2], &[true, false, true])?.ok_or_else(missing)?;
        let mine = grid.coordinates(grid.rank())?;
        for keep in 0..8u8 {
            let keep = [keep & 1 != 0, keep & 2 != 0, keep & 4 != 0];
            let part = grid.sub(&keep)?;
            let kept = |all: &[usize]| -> Vec<usize> {
                all.iter().zip(keep).filter(|(_, keep)| *keep).map(|(c, _)| *c).collect()
            };
            ensure!(part.dimensions() == kept(&[2, 2, 2]), "{keep:?}: {part:?}");
            ensure!(part.coordinates(part.rank())? == kept(&mine), "{keep:?}: {part:?}");
            for place in 0..part.size() {
                let at = grid.coordinates(part.world_rank(place)?)?;
                let same = (0..3).all(|i| keep[i] || at[i] == mine[i]);
                ensure!(same && part.coordinates(place)? == kept(&at), "{keep:?}: {part:?}");
            }
        }
        ensure!(grid.sub(&[true]).is_err(), "two dimensions are not spoken of");
        Ok(())
    });
}

#[test]
fn grids_that_can_not_be() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        for (dimensions, periodic) in [
            (&[4][..], &[true][..]),
            (&[], &[]),
            (&[0], &[true]),
            (&[3], &[]),
            (&[usize::MAX; 2], &[true; 2]),
        ] {
            let error = world.cartesian(dimensions, periodic).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::BadCall { .. }), "{dimensions:?}: {error}");
        }
        let error = world.cartesian(&[1 + world.rank().min(1)], &[true]).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::BadCall { .. }), "{error}");
        let grid = world.cartesian(&[3], &[true])?.ok_or_else(missing)?;
        ensure!(grid.halo::<u8>(&[1], &[], 2).is_err(), "less than the halo");
        ensure!(grid.halo::<u8>(&[4, 4], &[], 1).is_err(), "two dimensions");
        let mut halo = grid.halo::<u8>(&[4], &[3], 1)?;
        ensure!(halo.len() == 18 && !halo.is_empty(), "{}", halo.len());
        ensure!(halo.exchange(&mut [0; 17]).is_err(), "another length");
        Ok(())
    });
}

/// Returns all places of a box, row by row.
fn places(extents: &[usize]) -> Vec<Vec<usize>> {
    extents.iter().fold(vec![Vec::new()], |places, &extent| {
        let longer = |place: Vec<usize>| (0..extent).map(move |i| [&place[..], &[i]].concat());
        places.into_iter().flat_map(longer).collect()
    })
}

const OUTSIDE: u64 = u64::MAX;

/// Returns the value at a place of the whole, which may lie outside of it.
fn at(place: &[isize], whole: &[usize], periodic: &[bool]) -> u64 {
    let mut number = 0;
    for (i, &c) in place.iter().enumerate() {
        let extent = whole[i] as isize;
        if !periodic[i] && !(0..extent).contains(&c) {
            return OUTSIDE;
        }
        number = number * 1000 + c.rem_euclid(extent) as u64;
    }
    number
}

fn borders(grid: &Cartesian, whole: &[usize], row: usize, width: usize) -> Result<()> {
    let mine = grid.coordinates(grid.rank())?;
    let shares: Vec<_> =
        (0..whole.len()).map(|i| share(whole[i], grid.dimensions()[i], mine[i])).collect();
    let own: Vec<usize> = shares.iter().map(|share| share.len()).collect();
    let mut halo = grid.halo::<u64>(&own, &[row], width)?;
    let extents = halo.extents().to_vec();
    ensure!(extents.iter().zip(&own).all(|(e, own)| *e == own + 2 * width), "{extents:?}");
    let mut block = vec![OUTSIDE; halo.len()];
    for round in 0..3u64 {
        let mut wanted = Vec::new();
        for (number, place) in places(&extents).into_iter().enumerate() {
            let global: Vec<isize> = (place.iter().zip(&shares))
                .map(|(&c, share)| c as isize - width as isize + share.start as isize)
                .collect();
            let inside =
                (place.iter().zip(&own)).all(|(&c, own)| (width..width + own).contains(&c));
            let value = at(&global, whole, grid.periodic());
            for i in 0..row {
                let value = if value == OUTSIDE { value } else { value * 10 + i as u64 + round };
                wanted.push(value);
                if inside {
                    block[number * row + i] = value;
                }
            }
        }
        halo.exchange(&mut block)?;
        ensure!(
            block == wanted,
            "{whole:?} in {:?}, width {width}, round {round}",
            grid.dimensions()
        );
    }
    Ok(())
}

/// In one to three dimensions, with lengths that can't be divided evenly, closed and open. A rank may be its own
/// neighbour.
#[test]
fn borders_are_those_of_the_whole() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            for whole in [&[17][..], &[11, 9], &[9, 10, 7]] {
                let dimensions = dims_create(ranks, &vec![0; whole.len()])?;
                for closed in 0..1 << whole.len() {
                    let periodic: Vec<bool> =
                        (0..whole.len()).map(|i| closed >> i & 1 == 1).collect();
                    let grid = world.cartesian(&dimensions, &periodic)?.ok_or_else(missing)?;
                    for (row, width) in [(1, 1), (3, 1), (1, 0)] {
                        borders(&grid, whole, row, width)?;
                    }
                    let smallest = (whole.iter().zip(&dimensions)).map(|(w, d)| w / d).min();
                    if smallest >= Some(2) {
                        borders(&grid, whole, 1, 2)?;
                    }
                }
            }
            Ok(())
        });
    }
}

/// The rows do not fit into any channel.
#[test]
fn borders_of_any_size() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let grid = world.cartesian(&[3], &[true])?.ok_or_else(missing)?;
        borders(&grid, &[8], 150_001, 2)
    });
}

/// If the block of a rank differs, the rank and its neighbours get an error, and the next exchange works. This also
/// holds for ranks that heard of the difference in only one of several dimensions.
#[test]
fn a_halo_works_after_one_that_differed() {
    for (ranks, dimensions) in [(3, &[3][..]), (4, &[2, 2])] {
        for len in [1, 100, 20_000] {
            on_all(ranks, |rank| {
                let world = Communicator::world(rank);
                let periodic = vec![false; dimensions.len()];
                let grid = world.cartesian(dimensions, &periodic)?.ok_or_else(missing)?;
                let own = vec![1; dimensions.len()];
                for _ in 0..2 {
                    let more = if grid.rank() == 1 { len + 1 } else { len };
                    let mut odd = grid.halo::<u64>(&own, &[more], 1)?;
                    let neighbours = ranks == 3 || grid.rank() != 2;
                    let mut block = vec![5; odd.len()];
                    ensure!(odd.exchange(&mut block).is_err() == neighbours, "{}", grid.rank());
                    let mut other = grid.halo::<u8>(&own, &[len], 1)?;
                    let mut alien = grid.halo::<i8>(&own, &[len], 1)?;
                    let exchanged = match grid.rank() {
                        0 => alien.exchange(&mut vec![1; other.len()]),
                        _ => other.exchange(&mut vec![1; other.len()]),
                    };
                    ensure!(exchanged.is_err() || grid.rank() + 1 == ranks, "{}", grid.rank());
                    let mut halo = grid.halo::<u64>(&own, &[len], 1)?;
                    let mut block = vec![grid.rank() as u64; halo.len()];
                    halo.exchange(&mut block)?;
                    if ranks == 3 && grid.rank() == 1 {
                        ensure!((block[0], block[3 * len - 1]) == (0, 2), "other borders");
                    }
                }
                Ok(())
            });
        }
    }
}
