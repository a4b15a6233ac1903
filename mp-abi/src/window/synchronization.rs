//! Fences, post and start, and locks.

use std::{
    ffi::c_int,
    sync::atomic::{Ordering, fence},
};

use mp_collectives::communicator::{Pending, test_all};

use super::{
    Win,
    epochs::{Exposure, Fence},
    locks::Way,
};
use crate::{
    constants::{
        MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED, MPI_MODE_NOCHECK, MPI_MODE_NOSUCCEED, MPI_PROC_NULL,
    },
    error::{Class, Error},
    group::Group,
    threads::wait_all,
    words::{all_gather, receive, send_to_others},
};

type Result<T> = std::result::Result<T, Error>;

/// The tag of the message that a rank's memory may be accessed.
const POSTED: u32 = 1;
/// The tag of the message that it is accessed no more.
const OVER: u32 = 2;

fn no_epoch<T>(text: &str) -> Result<T> {
    Err(Error::new(Class::RmaSync, text))
}

impl Win {
    /// Waits until all ranks have called this.
    pub(super) fn barrier(&self) -> Result<()> {
        match self.comm.has_threads() {
            true => all_gather(&self.comm.communicator, &[0]).map(drop),
            false => Ok(self.comm.communicator.barrier()?),
        }
    }

    /// `MPI_Win_fence`.
    pub fn fence(&self, assert: c_int) -> Result<()> {
        let epochs = self.epochs.borrow();
        epochs.check_no_access("MPI_Win_fence")?;
        if epochs.posted.is_some() {
            return no_epoch("MPI_Win_fence is called in an epoch that MPI_Win_post has begun");
        }
        drop(epochs);
        self.barrier()?;
        let begins = assert & MPI_MODE_NOSUCCEED == 0;
        self.epochs.borrow_mut().fence = if begins { Fence::Open } else { Fence::None };
        Ok(())
    }

    /// Returns the window's ranks of a group.
    fn members(&self, group: &Group) -> Result<Vec<usize>> {
        let all = self.comm.group();
        let place = |&rank: &usize| usize::try_from(all.place(rank)).ok();
        let ranks: Option<Vec<_>> = group.ranks.iter().map(place).collect();
        let text = "the group has ranks that are not in the window";
        ranks.ok_or_else(|| Error::new(Class::Group, text))
    }

    /// `MPI_Win_start`. Waits until the ranks of the group have posted.
    pub fn start(&self, group: &Group) -> Result<()> {
        let mut epochs = self.epochs.borrow_mut();
        epochs.check_no_access("MPI_Win_start")?;
        epochs.leave_fence("MPI_Win_start")?;
        drop(epochs);
        let ranks = self.members(group)?;
        for &rank in ranks.iter().filter(|&&rank| rank != self.me()) {
            receive(&self.comm.communicator, 1, rank, POSTED)?;
        }
        self.epochs.borrow_mut().started = Some(ranks);
        Ok(())
    }

    /// `MPI_Win_complete`.
    pub fn complete(&self) -> Result<()> {
        let started = self.epochs.borrow_mut().started.take();
        let Some(ranks) = started else {
            return no_epoch("MPI_Win_complete is called without MPI_Win_start");
        };
        send_to_others(&self.comm.communicator, &[0], &ranks, OVER)
    }

    /// `MPI_Win_post`.
    pub fn post(&self, group: &Group) -> Result<()> {
        let mut epochs = self.epochs.borrow_mut();
        if epochs.posted.is_some() {
            return no_epoch("MPI_Win_post is called twice without MPI_Win_wait");
        }
        epochs.leave_fence("MPI_Win_post")?;
        let joint = self.comm.communicator.joint();
        let (mut told, mut over) = (Vec::new(), Vec::new());
        for rank in self.members(group)?.into_iter().filter(|&rank| rank != self.me()) {
            told.push(joint.nonblocking_send(vec![0u64], rank, POSTED)?);
            over.push(joint.nonblocking_receive(vec![0u64], rank, OVER)?);
        }
        epochs.posted = Some(Exposure { told, over });
        Ok(())
    }

    /// `MPI_Win_wait`.
    pub fn wait(&self) -> Result<()> {
        let posted = self.epochs.borrow_mut().posted.take();
        let Some(mut posted) = posted else {
            return no_epoch("MPI_Win_wait is called without MPI_Win_post");
        };
        wait_all(&mut posted.parts())?;
        posted.finish()
    }

