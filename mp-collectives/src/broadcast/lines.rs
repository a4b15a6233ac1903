//! A broadcast of a few lines, each with its payload in the notification (Ramos & Hoefler, section
//! 4.1): the receiver waits for the very line that the data is in, so that a hop is one line
//! transfer.
//!
//! A rank *pushes* lines to its children in a k-ary tree, and they pass them on. Every pair of ranks
//! has lines of its own (the paper's line privatization), so that no flag ever has two writers:
//! changing roots cost nothing.
//!
//! The lines of an MPB, from [`LineOptions::first_line`] on:
//!
//! ```text
//! P       taken: how many lines rank i has taken of those from this one     set by rank i
//! P · s   from rank i: the last s lines, each with its number               set by rank i
//! ```
//!
//! 1. The parent waits until the child has taken the line that the slot held before.
//! 2. It writes the payload, then the line's number (one line transfer).
//! 3. The child waits for the number, copies the payload, passes it on.
//! 4. After every half of the slots the child says how many lines it has taken. As long as it keeps
//!    up, the parent never waits for that.
//!
//! Lines are counted in 64 bits, which do not come round.

use mp_model::mpb::{Line, Mpb};
use mp_model::tree::{Node, Shape, TreeError};
use thiserror::Error;

use super::oc_bcast::BroadcastError;

/// What can be chosen. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// k: the most children that a rank has, from 1 to P − 1.
    pub degree: usize,
    /// Lines that may be under way between two ranks.
    pub slots: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own, and zero at
    /// first.
    pub first_line: usize,
}

impl LineOptions {
    /// Lines that this takes of each MPB, with so many ranks; `None` when they are too many to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        self.slots.checked_add(1)?.checked_mul(ranks)
    }
}

/// Why there can be no such broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LineOptionsError {
    /// No tree of that degree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// No slots.
    #[error("no slots for lines under way")]
    NoSlots,
    /// Lines that have no room for a payload beside a flag.
    #[error("lines of {line_bytes} bytes have no room beside a flag")]
    NoPayload {
        /// Bytes in a line.
        line_bytes: usize,
    },
    /// It does not fit into the MPB.
    #[error(
        "{slots} slots and a flag for each of {ranks} ranks do not fit into an MPB of {lines} lines, \
         from line {first_line} on"
    )]
    NoRoom {
        /// The slots asked for.
        slots: usize,
        /// The number of ranks.
        ranks: usize,
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

/// One rank's part in a series of broadcasts.
#[derive(Debug)]
pub struct LineBcast {
    shape: Shape,
    options: LineOptions,
    payload: usize,
    /// This rank's place in the tree of the last root.
    place: Option<(usize, Node)>,
    peers: Vec<Peer>,
}

/// Lines between this rank and another one.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    sent: u64,
    /// Of those: how many it had taken when this rank last looked.
    taken: u64,
    received: u64,
}

impl LineBcast {
    /// With the MPBs of these ranks.
    ///
    /// # Errors
    /// [`LineOptionsError`].
    pub fn new<M: Mpb>(mpb: &M, options: LineOptions) -> Result<LineBcast, LineOptionsError> {
        let (ranks, lines, line_bytes) = (mpb.ranks(), mpb.lines(), mpb.line_bytes());
        let shape = Shape::new(ranks, options.degree)?;
        let LineOptions { slots, first_line, .. } = options;
        if slots == 0 {
            return Err(LineOptionsError::NoSlots);
        }
        let payload = line_bytes.saturating_sub(size_of::<u64>());
        if payload == 0 {
            return Err(LineOptionsError::NoPayload { line_bytes });
        }
        match options.lines(ranks).and_then(|needed| needed.checked_add(first_line)) {
            Some(end) if end <= lines => {}
            _ => return Err(LineOptionsError::NoRoom { slots, ranks, first_line, lines }),
        }
        Ok(LineBcast { shape, options, payload, place: None, peers: vec![Peer::default(); ranks] })
    }

    /// Bytes that go with one line.
    pub fn payload_bytes(&self) -> usize {
        self.payload
    }

    /// Broadcasts the root's message: all ranks call this with the same root and length, and have
    /// the message when it returns. The root's own is only read; it returns as soon as all lines are
    /// under way. None are nothing to send.
    ///
    /// # Errors
    /// [`BroadcastError::Root`], and those of the MPBs; after one of those, this rank is out of step
    /// with the others.
    pub async fn broadcast<M: Mpb>(
        &mut self,
        mpb: &mut M,
        message: &mut [u8],
        root: usize,
    ) -> Result<(), BroadcastError<M::Error>> {
        let node = self.place_under(root, mpb.rank())?;
        let parent = node.parent();
        for piece in message.chunks_mut(self.payload) {
            if let Some(parent) = parent {
                self.receive(mpb, piece, parent).await?;
            }
            for child in node.children() {
                self.send(mpb, piece, child).await?;
            }
        }
        Ok(())
    }

    fn place_under<E>(&mut self, root: usize, me: usize) -> Result<Node, BroadcastError<E>> {
        match self.place {
            Some((last, node)) if last == root => Ok(node),
            _ => {
                let node = self.shape.rooted(root).and_then(|tree| tree.node(me));
                let node = node.map_err(BroadcastError::Root)?;
                self.place = Some((root, node));
                Ok(node)
            }
        }
    }

    async fn send<M: Mpb>(
        &mut self,
        mpb: &mut M,
        piece: &[u8],
        child: usize,
    ) -> Result<(), M::Error> {
        let (slots, line) = (self.options.slots as u64, self.taken_line(child));
        let peer = &mut self.peers[child];
        peer.sent += 1;
        let (number, before) = (peer.sent, peer.sent.saturating_sub(slots));
        if peer.taken < before {
            peer.taken = mpb.wait_flag_from(child, line, |taken| taken >= before).await?;
        }
        let slot = Line { rank: child, line: self.slot_line(mpb.rank(), number) };
        mpb.set_flag_with(slot, number, piece).await
    }

    async fn receive<M: Mpb>(
        &mut self,
        mpb: &mut M,
        piece: &mut [u8],
        parent: usize,
    ) -> Result<(), M::Error> {
        self.peers[parent].received += 1;
        let number = self.peers[parent].received;
        let line = self.slot_line(parent, number);
        mpb.wait_flag_from(parent, line, |seen| seen == number).await?;
        mpb.flag_payload(line, piece).await?;
        let half = (self.options.slots as u64).div_ceil(2);
        if number.is_multiple_of(half) {
            let taken = Line { rank: parent, line: self.taken_line(mpb.rank()) };
            mpb.set_flag(taken, number).await?;
        }
        Ok(())
    }

    fn taken_line(&self, child: usize) -> usize {
        self.options.first_line + child
    }

    fn slot_line(&self, parent: usize, number: u64) -> usize {
        let slot = (number % self.options.slots as u64) as usize;
        self.taken_line(self.shape.ranks()) + parent * self.options.slots + slot
    }
}
