//! The limit on unexpected messages: how much a rank keeps, and how messages are handled whose payload stays with the
//! sender.

use std::time::Duration;

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator, start_all};
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World};

use crate::{
    ends::until_lost,
    messages::{CHANNELS, chunks_between, numbers},
    support::{
        Watchdog, on_all,
        scenarios::{check, die},
    },
};

/// Returns a little more than what the channels between two ranks hold of messages of `bytes` bytes.
fn channels(rank: &Rank, bytes: usize) -> Result<usize> {
    Ok(chunks_between(rank)? * bytes.min(32 << 10) + (8 << 10))
}

/// Creates a communicator of all ranks in which a message of more than 40 bytes does not come before this rank asks for
/// it.
fn holding(rank: &Rank) -> Communicator {
    limited(rank, 0)
}

fn limited(rank: &Rank, limit: usize) -> Communicator {
    let world = Communicator::world(rank);
    world.set_unexpected_limit(limit);
    world
}

/// Returns content whose beginning and middle differ from those of every other message.
fn content(bytes: usize, number: usize) -> Vec<u8> {
    let mut content = vec![number as u8; bytes];
    content[..8].copy_from_slice(&(number as u64).to_ne_bytes());
    let last = bytes - 8;
    content[last..].copy_from_slice(&(!number as u64).to_ne_bytes());
    content
}

fn is<T>(result: Result<T, impl Into<Error>>, kind: impl Fn(&Error) -> bool) -> Result<()> {
    match result.map_err(Into::into) {
        Err(error) if kind(&error) => Ok(()),
        Err(error) => Err(mp_core::Error::other(format!("another error: {error:?}"))),
        Ok(_) => Err(mp_core::Error::other("no error")),
    }
}

fn lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PeerLost { .. })
}

fn ended(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PeerEnded { .. })
}

/// Probes for a message that does not come, and so receives the envelopes of the others.
fn look_past(world: &Communicator, from: usize) -> Result<()> {
    ensure!(world.try_probe(from, 99)?.is_none(), "nothing is sent with this tag");
    Ok(())
}

