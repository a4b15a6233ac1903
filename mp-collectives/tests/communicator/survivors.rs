//! Ranks that go on after others were lost.

use std::time::Duration;

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Agreement, Call, Check, Communicator};
use mp_core::{
    Channel, Error, ErrorKind, Rank, Result, World,
    mpb::{Line, Mpbs},
};

use crate::{
    ends::{ended, lost, with_a_death},
    messages::{CHANNELS, numbers},
    support::{
        Random, Together, Watchdog, on_all,
        scenarios::{check, die},
    },
};

/// Long enough for errors to show.
const SHORT: Duration = Duration::from_millis(50);

/// After a death that was not acknowledged, every call that receives from any source fails, although another rank
/// lives, and whether it was already waiting or not. No message is lost by that, and after the acknowledgement such
/// calls wait for the other ranks.
#[test]
fn any_source_fails_until_a_death_is_acknowledged() {
    for waits_already in [false, true] {
        with_a_death(3, |_, world| {
            let me = world.rank();
            if me == 0 {
                world.send(&[5u8], 1, 5)?;
                if waits_already {
                    std::thread::sleep(Duration::from_millis(30));
                }
                match die() {}
            }
            if me == 2 {
                // Rank 2 lives as long as rank 1 waits.
                world.receive::<u8>(1, 0)?;
                world.send(&[7u8], 1, 1)?;
                return Ok(());
            }
            ensure!(world.receive::<u8>(ANY_SOURCE, 5)?.0 == 5, "what the dead one had sent");
            let posted = world.nonblocking_receive([0u8], ANY_SOURCE, 1);
            let mut into = [0u8];
            if waits_already {
                lost(posted.wait(), 0)?;
                lost(world.receive::<u8>(ANY_SOURCE, 1), 0)?;
            } else {
                lost(world.receive::<u8>(ANY_SOURCE, 1), 0)?;
                lost(posted.wait(), 0)?;
            }
            lost(world.probe(ANY_SOURCE, ANY_TAG), 0)?;
            lost(world.try_probe(ANY_SOURCE, 1), 0)?;
            lost(world.receive_vec::<u8>(ANY_SOURCE, 1), 0)?;
            lost(world.receive_timeout(&mut into, ANY_SOURCE, 1, Duration::from_secs(600)), 0)?;
            let mut exchange = world.exchange();
            exchange.receive(&mut into, ANY_SOURCE, 1);
            lost(exchange.run(), 0)?;
            ensure!(world.failed_ranks() == [0] && world.acknowledge() == [0], "the dead one");
            let posted = world.nonblocking_receive([0u8], ANY_SOURCE, 1);
            ensure!(world.try_probe(ANY_SOURCE, 1)?.is_none(), "a message from nobody");
            world.send(&[0u8], 2, 0)?;
            ensure!(posted.wait()?.0 == [7], "from the one that lives");
            Ok(())
        });
    }
}

/// A message that has arrived is received, even if any rank was lost.
#[test]
fn what_has_come_is_received_though_another_rank_is_lost() {
    with_a_death(3, |_, world| {
        match world.rank() {
            0 => match die() {},
            2 => world.send(&[7u8], 1, 1)?,
            _ => {
                lost(world.receive::<u8>(0, 1), 0)?;
                world.probe(2, 1)?;
                ensure!(world.receive::<u8>(ANY_SOURCE, 1)?.0 == 7, "from the one that lives");
            }
        }
        Ok(())
    });
}

