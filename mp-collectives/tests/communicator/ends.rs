//! Ranks that end or die while others count on them.

use std::time::Duration;

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator, wait_any};
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World};

use crate::{
    messages::numbers,
    missing,
    support::{
        Random, Watchdog, on_all, run_on_all_with,
        scenarios::{check, die},
    },
};

pub fn lost<T>(result: Result<T, impl Into<Error>>, rank: usize) -> Result<()> {
    match result.map_err(Into::into).map_err(Error::into_kind) {
        Err(ErrorKind::PeerLost { rank: lost, world_rank, .. })
            if lost == rank && world_rank == rank =>
        {
            Ok(())
        }
        Err(error) => Err(mp_core::Error::other(format!("another error: {error:?}"))),
        Ok(_) => Err(mp_core::Error::other("a message from nobody")),
    }
}

pub fn ended<T>(result: Result<T, impl Into<Error>>, rank: usize) -> Result<()> {
    match result.map_err(Into::into).map_err(Error::into_kind) {
        Err(ErrorKind::PeerEnded { rank: ended }) if ended == rank => Ok(()),
        Err(error) => Err(mp_core::Error::other(format!("another error: {error:?}"))),
        Ok(_) => Err(mp_core::Error::other("a message from nobody")),
    }
}

/// Runs processes of which one dies, by rank 0's hand.
pub fn with_a_death(ranks: usize, code: impl Fn(&Rank, &Communicator) -> Result<()> + Sync) {
    let _watchdog = Watchdog::start();
    let result = World::processes(ranks).run(|rank| {
        let world = Communicator::world(rank);
        code(rank, &world)
    });
    check(result, 0).unwrap();
}

/// Returns when a rank has been lost. Brings nothing on meanwhile: a receiver that took chunks would let the call that
/// begins a long message send all of it.
pub fn until_lost(rank: &Rank, other: usize) {
    while !rank.is_lost(other) {
        std::thread::yield_now();
    }
}

#[test]
fn what_the_dead_had_sent_is_received() {
    with_a_death(2, |rank, world| {
        let lengths = [1, 70, 1000, 3];
        if world.rank() == 0 {
            for len in lengths {
                world.send(&numbers(len, 1), 1, 1)?;
            }
            world.send_buffer(rank.buffer_from(&numbers(70_000, 2))?, 1, 2)?;
            match die() {}
        }
        for len in lengths {
            ensure!(world.receive_vec::<u64>(0, 1)?.0 == numbers(len, 1), "{len}");
        }
        ensure!(world.probe(0, ANY_TAG)?.count == 70_000, "the buffer");
        lost(world.receive::<u8>(0, 1), 0)?;
        ensure!(world.receive_vec::<u64>(0, 2)?.0 == numbers(70_000, 2), "the buffer");
        lost(world.receive::<u8>(0, 2), 0)?;
        lost(world.receive::<u8>(ANY_SOURCE, ANY_TAG), 0)?;
        lost(world.probe(0, 2), 0)?;
        lost(world.try_probe(ANY_SOURCE, 2), 0)?;
        lost(world.send(&[1u8], 0, 1), 0)?;
        lost(world.synchronous_send(&[1u8], 0, 1), 0)?;
        lost(world.duplicate(), 0)
    });
}

/// The message that it was in the middle of is not received, and nobody waits for the rest.
#[test]
fn a_death_in_the_middle_of_a_message() {
    with_a_death(2, |rank, world| {
        let long = numbers(500_000, 1);
        if world.rank() == 0 {
            drop(world.nonblocking_send(long, 1, 1));
            match die() {}
        }
        until_lost(rank, 0);
        let mut into = vec![0u64; 500_000];
        lost(world.receive_into(&mut into, 0, 1), 0)
    });
}

