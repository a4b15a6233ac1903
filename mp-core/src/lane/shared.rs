//! The state that the two ends of a lane share.

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

/// The server sleeps: the submitter must ring its bell after the next submission.
pub(super) const PARKED: u32 = 1;
/// The server wants no more submissions. It still carries out those that come.
pub(super) const OFF: u32 = 2;
/// No thread serves the lane any more. The submitter must take back a node that it has submitted nevertheless.
pub(super) const GONE: u32 = 4;

/// The submitter submits nothing more.
pub(super) const CLOSED: u32 = 1;
/// The server must not send the submissions that it has not sent yet.
pub(super) const CANCELLED: u32 = 2;

/// The range of positions that a lane's nodes can express: see [`FAR`](super::node::FAR).
pub(super) const NEAR: u64 = 1 << 31;

/// The state that the two ends of a lane and the holders of its requests share.
pub(super) struct Shared {
    /// The word at which the submitter looks: `PARKED`, `OFF`, `GONE`.
    pub(super) for_feeder: CachePadded<AtomicU32>,
    /// The word at which the server looks: `CLOSED`, `CANCELLED`.
    pub(super) for_server: CachePadded<AtomicU32>,
    /// 1 + the index of the node that the server is sending or is about to send; 0 for none. Only the server writes
    /// this.
    ///
    /// A holder that wants to take a cargo back writes this wish into its node, and then reads this word. The server
    /// writes this word, and then reads the node's wish. At least one of the two sees the other's store, because of the
    /// fences of [`Asymmetry`]. So a send needs no locked instruction.
    pub(super) serving: CachePadded<AtomicU32>,
    /// The position of the last node that was marked with [`FAR`](super::node::FAR).
    pub(super) far: AtomicU64,
    /// Not 0 once every submission is answered and no thread will serve the lane any more.
    pub(super) ended: AtomicU32,
    pub(super) pool: Pool,
    /// The context of the sending end's rank, which waits for requests at its doorbell.
    pub(super) context: Arc<Context>,
    /// The place of the channel's descriptor, for reports.
    pub(super) channel: u64,
    /// The kind of fence between the server and the submitter. It does not change while the lane exists.
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
