//! Receives and probes from any source: there are channels only between ranks that communicate, and a rank that never
//! communicates ends like the others.

use std::time::Duration;

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World};

use crate::{
    ends::{ended, lost, with_a_death},
    support::{Together, Watchdog, on_all, scenarios::die},
};

/// The bytes of a channel of lines, plus the other memory for each rank.
const EACH: u64 = 32 << 10;

/// Takes the message of rank `before` by one of several kinds of calls.
fn from_any(world: &Communicator, how: usize, before: usize) -> Result<()> {
    match how {
        0 => {
            let (got, status) = world.receive::<u64>(ANY_SOURCE, ANY_TAG)?;
            ensure!((got, status.source) == (7, before), "{got} {status:?}");
            return Ok(());
        }
        1 => ensure!(world.probe(ANY_SOURCE, 1)?.source == before, "another one"),
        2 => {
            while world.try_probe(ANY_SOURCE, ANY_TAG)?.is_none() {
                std::thread::yield_now();
            }
        }
        _ => {
            let mut posted = world.nonblocking_receive([0u64], ANY_SOURCE, 1);
            while !posted.test()? {
                std::thread::yield_now();
            }
            posted.wait()?;
            return Ok(());
        }
    }
    world.receive::<u64>(before, 1)?;
    Ok(())
}

/// Each rank receives from the one before it, in calls that accept any source.
fn ring(rank: &Rank, how: usize) -> Result<u64> {
    let mut together = Together::new(rank)?;
    let world = Communicator::world(rank);
    let (me, size) = (world.rank(), world.size());
    let (before, after) = ((me + size - 1) % size, (me + 1) % size);
    ensure!(world.try_probe(ANY_SOURCE, ANY_TAG)?.is_none(), "nobody has sent anything");
    together.wait()?;
    if me == 0 {
        world.send(&[7u64], after, 1)?;
    }
    from_any(&world, how, before)?;
    if me != 0 {
        world.send(&[7u64], after, 1)?;
    }
    together.wait()?;
    let in_use = rank.memory().in_use;
    // Memory is measured before any rank ends.
    together.wait()?;
    Ok(in_use)
}

#[test]
fn memory_grows_with_those_who_talk() {
    for how in 0..4 {
        on_all(5, |rank| ring(rank, how).map(drop));
    }
    let _watchdog = Watchdog::start();
    for (ranks, world) in [(64, World::threads(64)), (16, World::processes(16))] {
        let in_use = world.run(|rank| ring(rank, 0)).unwrap();
        assert!(in_use[0] < EACH * ranks, "{} bytes among {ranks} ranks", in_use[0]);
    }
}

/// Rank 0 hands a task to each rank that asks for one, until all ranks have ended.
#[test]
fn a_farm_opens_the_ways_to_its_master() {
    let farm = |rank: &Rank| {
        let mut together = Together::new(rank)?;
        let world = Communicator::world(rank);
        let mut sum = 0;
        if world.rank() > 0 {
            loop {
                world.send(&[sum], 0, 1)?;
                let (task, _) = world.receive::<u64>(ANY_SOURCE, 2)?;
                if task == 0 {
                    break;
                }
                sum += task;
            }
        } else {
            let (mut next, mut told) = (500u64, 1);
            while told < world.size() {
                let (_, status) = world.receive::<u64>(ANY_SOURCE, ANY_TAG)?;
                world.send(&[next], status.source, 2)?;
                told += usize::from(next == 0);
                next = next.saturating_sub(1);
            }
        }
        together.wait()?;
        let in_use = rank.memory().in_use;
        together.wait()?;
        if world.rank() > 0 {
            return Ok((sum, in_use));
        }
        let error = world.receive::<u64>(ANY_SOURCE, ANY_TAG).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
        Ok((0, in_use))
    };
    for ranks in [2, 3, 5, 8] {
        on_all(ranks, |rank| farm(rank).map(drop));
    }
    let _watchdog = Watchdog::start();
    let told = World::threads(64).run(farm).unwrap();
    assert_eq!(told.iter().map(|&(sum, _)| sum).sum::<u64>(), 500 * 501 / 2);
    // One channel for each direction.
    assert!(told[1].1 < 2 * 64 * EACH, "{} bytes", told[1].1);
}

/// The way in which a rank ends that has never sent anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Returns,
    /// It drops its communicator, and stays.
    Drops,
    Dies,
}

