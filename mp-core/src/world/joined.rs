//! A process that is a rank between two calls, instead of during the call of a closure.

use std::sync::Arc;

use super::{
    World, at_end, join,
    join::Membership,
    outcome,
    rank::Rank,
    site::{self, Within},
};
use crate::{
    error::{Cause, Result},
    wait::WaitPolicy,
};

/// This process as a rank of a world, from [`World::join`] to [`leave`](Self::leave).
///
/// The thread that has joined has to leave. If the value is dropped instead, for example because of a panic, the other
/// ranks take this rank's code for failed.
#[must_use = "the rank fails if this is dropped"]
pub struct Joined {
    rank: Rank,
    /// What the launcher's world has to know; `None` in a world of one.
    membership: Option<Membership>,
    code: Option<Code>,
}

/// The rank's code in this thread.
struct Code {
    running: at_end::Running,
    before: Within,
}

impl World {
    /// Makes this process a rank until [`Joined::leave`] is called, for programs that have no closure to give to
    /// [`run`](Self::run), such as libraries with functions for the beginning and for the end. The ranks of a launcher
    /// (`mprun`) join its world. Without a launcher, the world has this one rank.
    ///
    /// A process may join again after it has left. Ranks of a launcher must all do the same.
    ///
    /// ```
    /// use onchip::{Channel, World};
    ///
    /// let joined = World::join()?;
    /// let rank = joined.rank();
    /// let mut to_itself = rank.sender::<u64>("numbers", rank.id(), Channel::degree(1))?;
    /// let numbers = rank.receiver::<u64>("numbers", rank.id(), Channel::degree(1))?;
    /// to_itself.send(&7)?;
    /// assert_eq!(*numbers.receive()?, 7);
    /// joined.leave()?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`BadWorld`](crate::ErrorKind::BadWorld) inside of rank code, in a process that `World::processes` has started, and in
    /// a process that was forked from a rank; the errors of `run` in entering a world.
    pub fn join() -> Result<Joined> {
        let policy = Self::threads(1).policy()?;
        match join::assignment()? {
            Some(assignment) => Joined::member(assignment.join(policy)?),
            None => Joined::alone(policy),
        }
    }
}

impl Joined {
    fn member(membership: Membership) -> Result<Self> {
        let rank = Rank::new(Arc::clone(membership.context()));
        Ok(Self::new(rank, Some(membership)))
    }

    fn alone(policy: WaitPolicy) -> Result<Self> {
        match site::within() {
            Within::Program => Ok(Self::new(World::threads(1).wait(policy).alone()?, None)),
            _ => Err(join::inside()),
        }
    }

    fn new(rank: Rank, membership: Option<Membership>) -> Self {
        let running = at_end::Running::begin(rank.context());
        let code = Code { running, before: site::set_within(Within::Process) };
        Self { rank, membership, code: Some(code) }
    }

    /// Returns the rank.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// Ends the rank. All that the rank has opened should be closed before. Waits until all ranks have left or have
    /// ended.
    ///
    /// # Errors
    /// [`RanksFailed`](crate::ErrorKind::RanksFailed) if other ranks have failed or were lost.
    pub fn leave(mut self) -> Result<()> {
        let ended = self.end(|running| {
            outcome::outcome_of(|| {
                running.finish();
                outcome::encode(())
            })
        });
        match self.membership.take() {
            Some(membership) => outcome::gather(membership.leave()?).map(drop),
            None => outcome::gather([ended]).map(drop),
        }
    }

    /// Ends the rank as one whose code has failed, and does not wait for the others. The launcher ends them, unless
    /// they end by themselves. The process should end now.
    pub fn fail(mut self, reason: &str) {
        // The outcome is known, and has been told to the world.
        let _ = self.end(|running| {
            drop(running);
            Err(Cause::Error(reason.to_owned()))
        });
    }

    /// Ends the rank's code, unless it has ended, and tells the world how.
    fn end(
        &mut self,
        how: impl FnOnce(at_end::Running) -> outcome::Outcome<Vec<u8>>,
    ) -> outcome::Outcome<()> {
        let Some(Code { running, before }) = self.code.take() else { return Ok(()) };
        let outcome = how(running);
        site::set_within(before);
        match &self.membership {
            Some(membership) => membership.end(outcome),
            None => outcome.map(drop),
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let dropped = "it was dropped without a call of `leave`";
        let _ = self.end(|running| {
            drop(running);
            Err(Cause::Error(dropped.to_owned()))
        });
    }
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("rank", &self.rank).finish_non_exhaustive()
    }
}
