//! Channels of degree 0. The threads do what `Sender::claim_waiting` and `Receiver::meet` do.

use std::rc::Rc;

use loom::thread;

use super::{Bells, Waits, ring};
use crate::{
    channel::{
        rendezvous::Meeting,
        ring::{Received, RingReceiver, RingSender},
    },
    sync::explore,
};

struct Sending {
    bells: Rc<Bells>,
    meeting: Rc<Meeting>,
    ring: RingSender,
}

impl Sending {
    /// Claims the slot of a receiver that waits.
    fn claim(&mut self) -> Option<std::ptr::NonNull<u8>> {
        self.meeting.claim().then(|| {
            self.ring.look(false).unwrap().expect("whoever offers has given the only slot back")
        })
    }

    fn send(&mut self, message: u64) {
        let bells = Rc::clone(&self.bells);
        self.meeting.want(true);
        bells.attend_receiver();
        let slot = bells.sender_waits(|| self.claim());
        self.meeting.want(false);
        bells.attend_receiver();
        ring::write(&mut self.ring, slot, message);
        bells.attend_receiver();
    }

    /// Sends a message if a receiver is met within `looks` looks. Returns whether it was.
    fn send_in_time(&mut self, looks: u32, message: u64) -> bool {
        self.meeting.want(true);
        self.bells.attend_receiver();
        let slot = (0..looks).find_map(|_| self.claim());
        self.meeting.want(false);
        self.bells.attend_receiver();
        if let Some(slot) = slot {
            ring::write(&mut self.ring, slot, message);
            self.bells.attend_receiver();
        }
        slot.is_some()
    }

    fn close(self) {
        self.bells.signals.for_receiver.raise_gone();
        self.bells.receiver.advance_and_wake();
    }
}

struct Receiving {
    bells: Rc<Bells>,
    meeting: Rc<Meeting>,
    ring: RingReceiver,
}

impl Receiving {
    fn look(&self) -> Option<Result<Received, ()>> {
        if let Some(received) = self.ring.receive() {
            return Some(Ok(received));
        }
        assert!(!self.ring.all_held());
        if self.bells.signals.for_receiver.ended() {
            return Some(self.ring.receive().ok_or(()));
        }
        None
    }

    fn take(&self, received: Received) -> u64 {
        let message = ring::read(&self.ring, received);
        self.ring.release(received);
        self.bells.attend_sender();
        message
    }

    fn offer(&self) {
        self.meeting.offer();
        self.bells.attend_sender();
    }

    /// Receives a message. Returns `None` if the other end was closed.
    fn receive(&self) -> Option<u64> {
        self.offer();
        let met = self.bells.receiver_waits(|| self.look());
        self.meeting.met();
        met.ok().map(|received| self.take(received))
    }

    fn end_offer(&self, withdraw: bool) -> Option<u64> {
        let met = self.bells.receiver_waits(|| match self.look() {
            None => {
                ((withdraw || !self.meeting.wanted()) && self.meeting.withdraw()).then_some(None)
            }
            Some(met) => Some(met.ok()),
        });
        self.meeting.met();
        met.map(|received| self.take(received))
    }

    /// Receives a message if it is there at the first look after the offer.
    fn receive_in_time(&self) -> Option<u64> {
        self.offer();
        match self.look() {
            Some(met) => {
                self.meeting.met();
                met.ok().map(|received| self.take(received))
            }
            None => self.end_offer(true),
        }
    }

    /// Receives a message if it is there at the first look after the offer, or before the other node has answered.
    fn receive_in_time_from_afar(&self) -> Option<u64> {
        self.offer();
        let met = self.bells.receiver_waits(|| match self.look() {
            None => (self.meeting.withdraw() || self.meeting.is_kept()).then_some(None),
            Some(met) => Some(met.ok()),
        });
        met.map(|received| {
            self.meeting.met();
            self.take(received)
        })
    }

    /// Asks the node of the slots of a shared channel, as `Receiver::ask` does.
    fn ask(&self) -> Option<u64> {
        self.meeting.unheard();
        self.offer();
        let met = self.bells.receiver_waits(|| match self.look() {
            None => self.meeting.recall().then_some(None),
            Some(met) => Some(met.ok()),
        });
        self.meeting.met();
        met.map(|received| self.take(received))
    }

    /// Waits until the node of the slots has told of a message, as a `Select` does.
    fn hear(&self) {
        self.bells.receiver_waits(|| {
            let heard = self.meeting.looks().unwrap_or_else(|| {
                self.bells.attend_sender();
                false
            });
            heard.then_some(())
        });
    }

    /// Receives a message only from a sender that already waits.
    fn try_receive(&self) -> Option<u64> {
        if !self.meeting.wanted() {
            return None;
        }
        self.offer();
        self.end_offer(false)
    }
}

