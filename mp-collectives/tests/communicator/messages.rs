//! Single messages: lengths, types, order, errors that keep the message, probes.

use std::time::{Duration, Instant};

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use mp_core::{Channel, Error, ErrorKind, Plain, Rank, Result, SharedBuffer};

use crate::support::{SIZES, on_all};

/// Lengths around every change in the way messages are sent.
pub const LENGTHS: [usize; 17] =
    [0, 1, 4, 5, 6, 7, 12, 40, 41, 59, 60, 255, 511, 513, 2048, 8193, 70_001];

/// The bytes of all chunks that can be pending between two ranks.
pub const CHANNELS: usize = 64 * CHUNK;
const CHUNK: usize = 32 << 10;

/// Returns how many chunks can be pending between two ranks of this world.
pub fn chunks_between(rank: &Rank) -> Result<usize> {
    let all = 4 * rank.cache_for_rings()? / CHUNK;
    Ok((all / (rank.size() - 1)).clamp(8, 64))
}

pub fn numbers(len: usize, seed: u64) -> Vec<u64> {
    (0..len as u64).map(|i| i.wrapping_mul(0x9e37_79b9) ^ seed).collect()
}

/// Makes a rank late, in some of the rounds.
pub fn pause(on: bool) {
    if on {
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Receives a message of `len` elements with tag 3 from `other`, in each pair of rounds in another way. Returns the elements.
pub fn receive_by_turns(
    world: &Communicator,
    (round, len): (usize, usize),
    other: usize,
) -> Result<Vec<u64>> {
    let mut got = vec![7; len + 1];
    let status = match round / 2 % 7 {
        0 | 1 => world.receive_into(&mut got, other, 3)?,
        2 => world.receive_into(&mut got, ANY_SOURCE, ANY_TAG)?,
        3 => world.receive_timeout(&mut got, other, 3, Duration::from_secs(20))?,
        4 => {
            let posted = world.nonblocking_receive(std::mem::take(&mut got), other, 3);
            let (back, status) = posted.wait()?;
            got = back;
            status
        }
        5 => {
            let seen = world.probe(other, ANY_TAG)?;
            ensure!(seen.count == len, "{seen:?} probed, {len} sent");
            world.receive_into(&mut got, other, 3)?
        }
        _ => {
            let (vec, status) = world.receive_vec::<u64>(other, 3)?;
            got[..len].copy_from_slice(&vec);
            status
        }
    };
    ensure!(status.count == len && status.source == other, "{round}: {status:?}");
    ensure!(got[len] == 7, "what lies beyond the message was changed");
    got.truncate(len);
    Ok(got)
}

fn there_and_back<T: Plain + PartialEq + std::fmt::Debug>(
    world: &Communicator,
    make: impl Fn(usize) -> T,
) -> Result<()> {
    let other = 1 - world.rank();
    for len in LENGTHS {
        let wanted: Vec<T> = (0..len).map(&make).collect();
        let tag = len as u32;
        if world.rank() == 0 {
            world.send(&wanted, other, tag)?;
            let (back, status) = world.receive_vec::<T>(other, tag)?;
            ensure!(back == wanted, "{len} elements came back otherwise");
            ensure!((status.source, status.tag) == (other, tag), "{status:?}");
            ensure!(
                (status.count, status.bytes) == (len, len * size_of::<T>()),
                "{len}: {status:?}"
            );
        } else {
            let mut got = vec![make(7); len + 1];
            let status = world.receive_into(&mut got, other, tag)?;
            ensure!(status.count == len && got[..len] == wanted, "{len}: {status:?}");
            ensure!(got[len] == make(7), "what lies beyond the message was changed");
            world.send(&got[..len], other, tag)?;
        }
    }
    Ok(())
}

#[test]
fn messages_of_every_length_and_type() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        there_and_back(&world, |i| i as u8)?;
        there_and_back(&world, |i| i as u16)?;
        there_and_back(&world, |i| i as f64 * 0.5)?;
        there_and_back(&world, |i| [i as u8, 1, 2])?;
        there_and_back(&world, |i| [i as u64; 9])?;
        there_and_back(&world, |_| ())?;
        there_and_back(&world, |i| i as u128)
    });
}

