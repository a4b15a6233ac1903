//! Slices that one rank lends to another rank, if both are threads of one process. The borrower copies directly from
//! the lender's memory, so that a message is copied only once.
//!
//! A loan is an offer, not a wait. The lender tells the borrower of it in a separate message, looks for about as long
//! as such a message takes, and withdraws the offer if the borrower has not begun by then. If the borrower has begun,
//! it is in the middle of a copy, and the lender waits for it.
//!
//! ```
//! use onchip::{Channel, Error, ErrorKind, World};
//!
//! World::threads(2).run(|rank| {
//!     if rank.id() == 0 {
//!         let mut offers = rank.sender::<u64>("offers", 1, Channel::degree(1))?;
//!         let mut lender = rank.lender(1, 0).expect("ranks are threads");
//!         // Where it was not taken it must go in another way.
//!         let _taken = lender.lend(&[7; 5000], |number| offers.send(&number).map(|()| true))?;
//!         Ok(())
//!     } else {
//!         let offers = rank.receiver::<u64>("offers", 0, Channel::degree(1))?;
//!         let borrower = rank.borrower(0, 0).expect("ranks are threads");
//!         let mut bytes = [0; 5000];
//!         match offers.receive() {
//!             Ok(number) => assert!(!borrower.take(*number, &mut bytes) || bytes == [7; 5000]),
//!             // A world with fewer cores than ranks does not lend.
//!             Err(error) => assert!(matches!(error.kind(), ErrorKind::Disconnected { .. })),
//!         }
//!         Ok(())
//!     }
//! })?;
//! # Ok::<(), Error>(())
//! ```
//!
//! Addresses of loans are kept in the memory of the process. In a segment, which other processes can write, they could
//! not be trusted, so there are no loans between processes. Only a number that is on offer names a loan, wherever the
//! borrower got the number from.

#[cfg(all(test, loom))]
mod model;
mod slot;
pub(crate) mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use std::{
    ptr::NonNull,
    sync::Arc,
    time::{Duration, Instant},
};

use slot::Slot;
use table::Loans;

use crate::{
    context::Context,
    copy::copy_bytes,
    costs,
    wait::{Backoff, Doing, Operation, Wait},
};

/// How long a lender looks whether the borrower begins, after it has told the borrower: the time in which a line goes
/// to a core with another last-level cache and another line comes back. If that takes longer, offers are in vain, and
/// hardly any are made.
const PATIENCE: Duration = Duration::from_nanos(600);
/// The time from one reading of the clock to the next.
const PER_CLOCK: Duration = Duration::from_nanos(110);

/// The lending end of a rank. See the [module](self).
#[derive(Debug)]
pub struct Lender {
    context: Arc<Context>,
    slot: Arc<Slot>,
    /// The number that was offered last.
    number: u64,
}

/// The borrowing end of a rank. See the [module](self).
#[derive(Debug)]
pub struct Borrower {
    context: Arc<Context>,
    slot: Arc<Slot>,
    from: u32,
}

/// Returns the loans of the world, if the other rank is a thread of this process.
fn of(context: &Context, other: u32) -> Option<&Loans> {
    context.loans.as_deref().filter(|_| context.is_here(other))
}

impl Lender {
    pub(crate) fn open(context: Arc<Context>, to: u32, number: u64) -> Option<Self> {
        let slot = of(&context, to)?.slot(context.me, to, number)?;
        let number = slot.open()?;
        Some(Self { context, slot, number })
    }

    /// Lends a slice until the borrower has copied it or is too late. `tell` must bring the number of the loan to the
    /// borrower. If it returns `false` or fails, the loan ends at once. Returns whether the borrower has copied the
    /// slice.
    ///
    /// While the world has more working threads than cores, nothing is lent and `tell` is not called, because the
    /// borrower may need this core.
    ///
    /// # Errors
    /// The errors of `tell`.
    pub fn lend<E>(
        &mut self,
        bytes: &[u8],
        tell: impl FnOnce(u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.context.crowded() {
            return Ok(false);
        }
        let offer = Offer::new(self, bytes);
        if !tell(offer.number)? {
            return Ok(false);
        }
        offer.look();
        Ok(offer.end())
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.slot.close();
    }
}

/// A slice on offer. When this is dropped, even by a panic, the offer has ended and nobody reads the slice any more.
struct Offer<'a> {
    lender: &'a Lender,
    number: u64,
    ended: bool,
}

impl<'a> Offer<'a> {
    fn new(lender: &'a mut Lender, bytes: &'a [u8]) -> Self {
        lender.number += 1;
        lender.slot.offer(lender.number, NonNull::from(bytes));
        Self { number: lender.number, lender, ended: false }
    }

    /// Looks for a short time whether the borrower begins.
    fn look(&self) {
        let (started, looks) = (Instant::now(), costs::pauses(PER_CLOCK));
        loop {
            for _ in 0..looks {
                if self.lender.slot.has_begun(self.number) {
                    return;
                }
                std::hint::spin_loop();
            }
            if started.elapsed() >= PATIENCE {
                return;
            }
        }
    }

    fn end(mut self) -> bool {
        self.settle()
    }

    /// Withdraws the offer, or waits until the borrower has ended the loan. Returns whether the borrower has copied the
    /// slice.
    fn settle(&mut self) -> bool {
        self.ended = true;
        let Lender { context, slot, .. } = self.lender;
        if slot.withdraw(self.number) {
            return false;
        }
        let doing = Doing { operation: Operation::Send, channel: 0 };
        let mut backoff = Backoff::new();
        loop {
            let look = || slot.outcome(self.number);
            match context.wait(Wait::forever(), doing, slot.line(), slot.asleep(), look) {
                Ok(Some(taken)) => return taken,
                // The world is too broken to sleep in. The borrower still reads, so the lender must wait nevertheless.
                _ => backoff.pause(),
            }
        }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.settle();
        }
    }
}

impl Borrower {
    pub(crate) fn open(context: Arc<Context>, from: u32, number: u64) -> Option<Self> {
        let slot = of(&context, from)?.slot(from, context.me, number)?;
        Some(Self { context, slot, from })
    }

    /// Copies the slice that is lent under this number, if it is still on offer and as long as `into`. Returns whether
    /// it was copied.
    pub fn take(&self, number: u64, into: &mut [u8]) -> bool {
        let Some(lent) = self.slot.claim(number) else { return false };
        let fits = lent.len() == into.len();
        if fits {
            // SAFETY: the address is that of a slice, which the lender keeps borrowed until it has seen the end of the
            // loan, which comes below. So nobody writes the slice, and it does not overlap `into`, which is borrowed
            // exclusively. The claim's Acquire has made its bytes visible.
            unsafe { copy_bytes(lent.cast(), NonNull::from(&mut *into).cast(), lent.len()) };
        }
        let asymmetry = self.context.waiting.asymmetry;
        self.slot.settle(number, fits, asymmetry, || self.context.ring(self.from));
        fits
    }
}
