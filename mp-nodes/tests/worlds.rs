//! Worlds on several nodes, of threads that are connected in memory.

mod support;

use std::{sync::Barrier, thread};

use mp_core::{Cause, Rank, Result as CoreResult};
use mp_nodes::{InMemory, Interconnect, Result};
use onchip::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use onchip::{Channel, ErrorKind};

use support::failing::Failing;
use support::watchdog::Watchdog;
use support::world::{WORLDS, all_succeed, world};

#[test]
fn ranks_are_numbered_over_all_nodes() {
    for nodes in WORLDS {
        let ranks: usize = nodes.iter().sum();
        let ids = all_succeed(world(nodes, |rank| {
            assert_eq!((rank.size(), rank.nodes()), (ranks, nodes.len()));
            assert!(rank.ranks_here().contains(&rank.id()));
            assert_eq!(rank.ranks_here().len(), nodes[rank.node()]);
            for other in 0..ranks {
                let same = rank.ranks_here().contains(&other);
                assert_eq!(rank.node_of(other)? == rank.node(), same);
            }
            assert!(rank.node_of(ranks).is_err());
            Ok((rank.id(), rank.node()))
        }));
        let node_of = (0..).zip(nodes).flat_map(|(node, &ranks)| vec![node; ranks]);
        assert_eq!(ids, (0..).zip(node_of).collect::<Vec<_>>());
    }
}

/// Every rank sends to every other one: numbers, slices of all lengths up to a limit, and buffers.
#[test]
fn every_kind_of_message_arrives_in_order() {
    const LONGEST: usize = 700;
    for nodes in WORLDS {
        for degree in [1, 2, 7] {
            all_succeed(world(nodes, |rank| {
                let others = (0..rank.size()).filter(|&other| other != rank.id());
                let channel = Channel::degree(degree).max_len(LONGEST);
                let mut numbers = Vec::new();
                let mut slices = Vec::new();
                for other in others.clone() {
                    let to = rank.sender::<[u32; 3]>("numbers", other, Channel::degree(degree))?;
                    numbers.push((
                        to,
                        rank.receiver::<[u32; 3]>("numbers", other, Channel::degree(degree))?,
                    ));
                    let to = rank.sender::<[u16]>("slices", other, channel)?;
                    slices.push((to, rank.receiver::<[u16]>("slices", other, channel)?));
                }
                let value = |from: usize, round: usize| (1000 * from + 7 * round) as u16;
                let len = |round: usize| round * 97 % (LONGEST + 1);
                for round in 0..40 {
                    for ((number, _), (slice, _)) in numbers.iter_mut().zip(&mut slices) {
                        number.send(&[rank.id() as u32, round as u32, 5])?;
                        let elements = vec![value(rank.id(), round); len(round)];
                        match round % 3 {
                            0 => {
                                // A buffer may be longer than a slot.
                                let long = vec![value(rank.id(), round); 3 * LONGEST + round];
                                let buffer = rank.buffer_from(&long)?;
                                slice.send_buffer(buffer).map_err(|failed| failed.error)?;
                            }
                            _ => slice.send(&elements)?,
                        }
                    }
                    for (other, ((_, number), (_, slice))) in
                        others.clone().zip(numbers.iter().zip(&slices))
                    {
                        assert_eq!(*number.receive()?, [other as u32, round as u32, 5]);
                        let got = slice.receive()?;
                        let wanted = if round % 3 == 0 { 3 * LONGEST + round } else { len(round) };
                        assert_eq!(*got, vec![value(other, round); wanted]);
                    }
                }
                Ok(())
            }));
        }
    }
}

/// Long messages and short ones in one channel, as slices and as buffers, also to a receiver that leaves in the middle.
#[test]
fn long_messages_keep_their_order_among_short_ones() {
    const LONGEST: usize = 40_000;
    for nodes in [&[2][..], &[1, 1], &[1, 2, 1]] {
        for (degree, received) in [(1, 60), (2, 60), (5, 60), (3, 17)] {
            let len = |round: usize| [3, 8_191, 8_192, LONGEST][round % 4];
            all_succeed(world(nodes, |rank| {
                let channel = Channel::degree(degree).max_len(LONGEST);
                let last = rank.size() - 1;
                if rank.id() == last {
                    let from = rank.receiver::<[u32]>("long", 0, channel)?;
                    for round in 0..received {
                        let wanted = vec![round as u32; len(round) + 100_000 * (round % 3 / 2)];
                        assert!(*from.receive()? == wanted, "message {round} is another one");
                    }
                    return Ok(());
                }
                if rank.id() > 0 {
                    return Ok(());
                }
                let mut to = rank.sender::<[u32]>("long", last, channel)?;
                for round in 0..60 {
                    let sent = match round % 3 {
                        // A buffer may be longer than a slot.
                        2 => {
                            let elements = vec![round as u32; len(round) + 100_000];
                            let sent = to.send_buffer(rank.buffer_from(&elements)?);
                            sent.map_err(|failed| failed.error)
                        }
                        _ => to.send(&vec![round as u32; len(round)]),
                    };
                    match sent {
                        Err(error) if received < 60 => {
                            assert!(matches!(error.kind(), ErrorKind::Disconnected { .. }));
                            return Ok(());
                        }
                        sent => sent?,
                    }
                }
                Ok(())
            }));
        }
    }
}

