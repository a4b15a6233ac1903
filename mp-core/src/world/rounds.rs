//! The ends of ranks and of calls of `run`, in a world of several nodes.
//!
//! Each node has control blocks for the ranks of all nodes. Its own ranks, and what watches them, write theirs as in a
//! world of one node. The node's [`Bridge`] writes those of the others, as their nodes tell. Each call of `run` of the
//! ranks of a launcher is a *round*:
//!
//! 1. When a rank's code fails, or its process ends badly, its node tells the others ([`Bridge::failing`], [`Failed`])
//!    before they hear that its channels are closed. So each launcher knows the reason before its ranks fail because of
//!    it. For the same reason each node passes on what it has heard of such a failure.
//! 2. A rank whose code has ended posts its outcome, and marks itself as ended. If its process has died, it is marked as
//!    lost. In both cases its node tells the others ([`Ended`], with the outcome), after everything that it has sent.
//! 3. The others post the outcome in the rank's control block, and mark it as ended. So when all control blocks of a node
//!    say so, its ranks find the outcomes of all ranks there.
//! 4. A rank that has read them leaves the round. When each rank of a node has left or never will, the node tells the
//!    others how many rounds it has left ([`Bridge::left`]), after everything else of that round.
//! 5. When all nodes have left the round, each begins the next one ([`Bridge::begin_next`]): it renews all control blocks,
//!    and lets its ranks in. A node whose processes have all ended counts as one that has left.
//! 6. One node may begin the next round before another one. What comes from a node that has left a round belongs to the
//!    next one, and waits until this node has begun that.
//! 7. When a rank's process has ended, its node tells the others ([`Gone`]), after everything else of the rank. They bury
//!    the rank. A `Gone` waits behind earlier news of its node that waits for the next round. Otherwise it is obeyed at
//!    once: the rank may not have left this round, and then no round begins before it is buried.
//!
//! Ranks that are threads have one round, and are gone when they have ended.

use super::{
    bridge::{Bridge, Left},
    burial,
    launch::Ending,
    outcome, renewal,
};
use crate::{
    channel::Descriptor,
    context::RankState,
    error::{Cause, Result},
    named::Object,
    segment::BlockKind,
    sync::Ordering,
};

/// The end of a rank of the sending node, in this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ended {
    /// The rank.
    pub rank: u32,
    /// How it has ended.
    pub left: Left,
    /// How its process has ended, as a word; 0 if it runs.
    ending: u32,
}

impl Ended {
    /// Makes the end of a rank that was lost for an unknown reason.
    pub fn lost(rank: u32) -> Self {
        Self { rank, left: Left::Lost(rank), ending: Ending::Unseen.word() }
    }
}

/// The end of the process of a rank of the sending node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gone {
    /// The rank.
    pub rank: u32,
    /// How it has ended, as a word.
    ending: u32,
    /// The number of rounds that it has left.
    left: u32,
}

impl Gone {
    /// Makes the end of a rank that was lost for an unknown reason.
    pub fn lost(rank: u32) -> Self {
        Self { rank, ending: Ending::Unseen.word(), left: 0 }
    }
}

/// The first failure of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failed {
    /// The rank.
    pub rank: u32,
    /// The rank whose code had failed first at that time, if any.
    first: Option<u32>,
}

