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
//! The operations are written once, as futures. In a blocking call everything waits inside, so [`complete`] polls the future
//! once. A nonblocking operation is such a future in a [front](crate::nonblocking), like the operations on one node. Where a
//! blocking call would wait, the future is pending. The threads that advance the front poll it again.
//!
//! | file | what it is |
//! |---|---|
//! | `link`, `losses` | the channels between two leaders, and what ends their waits |
//! | `here` | the operations of the ranks of one node |
//! | `waiting` | how ranks wait in all this |
//! | `broadcast`, `reduce`, `scan`, `exchange` | the operations, by kind |
//!
//! # Why nothing waits forever
//!
//! All leaders take the same steps in the same order. A step is a piece, with all its rounds, or a turn of pieces. Where
//! leaders send to each other in a round or a turn, all send before they receive. What is sent in a step is received in the
//! same step or in the next one, and each leader sends at most two pieces to another one in a step. A channel has room for
//! four. So a leader waits for room only for one that has not come to its step. The leader that is behind all others never
//! does, and what it waits for was sent, or will be.
//!
//! # When a call fails
//!
//! A rank whose call fails tells the others which rank was lost: leaders by a channel, ranks of its node by a line. Then
//! it closes everything, also what it has not opened before. That ends the others' calls, and they do the same.
//!
//! A rank that knows of a loss need not make the call that others wait in, for instance if it has learned of the loss by an
//! operation of another kind. So all waits also end for the loss itself: those for other nodes at once, and those for lines
//! when the rank next looks (`here`).
//!
//! When the communicator is revoked, each node hears of that by itself. It ends all waits, for lines and for other nodes.

mod broadcast;
mod exchange;
mod here;
mod link;
mod losses;
mod reduce;
mod scan;
mod waiting;

use std::ops::Range;
use std::sync::Arc;

use mp_core::mpb::{Mpb, complete};
use mp_core::{Error, ErrorKind, Plain, Rank, Result};
use mp_model::nodes::leaders::PIECE;

use self::here::Here;
use self::link::Link;
use self::losses::Losses;
use self::waiting::Waiting;
use crate::communicator::Joint;
use crate::communicator::error::lost;
use crate::errors::bad_call;
use crate::nonblocking::{Left, Waits};
use crate::settings::Settings;