/// Both ranks send messages in pieces, one of them more than the other, which therefore has no cells left now and then.
/// Messages come directly, to a posted receive, while a probe looks for them, and from the store.
#[test]
fn pieces_go_both_ways() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        for round in 0..210 {
            let len = [511, 512, 1025, 2047, 2049, 4000, 8192, 8193][round % 8];
            let wanted = numbers(len, round as u64);
            if (round % 7 == 6) == (world.rank() == 1) {
                world.send(&wanted, other, 1)?;
                if round % 5 == 4 {
                    world.send(&[round as u64], other, 2)?;
                }
                continue;
            }
            if round % 5 == 4 {
                // The message before this one goes to the store.
                ensure!(world.receive::<u64>(other, 2)?.0 == round as u64, "another round");
            }
            let mut got = vec![7; len + 1];
            let status = match round % 3 {
                0 => world.receive_into(&mut got, other, 1)?,
                1 => {
                    let (back, status) = world.nonblocking_receive(got, other, 1).wait()?;
                    got = back;
                    status
                }
                _ => {
                    ensure!(world.probe(other, ANY_TAG)?.count == len, "{len} not probed");
                    world.receive_into(&mut got, ANY_SOURCE, ANY_TAG)?
                }
            };
            ensure!(status.count == len && got[..len] == wanted, "round {round}: {status:?}");
            ensure!(got[len] == 7, "what lies beyond the message was changed");
        }
        Ok(())
    });
}

/// Each pair of ranks has cells of its own, which the pairs begin to use in any order.
#[test]
fn pieces_go_between_all_ranks() {
    on_all(5, |rank| {
        let world = Communicator::world(rank);
        let (me, ranks) = (world.rank(), world.size());
        for round in 0..12 {
            for step in 1..ranks {
                // Rank 0 meets the others in one order, and the last rank in the other.
                let step = if round % 2 == 0 { step } else { ranks - step };
                let (to, from) = ((me + step) % ranks, (me + ranks - step) % ranks);
                let posted = world.nonblocking_receive(vec![0u64; 2000], from, 1);
                world.send(&numbers(2000, (100 * me + to) as u64), to, 1)?;
                let (got, _) = posted.wait()?;
                ensure!(got == numbers(2000, (100 * from + me) as u64), "from {from}, {round}");
            }
        }
        Ok(())
    });
}

/// A receive of a prefix takes each message whole, in the order of sending, whatever its length and the room are.
/// Messages come directly, while another receive is pending, and from the store.
#[test]
fn a_prefix_is_what_fits() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        if world.rank() == 0 {
            for (tag, len) in (0..).zip(LENGTHS) {
                for _ in 0..3 {
                    world.send(&numbers(len, 5), 1, tag)?;
                    world.send_buffer(rank.buffer_from(&numbers(len, 6))?, 1, tag)?;
                }
            }
            return world.send(&[1u8], 1, 99);
        }
        for (tag, len) in (0..).zip(LENGTHS) {
            for room in [0, len / 2, len + 1] {
                for (seed, any) in [(5, false), (6, true)] {
                    // It takes none of the messages, however many have come when it is dropped.
                    let pending =
                        (room == len / 2).then(|| world.nonblocking_receive([0u8], 0, 98));
                    let mut into = vec![7u64; room];
                    let status = match any {
                        true => world.receive_prefix(&mut into, ANY_SOURCE, tag)?,
                        false => world.receive_prefix(&mut into, 0, tag)?,
                    };
                    ensure!(
                        (status.source, status.tag, status.count) == (0, tag, len),
                        "{status:?}"
                    );
                    let fits = room.min(len);
                    ensure!(into[..fits] == numbers(len, seed)[..fits], "{len} into {room}");
                    ensure!(into[fits..].iter().all(|&number| number == 7), "{len} into {room}");
                    drop(pending);
                }
            }
        }
        world.receive::<u8>(0, 99).map(drop)
    });
}

