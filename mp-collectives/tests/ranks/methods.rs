//! Collectives as methods of communicators: of all ranks, of some ranks, in contexts that do not mix; and the results
//! of calls that differ.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use mp_collectives::collectives::{At, InPlace};
use mp_collectives::communicator::{Communicator, Shared};
use mp_collectives::{
    CHOICE_TARGET,
    barrier::{Barrier, Placement},
    broadcast::{Broadcast, Shape},
    collectives::{Algorithm, CHECK_VARIABLE, Check, Collective, Reason, Settings},
    exchange::packed,
    reduce::{AllReduce, Max, Min, Operation, Order, Reduce, Sum},
};
use mp_core::{Error, ErrorKind, Plain, Rank, Result, Wait, World};

use crate::support::{Random, Together, Watchdog, on_all, scenarios, with_limit_enough};

const SIZES: [usize; 5] = [1, 2, 3, 5, 8];
/// Lengths in elements of eight bytes: nothing, around lines, some blocks, many blocks.
const LENGTHS: [usize; 9] = [0, 1, 7, 8, 21, 22, 600, 2_049, 40_000];

fn missing() -> Error {
    Error::other("no communicator")
}

/// Returns a rank's elements in a round.
fn numbers(world_rank: usize, round: u64, length: usize) -> Vec<u64> {
    let mut random = Random::new(round << 10 | world_rank as u64);
    (0..length).map(|_| random.below(1 << 50)).collect()
}

/// Returns the vectors of these ranks, combined one after the other.
fn combined(vectors: &[Vec<u64>], with: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    let mut all = vectors[0].clone();
    for vector in &vectors[1..] {
        all.iter_mut().zip(vector).for_each(|(left, &right)| *left = with(*left, right));
    }
    all
}

/// Calls one of each operation. `round` determines the root and the length.
fn one_of_each(of: &Communicator, round: u64) -> Result<()> {
    let (me, size) = (of.rank(), of.size());
    let length = LENGTHS[round as usize % LENGTHS.len()];
    let root = round as usize * 7 % size;
    let ranks: Vec<usize> = (0..size).map(|rank| of.world_rank(rank)).collect::<Result<_, _>>()?;
    let all: Vec<_> = ranks.iter().map(|&rank| numbers(rank, round, length)).collect();
    let same = |got: &[u64], wanted: &[u64], what: &str| {
        ensure!(got == wanted, "{what} of round {round} by rank {me} of {ranks:?}");
        Ok(())
    };
    let mut message = if me == root { all[me].clone() } else { vec![1; length] };
    of.broadcast(&mut message, root)?;
    same(&message, &all[root], "broadcast")?;
    let mut vector = all[me].clone();
    of.all_reduce(&mut vector, Sum)?;
    same(&vector, &combined(&all, |a, b| a + b), "all-reduce")?;
    let mut vector = all[me].clone();
    of.reduce(&mut vector, Max, root)?;
    if me == root {
        same(&vector, &combined(&all, u64::max), "reduce")?;
    }
    // An operation that does not commute.
    let first = |left: u64, right: u64| if right.is_multiple_of(3) { left } else { right };
    let mut vector = all[me].clone();
    of.scan(&mut vector, first)?;
    same(&vector, &combined(&all[..=me], first), "scan")?;
    let mut vector = all[me].clone();
    of.exclusive_scan(&mut vector, Min)?;
    same(&vector, &combined(&all[..me.max(1)], u64::min), "exclusive scan")?;
    exchanges(of, &all, root)?;
    if round.is_multiple_of(2) {
        of.barrier()?;
    } else {
        let arrived = of.arrive()?;
        let busy: u64 = (0..100).sum();
        ensure!(busy == 4950, "{busy}");
        arrived.wait()?;
    }
    Ok(())
}

