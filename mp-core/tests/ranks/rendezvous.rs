//! Channels of degree 0, and races between two ends whose time limits expire.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use mp_core::{Channel, Error, ErrorKind, Rank, Result, Select, WaitPolicy};

use crate::support::{Random, on_all, on_all_with};

const MEETING: Channel = Channel::degree(0);

#[test]
fn a_send_does_not_return_before_the_receive_begins() {
    on_all(2, |rank| {
        for round in 0..5u64 {
            if rank.id() == 0 {
                let mut meeting = rank.sender::<u64>("meeting", 1, MEETING)?;
                let mut sent = rank.sender::<u64>("sent", 1, Channel::degree(1))?;
                meeting.send(&round)?;
                sent.send(&round)?;
            } else {
                let meeting = rank.receiver::<u64>("meeting", 0, MEETING)?;
                let sent = rank.receiver::<u64>("sent", 0, Channel::degree(1))?;
                sleep(Duration::from_millis(20));
                ensure!(sent.try_receive()?.is_none(), "sent before it was received");
                ensure!(*meeting.receive()? == round, "round {round}");
                sent.receive()?;
            }
        }
        Ok(())
    });
}

#[test]
fn a_try_meets_only_who_waits() {
    on_all(2, |rank| {
        let mut go = rank.sender::<u8>("go", 1 - rank.id(), Channel::degree(4))?;
        let gone = rank.receiver::<u8>("go", 1 - rank.id(), Channel::degree(4))?;
        if rank.id() == 0 {
            let mut meeting = rank.sender::<u64>("meeting", 1, MEETING)?;
            for _ in 0..10 {
                let full = meeting.try_send(&1).err();
                ensure!(
                    matches!(
                        full.as_ref().map(Error::kind),
                        Some(ErrorKind::Full { degree: 0, .. })
                    ),
                    "{full:?}"
                );
                ensure!(meeting.try_reserve().is_err(), "reserved though nobody waits");
            }
            go.send(&0)?;
            // The receiver begins to wait at some time from now on.
            while let Err(error) = meeting.try_send(&2) {
                ensure!(matches!(error.kind(), ErrorKind::Full { .. }), "{error}");
                std::thread::yield_now();
            }
            gone.receive()?;
            // A slot that is given up leaves the receiver waiting.
            let slot = loop {
                match meeting.try_reserve() {
                    Ok(slot) => break slot,
                    Err(error) => {
                        ensure!(matches!(error.kind(), ErrorKind::Full { .. }), "{error}")
                    }
                }
            };
            drop(slot);
            meeting.send(&3)?;
            // Now this end waits for a receiver that only looks.
            meeting.send(&4)?;
            gone.receive()?;
        } else {
            let meeting = rank.receiver::<u64>("meeting", 0, MEETING)?;
            gone.receive()?;
            ensure!(meeting.try_receive()?.is_none(), "nobody waits with a message");
            ensure!(*meeting.receive()? == 2, "the first that was sent");
            go.send(&0)?;
            let third = meeting.receive()?;
            ensure!(*third == 3, "after the slot that was given up");
            let held = meeting.receive().err();
            ensure!(
                matches!(
                    held.as_ref().map(Error::kind),
                    Some(ErrorKind::GuardsHeld { held: 1, .. })
                ),
                "{held:?}"
            );
            drop(third);
            let fourth = loop {
                if let Some(guard) = meeting.try_receive()? {
                    break *guard;
                }
                std::thread::yield_now();
            };
            ensure!(fourth == 4, "{fourth}");
            go.send(&0)?;
        }
        Ok(())
    });
}

#[test]
fn messages_cross_at_degree_0_in_both_directions() {
    on_all(2, |rank| {
        let peer = 1 - rank.id();
        let mut to = rank.sender::<[u64]>("cross", peer, MEETING.max_len(3))?;
        let from = rank.receiver::<[u64]>("cross", peer, MEETING.max_len(3))?;
        for round in 0..300 {
            if rank.id() == 0 {
                to.send(&[round, round + 1])?;
                ensure!(*from.receive()? == [round], "round {round}");
            } else {
                let got = from.receive_buffer()?;
                ensure!(*got == [round, round + 1], "round {round}: {got:?}");
                drop(got);
                to.send_buffer(rank.buffer_from(&[round])?)?;
            }
        }
        Ok(())
    });
}

