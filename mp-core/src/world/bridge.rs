//! What stands in for the ranks of other nodes.
//!
//! Each node of a world has a segment of its own, with control blocks for the ranks of all nodes. A channel between
//! ranks of two nodes has a part in each of the two segments: the rank's own end, and opposite to it an end that the
//! node's [`Bridge`] holds in the name of the other rank. The bridge's owner carries the messages from part to part. A
//! message that a bridge has taken keeps its slot until the receiver, on the other node, has given back its own. So no
//! more messages are on the way than the channel's degree says.
//!
//! The parts are paired in the order in which they are made: the first channel of a name between two ranks on one node
//! with the first one on the other node. As in a world of one node, this is the order in which ranks open their ends.

use std::{
    collections::{HashSet, VecDeque},
    ops::Range,
    rc::Rc,
    sync::Arc,
};

use super::watch::Shared;
use crate::{
    ErrorKind,
    channel::{
        Agreement, End, Opened, Received, Receiver, Sender, TakenBytes, crossing_at, farewell_at,
        withdraw,
    },
    context::{Context, Namespace},
    error::{Error, Result},
    segment::{BlockKey, BlockKind},
    sync::Ordering,
};

/// A channel between ranks of two nodes, as nodes tell each other of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Crossing {
    namespace: u64,
    name: String,
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    carries: Carries,
}

/// A [`ChannelSpec`](crate::ChannelSpec).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Carries {
    type_name: String,
    element_size: usize,
    element_align: usize,
    slice: bool,
    degree: u64,
    max_len: usize,
}

impl Crossing {
    fn of(agreement: &Agreement) -> Option<Self> {
        let (&[from], &[to]) = (&agreement.senders[..], &agreement.receivers[..]) else {
            return None;
        };
        let carries = Carries::of(agreement.spec.clone());
        let (namespace, name) = (agreement.namespace.word(), agreement.name.to_string());
        Some(Self { namespace, name, from, to, carries })
    }

    fn agreement(&self) -> Agreement {
        Agreement {
            namespace: Namespace::from_word(self.namespace),
            name: self.name.as_str().into(),
            senders: vec![self.from],
            receivers: vec![self.to],
            shared: false,
            spec: self.carries.spec(),
        }
    }

    /// Returns the same channel, as an end asks for it that wants something else.
    #[must_use]
    pub fn with(&self, spec: &crate::ChannelSpec) -> Self {
        Self { carries: Carries::of(spec.clone()), ..self.clone() }
    }

    /// Returns the channel's name and ranks, on which its ends agree.
    pub fn title(&self) -> (u64, &str, u32, u32) {
        (self.namespace, &self.name, self.from, self.to)
    }
}

impl Carries {
    fn of(spec: crate::ChannelSpec) -> Self {
        Self {
            type_name: spec.type_name,
            element_size: spec.element_size,
            element_align: spec.element_align,
            slice: spec.slice,
            degree: spec.degree,
            max_len: spec.max_len,
        }
    }

    fn spec(&self) -> crate::ChannelSpec {
        crate::ChannelSpec {
            type_name: self.type_name.clone(),
            element_size: self.element_size,
            element_align: self.element_align,
            slice: self.slice,
            degree: self.degree,
            max_len: self.max_len,
        }
    }
}

/// A rank opens no more channels of a name: see [`Rank::withdraw`](crate::Rank::withdraw).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Withdrawal {
    namespace: u64,
    name: String,
    /// The rank.
    pub rank: u32,
}

/// How an end was left, or why it can't be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Left {
    /// The rank has dropped it, or has returned.
    Closed,
    /// The rank was lost.
    Lost,
}

/// The end that a bridge holds of one channel.
#[derive(Debug)]
pub struct Part {
    crossing: Crossing,
    kind: Kind,
    held: Held,
}

/// Says that something is held in the name of a rank of another node: see [`Bridge::bury`].
#[derive(Clone, Debug, Default)]
struct Held {
    count: Arc<()>,
}

#[derive(Debug)]
enum Kind {
    /// The receiving end: the sender is a rank of this node. `taken` has the slots that were not given back, each with
    /// what says whether its bytes are still [lent](Lent). `owed` slots are to be given back.
    Out { from: Rc<Receiver<[u8]>>, taken: VecDeque<(Received, Rc<()>)>, owed: u64 },
    /// The sending end: the receiver is a rank of this node.
    In { to: Box<Sender<[u8]>>, given_back: u64 },
}