/// Exchanges blocks of all ranks' vectors, of equal and different lengths, in new buffers and in place.
fn exchanges(of: &Communicator, all: &[Vec<u64>], root: usize) -> Result<()> {
    let (me, size, length) = (of.rank(), of.size(), all[0].len());
    let same = |got: &[u64], wanted: &[u64], what: &str| {
        ensure!(got == wanted, "{what} of {length} by rank {me} of {size}, root {root}");
        Ok(())
    };
    let whole = all.concat();
    let here = me * length..(me + 1) * length;
    let mine = || {
        let mut whole = vec![0; whole.len()];
        whole[here.clone()].copy_from_slice(&all[me]);
        whole
    };
    // Rank i gives its first elements, fewer if i is higher.
    let lengths: Vec<usize> = (0..size).map(|rank| length / (rank + 1)).collect();
    let parts: Vec<&[u64]> = all.iter().zip(&lengths).map(|(all, &end)| &all[..end]).collect();
    let blocks = packed(lengths.iter().copied());
    let together = parts.concat();
    let my_part = || {
        let mut together = vec![0; together.len()];
        together[blocks[me].clone()].copy_from_slice(parts[me]);
        together
    };
    let at_root = me == root;
    let nothing = |length: usize| vec![0; if at_root { length } else { 0 }];

    let mut got = nothing(whole.len());
    of.gather(&all[me], &mut got, root)?;
    same(&got, if at_root { &whole } else { &[] }, "gather")?;
    let mut got = nothing(together.len());
    of.gather(parts[me], At(&mut got, &blocks), root)?;
    same(&got, if at_root { &together } else { &[] }, "gather, varying")?;
    let mut got = if at_root { mine() } else { all[me].clone() };
    of.gather(InPlace, &mut got, root)?;
    same(&got, if at_root { &whole } else { &all[me] }, "gather in place")?;
    let mut got = if at_root { my_part() } else { parts[me].to_vec() };
    of.gather(InPlace, At(&mut got, &blocks), root)?;
    same(&got, if at_root { &together } else { parts[me] }, "gather in place, varying")?;

    let source = |of_root: &[u64]| if at_root { of_root.to_vec() } else { Vec::new() };
    let mut got = vec![0; length];
    of.scatter(&source(&whole), &mut got, root)?;
    same(&got, &all[me], "scatter")?;
    let mut got = vec![0; lengths[me]];
    of.scatter(At(&source(&together), &blocks), &mut got, root)?;
    same(&got, parts[me], "scatter, varying")?;
    let mut got = if at_root { whole.clone() } else { vec![0; length] };
    of.scatter(&mut got, InPlace, root)?;
    same(&got, if at_root { &whole } else { &all[me] }, "scatter in place")?;
    let mut got = if at_root { together.clone() } else { vec![0; lengths[me]] };
    of.scatter(At(&mut got, &blocks), InPlace, root)?;
    same(&got, if at_root { &together } else { parts[me] }, "scatter in place, varying")?;

    let mut got = vec![0; whole.len()];
    of.all_gather(&all[me], &mut got)?;
    same(&got, &whole, "all-gather")?;
    let mut got = vec![0; together.len()];
    of.all_gather(parts[me], At(&mut got, &blocks))?;
    same(&got, &together, "all-gather, varying")?;
    let mut got = mine();
    of.all_gather(InPlace, &mut got)?;
    same(&got, &whole, "all-gather in place")?;
    let mut got = my_part();
    of.all_gather(InPlace, At(&mut got, &blocks))?;
    same(&got, &together, "all-gather in place, varying")?;

    // Rank i's block for rank j: equal parts of its elements, in the order of ranks.
    let block = length / size;
    let send: Vec<u64> = all[me][..block * size].to_vec();
    let for_me: Vec<u64> =
        all.iter().flat_map(|all| &all[me * block..(me + 1) * block]).copied().collect();
    let mut got = vec![0; block * size];
    of.all_to_all(&send, &mut got)?;
    same(&got, &for_me, "all-to-all")?;
    let mut got = send.clone();
    of.all_to_all(InPlace, &mut got)?;
    same(&got, &for_me, "all-to-all in place")?;
    // The length depends on both ranks, and is the same in both directions.
    let shared = |rank: usize| (0..size).map(move |other| length / (1 + rank + other));
    let shared_blocks = packed(shared(me));
    let sent = |rank: usize| -> Vec<Vec<u64>> {
        shared(rank).map(|length| all[rank][..length].to_vec()).collect()
    };
    let wanted: Vec<u64> = (0..size).flat_map(|rank| sent(rank)[me].clone()).collect();
    let send = sent(me).concat();
    let mut got = vec![0; wanted.len()];
    of.all_to_all(At(&send, &shared_blocks), At(&mut got, &shared_blocks))?;
    same(&got, &wanted, "all-to-all, varying")?;
    let mut got = send;
    of.all_to_all(InPlace, At(&mut got, &shared_blocks))?;
    same(&got, &wanted, "all-to-all in place, varying")?;

    // Sums of all vectors, of which each rank gets a block.
    let sums = combined(all, |a, b| a + b);
    let equal = block * size;
    let own = me * block..(me + 1) * block;
    let mut got = vec![0; block];
    of.reduce_scatter(&all[me][..equal], &mut got, Sum)?;
    same(&got, &sums[own.clone()], "reduce-scatter")?;
    let mut got = all[me][..equal].to_vec();
    of.reduce_scatter(&mut got, InPlace, Sum)?;
    same(&got[own.clone()], &sums[own], "reduce-scatter in place")?;
    let ends: Vec<usize> = (0..=size).map(|rank| length * rank * rank / (size * size)).collect();
    let uneven: Vec<_> = ends.windows(2).map(|ends| ends[0]..ends[1]).collect();
    let own = uneven[me].clone();
    let mut got = vec![0; own.len()];
    of.reduce_scatter(At(&all[me], &uneven), &mut got, Sum)?;
    same(&got, &sums[own.clone()], "reduce-scatter, varying")?;
    let mut got = all[me].clone();
    of.reduce_scatter(At(&mut got, &uneven), InPlace, Sum)?;
    same(&got[own.clone()], &sums[own], "reduce-scatter in place, varying")
}

