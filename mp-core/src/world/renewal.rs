//! The end of a round and the beginning of the next one: see [`rounds`](super::rounds).
//!
//! A round is over on a node when each of its ranks has left it or never will. Each rank that leaves, and each burial of
//! one that can't, looks for this afterwards. So the last of them sees it. The first one that sees it begins the next
//! round, or has that done where the world has several nodes.

use super::outcome;
use crate::{
    context::{Context, RankControl, RankState},
    segment::SegmentError,
    sync::{AtomicU32, Ordering, fence},
};

/// Ends the current round, if it is over and no other caller has ended it. A rank that leaves it has left this many rounds.
pub(super) fn end_round(context: &Context, left: u32) -> Result<(), SegmentError> {
    let world = context.world()?;
    let here = context.here().map(|rank| context.rank(rank)).collect::<Result<Vec<_>, _>>()?;
    let is_over = || {
        // If all ranks are dead, no rank waits for another round, and the launcher still reads the states of this one.
        let stays =
            |rank: &RankControl| rank.left.load(Ordering::Relaxed) >= left && !rank.is_dead();
        here.iter().any(|rank| stays(rank)) && !here.iter().any(|rank| keeps_open(rank, left))
    };
    if !is_first(&world.seen_over, left, is_over) {
        return Ok(());
    }
    match context.is_divided() {
        // Release: pairs with the Acquire in `Bridge::left`.
        true => world.left_here.store(left, Ordering::Release),
        false => begin_next(context, left)?,
    }
    Ok(())
}

/// Returns whether the round is over, to the first caller to which it is. The caller has just stored that a rank has left
/// or is dead. Of two callers at the same time, at least one sees both stores.
fn is_first(seen_over: &AtomicU32, left: u32, is_over: impl FnOnce() -> bool) -> bool {
    fence(Ordering::SeqCst);
    // AcqRel: the next call for the next round comes after all that this one has seen.
    is_over()
        && seen_over
            .compare_exchange(left.wrapping_sub(1), left, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}

/// Returns whether the others must wait until this rank of their node leaves the round.
fn keeps_open(rank: &RankControl, left: u32) -> bool {
    // Acquire: pairs with the Release in `depart`.
    rank.left.load(Ordering::Acquire) < left && !rank.is_dead()
}

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
            miss(context, rank)?;
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
    context.ring_all();
    Ok(())
}

/// Marks a rank as lost that will never enter the round. First removes its outcome of an earlier round, which would
/// otherwise be taken for that of this round.
pub(crate) fn miss(context: &Context, rank: u32) -> Result<(), SegmentError> {
    outcome::forget(context, rank)?;
    context.rank(rank)?.set_state(RankState::Lost);
    context.world()?.tell_news();
    Ok(())
}

#[cfg(all(test, loom))]
mod model {
    use std::rc::Rc;

    use loom::thread;

    use super::*;
    use crate::sync::explore;

    /// Two ranks leave a round, and the process of a third one ends.
    #[test]
    fn one_of_those_who_leave_or_bury_ends_the_round() {
        explore(2, || {
            let [seen_over, dead] = [(); 2].map(|()| Rc::new(AtomicU32::new(0)));
            let left: [_; 2] = std::array::from_fn(|_| Rc::new(AtomicU32::new(0)));
            let end = {
                let (seen_over, dead, left) = (seen_over.clone(), dead.clone(), left.clone());
                move || {
                    is_first(&seen_over, 1, || {
                        left.iter().all(|left| left.load(Ordering::Acquire) == 1)
                            && dead.load(Ordering::Acquire) == 1
                    })
                }
            };
            let ends: Vec<_> = left
                .iter()
                .chain([&dead])
                .map(|own| {
                    let (own, end) = (Rc::clone(own), end.clone());
                    thread::spawn(move || {
                        own.store(1, Ordering::Release);
                        end()
                    })
                })
                .collect();
            let ended = ends.into_iter().filter_map(|thread| thread.join().unwrap().then_some(()));
            assert_eq!(ended.count(), 1);
        });
    }
}
