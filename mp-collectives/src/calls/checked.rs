//! MPBs whose ranks compare their calls.

use std::array;
use std::future::Future;
use std::sync::Arc;

use mp_core::mpb::{AsMpb, Line, Mpb, NEWS, PAYLOAD_BYTES, Watch};
use mp_core::waits::Caller;
use mp_core::{Error, ErrorKind, Result};

use super::board::Board;
use super::history::{Difference, Entry, History, REMEMBERED};
use super::mark::{LONGEST, MARK, MARK_BITS, Mark};

/// The position of the mark. Below it are a line's 32-bit number and the bit into which the number carries.
const SHIFT: u32 = u64::BITS - MARK_BITS;

/// The MPBs of one front, whose calls are compared with those of the other ranks.
#[derive(Debug)]
pub struct CheckedMpb<M = Mpb> {
    mpb: M,
    history: Arc<History>,
    /// Whether long blocks are lent.
    lends: bool,
    /// The call in progress.
    now: u64,
    /// The bits of a line's mark that have the length of a block.
    lengths: u64,
    /// Whether the call in progress is the same as all remembered calls.
    repeats: bool,
    /// The last call that was compared, for each rank.
    compared: Vec<u64>,
    /// The calls and lengths of the last blocks that were announced to each rank.
    announced: Vec<[u64; BLOCKS]>,
}

/// The number of blocks whose lengths are announced: as many as there is room for beside a flag and the last calls.
const BLOCKS: usize = 3;
// Lines are shorter under the model checker, which checks nothing that announces.
const _: () = assert!(cfg!(loom) || (REMEMBERED + BLOCKS) * size_of::<u64>() == PAYLOAD_BYTES);

impl<M: AsMpb> CheckedMpb<M> {
    pub(crate) fn new(mpb: M) -> Self {
        let ranks = mpb.as_mpb().ranks();
        let (compared, announced) = (vec![0; ranks], vec![[0; BLOCKS]; ranks]);
        let history = Arc::default();
        let (lends, now, lengths, repeats) = (false, 0, 0, false);
        Self { mpb, history, lends, now, lengths, repeats, compared, announced }
    }

    /// Makes calls lend long blocks from now on, or not: see [`Settings::direct`](crate::settings::Settings::direct).
    pub(crate) fn set_lends(&mut self, lends: bool) {
        self.lends = lends;
    }

    /// Returns the underlying MPBs.
    pub(crate) fn get_ref(&self) -> &M {
        &self.mpb
    }

    /// Returns the underlying MPBs, so that the caller can set how calls wait.
    pub(crate) fn get_mut(&mut self) -> &mut M {
        &mut self.mpb
    }

    /// Converts the MPBs.
    pub(crate) fn map<N>(self, convert: impl FnOnce(M) -> N) -> CheckedMpb<N> {
        let Self { mpb, history, lends, now, lengths, repeats, compared, announced } = self;
        let mpb = convert(mpb);
        CheckedMpb { mpb, history, lends, now, lengths, repeats, compared, announced }
    }

    /// Begins a call.
    #[inline(always)]
    pub(crate) fn begin(&mut self, mark: Mark) {
        let (now, repeats) = self.history.note(mark);
        (self.now, self.repeats) = (now.0, repeats);
        self.lengths = mark.length_bits();
    }

    /// Does the same as [`begin`](Self::begin), but faster for a front whose calls are all the same.
    #[inline(always)]
    pub(crate) fn begin_again(&mut self, mark: Mark) {
        let last = Entry(self.now);
        if self.repeats && self.history.note_again(last) {
            self.now = last.next().0;
        } else {
            self.begin_anew(mark);
        }
    }

    #[inline(never)]
    fn begin_anew(&mut self, mark: Mark) {
        self.begin(mark);
    }

