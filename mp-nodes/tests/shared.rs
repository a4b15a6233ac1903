//! Shared channels of one receiver, with senders on several nodes.

mod support;

use std::{
    collections::BTreeMap,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use mp_core::{Cause, Rank, Result};
use mp_nodes::{InMemory, Interconnect};
use onchip::threads::CommThreads;
use onchip::{Channel, Endpoints, ErrorKind, Select};

use support::failing::Failing;
use support::watchdog::Watchdog;
use support::world::{WORLDS, all_succeed, world};

/// Nodes and their ranks, at least two.
fn worlds() -> impl Iterator<Item = &'static [usize]> {
    WORLDS.into_iter().chain([&[3][..]]).filter(|nodes| nodes.iter().sum::<usize>() > 1)
}

/// All ranks, the receiver included, send to one: slices, in place, and buffers.
#[test]
fn ranks_of_all_nodes_send_to_one() {
    const EACH: usize = 12;
    const LONGEST: usize = 20_000;
    let len = |number: usize| [3, 700, LONGEST, 1][number % 4];
    for nodes in worlds() {
        let size: usize = nodes.iter().sum();
        for receiver in [0, size - 1] {
            for degree in [1, 3] {
                all_succeed(world(nodes, |rank| {
                    let ends = Endpoints::new((0..size).filter(|&id| id != receiver), [receiver]);
                    let channel = Channel::degree(degree).max_len(LONGEST);
                    if rank.id() == receiver {
                        let from = rank.shared_receiver::<[u32]>("all", &ends, channel)?;
                        let mut next = vec![0; size];
                        for message in &from {
                            let message = message?;
                            let (sender, number) = (message[0] as usize, message[1] as usize);
                            assert_eq!(number, next[sender], "of rank {sender}");
                            next[sender] += 1;
                            let longer = if number % 3 == 2 { LONGEST } else { 2 };
                            assert_eq!(message.len(), len(number) + longer);
                            assert!(message[2..].iter().all(|&word| word == 7));
                        }
                        next[receiver] = EACH;
                        assert_eq!(next, vec![EACH; size]);
                        return Ok(());
                    }
                    let mut to = rank.shared_sender::<[u32]>("all", &ends, channel)?;
                    for number in 0..EACH {
                        let mut message = vec![rank.id() as u32, number as u32];
                        message.resize(len(number) + 2, 7);
                        match number % 3 {
                            // A slot has no room for more.
                            _ if message.len() > LONGEST && number % 3 < 2 => {
                                let buffer = rank.buffer_from(&message)?;
                                to.send_buffer(buffer).map_err(|failed| failed.error)?;
                            }
                            0 => to.send(&message)?,
                            1 => {
                                let mut slot = to.reserve(message.len())?;
                                slot.copy_from_slice(&message);
                                slot.publish()?;
                            }
                            _ => {
                                message.resize(len(number) + LONGEST, 7);
                                let buffer = rank.buffer_from(&message)?;
                                to.send_buffer(buffer).map_err(|failed| failed.error)?;
                            }
                        }
                    }
                    Ok(())
                }));
            }
        }
    }
}

/// Without a receive, the senders of all nodes together send as many messages as the degree says.
#[test]
fn the_degree_is_that_of_all_senders_together() {
    for nodes in worlds() {
        let size: usize = nodes.iter().sum();
        for degree in [1, 2, 5] {
            let (sent, step) = (AtomicUsize::new(0), Barrier::new(size));
            all_succeed(world(nodes, |rank| {
                let ends = Endpoints::new(1..size, [0]);
                let channel = Channel::degree(degree);
                if rank.id() == 0 {
                    let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
                    for _ in 0..4 {
                        step.wait();
                        assert_eq!(sent.swap(0, Ordering::Relaxed), degree as usize);
                        for _ in 0..degree {
                            from.receive()?;
                        }
                        assert!(from.try_receive()?.is_none());
                        step.wait();
                    }
                    step.wait();
                    return Ok(());
                }
                let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                for round in 0..4 {
                    loop {
                        match to.try_send(&round).map_err(mp_core::Error::into_kind) {
                            Ok(()) => _ = sent.fetch_add(1, Ordering::Relaxed),
                            Err(ErrorKind::Full { degree: of, .. }) => {
                                assert_eq!(of, u64::from(degree));
                                break;
                            }
                            Err(error) => return Err(error.into()),
                        }
                    }
                    step.wait();
                    step.wait();
                }
                step.wait();
                Ok(())
            }));
        }
    }
}