#[test]
fn whoever_waits_for_the_dead_hears_of_it() {
    for how in 0..6 {
        with_a_death(2, |_, world| {
            if world.rank() == 0 {
                world.send(&[0u8], 1, 9)?;
                world.receive::<u8>(1, 9)?;
                std::thread::sleep(Duration::from_millis(30));
                match die() {}
            }
            world.receive::<u8>(0, 9)?;
            world.send(&[0u8], 0, 9)?;
            let long = numbers(500_000, 1);
            let mut into = vec![0u64; 3];
            match how {
                0 => lost(world.receive_into(&mut into, 0, 1), 0),
                1 => lost(world.receive_into(&mut into, ANY_SOURCE, ANY_TAG), 0),
                2 => lost(world.send(&long, 0, 1), 0),
                3 => lost(world.synchronous_send(&[1u8], 0, 1), 0),
                4 => {
                    let one = world.nonblocking_receive(into, 0, 1);
                    let two = world.nonblocking_send(long, 0, 1);
                    lost(one.wait(), 0)?;
                    lost(two.wait(), 0)
                }
                _ => lost(world.send_receive(&long, 0, 1, &mut into, 0, 1), 0),
            }
        });
    }
}

/// One of three dies: who waits for any other hears of it, acknowledges it and goes on, until that one has
/// ended, too.
#[test]
fn any_source_ends_with_the_last() {
    with_a_death(3, |_, world| match world.rank() {
        0 => match die() {},
        1 => {
            lost(world.receive::<u8>(0, ANY_TAG), 0)?;
            // When rank 2 has acknowledged it.
            world.receive::<u8>(2, 2)?;
            for i in 0..10u64 {
                std::thread::sleep(Duration::from_millis(1));
                world.send(&[i], 2, 1)?;
            }
            Ok(())
        }
        _ => {
            lost(world.receive::<u64>(ANY_SOURCE, 1), 0)?;
            ensure!(world.acknowledge() == [0], "{:?}", world.failed_ranks());
            world.send(&[0u8], 1, 2)?;
            for i in 0..10 {
                ensure!(world.receive::<u64>(ANY_SOURCE, 1)?.0 == i, "message {i}");
            }
            let error = world.receive::<u64>(ANY_SOURCE, 1).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
            lost(world.receive::<u64>(0, 1), 0)?;
            ended(world.receive::<u64>(1, 1), 1)
        }
    });
}

#[test]
fn all_learn_who_is_missing() {
    with_a_death(4, |_, world| {
        if world.rank() == 3 {
            // World ranks are what counts.
            std::thread::sleep(Duration::from_millis(5));
        }
        let part = world.split(Some(u64::from(world.rank() != 2)), -(world.rank() as i64))?;
        let part = part.ok_or_else(missing)?;
        if world.rank() == 0 {
            match die() {}
        }
        if world.rank() == 2 {
            return Ok(());
        }
        // 3, 1, 0: the dead one is number 2 of it.
        match part.duplicate().map_err(Error::into_kind) {
            Err(ErrorKind::PeerLost { rank: 2, world_rank: 0, .. }) => Ok(()),
            other => Err(mp_core::Error::other(format!("{other:?}"))),
        }
    });
}

/// The same without a death, on all kinds of ranks.
#[test]
fn ranks_that_have_ended_send_and_receive_nothing_more() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let me = world.rank();
        if me > 0 {
            world.send(&vec![me as u8; 5000], 0, 1)?;
            return Ok(());
        }
        for other in [2, 1] {
            let (got, _) = world.receive_vec::<u8>(other, ANY_TAG)?;
            ensure!(got == vec![other as u8; 5000], "from {other}");
            ended(world.receive::<u8>(other, ANY_TAG), other)?;
            ended(world.send(&[1u8], other, 1), other)?;
            ended(world.nonblocking_receive([0u8], other, 1).wait(), other)?;
            ended(world.nonblocking_send([0u8], other, 1).wait(), other)?;
        }
        let error = world.receive::<u8>(ANY_SOURCE, ANY_TAG).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
        let error = world.probe(ANY_SOURCE, 3).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
        let mut posted = [world.nonblocking_receive([0u8], ANY_SOURCE, 1)];
        ensure!(wait_any(&mut posted)? == 0, "it has its answer");
        Ok(())
    });
}

