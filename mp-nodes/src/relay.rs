//! What carries the messages of channels between the ranks of two nodes.
//!
//! Each node has a relay, which has one end of each channel that crosses (see [`mp_core::bridge`]):
//!
//! ```text
//! node A                                                            node B
//! rank 0 ── its channel ──▶ relay ── interconnect ──▶ relay ── its channel ──▶ rank 2
//!             slots taken    │  ◀────────── slots given back ──────────┘
//! ```
//!
//! A relay works in rounds. In each it opens the ends of new channels, takes what ranks of its node have sent, sends one
//! message with everything to each other node, and passes on what has arrived. These are not the rounds of the ranks, which
//! are their calls of `run`; `mp-core/src/world/rounds.rs` says how nodes begin and end those together.

use std::collections::{HashMap, VecDeque};

use mp_core::bridge::{Bridge, Crossing, Ended, Gone, Left, Lent, Part, Taken, Title};
use mp_core::{ErrorKind, SegmentError};

use crate::{
    error::{Error, Result},
    frame::{Batch, Frame, Frames},
    interconnect::{Arrived, Interconnect},
    lines::{Line, Lines},
};

/// The tag of messages of frames.
const FRAMES: u32 = 0;
/// The tag of long messages of ranks.
const ALONE: u32 = 1;
/// A message of a rank that has this many bytes goes alone, from the memory of its sender to that of its receiver.
const LONG_MESSAGE: usize = 32 << 10;
/// A message of frames is sent when it has this many bytes, before its round is over.
const LONG: usize = 256 << 10;

/// What this node knows of a node, be it itself or another one.
#[derive(Debug, Default)]
struct Node {
    /// What goes to it at the end of the round of the relay.
    out: Batch,
    /// Whether it was lost.
    lost: bool,
    /// How many rounds of the ranks it has left.
    left: u32,
    /// What it has said that belongs to the next round of the ranks, with the bytes of messages and outcomes.
    early: VecDeque<(Frame, Vec<u8>)>,
    /// The long message that comes next from it: the number that it has given to the channel.
    apart: Option<(u32, Taken)>,
}

impl Node {
    /// Returns whether it has left the round of the ranks that begins after this many.
    fn has_left(&self, rounds: u32) -> bool {
        self.left > rounds
    }

    /// Adds a frame to what goes to it, unless it was lost.
    fn tell(&mut self, frame: &Frame) {
        if !self.lost {
            self.out.add(frame);
        }
    }

    /// Sends what goes to it. Returns whether there was anything.
    fn flush(&mut self, node: usize, connection: &mut dyn Interconnect) -> Result<bool> {
        let any = !self.out.is_empty();
        if any {
            connection.send(node, FRAMES, Box::new(self.out.finish()))?;
        }
        Ok(any)
    }

    /// Adds a message of a rank to what goes to this node. A long message is sent alone. If the node was lost, the message is
    /// dropped.
    fn pass_on(
        &mut self,
        node: usize,
        connection: &mut dyn Interconnect,
        (line, taken, message): (u32, Taken, Lent),
    ) -> Result<()> {
        if self.lost {
            return Ok(());
        }
        let bytes = message.as_ref();
        if bytes.len() >= LONG_MESSAGE {
            self.out.add(&Frame::Apart { line, taken });
            self.flush(node, connection)?;
            return connection.send(node, ALONE, Box::new(message));
        }
        self.out.add_bytes(bytes);
        self.out.add(&Frame::Message { line, taken, bytes: bytes.len() as u64 });
        if self.out.len() >= LONG {
            self.flush(node, connection)?;
        }
        Ok(())
    }
}

/// How much a [turn](Relay::turn) looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// What has arrived from other nodes.
    Inward,
    /// Also what ranks of this node have sent and given back.
    Both,
    /// Also how ranks and rounds end.
    Whole,
}