/// A sender gets as many messages ahead of its receiver as the degree says, on one node or on two.
#[test]
fn the_degree_limits_how_far_a_sender_gets_ahead() {
    for nodes in [&[2][..], &[1, 1]] {
        for degree in [1, 3, 8] {
            let full = Barrier::new(2);
            all_succeed(world(nodes, |rank| {
                if rank.id() == 0 {
                    let mut to = rank.sender::<u64>("ahead", 1, Channel::degree(degree))?;
                    for number in 0..u64::from(degree) {
                        to.send(&number)?;
                    }
                    thread::sleep(std::time::Duration::from_millis(20));
                    let more = to.try_send(&99);
                    assert!(more.is_err_and(|e| matches!(e.kind(), ErrorKind::Full { .. })));
                    full.wait();
                    // One message that is received makes room for one.
                    return to.send(&u64::from(degree));
                }
                let from = rank.receiver::<u64>("ahead", 0, Channel::degree(degree))?;
                full.wait();
                for number in 0..=u64::from(degree) {
                    assert_eq!(*from.receive()?, number);
                }
                assert!(
                    from.receive()
                        .is_err_and(|e| matches!(e.kind(), ErrorKind::Disconnected { .. }))
                );
                Ok(())
            }));
        }
    }
}

/// A channel of a name that is opened again is another one, whichever end is opened first.
#[test]
fn channels_of_a_name_are_paired_in_the_order_of_opening() {
    for nodes in [&[2][..], &[1, 1]] {
        all_succeed(world(nodes, |rank| {
            let channel = Channel::degree(2);
            for round in 0..30u64 {
                let other = 1 - rank.id();
                let (mut to, from) = if (round + rank.id() as u64).is_multiple_of(2) {
                    let to = rank.sender::<u64>("again", other, channel)?;
                    (to, rank.receiver::<u64>("again", other, channel)?)
                } else {
                    let from = rank.receiver::<u64>("again", other, channel)?;
                    (rank.sender::<u64>("again", other, channel)?, from)
                };
                to.send(&round)?;
                to.send(&(100 + round))?;
                // What was sent before the end was closed still arrives.
                drop(to);
                assert_eq!((*from.receive()?, *from.receive()?), (round, 100 + round));
            }
            Ok(())
        }));
    }
}

#[test]
fn an_end_that_is_dropped_is_noticed_on_the_other_node() {
    for nodes in [&[2][..], &[1, 1]] {
        all_succeed(world(nodes, |rank| {
            if rank.id() == 0 {
                let mut to = rank.sender::<u64>("words", 1, Channel::degree(2))?;
                let error = loop {
                    if let Err(error) = to.send(&1) {
                        break error;
                    }
                };
                assert!(matches!(error.kind(), ErrorKind::Disconnected { .. }), "{error}");
                return Ok(());
            }
            let from = rank.receiver::<u64>("words", 0, Channel::degree(2))?;
            assert_eq!(*from.receive()?, 1);
            drop(from);
            Ok(())
        }));
    }
}

#[test]
fn a_rank_that_panics_is_lost_to_all_nodes() {
    for nodes in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
        let outcomes = world(nodes, |rank| {
            let channel = Channel::degree(2);
            match rank.id() {
                0 => {
                    let from = rank.receiver::<u64>("last words", 1, channel)?;
                    assert_eq!(*from.receive()?, 7);
                    let error = from.receive().unwrap_err();
                    assert!(matches!(error.kind(), ErrorKind::PeerLost { rank: 1, .. }), "{error}");
                }
                1 => {
                    let mut to = rank.sender::<u64>("last words", 0, channel)?;
                    to.send(&7)?;
                    panic!("on purpose");
                }
                _ => {
                    let mut to = rank.sender::<u64>("to the lost", 1, channel)?;
                    let error = loop {
                        if let Err(error) = to.send(&1) {
                            break error;
                        }
                    };
                    assert!(matches!(error.kind(), ErrorKind::PeerLost { rank: 1, .. }), "{error}");
                }
            }
            while !rank.is_lost(1) {
                thread::yield_now();
            }
            Ok(())
        });
        let causes: Vec<_> = outcomes.into_iter().map(Result::err).collect();
        assert_eq!(causes, [None, Some(Cause::Panic("on purpose".to_owned())), None]);
    }
}

