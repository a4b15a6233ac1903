//! Collective operations of communicators whose ranks are on several nodes.
//!
//! A node's ranks work together in their common memory, by the algorithms for one node. The first of them is the node's
//! *leader*. Leaders have channels to each other, and carry what the nodes have in common:
//!
//! ```text
//! node A: 0  1  2  3                     node B: 4  5  6  7
//!         └──┴──┴──┘ reduce                      └──┴──┴──┘ reduce
//!         leader 0 ◀─────── channels ───────▶ leader 4
//!         ┌──┬──┬──┐ broadcast                   ┌──┬──┬──┐ broadcast
//! ```
//!
//! Long messages go in pieces, so that the nodes and the channels between them work at the same time.
//!
//! | file | what it is |
//! |---|---|
//! | `link` | the channels between two leaders |
//! | `here` | the operations of the ranks of one node |
//! | `broadcast`, `reduce`, `scan`, `exchange` | the operations, by kind |
//!
//! # Why nothing waits forever
//!
//! All leaders take the same steps in the same order. Where two of them send to each other in a step, both send before they
//! receive. What is sent in a step is received in the same step or in the next one, and each leader sends at most two pieces
//! to another one in a step. A channel has room for four. So of the leaders that send to each other, the one that is behind
//! the others never waits for room.
//!
//! # When a call fails
//!
//! A rank whose call fails tells the others which rank was lost: leaders by a channel, ranks of its node by a line. Then
//! it closes everything, also what it has not opened before. That ends the others' calls, and they do the same.

mod broadcast;
mod exchange;
mod here;
mod link;
mod reduce;
mod scan;

use std::ops::Range;
use std::sync::Arc;

use mp_core::{Error, ErrorKind, Plain, Rank, Result};

use self::here::Here;
use self::link::{Link, PIECE};
use crate::communicator::Title;
use crate::communicator::error::lost;
use crate::errors::bad_call;
use crate::settings::Settings;

/// One rank's part in the collective operations of a communicator whose ranks are on several nodes.
pub(crate) struct Nodes {
    rank: Rank,
    /// The numbers of the communicator's ranks in the world.
    members: Vec<usize>,
    /// This rank's number.
    me: usize,
    /// The communicator's ranks on each node that has any.
    groups: Vec<Vec<usize>>,
    /// The group of this rank.
    mine: usize,
    /// Whether each group's ranks follow those of the group before, so that groups can be combined in the order of ranks.
    in_order: bool,
    name: String,
    here: Here,
    /// At a leader: the channels to and from the leader of each other group.
    links: Vec<Option<Link>>,
    /// The channels of scans, from the rank below and to the rank above, if they are open.
    below: Option<Link>,
    above: Option<Link>,
    settings: Settings,
    /// Whether the call that this rank makes has done anything that others see.
    begun: bool,
    /// Why this rank makes no more calls.
    failed: Option<String>,
}

