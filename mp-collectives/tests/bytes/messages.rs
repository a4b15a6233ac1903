//! All kinds of tagged messages, each once, in one world.

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use mp_core::{Rank, World};

use crate::read_all;

const SEGMENT: usize = 2 << 20;

type Talk = fn(&Rank, &Communicator, usize) -> mp_core::Result<()>;

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
            read_all(rank, SEGMENT)
        })
        .unwrap();
}

/// Bytes of a message: none, less than a line, a few lines, chunks. All lengths but one leave a remainder.
const LENGTHS: [usize; 5] = [0, 1, 41, 301, 5003];

fn blocking_sends(_: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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

fn messages_that_are_kept(_: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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

fn messages_past_the_limit(_: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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

fn requests(_: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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

fn persistent_requests(_: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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

fn moved_buffers(rank: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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

fn exchanges_and_parts(_: &Rank, world: &Communicator, other: usize) -> mp_core::Result<()> {
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