    /// Also compares the calls for which no line went from one rank to the other.
    #[inline(never)]
    fn compare_all(&self, from: usize, line: usize) -> Result<()> {
        let mut there = [0u64; REMEMBERED];
        self.mpb.as_mpb().flag_payload(line, bytemuck::bytes_of_mut(&mut there))?;
        match self.history.difference(there) {
            Some((mine, there)) => Err(self.differ_in_block(mine, (from, there))),
            None => Ok(()),
        }
    }

    /// Compares marks that are not the same.
    #[cold]
    fn compare_lengths(&self, from: usize, theirs: Mark, room: usize) -> Result<()> {
        let mine = Mark(self.block_mark(room));
        if (mine.0 ^ theirs.0) & !self.lengths != 0 {
            return Err(self.differ_in_block(mine, (from, theirs)));
        }
        self.check_room(from, theirs.block().unwrap_or(LONGEST as usize + 1), room)
    }

    /// Returns an error if a block is longer than the room for it.
    #[inline(always)]
    fn check_room(&self, from: usize, bytes: usize, room: usize) -> Result<()> {
        if bytes <= room { Ok(()) } else { Err(self.no_room(from, bytes, room)) }
    }

    #[cold]
    fn no_room(&self, from: usize, bytes: usize, room: usize) -> Error {
        let [mine, theirs] = [room, bytes].map(|bytes| Mark(self.block_mark(bytes)));
        too_long(from, (bytes, room), self.differ(mine, (from, theirs)))
    }

    /// Does what [`differ`](Self::differ) does. If blocks that come from the other rank are too long, and nothing else
    /// differs, the error says so.
    #[cold]
    fn differ_in_block(&self, mine: Mark, (from, theirs): (usize, Mark)) -> Error {
        let error = self.differ(mine, (from, theirs));
        match theirs.exceeds(mine, self.mpb.as_mpb().ranks()) {
            Some(lengths) if mine == Entry(self.now).mark() => too_long(from, lengths, error),
            _ => error,
        }
    }

    /// Compares the length that another rank has announced for the block of this call with the room for it. A rank that is
    /// more calls ahead than it announces has overwritten that length.
    #[inline(never)]
    fn compare_announced_length(&self, from: usize, line: usize, room: usize) -> Result<()> {
        let mut there = [0u64; REMEMBERED + BLOCKS];
        self.mpb.as_mpb().flag_payload(line, bytemuck::bytes_of_mut(&mut there))?;
        let blocks = there[REMEMBERED..].iter().map(|&block| Entry(block));
        match blocks.into_iter().find_map(|block| block.length_in(Entry(self.now))) {
            Some(bytes) => self.check_room(from, bytes, room),
            None => Ok(()),
        }
    }

    /// Returns the mark of a block.
    #[inline(always)]
    fn block_mark(&self, bytes: usize) -> u64 {
        (self.now | Mark::length(bytes) & self.lengths) & MARK
    }

    #[cold]
    fn differ(&self, mine: Mark, theirs: (usize, Mark)) -> Error {
        let mpb = self.mpb.as_mpb();
        // After a loss, some ranks have given up their operation and call the next one.
        if let Some(loss) = mpb.loss() {
            return loss;
        }
        let difference = Difference::new((mpb.rank(), mine), theirs);
        self.history.differs(difference);
        difference.error(mpb.ranks())
    }
}

/// Returns the error for a block that is longer than its place, where ranks were found to differ.
fn too_long(source_rank: usize, (bytes, room): (usize, usize), differ: Error) -> Error {
    match differ.kind() {
        ErrorKind::CallsDiffer(_) => ErrorKind::BlockTooLong { source_rank, bytes, room }.into(),
        _ => differ,
    }
}

impl CheckedMpb {
    /// Numbers the calls together with those of the other fronts of a communicator, and shows them on its board when a
    /// wait takes long.
    pub(crate) fn watch(&mut self, board: &Arc<Board>) {
        self.history = Arc::clone(board.history());
        self.mpb.set_watch(Arc::clone(board) as Arc<dyn Watch>);
        self.mpb.set_caller(Arc::clone(board) as Arc<dyn Caller>);
    }
}