impl Bridge {
    /// Returns the ranks of this node that have ended since the last call, and how.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn ended(&mut self) -> Result<Vec<Ended>> {
        let mut new = Vec::new();
        for (rank, known) in self.world.here().zip(&mut self.told.ended) {
            let control = self.world.rank(rank)?;
            let state = control.state();
            if state.ended() && !std::mem::replace(known, true) {
                let left = match state {
                    RankState::Lost => Left::Lost(rank),
                    _ => Left::Closed,
                };
                // It was stored before the state.
                let ending = control.ending.load(Ordering::Relaxed);
                new.push(Ended { rank, left, ending });
            }
        }
        Ok(new)
    }

    /// Appends the outcome that a rank of this node has posted in this round, if it has posted one. It must not be asked
    /// for after this node has left the round.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn outcome(&self, rank: u32, into: &mut Vec<u8>) -> Result<()> {
        into.extend(outcome::encoded(&self.world, rank)?.unwrap_or_default());
        Ok(())
    }

    /// Tells the ranks of this node that a rank of another node has ended, with the outcome that it has posted, if any.
    /// The caller has closed its parts before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn end(&self, ended: Ended, outcome: &[u8]) -> Result<()> {
        let Ended { rank, left, ending } = ended;
        let control = self.world.rank(rank)?;
        if self.world.is_here(rank) || control.state().ended() {
            return Ok(());
        }
        let mut failure = outcome::failure(outcome);
        if !outcome.is_empty()
            && let Err(error) = outcome::post_encoded(&self.world, rank, outcome)
        {
            let cause = Cause::Error(format!("its result can't be kept on another node: {error}"));
            // The error is small, so that it may fit where the outcome did not.
            let _ = outcome::post_encoded(&self.world, rank, &outcome::encode_failure(&cause)?);
            failure = Some(cause);
        }
        if ending != 0 {
            control.ending.store(ending, Ordering::Relaxed);
        }
        if failure.is_some() {
            self.note_failing(rank)?;
        }
        // The words of an earlier round may still explain how a process has ended.
        if let Some(launcher) =
            self.launcher.as_ref().filter(|_| !outcome.is_empty() || ending == 0)
        {
            launcher.note_words(rank, failure);
        }
        let state = match left {
            Left::Lost(_) => RankState::Lost,
            Left::Closed => RankState::Finished,
        };
        burial::end(&self.world, rank, state)?;
        self.tell_launcher();
        Ok(())
    }

    /// Returns the ranks of this node whose processes have ended since the last call. Their ends in this round were
    /// returned before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn gone(&mut self) -> Result<Vec<Gone>> {
        let mut new = Vec::new();
        let ended = self.world.here().zip(&self.told.ended);
        for ((rank, &ended), known) in ended.zip(&mut self.told.gone) {
            let control = self.world.rank(rank)?;
            let gone = ended && (self.launcher.is_none() || control.is_dead());
            if gone && !std::mem::replace(known, true) {
                let [ending, left] =
                    [&control.ending, &control.left].map(|word| word.load(Ordering::Relaxed));
                new.push(Gone { rank, ending, left });
            }
        }
        Ok(new)
    }

    /// Returns whether a rank has not ended in this round, as far as this node knows.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn runs(&self, rank: u32) -> Result<bool> {
        Ok(!self.world.rank(rank)?.state().ended())
    }

    /// Buries a rank of another node. The caller has closed all its parts before, and opens no more. Returns false, and does
    /// nothing, while messages that were taken in its name are still lent: the memory that they lie in would be freed.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn bury(&self, Gone { rank, ending, left }: Gone) -> Result<bool> {
        if self.launcher.is_none() || self.world.is_here(rank) || self.world.dead(rank) {
            return Ok(true);
        }
        if self.holds(rank) {
            return Ok(false);
        }
        let control = self.world.rank(rank)?;
        control.ending.store(ending, Ordering::Relaxed);
        control.left.store(left, Ordering::Relaxed);
        burial::bury(&self.world, rank)?;
        self.tell_launcher();
        Ok(true)
    }

    /// Tells the ranks of this node that a rank of another node was lost with its node, unless it has ended. The caller
    /// has closed all its parts before, and opens no more. Also [buries](Self::bury) the rank, unless messages are lent: the
    /// node may be lost while they are sent to it.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn lose(&mut self, rank: u32) -> Result<()> {
        if let Some(launcher) = &self.launcher
            && !self.world.is_here(rank)
            && !self.world.dead(rank)
        {
            launcher.note_failed((rank, None));
        }
        self.lose_ballots_of(rank);
        self.end(Ended::lost(rank), &[])?;
        let left = self.world.rank(rank)?.left.load(Ordering::Relaxed);
        self.bury(Gone { left, ..Gone::lost(rank) })?;
        Ok(())
    }

    /// Returns the rank whose code was the first to fail in this round, once. It may be one of another node.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn failing(&mut self) -> Result<Option<u32>> {
        let failing = self.world.world()?.failing().map(|(_, rank)| rank);
        let new = failing.filter(|_| !self.told.failing);
        self.told.failing |= new.is_some();
        Ok(new)
    }

    /// Notes that the code of a rank of another node has failed in this round, unless that of another rank has before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn note_failing(&self, rank: u32) -> Result<()> {
        let world = self.world.world()?;
        // The ranks of this node may not have come to this round yet.
        world.begin_round();
        world.note_failure(rank);
        self.tell_launcher();
        Ok(())
    }

    /// Returns the first failure of a process, once. It may be one of another node.
    pub fn failed(&mut self) -> Option<Failed> {
        let failed = self.launcher.as_ref()?.first_failed();
        let (rank, first) = failed.filter(|_| !self.told.failed)?;
        self.told.failed = true;
        Some(Failed { rank, first })
    }

    /// Tells the launcher of this node of a failure on another node.
    pub fn note_failed(&self, Failed { rank, first }: Failed) {
        if let Some(launcher) = &self.launcher {
            launcher.note_failed((rank, first));
            launcher.tell();
        }
    }

    /// Returns how many rounds all ranks of this node have left.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn left(&self) -> Result<u32> {
        // Acquire: pairs with the Release in `end_round`.
        Ok(self.world.world()?.left_here.load(Ordering::Acquire))
    }

    /// Begins the round after this many, when all nodes have left the one before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn begin_next(&mut self, rounds: u32) -> Result<()> {
        self.told.ended.fill(false);
        self.told.failing = false;
        Ok(renewal::begin_next(&self.world, rounds)?)
    }

    fn tell_launcher(&self) {
        if let Some(launcher) = &self.launcher {
            launcher.tell();
        }
    }

    /// Ends what waits for the bridge alone, and lets nothing wait for it any more.
    fn sever(&self) -> Result<()> {
        // Release: pairs with the Acquire in `decide`.
        self.world.world()?.severed.store(1, Ordering::Release);
        let mut heap = self.world.lock_heap()?;
        for block in heap.blocks()? {
            if block.kind == BlockKind::Channel && block.settled {
                Object::<Descriptor>::at(&self.world, block.key)?.lose_kept(&mut heap)?;
            }
        }
        Ok(())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // An error means that the segment is broken, which every other call reports.
        let _ = self.sever();
        for rank in self.world.elsewhere().collect::<Vec<_>>() {
            // An error means that the segment is broken, which every other call reports.
            let _ = self.lose(rank);
        }
        self.world.ring_all();
    }
}
