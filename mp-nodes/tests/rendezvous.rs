//! Channels of degree 0 between ranks of different nodes.

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

/// The tests of channels of degree 0 in one world, here with each rank on a node of its own.
#[path = "../../mp-core/tests/ranks/rendezvous.rs"]
mod of_one_node;

use std::{
    collections::BTreeMap,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use mp_core::{Cause, Rank, Result};
use mp_nodes::{InMemory, Interconnect};
use onchip::threads::CommThreads;
use onchip::{Channel, ErrorKind, Receiver, Select, Sender, SharedBuffer};

use nodes::failing::Failing;
use nodes::watchdog::Watchdog;
use nodes::world::{WORLDS, all_succeed, world};
use support::Random;

/// What the tests of one world need.
mod support {
    use mp_core::{Rank, Result, World};

    pub use super::nodes::random::Random;
    use super::nodes::world::{all_succeed, world};

    /// Runs the same code on ranks that are each on a node of its own. All must succeed.
    pub fn on_all<T: Send + std::fmt::Debug>(
        ranks: usize,
        code: impl Fn(&Rank) -> Result<T> + Sync,
    ) -> Vec<T> {
        all_succeed(world(&vec![1; ranks], code))
    }

    /// Does what [`on_all`] does. Worlds on several nodes wait as they do.
    pub fn on_all_with<T: Send + std::fmt::Debug>(
        ranks: usize,
        _configure: impl Fn(World) -> World,
        code: impl Fn(&Rank) -> Result<T> + Sync,
    ) -> Vec<T> {
        on_all(ranks, code)
    }
}

const MEETING: Channel = Channel::degree(0);

/// Every two ranks meet in both directions: with numbers, slices and buffers, short and long.
#[test]
fn every_kind_of_message_meets_its_receiver() {
    const LONGEST: usize = 40_000;
    let len = |round: usize| [0, 5, 700, LONGEST, 3][round % 5];
    let value = |from: usize, round: usize| (1000 * from + 7 * round) as u16;
    let channel = MEETING.max_len(LONGEST);
    type Ends<T> = (Sender<T>, Receiver<T>);
    type Both = (Ends<[u32; 3]>, Ends<[u16]>);
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let me = rank.id();
            let mut ends: BTreeMap<usize, Both> = BTreeMap::new();
            for other in (0..rank.size()).filter(|&other| other != me) {
                let numbers = (
                    rank.sender("numbers", other, MEETING)?,
                    rank.receiver("numbers", other, MEETING)?,
                );
                let slices = (
                    rank.sender("slices", other, channel)?,
                    rank.receiver("slices", other, channel)?,
                );
                ends.insert(other, (numbers, slices));
            }
            let send = |(numbers, slices): &mut Both, round: usize| {
                numbers.0.send(&[me as u32, round as u32, 5])?;
                let elements = vec![value(me, round); len(round)];
                match round % 3 {
                    // A buffer may be longer than a slot.
                    0 => {
                        let long = vec![value(me, round); 2 * LONGEST + round];
                        let sent = slices.0.send_buffer(rank.buffer_from(&long)?);
                        sent.map_err(|failed| failed.error)
                    }
                    1 => {
                        let mut slot = slices.0.reserve(elements.len())?;
                        slot.copy_from_slice(&elements);
                        slot.publish()
                    }
                    _ => slices.0.send(&elements),
                }
            };
            let receive = |(numbers, slices): &mut Both,
                           other: usize,
                           round: usize|
             -> Result<()> {
                assert_eq!(*numbers.1.receive()?, [other as u32, round as u32, 5]);
                let is_buffer = round.is_multiple_of(3);
                let wanted = if is_buffer { 2 * LONGEST + round } else { len(round) };
                let got: SharedBuffer<u16> = match round % 2 {
                    0 => slices.1.receive_buffer()?,
                    _ => slices.1.receive()?.into_buffer()?,
                };
                assert!(*got == vec![value(other, round); wanted], "round {round} from {other}");
                Ok(())
            };
            for round in 0..10 {
                // All ranks take the pairs in the same order, so that no two wait for each other.
                for (low, high) in
                    (0..rank.size()).flat_map(|high| (0..high).map(move |low| (low, high)))
                {
                    if me == low {
                        let ends = ends.get_mut(&high).unwrap();
                        send(ends, round)?;
                        receive(ends, high, round)?;
                    } else if me == high {
                        let ends = ends.get_mut(&low).unwrap();
                        receive(ends, low, round)?;
                        send(ends, round)?;
                    }
                }
            }
            Ok(())
        }));
    }
}