/// A message that is sent in one way can be received in every way.
#[test]
fn moved_and_copied_messages_are_alike() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        for len in LENGTHS {
            let wanted = numbers(len, 3);
            if world.rank() == 0 {
                for copied in [false, true, false, true] {
                    if copied {
                        world.send(&wanted, 1, 0)?;
                    } else {
                        world.send_buffer(rank.buffer_from(&wanted)?, 1, 0)?;
                    }
                }
                let buffer = rank.buffer_from(&wanted)?;
                let place = buffer.as_ptr() as usize;
                world.send_buffer(buffer, 1, 1)?;
                let (back, _): (SharedBuffer<u64>, _) = world.receive_buffer(1, 1)?;
                ensure!(back.as_ptr() as usize == place, "the buffer was copied on its way");
            } else {
                let (one, status) = world.receive_buffer::<u64>(0, 0)?;
                ensure!(one[..] == wanted[..] && status.count == len, "{len}: {status:?}");
                let (two, _) = world.receive_buffer::<u64>(ANY_SOURCE, ANY_TAG)?;
                ensure!(two[..] == wanted[..], "{len}: a copied one");
                let (three, _) = world.receive_vec::<u64>(0, 0)?;
                ensure!(three == wanted, "{len}: a moved one");
                let mut four = vec![0; len];
                world.receive_into(&mut four, 0, 0)?;
                ensure!(four == wanted, "{len}");
                let (buffer, _) = world.receive_buffer::<u64>(0, 1)?;
                world.send_buffer(buffer, 0, 1)?;
            }
        }
        Ok(())
    });
}

/// Between two ranks in one context, messages of all sizes stay in order, whatever was probed in between.
#[test]
fn no_message_overtakes_another() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        const ROUNDS: usize = 40;
        let lengths = || LENGTHS.into_iter().filter(|&len| len > 0).cycle().take(ROUNDS);
        if world.rank() == 0 {
            for (i, len) in lengths().enumerate() {
                let message = vec![i as u64; len];
                match i % 3 {
                    0 => world.send(&message, 1, 5)?,
                    1 => world.send_buffer(rank.buffer_from(&message)?, 1, 5)?,
                    _ => world.buffered_send(&message, 1, 5)?,
                }
            }
        } else {
            for (i, len) in lengths().enumerate() {
                if i % 4 == 1 {
                    let status = world.probe(0, ANY_TAG)?;
                    ensure!(status.count == len, "{i}: {status:?} probed, {len} sent");
                }
                let (message, _) = world.receive_vec::<u64>(ANY_SOURCE, 5)?;
                ensure!(message == vec![i as u64; len], "message {i} came out of turn");
            }
        }
        Ok(())
    });
}

#[test]
fn tags_are_told_apart_and_wildcards_take_the_oldest() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        if world.rank() == 0 {
            for (tag, len) in [(1, 1), (2, 5000), (u32::MAX, 2), (1, 20_000), (0, 6)] {
                world.send(&vec![tag; len], 1, tag)?;
            }
            return Ok(());
        }
        let take = |tag, len: usize| -> Result<()> {
            let (message, status) = world.receive_vec::<u32>(0, tag)?;
            ensure!(message == vec![status.tag; len], "{len} expected: {status:?}");
            Ok(())
        };
        take(0.into(), 6)?;
        take(ANY_TAG, 1)?;
        take(1.into(), 20_000)?;
        take(ANY_TAG, 5000)?;
        take(u32::MAX.into(), 2)
    });
}

#[test]
fn a_message_that_is_too_long_stays() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        for len in [1, 5, 6, 60, 513, 3000, 100_000] {
            let wanted = numbers(len, 1);
            if world.rank() == 0 {
                world.send(&wanted, 1, 9)?;
                world.send_buffer(rank.buffer_from(&wanted)?, 1, 9)?;
                world.send(&[1u64], 1, 10)?;
                continue;
            }
            for _ in 0..2 {
                let mut short = vec![u64::MAX; len - 1];
                for source in [ANY_SOURCE, 0.into()] {
                    let error = world.receive_into(&mut short, source, 9).unwrap_err();
                    let &ErrorKind::Truncated { source_rank: 0, tag: 9, count, room } =
                        error.kind()
                    else {
                        return Err(error);
                    };
                    ensure!((count, room) == (len, len - 1), "{count} for {room}");
                }
                ensure!(short.iter().all(|&n| n == u64::MAX), "the short buffer was written");
                if len != 1 {
                    let error = world.receive::<u64>(0, 9).unwrap_err();
                    ensure!(
                        matches!(error.kind(), ErrorKind::Truncated { room: 1, .. }),
                        "{error}"
                    );
                }
                let mut right = vec![0; len];
                world.receive_into(&mut right, 0, 9)?;
                ensure!(right == wanted, "the message was damaged");
            }
            // The messages behind it arrive as well.
            ensure!(world.receive::<u64>(0, 10)?.0 == 1, "another message");
        }
        Ok(())
    });
}

