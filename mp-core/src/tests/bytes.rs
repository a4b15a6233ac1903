//! Channels and MPBs leave no uninitialized bytes in the world's memory, so the next buffer in the same place can be
//! read. Miri knows of each byte whether it is initialized, so under Miri one message of each kind is enough.

use std::{hint::black_box, sync::Arc};

use super::*;
use crate::{
    Channel, Endpoints, Receiver, Select, Sender, SharedBuffer,
    lane::{Bell, Gauge, Outgoing, Submitted},
    mpb::{Line, Mpbs},
};

/// Calls `act` in a small world, and then reads all of the world's memory.
fn in_a_world(act: impl FnOnce(&[Rank; 2])) {
    let segment = Segment::on_heap(1 << 18, false, crate::world::parts()).unwrap();
    let world = world(segment, 2);
    let ranks = [rank_here(&world, 0), rank_here(&world, 1)];
    act(&ranks);
    let mut all: Vec<SharedBuffer<u64>> = Vec::new();
    for len in [4000, 1000, 100, 10] {
        while let Ok(buffer) = ranks[0].buffer(len) {
            all.push(buffer);
        }
    }
    let read: usize = all.iter().map(|buffer| buffer.len()).sum();
    assert!(8 * read > 1 << 17, "only {read} words");
    black_box(all.iter().flat_map(|buffer| buffer.iter()).fold(0, |all, word| all ^ word));
}

fn ends<M: crate::Message + ?Sized>(ranks: &[Rank; 2], degree: u32) -> (Sender<M>, Receiver<M>) {
    let channel = Channel::degree(degree).max_len(5);
    let to = ranks[0].sender("x", 1, channel).unwrap();
    (to, ranks[1].receiver("x", 0, channel).unwrap())
}

#[test]
fn of_values() {
    in_a_world(|ranks| {
        let (mut to, from) = ends::<[u8; 3]>(ranks, 2);
        for n in 0..5 {
            to.send(&[n; 3]).unwrap();
            assert_eq!(*from.receive().unwrap(), [n; 3]);
        }
    });
    in_a_world(|ranks| {
        let (mut to, from) = ends::<[u64; 9]>(ranks, 3);
        to.send(&[7; 9]).unwrap();
        let mut select = Select::new();
        select.add(&from);
        assert_eq!(select.ready().unwrap(), 0);
        assert_eq!(*from.receive().unwrap(), [7; 9]);
    });
}

#[test]
fn of_values_that_meet() {
    in_a_world(|ranks| {
        let (mut to, from) = ends::<u16>(ranks, 0);
        std::thread::scope(|scope| {
            scope.spawn(move || to.send(&7).unwrap());
            assert_eq!(*from.receive().unwrap(), 7);
        });
    });
}

#[test]
fn of_slices_and_moved_buffers() {
    for degree in [1, 3] {
        in_a_world(|ranks| {
            let (mut to, from) = ends::<[u16]>(ranks, degree);
            to.send(&[1, 2, 3]).unwrap();
            assert_eq!(*from.receive().unwrap(), [1, 2, 3]);
            let mut slot = to.reserve(1).unwrap();
            slot[0] = 9;
            slot.publish().unwrap();
            assert_eq!(*from.receive().unwrap(), [9]);
            to.send_buffer(ranks[0].buffer_from(&[5; 50]).unwrap()).unwrap();
            assert_eq!(*from.receive_buffer().unwrap(), [5; 50]);
            to.send_buffer(ranks[0].buffer_zeroed(9).unwrap()).unwrap();
        });
    }
}

#[test]
fn of_shared_channels() {
    in_a_world(|ranks| {
        let endpoints = Endpoints::new([0, 1], [0, 1]);
        let channel = Channel::degree(3).max_len(5);
        let mut to = ranks[0].shared_sender::<[u32]>("queue", &endpoints, channel).unwrap();
        let from = ranks[1].shared_receiver::<[u32]>("queue", &endpoints, channel).unwrap();
        to.send(&[1, 2]).unwrap();
        to.send_buffer(ranks[0].buffer_from(&[3; 30]).unwrap()).unwrap();
        assert_eq!(*from.receive().unwrap(), [1, 2]);
        assert_eq!(*from.receive_buffer().unwrap(), [3; 30]);
    });
}

#[test]
fn of_delegated_sends() {
    in_a_world(|ranks| {
        let (to, from) = ends::<[u32]>(ranks, 2);
        let mut outgoing = Outgoing::new(to);
        let (bell, gauge) = (Arc::new(Bell::new()), Arc::new(Gauge::new()));
        let mut lane = outgoing.add_lane(&bell, &gauge);
        let Submitted::Pending(list) = outgoing.submit(0, vec![1u32, 2]) else { panic!("sent") };
        lane.serve();
        assert_eq!(*from.receive().unwrap(), [1, 2]);
        list.take().expect("it is done").unwrap();
    });
}

#[test]
fn of_message_passing_buffers() {
    in_a_world(|ranks| {
        let mpbs = [0, 1].map(|rank: usize| ranks[rank].mpb("mpb", Mpbs::lines(3)).unwrap());
        mpbs[0].put(&[7; 100], Line { rank: 1, line: 0 }).unwrap();
        mpbs[0].set_flag_with(Line { rank: 1, line: 2 }, 1, b"abc").unwrap();
        assert_eq!(mpbs[1].wait_flag(2, |value| value == 1).unwrap(), 1);
        let mut got = [0; 100];
        mpbs[1].get(Line { rank: 1, line: 0 }, &mut got).unwrap();
        assert_eq!(got, [7; 100]);
    });
}
