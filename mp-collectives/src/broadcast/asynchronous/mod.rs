//! OC-Bcast, asynchronous (thesis, algorithm 2, sections 3.2.1 to 3.2.3): any rank broadcasts at any
//! time, several at once, and who receives calls nothing.
//!
//! As in the synchronous form, a chunk goes down a k-ary tree from MPB to MPB. But nobody waits for it
//! at a flag: a parent interrupts all its children at once, and each of them gets the chunk, answers,
//! and interrupts its own. Where the own MPB still holds another chunk, a rank gets the new one into
//! memory and queues it, so that its parent's MPB comes free whatever the own one waits for: that is
//! why ranks that all broadcast at once cannot block each other. While there is a queue, everything
//! goes through it, own chunks too, so that nothing overtakes and nothing starves.
//!
//! The lines of an MPB, from [`AsyncOptions::first_line`] on:
//!
//! ```text
//! P        answers: <chunks taken from here, chunks handled of those that came from here>
//!                                                                set by rank i
//! 1        what the chunk is: kind, source, length of its message, offset
//! chunk    the chunk                                             read by the children
//! ```
//!
//! # Where algorithm 2 leaves holes
//!
//! Its pseudocode is "not fully detailed". What is different here, and why:
//!
//! - **Several parents interrupt one child at the same time**, each for its own source's tree. An
//!   interrupt says by whom, and a parent's MPB holds one chunk until all its children have taken it,
//!   so that "interrupted by p" is all that a child needs to know, and interrupts of one parent that
//!   are merged are none lost. Answers have one writer each: a line for every rank, not for every child
//!   index, which means another rank in every tree.
//! - **Handlers nest.** An interrupt that comes while the handler waits for its children would run the
//!   handler again, and could deliver a message before an earlier one of the same source that the outer
//!   one has not yet copied to memory. Here a [`Member`]'s steps do not wait, and so do not nest: each
//!   chunk is in its message before the next is looked at. With one path from a source to each rank, and
//!   each rank passing chunks on in the order in which they came, messages of a source stay in order.
//! - **The queue is unbounded.** Here a source may be [`AsyncOptions::window`] chunks ahead of the rank
//!   that has handled the fewest of its chunks; ranks tell it how many they have handled when they are
//!   half a window, or with the next answer. So a queue never holds more of a source than its window, it
//!   never needs to refuse a chunk (which would bring back the deadlock), and **a slow handler slows
//!   down the sources**. Handlers go on whatever is sent, so that windows always open again; a
//!   handler that itself waits to broadcast would end that.
//! - **The application starves**, if the queue never runs empty: its own chunks wait for their turn in
//!   the queue, here.
//!
//! # Memory
//!
//! What a rank keeps of one source are messages with a chunk in that source's window: at most
//! window × chunk + 2 × the longest message, of which the first and the last may be long ones that began
//! before or end after. All chunks of a message but the last (about half a window) count as handled when
//! they arrive, and the last ones when the message has been handled.
//!
//! # The same order everywhere
//!
//! With [`Order::Total`] all ranks, the source too, handle all messages in the same order (the "future
//! work" of the papers). Messages are broadcast as ever, and held back where they arrive; rank 0, the
//! *sequencer*, broadcasts whose turn it is, as messages have come to it: the source's rank is enough,
//! since each source's messages are in order. Under load one such message orders many.
//!
//! Why a sequencer: ranks of one machine that die take the world with them, so that nothing is won by an
//! algorithm without one. Lamport's order needs a message of every rank for each one handled, P times
//! the broadcasts; Skeen's needs two rounds of messages between two ranks, which broadcasts do not
//! have, and a source that waits. A ticket from a shared counter would be cheapest, but MPBs have no
//! atomic counter, and a simulated SCC none between cores.
//!
//! Order messages do not count in the window of rank 0, whose own messages could otherwise close it
//! for the very order that opens it. They are bounded all the same: an order that someone has yet to see
//! is for a message that someone has yet to handle.
//!
//! # Who calls what
//!
//! A [`Member`] has the steps of the algorithm, none of which waits. [`Served`] runs one in a single
//! thread, on simulated cores; [`AsyncBroadcast`] runs one between the threads of a real rank.

