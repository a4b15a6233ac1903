//! Buffers that move between ranks.

use std::time::Duration;

use mp_core::{Channel, Endpoints, Error, ErrorKind, Plain, Rank, Result, SegmentError, World};

use crate::{
    support::{Random, SIZES, Together, on_all, on_all_with},
    types::*,
};

const BUFFERS: Channel = Channel::degree(2);

/// Each rank adds to a buffer and sends it on.
#[test]
fn one_buffer_goes_through_all_ranks() {
    for size in SIZES {
        let results = on_all(size, |rank| {
            let (me, size) = (rank.id(), rank.size());
            let mut to = rank.sender::<[u32]>("chain", (me + 1) % size, BUFFERS)?;
            let from = rank.receiver::<[u32]>("chain", (me + size - 1) % size, BUFFERS)?;
            if me == 0 {
                let buffer = rank.buffer_from(&(0..1000).collect::<Vec<u32>>())?;
                let place = buffer.as_ptr();
                to.send_buffer(buffer)?;
                let back = from.receive_buffer()?;
                ensure!(back.as_ptr() == place, "the elements were moved");
                return Ok(back.to_vec());
            }
            let mut buffer = from.receive_buffer()?;
            ensure!(buffer.len() == 1000, "{} elements", buffer.len());
            buffer.iter_mut().for_each(|element| *element += me as u32);
            to.send_buffer(buffer)?;
            Ok(Vec::new())
        });
        let added = (0..size as u32).sum::<u32>();
        assert_eq!(results[0], (added..added + 1000).collect::<Vec<_>>());
    }
}

fn moved<T: Plain>(rank: &Rank, degree: u32) -> Result<()> {
    // Messages of up to 3 elements can be copied, and buffers of any length can be moved.
    let channel = Channel::degree(degree).max_len(3);
    let lens = [0, 1, 3, 4, 100, 5000];
    if rank.id() == 0 {
        let mut sender = rank.sender::<[T]>("moved", 1, channel)?;
        for (i, len) in lens.into_iter().enumerate() {
            let elements = pattern_slice::<T>(i as u64, len);
            sender.send_buffer(rank.buffer_from(&elements)?)?;
            sender.send(&elements[..len.min(3)])?;
            let mut buffer = rank.buffer::<T>(len)?;
            buffer.copy_from_slice(&elements);
            sender.send_buffer(buffer)?;
            let zeroed = rank.buffer_zeroed::<T>(len)?;
            ensure!(same(&zeroed, &vec![T::zeroed(); len]), "not zeroed");
            let mut longer = rank.buffer_from(&pattern_slice::<T>(i as u64, len + 2))?;
            longer.truncate(len + 5);
            ensure!(longer.len() == len + 2, "made longer");
            longer.truncate(len);
            sender.send_buffer(longer)?;
        }
        return Ok(());
    }
    let receiver = rank.receiver::<[T]>("moved", 0, channel)?;
    for (i, len) in lens.into_iter().enumerate() {
        let elements = pattern_slice::<T>(i as u64, len);
        // First a moved buffer is received as a buffer, and a copied message is read in place.
        let buffer = receiver.receive_buffer()?;
        ensure!(same(&buffer, &elements), "{len} elements, moved");
        ensure!(buffer.as_ptr().is_aligned(), "not aligned");
        let guard = receiver.receive()?;
        ensure!(same(&guard, &elements[..len.min(3)]), "{len} elements, copied");
        drop(guard);
        // Then a moved buffer is read in place, and another is taken out of its guard.
        let guard = receiver.receive()?;
        ensure!(same(&guard, &elements), "{len} elements, moved, read in place");
        drop(guard);
        let guard = receiver.receive()?;
        ensure!(guard.len() == len, "truncated to {len}, {} came", guard.len());
        let buffer = guard.into_buffer()?;
        ensure!(same(&buffer, &elements), "{len} elements, truncated");
    }
    ensure!(receiver.receive_buffer().is_err(), "the end");
    Ok(())
}