/// A message that a bridge has taken: see [`Part::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Taken {
    /// The number of its elements.
    pub elements: u64,
    /// Whether it is a buffer that moves.
    pub moved: bool,
}

/// The bytes of a message that a bridge has taken. Its slot is not given back, and its end not closed, before this is
/// dropped.
#[derive(Debug)]
pub struct Lent {
    bytes: TakenBytes,
    _slot: Rc<()>,
    _end: Rc<Receiver<[u8]>>,
    _held: Held,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: the message was published before its slot was taken, and the slot is not written before it is given
            // back. `Part::give_back` does that only when this is gone. Until then `_end` keeps the end open, and `_held`
            // keeps its rank from being buried, so that the channel stays in memory.
            TakenBytes::InSlot(bytes) => unsafe { bytes.as_ref() },
            TakenBytes::Moved(buffer) => buffer,
        }
    }
}

impl Part {
    fn open(bridge: &Bridge, agreement: Agreement) -> Result<Self> {
        let (context, crossing) = (&bridge.world, Crossing::of(&agreement));
        let crossing = crossing.ok_or_else(|| only_pairs(&agreement))?;
        let end = if context.is_here(crossing.from) { End::Receiver } else { End::Sender };
        let rank = if end == End::Receiver { crossing.to } else { crossing.from };
        let held = bridge.held.get(rank as usize).cloned().unwrap_or_default();
        let opened = Opened::open(Arc::new(context.as_rank(rank)), agreement, end)?;
        let kind = match end {
            End::Receiver => {
                let from = Rc::new(Receiver::new(opened));
                Kind::Out { from, taken: VecDeque::new(), owed: 0 }
            }
            End::Sender => Kind::In { to: Box::new(Sender::new(opened)), given_back: 0 },
        };
        Ok(Self { crossing, kind, held })
    }

    fn opened(&self) -> &Opened {
        match &self.kind {
            Kind::Out { from, .. } => from.opened(),
            Kind::In { to, .. } => to.opened(),
        }
    }

    /// Returns the channel.
    pub fn crossing(&self) -> &Crossing {
        &self.crossing
    }

