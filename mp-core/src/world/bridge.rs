//! What stands in for the ranks of other nodes.
//!
//! Each node of a world has a segment of its own, with control blocks for the ranks of all nodes. A channel between
//! ranks of two nodes has a part in each of the two segments: the rank's own end, and opposite to it an end that the
//! node's [`Bridge`] holds in the name of the other rank. The bridge's owner carries the messages from part to part. A
//! message that a bridge has taken keeps its slot until the receiver, on the other node, has given back its own. So no
//! more messages are on the way than the channel's degree says.
//!
//! At degree 0, the receiver's offer (see `channel/rendezvous.rs`) goes to the node of its sender. An offer is in one place
//! only: as soon as the receiver makes one, its bridge claims it and tells the other bridge, which makes it again to the
//! sender. A message then meets a receiver that is in its call. A receiver that gives up finds its offer claimed. It waits
//! while its bridge asks for the offer, and the other bridge takes it back from the sender. If the sender has claimed it
//! and writes its message, the receiver gives up nevertheless, and that message is the next one that is received, as on
//! one node. A receiver that only looks offers nothing before it knows that a sender waits, which bridges also tell each
//! other. All of these are a [`Step`].
//!
//! The slots of a shared channel are on one node: that of most of its receivers. So the channel has as many slots as its
//! degree says, for the senders of all nodes, and messages are received in the order of their slots. An end on another node
//! is *apart*. It has a channel for itself on its own node, at which it meets the bridge, which stands in for all ranks at
//! the other end. The bridge of the slots' node has an end of the real channel in that rank's name.
//!
//! - A sender that is apart gets an offer only when it waits for one, and when the other bridge has claimed a slot in its
//!   name. A sender that only tries *asks*, and is told if there is no slot.
//! - A receiver that is apart makes an offer when it waits. The other bridge then takes the next message in its name, and
//!   gives the slot back when the receiver has. A receiver that gives up recalls its offer, and waits for the answer: the
//!   offer, or a message that it gets then. So no message is on its way to a receiver that waits for none. A receiver that
//!   only tries does the same with an offer that it gives up at once. One that only *looks* makes no offer. Its node is told
//!   once when there is a message, which another receiver may then take.
//!
//! In an end that is apart, the bridge acts in the name of its process, and not of a rank of another node, because ranks at
//! the other end may end while others go on. It closes the end when the bridge of the slots' node says so.
//!
//! The parts are paired in the order in which they are made: the first channel of a name between two ranks on one node
//! with the first one on the other node. As in a world of one node, this is the order in which ranks open their ends.

use std::{
    collections::{HashSet, VecDeque},
    ops::Range,
    sync::{Arc, Weak},
};

use super::{known_ballots::Ballots, watch::Shared};
use crate::{
    ErrorKind,
    channel::{
        Agreement, Apart, At, End, Opened, Receiver, Sender, TakenBytes, Want, crossing_at,
        farewell_at, withdraw,
    },
    context::{Context, Namespace},
    error::{Error, Result},
    segment::{BlockKey, BlockKind},
    sync::{Ordering, fence},
    wait::{Carrier, Flag},
};

/// A channel between two ranks of two nodes, or an end of a shared channel that is apart, as nodes tell each other of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Crossing {
    title: Title,
    carries: Carries,
}

