//! MPBs whose ranks compare their calls.

use std::future::Future;
use std::sync::Arc;

use mp_core::mpb::{AsMpb, Line, Mpb, NEWS, Watch};
use mp_core::waits::Caller;
use mp_core::{Error, Result};

use super::board::Board;
use super::history::{Difference, Entry, History, REMEMBERED};
use super::mark::{MARK, MARK_BITS, Mark};

/// The position of the mark. Below it are a line's 32-bit number and the bit into which the number carries.
const SHIFT: u32 = u64::BITS - MARK_BITS;

/// The MPBs of one front, whose calls are compared with those of the other ranks.
#[derive(Debug)]
pub struct CheckedMpb<M = Mpb> {
    mpb: M,
    history: Arc<History>,
    /// The call in progress.
    now: u64,
    /// Whether the call in progress is the same as all remembered calls.
    repeats: bool,
    /// The last call that was compared, for each rank.
    compared: Vec<u64>,
}

impl<M: AsMpb> CheckedMpb<M> {
    pub(crate) fn new(mpb: M) -> Self {
        let compared = vec![0; mpb.as_mpb().ranks()];
        Self { mpb, history: Arc::default(), now: 0, repeats: false, compared }
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
        let Self { mpb, history, now, repeats, compared } = self;
        CheckedMpb { mpb: convert(mpb), history, now, repeats, compared }
    }

    /// Begins a call.
    #[inline(always)]
    pub(crate) fn begin(&mut self, mark: Mark) {
        let (now, repeats) = self.history.note(mark);
        (self.now, self.repeats) = (now.0, repeats);
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
            Some((mine, there)) => Err(self.differ(mine, (from, there))),
            None => Ok(()),
        }
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
