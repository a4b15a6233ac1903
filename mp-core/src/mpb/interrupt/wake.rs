//! How threads that wait for interrupts are woken without an interrupt.

use super::{signal::Thread, status::Status};
use crate::{context::Context, sync::Ordering};

/// Wakes all threads that wait for interrupts. This is for the time when a rank is gone, because the other ranks must
/// then check which ranks are left.
pub(in crate::mpb) fn wake_everybody<'a>(
    context: &Context,
    statuses: impl Iterator<Item = (u32, &'a Status)>,
) {
    for word in context.world().iter().flat_map(|world| &world.interrupts) {
        word.advance_and_wake_bits(u32::MAX);
    }
    for (_, status) in statuses.filter(|&(rank, _)| !context.dead(rank)) {
        wake_by_signals(status);
    }
}

/// Wakes the threads that wait for signals. Must be called under the heap's lock. Threads give up their seats under
/// this lock, so each signalled number still belongs to the thread that stored it.
pub(super) fn wake_by_signals(status: &Status) {
    for thread in &status.threads {
        let thread = thread.load(Ordering::Relaxed);
        if thread != 0 {
            // If the queue of signals is full, this thread may have one queued already, which will wake it.
            let _ = Thread(thread).signal();
        }
    }
}
