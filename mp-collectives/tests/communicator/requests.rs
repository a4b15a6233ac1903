//! The operations on requests.

use std::{mem::forget, time::Duration};

use mp_collectives::communicator::{
    ANY_SOURCE, ANY_TAG, Communicator, Pending, ReceiveRequest, Start, start_all, test_all,
    test_any, test_some, wait_all, wait_any, wait_some,
};

use mp_core::{Channel, ErrorKind};

use crate::{
    messages::{LENGTHS, numbers},
    missing,
    support::{Random, SIZES, on_all},
};

/// All ranks send messages of every length to all ranks at the same time.
#[test]
fn everybody_to_everybody() {
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let me = world.rank();
            let message = |from: usize, len: usize| numbers(len, from as u64);
            let mut receives = Vec::new();
            let mut sends = Vec::new();
            for other in 0..size {
                for len in LENGTHS {
                    receives.push(world.nonblocking_receive(vec![0u64; len], other, len as u32));
                    sends.push(world.nonblocking_send(message(me, len), other, len as u32));
                }
            }
            wait_all(&mut receives)?;
            ensure!(test_all(&mut receives)?, "they are done");
            for (i, request) in receives.into_iter().enumerate() {
                let (source, len) = (i / LENGTHS.len(), LENGTHS[i % LENGTHS.len()]);
                let (got, status) = request.wait()?;
                ensure!(status.source == source && got == message(source, len), "{status:?}");
            }
            for (i, request) in sends.into_iter().enumerate() {
                let back = request.wait()?;
                ensure!(
                    back == message(me, LENGTHS[i % LENGTHS.len()]),
                    "another buffer came back"
                );
            }
            Ok(())
        });
    }
}

/// Ranks post receives before and after the messages come, and wait for them in several orders. Receives from one rank with one
/// tag get their messages in the order in which they are posted.
#[test]
fn posted_receives_are_waited_for_in_any_order() {
    const ROUNDS: u64 = 60;
    // In one line, in several, and in one or several cells and chunks.
    const LENGTHS: [usize; 11] = [0, 1, 5, 6, 7, 40, 50, 51, 700, 2100, LONGEST];
    const LONGEST: usize = 9000;
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let me = world.rank();
            for round in 0..ROUNDS {
                // All ranks draw the same messages, each with its sender, receiver, tag and length.
                let mut all = Random::new(round);
                let mut draw = |bound: usize| all.below(bound as u64) as usize;
                let count = draw(1 + 4 * size);
                let messages: Vec<_> = (0..count)
                    .map(|_| (draw(size), draw(size), draw(2) as u32, LENGTHS[draw(LENGTHS.len())]))
                    .collect();
                let content = |number: usize| numbers(messages[number].3, number as u64);
                let mut own = Random::new(1000 + round * 8 + me as u64);
                let mut draw = |bound: usize| own.below(bound as u64) as usize;
                let mut to_send: Vec<_> = (0..count).filter(|&n| messages[n].0 == me).collect();
                let mut wanted: Vec<_> = (0..count).filter(|&n| messages[n].1 == me).collect();
                to_send.reverse();
                // A shuffle that keeps the order of messages with the same source and tag.
                wanted.sort_by_key(|&n| {
                    (messages[n].0 * 7 + messages[n].2 as usize * 3 + round as usize) % 5
                });
                let mut sends = Vec::new();
                let mut receives = Vec::new();
                let mut wanted_left = wanted.iter().rev().copied().collect::<Vec<_>>();
                while !to_send.is_empty() || !wanted_left.is_empty() {
                    match (draw(2), to_send.last().copied(), wanted_left.last().copied()) {
                        (0, Some(number), _) | (_, Some(number), None) => {
                            let (_, to, tag, _) = messages[number];
                            sends.push(world.nonblocking_send(content(number), to, tag));
                            to_send.pop();
                        }
                        (_, _, Some(number)) => {
                            let (from, _, tag, _) = messages[number];
                            receives.push(world.nonblocking_receive(
                                vec![0u64; LONGEST],
                                from,
                                tag,
                            ));
                            wanted_left.pop();
                        }
                        _ => {}
                    }
                }
                match draw(3) {
                    0 => wait_all(&mut receives)?,
                    1 => {
                        let mut all: Vec<&mut dyn Pending> = Vec::new();
                        all.extend(sends.iter_mut().map(|send| send as &mut dyn Pending));
                        all.extend(receives.iter_mut().map(|receive| receive as &mut dyn Pending));
                        wait_all(&mut all)?;
                    }
                    _ => {}
                }
                let mut order: Vec<_> = receives.into_iter().zip(wanted).collect();
                if draw(2) == 0 {
                    order.reverse();
                }
                for (receive, number) in order {
                    let (got, status) = receive.wait()?;
                    let (from, _, tag, length) = messages[number];
                    ensure!(
                        (status.source, status.tag) == (from, tag),
                        "round {round}: {status:?}"
                    );
                    ensure!(status.count == length, "round {round}: {} of {length}", status.count);
                    ensure!(got[..length] == content(number), "round {round}: another message");
                }
                for send in sends {
                    send.wait()?;
                }
            }
            Ok(())
        });
    }
}