#[test]
fn ends_that_differ_are_an_error_at_both() {
    for nodes in [&[2][..], &[1, 1]] {
        for wait in [0, 1] {
            let outcomes = world(nodes, |rank| {
                if rank.id() == wait {
                    thread::sleep(std::time::Duration::from_millis(5));
                }
                if rank.id() == 0 {
                    let mut to = rank.sender::<u64>("x", 1, Channel::degree(2))?;
                    loop {
                        to.send(&1)?;
                    }
                }
                let from = rank.receiver::<u64>("x", 0, Channel::degree(3))?;
                from.receive().map(|_| ())
            });
            for outcome in outcomes {
                let text = outcome.unwrap_err().to_string();
                assert!(text.contains("degree 2") && text.contains("degree 3"), "{text}");
            }
        }
    }
}

#[test]
fn what_needs_common_memory_says_so() {
    let texts = all_succeed(world(&[1, 1], |rank| {
        let mpb = rank.mpb("lines", onchip::mpb::Mpbs::lines(1)).map(|_| ());
        Ok(mpb.unwrap_err().to_string())
    }));
    for mpb in texts {
        assert!(mpb.contains("another node, and message passing buffers"), "{mpb}");
    }
}

/// Messages of every way that tagged messages have: in lines, in chunks, as a rendezvous, and buffers that move.
#[test]
fn tagged_messages_of_all_lengths_arrive() {
    let lengths = [0, 1, 5, 6, 59, 60, 1000, 5000, 40_000, 300_000];
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            // Longer messages wait for their receive.
            comm.set_unexpected_limit(1 << 20);
            let (me, size) = (comm.rank(), comm.size());
            let (next, last) = ((me + 1) % size, (me + size - 1) % size);
            for (tag, &len) in (0..).zip(&lengths) {
                let sent: Vec<u64> = (0..len).map(|at| (at * 31 + me) as u64).collect();
                let mut got = vec![0; len];
                comm.send_receive(&sent, next, tag, &mut got, last, tag)?;
                let wanted: Vec<u64> = (0..len).map(|at| (at * 31 + last) as u64).collect();
                assert!(got == wanted, "{len} elements from rank {last} to rank {me}");
            }
            if size > 1 {
                let buffer = rank.buffer_from(&[me as u32; 10_000])?;
                comm.send_buffer(buffer, next, 77).map_err(|failed| failed.error)?;
                let (buffer, _) = comm.receive_buffer::<u32>(last, 77)?;
                assert_eq!(*buffer, [last as u32; 10_000]);
            }
            Ok(())
        }));
    }
}

#[test]
fn one_rank_receives_from_any_other() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let (me, size) = (comm.rank(), comm.size());
            const EACH: usize = 20;
            if me > 0 {
                for number in 0..EACH {
                    let message = [me as u64, number as u64];
                    match number % 3 {
                        0 => comm.synchronous_send(&message, 0, number as u32)?,
                        _ => comm.send(&message, 0, number as u32)?,
                    }
                }
                return Ok(());
            }
            let mut next = vec![0; size];
            for _ in 0..EACH * (size - 1) {
                let mut message = [0u64; 2];
                let status = comm.receive_into(&mut message, ANY_SOURCE, ANY_TAG)?;
                assert_eq!(message, [status.source as u64, next[status.source]]);
                next[status.source] += 1;
            }
            if size > 1 {
                // All others have ended, and so nothing can come any more.
                let error = comm.receive::<u64>(ANY_SOURCE, ANY_TAG).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
            }
            Ok(())
        }));
    }
}