/// An acknowledgement in one communicator does not count in another. A death in another communicator disturbs no rank.
#[test]
fn each_communicator_acknowledges_for_itself() {
    with_a_death(4, |_, world| {
        let copy = world.duplicate()?;
        let without = world.split((world.rank() > 0).then_some(1), 0)?;
        if world.rank() == 0 {
            match die() {}
        }
        let without = without.ok_or_else(crate::missing)?;
        let next = (without.rank() + 1) % 3;
        lost(world.receive::<u8>(ANY_SOURCE, 9), 0)?;
        without.send(&[1u8], next, 1)?;
        ensure!(without.receive::<u8>(ANY_SOURCE, 1)?.0 == 1, "among those that live");
        ensure!(world.acknowledge() == [0] && without.acknowledge().is_empty(), "whom");
        world.send(&[2u8], 1 + next, 1)?;
        ensure!(world.receive::<u8>(ANY_SOURCE, 1)?.0 == 2, "among those that live");
        lost(copy.receive::<u8>(ANY_SOURCE, 9), 0)?;
        // No rank ends before the others are done.
        for other in (1..4).filter(|&other| other != world.rank()) {
            world.send(&[3u8], other, 2)?;
        }
        for other in (1..4).filter(|&other| other != world.rank()) {
            world.receive::<u8>(other, 2)?;
        }
        Ok(())
    });
}

