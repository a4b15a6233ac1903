//! Decisions that ranks of several nodes make together, even if some of them end meanwhile, and a revocation.
//!
//! Each node has a [`Sheet`] of its own, in a region whose ranks are those of all nodes. The nodes' bridges carry what is
//! written there (`world/ballots.rs`): the bridge of the first member's node gathers the votes, and its result is that of
//! all nodes. A bridge does not end before all ranks of all nodes have. So no rank has to lead, and it does not matter which
//! of them end, and when.

use std::sync::Arc;

use super::{region::Region, sheet::Sheet, spec::Mpbs};
use crate::{
    context::Namespace,
    error::{Error, ErrorKind, Place, Result},
    sync::Ordering,
    wait::Caller,
    word::Word,
    world::Rank,
};

pub use super::sheet::Cast;

/// The width of the prefix's length in the word that the maker proposes. The number of words of a vote is above it.
const PREFIX_BITS: u32 = 16;

/// Returns the word from which bridges learn the length of the prefix and the number of words of a vote.
fn proposal(prefix: usize, vote: usize) -> u64 {
    (vote as u64) << PREFIX_BITS | prefix as u64
}

/// Returns the length of the prefix and the number of words of a vote, if the word is one of a ballot with this many members.
pub(crate) fn proposed(word: u64, members: usize) -> Option<(usize, usize)> {
    let (prefix, vote) = (word & ((1 << PREFIX_BITS) - 1), word >> PREFIX_BITS);
    let is_possible = vote < (1 << 32) / (1 + members as u64);
    is_possible.then_some((prefix as usize, vote as usize))
}

/// Decisions that ranks of several nodes make together, round by round, even if some of them end meanwhile. Each rank votes in
/// a round, and gets the votes of all ranks that were not gone before. The result is the same for all that live to see it.
#[derive(Debug)]
pub struct Ballot {
    region: Region,
    /// The number of words of a vote.
    vote: usize,
}

impl Ballot {
    /// Opens the ballot of these ranks of the world, this one among them, in which votes have `vote` words. Its name has two
    /// parts. The first is the prefix of the names of all MPBs that a revocation [revokes](Rank::revoke_mpbs).
    ///
    /// # Errors
    /// Those of [`Region::open_of`].
    pub fn open(
        rank: &Rank,
        namespace: Namespace,
        (prefix, name): (&str, &str),
        members: &[usize],
        vote: usize,
    ) -> Result<Self> {
        let settings = Mpbs::lines(1).proposing(proposal(prefix.len(), vote));
        let mpbs = namespace.mpbs(Mpbs { crosses: true, ..settings });
        let words = Sheet::words(members.len(), vote);
        let region = Region::open_by(rank, mpbs, &format!("{prefix}{name}"), members, (words, 0))?;
        Ok(Self { region, vote })
    }

    /// Makes reports tell which call waits.
    pub fn set_caller(&mut self, caller: Arc<dyn Caller>) {
        self.region.set_caller(caller);
    }

    fn sheet(&self) -> Result<Sheet<'_>> {
        let sheet = Sheet::new(self.region.words(), self.region.ranks(), self.vote);
        let reason = || "the region of a ballot is too short".to_owned();
        sheet.ok_or_else(|| ErrorKind::BadCall { reason: reason() }.into())
    }

    /// Returns the words that say whether the ballot is revoked, and whether all members of this node were told. The first
    /// one reaches the other nodes after [`announce`](Self::announce), where all are told.
    ///
    /// # Errors
    /// [`BadCall`](ErrorKind::BadCall).
    pub fn flags(&self) -> Result<[&Word; 2]> {
        Ok(self.sheet()?.flags())
    }

    /// Has this node's bridge look at the ballot.
    ///
    /// # Errors
    /// [`Segment`](ErrorKind::Segment) for a broken segment.
    pub fn announce(&self) -> Result<()> {
        let context = &self.region.opened.context;
        let heap = context.lock_heap()?;
        context.world()?.channels.fetch_add(1, Ordering::Relaxed);
        drop(heap);
        if let Some(carrier) = context.carrier() {
            carrier.dispatch();
        }
        Ok(())
    }

    /// Votes in a round, and returns its result when every member has voted or is gone: what it says of each member, in
    /// their order. Rounds begin with 1. Each member votes in each round, in order.
    ///
    /// # Errors
    /// [`PeerLost`](ErrorKind::PeerLost) if the nodes have lost each other; [`Segment`](ErrorKind::Segment) for a broken
    /// segment.
    pub fn decide(&self, round: u64, vote: &[u64]) -> Result<Vec<Cast>> {
        let (sheet, context) = (self.sheet()?, &self.region.opened.context);
        sheet.cast(self.region.rank(), round, vote);
        self.announce()?;
        let world = context.world()?;
        self.region.wait(0, None, None, || {
            let result = sheet.result(round).map(Ok);
            // Acquire: pairs with the Release in `drop`.
            let severed = || world.severed.load(Ordering::Acquire) != 0;
            result.or_else(|| severed().then(|| Err(self.severed())))
        })?
    }

    #[cold]
    fn severed(&self) -> Error {
        let (context, place) = (&self.region.opened.context, Place::Communicator);
        let elsewhere = (0..self.region.ranks())
            .filter_map(|member| self.region.opened.world_rank(member).ok())
            .find(|&rank| !context.is_here(rank));
        let rank = elsewhere.unwrap_or_default() as usize;
        ErrorKind::PeerLost { rank, world_rank: rank, place }.into()
    }
}