/// A node that fails in the middle of its messages is lost to the others with all its ranks, and they to it. No rank
/// waits for ever, and the others go on with each other.
#[test]
fn a_node_that_is_lost_is_lost_with_all_its_ranks() {
    let _watchdog = Watchdog::start("a node that is lost");
    for sends in [0, 1, 2, 5, 17] {
        let code = |rank: &Rank| {
            let channel = Channel::degree(2);
            let other = |id: usize| (0..rank.size()).filter(move |&other| other != id);
            let mut to = Vec::new();
            for other in other(rank.id()) {
                to.push((other, rank.sender::<u64>("all", other, channel)?));
            }
            let mut from = Vec::new();
            for other in other(rank.id()) {
                from.push((other, rank.receiver::<u64>("all", other, channel)?));
            }
            // Until both are lost, and 50 rounds after that among those that are left. Others may end sooner.
            let (mut lost, mut rounds) = (Vec::new(), 0);
            while rounds < 50 {
                rounds += usize::from(lost.len() > 1);
                let mut goes_on = |other: usize, result: CoreResult<()>| {
                    if result
                        .as_ref()
                        .is_err_and(|e| matches!(e.kind(), ErrorKind::PeerLost { .. }))
                    {
                        lost.push(other);
                    }
                    result.is_ok()
                };
                to.retain_mut(|(other, to)| goes_on(*other, to.send(&1)));
                from.retain(|(other, from)| goes_on(*other, from.receive().map(drop)));
                lost.sort_unstable();
                lost.dedup();
            }
            Ok((lost.clone(), lost.iter().all(|&other| rank.is_lost(other))))
        };
        let ran: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = InMemory::connect(3)
                .into_iter()
                .map(|node| {
                    scope.spawn(move || match node.node() {
                        1 => mp_nodes::run(Box::new(Failing(node, sends)), 2, code),
                        _ => mp_nodes::run(Box::new(node), 2, code),
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (node, ran) in ran.into_iter().enumerate() {
            if node == 1 {
                let error = ran.unwrap_err();
                assert!(matches!(error, mp_nodes::Error::Engine { .. }), "{error}");
                continue;
            }
            assert_eq!(all_succeed(ran.unwrap()), [(vec![2, 3], true), (vec![2, 3], true)]);
        }
    }
}

#[test]
fn a_node_without_ranks_is_an_error_at_all_nodes() {
    let _watchdog = Watchdog::start("a node without ranks");
    thread::scope(|scope| {
        for (ranks, node) in [2, 0, 1].into_iter().zip(InMemory::connect(3)) {
            scope.spawn(move || {
                let ran = mp_nodes::run(Box::new(node), ranks, |_| Ok(()));
                assert!(matches!(ran, Err(mp_nodes::Error::NoRanks { node: 1 })), "{ran:?}");
            });
        }
    });
}

/// A rank that makes a channel, sends and returns at once has sent, whenever the receiver opens its end.
#[test]
fn what_a_rank_sends_just_before_it_returns_arrives() {
    for nodes in [&[2][..], &[1, 1]] {
        for round in 0..60u64 {
            all_succeed(world(nodes, |rank| {
                let channel = Channel::degree(1);
                if rank.id() == 0 {
                    return rank.sender::<u64>("last", 1, channel)?.send(&round);
                }
                if round % 3 > 0 {
                    thread::sleep(std::time::Duration::from_micros(50 * (round % 7)));
                }
                assert_eq!(*rank.receiver::<u64>("last", 0, channel)?.receive()?, round);
                Ok(())
            }));
        }
    }
}

/// A rank that has dropped its communicator, and goes on, is no source any more.
#[test]
fn a_rank_without_communicators_is_not_waited_for() {
    for nodes in [&[2][..], &[1, 1]] {
        all_succeed(world(nodes, |rank| {
            let channel = Channel::degree(1);
            let comm = Communicator::world(rank);
            if rank.id() == 0 {
                drop(comm);
                // It ends only when the other rank has stopped waiting for it.
                rank.receiver::<u64>("done", 1, channel)?.receive()?;
                return Ok(());
            }
            let error = comm.receive::<u64>(ANY_SOURCE, ANY_TAG).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NobodyLeft), "{error}");
            rank.sender::<u64>("done", 0, channel)?.send(&1)
        }));
    }
}

/// Channels of one name that are opened and closed again and again, and types of all alignments.
#[test]
fn many_short_channels_and_types_of_any_layout() {
    #[derive(Clone, Copy, Debug, PartialEq, onchip::Pod, onchip::Zeroable)]
    #[bytemuck(crate = "onchip::bytemuck")]
    #[repr(C, align(64))]
    struct Wide([u64; 8]);
    for nodes in [&[2][..], &[1, 1]] {
        all_succeed(world(nodes, |rank| {
            let name = "n".repeat(64);
            for round in 0..400u64 {
                let channel = Channel::degree(1 + round as u32 % 3).max_len(2);
                if rank.id() == 0 {
                    let mut to = rank.sender::<[Wide]>(&name, 1, channel)?;
                    to.send(&[Wide([round; 8]), Wide([7; 8])])?;
                } else {
                    let from = rank.receiver::<[Wide]>(&name, 0, channel)?;
                    assert_eq!(*from.receive()?, [Wide([round; 8]), Wide([7; 8])]);
                }
            }
            let empty = Channel::degree(2).max_len(3);
            if rank.id() == 0 {
                let mut to = rank.sender::<[u8]>("empty", 1, empty)?;
                to.send(&[])?;
                return to.send_buffer(rank.buffer(0)?).map_err(|failed| failed.error);
            }
            let from = rank.receiver::<[u8]>("empty", 0, empty)?;
            assert!(from.receive()?.is_empty() && from.receive()?.is_empty());
            Ok(())
        }));
    }
}
