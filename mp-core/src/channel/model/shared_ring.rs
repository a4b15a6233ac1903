//! Channels of several senders and several receivers.

use std::{ptr::NonNull, rc::Rc};

use loom::thread;

use super::{Arena, Waits, attend, wait};
use crate::{
    channel::{
        shared_ring::{Held, Look, SharedControl, SharedRing, SharedSlotHeader},
        signals::{Signal, Signals, Sticky},
    },
    segment::BlockKey,
    sync::{AtomicU32, Futex, Ordering, explore},
    wait::Flag,
};

/// The largest number of ranks in a model.
const RANKS: usize = 3;

/// A ring, and the means by which its ranks call each other.
struct Shared {
    waits: Waits,
    arena: Rc<Arena<SharedControl, SharedSlotHeader>>,
    signals: Signals,
    bells: [Futex; RANKS],
    /// Ranks that have released their ends, as bits.
    released: AtomicU32,
}

/// A rank at both ends of the ring.
#[derive(Clone)]
struct Rank {
    me: u32,
    shared: Rc<Shared>,
}

impl Rank {
    fn first(waits: Waits, degree: u64) -> Self {
        let shared = Rc::new(Shared {
            waits,
            arena: Arena::new(SharedControl::new(), degree, SharedSlotHeader::new),
            signals: Signals::new(),
            bells: std::array::from_fn(|_| Futex::new()),
            released: AtomicU32::new(0),
        });
        Self { me: 0, shared }
    }

    fn other(&self, me: u32) -> Self {
        Self { me, ..self.clone() }
    }

    fn ring(&self) -> SharedRing {
        // SAFETY: the arena is formatted, and the rank keeps it.
        unsafe { SharedRing::new(self.shared.arena.control(), self.shared.arena.slots) }
    }

    fn released(&self, rank: u32) -> bool {
        self.shared.released.load(Ordering::Acquire) & (1 << rank) != 0
    }

    /// Does what a launcher does when the rank's process is gone.
    fn bury(&self, rank: u32) {
        self.shared.released.fetch_or(1 << rank, Ordering::Release);
        self.shared.bells.iter().for_each(Futex::advance_and_wake);
    }

    fn wait<T>(&self, flag: &dyn Flag, poll: impl FnMut() -> Option<T>) -> T {
        wait(self.shared.waits, &self.shared.bells[self.me as usize], flag, poll)
    }

    fn attend(&self, signal: &Signal) {
        let bells: Vec<_> = self.shared.bells.iter().collect();
        attend(self.shared.waits, signal, &bells);
    }

    fn attend_receivers(&self) {
        self.attend(&self.shared.signals.for_sender);
    }

    fn attend_senders(&self) {
        self.attend(&self.shared.signals.for_receiver);
    }

    /// Does what `Sender::look` does.
    fn try_reserve(&self) -> Option<Held> {
        let ring = self.ring();
        loop {
            match ring.reserve(self.me, |rank| self.released(rank), |rank| self.released(rank)) {
                Look::Corrupt(position) => panic!("position {position} is no such"),
                Look::Got(held) => return Some(held),
                Look::Nothing => return None,
                Look::Orphan(held) => ring.release(held),
            }
        }
    }

    fn reserve(&self) -> Held {
        let flag = Sticky(&self.shared.signals.for_receiver);
        let held = self.wait(&flag, || self.try_reserve());
        self.ring().writing(held);
        held
    }

    fn send(&self, message: u64) {
        let (held, ring) = (self.reserve(), self.ring());
        ring.write_len(held, message as u32);
        // SAFETY: the rank has claimed the slot.
        unsafe { payload(&ring, held).write(message) };
        ring.publish(held);
        self.attend_receivers();
    }

    fn give_up(&self) {
        let held = self.reserve();
        self.ring().abandon(held);
        self.attend_receivers();
    }

    /// Does what `Receiver::look_shared` does. Keys of buffers in orphaned slots go to `found`.
    fn try_take(&self, found: &mut Vec<u64>) -> Option<Held> {
        let ring = self.ring();
        loop {
            match ring.receive(self.me, |rank| self.released(rank)) {
                Look::Corrupt(position) => panic!("position {position} is no such"),
                Look::Got(held) => return Some(held),
                Look::Nothing => return None,
                Look::Orphan(held) => {
                    found.extend(ring.buffer_in(held).map(BlockKey::word));
                    ring.release(held);
                    self.attend_senders();
                }
            }
        }
    }

    fn take(&self, found: &mut Vec<u64>) -> Held {
        let flag = Sticky(&self.shared.signals.for_sender);
        self.wait(&flag, || self.try_take(found))
    }

    fn receive_and_find(&self, found: &mut Vec<u64>) -> u64 {
        let (held, ring) = (self.take(found), self.ring());
        // SAFETY: the rank has taken the message.
        let message = unsafe { payload(&ring, held).read() };
        assert_eq!(ring.len(held), message as u32, "the header is as old as the message");
        ring.release(held);
        self.attend_senders();
        message
    }