/// A rank that panics closes its channels before the world says that it is lost. Others still see it as lost.
#[test]
fn the_last_one_is_lost_by_a_panic() {
    let _watchdog = Watchdog::start();
    for _ in 0..200 {
        let ran = World::threads(2).run(|rank| {
            let world = Communicator::world(rank);
            if world.rank() == 1 {
                world.send(&[1u8], 0, 1)?;
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            world.receive::<u8>(1, 1)?;
            lost(world.receive::<u8>(ANY_SOURCE, 1), 1)?;
            ensure!(world.failed_ranks() == [1] && world.acknowledge() == [1], "who was lost");
            let error = world.receive::<u8>(ANY_SOURCE, 1).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
            Ok(())
        });
        let text = ran.unwrap_err().to_string();
        assert!(text.contains("rank 1") && !text.contains("rank 0"), "{text}");
    }
}

/// Threads that panic are lost. Threads that return an error have ended.
#[test]
fn threads_are_lost_by_panics() {
    let _watchdog = Watchdog::start();
    let ran = World::threads(3).run(|rank| {
        let world = Communicator::world(rank);
        match world.rank() {
            1 => panic!("on purpose"),
            2 => return Err(mp_core::Error::other("on purpose")),
            _ => {}
        }
        lost(world.receive::<u8>(ANY_SOURCE, 1), 1)?;
        ensure!(world.acknowledge() == [1], "{:?}", world.failed_ranks());
        let error = world.receive::<u8>(ANY_SOURCE, 1).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
        Ok(())
    });
    let text = ran.unwrap_err().to_string();
    assert!(text.contains("rank 1") && !text.contains("rank 0"), "{text}");
}

pub fn revoked<T>(result: std::result::Result<T, impl Into<Error>>) -> Result<()> {
    match result.map_err(Into::into).map_err(Error::into_kind) {
        Err(ErrorKind::Revoked { .. }) => Ok(()),
        Err(error) => Err(mp_core::Error::other(format!("another error: {error:?}"))),
        Ok(_) => Err(mp_core::Error::other("a call went well in a revoked communicator")),
    }
}

/// The receiver may have heard of the revocation first, and dropped the message.
fn revoked_or_gone(sent: std::result::Result<(), Error>) -> Result<()> {
    if sent.is_ok() { Ok(()) } else { revoked(sent) }
}

/// All ranks send messages of several lengths to all others, and check what they receive.
fn all_talk(world: &Communicator) -> Result<()> {
    let me = world.rank();
    for len in [1, 300, 100_000] {
        let mine = numbers(len, me as u64);
        let mut theirs = vec![vec![0u64; len]; world.size()];
        let mut exchange = world.exchange();
        for (other, into) in theirs.iter_mut().enumerate().filter(|(other, _)| *other != me) {
            exchange.send(&mine, other, 77).receive(into, other, 77);
        }
        exchange.run()?;
        for (other, got) in theirs.iter().enumerate().filter(|(other, _)| *other != me) {
            ensure!(*got == numbers(len, other as u64), "{len} elements from {other} are damaged");
        }
    }
    Ok(())
}

/// Waits, in one of several ways, for a message that never comes, with a neighbour that does the same.
fn wait_in_vain(how: usize, world: &Communicator, other: usize) -> Result<()> {
    let long = numbers(500_000, 1);
    let mut into = vec![0u64; 3];
    match how {
        0 => revoked(world.receive_into(&mut into, other, 1)),
        1 => revoked(world.receive_into(&mut into, ANY_SOURCE, ANY_TAG)),
        2 => revoked(world.probe(other, 1)),
        3 => {
            revoked_or_gone(world.send(&long, other, 1))?;
            revoked(world.receive_into(&mut into, other, 99))
        }
        4 => revoked(world.synchronous_send(&[1u8], other, 1)),
        5 => {
            let posted = world.nonblocking_receive(into, other, 1);
            // A part of the message is sent.
            let sent = world.nonblocking_send(long.clone(), other, 2);
            let synchronous = world.nonblocking_synchronous_send(long, other, 3);
            revoked(posted.wait())?;
            let back = match sent.wait() {
                Ok(buffer) => buffer,
                Err(mp_core::Failed { error, buffer }) => {
                    revoked(Err::<(), _>(error))?;
                    buffer
                }
            };
            ensure!(back.len() == 500_000, "the buffer comes back");
            revoked(synchronous.wait())
        }
        6 => revoked(world.send_receive(&long, other, 1, &mut into, other, 2)),
        7 => revoked(world.duplicate()),
        8 => {
            let mut receive = world.persistent_receive(into, other, 1);
            receive.start()?;
            revoked(receive.wait())
        }
        9 => revoked(world.joint().check(&Call::new("never"), None)),
        10 => {
            revoked_or_gone(world.buffered_send(&long, other, 1))?;
            revoked(world.receive_timeout(&mut into, other, 2, Duration::from_secs(600)))
        }
        _ => {
            // Every message is sent as an envelope alone.
            world.set_unexpected_limit(0);
            revoked_or_gone(world.send(&long, other, 1))?;
            revoked(world.receive_into(&mut into, other, 99))
        }
    }
}
const WAYS: usize = 12;

/// Checks that a revoked communicator refuses all calls.
fn all_is_refused(world: &Communicator) -> Result<()> {
    let other = (world.rank() + 1) % world.size();
    ensure!(world.is_revoked(), "it is revoked");
    let mut into = [0u64];
    revoked(world.send(&[1u64], other, 1))?;
    revoked(world.buffered_send(&[1u64], other, 1))?;
    revoked(world.nonblocking_send([1u64], other, 1).wait())?;
    revoked(world.nonblocking_receive([1u64], other, 1).wait())?;
    revoked(world.receive_into(&mut into, other, 1))?;
    revoked(world.receive_vec::<u64>(ANY_SOURCE, 1))?;
    revoked(world.try_probe(other, 1))?;
    revoked(world.split(Some(1), 0))?;
    let mut exchange = world.exchange();
    exchange.send(&[1u64], other, 1).receive(&mut into, other, 1);
    revoked(exchange.run())
}

/// When one rank revokes the communicator, all waits of the others end, whether they wait already or not. Other
/// communicators go on over the same channels, whatever was being sent.
#[test]
fn a_revocation_ends_every_wait() {
    for how in 0..WAYS {
        for delay in [0, 20] {
            on_all(3, |rank| {
                let world = Communicator::world(rank);
                let copy = world.duplicate()?;
                // All ranks have the copy by now.
                all_talk(&copy)?;
                if world.rank() == 0 {
                    std::thread::sleep(Duration::from_millis(delay));
                    world.revoke()?;
                } else {
                    let ended = wait_in_vain(how, &world, 3 - world.rank());
                    ended.map_err(|error| mp_core::Error::other(format!("{how}: {error}")))?;
                }
                all_is_refused(&world)?;
                ensure!(!copy.is_revoked(), "a copy goes on");
                copy.set_unexpected_limit(64 << 20);
                all_talk(&copy)?;
                let again = world.shrink()?;
                ensure!(again.size() == 3 && again.rank() == world.rank(), "{again:?}");
                all_talk(&again)?;
                let all = Agreement { flag: 6, unacknowledged: vec![] };
                ensure!(world.agree(7 - rank.id() as u64 % 2)? == all, "all are there");
                Ok(())
            });
        }
    }
}

/// If a rank revokes the communicator and dies, all others hear of the revocation, including those that never
/// communicated with it.
#[test]
fn a_revocation_outlives_the_revoker() {
    for how in 0..WAYS {
        with_a_death(4, |_, world| {
            if world.rank() == 0 {
                world.revoke()?;
                match die() {}
            }
            // Ranks 1 and 2 wait for each other, and rank 3 waits for rank 1.
            let other = [0, 2, 1, 1][world.rank()];
            let ended = wait_in_vain(how, world, other);
            ended.map_err(|error| mp_core::Error::other(format!("{how}: {error}")))?;
            let mut survivors = world.shrink()?;
            while survivors.size() > 3 {
                // Rank 0 had not died yet.
                survivors = survivors.shrink()?;
            }
            ensure!(survivors.world_rank(survivors.rank())? == world.rank(), "{survivors:?}");
            all_talk(&survivors)
        });
    }
}

/// Ranks of one communicator revoke it, and no other communicator is disturbed.
#[test]
fn a_revocation_concerns_its_communicator_alone() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        // Both halves have the same context.
        let half = world.split(Some(rank.id() as u64 % 2), 0)?.ok_or_else(crate::missing)?;
        let part = half.duplicate()?;
        // All ranks have the part by now.
        all_talk(&part)?;
        if rank.id() == 1 {
            half.revoke()?;
        }
        match rank.id() % 2 {
            1 => revoked(half.receive::<u8>(1 - half.rank(), 1))?,
            _ => all_talk(&half)?,
        }
        all_talk(&part)?;
        all_talk(&world)?;
        ensure!(half.is_revoked() == (rank.id() % 2 == 1), "{half:?}");
        ensure!(!world.is_revoked() && !part.is_revoked(), "others");
        all_talk(&half.shrink()?)
    });
}

