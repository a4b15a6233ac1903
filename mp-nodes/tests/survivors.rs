//! What the survivors of a communicator do about lost ranks, where its ranks are on several nodes: revoking, agreeing,
//! shrinking.

mod support;

use std::sync::Barrier;
use std::thread;

use mp_core::{Cause, Channel, Error, ErrorKind, Rank, Result};
use onchip::ANY_SOURCE;
use onchip::communicator::Communicator;
use onchip::reduce::Sum;
use onchip::threads::{CommThreads, Progress};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use support::plain::{affine, compose, elements};
use support::world::{WORLDS, all_succeed, world};

fn random(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Compares collective operations of the communicator with plain references.
fn check(comm: &Communicator) -> Result<()> {
    let (me, size) = (comm.rank(), comm.size());
    let ranks = elements(size, |rank| comm.world_rank(rank).unwrap());
    let own = elements(1_000, |at| affine(ranks[me], at));
    let all =
        elements(1_000, |at| ranks.iter().map(|&rank| affine(rank, at)).reduce(compose).unwrap());
    let mut vector = own.clone();
    comm.all_reduce(&mut vector, compose)?;
    assert!(vector == all);
    let mut gathered = vec![0; size];
    comm.all_gather([ranks[me]], &mut gathered)?;
    assert_eq!(gathered, ranks);
    let began = comm.nonblocking()?.all_reduce(own, compose);
    comm.send(&[ranks[me]], (me + 1) % size, 3)?;
    let (got, _) = comm.receive::<usize>((me + size - 1) % size, 3)?;
    assert_eq!(got, ranks[(me + size - 1) % size]);
    assert!(began.wait().map_err(|failed| failed.error)? == all);
    comm.barrier()
}

/// The number of [`wait_in`]'s calls.
const CALLS: usize = 12;

/// Makes a call that does not end, because rank `missing` does not make it.
fn wait_in(comm: &Communicator, call: usize, missing: usize) -> Result<()> {
    let (me, size) = (comm.rank(), comm.size());
    let mut vector = vec![1u64; 20_000];
    match call {
        0 => comm.receive::<u8>(missing, 1).map(drop),
        1 => comm.receive::<u8>(ANY_SOURCE, 1).map(drop),
        2 => comm.receive::<u8>((me + 1) % size, 1).map(drop),
        3 => comm.synchronous_send(&vector, missing, 1),
        4 => comm
            .nonblocking_receive(vec![0u8; 3], (me + 1) % size, 1)
            .wait()
            .map(drop)
            .map_err(|failed| failed.error),
        5 => comm.barrier(),
        6 => comm.all_reduce(&mut vector, Sum),
        7 => comm.broadcast(&mut vector, missing),
        8 => comm.duplicate().map(drop),
        9 => comm.arrive()?.wait(),
        10 => comm
            .nonblocking()?
            .all_reduce(vector, Sum)
            .wait()
            .map(drop)
            .map_err(|failed| failed.error),
        _ => comm.nonblocking()?.barrier().wait().map(drop).map_err(|failed| failed.error),
    }
}

fn is_revoked(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Revoked { .. })
}

/// Everything that ranks of any node wait for ends when a rank of any node revokes the communicator.
#[test]
fn a_revocation_ends_the_calls_of_all_ranks() {
    for nodes in WORLDS {
        let ranks: usize = nodes.iter().sum();
        for revokes in 0..ranks {
            // A third of all pairs: every call, and every rank.
            for call in (0..CALLS).filter(|call| (call + revokes) % 3 == 0) {
                let is_first = (call + revokes).is_multiple_of(2);
                let all = Barrier::new(ranks);
                all_succeed(world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    if revokes % 4 < 2 {
                        comm.set_nonblocking(CommThreads::start(1)?)?;
                    } else {
                        comm.set_nonblocking(Progress::InCalls)?;
                    }
                    let other = comm.duplicate()?;
                    if !is_first {
                        check(&comm)?;
                    }
                    all.wait();
                    if rank.id() == revokes {
                        // Some of the others have come to their calls then, and some have not.
                        (0..call * 20).for_each(|_| thread::yield_now());
                        comm.revoke()?;
                    } else {
                        let error = wait_in(&comm, call, revokes).unwrap_err();
                        assert!(is_revoked(&error), "{nodes:?}, {revokes}, call {call}: {error}");
                    }
                    assert!(comm.is_revoked());
                    // A rank that is alone does not look, if it sends nothing.
                    let call = if ranks > 1 { call } else { 5 };
                    let error = wait_in(&comm, call, revokes).unwrap_err();
                    assert!(is_revoked(&error), "{nodes:?}, {revokes}, call {call} again: {error}");
                    // No call ends only because another rank has returned.
                    all.wait();
                    assert!(!other.is_revoked());
                    check(&other)?;
                    let again = comm.shrink()?;
                    assert_eq!(again.size(), ranks);
                    check(&again)
                }));
            }
        }
    }
}

