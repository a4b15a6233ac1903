//! The information that the ranks of a communicator share when some of them were lost: whether the communicator is
//! revoked, and what the ranks decide. It is in a region of these ranks, in which no death ends a wait. The region is
//! made by the first rank that needs it, or that drops the communicator while the rank has other communicators.
//!
//! ```text
//! 1   whether it is revoked        set by the rank that revokes it
//! 1   whether all were notified    set by the rank that has notified them
//! *   the words of a Consensus
//! ```
//!
//! A rank that drops a communicator opens the board and closes it, so that ranks that decide later see that this rank
//! is gone. If a rank drops its last communicator of a set, it withdraws from the names of channels and then declines
//! the board. A rank that opens the board looks at those names afterwards. So one of the two always sees the other.

use std::sync::{Arc, Mutex, PoisonError};

use mp_core::{
    Rank, Result,
    memory::{Consensus, Region},
    mpb::Mpbs,
    waits::Caller,
};

use crate::communicator::{
    messages::channels::{LINE_CHANNEL, NAMES, names},
    title::Title,
};
use crate::errors::bad_call;

const REVOKED: usize = 0;
const TOLD: usize = 1;
const FIRST: usize = 2;

/// See the [module](self).
pub(crate) struct Board {
    rank: Rank,
    region: Region,
    /// The prefix of the names of everything that belongs to the communicator.
    prefix: String,
    /// Members that had dropped all their communicators of this set before this board was opened.
    absent: Vec<bool>,
    /// The number of decisions in which this rank has taken part.
    round: Mutex<u64>,
    contribution: usize,
    proposal: usize,
}

/// Identifies a communicator. Communicators of one set have different contexts if they have a rank in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    pub(crate) serial: u64,
    pub(crate) context: u32,
}

impl Whose {
    /// Returns the common prefix of all names that the communicator's members open by
    /// [`Joint::name`](crate::communicator::Joint::name).
    pub(crate) fn prefix(self) -> String {
        format!("communicator {}.{}: ", self.serial, self.context)
    }

    fn board(self) -> String {
        format!("{}survivors", self.prefix())
    }
}

impl Board {
    /// Opens the board of these members. Reports describe its waits by the title. Contributions and proposals have the
    /// given numbers of words.
    pub(crate) fn open(
        rank: &Rank,
        whose: Whose,
        members: (&[u32], &Arc<Title>),
        (contribution, proposal): (usize, usize),
    ) -> Result<Self> {
        let ranks: Vec<usize> = members.0.iter().map(|&rank| rank as usize).collect();
        let words = FIRST + Consensus::words(ranks.len(), contribution, proposal);
        let mut region = Region::open_of(rank, NAMES, &whose.board(), &ranks, words, 0)?;
        region.set_caller(Arc::clone(members.1) as Arc<dyn Caller>);
        // Members that drop their communicators after this point decline the region.
        let [lines, _] = names(whose.serial);
        let absent = ranks.iter().map(|&member| rank.has_withdrawn(&lines, LINE_CHANNEL, member));
        let absent = absent.collect::<mp_core::Result<_>>()?;
        let (rank, prefix, round) = (rank.clone(), whose.prefix(), Mutex::new(0));
        Ok(Self { rank, region, prefix, absent, round, contribution, proposal })
    }

    /// Returns whether another member has opened the board. This rank has not opened it.
    pub(crate) fn is_there(rank: &Rank, whose: Whose) -> Result<bool> {
        Region::is_there(rank, NAMES, &whose.board())
    }

    /// Declares that this rank, which has not opened the board, will not open it, so that the members that have opened
    /// it do not wait for this rank.
    pub(crate) fn decline(rank: &Rank, whose: Whose) {
        // If this fails, the world's memory is broken.
        let _ = rank.decline_mpb(&whose.board(), NAMES.mpbs(Mpbs::lines(1)));
    }

    pub(crate) fn revoke(&self) -> Result<()> {
        self.region.words()[REVOKED].store(1);
        self.tell()
    }

    fn tell(&self) -> Result<()> {
        self.rank.revoke_mpbs(&self.prefix)?;
        self.region.words()[TOLD].store(1);
        Ok(())
    }

    /// Returns whether the communicator is revoked. If the rank that revoked it was lost before it had notified all
    /// others, the ranks that find the unfinished revocation complete it.
    pub(crate) fn is_revoked(&self) -> Result<bool> {
        let words = self.region.words();
        let revoked = words[REVOKED].load() != 0;
        if revoked && words[TOLD].load() == 0 {
            self.tell()?;
        }
        Ok(revoked)
    }

    /// Returns whether the member takes part in no more decisions.
    pub(crate) fn is_gone(&self, member: usize) -> bool {
        self.absent.get(member) != Some(&false) || self.region.is_gone(member)
    }

    /// Makes the next decision together with all members that are not gone, all of which call this. `propose` makes the
    /// proposal from their contributions.
    pub(crate) fn decide(
        &self,
        contribution: &[u64],
        propose: impl Fn(&[Option<Vec<u64>>]) -> Vec<u64>,
    ) -> Result<Vec<u64>> {
        let (words, of) =
            (&self.region.words()[FIRST..], (self.region.ranks(), self.region.rank()));
        let Some(consensus) = Consensus::new(words, of, self.contribution, self.proposal) else {
            return Err(bad_call("the region for what the ranks decide is too short"));
        };
        let round = {
            let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
            *round += 1;
            *round
        };
        consensus.contribute(round, contribution);
        self.region.wake_all();
        let decided = self.region.wait(0, None, None, || {
            consensus.decide(round, |member| self.is_gone(member), &propose)
        })?;
        self.region.wake_all();
        Ok(decided)
    }
}