/// A receiver's messages about revoked sends are not taken for messages about later ones.
#[test]
fn numbers_of_revoked_sends_are_not_used_again() {
    for len in [1, 100_000] {
        on_all(2, |rank| {
            let world = Communicator::world(rank);
            world.set_unexpected_limit(0);
            let copy = world.duplicate()?;
            let mut meet = Together::new(rank)?;
            let numbers = |round: u64| vec![round; len];
            if rank.id() == 0 {
                let sends: Vec<_> = (0..3)
                    .map(|tag| copy.nonblocking_synchronous_send(numbers(0), 1, tag))
                    .collect();
                // Meanwhile rank 1 announces that it has a receive for them.
                meet.wait()?;
                meet.wait()?;
                copy.revoke()?;
                drop(sends);
                let mut later: Vec<_> = (0..3)
                    .map(|tag| world.nonblocking_synchronous_send(numbers(1), 1, tag))
                    .collect();
                for _ in 0..100 {
                    for send in &mut later {
                        ensure!(
                            !send.test()?,
                            "a message of {len} was received before its receive"
                        );
                    }
                }
                meet.wait()?;
                return later.into_iter().try_for_each(|send| Ok(send.wait().map(drop)?));
            }
            meet.wait()?;
            let receives: Vec<_> =
                (0..3).map(|tag| copy.nonblocking_receive(vec![0u64; len], 0, tag)).collect();
            // The probe makes the progress that those receives need.
            world.try_probe(0, 9)?;
            meet.wait()?;
            meet.wait()?;
            for tag in 0..3 {
                let (got, _) = world.receive_vec::<u64>(0, tag)?;
                ensure!(got == numbers(1), "another message of {len}");
            }
            for receive in receives {
                match receive.wait() {
                    Ok((got, _)) => ensure!(got == numbers(0), "another message of {len}"),
                    Err(failed) => {
                        ensure!(
                            matches!(failed.error.kind(), ErrorKind::Revoked { .. }),
                            "{failed:?}"
                        )
                    }
                }
            }
            Ok(())
        });
    }
}