/// Probes until so many messages are unexpected here.
fn look_past_messages(world: &Communicator, from: usize, messages: usize) -> Result<()> {
    while world.unexpected().messages < messages {
        match world.try_probe(from, 99).map_err(Error::into_kind) {
            // The other rank may have sent the messages and ended.
            Ok(None) | Err(ErrorKind::PeerEnded { .. }) => {}
            other => return other.map(drop).map_err(Into::into),
        }
        std::thread::yield_now();
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Send,
    Nonblocking,
    Synchronous,
    Buffered,
    Exchange,
}

/// All ranks send many times the limit to rank 0. It probes past them until the limit is reached, and longer.
fn stream(ranks: usize, how: Stream, bytes: usize, limit: usize) {
    on_all(ranks, |rank| {
        let world = limited(rank, limit);
        let count = 8 * limit / bytes;
        if world.rank() > 0 {
            let contents = (0..count).map(|number| content(bytes, number));
            match how {
                Stream::Send => {
                    contents.into_iter().try_for_each(|content| world.send(&content, 0, 1))?;
                }
                Stream::Nonblocking => {
                    let sent: Vec<_> =
                        contents.map(|content| world.nonblocking_send(content, 0, 1)).collect();
                    for (number, sent) in sent.into_iter().enumerate() {
                        ensure!(sent.wait()? == content(bytes, number), "another came back");
                    }
                }
                Stream::Synchronous => {
                    let sent: Vec<_> = contents
                        .map(|content| world.nonblocking_synchronous_send(content, 0, 1))
                        .collect();
                    for sent in sent {
                        sent.wait()?;
                    }
                }
                Stream::Buffered => {
                    contents
                        .into_iter()
                        .try_for_each(|content| world.buffered_send(&content, 0, 1))?;
                }
                Stream::Exchange => {
                    let contents: Vec<_> = contents.collect();
                    let mut exchange = world.exchange();
                    for content in &contents {
                        exchange.send(content, 0, 1);
                    }
                    exchange.run()?;
                }
            }
            // The sender stays as long as rank 0 probes.
            ensure!(world.receive::<u8>(0, 3)?.0 == 1, "the word");
            return Ok(());
        }
        let others = ranks - 1;
        while world.unexpected().bytes <= limit {
            look_past(&world, 1)?;
            for other in 1..ranks {
                look_past(&world, other)?;
            }
            std::thread::yield_now();
        }
        for _ in 0..300 {
            is(
                world.receive_timeout(&mut [0u8], ANY_SOURCE, 98, Duration::from_micros(100)),
                |error| matches!(error.kind(), ErrorKind::Timeout { .. }),
            )?;
        }
        let bound = limit + others * (limit / 8 + channels(rank, bytes)?);
        let unexpected = world.unexpected();
        ensure!(unexpected.most_bytes <= bound, "{unexpected:?}, {bound} is the most");
        for number in 0..count {
            for other in 1..ranks {
                let (got, _) = world.receive_vec::<u8>(other, 1)?;
                ensure!(got == content(bytes, number), "message {number} of {other}");
            }
        }
        (1..ranks).try_for_each(|other| world.send(&[1u8], other, 3))?;
        let unexpected = world.unexpected();
        ensure!(unexpected.most_bytes <= bound, "{unexpected:?}, {bound} is the most");
        ensure!((unexpected.messages, unexpected.bytes) == (0, 0), "{unexpected:?} are left");
        Ok(())
    });
}

#[test]
fn a_stream_that_is_looked_past_is_bounded() {
    for how in
        [Stream::Send, Stream::Nonblocking, Stream::Synchronous, Stream::Buffered, Stream::Exchange]
    {
        stream(2, how, 30_000, 1 << 20);
    }
}

#[test]
fn so_are_those_of_many_ranks_and_of_any_length() {
    for (ranks, bytes, limit) in [
        (2, 41, 20_000),
        (2, 472, 100_000),
        (3, 473, 100_000),
        (5, 5000, 300_000),
        (8, 41_000, 600_000),
    ] {
        stream(ranks, Stream::Nonblocking, bytes, limit);
        stream(ranks, Stream::Send, bytes, limit);
    }
}

/// A hundred times the limit, in messages that are longer and not longer than the limit's fraction for one message.
#[test]
fn a_long_stream_is_bounded() {
    const LIMIT: usize = 1 << 20;
    on_all(2, |rank| {
        let world = limited(rank, LIMIT);
        let lengths = [60_000, 130_000, 140_000, 500_000];
        let count = 100 * LIMIT / lengths.iter().sum::<usize>() * lengths.len();
        let len = |number: usize| lengths[number % lengths.len()];
        if world.rank() == 0 {
            // The blocking sends wait until their messages are received. The word of the nonblocking send, which ends
            // the receiver's wait, overtakes them.
            let done = world.nonblocking_send([7u8], 1, 2);
            for number in 0..count {
                world.send(&content(len(number), number), 1, 1)?;
            }
            done.wait()?;
            return Ok(());
        }
        look_past_messages(&world, 0, 3)?;
        ensure!(world.receive::<u8>(0, 2)?.0 == 7, "the word");
        for number in 0..count {
            let (got, _) = world.receive_vec::<u8>(0, 1)?;
            ensure!(got == content(len(number), number), "message {number}");
            if number % 7 == 0 {
                look_past(&world, 0)?;
            }
        }
        let unexpected = world.unexpected();
        let bound = LIMIT + LIMIT / 8 + channels(rank, usize::MAX)?;
        ensure!(unexpected.most_bytes <= bound, "{unexpected:?}");
        Ok(())
    });
}

/// When there is room again, messages arrive with their payload.
#[test]
fn there_is_room_again_at_half_the_limit() {
    const LIMIT: usize = 400_000;
    on_all(2, |rank| {
        let world = limited(rank, LIMIT);
        for _ in 0..5 {
            if world.rank() == 0 {
                let sent: Vec<_> =
                    (0..40).map(|i| world.nonblocking_send(vec![i as u8; 40_000], 1, 1)).collect();
                world.receive::<u8>(1, 3)?;
                for sent in sent {
                    sent.wait()?;
                }
                continue;
            }
            look_past_messages(&world, 0, 40)?;
            let full = world.unexpected();
            ensure!(full.bytes > LIMIT && full.bytes < 40 * 40_000, "{full:?}");
            world.send(&[1u8], 0, 3)?;
            for i in 0..40 {
                ensure!(world.receive_vec::<u8>(0, 1)?.0 == [i; 40_000], "message {i}");
            }
        }
        Ok(())
    });
}

const SENDS: usize = 10;
const RECEIVES: usize = 8;

fn send_somehow(world: &Communicator, rank: &Rank, how: usize, content: &[u8]) -> Result<()> {
    match how {
        0 => world.send(content, 1, 1)?,
        1 => world.synchronous_send(content, 1, 1)?,
        2 => world.buffered_send(content, 1, 1)?,
        3 => ensure!(world.nonblocking_send(content.to_vec(), 1, 1).wait()? == content, "back"),
        4 => drop(world.nonblocking_synchronous_send(content.to_vec(), 1, 1).wait()?),
        5 => drop(world.nonblocking_send(content.to_vec(), 1, 1)),
        6 => drop(world.nonblocking_synchronous_send(content.to_vec(), 1, 1)),
        7 => {
            let mut send = [world.persistent_send(content.to_vec(), 1, 1)];
            start_all(&mut send)?;
            send[0].wait()?;
            ensure!(send[0].buffer_mut()? == content, "another buffer came back");
        }
        8 => {
            let mut exchange = world.exchange();
            exchange.send(content, 1, 1);
            exchange.run()?;
        }
        _ => world.send_buffer(rank.buffer_from(content)?, 1, 1)?,
    }
    Ok(())
}

fn receive_somehow(world: &Communicator, how: usize, bytes: usize) -> Result<Vec<u8>> {
    let mut into = vec![0; bytes];
    let status = match how {
        0 => world.receive_into(&mut into, 0, 1)?,
        1 => world.receive_into(&mut into, ANY_SOURCE, ANY_TAG)?,
        2 => world.receive_timeout(&mut into, 0, 1, Duration::from_secs(60))?,
        3 => {
            let (got, status) = world.receive_buffer::<u8>(0, 1)?;
            into.copy_from_slice(&got);
            status
        }
        4 => {
            let (got, status) = world.nonblocking_receive(into, 0, ANY_TAG).wait()?;
            into = got;
            status
        }
        5 => {
            let mut receive = world.persistent_receive(into, ANY_SOURCE, 1);
            receive.start()?;
            let status = receive.wait()?;
            into = std::mem::take(receive.buffer_mut()?);
            status
        }
        6 => {
            let seen = world.probe(ANY_SOURCE, 1)?;
            ensure!(seen.count == bytes && seen.bytes == bytes, "{seen:?}, {bytes} were sent");
            ensure!(world.try_probe(0, ANY_TAG)? == Some(seen), "another message is seen");
            world.receive_into(&mut into, 0, 1)?
        }
        _ => {
            let mut exchange = world.exchange();
            exchange.receive(&mut into, 0, 1);
            exchange.run()?[0]
        }
    };
    ensure!((status.source, status.tag, status.count) == (0, 1, bytes), "{status:?}");
    Ok(into)
}

/// Every kind of send, and every kind of receive, which is posted before the message or after it.
#[test]
fn whatever_is_sent_is_received() {
    for bytes in [40, 41, 472, 473, 5000, 100_000, 600_000] {
        on_all(2, |rank| {
            let world = holding(rank);
            for how in 0..SENDS * RECEIVES * 2 {
                let (send, receive, late) =
                    (how % SENDS, how / SENDS % RECEIVES, how / SENDS / RECEIVES == 1);
                let wanted = content(bytes, how);
                if world.rank() == 0 {
                    if !late {
                        world.receive::<u8>(1, 2)?;
                    }
                    send_somehow(&world, rank, send, &wanted)?;
                    continue;
                }
                match late {
                    true => look_past_messages(&world, 0, 1)?,
                    false => world.send(&[1u8], 0, 2)?,
                }
                let unexpected = world.unexpected();
                ensure!(unexpected.bytes == 0, "{unexpected:?}");
                let got = receive_somehow(&world, receive, bytes)?;
                ensure!(got == wanted, "{bytes} bytes, send {send}, receive {receive}, {late}");
            }
            Ok(())
        });
    }
}

/// All ranks send first, by calls that do not block, also to themselves.
#[test]
fn everybody_holds_for_everybody() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let world = holding(rank);
            let sent: Vec<_> = (0..ranks)
                .map(|to| world.nonblocking_send(content(50_000, world.rank() + to), to, 1))
                .collect();
            (0..ranks).try_for_each(|to| world.buffered_send(&content(900, to), to, 2))?;
            for from in (0..ranks).rev() {
                let (got, _) = world.receive_vec::<u8>(from, 2)?;
                ensure!(got == content(900, world.rank()), "from {from}");
                let (got, _) = world.receive_vec::<u8>(from, 1)?;
                ensure!(got == content(50_000, world.rank() + from), "from {from}");
            }
            for sent in sent {
                sent.wait()?;
            }
            world.flush()
        });
    }
}

