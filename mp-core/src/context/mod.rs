//! One rank's view of its world: the segment, its number, and how it waits.
//!
//! Channels and buffers stand on this; launching and ending worlds is above them, in `world`.

mod control;
mod held;

use std::sync::Arc;

use nix::{
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid},
    unistd::Pid,
};

pub(crate) use control::{RankControl, RankState, WorldControl};
pub(crate) use held::HeldAt;

use crate::{
    error::Error,
    segment::{BlockKey, BlockKind, Offset, Root, Segment, SegmentError, fingerprint},
    sync::{AtomicU64, Ordering},
    wait::{Doing, Flag, Wait, Waiting},
};

/// The most ranks a world can have.
pub(crate) const MAX_RANKS: usize = 1024;

/// What changes when the structures here do.
pub(crate) fn layout() -> u64 {
    fingerprint([size_of::<WorldControl>(), size_of::<RankControl>(), MAX_RANKS])
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) segment: Arc<Segment>,
    control: Offset<WorldControl>,
    size: u32,
    pub(crate) me: u32,
    pub(crate) waiting: Waiting,
    /// An entry of this rank's tables of buffers that was free lately; 0 for none.
    free_entry: AtomicU64,
}

impl Context {
    /// Makes the control blocks of a world of `size` ranks in a fresh segment. The maker itself
    /// counts as one more rank, numbered `size`, that can hold the heap's lock.
    pub(crate) fn create(
        segment: Arc<Segment>,
        size: u32,
        processes: bool,
        waiting: Waiting,
    ) -> Result<Self, SegmentError> {
        let len = size_of::<WorldControl>() + size_of::<RankControl>() * (size as usize + 1);
        let key = segment.heap().allocate(size, |_| false, BlockKind::World, len as u64)?;
        let control = Offset::<WorldControl>::new(key.payload());
        let world = segment.at(control)?;
        world.size.store(size, Ordering::Relaxed);
        world.processes.store(processes.into(), Ordering::Relaxed);
        world.threads.store(size, Ordering::Relaxed);
        world.launcher.store(std::process::id(), Ordering::Relaxed);
        world.since_ns.store(crate::wait::monotonic_ns(), Ordering::Relaxed);
        segment.heap().settle(key)?;
        segment.set_root(Root::World, control.bytes());
        Ok(Self { segment, control, size, me: size, waiting, free_entry: AtomicU64::new(0) })
    }

    /// Rank `me` of the world in a segment made elsewhere.
    pub(crate) fn enter(
        segment: Arc<Segment>,
        me: u32,
        waiting: Waiting,
    ) -> Result<Self, SegmentError> {
        let control = segment
            .root(Root::World)
            .map(Offset::<WorldControl>::new)
            .ok_or_else(|| segment.corrupt("the world's control block", 0, 0))?;
        let size = segment.at(control)?.size.load(Ordering::Relaxed);
        let context = Self { segment, control, size, me, waiting, free_entry: AtomicU64::new(0) };
        if size as usize > MAX_RANKS || me > size {
            let len = u64::from(size);
            return Err(context.segment.corrupt("the number of ranks", control.bytes(), len));
        }
        context.rank(size)?;
        Ok(context)
    }

    /// The same world as seen by rank `me`, in the same process.
    pub(crate) fn as_rank(&self, me: u32) -> Self {
        Self { segment: Arc::clone(&self.segment), free_entry: AtomicU64::new(0), me, ..*self }
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    pub(crate) fn world(&self) -> Result<&WorldControl, SegmentError> {
        self.segment.at(self.control)
    }

    pub(crate) fn rank(&self, rank: u32) -> Result<&RankControl, SegmentError> {
        let first = self.control.bytes() + size_of::<WorldControl>() as u64;
        let offset = first + u64::from(rank) * size_of::<RankControl>() as u64;
        self.segment.at(Offset::new(offset))
    }

    /// Whether a lock that the rank holds may be taken over: nothing of it runs any more, or it is
    /// no rank at all.
    pub(crate) fn gone(&self, rank: u32) -> bool {
        rank > self.size
            || self.rank(rank).is_ok_and(|control| control.is_gone())
            || self.ended_unburied(rank)
    }

    /// The launcher, who buries the dead, must not wait for one whose turn has not come yet.
    fn ended_unburied(&self, rank: u32) -> bool {
        let launcher = self.me == self.size
            && self.world().is_ok_and(|world| world.processes.load(Ordering::Relaxed) != 0);
        if !launcher {
            return false;
        }
        let pid = self.rank(rank).map_or(0, |control| control.pid.load(Ordering::Relaxed));
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        pid != 0
            && matches!(
                waitid(Id::Pid(Pid::from_raw(pid as i32)), look),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
            )
    }

    /// Checks a rank named by the user.
    pub(crate) fn check_rank(&self, rank: usize) -> Result<u32, Error> {
        if rank < self.size() {
            Ok(rank as u32)
        } else {
            Err(Error::NoSuchRank { rank, size: self.size() })
        }
    }

    /// Wakes whatever sleeps in the rank.
    pub(crate) fn ring(&self, rank: u32) {
        if let Ok(rank) = self.rank(rank) {
            rank.doorbell.advance_and_wake();
        }
    }

    /// Waits as [`Waiting::wait`] does, on this rank's doorbell.
    #[inline]
    pub(crate) fn wait<T>(
        &self,
        wait: Wait,
        doing: Doing,
        line: *const (),
        flags: &dyn Flag,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, SegmentError> {
        let me = self.rank(self.me)?;
        Ok(self.waiting.wait(wait, (&me.doorbell, &me.record), doing, line, flags, poll))
    }

    pub(crate) fn allocate(&self, kind: BlockKind, len: u64) -> Result<BlockKey, SegmentError> {
        self.segment.heap().allocate(self.me, |rank| self.gone(rank), kind, len)
    }

    pub(crate) fn lock_heap(&self) -> Result<crate::segment::LockedHeap<'_>, SegmentError> {
        self.segment.heap().lock(self.me, |rank| self.gone(rank))
    }

    /// Frees a block. A heap too broken for that is found by the next who allocates.
    pub(crate) fn free(&self, key: BlockKey) {
        if let Ok(mut heap) = self.lock_heap() {
            let _ = heap.free(key);
        }
    }
}