/// What has come of a [turn](Relay::turn).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Whether there was anything to do.
    pub(crate) moved: bool,
    /// How many messages are not sent yet.
    pub(crate) pending: usize,
    /// Whether all ranks of all nodes are gone.
    pub(crate) over: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Relay {
    connection: Box<dyn Interconnect>,
    /// They are closed before the bridge is.
    lines: Lines,
    bridge: Bridge,
    /// How many channels of a name there were between two ranks.
    turns: HashMap<Title, u32>,
    nodes: Vec<Node>,
    /// The number of this node.
    here: usize,
    /// The ranks of this node that have ended, and of which the other nodes have not heard.
    ending: Vec<Ended>,
    /// Those that are gone, and of which the other nodes have not heard.
    going: Vec<Gone>,
    /// Whether each rank of the world is gone, as far as this node knows.
    gone: Vec<bool>,
    /// Those of other nodes that can't be buried yet, because messages to them are still being sent.
    unburied: Vec<Gone>,
    /// How many rounds of the ranks are over here.
    rounds: u32,
    /// What arrives is received here.
    arrived: Vec<u8>,
}

impl Relay {
    /// Makes the relay of a node.
    pub(crate) fn new(connection: Box<dyn Interconnect>, bridge: Bridge) -> Self {
        let (here, nodes, ranks) = (connection.node(), connection.nodes(), bridge.size());
        Self {
            connection,
            bridge,
            lines: Lines::default(),
            turns: HashMap::new(),
            nodes: std::iter::repeat_with(Node::default).take(nodes).collect(),
            here,
            ending: Vec::new(),
            going: Vec::new(),
            gone: vec![false; ranks],
            unburied: Vec::new(),
            rounds: 0,
            arrived: Vec::new(),
        }
    }

    /// Looks for something to do, and does it.
    pub(crate) fn turn(&mut self, look: Look) -> Result<Turn> {
        let moved = self.round(look);
        let moved = self.after_loss(moved)?;
        let over = look == Look::Whole
            && !moved
            && !self.gone.contains(&false)
            && self.unburied.is_empty();
        let pending = if over { 0 } else { self.pending()? };
        Ok(Turn { moved, pending, over })
    }

    /// Tells the other nodes, if they can be told, that nothing more comes from this one, and the ranks of this node that
    /// nothing more comes from the others.
    pub(crate) fn give_up(&mut self) -> Result<()> {
        for rank in self.bridge.here() {
            self.tell_all(&Frame::Ended { ended: Ended::lost(rank), bytes: 0 });
            self.tell_all(&Frame::Gone(Gone::lost(rank)));
        }
        let here = self.here;
        for node in (0..self.nodes.len()).filter(|&node| node != here) {
            // A node that can't be told must not keep the next one from being told.
            let _ = self.flush(node);
            self.cut(node)?;
        }
        Ok(())
    }

    /// Returns whether a node was lost, so that not all nodes can end together any more.
    pub(crate) fn has_lost(&self) -> bool {
        self.nodes.iter().any(|node| node.lost)
    }

    /// Closes all channels and the bridge. Returns the connection.
    pub(crate) fn end(self) -> Box<dyn Interconnect> {
        self.connection
    }

    /// Returns how many messages are not sent yet, as far as they can be sent.
    fn pending(&mut self) -> Result<usize> {
        match self.connection.progress() {
            Err(Error::NodeLost { node }) if self.nodes[node].lost => Ok(0),
            pending => pending,
        }
    }

    /// Notes that a node was lost. Returns whether that is new.
    fn lose(&mut self, node: usize) -> Result<bool> {
        if self.nodes[node].lost {
            return Ok(false);
        }
        let mut lost = vec![node];
        // What it has sent before still arrives.
        loop {
            match self.hear() {
                Ok(true) => {}
                Ok(false) => break,
                Err(Error::NodeLost { node }) => lost.push(node),
                Err(error) => return Err(error),
            }
        }
        lost.into_iter().try_for_each(|node| self.cut(node))?;
        Ok(true)
    }

