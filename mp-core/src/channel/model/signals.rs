//! No thread misses an event that should wake it.

use std::rc::Rc;

use loom::thread;

use super::{Bells, Waits, attend, wait};
use crate::{
    channel::signals::{Signals, Sticky},
    sync::{AtomicU64, Futex, Ordering, explore},
};

#[test]
fn a_message_wakes_a_parked_receiver() {
    explore(6, || {
        let bells = Bells::new(Waits::Parked);
        let published = Rc::new(AtomicU64::new(0));
        let sending = thread::spawn({
            let (bells, published) = (Rc::clone(&bells), Rc::clone(&published));
            move || {
                published.store(1, Ordering::Release);
                bells.attend_receiver();
            }
        });
        bells.receiver_waits(|| (published.load(Ordering::Acquire) == 1).then_some(()));
        sending.join().unwrap();
    });
}

#[test]
fn every_message_wakes_a_receiver_that_parks_again() {
    explore(6, || {
        let bells = Bells::new(Waits::Parked);
        let published = Rc::new(AtomicU64::new(0));
        let sending = thread::spawn({
            let (bells, published) = (Rc::clone(&bells), Rc::clone(&published));
            move || {
                for n in 1..=2 {
                    published.store(n, Ordering::Release);
                    bells.attend_receiver();
                }
            }
        });
        for n in 1..=2 {
            bells.receiver_waits(|| (published.load(Ordering::Acquire) >= n).then_some(()));
        }
        sending.join().unwrap();
    });
}

#[test]
fn both_ends_can_wait_for_each_other() {
    explore(6, || {
        let bells = Bells::new(Waits::Parked);
        let there = Rc::new(AtomicU64::new(0));
        let back = Rc::new(AtomicU64::new(0));
        let sending = thread::spawn({
            let (bells, there, back) = (Rc::clone(&bells), Rc::clone(&there), Rc::clone(&back));
            move || {
                there.store(1, Ordering::Release);
                bells.attend_receiver();
                bells.sender_waits(|| (back.load(Ordering::Acquire) == 1).then_some(()));
            }
        });
        bells.receiver_waits(|| (there.load(Ordering::Acquire) == 1).then_some(()));
        back.store(1, Ordering::Release);
        bells.attend_sender();
        sending.join().unwrap();
    });
}

/// Closing one end of a channel wakes the other end without a look at its flag.
#[test]
fn the_end_wakes_whoever_waits() {
    explore(6, || {
        let bells = Bells::new(Waits::Parked);
        let closing = thread::spawn({
            let bells = Rc::clone(&bells);
            move || {
                bells.signals.for_receiver.raise_gone();
                bells.receiver.advance_and_wake();
            }
        });
        bells.receiver_waits(|| bells.signals.for_receiver.ended().then_some(()));
        closing.join().unwrap();
    });
}

/// Two receivers share one flag, and each of them gets one of two messages.
#[test]
fn a_shared_flag_wakes_all_who_raised_it() {
    explore(3, || {
        let signals = Rc::new(Signals::new());
        let published = Rc::new(AtomicU64::new(0));
        let bells = Rc::new([Futex::new(), Futex::new()]);
        let receiving = |me: usize| {
            let (signals, published, bells) =
                (Rc::clone(&signals), Rc::clone(&published), Rc::clone(&bells));
            move || {
                wait(Waits::Parked, &bells[me], &Sticky(&signals.for_sender), || {
                    published
                        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
                        .ok()
                });
            }
        };
        let other = thread::spawn(receiving(1));
        let sending = thread::spawn({
            let (signals, published, bells) =
                (Rc::clone(&signals), Rc::clone(&published), Rc::clone(&bells));
            move || {
                for _ in 0..2 {
                    published.fetch_add(1, Ordering::Release);
                    attend(Waits::Parked, &signals.for_sender, &[&bells[0], &bells[1]]);
                }
            }
        });
        receiving(0)();
        other.join().unwrap();
        sending.join().unwrap();
    });
}