#[test]
fn buffers_of_all_types_and_lengths_arrive() {
    on_all(2, |rank| {
        for degree in [0, 1, 4] {
            moved::<u8>(rank, degree)?;
            moved::<u64>(rank, degree)?;
            moved::<Bytes57>(rank, degree)?;
            moved::<Aligned64>(rank, degree)?;
            moved::<()>(rank, degree)?;
        }
        Ok(())
    });
}

#[test]
fn a_buffer_that_can_not_be_sent_comes_back() {
    on_all(2, |rank| {
        if rank.id() == 1 {
            let receiver = rank.receiver::<[u16]>("full", 0, Channel::degree(1))?;
            let mut together = Together::new(rank)?;
            together.wait()?;
            ensure!(*receiver.receive_buffer()? == [1], "the first");
            ensure!(*receiver.receive_buffer()? == [2, 3], "the one that came back");
            drop(receiver);
            return together.wait();
        }
        let mut together = Together::new(rank)?;
        let mut sender = rank.sender::<[u16]>("full", 1, Channel::degree(1))?;
        sender.send_buffer(rank.buffer_from(&[1])?)?;
        let back = sender.try_send_buffer(rank.buffer_from(&[2, 3])?).unwrap_err();
        ensure!(matches!(back.error.kind(), ErrorKind::Full { .. }), "{back}");
        ensure!(*back.message == [2, 3], "{:?}", back.message);
        let back = sender.send_buffer_with(back.message, Duration::from_millis(1)).unwrap_err();
        ensure!(matches!(back.error.kind(), ErrorKind::Timeout { .. }), "{back}");
        together.wait()?;
        let foreign = World::solo()?.buffer_from(&[9])?;
        let foreign = sender.send_buffer(foreign).unwrap_err();
        ensure!(matches!(foreign.error.kind(), ErrorKind::BadChannel { .. }), "{foreign}");
        ensure!(*foreign.message == [9], "{:?}", foreign.message);
        // A channel without `max_len` carries only buffers.
        let error = sender.send(&[1]).err();
        ensure!(
            matches!(
                error.as_ref().map(Error::kind),
                Some(ErrorKind::TooLong { len: 1, max: 0, .. })
            ),
            "{error:?}"
        );
        sender.send_buffer(back.message)?;
        together.wait()?;
        let back = sender.send_buffer(rank.buffer_from(&[7])?).unwrap_err();
        ensure!(matches!(back.error.kind(), ErrorKind::Disconnected { .. }), "{back}");
        ensure!(*back.message == [7], "{:?}", back.message);
        Ok(())
    });
}

#[test]
fn types_of_any_alignment_up_to_the_blocks() {
    on_all(1, |rank| {
        ensure!(rank.buffer::<Aligned128>(3)?.as_ptr().is_aligned(), "alignment of 128");
        let before = rank.memory().in_use;
        for len in 0..10 {
            let error = rank.buffer::<Aligned256>(len).err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Segment(_))),
                "{len}: {error:?}"
            );
        }
        let after = rank.memory().in_use;
        ensure!(before == after, "{before} bytes became {after}");
        Ok(())
    });
}

const WORK: Channel = Channel::degree(8).max_len(10);