/// A message that a receive refuses stays, and its payload stays with the sender.
#[test]
fn what_is_refused_stays() {
    on_all(2, |rank| {
        let world = holding(rank);
        for late in [false, true] {
            if world.rank() == 0 {
                if !late {
                    world.receive::<u8>(1, 2)?;
                }
                world.send(&numbers(5000, 1), 1, 1)?;
                continue;
            }
            match late {
                true => look_past_messages(&world, 0, 1)?,
                false => world.send(&[1u8], 0, 2)?,
            }
            let truncated =
                |error: &Error| matches!(error.kind(), ErrorKind::Truncated { count: 5000, .. });
            let other = |error: &Error| {
                matches!(error.kind(), ErrorKind::WrongElements { count: 5000, .. })
            };
            is(world.receive_into(&mut [0u64; 4999], 0, 1), truncated)?;
            is(world.receive_into(&mut [0i64; 5000], 0, 1), other)?;
            is(world.nonblocking_receive([0u64; 100], 0, 1).wait(), truncated)?;
            is(world.receive::<u64>(0, 1), truncated)?;
            ensure!(world.unexpected().bytes == 0, "a payload that nobody can receive");
            ensure!(world.receive_vec::<u64>(0, 1)?.0 == numbers(5000, 1), "the message");
        }
        Ok(())
    });
}

