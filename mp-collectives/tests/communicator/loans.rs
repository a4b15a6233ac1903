//! Messages that are lent between threads. The receiver gets the message, whether it comes in time or too late, and
//! whichever call it uses.
use mp_collectives::communicator::Communicator;
use mp_core::{Error, ErrorKind, Result, World};

use crate::{
    messages::{numbers, pause, receive_by_turns},
    support::on_all,
};

/// Elements of 8 bytes: lengths around the shortest lent message, around a chunk, and around the content of a ring of
/// chunks.
const LENGTHS: [usize; 9] = [511, 512, 513, 1024, 4095, 4096, 4097, 32_769, 70_001];

/// Back and forth, with every way to receive. Sometimes the receiver is late.
#[test]
fn whatever_the_receiver_does() {
    back_and_forth(usize::MAX);
}

/// The same with messages that are lent together with their envelopes, or else stay with the sender.
#[test]
fn whatever_the_receiver_does_with_what_it_must_ask_for() {
    back_and_forth(0);
}

fn back_and_forth(limit: usize) {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        world.set_unexpected_limit(limit);
        let other = 1 - world.rank();
        let rounds = LENGTHS.into_iter().cycle().take(4 * 7 * LENGTHS.len());
        for (round, len) in rounds.enumerate() {
            let wanted = numbers(len, round as u64);
            if round % 2 == world.rank() {
                pause(round % 5 == 4);
                world.send(&wanted, other, 3)?;
                continue;
            }
            pause(round % 3 == 2);
            let got = receive_by_turns(&world, (round, len), other)?;
            ensure!(got == wanted, "round {round}: {len} elements came otherwise");
        }
        Ok(())
    });
}

/// After the call, the sender may change its buffer, even if the message is still on its way.
#[test]
fn what_was_sent_may_be_changed() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let mut buffer = vec![0u64; 4000];
        for round in 0..300u64 {
            if world.rank() == 0 {
                buffer.fill(round);
                world.send(&buffer, 1, 0)?;
                buffer.fill(u64::MAX);
            } else {
                pause(round % 7 == 0);
                world.receive_into(&mut buffer, 0, 0)?;
                ensure!(buffer.iter().all(|&word| word == round), "round {round} was overwritten");
            }
        }
        Ok(())
    });
}

/// Both ranks send before they receive, and there is room for both messages.
#[test]
fn both_may_send_first() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        for round in 0..100 {
            let len = [600, 1024, 4096, 20_000][round % 4];
            let mut got = vec![0; len];
            world.send(&numbers(len, round as u64), other, 1)?;
            world.receive_into(&mut got, other, 1)?;
            ensure!(got == numbers(len, round as u64), "round {round}");
        }
        Ok(())
    });
}

/// A receive may skip messages, or refuse the next one.
#[test]
fn what_is_looked_past_or_refused_stays() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let (long, short) = (numbers(5000, 1), numbers(600, 2));
        for _ in 0..20 {
            if world.rank() == 0 {
                world.send(&long, 1, 1)?;
                world.send(&short, 1, 2)?;
                world.receive::<u8>(1, 0)?;
                continue;
            }
            let mut got = vec![0; 5000];
            ensure!(world.receive_into(&mut got, 0, 2)?.count == 600, "the second");
            ensure!(got[..600] == short[..], "the second");
            let refused = world.receive_into(&mut got[..4999], 0, 1);
            ensure!(
                matches!(
                    refused.as_ref().map_err(Error::kind),
                    Err(ErrorKind::Truncated { count: 5000, .. })
                ),
                "{refused:?}"
            );
            let refused = world.receive_into(&mut vec![0i64; 5000], 0, 1);
            ensure!(
                matches!(
                    refused.as_ref().map_err(Error::kind),
                    Err(ErrorKind::WrongElements { .. })
                ),
                "{refused:?}"
            );
            world.receive_into(&mut got, 0, 1)?;
            ensure!(got == long, "the first");
            world.send(&[0u8], 0, 0)?;
        }
        Ok(())
    });
}

/// Several communicators lend messages at the same time. One of them has separate channels.
#[test]
fn communicators_lend_apart() {
    on_all(2, |rank| {
        let one = Communicator::world(rank);
        let two = Communicator::world(rank);
        let three = two.duplicate()?;
        for round in 0..60 {
            for (number, world) in [&one, &two, &three].into_iter().enumerate() {
                let wanted = numbers(3000 + number, round);
                let mut got = vec![0; wanted.len()];
                if (round + number as u64) % 2 == world.rank() as u64 {
                    world.send(&wanted, 1 - world.rank(), 0)?;
                } else {
                    world.receive_into(&mut got, 1 - world.rank(), 0)?;
                    ensure!(got == wanted, "round {round} of communicator {number}");
                }
            }
        }
        Ok(())
    });
}

/// More ranks than this machine has cores. All of them send to all.
#[test]
fn crowds() {
    let ranks = World::threads(1).run(|rank| Ok(rank.cores())).unwrap()[0] + 1;
    let ranks = ranks.min(8);
    on_all(ranks, |rank| {
        let world = Communicator::world(rank);
        for by in 1..ranks {
            let (to, from) = ((rank.id() + by) % ranks, (rank.id() + ranks - by) % ranks);
            let mut got = vec![0; 9000];
            world.send(&numbers(9000, rank.id() as u64), to, 0)?;
            world.receive_into(&mut got, from, 0)?;
            ensure!(got == numbers(9000, from as u64), "from {from}");
        }
        Ok(())
    });
}

/// The receiver ends, or panics, while messages are offered to it.
#[test]
fn receivers_that_go() {
    for panics in [false, true] {
        let world = World::threads(2).run(|rank| -> Result<()> {
            let world = Communicator::world(rank);
            let mut message = vec![1u64; 3000];
            if world.rank() == 1 {
                for _ in 0..20 {
                    world.receive_into(&mut message, 0, 0)?;
                }
                assert!(!panics, "on purpose");
                return Ok(());
            }
            loop {
                match world.send(&message, 1, 0).map_err(Error::into_kind) {
                    Ok(()) => {}
                    Err(ErrorKind::PeerLost { rank: 1, .. }) if panics => return Ok(()),
                    Err(ErrorKind::PeerEnded { rank: 1 }) if !panics => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        });
        let failed = world.err().map(|error| error.to_string());
        assert_eq!(failed.is_some(), panics, "{failed:?}");
        assert!(failed.is_none_or(|error| error.contains("on purpose")), "another failure");
    }
}