/// A long nonblocking send makes progress in all other calls of its rank.
#[test]
fn sends_go_on_during_other_calls() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let sent = world.nonblocking_send(numbers(300_000, 1), other, 1);
        let more = world.nonblocking_synchronous_send(numbers(300_000, 2), other, 2);
        world.send(&[1u8], other, 3)?;
        let (two, _) = world.receive_vec::<u64>(other, 2)?;
        let (one, _) = world.receive_vec::<u64>(other, 1)?;
        ensure!(one == numbers(300_000, 1) && two == numbers(300_000, 2), "damaged");
        world.receive::<u8>(other, 3)?;
        ensure!(more.wait()? == two && sent.wait()? == one, "others came back");
        Ok(())
    });
}

#[test]
fn waiting_for_some_of_them() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        if world.rank() > 0 {
            // The messages are sent one after another, as rank 0 asks for them.
            for _ in 0..4 {
                let (tag, _) = world.receive::<u32>(0, 0)?;
                world.send(&[world.rank() as u64, u64::from(tag)], 0, tag)?;
            }
            return Ok(());
        }
        let post = |tag| world.nonblocking_receive(vec![0u64; 2], ANY_SOURCE, tag);
        let mut posted: Vec<ReceiveRequest<Vec<u64>>> = (1..=8).map(post).collect();
        ensure!(test_any(&mut posted)?.is_none() && test_some(&mut posted)?.is_empty(), "none");
        ensure!(!test_all(&mut posted)?, "none is done");
        let mut left: Vec<u32> = (1..=8).collect();
        for (i, tag) in [5, 1, 8, 2, 3, 4, 7, 6].into_iter().enumerate() {
            let from = 1 + i % 2;
            world.send(&[tag], from, 0)?;
            let place = left.iter().position(|&t| t == tag);
            let found = match i % 3 {
                0 => wait_any(&mut posted)?,
                1 => wait_some(&mut posted)?[0],
                _ => loop {
                    if let Some(found) = test_any(&mut posted)? {
                        break found;
                    }
                },
            };
            ensure!(Some(found) == place, "{found} instead of {place:?}");
            left.remove(found);
            let (got, status) = posted.remove(found).wait()?;
            ensure!(got == [from as u64, tag.into()] && status.source == from, "{status:?}");
        }
        ensure!(wait_some(&mut posted)?.is_empty() && wait_any(&mut posted).is_err(), "no request");
        wait_all(&mut posted)?;
        Ok(())
    });
}

