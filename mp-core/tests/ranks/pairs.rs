//! Channels between two ranks, of degree 1 and up (and of degree 0 where it behaves in the same way).

use std::{
    any::type_name,
    time::{Duration, Instant},
};

use mp_core::{Channel, Error, ErrorKind, Plain, Rank, Result, SegmentError};

use crate::{
    support::{Random, SIZES, on_all, run_on_all_with},
    types::*,
};

const DEGREES: [u32; 6] = [0, 1, 2, 3, 7, 64];

/// Sends `count` values in all ways. They must arrive in order, and the end of the channel after them.
fn stream<T: Plain>(rank: &Rank, degree: u32, count: u64) -> Result<u64> {
    let of = type_name::<T>().rsplit("::").next().unwrap_or_default();
    let (name, channel) = (format!("{of} {degree}"), Channel::degree(degree));
    if rank.id() == 0 {
        let mut sender = rank.sender::<T>(&name, 1, channel)?;
        for i in 0..count {
            match i % 5 {
                0 | 1 => sender.send(&pattern(i))?,
                2 => {
                    let mut slot = sender.reserve()?;
                    *slot = pattern(i);
                    slot.publish()?;
                }
                3 => {
                    // A slot that is dropped is no message.
                    *sender.reserve()? = pattern(!i);
                    sender.send_timeout(&pattern(i), Duration::from_secs(30))?;
                }
                _ => loop {
                    match sender.try_send(&pattern(i)).map_err(Error::into_kind) {
                        Err(ErrorKind::Full { degree: stated, .. }) => {
                            ensure!(stated == u64::from(degree), "degree {stated}");
                            std::thread::yield_now();
                        }
                        result => break result?,
                    }
                },
            }
        }
        return Ok(count);
    }
    let receiver = rank.receiver::<T>(&name, 0, channel)?;
    for i in 0..count {
        let guard = match i % 4 {
            0 => receiver.receive()?,
            1 => receiver.receive_timeout(Duration::from_secs(30))?,
            2 => receiver.iter().next().ok_or_else(|| Error::other("the end too soon"))??,
            _ if degree == 0 => receiver.receive()?,
            _ => loop {
                match receiver.try_receive()? {
                    Some(guard) => break guard,
                    None => std::thread::yield_now(),
                }
            },
        };
        ensure!(same(&[*guard], &[pattern::<T>(i)]), "{name}: message {i} differs");
    }
    for _ in 0..2 {
        match receiver.receive().map_err(Error::into_kind) {
            Err(ErrorKind::Disconnected { .. }) => {}
            other => return Err(Error::other(format!("{name}: after the end: {:?}", other.err()))),
        }
    }
    Ok(count)
}

#[test]
fn every_type_at_every_degree_in_order() {
    on_all(2, |rank| {
        for degree in DEGREES {
            stream::<u8>(rank, degree, 100)?;
            stream::<u32>(rank, degree, 101)?;
            stream::<u64>(rank, degree, 102)?;
            stream::<Sample>(rank, degree, 103)?;
            stream::<Bytes56>(rank, degree, 99)?;
            stream::<Bytes57>(rank, degree, 98)?;
            stream::<Aligned16>(rank, degree, 97)?;
            stream::<Aligned32>(rank, degree, 96)?;
            stream::<Aligned64>(rank, degree, 95)?;
            stream::<[u64; 32]>(rank, degree, 94)?;
            // The message has no bytes, and consists only of its number.
            stream::<()>(rank, degree, 93)?;
        }
        Ok(())
    });
}