#[test]
fn all_kinds_in_communicators_of_all_kinds() {
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let own = Communicator::comm_self(rank);
            let again = Communicator::world(rank);
            let half = world.split(Some(rank.id() as u64 % 2), -(rank.id() as i64))?;
            let half = half.ok_or_else(missing)?;
            for round in 0..LENGTHS.len() as u64 {
                one_of_each(&world, round)?;
                one_of_each(&half, round)?;
                one_of_each(&own, round)?;
                one_of_each(&again, round)?;
            }
            Ok(())
        });
    }
}

/// Each rank with the next one, and all with all, in turn.
#[test]
fn communicators_that_overlap() {
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let all = world.group();
            let mut mine = Vec::new();
            for first in 0..size {
                let pair = all.include(&[(first + 1) % size, first])?;
                mine.extend(world.create(&pair)?);
            }
            mine.push(world);
            ensure!(mine.len() == 3 || size == 2, "{mine:?}");
            for round in 0..30 {
                for communicator in &mine {
                    one_of_each(communicator, round)?;
                }
            }
            Ok(())
        });
    }
}

/// Messages of one communicator are not received in the other, whichever comes first.
#[test]
fn contexts_do_not_mix() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        // A full check would wait for all ranks in each call, and these ranks call in different orders.
        world.set_collectives(Settings { check: Check::Off, ..Settings::default() })?;
        let copy = world.duplicate()?;
        for round in 0..200u64 {
            let root = (round % 3) as usize;
            let (mut one, mut two) =
                if world.rank() == root { ([round], [!round]) } else { ([0], [0]) };
            // The root returns before the others have come.
            if world.rank() == root || round % 2 == 0 {
                world.broadcast(&mut one, root)?;
                copy.broadcast(&mut two, root)?;
            } else {
                copy.broadcast(&mut two, root)?;
                world.broadcast(&mut one, root)?;
            }
            ensure!((one, two) == ([round], [!round]), "round {round}: {one:?} {two:?}");
            // Messages between the collective calls.
            let (next, before) = ((rank.id() + 1) % 3, (rank.id() + 2) % 3);
            world.send(&[round], next, 0)?;
            world.barrier()?;
            ensure!(world.receive::<u64>(before, 0)?.0 == round, "a message");
        }
        Ok(())
    });
}

/// Communicators are made and dropped, and their memory is freed.
#[test]
fn memory_is_given_back() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let mut used = Vec::new();
        for round in (0..6).chain(0..6) {
            let part = world.split(Some(rank.id() as u64 / 2), 0)?.ok_or_else(missing)?;
            one_of_each(&part, round)?;
            one_of_each(&world, round)?;
            drop(part);
            world.barrier()?;
            used.push(rank.memory().in_use);
            world.barrier()?;
        }
        // No memory is taken or freed between the barriers. After six rounds, `world` has all that its calls need. The first
        // long wait on it has opened its board, which stays.
        let changes = used[6..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        ensure!(changes <= 1, "{used:?}");
        Ok(())
    });
}

