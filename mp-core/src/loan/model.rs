//! A lender and a borrower under a model checker that tries all interleavings and, for every load, all values that the
//! memory model allows.

use std::{ptr::NonNull, rc::Rc};

use loom::thread;

use super::slot::Slot;
use crate::{
    sync::{Futex, RaceMarker, explore},
    wait::{Asymmetry, parked},
};

/// A loan whose bytes are a race marker, which the checker watches. There is only a length, and no address.
struct Memory {
    slot: Slot,
    bytes: RaceMarker,
    bell: Futex,
}

impl Memory {
    fn new() -> Rc<Self> {
        Rc::new(Self { slot: Slot::new(), bytes: RaceMarker::new(), bell: Futex::new() })
    }

    /// Does what [`Lender::lend`](super::Lender::lend) does. Afterwards, only the lender uses the bytes again.
    fn lend(&self, number: u64, len: usize) -> bool {
        self.bytes.writing();
        self.slot.offer(number, NonNull::slice_from_raw_parts(NonNull::dangling(), len));
        let taken = self.slot.withdraw(number).then_some(false).unwrap_or_else(|| {
            parked(&self.bell, self.slot.asleep(), || self.slot.outcome(number))
        });
        self.bytes.writing();
        taken
    }

    /// Does what [`Borrower::take`](super::Borrower::take) does.
    fn take(&self, number: u64, len: usize) -> bool {
        let Some(lent) = self.slot.claim(number) else { return false };
        let fits = lent.len() == len;
        if fits {
            self.bytes.reading();
        }
        let ring = || self.bell.advance_and_wake();
        self.slot.settle(number, fits, Asymmetry::Ordinary, ring);
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

/// The loan is taken or withdrawn, both ends agree on which, and nobody reads the bytes after the end of the loan.
#[test]
fn both_know_whether_it_was_taken() {
    explore(6, || {
        let memory = Memory::new();
        let borrower = borrowing(&memory, |memory| memory.take(1, 8));
        let lent = memory.lend(1, 8);
        assert_eq!(borrower.join().unwrap(), lent);
    });
}

/// A second loan follows the first, even if the first was missed. A number never gets the bytes of another number.
#[test]
fn a_loan_is_not_taken_for_another() {
    explore(4, || {
        let memory = Memory::new();
        let borrower = borrowing(&memory, |memory| [1, 2].map(|n| memory.take(n, n as usize)));
        let lent = [1, 2].map(|n| memory.lend(n, n as usize));
        assert_eq!(borrower.join().unwrap(), lent);
    });
}

/// A borrower that can't use the loan gives it back, and a sleeping lender is woken.
#[test]
fn one_of_another_length_is_given_back() {
    explore(6, || {
        let memory = Memory::new();
        let borrower = borrowing(&memory, |memory| memory.take(1, 9));
        assert!(!memory.lend(1, 8));
        assert!(!borrower.join().unwrap());
    });
}

/// Two borrowers name the same loan, and at most one of them gets it.
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