/// A message that a joint operation refuses is dropped. Its sender does not wait for ever, and the next operation finds
/// its own messages.
#[test]
fn what_a_joint_operation_refuses_is_dropped() {
    on_all(2, |rank| {
        let world = holding(rank);
        let joint = world.joint();
        for late in [false, true] {
            if world.rank() == 0 {
                if !late {
                    world.receive::<u8>(1, 2)?;
                }
                joint.send(&numbers(5000, 1), 1, 1)?;
                joint.send(&numbers(5000, 2), 1, 1)?;
                continue;
            }
            match late {
                true => look_past_messages(&world, 0, 1)?,
                false => world.send(&[1u8], 0, 2)?,
            }
            is(joint.receive_into(&mut [0u64; 10], 0, 1), |error| {
                matches!(error.kind(), ErrorKind::Truncated { .. })
            })?;
            let mut into = vec![0u64; 5000];
            joint.receive_into(&mut into, 0, 1)?;
            ensure!(into == numbers(5000, 2), "another message");
        }
        Ok(())
    });
}

/// A receive that has asked for its message can't be cancelled, but it can be dropped. The message is dropped with it.
#[test]
fn receives_are_dropped_and_cancelled() {
    on_all(2, |rank| {
        let world = holding(rank);
        for round in 0..20 {
            if world.rank() == 0 {
                let sent = world.nonblocking_send(numbers(20_000, 1), 1, 1);
                world.receive::<u8>(1, 2)?;
                sent.wait()?;
                world.send(&numbers(6, round), 1, 1)?;
                continue;
            }
            look_past_messages(&world, 0, 1)?;
            let asked = world.nonblocking_receive(vec![0u64; 20_000], 0, 1);
            let Err(mut asked) = asked.cancel() else {
                return Err(mp_core::Error::other("its message is asked for"));
            };
            if round % 2 == 0 {
                // A part of the message may arrive.
                asked.test()?;
            }
            drop(asked);
            world.send(&[1u8], 0, 2)?;
            ensure!(world.receive_vec::<u64>(0, 1)?.0 == numbers(6, round), "the next message");
        }
        Ok(())
    });
}