/// The memory for long messages, which takes milliseconds to get, comes with the first of them.
#[test]
fn short_calls_take_little_memory() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let in_use = || {
            world.barrier()?;
            let in_use = rank.memory().in_use;
            world.barrier()?;
            Ok::<_, Error>(in_use)
        };
        let calls = |length: usize| {
            let own = vec![rank.id() as u64; length];
            let mut all = vec![0; 3 * length];
            world.gather(&own, &mut all, 1)?;
            world.all_gather(&own, &mut all)?;
            world.broadcast(&mut all[..length], 2)?;
            world.reduce(&mut all[..length], Max, 0)?;
            world.all_reduce(&mut all[..length], Max)?;
            Ok::<_, Error>(())
        };
        let before = in_use()?;
        (0..200).try_for_each(|_| calls(5))?;
        let short = in_use()? - before;
        ensure!(short < 512 << 10, "{short} bytes after short calls");
        calls(100_000)?;
        let long = in_use()? - before;
        ensure!(long > 2 << 20, "{long} bytes after long calls");
        Ok(())
    });
}

/// Only some ranks have waited so long that they have shown their calls to the others.
#[test]
fn memory_is_given_back_after_long_waits() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let mut used = Vec::new();
        for _ in 0..4 {
            let copy = world.duplicate()?;
            copy.set_collectives(Settings { check: Check::Off, ..Settings::default() })?;
            if rank.id() == 0 {
                std::thread::sleep(Duration::from_millis(400));
            }
            copy.barrier()?;
            drop(copy);
            world.barrier()?;
            used.push(rank.memory().in_use);
            world.barrier()?;
        }
        let changes = used[1..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        ensure!(changes <= 1, "{used:?}");
        Ok(())
    });
}

/// Calls after a loss fail, even calls that would wait for no other rank, because they would be out of step.
#[test]
fn no_call_goes_on_after_a_loss() {
    let _watchdog = Watchdog::start();
    let result = World::processes(3).run(|rank| {
        if rank.id() == 1 {
            match scenarios::die() {}
        }
        let world = Communicator::world(rank);
        world.set_collectives(Settings { check: Check::Off, ..Settings::default() })?;
        let is_lost = |result: Result<(), Error>| {
            matches!(
                result.as_ref().map_err(Error::kind),
                Err(ErrorKind::PeerLost { rank: 1, world_rank: 1, .. })
            )
        };
        ensure!(is_lost(world.all_reduce(&mut [1u64], Sum)), "rank 1 had no part in it");
        for root in [0, 2] {
            ensure!(is_lost(world.broadcast(&mut [1u8; 3], root)), "a broadcast of rank {root}");
        }
        ensure!(is_lost(world.all_reduce(&mut [1u64], Sum)), "another one");
        Ok(())
    });
    scenarios::check(result, 1).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn settings_of_each_communicator() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        let copy = world.duplicate()?;
        let settings = |algorithm, order, barrier| Settings {
            broadcast: Some(algorithm),
            order,
            reduce: (order == Order::Algorithm).then_some(Reduce::ChunkTree { lambda: 1 }),
            barrier: Some(barrier),
            chunk_lines: Some(3),
            wait: Wait::from(Duration::from_secs(20)),
            check: Check::On,
            ..Default::default()
        };
        for (round, algorithm) in
            (0..).zip([Broadcast::Lines, Broadcast::OcBcast, Broadcast::Lines])
        {
            let order = if round == 1 { Order::Ranks } else { Order::Algorithm };
            let barrier =
                if round == 0 { Barrier::Central } else { Barrier::Dissemination(vec![3]) };
            world.set_collectives(settings(algorithm, order, barrier))?;
            for length in 0..LENGTHS.len() as u64 {
                one_of_each(&world, length)?;
                one_of_each(&copy, length)?;
            }
        }
        // The operation can't use this algorithm. The method must refuse it as well.
        let all_reduce = Some(AllReduce::Doubling);
        world.set_collectives(Settings { all_reduce, ..Default::default() })?;
        let refused = world.all_reduce(&mut vec![1u8; 1 << 20], Sum).err();
        ensure!(
            matches!(refused.as_ref().map(Error::kind), Some(ErrorKind::BadCall { .. })),
            "{refused:?}"
        );
        Ok(())
    });
}

