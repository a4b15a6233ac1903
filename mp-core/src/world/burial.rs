//! The steps in the world when a rank ends.
//!
//! *Lost* and *dead* are different. A rank that panicked is lost, but its process still runs, so it keeps its memory
//! and locks. A rank is dead when its process has ended, as its pidfd shows; then others may take the heap's lock from
//! it. A rank that crashed is lost while its core is written (`dumps.rs`), and dead after that. Ranks die with their
//! launcher, and the segment ends with the last process that holds it. So nothing is left, whichever process is killed.

use super::renewal;
use crate::{
    channel::{self, Farewell, Roll},
    context::{Context, RankState},
    mpb,
    named::{Leaving, Named},
    segment::{BlockKind, SegmentError},
    sync::Ordering,
};

/// Marks a rank as ended, removes it from its channels and MPBs, and wakes every rank that may wait for it. `context`
/// may be that of any rank of the world.
///
/// The state is set first, so that a rank that opens the other end of a channel from now on sees it.
pub(crate) fn end(context: &Context, rank: u32, state: RankState) -> Result<(), SegmentError> {
    context.rank(rank)?.set_state(state);
    let lost = state == RankState::Lost;
    if lost {
        context.world()?.tell_news();
    }
    let retired = retire(context, rank, Leaving { lost, released: false });
    context.ring_all();
    retired
}

/// Takes a rank that has ended out of everything that ranks have opened by a name, and deletes the note of its CPU.
fn retire(context: &Context, rank: u32, ended: Leaving) -> Result<(), SegmentError> {
    context.apart(rank)?.leave();
    let mut heap = context.lock_heap()?;
    for block in heap.blocks()?.iter().filter(|block| block.settled) {
        let retire = match block.kind {
            BlockKind::Channel => channel::Descriptor::retire,
            BlockKind::Farewell => Farewell::retire,
            BlockKind::Roll => Roll::retire,
            BlockKind::Mpbs => mpb::Descriptor::retire,
            _ => continue,
        };
        retire(context, &mut heap, block.key, rank, ended)?;
    }
    Ok(())
}

/// Frees the memory that a rank held. The rank's process must be gone, so that none of its threads can access the
/// world's memory any more. Marks the rank as lost if it had not ended before.
pub(crate) fn bury(context: &Context, rank: u32) -> Result<(), SegmentError> {
    let control = context.rank(rank)?;
    // This comes first, because the rank may have died with the heap's lock, even after its code had ended.
    control.set_dead();
    context.bury_helpers(rank)?;
    if control.state() == RankState::Expected {
        renewal::miss(context, rank)?;
        context.ring_all();
    } else if !control.state().ended() {
        control.set_state(RankState::Lost);
        context.world()?.tell_news();
        // This wakes the survivors before the slower work below, so that their waits end now.
        context.ring_all();
    }
    let lost = control.state() == RankState::Lost;
    retire(context, rank, Leaving { lost, released: true })?;
    context.ring_all();
    let held = context.held_by(rank)?;
    let outcome = control.outcome.load(Ordering::Acquire);
    let mut heap = context.lock_heap()?;
    let blocks = heap.blocks()?;
    let unsettled = blocks
        .iter()
        .filter(|block| block.owner == rank && !block.settled && block.key.word() != outcome)
        .map(|block| block.key);
    for key in held.into_iter().chain(unsettled) {
        heap.free(key)?;
    }
    drop(heap);
    for table in &control.tables {
        table.store(0, Ordering::Relaxed);
    }
    // The others may have waited only for this rank to leave the round.
    let left = context.world()?.rounds.load(Ordering::Relaxed).wrapping_add(1);
    renewal::end_round(context, left)
}

/// Tells the other ranks that a rank is lost whose code has crashed, before its process has ended. The rank's memory is
/// freed only by [`bury`]. Returns false if the others can't be told yet.
pub(crate) fn announce(context: &Context, rank: u32) -> Result<bool, SegmentError> {
    if context.rank(rank)?.state() != RankState::Running {
        return Ok(true);
    }
    // No rank could take the lock over before the burial, and the burial comes after this call.
    if context.segment.heap().holder() == Some(rank) {
        return Ok(false);
    }
    // The failure is noted before other ranks fail because of it.
    context.world()?.note_failure(rank);
    end(context, rank, RankState::Lost)?;
    Ok(true)
}