#[test]
fn other_types_are_told_with_both_views() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        for len in [0, 1, 30, 30_000] {
            if world.rank() == 0 {
                world.send(&vec![1.0f32; len], 1, 0)?;
                continue;
            }
            for tag in [ANY_TAG, 0.into()] {
                let error = world.receive_into(&mut vec![0u32; len], 0, tag).unwrap_err();
                let text = error.to_string();
                ensure!(text.contains("f32 (4 bytes") && text.contains("u32 (4 bytes"), "{text}");
                let ErrorKind::WrongElements { count, ours, theirs, .. } = error.kind() else {
                    return Err(error);
                };
                ensure!(
                    (*count, &*ours.name, &*theirs.name) == (len, "u32", "f32"),
                    "{count} {ours} {theirs}"
                );
            }
            ensure!(world.receive_vec::<f64>(0, 0).is_err(), "f64 for f32");
            let (got, _) = world.receive_vec::<f32>(0, 0)?;
            ensure!(got == vec![1.0; len], "{len} elements");
        }
        // The receive wants one element, and the message has none.
        if world.rank() == 0 {
            world.send::<u8>(&[], 1, 0)?;
        } else {
            let error = world.receive::<u8>(0, 0).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::WrongElements { count: 0, .. }), "{error}");
            ensure!(world.receive_vec::<u8>(0, 0)?.0.is_empty(), "a message of none");
        }
        Ok(())
    });
}

/// An engine brings in so many messages at a time, and may stop at the first line of a message in chunks. A probe that
/// then slept would wait for a line, and the sender for room for its chunks.
#[test]
fn a_probe_looks_again_before_it_sleeps() {
    on_all(2, |rank| {
        let channel = Channel::degree(1);
        for before in 0..100 {
            // New communicators have no channel of chunks yet.
            let world = Communicator::world(rank);
            if rank.id() == 0 {
                for _ in 0..before {
                    world.send(&[1u8], 1, 1)?;
                }
                // The channel has no room for all chunks.
                let long = world.nonblocking_send(vec![2u8; CHANNELS + 1], 1, 2);
                rank.sender(&format!("sent {before}"), 1, channel)?.send(&before)?;
                long.wait()?;
                world.send(&[3u8], 1, 3)?;
            } else {
                let sent = format!("sent {before}");
                ensure!(*rank.receiver::<usize>(&sent, 0, channel)?.receive()? == before, "{sent}");
                let status = world.probe(0, 3)?;
                ensure!((status.tag, status.count) == (3, 1), "{status:?} after {before}");
                for _ in 0..before {
                    ensure!(world.receive::<u8>(0, 1)?.0 == 1, "another message");
                }
                ensure!(
                    world.receive_vec::<u8>(0, 2)?.0 == [2; CHANNELS + 1],
                    "a long one is damaged"
                );
                ensure!(world.receive::<u8>(0, 3)?.0 == 3, "another last message");
            }
        }
        Ok(())
    });
}

#[test]
fn probes_say_what_comes_and_take_nothing() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let me = world.rank();
        if me > 0 {
            world.send(&vec![me as u16; 3 * me], 0, me as u32)?;
            world.send(&vec![me as u16; 10_000 * me], 0, 9)?;
            return Ok(());
        }
        let status = world.probe(2, ANY_TAG)?;
        ensure!(
            (status.source, status.tag, status.count, status.bytes) == (2, 2, 6, 12),
            "{status:?}"
        );
        ensure!(world.probe(2, 2)? == status, "another one at the second look");
        let status = world.probe(1, 9)?;
        ensure!((status.count, status.bytes) == (10_000, 20_000), "{status:?}");
        for _ in 0..2 {
            let status = world.probe(ANY_SOURCE, 9)?;
            let (message, got) = world.receive_vec::<u16>(status.source, 9)?;
            ensure!(got == status && message.len() == status.count, "{got:?} for {status:?}");
        }
        ensure!(!matches!(world.try_probe(ANY_SOURCE, 77), Ok(Some(_))), "nobody sent it");
        for source in [1, 2] {
            let (message, _) = world.receive_vec::<u16>(source, ANY_TAG)?;
            ensure!(message == vec![source as u16; 3 * source], "the message before");
        }
        Ok(())
    });
}

