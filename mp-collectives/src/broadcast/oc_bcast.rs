//! OC-Bcast, synchronous (thesis, algorithm 1, sections 3.1.1 and 3.1.2).
//!
//! A message goes down a tree (k-ary in the thesis) in chunks, each through the MPBs of all ranks that have children.
//! The children are notified along a binary tree ([`mp_model::tree`]). With two buffers, a parent fills one while its
//! children empty the other.
//!
//! The lines of an MPB, from [`Options::first_line`] on:
//!
//! ```text
//! 1            notifyFlag: which chunk is in the parent's buffer     set by the notifier
//! k            doneFlag, one for each child: which chunk it has      set by the child
//! ⌈log₂ P⌉     flags of the barrier, below                           set by rank i − 2^r
//! n · chunk    the buffers, which chunks go through in turn          read by the children
//! ```
//!
//! # Changing roots
//!
//! Algorithm 1 is correct as long as all broadcasts have the same root: each flag then has one writer, and no rank that
//! has finished a broadcast can touch a flag of a rank that has not. With another root this is no longer true. Say
//! ranks 1 and 2 are leaves under root 0, and the next root is 1. Rank 1 may be done, start, and set the notifyFlag of
//! rank 2, which has yet to see its last flag from rank 0. If rank 0 sets the flag after rank 1, the old value hides
//! the new one for ever, and both ranks wait. If rank 0 sets it first, the new value is taken for the old one, and rank
//! 2 copies a chunk that may not be there. So wherever the root is not that of the previous broadcast, all ranks first
//! pass a dissemination barrier, whose flags have one writer each whatever the roots are. Broadcasts with the same root
//! pay nothing for it.
//!
//! # Wrap-around
//!
//! Flags are stamped <broadcast, chunk>, the former modulo 2³². A rank that has had no children for a long time would
//! find old done flags. When the number wraps around to 0, every rank therefore clears its own flags, and the ranks
//! pass the barrier once.
//!
//! # On coherent memory
//!
//! [`Broadcasts`](super::Broadcasts) differs from algorithm 1 in three options. Leaves copy straight to private memory.
//! A rank returns when its buffers are filled. Children set their done flags only after every half of the buffers: a
//! flag is a line that two ranks take from each other, which costs 50 to 250 ns, and half as many flags made 1 MB
//! between far cores twice as fast. Two ideas gained nothing. Messages of as many chunks as would overlap their copies
//! need more flags. Taking the next buffer's lines back from the children ahead of time halved the rate at 8 KB.
//!
//! A long message that lies in the world's memory may also be [lent](MpbAccess::lend). Its place goes down the tree
//! instead of its chunks, with [a step of its own](LENT). All ranks copy the message from the root, and report when they
//! and the ranks below them have it. The root waits for that.

use mp_core::ErrorKind;
use mp_core::mpb::{Line, MpbAccess};
use mp_model::cla::outward::Outward;
use mp_model::tree::TreeError;
use thiserror::Error;

use super::routes::{Above, Route, Routes, Trees, k_ary};
use crate::errors::{bad_call, bad_settings};
use crate::lending::{LENT_LEAST, Lending};
use crate::stamp::Stamp;

/// The step that says that a message is lent, or was borrowed. No message has as many chunks.
const LENT: u32 = u32::MAX;
/// The step that says that a message was borrowed, and that this was slow.
const BORROWED_SLOWLY: u32 = LENT - 1;

/// Options of the algorithm. All ranks must choose the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// k, the greatest number of children of a rank, from 1 to P − 1.
    pub degree: usize,
    /// The number of cache lines in a chunk, and in a buffer.
    pub chunk_lines: usize,
    /// The number of chunks that a rank may have pending to its children: 2 is double buffering.
    pub buffers: usize,
    /// How leaves get their chunks.
    pub leaves: Leaves,
    /// When a rank that has children is done.
    pub completion: Completion,
    /// The first line of every MPB that this algorithm may use. Its lines are its own. Those of flags are initially zero.
    pub first_line: usize,
}

impl Options {
    /// Returns the options used on the SCC (section 3.3.1): two buffers of 96 lines.
    pub fn scc(degree: usize) -> Options {
        Options {
            degree,
            chunk_lines: 96,
            buffers: 2,
            leaves: Leaves::ByMpb,
            completion: Completion::Received,
            first_line: 0,
        }
    }
}

