//! Waiting for several receivers at once.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use mp_core::{
    Channel, Endpoints, Error, ErrorKind, Receiver, Receivers, Result, Select, WaitPolicy,
};

use crate::support::{SIZES, on_all, on_all_with};

/// A collector gets all messages of all workers, in the order of each worker, until all have closed their ends.
#[test]
fn a_collector_serves_all_and_ends_with_the_last() {
    for size in SIZES.map(|workers| workers + 1) {
        for degree in [0, 1, 5] {
            on_all(size, |rank| {
                let channel = Channel::degree(degree);
                if rank.id() > 0 {
                    let mut results = rank.sender::<u64>("results", 0, channel)?;
                    return (0..50 * rank.id() as u64).try_for_each(|i| results.send(&i));
                }
                let from: Vec<Receiver<u64>> = (1..size)
                    .map(|worker| rank.receiver("results", worker, channel))
                    .collect::<Result<_>>()?;
                let mut select = Select::new();
                for (i, receiver) in from.iter().enumerate() {
                    ensure!(select.add(receiver) == i, "indices count from 0");
                }
                let mut next = vec![0; from.len()];
                while !select.is_empty() {
                    let which = select.ready()?;
                    match from[which].try_receive().map_err(Error::into_kind) {
                        Ok(Some(result)) => {
                            ensure!(*result == next[which], "{} of {which}", *result);
                            next[which] += 1;
                        }
                        Ok(None) => {}
                        Err(ErrorKind::Disconnected { .. }) => select.remove(which),
                        Err(error) => return Err(error.into()),
                    }
                }
                for (i, got) in next.iter().enumerate() {
                    ensure!(*got == 50 * (i as u64 + 1), "{got} from worker {}", i + 1);
                }
                let error = select.ready().err();
                ensure!(
                    matches!(error.as_ref().map(Error::kind), Some(ErrorKind::BadWorld(_))),
                    "nothing left: {error:?}"
                );
                ensure!(select.try_ready().is_none(), "nothing left");
                Ok(())
            });
        }
    }
}

