//! A lender and a borrower under a model checker that tries all interleavings, and for every load
//! all values that the memory model allows.

use std::{ptr::NonNull, rc::Rc};

use loom::thread;

use super::slot::Slot;
use crate::{
    sync::{Futex, RaceMarker, explore},
    wait::{Asymmetry, parked},
};

/// What is lent: a length, in place of an address. The checker watches the marker.
struct Memory {
    slot: Slot,
    bytes: RaceMarker,
    bell: Futex,
}

impl Memory {
    fn new() -> Rc<Self> {
        Rc::new(Self { slot: Slot::new(), bytes: RaceMarker::new(), bell: Futex::new() })
    }

    /// As [`Lender::lend`](super::Lender::lend) does, which has the bytes for itself again.
    fn lend(&self, number: u64, len: usize) -> bool {
        self.bytes.writing();
        self.slot.offer(number, NonNull::slice_from_raw_parts(NonNull::dangling(), len));
        let taken = self.slot.withdraw(number).then_some(false).unwrap_or_else(|| {
            parked(&self.bell, self.slot.asleep(), || self.slot.outcome(number))
        });
        self.bytes.writing();
        taken
    }

    /// As [`Borrower::take`](super::Borrower::take) does.
    fn take(&self, number: u64, len: usize) -> bool {
        let Some(lent) = self.slot.claim(number) else { return false };
        let fits = lent.len() == len;
        if fits {
            self.bytes.reading();
        }
        let ring = || self.bell.advance_and_wake();
        self.slot.settle(number, fits, Asymmetry::ORDINARY, ring);
        fits
    }
}

fn borrowing<T: 'static>(
    memory: &Rc<Memory>,
    code: impl FnOnce(&Memory) -> T + 'static,
) -> thread::JoinHandle<T> {
    let memory = Rc::clone(memory);
    thread::spawn(move || code(&memory))
}

/// It is taken or withdrawn, both agree which, and nobody reads what its owner has back.
#[test]
fn both_know_whether_it_was_taken() {
    explore(6, || {
        let memory = Memory::new();
        let borrower = borrowing(&memory, |memory| memory.take(1, 8));
        let lent = memory.lend(1, 8);
        assert_eq!(borrower.join().unwrap(), lent);
    });
}

/// One after another, also when the first was missed: a number never gets what another names.
#[test]
fn a_loan_is_not_taken_for_another() {
    explore(4, || {
        let memory = Memory::new();
        let borrower = borrowing(&memory, |memory| [1, 2].map(|n| memory.take(n, n as usize)));
        let lent = [1, 2].map(|n| memory.lend(n, n as usize));
        assert_eq!(borrower.join().unwrap(), lent);
    });
}

/// A borrower that has no use for it gives it back, and a lender that sleeps hears of that.
#[test]
fn one_of_another_length_is_given_back() {
    explore(6, || {
        let memory = Memory::new();
        let borrower = borrowing(&memory, |memory| memory.take(1, 9));
        assert!(!memory.lend(1, 8));
        assert!(!borrower.join().unwrap());
    });
}

/// Two that name the same: at most one gets it.
#[test]
fn it_is_taken_once() {
    explore(4, || {
        let memory = Memory::new();
        let borrowers = [(); 2].map(|()| borrowing(&memory, |memory| memory.take(1, 8)));
        let lent = memory.lend(1, 8);
        let taken = borrowers.map(|borrower| borrower.join().unwrap());
        assert_eq!(taken.iter().filter(|&&taken| taken).count(), usize::from(lent));
    });
}