    /// Tells the ranks of this node that a node was lost with all its ranks, unless they know.
    fn cut(&mut self, node: usize) -> Result<()> {
        if std::mem::replace(&mut self.nodes[node].lost, true) {
            return Ok(());
        }
        self.nodes[node].early.clear();
        // What is sent to it may never be sent.
        let ranks = self.bridge.ranks_of(node);
        self.unburied.retain(|gone| !ranks.contains(&gone.rank));
        // The slots of shared channels are lost with it.
        for part in self.lines.remove_all(|line| line.node == node && line.part.other().is_none()) {
            part.close_as_lost();
        }
        for rank in self.bridge.ranks_of(node) {
            self.close(rank, Left::Lost(rank));
            self.gone[rank as usize] = true;
            self.bridge.lose(rank)?;
        }
        Ok(())
    }

    /// Closes the ends here of all channels to and from a rank of another node that is lost or gone.
    fn close(&mut self, rank: u32, left: Left) {
        for part in self.lines.remove_all(|line| line.part.other() == Some(rank)) {
            part.close(left);
        }
    }

    /// Does what there is to do. Returns whether there was anything.
    fn round(&mut self, look: Look) -> Result<bool> {
        let moved = match look {
            Look::Inward => false,
            Look::Both => self.bring_on_and_look()? | self.flush_all()?,
            Look::Whole => self.look_at_all()? | self.flush_all()?,
        };
        // This comes last, because it fails when a node is lost.
        Ok(self.hear()? || moved)
    }

    /// Sends what ranks of this node have sent to others.
    pub(crate) fn dispatch(&mut self) -> Result<()> {
        let sent = self.bring_on_and_look().and_then(|_| self.flush_all());
        self.after_loss(sent).map(drop)
    }

    /// Sends what goes to other nodes. Returns whether there was anything.
    fn flush_all(&mut self) -> Result<bool> {
        (0..self.nodes.len()).try_fold(false, |sent, node| Ok(self.flush(node)? || sent))
    }

    /// Goes on without a node if that is lost.
    fn after_loss(&mut self, moved: Result<bool>) -> Result<bool> {
        match moved {
            Err(Error::NodeLost { node }) => self.lose(node),
            moved => moved,
        }
    }

    /// Opens the ends of new channels, and takes what ranks of this node have sent and given back. Returns whether there was
    /// anything.
    fn bring_all_on(&mut self) -> Result<bool> {
        let mut moved = self.find()? | self.tell_ballots()?;
        self.lines.tidy();
        for place in 0..self.lines.places() {
            moved |= self.bring_on(place)?;
        }
        Ok(moved)
    }

    /// [Brings all channels on](Self::bring_all_on). If a rank of this node has closed one, also looks at how ranks end: the
    /// reason may be the end of another rank.
    fn bring_on_and_look(&mut self) -> Result<bool> {
        let open = self.lines.len();
        let moved = self.bring_all_on()?;
        Ok(if self.lines.len() < open { self.look_at_all()? || moved } else { moved })
    }

    /// [Brings all channels on](Self::bring_all_on), and looks at how ranks and rounds end.
    fn look_at_all(&mut self) -> Result<bool> {
        // All that has ended then is seen after this.
        let left = self.bridge.left()?;
        // This comes before the look for channels, which then finds all that these ranks have made.
        self.ending.extend(self.bridge.ended()?);
        self.going.extend(self.bridge.gone()?);
        let mut moved = self.bring_all_on()?;
        moved |= self.tell_ends()?;
        let here = &mut self.nodes[self.here];
        if left > here.left && self.ending.is_empty() && self.lines.len() == 0 {
            here.left = left;
            self.tell_all(&Frame::Left { rounds: left });
            moved = true;
        }
        for gone in std::mem::take(&mut self.unburied) {
            if !self.bridge.bury(gone)? {
                self.unburied.push(gone);
            }
        }
        Ok(self.begin_next()? || moved)
    }

    /// Tells the other nodes what has happened in ballots. Returns whether there was anything.
    fn tell_ballots(&mut self) -> Result<bool> {
        let told = self.bridge.ballots()?;
        let any = !told.is_empty();
        for (node, ballot, tidings) in told {
            let ballot = Box::new(ballot);
            self.tell(node, &Frame::Ballot { rounds: self.rounds, ballot, tidings });
        }
        Ok(any)
    }