#[test]
fn a_hundred_thousand_messages_in_order() {
    let sums = on_all(2, |rank| {
        let mut sum = 0u64;
        for (degree, count) in [(64, 100_000), (3, 20_000), (1, 10_000)] {
            let channel = Channel::degree(degree);
            if rank.id() == 0 {
                let mut sender = rank.sender::<u64>("numbers", 1, channel)?;
                for i in 0..count {
                    sender.send(&i)?;
                }
            } else {
                let receiver = rank.receiver::<u64>("numbers", 0, channel)?;
                let mut next = 0;
                for number in &receiver {
                    let number = number?;
                    ensure!(*number == next, "{} instead of {next}", *number);
                    next += 1;
                    sum += *number;
                }
                ensure!(next == count, "{next} of {count} messages");
            }
        }
        Ok(sum)
    });
    let sum_below = |n: u64| n * (n - 1) / 2;
    assert_eq!(sums, [0, sum_below(100_000) + sum_below(20_000) + sum_below(10_000)]);
}

/// The numbers of all ranks are passed around until each rank has all of them.
#[test]
fn rings_of_ranks() {
    for size in SIZES {
        let sums = on_all(size, |rank| {
            let (me, size) = (rank.id(), rank.size());
            let next = (me + 1) % size;
            let previous = (me + size - 1) % size;
            let mut to = rank.sender::<u64>("ring", next, Channel::degree(1))?;
            let from = rank.receiver::<u64>("ring", previous, Channel::degree(1))?;
            let mut seen = vec![me as u64];
            for _ in 1..size {
                to.send(&seen[seen.len() - 1])?;
                seen.push(*from.receive()?);
            }
            Ok(seen)
        });
        for (me, seen) in sums.iter().enumerate() {
            let expected: Vec<u64> =
                (0..size).map(|step| ((me + size - step) % size) as u64).collect();
            assert_eq!(*seen, expected, "rank {me} of {size}");
        }
    }
}

/// Each rank in turn is the root, and sends slices of odd lengths to all ranks, which answer with a sum.
#[test]
fn every_root_tells_everybody() {
    for size in SIZES {
        let sums = on_all(size, |rank| {
            let mut sums = Vec::<u32>::new();
            for root in 0..rank.size() {
                for len in [0, 1, 31, 32] {
                    let name = format!("{root} tells {len}");
                    let channel = Channel::degree(2).max_len(32);
                    let numbers = |to: usize| -> Vec<u32> {
                        (0..len as u32).map(|i| i * 7 + (root * 100 + to) as u32).collect()
                    };
                    if rank.id() == root {
                        for to in (0..rank.size()).filter(|&to| to != root) {
                            rank.sender::<[u32]>(&name, to, channel)?.send(&numbers(to))?;
                        }
                    } else {
                        let receiver = rank.receiver::<[u32]>(&name, root, channel)?;
                        let told = receiver.receive()?;
                        ensure!(*told == *numbers(rank.id()), "{name}: {told:?}");
                        sums.push(told.iter().sum());
                    }
                }
            }
            Ok(sums)
        });
        for (me, sums) in sums.iter().enumerate() {
            let expected: Vec<u32> = (0..size)
                .filter(|&root| root != me)
                .flat_map(|root| {
                    [0u32, 1, 31, 32]
                        .map(|len| (0..len).map(|i| i * 7 + (root * 100 + me) as u32).sum::<u32>())
                })
                .collect();
            assert_eq!(*sums, expected);
        }
    }
}