/// A rank that makes no call keeps no rank from hearing of a revocation, not even the first rank of a node.
#[test]
fn a_revocation_needs_no_rank_that_makes_calls() {
    for nodes in WORLDS {
        let ranks: usize = nodes.iter().sum();
        for idle in 0..ranks {
            let revokes = (idle + 1) % ranks;
            for call in (0..CALLS).filter(|call| (call + idle) % 3 == 0) {
                let all = Barrier::new(ranks);
                all_succeed(world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    check(&comm)?;
                    all.wait();
                    if rank.id() == revokes {
                        comm.revoke()?;
                    } else if rank.id() != idle {
                        let error = wait_in(&comm, call, revokes).unwrap_err();
                        assert!(is_revoked(&error), "{nodes:?}, {idle}, call {call}: {error}");
                    }
                    all.wait();
                    // The rank that was idle has heard of it, too, as soon as its node has.
                    while !comm.is_revoked() {
                        thread::yield_now();
                    }
                    Ok(())
                }));
            }
        }
    }
}

/// The other ranks learn of the revocation, and not that the rank has ended or was lost.
#[test]
fn a_rank_may_revoke_and_end() {
    for nodes in WORLDS {
        let ranks: usize = nodes.iter().sum();
        for revokes in (0..ranks).filter(|_| ranks > 1) {
            for call in 0..CALLS {
                let panics = (call + revokes).is_multiple_of(2);
                let (all, others) = (Barrier::new(ranks), Barrier::new(ranks - 1));
                let outcomes = world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    check(&comm)?;
                    all.wait();
                    if rank.id() == revokes {
                        comm.revoke()?;
                        assert!(!panics, "on purpose");
                        return Ok(());
                    }
                    let error = wait_in(&comm, call, revokes).unwrap_err();
                    assert!(is_revoked(&error), "{nodes:?}, {revokes}, call {call}: {error}");
                    others.wait();
                    let survivors = comm.shrink()?;
                    assert_eq!(survivors.size(), ranks - 1);
                    check(&survivors)
                });
                for (rank, outcome) in outcomes.into_iter().enumerate() {
                    assert_eq!(outcome.is_err(), rank == revokes && panics, "{outcome:?}");
                }
            }
        }
    }
}

/// How a rank ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Panics,
    Fails,
    Returns,
}

impl End {
    fn now(self) -> Result<()> {
        match self {
            End::Panics => panic!("on purpose"),
            End::Fails => Err(ErrorKind::BadCall { reason: "on purpose".to_owned() }.into()),
            End::Returns => Ok(()),
        }
    }
}

/// Checks that the ranks that did not end otherwise have returned the same, and returns that.
fn same<T: PartialEq + std::fmt::Debug>(outcomes: Vec<std::result::Result<Option<T>, Cause>>) -> T {
    let mut all = outcomes.into_iter().filter_map(|outcome| match outcome {
        Ok(returned) => returned,
        Err(cause) => {
            assert!(cause.to_string().contains("on purpose"), "{cause}");
            None
        }
    });
    let first = all.next().unwrap();
    all.for_each(|other| assert_eq!(other, first));
    first
}

