//! The operations of a communicator's ranks on one node, which are numbered among themselves. Rank 0 is the leader.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mp_core::mpb::{Line, Mpb, Mpbs, Watch};
use mp_core::waits::Caller;
use mp_core::{Error, Plain, Rank, Result};

use super::losses::Losses;
use super::waiting::Waiting;
use crate::arguments::Cut;
use crate::broadcast::Broadcasts;
use crate::calls::{Board, CheckedMpb, Kind, Mark};
use crate::communicator::Title;
use crate::exchange::{Exchanges, Gather, Scatter};
use crate::explanation::Collective;
use crate::layout::{Blocks, packed};
use crate::members::{Members, names};
use crate::nonblocking::{Left, Waits};
use crate::reduce::{Operation, Prefix, Reductions};
use crate::settings::Settings;

pub(super) struct Here<M> {
    rank: Rank,
    /// The ranks, by their numbers in the world.
    ranks: Vec<usize>,
    /// This rank's number.
    me: usize,
    name: String,
    /// The name of `losses`.
    lost: String,
    settings: Settings,
    board: Arc<Board>,
    watch: Arc<Lookout>,
    /// Where the operations wait, if that is not in calls.
    waits: Option<Arc<Waits>>,
    broadcasts: Option<Broadcasts<CheckedMpb<M>>>,
    reductions: Option<Reductions<CheckedMpb<M>>>,
    exchanges: Option<Exchanges<CheckedMpb<M>>>,
    /// The line of each rank tells which rank was lost. It is opened when one was.
    losses: OnceLock<Option<Mpb>>,
}

impl<M: Waiting> Here<M> {
    pub(super) fn new(
        rank: &Rank,
        ranks: Vec<usize>,
        name: &str,
        title: &Arc<Title>,
        (of_all, losses): (&Settings, &Arc<Losses>),
    ) -> Result<Self> {
        // A forced algorithm may not be possible on each node.
        let Settings { tree, order, chunk_lines, buffers, slots, wait, .. } = of_all.clone();
        let forced = Settings::default();
        let settings = Settings { tree, order, chunk_lines, buffers, slots, wait, ..forced };
        let name = format!("{name}node {} ", rank.node());
        let title = Arc::clone(title);
        let board =
            Arc::new(Board::new(rank.clone(), ranks.clone(), format!("{name}called"), title));
        let watch = Arc::new(Lookout { board: Arc::clone(&board), losses: Arc::clone(losses) });
        let me = ranks.iter().position(|&other| other == rank.id()).unwrap_or_default();
        let (broadcasts, reductions, exchanges) = (None, None, None);
        let waits = M::waits(|| {
            let mut first = rank.mpb_of(&format!("{name}first"), &ranks, line())?;
            // Requests wait here, whatever their operations wait for.
            first.set_watch(Arc::clone(&watch) as Arc<dyn Watch>);
            first.set_caller(Arc::clone(&board) as Arc<dyn Caller>);
            losses.check_revoked()?;
            Ok(first)
        })?;
        let (rank, losses, lost) = (rank.clone(), OnceLock::new(), format!("{name}lost"));
        Ok(Self {
            rank,
            ranks,
            me,
            name,
            lost,
            settings,
            board,
            watch,
            waits,
            broadcasts,
            reductions,
            exchanges,
            losses,
        })
    }

    /// Returns where the operations wait, if that is not in calls.
    pub(super) fn waits(&self) -> Option<&Arc<Waits>> {
        self.waits.as_ref()
    }

    /// Returns the number of ranks.
    pub(super) fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Returns this rank's number.
    pub(super) fn me(&self) -> usize {
        self.me
    }

    fn broadcasts(&mut self) -> Result<&mut Broadcasts<CheckedMpb<M>>> {
        open(&mut self.broadcasts, || {
            let (members, name) =
                (members(&self.rank, &self.ranks), format!("{}broadcasts", self.name));
            let mut opened = Broadcasts::open(members, &name, self.settings.clone())?;
            opened.watch(&self.board);
            self.watch.losses.check_revoked()?;
            Ok(opened.map(|mpb| waiting(mpb, &self.watch, self.waits.as_ref())))
        })
    }