    /// Tells the other nodes of failures, and of what ranks have revoked. This comes before the news that a rank has ended,
    /// is gone or has closed its channels: these are seen after the failure that causes them.
    fn tell_failures(&mut self) -> Result<()> {
        self.tell_ballots()?;
        if let Some(failed) = self.bridge.failed() {
            self.tell_all(&Frame::Failed(failed));
        }
        // What this node tells after it has left a round belongs to the next one.
        let has_left = self.nodes[self.here].left > self.rounds;
        if !has_left && let Some(rank) = self.bridge.failing()? {
            self.tell_all(&Frame::Failing { rank });
        }
        Ok(())
    }

    /// Tells the other nodes of the ranks of this node that have ended or are gone, behind all that these have sent. Returns
    /// whether there were any.
    fn tell_ends(&mut self) -> Result<bool> {
        let mut any = false;
        for ended in std::mem::take(&mut self.ending) {
            if self.lines.iter().any(|line| line.part.rank() == Some(ended.rank)) {
                self.ending.push(ended);
                continue;
            }
            self.tell_failures()?;
            let mut outcome = Vec::new();
            self.bridge.outcome(ended.rank, &mut outcome)?;
            for node in self.others() {
                self.nodes[node].out.add_bytes(&outcome);
                self.tell(node, &Frame::Ended { ended, bytes: outcome.len() as u64 });
            }
            any = true;
        }
        for gone in std::mem::take(&mut self.going) {
            if self.ending.iter().any(|ended| ended.rank == gone.rank) {
                self.going.push(gone);
                continue;
            }
            self.gone[gone.rank as usize] = true;
            self.tell_failures()?;
            self.tell_all(&Frame::Gone(gone));
            any = true;
        }
        Ok(any)
    }

    /// Begins the next round of the ranks if all nodes have left this one. Returns whether they have.
    fn begin_next(&mut self) -> Result<bool> {
        if !self.unburied.is_empty() {
            // They would count as running in the next round.
            return Ok(false);
        }
        let mut nodes = self.nodes.iter().enumerate();
        let has_left = |node: &Node| node.has_left(self.rounds);
        let is_gone = |node| self.bridge.ranks_of(node).all(|rank| self.gone[rank as usize]);
        if !self.nodes.iter().any(has_left)
            || !nodes.all(|(at, node)| has_left(node) || is_gone(at))
        {
            return Ok(false);
        }
        self.rounds += 1;
        self.turns.clear();
        self.bridge.begin_next(self.rounds)?;
        for node in 0..self.nodes.len() {
            for (frame, bytes) in std::mem::take(&mut self.nodes[node].early) {
                self.heed(node, frame, &bytes)?;
            }
        }
        Ok(true)
    }

    /// Returns the other nodes that are not lost.
    fn others(&self) -> Vec<usize> {
        let here = self.here;
        (0..self.nodes.len()).filter(|&node| node != here && !self.nodes[node].lost).collect()
    }

    /// Adds a frame to what goes to another node.
    fn tell(&mut self, node: usize, frame: &Frame) {
        if node != self.here {
            self.nodes[node].tell(frame);
        }
    }

    /// Adds a frame to what goes to all other nodes.
    fn tell_all(&mut self, frame: &Frame) {
        self.others().into_iter().for_each(|node| self.tell(node, frame));
    }

    /// Sends what goes to a node. Returns whether there was anything.
    fn flush(&mut self, node: usize) -> Result<bool> {
        self.nodes[node].flush(node, &mut *self.connection)
    }

    /// Returns whether the rank exists and is one of `node`.
    fn is_of(&self, rank: u32, node: usize) -> bool {
        self.bridge.ranks_of(node).contains(&rank)
    }

    /// Opens the ends of channels that ranks of this node have made. Returns whether there were any.
    fn find(&mut self) -> Result<bool> {
        let (found, withdrawals) = self.bridge.found()?;
        let any = !found.is_empty() || !withdrawals.is_empty();
        for part in found {
            let turn = self.turn_of(part.crossing());
            if self.nodes[self.bridge.node_of(part.there())].lost {
                part.close_as_lost();
                continue;
            }
            self.add(part, turn);
        }
        for withdrawal in withdrawals {
            self.tell_all(&Frame::Withdrawn(withdrawal));
        }
        Ok(any)
    }