/// A rank is killed at a moment that chance chooses, in the middle of everything.
#[test]
fn deaths_at_any_moment() {
    for seed in 0..12 {
        with_a_death(3, |_, world| {
            let me = world.rank();
            if me == 0 {
                let delay = Random::new(seed).below(8000);
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(delay));
                    die()
                });
            }
            let mut random = Random::new(seed * 3 + me as u64);
            loop {
                let len = [1, 50, 3000, 60_000][random.below(4) as usize];
                let mine = numbers(len, 1);
                let (mut left, mut right) = (vec![0u64; 60_000], vec![0u64; 60_000]);
                let mut exchange = world.exchange();
                for (by, into) in [(1, &mut left), (2, &mut right)] {
                    exchange.receive(into, (me + by) % 3, by as u32);
                    exchange.send(&mine, (me + 3 - by) % 3, by as u32);
                }
                match exchange.run().map_err(Error::into_kind) {
                    Ok(statuses) => {
                        for (status, got) in statuses.iter().zip([&left, &right]) {
                            ensure!(
                                got[..status.count] == numbers(status.count, 1),
                                "a damaged message: {status:?}"
                            );
                        }
                    }
                    Err(ErrorKind::PeerLost { rank: 0, .. }) => return Ok(()),
                    // The other survivor was told first.
                    Err(ErrorKind::PeerEnded { rank }) if rank != 0 && me != 0 => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        });
    }
}

/// Rank 0 fails with a message under way, which rank 1 never takes: it waits for rank 0 elsewhere.
#[test]
fn an_error_with_a_send_under_way_ends_the_rank() {
    for how in 0..3 {
        let all = run_on_all_with(
            2,
            |world| world,
            |rank| {
                let world = Communicator::world(rank);
                if rank.id() == 1 {
                    world.receive::<u8>(0, 1)?;
                    let elsewhere = rank.receiver::<u8>("elsewhere", 0, Channel::degree(1))?;
                    return elsewhere.receive().map(drop);
                }
                world.buffered_send(&[1u8], 1, 1)?;
                // Kept until the error has dropped the communicator, or dropped before it.
                let _sent = match how {
                    0 => Some(world.nonblocking_send(numbers(500_000, 1), 1, 5)),
                    1 => {
                        drop(world.nonblocking_send(numbers(500_000, 1), 1, 5));
                        None
                    }
                    _ => {
                        world.buffered_send(&numbers(500_000, 1), 1, 5)?;
                        None
                    }
                };
                Err(mp_core::Error::other("what went wrong"))
            },
        );
        for (kind, ended) in all.each() {
            let text = ended.unwrap_err().to_string();
            assert!(text.contains("rank 0: what went wrong"), "{kind}, {how}: {text}");
        }
    }
}

/// What is still to be sent when the communicator is dropped is sent: during calls of another one, or
/// when the rank's code has returned.
#[test]
fn what_is_under_way_outlives_its_communicator() {
    on_all(2, |rank| {
        let other = 1 - rank.id();
        let first = Communicator::world(rank);
        first.buffered_send(&numbers(500_000, rank.id() as u64), other, 1)?;
        if rank.id() == 1 {
            // Only now, rank 0 is in the next communicator: it answers when it has all of this.
            let (got, _) = first.receive_vec::<u64>(0, 1)?;
            ensure!(got == numbers(500_000, 0), "damaged");
            let next = Communicator::world(rank);
            next.send(&[2u8], 0, 2)?;
            // Its own goes when this code has returned.
            drop(next);
            drop(first);
            return Ok(());
        }
        let mut into = vec![0u64; 500_000];
        let posted = first.nonblocking_receive(&mut into[..], 1, 1);
        drop(first);
        let next = Communicator::world(rank);
        next.receive::<u8>(1, 2)?;
        posted.wait()?;
        ensure!(into == numbers(500_000, 1), "damaged");
        Ok(())
    });
}

