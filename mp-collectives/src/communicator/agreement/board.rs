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
//! If the members are on several nodes, the board is a [`Ballot`] instead, which also tells the other nodes.
//!
//! A rank that drops a communicator opens the board and closes it, so that ranks that decide later see that this rank
//! is gone. If a rank drops its last communicator of a set, it withdraws from the names of channels and then declines
//! the board. A rank that opens the board looks at those names afterwards. So one of the two always sees the other. On
//! several nodes it opens and closes the board for its last communicator, too.

use std::sync::{Arc, Mutex, PoisonError};

use mp_core::{
    Rank, Result,
    memory::{Ballot, Cast, Consensus, Region, Word},
    mpb::Mpbs,
    waits::Caller,
};

use crate::communicator::{
    messages::channels::{LINE_CHANNEL, NAMES, names},
    title::Title,
};
use crate::errors::bad_call;

/// The name of the board, behind the prefix.
const BOARD: &str = "survivors";

const REVOKED: usize = 0;
const TOLD: usize = 1;
const FIRST: usize = 2;

/// See the [module](self).
pub(crate) struct Board {
    rank: Rank,
    place: Place,
    /// The members' numbers in the world.
    members: Vec<usize>,
    /// The prefix of the names of everything that belongs to the communicator.
    prefix: String,
    /// The number of decisions in which this rank has taken part.
    round: Mutex<u64>,
    contribution: usize,
    proposal: usize,
}

/// Where the board is.
enum Place {
    /// All members are on one node. Those that are `absent` had dropped all their communicators of this set before this
    /// board was opened.
    Here { region: Region, absent: Vec<bool> },
    /// The members are on several nodes.
    Across(Ballot),
}

/// What the members contribute to a decision.
pub(crate) struct Contributions {
    /// The words of each member; `None` if it was gone before it had contributed.
    pub(crate) words: Vec<Option<Vec<u64>>>,
    /// Whether each member takes part in no more decisions.
    pub(crate) gone: Vec<bool>,
    /// Whether each member was lost.
    pub(crate) lost: Vec<bool>,
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
        format!("{}{BOARD}", self.prefix())
    }

    /// Returns the name of the MPBs in which the members compare their calls.
    pub(crate) fn ledger(self) -> String {
        format!("{}calls", self.prefix())
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
        let (rank, prefix, round) = (rank.clone(), whose.prefix(), Mutex::new(0));
        let (title, members): (_, Vec<usize>) =
            (members.1, members.0.iter().map(|&rank| rank as usize).collect());
        let caller = Arc::clone(title) as Arc<dyn Caller>;
        let place = if members.iter().all(|member| rank.ranks_here().contains(member)) {
            let words = FIRST + Consensus::words(members.len(), contribution, proposal);
            let mut region = Region::open_of(&rank, NAMES, &whose.board(), &members, words, 0)?;
            region.set_caller(caller);
            // Members that drop their communicators after this point decline the region.
            let [lines, _] = names(whose.serial);
            let absent = members.iter();
            let absent = absent.map(|&member| rank.has_withdrawn(&lines, LINE_CHANNEL, member));
            Place::Here { region, absent: absent.collect::<mp_core::Result<_>>()? }
        } else {
            let mut ballot = Ballot::open(&rank, NAMES, (&prefix, BOARD), &members, contribution)?;
            ballot.set_caller(caller);
            Place::Across(ballot)
        };
        Ok(Self { rank, place, members, prefix, round, contribution, proposal })
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

    /// Does the same with the ledger of calls. This must come after this rank has left the board.
    pub(crate) fn decline_ledger(rank: &Rank, whose: Whose) {
        let _ = rank.decline_mpb(&whose.ledger(), NAMES.mpbs(Mpbs::lines(1)));
    }

    /// Returns whether a member of this node has dropped the communicator or has ended, and was not lost.
    pub(crate) fn has_left(&self, member: usize) -> bool {
        let Place::Here { region, absent } = &self.place else { return false };
        let is_lost = || region.is_lost(member) || self.rank.is_lost(self.members[member]);
        is_gone(region, absent, member) && !is_lost()
    }

    /// Returns the words [`REVOKED`] and [`TOLD`].
    fn flags(&self) -> Result<[&Word; 2]> {
        match &self.place {
            Place::Here { region, .. } => {
                let words = region.words();
                Ok([&words[REVOKED], &words[TOLD]])
            }
            Place::Across(ballot) => ballot.flags(),
        }
    }

    pub(crate) fn revoke(&self) -> Result<()> {
        self.flags()?[0].store(1);
        self.tell()
    }

    fn tell(&self) -> Result<()> {
        // Other nodes must hear of this before they hear of what ranks of this node do because of it.
        if let Place::Across(ballot) = &self.place {
            ballot.announce()?;
        }
        self.rank.revoke_mpbs(&self.prefix)?;
        self.flags()?[1].store(1);
        Ok(())
    }

    /// Returns whether the communicator is revoked. If the rank that revoked it was lost before it had notified all
    /// others, the ranks that find the unfinished revocation complete it.
    pub(crate) fn is_revoked(&self) -> Result<bool> {
        let [revoked, told] = self.flags()?;
        let is_revoked = revoked.load() != 0;
        if is_revoked && told.load() == 0 {
            self.tell()?;
        }
        Ok(is_revoked)
    }

    /// Makes the next decision together with all members that are not gone, all of which call this. `propose` makes the
    /// proposal from their contributions. It may be called several times.
    pub(crate) fn decide(
        &self,
        contribution: &[u64],
        propose: impl Fn(&Contributions) -> Vec<u64>,
    ) -> Result<Vec<u64>> {
        let round = {
            let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
            *round += 1;
            *round
        };
        let (region, absent) = match &self.place {
            Place::Here { region, absent } => (region, absent),
            // All members make the same proposal from the same contributions.
            Place::Across(ballot) => {
                return Ok(propose(&Contributions::of(ballot.decide(round, contribution)?)));
            }
        };
        let (words, of) = (&region.words()[FIRST..], (region.ranks(), region.rank()));
        let Some(consensus) = Consensus::new(words, of, self.contribution, self.proposal) else {
            return Err(bad_call("the region for what the ranks decide is too short"));
        };
        let is_gone = |member| is_gone(region, absent, member);
        let propose = |words: &[Option<Vec<u64>>]| {
            let words = words.to_vec();
            let gone = (0..words.len()).map(is_gone).collect();
            let lost = self.members.iter().map(|&member| self.rank.is_lost(member)).collect();
            propose(&Contributions { words, gone, lost })
        };
        consensus.contribute(round, contribution);
        region.wake_all();
        let decided = region.wait(0, None, None, || consensus.decide(round, is_gone, propose))?;
        region.wake_all();
        Ok(decided)
    }
}

fn is_gone(region: &Region, absent: &[bool], member: usize) -> bool {
    absent.get(member) != Some(&false) || region.is_gone(member)
}

impl Contributions {
    fn of(casts: Vec<Cast>) -> Self {
        let gone = casts.iter().map(|cast| cast.gone).collect();
        let lost = casts.iter().map(|cast| cast.lost).collect();
        Self { words: casts.into_iter().map(|cast| cast.vote).collect(), gone, lost }
    }
}