    /// Counts a channel of this name between these ranks, and returns which one it is.
    fn turn_of(&mut self, crossing: &Crossing) -> u32 {
        let turns = self.turns.entry(crossing.title().clone()).or_default();
        *turns += 1;
        *turns
    }

    /// Gives a number to a channel whose end here is open, and tells the other node. Returns the number.
    fn add(&mut self, part: Part, turn: u32) -> u32 {
        let (crossing, node) = (part.crossing().clone().into(), self.bridge.node_of(part.there()));
        let line = self.lines.add(part, turn, node);
        self.tell(node, &Frame::Open { line, turn, crossing });
        line
    }

    /// Takes what the rank of this node has sent into the channel in a place, or given back. Returns whether there was
    /// anything.
    fn bring_on(&mut self, place: usize) -> Result<bool> {
        let Self { lines, nodes, connection, .. } = self;
        let Some(line) = lines.at(place) else { return Ok(false) };
        let (number, at) = (line.number, line.node);
        let node = &mut nodes[at];
        let mut moved = false;
        let closed = loop {
            if let Some(crossing) = line.part.differs() {
                break Some(Frame::Differs { line: number, crossing: Box::new(crossing) });
            }
            match line.part.take() {
                Ok(Some((taken, message))) => {
                    node.pass_on(at, &mut **connection, (number, taken, message))?;
                    moved = true;
                }
                Ok(None) => break None,
                Err(error) => break Some(after_take(line, error)?),
            }
        };
        if let Some(frame) = closed {
            return self.close_here(place, at, &frame);
        }
        // Some could not be given back before, because they were still being sent.
        line.part.give_back(0);
        // A receiver leaves a notice before it gives back, and gives back before it leaves. So they are looked at in the
        // opposite order, and told in this one.
        let (left, messages, notice) = (line.part.left(), line.part.returned(), line.part.notice());
        if notice != line.notice {
            line.notice = notice;
            node.tell(&Frame::Notice { line: number, notice });
            moved = true;
        }
        if messages > 0 {
            node.tell(&Frame::Returned { line: number, messages });
            moved = true;
        }
        if let Some(left) = left {
            return self.close_here(place, at, &Frame::Closed { line: number, left });
        }
        // How the ends of a channel of degree 0, or of a shared one, meet. This comes behind what was sent and given back.
        while let Some(step) = line.part.step()? {
            node.tell(&Frame::Meets { line: number, step });
            moved = true;
        }
        Ok(moved)
    }

    /// Closes the end in a place, because the rank of this node has left or asks for something else. `frame` tells the
    /// other node. Returns true, because there was something.
    fn close_here(&mut self, place: usize, node: usize, frame: &Frame) -> Result<bool> {
        self.lines.remove_at(place);
        self.tell_failures()?;
        self.tell(node, frame);
        Ok(true)
    }

    /// Passes on what has arrived. Returns whether anything has.
    fn hear(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(arrived) = match self.connection.probe() {
            Err(Error::NodeLost { node }) if self.nodes[node].lost => None,
            arrived => arrived?,
        } {
            any = true;
            let apart = self.nodes[arrived.from].apart.take();
            if let Some((line, taken)) = apart
                && arrived.tag == ALONE
                && self.receive_alone(arrived, line, taken)?
            {
                continue;
            }
            let mut message = std::mem::take(&mut self.arrived);
            message.resize(arrived.len, 0);
            self.connection.receive_into(&mut message)?;
            if arrived.tag == ALONE {
                if let Some((line, taken)) = apart
                    && self.nodes[arrived.from].has_left(self.rounds)
                {
                    let frame = Frame::Message { line, taken, bytes: arrived.len as u64 };
                    self.heed(arrived.from, frame, &message)?;
                }
            } else if !self.nodes[arrived.from].lost {
                let frames = Frames::of(&message).ok_or(Error::NoFrame { node: arrived.from })?;
                for frame in frames {
                    let (frame, bytes) = frame.ok_or(Error::NoFrame { node: arrived.from })?;
                    self.heed(arrived.from, frame, bytes)?;
                }
            }
            self.arrived = message;
        }
        Ok(any)
    }

