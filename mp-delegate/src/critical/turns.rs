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

use std::{thread::yield_now, time::Duration};

use super::site::{Place, Seat, Site, head};

/// Looks before the first nap, others running between them: whoever has the turn may be about to end
/// it.
const LOOKS: u32 = 3;
/// Naps between further looks, in microseconds: together some of the times that the operating system
/// lets one run.
const NAPS: [u64; 6] = [50, 100, 200, 400, 400, 400];

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
    let is_over = || place.head(head::TURN).peek() == 0;
    for _ in 0..LOOKS {
        yield_now();
        if is_over() {
            return;
        }
    }
    for nap in NAPS {
        place.region.nap(Duration::from_micros(nap));
        if is_over() {
            return;
        }
    }
}