/// The last rank waits for any of the others. They end without sending anything, before it waits or while it waits.
fn silent(how: Goes, late: bool, rank: &Rank, world: Communicator) -> Result<()> {
    let told = |from| rank.receiver::<u8>("told", from, Channel::degree(1));
    let last = world.size() - 1;
    if rank.id() < last {
        // Usually the last rank sleeps by then.
        std::thread::sleep(Duration::from_millis(if late {
            30 + 10 * rank.id() as u64
        } else {
            0
        }));
        match how {
            Goes::Returns => {}
            Goes::Drops => {
                drop(world);
                told(last)?.receive()?;
            }
            Goes::Dies => {
                if rank.id() == 0 {
                    die();
                }
            }
        }
        return Ok(());
    }
    if !late {
        std::thread::sleep(Duration::from_millis(30));
    }
    let mut posted = world.nonblocking_receive([0u64], ANY_SOURCE, 1);
    for _ in 0..2 {
        match (world.receive::<u64>(ANY_SOURCE, ANY_TAG).map_err(Error::into_kind), how) {
            (Err(ErrorKind::NobodyLeft), Goes::Returns | Goes::Drops) => {}
            (error, Goes::Dies) => lost(error, 0)?,
            (other, _) => return Err(mp_core::Error::other(format!("{how:?}: {other:?}"))),
        }
    }
    ensure!(posted.test()?, "it has its answer");
    if how == Goes::Dies {
        ensure!(world.acknowledge() == [0], "{:?}", world.failed_ranks());
        let error = world.receive::<u64>(ANY_SOURCE, ANY_TAG).unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
    }
    ensure!(world.try_probe(ANY_SOURCE, 3).is_err() && world.probe(ANY_SOURCE, 3).is_err(), "ends");
    for other in 0..last {
        match (how, other) {
            (Goes::Dies, 0) => {
                lost(world.send(&[1u8], 0, 1), 0)?;
                lost(world.receive::<u8>(0, 1), 0)?;
            }
            _ => {
                ended(world.send(&[1u8], other, 1), other)?;
                ended(world.receive::<u8>(other, 1), other)?;
            }
        }
    }
    if how == Goes::Drops {
        for other in 0..last {
            rank.sender::<u8>("told", other, Channel::degree(1))?.send(&1)?;
        }
    }
    Ok(())
}

#[test]
fn those_who_never_talk_end_like_the_others() {
    for late in [false, true] {
        for how in [Goes::Returns, Goes::Drops] {
            for ranks in [2, 4] {
                on_all(ranks, |rank| silent(how, late, rank, Communicator::world(rank)));
            }
        }
        for ranks in [2, 4] {
            with_a_death(ranks, |rank, _| {
                silent(Goes::Dies, late, rank, Communicator::world(rank))
            });
        }
    }
}

/// A rank whose code panics is lost, and has not ended in the normal way.
#[test]
fn a_panic_of_one_who_never_talks_is_a_loss() {
    for late in [0, 30] {
        let _watchdog = Watchdog::start();
        let result = World::threads(3).run(|rank| {
            let world = Communicator::world(rank);
            if rank.id() > 0 {
                std::thread::sleep(Duration::from_millis(late));
                std::panic::resume_unwind(Box::new("without a word"));
            }
            // Either of the other ranks may be the first to end.
            let first = world.receive::<u8>(ANY_SOURCE, 1);
            ensure!(
                matches!(
                    first.as_ref().map_err(Error::kind),
                    Err(ErrorKind::PeerLost { rank: 1 | 2, .. })
                ),
                "{first:?}"
            );
            Err::<(), _>(mp_core::Error::other("as it should"))
        });
        let text = result.unwrap_err().to_string();
        assert!(text.contains("as it should"), "{text}");
    }
}

/// Messages that were sent before their sender ended are received. Ranks outside of the communicator are not waited
/// for.
#[test]
fn what_the_first_had_sent_comes_before_their_end() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        let me = world.rank();
        let half = world.split(Some((me % 2) as u64), 0)?;
        let half = half.ok_or_else(crate::missing)?;
        if me == 3 {
            world.send(&vec![3u64; 3000], 1, 1)?;
            half.send(&[4u64], 0, 1)?;
            return Ok(());
        }
        if me == 1 {
            std::thread::sleep(Duration::from_millis(20));
            ensure!(half.receive::<u64>(ANY_SOURCE, ANY_TAG)?.0 == 4, "of the half");
            let error = half.receive::<u64>(ANY_SOURCE, ANY_TAG).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
            ensure!(world.receive_vec::<u64>(ANY_SOURCE, 1)?.0 == [3; 3000], "of the world");
            world.send(&[1u8], 0, 1)?;
            world.send(&[1u8], 2, 1)?;
            return Ok(());
        }
        // This rank stays until the last one has looked.
        world.receive::<u8>(ANY_SOURCE, 1).map(drop)
    });
}

/// Two ranks wait to send long messages. Meanwhile each takes the message for which it has posted a receive from any
/// source.
#[test]
fn who_waits_to_send_hears_callers() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let posted = world.nonblocking_receive(vec![0u64; 500_000], ANY_SOURCE, 1);
        world.send(&vec![world.rank() as u64; 500_000], other, 1)?;
        let got = posted.wait()?.0;
        ensure!(got == vec![other as u64; 500_000], "damaged");
        Ok(())
    });
}

/// The roll of a communicator's callers is freed with the communicator.
#[test]
fn rolls_are_freed() {
    on_all(3, |rank| {
        let mut together = Together::new(rank)?;
        let mut in_use = Vec::new();
        for _ in 0..20 {
            let world = Communicator::world(rank);
            let next = (rank.id() + 1) % 3;
            world.send(&[1u8], next, 1)?;
            world.receive::<u8>(ANY_SOURCE, 1)?;
            together.wait()?;
            drop(world);
            together.wait()?;
            in_use.push(rank.memory().in_use);
            together.wait()?;
        }
        ensure!(in_use[19] <= in_use[4], "from {} to {} bytes", in_use[4], in_use[19]);
        Ok(())
    });
}