/// Runs one round of all operations that allocate memory and must free it.
fn work(rank: &Rank, together: &mut Together, random: &mut Random) -> Result<()> {
    let (me, size) = (rank.id(), rank.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let mut to = rank.sender::<[u64]>("work", next, WORK)?;
    let from = rank.receiver::<[u64]>("work", previous, WORK)?;
    for _ in 0..2 {
        let len = random.below(3000) as usize;
        to.send_buffer(rank.buffer_zeroed(len)?)?;
        let mut buffer = from.receive_buffer()?;
        buffer.truncate(len / 2);
        match random.below(5) {
            // The buffer is sent on, copied, or dropped here.
            0 => to.send_buffer(buffer)?,
            1 => to.send(&buffer[..buffer.len().min(10)])?,
            2 => drop(buffer),
            // The buffer is never received, and is freed with the channel.
            3 => {
                let mut stranded = rank.sender::<[u64]>("stranded", next, WORK)?;
                stranded.send_buffer(buffer)?;
                stranded.send_buffer(rank.buffer(100)?)?;
            }
            _ => {
                let me = Endpoints::new([me], [me]);
                let mut stranded = rank.shared_sender::<[u64]>("stranded", &me, WORK)?;
                let end = rank.shared_receiver::<[u64]>("stranded", &me, WORK)?;
                stranded.send_buffer(buffer)?;
                stranded.send_buffer(rank.buffer(1000)?)?;
                drop(end.receive()?);
            }
        }
    }
    together.wait()?;
    drop(to);
    // The remaining messages are received as buffers or by guards, or not at all.
    match random.below(3) {
        0 => while from.receive_buffer().is_ok() {},
        1 => drop(from.iter().map(|message| Ok(message?.len())).sum::<Result<usize>>()?),
        _ => {}
    }
    Ok(())
}

/// Opens and closes the other ends of the stranded channels.
fn close_stranded(rank: &Rank, together: &mut Together) -> Result<()> {
    let (me, size) = (rank.id(), rank.size());
    together.wait()?;
    loop {
        let stranded = rank.receiver::<[u64]>("stranded", (me + size - 1) % size, WORK)?;
        if matches!(stranded.try_receive(), Ok(None)) {
            // This call has made a new channel, so there were no more. Its other end must be closed as well.
            break;
        }
    }
    together.wait()?;
    drop(rank.sender::<[u64]>("stranded", (me + 1) % size, WORK)?);
    together.wait()
}

#[test]
fn memory_does_not_grow_with_work() {
    for size in [1, 3] {
        on_all(size, |rank| {
            let mut together = Together::new(rank)?;
            let mut random = Random::new(rank.id() as u64);
            let mut start = None;
            for round in 0..20 {
                for _ in 0..5 {
                    work(rank, &mut together, &mut random)?;
                }
                close_stranded(rank, &mut together)?;
                let memory = rank.memory();
                together.wait()?;
                // The first rounds allocate the ranks' tables of buffers.
                if round < 2 {
                    continue;
                }
                let start = *start.get_or_insert(memory);
                ensure!(memory.in_use == start.in_use, "{start:?} became {memory:?}");
                ensure!(memory.touched <= 4 * start.touched, "{start:?} became {memory:?}");
            }
            Ok(())
        });
    }
}

/// A rank holds more buffers at once than its first table has entries.
#[test]
fn thousands_of_buffers_are_held_at_once() {
    on_all(2, |rank| {
        let count = 3000u32;
        let channel = Channel::degree(count);
        if rank.id() == 0 {
            let mut sender = rank.sender::<[u32]>("many", 1, channel)?;
            let mut held: Vec<_> =
                (0..count).map(|i| rank.buffer_from(&[i; 3])).collect::<Result<_>>()?;
            Random::new(1).shuffle(&mut held);
            held.into_iter().try_for_each(|buffer| Ok(sender.send_buffer(buffer)?))
        } else {
            let receiver = rank.receiver::<[u32]>("many", 0, channel)?;
            let mut got: Vec<_> = std::iter::from_fn(|| receiver.receive_buffer().ok()).collect();
            got.sort_unstable_by_key(|buffer| buffer[0]);
            ensure!(got.len() == count as usize, "{} buffers", got.len());
            ensure!((0..count).zip(&got).all(|(i, buffer)| **buffer == [i; 3]), "contents");
            Ok(())
        }
    });
}

#[test]
fn a_full_segment_is_an_error_value_and_serves_again() {
    on_all_with(
        2,
        |world| world.segment_size(2 << 20),
        |rank| {
            let mut together = Together::new(rank)?;
            if rank.id() == 1 {
                return together.wait();
            }
            let mut held = Vec::new();
            let error = loop {
                match rank.buffer::<u8>(50_000) {
                    Ok(buffer) => held.push(buffer),
                    Err(error) => break error,
                }
            };
            let full = matches!(
                error.kind(),
                ErrorKind::Segment(SegmentError::Full { asked: 50_000, .. })
            );
            ensure!(full, "{error}");
            ensure!(held.len() > 10, "{} buffers", held.len());
            // There is no memory for a channel, nor for more bytes than the address space has.
            let large = Channel::degree(1).max_len(1 << 20);
            let error = rank.sender::<[u8]>("x", 0, large).err();
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Segment(_))),
                "{error:?}"
            );
            for len in [usize::MAX, usize::MAX / 8, 1 << 40] {
                let error = rank.buffer::<u64>(len).err();
                ensure!(
                    matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Segment(_))),
                    "{len}: {error:?}"
                );
            }
            held.pop();
            held.push(rank.buffer::<u8>(50_000)?);
            drop(held);
            ensure!(rank.buffer::<u8>(50_000).is_ok(), "free again");
            together.wait()
        },
    );
}