#[test]
fn requests_of_all_kinds_together() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let mut send = world.nonblocking_send(vec![2.5f64; 100_000], other, 1);
        let mut small = world.nonblocking_send([1u8; 3], other, 2);
        let mut lent = vec![0.0f64; 100_000];
        let mut one = world.nonblocking_receive(&mut lent[..], other, 1);
        let mut two = world.nonblocking_receive([0u8; 3], ANY_SOURCE, ANY_TAG);
        let mut all: [&mut dyn Pending; 4] = [&mut send, &mut small, &mut one, &mut two];
        wait_all(&mut all)?;
        ensure!(test_all(&mut all)?, "they are done");
        ensure!(one.wait()?.1.count == 100_000, "another length");
        ensure!(two.wait()?.0 == [1; 3] && lent[99_999] == 2.5, "another message");
        send.wait()?;
        // Requests of communicators that were not made from one another can be waited for together.
        let (alien, second) = (Communicator::comm_self(rank), Communicator::world(rank));
        alien.send(&[7u8], 0, 9)?;
        second.send(&vec![8u8; 100_000], other, 9)?;
        world.send(&[9u8], other, 9)?;
        let mut mixed = [
            world.nonblocking_receive(vec![0u8], other, 9),
            alien.nonblocking_receive(vec![0u8], 0, 9),
            second.nonblocking_receive(vec![0u8; 100_000], other, 9),
        ];
        wait_all(&mut mixed)?;
        for (request, wanted) in mixed.into_iter().zip([9, 7, 8]) {
            ensure!(request.wait()?.0.iter().all(|&byte| byte == wanted), "not {wanted}");
        }
        Ok(())
    });
}

#[test]
fn persistent_requests_are_started_again_and_again() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let mut sends: Vec<_> = [3, 3000, 60_000]
            .map(|len| world.persistent_send(vec![0u32; len], other, len as u32))
            .into();
        let mut receives: Vec<_> = [3, 3000, 60_000]
            .map(|len| world.persistent_receive(vec![0u32; len], other, len as u32))
            .into();
        ensure!(receives[0].wait().is_err(), "it was not started");
        for round in 0..5 {
            for send in &mut sends {
                send.wait()?;
                send.buffer_mut()?.fill(round);
            }
            start_all(&mut receives)?;
            let mut again: Vec<&mut dyn Start> = sends.iter_mut().map(|s| s as _).collect();
            start_all(&mut again)?;
            ensure!(receives[0].start().is_err(), "it was started");
            ensure!(receives[0].buffer_mut().is_err(), "it is under way");
            wait_all(&mut receives)?;
            wait_all(&mut sends)?;
            for receive in &mut receives {
                let status = receive.wait()?;
                let buffer = receive.buffer_mut()?;
                ensure!(buffer.len() == status.count, "{status:?}");
                ensure!(buffer.iter().all(|&n| n == round), "of another round");
            }
        }
        Ok(())
    });
}

#[test]
fn what_is_cancelled_was_never_there() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        if world.rank() == 0 {
            let posted = world.nonblocking_receive(vec![1u64; 4], 1, 1);
            let back = posted.cancel().map_err(|_| missing())?;
            ensure!(back == [1; 4], "another buffer");
            let dropped = world.nonblocking_receive(vec![1u64; 4], 1, 1);
            drop(dropped);
            world.send(&[0u8], 1, 0)?;
            let mut one = world.nonblocking_receive(vec![0u64; 4], 1, 1);
            ensure!(one.wait_timeout(Duration::from_secs(20))?, "a cancelled one took it");
            let (got, _) = match one.cancel() {
                Ok(_) => return Err(mp_core::Error::other("its message was there")),
                Err(done) => done.wait()?,
            };
            ensure!(got == [5; 4], "another message");
        } else {
            world.receive::<u8>(0, 0)?;
            world.send(&[5u64; 4], 0, 1)?;
        }
        // The channel's room is used by the first send. The other sends wait as long as rank 1 does not receive.
        if world.rank() == 0 {
            let mut go = rank.sender::<u8>("go", 1, Channel::degree(1))?;
            let first = world.nonblocking_send(numbers(500_000, 1), other, 2);
            let second = world.nonblocking_send(numbers(500_000, 2), other, 2);
            let third = world.nonblocking_send(numbers(10, 3), other, 2);
            let first = match first.cancel() {
                Ok(_) => return Err(mp_core::Error::other("it had begun to go")),
                Err(first) => first,
            };
            let second = second.cancel().map_err(|_| missing())?;
            ensure!(second == numbers(500_000, 2), "another buffer");
            go.send(&1)?;
            world.send(&[1u8], other, 3)?;
            first.wait()?;
            third.wait()?;
        } else {
            rank.receiver::<u8>("go", 0, Channel::degree(1))?.receive()?;
            for seed in [1, 3] {
                let (got, _) = world.receive_vec::<u64>(other, 2)?;
                ensure!(got[..10] == numbers(10, seed), "a cancelled one came");
            }
            world.receive::<u8>(other, 3)?;
        }
        Ok(())
    });
}

