//! The state of the loan of one pair of ranks, and which end may change it in which way.
//!
//! | from | to | by whom |
//! |---|---|---|
//! | `FREE`, `TAKEN` of an earlier number | `OFFERED` n | the lender, when address and length are written |
//! | `OFFERED` n | `FREE` n | the lender, which withdraws it |
//! | `OFFERED` n | `TAKING` n | the borrower: from now on the lender waits |
//! | `TAKING` n | `TAKEN` n | the borrower, which has read what was lent |
//! | `TAKING` n | `FREE` n | the borrower, which can't use it |
//!
//! Each end leaves `OFFERED` by a compare-and-swap, so that only one of the two succeeds. A number is used only once.

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

/// The state of a loan: see the [module](self). `loan` moves between the cores of both ends. `asleep` is on a separate
/// line, which is hardly ever written.
#[derive(Debug)]
pub(super) struct Slot {
    loan: Loan,
    asleep: Asleep,
    /// 1 if the slot has a lender.
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

/// The flag of a lender that sleeps until the borrower ends the loan.
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

    /// Makes the caller the only lender. Returns the number before its first loan. Returns `None` if there is a lender.
    pub(super) fn open(&self) -> Option<u64> {
        // Acquire: pairs with the Release in `close`: this sees the last state of the previous lender.
        self.lent_from.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(self.loan.state.load(Ordering::Relaxed) >> 2)
    }

    pub(super) fn close(&self) {
        self.lent_from.store(0, Ordering::Release);
    }

    /// Offers `bytes`, which must not change until the end of the loan.
    pub(super) fn offer(&self, number: u64, bytes: NonNull<[u8]>) {
        self.loan.address.store(bytes.as_ptr().cast(), Ordering::Relaxed);
        self.loan.len.store(bytes.len() as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `claim`.
        self.loan.state.store(word(number, OFFERED), Ordering::Release);
    }

    /// Returns whether the borrower has begun.
    pub(super) fn has_begun(&self, number: u64) -> bool {
        // Relaxed: the caller only calls `withdraw` next.
        self.loan.state.load(Ordering::Relaxed) != word(number, OFFERED)
    }

    /// Withdraws the offer. Returns false if the borrower has begun.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        let (offered, free) = (word(number, OFFERED), word(number, FREE));
        // Relaxed: nobody has accessed the offered bytes, and nobody will.
        let state = &self.loan.state;
        state.compare_exchange(offered, free, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the borrower has copied the bytes, or `None` if it is not done. Must be called only after the
    /// borrower has begun.
    pub(super) fn outcome(&self, number: u64) -> Option<bool> {
        // Acquire: pairs with the Release in `settle`: the lender's later writes to the bytes come after the borrower's
        // reads.
        let state = self.loan.state.load(Ordering::Acquire);
        (state != word(number, TAKING)).then_some(state == word(number, TAKEN))
    }

    pub(super) fn asleep(&self) -> &impl Flag {
        &self.asleep
    }

    /// Returns the address to which the borrower writes at the end of the loan.
    pub(super) fn line(&self) -> *const () {
        std::ptr::from_ref(&self.loan.state).cast()
    }

    // --- the borrower ---

    /// Begins to take a loan, if it is offered. The bytes stay unchanged until `settle`.
    pub(super) fn claim(&self, number: u64) -> Option<NonNull<[u8]>> {
        let (offered, taking) = (word(number, OFFERED), word(number, TAKING));
        // Acquire: pairs with the Release in `offer`: this sees the address, the length, and the bytes.
        let state = &self.loan.state;
        state.compare_exchange(offered, taking, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let address = NonNull::new(self.loan.address.load(Ordering::Relaxed))?;
        let len = self.loan.len.load(Ordering::Relaxed) as usize;
        Some(NonNull::slice_from_raw_parts(address, len))
    }

    /// Ends the loan that [`claim`](Self::claim) has begun. `ring` wakes a lender that sleeps.
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
