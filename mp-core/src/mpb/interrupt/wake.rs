//! How threads that wait for interrupts are woken without one.

use super::{signal::Thread, status::Status};
use crate::{context::Context, sync::Ordering};

/// Wakes all ranks that wait for interrupts after a rank is gone: they must look at which ranks are left.
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

/// Wakes the threads that wait for signals. Must be called under the heap's lock, under which threads leave. So a
/// thread number that is signalled does not belong to another thread yet.
pub(super) fn wake_by_signals(status: &Status) {
    for thread in &status.threads {
        let thread = thread.load(Ordering::Relaxed);
        if thread != 0 {
            // Where no signal can be queued, one is: that thread will wake.
            let _ = Thread(thread).signal();
        }
    }
}
