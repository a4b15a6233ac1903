//! The control blocks of ranks at the beginning of a round: see [`rounds`](super::rounds).

use super::{burial, outcome};
use crate::{
    context::{Context, RankState},
    segment::SegmentError,
    sync::Ordering,
};

/// Notes, before any rank is started, that the ranks of other nodes run. They need not enter the world here.
pub(super) fn await_elsewhere(context: &Context) -> Result<(), SegmentError> {
    context.elsewhere().try_for_each(|rank| {
        context.rank(rank)?.set_state(RankState::Running);
        Ok(())
    })
}

/// Begins the round after this many, when all ranks have left the one before.
pub(super) fn begin_next(context: &Context, rounds: u32) -> Result<(), SegmentError> {
    let world = context.world()?;
    world.end_round();
    for rank in 0..context.size() as u32 {
        if !context.rank(rank)?.renew() {
            burial::miss(context, rank)?;
        }
    }
    for rank in context.elsewhere() {
        outcome::forget(context, rank)?;
    }
    let lives = |rank: &u32| !context.dead(*rank);
    for rank in context.elsewhere().filter(lives) {
        context.rank(rank)?.set_state(RankState::Running);
    }
    // Only now does the next round begin, because no rank's state belongs to the old round any more. Release: pairs with
    // the Acquire in `await_round`.
    world.rounds.store(rounds, Ordering::Release);
    burial::wake_all(context);
    Ok(())
}