    fn reductions(&mut self) -> Result<&mut Reductions<CheckedMpb<M>>> {
        open(&mut self.reductions, || {
            let (members, name) =
                (members(&self.rank, &self.ranks), format!("{}reductions", self.name));
            let mut opened = Reductions::open(members, &name, self.settings.clone())?;
            opened.watch(&self.board);
            self.watch.losses.check_revoked()?;
            Ok(opened.map(|mpb| waiting(mpb, &self.watch, self.waits.as_ref())))
        })
    }

    fn exchanges(&mut self) -> Result<&mut Exchanges<CheckedMpb<M>>> {
        open(&mut self.exchanges, || {
            let (members, name) =
                (members(&self.rank, &self.ranks), format!("{}exchanges", self.name));
            let mut opened = Exchanges::open(members, &name, self.settings.clone())?;
            opened.watch(&self.board);
            self.watch.losses.check_revoked()?;
            Ok(opened.map(|mpb| waiting(mpb, &self.watch, self.waits.as_ref())))
        })
    }

    /// Has the leader wait for all ranks.
    pub(super) async fn gather_signal(&mut self) -> Result<()> {
        self.reductions()?.run_reduce(&mut [0u8], &|left: u8, _| left, 0).await
    }

    pub(super) async fn broadcast(&mut self, message: &mut [u8], root: usize) -> Result<()> {
        self.broadcasts()?.run(message, root).await
    }

    /// Combines the vectors of all ranks in that of the leader.
    pub(super) async fn reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
    ) -> Result<()> {
        self.reductions()?.run_reduce(vector, operation, 0).await
    }

    pub(super) async fn scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: &impl Operation<T>,
        prefix: Prefix,
    ) -> Result<()> {
        self.reductions()?.run_scan(vector, operation, prefix).await
    }

    /// Gathers blocks of any lengths at the leader. Returns the number of bytes of each rank's block, and the blocks one
    /// after the other; at other ranks, nothing.
    pub(super) async fn gather(&mut self, own: &[u8]) -> Result<(Vec<u64>, Vec<u8>)> {
        let (leads, ranks) = (self.me == 0, self.size());
        let mut lengths = vec![0; if leads { ranks } else { 0 }];
        self.gather_blocks(&[own.len() as u64], &mut lengths, Blocks::Equal).await?;
        let blocks = packed(lengths.iter().map(|&length| length as usize));
        let mut all = vec![0; blocks.last().map_or(0, |last| last.end)];
        self.gather_blocks(own, &mut all, Blocks::At(&blocks)).await?;
        Ok((lengths, all))
    }

    async fn gather_blocks<T: Plain>(
        &mut self,
        own: &[T],
        all: &mut [T],
        blocks: Blocks<'_>,
    ) -> Result<()> {
        let exchanges = self.exchanges()?;
        let differ = blocks.may_differ();
        exchanges.note(Mark::of_blocks::<T>(Kind::Gather, differ, own.len(), Some(0)));
        let mut traffic = Gather::new(exchanges.mpb(), Some(own), all, blocks, 0)?;
        exchanges.run(Collective::Gather, &mut traffic).await
    }

    /// Scatters the leader's blocks. `lengths` are those of the blocks, and `all` has them one after the other; other
    /// ranks give nothing. Each rank knows the length of its own block.
    pub(super) async fn scatter(
        &mut self,
        lengths: &[u64],
        all: &[u8],
        own: &mut [u8],
    ) -> Result<()> {
        let blocks = packed(lengths.iter().map(|&length| length as usize));
        let exchanges = self.exchanges()?;
        exchanges.note(Mark::of_blocks::<u8>(Kind::Scatter, true, own.len(), Some(0)));
        let cut = Cut::Apart { all, own };
        let mut traffic = Scatter::new(exchanges.mpb(), cut, Blocks::At(&blocks), 0)?;
        exchanges.run(Collective::Scatter, &mut traffic).await
    }

    /// Moves a message of any length from the leader to a rank. Other ranks give and get nothing.
    pub(super) async fn hand_down(&mut self, message: Vec<u8>, to: usize) -> Result<Vec<u8>> {
        if to == 0 {
            return Ok(message);
        }
        let only = |length: usize| -> Vec<u64> {
            (0..self.ranks.len()).map(|rank| if rank == to { length as u64 } else { 0 }).collect()
        };
        let (lengths, words) = match self.me {
            0 => (only(message.len()), only(size_of::<u64>())),
            _ => (Vec::new(), Vec::new()),
        };
        let gets = self.me == to;
        let mut length = [0; size_of::<u64>()];
        let all = (message.len() as u64).to_le_bytes();
        let all = if self.me == 0 { &all[..] } else { &[] };
        self.scatter(&words, all, if gets { &mut length } else { &mut [] }).await?;
        let mut got = vec![0; if gets { u64::from_le_bytes(length) as usize } else { 0 }];
        self.scatter(&lengths, &message, &mut got).await?;
        Ok(got)
    }

    /// Moves a message of any length from a rank to the leader. Other ranks give and get nothing.
    pub(super) async fn hand_up(&mut self, message: Vec<u8>, from: usize) -> Result<Vec<u8>> {
        match from {
            0 => Ok(message),
            _ => Ok(self.gather(&message).await?.1),
        }
    }

    /// Returns the error for the caller: see [`Board::after`].
    pub(super) fn after(&self, error: Error) -> Error {
        self.board.after(error)
    }

    /// Tells the other ranks that a rank of the world was lost.
    pub(super) fn tell(&self, lost: usize) {
        if let Some(mpb) = self.losses() {
            // A rank that can't be told finds everything closed.
            let _ = mpb.set_flag(Line { rank: mpb.rank(), line: 0 }, 1 + lost as u64);
        }
    }

    /// Returns the rank of the world of which another one has told that it was lost.
    pub(super) fn told(&self) -> Option<usize> {
        let mpb = self.losses()?;
        (0..mpb.ranks()).find_map(|rank| {
            let mut flag = [0u64];
            mpb.get(Line { rank, line: 0 }, bytemuck::bytes_of_mut(&mut flag)).ok()?;
            flag[0].checked_sub(1).map(|rank| rank as usize)
        })
    }

    /// Opens the MPB when it is first needed. Returns `None` if there is no memory for it.
    fn losses(&self) -> Option<&Mpb> {
        let open = || self.rank.mpb_of(&self.lost, &self.ranks, line()).ok();
        self.losses.get_or_init(open).as_ref()
    }

    /// Closes everything, also what was not opened, so that calls of other ranks that wait for this one end.
    pub(super) fn close(&mut self) {
        match &self.waits {
            Some(waits) => waits.leave(Left::Closed),
            None => {
                // Others wait for what this rank has not opened, but not for what it has closed. What can't be opened is
                // closed.
                let _ = self.broadcasts().map(drop);
                let _ = self.reductions().map(drop);
                let _ = self.exchanges().map(drop);
            }
        }
        (self.broadcasts, self.reductions, self.exchanges) = (None, None, None);
    }
}

