//! How [ballots](crate::memory::Ballot) reach other nodes.
//!
//! Each node has a sheet of its own, in which its ranks write. Its bridge tells the others, in the order in which it happens:
//!
//! - A vote goes to the *home* of the ballot, the node of the first member. The bridge there decides a round when every
//!   member has voted in it or is gone, and tells the result to all nodes of members. Those write it in their sheets.
//! - That a member has left, or that the ballot is revoked, goes to all nodes of members. Each node that hears of a
//!   revocation also tells all others. So none hears of what a rank has done because of it before it hears of it itself.
//!
//! A rank that ends is gone from all its ballots. Its node tells that behind all that the rank has voted. A result that
//! names a rank as lost waits until its node knows that, too, so that a rank that reads the result can acknowledge the loss.
//!
//! The bridge looks at all ballots when something has been made, has changed or was left (`WorldControl::channels`), and holds
//! the heap's lock meanwhile, so that none is freed.

use std::collections::HashSet;

use super::{Bridge, known_ballots::Known};
use crate::{
    ErrorKind,
    context::{Context, Namespace, RankState},
    error::Result,
    mpb::{
        Descriptor, Mpb, Sheet,
        ballot::{Cast, proposed},
        find_ballot, find_or_make_ballot, lines_of,
    },
    named::{Leaving, Name, Object},
    segment::{BlockKind, SegmentError},
    sync::Ordering,
};

/// A ballot, as nodes tell each other of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BallotTitle {
    namespace: u64,
    name: String,
    members: Vec<u32>,
    proposal: u64,
}

/// What nodes tell each other of a ballot.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Tidings {
    /// To the ballot's home: a member of the sending node has voted in a round.
    Vote {
        /// The member.
        member: u32,
        /// The round.
        round: u64,
        /// Its vote.
        vote: Vec<u64>,
    },
    /// From the ballot's home: the result of a round.
    Result {
        /// The round.
        round: u64,
        /// What the result says of each member.
        casts: Vec<Cast>,
    },
    /// A member of the sending node has left the ballot, and lives.
    Left {
        /// The member.
        member: u32,
    },
    /// The ballot is revoked.
    Revoked,
}

impl Bridge {
    /// Returns what other nodes are to be told of ballots since the last call, each with the node.
    ///
    /// # Errors
    /// [`Segment`](ErrorKind::Segment).
    pub fn ballots(&mut self) -> Result<Vec<(usize, BallotTitle, Tidings)>> {
        let made = self.world.world()?.channels.load(Ordering::Relaxed);
        let mut told = Vec::new();
        if self.ballots.made == Some(made) {
            return Ok(told);
        }
        let mut heap = self.world.lock_heap()?;
        // The count changes under the lock only.
        self.ballots.made = Some(self.world.world()?.channels.load(Ordering::Relaxed));
        let mut known = std::mem::take(&mut self.ballots.known);
        for block in heap.blocks()? {
            if block.kind != BlockKind::Mpbs || !block.settled {
                continue;
            }
            let ballot = Object::<Descriptor>::at(&self.world, block.key)?;
            let Some((members, proposal)) = ballot.crossing()? else { continue };
            let Some((_, vote)) = proposed(proposal, members.len()) else { continue };
            let mut of_this = known.remove(&block.key).unwrap_or_default();
            let look = Look { world: &self.world, members: &members, ballot: &ballot };
            let home = self.ballots.home(&self.world, &members);
            let new = look.look(ballot.sheet(vote)?, home, &mut of_this)?;
            if !new.is_empty() {
                let (namespace, name) = ballot.name();
                let namespace = namespace.word();
                let title = BallotTitle { namespace, name, members: members.clone(), proposal };
                told.extend(new.into_iter().map(|(node, new)| (node, title.clone(), new)));
            }
            if look.all_here_are_gone()? {
                ballot.let_go(&mut heap)?;
            }
            self.ballots.known.insert(block.key, of_this);
        }
        Ok(told)
    }

    /// Heeds what another node has told of a ballot.
    ///
    /// # Errors
    /// [`BadMpbs`](ErrorKind::BadMpbs) if there can be no such ballot; [`Segment`](ErrorKind::Segment), also for lack of
    /// memory.
    pub fn heed_ballot(&mut self, title: &BallotTitle, tidings: Tidings) -> Result<()> {
        let BallotTitle { namespace, name, members, proposal } = title;
        let named = Name::new(Namespace::from_word(*namespace), name);
        let distinct: HashSet<_> = members.iter().collect();
        let is_possible = named.is_valid()
            && distinct.len() == members.len()
            && members.iter().all(|&member| (member as usize) < self.world.size());
        let Some((prefix, vote)) = proposed(*proposal, members.len()).filter(|_| is_possible)
        else {
            let reason = "another node has told of a ballot that is none".to_owned();
            return Err(ErrorKind::BadMpbs { mpbs: name.as_str().into(), reason }.into());
        };
        let mut runs = Vec::new();
        for &member in members {
            if self.runs(member)? {
                runs.push(member);
            }
        }
        let here = runs.iter().copied().find(|&member| self.world.is_here(member));
        let elsewhere = runs.iter().copied().find(|&member| !self.world.is_here(member));
        let is_home = self.ballots.home(&self.world, members) == self.world.node_here();
        // The next call of `ballots` looks at what this changes.
        self.ballots.made = None;
        // The ballot is made in the name of a rank that this bridge stands in for. Of one that does not run, only results come.
        let maker = self.world.as_rank(elsewhere.unwrap_or_default());
        let place = |member: u32| members.iter().position(|&other| other == member);
        let words = Sheet::words(members.len(), vote);
        let lines = lines_of((words, 0), members.len()).unwrap_or(usize::MAX);
        let found = || find_or_make_ballot(&maker, named, members, (lines, *proposal));
        match tidings {
            Tidings::Result { round, casts } => {
                let heap = self.world.lock_heap()?;
                // There is no ballot if all members of this node are gone. Then no rank needs the result.
                if let Some(ballot) = find_ballot(&self.world, &heap, named, members)? {
                    let known = self.ballots.known.entry(ballot.key).or_default();
                    known.results.push_back((round, casts));
                }
            }
            _ if elsewhere.is_none() => {}
            Tidings::Vote { member, round, vote: cast } => {
                let (_heap, ballot) = found()?;
                let sheet = ballot.sheet(vote)?;
                if let Some(place) = place(member).filter(|_| round > sheet.decided()) {
                    sheet.cast(place, round, &cast);
                }
            }
            Tidings::Left { member } if runs.contains(&member) && (is_home || here.is_some()) => {
                let (mut heap, ballot) = found()?;
                ballot.take_out(&mut heap, (0, member), Leaving::CLOSED, None)?;
            }
            Tidings::Left { .. } => {}
            Tidings::Revoked => {
                let Some(here) = here else { return Ok(()) };
                let (heap, ballot) = found()?;
                let [revoked, _] = ballot.sheet(vote)?.flags();
                let is_new = revoked.load() == 0;
                revoked.store(1);
                drop(heap);
                if is_new {
                    let prefix = name.get(..prefix).unwrap_or(name);
                    Mpb::revoke(&self.world.as_rank(here), prefix)?;
                }
            }
        }
        Ok(())
    }

