//! Degree 0: the sender writes a message only after it has met the receiver.
//!
//! | `offer` | meaning | next |
//! |---|---|---|
//! | `NONE` | no receiver waits | the receiver offers |
//! | `OFFERED` | a receiver waits | a sender claims, or the receiver takes it back |
//! | `CLAIMED` | a sender writes for the receiver | the message is published, or the claim is dropped |
//! | `LEFT` | the same, but the receiver has given up | the receiver comes again, or the claim is dropped |
//!
//! 1. The receiver offers, and rings a parked sender.
//! 2. The sender claims the offer.
//! 3. The sender writes the one slot and publishes its sequence word, as in `ring.rs`.
//! 4. The receiver sees the word and sets the offer back.
//!
//! A receiver that gives up changes `OFFERED` to `NONE`. If this fails, a sender has claimed the offer, and its message
//! follows, mostly at once. If that sender takes longer to fill the slot, the receiver does not wait for it. Its
//! message is then the next one that is received. `wanted` tells receivers that look without waiting that a sender
//! waits.
//!
//! Source: the synchronous channels of Buono et al., section IV.A; Hoare's CSP.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU32, Ordering};

const NONE: u32 = 0;
const OFFERED: u32 = 1;
const CLAIMED: u32 = 2;
const LEFT: u32 = 3;

/// The words on which the ends of a rendezvous agree.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Meeting {
    offer: CachePadded<AtomicU32>,
    wanted: CachePadded<AtomicU32>,
}

impl Meeting {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            offer: CachePadded::new(AtomicU32::new(NONE)),
            wanted: CachePadded::new(AtomicU32::new(0)),
        }
    }

    fn change(&self, from: u32, to: u32) -> Result<u32, u32> {
        // Release and Acquire for the same reasons as in `offer` and `claim`.
        self.offer.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
    }

    /// Makes the offer of a receiver that waits.
    pub(crate) fn offer(&self) {
        // After a receiver has given up, the sender that claimed its offer may still be writing.
        if self.change(LEFT, CLAIMED).is_err() {
            // Release: pairs with the Acquire in `claim`: the receiver's reads of the last message come before the
            // sender's writes of the next.
            self.offer.store(OFFERED, Ordering::Release);
        }
    }

    /// Takes the receiver's offer back. Returns false if a sender has claimed the offer; its message may still come.
    pub(crate) fn withdraw(&self) -> bool {
        loop {
            match self.change(OFFERED, NONE) {
                // The sender has given its claim up in the meantime, so the offer can be withdrawn.
                Err(CLAIMED) if self.change(CLAIMED, LEFT) == Err(OFFERED) => {}
                Err(CLAIMED | LEFT) => return false,
                _ => return true,
            }
        }
    }

    /// Sets the offer back, after the receiver has got its message.
    pub(crate) fn met(&self) {
        self.offer.store(NONE, Ordering::Relaxed);
    }

    /// Returns, to the receiver, whether a sender waits for an offer.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Notes whether the sender waits for an offer.
    pub(crate) fn want(&self, waiting: bool) {
        self.wanted.store(waiting.into(), Ordering::Relaxed);
    }

    /// Returns, to the sender, whether there is an offer.
    pub(crate) fn offered(&self) -> bool {
        self.offer.load(Ordering::Relaxed) == OFFERED
    }

    /// Takes the offer for the sender, if there is one. Returns whether there was.
    pub(crate) fn claim(&self) -> bool {
        self.offered()
            && self
                .offer
                // Acquire: pairs with the Release in `offer`.
                .compare_exchange(OFFERED, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Gives the sender's claim back without a message.
    pub(crate) fn unclaim(&self) {
        // The receiver can give up or come back between the two changes.
        while self.change(CLAIMED, OFFERED) == Err(LEFT) && self.change(LEFT, NONE) == Err(CLAIMED)
        {
        }
    }

    /// Returns the address that a sender's wait for an offer should watch.
    pub(crate) fn watched(&self) -> *const () {
        std::ptr::from_ref(&*self.offer).cast()
    }
}
