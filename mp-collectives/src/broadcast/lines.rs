//! A broadcast of a few lines, each with its payload in the notification (Ramos & Hoefler, section 4.1): the receiver
//! waits for the line that contains the data, so that a hop is one line transfer.
//!
//! A rank *pushes* lines to its children in a tree, and they pass them on. Every pair of ranks has lines of its own
//! (`pairs.rs`), so changing the root costs nothing. They are the P · (s + 1) lines of an MPB from
//! [`LineOptions::first_line`] on.
//!
//! The receiver waits for the last line of a message. If it read a line while it is being written, it would take the
//! line away from its writer: 30 ns a line instead of 8.

use mp_core::mpb::{Line, MpbAccess};
use mp_model::cla::outward::Outward;
use mp_model::tree::TreeError;
use thiserror::Error;

use super::oc_bcast::BroadcastError;
use super::routes::{Above, Route, Routes, Trees, k_ary};
use crate::pairs::{Numbered, Pairs, is_line, marked};

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// k, the greatest number of children of a rank, from 1 to P − 1.
    pub degree: usize,
    /// The number of lines that may be pending between two ranks. It is rounded up to the next power of two and is at
    /// least 2.
    pub slots: usize,
    /// The first line of every MPB that this algorithm may use. Its lines are its own and initially zero.
    pub first_line: usize,
}

impl LineOptions {
    /// Returns the number of lines that this takes of each MPB with this many ranks, or `None` when they are too many
    /// to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        Pairs::lines(self.slots, ranks)
    }
}

/// The reason why the options of a broadcast are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LineOptionsError {
    /// There is no tree of that degree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// There are no slots.
    #[error("a broadcast by lines has no slots for lines under way: ask for at least one")]
    NoSlots,
    /// A line has no room for a payload beside a flag.
    #[error(
        "lines of {line_bytes} bytes have no room beside a flag: use MPBs with longer lines, or another algorithm"
    )]
    NoPayload {
        /// The number of bytes in a line.
        line_bytes: usize,
    },
    /// The slots do not fit into the MPB.
    #[error(
        "{slots} slots and a flag for each of {ranks} ranks do not fit into an MPB of {lines} lines, from line \
         {first_line} on: ask for fewer slots, or open the MPBs with more lines"
    )]
    NoRoom {
        /// The requested number of slots.
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
    routes: Routes,
    pairs: Pairs,
}

impl LineBcast {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`LineOptionsError`].
    pub fn new<M: MpbAccess>(mpb: &M, options: LineOptions) -> Result<LineBcast, LineOptionsError> {
        let trees = k_ary(mpb.ranks(), options.degree)?;
        LineBcast::of_trees(mpb, options, trees)
    }

    /// Does what [`new`](Self::new) does, along another tree than the k-ary one. The degree in the options is ignored.
    ///
    /// # Errors
    /// [`LineOptionsError`], except for that of trees.
    ///
    /// # Panics
    /// If the tree and the MPBs have different numbers of ranks.
    pub fn along<M: MpbAccess>(
        mpb: &M,
        options: LineOptions,
        tree: Outward,
    ) -> Result<LineBcast, LineOptionsError> {
        assert_eq!(tree.ranks(), mpb.ranks(), "the ranks of the tree and of the buffers");
        LineBcast::of_trees(mpb, options, Trees::Along(tree))
    }

    fn of_trees<M: MpbAccess>(
        mpb: &M,
        options: LineOptions,
        trees: Trees,
    ) -> Result<LineBcast, LineOptionsError> {
        let LineOptions { slots, first_line, .. } = options;
        let pairs = Pairs::new(mpb, slots, first_line)?;
        Ok(LineBcast { routes: Routes::new(trees, mpb.rank()), pairs })
    }

    /// Broadcasts the root's message. All ranks call this with the same root and length, and have the message when it
    /// returns. The root's own message is only read; the root's call returns as soon as all lines are pending. For an
    /// empty message, nothing is sent.
    ///
    /// # Errors
    /// [`BroadcastError::Root`], and the errors of the MPBs; after one of those, this rank is out of step with the
    /// others.
    #[inline]
    pub async fn broadcast<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        message: &mut [u8],
        root: usize,
    ) -> Result<(), BroadcastError<M::Error>> {
        let route = self.routes.under(root).map_err(BroadcastError::Root)?;
        let pairs = &mut self.pairs;
        if message.len() > pairs.payload() {
            return Ok(broadcast_many(pairs, mpb, message, route).await?);
        }
        if message.is_empty() {
            return Ok(());
        }
        // A message of one line goes as in `broadcast_many`, without what several lines need.
        if let Some(Above { parent, .. }) = route.above {
            let Numbered { number, line } = pairs.next_from(parent);
            let seen = mpb.wait_flag_from(parent, line, is_line(number)).await?;
            mpb.compare_mark(parent, seen)?;
            mpb.flag_payload(line, message).await?;
            if let Some(flag) = pairs.says_taken(mpb.rank(), parent, number - 1, number) {
                mpb.set_flag(flag, number).await?;
            }
        }
        for &child in &route.children {
            let Numbered { number, line } = pairs.next_to(mpb.rank(), child);
            if let Some(before) = pairs.must_wait(child, number) {
                pairs.wait_until_taken(mpb, child, before).await?;
            }
            let value = marked(mpb, number);
            mpb.set_flag_with(Line { rank: child, line }, value, message).await?;
        }
        Ok(())
    }
}

async fn broadcast_many<M: MpbAccess>(
    pairs: &mut Pairs,
    mpb: &mut M,
    message: &mut [u8],
    route: &Route,
) -> Result<(), M::Error> {
    for pieces in message.chunks_mut(pairs.most()) {
        if let Some(Above { parent, .. }) = route.above {
            pairs.receive(mpb, pieces, parent).await?;
        }
        for &child in &route.children {
            pairs.send(mpb, pieces, child).await?;
        }
    }
    Ok(())
}