/// Returns whether a vector that is too long for a forced algorithm is refused.
fn is_forced(of: &Communicator) -> Result<bool> {
    match of.all_reduce(&mut vec![1u8; 1 << 20], Sum).map_err(Error::into_kind) {
        Ok(()) => Ok(false),
        Err(ErrorKind::BadCall { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Before and after the first call of each kind, and of nonblocking ones as well.
#[test]
fn settings_are_explained() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        for round in 0..2 {
            for collective in Collective::ALL {
                let told = world.explain(collective, 8)?;
                ensure!(told.collective == collective && told.reason != Reason::Forced, "{told}");
                let is_chosen = |algorithm: &Algorithm| *algorithm == told.algorithm;
                let mut all = told.candidates.iter().map(|candidate| &candidate.algorithm);
                ensure!(all.any(is_chosen), "{told}");
            }
            if round == 0 {
                one_of_each(&world, 3)?;
            }
        }
        let all_reduce = Some(AllReduce::Doubling);
        world.set_collectives(Settings { all_reduce, ..Default::default() })?;
        for _ in 0..2 {
            let told = world.explain(Collective::AllReduce, 1 << 20)?;
            ensure!(told.algorithm == AllReduce::Doubling.into(), "{told}");
            ensure!(told.reason == Reason::Forced, "{told}");
            ensure!(is_forced(&world)?, "{told}");
            let long = world.nonblocking()?.all_reduce(vec![1u8; 1 << 20], Sum).wait();
            ensure!(long.is_err(), "nonblocking");
        }
        Ok(())
    });
}

#[test]
fn settings_are_handed_down() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        let before = world.duplicate()?;
        world.set_collectives(Settings {
            all_reduce: Some(AllReduce::Doubling),
            barrier: Some(Barrier::Dissemination(vec![1, 1])),
            placement: Some(Placement::one_group(4).map_err(Error::other)?),
            tree: Some(Shape::of_degree(3)),
            check: Check::On,
            ..Default::default()
        })?;
        let copy = world.duplicate()?;
        let half = world.split(Some(rank.id() as u64 % 2), 0)?.ok_or_else(missing)?;
        let again = half.duplicate()?;
        let grid = world.cartesian(&[2, 2], &[false, false])?.ok_or_else(missing)?;
        let column = grid.sub(&[true, false])?;
        let near = world.split_shared(Shared::Package)?;
        let trio = world.create(&world.group().exclude(&[1])?)?;
        let all = [&copy, &half, &again, &grid, &column, &near];
        for (number, of) in all.into_iter().chain(&trio).enumerate() {
            // A single rank needs no algorithm.
            ensure!(is_forced(of)? == (of.size() > 1), "{number}");
            ensure!(of.joint().checks() == (of.size() > 1), "{number}");
            // Settings for four ranks are not applied to fewer.
            of.barrier()?;
            of.broadcast(&mut [1u8; 9000], of.size() - 1)?;
        }
        ensure!(!is_forced(&before)?, "it was there before");
        half.set_collectives(Settings::default())?;
        ensure!(!is_forced(&half)? && is_forced(&again)? && is_forced(&world)?, "told otherwise");
        ensure!(!is_forced(&half.duplicate()?)?, "of one that was told otherwise");
        Ok(())
    });
}

#[test]
fn what_can_not_be() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        for result in [world.broadcast(&mut [1], 2), world.reduce(&mut [1], Sum, 2)] {
            match result.map_err(Error::into_kind) {
                Err(ErrorKind::NoSuchRank { rank: 2, size: 2 }) => {}
                other => return Err(Error::other(format!("{other:?}"))),
            }
        }
        let misuse = |result: mp_core::Result<()>| {
            ensure!(
                matches!(result.as_ref().map_err(Error::kind), Err(ErrorKind::BadCall { .. })),
                "{result:?}"
            );
            Ok(())
        };
        // Calls within a call, and between the two halves of one.
        let within = Mutex::new(Vec::new());
        world.all_reduce(&mut [1u64], |left: u64, right: u64| {
            within.lock().unwrap().push(world.all_reduce(&mut [1u64], Sum));
            within.lock().unwrap().push(world.set_collectives(Settings::default()));
            left + right
        })?;
        for result in within.into_inner().unwrap() {
            misuse(result)?;
        }
        let arrived = world.arrive()?;
        misuse(world.barrier())?;
        misuse(world.arrive().map(drop))?;
        world.all_reduce(&mut [1u64], Sum)?;
        arrived.wait()?;
        // The arrival is not waited for. The next call does that.
        drop(world.arrive()?);
        world.barrier()?;
        world.barrier()?;
        Ok(())
    });
}