impl Options {
    /// Returns the number of lines that this takes of each MPB with this many ranks, or `None` when they are too many
    /// to count.
    pub fn lines(self, ranks: usize) -> Option<usize> {
        let buffers = self.buffers.checked_mul(self.chunk_lines)?;
        buffers.checked_add(self.flag_lines(ranks))
    }

    /// Returns the number of lines for flags, which come first.
    pub(super) fn flag_lines(self, ranks: usize) -> usize {
        self.degree.saturating_add(1 + rounds(ranks))
    }
}

/// The way in which chunks reach ranks that do not pass them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Through their own MPB, as for all other ranks, as in algorithm 1.
    ByMpb,
    /// Straight to private memory, which saves a copy but keeps the parent waiting for the whole copy (SPAA paper,
    /// section 5.4).
    Direct,
}

/// The point at which a broadcast returns at a rank that passes the message on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// When its children have got the whole message, as in algorithm 1.
    Received,
    /// When the whole message is in its MPB. The rank waits for the children's done flags when a buffer is to be filled
    /// again, by a later chunk or a later broadcast. Consecutive broadcasts then overlap. And because no rank waits for
    /// a certain chunk to be done, children report only after every half of the buffers: each flag is a line that
    /// parent and child take from each other.
    Buffered,
}

/// The reason why the options of a broadcast are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// There is no tree of that degree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The chunks have no lines, or there are no buffers.
    #[error(
        "a broadcast in chunks has {buffers} buffers of {chunk_lines} lines: ask for at least one buffer of one line"
    )]
    NoBuffer {
        /// The requested number of buffers.
        buffers: usize,
        /// The number of lines in each buffer.
        chunk_lines: usize,
    },
    /// The flags and buffers do not fit into the MPB.
    #[error(
        "{flags} flags and {buffers} buffers of {chunk_lines} lines do not fit into an MPB of {lines} lines, from line \
         {first_line} on: ask for less, or open the MPBs with more lines"
    )]
    NoRoom {
        /// The number of lines for flags.
        flags: usize,
        /// The requested number of buffers.
        buffers: usize,
        /// The number of lines in each buffer.
        chunk_lines: usize,
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

/// Allows rank code to return it with `?`.
impl From<OptionsError> for mp_core::Error {
    fn from(error: OptionsError) -> Self {
        bad_settings(error)
    }
}

/// The reason why a broadcast failed. Ranks that agree in everything all get the same error or none, except for what
/// `E` reports of this rank alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BroadcastError<E> {
    /// The MPBs failed.
    #[error(transparent)]
    Mpb(#[from] E),
    /// There is no such root.
    #[error("the root of a broadcast does not exist: {0}")]
    Root(TreeError),
    /// The message has more chunks than can be counted.
    #[error(
        "a message of {bytes} bytes is too long for chunks of {chunk_bytes} bytes, of which there may be 2³² − 3: use \
         longer chunks, or several broadcasts"
    )]
    TooLong {
        /// The message's length.
        bytes: usize,
        /// A chunk's length.
        chunk_bytes: usize,
    },
}

/// Allows rank code to return it with `?`.
impl From<BroadcastError<mp_core::Error>> for mp_core::Error {
    fn from(error: BroadcastError<mp_core::Error>) -> Self {
        match error {
            BroadcastError::Mpb(error) => error,
            BroadcastError::Root(TreeError::NoSuchRank { rank, ranks: size }) => {
                ErrorKind::NoSuchRank { rank, size }.into()
            }
            other => bad_call(other.to_string()),
        }
    }
}

/// One rank's part in a series of broadcasts.
#[derive(Debug)]
pub struct OcBcast {
    routes: Routes,
    flow: Flow,
}

/// The progress of a rank, and what it knows of the others.
#[derive(Debug)]
struct Flow {
    ranks: usize,
    options: Options,
    line_bytes: usize,
    /// The number of the last broadcast, modulo 2³².
    broadcast: u32,
    /// The buffer for the next chunk. All ranks go through the buffers in turn and count them in the same way.
    buffer: usize,
    /// The chunk in each buffer that children may still be getting.
    filled: Vec<Option<Stamp>>,
    /// The value of the notifyFlag when it was last read.
    notified: u64,
    /// The value of each child's done flag when it was last read.
    done: Vec<u64>,
    last_root: Option<usize>,
    barriers: u32,
    lending: Lending,
}