/// All ranks that live to see it agree on the same, whichever ranks end at whatever moment.
#[test]
fn survivors_agree_whoever_ends_when() {
    const ROUNDS: u64 = 6;
    for (at, nodes) in WORLDS.into_iter().cycle().take(120).enumerate() {
        let ranks: usize = nodes.iter().sum();
        let mut dice = random(at as u64);
        let mut below = |most: usize| dice.next_u64() as usize % most;
        // Up to all ranks but one end, each in some round.
        let survivor = below(ranks);
        let ends: Vec<_> = (0..ranks)
            .map(|rank| {
                let end = [End::Panics, End::Fails, End::Returns][below(3)];
                let (round, moment) = (1 + below(ROUNDS as usize) as u64, below(3));
                let stays = rank == survivor || below(2) == 0;
                (!stays).then_some((end, round, moment))
            })
            .collect();
        let pauses: Vec<_> = (0..ranks).map(|_| below(300)).collect();
        let flag = |rank: usize, round: u64| !(1 << (rank as u64 * ROUNDS + round));
        let outcomes = world(nodes, |rank| {
            let (comm, me) = (Communicator::world(rank), rank.id());
            let mut agreed = Vec::new();
            for round in 1..=ROUNDS {
                (0..pauses[me]).for_each(|_| thread::yield_now());
                let ends = ends[me].filter(|&(_, when, _)| when == round);
                if let Some((end, _, 0)) = ends {
                    return end.now().map(|()| None);
                }
                let mut next = comm.agree(flag(me, round))?;
                if let Some((end, ..)) = ends {
                    return end.now().map(|()| None);
                }
                // This rank knows of all losses that it has been told of.
                let lost = comm.acknowledge();
                assert!(next.unacknowledged.iter().all(|rank| lost.contains(rank)), "{lost:?}");
                next.unacknowledged.sort_unstable();
                agreed.push(next);
            }
            // All losses were told, and then acknowledged.
            let panicked: Vec<_> =
                (0..ranks).filter(|&rank| matches!(ends[rank], Some((End::Panics, ..)))).collect();
            while panicked.iter().any(|&rank| rank != me && !comm.failed_ranks().contains(&rank)) {
                thread::yield_now();
            }
            comm.agree(1)?;
            comm.acknowledge();
            let last = comm.agree(1)?;
            assert_eq!((last.flag, &last.unacknowledged[..]), (1, &[][..]));
            Ok(Some(agreed))
        });
        for (round, agreed) in (1..).zip(same(outcomes)) {
            // The flags of those that are still there count. Those of others may count if they have come so far.
            let part = |must: bool| {
                let votes = ends.iter().enumerate().filter(|(_, end)| match end {
                    None => true,
                    Some((_, when, moment)) => {
                        round < *when || (!must && round == *when && *moment > 0)
                    }
                });
                votes.fold(u64::MAX, |all, (rank, _)| all & flag(rank, round))
            };
            assert_eq!(agreed.flag | part(true), part(true), "{nodes:?}, {ends:?}, round {round}");
            assert_eq!(
                agreed.flag & part(false),
                part(false),
                "{nodes:?}, {ends:?}, round {round}"
            );
            for rank in agreed.unacknowledged {
                assert!(matches!(ends[rank], Some((End::Panics, when, _)) if when <= round));
            }
        }
    }
}

/// Ranks work together until one of them finds another one lost. Then they go on without it.
#[test]
fn survivors_shrink_and_go_on() {
    const STEPS: usize = 5;
    for (at, nodes) in WORLDS.into_iter().cycle().take(70).enumerate() {
        let ranks: usize = nodes.iter().sum();
        let mut dice = random(1_000 + at as u64);
        let mut below = |most: usize| dice.next_u64() as usize % most;
        let survivor = below(ranks);
        let ends: Vec<_> = (0..ranks)
            .map(|rank| {
                let end = [End::Panics, End::Fails, End::Returns][below(3)];
                let (step, moment) = (below(STEPS), below(4));
                let stays = rank == survivor || below(3) == 0;
                (!stays).then_some((end, step, moment))
            })
            .collect();
        let outcomes = world(nodes, |rank| {
            let (mut comm, me) = (Communicator::world(rank), rank.id());
            let mut done = Vec::new();
            let mut step = 0;
            while step < STEPS {
                let ends_at =
                    |moment| ends[me].filter(|&(_, at, when)| at <= step && when == moment);
                if let Some((end, ..)) = ends_at(0) {
                    return end.now().map(|()| None);
                }
                let mut sum = [1u64 << me];
                let reduced = comm.all_reduce(&mut sum, Sum).and_then(|()| check(&comm));
                if let Some((end, ..)) = ends_at(1) {
                    return end.now().map(|()| None);
                }
                if reduced.is_err() {
                    comm.revoke()?;
                }
                let agreed = comm.agree(u64::from(reduced.is_ok()))?;
                if let Some((end, ..)) = ends_at(2) {
                    return end.now().map(|()| None);
                }
                if agreed.flag == 1 {
                    done.push(sum[0]);
                    step += 1;
                    continue;
                }
                comm.revoke()?;
                comm = comm.shrink()?;
                if let Some((end, ..)) = ends_at(3) {
                    return end.now().map(|()| None);
                }
            }
            Ok(Some(done))
        });
        let done = same(outcomes);
        for (step, &sum) in done.iter().enumerate() {
            for (rank, ends) in ends.iter().enumerate() {
                let has = sum & 1 << rank != 0;
                match ends {
                    // It ends when the others shrink for another reason.
                    Some((.., 3)) => {}
                    Some((_, at, 0)) if *at <= step => {
                        assert!(!has, "{nodes:?}, {ends:?}, {done:?}")
                    }
                    Some((_, at, _)) if *at < step => {
                        assert!(!has, "{nodes:?}, {ends:?}, {done:?}")
                    }
                    Some((_, at, _)) if *at == step => {}
                    _ => assert!(has, "{nodes:?}, {ends:?}, {done:?}"),
                }
            }
        }
    }
}