/// A send can't be cancelled after its envelope was sent. If the envelope waits for room, it can, and the receiver
/// never hears of it.
#[test]
fn sends_are_cancelled_before_their_envelopes_go() {
    on_all(2, |rank| {
        let world = holding(rank);
        if world.rank() == 0 {
            let gone = world.nonblocking_send(numbers(1000, 0), 1, 1);
            let Err(gone) = gone.cancel() else {
                return Err(mp_core::Error::other("its envelope has gone"));
            };
            let mut waiting: Vec<_> =
                (1..300).map(|i| world.nonblocking_send(numbers(1000, i), 1, 1)).collect();
            let last = waiting.pop().unwrap();
            let Ok(back) = last.cancel() else {
                return Err(mp_core::Error::other("there is no room for its envelope"));
            };
            ensure!(back == numbers(1000, 299), "another buffer");
            rank.sender::<u8>("go", 1, Channel::degree(1))?.send(&1)?;
            world.send(&[1u8], 1, 2)?;
            gone.wait()?;
            for sent in waiting {
                sent.wait()?;
            }
            return Ok(());
        }
        rank.receiver::<u8>("go", 0, Channel::degree(1))?.receive()?;
        world.receive::<u8>(0, 2)?;
        for i in 0..299 {
            ensure!(world.receive_vec::<u64>(0, 1)?.0 == numbers(1000, i), "message {i}");
        }
        Ok(())
    });
}

/// Each rank sets its own limit.
#[test]
fn limits_differ() {
    on_all(2, |rank| {
        let world = limited(rank, [usize::MAX, 0][rank.id()]);
        let other = 1 - world.rank();
        // Both ranks have probed for messages of the other before any is sent.
        world.send(&[1u8], other, 0)?;
        world.receive::<u8>(other, 0)?;
        world.send(&[1u8], other, 0)?;
        world.receive::<u8>(other, 0)?;
        let sent = world.nonblocking_send(numbers(1000, 1), other, 1);
        world.send(&[1u8], other, 2)?;
        world.receive::<u8>(other, 2)?;
        let bytes = world.unexpected().bytes;
        ensure!(bytes == [8000, 0][world.rank()], "{bytes} bytes");
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == numbers(1000, 1), "the message");
        sent.wait()?;
        Ok(())
    });
}

/// When a sender has ended, its receiver still gets the messages that the sender holds. A wait for more messages gets
/// the error that there are none.
#[test]
fn what_is_held_at_the_end_is_received() {
    for how in 0..4 {
        on_all(2, |rank| {
            let world = holding(rank);
            if world.rank() == 0 {
                return match how {
                    0 => world.buffered_send(&numbers(5000, 1), 1, 1),
                    1 => {
                        drop(world.nonblocking_send(numbers(5000, 1), 1, 1));
                        Ok(())
                    }
                    2 => {
                        drop(world.nonblocking_synchronous_send(numbers(5000, 1), 1, 1));
                        Ok(())
                    }
                    _ => {
                        // The rank goes on using its channels while the communicator is dropped.
                        world.buffered_send(&numbers(5000, 1), 1, 1)?;
                        drop(world);
                        let other = holding(rank);
                        other.receive::<u8>(1, 5)?;
                        Ok(())
                    }
                };
            }
            is(world.receive::<u8>(0, 2), ended)?;
            is(world.probe(0, 2), ended)?;
            is(world.synchronous_send(&numbers(100, 1), 0, 2), ended)?;
            ensure!(world.probe(0, 1)?.count == 5000, "the message");
            ensure!(world.receive_vec::<u64>(ANY_SOURCE, 1)?.0 == numbers(5000, 1), "the message");
            is(world.receive::<u8>(0, 1), ended)?;
            if how == 3 {
                holding(rank).send(&[1u8], 0, 5)?;
            }
            Ok(())
        });
    }
}

/// A rank waits in a communicator of one set for ranks that wait in communicators of another set, for messages that
/// this rank holds.
#[test]
fn what_is_held_goes_during_calls_of_other_sets() {
    on_all(3, |rank| {
        let (one, two) = (holding(rank), holding(rank));
        let (next, before) = ((rank.id() + 1) % 3, (rank.id() + 2) % 3);
        for round in 0..10 {
            one.buffered_send(&numbers(100, round), next, 1)?;
            let sent = two.nonblocking_send(numbers(200, round), next, 1);
            let (first, then) = if rank.id() == 0 { (&one, &two) } else { (&two, &one) };
            for from in [first, then] {
                let (got, _) = from.receive_vec::<u64>(before, ANY_TAG)?;
                ensure!(got == numbers(got.len(), round) && got.len() >= 100, "round {round}");
            }
            sent.wait()?;
        }
        Ok(())
    });
}

