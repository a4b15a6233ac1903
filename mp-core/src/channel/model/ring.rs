//! Channels of one sender and one receiver.

use std::{ptr::NonNull, rc::Rc};

use loom::thread::{self, yield_now};

use super::{Arena, Bells, Waits};
use crate::{
    channel::{
        ring::{Received, Ring, RingControl, RingReceiver, RingSender},
        slots::{MOVED, SlotHeader},
    },
    segment::BlockKey,
    sync::explore,
};

type RingArena = Arena<RingControl, SlotHeader>;

pub(super) fn arena(degree: u64) -> Rc<RingArena> {
    Arena::new(RingControl::new(), degree, |_| SlotHeader::new())
}

pub(super) fn ends(arena: &RingArena) -> (RingSender, RingReceiver) {
    // SAFETY: the arena is formatted, and callers keep it as long as they use the ends.
    let ring = || unsafe { Ring::new(arena.control(), arena.slots) };
    (RingSender::new(ring()), RingReceiver::new(ring()))
}

pub(super) fn reserve(sender: &mut RingSender) -> Option<NonNull<u8>> {
    sender.reserve().or_else(|| sender.look(false).unwrap())
}

pub(super) fn write(sender: &mut RingSender, slot: NonNull<u8>, message: u64) {
    sender.write_len(slot, message as u32);
    // SAFETY: the slot belongs to the sender until it is published.
    unsafe { sender.payload(slot).cast().write(message) };
    sender.publish(slot);
}

pub(super) fn read(receiver: &RingReceiver, received: Received) -> u64 {
    // SAFETY: the message was published, and is not given back yet.
    let message: u64 = unsafe { receiver.payload(received.slot).cast().read() };
    assert_eq!(receiver.len(received.slot), message as u32, "the header is as old as the message");
    message
}

fn send(sender: &mut RingSender, message: u64) {
    loop {
        if let Some(slot) = reserve(sender) {
            return write(sender, slot, message);
        }
        yield_now();
    }
}

fn receive(receiver: &RingReceiver) -> Received {
    loop {
        if let Some(received) = receiver.receive() {
            return received;
        }
        yield_now();
    }
}

fn messages_arrive_in_order(degree: u64, count: u64) {
    let arena = arena(degree);
    let (mut sender, receiver) = ends(&arena);
    let sending = thread::spawn(move || (1..=count).for_each(|n| send(&mut sender, n)));
    for n in 1..=count {
        let received = receive(&receiver);
        assert_eq!(read(&receiver, received), n);
        receiver.release(received);
    }
    sending.join().unwrap();
    assert!(receiver.receive().is_none());
    drop(arena);
}

#[test]
fn one_slot_is_used_again_and_again() {
    explore(6, || messages_arrive_in_order(1, 3));
}

#[test]
fn two_slots_are_used_in_a_circle() {
    explore(6, || messages_arrive_in_order(2, 4));
}

#[test]
fn a_number_of_slots_that_divides_nothing() {
    explore(6, || messages_arrive_in_order(3, 4));
}

#[test]
fn guards_are_dropped_in_any_order() {
    explore(6, || {
        let arena = arena(2);
        let (mut sender, receiver) = ends(&arena);
        let sending = thread::spawn(move || (1..=4).for_each(|n| send(&mut sender, n)));
        let first = receive(&receiver);
        let second = receive(&receiver);
        assert!(receiver.all_held());
        assert_eq!(read(&receiver, second), 2);
        receiver.release(second);
        assert_eq!(read(&receiver, first), 1);
        receiver.release(first);
        let third = receive(&receiver);
        assert_eq!(read(&receiver, third), 3);
        let fourth = receive(&receiver);
        receiver.release(third);
        assert_eq!(read(&receiver, fourth), 4);
        receiver.release(fourth);
        sending.join().unwrap();
        drop(arena);
    });
}

#[test]
fn a_moved_buffer_is_described_whole() {
    explore(6, || {
        let arena = arena(1);
        let (mut sender, receiver) = ends(&arena);
        let sending = thread::spawn(move || {
            for n in 1..=2 {
                let slot = loop {
                    match reserve(&mut sender) {
                        Some(slot) => break slot,
                        None => yield_now(),
                    }
                };
                sender.write_moved(slot, BlockKey::from_word(n).unwrap(), 10 * n);
                sender.publish(slot);
            }
        });
        for n in 1..=2 {
            let received = receive(&receiver);
            assert_eq!(receiver.len(received.slot), MOVED);
            let (key, len) = receiver.moved(received.slot).unwrap();
            assert_eq!((key.word(), len), (n, 10 * n));
            receiver.release(received);
        }
        sending.join().unwrap();
        drop(arena);
    });
}

#[test]
fn what_was_published_before_the_end_is_received() {
    explore(6, || {
        let arena = arena(1);
        let bells = Bells::new(Waits::Spinning);
        let (mut sender, receiver) = ends(&arena);
        let sending = thread::spawn({
            let bells = Rc::clone(&bells);
            move || {
                send(&mut sender, 7);
                bells.signals.for_receiver.raise_gone();
            }
        });
        let got = loop {
            // This does what `Receiver::look` does.
            if let Some(received) = receiver.receive() {
                break Some(received);
            }
            if bells.signals.for_receiver.ended() {
                break receiver.receive();
            }
            yield_now();
        };
        let received = got.expect("the message was published before the end");
        assert_eq!(read(&receiver, received), 7);
        receiver.release(received);
        sending.join().unwrap();
        drop(arena);
    });
}