    /// `MPI_Win_test`. Returns whether the epoch has ended.
    pub fn test(&self) -> Result<bool> {
        let mut epochs = self.epochs.borrow_mut();
        let Some(posted) = &mut epochs.posted else {
            return no_epoch("MPI_Win_test is called without MPI_Win_post");
        };
        let is_over = test_all(&mut posted.parts())?;
        if let (true, Some(posted)) = (is_over, epochs.posted.take_if(|_| is_over)) {
            posted.finish()?;
        }
        Ok(is_over)
    }

    /// `MPI_Win_lock`.
    pub fn lock(&self, kind: c_int, rank: c_int, assert: c_int) -> Result<()> {
        let way = match kind {
            MPI_LOCK_SHARED => Way::Shared,
            MPI_LOCK_EXCLUSIVE => Way::Exclusive,
            _ => return Err(Error::new(Class::Locktype, format!("{kind} is no kind of lock"))),
        };
        let Some(target) = self.lockable(rank)? else { return Ok(()) };
        self.epochs.borrow_mut().check_lock(target)?;
        let way = (assert & MPI_MODE_NOCHECK == 0).then_some(way);
        if let Some(way) = way {
            self.locks.take(target, way)?;
        }
        self.epochs.borrow_mut().locks.push((target, way));
        Ok(())
    }

    /// `MPI_Win_unlock`.
    pub fn unlock(&self, rank: c_int) -> Result<()> {
        let Some(target) = self.lockable(rank)? else { return Ok(()) };
        if let Some(way) = self.epochs.borrow_mut().end_lock(target)? {
            self.locks.give(target, way);
        }
        self.locks.check(Some(target))
    }

    /// Returns the number of a rank, or `None` for `MPI_PROC_NULL`.
    fn lockable(&self, rank: c_int) -> Result<Option<usize>> {
        match rank {
            MPI_PROC_NULL => Ok(None),
            _ => self.rank(rank).map(Some),
        }
    }

    /// `MPI_Win_lock_all`.
    pub fn lock_all(&self, assert: c_int) -> Result<()> {
        let mut epochs = self.epochs.borrow_mut();
        epochs.check_no_access("MPI_Win_lock_all")?;
        epochs.leave_fence("MPI_Win_lock_all")?;
        drop(epochs);
        let checks = assert & MPI_MODE_NOCHECK == 0;
        if checks {
            self.locks.share_all()?;
        }
        self.epochs.borrow_mut().all = Some(checks);
        Ok(())
    }

    /// `MPI_Win_unlock_all`.
    pub fn unlock_all(&self) -> Result<()> {
        let Some(checks) = self.epochs.borrow_mut().all.take() else {
            return no_epoch("MPI_Win_unlock_all is called without MPI_Win_lock_all");
        };
        if checks {
            (0..self.targets.len()).for_each(|target| self.locks.give(target, Way::Shared));
        }
        self.locks.check(None)
    }

    /// `MPI_Win_flush` and its kind. All operations are done, but the processor may still keep stores back, if there were
    /// any.
    pub fn flush(&self, rank: Option<c_int>) -> Result<()> {
        let target = match rank {
            Some(rank) => self.lockable(rank)?,
            None => None,
        };
        if target.is_some() || rank.is_none() {
            self.epochs.borrow().check_locked(target)?;
            self.locks.check(target)?;
        }
        if self.unflushed.take() {
            self.sync();
        }
        Ok(())
    }

    /// `MPI_Win_sync`. Orders this rank's own accesses to memory before it and after it.
    pub fn sync(&self) {
        fence(Ordering::SeqCst);
    }

    fn me(&self) -> usize {
        self.comm.rank as usize
    }
}

impl Exposure {
    fn parts(&mut self) -> Vec<&mut dyn Pending> {
        let told = self.told.iter_mut().map(|one| one as &mut dyn Pending);
        told.chain(self.over.iter_mut().map(|one| one as &mut dyn Pending)).collect()
    }

    /// Returns the first error of the messages, which have all come.
    fn finish(self) -> Result<()> {
        for sent in self.told {
            sent.wait().map_err(|failed| failed.error)?;
        }
        for received in self.over {
            received.wait().map_err(|failed| failed.error)?;
        }
        Ok(())
    }
}
