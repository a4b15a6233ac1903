//! One channel whose positions are filled by several threads. The threads do what `Outlet` does.

use std::rc::Rc;

use loom::thread;

use super::{
    Bells, Waits, attend,
    ring::{arena, ends, read},
    wait,
};
use crate::{
    channel::{
        outlet::GivenUp,
        ring::{Ring, RingReceiver},
        signals::Sticky,
        slots::MOVED,
    },
    segment::BlockKey,
    sync::explore,
    wait::Asymmetry,
};

/// One of the threads that fill positions.
struct Filler {
    ring: Ring,
    bells: Rc<Bells>,
    given_up: Rc<GivenUp>,
}

impl Filler {
    fn has_room(&self, position: u64) -> bool {
        self.bury_given_up();
        position < self.ring.room(position, 0).unwrap()
    }

    fn await_room(&self, position: u64) {
        // The flag is sticky, because another thread may wait behind it.
        let flag = Sticky(&self.bells.signals.for_receiver);
        let poll = || self.has_room(position).then_some(());
        wait(self.bells.waits, &self.bells.sender, &flag, poll);
    }

    /// Fills a position with a message that contains 1 + its number.
    fn fill(&self, position: u64) {
        let message = position + 1;
        let payload = self.ring.payload_at(position, Some(message as u32));
        // SAFETY: this thread has the position, and its slot is free.
        unsafe { payload.cast().write(message) };
        self.ring.publish_at(position);
        self.bells.attend_receiver();
        if self.bells.waits == Waits::Parked {
            self.bury_given_up();
        }
    }

    fn give_up(&self, position: u64) {
        self.given_up.add(position);
        assert!(Asymmetry::Ordinary.heavy().is_none());
        self.bury_given_up();
    }

    fn bury_given_up(&self) {
        if self.given_up.any() && self.given_up.bury(&self.ring) {
            self.bells.attend_receiver();
        }
    }
}

struct Receiving {
    ring: RingReceiver,
    bells: Rc<Bells>,
}

impl Receiving {
    /// Does what `Receiver::look` does. Returns an error when there can be no more messages.
    fn look(&self) -> Option<Result<u64, ()>> {
        let taken = || {
            let received = self.ring.receive()?;
            let message = read(&self.ring, received);
            self.ring.release(received);
            self.attend();
            Some(Ok(message))
        };
        if let Some(message) = taken() {
            return Some(message);
        }
        while self.ring.pass_tombstone() {
            self.attend();
            if let Some(message) = taken() {
                return Some(message);
            }
        }
        if self.bells.signals.for_receiver.ended() {
            loop {
                if let Some(message) = taken() {
                    return Some(message);
                }
                if !self.ring.pass_tombstone() {
                    return Some(Err(()));
                }
            }
        }
        None
    }

    fn attend(&self) {
        attend(self.bells.waits, &self.bells.signals.for_receiver, &[&self.bells.sender]);
    }

    fn receive(&self) -> Result<u64, ()> {
        self.bells.receiver_waits(|| self.look())
    }
}

/// Runs two threads that fill positions and one that receives.
fn fill_and_receive(
    degree: u64,
    waits: Waits,
    preemptions: usize,
    one: fn(&Filler),
    two: fn(&Filler),
    receive: fn(&Receiving),
) {
    explore(preemptions, move || {
        let arena = arena(degree);
        let bells = Bells::new(waits);
        let given_up = Rc::new(GivenUp::new());
        let filler = || {
            // SAFETY: the arena is formatted, and is kept until both threads are done.
            let ring = unsafe { Ring::new(arena.control(), arena.slots) };
            Filler { ring, bells: Rc::clone(&bells), given_up: Rc::clone(&given_up) }
        };
        let (first, second) = (filler(), filler());
        let filling = thread::spawn(move || one(&first));
        let filling_too = thread::spawn(move || two(&second));
        let (_, ring) = ends(&arena);
        receive(&Receiving { ring, bells });
        filling.join().unwrap();
        filling_too.join().unwrap();
        drop(arena);
    });
}