/// One rank's part in the collective operations of a communicator whose ranks are on several nodes.
pub(crate) struct Nodes<M = Mpb> {
    rank: Rank,
    /// The numbers of the communicator's ranks in the world.
    members: Vec<usize>,
    losses: Arc<Losses>,
    /// This rank's number.
    me: usize,
    /// The communicator's ranks on each node that has any.
    groups: Vec<Vec<usize>>,
    /// The group of this rank.
    mine: usize,
    /// Whether each group's ranks follow those of the group before, so that groups can be combined in the order of ranks.
    in_order: bool,
    name: String,
    here: Here<M>,
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

impl<M: Waiting> Nodes<M> {
    /// Makes this rank's part in the operations of a communicator's ranks. `name` is the prefix of the names of everything that
    /// they open.
    ///
    /// # Errors
    /// [`NoSuchRank`](ErrorKind::NoSuchRank); for lack of memory.
    pub(crate) fn new(joint: Joint<'_>, name: String, settings: &Settings) -> Result<Self> {
        let (rank, members) = (joint.rank(), joint.world_ranks());
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
        let losses = Arc::new(Losses::of(&rank, members.clone(), joint.revocation()));
        let here = Here::new(&rank, ranks, &name, &joint.title(), (settings, &losses))?;
        let links = groups.iter().map(|_| None).collect();
        let (settings, begun, failed) = (settings.clone(), false, None);
        let (below, above) = (None, None);
        Ok(Self {
            rank,
            members,
            losses,
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

    /// Returns where the operations wait, if that is not in calls.
    pub(crate) fn waits(&self) -> Option<&Arc<Waits>> {
        self.here.waits()
    }

    /// Returns this rank's number, and the number of ranks.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.me, self.members.len())
    }

    /// Returns the number of a rank of the world.
    pub(crate) fn number_of(&self, world_rank: usize) -> Option<usize> {
        self.members.iter().position(|&member| member == world_rank)
    }

    /// Prepares for a call.
    ///
    /// # Errors
    /// [`FailedBefore`](ErrorKind::FailedBefore) after a call that has failed.
    pub(crate) fn start(&mut self) -> Result<()> {
        if let Some(reason) = &self.failed {
            return Err(ErrorKind::FailedBefore { reason: reason.clone() }.into());
        }
        self.begun = false;
        Ok(())
    }

    /// Ends a call with this outcome. If it was refused before this rank has done anything, the rank can make others. After
    /// any other error it can't, and neither can the other ranks.
    ///
    /// # Errors
    /// Those of the call.
    pub(crate) fn end(&mut self, outcome: Result<()>) -> Result<()> {
        outcome.map_err(|error| if self.begun { self.fail(error) } else { error })
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
        let (wait, waits) = (self.settings.wait, self.here.waits());
        Link::open(&self.rank, &name, (other, self.members[other]), &self.losses, wait, waits)
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

    /// Ends this rank's calls because the code of an operation has panicked, so that the others lose this rank.
    #[cold]
    pub(crate) fn abandon(&mut self) {
        if let Some(waits) = self.here.waits() {
            waits.leave(Left::Lost);
        }
        // Others may wait, now or later, in what this rank has not opened yet. It leaves that as well.
        let _ = self.begin();
        let _ = self.open_scans();
        self.here.tell(self.rank.id());
    }

    /// Returns a member that was lost, as far as this rank knows or another one of this node has told.
    fn lost(&self) -> Option<usize> {
        self.losses.lost().or_else(|| self.here.told())
    }

    fn leads(&self) -> bool {
        self.groups[self.mine][0] == self.me
    }

    /// Returns the group of a rank, and its number there.
    fn place(&self, rank: usize) -> Result<(usize, usize)> {
        let found =
            self.groups.iter().enumerate().find_map(|(group, ranks)| {
                ranks.binary_search(&rank).ok().map(|place| (group, place))
            });
        found.ok_or_else(|| ErrorKind::NoSuchRank { rank, size: self.members.len() }.into())
    }

    /// Returns the other groups, in the order of their numbers.
    fn others(&self) -> impl Iterator<Item = usize> + use<M> {
        let mine = self.mine;
        (0..self.groups.len()).filter(move |&group| group != mine)
    }

    /// Returns the channels to the leader of another group. Only a leader has any.
    fn link(&mut self, group: usize) -> Result<&mut Link> {
        let link = self.links.get_mut(group).and_then(Option::as_mut);
        link.ok_or_else(|| bad_call("only leaders of different nodes have channels to each other"))
    }

    /// Waits until all ranks have arrived.
    pub(crate) async fn barrier(&mut self) -> Result<()> {
        self.begin()?;
        self.here.gather_signal().await?;
        if self.leads() {
            let (groups, mine) = (self.groups.len(), self.mine);
            let mut distance = 1;
            while distance < groups {
                self.link((mine + distance) % groups)?.send(&[]).await?;
                self.link((mine + groups - distance) % groups)?.receive(&mut []).await?;
                distance *= 2;
            }
        }
        self.here.broadcast(&mut [0], 0).await
    }
}

/// Makes a blocking call.
///
/// # Errors
/// Those of [`start`](Nodes::start) and of the call.
pub(crate) fn call(
    nodes: &mut Nodes,
    call: impl AsyncFnOnce(&mut Nodes) -> Result<()>,
) -> Result<()> {
    nodes.start()?;
    let outcome = complete(call(nodes));
    nodes.end(outcome)
}

/// Cuts a vector into pieces that a channel between nodes can carry.
fn pieces<T: Plain>(length: usize) -> Result<Vec<Range<usize>>> {
    let size = size_of::<T>();
    if size > PIECE {
        return Err(bad_call(format!(
            "elements of {size} bytes are too long for operations between nodes: they can have {PIECE} bytes"
        )));
    }
    Ok(cut(length, PIECE.checked_div(size).unwrap_or(PIECE)))
}

/// Cuts a vector into pieces of this many elements. The last piece may be shorter.
fn cut(length: usize, most: usize) -> Vec<Range<usize>> {
    (0..length).step_by(most).map(|start| start..length.min(start + most)).collect()
}
