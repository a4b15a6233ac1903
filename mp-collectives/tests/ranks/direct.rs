//! Blocks that lie in the world's memory, and that their receivers copy from there.

use mp_collectives::broadcast::{Broadcasts, Shape};
use mp_collectives::collectives::{At, InPlace, Settings};
use mp_collectives::communicator::Communicator;
use mp_collectives::exchange::{Exchanges, Way, WayToAll, packed};
use mp_core::{Error, ErrorKind, Rank, Result, SharedBuffer, World};

use crate::support::{SIZES, Watchdog, on_all};

/// Bytes around the shortest block that is copied in this way, and a long one.
const LENGTHS: [usize; 5] = [100, 4095, 4096, 4097, 200_003];

/// Returns the byte at `index` of the block from one rank to another.
fn byte(round: usize, (from, to): (usize, usize), index: usize) -> u8 {
    (round * 31 + from * 7 + to * 13 + index * 3 + index / 256) as u8
}

fn block(round: usize, ends: (usize, usize), len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(move |index| byte(round, ends, index))
}

fn check(got: &[u8], round: usize, ends: (usize, usize)) -> Result<()> {
    let wrong = block(round, ends, got.len()).zip(got).position(|(wanted, &got)| wanted != got);
    match wrong {
        Some(index) => {
            Err(Error::other(format!("round {round}, block {ends:?}: wrong at {index}")))
        }
        None => Ok(()),
    }
}

fn buffer(rank: &Rank, bytes: impl Iterator<Item = u8>) -> Result<SharedBuffer<u8>> {
    rank.buffer_from(&bytes.collect::<Vec<_>>())
}

/// The length of the block that one rank sends to another, if they may differ: some are short, and some are empty.
fn length(round: usize, (from, to): (usize, usize)) -> usize {
    [0, 20, 3000, 4096, 50_001, 130_000][(round + from * 2 + to * 3) % 6]
}

fn all_operations(rank: &Rank, exchanges: &mut Exchanges) -> Result<()> {
    let (me, ranks) = (rank.id(), rank.size());
    for (round, len) in LENGTHS.into_iter().cycle().take(10).enumerate() {
        let root = round % ranks;
        let mut own = buffer(rank, block(round, (me, 99), len))?;
        let mut all = vec![0; ranks * len];
        exchanges.all_gather(&own[..], &mut all)?;
        own.fill(255);
        for (from, got) in all.chunks(len).enumerate() {
            check(got, round, (from, 99))?;
        }
        let mut whole = rank.buffer_zeroed::<u8>(ranks * len)?;
        for (at, byte) in block(round, (me, 98), len).enumerate() {
            whole[me * len + at] = byte;
        }
        exchanges.all_gather(InPlace, &mut whole[..])?;
        for (from, got) in whole.chunks(len).enumerate() {
            check(got, round, (from, 98))?;
        }
        own.copy_from_slice(&block(round, (me, root), len).collect::<Vec<_>>());
        exchanges.gather(&own[..], &mut all, root)?;
        own.fill(255);
        if me == root {
            for (from, got) in all.chunks(len).enumerate() {
                check(got, round, (from, root))?;
            }
        }
        let blocks = |me| (0..ranks).flat_map(move |to| block(round, (me, to), len));
        let mut sent = buffer(rank, blocks(me))?;
        let mut got = vec![0; len];
        exchanges.scatter(&sent[..], &mut got[..], root)?;
        if me == root {
            sent.fill(255);
        }
        check(&got, round, (root, me))?;
        sent.copy_from_slice(&blocks(me).collect::<Vec<_>>());
        exchanges.all_to_all(&sent[..], &mut all)?;
        sent.copy_from_slice(&blocks(me).collect::<Vec<_>>());
        exchanges.all_to_all(InPlace, &mut sent[..])?;
        for got in [&all[..], &sent[..]] {
            for (from, got) in got.chunks(len).enumerate() {
                check(got, round, (from, me))?;
            }
        }
        // Blocks of different lengths.
        let out: Vec<usize> = (0..ranks).map(|to| length(round, (me, to))).collect();
        let into: Vec<usize> = (0..ranks).map(|from| length(round, (from, me))).collect();
        let blocks = (0..ranks).flat_map(|to| block(round, (me, to), out[to]));
        let mut sent = buffer(rank, blocks)?;
        let mut got = vec![0; into.iter().sum()];
        exchanges.all_to_all(
            At(&sent[..], packed(out.iter().copied())),
            At(&mut got[..], packed(into.iter().copied())),
        )?;
        sent.fill(255);
        let mut rest = &got[..];
        for (from, &len) in into.iter().enumerate() {
            let (got, behind) = rest.split_at(len);
            check(got, round, (from, me))?;
            rest = behind;
        }
    }
    Ok(())
}

