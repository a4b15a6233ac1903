//! OC-Bcast, asynchronous (thesis, algorithm 2, sections 3.2.1 to 3.2.3): any rank broadcasts at any time, several
//! ranks at once, and the receivers make no call.
//!
//! As in the synchronous form, a chunk goes down a k-ary tree from MPB to MPB. But no rank waits for it at a flag: a
//! parent interrupts all its children at once, and each child gets the chunk, answers, and interrupts its own children.
//! If a rank's own MPB still holds another chunk, the rank gets the new chunk into memory and queues it. So its
//! parent's MPB becomes free whatever the rank's own MPB waits for, and ranks that all broadcast at once cannot block
//! each other. While there is a queue, everything goes through it, including the rank's own chunks, so that nothing
//! overtakes and nothing starves.
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
//! The pseudocode of algorithm 2 is "not fully detailed". These are the differences here, with their reasons:
//!
//! - **Several parents interrupt one child at the same time**, each for its own source's tree. An interrupt names the
//!   parent, and a parent's MPB holds one chunk until all its children have taken it. So "interrupted by p" is all that
//!   a child needs to know, and no interrupt is lost when those of one parent are merged. Answers have one writer each:
//!   there is a line for every rank, not for every child index, which means another rank in every tree.
//! - **Handlers nest.** An interrupt that comes while the handler waits for its children would run the handler again,
//!   and could deliver a message before an earlier one of the same source that the outer handler has not yet copied to
//!   memory. Here the steps of a [`Member`] do not wait, so they do not nest: each chunk is in its message before the
//!   next chunk is looked at. There is one path from a source to each rank, and each rank passes chunks on in the order
//!   in which they came, so messages of a source stay in order.
//! - **The queue is unbounded.** Here a source may be [`AsyncOptions::window`] chunks ahead of the rank that has
//!   handled the fewest of its chunks. Ranks report how many chunks they have handled when these are half a window, or
//!   with the next answer. So a queue never holds more of a source than its window, it never needs to refuse a chunk
//!   (which would bring back the deadlock), and **a slow handler slows down the sources**. Handlers continue whatever
//!   is sent, so windows always open again; a handler that itself waits to broadcast would break this.
//! - **The application starves** if the queue never runs empty. Here its own chunks wait for their turn in the queue.
//!
//! # Memory
//!
//! For one source, a rank keeps the messages with a chunk in that source's window: at most window × chunk + 2 × the
//! longest message, because the first and the last may be long messages that began before the window or end after it.
//! All chunks of a message but the last ones (about half a window) count as handled when they arrive, and the last ones
//! when the message has been handled.
//!
//! # The same order everywhere
//!
//! With [`Order::Total`], all ranks, including the source, handle all messages in the same order (the "future work" of
//! the papers). Messages are broadcast as usual and held back where they arrive. Rank 0, the *sequencer*, broadcasts
//! whose turn it is, in the order in which messages came to it. The source's rank is enough, since each source's
//! messages are in order. Under load, one such message orders many messages.
//!
//! Reasons for a sequencer: ranks of one machine that die take the world with them, so an algorithm without a sequencer
//! gains nothing. Lamport's order needs a message from every rank for each message handled, P times the broadcasts.
//! Skeen's needs two rounds of messages between two ranks, which broadcasts do not have, and a source that waits. A
//! ticket from a shared counter would be cheapest, but MPBs have no atomic counter, and a simulated SCC has none
//! between cores.
//!
//! Order messages do not count in the window of rank 0, because its own messages could otherwise close the window for
//! the very order that opens it. They are still bounded: an order that some rank has yet to see is for a message that
//! some rank has yet to handle.
//!
//! # Who calls what
//!
//! A [`Member`] has the steps of the algorithm, none of which waits. [`AsyncBroadcast`] runs a member
//! between the threads of a real rank; the research package runs one in the single thread of a simulated core.

mod header;
mod inbox;
mod member;
mod ranks;

use mp_model::tree::TreeError;
use thiserror::Error;