/// A send that begins after another one has returned is received after it, wherever the two senders are.
#[test]
fn messages_are_received_in_the_order_of_their_sends() {
    for nodes in worlds() {
        let size: usize = nodes.iter().sum();
        let turn = AtomicUsize::new(0);
        const ROUNDS: usize = 10;
        all_succeed(world(nodes, |rank| {
            let ends = Endpoints::new(1..size, [0]);
            let channel = Channel::degree(64);
            if rank.id() == 0 {
                let from = rank.shared_receiver::<u64>("turns", &ends, channel)?;
                for number in 0..(ROUNDS * (size - 1)) as u64 {
                    assert_eq!(*from.receive()?, number);
                }
                return Ok(());
            }
            let mut to = rank.shared_sender::<u64>("turns", &ends, channel)?;
            for round in 0..ROUNDS {
                let mine = round * (size - 1) + rank.id() - 1;
                while turn.load(Ordering::Acquire) != mine {
                    thread::yield_now();
                }
                match round % 2 {
                    0 => to.send(&(mine as u64))?,
                    _ => while to.try_send(&(mine as u64)).is_err() {},
                }
                turn.store(mine + 1, Ordering::Release);
            }
            Ok(())
        }));
    }
}

/// Sends with limits that are mostly too short. What was sent according to the results is what arrives, in order.
#[test]
fn impatient_senders_lose_and_double_nothing() {
    for nodes in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1], &[1, 1, 2, 1]] {
        for (degree, seed) in [(1, 1), (1, 2), (2, 3), (4, 4)] {
            let logs = all_succeed(world(nodes, |rank| impatient(rank, degree, seed)));
            for sender in 1..logs.len() {
                let sent = &logs[sender][&sender];
                let got = logs[0].get(&sender).cloned().unwrap_or_default();
                assert_eq!(*sent, got, "{nodes:?}, degree {degree}, from rank {sender}");
            }
        }
    }
}

/// Returns what this rank has sent, or received, by sender.
fn impatient(rank: &Rank, degree: u32, seed: u64) -> Result<BTreeMap<usize, Vec<u64>>> {
    let ends = Endpoints::new(1..rank.size(), [0]);
    let channel = Channel::degree(degree);
    let mut word = seed << 20 | rank.id() as u64;
    let mut random = |limit: u64| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) % limit
    };
    let mut log = BTreeMap::new();
    if rank.id() == 0 {
        let from = rank.shared_receiver::<[u64; 2]>("impatient", &ends, channel)?;
        loop {
            thread::sleep(Duration::from_micros(random(300)));
            let limit = Duration::from_micros(random(300));
            let message = match random(2) {
                0 => from.try_receive().map(|guard| guard.map(|guard| *guard)),
                _ => from.receive_timeout(limit).map(|guard| Some(*guard)),
            };
            match message.map_err(mp_core::Error::into_kind) {
                Ok(Some([sender, number])) => {
                    log.entry(sender as usize).or_insert_with(Vec::new).push(number);
                }
                Ok(None) | Err(ErrorKind::Timeout { .. }) => {}
                Err(ErrorKind::Disconnected { .. }) => return Ok(log),
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut to = rank.shared_sender::<[u64; 2]>("impatient", &ends, channel)?;
    let mut sent = Vec::new();
    for number in 0..150 {
        let (message, limit) = ([rank.id() as u64, number], Duration::from_micros(random(800)));
        let result = match random(5) {
            0 => to.try_send(&message),
            // A slot that is not published is not sent.
            1 => match to.reserve_with(limit) {
                Ok(_slot) => continue,
                Err(error) => Err(error),
            },
            2 => to.try_reserve().and_then(|mut slot| {
                *slot = message;
                slot.publish()
            }),
            3 => {
                let mut select = Select::new();
                select.add_sender(&to);
                select.ready_with(limit).and_then(|_| to.try_send(&message))
            }
            _ => to.send_timeout(&message, limit),
        };
        match result.map_err(mp_core::Error::into_kind) {
            Ok(()) => sent.push(number),
            Err(ErrorKind::Timeout { .. } | ErrorKind::Full { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    log.insert(rank.id(), sent);
    Ok(log)
}

/// A receiver that leaves ends the calls of all senders, as one that has closed its end or as one that is lost.
#[test]
fn a_receiver_that_leaves_ends_the_waits_of_all_senders() {
    for nodes in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
        for panics in [false, true] {
            let outcomes = world(nodes, |rank| {
                let ends = Endpoints::new(1..3, [0]);
                let channel = Channel::degree(2);
                if rank.id() == 0 {
                    let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
                    from.receive()?;
                    thread::sleep(Duration::from_millis(10));
                    assert!(!panics, "on purpose");
                    return Ok(());
                }
                let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                let error = loop {
                    if let Err(error) = to.send(&1) {
                        break error;
                    }
                };
                let lost = matches!(error.kind(), ErrorKind::PeerLost { rank: 0, .. });
                let closed = matches!(error.kind(), ErrorKind::Disconnected { .. });
                assert!(if panics { lost } else { closed }, "{error}");
                Ok(())
            });
            let causes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.err()).collect();
            let cause = panics.then(|| Cause::Panic("on purpose".to_owned()));
            assert_eq!(causes, [cause, None, None], "{nodes:?}");
        }
    }
}

/// A sender that is lost, also with a slot that it has reserved, does not hold up the others.
#[test]
fn a_sender_that_is_lost_does_not_hold_up_the_others() {
    for nodes in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
        for reserves in [false, true] {
            let outcomes = world(nodes, |rank| {
                let ends = Endpoints::new(1..3, [0]);
                let channel = Channel::degree(2);
                match rank.id() {
                    0 => {
                        let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
                        let mut got = Vec::new();
                        let error = loop {
                            match from.receive() {
                                Ok(message) => got.push(*message),
                                Err(error) => break error,
                            }
                        };
                        let lost = matches!(error.kind(), ErrorKind::PeerLost { rank: 1, .. });
                        assert!(lost, "{error}");
                        assert!(got.contains(&7), "it was sent before");
                        got.retain(|&message| message != 7);
                        assert_eq!(got, (10..20).collect::<Vec<_>>());
                    }
                    1 => {
                        let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                        to.send(&7)?;
                        let slot = reserves.then(|| to.reserve()).transpose()?;
                        thread::sleep(Duration::from_millis(5));
                        assert!(slot.is_none() && !reserves, "on purpose");
                        panic!("on purpose");
                    }
                    _ => {
                        let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                        (10..20).try_for_each(|number| to.send(&number))?;
                    }
                }
                Ok(())
            });
            let causes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.err()).collect();
            assert_eq!(causes, [None, Some(Cause::Panic("on purpose".to_owned())), None]);
        }
    }
}

/// A rank that was lost before another sender of its node opened its end is the one that counts as lost.
#[test]
fn the_sender_that_was_lost_is_named() {
    let outcomes = world(&[1, 2], |rank| {
        let ends = Endpoints::new([1, 2], [0]);
        let channel = Channel::degree(2);
        if rank.id() == 2 {
            panic!("on purpose");
        }
        if rank.id() == 1 {
            let error = rank.receiver::<u64>("lost", 2, channel)?.receive().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::PeerLost { rank: 2, .. }), "{error}");
            return rank.shared_sender::<u64>("tasks", &ends, channel)?.send(&1);
        }
        let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
        assert_eq!(*from.receive()?, 1);
        let error = from.receive().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::PeerLost { rank: 2, .. }), "{error}");
        Ok(())
    });
    let causes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.err()).collect();
    assert_eq!(causes, [None, None, Some(Cause::Panic("on purpose".to_owned()))]);
}