/// In a ring, with messages that do not fit into any channel.
#[test]
fn everybody_sends_and_receives_at_once() {
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let (me, size) = (world.rank(), world.size());
            let (next, before) = ((me + 1) % size, (me + size - 1) % size);
            for len in [0, 1, 100, 5000, CHANNELS / 8 + 1] {
                let mine = numbers(len, me as u64);
                let mut got = vec![0u64; len];
                let status = world.send_receive(&mine, next, 3, &mut got, before, ANY_TAG)?;
                ensure!((status.source, status.count) == (before, len), "{status:?}");
                ensure!(got == numbers(len, before as u64), "{len} from {before}");
            }
            Ok(())
        });
    }
}

#[test]
fn synchronous_sends_wait_for_their_receive() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        const DELAY: Duration = Duration::from_millis(20);
        for len in [0, 3, 100, 5000, 100_000] {
            let wanted = numbers(len, 5);
            if world.rank() == 0 {
                world.send(&[1u8], 1, 1)?;
                let started = Instant::now();
                world.synchronous_send(&wanted, 1, 2)?;
                ensure!(started.elapsed() >= DELAY / 2, "it did not wait");
            } else {
                world.receive::<u8>(0, 1)?;
                // A probe does not receive.
                ensure!(world.probe(0, ANY_TAG)?.count == len, "{len}");
                std::thread::sleep(DELAY);
                let (got, _) = world.receive_vec::<u64>(0, 2)?;
                ensure!(got == wanted, "{len}");
            }
        }
        Ok(())
    });
}

#[test]
fn buffered_sends_do_not_wait() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let wanted = |i: u64| numbers(3000 * i as usize, i);
        for i in 0..40 {
            world.buffered_send(&wanted(i), other, 0)?;
        }
        for i in 0..20 {
            let (got, _) = world.receive_vec::<u64>(other, 0)?;
            ensure!(got == wanted(i), "message {i}");
        }
        // The other messages are sent and arrive while the communicator is dropped, or after that.
        if world.rank() == 1 {
            for i in 20..40 {
                let (got, _) = world.receive_vec::<u64>(other, 0)?;
                ensure!(got == wanted(i), "message {i}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_rank_talks_to_itself() {
    on_all(1, |rank| {
        for own in [Communicator::comm_self(rank), Communicator::world(rank)] {
            for len in LENGTHS {
                own.send(&numbers(len, 1), 0, 1)?;
                own.send_buffer(rank.buffer_from(&numbers(len, 2))?, 0, 2)?;
                ensure!(own.probe(0, 1)?.count == len, "{len}");
                let error = own.receive_into(&mut [0u8; 3], 0, 2).unwrap_err();
                ensure!(matches!(error.kind(), ErrorKind::WrongElements { .. }), "{error}");
                ensure!(own.receive_vec::<u64>(ANY_SOURCE, 2)?.0 == numbers(len, 2), "{len}");
                let mut got = vec![0; len];
                own.receive_into(&mut got, 0, ANY_TAG)?;
                ensure!(got == numbers(len, 1), "{len}");
                let mut got = vec![0; len];
                own.send_receive(&numbers(len, 3), 0, 1, &mut got, 0, 1)?;
                ensure!(got == numbers(len, 3), "{len}");
            }
            for source in [ANY_SOURCE, 0.into()] {
                let error = own.receive::<u8>(source, 1).unwrap_err();
                ensure!(matches!(error.kind(), ErrorKind::WaitsForItself), "{error}");
                ensure!(own.try_probe(source, 1)?.is_none(), "nothing was sent");
            }
            let error = own.synchronous_send(&[1u8], 0, 1).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::WaitsForItself), "{error}");
            own.receive::<u8>(0, 1)?;
            let posted = own.nonblocking_receive([0u8], 0, 1);
            own.synchronous_send(&[7u8], 0, 1)?;
            ensure!(posted.wait()?.0 == [7], "another message");
        }
        Ok(())
    });
}

