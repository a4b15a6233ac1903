//! A sleeping receiver is woken for every rank that calls and every rank that goes, and never takes a rank that has
//! called for gone.

use std::rc::Rc;

use loom::thread;

use super::{Waits, wait};
use crate::{
    channel::Roll,
    sync::{Futex, explore},
    wait::Flag,
};

/// A flag that does nothing, because the receiver is rung whether it sleeps or not.
struct Nothing;

impl Flag for Nothing {
    fn raise(&self) {}

    fn lower(&self) {}
}

#[test]
fn a_sleeping_receiver_hears_of_callers_and_ends() {
    explore(3, || {
        let (roll, bell) = (Rc::new(Roll::new()), Rc::new(Futex::new()));
        // The ranks do this one after another, because the heap's lock enforces that.
        let others = thread::spawn({
            let (roll, bell) = (Rc::clone(&roll), Rc::clone(&bell));
            move || {
                roll.enter(1);
                bell.advance_and_wake();
                roll.leave(1, false);
                bell.advance_and_wake();
                roll.leave(2, true);
                bell.advance_and_wake();
            }
        });
        let mut heard = 0;
        while !(roll.has_called(1) && roll.absent(2) == Some(true)) {
            wait(Waits::Parked, &bell, &Nothing, || (roll.news() != heard).then_some(()));
            heard = roll.news();
            assert_eq!(roll.absent(1), None, "what it had sent is still to be received");
        }
        others.join().unwrap();
    });
}