mod header;
mod inbox;
mod member;
mod ranks;
mod served;

use mp_model::mpb::lines_of;
use mp_model::tree::TreeError;
use thiserror::Error;

pub use self::inbox::Delivery;
pub use self::member::{Member, Progress, Sending};
pub use self::ranks::{AsyncBroadcast, AsyncFailure, AsyncSettings};
pub use self::served::Served;
use super::Leaves;

/// What can be chosen. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncOptions {
    /// k: the most children that a rank has, from 1 to P − 1.
    pub degree: usize,
    /// Cache lines in a chunk.
    pub chunk_lines: usize,
    /// How many chunks a source may be ahead of the slowest handler, from 1 to 2³¹ − 1.
    pub window: u32,
    /// What leaves do whose MPB is available.
    pub leaves: Leaves,
    /// In which order messages are handled.
    pub order: Order,
    /// The first line of every MPB that this algorithm may use. Its lines are its own, and zero at
    /// first.
    pub first_line: usize,
}

impl AsyncOptions {
    /// As on the SCC: a message of 128 lines, the longest of section 3.3.4, is one chunk. The memory of
    /// the thesis' queues is unbounded; a window of 64 chunks is never closed in its experiments.
    pub fn scc(degree: usize) -> AsyncOptions {
        AsyncOptions {
            degree,
            chunk_lines: 128,
            window: 64,
            leaves: Leaves::ByMpb,
            order: Order::PerSource,
            first_line: 0,
        }
    }

    /// Lines for answers and for what the chunk is, which come before the chunk.
    fn lines_before_chunk(ranks: usize, line_bytes: usize) -> usize {
        ranks.saturating_add(lines_of(header::Header::BYTES, line_bytes))
    }

    /// Some bits by which ranks mostly see that they have chosen differently: 24.
    fn fingerprint(&self) -> u32 {
        let AsyncOptions { degree, chunk_lines, window, order, .. } = *self;
        let facts = [degree as u64, chunk_lines as u64, window.into(), order as u64];
        let mix =
            |all: u64, fact: u64| (all ^ fact).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (facts.into_iter().fold(0, mix) >> 40) as u32
    }

    /// How many chunks a rank has handled when it must tell their source: half a window.
    fn told_after(&self) -> u32 {
        self.window.div_ceil(2)
    }

    /// How many of a message's last chunks count as handled only with the message. In the middle of a
    /// message a source is held up by at most one less, and by the chunks that it has not been told
    /// of: less than a window together, so that it can go on.
    fn counted_with_message(&self) -> u32 {
        self.window - self.told_after() + 1
    }
}

/// The order in which messages are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those of one source in the order in which it sent them. A source does not handle its own.
    PerSource,
    /// All in the same order at all ranks, the source's own included.
    Total,
}

/// Why there can be no such broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AsyncOptionsError {
    /// No tree of that degree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Chunks of no lines.
    #[error("chunks of no lines")]
    NoChunk,
    /// A window that lets nothing through, or cannot be counted.
    #[error("a window of {window} chunks, not between 1 and 2³¹ − 1")]
    Window {
        /// The window asked for.
        window: u32,
    },
    /// It does not fit into the MPB.
    #[error(
        "{flags} lines before a chunk of {chunk_lines} lines do not fit into an MPB of {lines} lines, \
         from line {first_line} on"
    )]
    NoRoom {
        /// Lines for answers and what the chunk is.
        flags: usize,
        /// The lines of a chunk.
        chunk_lines: usize,
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

/// Why an asynchronous broadcast failed. This rank cannot go on then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AsyncError<E> {
    /// The MPBs failed.
    #[error(transparent)]
    Mpb(#[from] E),
    /// Another rank's MPB holds what no rank writes.
    #[error("what rank {rank} has published makes no sense: {what}")]
    Corrupt {
        /// Whose MPB.
        rank: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// No memory for a message.
    #[error("no memory for a message of {bytes} bytes")]
    OutOfMemory {
        /// The message's length.
        bytes: usize,
    },
    /// This rank has said that it will broadcast no more.
    #[error("this rank broadcasts no more")]
    Farewell,
}