/// A channel's name and ranks, on which its ends agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Title {
    namespace: u64,
    name: String,
    senders: Vec<u32>,
    receivers: Vec<u32>,
    /// The end of a shared channel that is apart. `None` for a channel between two ranks.
    apart: Option<Apart>,
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
    fn of(agreement: &Agreement) -> Self {
        let (namespace, name) = (agreement.namespace.word(), agreement.name.to_string());
        let Agreement { senders, receivers, apart, .. } = agreement.clone();
        let title = Title { namespace, name, senders, receivers, apart };
        Self { title, carries: Carries::of(agreement.spec.clone()) }
    }

    /// Returns what the ends agree on: of the channel between two ranks, or of the shared channel on the node of its slots.
    fn agreement(&self) -> Agreement {
        let Title { namespace, name, senders, receivers, apart } = self.title.clone();
        Agreement {
            namespace: Namespace::from_word(namespace),
            name: name.as_str().into(),
            senders,
            receivers,
            shared: apart.is_some(),
            apart: None,
            spec: self.carries.spec(),
        }
    }

    /// Returns the same channel, as an end asks for it that wants something else.
    #[must_use]
    pub fn with(&self, spec: &crate::ChannelSpec) -> Self {
        Self { title: self.title.clone(), carries: Carries::of(spec.clone()) }
    }

    /// Returns the channel's name and ranks.
    pub fn title(&self) -> &Title {
        &self.title
    }

    /// Returns the ranks that open it from the two nodes: both ranks of a channel between two, or the one that is apart.
    pub fn openers(&self) -> Vec<u32> {
        match self.title.apart {
            Some(Apart { rank, .. }) => vec![rank],
            None => [&self.title.senders[..], &self.title.receivers].concat(),
        }
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
    /// This rank was lost.
    Lost(u32),
}

/// The end that a bridge holds of one channel.
#[derive(Debug)]
pub struct Part {
    crossing: Crossing,
    form: Form,
    /// The rank of this node at the channel, and the one elsewhere. If there are several, the host is named.
    here: u32,
    there: u32,
    kind: Kind,
    offer: Offer,
    held: Held,
    /// Whether there is a [`Carrier`].
    is_carried: bool,
}

/// Of which channel a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Of one between two ranks.
    Pair,
    /// Of a shared one, at a rank of this node that is apart.
    Apart,
    /// Of a shared one whose slots are here, in the name of a rank that is apart.
    AtSlots,
}

/// A receiver that lent messages keep open, wherever they are dropped.
#[derive(Debug)]
struct Kept(Receiver<[u8]>);

// SAFETY: a receiver can be sent to another thread. Only its part uses it, and a part can't be shared between threads,
// because one of another kind has a `Sender`. What else refers to it does nothing but drop it, at last and alone.
unsafe impl Sync for Kept {}

/// Says that something is held in the name of a rank of another node: see [`Bridge::bury`].
#[derive(Clone, Debug, Default)]
struct Held {
    count: Arc<()>,
}

#[derive(Debug)]
enum Kind {
    /// The receiving end: the sender is a rank of this node. `taken` has the slots that were not given back, each with
    /// what says whether its bytes are still [lent](Lent). `owed` slots are to be given back. `wanted` is what the other
    /// node knows of whether the sender wants an offer; or, at the slots, whether the receiver looks for a message.
    Out { from: Arc<Kept>, taken: VecDeque<(At, Arc<()>)>, owed: u64, wanted: Want },
    /// The sending end: the receiver is a rank of this node. `wanted` is whether the sender wants a slot of a shared
    /// channel; or, at a receiver that is apart, whether the other node knows that it looks for a message.
    In { to: Box<Sender<[u8]>>, given_back: u64, wanted: Want },
}

/// A message that a bridge has taken: see [`Part::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Taken {
    /// The number of its elements.
    pub elements: u64,
    /// Whether it is a buffer that moves.
    pub moved: bool,
}

/// What bridges tell each other of a rendezvous, or of a slot of a shared channel, between a sender and a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Step {
    /// To the sender's node: the receiver waits.
    Offered,
    /// To the sender's node: the receiver has given up, and its offer is asked for.
    Recalled,
    /// To the receiver's node: the sender has not used the offer, and can't any more.
    GivenBack,
    /// To the receiver's node: the sender has claimed the offer that is asked for, and may use it.
    Kept,
    /// To the receiver's node: whether the sender wants an offer, or that there may be a message in a shared channel.
    Wanted(Want),
    /// To the sender's node: the receiver of a shared channel wants to hear when there may be a message.
    Looks,
    /// To the sender's node, which has asked for an offer: there is none.
    Refused,
}

/// Where the receiver's offer is, as far as a part of a channel of degree 0 or of a shared channel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// With the receiver, if it makes one.
    AtReceiver,
    /// With the bridge of the sender's node, or on the way there.
    AtBridge,
    /// The sender can claim it, or has claimed it. Only the sender's node knows this.
    AtSender,
    /// It was asked for.
    Recalled,
    /// It was asked for, and the sender has claimed it. Only the sender's node knows this.
    Kept,
}