    /// Notes that a rank of another node was lost with its node, which is the home of no ballot any more.
    pub(super) fn lose_ballots_of(&mut self, rank: u32) {
        self.ballots.lost.insert(self.world.node_of(rank));
        self.ballots.made = None;
    }
}

/// A look at a ballot.
struct Look<'a> {
    world: &'a Context,
    members: &'a [u32],
    ballot: &'a Object<'a, Descriptor>,
}

impl Look<'_> {
    /// Returns how a member has ended, and whether it takes part in no more rounds.
    fn state(&self, member: u32) -> Result<(RankState, bool), SegmentError> {
        let members = &self.ballot.members;
        let state = self.world.rank(member)?.state();
        // A rank that panics closes what it has before it is known to be lost.
        let closed = members.gone.contains(member) && !members.lost.contains(member);
        Ok((state, state.ended() || closed))
    }

    fn here(&self) -> impl Iterator<Item = (usize, u32)> {
        let members = self.members.iter().copied().enumerate();
        members.filter(|&(_, member)| self.world.is_here(member))
    }

    fn all_here_are_gone(&self) -> Result<bool, SegmentError> {
        for (_, member) in self.here() {
            if !self.state(member)?.1 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns what is to be told of the ballot. Decides rounds if this node is its home, and writes the results of another
    /// home otherwise.
    fn look(
        &self,
        sheet: Sheet<'_>,
        home: usize,
        known: &mut Known,
    ) -> Result<Vec<(usize, Tidings)>, SegmentError> {
        let own = self.world.node_here();
        let mut nodes: Vec<_> = self.members.iter().map(|&rank| self.world.node_of(rank)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|&node| node != own);
        let mut told = Vec::new();
        let all = |tidings: &Tidings| {
            nodes.iter().map(|&node| (node, tidings.clone())).collect::<Vec<_>>()
        };
        if std::mem::replace(&mut known.home, home) != home {
            known.voted.clear();
        }
        if !known.revoked && sheet.flags()[0].load() != 0 {
            known.revoked = true;
            told.extend(all(&Tidings::Revoked));
        }
        for (place, member) in self.here() {
            // A rank that is seen to be gone has cast its last vote.
            let (state, gone) = self.state(member)?;
            let round = sheet.last_of(place);
            if home != own
                && known.voted.insert(member, round).unwrap_or_default() != round
                && let Some(vote) = sheet.vote_of(place, round)
            {
                told.push((home, Tidings::Vote { member, round, vote }));
            }
            if gone && known.left.insert(member) && !state.ended() {
                told.extend(all(&Tidings::Left { member }));
            }
        }
        while let Some((round, casts)) = known.results.front() {
            for (cast, &member) in casts.iter().zip(self.members) {
                if cast.lost && self.state(member)?.0 != RankState::Lost {
                    return Ok(told);
                }
            }
            sheet.decide(*round, casts);
            known.results.pop_front();
            self.ring();
        }
        while home == own
            && let Some(casts) = self.result(sheet)?
        {
            let round = sheet.decided() + 1;
            sheet.decide(round, &casts);
            told.extend(all(&Tidings::Result { round, casts }));
            self.ring();
        }
        Ok(told)
    }

    /// Returns the result of the next round, if every member has voted in it or is gone, and any has voted.
    fn result(&self, sheet: Sheet<'_>) -> Result<Option<Vec<Cast>>, SegmentError> {
        let round = sheet.decided() + 1;
        let mut casts = Vec::with_capacity(self.members.len());
        for (place, &member) in self.members.iter().enumerate() {
            let (state, gone) = self.state(member)?;
            let vote = sheet.vote_of(place, round);
            if vote.is_none() && !gone {
                return Ok(None);
            }
            casts.push(Cast { vote, gone, lost: state == RankState::Lost });
        }
        Ok(casts.iter().any(|cast| cast.vote.is_some()).then_some(casts))
    }

    fn ring(&self) {
        self.here().for_each(|(_, member)| self.world.ring(member));
    }
}