#[test]
fn a_limit_ends_a_receive_and_nothing_else() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        const LIMIT: Duration = Duration::from_millis(5);
        let mut message = vec![0u64; 50_000];
        if world.rank() == 0 {
            let started = Instant::now();
            let error = world.receive_timeout(&mut message, 1, 0, LIMIT).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::Timeout { limit: LIMIT, .. }), "{error}");
            ensure!(started.elapsed() >= LIMIT, "sooner than the limit");
            world.send(&[0u8], 1, 0)?;
            while let Err(error) = world.receive_timeout(&mut message, ANY_SOURCE, 0, LIMIT) {
                ensure!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
            }
            ensure!(message == numbers(50_000, 8), "a damaged message");
        } else {
            world.receive::<u8>(0, 0)?;
            world.send(&numbers(50_000, 8), 0, 0)?;
        }
        Ok(())
    });
}

#[test]
fn ranks_that_are_not_there_are_named() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let errors = [
            world.send(&[1u8], 2, 0).err(),
            world.buffered_send(&[1u8], 2, 0).err(),
            world.synchronous_send(&[1u8], 2, 0).err(),
            world.receive::<u8>(2, 0).err(),
            world.probe(2, 0).err(),
            world.world_rank(2).err(),
            world.nonblocking_send(vec![1u8], 2, 0).wait().err().map(Error::from),
            world.nonblocking_receive(vec![1u8], 2, 0).wait().err().map(Error::from),
            world.send_buffer(rank.buffer_from(&[1u8])?, 2, 0).err().map(Error::from),
            {
                let mut exchange = world.exchange();
                exchange.send(&[1u8], 0, 0).send(&[1u8], 2, 0);
                exchange.run().err()
            },
        ];
        for error in errors {
            ensure!(
                matches!(
                    error.as_ref().map(Error::kind),
                    Some(ErrorKind::NoSuchRank { rank: 2, size: 2 })
                ),
                "{error:?}"
            );
        }
        // If an exchange names such a rank, no part of it is done.
        world.send(&[2u8], 1 - rank.id(), 0)?;
        ensure!(world.receive::<u8>(ANY_SOURCE, 0)?.0 == 2, "what can't be was begun");
        Ok(())
    });
}

/// Channels have exactly the promised room while the receiver does something else: in a world of few ranks, and in one
/// of many.
#[test]
fn channels_have_the_room_that_is_promised() {
    for ranks in [2, 17] {
        room_in_a_world_of(ranks);
    }
}

fn room_in_a_world_of(ranks: usize) {
    on_all(ranks, |rank| {
        let world = Communicator::world(rank);
        let one = Channel::degree(1);
        if world.rank() > 1 {
            return Ok(());
        }
        if world.rank() == 0 {
            let (mut small, mut large) = (0usize, 0);
            loop {
                let mut sent = world.nonblocking_send([1u64; 5], 1, 0);
                if !sent.test()? {
                    ensure!(sent.cancel().is_ok(), "nothing of it can have gone");
                    break;
                }
                small += 1;
            }
            // The first line was the name of the type.
            ensure!(small == 127, "{small} messages of one line");
            rank.sender("go", 1, one)?.send(&small)?;
            rank.receiver::<u8>("gone", 1, one)?.receive()?;
            let mut last = loop {
                let mut sent = world.nonblocking_send(vec![2u64; 512], 1, 0);
                if !sent.test()? {
                    break sent;
                }
                large += 1;
            };
            let promised = chunks_between(rank)?;
            ensure!((8..=64).contains(&promised), "{promised} chunks are promised");
            ensure!(large == promised, "{large} messages of one chunk, of {promised}");
            rank.sender("go", 1, one)?.send(&(large + 1))?;
            ensure!(last.wait_timeout(Duration::from_secs(20))?, "there is room by now");
            last.wait()?;
        } else {
            for len in [5, 512] {
                let count = *rank.receiver::<usize>("go", 0, one)?.receive()?;
                for _ in 0..count {
                    ensure!(world.receive_vec::<u64>(0, 0)?.1.count == len, "of {len}");
                }
                if len == 5 {
                    rank.sender("gone", 0, one)?.send(&0u8)?;
                }
            }
        }
        Ok(())
    });
}