/// After the cancellation, the end of the rank has no message to wait for.
#[test]
fn the_last_send_that_waits_can_be_cancelled() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let together = Channel::degree(1);
        if world.rank() == 1 {
            let go = rank.receiver::<u64>("go", 0, together)?;
            let sent = *go.receive()?;
            ensure!(go.receive().is_err(), "the end of the other one");
            for i in 0..sent {
                ensure!(world.receive::<u64>(0, 0)?.0 == i, "message {i}");
            }
            let error = world.receive::<u64>(0, 0).unwrap_err();
            ensure!(matches!(error.kind(), ErrorKind::PeerEnded { rank: 0 }), "{error}");
            return Ok(());
        }
        let mut go = rank.sender::<u64>("go", 1, together)?;
        let mut sent = 0;
        let last = loop {
            let mut request = world.nonblocking_send([sent], 1, 0);
            if !request.test()? {
                break request;
            }
            sent += 1;
        };
        ensure!(last.cancel().map_err(|_| missing())? == [sent], "another one");
        drop(world);
        go.send(&sent)
    });
}

/// Leaked requests keep their buffers, and do no other harm.
#[test]
fn requests_can_be_leaked() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        {
            let mut local = vec![7u64; 20_000];
            forget(world.nonblocking_receive(&mut local[..], other, 1));
            forget(world.nonblocking_receive(vec![0u64; 3], other, 2));
            forget(world.nonblocking_send(numbers(20_000, 1), other, 1));
            forget(world.nonblocking_synchronous_send(numbers(3, 2), other, 2));
            // No request uses the lent buffer any more.
            ensure!(local == vec![7; 20_000], "it was written");
            local.fill(8);
        }
        // The leaked receives took the first messages.
        for seed in [3, 4] {
            forget(world.nonblocking_send(numbers(20_000, seed), other, 1));
        }
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == numbers(20_000, 3), "the second one");
        ensure!(world.receive_vec::<u64>(other, ANY_TAG)?.0 == numbers(20_000, 4), "the third");
        Ok(())
    });
}

/// A request that is dropped while its message arrives takes the message along.
#[test]
fn requests_can_be_dropped_at_any_time() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        for tests in 0..4 {
            if world.rank() == 0 {
                let mut dropped = world.nonblocking_receive(vec![0u64; 400_000], other, 1);
                world.send(&[0u8], other, 0)?;
                for _ in 0..tests {
                    dropped.wait_timeout(Duration::from_micros(300))?;
                }
                // If the message is arriving, it goes with the request. Otherwise the next receive gets it.
                let begun = match dropped.cancel() {
                    Ok(_) => false,
                    Err(begun) => {
                        drop(begun);
                        true
                    }
                };
                if !begun {
                    ensure!(world.receive_vec::<u64>(other, 1)?.0.len() == 400_000, "the long one");
                }
                ensure!(world.receive_vec::<u64>(other, 1)?.0 == [1, 2], "the one after it");
            } else {
                world.receive::<u8>(other, 0)?;
                world.send(&numbers(400_000, 1), other, 1)?;
                world.send(&[1u64, 2], other, 1)?;
            }
        }
        Ok(())
    });
}

/// The errors of receives that were posted before their messages arrived.
#[test]
fn posted_receives_that_do_not_fit_leave_the_message_to_others() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        for len in [4, 50, 5000] {
            let short = world.nonblocking_receive(vec![0u64; len - 1], other, 1);
            let alien = world.nonblocking_receive(vec![0i64; len], ANY_SOURCE, 1);
            let right = world.nonblocking_receive(vec![0u64; len], other, ANY_TAG);
            let send = world.nonblocking_send(numbers(len, 3), other, 1);
            let error = short.wait().unwrap_err();
            ensure!(error.buffer.len() == len - 1, "another buffer came back");
            ensure!(matches!(error.error.kind(), ErrorKind::Truncated { .. }), "{error}");
            let error = alien.wait().unwrap_err();
            ensure!(matches!(error.error.kind(), ErrorKind::WrongElements { .. }), "{error}");
            ensure!(right.wait()?.0 == numbers(len, 3), "a damaged message");
            send.wait()?;
        }
        Ok(())
    });
}