/// A send that was dropped before its rank revoked the communicator has already sent its number to the receiver.
#[test]
fn the_number_of_a_dropped_send_is_not_used_again() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let copy = world.duplicate()?;
        let flags = rank.mpb("told", Mpbs::lines(1))?;
        // Reading flags makes no progress.
        let tell = |rank, number| flags.set_flag(Line { rank, line: 0 }, number);
        let until_told = |number| -> Result<()> {
            while flags.flag(0)? < number {
                std::thread::yield_now();
            }
            Ok(())
        };
        let long = || vec![1u64; CHANNELS / 8 + 1];
        if rank.id() == 0 {
            until_told(1)?;
            // The first of its chunks are sent at once.
            drop(copy.nonblocking_synchronous_send(long(), 1, 0));
            tell(1, 1)?;
            until_told(2)?;
            copy.revoke()?;
            let mut later = world.nonblocking_synchronous_send([7u64], 1, 5);
            ensure!(!later.wait_timeout(SHORT)?, "it was received before its receive");
            tell(1, 2)?;
            return Ok(later.wait().map(drop)?);
        }
        let mut receive = copy.nonblocking_receive(long(), 0, 0);
        tell(0, 1)?;
        until_told(1)?;
        // This call announces that there is a receive for it.
        ensure!(!receive.test()?, "all of it came");
        tell(0, 2)?;
        while flags.flag(0)? < 2 {
            // The probe receives the rest of it.
            world.try_probe(0, 9)?;
        }
        ensure!(world.receive::<u64>(0, 5)?.0 == 7, "another message");
        ensure!(receive.wait()?.0 == long(), "another long message");
        Ok(())
    });
}

/// An exchange is prepared before the communicator is revoked, and run afterwards.
#[test]
fn an_exchange_begins_nothing_in_a_revoked_communicator() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let copy = world.duplicate()?;
        let (other, mut into) = (1 - rank.id(), [0u64]);
        let mut exchange = copy.exchange();
        exchange.send(&[1u64], other, 0).receive(&mut into, other, 1);
        copy.revoke()?;
        revoked(exchange.run())?;
        all_talk(&world)
    });
}

/// One rank revokes a communicator as soon as it has it, while the others are still making it.
#[test]
fn a_revocation_is_heard_by_those_who_make_the_communicator() {
    for ranks in [2, 5, 8] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            for round in 0..200 {
                let copy = world.duplicate()?;
                if rank.id() == round % ranks {
                    copy.revoke()?;
                }
                // No rank sends anything.
                revoked(copy.receive::<u8>((rank.id() + 1) % ranks, 1))?;
            }
            all_talk(&world)
        });
    }
}

/// A rank that has dropped this communicator, and has others, is not waited for, whatever it does.
#[test]
fn those_who_have_dropped_it_are_left_out() {
    for (ranks, agree) in [(2, false), (3, true), (5, false)] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            let copy = world.duplicate()?;
            let mut meet = Together::new(rank)?;
            if rank.id() == ranks - 1 {
                drop(copy);
                meet.wait()?;
                let got = world.receive::<usize>(0, 1)?.0;
                ensure!(got == ranks - 1, "{got} ranks are left");
                return Ok(());
            }
            meet.wait()?;
            if agree {
                copy.agree(1)?;
            }
            let left = copy.shrink()?;
            ensure!(left.size() == ranks - 1, "{left:?}");
            if rank.id() == 0 {
                world.send(&[left.size()], ranks - 1, 1)?;
            }
            Ok(())
        });
    }
}

/// The receiver's limit keeps a copy of the message at the sender, which has dropped the communicator.
#[test]
fn what_a_receiver_drops_is_not_kept_for_it() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        world.set_unexpected_limit(0);
        let copy = world.duplicate()?;
        // Both ranks know the limit by now.
        all_talk(&world)?;
        if rank.id() == 0 {
            copy.buffered_send(&[1u64; 1000], 1, 0)?;
            drop(copy);
            world.send(&[1u64], 1, 1)?;
            world.flush()?;
            return world.send(&[2u64], 1, 1);
        }
        world.receive::<u64>(0, 1)?;
        copy.revoke()?;
        ensure!(world.receive::<u64>(0, 1)?.0 == 2, "another message");
        Ok(())
    });
}