/// What a rank has sent to each other one, and received from each.
type Log = (BTreeMap<usize, Vec<u64>>, BTreeMap<usize, Vec<u64>>);

/// Sends to and receives from all other ranks at random, with limits that are mostly too short. `began` and `received`
/// count the receive calls and their messages, by sender and receiver.
fn storm(
    rank: &Rank,
    seed: u64,
    began: &[Vec<AtomicUsize>],
    received: &[Vec<AtomicUsize>],
) -> Result<Log> {
    let (me, mut random) = (rank.id(), Random::new(seed << 8 | rank.id() as u64));
    let others: Vec<usize> = (0..rank.size()).filter(|&other| other != me).collect();
    let channel = MEETING.max_len(1);
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for &other in &others {
        to.push(rank.sender::<[u64]>("storm", other, channel)?);
        from.push(rank.receiver::<[u64]>("storm", other, channel)?);
    }
    let (mut sent, mut got): Log = Default::default();
    let mut receive =
        |from: &[Receiver<[u64]>], at: usize, random: &mut Random, limit| -> Result<bool> {
            let other = others[at];
            began[other][me].fetch_add(1, Ordering::Relaxed);
            let message = match random.below(3) {
                0 => from[at].try_receive().map(|guard| guard.map(|guard| guard[0])),
                _ => from[at].receive_timeout(limit).map(|guard| Some(guard[0])),
            };
            match message.map_err(mp_core::Error::into_kind) {
                Ok(Some(message)) => {
                    received[other][me].fetch_add(1, Ordering::Relaxed);
                    got.entry(other).or_insert_with(Vec::new).push(message);
                    Ok(true)
                }
                Ok(None) | Err(ErrorKind::Timeout { .. }) => Ok(true),
                Err(ErrorKind::Disconnected { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
    for step in 0..300 {
        let at = random.below(others.len() as u64) as usize;
        let limit = Duration::from_micros(random.below(2000));
        match random.below(7) {
            kind @ 0..3 => {
                let result = match kind {
                    0 => to[at].try_send(&[step]),
                    1 => to[at]
                        .send_buffer_with(rank.buffer_from(&[step])?, limit)
                        .map_err(|failed| failed.error),
                    _ => to[at].send_timeout(&[step], limit),
                };
                match result.map_err(mp_core::Error::into_kind) {
                    Ok(()) => {
                        let sent = sent.entry(others[at]).or_insert_with(Vec::new);
                        sent.push(step);
                        let count =
                            |of: &[Vec<AtomicUsize>]| of[me][others[at]].load(Ordering::Relaxed);
                        ensure!(count(began) >= sent.len(), "sent before the receive began");
                        ensure!(count(received) + 1 >= sent.len(), "sent more than one ahead");
                    }
                    // Others may have ended sooner.
                    Err(
                        ErrorKind::Timeout { .. }
                        | ErrorKind::Full { .. }
                        | ErrorKind::Disconnected { .. },
                    ) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            3 => {
                let mut select = Select::new();
                from.iter().for_each(|from| _ = select.add(from));
                if let Ok(at) = select.ready_with(limit) {
                    receive(&from, at, &mut random, limit)?;
                }
            }
            4 => {
                let mut select = Select::new();
                to.iter().for_each(|to| _ = select.add_sender(to));
                // Only a hint: the receiver may give up.
                let _ = select.ready_with(limit);
            }
            _ => _ = receive(&from, at, &mut random, limit)?,
        }
    }
    drop(to);
    for at in 0..others.len() {
        while receive(&from, at, &mut random, Duration::from_millis(50))? {}
    }
    Ok((sent, got))
}

/// What was sent, according to the results of the calls, is what was received: once, and in order.
#[test]
fn a_storm_of_impatient_ranks_loses_and_doubles_nothing() {
    for nodes in [&[1, 1][..], &[2, 1], &[1, 1, 1], &[1, 2, 1, 1]] {
        for seed in 0..4 {
            let ranks: usize = nodes.iter().sum();
            let counters = || -> Vec<Vec<AtomicUsize>> {
                let row = || (0..ranks).map(|_| AtomicUsize::new(0)).collect();
                (0..ranks).map(|_| row()).collect()
            };
            let (began, received) = (counters(), counters());
            let logs = all_succeed(world(nodes, |rank| storm(rank, seed, &began, &received)));
            for (from, (sent, _)) in logs.iter().enumerate() {
                for (to, (_, got)) in logs.iter().enumerate() {
                    assert_eq!(sent.get(&to), got.get(&from), "{nodes:?} {seed} {from} to {to}");
                }
            }
        }
    }
}

/// An end that is dropped ends the call of the other one that waits, whichever that is.
#[test]
fn an_end_that_is_dropped_ends_the_wait_of_the_other() {
    for nodes in [&[2][..], &[1, 1]] {
        for lives in [0, 1] {
            let opened = Barrier::new(2);
            all_succeed(world(nodes, |rank| {
                let (mut to, mut from) = (None, None);
                match rank.id() {
                    0 => to = Some(rank.sender::<u64>("meeting", 1, MEETING)?),
                    _ => from = Some(rank.receiver::<u64>("meeting", 0, MEETING)?),
                }
                opened.wait();
                if rank.id() != lives {
                    thread::sleep(Duration::from_millis(20));
                    drop((to, from));
                    return Ok(());
                }
                let end = match (&mut to, &from) {
                    (Some(to), _) => to.send(&1),
                    (_, Some(from)) => from.receive().map(drop),
                    _ => unreachable!("a rank has one end"),
                };
                let end = end.unwrap_err();
                ensure!(matches!(end.kind(), ErrorKind::Disconnected { .. }), "{end}");
                Ok(())
            }));
        }
    }
}

/// A rank that panics is lost to those that wait for it at either end. What it has sent before still arrives.
#[test]
fn a_rank_that_panics_ends_the_waits_of_both_its_peers() {
    for nodes in [&[3][..], &[1, 1, 1], &[2, 1], &[1, 2]] {
        let outcomes = world(nodes, |rank| {
            let error = match rank.id() {
                0 => {
                    let from = rank.receiver::<u64>("from", 1, MEETING)?;
                    assert_eq!(*from.receive()?, 7);
                    from.receive().map(drop)
                }
                1 => {
                    let mut to = rank.sender::<u64>("from", 0, MEETING)?;
                    let from = rank.receiver::<u64>("to", 2, MEETING)?;
                    assert_eq!(*from.receive()?, 8);
                    to.send(&7)?;
                    thread::sleep(Duration::from_millis(20));
                    panic!("on purpose");
                }
                _ => {
                    let mut to = rank.sender::<u64>("to", 1, MEETING)?;
                    to.send(&8)?;
                    to.send(&9)
                }
            };
            let error = error.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::PeerLost { rank: 1, .. }), "{error}");
            Ok(())
        });
        let causes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.err()).collect();
        assert_eq!(causes, [None, Some(Cause::Panic("on purpose".to_owned())), None]);
    }
}

/// A sender learns by a selection that the receiver waits, and then a try succeeds. When the receiver has given up, it is
/// refused.
#[test]
fn a_selection_and_a_try_know_whether_the_receiver_waits() {
    for nodes in [&[2][..], &[1, 1]] {
        all_succeed(world(nodes, |rank| {
            let next = Channel::degree(1);
            if rank.id() == 0 {
                let mut to = rank.sender::<u64>("meeting", 1, MEETING)?;
                let mut go = rank.sender::<u8>("go", 1, next)?;
                let gave_up = rank.receiver::<u8>("gave up", 1, next)?;
                for round in 0..20 {
                    go.send(&1)?;
                    let mut select = Select::new();
                    select.add_sender(&to);
                    select.ready()?;
                    // It waits for ever, so it waits still.
                    to.try_send(&round)?;
                    gave_up.receive()?;
                    let mut select = Select::new();
                    select.add_sender(&to);
                    ensure!(select.try_ready().is_none(), "nobody waits");
                    let full = to.try_send(&99).unwrap_err();
                    ensure!(matches!(full.kind(), ErrorKind::Full { degree: 0, .. }), "{full}");
                }
                return Ok(());
            }
            let from = rank.receiver::<u64>("meeting", 0, MEETING)?;
            let go = rank.receiver::<u8>("go", 0, next)?;
            let mut gave_up = rank.sender::<u8>("gave up", 0, next)?;
            for round in 0..20 {
                go.receive()?;
                ensure!(*from.receive()? == round, "round {round}");
                let none = from.receive_timeout(Duration::from_micros(50 * round)).unwrap_err();
                ensure!(matches!(none.kind(), ErrorKind::Timeout { .. }), "{none}");
                gave_up.send(&1)?;
            }
            // It stays until the sender has looked.
            let end = go.receive().unwrap_err();
            ensure!(matches!(end.kind(), ErrorKind::Disconnected { .. }), "{end}");
            Ok(())
        }));
    }
}

/// One end asks for a rendezvous, and the other one for a slot.
#[test]
fn a_rendezvous_and_a_slot_differ() {
    for nodes in [&[2][..], &[1, 1]] {
        for first in [0, 1] {
            let outcomes = world(nodes, |rank| {
                if rank.id() != first {
                    thread::sleep(Duration::from_millis(5));
                }
                if rank.id() == 0 {
                    return rank.sender::<u64>("x", 1, MEETING)?.send(&1);
                }
                rank.receiver::<u64>("x", 0, Channel::degree(1))?.receive().map(drop)
            });
            for outcome in outcomes {
                let text = outcome.unwrap_err().to_string();
                assert!(text.contains("degree 0") && text.contains("degree 1"), "{text}");
            }
        }
    }
}

/// A node is lost in the middle of the meetings. Those that wait for its ranks, at either end, lose them.
#[test]
fn a_node_that_is_lost_ends_all_waits_for_its_ranks() {
    let _watchdog = Watchdog::start("a node that is lost among meetings");
    for sends in [0, 1, 2, 5, 17] {
        // Ranks 0 and 2 go on until the node between them is lost.
        let code = |rank: &Rank| {
            let mut to = (rank.id() < 2)
                .then(|| rank.sender::<u64>("on", rank.id() + 1, MEETING))
                .transpose()?;
            let from = (rank.id() > 0)
                .then(|| rank.receiver::<u64>("on", rank.id() - 1, MEETING))
                .transpose()?;
            loop {
                let ended = || -> Result<()> {
                    if let Some(from) = &from {
                        from.receive()?;
                    }
                    to.as_mut().map_or(Ok(()), |to| to.send(&1))
                }();
                if let Err(error) = ended {
                    return match error.kind() {
                        ErrorKind::PeerLost { rank, .. } => Ok(*rank),
                        _ => Err(error),
                    };
                }
            }
        };
        let mut ran: Vec<_> = thread::scope(|scope| {
            let run = |node: InMemory| {
                scope.spawn(move || match node.node() {
                    1 => mp_nodes::run(Box::new(Failing(node, sends)), 1, code),
                    _ => mp_nodes::run(Box::new(node), 1, code),
                })
            };
            let threads: Vec<_> = InMemory::connect(3).into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ran.remove(1).is_err());
        for ran in ran {
            assert_eq!(all_succeed(ran.unwrap()), [1]);
        }
    }
}

/// A communication thread meets the receivers of messages that were delegated to it.
#[test]
fn delegated_messages_meet_their_receiver() {
    const MESSAGES: u64 = 40;
    for nodes in [&[2][..], &[1, 1]] {
        all_succeed(world(nodes, |rank| {
            let channel = MEETING.max_len(2);
            if rank.id() == 0 {
                let threads = CommThreads::start(1)?;
                let mut to = threads.delegate(rank.sender::<[u64]>("delegated", 1, channel)?);
                let requests: Vec<_> = (0..MESSAGES)
                    .map(|number| to.send(vec![number; number as usize % 3]))
                    .collect();
                for request in requests {
                    request.wait()?;
                }
                return Ok(());
            }
            let from = rank.receiver::<[u64]>("delegated", 0, channel)?;
            let mut number = 0;
            while number < MESSAGES {
                let message = match number % 3 {
                    0 => from.try_receive()?,
                    1 => from.receive_timeout(Duration::from_micros(100)).ok(),
                    _ => Some(from.receive()?),
                };
                if let Some(message) = message {
                    ensure!(*message == vec![number; number as usize % 3], "message {number}");
                    number += 1;
                }
            }
            Ok(())
        }));
    }
}