impl<M: AsMpb> AsMpb for CheckedMpb<M> {
    #[inline(always)]
    fn as_mpb(&self) -> &Mpb {
        self.mpb.as_mpb()
    }

    #[inline(always)]
    fn wait(
        &self,
        setter: Option<usize>,
        line: usize,
        together: bool,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64>> {
        self.mpb.wait(setter, line, together, reached)
    }

    #[inline(always)]
    fn wait_between(
        &self,
        before: Result<()>,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
        then: impl FnOnce(u64) -> Result<()>,
    ) -> impl Future<Output = Result<()>> {
        self.mpb.wait_between(before, setter, line, reached, then)
    }

    #[inline(always)]
    fn lends(&self) -> bool {
        self.lends
    }

    #[inline(always)]
    fn mark(&self) -> u64 {
        self.now << SHIFT
    }

    #[inline(always)]
    fn compare_mark(&self, from: usize, seen: u64) -> Result<()> {
        if seen >> SHIFT == self.now & MARK {
            return Ok(());
        }
        Err(self.differ(Entry(self.now).mark(), (from, Mark(seen >> SHIFT))))
    }

    #[inline(always)]
    fn blocks_differ(&self) -> bool {
        self.lengths != 0
    }

    #[inline(always)]
    fn mark_of(&self, bytes: usize) -> u64 {
        self.block_mark(bytes) << SHIFT
    }

    #[inline(always)]
    fn compare_block(&self, from: usize, seen: u64, room: usize) -> Result<()> {
        let theirs = Mark(seen >> SHIFT);
        match theirs.0 == self.block_mark(room) {
            true => Ok(()),
            false => self.compare_lengths(from, theirs, room),
        }
    }

    /// Sets a flag, with the last calls and the lengths of the last blocks for that rank beside it.
    #[inline(always)]
    fn announce_block(&mut self, flag: Line, value: u64, bytes: usize) -> Result<()> {
        match self.announced.get_mut(flag.rank) {
            Some(announced) if self.lengths != 0 => {
                let block = Entry(self.now).with_length(bytes);
                if announced[0] != block {
                    *announced = [block, announced[0], announced[1]];
                }
                let beside = (self.history.recent(), *announced);
                let words: [u64; REMEMBERED + BLOCKS] = array::from_fn(|at| match at {
                    0..REMEMBERED => beside.0[at],
                    _ => beside.1[at - REMEMBERED],
                });
                self.mpb.as_mpb().set_flag_with(flag, value, bytemuck::bytes_of(&words))
            }
            _ => self.announce(flag, value),
        }
    }

    #[inline(always)]
    fn compare_announced(&mut self, from: usize, line: usize, room: usize) -> Result<()> {
        if self.compared.get(from).is_none_or(|&compared| compared == self.now) {
            return Ok(());
        }
        self.compared[from] = self.now;
        self.compare_all(from, line)?;
        match self.lengths {
            0 => Ok(()),
            _ => self.compare_announced_length(from, line, room),
        }
    }

    /// Sets a flag, with the last calls beside it.
    #[inline(always)]
    fn announce(&self, flag: Line, value: u64) -> Result<()> {
        let calls = self.history.recent();
        self.as_mpb().set_flag_with(flag, value, bytemuck::cast_slice(&calls))
    }

    #[inline(always)]
    fn announce_news(&self, flag: Line, value: u64) -> Result<()> {
        if self.repeats {
            self.as_mpb().set_flag(flag, value)
        } else {
            self.announce(flag, value | NEWS)
        }
    }

    #[inline(always)]
    fn compare(&mut self, from: usize, line: usize) -> Result<()> {
        if self.compared.get(from).is_none_or(|&compared| compared == self.now) {
            return Ok(());
        }
        self.compared[from] = self.now;
        self.compare_all(from, line)
    }
}
