//! Turns of ranks that share cores: one of them has operations executed for a while, and the others
//! let it.
//!
//! Whoever queued up beside it would be handed what it wants while it does not run, and keep it from
//! all others until it does, at the price of two switches for each operation; and two who run would
//! take everything from each other all the time. So a rank that finds another's turn rather sleeps a
//! little. It takes the turn when that one has none of its operations under way, and at last in any
//! case.
//!
//! Nothing but time depends on turns, which is why they are a word that is written without much
//! ado, and why the dead can have them.

use super::site::{Place, Seat, Site, head};

/// How often it is slept, at most: with a [nap](mp_core::memory::Region::nap) about as long as the
/// operating system lets one run.
const NAPS: u32 = 6;

/// A turn, until this is dropped.
pub(super) struct Turn<'a>(&'a Place, Seat);

impl<'a> Turn<'a> {
    #[inline(always)]
    pub(super) fn take(place: &'a Place, me: Seat) -> Self {
        place.take_turn(me);
        Self(place, me)
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end_turn(self.1);
    }
}

/// Before an operation of a seat.
#[inline(never)]
pub(super) fn take(place: &Place, me: Seat) {
    let (turn, mine) = (place.head(head::TURN), me as u64 + 1);
    let seen = turn.peek();
    if seen == mine {
        return;
    }
    if seen != 0 {
        give_way(place);
    }
    turn.set(mine);
}

/// After it.
#[inline(never)]
pub(super) fn end(place: &Place, me: Seat) {
    let turn = place.head(head::TURN);
    // Somebody may have taken it, and has to be left with it: two who take it from each other would
    // both be in the middle of something ever after.
    if turn.peek() == me as u64 + 1 {
        turn.set(0);
    }
}

#[cold]
#[inline(never)]
fn give_way(place: &Place) {
    for _ in 0..NAPS {
        place.region.nap();
        if place.head(head::TURN).peek() == 0 {
            return;
        }
    }
}