fn slices<T: Plain>(rank: &Rank, degree: u32, max: usize) -> Result<()> {
    let of = type_name::<T>().rsplit("::").next().unwrap_or_default();
    let (name, channel) = (format!("[{of}] {degree} {max}"), Channel::degree(degree).max_len(max));
    let mut lens = vec![0, 1, max / 2, max.saturating_sub(1), max];
    lens.retain(|&len| len <= max);
    if rank.id() == 0 {
        let mut sender = rank.sender::<[T]>(&name, 1, channel)?;
        for (i, &len) in lens.iter().enumerate() {
            let message = pattern_slice::<T>(i as u64, len);
            let longer = pattern_slice::<T>(9, max + 1);
            for (error, call) in [
                (sender.send(&longer).err(), "send"),
                (sender.try_send(&longer).err(), "try_send"),
                (sender.reserve(max + 1).err(), "reserve"),
                (sender.try_reserve(max + 1).err(), "try_reserve"),
            ] {
                let right = matches!(error.as_ref().map(Error::kind), Some(ErrorKind::TooLong { len, max: stated, .. })
                    if (*len, *stated) == (max + 1, max));
                ensure!(right, "{name}: {call} of one too many: {error:?}");
            }
            sender.send(&message)?;
            let mut slot = sender.reserve(len)?;
            ensure!(slot.len() == len, "a slot of {} instead of {len}", slot.len());
            slot.copy_from_slice(&message);
            slot.publish()?;
        }
    } else {
        let receiver = rank.receiver::<[T]>(&name, 0, channel)?;
        for (i, &len) in lens.iter().enumerate() {
            let expected = pattern_slice::<T>(i as u64, len);
            let one = receiver.receive()?;
            ensure!(same(&one, &expected), "{name}: {len} elements differ");
            drop(one);
            // A copied message is received as a buffer that this rank owns.
            let other = receiver.receive_buffer()?;
            ensure!(same(&other, &expected), "{name}: {len} elements differ in a buffer");
        }
        let end = receiver.receive().err();
        ensure!(
            matches!(end.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
            "{end:?}"
        );
    }
    Ok(())
}

#[test]
fn slices_of_every_length_up_to_the_longest_and_one_more() {
    on_all(2, |rank| {
        for degree in [0, 1, 3] {
            for max in [0, 1, 2, 7, 47, 48, 49, 55, 56, 57, 64, 4095, 4097] {
                slices::<u8>(rank, degree, max)?;
            }
            for max in [1, 5, 7, 8, 9, 1000] {
                slices::<u64>(rank, degree, max)?;
            }
            slices::<Bytes57>(rank, degree, 5)?;
            slices::<Aligned16>(rank, degree, 3)?;
            slices::<Aligned64>(rank, degree, 3)?;
            slices::<()>(rank, degree, 10)?;
        }
        Ok(())
    });
}

#[test]
fn guards_are_held_and_dropped_in_any_order() {
    on_all(2, |rank| {
        for degree in [1u64, 2, 3, 7, 64] {
            let channel = Channel::degree(degree as u32);
            if rank.id() == 0 {
                let mut sender = rank.sender::<u64>("held", 1, channel)?;
                let mut next = 0..;
                while sender.send(&next.next().unwrap_or(0)).is_ok() {}
                continue;
            }
            let receiver = rank.receiver::<u64>("held", 0, channel)?;
            let mut random = Random::new(degree);
            let mut held = Vec::new();
            let mut next = 0;
            while next < 40 * degree {
                // Slots come back in the order of the ring, so an old guard holds up the slots after it.
                let oldest = held.iter().map(|&(i, _)| i).min().unwrap_or(next);
                while next < oldest + degree {
                    let guard = receiver.receive()?;
                    ensure!(*guard == next, "{} instead of {next}", *guard);
                    held.push((next, guard));
                    next += 1;
                }
                for error in [
                    receiver.receive().err(),
                    receiver.try_receive().err(),
                    receiver.receive_timeout(Duration::ZERO).err(),
                ] {
                    let right = matches!(error.as_ref().map(Error::kind), Some(ErrorKind::GuardsHeld { held, .. }) if *held == degree);
                    ensure!(right, "all {degree} slots held: {error:?}");
                }
                random.shuffle(&mut held);
                held.truncate(random.below(degree + 1) as usize);
                ensure!(held.iter().all(|(i, guard)| **guard == *i), "a held message changed");
            }
        }
        Ok(())
    });
}

#[test]
fn a_forgotten_guard_stops_the_channel_with_an_error_and_no_more() {
    on_all(2, |rank| {
        let channel = Channel::degree(3).max_len(4);
        if rank.id() == 0 {
            let done = rank.receiver::<u8>("done", 1, Channel::degree(1))?;
            let mut sender = rank.sender::<[u32]>("forgotten", 1, channel)?;
            for i in 0..3 {
                sender.send(&[i; 4])?;
            }
            done.receive()?;
            let full = sender.try_send(&[3]).err();
            ensure!(
                matches!(full.as_ref().map(Error::kind), Some(ErrorKind::Full { .. })),
                "{full:?}"
            );
            rank.sender::<u8>("seen", 1, Channel::degree(1))?.send(&0)?;
            done.receive()?;
            let gone = sender.try_send(&[3]).err();
            ensure!(
                matches!(gone.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
                "{gone:?}"
            );
        } else {
            let mut done = rank.sender::<u8>("done", 0, Channel::degree(1))?;
            let receiver = rank.receiver::<[u32]>("forgotten", 0, channel)?;
            std::mem::forget(receiver.receive()?);
            ensure!(*receiver.receive()? == [1; 4], "the second");
            ensure!(*receiver.receive()? == [2; 4], "the third");
            let error = receiver.receive().err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::GuardsHeld { .. })),
                "{error:?}"
            );
            done.send(&1)?;
            rank.receiver::<u8>("seen", 0, Channel::degree(1))?.receive()?;
            drop(receiver);
            done.send(&2)?;
        }
        Ok(())
    });
}