/// A rank waits again and again in one set for a rank that waits for a message that this rank still has to send in
/// another set. The message is short and held, or it is long and does not fit into the channels, held or not.
#[test]
fn what_is_to_be_sent_goes_whole_during_calls_of_other_sets() {
    for (length, limit) in [(100, 0), (1_000_000, 0), (1_000_000, usize::MAX)] {
        on_all(2, move |rank| {
            let (one, two) = (limited(rank, limit), limited(rank, limit));
            for round in 0..4 {
                if rank.id() == 0 {
                    one.buffered_send(&numbers(length, round), 1, 1)?;
                    two.receive::<u8>(1, 2)?;
                } else {
                    let (got, _) = one.receive_vec::<u64>(0, 1)?;
                    ensure!(got == numbers(length, round), "round {round}");
                    two.send(&[1u8], 0, 2)?;
                }
            }
            Ok(())
        });
    }
}

/// A receive that is posted when the communicators are dropped gets its message.
#[test]
fn what_is_posted_outlives_its_communicator() {
    on_all(2, |rank| {
        let world = holding(rank);
        let other = 1 - rank.id();
        let long = numbers(50_000, rank.id() as u64);
        world.buffered_send(&long, other, 1)?;
        let posted = world.nonblocking_receive(vec![0u64; 50_000], other, 1);
        drop(world);
        let (got, _) = posted.wait()?;
        ensure!(got == numbers(50_000, other as u64), "damaged");
        Ok(())
    });
}

/// No rank waits for ever for ranks that never receive.
#[test]
fn what_is_held_for_who_ends_is_given_up() {
    for how in 0..6 {
        on_all(2, |rank| {
            let world = holding(rank);
            let long = numbers(5000, 1);
            if world.rank() == 1 {
                if how == 5 {
                    // Both ranks end, and hold a message for each other.
                    world.buffered_send(&long, 0, 1)?;
                    return Ok(());
                }
                look_past_messages(&world, 0, 1)?;
                return Ok(());
            }
            match how {
                0 => is(world.send(&long, 1, 1), ended),
                1 => {
                    let failed = world.nonblocking_send(long.clone(), 1, 1).wait().unwrap_err();
                    ensure!(failed.buffer == long, "another buffer came back");
                    is(Err::<(), _>(failed), ended)
                }
                2 => is(world.synchronous_send(&long, 1, 1), ended),
                3 => {
                    world.buffered_send(&long, 1, 1)?;
                    world.flush()
                }
                4 => {
                    let mut exchange = world.exchange();
                    exchange.send(&long, 1, 1);
                    is(exchange.run(), ended)
                }
                _ => world.buffered_send(&long, 1, 1),
            }
        });
    }
}

/// Runs processes of which one dies. Rank 0's code ends it.
fn with_a_death(code: impl Fn(&Rank, &Communicator) -> Result<()> + Sync) {
    let _watchdog = Watchdog::start();
    check(World::processes(2).run(|rank| code(rank, &holding(rank))), 0).unwrap();
}

#[test]
fn a_sender_dies_with_what_it_holds() {
    for how in 0..5 {
        with_a_death(|rank, world| {
            let long = numbers(500_000, 1);
            if world.rank() == 0 {
                let _sent = world.nonblocking_send(long, 1, 1);
                world.send(&[1u8], 1, 2)?;
                world.receive::<u8>(1, 3)?;
                if how == 4 {
                    // The message is asked for, and a part of it is sent.
                    look_past(world, 1)?;
                }
                match die() {}
            }
            let mut into = vec![0u64; 500_000];
            world.receive::<u8>(0, 2)?;
            ensure!(world.probe(0, 1)?.count == 500_000, "the message is announced");
            if how == 0 || how == 4 {
                let asked = world.nonblocking_receive(into, 0, 1);
                world.send(&[1u8], 0, 3)?;
                until_lost(rank, 0);
                return is(asked.wait(), lost);
            }
            world.send(&[1u8], 0, 3)?;
            // This call processes everything that came from rank 0.
            is(world.receive::<u8>(0, 4), lost)?;
            match how {
                1 => is(world.receive_into(&mut into, 0, 1), lost),
                2 => is(world.receive_into(&mut into, ANY_SOURCE, ANY_TAG), lost),
                _ => is(world.probe(0, 1), lost),
            }?;
            ensure!(world.unexpected().messages == 0, "a message that can't be received");
            Ok(())
        });
    }
}