impl<M> Drop for Here<M> {
    fn drop(&mut self) {
        if self.losses.get().is_none() {
            // Other ranks may have opened their MPBs, and would keep them for this rank. If this fails, the world's
            // memory is broken.
            let _ = self.rank.decline_mpb(&self.lost, line());
        }
    }
}

/// Watches the waits within the node. They also end for a loss on another node: its rank has no lines here, and a rank of
/// this node that knows of the loss by an operation of another kind may make no more calls.
struct Lookout {
    board: Arc<Board>,
    losses: Arc<Losses>,
}

impl Watch for Lookout {
    fn interval(&self) -> Duration {
        self.board.interval()
    }

    fn look(&self) -> Option<Error> {
        self.losses.failure().or_else(|| self.board.look())
    }

    fn found(&self) -> Option<Error> {
        self.losses.failure().or_else(|| Watch::found(&*self.board))
    }
}

/// Converts the MPBs of operations that wait in this place, and sets who watches these waits.
fn waiting<M: Waiting>(mut mpb: Mpb, watch: &Arc<Lookout>, waits: Option<&Arc<Waits>>) -> M {
    mpb.set_watch(Arc::clone(watch) as Arc<dyn Watch>);
    M::of(mpb, waits)
}

/// Returns what is opened for one line of each rank.
fn line() -> Mpbs {
    names::COMMUNICATORS.mpbs(Mpbs::lines(1))
}

fn members<'a>(rank: &'a Rank, ranks: &'a [usize]) -> Members<'a> {
    Members::of(rank, ranks).within(names::COMMUNICATORS)
}

fn open<F>(front: &mut Option<F>, open: impl FnOnce() -> Result<F>) -> Result<&mut F> {
    match front {
        Some(front) => Ok(front),
        none => Ok(none.insert(open()?)),
    }
}
