//! The state of one pair's loan, and which end may change it to what.
//!
//! | from | to | by whom |
//! |---|---|---|
//! | `FREE`, `TAKEN` of an earlier number | `OFFERED` n | the lender, when address and length are written |
//! | `OFFERED` n | `FREE` n | the lender, which withdraws it |
//! | `OFFERED` n | `TAKING` n | the borrower: from now on the lender waits |
//! | `TAKING` n | `TAKEN` n | the borrower, which has read what was lent |
//! | `TAKING` n | `FREE` n | the borrower, which can't use it |
//!
//! Each end is sure of `OFFERED` only by the compare-and-swap that leaves it, so that exactly one of them does that. A
//! number is used once.

use std::ptr::NonNull;

use crate::{
    sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
    wait::{Asymmetry, Flag},
};

const FREE: u64 = 0;
const OFFERED: u64 = 1;
const TAKING: u64 = 2;
const TAKEN: u64 = 3;

fn word(number: u64, phase: u64) -> u64 {
    number << 2 | phase
}

/// The state of a loan: see the [module](self). One of its lines moves between the two ends, and another one hardly
/// ever does.
#[derive(Debug)]
pub(super) struct Slot {
    loan: Loan,
    asleep: Asleep,
    /// Whether the slot has a lender.
    lent_from: AtomicU32,
}

#[derive(Debug)]
#[repr(C, align(128))]
struct Loan {
    state: AtomicU64,
    /// The address and the length belong to the lender, except while the state is `TAKING`. They are atomic because
    /// they lie in the same line as the state, which orders them.
    address: AtomicPtr<u8>,
    len: AtomicU64,
}

/// Raised by a lender that sleeps until what it lent is given back.
#[derive(Debug)]
#[repr(align(128))]
struct Asleep(AtomicU32);

impl Slot {
    pub(super) fn new() -> Self {
        let address = AtomicPtr::new(std::ptr::null_mut());
        let loan = Loan { state: AtomicU64::new(0), address, len: AtomicU64::new(0) };
        Self { loan, asleep: Asleep(AtomicU32::new(0)), lent_from: AtomicU32::new(0) }
    }

    // --- the lender ---

    /// Becomes the only lender. Returns the number before its first one.
    pub(super) fn open(&self) -> Option<u64> {
        // Acquire: pairs with the Release in `close`. Its last state is seen.
        self.lent_from.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(self.loan.state.load(Ordering::Relaxed) >> 2)
    }

    pub(super) fn close(&self) {
        self.lent_from.store(0, Ordering::Release);
    }

    /// Offers `bytes`. From here to the end of the loan they must stay as they are.
    pub(super) fn offer(&self, number: u64, bytes: NonNull<[u8]>) {
        self.loan.address.store(bytes.as_ptr().cast(), Ordering::Relaxed);
        self.loan.len.store(bytes.len() as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `claim`.
        self.loan.state.store(word(number, OFFERED), Ordering::Release);
    }

    /// Returns whether the borrower has begun.
    pub(super) fn has_begun(&self, number: u64) -> bool {
        // Relaxed: what follows from it is `withdraw`.
        self.loan.state.load(Ordering::Relaxed) != word(number, OFFERED)
    }

    /// Withdraws the offer, unless the borrower has begun. Returns whether it did.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        let (offered, free) = (word(number, OFFERED), word(number, FREE));
        // Relaxed: nobody has looked at what was offered, and nobody will.
        let state = &self.loan.state;
        state.compare_exchange(offered, free, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the borrower took what was lent, when it has ended. Must be called only after the borrower has
    /// begun.
    pub(super) fn outcome(&self, number: u64) -> Option<bool> {
        // Acquire: pairs with the Release in `settle`. Whatever is done with the bytes now comes
        // after the borrower's reads.
        let state = self.loan.state.load(Ordering::Acquire);
        (state != word(number, TAKING)).then_some(state == word(number, TAKEN))
    }

    pub(super) fn asleep(&self) -> &impl Flag {
        &self.asleep
    }

    /// Returns the address that the borrower writes at the end.
    pub(super) fn line(&self) -> *const () {
        std::ptr::from_ref(&self.loan.state).cast()
    }

    // --- the borrower ---

    /// Begins to take a loan, if it is offered. The bytes stay unchanged until `settle`.
    pub(super) fn claim(&self, number: u64) -> Option<NonNull<[u8]>> {
        let (offered, taking) = (word(number, OFFERED), word(number, TAKING));
        // Acquire: pairs with the Release in `offer`. Address, length, and the bytes are seen.
        let state = &self.loan.state;
        state.compare_exchange(offered, taking, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let address = NonNull::new(self.loan.address.load(Ordering::Relaxed))?;
        let len = self.loan.len.load(Ordering::Relaxed) as usize;
        Some(NonNull::slice_from_raw_parts(address, len))
    }

    /// Ends what [`claim`](Self::claim) has begun. `ring` wakes a lender that sleeps.
    pub(super) fn settle(
        &self,
        number: u64,
        taken: bool,
        asymmetry: Asymmetry,
        ring: impl FnOnce(),
    ) {
        let phase = if taken { TAKEN } else { FREE };
        // Release: pairs with the Acquire in `outcome`.
        self.loan.state.store(word(number, phase), Ordering::Release);
        asymmetry.light();
        if self.asleep.0.load(Ordering::Relaxed) != 0 {
            ring();
        }
    }
}

impl Flag for Asleep {
    fn raise(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn lower(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