/// The bytes of a message that a bridge has taken. Its slot is not given back, and its end not closed, before this is
/// dropped.
#[derive(Debug)]
pub struct Lent {
    bytes: TakenBytes,
    _slot: Arc<()>,
    _end: Arc<Kept>,
    _held: Held,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: the message was published before its slot was taken, and the slot is not written before it is given
            // back. `Part::give_back` does that only when this is gone. Until then `_end` keeps the end open, and `_held`
            // keeps its rank from being buried, so that the channel stays in memory and no other rank gets the slot. An end
            // in the name of this process closes only when it is dropped.
            TakenBytes::InSlot(bytes) => unsafe { bytes.as_ref() },
            TakenBytes::Moved(buffer) => buffer,
        }
    }
}

impl Part {
    fn open(bridge: &Bridge, agreement: Agreement, crossing: Crossing) -> Result<Self> {
        let (context, host) = (&bridge.world, agreement.host(&bridge.world));
        let (form, end, here, there) = match (agreement.apart, crossing.title.apart) {
            (Some(Apart { end, rank }), _) => (Form::Apart, end.other(), rank, host),
            (None, Some(Apart { end, rank })) => (Form::AtSlots, end, host, rank),
            (None, None) => match (agreement.senders[0], agreement.receivers[0]) {
                (from, to) if context.is_here(from) => (Form::Pair, End::Receiver, from, to),
                (from, to) => (Form::Pair, End::Sender, to, from),
            },
        };
        let (acting, held) = match form {
            Form::Apart => (Arc::clone(context), Held::default()),
            _ => {
                let held = bridge.held.get(there as usize).cloned().unwrap_or_default();
                (Arc::new(context.as_rank(there)), held)
            }
        };
        let opened = Opened::open(acting, agreement, end)?;
        let kind = match end {
            End::Receiver => {
                let from = Arc::new(Kept(Receiver::new(opened)));
                Kind::Out { from, taken: VecDeque::new(), owed: 0, wanted: Want::No }
            }
            End::Sender => {
                let to = Box::new(Sender::new(opened));
                Kind::In { to, given_back: 0, wanted: Want::No }
            }
        };
        let (offer, is_carried) = (Offer::AtReceiver, context.carrier().is_some());
        Ok(Self { crossing, form, here, there, kind, offer, held, is_carried })
    }

    fn opened(&self) -> &Opened {
        match &self.kind {
            Kind::Out { from, .. } => from.0.opened(),
            Kind::In { to, .. } => to.opened(),
        }
    }

    /// Returns the channel.
    pub fn crossing(&self) -> &Crossing {
        &self.crossing
    }

    /// Returns the rank of this node whose end of the channel closes before the rank ends, if there is one.
    pub fn rank(&self) -> Option<u32> {
        (self.form != Form::AtSlots).then_some(self.here)
    }

    /// Returns the rank of another node with which the channel ends here, if there is one.
    pub fn other(&self) -> Option<u32> {
        (self.form != Form::Apart).then_some(self.there)
    }

    /// Returns the rank of another node at the channel; the host, if there are several.
    pub fn there(&self) -> u32 {
        self.there
    }

    /// Returns how this node's end is left if it can't be kept, as it is told to the other node.
    pub fn lost_here(&self) -> Left {
        Left::Lost(self.here)
    }

    /// Closes this node's end, because the rank at the other end is lost.
    pub fn close_as_lost(self) {
        let there = self.there;
        self.close(Left::Lost(there));
    }

    /// Returns whether it is of a shared channel, for a sender that is apart.
    fn is_of_sender(&self) -> bool {
        self.crossing.title.apart.is_some_and(|apart| apart.end == End::Sender)
    }

    /// Returns whether it is of a shared channel, for a receiver that is apart.
    fn is_of_receiver(&self) -> bool {
        self.crossing.title.apart.is_some_and(|apart| apart.end == End::Receiver)
    }