#[test]
fn every_exchange_on_every_number_of_ranks() {
    for ranks in SIZES {
        on_all(ranks, |rank| {
            let settings = Settings { direct: true, ..Settings::default() };
            all_operations(rank, &mut Exchanges::open(rank, "direct", settings)?)
        });
    }
}

/// With few buffers, and by ways that are not the usual ones.
#[test]
fn forced_ways_and_few_buffers() {
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            let settings = Settings {
                direct: true,
                exchange: Some(Way::Chunks),
                all_gather: Some(WayToAll::Chunks),
                chunk_lines: Some(64),
                buffers: Some(1 + rank.size() % 2),
                ..Settings::default()
            };
            all_operations(rank, &mut Exchanges::open(rank, "few", settings)?)
        });
    }
}

/// Operations of a communicator, blocking and nonblocking, one after the other and in others.
#[test]
fn operations_of_a_communicator() {
    for ranks in [2, 3, 5] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            world.set_collectives(Settings { direct: true, ..Settings::default() })?;
            let (me, len) = (rank.id(), 70_000);
            for round in 0..10 {
                let own = buffer(rank, block(round, (me, 99), len))?;
                let sent = buffer(rank, (0..ranks).flat_map(|to| block(round, (me, to), len)))?;
                let gathered = world.nonblocking()?.all_gather(own, vec![0; ranks * len]);
                let exchanged = world.nonblocking()?.all_to_all(sent, vec![0; ranks * len]);
                let root = round % ranks;
                let mut message = rank.buffer_zeroed::<u8>(len)?;
                if me == root {
                    message.copy_from_slice(&block(round, (me, 97), len).collect::<Vec<_>>());
                }
                world.broadcast(&mut message[..], root)?;
                check(&message, round, (root, 97))?;
                message.fill(255);
                let mut sum = [me as u64];
                world.all_reduce(&mut sum, mp_collectives::reduce::Sum)?;
                let (mut own, all) = gathered.wait()?;
                own.fill(255);
                let (mut sent, got) = exchanged.wait()?;
                sent.fill(255);
                for from in 0..ranks {
                    check(&all[from * len..][..len], round, (from, 99))?;
                    check(&got[from * len..][..len], round, (from, me))?;
                }
            }
            Ok(())
        });
    }
}

/// Every tree, with long and short messages, lent and not, and roots that change and stay.
#[test]
fn broadcasts() {
    for ranks in SIZES {
        for tree in
            [None, Some(Shape::of_degree(1)), Some(Shape::of_degree(2)), Some(Shape::of_degree(7))]
        {
            on_all(ranks, |rank| {
                let settings = Settings { direct: true, tree, ..Settings::default() };
                let mut broadcasts = Broadcasts::open(rank, "direct", settings)?;
                let me = rank.id();
                let mut lent = rank.buffer_zeroed::<u8>(LENGTHS[4])?;
                let mut other = vec![0; LENGTHS[4]];
                for round in 0..40 {
                    let (root, len) = (round / 2 % ranks, LENGTHS[round * 7 / 3 % LENGTHS.len()]);
                    let message = if round % 3 == 0 { &mut other[..len] } else { &mut lent[..len] };
                    if me == root {
                        message.copy_from_slice(&block(round, (me, 0), len).collect::<Vec<_>>());
                    }
                    broadcasts.broadcast(message, root)?;
                    check(message, round, (root, 0))?;
                    message.fill(255);
                }
                Ok(())
            });
        }
    }
}

/// A rank is lost while blocks are on their way. The others get an error, or what was sent.
#[test]
fn a_rank_that_is_lost() {
    let _watchdog = Watchdog::start();
    for seed in 0..12u64 {
        let ran = World::processes(3).run(|rank| {
            let settings = Settings { direct: true, ..Settings::default() };
            let mut exchanges = Exchanges::open(rank, "lost", settings)?;
            let (me, len) = (rank.id(), 100_000);
            for round in 0.. {
                if round == 3 && me as u64 == seed % 3 {
                    std::thread::sleep(std::time::Duration::from_micros(seed * 40));
                    std::process::abort();
                }
                let own = buffer(rank, block(round, (me, 99), len))?;
                let mut all = vec![0; 3 * len];
                match exchanges.all_gather(&own[..], &mut all) {
                    Ok(()) => {
                        for (from, got) in all.chunks(len).enumerate() {
                            check(got, round, (from, 99))?;
                        }
                    }
                    Err(error) => {
                        let is_lost = matches!(error.kind(), ErrorKind::PeerLost { .. });
                        ensure!(is_lost, "another error: {error}");
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        let error = ran.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(&format!("rank {}", seed % 3)), "{error}");
    }
}
