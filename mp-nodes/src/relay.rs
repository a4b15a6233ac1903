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
//! message with everything to each other node, and passes on what has arrived.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mp_core::bridge::{Bridge, Crossing, Left, Part, Taken};
use mp_core::{ErrorKind, SegmentError};

use crate::{
    error::{Error, Result},
    frame::{Batch, Frame, Frames},
    interconnect::Interconnect,
};

/// The tag of all messages of relays.
const TAG: u32 = 0;
/// A message of the interconnect is sent when it has this many bytes, before its round is over.
const LONG: usize = 256 << 10;
/// How long a relay without work looks for some before it sleeps between its looks.
const PATIENCE: Duration = Duration::from_millis(1);
/// The first and the longest sleep between two looks.
const SLEEP: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// A channel that crosses to another node, and whose end here is open.
#[derive(Debug)]
struct Line {
    part: Part,
    /// Which one it is among those with its name and ranks.
    turn: u32,
    /// The number that the other node has given to it, if that node has told.
    theirs: Option<u32>,
    node: usize,
    /// The rank of this node.
    rank: u32,
    /// The notice that the other node knows.
    notice: u64,
}

/// See the [module](self).
pub(crate) struct Relay<'w> {
    connection: Box<dyn Interconnect>,
    bridge: Bridge<'w>,
    /// The first rank of each node, and the number of ranks at the end.
    first: Arc<[u32]>,
    /// Channels, by the numbers that this node has given to them.
    lines: BTreeMap<u32, Line>,
    /// The number of the next channel.
    next: u32,
    /// How many channels of a name there were between two ranks.
    turns: HashMap<(u64, String, u32, u32), u32>,
    /// The channels here, by node and by the number that the node has given to them.
    theirs: HashMap<(usize, u32), u32>,
    /// What goes to each node at the end of the round.
    out: Vec<Batch>,
    /// The ranks of this node that have ended, and of which the other nodes have not heard.
    ending: Vec<(u32, Left)>,
    /// Whether each rank of the world runs, as far as this node knows.
    running: Vec<bool>,
    /// Whether each node was lost.
    lost: Vec<bool>,
    /// What arrives is received here.
    arrived: Vec<u8>,
    idle: Idle,
}

impl<'w> Relay<'w> {
    /// Makes the relay of a node. `first` has the first rank of each node, and at the end the number of all ranks.
    pub(crate) fn new(
        connection: Box<dyn Interconnect>,
        bridge: Bridge<'w>,
        first: Arc<[u32]>,
    ) -> Self {
        let (nodes, ranks) = (connection.nodes(), first.last().copied().unwrap_or(0));
        Self {
            connection,
            bridge,
            first,
            lines: BTreeMap::new(),
            next: 0,
            turns: HashMap::new(),
            theirs: HashMap::new(),
            out: vec![Batch::default(); nodes],
            ending: Vec::new(),
            running: vec![true; ranks as usize],
            lost: vec![false; nodes],
            arrived: Vec::new(),
            idle: Idle::default(),
        }
    }

    /// Works until all ranks of all nodes have ended.
    pub(crate) fn run(mut self) -> Result<()> {
        if let Err(error) = self.work() {
            // The others are told of that, if they can be, and nothing comes from them any more.
            for rank in self.bridge.here() {
                self.tell_all(&Frame::Ended { rank, left: Left::Lost });
            }
            let here = self.connection.node();
            for node in (0..self.out.len()).filter(|&node| node != here) {
                // A node that can't be told must not keep the next one from being told.
                let _ = self.flush(node);
                self.cut(node)?;
            }
            return Err(error);
        }
        match self.connection.end() {
            // Not all nodes can end together any more, which the ranks know already.
            Err(Error::NodeLost { .. }) if self.lost.contains(&true) => Ok(()),
            ended => ended,
        }
    }

    fn work(&mut self) -> Result<()> {
        loop {
            let moved = match self.round() {
                Ok(moved) => moved,
                Err(Error::NodeLost { node }) => self.lose(node)?,
                Err(error) => return Err(error),
            };
            if !moved && !self.running.contains(&true) {
                return Ok(());
            }
            let pending = self.pending()?;
            self.idle.after(moved, pending);
        }
    }

