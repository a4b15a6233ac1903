//! Ranks that end or die while others wait for them.

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

/// Runs processes of which one dies. Rank 0's code ends it.
pub fn with_a_death(ranks: usize, code: impl Fn(&Rank, &Communicator) -> Result<()> + Sync) {
    let _watchdog = Watchdog::start();
    let result = World::processes(ranks).run(|rank| {
        let world = Communicator::world(rank);
        code(rank, &world)
    });
    check(result, 0).unwrap();
}

/// Returns when a rank has been lost. Makes no progress meanwhile: if the receiver took chunks, the call that begins a
/// long message could send all of it.
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

/// A message whose sender dies in the middle of it is not received, and the receiver does not wait for the rest.
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

/// One of three ranks dies. A rank that waits for any other hears of the death, acknowledges it and goes on, until the
/// third rank has ended, too.
#[test]
fn any_source_ends_with_the_last() {
    with_a_death(3, |_, world| match world.rank() {
        0 => match die() {},
        1 => {
            lost(world.receive::<u8>(0, ANY_TAG), 0)?;
            // Rank 2 has acknowledged the death when it sends this.
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
            // The delay of rank 3 must not matter, because ranks are named by their numbers in the world.
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
        // The members are 3, 1 and 0, so the dead rank is number 2.
        match part.duplicate().map_err(Error::into_kind) {
            Err(ErrorKind::PeerLost { rank: 2, world_rank: 0, .. }) => Ok(()),
            other => Err(mp_core::Error::other(format!("{other:?}"))),
        }
    });
}

/// The same with ranks that end instead of dying, on all kinds of ranks.
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

/// A rank is killed at a random moment, during any operation.
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
                    // The other survivor may have heard of the death first, and ended.
                    Err(ErrorKind::PeerEnded { rank }) if rank != 0 && me != 0 => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        });
    }
}

/// Rank 0 fails while its message is under way. Rank 1 never takes the message, because it waits for rank 0 elsewhere.
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
                // The request is kept until the error has dropped the communicator, or is dropped before.
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

/// Messages that are not sent completely when the communicator is dropped are sent later: during calls of another
/// communicator, or after the rank's code has returned.
#[test]
fn what_is_under_way_outlives_its_communicator() {
    on_all(2, |rank| {
        let other = 1 - rank.id();
        let first = Communicator::world(rank);
        first.buffered_send(&numbers(500_000, rank.id() as u64), other, 1)?;
        if rank.id() == 1 {
            // Rank 0 is in the next communicator by now. It answers when it has sent the whole message.
            let (got, _) = first.receive_vec::<u64>(0, 1)?;
            ensure!(got == numbers(500_000, 0), "damaged");
            let next = Communicator::world(rank);
            next.send(&[2u8], 0, 2)?;
            // This rank's own message is sent after its code has returned.
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

/// A flush waits until all messages have been sent, also those whose requests nobody waits for.
#[test]
fn a_flush_waits_for_what_is_under_way() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - rank.id();
        world.buffered_send(&numbers(500_000, 1), other, 1)?;
        if rank.id() == 1 {
            ensure!(world.receive_vec::<u64>(other, 1)?.0 == numbers(500_000, 1), "damaged");
            let elsewhere = rank.receiver::<u8>("elsewhere", 0, Channel::degree(1))?;
            // Rank 0 sends this without another call of the communicator.
            elsewhere.receive()?;
            return Ok(());
        }
        world.flush()?;
        rank.sender::<u8>("elsewhere", 1, Channel::degree(1))?.send(&1)?;
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == numbers(500_000, 1), "damaged");
        Ok(())
    });
}

/// A rank drops its communicators and goes on running. The others hear of it at once, also ranks that it never sent
/// anything to, and ranks that come later.
#[test]
fn a_dropped_communicator_has_ended_for_all() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let told = |from| rank.receiver::<u8>("told", from, Channel::degree(1));
        if rank.id() == 0 {
            let told = [told(1)?, told(2)?];
            drop(world);
            // This rank ends when both others have seen it.
            return told.iter().try_for_each(|told| told.receive().map(drop));
        }
        if rank.id() == 2 {
            // Usually rank 0 has dropped its communicator by then.
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
        // Some messages may be sent before rank 0 has dropped its communicator.
        let sent = (0..100).try_for_each(|_| world.send(&numbers(100_000, 1), 0, 1));
        ended(sent, 0)?;
        tell.send(&1)
    });
}

/// Programs that make communicators again and again do not need more and more memory.
#[test]
fn the_memory_of_dropped_communicators_is_freed() {
    on_all(3, |rank| {
        let others = [1, 2].map(|by| (rank.id() + by) % 3);
        let mut in_use = Vec::new();
        let barrier = Communicator::world(rank);
        for round in 0..40 {
            let world = Communicator::world(rank);
            // Some channels are open, some were never opened at either end, and some were opened at one end.
            if round % 2 == 0 && rank.id() == 0 {
                // Rank 1 may already have dropped its communicator.
                let _ = world.send(&[1u8], 1, 1);
            }
            drop(world);
            // The barrier comes after all ranks have dropped their communicators.
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
