//! What the two ends of a lane share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use crossbeam_utils::CachePadded;

use super::{bell::Bell, node::Pool};
use crate::{
    context::Context,
    sync::{AtomicU32, AtomicU64, Ordering},
    wait::Asymmetry,
};

/// The server sleeps: ring its bell after the next submission.
pub(super) const PARKED: u32 = 1;
/// The server takes no more submissions. What is submitted nevertheless is carried out.
pub(super) const OFF: u32 = 2;
/// There is no server any more. What is submitted nevertheless must be taken back.
pub(super) const GONE: u32 = 4;

/// Nothing more is submitted.
pub(super) const CLOSED: u32 = 1;
/// What has not been sent yet must not be sent.
pub(super) const CANCELLED: u32 = 2;

/// The range of positions that a lane's nodes can express: see [`FAR`](super::node::FAR).
pub(super) const NEAR: u64 = 1 << 31;

/// What the two ends of a lane and the holders of its requests share.
pub(super) struct Shared {
    /// The word at which the submitter looks: `PARKED`, `OFF`, `GONE`.
    pub(super) for_feeder: CachePadded<AtomicU32>,
    /// The word at which the server looks: `CLOSED`, `CANCELLED`.
    pub(super) for_server: CachePadded<AtomicU32>,
    /// 1 + the number of the node that the server is about to send or is just sending; 0 for none. Only the server
    /// writes it.
    ///
    /// A holder that wants to take a cargo back writes this wish into its node, and then looks here. The server writes
    /// here, and then looks at the node's wish. One of the two sees the other ([`Asymmetry`]), so that sending takes no
    /// locked instruction.
    pub(super) serving: CachePadded<AtomicU32>,
    /// The position in the last node that was marked as far.
    pub(super) far: AtomicU64,
    /// Not 0 when nothing submitted is left and no thread will serve the lane any more.
    pub(super) ended: AtomicU32,
    pub(super) pool: Pool,
    /// The context of the sending end's rank, which waits for requests at its doorbell.
    pub(super) context: Arc<Context>,
    /// The channel, for reports.
    pub(super) channel: u64,
    /// The server's asymmetry, which is fixed between it and the submitter.
    pub(super) asymmetry: Asymmetry,
    pub(super) bell: Mutex<Arc<Bell>>,
    /// Wakers of tasks that wait for a request, by node.
    pub(super) wakers: Mutex<HashMap<u32, Waker>>,
}

impl Shared {
    pub(super) fn lock_wakers(&self) -> MutexGuard<'_, HashMap<u32, Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_bell(&self) -> MutexGuard<'_, Arc<Bell>> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the server if it sleeps. The submitter calls this after a submission.
    #[cold]
    pub(super) fn wake_server(&self) {
        if self.for_feeder.load(Ordering::Relaxed) & PARKED != 0
            && self.for_feeder.fetch_and(!PARKED, Ordering::Relaxed) & PARKED != 0
        {
            self.lock_bell().wake();
        }
    }
}