#[test]
fn a_receiver_dies_that_a_message_is_held_for() {
    for how in 0..7 {
        with_a_death(|_, world| {
            let long = numbers(500_000, 1);
            if world.rank() == 0 {
                look_past_messages(world, 1, 1)?;
                if how == 6 {
                    // Rank 0 has asked for the message, and does not take it.
                    let _asked = world.nonblocking_receive(vec![0u64; 500_000], 1, 1);
                    world.send(&[1u8], 1, 3)?;
                    match die() {}
                }
                match die() {}
            }
            match how {
                0 => is(world.send(&long, 0, 1), lost),
                1 => is(world.synchronous_send(&long, 0, 1), lost),
                2 => is(world.nonblocking_synchronous_send(long, 0, 1).wait(), lost),
                3 => {
                    world.buffered_send(&long, 0, 1)?;
                    world.flush()
                }
                4 => {
                    let mut into = [0u8];
                    is(world.send_receive(&long, 0, 1, &mut into, 0, 1), lost)
                }
                _ => {
                    let failed = world.nonblocking_send(long.clone(), 0, 1).wait().unwrap_err();
                    ensure!(failed.buffer == long, "another buffer came back");
                    is(Err::<(), _>(failed), lost)
                }
            }
        });
    }
}

/// A payload is asked for while half of the message behind it has been sent.
#[test]
fn what_an_exchange_has_begun_goes_on_when_an_earlier_payload_is_asked_for() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        world.set_unexpected_limit(16 * CHANNELS);
        // More than is sent without a request, and more than the channel of chunks holds.
        let (long, short) = (vec![1u8; 2 * CHANNELS + 1], vec![2u8; 2 * CHANNELS]);
        if rank.id() == 0 {
            world.receive::<u8>(1, 0)?;
            let mut exchange = world.exchange();
            exchange.send(&long, 1, 1).send(&short, 1, 2);
            exchange.run()?;
            return Ok(());
        }
        world.send(&[0u8], 0, 0)?;
        // The other rank sends as much as there is room for.
        std::thread::sleep(std::time::Duration::from_millis(50));
        ensure!(world.receive_vec::<u8>(0, 1)?.0 == long, "another message");
        ensure!(world.receive_vec::<u8>(0, 2)?.0 == short, "another message");
        Ok(())
    });
}

/// A joint operation that refuses a message asks for its payload, and drops it. The sender waits until all of it is
/// gone, and so may those who wait for the sender. So every wait of this rank must fetch it, also one that looks only
/// at the messages of another rank.
#[test]
fn every_wait_fetches_what_was_refused() {
    for (bytes, probes) in [(300_000, 0), (3_000_000, 0), (3_000_000, 1)] {
        on_all(3, |rank| {
            let world = holding(rank);
            match world.rank() {
                0 => {
                    // From now on the way from rank 2 is open.
                    world.receive::<u8>(2, 0)?;
                    let refused = world.joint().receive_into(&mut [0u8; 10], 1, 5);
                    is(refused, |error| matches!(error.kind(), ErrorKind::Truncated { .. }))?;
                    for _ in 0..probes {
                        // Some of the payload comes.
                        std::thread::sleep(Duration::from_millis(20));
                        look_past(&world, 2)?;
                    }
                    ensure!(world.receive::<u8>(2, 0)?.0 == 2, "another message");
                }
                1 => {
                    world.joint().send(&vec![1u8; bytes], 0, 5)?;
                    world.send(&[1u8], 2, 0)?;
                }
                _ => {
                    world.send(&[0u8], 0, 0)?;
                    world.receive::<u8>(1, 0)?;
                    world.send(&[2u8], 0, 0)?;
                }
            }
            Ok(())
        });
    }
}