/// The channel is freed although its oldest slot was never given back. A buffer that was received after that slot's
/// message still belongs to the receiver.
#[test]
fn a_buffer_received_past_a_forgotten_guard_stays_the_receivers() {
    on_all(2, |rank| {
        let channel = Channel::degree(3).max_len(4);
        if rank.id() == 0 {
            let mut sender = rank.sender::<[u32]>("mixed", 1, channel)?;
            sender.send(&[1])?;
            sender.send_buffer(rank.buffer_from(&[7u32; 100])?)?;
            drop(sender);
            // The channel is freed when the receiver has closed its end, too.
            let closed = rank.receiver::<u8>("closed", 1, Channel::degree(1))?;
            closed.receive()?;
            return Ok(());
        }
        let receiver = rank.receiver::<[u32]>("mixed", 0, channel)?;
        std::mem::forget(receiver.receive()?);
        let mut mine = receiver.receive_buffer()?;
        // This waits until the sender is gone, so that dropping the receiver frees the channel.
        while !matches!(
            receiver.try_receive().as_ref().map_err(Error::kind),
            Err(ErrorKind::GuardsHeld { .. } | ErrorKind::Disconnected { .. })
        ) {
            std::thread::yield_now();
        }
        drop(receiver);
        rank.sender::<u8>("closed", 0, Channel::degree(1))?.send(&1)?;
        for _ in 0..20 {
            let mut other = rank.buffer::<u32>(100)?;
            other.fill(9);
            ensure!(*mine == [7; 100], "somebody else writes the buffer: {mine:?}");
            mine.fill(7);
            ensure!(*other == [9; 100], "the buffer is another one, too: {other:?}");
        }
        Ok(())
    });
}

