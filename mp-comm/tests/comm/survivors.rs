//! Ranks that go on after others were lost.

use std::time::Duration;

use mp_comm::{ANY_SOURCE, ANY_TAG, Communicator, Error};
use mp_core::World;

use crate::{
    ends::{lost, with_a_death},
    support::{Watchdog, scenarios::die},
};

/// Every way to receive from any source fails for a death that was not acknowledged, though another rank
/// lives, waits or not; nothing is lost by that; and waits for the others afterwards.
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
                // Lives as long as rank 1 waits.
                world.receive::<u8>(1, 0)?;
                world.send(&[7u8], 1, 1)?;
                return Ok(());
            }
            ensure!(world.receive::<u8>(ANY_SOURCE, 5)?.0 == 5, "what the dead one had sent");
            let posted = world.immediate_receive([0u8], ANY_SOURCE, 1);
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
            let posted = world.immediate_receive([0u8], ANY_SOURCE, 1);
            ensure!(world.try_probe(ANY_SOURCE, 1)?.is_none(), "a message from nobody");
            world.send(&[0u8], 2, 0)?;
            ensure!(posted.wait()?.0 == [7], "from the one that lives");
            Ok(())
        });
    }
}

/// A message that is there is received, whoever was lost.
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

/// What is acknowledged in one communicator is not in another; a death in another one disturbs nobody.
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
        // So that nobody has ended before.
        for other in (1..4).filter(|&other| other != world.rank()) {
            world.send(&[3u8], other, 2)?;
        }
        for other in (1..4).filter(|&other| other != world.rank()) {
            world.receive::<u8>(other, 2)?;
        }
        Ok(())
    });
}

/// Threads that panic are lost; those that return an error have ended.
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
        ensure!(matches!(error, Error::NobodyLeft), "{error}");
        Ok(())
    });
    let text = ran.unwrap_err().to_string();
    assert!(text.contains("rank 1") && !text.contains("rank 0"), "{text}");
}
