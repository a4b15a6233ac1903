//! Tagged messages leave nothing uninitialised in the world's memory: a buffer that lies there later can be read.
//! Miri knows of each byte whether it was written. So all kinds are here once, in one world, since a start takes it long.

use std::hint::black_box;

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use mp_core::{Channel, Rank, Result, SharedBuffer, World};

const SEGMENT: usize = 2 << 20;

type Talk = fn(&Rank, &Communicator, usize) -> mp_collectives::communicator::Result<()>;

const KINDS: [Talk; 7] = [
    blocking_sends,
    messages_that_are_kept,
    messages_past_the_limit,
    requests,
    persistent_requests,
    moved_buffers,
    exchanges_and_parts,
];

#[test]
fn tagged_messages_leave_bytes() {
    let world = World::threads(2).segment_size(SEGMENT as u64);
    world
        .run(|rank| {
            let communicator = Communicator::world(rank);
            let other = 1 - communicator.rank();
            for kind in KINDS {
                kind(rank, &communicator, other)?;
            }
            drop(communicator);
            read_all(rank)
        })
        .unwrap();
}

/// Reads all of the world's memory that nobody holds any more.
fn read_all(rank: &Rank) -> Result<()> {
    let other = 1 - rank.id();
    let mut to = rank.sender::<u8>("left", other, Channel::degree(1))?;
    let from = rank.receiver::<u8>("left", other, Channel::degree(1))?;
    to.send(&1)?;
    from.receive()?;
    if rank.id() == 0 {
        let mut all: Vec<SharedBuffer<u64>> = Vec::new();
        for words in [10_000, 1000, 100, 10] {
            while let Ok(buffer) = rank.buffer(words) {
                all.push(buffer);
            }
        }
        let bytes: usize = all.iter().map(|buffer| 8 * buffer.len()).sum();
        assert!(bytes > SEGMENT / 10 * 9, "only {bytes} bytes");
        // A comparison reads every byte, and Miri does it by one call.
        assert!(all.iter().all(|buffer| black_box(&buffer[..]) == &buffer[..]));
    }
    // The other stays until then.
    to.send(&1)?;
    from.receive().map(drop)
}

/// Bytes of a message: none, within a line, a few lines, chunks; all but one leave a rest.
const LENGTHS: [usize; 5] = [0, 1, 41, 301, 5003];

fn blocking_sends(
    _: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    for (tag, len) in (0u32..5).zip(LENGTHS) {
        if other == 1 {
            world.send(&vec![7u8; len], other, tag)?;
            world.synchronous_send(&vec![8u8; len], other, tag)?;
        } else {
            let mut into = vec![0u8; len];
            world.receive_into(&mut into, other, tag)?;
            assert_eq!(into, vec![7u8; len]);
            world.receive_into(&mut into, ANY_SOURCE, ANY_TAG)?;
            assert_eq!(into, vec![8u8; len]);
        }
    }
    Ok(())
}

fn messages_that_are_kept(
    _: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    if other == 1 {
        for (tag, len) in (0u32..5).zip(LENGTHS) {
            world.buffered_send(&vec![[7u8; 3]; len / 3], other, tag)?;
        }
        world.send(&[9u16], other, 100)?;
    } else {
        world.receive::<u16>(other, 100)?;
        for (tag, len) in (0u32..5).zip(LENGTHS).rev() {
            assert_eq!(world.probe(other, tag)?.count, len / 3);
            let (got, _) = world.receive_vec::<[u8; 3]>(other, tag)?;
            assert_eq!(got, vec![[7; 3]; len / 3]);
        }
    }
    Ok(())
}

fn messages_past_the_limit(
    _: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    world.set_unexpected_limit(500);
    world.send_receive(&[0u8], other, 1, &mut [0u8], other, 1)?;
    if other == 1 {
        let sends = LENGTHS.map(|len| world.nonblocking_send(vec![7u8; len], other, 2));
        world.send(&[9u16], other, 100)?;
        sends.into_iter().try_for_each(|send| send.wait().map(drop).map_err(|f| f.error))
    } else {
        world.receive::<u16>(other, 100)?;
        for len in LENGTHS {
            assert_eq!(world.receive_vec::<u8>(other, 2)?.0, vec![7; len]);
        }
        Ok(())
    }
}

fn requests(
    _: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    for (tag, len) in (0u32..5).zip(LENGTHS) {
        let into = world.nonblocking_receive(vec![0u8; len], other, tag);
        let send = world.nonblocking_send(vec![7u8; len], other, tag);
        let second = world.nonblocking_receive(vec![0u8; len], other, tag);
        let met = world.nonblocking_synchronous_send(vec![8u8; len], other, tag);
        assert_eq!(into.wait().map_err(|f| f.error)?.0, vec![7; len]);
        assert_eq!(second.wait().map_err(|f| f.error)?.0, vec![8; len]);
        send.wait().map_err(|f| f.error)?;
        met.wait().map_err(|f| f.error)?;
    }
    Ok(())
}

fn persistent_requests(
    _: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    let mut to = world.persistent_send(vec![7u8; 301], other, 1);
    let mut from = world.persistent_receive(vec![0u8; 301], other, 1);
    for _ in 0..2 {
        from.start()?;
        to.start()?;
        to.wait()?;
        assert_eq!(from.wait()?.count, 301);
    }
    Ok(())
}

fn moved_buffers(
    rank: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    for len in [3, 1001] {
        if other == 1 {
            for _ in 0..2 {
                let buffer = rank.buffer_from(&vec![7u16; len])?;
                world.send_buffer(buffer, other, 1).map_err(|f| f.error)?;
                world.send(&vec![8u16; len], other, 1)?;
            }
        } else {
            assert_eq!(world.receive_buffer::<u16>(other, 1)?.0[..], vec![7; len]);
            assert_eq!(world.receive_buffer::<u16>(other, 1)?.0[..], vec![8; len]);
            assert_eq!(world.receive_vec::<u16>(other, 1)?.0, vec![7; len]);
            assert_eq!(world.receive_vec::<u16>(other, 1)?.0, vec![8; len]);
        }
    }
    Ok(())
}

fn exchanges_and_parts(
    _: &Rank,
    world: &Communicator,
    other: usize,
) -> mp_collectives::communicator::Result<()> {
    for len in LENGTHS {
        let (out, mut into) = (vec![7u8; len], vec![0u8; len]);
        let mut exchange = world.exchange();
        exchange.send(&out, other, 1).receive(&mut into, other, 1);
        exchange.run()?;
        assert_eq!(into, out);
    }
    let pair = world.duplicate()?;
    pair.send_receive(&[1u8], other, 1, &mut [0u8], other, 1)?;
    let alone = world.split(other as u64, 0)?;
    assert_eq!(alone.map(|alone| alone.size()), Some(1));
    Ok(())
}