/// Rank 1 of the world dies. Only ranks that share a communicator with it get an error.
fn one_dies(rank: &Rank, die: fn()) -> Result<()> {
    let world = Communicator::world(rank);
    let near = rank.id() < 3;
    let part = world.split(Some(near.into()), -(rank.id() as i64))?.ok_or_else(missing)?;
    part.all_reduce(&mut [1.5], Sum)?;
    part.barrier()?;
    if rank.id() == 1 {
        die();
    }
    for round in 0..100 {
        match one_of_each(&part, round) {
            Ok(()) => {}
            Err(error) if near => {
                // The error contains its number in both.
                let told =
                    matches!(error.kind(), ErrorKind::PeerLost { rank: 1, world_rank: 1, .. });
                ensure!(told, "{error}");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    ensure!(!near, "nobody said that it was lost");
    Ok(())
}

#[test]
fn deaths_are_for_members_alone() {
    crate::mortal::panics(World::threads(5), 1, "a panic", one_dies);
    let _watchdog = Watchdog::start();
    let result = World::processes(5).run(|rank| one_dies(rank, || match scenarios::die() {}));
    scenarios::check(result, 1).unwrap();
}

// --- checks ---

type Called = fn(&Communicator) -> mp_core::Result<()>;

/// The call that one rank makes instead of `broadcast of 4 f64 with root 0`, and its description in errors.
const WRONG: [(&str, Called); 14] = [
    ("broadcast of 4 f64 with root 1", |of| of.broadcast(&mut [0.0; 4], 1)),
    ("broadcast of 3 f64 with root 0", |of| of.broadcast(&mut [0.0; 3], 0)),
    ("broadcast of 4 f32 with root 0", |of| of.broadcast(&mut [0f32; 4], 0)),
    ("broadcast of 4 u64 with root 0", |of| of.broadcast(&mut [0u64; 4], 0)),
    ("reduce of 4 f64 with Sum and root 0", |of| of.reduce(&mut [0.0; 4], Sum, 0)),
    ("all_reduce of 4 f64 with Max", |of| of.all_reduce(&mut [0.0; 4], Max)),
    ("barrier", |of| of.barrier()),
    ("arrive", |of| of.arrive().map(drop)),
    ("split", |of| of.split(None, 0).map(drop)),
    ("gather of 2 u8 with root 0", |of| of.gather([1u8; 2], &mut vec![0; 2 * of.size()], 0)),
    ("scatter_varcount of u8 with root 1", |of| of.scatter(At(&mut [1u8], &[]), InPlace, 1)),
    ("all_gather of 1 u8", |of| of.all_gather(InPlace, &mut vec![0u8; of.size()])),
    ("all_to_all of 0 u8", |of| of.all_to_all::<u8>(&[], &mut [])),
    ("reduce_scatter of 0 u8 with Sum", |of| of.reduce_scatter(&[0u8; 0], &mut [], Sum)),
];

fn right(of: &Communicator) -> mp_core::Result<()> {
    of.broadcast(&mut [1.0; 4], 0)
}

fn differ(result: mp_core::Result<()>) -> Result<String> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::CallsDiffer(calls)) => Ok(calls.to_string()),
        other => Err(Error::other(format!("{other:?}"))),
    }
}

fn checked(of: &Communicator) -> Result<()> {
    of.set_collectives(Settings { check: Check::On, ..Default::default() })
}

#[test]
fn who_calls_something_else_is_named() {
    const RIGHT: &str = "called broadcast of 4 f64 with root 0";
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            checked(&world)?;
            for (number, (what, wrong)) in WRONG.iter().enumerate() {
                let odd = number % size;
                let result = if rank.id() == odd { wrong(&world) } else { right(&world) };
                let told = differ(result)?;
                let wanted = match (size, odd) {
                    (2, 0) => format!("rank 0 called {what}, rank 1 {RIGHT}"),
                    (2, _) => format!("rank 0 {RIGHT}, rank 1 called {what}"),
                    _ => format!("rank {odd} called {what}; the others {RIGHT}"),
                };
                ensure!(told == wanted, "{told}");
                // No rank has gone on in the operation, so the next one works.
                right(&world)?;
                one_of_each(&world, number as u64)?;
            }
            Ok(())
        });
    }
}

