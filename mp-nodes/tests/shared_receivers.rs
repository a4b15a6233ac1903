//! Shared channels of several receivers, with ranks of several nodes at either end.

/// Makes rank code fail with a message if the condition is false.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(mp_core::Error::other(format!($($message)+)));
        }
    };
}

#[path = "support/mod.rs"]
mod nodes;

/// The tests of shared channels in one world, here with the ranks divided among nodes.
#[path = "../../mp-core/tests/ranks/shared.rs"]
mod of_one_node;

use std::{
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
use onchip::{Channel, Endpoints, Error, ErrorKind, Receiver, Select};

use nodes::failing::Failing;
use nodes::random::Random;
use nodes::watchdog::Watchdog;
use nodes::world::{all_succeed, world};

/// What the tests of one world need.
mod support {
    use mp_core::{Rank, Result};

    pub use super::nodes::random::Random;
    use super::nodes::world::{all_succeed, world};

    pub const SIZES: [usize; 5] = [1, 2, 3, 5, 8];

    /// Runs the same code on ranks that are divided in several ways. All must succeed.
    pub fn on_all<T: Send + std::fmt::Debug>(
        ranks: usize,
        code: impl Fn(&Rank) -> Result<T> + Sync,
    ) -> Vec<T> {
        let mut divisions = vec![vec![1; ranks]];
        if ranks > 2 {
            divisions.push(vec![ranks / 2, ranks - ranks / 2]);
            divisions.push(vec![1, ranks - 1]);
        }
        let run = |nodes: Vec<usize>| all_succeed(world(&nodes, &code));
        divisions.into_iter().map(run).last().unwrap()
    }
}

/// Nodes and their ranks.
const WORLDS: [&[usize]; 8] =
    [&[3], &[1, 1], &[1, 2], &[2, 1], &[2, 2], &[1, 1, 1], &[3, 1, 4], &[1, 2, 1, 1]];

const LONGEST: usize = 20_000;

/// A message: its sender, its number there, and then the number again and again.
fn message(sender: usize, number: usize, len: usize) -> Vec<u64> {
    let mut message = vec![number as u64; len.max(2)];
    message[0] = sender as u64;
    message
}

/// What was sent, and what was received and by whom, each as senders and their numbers.
#[derive(Default)]
struct Log {
    sent: Mutex<Vec<(usize, usize)>>,
    received: Mutex<Vec<(usize, (usize, usize))>>,
}

impl Log {
    fn sent(&self, sender: usize, number: usize) {
        self.sent.lock().unwrap().push((sender, number));
    }

    fn received(&self, receiver: usize, message: &[u64]) {
        let number = message[1];
        assert!(message[1..].iter().all(|&word| word == number), "a message is whole");
        let id = (message[0] as usize, number as usize);
        self.received.lock().unwrap().push((receiver, id));
    }

    /// Checks that each message was received once, and that each receiver got those of a sender in their order.
    fn check(self, what: &str) {
        let (mut sent, received) =
            (self.sent.into_inner().unwrap(), self.received.into_inner().unwrap());
        let mut got: Vec<_> = received.iter().map(|&(_, id)| id).collect();
        sent.sort_unstable();
        got.sort_unstable();
        assert_eq!(sent, got, "{what}");
        for &(receiver, (sender, _)) in &received {
            let of = |&&(r, (s, _)): &&(usize, (usize, usize))| (r, s) == (receiver, sender);
            let numbers: Vec<_> = received.iter().filter(of).map(|&(_, (_, n))| n).collect();
            assert!(numbers.is_sorted(), "{what}: from {sender} to {receiver}: {numbers:?}");
        }
    }
}

/// Sends a message in some way. Returns whether it was sent.
fn send(
    rank: &Rank,
    to: &mut onchip::Sender<[u64]>,
    random: &mut Random,
    number: usize,
) -> Result<bool> {
    let len = [2, 2, 5, 700, LONGEST][random.below(5) as usize];
    let message = message(rank.id(), number, len);
    let limit = Duration::from_micros(random.below(400));
    let sent = match random.below(8) {
        0 => to.try_send(&message),
        1 => to.send_timeout(&message, limit),
        2 => {
            let mut slot = to.reserve(message.len())?;
            slot.copy_from_slice(&message);
            slot.publish()
        }
        3 => {
            // What is not published is not sent.
            drop(to.reserve(1)?);
            return Ok(false);
        }
        4 => {
            let mut select = Select::new();
            select.add_sender(to);
            select.ready_with(limit).and_then(|_| to.try_send(&message))
        }
        5 => {
            let longer = self::message(rank.id(), number, LONGEST + 7);
            to.send_buffer(rank.buffer_from(&longer)?).map_err(|failed| failed.error)
        }
        6 => to.try_send_buffer(rank.buffer_from(&message)?).map_err(|failed| failed.error),
        _ => to.send(&message),
    };
    match sent.map_err(Error::into_kind) {
        Ok(()) => Ok(true),
        Err(ErrorKind::Timeout { .. } | ErrorKind::Full { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Receives a message in some way, if there is one. Returns false when nothing more comes.
fn receive(rank: &Rank, from: &Receiver<[u64]>, random: &mut Random, log: &Log) -> Result<bool> {
    let limit = Duration::from_micros(random.below(400));
    let log = |message: &[u64]| log.received(rank.id(), message);
    let received = match random.below(7) {
        0 => from.try_receive().map(|guard| _ = guard.map(|guard| log(&guard))),
        1 => from.receive_timeout(limit).map(|guard| log(&guard)),
        2 => from.receive_buffer().map(|buffer| log(&buffer)),
        3 => from.try_receive_buffer().map(|buffer| _ = buffer.map(|buffer| log(&buffer))),
        4 => {
            let mut select = Select::new();
            select.add(from);
            let ready = select.ready_with(limit).and_then(|_| from.try_receive());
            ready.map(|guard| _ = guard.map(|guard| log(&guard)))
        }
        5 if from.has_message() => {
            from.try_receive().map(|guard| _ = guard.map(|guard| log(&guard)))
        }
        5 => Ok(()),
        _ => from.receive().map(|guard| log(&guard)),
    };
    match received.map_err(Error::into_kind) {
        Ok(()) | Err(ErrorKind::Timeout { .. }) => Ok(true),
        Err(ErrorKind::Disconnected { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Random ranks send and receive in random ways, with limits that are often too short.
#[test]
fn each_message_is_received_once() {
    for nodes in WORLDS {
        let size: usize = nodes.iter().sum();
        for (degree, seed) in [(1, 1), (2, 2), (5, 3), (64, 4), (1, 5), (3, 6)] {
            let mut random = Random::new(seed << 8 | size as u64);
            let mut ranks: Vec<usize> = (0..size).collect();
            random.shuffle(&mut ranks);
            let senders = ranks[..1 + random.below(size as u64) as usize].to_vec();
            random.shuffle(&mut ranks);
            let receivers = ranks[..1 + random.below(size as u64) as usize].to_vec();
            let what = format!("{nodes:?}, degree {degree}, {senders:?} to {receivers:?}");
            let log = Log::default();
            all_succeed(world(nodes, |rank| {
                let mut random = Random::new(seed << 16 | rank.id() as u64);
                let ends = Endpoints::new(senders.clone(), receivers.clone());
                let channel = Channel::degree(degree).max_len(LONGEST);
                let me = rank.id();
                let (sends, receives) = (senders.contains(&me), receivers.contains(&me));
                let mut to = match sends {
                    true => Some(rank.shared_sender::<[u64]>("storm", &ends, channel)?),
                    false => None,
                };
                if !receives {
                    let Some(to) = &mut to else { return Ok(()) };
                    for number in 0..40 {
                        if send(rank, to, &mut random, number)? {
                            log.sent(me, number);
                        }
                    }
                    return Ok(());
                }
                let from = rank.shared_receiver::<[u64]>("storm", &ends, channel)?;
                // A rank at both ends must not wait for itself.
                for number in 0..40 {
                    if let Some(to) = &mut to {
                        let message = message(me, number, 3);
                        while let Err(error) = to.try_send(&message) {
                            ensure!(matches!(error.kind(), ErrorKind::Full { .. }), "{error}");
                            if let Some(guard) = from.try_receive()? {
                                log.received(me, &guard);
                            }
                        }
                        log.sent(me, number);
                    }
                }
                drop(to);
                while receive(rank, &from, &mut random, &log)? {}
                Ok(())
            }));
            log.check(&what);
        }
    }
}

/// Receivers leave after a few messages, by their ends or by panics, and the others get all the rest.
#[test]
fn receivers_that_leave_lose_nothing() {
    for nodes in [&[2, 2][..], &[1, 1, 2], &[1, 2, 2], &[2, 1, 1, 1]] {
        let size: usize = nodes.iter().sum();
        for (degree, seed) in [(1, 1), (2, 2), (5, 3), (64, 4)] {
            for panics in [false, true] {
                for last in [1, size - 1] {
                    let what = format!("{nodes:?}, degree {degree}, {panics}, last {last}");
                    let log = Log::default();
                    let outcomes = world(nodes, |rank| {
                        let mut random = Random::new(seed << 16 | rank.id() as u64);
                        let ends = Endpoints::new([0, last], 1..size);
                        let channel = Channel::degree(degree).max_len(LONGEST);
                        let mut to = None;
                        if [0, last].contains(&rank.id()) {
                            to = Some(rank.shared_sender::<[u64]>("leave", &ends, channel)?);
                        }
                        if rank.id() == 0 {
                            let to = to.as_mut().unwrap();
                            for number in 0..60 {
                                if send(rank, to, &mut random, number)? {
                                    log.sent(0, number);
                                }
                            }
                            return Ok(());
                        }
                        drop(to);
                        let from = rank.shared_receiver::<[u64]>("leave", &ends, channel)?;
                        let mut calls = if rank.id() == last { usize::MAX } else { 3 * rank.id() };
                        while calls > 0 && receive(rank, &from, &mut random, &log)? {
                            calls -= 1;
                        }
                        assert!(!panics || rank.id() == last, "on purpose");
                        Ok(())
                    });
                    for (rank, outcome) in outcomes.into_iter().enumerate() {
                        let fails = panics && rank > 0 && rank != last;
                        assert_eq!(outcome.is_err(), fails, "{what}: rank {rank}: {outcome:?}");
                    }
                    log.check(&what);
                }
            }
        }
    }
}

/// Without a receive, the senders of all nodes together send as many messages as the degree says.
#[test]
fn the_degree_is_that_of_all_senders_together() {
    for nodes in WORLDS {
        let size: usize = nodes.iter().sum();
        for degree in [1, 2, 5] {
            let (sent, got, step) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(size));
            all_succeed(world(nodes, |rank| {
                let ends = Endpoints::new(0..size, 0..size);
                let channel = Channel::degree(degree);
                let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
                for round in 0..3 {
                    step.wait();
                    loop {
                        match to.try_send(&round).map_err(Error::into_kind) {
                            Ok(()) => _ = sent.fetch_add(1, Ordering::Relaxed),
                            Err(ErrorKind::Full { degree: of, .. }) => {
                                assert_eq!(of, u64::from(degree));
                                break;
                            }
                            Err(error) => return Err(error.into()),
                        }
                    }
                    step.wait();
                    assert_eq!(
                        sent.load(Ordering::Relaxed),
                        (round as usize + 1) * degree as usize
                    );
                    step.wait();
                    // What was sent before is there for a receiver that only tries.
                    while got.load(Ordering::Relaxed) < sent.load(Ordering::Relaxed) {
                        if let Some(message) = from.try_receive()? {
                            assert_eq!(*message, round);
                            got.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    step.wait();
                    assert!(from.try_receive()?.is_none());
                    assert!(from.receive_timeout(Duration::ZERO).is_err());
                }
                step.wait();
                Ok(())
            }));
        }
    }
}

/// A receiver that only tries finds what was sent before on the node of the slots, wherever the receiver is.
#[test]
fn a_try_finds_what_was_sent_before() {
    for nodes in WORLDS {
        let size: usize = nodes.iter().sum();
        let most = *nodes.iter().max().unwrap();
        let first = nodes.iter().take_while(|&&ranks| ranks < most).sum();
        for sender in first..first + most {
            let turn = AtomicUsize::new(0);
            all_succeed(world(nodes, |rank| {
                let ends = Endpoints::new([sender], 0..size);
                let from = rank.shared_receiver::<u64>("told", &ends, Channel::degree(2))?;
                let mut to = match rank.id() == sender {
                    true => Some(rank.shared_sender::<u64>("told", &ends, Channel::degree(2))?),
                    false => None,
                };
                for number in 0..3 * size {
                    if let Some(to) = &mut to {
                        to.send(&(number as u64))?;
                        turn.store(2 * number + 1, Ordering::Release);
                    }
                    if number % size == rank.id() {
                        while turn.load(Ordering::Acquire) != 2 * number + 1 {
                            thread::yield_now();
                        }
                        // A limit that is over does not keep a message that is there.
                        let message = match number < size {
                            true => from.try_receive()?.as_deref().copied(),
                            false => Some(*from.receive_timeout(Duration::ZERO)?),
                        };
                        assert_eq!(message, Some(number as u64));
                        assert!(from.try_receive()?.is_none());
                        turn.store(2 * number + 2, Ordering::Release);
                    }
                    while turn.load(Ordering::Acquire) < 2 * number + 2 {
                        thread::yield_now();
                    }
                }
                Ok(())
            }));
        }
    }
}

/// A receiver that holds messages keeps their slots, and gets more as long as there are some.
#[test]
fn guards_hold_their_slots() {
    for nodes in [&[1, 2][..], &[2, 1], &[1, 1, 1]] {
        for degree in [1, 2, 5] {
            all_succeed(world(nodes, |rank| {
                let ends = Endpoints::new([0], [1, 2]);
                let channel = Channel::degree(degree);
                let one = Channel::degree(1);
                if rank.id() == 2 {
                    rank.shared_receiver::<u64>("held", &ends, channel)?;
                    return Ok(());
                }
                if rank.id() == 0 {
                    let mut to = rank.shared_sender::<u64>("held", &ends, channel)?;
                    (0..u64::from(degree)).try_for_each(|number| to.send(&number))?;
                    rank.receiver::<u64>("held", 1, one)?.receive()?;
                    let full = to.try_send(&7).unwrap_err();
                    ensure!(matches!(full.kind(), ErrorKind::Full { .. }), "{full}");
                    rank.sender::<u64>("full", 1, one)?.send(&1)?;
                    return to.send(&8);
                }
                let from = rank.shared_receiver::<u64>("held", &ends, channel)?;
                let mut held = Vec::new();
                for number in 0..u64::from(degree) {
                    let guard = from.receive()?;
                    ensure!(*guard == number, "{}", *guard);
                    held.push(guard);
                }
                ensure!(from.try_receive()?.is_none(), "all slots are held");
                rank.sender::<u64>("held", 0, one)?.send(&1)?;
                rank.receiver::<u64>("full", 0, one)?.receive()?;
                drop(held);
                ensure!(*from.receive()? == 8, "the first message that found a slot");
                Ok(())
            }));
        }
    }
}

/// All receivers leave, and each sender hears of it: also of the one that was lost, wherever it was.
#[test]
fn senders_hear_that_all_receivers_are_gone() {
    for nodes in [&[2, 2][..], &[1, 3], &[3, 1], &[1, 1, 1, 1], &[1, 2, 1]] {
        for lost in [None, Some(2), Some(3)] {
            let outcomes = world(nodes, |rank| {
                let ends = Endpoints::new([0, 1], [2, 3]);
                let channel = Channel::degree(2);
                if rank.id() >= 2 {
                    let from = rank.shared_receiver::<u64>("deaf", &ends, channel)?;
                    from.receive()?;
                    thread::sleep(Duration::from_millis(3 * rank.id() as u64));
                    assert!(lost != Some(rank.id()), "on purpose");
                    return Ok(());
                }
                let mut to = rank.shared_sender::<u64>("deaf", &ends, channel)?;
                let error = loop {
                    if let Err(error) = to.send(&1) {
                        break error;
                    }
                };
                match (lost, error.kind()) {
                    (None, ErrorKind::Disconnected { .. }) => Ok(()),
                    (Some(lost), ErrorKind::PeerLost { rank, .. }) if *rank == lost => Ok(()),
                    _ => Err(error),
                }
            });
            for (rank, outcome) in outcomes.into_iter().enumerate() {
                assert_eq!(outcome.is_err(), Some(rank) == lost, "{nodes:?}: {rank}: {outcome:?}");
            }
        }
    }
}

/// All senders leave, and each receiver hears of it once everything was received: also of the one that was lost. Receivers
/// wait in different calls.
#[test]
fn receivers_hear_that_all_senders_are_gone() {
    for nodes in [&[2, 2][..], &[1, 3], &[3, 1], &[1, 1, 1, 1], &[1, 2, 1]] {
        for lost in [None, Some(0), Some(1)] {
            for waits in 0..3 {
                let log = Log::default();
                let outcomes = world(nodes, |rank| {
                    let ends = Endpoints::new([0, 1], [1, 2, 3]);
                    let channel = Channel::degree(5).max_len(2);
                    if rank.id() < 2 {
                        let mut to = rank.shared_sender::<[u64]>("mute", &ends, channel)?;
                        for number in 0..20 {
                            to.send(&message(rank.id(), number, 2))?;
                            log.sent(rank.id(), number);
                        }
                        thread::sleep(Duration::from_millis(3));
                        assert!(lost != Some(rank.id()), "on purpose");
                    }
                    if rank.id() == 0 {
                        return Ok(());
                    }
                    let from = rank.shared_receiver::<[u64]>("mute", &ends, channel)?;
                    let error = loop {
                        let received = match waits {
                            0 => from.receive().map(Some),
                            1 => from.try_receive(),
                            _ => {
                                let mut select = Select::new();
                                select.add(&from);
                                select.ready().and_then(|_| from.try_receive())
                            }
                        };
                        match received {
                            Ok(guard) => _ = guard.map(|guard| log.received(rank.id(), &guard)),
                            Err(error) => break error,
                        }
                    };
                    match (lost, error.kind()) {
                        (None, ErrorKind::Disconnected { .. }) => Ok(()),
                        (Some(lost), ErrorKind::PeerLost { rank, .. }) if *rank == lost => Ok(()),
                        _ => Err(error),
                    }
                });
                for (rank, outcome) in outcomes.into_iter().enumerate() {
                    assert_eq!(outcome.is_err(), Some(rank) == lost, "{nodes:?}: {outcome:?}");
                }
                log.check(&format!("{nodes:?}, {lost:?}, {waits}"));
            }
        }
    }
}

/// The receivers on the node of the slots end first, and the others go on, also those that come later.
#[test]
fn receivers_go_on_when_those_at_the_slots_have_ended() {
    for nodes in [&[3, 1][..], &[2, 1, 1], &[2, 2]] {
        let log = Log::default();
        all_succeed(world(nodes, |rank| {
            let ends = Endpoints::new([0, 3], [0, 1, 3]);
            let channel = Channel::degree(2).max_len(2);
            let gone = rank.receiver::<u64>("gone", rank.id() ^ 1, Channel::degree(1))?;
            drop(gone);
            if rank.id() < 3 {
                return Ok(());
            }
            for other in 0..2 {
                let end = rank.receiver::<u64>("end", other, Channel::degree(1))?.receive().err();
                ensure!(end.is_some(), "it has ended");
            }
            let mut to = rank.shared_sender::<[u64]>("late", &ends, channel)?;
            let from = rank.shared_receiver::<[u64]>("late", &ends, channel)?;
            for number in 0..10 {
                to.send(&message(3, number, 2))?;
                log.sent(3, number);
                log.received(3, &from.receive()?);
            }
            drop(to);
            let end = from.receive().err();
            ensure!(
                matches!(end.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
                "{end:?}"
            );
            Ok(())
        }));
        log.check(&format!("{nodes:?}"));
    }
}

/// Channels of one name pair up in the order in which each rank opens them.
#[test]
fn shared_channels_of_a_name_pair_up_in_the_order_of_opening() {
    for nodes in WORLDS {
        let size: usize = nodes.iter().sum();
        let step = Barrier::new(size);
        all_succeed(world(nodes, |rank| {
            let ends = Endpoints::new(0..size, 0..size);
            for round in 0..8u64 {
                let channel = Channel::degree(64);
                let mut to = rank.shared_sender::<u64>("again", &ends, channel)?;
                let from = rank.shared_receiver::<u64>("again", &ends, channel)?;
                to.send(&round)?;
                drop(to);
                for message in &from {
                    assert_eq!(*message?, round);
                }
            }
            step.wait();
            Ok(())
        }));
    }
}

#[test]
fn ends_that_differ_are_an_error() {
    for nodes in [&[3][..], &[1, 1, 1], &[1, 2], &[2, 1]] {
        let outcomes = world(nodes, |rank| {
            let ends = Endpoints::new([0], [1, 2]);
            if rank.id() == 0 {
                let mut to = rank.shared_sender::<u64>("x", &ends, Channel::degree(2))?;
                loop {
                    to.send(&1)?;
                }
            }
            let from = rank.shared_receiver::<u64>("x", &ends, Channel::degree(3))?;
            loop {
                from.receive()?;
            }
        });
        for outcome in outcomes {
            let text = outcome.map(|(): ()| ()).unwrap_err().to_string();
            assert!(text.contains("degree 2") && text.contains("degree 3"), "{nodes:?}: {text}");
        }
    }
}

/// Nodes of receivers are lost in the middle. The rest of the messages reaches the receivers of the other nodes, if the slots
/// are not lost, and otherwise all hear of it.
#[test]
fn a_node_of_receivers_that_is_lost_does_not_hold_up_the_others() {
    let _watchdog = Watchdog::start("a node of receivers that is lost");
    for (fails, sends) in [(1, 0), (1, 1), (1, 4), (1, 9), (2, 0), (2, 3), (2, 8)] {
        // The slots are on node 1.
        let code = |rank: &Rank| {
            let (ends, channel) = (Endpoints::new([0], [1, 2, 3, 4]), Channel::degree(2));
            if rank.id() == 0 {
                let mut to = rank.shared_sender::<u64>("tasks", &ends, channel)?;
                for number in 0..200 {
                    if let Err(error) = to.send(&number) {
                        ensure!(fails == 1, "{error}");
                        ensure!(
                            matches!(error.kind(), ErrorKind::PeerLost { rank: 1 | 2, .. }),
                            "{error}"
                        );
                        return Ok(vec![]);
                    }
                }
                return Ok(vec![]);
            }
            let from = rank.shared_receiver::<u64>("tasks", &ends, channel)?;
            let mut got = Vec::new();
            loop {
                match from.receive() {
                    Ok(number) => got.push(*number),
                    Err(_) => return Ok(got),
                }
            }
        };
        let ran: Vec<_> = thread::scope(|scope| {
            let run = |node: InMemory| {
                scope.spawn(move || match node.node() {
                    at if at == fails => {
                        mp_nodes::run(Box::new(Failing(node, sends)), [1, 2, 1, 1][at], code)
                    }
                    at => mp_nodes::run(Box::new(node), [1, 2, 1, 1][at], code),
                })
            };
            let threads: Vec<_> = InMemory::connect(4).into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut got = Vec::new();
        for (node, outcome) in ran.into_iter().enumerate() {
            // The node may have had less to send.
            assert!(outcome.is_ok() || node == fails);
            got.extend(outcome.into_iter().flat_map(all_succeed).flatten());
        }
        got.sort_unstable();
        assert!(got.windows(2).all(|two| two[0] < two[1]), "nothing comes twice: {got:?}");
        // What the lost receiver got, and one message that was on its way.
        assert!(fails == 1 || !got.is_empty(), "the others go on");
    }
}

/// A sender that is lost with a slot that it has reserved, and one that is lost before another one opens, do not hold up the
/// others.
#[test]
fn senders_that_are_lost_do_not_hold_up_the_others() {
    for nodes in [&[2, 3][..], &[1, 4], &[1, 1, 1, 2], &[4, 1]] {
        for reserves in [false, true] {
            let log = Log::default();
            let outcomes = world(nodes, |rank| {
                let ends = Endpoints::new([0, 2, 3], [1, 4]);
                let channel = Channel::degree(2).max_len(2);
                match rank.id() {
                    1 | 4 => {
                        let from = rank.shared_receiver::<[u64]>("tasks", &ends, channel)?;
                        let error = loop {
                            match from.receive() {
                                Ok(message) => log.received(rank.id(), &message),
                                Err(error) => break error,
                            }
                        };
                        ensure!(
                            matches!(error.kind(), ErrorKind::PeerLost { rank: 3, .. }),
                            "{error}"
                        );
                    }
                    3 => {
                        let mut to = rank.shared_sender::<[u64]>("tasks", &ends, channel)?;
                        let slot = reserves.then(|| to.reserve(2)).transpose()?;
                        thread::sleep(Duration::from_millis(3));
                        assert!(slot.is_none() && !reserves, "on purpose");
                        panic!("on purpose");
                    }
                    me => {
                        if me == 2 {
                            let lost = rank.receiver::<u64>("lost", 3, channel)?.receive().err();
                            ensure!(lost.is_some(), "it is lost");
                        }
                        let mut to = rank.shared_sender::<[u64]>("tasks", &ends, channel)?;
                        for number in 0..20 {
                            to.send(&message(me, number, 2))?;
                            log.sent(me, number);
                        }
                    }
                }
                Ok(())
            });
            let causes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.err()).collect();
            let cause = Some(Cause::Panic("on purpose".to_owned()));
            assert_eq!(causes, [None, None, None, cause, None], "{nodes:?}");
            log.check(&format!("{nodes:?}"));
        }
    }
}

/// Communication threads of several nodes send to receivers of several nodes.
#[test]
fn delegated_messages_arrive() {
    const MESSAGES: usize = 30;
    for nodes in [&[4][..], &[2, 2], &[1, 2, 1], &[1, 1, 1, 1]] {
        let log = Log::default();
        all_succeed(world(nodes, |rank| {
            let ends = Endpoints::new([1, 2], [0, 3]);
            let channel = Channel::degree(2).max_len(2);
            if [1, 2].contains(&rank.id()) {
                let threads = CommThreads::start(1)?;
                let to = rank.shared_sender::<[u64]>("delegated", &ends, channel)?;
                let mut to = threads.delegate(to);
                let send = |number| to.send(message(rank.id(), number, 2));
                let requests: Vec<_> = (0..MESSAGES).map(send).collect();
                for (number, request) in requests.into_iter().enumerate() {
                    request.wait()?;
                    log.sent(rank.id(), number);
                }
                return Ok(());
            }
            let from = rank.shared_receiver::<[u64]>("delegated", &ends, channel)?;
            for message in &from {
                log.received(rank.id(), &message?);
            }
            Ok(())
        }));
        log.check(&format!("{nodes:?}"));
    }
}

/// A number that a receiver leaves reaches all senders.
#[test]
fn notices_reach_the_senders() {
    for nodes in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
        for notes in [1, 2] {
            all_succeed(world(nodes, |rank| {
                let ends = Endpoints::new([0], [1, 2]);
                if rank.id() == 0 {
                    let mut to = rank.shared_sender::<u64>("noted", &ends, Channel::degree(1))?;
                    while to.notice() != 9 {
                        let _ = to.try_send(&1);
                        thread::yield_now();
                    }
                    return Ok(());
                }
                let from = rank.shared_receiver::<u64>("noted", &ends, Channel::degree(1))?;
                if rank.id() == notes {
                    from.set_notice(9);
                }
                from.iter().try_for_each(|message| message.map(drop))
            }));
        }
    }
}