pub use self::inbox::Delivery;
pub use self::member::{Member, Progress, Sending};
pub use self::ranks::{AsyncBroadcast, AsyncSettings};
use super::Leaves;

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncOptions {
    /// k, the greatest number of children of a rank, from 1 to P − 1.
    pub degree: usize,
    /// The number of cache lines in a chunk.
    pub chunk_lines: usize,
    /// How many chunks a source may be ahead of the slowest handler, from 1 to 2³¹ − 1.
    pub window: u32,
    /// How leaves get their chunks when their MPB is available.
    pub leaves: Leaves,
    /// The order in which messages are handled.
    pub order: Order,
    /// The first line of every MPB that this algorithm may use. Its lines are its own and initially zero.
    pub first_line: usize,
}

impl AsyncOptions {
    /// Returns the options used on the SCC: a message of 128 lines, the longest of section 3.3.4, is one chunk. The
    /// memory of the thesis' queues is unbounded; a window of 64 chunks is never closed in its experiments.
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

    /// Returns the number of lines for answers and for the header, which come before the chunk.
    fn lines_before_chunk(ranks: usize, line_bytes: usize) -> usize {
        ranks.saturating_add(header::Header::BYTES.div_ceil(line_bytes))
    }

    /// Returns 24 bits by which ranks usually notice that they have chosen different options.
    fn fingerprint(&self) -> u32 {
        let AsyncOptions { degree, chunk_lines, window, order, .. } = *self;
        let facts = [degree as u64, chunk_lines as u64, window.into(), order as u64];
        let mix =
            |all: u64, fact: u64| (all ^ fact).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (facts.into_iter().fold(0, mix) >> 40) as u32
    }

    /// Returns how many chunks a rank has handled when it must tell their source: half a window.
    fn told_after(&self) -> u32 {
        self.window.div_ceil(2)
    }

    /// Returns how many of a message's last chunks count as handled only with the message. In the middle of a message,
    /// a source is held up by at most one less, and by the chunks that it has not been told of: together less than a
    /// window, so it can continue.
    fn counted_with_message(&self) -> u32 {
        self.window - self.told_after() + 1
    }
}

/// The order in which messages are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Messages of one source are handled in the order in which it sent them. A source does not handle its own
    /// messages.
    PerSource,
    /// All messages are handled in the same order at all ranks, including the source's own.
    Total,
}

/// The reason why the options of asynchronous broadcasts are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AsyncOptionsError {
    /// There is no tree of that degree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The chunks have no lines.
    #[error("the chunks of asynchronous broadcasts have no lines: ask for at least one")]
    NoChunk,
    /// The window admits nothing, or cannot be counted.
    #[error(
        "the window of asynchronous broadcasts is {window} chunks: it must be from 1 to 2³¹ − 1"
    )]
    Window {
        /// The requested window.
        window: u32,
    },
    /// The lines do not fit into the MPB.
    #[error(
        "{flags} lines before a chunk of {chunk_lines} lines do not fit into an MPB of {lines} lines, from line \
         {first_line} on: use shorter chunks, or open the MPBs with more lines"
    )]
    NoRoom {
        /// The number of lines for answers and the header.
        flags: usize,
        /// The number of lines in a chunk.
        chunk_lines: usize,
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

/// The reason why an asynchronous broadcast failed. This rank cannot continue afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AsyncError<E> {
    /// The MPBs failed.
    #[error(transparent)]
    Mpb(#[from] E),
    /// Another rank's MPB holds something that no rank writes.
    #[error(
        "the buffer of rank {rank} holds something that no rank writes: {what}; the ranks may have other settings, or memory was overwritten"
    )]
    Corrupt {
        /// The rank whose MPB it is.
        rank: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// There is no memory for a message.
    #[error("there is no memory for a message of {bytes} bytes: free some, or send it in parts")]
    OutOfMemory {
        /// The message's length.
        bytes: usize,
    },
    /// This rank has announced that it will broadcast no more.
    #[error("this rank has announced that it broadcasts nothing more")]
    Farewell,
}