#[test]
fn an_exchange_does_everything_at_once() {
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let me = world.rank();
            for len in [0, 1, 300, 40_000] {
                let mine: Vec<Vec<u64>> = (0..size).map(|to| numbers(len, to as u64)).collect();
                let mut got = vec![vec![0u64; len]; size];
                let mut exchange = world.exchange();
                for (other, into) in got.iter_mut().enumerate() {
                    exchange.receive(into, other, 1);
                }
                for (other, message) in mine.iter().enumerate().rev() {
                    exchange.send(message, other, 1);
                }
                let statuses = exchange.run()?;
                for (other, status) in statuses.iter().enumerate() {
                    ensure!(status.source == other && status.count == len, "{status:?}");
                    ensure!(got[other] == numbers(len, me as u64), "{len} from {other}");
                }
            }
            Ok(())
        });
    }
}

/// One impossible receive in an exchange does not stop the others.
#[test]
fn an_exchange_with_an_error_does_the_rest() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let long = numbers(50_000, 1);
        let (mut short, mut right) = ([0u64; 3], vec![0u64; 50_000]);
        let mut exchange = world.exchange();
        exchange.receive(&mut short, other, 1).receive(&mut right, other, 2);
        exchange.send(&long, other, 1).send(&long, other, 2);
        let error = exchange.run().unwrap_err();
        ensure!(matches!(error.kind(), ErrorKind::Truncated { tag: 1, room: 3, .. }), "{error}");
        ensure!(right == long, "the other one");
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == long, "what was too long is still there");
        Ok(())
    });
}

/// Persistent requests that were not started, or were waited for since, are not waited for.
#[test]
fn inactive_requests_are_passed_over() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let post = |tag| world.persistent_receive([0u32], other, tag);
        let mut posted = [post(0), post(1), post(2)];
        ensure!(wait_any(&mut posted).is_err(), "none was started");
        ensure!(wait_some(&mut posted)?.is_empty(), "none was started");
        ensure!(test_any(&mut posted)?.is_none(), "none was started");
        ensure!(test_some(&mut posted)?.is_empty(), "none was started");
        ensure!(test_all(&mut posted)?, "none is under way");
        wait_all(&mut posted)?;
        for started in [2, 1, 2] {
            posted[started].start()?;
            world.send(&[7u32], other, started as u32)?;
            ensure!(wait_any(&mut posted)? == started, "another than {started}");
            // The request stays done until a call asks for its result.
            ensure!(test_some(&mut posted)? == [started], "another than {started}");
            posted[started].wait()?;
            ensure!(test_any(&mut posted)?.is_none(), "{started} was waited for");
        }
        let mut sends =
            [world.persistent_send([1u8], other, 3), world.persistent_send([2], other, 3)];
        ensure!(wait_any(&mut sends).is_err(), "none was started");
        sends[1].start()?;
        ensure!(wait_any(&mut sends)? == 1, "the one that was started");
        sends[1].wait()?;
        world.receive::<u8>(other, 3)?;
        Ok(())
    });
}

/// Requests in the stream of joint operations get no messages of the program, and leave it none.
#[test]
fn joint_requests_have_a_stream_of_their_own() {
    for len in [1, 100, 100_000] {
        on_all(3, |rank| {
            let world = Communicator::world(rank);
            let (me, size) = (world.rank(), world.size());
            let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
            let joint = world.joint();
            let own = world.nonblocking_send(numbers(len, 1), next, 3);
            let joined = joint.nonblocking_send(numbers(len, 2), next, 3)?;
            let got = joint.nonblocking_receive(vec![0u64; len], previous, 3)?;
            let (got, status) = got.wait()?;
            ensure!(got == numbers(len, 2), "{status:?}");
            let (got, status) = world.receive_vec::<u64>(ANY_SOURCE, ANY_TAG)?;
            ensure!(got == numbers(len, 1) && status.source == previous, "{status:?}");
            own.wait()?;
            joined.wait()?;
            ensure!(joint.nonblocking_send([1u8], next, 1 << 31).is_err(), "a tag of the library");
            ensure!(
                joint.nonblocking_receive([1u8], next, 1 << 31).is_err(),
                "a tag of the library"
            );
            Ok(())
        });
    }
}