/// A server owns its receivers. Each client opens one channel after another, and each receiver takes a free place.
#[test]
fn a_server_adds_and_removes_clients_while_it_serves_others() {
    const TALKS: u64 = 3;
    for size in SIZES.map(|clients| clients + 1) {
        for degree in [0, 1, 5] {
            on_all(size, |rank| {
                let channel = Channel::degree(degree);
                let name = |talk: u64| format!("talk {talk}");
                if rank.id() > 0 {
                    for talk in 0..TALKS {
                        let mut requests = rank.sender::<u64>(&name(talk), 0, channel)?;
                        (0..20).try_for_each(|i| requests.send(&(100 * talk + i)))?;
                    }
                    return Ok(());
                }
                let mut clients = Receivers::<u64>::new();
                ensure!(clients.is_empty() && clients.try_ready().is_none(), "none yet");
                let error = clients.ready().map_err(Error::into_kind);
                ensure!(matches!(error, Err(ErrorKind::BadWorld(_))), "{error:?}");
                // For each place: the client that is served there, the number of its talk, and the next request.
                let mut served = Vec::new();
                for client in 1..size {
                    let index = clients.push(rank.receiver(&name(0), client, channel)?);
                    ensure!(index == client - 1, "{index}");
                    served.push((client, 0, 0));
                }
                let mut ended = 0;
                while !clients.is_empty() {
                    let which = clients.ready()?;
                    let (client, talk, next) = served[which];
                    let request = clients[which].try_receive().map(|got| got.map(|got| *got));
                    match request.map_err(Error::into_kind) {
                        Ok(Some(request)) => {
                            ensure!(request == 100 * talk + next, "{request} of {client}");
                            served[which].2 += 1;
                        }
                        Ok(None) => {}
                        Err(ErrorKind::Disconnected { .. }) => {
                            ensure!(next == 20, "{next} requests of {client}");
                            let left = clients.remove(which).is_some();
                            ensure!(left && clients.get(which).is_none(), "one place is free");
                            ended += 1;
                            if talk + 1 < TALKS {
                                let next = rank.receiver(&name(talk + 1), client, channel)?;
                                let free = clients.push(next);
                                ensure!(free <= which, "place {free} with {which} free");
                                served[free] = (client, talk + 1, 0);
                            }
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                ensure!(ended == (size as u64 - 1) * TALKS, "{ended} talks");
                Ok(())
            });
        }
    }
}

#[test]
fn ready_channels_are_served_in_turn() {
    on_all(1, |rank| {
        let channel = Channel::degree(10);
        let mut senders = Vec::new();
        let mut receivers = Vec::new();
        for name in ["a", "b", "c"] {
            senders.push(rank.sender::<u32>(name, 0, channel)?);
            receivers.push(rank.receiver::<u32>(name, 0, channel)?);
        }
        for sender in &mut senders {
            (0..10).try_for_each(|i| sender.send(&i))?;
        }
        let mut select = Select::new();
        for receiver in &receivers {
            select.add(receiver);
        }
        for round in 0..10 {
            let mut turn = Vec::new();
            for _ in 0..3 {
                let which = if round % 2 == 0 {
                    select.ready()?
                } else {
                    select.try_ready().ok_or_else(|| Error::other("nothing is ready"))?
                };
                ensure!(receivers[which].try_receive()?.map(|m| *m) == Some(round), "order");
                turn.push(which);
            }
            ensure!(turn == [0, 1, 2], "round {round} served {turn:?}");
        }
        ensure!(select.try_ready().is_none(), "all are empty");
        // Only one of the three has a message.
        senders[1].send(&7)?;
        for _ in 0..3 {
            ensure!(select.ready()? == 1, "only the second has a message");
        }
        drop(senders);
        let mut ended = Vec::new();
        while !select.is_empty() {
            let which = select.ready()?;
            match receivers[which].try_receive().map_err(Error::into_kind) {
                Ok(message) => ensure!(message.is_some_and(|m| *m == 7), "the last message"),
                Err(ErrorKind::Disconnected { .. }) => {
                    select.remove(which);
                    ended.push(which);
                }
                Err(error) => return Err(error.into()),
            }
        }
        ended.sort_unstable();
        ensure!(ended == [0, 1, 2], "{ended:?}");
        Ok(())
    });
}

#[test]
fn a_selection_has_limits() {
    for policy in [WaitPolicy::Adaptive, WaitPolicy::Park, WaitPolicy::Spin] {
        on_all_with(
            1,
            |world| world.wait(policy),
            |rank| {
                let _sender = rank.sender::<u32>("silent", 0, Channel::degree(1))?;
                let receiver = rank.receiver::<u32>("silent", 0, Channel::degree(1))?;
                let mut select = Select::new();
                select.add(&receiver);
                for limit in [Duration::ZERO, Duration::from_millis(10)] {
                    let started = Instant::now();
                    let error = select.ready_with(limit).err();
                    ensure!(
                        matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Timeout { .. })),
                        "{error:?}"
                    );
                    ensure!(started.elapsed() >= limit, "too early");
                }
                Ok(())
            },
        );
    }
}

/// A selection has a channel of slices, one of values, a rendezvous and a shared channel. Each gets a message after a
/// while.
#[test]
fn channels_of_all_kinds_wake_a_sleeping_selection() {
    for policy in [WaitPolicy::Adaptive, WaitPolicy::Park] {
        on_all_with(
            3,
            |world| world.wait(policy),
            |rank| {
                let endpoints = Endpoints::new([0, 1], [2]);
                let pause = || sleep(Duration::from_millis(3));
                match rank.id() {
                    0 => {
                        let mut words =
                            rank.sender::<[u8]>("words", 2, Channel::degree(2).max_len(8))?;
                        let mut meeting = rank.sender::<u64>("meeting", 2, Channel::degree(0))?;
                        for i in 0..5 {
                            pause();
                            words.send(&[i; 8])?;
                            pause();
                            meeting.send(&1)?;
                        }
                    }
                    1 => {
                        let mut numbers = rank.sender::<f64>("numbers", 2, Channel::degree(1))?;
                        let mut shared =
                            rank.shared_sender::<u8>("shared", &endpoints, Channel::degree(2))?;
                        for i in 0..5 {
                            pause();
                            numbers.send(&f64::from(i))?;
                            pause();
                            shared.send(&i)?;
                        }
                    }
                    _ => {
                        let words =
                            rank.receiver::<[u8]>("words", 0, Channel::degree(2).max_len(8))?;
                        let meeting = rank.receiver::<u64>("meeting", 0, Channel::degree(0))?;
                        let numbers = rank.receiver::<f64>("numbers", 1, Channel::degree(1))?;
                        let shared =
                            rank.shared_receiver::<u8>("shared", &endpoints, Channel::degree(2))?;
                        let mut select = Select::new();
                        select.add(&words);
                        select.add(&meeting);
                        select.add(&numbers);
                        select.add(&shared);
                        let mut counts = [0; 4];
                        while !select.is_empty() {
                            let which = select.ready()?;
                            let got = match which {
                                0 => words.try_receive().map(|m| m.is_some()),
                                1 => meeting.try_receive().map(|m| m.is_some()),
                                2 => numbers.try_receive().map(|m| m.is_some()),
                                _ => shared.try_receive().map(|m| m.is_some()),
                            };
                            match got.map_err(Error::into_kind) {
                                Ok(got) => counts[which] += u32::from(got),
                                Err(ErrorKind::Disconnected { .. }) => select.remove(which),
                                Err(error) => return Err(error.into()),
                            }
                        }
                        ensure!(counts == [5; 4], "{counts:?}");
                    }
                }
                Ok(())
            },
        );
    }
}

/// A receiver that was removed from the selection does not wake it, and keeps its messages.
#[test]
fn a_removed_receiver_is_no_longer_waited_for() {
    on_all(1, |rank| {
        let mut sender = rank.sender::<u32>("x", 0, Channel::degree(2))?;
        let receiver = rank.receiver::<u32>("x", 0, Channel::degree(2))?;
        let other = rank.receiver::<u32>("y", 0, Channel::degree(2))?;
        let _other = rank.sender::<u32>("y", 0, Channel::degree(2))?;
        let mut select = Select::new();
        select.add(&receiver);
        select.add(&other);
        sender.send(&5)?;
        ensure!(select.ready()? == 0, "the first has a message");
        select.remove(0);
        select.remove(7);
        ensure!(!select.is_empty() && select.try_ready().is_none(), "removed");
        ensure!(select.ready_with(Duration::from_millis(5)).is_err(), "removed");
        ensure!(*receiver.receive()? == 5, "the message stays");
        Ok(())
    });
}

/// A rank that waits for room goes on receiving. So two ranks that send each other more than their channels hold do not
/// wait for each other for ever.
#[test]
fn room_can_be_waited_for_along_with_messages() {
    for degree in [1, 2, 5] {
        on_all(2, |rank| {
            const MESSAGES: u64 = 200;
            let other = 1 - rank.id();
            let endpoints = Endpoints::new([0, 1], [0, 1]);
            let mut to = rank.sender::<u64>("both ways", other, Channel::degree(degree))?;
            let from = rank.receiver::<u64>("both ways", other, Channel::degree(degree))?;
            // The selection also has a channel that is always full, and so is never ready.
            let mut full = rank.shared_sender::<u64>("full", &endpoints, Channel::degree(1))?;
            let none = rank.shared_receiver::<u64>("full", &endpoints, Channel::degree(1))?;
            while !matches!(
                full.try_send(&0).as_ref().map_err(Error::kind),
                Err(ErrorKind::Full { .. })
            ) {}
            let (mut sent, mut received) = (0, 0);
            while sent < MESSAGES || received < MESSAGES {
                let mut select = Select::new();
                select.add(&from);
                if sent < MESSAGES {
                    select.add_sender(&to);
                }
                let ready = select.ready()?;
                drop(select);
                if ready == 0 {
                    // Not past the last message: the other rank may have returned by then, which is an error here.
                    while received < MESSAGES
                        && let Some(message) = from.try_receive()?
                    {
                        ensure!(*message == received, "{} is not {received}", *message);
                        received += 1;
                    }
                } else {
                    to.try_send(&sent)?;
                    sent += 1;
                }
            }
            let mut select = Select::new();
            select.add_sender(&full);
            ensure!(select.try_ready().is_none(), "there is no room");
            let limit = Duration::from_millis(2);
            let error = select.ready_with(limit).err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Timeout { .. })),
                "{error:?}"
            );
            drop(none);
            Ok(())
        });
    }
}

/// A sender is ready when its receiver is gone, because a send would then return an error.
#[test]
fn senders_hear_of_the_end() {
    for degree in [0, 1] {
        on_all(2, |rank| {
            if rank.id() == 1 {
                drop(rank.receiver::<u64>("closed", 0, Channel::degree(degree))?);
                return Ok(());
            }
            let mut sender = rank.sender::<u64>("closed", 1, Channel::degree(degree))?;
            let mut sent = Ok(());
            while sent.is_ok() {
                let mut select = Select::new();
                select.add_sender(&sender);
                ensure!(select.ready()? == 0, "there is one end");
                drop(select);
                sent = sender.try_send(&1);
            }
            ensure!(
                matches!(sent.as_ref().map_err(Error::kind), Err(ErrorKind::Disconnected { .. })),
                "{sent:?}"
            );
            Ok(())
        });
    }
}
