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
    collections::HashMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mp_core::ErrorKind;
use mp_core::bridge::{Bridge, Crossing, Left, Part, Taken};

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

/// A channel that crosses to another node.
#[derive(Debug)]
struct Line {
    /// The end here; `None` when it was closed.
    part: Option<Part>,
    crossing: Crossing,
    turn: u32,
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
    lines: Vec<Line>,
    /// How many channels of a name there were between two ranks.
    turns: HashMap<(u64, String, u32, u32), u32>,
    /// The channels here, by node and by the number that the node has given to them.
    theirs: HashMap<(usize, u32), usize>,
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
            lines: Vec::new(),
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
            // Nothing comes from any other node any more.
            let here = self.connection.node();
            for node in (0..self.out.len()).filter(|&node| node != here) {
                self.lose(node)?;
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
            if !moved && !self.running.contains(&true) && self.pending()? == 0 {
                return Ok(());
            }
            self.idle.after(moved);
        }
    }

    /// Returns how many messages are not sent yet, as far as they can be sent.
    fn pending(&mut self) -> Result<usize> {
        match self.connection.progress() {
            Err(Error::NodeLost { node }) if self.lost[node] => Ok(0),
            pending => pending,
        }
    }

    /// Tells the ranks of this node that a node was lost with all its ranks. Returns whether that is new.
    fn lose(&mut self, node: usize) -> Result<bool> {
        if self.lost[node] {
            return Ok(false);
        }
        // What it has sent before still arrives.
        while matches!(self.hear(), Ok(true)) {}
        self.lost[node] = true;
        for line in self.lines.iter_mut().filter(|line| line.node == node) {
            line.part.take().into_iter().for_each(|part| part.close(Left::Lost));
        }
        for rank in self.first[node]..self.first[node + 1] {
            self.running[rank as usize] = false;
            self.bridge.end(rank, Left::Lost)?;
        }
        Ok(true)
    }

    /// Does what there is to do. Returns whether there was anything.
    fn round(&mut self) -> Result<bool> {
        let mut moved = self.find()?;
        for line in 0..self.lines.len() {
            moved |= self.bring_on(line)?;
        }
        self.ending.extend(self.bridge.ended()?);
        for (rank, left) in std::mem::take(&mut self.ending) {
            if self.lines.iter().any(|line| line.rank == rank && line.part.is_some()) {
                // The other nodes first get what it has sent.
                self.ending.push((rank, left));
                continue;
            }
            self.running[rank as usize] = false;
            (0..self.out.len()).for_each(|node| self.tell(node, &Frame::Ended { rank, left }));
            moved = true;
        }
        for node in 0..self.out.len() {
            moved |= self.flush(node)?;
        }
        self.pending()?;
        // This comes last, because it fails as long as a node is lost.
        Ok(self.hear()? || moved)
    }

    /// Adds a frame to what goes to another node.
    fn tell(&mut self, node: usize, frame: &Frame) {
        if node != self.connection.node() && !self.lost[node] {
            self.out[node].add(frame);
        }
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

    /// Opens the ends of channels that ranks of this node have made. Returns whether there were any.
    fn find(&mut self) -> Result<bool> {
        let found = self.bridge.found()?;
        let any = !found.is_empty();
        for part in found {
            let crossing = part.crossing().clone();
            let line = self.add(crossing.clone(), Some(part));
            let Line { node, turn, .. } = self.lines[line as usize];
            self.tell(node, &Frame::Open { line, turn, crossing });
        }
        Ok(any)
    }

    /// Gives a number to a channel.
    fn add(&mut self, crossing: Crossing, part: Option<Part>) -> u32 {
        let (namespace, name, from, to) = crossing.title();
        let turns = self.turns.entry((namespace, name.to_owned(), from, to)).or_default();
        *turns += 1;
        let turn = *turns;
        let (rank, other) =
            if self.bridge.here().contains(&from) { (from, to) } else { (to, from) };
        let node = self.node_of(other);
        self.lines.push(Line { part, crossing, turn, node, rank, notice: 0 });
        (self.lines.len() - 1) as u32
    }

    /// Takes what the channel's rank of this node has sent, or given back. Returns whether there was anything.
    fn bring_on(&mut self, number: usize) -> Result<bool> {
        let mut moved = false;
        let (line, node) = (number as u32, self.lines[number].node);
        while let Some(part) = &mut self.lines[number].part {
            if let Some(crossing) = part.differs() {
                self.lines[number].part = None;
                self.tell(node, &Frame::Differs { line, crossing });
                return Ok(true);
            }
            let bytes = self.out[node].bytes();
            let before = bytes.len();
            let taken = match part.take(bytes) {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(error) => {
                    let left = Left::of(&error);
                    self.lines[number].part = None;
                    self.tell(node, &Frame::Closed { line, left });
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
        let Some(part) = &mut self.lines[number].part else { return Ok(moved) };
        let (messages, notice, left) = (part.returned(), part.notice(), part.left());
        if messages > 0 {
            self.tell(node, &Frame::Returned { line, messages });
            moved = true;
        }
        if notice != std::mem::replace(&mut self.lines[number].notice, notice) {
            self.tell(node, &Frame::Notice { line, notice });
            moved = true;
        }
        if let Some(left) = left {
            self.lines[number].part = None;
            self.tell(node, &Frame::Closed { line, left });
            moved = true;
        }
        Ok(moved)
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
                let line = self.theirs.get(&(node, line)).copied();
                if let Some(part) = line.and_then(|line| self.lines[line].part.take()) {
                    part.close(left);
                }
            }
            Frame::Differs { line, crossing } => {
                let line = self.theirs.get(&(node, line)).copied();
                if let Some(part) = line.and_then(|line| self.lines[line].part.take()) {
                    part.disagree(&crossing)?;
                }
            }
            Frame::Ended { rank, left } => {
                if rank < self.running.len() as u32 && self.node_of(rank) == node {
                    self.running[rank as usize] = false;
                    self.bridge.end(rank, left)?;
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, node: usize, line: u32) -> Option<&mut Part> {
        let line = self.theirs.get(&(node, line))?;
        self.lines[*line].part.as_mut()
    }

    /// Opens the end of a channel that a rank of another node has made, unless a rank of this node has made it, too.
    fn open(&mut self, node: usize, theirs: u32, turn: u32, crossing: Crossing) -> Result<()> {
        // What ranks of this node have made before comes first, so that the turns agree.
        self.find()?;
        let same = |line: &Line| line.turn == turn && line.crossing.title() == crossing.title();
        if let Some(line) = self.lines.iter().position(same) {
            self.theirs.insert((node, theirs), line);
            let Line { part, crossing: ours, .. } = &mut self.lines[line];
            if *ours != crossing
                && let Some(part) = part.take()
            {
                part.disagree(&crossing)?;
            }
            return Ok(());
        }
        let (part, crossing) = match self.bridge.open(&crossing) {
            Ok(part) => (Some(part), crossing),
            Err(error) => match error.kind() {
                ErrorKind::Mismatch { theirs, .. } => (None, crossing.with(theirs)),
                _ => return Err(error.into()),
            },
        };
        let line = self.add(crossing.clone(), part);
        self.theirs.insert((node, theirs), line as usize);
        let Line { turn, .. } = self.lines[line as usize];
        self.tell(node, &Frame::Open { line, turn, crossing });
        Ok(())
    }

    /// Gives a message to a rank of this node.
    fn put(&mut self, node: usize, line: u32, taken: Taken, message: &[u8]) -> Result<()> {
        let Some(part) = self.part(node, line) else { return Ok(()) };
        let Err(error) = part.put(taken, message) else { return Ok(()) };
        match error.kind() {
            // The receiver is gone, which the other node is told, or it was told that the ends differ.
            ErrorKind::Disconnected { .. }
            | ErrorKind::PeerLost { .. }
            | ErrorKind::Mismatch { .. } => Ok(()),
            _ => Err(error.into()),
        }
    }
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
    fn after(&mut self, moved: bool) {
        if moved {
            *self = Self::default();
            return;
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