/// All of it is on its way after a flush, also what nobody waits for.
#[test]
fn a_flush_waits_for_what_is_under_way() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - rank.id();
        world.buffered_send(&numbers(500_000, 1), other, 1)?;
        if rank.id() == 1 {
            ensure!(world.receive_vec::<u64>(other, 1)?.0 == numbers(500_000, 1), "damaged");
            let elsewhere = rank.receiver::<u8>("elsewhere", 0, Channel::degree(1))?;
            // Rank 0 says so without another call of the communicator.
            elsewhere.receive()?;
            return Ok(());
        }
        world.flush()?;
        rank.sender::<u8>("elsewhere", 1, Channel::degree(1))?.send(&1)?;
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == numbers(500_000, 1), "damaged");
        Ok(())
    });
}

/// A rank that has dropped its communicators and works on is told of at once: to those that it never sent
/// anything to, and to those that come later.
#[test]
fn a_dropped_communicator_has_ended_for_all() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let told = |from| rank.receiver::<u8>("told", from, Channel::degree(1));
        if rank.id() == 0 {
            let told = [told(1)?, told(2)?];
            drop(world);
            // It ends when both have seen it.
            return told.iter().try_for_each(|told| told.receive().map(drop));
        }
        if rank.id() == 2 {
            // Not before rank 0 has dropped its communicator, mostly.
            std::thread::sleep(Duration::from_millis(30));
        }
        let long = numbers(500_000, 1);
        let mut tell = rank.sender::<u8>("told", 0, Channel::degree(1))?;
        ended(world.receive::<u8>(0, 1), 0)?;
        ended(world.send(&[1u8], 0, 1), 0)?;
        ended(world.send(&long, 0, 1), 0)?;
        ended(world.synchronous_send(&[1u8], 0, 1), 0)?;
        ended(world.nonblocking_send(long, 0, 1).wait(), 0)?;
        ended(world.nonblocking_receive([0u8], 0, 1).wait(), 0)?;
        ended(world.duplicate(), 0)?;
        tell.send(&1)
    });
}

/// The same for a rank that only sends.
#[test]
fn what_goes_to_a_dropped_communicator_is_refused() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        if rank.id() == 0 {
            let told = rank.receiver::<u8>("told", 1, Channel::degree(1))?;
            drop(world);
            return told.receive().map(drop);
        }
        let mut tell = rank.sender::<u8>("told", 0, Channel::degree(1))?;
        // Some may go on their way before rank 0 has dropped its communicator.
        let sent = (0..100).try_for_each(|_| world.send(&numbers(100_000, 1), 0, 1));
        ended(sent, 0)?;
        tell.send(&1)
    });
}

/// Programs that make a communicator again and again do not need more and more memory.
#[test]
fn the_memory_of_dropped_communicators_is_freed() {
    on_all(3, |rank| {
        let others = [1, 2].map(|by| (rank.id() + by) % 3);
        let mut in_use = Vec::new();
        let barrier = Communicator::world(rank);
        for round in 0..40 {
            let world = Communicator::world(rank);
            // Some of the channels are there, some were never opened at either end, some at one.
            if round % 2 == 0 && rank.id() == 0 {
                // Rank 1 may have dropped it by now.
                let _ = world.send(&[1u8], 1, 1);
            }
            drop(world);
            // All have dropped it.
            for other in others {
                barrier.send(&[0u8], other, 1)?;
            }
            for other in others {
                barrier.receive::<u8>(other, 1)?;
            }
            in_use.push(rank.memory().in_use);
            for other in others {
                barrier.send(&[0u8], other, 2)?;
            }
            for other in others {
                barrier.receive::<u8>(other, 2)?;
            }
        }
        ensure!(in_use[39] <= in_use[4], "from {} to {} bytes", in_use[4], in_use[39]);
        Ok(())
    });
}