/// A rank that has dropped the communicator, and lives, takes part in no more decisions.
#[test]
fn a_rank_that_has_dropped_the_communicator_is_left_out() {
    for nodes in WORLDS {
        let ranks: usize = nodes.iter().sum();
        for drops in 0..ranks {
            for run in 0..4 {
                let (is_last, is_late) = (run % 2 == 0, run / 2 == 0);
                all_succeed(world(nodes, |rank| {
                    let channel = Channel::degree(1);
                    let world = Communicator::world(rank);
                    let comm = world.duplicate()?;
                    let world = Some(world).filter(|_| !is_last);
                    if rank.id() == drops {
                        if is_late {
                            comm.agree(1)?;
                            thread::yield_now();
                        }
                        drop(comm);
                        for other in (0..ranks).filter(|&other| other != drops) {
                            rank.receiver::<u64>("done", other, channel)?.receive()?;
                        }
                        return Ok(());
                    }
                    if is_late {
                        comm.agree(1)?;
                    }
                    let agreed = comm.agree(rank.id() as u64)?;
                    assert!(agreed.unacknowledged.is_empty());
                    let rest = comm.shrink()?;
                    assert_eq!(rest.size(), ranks - 1);
                    check(&rest)?;
                    drop(world);
                    rank.sender::<u64>("done", drops, channel)?.send(&1)
                }));
            }
        }
    }
}

#[test]
fn ranks_that_decide_different_things_learn_that() {
    for nodes in WORLDS {
        let ranks: usize = nodes.iter().sum();
        for shrinks in (0..ranks).filter(|_| ranks > 1) {
            all_succeed(world(nodes, |rank| {
                let comm = Communicator::world(rank);
                let error = match rank.id() == shrinks {
                    true => comm.shrink().unwrap_err(),
                    false => comm.agree(1).unwrap_err(),
                };
                assert!(matches!(error.kind(), ErrorKind::CallsDiffer(_)), "{error}");
                assert_eq!(comm.agree(1)?.flag, 1);
                Ok(())
            }));
        }
    }
}

/// Communicators of some of the ranks, made in several ways, are revoked and shrunk apart from each other.
#[test]
fn communicators_are_revoked_apart_from_each_other() {
    fn apart(rank: &Rank) -> Result<()> {
        let world = Communicator::world(rank);
        let half = world.split(Some(rank.id() as u64 % 2), 0)?.unwrap();
        let reversed = world.split(Some(0), -(rank.id() as i64))?.unwrap();
        for round in 0..5 {
            let again = half.shrink()?;
            check(&again)?;
            reversed.barrier()?;
            // Only one of the two halves.
            if rank.id() % 2 == round % 2 {
                again.revoke()?;
                let error = again.barrier().unwrap_err();
                assert!(is_revoked(&error), "{error}");
                assert_eq!(again.agree(3)?.flag, 3);
            } else {
                check(&again)?;
            }
            check(&reversed)?;
            assert!(!half.is_revoked() && !world.is_revoked());
        }
        Ok(())
    }
    for nodes in WORLDS {
        all_succeed(world(nodes, apart));
    }
}
