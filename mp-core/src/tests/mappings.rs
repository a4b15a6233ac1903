//! One segment that is mapped twice at different addresses. Code that passes an address instead of an offset by mistake
//! fails here, without a second process.

use std::{thread, time::Duration};

use super::*;
use crate::{
    Channel, Endpoints, Error, ErrorKind, Select,
    mpb::{Line, Mpbs},
};

#[test]
fn two_mappings_talk() {
    let world = world(memfd(64 << 20), 2);
    let parts = |rank: Rank| -> crate::Result<Vec<u64>> {
        let peer = 1 - rank.id();
        let mut seen = Vec::new();
        for degree in [0, 1, 3] {
            let channel = Channel::degree(degree).max_len(100);
            // Each rank sends in turn. The other end closes first, and then last.
            for from in [0, 1] {
                if rank.id() == from {
                    let mut numbers = rank.sender::<u64>("numbers", peer, channel)?;
                    let mut slices = rank.sender::<[u16]>("slices", peer, channel)?;
                    for i in 0..50 {
                        if i == 7 {
                            // In this time, the other end falls asleep.
                            thread::sleep(Duration::from_millis(5));
                        }
                        numbers.send(&i)?;
                        slices.send(&[i as u16; 100])?;
                        let mut buffer = rank.buffer_zeroed(5000)?;
                        buffer[4999] = i as u16;
                        slices.send_buffer(buffer)?;
                    }
                } else {
                    let numbers = rank.receiver::<u64>("numbers", peer, channel)?;
                    let slices = rank.receiver::<[u16]>("slices", peer, channel)?;
                    for i in 0..50 {
                        seen.push(*numbers.receive()?);
                        assert_eq!(*slices.receive()?, [i; 100]);
                        let buffer = slices.receive_buffer()?;
                        assert_eq!((buffer.len(), buffer[0], buffer[4999]), (5000, 0, i));
                    }
                }
            }
        }
        let both = Endpoints::new([0, 1], [0, 1]);
        let mut sender = rank.shared_sender::<u64>("shared", &both, Channel::degree(2))?;
        let receiver = rank.shared_receiver::<u64>("shared", &both, Channel::degree(2))?;
        sender.send(&(rank.id() as u64))?;
        drop(sender);
        let mut select = Select::new();
        select.add(&receiver);
        let mut shared = Vec::new();
        loop {
            select.ready()?;
            match receiver.try_receive().map_err(Error::into_kind) {
                Ok(message) => shared.extend(message.map(|m| *m)),
                Err(ErrorKind::Disconnected { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        assert!(shared.len() <= 2);
        let mpb = rank.mpb("mpb", Mpbs::lines(41))?;
        for i in 1..=50 {
            if rank.id() == i as usize % 2 {
                mpb.put(&[i as u8; 2500], Line { rank: peer, line: 1 })?;
                mpb.set_flag(Line { rank: peer, line: 0 }, i)?;
            } else {
                mpb.wait_flag(0, |value| value == i)?;
                let mut got = [0; 2500];
                mpb.get(Line { rank: rank.id(), line: 1 }, &mut got)?;
                assert_eq!(got, [i as u8; 2500]);
            }
        }
        Ok(seen)
    };
    let start = world.segment.heap().used();
    let (here, elsewhere) = (rank_here(&world, 0), rank_elsewhere(&world, 1));
    let seen = thread::scope(|scope| {
        let here = scope.spawn(|| parts(here).unwrap());
        let elsewhere = scope.spawn(|| parts(elsewhere).unwrap());
        [here.join().unwrap(), elsewhere.join().unwrap()]
    });
    for seen in seen {
        assert_eq!(seen, (0..3).flat_map(|_| 0..50).collect::<Vec<u64>>());
    }
    // Only each rank's table of buffers is left.
    let left = world.segment.heap().used() - start;
    assert!(left <= 2 * (5 << 10), "{left} bytes more than before");
}

#[test]
fn buffers_lie_at_different_addresses() {
    let world = world(memfd(64 << 20), 2);
    let (here, elsewhere) = (rank_here(&world, 0), rank_elsewhere(&world, 1));
    let channel = Channel::degree(1);
    let mut to = here.sender::<[u64]>("buffers", 1, channel).unwrap();
    let from = elsewhere.receiver::<[u64]>("buffers", 0, channel).unwrap();
    let buffer = here.buffer_from(&[1, 2, 3]).unwrap();
    let address = buffer.as_ptr();
    to.send_buffer(buffer).unwrap();
    let buffer = from.receive_buffer().unwrap();
    assert_ne!(buffer.as_ptr(), address);
    assert_eq!(*buffer, [1, 2, 3]);
    // Back in the first mapping, the buffer has the same address again.
    let mut back = elsewhere.sender::<[u64]>("back", 0, channel).unwrap();
    let home = here.receiver::<[u64]>("back", 1, channel).unwrap();
    back.send_buffer(buffer).unwrap();
    assert_eq!(home.receive_buffer().unwrap().as_ptr(), address);
}

/// A buffer belongs to a mapping of a world, and not only to the world.
#[test]
fn a_buffer_of_another_mapping_of_the_same_world_is_not_of_this_one() {
    let world = world(memfd(64 << 20), 2);
    let (here, elsewhere) = (rank_here(&world, 0), rank_elsewhere(&world, 1));
    let mut to = here.sender::<[u64]>("buffers", 1, Channel::degree(1)).unwrap();
    let error = to.send_buffer(elsewhere.buffer_from(&[1]).unwrap()).unwrap_err();
    assert!(matches!(error.error.kind(), ErrorKind::BadChannel { .. }), "{error}");
}