    /// Returns how many messages are not sent yet, as far as they can be sent.
    fn pending(&mut self) -> Result<usize> {
        match self.connection.progress() {
            Err(Error::NodeLost { node }) if self.lost[node] => Ok(0),
            pending => pending,
        }
    }

    /// Notes that a node was lost. Returns whether that is new.
    fn lose(&mut self, node: usize) -> Result<bool> {
        if self.lost[node] {
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
        if std::mem::replace(&mut self.lost[node], true) {
            return Ok(());
        }
        let lines = self.lines.iter().filter(|(_, line)| line.node == node);
        for line in lines.map(|(&line, _)| line).collect::<Vec<_>>() {
            self.remove(line).into_iter().for_each(|part| part.close(Left::Lost));
        }
        for rank in self.first[node]..self.first[node + 1] {
            self.running[rank as usize] = false;
            self.bridge.end(rank, Left::Lost)?;
        }
        Ok(())
    }

    /// Does what there is to do. Returns whether there was anything.
    fn round(&mut self) -> Result<bool> {
        // This comes before the look for channels, which then finds all that these ranks have made.
        self.ending.extend(self.bridge.ended()?);
        let mut moved = self.find()?;
        let mut next = 0;
        while let Some((&line, _)) = self.lines.range(next..).next() {
            moved |= self.bring_on(line)?;
            next = line + 1;
        }
        for (rank, left) in std::mem::take(&mut self.ending) {
            if self.lines.values().any(|line| line.rank == rank) {
                // The other nodes first get what it has sent.
                self.ending.push((rank, left));
                continue;
            }
            self.running[rank as usize] = false;
            self.tell_all(&Frame::Ended { rank, left });
            moved = true;
        }
        for node in 0..self.out.len() {
            moved |= self.flush(node)?;
        }
        // This comes last, because it fails when a node is lost.
        Ok(self.hear()? || moved)
    }

    /// Adds a frame to what goes to another node.
    fn tell(&mut self, node: usize, frame: &Frame) {
        if node != self.connection.node() && !self.lost[node] {
            self.out[node].add(frame);
        }
    }

    /// Adds a frame to what goes to all other nodes.
    fn tell_all(&mut self, frame: &Frame) {
        (0..self.out.len()).for_each(|node| self.tell(node, frame));
    }

    fn flush(&mut self, node: usize) -> Result<bool> {
        let any = !self.out[node].is_empty();
        if any {
            self.connection.send(node, TAG, self.out[node].finish())?;
        }
        Ok(any)
    }

    /// Returns the node of a rank.
    fn node_of(&self, rank: u32) -> usize {
        self.first.partition_point(|&first| first <= rank) - 1
    }

    /// Returns whether the rank exists and runs on `node`.
    fn is_of(&self, rank: u32, node: usize) -> bool {
        rank < self.running.len() as u32 && self.node_of(rank) == node
    }

    /// Opens the ends of channels that ranks of this node have made. Returns whether there were any.
    fn find(&mut self) -> Result<bool> {
        let (found, withdrawals) = self.bridge.found()?;
        let any = !found.is_empty() || !withdrawals.is_empty();
        for part in found {
            let turn = self.turn_of(part.crossing());
            self.add(part, turn);
        }
        for withdrawal in withdrawals {
            self.tell_all(&Frame::Withdrawn(withdrawal));
        }
        Ok(any)
    }

    /// Counts a channel of this name between these ranks, and returns which one it is.
    fn turn_of(&mut self, crossing: &Crossing) -> u32 {
        let (namespace, name, from, to) = crossing.title();
        let turns = self.turns.entry((namespace, name.to_owned(), from, to)).or_default();
        *turns += 1;
        *turns
    }

    /// Gives a number to a channel whose end here is open, and tells the other node. Returns the number.
    fn add(&mut self, part: Part, turn: u32) -> u32 {
        let crossing = part.crossing().clone();
        let (_, _, from, to) = crossing.title();
        let (rank, other) =
            if self.bridge.here().contains(&from) { (from, to) } else { (to, from) };
        let (node, line) = (self.node_of(other), self.next);
        self.lines.insert(line, Line { part, turn, theirs: None, node, rank, notice: 0 });
        self.next += 1;
        self.tell(node, &Frame::Open { line, turn, crossing });
        line
    }

    /// Takes what the channel's rank of this node has sent, or given back. Returns whether there was anything.
    fn bring_on(&mut self, line: u32) -> Result<bool> {
        let mut moved = false;
        while let Some(Line { part, node, .. }) = self.lines.get_mut(&line) {
            let node = *node;
            if let Some(crossing) = part.differs() {
                self.remove(line);
                self.tell(node, &Frame::Differs { line, crossing });
                return Ok(true);
            }
            let bytes = self.out[node].bytes();
            let before = bytes.len();
            let taken = match part.take(bytes) {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(error) => {
                    let crossing = part.crossing().clone();
                    self.remove(line);
                    let frame = match error.kind() {
                        ErrorKind::Mismatch { theirs, .. } => {
                            Frame::Differs { line, crossing: crossing.with(theirs) }
                        }
                        ErrorKind::Disconnected { .. } | ErrorKind::PeerLost { .. } => {
                            Frame::Closed { line, left: Left::of(&error) }
                        }
                        _ => return Err(error.into()),
                    };
                    self.tell(node, &frame);
                    return Ok(true);
                }
            };
            let bytes = (bytes.len() - before) as u64;
            self.tell(node, &Frame::Message { line, taken, bytes });
            if self.out[node].len() >= LONG {
                self.flush(node)?;
            }
            moved = true;
        }
        let Some(Line { part, node, notice: known, .. }) = self.lines.get_mut(&line) else {
            return Ok(moved);
        };
        // A receiver leaves a notice before it gives back, and gives back before it leaves. So they are looked at in the
        // opposite order, and told in this one.
        let (node, left, messages, notice) = (*node, part.left(), part.returned(), part.notice());
        let new = notice != std::mem::replace(known, notice);
        if new {
            self.tell(node, &Frame::Notice { line, notice });
        }
        if messages > 0 {
            self.tell(node, &Frame::Returned { line, messages });
        }
        if let Some(left) = left {
            self.remove(line);
            self.tell(node, &Frame::Closed { line, left });
        }
        Ok(moved || messages > 0 || new || left.is_some())
    }

    /// Passes on what has arrived. Returns whether anything has.
    fn hear(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(arrived) = match self.connection.probe() {
            Err(Error::NodeLost { node }) if self.lost[node] => None,
            arrived => arrived?,
        } {
            let mut message = std::mem::take(&mut self.arrived);
            message.resize(arrived.len, 0);
            self.connection.receive_into(&mut message)?;
            if !self.lost[arrived.from] {
                let frames = Frames::of(&message).ok_or(Error::NoFrame { node: arrived.from })?;
                for frame in frames {
                    let (frame, bytes) = frame.ok_or(Error::NoFrame { node: arrived.from })?;
                    self.obey(arrived.from, frame, bytes)?;
                }
            }
            self.arrived = message;
            any = true;
        }
        Ok(any)
    }

    /// Does what another node says.
    fn obey(&mut self, node: usize, frame: Frame, message: &[u8]) -> Result<()> {
        match frame {
            Frame::Open { line, turn, crossing } => self.open(node, line, turn, crossing)?,
            Frame::Message { line, taken, .. } => self.put(node, line, taken, message)?,
            Frame::Returned { line, messages } => {
                if let Some(part) = self.part(node, line) {
                    part.give_back(messages);
                }
            }
            Frame::Notice { line, notice } => {
                if let Some(part) = self.part(node, line) {
                    part.set_notice(notice);
                }
            }
            Frame::Closed { line, left } => {
                if let Some(part) = self.remove_theirs(node, line) {
                    part.close(left);
                }
            }
            Frame::Differs { line, crossing } => {
                if let Some(part) = self.remove_theirs(node, line) {
                    part.disagree(&crossing)?;
                }
            }
            Frame::Withdrawn(withdrawal) => {
                if self.is_of(withdrawal.rank, node) {
                    self.bridge.withdraw(&withdrawal)?;
                }
            }
            Frame::Ended { rank, left } => {
                if self.is_of(rank, node) {
                    self.running[rank as usize] = false;
                    self.bridge.end(rank, left)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the end here of the channel to which another node has given this number, if it is still open.
    fn part(&mut self, node: usize, theirs: u32) -> Option<&mut Part> {
        let line = self.theirs.get(&(node, theirs))?;
        Some(&mut self.lines.get_mut(line)?.part)
    }

    /// Forgets a channel. Returns its end here.
    fn remove(&mut self, line: u32) -> Option<Part> {
        let Line { part, theirs, node, .. } = self.lines.remove(&line)?;
        theirs.map(|theirs| self.theirs.remove(&(node, theirs)));
        Some(part)
    }

    /// Forgets the channel to which another node has given this number.
    fn remove_theirs(&mut self, node: usize, theirs: u32) -> Option<Part> {
        self.remove(*self.theirs.get(&(node, theirs))?)
    }

    /// Notes the number that another node has given to a channel.
    fn number(&mut self, line: u32, node: usize, theirs: u32) {
        if let Some(known) = self.lines.get_mut(&line) {
            known.theirs = Some(theirs);
            self.theirs.insert((node, theirs), line);
        }
    }

    /// Opens the end of a channel that a rank of another node has made, unless a rank of this node has made it, too.
    fn open(&mut self, node: usize, theirs: u32, turn: u32, crossing: Crossing) -> Result<()> {
        // What ranks of this node have made before comes first, so that the turns agree.
        self.find()?;
        let (namespace, name, from, to) = crossing.title();
        if !self.is_of(from, node) && !self.is_of(to, node) {
            return Err(Error::NoFrame { node });
        }
        let turns = self.turns.get(&(namespace, name.to_owned(), from, to));
        if turns.is_some_and(|&turns| turn <= turns) {
            let same =
                |line: &Line| line.turn == turn && line.part.crossing().title() == crossing.title();
            // If there is none, its end here was closed since, and the other node is being told.
            let Some((&line, _)) = self.lines.iter().find(|(_, line)| same(line)) else {
                return Ok(());
            };
            self.number(line, node, theirs);
            if *self.lines[&line].part.crossing() != crossing
                && let Some(part) = self.remove(line)
            {
                part.disagree(&crossing)?;
            }
            return Ok(());
        }
        let turn = self.turn_of(&crossing);
        match self.bridge.open(&crossing) {
            Ok(part) => {
                let line = self.add(part, turn);
                self.number(line, node, theirs);
            }
            Err(error) => match error.kind() {
                // A rank of this node has just asked for something else.
                ErrorKind::Mismatch { theirs, .. } => {
                    let (line, crossing) = (self.next, crossing.with(theirs));
                    self.next += 1;
                    self.tell(node, &Frame::Open { line, turn, crossing });
                }
                // There is no memory here for the channel.
                _ if lacks_memory(&error) => {
                    let (line, left) = (self.next, Left::Lost);
                    self.next += 1;
                    self.tell(node, &Frame::Open { line, turn, crossing });
                    self.tell(node, &Frame::Closed { line, left });
                }
                _ => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Gives a message to a rank of this node.
    fn put(&mut self, node: usize, line: u32, taken: Taken, message: &[u8]) -> Result<()> {
        let Some(part) = self.part(node, line) else { return Ok(()) };
        let Err(error) = part.put(taken, message) else { return Ok(()) };
        match error.kind() {
            // The receiver is gone, or asks for something else, which the other node is being told.
            ErrorKind::Disconnected { .. }
            | ErrorKind::PeerLost { .. }
            | ErrorKind::Mismatch { .. } => Ok(()),
            // There is no memory here for a buffer that moves. What comes behind it must not be received without it.
            _ if lacks_memory(&error) => {
                if let Some(&own) = self.theirs.get(&(node, line))
                    && let Some(part) = self.remove(own)
                {
                    part.close(Left::Lost);
                    self.tell(node, &Frame::Closed { line: own, left: Left::Lost });
                }
                Ok(())
            }
            _ => Err(error.into()),
        }
    }
}

fn lacks_memory(error: &mp_core::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::Segment(SegmentError::Full { .. } | SegmentError::OutOfMemory { .. }))
}

/// How a relay waits for work.
#[derive(Debug, Default)]
struct Idle {
    /// Since when there is none.
    since: Option<Instant>,
    slept: Duration,
}

impl Idle {
    /// Waits for a moment after a round, if it found nothing to do.
    fn after(&mut self, moved: bool, pending: usize) {
        // A library may send a long message only while it is called.
        if moved || pending > 0 {
            *self = Self::default();
            return thread::yield_now();
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < PATIENCE {
            thread::yield_now();
            return;
        }
        self.slept = (2 * self.slept).clamp(SLEEP[0], SLEEP[1]);
        thread::sleep(self.slept);
    }
}