    /// Takes the next message that a rank of this node has sent. Its slot stays taken until it is [given
    /// back](Self::give_back).
    ///
    /// # Errors
    /// [`Disconnected`](ErrorKind::Disconnected) or [`PeerLost`](ErrorKind::PeerLost) when the sender is gone and
    /// everything was taken; [`Mismatch`](ErrorKind::Mismatch); [`Segment`](ErrorKind::Segment).
    pub fn take(&mut self) -> Result<Option<(Taken, Lent)>> {
        let Kind::Out { from, taken, .. } = &mut self.kind else { return Ok(None) };
        match from.take_bytes() {
            Ok(Some((slot, elements, bytes))) => {
                let moved = matches!(bytes, TakenBytes::Moved(_));
                let is_lent = Rc::new(());
                taken.push_back((slot, Rc::clone(&is_lent)));
                let (end, held) = (Rc::clone(from), self.held.clone());
                let lent = Lent { bytes, _slot: is_lent, _end: end, _held: held };
                Ok(Some((Taken { elements, moved }, lent)))
            }
            Ok(None) => Ok(None),
            // All slots are taken or were given up, so nothing is in the channel behind these messages.
            Err(error) if matches!(error.kind(), ErrorKind::GuardsHeld { .. }) => {
                match from.opened().signals().for_receiver.ended() {
                    true => Err(from.opened().why_ended(crate::Operation::Receive)),
                    false => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Gives back the slots of `messages` further messages, beginning with the one that was taken first. A slot whose bytes
    /// are still lent is given back by a later call.
    pub fn give_back(&mut self, messages: u64) {
        let Kind::Out { from, taken, owed } = &mut self.kind else { return };
        *owed += messages;
        while *owed > 0
            && taken.front().is_some_and(|(_, is_lent)| Rc::strong_count(is_lent) == 1)
            && let Some((slot, _)) = taken.pop_front()
        {
            from.give_back(slot);
            *owed -= 1;
        }
    }

    /// Sends a message of `len` bytes, which `write` writes, to the receiver on this node. Sends nothing if that fails.
    ///
    /// # Errors
    /// Those of [`Sender::try_send`]; [`TooLong`](ErrorKind::TooLong) also if the message does not fit the channel's
    /// type, and [`Full`](ErrorKind::Full) if more come than its degree allows. All of these come before `write` is
    /// called.
    pub fn put<E: From<Error>>(
        &mut self,
        Taken { elements, moved }: Taken,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let degree = self.crossing.carries.degree;
        let Kind::In { to, .. } = &mut self.kind else { return Ok(()) };
        match to.try_send_bytes(len, elements, moved, write)? {
            true => Ok(()),
            false => {
                let channel = self.crossing.name.as_str().into();
                Err(Error::from(ErrorKind::Full { channel, degree }).into())
            }
        }
    }

    /// Returns how many messages the receiver on this node has given back since the last call.
    pub fn returned(&mut self) -> u64 {
        let Kind::In { to, given_back } = &mut self.kind else { return 0 };
        let now = to.given_back();
        now.saturating_sub(std::mem::replace(given_back, now))
    }

    /// Returns the number that the receiver on this node has left for the sender: see
    /// [`Receiver::set_notice`](crate::Receiver::set_notice).
    pub fn notice(&self) -> u64 {
        match &self.kind {
            Kind::In { to, .. } => to.notice(),
            Kind::Out { .. } => 0,
        }
    }

    /// Leaves a number for the sender on this node.
    pub fn set_notice(&self, notice: u64) {
        if let Kind::Out { from, .. } = &self.kind {
            from.set_notice(notice);
        }
    }

    /// Returns how the receiver on this node has left, if it has.
    pub fn left(&self) -> Option<Left> {
        let Kind::In { to, .. } = &self.kind else { return None };
        let signal = &to.opened().signals().for_sender;
        let gone = signal.ended() && !signal.mismatched();
        gone.then(|| Left::of(&to.opened().why_ended(crate::Operation::Send)))
    }

    /// Returns what the rank of this node asks for, if it is another type or degree.
    pub fn differs(&self) -> Option<Crossing> {
        Some(self.crossing.with(&self.opened().differs()?))
    }

    /// Tells the rank of this node that the other one asks for another type or degree, and closes the end.
    ///
    /// # Errors
    /// [`Segment`](ErrorKind::Segment).
    pub fn disagree(self, theirs: &Crossing) -> Result<()> {
        Ok(self.opened().disagree(&theirs.carries.spec())?)
    }

    /// Closes the end, as the rank of the other node has.
    pub fn close(self, left: Left) {
        if left == Left::Lost {
            self.opened().break_off();
        }
    }
}

impl Left {
    /// Returns what the error of a channel's end says of the other end.
    pub fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::PeerLost { .. } => Self::Lost,
            _ => Self::Closed,
        }
    }
}

/// What the owner of a bridge knows of the ends of this node's ranks.
#[derive(Debug)]
pub(super) struct Told {
    /// Whether each has ended in this round.
    pub(super) ended: Vec<bool>,
    /// Whether the process of each has ended.
    pub(super) gone: Vec<bool>,
    /// Whether the code of a rank has failed in this round, and whether a process has failed.
    pub(super) failing: bool,
    pub(super) failed: bool,
}

impl Told {
    fn of(ranks: usize) -> Self {
        let (ended, gone) = (vec![false; ranks], vec![false; ranks]);
        Self { ended, gone, failing: false, failed: false }
    }
}

/// What stands in for the ranks of other nodes: it holds their ends of the channels to and from ranks of this node, and
/// tells these how they end. When it is dropped, those that have not ended are lost.
#[derive(Debug)]
pub struct Bridge {
    pub(super) world: Arc<Context>,
    /// What watches the ranks of this node, if they are processes.
    pub(super) launcher: Option<Arc<Shared>>,
    /// The number of objects that the world had made at the last look.
    made: u64,
    /// The channels that were looked at and still exist.
    known: HashSet<BlockKey>,
    /// The ranks of this node that have withdrawn from a name, as far as the owner knows, by its farewell.
    gone: HashSet<(BlockKey, u32)>,
    /// What the owner knows of the ends of this node's ranks.
    pub(super) told: Told,
    /// For each rank of the world, what parts and lent messages hold in its name.
    held: Vec<Held>,
}

impl Bridge {
    pub(super) fn new(world: Arc<Context>, launcher: Option<Arc<Shared>>) -> Self {
        let told = Told::of(world.here().len());
        // `made`: no world reaches this number of objects. So the first look finds another one, and looks at all objects.
        let (made, known, gone) = (u64::MAX, HashSet::new(), HashSet::new());
        let held = (0..world.size()).map(|_| Held::default()).collect();
        Self { world, launcher, made, known, gone, told, held }
    }

    /// Returns whether a part or a lent message is held in the name of a rank of another node.
    pub(super) fn holds(&self, rank: u32) -> bool {
        self.held.get(rank as usize).is_some_and(|held| Arc::strong_count(&held.count) > 1)
    }

    /// Returns the number of ranks of all nodes.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: u32) -> usize {
        self.world.node_of(rank)
    }

    /// Returns the ranks of a node.
    pub fn ranks_of(&self, node: usize) -> Range<u32> {
        self.world.ranks_of(node)
    }

    /// Returns the ranks of this node.
    pub fn here(&self) -> Range<u32> {
        self.world.here()
    }

    /// Opens the other ends of the channels that ranks of this node have made since the last call to or from ranks of
    /// other nodes, in the order in which they were made. Also returns what these ranks have withdrawn from. Other nodes
    /// must be told of the channels first.
    ///
    /// # Errors
    /// [`Segment`](ErrorKind::Segment).
    pub fn found(&mut self) -> Result<(Vec<Part>, Vec<Withdrawal>)> {
        let made = self.world.world()?.channels.load(Ordering::Relaxed);
        if made == self.made {
            return Ok(Default::default());
        }
        let (mut new, mut withdrawals) = (Vec::new(), Vec::new());
        {
            let heap = self.world.lock_heap()?;
            // The count changes under the lock only.
            self.made = self.world.world()?.channels.load(Ordering::Relaxed);
            let (mut known, mut gone) = (HashSet::new(), HashSet::new());
            for block in heap.blocks()? {
                if block.kind == BlockKind::Farewell && block.settled {
                    let (namespace, name, ranks) = farewell_at(&self.world, block.key)?;
                    for rank in ranks.into_iter().filter(|&rank| self.world.is_here(rank)) {
                        if !self.gone.contains(&(block.key, rank)) {
                            let (namespace, name) = (namespace.word(), name.clone());
                            withdrawals.push(Withdrawal { namespace, name, rank });
                        }
                        gone.insert((block.key, rank));
                    }
                }
                if block.kind != BlockKind::Channel || !block.settled {
                    continue;
                }
                known.insert(block.key);
                if self.known.contains(&block.key) {
                    continue;
                }
                if let Some((agreement, serial)) = crossing_at(&self.world, block.key)? {
                    new.push((serial, agreement));
                }
            }
            (self.known, self.gone) = (known, gone);
        }
        new.sort_unstable_by_key(|&(serial, _)| serial);
        let parts = new.into_iter().map(|(_, agreement)| Part::open(self, agreement));
        Ok((parts.collect::<Result<_>>()?, withdrawals))
    }

    /// Tells the ranks of this node that a rank of another node opens no more channels of a name.
    ///
    /// # Errors
    /// [`Segment`](ErrorKind::Segment).
    pub fn withdraw(&self, Withdrawal { namespace, name, rank }: &Withdrawal) -> Result<()> {
        if (*rank as usize) < self.world.size()
            && !self.world.is_here(*rank)
            && !self.world.rank(*rank)?.state().ended()
        {
            let namespace = Namespace::from_word(*namespace);
            withdraw(&self.world.as_rank(*rank), namespace, name)?;
        }
        Ok(())
    }

    /// Opens the other end of a channel that a rank of another node has made. The rank of this node finds it when it
    /// opens its own end, or has opened that already.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) if the rank of this node asks for something else;
    /// [`BadChannel`](ErrorKind::BadChannel) if it is no channel between this node and a rank of another one that lives;
    /// [`Segment`](ErrorKind::Segment).
    pub fn open(&mut self, crossing: &Crossing) -> Result<Part> {
        let agreement = crossing.agreement();
        let ranks = [crossing.from, crossing.to];
        let known = ranks.iter().all(|&rank| (rank as usize) < self.world.size());
        if !known || ranks.iter().filter(|&&rank| self.world.is_here(rank)).count() != 1 {
            return Err(only_pairs(&agreement));
        }
        // The part would act in the name of a rank whose locks others may take.
        if ranks.iter().any(|&rank| !self.world.is_here(rank) && self.world.dead(rank)) {
            return Err(only_pairs(&agreement));
        }
        let part = Part::open(self, agreement)?;
        self.known.insert(part.opened().key());
        Ok(part)
    }
}

fn only_pairs(agreement: &Agreement) -> Error {
    let reason =
        "only channels between a rank of this node and one of another node cross".to_owned();
    ErrorKind::BadChannel { channel: agreement.name.clone(), reason }.into()
}