    /// Receives a long message in the memory of its receiver. Returns false, and receives nothing, if it can't be there now.
    fn receive_alone(&mut self, arrived: Arrived, line: u32, taken: Taken) -> Result<bool> {
        let Arrived { from: node, len, .. } = arrived;
        if self.nodes[node].lost || self.nodes[node].has_left(self.rounds) {
            return Ok(false);
        }
        let mut received = false;
        let Some(Line { part, .. }) = self.lines.of(node, line) else { return Ok(false) };
        let put = part.put(taken, len, |to| {
            received = true;
            self.connection.receive_into(to)
        });
        self.after_put(node, line, put)?;
        Ok(received)
    }

    /// Does what another node says, now or in the next round of the ranks, if it belongs to that.
    fn heed(&mut self, node: usize, frame: Frame, bytes: &[u8]) -> Result<()> {
        let from = &mut self.nodes[node];
        let is_early = match frame {
            Frame::Failed(_) | Frame::Apart { .. } => false,
            // A node that has left the round may still decide for the ranks of others.
            Frame::Ballot { rounds, .. } => rounds > self.rounds,
            // The node may wait for ever for the next round.
            Frame::Gone(_) => !from.early.is_empty(),
            _ => from.has_left(self.rounds),
        };
        if is_early {
            from.early.push_back((frame, bytes.to_vec()));
            return Ok(());
        }
        self.obey(node, frame, bytes)
    }

    /// Does what another node says.
    fn obey(&mut self, node: usize, frame: Frame, message: &[u8]) -> Result<()> {
        match frame {
            Frame::Open { line, turn, crossing } => self.open(node, line, turn, *crossing)?,
            Frame::Message { line, taken, .. } => self.put(node, line, taken, message)?,
            Frame::Apart { line, taken } => self.nodes[node].apart = Some((line, taken)),
            Frame::Returned { line, messages } => {
                if let Some(Line { part, .. }) = self.lines.of(node, line) {
                    part.give_back(messages);
                }
            }
            Frame::Meets { line, step } => {
                if let Some(Line { part, .. }) = self.lines.of(node, line) {
                    part.heed(step);
                }
            }
            Frame::Notice { line, notice } => {
                if let Some(Line { part, .. }) = self.lines.of(node, line) {
                    part.set_notice(notice);
                }
            }
            Frame::Closed { line, left } => {
                if let Some((_, part)) = self.lines.remove_of(node, line) {
                    part.close(left);
                }
            }
            Frame::Differs { line, crossing } => {
                if let Some((_, part)) = self.lines.remove_of(node, line) {
                    part.disagree(&crossing)?;
                }
            }
            Frame::Withdrawn(withdrawal) => {
                if self.is_of(withdrawal.rank, node) {
                    self.bridge.withdraw(&withdrawal)?;
                }
            }
            Frame::Ballot { rounds, ballot, tidings } => {
                if rounds == self.rounds {
                    self.bridge.heed_ballot(&ballot, tidings)?;
                }
            }
            Frame::Ended { ended, .. } => {
                if self.is_of(ended.rank, node) {
                    self.bridge.end(ended, message)?;
                }
            }
            Frame::Gone(gone) => {
                if self.is_of(gone.rank, node) {
                    // A rank that has ended was taken out of its channels then, as lost if it was.
                    let runs = self.bridge.runs(gone.rank)?;
                    self.close(gone.rank, if runs { Left::Lost(gone.rank) } else { Left::Closed });
                    self.gone[gone.rank as usize] = true;
                    if !self.bridge.bury(gone)? {
                        self.unburied.push(gone);
                    }
                }
            }
            Frame::Failing { rank } => {
                if self.gone.len() > rank as usize {
                    self.bridge.note_failing(rank)?;
                }
            }
            Frame::Failed(failed) => {
                if self.gone.len() > failed.rank as usize {
                    self.bridge.note_failed(failed);
                }
            }
            Frame::Left { rounds } => self.nodes[node].left = rounds,
        }
        Ok(())
    }