/// Channels of one name pair up in the order in which each rank opens them, beside channels between two ranks of that name.
#[test]
fn shared_channels_of_a_name_pair_up_in_the_order_of_opening() {
    for nodes in worlds() {
        let size: usize = nodes.iter().sum();
        all_succeed(world(nodes, |rank| {
            let ends = Endpoints::new(1..size, [0]);
            let channel = Channel::degree(2);
            for round in 0..20u64 {
                if rank.id() == 0 {
                    let from = rank.shared_receiver::<u64>("again", &ends, channel)?;
                    let mut pairs = Vec::new();
                    for other in 1..size {
                        pairs.push(rank.receiver::<u64>("again", other, channel)?);
                    }
                    for message in &from {
                        assert_eq!(*message?, round);
                    }
                    for pair in &pairs {
                        assert_eq!(*pair.receive()?, 100 + round);
                    }
                } else {
                    rank.shared_sender::<u64>("again", &ends, channel)?.send(&round)?;
                    rank.sender::<u64>("again", 0, channel)?.send(&(100 + round))?;
                }
            }
            Ok(())
        }));
    }
}

#[test]
fn ends_that_differ_are_an_error() {
    for nodes in [&[2][..], &[1, 1]] {
        for wait in [0, 1] {
            let outcomes = world(nodes, |rank| {
                let ends = Endpoints::new([0], [1]);
                if rank.id() == wait {
                    thread::sleep(Duration::from_millis(5));
                }
                if rank.id() == 0 {
                    let mut to = rank.shared_sender::<u64>("x", &ends, Channel::degree(2))?;
                    loop {
                        to.send(&1)?;
                    }
                }
                let from = rank.shared_receiver::<u64>("x", &ends, Channel::degree(3))?;
                from.receive().map(drop)
            });
            for outcome in outcomes {
                let text = outcome.unwrap_err().to_string();
                assert!(text.contains("degree 2") && text.contains("degree 3"), "{text}");
            }
        }
    }
}