    /// Takes the next message that a rank of this node has sent. Its slot stays taken until it is [given
    /// back](Self::give_back).
    ///
    /// # Errors
    /// [`Disconnected`](ErrorKind::Disconnected) or [`PeerLost`](ErrorKind::PeerLost) when the sender is gone and
    /// everything was taken; [`Mismatch`](ErrorKind::Mismatch); [`Segment`](ErrorKind::Segment).
    pub fn take(&mut self) -> Result<Option<(Taken, Lent)>> {
        let (is_of_sender, is_of_receiver) = (self.is_of_sender(), self.is_of_receiver());
        let Kind::Out { from, taken, wanted, .. } = &mut self.kind else { return Ok(None) };
        let waits = !is_of_receiver || self.offer != Offer::AtReceiver;
        if self.is_carried && (waits || *wanted != Want::No) {
            // So that the sender's thread carries its messages at once: see `Opened::attend`.
            let signal = &from.0.opened().signals().for_sender;
            if !signal.is_parked() {
                signal.raise();
            }
        }
        if !waits {
            return from.0.check_end().map(|()| None);
        }
        match from.0.take_bytes() {
            Ok(Some((slot, elements, bytes))) => {
                let moved = matches!(bytes, TakenBytes::Moved(_));
                let is_lent = Arc::new(());
                taken.push_back((slot, Arc::clone(&is_lent)));
                self.offer = Offer::AtReceiver;
                if is_of_sender {
                    *wanted = Want::No;
                }
                let (end, held) = (Arc::clone(from), self.held.clone());
                let lent = Lent { bytes, _slot: is_lent, _end: end, _held: held };
                Ok(Some((Taken { elements, moved }, lent)))
            }
            Ok(None) => Ok(None),
            // All slots are taken or were given up, so nothing is in the channel behind these messages.
            Err(error) if matches!(error.kind(), ErrorKind::GuardsHeld { .. }) => {
                match from.0.opened().signals().for_receiver.ended() {
                    true => Err(from.0.opened().why_ended(crate::Operation::Receive)),
                    false => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Gives back the slots of `messages` further messages, beginning with the one that was taken first. A slot whose bytes
    /// are still lent is given back by a later call.
    pub fn give_back(&mut self, messages: u64) {
        let Kind::Out { from, taken, owed, .. } = &mut self.kind else { return };
        *owed += messages;
        while *owed > 0
            // If this is the only reference, what others did with theirs comes before.
            && taken.front_mut().is_some_and(|(_, is_lent)| Arc::get_mut(is_lent).is_some())
            && let Some((slot, _)) = taken.pop_front()
        {
            from.0.give_back(slot);
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
        let (degree, is_of_sender) = (self.crossing.carries.degree, self.is_of_sender());
        let Kind::In { to, given_back, wanted } = &mut self.kind else { return Ok(()) };
        match to.try_send_bytes(len, elements, moved, write)? {
            true => {
                self.offer = Offer::AtReceiver;
                if is_of_sender {
                    (*given_back, *wanted) = (*given_back + 1, Want::No);
                }
                Ok(())
            }
            false => {
                let channel = self.crossing.title.name.as_str().into();
                Err(Error::from(ErrorKind::Full { channel, degree }).into())
            }
        }
    }

    /// Returns how many messages the receiver on this node has given back since the last call; or, from a sender that is
    /// apart, how many have got their slots here.
    pub fn returned(&mut self) -> u64 {
        let is_of_sender = self.is_of_sender();
        let Kind::In { to, given_back, .. } = &mut self.kind else { return 0 };
        if is_of_sender {
            return std::mem::take(given_back);
        }
        let now = to.given_back();
        now.saturating_sub(std::mem::replace(given_back, now))
    }

    /// Returns what the other node is to be told next of a rendezvous.
    ///
    /// # Errors
    /// [`Segment`](ErrorKind::Segment).
    pub fn step(&mut self) -> Result<Option<Step>> {
        if self.form == Form::Pair && self.crossing.carries.degree > 0 {
            return Ok(None);
        }
        let (is_shared, is_of_receiver) = (self.is_of_sender(), self.is_of_receiver());
        if let (Kind::In { to, .. }, Offer::AtReceiver) = (&mut self.kind, self.offer)
            && !is_shared
            && to.claim_offer()?
        {
            self.offer = Offer::AtBridge;
            return Ok(Some(Step::Offered));
        }
        let (offer, step) = match (&mut self.kind, self.offer) {
            // A slot that is claimed holds up the messages behind it, so it is claimed only for a sender that waits.
            (Kind::In { to, wanted, .. }, Offer::AtReceiver) if is_shared => match *wanted {
                Want::No => return Ok(None),
                _ if to.claim_offer()? => (Offer::AtBridge, Step::Offered),
                Want::Waits => return Ok(None),
                Want::Asks => {
                    *wanted = Want::No;
                    (Offer::AtReceiver, Step::Refused)
                }
            },
            (Kind::In { to, .. }, Offer::AtBridge) if to.is_left() => {
                (Offer::Recalled, Step::Recalled)
            }
            (Kind::In { to, wanted, .. }, offer)
                if is_of_receiver && *wanted == Want::No && to.is_looked_at() =>
            {
                *wanted = Want::Waits;
                (offer, Step::Looks)
            }
            (Kind::In { .. }, _) => return Ok(None),
            // The look for a message came before, and has found none.
            (Kind::Out { .. }, Offer::Recalled) if is_of_receiver => {
                (Offer::AtReceiver, Step::GivenBack)
            }
            (Kind::Out { from, wanted, .. }, offer) if is_of_receiver => {
                if *wanted == Want::No || !from.0.is_ready() {
                    return Ok(None);
                }
                *wanted = Want::No;
                (offer, Step::Wanted(Want::Waits))
            }
            // Before an offer, the only slot must have been given back.
            (Kind::Out { from, taken, .. }, Offer::AtBridge) if taken.is_empty() => {
                from.0.offer();
                self.offer = Offer::AtSender;
                return self.step();
            }
            (Kind::Out { from, wanted, .. }, Offer::Recalled | Offer::Kept)
                if from.0.withdraw_offer() =>
            {
                if is_shared {
                    *wanted = Want::No;
                }
                (Offer::AtReceiver, Step::GivenBack)
            }
            // The message follows, or a later call finds that the claim was given back.
            (Kind::Out { .. }, Offer::Recalled) => (Offer::Kept, Step::Kept),
            // The sender has given up, or has claimed the offer.
            (Kind::Out { from, .. }, Offer::AtSender) if is_shared && from.0.want() == Want::No => {
                self.offer = Offer::Kept;
                return self.step();
            }
            // What follows, a message or the offer, says so.
            (Kind::Out { .. }, Offer::AtSender | Offer::Kept) if is_shared => return Ok(None),
            (Kind::Out { from, wanted, .. }, offer) if from.0.want() != *wanted => {
                *wanted = from.0.want();
                (offer, Step::Wanted(*wanted))
            }
            _ => return Ok(None),
        };
        self.offer = offer;
        Ok(Some(step))
    }

    /// Heeds what the other node has told of a rendezvous.
    pub fn heed(&mut self, step: Step) {
        let (is_of_sender, is_of_receiver) = (self.is_of_sender(), self.is_of_receiver());
        match (&mut self.kind, step) {
            (Kind::Out { .. }, Step::Offered) => self.offer = Offer::AtBridge,
            // If the sender's message is on its way, the offer is used up.
            (Kind::Out { .. }, Step::Recalled) if self.offer != Offer::AtReceiver => {
                self.offer = Offer::Recalled;
            }
            (Kind::Out { wanted, .. }, Step::Looks) if is_of_receiver => *wanted = Want::Waits,
            (Kind::Out { from, wanted, .. }, Step::Refused) => {
                from.0.refuse();
                *wanted = Want::No;
            }
            (Kind::In { to, wanted, .. }, Step::GivenBack) => {
                to.unclaim_offer();
                self.offer = Offer::AtReceiver;
                if is_of_sender {
                    *wanted = Want::No;
                }
            }
            (Kind::In { to, .. }, Step::Kept) => {
                to.keep_offer();
                // The receiver may come back, and give up again.
                self.offer = Offer::AtBridge;
            }
            (Kind::In { wanted, .. }, Step::Wanted(want)) if is_of_sender => *wanted = want,
            (Kind::In { to, wanted, .. }, Step::Wanted(want)) => {
                to.want_offer(want != Want::No);
                *wanted = Want::No;
            }
            _ => {}
        }
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
            from.0.set_notice(notice);
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

    /// Closes the end, as the ranks have that it stands for.
    pub fn close(self, left: Left) {
        if let Left::Lost(rank) = left {
            self.opened().lose(rank);
        }
    }
}

impl Left {
    /// Returns what the error of a channel's end says of the other end.
    pub fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::PeerLost { world_rank, .. } => Self::Lost(*world_rank as u32),
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
    pub(super) ballots: Ballots,
    /// For each rank of the world, what parts and lent messages hold in its name.
    held: Vec<Held>,
}

impl Bridge {
    pub(super) fn new(world: Arc<Context>, launcher: Option<Arc<Shared>>) -> Self {
        let told = Told::of(world.here().len());
        // `made`: no world reaches this number of objects. So the first look finds another one, and looks at all objects.
        let (made, known, gone) = (u64::MAX, HashSet::new(), HashSet::new());
        let held = (0..world.size()).map(|_| Held::default()).collect();
        let ballots = Ballots::default();
        Self { world, launcher, made, known, gone, told, ballots, held }
    }

    /// Returns whether a part or a lent message is held in the name of a rank of another node.
    pub(super) fn holds(&self, rank: u32) -> bool {
        let holds = |held: &Held| Arc::strong_count(&held.count) > 1;
        let held = self.held.get(rank as usize).is_some_and(holds);
        // What was done with references that are gone comes before.
        fence(Ordering::Acquire);
        held
    }

    /// Has threads of this node's ranks call `carrier` when they wait and when they send to other nodes, as long as it
    /// exists. The ranks must be threads of this process. Only the first call counts.
    pub fn carry_by(&self, carrier: Weak<dyn Carrier>) {
        self.world.set_carrier(carrier);
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
        new.sort_unstable_by_key(|&(serial, ..)| serial);
        let parts = new.into_iter().map(|(_, agreement)| {
            let crossing = Crossing::of(&agreement);
            Part::open(self, agreement, crossing)
        });
        Ok((parts.collect::<Result<_>>()?, withdrawals))
    }

    /// Returns how the end here is left of a channel that a rank of another node has made and that can't be opened here.
    pub fn lost_at(&self, crossing: &Crossing) -> Left {
        let host = crossing.agreement().host(&self.world);
        let here = crossing.openers().into_iter().find(|&rank| self.world.is_here(rank));
        Left::Lost(here.unwrap_or(host))
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
        let mut all = agreement.senders.iter().chain(&agreement.receivers);
        let known = all.all(|&rank| (rank as usize) < self.world.size());
        let (here, there): (Vec<u32>, Vec<u32>) = match crossing.title.apart {
            Some(Apart { end, rank }) if agreement.side(end).contains(&rank) => {
                [agreement.host(&self.world), rank].iter().partition(|&&r| self.world.is_here(r))
            }
            _ => crossing.openers().into_iter().partition(|&rank| self.world.is_here(rank)),
        };
        let is_one = match crossing.title.apart {
            Some(apart) => there == [apart.rank],
            None => agreement.senders.len() == 1,
        };
        // The part would act in the name of a rank whose locks others may take.
        let is_dead = there.iter().any(|&rank| self.world.dead(rank));
        if !known || here.len() != 1 || there.len() != 1 || !is_one || is_dead {
            return Err(no_crossing(&agreement));
        }
        let part = Part::open(self, agreement, crossing.clone())?;
        self.known.insert(part.opened().key());
        Ok(part)
    }
}

fn no_crossing(agreement: &Agreement) -> Error {
    let reason =
        "only ends that a rank of another node opens to ranks of this node cross".to_owned();
    ErrorKind::BadChannel { channel: agreement.name.clone(), reason }.into()
}