    /// Opens the end of a channel that a rank of another node has made, unless a rank of this node has made it, too.
    fn open(&mut self, node: usize, theirs: u32, turn: u32, crossing: Crossing) -> Result<()> {
        // What ranks of this node have made before comes first, so that the turns agree.
        self.find()?;
        let opener = crossing.openers().into_iter().find(|&rank| self.is_of(rank, node));
        // It is the answer to a channel that was told before the other node knew.
        if opener.is_some_and(|rank| self.gone[rank as usize]) {
            return Ok(());
        }
        let turns = self.turns.get(crossing.title());
        if turns.is_some_and(|&turns| turn <= turns) {
            let same =
                |line: &Line| line.turn == turn && line.part.crossing().title() == crossing.title();
            // If there is none, its end here was closed since, and the other node is being told.
            let Some(line) = self.lines.iter().find(|line| same(line)) else { return Ok(()) };
            let (number, differs) = (line.number, *line.part.crossing() != crossing);
            self.lines.set_theirs(number, theirs);
            if differs && let Some(part) = self.lines.remove(number) {
                part.disagree(&crossing)?;
            }
            return Ok(());
        }
        if opener.is_none() {
            return Err(Error::NoFrame { node });
        }
        let turn = self.turn_of(&crossing);
        match self.bridge.open(&crossing) {
            Ok(part) => {
                let line = self.add(part, turn);
                self.lines.set_theirs(line, theirs);
            }
            Err(error) => match error.kind() {
                // A rank of this node has just asked for something else.
                ErrorKind::Mismatch { theirs, .. } => {
                    let (line, crossing) = (self.lines.number(), crossing.with(theirs).into());
                    self.tell(node, &Frame::Open { line, turn, crossing });
                }
                // There is no memory here for the channel.
                _ if lacks_memory(&error) => {
                    let (line, left) = (self.lines.number(), self.bridge.lost_at(&crossing));
                    self.tell(node, &Frame::Open { line, turn, crossing: crossing.into() });
                    self.tell(node, &Frame::Closed { line, left });
                }
                _ => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Gives a message to a rank of this node.
    fn put(&mut self, node: usize, line: u32, taken: Taken, message: &[u8]) -> Result<()> {
        let Some(Line { part, .. }) = self.lines.of(node, line) else { return Ok(()) };
        let put = part.put(taken, message.len(), |to| {
            to.copy_from_slice(message);
            Ok(())
        });
        self.after_put(node, line, put)
    }

    /// Does what there is to do if a message could not be given to a rank of this node.
    fn after_put(&mut self, node: usize, line: u32, put: Result<()>) -> Result<()> {
        let error = match put {
            Err(Error::World(error)) => error,
            other => return other,
        };
        match error.kind() {
            // The receiver is gone, or asks for something else, which the other node is being told.
            ErrorKind::Disconnected { .. }
            | ErrorKind::PeerLost { .. }
            | ErrorKind::Mismatch { .. } => Ok(()),
            // There is no memory here for a buffer that moves. What comes behind it must not be received without it.
            _ if lacks_memory(&error) => {
                if let Some((line, part)) = self.lines.remove_of(node, line) {
                    let left = part.lost_here();
                    part.close_as_lost();
                    self.tell(node, &Frame::Closed { line, left });
                }
                Ok(())
            }
            _ => Err(error.into()),
        }
    }
}

/// Returns the frame that tells the other node why this one takes no more messages from a channel.
fn after_take(line: &Line, error: mp_core::Error) -> Result<Frame> {
    let (crossing, line, lost) = (line.part.crossing(), line.number, line.part.lost_here());
    Ok(match error.kind() {
        ErrorKind::Mismatch { theirs, .. } => {
            Frame::Differs { line, crossing: Box::new(crossing.with(theirs)) }
        }
        ErrorKind::Disconnected { .. } | ErrorKind::PeerLost { .. } => {
            Frame::Closed { line, left: Left::of(&error) }
        }
        // There is no memory here to take over a buffer that moves.
        _ if lacks_memory(&error) => Frame::Closed { line, left: lost },
        _ => return Err(error.into()),
    })
}

fn lacks_memory(error: &mp_core::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::Segment(SegmentError::Full { .. } | SegmentError::OutOfMemory { .. }))
}
