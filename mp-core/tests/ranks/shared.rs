//! Channels of several senders and receivers.

use mp_core::{Channel, Endpoints, Error, ErrorKind, Rank, Result, Select};

use crate::support::{Random, SIZES, on_all};

/// All ranks report to rank 0 what they sent and received, and rank 0 checks that both agree.
fn settle(rank: &Rank, name: &str, sent: &[u64], received: &[u64]) -> Result<()> {
    let channel = Channel::degree(2).max_len(100_000);
    let name = format!("settle {name}");
    if rank.id() > 0 {
        let mut to = rank.sender::<[u64]>(&name, 0, channel)?;
        to.send_buffer(rank.buffer_from(sent)?)?;
        return Ok(to.send_buffer(rank.buffer_from(received)?)?);
    }
    let (mut sent, mut received) = (sent.to_vec(), received.to_vec());
    for from in 1..rank.size() {
        let from = rank.receiver::<[u64]>(&name, from, channel)?;
        sent.extend_from_slice(&from.receive()?);
        received.extend_from_slice(&from.receive()?);
    }
    sent.sort_unstable();
    received.sort_unstable();
    ensure!(sent == received, "{name}: sent {} received {}", sent.len(), received.len());
    Ok(())
}

/// Returns a message that contains its sender and its number at that sender.
fn message(sender: usize, number: u64) -> u64 {
    (sender as u64) << 32 | number
}

#[test]
fn every_message_reaches_one_receiver_once() {
    on_all(6, |rank| {
        let mut endpoints = Vec::new();
        for senders in 1..=3 {
            for receivers in 1..=3 {
                endpoints.push((senders, receivers));
            }
        }
        for (senders, receivers) in endpoints {
            for degree in [1, 2, 3, 8] {
                let name = format!("{senders} {receivers} {degree}");
                let endpoints = Endpoints::new(0..senders, 3..3 + receivers);
                let channel = Channel::degree(degree);
                let (mut sent, mut received) = (Vec::new(), Vec::new());
                if rank.id() < senders {
                    let mut sender = rank.shared_sender::<u64>(&name, &endpoints, channel)?;
                    for i in 0..60 {
                        let message = message(rank.id(), i);
                        match i % 4 {
                            0 => sender.send(&message)?,
                            1 => {
                                let mut slot = sender.reserve()?;
                                *slot = message;
                                slot.publish()?;
                            }
                            2 => {
                                // The slot is given up. No rank must receive it or wait for it.
                                *sender.reserve()? = u64::MAX;
                                sender.send(&message)?;
                            }
                            _ => loop {
                                match sender.try_send(&message).map_err(Error::into_kind) {
                                    Err(ErrorKind::Full { .. }) => std::thread::yield_now(),
                                    result => break result?,
                                }
                            },
                        }
                        sent.push(message);
                    }
                } else if (3..3 + receivers).contains(&rank.id()) {
                    let receiver = rank.shared_receiver::<u64>(&name, &endpoints, channel)?;
                    received =
                        receiver.iter().map(|message| Ok(*message?)).collect::<Result<_>>()?;
                    let end = receiver.receive().err();
                    ensure!(
                        matches!(
                            end.as_ref().map(Error::kind),
                            Some(ErrorKind::Disconnected { .. })
                        ),
                        "{end:?}"
                    );
                    for sender in 0..senders {
                        let of = |&&m: &&u64| m >> 32 == sender as u64;
                        let numbers: Vec<_> = received.iter().filter(of).collect();
                        // The numbers must be in order at every receiver, and complete if there is only one receiver.
                        ensure!(numbers.is_sorted(), "{name}: out of order: {numbers:?}");
                        ensure!(receivers > 1 || numbers.len() == 60, "{}", numbers.len());
                    }
                }
                settle(rank, &name, &sent, &received)?;
            }
        }
        Ok(())
    });
}