    fn receive(&self) -> u64 {
        self.receive_and_find(&mut Vec::new())
    }
}

fn payload(ring: &SharedRing, held: Held) -> NonNull<u64> {
    ring.payload(held).cast()
}

fn one_sends_and_one_receives(degree: u64) {
    let rank = Rank::first(Waits::Spinning, degree);
    let one = rank.other(1);
    let sending = thread::spawn(move || (1..=3).for_each(|n| one.send(n)));
    (1..=3).for_each(|n| assert_eq!(rank.receive(), n));
    sending.join().unwrap();
}

#[test]
fn one_sends_and_one_receives_through_one_slot() {
    explore(5, || one_sends_and_one_receives(1));
}

#[test]
fn one_sends_and_one_receives_through_two_slots() {
    explore(5, || one_sends_and_one_receives(2));
}

#[test]
fn a_slot_that_is_given_up_can_be_claimed_without_a_receiver() {
    explore(6, || {
        let rank = Rank::first(Waits::Spinning, 1);
        let one = rank.other(1);
        let giving_up = thread::spawn(move || one.give_up());
        rank.give_up();
        giving_up.join().unwrap();
        assert!(rank.try_reserve().is_some());
    });
}

#[test]
fn two_senders_share_one_slot() {
    explore(2, || {
        let rank = Rank::first(Waits::Parked, 1);
        let (one, two) = (rank.other(1), rank.other(2));
        let sending = thread::spawn(move || one.send(10));
        let sending_too = thread::spawn(move || two.send(20));
        assert_eq!(rank.receive() + rank.receive(), 30);
        sending.join().unwrap();
        sending_too.join().unwrap();
    });
}

#[test]
fn two_senders_go_round_two_slots() {
    explore(2, || {
        let rank = Rank::first(Waits::Parked, 2);
        let (one, two) = (rank.other(1), rank.other(2));
        let sending = thread::spawn(move || {
            one.send(10);
            one.send(11);
        });
        let sending_too = thread::spawn(move || two.send(20));
        let got: Vec<u64> = (0..3).map(|_| rank.receive()).collect();
        let of_one: Vec<_> = got.iter().filter(|&&n| n < 20).copied().collect();
        assert_eq!(of_one, [10, 11], "in order");
        assert_eq!(got.iter().sum::<u64>(), 41);
        sending.join().unwrap();
        sending_too.join().unwrap();
    });
}

#[test]
fn two_receivers_never_take_the_same() {
    explore(2, || {
        let rank = Rank::first(Waits::Parked, 1);
        let (one, two) = (rank.other(1), rank.other(2));
        let sending = thread::spawn(move || (1..=2).for_each(|n| two.send(n)));
        let receiving = thread::spawn(move || one.receive());
        let mine = rank.receive();
        assert_eq!(mine + receiving.join().unwrap(), 3);
        sending.join().unwrap();
    });
}

#[test]
fn a_slot_that_is_given_up_is_passed() {
    explore(2, || {
        let rank = Rank::first(Waits::Parked, 2);
        let (one, two) = (rank.other(1), rank.other(2));
        let giving_up = thread::spawn(move || one.give_up());
        let sending = thread::spawn(move || (1..=2).for_each(|n| two.send(n)));
        assert_eq!(rank.receive(), 1);
        assert_eq!(rank.receive(), 2);
        giving_up.join().unwrap();
        sending.join().unwrap();
    });
}

#[test]
fn a_lost_senders_slot_is_passed_and_its_buffer_found_once() {
    explore(2, || {
        let rank = Rank::first(Waits::Parked, 2);
        let (one, two) = (rank.other(1), rank.other(2));
        let launcher = rank.clone();
        let dying = thread::spawn(move || {
            let held = one.reserve();
            one.ring().write_moved(held, BlockKey::from_word(77).unwrap(), 1);
        });
        // The launcher waits for the end of the rank, and then tells the other ranks.
        let burying = thread::spawn(move || {
            dying.join().unwrap();
            launcher.bury(1);
        });
        let sending = thread::spawn(move || two.send(5));
        let mut found = Vec::new();
        assert_eq!(rank.receive_and_find(&mut found), 5);
        sending.join().unwrap();
        burying.join().unwrap();
        // The orphaned slot was passed on the way to the message, or is still there behind it.
        assert!(rank.try_take(&mut found).is_none());
        assert_eq!(found, [77]);
    });
}

#[test]
fn a_slot_that_a_lost_receiver_read_is_written_again() {
    explore(3, || {
        let rank = Rank::first(Waits::Parked, 1);
        rank.send(1);
        let (one, two) = (rank.other(1), rank.other(2));
        let launcher = rank.clone();
        let dying = thread::spawn(move || {
            one.take(&mut Vec::new());
        });
        let burying = thread::spawn(move || {
            dying.join().unwrap();
            launcher.bury(1);
        });
        let sending = thread::spawn(move || two.send(2));
        sending.join().unwrap();
        assert_eq!(rank.receive(), 2);
        burying.join().unwrap();
    });
}