impl Nodes {
    /// Makes this rank's part in the operations of these ranks of the world. The title describes their communicator, and
    /// `name` is the prefix of the names of everything that its ranks open.
    ///
    /// # Errors
    /// [`NoSuchRank`](ErrorKind::NoSuchRank).
    pub(crate) fn new(
        rank: &Rank,
        members: Vec<usize>,
        name: String,
        title: &Arc<Title>,
        settings: &Settings,
    ) -> Result<Self> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut nodes = Vec::new();
        for (local, &member) in members.iter().enumerate() {
            let node = rank.node_of(member)?;
            match nodes.iter().position(|&other| other == node) {
                Some(group) => groups[group].push(local),
                None => {
                    nodes.push(node);
                    groups.push(vec![local]);
                }
            }
        }
        let here = nodes.iter().position(|&node| node == rank.node());
        let me = members.iter().position(|&member| member == rank.id());
        let (Some(mine), Some(me)) = (here, me) else {
            return Err(bad_call(
                "a rank can only take part in operations of its own communicators",
            ));
        };
        let in_order = groups.concat().is_sorted();
        let ranks = groups[mine].iter().map(|&local| members[local]).collect();
        let here = Here::new(rank, ranks, &name, title, settings);
        let links = groups.iter().map(|_| None).collect();
        let (rank, settings, begun, failed) = (rank.clone(), settings.clone(), false, None);
        let (below, above) = (None, None);
        Ok(Self {
            rank,
            members,
            me,
            groups,
            mine,
            in_order,
            name,
            here,
            links,
            below,
            above,
            settings,
            begun,
            failed,
        })
    }

    /// Makes a call. If it is refused before this rank has done anything, the rank can make others. After any other error it
    /// can't, and neither can the other ranks.
    ///
    /// # Errors
    /// Those of the call, and [`FailedBefore`](ErrorKind::FailedBefore) after one that has failed.
    pub(crate) fn call(&mut self, call: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(reason) = &self.failed {
            return Err(ErrorKind::FailedBefore { reason: reason.clone() }.into());
        }
        self.begun = false;
        match call(self) {
            Err(error) if self.begun => Err(self.fail(error)),
            ended => ended,
        }
    }

    /// Notes that the call has been found to be one that can be made. Opens the channels to other leaders, if this is the
    /// first.
    fn begin(&mut self) -> Result<()> {
        self.begun = true;
        for group in self.others() {
            if self.leads() && self.links[group].is_none() {
                self.links[group] = Some(self.open(self.groups[group][0], "leaders")?);
            }
        }
        Ok(())
    }

    /// Opens the channels to and from another rank. Does not wait until that rank opens its ends.
    fn open(&self, other: usize, what: &str) -> Result<Link> {
        let name = format!("{}{what}", self.name);
        Link::open(&self.rank, &name, (other, self.members[other]), self.settings.wait)
    }

    /// Ends this rank's calls after one that has failed, tells the other ranks, and returns the error for the caller.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        let mut error = self.here.after(error);
        if let ErrorKind::Disconnected { .. } | ErrorKind::PeerEnded { .. } = error.kind()
            && let Some(rank) = self.lost()
        {
            error = lost(rank, rank);
        }
        let cause = match error.kind() {
            &ErrorKind::PeerLost { world_rank, .. } => Some(world_rank),
            _ => None,
        };
        // Others may wait, now or later, in what this rank has not opened yet.
        let _ = self.begin();
        let _ = self.open_scans();
        if let Some(rank) = cause {
            self.here.tell(rank);
            let links = self.links.iter_mut().flatten();
            links.chain(&mut self.below).chain(&mut self.above).for_each(|link| link.tell(rank));
        }
        self.here.close();
        self.links.fill_with(|| None);
        (self.below, self.above) = (None, None);
        self.failed = Some(error.to_string());
        error
    }

    /// Returns a member that was lost, as far as this rank knows or another one of this node has told.
    fn lost(&self) -> Option<usize> {
        let known = self.members.iter().copied().find(|&member| self.rank.is_lost(member));
        known.or_else(|| self.here.told())
    }

    fn leads(&self) -> bool {
        self.groups[self.mine][0] == self.me
    }

    /// Returns the group of a rank, and its number there.
    fn place(&self, rank: usize) -> (usize, usize) {
        let found =
            self.groups.iter().enumerate().find_map(|(group, ranks)| {
                ranks.binary_search(&rank).ok().map(|place| (group, place))
            });
        found.unwrap_or_default()
    }

    /// Returns the other groups, in the order of their numbers.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let mine = self.mine;
        (0..self.groups.len()).filter(move |&group| group != mine)
    }

    /// Returns the channels to the leader of another group. Only a leader has any.
    fn link(&mut self, group: usize) -> Result<&mut Link> {
        let link = self.links.get_mut(group).and_then(Option::as_mut);
        link.ok_or_else(|| bad_call("only leaders of different nodes have channels to each other"))
    }

    /// Waits until all ranks have arrived.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        self.begin()?;
        self.here.gather_signal()?;
        if self.leads() {
            let (groups, mine) = (self.groups.len(), self.mine);
            let mut distance = 1;
            while distance < groups {
                self.link((mine + distance) % groups)?.send(&[])?;
                self.link((mine + groups - distance) % groups)?.receive(&mut [])?;
                distance *= 2;
            }
        }
        self.here.broadcast(&mut [0], 0)
    }
}

/// Cuts a vector into pieces that a channel between nodes can carry.
fn pieces<T: Plain>(length: usize) -> Result<Vec<Range<usize>>> {
    let size = size_of::<T>();
    if size > PIECE {
        return Err(bad_call(format!(
            "elements of {size} bytes are too long for operations between nodes: they can have {PIECE} bytes"
        )));
    }
    let most = PIECE.checked_div(size).unwrap_or(PIECE);
    Ok((0..length).step_by(most).map(|start| start..length.min(start + most)).collect())
}