fn other_operations<T: Plain + Debug>(
    rank: &Rank,
    zero: T,
    ours: impl Operation<T>,
    theirs: impl Operation<T>,
) -> Result<String> {
    let world = Communicator::world(rank);
    checked(&world)?;
    match rank.id() {
        2 => differ(world.all_reduce(&mut [zero; 3], ours)),
        _ => differ(world.all_reduce(&mut [zero; 3], theirs)),
    }
}

#[test]
fn other_operations_and_settings_are_told_apart() {
    on_all(3, |rank| {
        let told = other_operations(rank, 1u32, Sum, Max)?;
        let wanted = "rank 2 called all_reduce of 3 u32 with Sum; \
                      the others called all_reduce of 3 u32 with Max";
        ensure!(told == wanted, "{told}");
        let told = other_operations(rank, 1.0, Sum, |a: f64, b: f64| a + b)?;
        ensure!(told.contains("rank 2") && told.contains("closure"), "{told}");
        // Whether the buffer is in place makes no difference, but the positions of the blocks do.
        let world = Communicator::world(rank);
        checked(&world)?;
        let (mut whole, root) = ([rank.id(); 6], rank.id() == 1);
        match root {
            true => world.gather(InPlace, &mut whole, 1)?,
            false => world.gather([rank.id(); 2], &mut [], 1)?,
        }
        ensure!(!root || whole == [0, 0, 1, 1, 2, 2], "{whole:?}");
        let blocks = if rank.id() == 0 { [0..1, 1..2, 2..3] } else { [0..1, 1..1, 1..3] };
        let mut result = vec![0; blocks[rank.id()].len()];
        let told = differ(world.reduce_scatter(At(&[1, 1, 1], &blocks), &mut result, Sum))?;
        ensure!(told.starts_with("rank 0 called reduce_scatter_varcount of 3 i32"), "{told}");
        ensure!(
            told.contains("[0..1, 1..2, 2..3]") && told.contains("[0..1, 1..1, 1..3]"),
            "{told}"
        );
        // The same operation with another forced setting.
        let world = Communicator::world(rank);
        let order = if rank.id() == 1 { Order::Ranks } else { Order::Algorithm };
        world.set_collectives(Settings { order, check: Check::On, ..Default::default() })?;
        let told = differ(world.scan(&mut [1u8], Sum))?;
        ensure!(told.starts_with("rank 1 called scan of 1 u8"), "{told}");
        ensure!(told.contains("order: Ranks") && told.contains("order: Algorithm"), "{told}");
        Ok(())
    });
}

/// The error in one part of the world contains the part's rank numbers. The other part goes on.
#[test]
fn parts_check_by_themselves() {
    on_all(5, |rank| {
        let world = Communicator::world(rank);
        let part = world.split(Some(u64::from(rank.id() > 2)), -(rank.id() as i64))?;
        let part = part.ok_or_else(missing)?;
        checked(&part)?;
        match rank.id() {
            0 => {
                let told = differ(part.barrier())?;
                ensure!(told.starts_with("rank 2 called barrier; the others"), "{told}");
            }
            1 | 2 => drop(differ(right(&part))?),
            _ => right(&part)?,
        }
        right(&part)?;
        right(&world)
    });
}

#[test]
fn who_does_not_come_is_named() {
    let attempt = |rank: &Rank, limit| {
        let world = Communicator::world(rank);
        let mut together = Together::new(rank)?;
        let settings = |check| Settings { check, ..Default::default() };
        world.set_collectives(settings(Check::Within(limit)))?;
        if rank.id() == 2 {
            // The others come to this only after they have given up.
            together.wait()?;
        }
        let named = match world.all_reduce(&mut [1.0], Sum).map_err(Error::into_kind) {
            Err(ErrorKind::RankMissing { rank, call, .. }) => {
                ensure!(call.to_string() == "all_reduce of 1 f64 with Sum", "{call}");
                rank
            }
            other => return Err(Error::other(format!("{other:?}"))),
        };
        if rank.id() != 2 {
            together.wait()?;
        }
        // If another rank is named, that rank was late by chance.
        if !together.all(named == 2)? {
            return Ok(false);
        }
        world.set_collectives(settings(Check::On))?;
        one_of_each(&world, 3).map(|()| true)
    };
    on_all(3, |rank| with_limit_enough(|limit| attempt(rank, limit)));
}

const NAMED: &str = "methods::checked_where_the_environment_says_so";

