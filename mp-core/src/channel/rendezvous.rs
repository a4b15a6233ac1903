//! Degree 0: the sender writes a message only after it has met the receiver.
//!
//! | `offer` | meaning | next |
//! |---|---|---|
//! | `NONE` | no receiver waits | the receiver offers |
//! | `OFFERED` | a receiver waits | a sender claims, or the receiver takes it back |
//! | `CLAIMED` | a sender writes for the receiver | the message is published, or the claim is dropped |
//! | `LEFT` | the same, but the receiver has given up | the receiver comes again, or the claim is dropped |
//! | `KEPT` | the same, and the receiver knows that a message may still come | the same |
//! | `ASKED` | a receiver of a shared channel asks for a message, and has given up | a bridge claims: → `LEFT` |
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
//! If the sender is on another node, a [`Bridge`](crate::bridge::Bridge) claims the offer as soon as it is made, and the
//! other node makes it to the sender. A receiver that gives up then waits until the bridge has got the offer back, or knows
//! that the sender has claimed it, which is `KEPT`.
//!
//! A sender of a shared channel whose slots are on another node meets the bridge of its own node, for which that of the other
//! one has claimed a slot. It can also *ask* for an offer, and gets an answer at once. A receiver of such a channel always
//! asks: when it gives up, it waits until its offer was claimed and is given back, or met. It looks without an offer by the word
//! `wanted`:
//!
//! | `wanted` | meaning | next |
//! |---|---|---|
//! | `NONE` | the receiver knows of no message | it looks: → `LOOKS` |
//! | `LOOKS` | it wants to hear when there is one | the bridge has heard of one: → `WAITS` |
//! | `WAITS` | there may be one | the receiver makes an offer: → `NONE` |
//!
//! Source: the synchronous channels of Buono et al., section IV.A; Hoare's CSP.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU32, Ordering};

const NONE: u32 = 0;
const OFFERED: u32 = 1;
const CLAIMED: u32 = 2;
const LEFT: u32 = 3;
const KEPT: u32 = 4;
const ASKED: u32 = 5;

/// The values of `wanted`: of a sender that waits, or of one that asks; and of a receiver that looks.
const WAITS: u32 = 1;
const ASKS: u32 = 2;
const LOOKS: u32 = 3;

/// Whether a sender wants an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Want {
    /// It does not.
    No,
    /// It waits for one.
    Waits,
    /// It waits for one, or for the answer that there is none.
    Asks,
}

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
        let come_back = match self.change(LEFT, CLAIMED) {
            Err(KEPT) => self.change(KEPT, CLAIMED),
            changed => changed,
        };
        if come_back.is_err() {
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
                Err(CLAIMED | LEFT | KEPT) => return false,
                _ => return true,
            }
        }
    }

    /// Asks for the offer back, as a receiver of a shared channel. Returns whether it was given back without a message.
    pub(crate) fn recall(&self) -> bool {
        // An offer that is not claimed yet stays, because the other node has not looked for a message.
        if self.change(OFFERED, ASKED) == Err(CLAIMED) {
            let _ = self.change(CLAIMED, LEFT);
        }
        self.offer.load(Ordering::Relaxed) == NONE
    }

    /// Looks, as a receiver of a shared channel, whether there may be a message. Returns `None` if there seems to be none and
    /// the bridge is to be told that this receiver wants to hear of one.
    pub(crate) fn looks(&self) -> Option<bool> {
        match self.wanted.load(Ordering::Relaxed) {
            NONE => self
                .wanted
                .compare_exchange(NONE, LOOKS, Ordering::Relaxed, Ordering::Relaxed)
                .err()
                .map(|now| now == WAITS),
            now => Some(now == WAITS),
        }
    }

    /// Forgets, as a receiver of a shared channel that now makes an offer, that there may be a message.
    pub(crate) fn unheard(&self) {
        let _ = self.wanted.compare_exchange(WAITS, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns, to the bridge, whether a receiver of a shared channel wants to hear of a message.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == LOOKS
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

    /// Notes that the sender waits for an offer, or for the answer that there is none.
    pub(crate) fn ask(&self) {
        self.wanted.store(ASKS, Ordering::Relaxed);
    }

    /// Answers a sender that asks: there is no offer.
    pub(crate) fn refuse(&self) {
        let _ = self.wanted.compare_exchange(ASKS, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether the sender wants an offer.
    pub(crate) fn want_of_sender(&self) -> Want {
        match self.wanted.load(Ordering::Relaxed) {
            0 => Want::No,
            ASKS => Want::Asks,
            _ => Want::Waits,
        }
    }

    /// Returns, to the sender, whether there is an offer.
    pub(crate) fn offered(&self) -> bool {
        self.offer.load(Ordering::Relaxed) == OFFERED
    }

    /// Takes the offer for the sender, if there is one. Returns whether there was.
    pub(crate) fn claim(&self) -> bool {
        let take = |from, to| {
            self.offer.load(Ordering::Relaxed) == from
                // Acquire: pairs with the Release in `offer`.
                && self.offer.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        // A receiver that gives up in between has changed the one to the other.
        take(OFFERED, CLAIMED) || take(ASKED, LEFT)
    }

    /// Returns, to the sender that has claimed the offer, whether the receiver has given up.
    pub(crate) fn is_left(&self) -> bool {
        self.offer.load(Ordering::Relaxed) == LEFT
    }

    /// Gives the sender's claim back without a message.
    pub(crate) fn unclaim(&self) {
        let mut seen = CLAIMED;
        // The receiver can give up or come back between two changes.
        while let Err(now @ (CLAIMED | LEFT | KEPT)) =
            self.change(seen, if seen == CLAIMED { OFFERED } else { NONE })
        {
            seen = now;
        }
    }

    /// Tells the receiver, if it has given up, that a message may still come.
    pub(crate) fn keep(&self) {
        let _ = self.change(LEFT, KEPT);
    }

    /// Returns, to the receiver that has given up, whether a message may still come.
    pub(crate) fn is_kept(&self) -> bool {
        self.offer.load(Ordering::Relaxed) == KEPT
    }

    /// Returns the address that a sender's wait for an offer should watch.
    pub(crate) fn watched(&self) -> *const () {
        std::ptr::from_ref(&*self.offer).cast()
    }
}