/// If a rank's table of buffers can't grow, a buffer that does not fit into it is not lost.
#[test]
fn a_buffer_that_can_not_be_taken_is_freed() {
    on_all_with(
        1,
        |world| world.segment_size(2 << 20),
        |rank| {
            drop(rank.buffer::<u64>(1)?);
            let start = rank.memory().in_use;
            let mut to = rank.sender::<[u64]>("many", 0, Channel::degree(600))?;
            let from = rank.receiver::<[u64]>("many", 0, Channel::degree(600))?;
            for _ in 0..600 {
                to.send_buffer(rank.buffer(1)?)?;
            }
            let mut all = Vec::new();
            let mut len = 1 << 20;
            while len > 0 {
                match rank.buffer::<u8>(len) {
                    Ok(buffer) => all.push(buffer),
                    Err(_) => len /= 2,
                }
            }
            let mut held = Vec::new();
            let error = loop {
                match from.receive_buffer() {
                    Ok(buffer) => held.push(buffer),
                    Err(error) => break error,
                }
            };
            let full = matches!(error.kind(), ErrorKind::Segment(SegmentError::Full { .. }));
            ensure!(full && held.len() > 300, "{error} after {} buffers", held.len());
            drop(all);
            held.push(from.receive_buffer()?);
            drop((held, from, to));
            let after = rank.memory().in_use;
            ensure!(after == start, "{start} bytes became {after}");
            Ok(())
        },
    );
}

#[test]
fn a_buffer_becomes_one_of_another_type_where_it_fits() {
    on_all(1, |rank| {
        let numbers: Vec<u32> = (0..7).collect();
        let buffer = rank.buffer_from(&numbers)?;
        let Err(buffer) = buffer.recast::<u64>(4) else {
            return Err(Error::other("32 bytes in 28"));
        };
        let Err(buffer) = buffer.recast::<u8>(usize::MAX) else {
            return Err(Error::other("more bytes than there are"));
        };
        ensure!(buffer[..] == numbers[..], "a refusal changed it");
        let bytes = buffer.recast::<u8>(28).map_err(|_| Error::other("28 bytes"))?;
        ensure!(bytes[4] == 1u32.to_le_bytes()[0] || cfg!(target_endian = "big"), "other bytes");
        let pairs = bytes.recast::<[u32; 2]>(3).map_err(|_| Error::other("three pairs"))?;
        ensure!(pairs[..] == [[0, 1], [2, 3], [4, 5]], "{pairs:?}");
        let back = pairs.recast::<u32>(7).map_err(|_| Error::other("what it was"))?;
        ensure!(back[..] == numbers[..], "{back:?}");
        let none = back.recast::<()>(usize::MAX).map_err(|_| Error::other("no bytes"))?;
        ensure!(none.len() == usize::MAX, "{}", none.len());
        drop(none);
        Ok(())
    });
}