/// A rank that has dropped its communicator, before or after the others begin to decide, is not waited for.
#[test]
fn those_who_have_gone_are_left_out() {
    for late in [0, 20] {
        on_all(4, |rank| {
            let world = Communicator::world(rank);
            let other = Communicator::world(rank);
            if rank.id() == 2 {
                std::thread::sleep(Duration::from_millis(late));
                drop(world);
                // This rank stays until all others have shrunk the communicator.
                for from in [0, 1, 3] {
                    other.receive::<u8>(from, 1)?;
                }
                return Ok(());
            }
            let left = world.shrink()?;
            ensure!(left.size() == 3 && left.world_rank(2)? == 3, "{left:?}");
            all_talk(&left)?;
            other.send(&[1u8], 2, 1)?;
            ensure!(world.failed_ranks().is_empty(), "nobody was lost");
            Ok(())
        });
    }
}

/// A survivor that drops its communicator after a loss, and goes on running, delays no other rank: neither ranks that
/// wait for it, nor ranks that never communicated with it.
#[test]
fn a_survivor_that_gives_up_holds_nobody_up() {
    let _watchdog = Watchdog::start();
    let result = World::processes(4).run(|rank| {
        let world = Communicator::world(rank);
        let elsewhere = |from| rank.receiver::<u8>("elsewhere", from, Channel::degree(1));
        if world.rank() == 0 {
            match die() {}
        }
        if world.rank() == 1 {
            // Rank 2 has sent a message, and rank 3 has not.
            world.receive::<u8>(2, 1)?;
            lost(world.receive::<u8>(0, 1), 0)?;
            let told = [elsewhere(2)?, elsewhere(3)?];
            // Posted receives are dropped with the communicator.
            drop(world.nonblocking_receive([0u8], 2, 9));
            drop(world);
            return told.iter().try_for_each(|told| told.receive().map(drop));
        }
        let mut tell = rank.sender::<u8>("elsewhere", 1, Channel::degree(1))?;
        if world.rank() == 2 {
            world.send(&[1u8], 1, 1)?;
        }
        ended(world.receive::<u8>(1, 1), 1)?;
        ended(world.synchronous_send(&numbers(100_000, 1), 1, 2), 1)?;
        tell.send(&1)
    });
    check(result, 0).unwrap();
}

/// Threads that return errors and threads that panic are both left out.
#[test]
fn threads_that_fail_are_left_out() {
    let _watchdog = Watchdog::start();
    let ran = World::threads(5).run(|rank| {
        let world = Communicator::world(rank);
        match rank.id() {
            1 => return Err(mp_core::Error::other("on purpose")),
            3 => panic!("on purpose"),
            _ => {}
        }
        let left = world.shrink()?;
        // A rank that panics leaves its communicators first, and is lost a moment later.
        let failed = world.failed_ranks();
        ensure!(left.group().size() == 3, "{left:?}");
        ensure!(failed.is_empty() || failed == [3], "{failed:?}");
        all_talk(&left)
    });
    let text = ran.unwrap_err().to_string();
    assert!(text.contains("rank 1") && text.contains("rank 3"), "{text}");
    assert!(["rank 0", "rank 2", "rank 4"].iter().all(|rank| !text.contains(rank)), "{text}");
}

/// All ranks get the same result, round after round, while some come later.
#[test]
fn all_agree() {
    for ranks in [1, 2, 5] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            let mut random = Random::new(rank.id() as u64);
            for round in 0..50 {
                if random.below(4) == 0 {
                    std::thread::sleep(Duration::from_micros(random.below(500)));
                }
                let without = 1u64 << ((rank.id() as u64 + round) % 64);
                let flag =
                    (0..ranks as u64).map(|other| 1u64 << ((other + round) % 64)).sum::<u64>();
                let agreed = world.agree(!without)?;
                ensure!(agreed.flag == !flag && agreed.unacknowledged.is_empty(), "{agreed:?}");
            }
            Ok(())
        });
    }
}

/// All ranks hear of different decisions, and go on.
#[test]
fn different_decisions_are_named() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let differ = match rank.id() {
            1 => world.agree(1).map(drop),
            _ => world.shrink().map(drop),
        };
        match differ.map_err(Error::into_kind) {
            Err(ErrorKind::CallsDiffer(calls)) => {
                let text = calls.to_string();
                ensure!(text == "rank 1 called agree; the others called shrink", "{text}");
            }
            other => return Err(mp_core::Error::other(format!("{other:?}"))),
        }
        all_talk(&world.shrink()?)
    });
}