impl OcBcast {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn new<M: MpbAccess>(mpb: &M, options: Options) -> Result<OcBcast, OptionsError> {
        OcBcast::numbered_from(mpb, options, 0)
    }

    /// Does what [`new`](OcBcast::new) does, but as if this many broadcasts, modulo 2³², had already been made; the
    /// number must be the same at all ranks. It shows in a short time what happens when the numbers wrap around.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn numbered_from<M: MpbAccess>(
        mpb: &M,
        options: Options,
        before: u32,
    ) -> Result<OcBcast, OptionsError> {
        let trees = k_ary(mpb.ranks(), options.degree)?;
        OcBcast::of_tree(mpb, options, trees, before)
    }

    /// Does what [`new`](OcBcast::new) does, but along another tree than the k-ary one. The options' degree is the
    /// number of children that a rank may have, whatever the root: P − 1 for any tree.
    ///
    /// # Errors
    /// [`OptionsError`]; with a degree of less than P − 1, that of trees.
    ///
    /// # Panics
    /// If the tree and the MPBs have different numbers of ranks.
    pub fn along<M: MpbAccess>(
        mpb: &M,
        options: Options,
        tree: Outward,
    ) -> Result<OcBcast, OptionsError> {
        let (ranks, degree) = (mpb.ranks(), options.degree);
        assert_eq!(tree.ranks(), ranks, "the ranks of the tree and of the buffers");
        if degree.saturating_add(1) < ranks {
            return Err(TreeError::Degree { degree, ranks }.into());
        }
        OcBcast::of_tree(mpb, options, Trees::Along(tree), 0)
    }

    fn of_tree<M: MpbAccess>(
        mpb: &M,
        options: Options,
        trees: Trees,
        before: u32,
    ) -> Result<OcBcast, OptionsError> {
        let (ranks, lines) = (mpb.ranks(), mpb.lines());
        let Options { degree, buffers, chunk_lines, first_line, .. } = options;
        if buffers == 0 || chunk_lines == 0 {
            return Err(OptionsError::NoBuffer { buffers, chunk_lines });
        }
        match options.lines(ranks).and_then(|needed| needed.checked_add(first_line)) {
            Some(end) if end <= lines => {}
            _ => {
                let flags = options.flag_lines(ranks);
                let facts = OptionsError::NoRoom { flags, buffers, chunk_lines, first_line, lines };
                return Err(facts);
            }
        }
        let flow = Flow {
            ranks,
            options,
            line_bytes: mpb.line_bytes(),
            broadcast: before,
            buffer: 0,
            filled: vec![None; buffers],
            notified: 0,
            done: vec![0; degree],
            last_root: None,
            barriers: 0,
            lending: Lending::default(),
        };
        Ok(OcBcast { routes: Routes::new(trees, mpb.rank()), flow })
    }

    /// Broadcasts the root's message. All ranks call this with the same root and length, and have the message when it
    /// returns. The root's own message is only read.
    ///
    /// # Errors
    /// [`BroadcastError`]. After one from the MPBs, this rank is out of step with the others.
    #[expect(clippy::manual_async_fn, reason = "that moves each argument once more, by memory")]
    pub fn broadcast<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        message: &mut [u8],
        root: usize,
    ) -> impl Future<Output = Result<(), BroadcastError<M::Error>>> {
        async move {
            let OcBcast { routes, flow } = self;
            let route = routes.under(root).map_err(BroadcastError::Root)?;
            let chunk_bytes = flow.options.chunk_lines.saturating_mul(flow.line_bytes);
            let chunks = match message.len() {
                length if length <= chunk_bytes => u32::from(length > 0),
                length => u32::try_from(length.div_ceil(chunk_bytes))
                    .ok()
                    .filter(|&chunks| chunks < BORROWED_SLOWLY)
                    .ok_or(BroadcastError::TooLong { bytes: length, chunk_bytes })?,
            };
            flow.broadcast = flow.broadcast.wrapping_add(1);
            if flow.broadcast == 0 || flow.last_root != Some(root) {
                flow.keep_apart(mpb, root).await?;
            }
            let long = M::LENDS && message.len() >= LENT_LEAST;
            if long && flow.lend(mpb, route, message).await? {
                return Ok(());
            }
            let mut rest = message;
            // Algorithm 1, lines 20 to 34, for each chunk: all in this one function, because arguments that
            // go to another async one by memory cost what a line transfer does.
            for step in 1..=chunks {
                let (chunk, behind) = rest.split_at_mut(chunk_bytes.min(rest.len()));
                rest = behind;
                let stamp = Stamp { operation: flow.broadcast, step };
                let buffer = flow.next_buffer();
                let line = flow.buffer_line(buffer);
                if let Some(before) = flow.filled[buffer].take()
                    && !flow.have_said_so(route, before)
                {
                    flow.wait_for_children(mpb, route, before).await?;
                }
                if !route.children.is_empty() {
                    flow.filled[buffer] = Some(stamp);
                }

                let own = Line { rank: mpb.rank(), line };
                let notify = flow.notify_line();
                let Some(Above { parent, index, notifier }) = route.above else {
                    mpb.put(chunk, own).await?;
                    for &rank in route.told_children() {
                        mpb.announce(Line { rank, line: notify }, stamp.value()).await?;
                    }
                    continue;
                };
                if !flow.is_known(stamp, flow.notified) {
                    let reached = |value| stamp.is_reached(value);
                    flow.notified = mpb.wait_flag_from(notifier, notify, reached).await?;
                }
                mpb.compare(notifier, notify)?;
                for &rank in &route.told_siblings {
                    mpb.announce(Line { rank, line: notify }, stamp.value()).await?;
                }
                let source = Line { rank: parent, line };
                let direct = route.children.is_empty() && flow.options.leaves == Leaves::Direct;
                if direct {
                    mpb.get(source, chunk).await?;
                } else {
                    mpb.get_own(source, chunk.len().div_ceil(flow.line_bytes), line).await?;
                }
                if flow.says_done(buffer) {
                    let done = Line { rank: parent, line: flow.done_line(index) };
                    mpb.set_flag(done, stamp.value()).await?;
                }
                for &rank in route.told_children() {
                    mpb.announce(Line { rank, line: notify }, stamp.value()).await?;
                }
                if !direct {
                    mpb.get(own, chunk).await?;
                }
            }
            if flow.options.completion == Completion::Received {
                let last = flow.filled.iter().flatten().max_by_key(|stamp| stamp.value()).copied();
                flow.filled.fill(None);
                if let Some(last) = last {
                    flow.wait_for_children(mpb, route, last).await?;
                }
            }
            Ok(())
        }
    }
}