fn meet(
    waits: Waits,
    preemptions: usize,
    sender: impl Fn(Sending) + Clone + Send + Sync + 'static,
    receiver: impl Fn(Receiving) + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let arena = ring::arena(1);
        let (to, from) = ring::ends(&arena);
        let (bells, meeting) = (Bells::new(waits), Rc::new(Meeting::new()));
        let sending = thread::spawn({
            let (sender, bells, meeting) = (sender.clone(), Rc::clone(&bells), Rc::clone(&meeting));
            move || sender(Sending { bells, meeting, ring: to })
        });
        receiver(Receiving { bells, meeting, ring: from });
        sending.join().unwrap();
        drop(arena);
    });
}

#[test]
fn sender_and_receiver_meet() {
    for (waits, preemptions) in [(Waits::Parked, 2), (Waits::Spinning, 5)] {
        meet(
            waits,
            preemptions,
            |mut to| (1..=2).for_each(|n| to.send(n)),
            |from| {
                assert_eq!(from.receive(), Some(1));
                assert_eq!(from.receive(), Some(2));
            },
        );
    }
}

#[test]
fn a_receiver_that_gives_up_loses_nothing() {
    meet(
        Waits::Parked,
        3,
        |mut to| to.send(1),
        |from| {
            let message = from.receive_in_time().or_else(|| from.receive());
            assert_eq!(message, Some(1));
        },
    );
}

#[test]
fn a_receiver_that_only_looks_is_met_or_goes_on() {
    meet(
        Waits::Parked,
        2,
        |mut to| {
            if to.send_in_time(1, 1) {
                to.send(2);
            } else {
                to.send(1);
            }
            to.close();
        },
        |from| {
            let mut expected = 1;
            if let Some(message) = from.try_receive() {
                assert_eq!(message, expected);
                expected += 1;
            }
            while let Some(message) = from.receive() {
                assert_eq!(message, expected);
                expected += 1;
            }
            assert!(expected > 1, "a message was lost");
        },
    );
}

#[test]
fn a_sender_that_gives_a_claim_back_can_claim_again() {
    meet(
        Waits::Parked,
        3,
        |mut to| {
            if to.claim().is_some() {
                to.meeting.unclaim();
                to.bells.attend_receiver();
            }
            to.send(1);
        },
        |from| assert_eq!(from.receive_in_time().or_else(|| from.receive()), Some(1)),
    );
}

#[test]
fn a_sender_that_closes_ends_every_wait() {
    meet(
        Waits::Parked,
        6,
        |mut to| {
            if to.claim().is_some() {
                to.meeting.unclaim();
            }
            to.close();
        },
        |from| assert_eq!(from.receive(), None),
    );
}

/// The sender is a bridge. What it does after its claim depends on what the other node does with the offer.
#[test]
fn an_offer_that_was_lent_is_given_back_or_kept() {
    for gives_back in [true, false] {
        meet(
            Waits::Parked,
            3,
            move |mut to| {
                let bells = Rc::clone(&to.bells);
                let slot = bells.sender_waits(|| to.claim());
                let slot = match (to.meeting.is_left(), gives_back) {
                    (true, true) => {
                        to.meeting.unclaim();
                        bells.attend_receiver();
                        bells.sender_waits(|| to.claim())
                    }
                    (true, false) => {
                        to.meeting.keep();
                        bells.attend_receiver();
                        slot
                    }
                    (false, _) => slot,
                };
                ring::write(&mut to.ring, slot, 1);
                bells.attend_receiver();
            },
            |from| {
                let message = from.receive_in_time_from_afar().or_else(|| from.receive());
                assert_eq!(message, Some(1));
            },
        );
    }
}

/// The sender is a bridge, and the receiver is apart from the slots of a shared channel. It gives up only when the other node
/// has answered.
#[test]
fn a_receiver_that_asks_waits_for_the_answer() {
    for has_message in [true, false] {
        meet(
            Waits::Parked,
            3,
            move |mut to| {
                let bells = Rc::clone(&to.bells);
                let mut slot = bells.sender_waits(|| to.claim());
                if to.meeting.is_left() && !has_message {
                    to.ring.close();
                    to.meeting.unclaim();
                    bells.attend_receiver();
                    slot = bells.sender_waits(|| to.claim());
                }
                ring::write(&mut to.ring, slot, 1);
                bells.attend_receiver();
            },
            move |from| {
                let message = from.ask();
                assert!(message.is_some() || !has_message, "the answer is a message");
                assert_eq!(message.or_else(|| from.receive()), Some(1));
            },
        );
    }
}

/// A receiver that looks hears of each message, and finds it if no other receiver has taken it.
#[test]
fn a_receiver_that_looks_hears_of_a_message() {
    meet(
        Waits::Parked,
        2,
        |mut to| {
            let bells = Rc::clone(&to.bells);
            for _ in 0..2 {
                bells.sender_waits(|| to.meeting.is_looked_at().then_some(()));
                to.meeting.want(true);
                bells.attend_receiver();
                let slot = bells.sender_waits(|| to.claim());
                ring::write(&mut to.ring, slot, 1);
                bells.attend_receiver();
            }
        },
        |from| {
            for _ in 0..2 {
                from.hear();
                assert_eq!(from.ask(), Some(1));
            }
        },
    );
}