/// Sends and receives with limits that are mostly too short. The messages that were sent according to the results must
/// be those that were received.
fn impatient(rank: &Rank, degree: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed ^ rank.id() as u64);
    let channel = Channel::degree(degree);
    let everything = Channel::degree(1).max_len(2_000);
    let limit = |random: &mut Random| Duration::from_micros(random.below(200));
    if rank.id() == 0 {
        let mut sender = rank.sender::<u64>("impatient", 1, channel)?;
        let mut sent = Vec::new();
        for i in 0..400 {
            let result = match random.below(5) {
                0 => sender.try_send(&i),
                1 => sender.reserve_with(limit(&mut random)).map(drop).and(Err(Error::other("no"))),
                2 => sender.reserve_with(limit(&mut random)).and_then(|mut slot| {
                    *slot = i;
                    slot.publish()
                }),
                _ => sender.send_timeout(&i, limit(&mut random)),
            };
            match result.map_err(Error::into_kind) {
                Ok(()) => sent.push(i),
                Err(ErrorKind::Timeout { .. } | ErrorKind::Full { .. } | ErrorKind::Other(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sender.send(&u64::MAX)?;
        sent.push(u64::MAX);
        return rank.sender::<[u64]>("sent", 1, everything)?.send(&sent);
    }
    let receiver = rank.receiver::<u64>("impatient", 0, channel)?;
    let mut received = Vec::new();
    loop {
        let result = match random.below(4) {
            0 => receiver.try_receive().map(|guard| guard.map(|guard| *guard)),
            1 => {
                let mut select = Select::new();
                select.add(&receiver);
                match select.ready_with(limit(&mut random)) {
                    Ok(_) => receiver.try_receive().map(|guard| guard.map(|guard| *guard)),
                    Err(error) => Err(error),
                }
            }
            _ => receiver.receive_timeout(limit(&mut random)).map(|guard| Some(*guard)),
        };
        match result.map_err(Error::into_kind) {
            Ok(message) => received.extend(message),
            Err(ErrorKind::Timeout { .. }) => {}
            Err(ErrorKind::Disconnected { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let sent = rank.receiver::<[u64]>("sent", 0, everything)?;
    let sent = sent.receive()?;
    ensure!(*sent == *received, "sent {sent:?}\nreceived {received:?}");
    Ok(())
}

#[test]
fn impatient_ends_lose_and_double_nothing() {
    for policy in [WaitPolicy::Adaptive, WaitPolicy::Park, WaitPolicy::Spin] {
        on_all_with(
            2,
            |world| world.wait(policy),
            |rank| {
                for degree in [0, 0, 1, 3] {
                    for seed in 0..3 {
                        impatient(rank, degree, seed)?;
                    }
                }
                Ok(())
            },
        );
    }
}

/// A sender that has met a receiver may take long to fill the slot, or may never do it. The receiver's limit holds
/// nevertheless, and a later receive gets the message.
#[test]
fn a_receiver_does_not_wait_for_a_slow_writer_beyond_its_limit() {
    let limit = Duration::from_millis(20);
    on_all(2, |rank| {
        let mut to = rank.sender::<u8>("step", 1 - rank.id(), Channel::degree(1))?;
        let from = rank.receiver::<u8>("step", 1 - rank.id(), Channel::degree(1))?;
        if rank.id() == 0 {
            let mut meeting = rank.sender::<u64>("meeting", 1, MEETING)?;
            let mut slot = meeting.reserve()?;
            from.receive()?;
            *slot = 1;
            slot.publish()?;
            to.send(&0)?;
            // The slot is given up after the receiver has given up, so no offer is left.
            let slot = meeting.reserve()?;
            from.receive()?;
            drop(slot);
            let full = meeting.try_send(&2).err();
            ensure!(
                matches!(full.as_ref().map(Error::kind), Some(ErrorKind::Full { .. })),
                "{full:?}"
            );
            to.send(&0)?;
            meeting.send(&3)?;
            // The slot is given up after the receiver has come back.
            let slot = meeting.reserve()?;
            from.receive()?;
            sleep(limit);
            drop(slot);
            meeting.send(&4)?;
            // The slot is leaked.
            std::mem::forget(meeting.reserve()?);
            from.receive()?;
            return Ok(());
        }
        let meeting = rank.receiver::<u64>("meeting", 0, MEETING)?;
        let impatient = || -> Result<()> {
            // The first limit is long enough for the sender to come.
            for limit in [limit * 10, limit, Duration::ZERO] {
                let started = Instant::now();
                let error = meeting.receive_timeout(limit).err();
                ensure!(
                    matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Timeout { .. })),
                    "{error:?}"
                );
                ensure!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
                ensure!(meeting.try_receive()?.is_none(), "nothing was published");
            }
            Ok(())
        };
        impatient()?;
        to.send(&0)?;
        from.receive()?;
        ensure!(*meeting.receive()? == 1, "published while nobody waited any more");
        impatient()?;
        to.send(&0)?;
        from.receive()?;
        ensure!(*meeting.receive()? == 3, "after the slot that was given up");
        impatient()?;
        to.send(&0)?;
        ensure!(*meeting.receive()? == 4, "after another one");
        impatient()?;
        to.send(&0)?;
        let end = meeting.receive().err();
        ensure!(
            matches!(end.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
            "{end:?}"
        );
        Ok(())
    });
}