impl Flow {
    /// Delays this broadcast until no flag of the last one can be mistaken for one of its own.
    async fn keep_apart<M: MpbAccess>(&mut self, mpb: &mut M, root: usize) -> Result<(), M::Error> {
        let came_round = self.broadcast == 0;
        let another_root = self.last_root.replace(root).is_some_and(|last| last != root);
        if came_round {
            // Done flags may still be under way.
            self.barrier(mpb).await?;
            for line in self.notify_line()..self.barrier_line(0) {
                mpb.set_flag(Line { rank: mpb.rank(), line }, 0).await?;
            }
        }
        if came_round || another_root {
            self.barrier(mpb).await?;
            // Ranks are in the barrier only when they have got every chunk.
            self.filled.fill(None);
            self.done.fill(0);
            self.notified = 0;
        }
        Ok(())
    }

    /// Lends the root's message, or borrows it if the root lends it. Returns whether it is lent.
    async fn lend<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        route: &Route,
        message: &mut [u8],
    ) -> Result<bool, M::Error> {
        let [first, slow, lent] =
            [1, BORROWED_SLOWLY, LENT].map(|step| Stamp { operation: self.broadcast, step });
        let (line, notify) = (self.buffer_line(self.buffer), self.notify_line());
        let own = Line { rank: mpb.rank(), line };
        if let Some(Above { notifier, .. }) = route.above {
            if !self.is_known(first, self.notified) {
                let reached = |value| first.is_reached(value);
                self.notified = mpb.wait_flag_from(notifier, notify, reached).await?;
            }
            if self.notified != lent.value() {
                return Ok(false);
            }
        }
        if let Some(before) = self.filled[self.buffer].take()
            && !self.have_said_so(route, before)
        {
            self.wait_for_children(mpb, route, before).await?;
        }
        let Some(Above { parent, index, notifier }) = route.above else {
            let tries = !route.children.is_empty() && self.lending.try_next();
            let lends = tries && mpb.lend(message, own).await?;
            if lends {
                self.next_buffer();
                for &rank in route.told_children() {
                    mpb.announce(Line { rank, line: notify }, lent.value()).await?;
                }
                self.wait_for_children(mpb, route, slow).await?;
                self.lending.was_useful(!self.is_any_child_at(route, slow));
            }
            return Ok(lends);
        };
        self.next_buffer();
        mpb.compare(notifier, notify)?;
        for &rank in &route.told_siblings {
            mpb.announce(Line { rank, line: notify }, lent.value()).await?;
        }
        let source = Line { rank: parent, line };
        if !route.children.is_empty() {
            mpb.get_own(source, 1, line).await?;
            for &rank in route.told_children() {
                mpb.announce(Line { rank, line: notify }, lent.value()).await?;
            }
        }
        let was_slow = mpb.borrow(source, message).await?;
        self.wait_for_children(mpb, route, slow).await?;
        let done = if was_slow || self.is_any_child_at(route, slow) { slow } else { lent };
        mpb.set_flag(Line { rank: parent, line: self.done_line(index) }, done.value()).await?;
        Ok(true)
    }

    /// Returns whether the last done flag of any child was this one.
    fn is_any_child_at(&self, route: &Route, stamp: Stamp) -> bool {
        self.done[..route.children.len()].contains(&stamp.value())
    }

    /// Advances to the next buffer, in turn.
    fn next_buffer(&mut self) -> usize {
        let buffer = self.buffer;
        self.buffer = if buffer + 1 == self.options.buffers { 0 } else { buffer + 1 };
        buffer
    }

    /// Waits until all children have this chunk, and thus all chunks before it.
    async fn wait_for_children<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        route: &Route,
        stamp: Stamp,
    ) -> Result<(), M::Error> {
        for (index, &child) in route.children.iter().enumerate() {
            if !self.is_known(stamp, self.done[index]) {
                let line = self.done_line(index);
                let reached = |value| stamp.is_reached(value);
                self.done[index] = mpb.wait_flag_from(child, line, reached).await?;
            }
        }
        Ok(())
    }

    /// Returns whether a flag need not be read again, because of the value last read. Algorithm 1 always reads it.
    fn is_known(&self, stamp: Stamp, said: u64) -> bool {
        self.options.completion == Completion::Buffered && stamp.is_reached(said)
    }

    /// Returns whether no child's done flag needs to be read again.
    fn have_said_so(&self, route: &Route, stamp: Stamp) -> bool {
        let done = &self.done[..route.children.len()];
        done.iter().all(|&said| self.is_known(stamp, said))
    }

    /// Returns whether a child reports that it has the chunk in this buffer.
    fn says_done(&self, buffer: usize) -> bool {
        let buffers = self.options.buffers;
        match self.options.completion {
            Completion::Received => true,
            Completion::Buffered => buffer + 1 == buffers || buffer + 1 == buffers.div_ceil(2),
        }
    }

    /// Runs a dissemination barrier: in round r, rank i tells rank i + 2^r.
    async fn barrier<M: MpbAccess>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
        self.barriers = self.barriers.wrapping_add(1);
        let (barrier, ranks) = (self.barriers, self.ranks);
        for round in 0..rounds(ranks) {
            let (me, ahead) = (mpb.rank(), 1 << round);
            let rank = if ahead < ranks - me { me + ahead } else { ahead - (ranks - me) };
            let behind = if ahead <= me { me - ahead } else { ranks - (ahead - me) };
            let line = self.barrier_line(round);
            mpb.set_flag(Line { rank, line }, barrier.into()).await?;
            // A rank that has left this barrier may be in the next, but in none after.
            let reached = |value: u64| (value as u32).wrapping_sub(barrier) <= 1;
            mpb.wait_flag_from(behind, line, reached).await?;
        }
        Ok(())
    }

    fn notify_line(&self) -> usize {
        self.options.first_line
    }

    fn done_line(&self, child: usize) -> usize {
        self.options.first_line + 1 + child
    }

    fn barrier_line(&self, round: usize) -> usize {
        self.done_line(self.options.degree) + round
    }

    fn buffer_line(&self, buffer: usize) -> usize {
        let flags = self.options.flag_lines(self.ranks);
        self.options.first_line + flags + buffer * self.options.chunk_lines
    }
}

/// Returns ⌈log₂ P⌉, the number of rounds of a dissemination barrier.
fn rounds(ranks: usize) -> usize {
    (usize::BITS - ranks.saturating_sub(1).leading_zeros()) as usize
}