/// All ranks are at both ends.
#[test]
fn everybody_sends_and_receives() {
    for size in SIZES {
        on_all(size, |rank| {
            for degree in [1, 3] {
                let endpoints = Endpoints::new(0..size, 0..size);
                let name = format!("all {degree}");
                let channel = Channel::degree(degree).max_len(3);
                let mut sender = Some(rank.shared_sender::<[u64]>(&name, &endpoints, channel)?);
                let receiver = rank.shared_receiver::<[u64]>(&name, &endpoints, channel)?;
                let (mut sent, mut received) = (Vec::new(), Vec::new());
                loop {
                    if let Some(open) = &mut sender {
                        let message = message(rank.id(), sent.len() as u64);
                        let len = 1 + sent.len() % 3;
                        match open.try_send(&[message; 3][..len]).map_err(Error::into_kind) {
                            Ok(()) => sent.push(message),
                            Err(ErrorKind::Full { .. }) => {}
                            Err(error) => return Err(error.into()),
                        }
                        if sent.len() == 100 {
                            sender = None;
                        }
                    }
                    match receiver.try_receive().map_err(Error::into_kind) {
                        Ok(Some(message)) => {
                            let len = 1 + (message[0] & 0xffff_ffff) as usize % 3;
                            ensure!(*message == [message[0]; 3][..len], "{message:?}");
                            received.push(message[0]);
                        }
                        Ok(None) => std::thread::yield_now(),
                        Err(ErrorKind::Disconnected { .. }) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                settle(rank, &name, &sent, &received)?;
            }
            Ok(())
        });
    }
}

#[test]
fn guards_and_slots_are_held_by_several_at_once() {
    on_all(4, |rank| {
        let endpoints = Endpoints::new([0, 1], [2, 3]);
        let channel = Channel::degree(7);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut random = Random::new(rank.id() as u64);
        if rank.id() < 2 {
            let mut sender = rank.shared_sender::<u64>("held", &endpoints, channel)?;
            for i in 0..500 {
                let mut slot = sender.reserve()?;
                *slot = message(rank.id(), i);
                if random.below(4) == 0 {
                    std::thread::yield_now();
                }
                slot.publish()?;
                sent.push(message(rank.id(), i));
            }
        } else {
            let receiver = rank.shared_receiver::<u64>("held", &endpoints, channel)?;
            let mut held = Vec::new();
            loop {
                match receiver.try_receive().map_err(Error::into_kind) {
                    Ok(Some(guard)) => {
                        received.push(*guard);
                        held.push((*guard, guard));
                    }
                    Ok(None) => std::thread::yield_now(),
                    Err(ErrorKind::Disconnected { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
                ensure!(held.iter().all(|(value, guard)| *value == **guard), "a message changed");
                random.shuffle(&mut held);
                // Two receivers that hold up to three guards each leave a slot.
                held.truncate(random.below(4) as usize);
            }
        }
        settle(rank, "held", &sent, &received)
    });
}

/// A rank that leaves early does not end the channel for the others.
#[test]
fn ranks_leave_early() {
    on_all(5, |rank| {
        let endpoints = Endpoints::new([0, 1, 2], [3, 4]);
        let channel = Channel::degree(2);
        let mut sum = 0;
        match rank.id() {
            0 => drop(rank.shared_sender::<u64>("left", &endpoints, channel)?),
            // This rank never opens its end. The end is closed when the rank's code ends.
            1 => {}
            2 => {
                let mut sender = rank.shared_sender::<u64>("left", &endpoints, channel)?;
                (1..=200).try_for_each(|i| sender.send(&i))?;
            }
            3 => {
                let receiver = rank.shared_receiver::<u64>("left", &endpoints, channel)?;
                // This gets fewer messages if the other receiver was faster.
                sum = receiver.iter().take(5).map(|i| Ok(*i?)).sum::<Result<u64>>()?;
            }
            _ => {
                let receiver = rank.shared_receiver::<u64>("left", &endpoints, channel)?;
                sum = receiver.iter().map(|i| Ok(*i?)).sum::<Result<u64>>()?;
            }
        }
        // The messages that each rank got differ from run to run, but their sum does not.
        let mut total = rank.sender::<u64>("total", 0, Channel::degree(1))?;
        total.send(&sum)?;
        if rank.id() > 0 {
            return Ok(0);
        }
        (0..5)
            .map(|from| Ok(*rank.receiver::<u64>("total", from, Channel::degree(1))?.receive()?))
            .sum()
    })
    .into_iter()
    .zip([200 * 201 / 2, 0, 0, 0, 0])
    .for_each(|(got, expected)| assert_eq!(got, expected));
}

#[test]
fn all_receivers_gone_is_told_to_every_sender() {
    on_all(4, |rank| {
        let endpoints = Endpoints::new([0, 1], [2, 3]);
        let channel = Channel::degree(2);
        if rank.id() >= 2 {
            let receiver = rank.shared_receiver::<u64>("deaf", &endpoints, channel)?;
            receiver.receive()?;
            return Ok(());
        }
        let mut sender = rank.shared_sender::<u64>("deaf", &endpoints, channel)?;
        let error = loop {
            if let Err(error) = sender.send(&1) {
                break error;
            }
        };
        ensure!(matches!(error.kind(), ErrorKind::Disconnected { .. }), "{error}");
        Ok(())
    });
}

#[test]
fn moved_buffers_go_to_one_of_several() {
    on_all(4, |rank| {
        let endpoints = Endpoints::new([0, 1], [2, 3]);
        let channel = Channel::degree(3);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        if rank.id() < 2 {
            let mut sender = rank.shared_sender::<[u64]>("moved", &endpoints, channel)?;
            for i in 0..200 {
                let len = 1 + i as usize % 50;
                sender.send_buffer(rank.buffer_from(&vec![message(rank.id(), i); len])?)?;
                sent.push(message(rank.id(), i));
            }
        } else {
            let receiver = rank.shared_receiver::<[u64]>("moved", &endpoints, channel)?;
            while let Ok(buffer) = receiver.receive_buffer() {
                let len = 1 + (buffer[0] & 0xffff_ffff) as usize % 50;
                ensure!(*buffer == vec![buffer[0]; len], "{buffer:?}");
                received.push(buffer[0]);
            }
        }
        settle(rank, "moved", &sent, &received)
    });
}

/// Several senders and receivers, all with short limits.
#[test]
fn impatient_ends_lose_and_double_nothing() {
    on_all(5, |rank| {
        for degree in [1, 2, 5] {
            let name = format!("impatient {degree}");
            let endpoints = Endpoints::new([0, 1], [2, 3, 4]);
            let channel = Channel::degree(degree);
            let mut random = Random::new(u64::from(degree) * 100 + rank.id() as u64);
            let limit = |random: &mut Random| std::time::Duration::from_micros(random.below(100));
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            if rank.id() < 2 {
                let mut sender = rank.shared_sender::<u64>(&name, &endpoints, channel)?;
                for i in 0..500 {
                    match sender
                        .send_timeout(&message(rank.id(), i), limit(&mut random))
                        .map_err(Error::into_kind)
                    {
                        Ok(()) => sent.push(message(rank.id(), i)),
                        Err(ErrorKind::Timeout { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            } else {
                let receiver = rank.shared_receiver::<u64>(&name, &endpoints, channel)?;
                let mut select = Select::new();
                select.add(&receiver);
                loop {
                    let one = if random.below(3) == 0 {
                        select.ready_with(limit(&mut random)).and_then(|_| {
                            receiver.try_receive().map(|guard| guard.map(|guard| *guard))
                        })
                    } else {
                        receiver.receive_timeout(limit(&mut random)).map(|guard| Some(*guard))
                    };
                    match one.map_err(Error::into_kind) {
                        Ok(message) => received.extend(message),
                        Err(ErrorKind::Timeout { .. }) => {}
                        Err(ErrorKind::Disconnected { .. }) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            settle(rank, &name, &sent, &received)?;
        }
        Ok(())
    });
}

#[test]
fn shared_channels_that_can_not_be_are_errors() {
    on_all(3, |rank| {
        let one = Channel::degree(1);
        let bad = |result: Result<(), Error>, what: &str| -> Result<()> {
            match result.map_err(Error::into_kind) {
                Err(ErrorKind::BadChannel { reason, .. }) if reason.contains(what) => Ok(()),
                other => Err(Error::other(format!("{what}: {other:?}"))),
            }
        };
        let sender = |endpoints: &Endpoints, channel| {
            rank.shared_sender::<u64>("x", endpoints, channel).map(drop)
        };
        let all = Endpoints::new(0..3, 0..3);
        bad(sender(&all, Channel::degree(0)), "degree")?;
        bad(sender(&Endpoints::new([], [1]), one), "at either end")?;
        bad(sender(&Endpoints::new([1], []), one), "at either end")?;
        let others = Endpoints::new((0..3).filter(|&r| r != rank.id()), 0..3);
        bad(sender(&others, one), "not among")?;
        let error = sender(&Endpoints::new([0, 3], [1]), one).err();
        ensure!(
            matches!(
                error.as_ref().map(Error::kind),
                Some(ErrorKind::NoSuchRank { rank: 3, size: 3 })
            ),
            "{error:?}"
        );
        // Order and repetition do not matter.
        let mut sender = rank.shared_sender::<u64>("y", &Endpoints::new([2, 1, 0], [0, 0]), one)?;
        if rank.id() == 0 {
            let y = rank.shared_receiver::<u64>("y", &Endpoints::new([1, 0, 2, 2], [0]), one)?;
            let receiver = rank.shared_receiver::<u64>("z", &Endpoints::new(0..3, [0]), one);
            ensure!(receiver.is_ok(), "another name");
            drop(sender);
            let mut got = y.iter().map(|m| Ok(*m?)).collect::<Result<Vec<u64>>>()?;
            got.sort_unstable();
            ensure!(got == [1, 2], "{got:?}");
            return Ok(());
        }
        sender.send(&(rank.id() as u64))
    });
}
