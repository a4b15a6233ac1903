//! The epochs of a rank: when it may access the memory of which ranks.

use mp_collectives::communicator::{ReceiveRequest, SendRequest};

use super::locks::Way;
use crate::error::{Class, Error};

type Result<T> = std::result::Result<T, Error>;

/// What the last fence has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fence {
    #[default]
    None,
    /// An epoch, if this rank accesses memory now.
    Open,
    /// An epoch, in which this rank has accessed memory.
    Used,
}

/// An exposure epoch, between `MPI_Win_post` and `MPI_Win_wait`.
pub(crate) struct Exposure {
    /// The messages to the ranks that may access the memory.
    pub told: Vec<SendRequest<Vec<u64>>>,
    /// The messages from these that they do so no more.
    pub over: Vec<ReceiveRequest<Vec<u64>>>,
}

/// The epochs of a rank in a window.
#[derive(Default)]
pub(crate) struct Epochs {
    pub fence: Fence,
    /// The ranks of an access epoch, between `MPI_Win_start` and `MPI_Win_complete`.
    pub started: Option<Vec<usize>>,
    pub posted: Option<Exposure>,
    /// The locks that this rank has, by rank. There is no way if it was not taken, because of `MPI_MODE_NOCHECK`.
    pub locks: Vec<(usize, Option<Way>)>,
    /// `MPI_Win_lock_all`, and whether the locks are taken.
    pub all: Option<bool>,
}

fn wrong<T>(text: &str) -> Result<T> {
    Err(Error::new(Class::RmaSync, text))
}

impl Epochs {
    /// Returns an error unless this rank may access a rank's memory now.
    #[inline]
    pub fn access(&mut self, target: usize) -> Result<()> {
        if self.all.is_some() || self.locks.iter().any(|&(rank, _)| rank == target) {
            return Ok(());
        }
        if let Some(started) = &self.started {
            return match started.contains(&target) {
                true => Ok(()),
                false => wrong("the rank is not in the group of MPI_Win_start"),
            };
        }
        match self.fence {
            Fence::None => {
                wrong("memory is accessed before MPI_Win_fence, MPI_Win_start or a lock")
            }
            Fence::Open | Fence::Used if self.locks.is_empty() => {
                self.fence = Fence::Used;
                Ok(())
            }
            _ => wrong("this rank has locks, but not that of this rank's memory"),
        }
    }

    /// Returns an error if an access epoch is open that is not a fence's.
    pub fn check_no_access(&self, function: &str) -> Result<()> {
        let open = match self {
            Self { all: Some(_), .. } => "MPI_Win_lock_all",
            Self { started: Some(_), .. } => "MPI_Win_start",
            _ if !self.locks.is_empty() => "MPI_Win_lock",
            _ => return Ok(()),
        };
        wrong(&format!("{function} is called in an epoch that {open} has begun"))
    }

    /// Prepares for an epoch of another kind than a fence's.
    pub fn leave_fence(&mut self, function: &str) -> Result<()> {
        match std::mem::take(&mut self.fence) {
            Fence::Used => {
                self.fence = Fence::Used;
                wrong(&format!("{function} is called in an epoch that MPI_Win_fence has begun"))
            }
            Fence::None | Fence::Open => Ok(()),
        }
    }

    /// Begins the epoch of a lock.
    pub fn check_lock(&mut self, target: usize) -> Result<()> {
        if self.all.is_some() || self.started.is_some() {
            return self.check_no_access("MPI_Win_lock");
        }
        if self.locks.iter().any(|&(rank, _)| rank == target) {
            return wrong("this rank has the lock already");
        }
        self.leave_fence("MPI_Win_lock")
    }

    /// Ends the epoch of a lock, and returns how the rank has it.
    pub fn end_lock(&mut self, target: usize) -> Result<Option<Way>> {
        match self.locks.iter().position(|&(rank, _)| rank == target) {
            Some(place) => Ok(self.locks.swap_remove(place).1),
            None => wrong("this rank does not have the lock"),
        }
    }

    /// Returns an error unless this rank has a lock: that of `target`, or any.
    pub fn check_locked(&self, target: Option<usize>) -> Result<()> {
        let has = |&(rank, _): &(usize, _)| target.is_none_or(|target| target == rank);
        match self.all.is_some() || self.locks.iter().any(has) {
            true => Ok(()),
            false => wrong("operations are flushed only while this rank has the lock"),
        }
    }

    /// Returns an error if the window can't be freed now.
    pub fn check_closed(&self) -> Result<()> {
        if self.posted.is_some() {
            return wrong("MPI_Win_free is called in an epoch that MPI_Win_post has begun");
        }
        self.check_no_access("MPI_Win_free")
    }
}