#[test]
fn slots_are_filled_in_any_order_and_read_in_one() {
    let (one, two): (fn(&Filler), fn(&Filler)) = (|f| f.fill(0), |f| f.fill(1));
    let receive: fn(&Receiving) = |r| (1..=2).for_each(|n| assert_eq!(r.receive(), Ok(n)));
    fill_and_receive(2, Waits::Parked, 2, one, two, receive);
    fill_and_receive(2, Waits::Spinning, 3, one, two, receive);
}

#[test]
fn two_threads_wait_for_room() {
    let one = |f: &Filler| {
        f.await_room(0);
        f.fill(0);
    };
    let two = |f: &Filler| {
        f.await_room(1);
        f.fill(1);
    };
    fill_and_receive(1, Waits::Parked, 2, one, two, |r| {
        (1..=2).for_each(|n| assert_eq!(r.receive(), Ok(n)));
    });
}

#[test]
fn a_position_that_was_given_up_is_passed() {
    let one = |f: &Filler| {
        f.fill(0);
        f.await_room(2);
        f.fill(2);
    };
    fill_and_receive(
        2,
        Waits::Parked,
        2,
        one,
        |f| f.give_up(1),
        |r| {
            assert_eq!(r.receive(), Ok(1));
            assert_eq!(r.receive(), Ok(3));
        },
    );
}

/// When the position is given up, there is no room for its tombstone, and only one more position is filled afterwards.
#[test]
fn a_position_that_was_given_up_in_a_full_channel_is_passed() {
    let one = |f: &Filler| {
        f.fill(0);
        f.fill(1);
        f.await_room(3);
        f.fill(3);
    };
    fill_and_receive(
        2,
        Waits::Parked,
        2,
        one,
        |f| f.give_up(2),
        |r| [1, 2, 4].into_iter().for_each(|n| assert_eq!(r.receive(), Ok(n))),
    );
}

/// The rank dies while one slot is being filled. The message that it has published behind that slot is not delivered.
#[test]
fn a_gap_is_the_end_when_the_sender_is_gone() {
    fill_and_receive(
        3,
        Waits::Parked,
        2,
        |f| {
            f.fill(0);
            f.fill(2);
            // The other thread has written a moved buffer, and does not come to publish it.
            f.ring.write_moved_at(1, BlockKey::from_word(77).unwrap(), 1);
            f.bells.signals.for_receiver.raise_gone();
            f.bells.receiver.advance_and_wake();
        },
        |_| (),
        |r| {
            assert_eq!(r.receive(), Ok(1));
            assert_eq!(r.receive(), Err(()));
            assert_eq!(r.ring.ring().stranded().len(), 1, "the buffer on its way");
        },
    );
}

#[test]
fn a_buffer_that_moved_before_is_not_found_behind_a_tombstone() {
    explore(3, || {
        let arena = arena(1);
        // SAFETY: the arena is formatted, and is kept until the end of the test.
        let ring = || unsafe { Ring::new(arena.control(), arena.slots) };
        let (sending, receiver) = (ring(), ends(&arena).1);
        let filling = thread::spawn(move || {
            sending.write_moved_at(0, BlockKey::from_word(77).unwrap(), 1);
            sending.publish_at(0);
            while sending.room(1, 0).unwrap() < 2 {
                crate::sync::yield_now();
            }
            sending.bury_at(1);
        });
        let received = loop {
            match receiver.receive() {
                Some(received) => break received,
                None => crate::sync::yield_now(),
            }
        };
        assert_eq!(receiver.len(received.slot), MOVED);
        receiver.release(received);
        filling.join().unwrap();
        assert_eq!(ring().stranded(), [], "the receiver has it");
        assert!(receiver.pass_tombstone());
        drop(arena);
    });
}