#[test]
fn checked_where_the_environment_says_so() {
    let code = |rank: &Rank| {
        let world = Communicator::world(rank);
        // This must also be safe without a check.
        let mut vector = [1.0; 2];
        let count = if rank.id() == 0 { 1 } else { 2 };
        let copy = world.duplicate()?;
        copy.set_collectives(Settings { check: Check::Off, ..Default::default() })?;
        copy.barrier()?;
        match world.broadcast(&mut vector[..count], 0).map_err(Error::into_kind) {
            Ok(()) => Ok(false),
            Err(ErrorKind::CallsDiffer(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    };
    if std::env::var_os(CHECK_VARIABLE).is_some() {
        // Without the full comparison, only the receiver sees that the message is too short.
        let told = std::env::var(CHECK_VARIABLE).unwrap() == "1";
        assert_eq!(World::threads(2).run(code).unwrap(), [told, true]);
        return;
    }
    assert_eq!(World::threads(2).run(code).unwrap(), [cfg!(debug_assertions), true]);
    let program = std::env::current_exe().unwrap();
    for value in ["1", "0", ""] {
        let mut again = std::process::Command::new(&program);
        let output = again.args(["--exact", NAMED]).env(CHECK_VARIABLE, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{value:?}: {text}");
    }
}

// --- choices ---

/// Keeps the texts that it receives.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
        self.0.push_str(&format!("{field}={value:?};"));
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == CHOICE_TARGET
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(text);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn choices_are_told_once() {
    World::threads(2)
        .run(|rank| {
            let listener = Listener::default();
            let told = listener.0.clone();
            tracing::subscriber::with_default(listener, || -> Result<()> {
                let world = Communicator::world(rank);
                for _ in 0..3 {
                    world.barrier()?;
                    for length in [1, 2, 60, 100_000] {
                        world.broadcast(&mut vec![1u64; length], 0)?;
                    }
                    world.all_reduce(&mut [1u64], Sum)?;
                    world.scan(&mut [1u64], Sum)?;
                    world.reduce(&mut [1u64], Sum, 1)?;
                }
                Ok(())
            })?;
            let told = told.lock().unwrap();
            let kinds: Vec<&str> = told.iter().filter_map(|text| text.split(';').next()).collect();
            let wanted = [
                "operation=\"barrier\"",
                "operation=\"broadcast\"",
                "operation=\"broadcast\"",
                "operation=\"broadcast\"",
                "operation=\"broadcast\"",
                "operation=\"all_reduce\"",
                "operation=\"scan\"",
                "operation=\"reduce\"",
            ];
            ensure!(kinds == wanted, "{told:#?}");
            ensure!(told[4].contains("OC-Bcast") && told[4].contains("800000 bytes"), "{told:#?}");
            Ok(())
        })
        .unwrap();
}

/// Many communicators for short messages take little memory: 64 MiB for 1,000 communicators of 8 ranks.
#[test]
fn a_thousand_communicators_of_eight_ranks() {
    const COMMUNICATORS: usize = 1_000;
    on_all(8, |rank| {
        let world = Communicator::world(rank);
        let (me, ranks) = (world.rank() as u64, world.size() as u64);
        // The comparison of calls in debug builds takes memory, too.
        world.set_collectives(Settings { check: Check::Off, ..Settings::default() })?;
        let before = rank.memory().in_use;
        let mut all = Vec::new();
        for number in 0..COMMUNICATORS as u64 {
            let of = world.duplicate()?;
            for round in 0..2 {
                let mut sum = [number + me];
                of.all_reduce(&mut sum, Sum)?;
                ensure!(sum == [ranks * number + ranks * (ranks - 1) / 2], "{sum:?}");
                let root = (number + round) % ranks;
                let mut message = [if me == root { number + round } else { 0 }];
                of.broadcast(&mut message, root as usize)?;
                ensure!(message == [number + round], "{message:?}");
                let mut gathered = [0; 8];
                of.all_gather([me * number], &mut gathered)?;
                ensure!(
                    (0..8).all(|rank| gathered[rank as usize] == rank * number),
                    "{gathered:?}"
                );
            }
            all.push(of);
        }
        let taken = rank.memory().in_use - before;
        ensure!(taken < 64 << 20, "{taken} bytes for {COMMUNICATORS} communicators");
        // A long message takes additional memory, after all ranks have measured.
        world.barrier()?;
        let mut long = vec![me; 100_000];
        all[7].broadcast(&mut long, 3)?;
        ensure!(long.iter().all(|&of| of == 3), "another message");
        Ok(())
    });
}