/// A node of senders is lost in the middle. The receiver gets what the others send, and then learns who was lost.
#[test]
fn a_node_of_senders_that_is_lost_does_not_hold_up_the_others() {
    let _watchdog = Watchdog::start("a node of senders that is lost");
    for sends in [0, 1, 2, 5, 17] {
        let code = |rank: &Rank| {
            let (ends, channel) = (Endpoints::new(1..4, [0]), Channel::degree(2));
            if rank.id() > 0 {
                let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                // The ranks that are lost would go on for ever.
                let mut numbers = 0..if rank.id() == 3 { 40 } else { u64::MAX };
                numbers.try_for_each(|_| to.send(&(rank.id() as u64)))?;
                return Ok(0);
            }
            let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
            let mut got = 0;
            loop {
                match from.receive() {
                    Ok(sender) => got += u64::from(*sender == 3),
                    Err(error) => {
                        let lost = matches!(error.kind(), ErrorKind::PeerLost { rank: 1 | 2, .. });
                        assert!(lost, "{error}");
                        return Ok(got);
                    }
                }
            }
        };
        let ran: Vec<_> = thread::scope(|scope| {
            let run = |node: InMemory| {
                scope.spawn(move || match node.node() {
                    0 => mp_nodes::run(Box::new(node), 1, code),
                    1 => mp_nodes::run(Box::new(Failing(node, sends)), 2, code),
                    _ => mp_nodes::run(Box::new(node), 1, code),
                })
            };
            let threads: Vec<_> = InMemory::connect(3).into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let [first, lost, last] = ran.try_into().unwrap();
        assert!(lost.is_err());
        assert_eq!(all_succeed(first.unwrap()), [40]);
        assert_eq!(all_succeed(last.unwrap()), [0]);
    }
}

/// A rank opens an end of a shared channel when the node of the slots is already lost, to a relay that lives or after its
/// own relay has given up.
#[test]
fn an_end_that_is_opened_after_its_slots_were_lost_is_lost() {
    let _watchdog = Watchdog::start("ends that are opened after their slots were lost");
    for (sends, failing) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let told = Mutex::new(None);
        let code = |rank: &Rank| {
            // This is what the node fails to tell the other one.
            let open = || rank.sender::<u8>("first", 2 * (1 - failing), Channel::degree(1));
            let _first = (rank.node() == failing).then(open).transpose()?;
            let others = (0..3).filter(|&other| rank.node_of(other).unwrap() != rank.node());
            while !others.clone().all(|other| rank.is_lost(other)) {
                thread::yield_now();
            }
            if rank.id() != 2 {
                return Ok(());
            }
            let channel = Channel::degree(2);
            let error = if sends {
                let mut to = rank.shared_sender("tasks", &Endpoints::new([2], [0, 1]), channel)?;
                (0..3).find_map(|_| to.send(&1_u64).err())
            } else {
                let ends = Endpoints::new([0], [0, 1, 2]);
                rank.shared_receiver::<u64>("tasks", &ends, channel)?.receive().err()
            };
            *told.lock().unwrap() = error;
            Ok(())
        };
        thread::scope(|scope| {
            for (at, node) in InMemory::connect(2).into_iter().enumerate() {
                scope.spawn(move || match at == failing {
                    true => mp_nodes::run(Box::new(Failing(node, 0)), 2 - at, code).map(drop),
                    false => mp_nodes::run(Box::new(node), 2 - at, code).map(drop),
                });
            }
        });
        let told = told.into_inner().unwrap();
        let lost = |error: &onchip::Error| matches!(error.kind(), ErrorKind::PeerLost { .. });
        assert!(told.as_ref().is_some_and(lost), "{told:?}");
    }
}

/// Communication threads of several nodes send to one receiver.
#[test]
fn delegated_messages_arrive() {
    const MESSAGES: u64 = 30;
    for nodes in [&[3][..], &[1, 2], &[1, 1, 1]] {
        all_succeed(world(nodes, |rank| {
            let ends = Endpoints::new([1, 2], [0]);
            let channel = Channel::degree(2).max_len(2);
            if rank.id() > 0 {
                let threads = CommThreads::start(1)?;
                let to = rank.shared_sender::<[u64]>("delegated", &ends, channel)?;
                let mut to = threads.delegate(to);
                let requests: Vec<_> =
                    (0..MESSAGES).map(|number| to.send(vec![rank.id() as u64, number])).collect();
                for request in requests {
                    request.wait()?;
                }
                return Ok(());
            }
            let from = rank.shared_receiver::<[u64]>("delegated", &ends, channel)?;
            let mut next = [0; 3];
            for message in &from {
                let message = message?;
                assert_eq!(message[1], next[message[0] as usize]);
                next[message[0] as usize] += 1;
            }
            assert_eq!(next, [0, MESSAGES, MESSAGES]);
            Ok(())
        }));
    }
}