/// The memory of revoked communicators is freed.
#[test]
fn the_memory_of_revoked_communicators_is_freed() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let mut in_use = Vec::new();
        for round in 0..30 {
            let copy = world.duplicate()?;
            let never = world.duplicate()?;
            if round % 3 == rank.id() {
                copy.revoke()?;
            }
            revoked(copy.receive::<u8>((rank.id() + 1) % 3, 1))?;
            if round % 2 == 0 {
                all_talk(&copy.shrink()?)?;
            }
            drop((copy, never));
            world.agree(1)?;
            in_use.push(rank.memory().in_use);
            world.agree(1)?;
        }
        ensure!(in_use[29] <= in_use[5], "from {} to {} bytes", in_use[5], in_use[29]);
        Ok(())
    });
}

/// The same with checks of all calls.
#[test]
fn checked_communicators_are_shrunk() {
    with_a_death(4, |_, world| {
        world.joint().set_check(Check::On);
        let copy = world.duplicate()?;
        if world.rank() == 0 {
            match die() {}
        }
        if copy.duplicate().is_err() {
            copy.revoke()?;
        }
        let mut survivors = copy.shrink()?;
        while survivors.size() > 3 {
            survivors = survivors.shrink()?;
        }
        all_talk(&survivors.duplicate()?)
    });
}

/// Ranks are killed while all agree, shrink, and revoke. The others get the same result each time, and go on.
fn decide_until_few_are_left(rank: &Rank, seed: u64, is_process: bool) -> Result<()> {
    let world = Communicator::world(rank);
    let ranks = world.size();
    let mut all = Random::new(seed);
    // Chooses which ranks die, and when. The last two ranks survive.
    let victims = 1 + all.below(ranks as u64 - 1) as usize;
    let first = all.below(ranks as u64) as usize;
    let is_victim = (rank.id() + ranks - first) % ranks < victims;
    let mut own = Random::new(seed * 1000 + rank.id() as u64);
    // A process is killed at any moment. For threads that is impossible, because a panic of another thread would not be
    // the rank's.
    if is_victim && is_process && own.below(2) == 0 {
        let delay = Duration::from_micros(own.below(4000));
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            die()
        });
    }
    let mut current = world;
    let mut step = 0u64;
    let left = ranks - victims;
    while current.size() > left {
        step += 1;
        if is_victim && step > 1 + own.below(6) {
            if !is_process {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            die();
        }
        let flag = 1u64 << 63 | step;
        let agreed = current.agree(flag)?;
        ensure!(agreed.flag == flag, "{agreed:?} in step {step}");
        let talked = all_talk(&current);
        if talked.is_err() {
            current.revoke()?;
        }
        current = current.shrink()?;
        let me = current.rank();
        ensure!(current.world_rank(me)? == rank.id(), "{current:?}");
    }
    ensure!(!is_victim, "{current:?} has a rank that was to die");
    all_talk(&current)
}

#[test]
fn survivors_of_any_deaths_decide_alike() {
    for seed in 0..24 {
        let ranks = 2 + (seed % 7) as usize;
        for (world, is_process) in [(World::processes(ranks), true), (World::threads(ranks), false)]
        {
            let _watchdog = Watchdog::start();
            let ran = world.run(|rank| decide_until_few_are_left(rank, seed, is_process));
            let failed = match ran.map_err(mp_core::Error::into_kind) {
                Err(mp_core::ErrorKind::RanksFailed(failed)) => failed.failures,
                other => panic!("seed {seed}: {other:?}"),
            };
            for failure in failed {
                let is_death = match &failure.cause {
                    mp_core::Cause::Signal(9) => true,
                    mp_core::Cause::Panic(text) => text == "on purpose",
                    _ => false,
                };
                assert!(is_death, "seed {seed}, {ranks} ranks: {failure:?}");
            }
        }
    }
}