#[test]
fn what_was_published_before_the_close_is_delivered() {
    on_all(2, |rank| {
        for degree in [1, 2, 64] {
            let name = format!("closed {degree}");
            if rank.id() == 0 {
                let mut sender = rank.sender::<u32>(&name, 1, Channel::degree(degree))?;
                for i in 0..degree {
                    sender.send(&i)?;
                }
                drop(sender);
                rank.sender::<u8>("closed", 1, Channel::degree(1))?.send(&0)?;
            } else {
                rank.receiver::<u8>("closed", 0, Channel::degree(1))?.receive()?;
                // This end is opened after the other end was closed.
                let receiver = rank.receiver::<u32>(&name, 0, Channel::degree(degree))?;
                let got = receiver.iter().map(|i| Ok(*i?)).collect::<Result<Vec<u32>>>()?;
                ensure!(got == (0..degree).collect::<Vec<_>>(), "{got:?}");
                for error in [
                    receiver.receive().err(),
                    receiver.try_receive().err(),
                    receiver.receive_timeout(Duration::from_secs(9)).err(),
                ] {
                    ensure!(
                        matches!(
                            error.as_ref().map(Error::kind),
                            Some(ErrorKind::Disconnected { .. })
                        ),
                        "{error:?}"
                    );
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_closed_receiver_is_told_to_the_sender() {
    on_all(2, |rank| {
        for degree in DEGREES {
            let name = format!("deaf {degree}");
            if rank.id() == 1 {
                drop(rank.receiver::<u64>(&name, 0, Channel::degree(degree))?);
                continue;
            }
            let mut sender = rank.sender::<u64>(&name, 1, Channel::degree(degree))?;
            let error = loop {
                if let Err(error) = sender.send(&1) {
                    break error;
                }
            };
            ensure!(matches!(error.kind(), ErrorKind::Disconnected { .. }), "{error}");
            ensure!(sender.reserve().is_err() && sender.try_send(&1).is_err(), "open again");
        }
        Ok(())
    });
}

/// Opens and uses one end with one of several types, degrees and lengths.
fn ask(rank: &Rank, name: &str, what: usize) -> Result<()> {
    let peer = 1 - rank.id();
    fn both<M: mp_core::Message + ?Sized>(
        rank: &Rank,
        name: &str,
        peer: usize,
        channel: Channel,
        send: impl Fn(&mut mp_core::Sender<M>) -> Result<()>,
    ) -> Result<()> {
        if rank.id() == 0 {
            let mut sender = rank.sender::<M>(name, peer, channel)?;
            // The end that was opened first gets the error from its next call, or from a call that waits.
            loop {
                send(&mut sender)?;
            }
        } else {
            rank.receiver::<M>(name, peer, channel)?.receive().map(drop)
        }
    }
    let two = Channel::degree(2);
    match what {
        0 => both::<u64>(rank, name, peer, two, |s| s.send(&0)),
        1 => both::<i64>(rank, name, peer, two, |s| s.send(&0)),
        2 => both::<u32>(rank, name, peer, two, |s| s.send(&0)),
        3 => both::<[u64]>(rank, name, peer, two.max_len(1), |s| s.send(&[0])),
        4 => both::<[u64]>(rank, name, peer, two.max_len(2), |s| s.send(&[0])),
        5 => both::<u64>(rank, name, peer, Channel::degree(3), |s| s.send(&0)),
        _ => both::<u64>(rank, name, peer, Channel::degree(0), |s| s.send(&0)),
    }
}

const ASKED: [(&str, u64, usize); 7] = [
    ("u64", 2, 1),
    ("i64", 2, 1),
    ("u32", 2, 1),
    ("u64", 2, 1),
    ("u64", 2, 2),
    ("u64", 3, 1),
    ("u64", 0, 1),
];

#[test]
fn ends_that_differ_both_say_how_and_can_meet_afterwards() {
    on_all(2, |rank| {
        for ours in 0..ASKED.len() {
            for theirs in (0..ASKED.len()).filter(|&theirs| theirs != ours) {
                let (ours, theirs) = if rank.id() == 0 { (ours, theirs) } else { (theirs, ours) };
                let name = format!("differ {}", ours * theirs);
                match ask(rank, &name, ours).map_err(Error::into_kind) {
                    Err(ErrorKind::Mismatch { channel, ours: o, theirs: t }) => {
                        let shown = |spec: &mp_core::ChannelSpec| {
                            (spec.type_name.clone(), spec.degree, spec.max_len)
                        };
                        let expected = |(name, degree, len): (&str, u64, usize)| {
                            (name.to_owned(), degree, len)
                        };
                        ensure!(*channel == *name, "channel {channel}");
                        ensure!(shown(&o) == expected(ASKED[ours]), "ours: {o}");
                        ensure!(shown(&t) == expected(ASKED[theirs]), "theirs: {t}");
                        ensure!(o.slice == (3..5).contains(&ours), "ours: {o}");
                        let text = format!("{o} {t}");
                        ensure!(text.contains(ASKED[ours].0), "{text}");
                    }
                    other => {
                        return Err(Error::other(format!("{ours} with {theirs}: {other:?}")));
                    }
                }
                // Both ranks have closed their ends by now, or will do so. The next ends agree.
                stream_once(rank, &name)?;
            }
        }
        Ok(())
    });
}

fn stream_once(rank: &Rank, name: &str) -> Result<()> {
    if rank.id() == 0 {
        let mut sender = rank.sender::<u64>(name, 1, Channel::degree(2))?;
        return (0..5).try_for_each(|i| sender.send(&i));
    }
    let receiver = rank.receiver::<u64>(name, 0, Channel::degree(2))?;
    let got = receiver.iter().map(|i| Ok(*i?)).collect::<Result<Vec<u64>>>()?;
    ensure!(got == [0, 1, 2, 3, 4], "{got:?}");
    Ok(())
}

/// A type whose name would be cut in the middle of a character.
mod a_module_whose_only_purpose_is_to_make_the_names_of_the_types_in_it_long {
    #[derive(Clone, Copy, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
    #[repr(C)]
    pub struct Ä(pub u64);
    #[derive(Clone, Copy, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
    #[repr(C)]
    pub struct XÄ(pub u64);
    #[derive(Clone, Copy, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
    #[repr(C)]
    pub struct ÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ(pub u64);
    #[derive(Clone, Copy, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
    #[repr(C)]
    pub struct XÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ(pub u64);
}

#[test]
fn a_type_with_a_long_name_is_the_same_at_both_ends() {
    use a_module_whose_only_purpose_is_to_make_the_names_of_the_types_in_it_long::*;
    assert!(type_name::<ÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ>().len() > 104);
    on_all(2, |rank| {
        stream::<Ä>(rank, 2, 3)?;
        stream::<XÄ>(rank, 2, 3)?;
        stream::<ÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ>(rank, 2, 3)?;
        stream::<XÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ>(rank, 2, 3)
    });
}

#[test]
fn opening_a_name_again_makes_another_channel_and_leaves_no_memory() {
    on_all(2, |rank| {
        let round = |i: u64| {
            let channel = Channel::degree(1 + i as u32 % 3);
            if rank.id() == 0 {
                rank.sender::<u64>("again", 1, channel)?.send(&i)
            } else {
                let receiver = rank.receiver::<u64>("again", 0, channel)?;
                let got = receiver.iter().map(|i| Ok(*i?)).collect::<Result<Vec<u64>>>()?;
                ensure!(got == [i], "round {i}: {got:?}");
                Ok(())
            }
        };
        // Both ends go in step, so that the number of channels is bounded.
        let step = |n: u64| -> Result<()> {
            (0..10).try_for_each(|i| round(10 * n + i))?;
            if rank.id() == 0 {
                rank.receiver::<u8>("step", 1, Channel::degree(1))?.receive().map(drop)
            } else {
                rank.sender::<u8>("step", 0, Channel::degree(1))?.send(&0)
            }
        };
        step(0)?;
        step(1)?;
        let touched = rank.memory().touched;
        (2..100).try_for_each(step)?;
        let after = rank.memory().touched;
        // How many of the ten channels of a step exist at the same time depends on chance.
        ensure!(after <= touched + 11 * 4096, "{touched} bytes became {after}");
        Ok(())
    });
}

#[test]
fn channels_of_one_name_pair_up_in_the_order_of_opening() {
    on_all(2, |rank| {
        let channel = Channel::degree(1);
        if rank.id() == 0 {
            let mut senders = (0..10)
                .map(|_| rank.sender::<u32>("same", 1, channel))
                .collect::<Result<Vec<_>>>()?;
            rank.sender::<u8>("opened", 1, channel)?.send(&0)?;
            for (i, sender) in senders.iter_mut().enumerate() {
                sender.send(&(i as u32))?;
            }
        } else {
            rank.receiver::<u8>("opened", 0, channel)?.receive()?;
            let receivers = (0..10)
                .map(|_| rank.receiver::<u32>("same", 0, channel))
                .collect::<Result<Vec<_>>>()?;
            for (i, receiver) in receivers.iter().enumerate() {
                let got = *receiver.receive()?;
                ensure!(got == i as u32, "channel {i} carries the messages of channel {got}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_rank_can_send_to_itself() {
    on_all(1, |rank| {
        for degree in [1u64, 2, 7] {
            let channel = Channel::degree(degree as u32);
            let mut sender = rank.sender::<u64>("self", 0, channel)?;
            let receiver = rank.receiver::<u64>("self", 0, channel)?;
            for round in 0..10 {
                for i in 0..degree {
                    sender.send(&(round * degree + i))?;
                }
                ensure!(
                    matches!(
                        sender.try_send(&0).as_ref().map_err(Error::kind),
                        Err(ErrorKind::Full { .. })
                    ),
                    "no room"
                );
                for i in 0..degree {
                    ensure!(*receiver.receive()? == round * degree + i, "order");
                }
                ensure!(receiver.try_receive()?.is_none(), "one too many");
            }
            drop(sender);
            ensure!(
                matches!(
                    receiver.receive().as_ref().map_err(Error::kind),
                    Err(ErrorKind::Disconnected { .. })
                ),
                "closed"
            );
        }
        Ok(())
    });
}

#[test]
fn channels_that_can_not_be_are_errors() {
    on_all(2, |rank| {
        let one = Channel::degree(1);
        let text = |error: Option<Error>| error.map(|e| e.to_string()).unwrap_or_default();
        for peer in [2, 3, usize::MAX] {
            let error = rank.sender::<u8>("x", peer, one).err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::NoSuchRank { rank, size: 2 }) if *rank == peer),
                "{error:?}"
            );
            let error = rank.receiver::<u8>("x", peer, one).err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::NoSuchRank { .. })),
                "{error:?}"
            );
        }
        for name in ["", &"n".repeat(65), "a\0b", &"ö".repeat(33)] {
            let error = rank.sender::<u8>(name, 0, one).err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::BadChannel { .. })),
                "{name:?}: {error:?}"
            );
        }
        let long = "ö".repeat(32);
        let mut sender = rank.sender::<u8>(&long, rank.id(), one)?;
        let receiver = rank.receiver::<u8>(&long, rank.id(), one)?;
        sender.send(&5)?;
        ensure!(*receiver.receive()? == 5, "a name of 64 bytes");

        let error = text(rank.sender::<Aligned128>("x", 0, one).err());
        ensure!(error.contains("alignment 128"), "{error}");
        let error = text(rank.sender::<[u8]>("x", 0, one.max_len(u32::MAX as usize)).err());
        ensure!(error.contains("elements"), "{error}");
        let huge = Channel::degree(u32::MAX).max_len(u32::MAX as usize - 1);
        let error = text(rank.sender::<[[u64; 32]]>("x", 0, huge).err());
        ensure!(error.contains("larger than any memory"), "{error}");
        // The slots take 2^64 - 64 bytes, so that the rest of the channel overflows.
        let all = Channel::degree((1 << 29) - 1).max_len(1 << 29);
        let error = rank.sender::<[[u64; 8]]>("x", 0, all).err();
        let full = matches!(
            error.as_ref().map(Error::kind),
            Some(ErrorKind::Segment(SegmentError::Full { .. }) | ErrorKind::BadChannel { .. })
        );
        ensure!(full, "{error:?}");
        // The channel is larger than the segment. The world goes on after the error.
        let error = rank.sender::<[u8]>("x", 0, Channel::degree(1 << 20).max_len(1 << 30)).err();
        ensure!(
            matches!(
                error.as_ref().map(Error::kind),
                Some(ErrorKind::Segment(SegmentError::Full { .. }))
            ),
            "{error:?}"
        );
        stream_once(rank, "x")
    });
}

#[test]
fn time_limits_hold_at_every_degree() {
    on_all(2, |rank| {
        let timed = |call: &mut dyn FnMut(Duration) -> Option<Error>| {
            for limit in [Duration::ZERO, Duration::from_millis(10)] {
                let started = Instant::now();
                let error = call(limit);
                let took = started.elapsed();
                let right = matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Timeout { limit: l, .. }) if *l == limit);
                ensure!(right, "{error:?}");
                ensure!(took >= limit && took < limit + Duration::from_secs(20), "{took:?}");
            }
            Ok(())
        };
        let peer = 1 - rank.id();
        let mut here = rank.sender::<u8>("here", peer, Channel::degree(1))?;
        let there = rank.receiver::<u8>("here", peer, Channel::degree(1))?;
        let mut together = || here.send(&0).and_then(|()| there.receive().map(drop));
        for degree in DEGREES {
            let channel = Channel::degree(degree);
            let mut sender = rank.sender::<u64>("limits", peer, channel)?;
            let receiver = rank.receiver::<u64>("limits", peer, channel)?;
            timed(&mut |limit| receiver.receive_timeout(limit).err())?;
            timed(&mut |limit| {
                receiver.set_wait(limit);
                receiver.receive().err()
            })?;
            ensure!(receiver.try_receive()?.is_none(), "a message that was not sent");
            together()?;
            for i in 0..degree {
                sender.send(&u64::from(i))?;
            }
            timed(&mut |limit| sender.send_timeout(&0, limit).err())?;
            timed(&mut |limit| sender.reserve_with(limit).err())?;
            timed(&mut |limit| {
                sender.set_wait(limit);
                sender.send(&0).err()
            })?;
            let full = sender.try_send(&0).err();
            ensure!(
                matches!(full.as_ref().map(Error::kind), Some(ErrorKind::Full { .. })),
                "{full:?}"
            );
            together()?;
            for i in 0..degree {
                ensure!(*receiver.receive()? == u64::from(i), "message {i} of degree {degree}");
            }
            ensure!(receiver.try_receive()?.is_none(), "a message that was not sent");
            together()?;
        }
        Ok(())
    });
}

/// A sender that panics is lost. A loop over its messages does not take that for the normal end.
#[test]
fn a_sender_that_panics_is_lost() {
    let all = run_on_all_with(
        2,
        |world| world,
        |rank| {
            if rank.id() == 0 {
                let mut sender = rank.sender::<u64>("numbers", 1, Channel::degree(8))?;
                (0..3).try_for_each(|i| sender.send(&i))?;
                panic!("in the middle");
            }
            let receiver = rank.receiver::<u64>("numbers", 0, Channel::degree(8))?;
            let mut got = Vec::new();
            let mut messages = receiver.iter();
            let error = loop {
                match messages.next() {
                    Some(Ok(number)) => got.push(*number),
                    Some(Err(error)) => break error,
                    None => return Err(Error::other("it looks like the end")),
                }
            };
            ensure!(got == [0, 1, 2], "{got:?}");
            ensure!(matches!(error.kind(), ErrorKind::PeerLost { rank: 0, .. }), "{error}");
            ensure!(messages.next().is_none(), "more than the error");
            Ok(())
        },
    );
    for (kind, ended) in all.each() {
        let text = ended.unwrap_err().to_string();
        assert!(text.contains("rank 0") && !text.contains("rank 1"), "{kind}: {text}");
    }
}
