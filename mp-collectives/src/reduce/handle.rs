//! Reductions that use the algorithm that suits each vector.

use std::sync::Arc;

use mp_core::mpb::{AsMpb, Mpb, Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};

use super::choice::{
    AllReduce, Order, Prefix, Reduce, ReduceScatter, Scan, block_lines, choose_all_reduce,
    choose_reduce, choose_reduce_scatter, choose_scan, chunk_lines,
};
use super::operations::Operation;
use super::{
    BlockOptions, BlockReduce, Blocks, ChunkOptions, ChunkReduce, LineReduce, Meeting, Parts,
    Trees, Vector,
};
use crate::arguments::{Cut, OwnPlace};
use crate::calls::{Board, CheckedMpb, Kind, Mark};
use crate::choice::{Choice, Machine, Origin};
use crate::errors::bad_settings;
use crate::events::Events;
use crate::explanation::{Algorithm, Collective, Explanation};
use crate::members::{Members, names};
use crate::pairs::Pairs;
use crate::rings;
use crate::settings::Settings;
use mp_core::mpb::{MpbAccess, complete};

/// One rank's part in the reductions of its world, or of [some ranks](Members).
///
/// ```
/// use onchip::reduce::{Max, Reductions, Settings, Sum};
/// use onchip::World;
///
/// let got = World::threads(3).run(|rank| {
///     let mut reductions = Reductions::open(rank, "residual", Settings::default())?;
///     let mut sums = [rank.id() as f64, 1.0];
///     reductions.all_reduce(&mut sums, Sum)?;
///     let mut greatest = [rank.id() as u8];
///     reductions.reduce(&mut greatest, Max, 0)?;
///     Ok((sums, greatest[0]))
/// })?;
/// assert_eq!(got[0], ([3.0, 3.0], 2));
/// assert_eq!(got[2].0, [3.0, 3.0]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Reductions<M = CheckedMpb> {
    mpb: M,
    machine: Machine,
    /// The trees that the ranks have agreed on.
    trees: Trees,
    settings: Settings,
    events: Events,
    lines: LineReduce,
    blocks: BlockReduce,
    chunks: ChunkReduce,
    /// The number of bytes up to which two ranks exchange a line for an all-reduce. It is 0 for other numbers of
    /// ranks, if the algorithm is forced, and if choices are reported.
    exchanged: usize,
}

impl Reductions {
    /// Opens the reductions of this name for the given ranks, or for all ranks of the world. No rank waits for the
    /// others to do so.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::ErrorKind::MpbMismatch) when another rank has opened them with other settings that
    /// change the memory needed; [`MpbRanksMismatch`](mp_core::ErrorKind::MpbRanksMismatch) when it has opened them
    /// with other members. Also fails for invalid settings or for lack of memory.
    pub fn open<'a>(
        members: impl Into<Members<'a>>,
        name: &str,
        settings: Settings,
    ) -> mp_core::Result<Reductions> {
        let members = members.into();
        let ranks = members.count();
        let machine = Machine { ranks, cores: members.cores(), payload: PAYLOAD_BYTES };
        let parameters = Origin::kept(machine.suits_trees());
        let trees = Trees::best(machine, settings.chunk_lines, parameters);
        Reductions::open_proposing(members, name, settings, machine, trees)
    }

    fn open_proposing(
        members: Members<'_>,
        name: &str,
        settings: Settings,
        machine: Machine,
        trees: Trees,
    ) -> mp_core::Result<Reductions> {
        let ranks = machine.ranks;
        let slots = settings.slots.unwrap_or(machine.slots());
        let chunk_lines = settings.chunk_lines.unwrap_or(chunk_lines(ranks));
        let block_lines = settings.chunk_lines.unwrap_or(block_lines(ranks));
        let too_much = || bad_settings("reductions that take more lines than there can be");
        let add = |first: usize, lines: Option<usize>| {
            lines.and_then(|lines| first.checked_add(lines)).ok_or_else(too_much)
        };
        let first_line = add(0, LineReduce::lines(slots, ranks))?;
        let blocks = BlockOptions { block_lines, first_line };
        let first_line = add(first_line, blocks.lines(ranks))?;
        let buffers = match settings.buffers {
            Some(buffers) => buffers,
            None => rings::buffers(members, ranks, chunk_lines)?,
        };
        let chunks = ChunkOptions { chunk_lines, buffers, first_line };
        let all = add(first_line, chunks.lines(ranks))?;
        let mpbs = Mpbs::lines(all)
            .growing_from(Pairs::near_lines(ranks), usize::MAX)
            .growing_from(blocks.first_line, BlockOptions::flag_lines(ranks))
            .growing_from(chunks.first_line, ChunkOptions::flag_lines(ranks))
            .proposing(trees.word());
        let mpb = CheckedMpb::new(members.private_mpb(names::REDUCTIONS, name, mpbs)?);
        let lines = LineReduce::new(&mpb, slots, 0).map_err(bad_settings)?;
        let events = Events::new();
        let simple = ranks == 2 && !events.listened() && settings.all_reduce.is_none();
        let mut reductions = Reductions {
            machine,
            // A vector that goes straight to the root is combined in the order of ranks, as is each rank's part.
            trees: match settings.order {
                Order::Algorithm => Trees::read(mpb.get_ref().agreed()),
                Order::Ranks => Trees::NONE,
            },
            settings,
            exchanged: if simple { lines.exchanged() } else { 0 },
            events,
            lines,
            blocks: BlockReduce::new(&mpb, blocks).map_err(bad_settings)?,
            chunks: ChunkReduce::new(&mpb, chunks).map_err(bad_settings)?,
            mpb,
        };
        reductions.set_wait(reductions.settings.wait);
        Ok(reductions)
    }

    /// Numbers calls together with those of the other fronts of a communicator, and compares them with those of other
    /// ranks when they take long.
    pub(crate) fn watch(&mut self, board: &Arc<Board>) {
        self.mpb.watch(board);
    }

    /// Sets how calls wait from now on: with which policy and for how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.mpb.get_mut().set_wait(wait);
    }

    /// Combines the vectors of all ranks. All ranks call this with the same length and operation, and have the result
    /// in their vectors when it returns, with the same bits on every rank.
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost), [`Disconnected`](mp_core::ErrorKind::Disconnected) and
    /// [`Timeout`](mp_core::ErrorKind::Timeout); after one of these, this rank is out of step with the others. Also
    /// fails when a vector or an element is too long for a forced algorithm.
    #[inline]
    pub fn all_reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        self.all_reduce_of(Vector::from(vector), &operation)
    }

    /// Does what [`all_reduce`](Reductions::all_reduce) does with the rank's elements in `own`, which are only read. The
    /// result is in `result`, which is as long, when this returns. That takes less time than to copy the elements there
    /// first.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Reductions::all_reduce). Also fails when the lengths differ.
    #[inline]
    pub fn all_reduce_from<T: Plain>(
        &mut self,
        own: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        self.all_reduce_of(Vector::apart(own, result)?, &operation)
    }

    #[inline(always)]
    pub(crate) fn all_reduce_of<T: Plain, O: Operation<T>>(
        &mut self,
        mut vector: Vector<'_, T>,
        operation: &O,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::AllReduce, Some(vector.len()), None));
        let mpb = &mut self.mpb;
        let bytes = vector.len() * size_of::<T>();
        if bytes.wrapping_sub(1) < self.exchanged
            && let Some(exchanged) = self.lines.exchange(mpb, vector.begin(), operation)
        {
            return exchanged;
        }
        let chosen = self.choose_all_reduce::<T>(bytes);
        let mpb = &mut self.mpb;
        let meeting = match chosen {
            AllReduce::Doubling => Meeting::Doubling,
            AllReduce::FirstRank => Meeting::FirstRank,
            AllReduce::Whole => return Ok(complete(self.blocks.whole(mpb, vector, operation))?),
            AllReduce::Scattered => {
                return Ok(complete(self.blocks.scattered(mpb, vector, operation, None))?);
            }
            AllReduce::Chunks => {
                return Ok(complete(self.chunks.all_reduce(mpb, vector, operation))?);
            }
        };
        Ok(complete(self.lines.all_reduce(mpb, vector.begin(), operation, meeting))?)
    }

    /// Combines the vectors of all ranks at the root. All ranks call this with the same length, operation and root. The
    /// root has the result in its vector when its call returns. The contents of the other ranks' vectors are then
    /// unspecified; their calls may return before the root's.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Reductions::all_reduce). Also fails when there is no such root.
    #[inline]
    pub fn reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> mp_core::Result<()> {
        self.reduce_of(Vector::from(vector), &operation, root)
    }

    /// Does what [`reduce`](Reductions::reduce) does with the rank's elements in `own`, which are only read. The result
    /// is in the root's `result`, which is as long, when its call returns. At the other ranks, `result` is ignored and
    /// may be empty.
    ///
    /// # Errors
    /// The same as for [`reduce`](Reductions::reduce). Also fails when the root's lengths differ.
    #[inline]
    pub fn reduce_from<T: Plain>(
        &mut self,
        own: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> mp_core::Result<()> {
        let vector = match self.mpb.rank() == root {
            true => Vector::apart(own, result)?,
            false => Vector::to_send(own),
        };
        self.reduce_of(vector, &operation, root)
    }

    #[inline(always)]
    fn reduce_of<T: Plain, O: Operation<T>>(
        &mut self,
        vector: Vector<'_, T>,
        operation: &O,
        root: usize,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::Reduce, Some(vector.len()), Some(root)));
        let chosen = self.choose_reduce::<T>(vector.len() * size_of::<T>());
        let mpb = &mut self.mpb;
        match chosen {
            Reduce::Lines => complete(self.lines.reduce(mpb, vector, operation, root))?,
            Reduce::LineTree { lambda } => {
                complete(self.lines.reduce_along(mpb, vector, operation, lambda, root))?;
            }
            Reduce::Chunks => complete(self.chunks.reduce(mpb, vector, operation, root))?,
            Reduce::ChunkTree { lambda } => {
                complete(self.chunks.reduce_along(mpb, vector, operation, lambda, root))?;
            }
            Reduce::Scattered => {
                complete(self.blocks.scattered(mpb, vector, operation, Some(root)))?;
            }
        }
        Ok(())
    }

    /// Combines, for each rank, its own vector with those of the ranks below it. All ranks call this with the same
    /// length and operation. A rank's call does not wait for the ranks above it.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Reductions::all_reduce).
    #[inline]
    pub fn scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        self.scan_of(vector, &operation, Prefix::Inclusive)
    }

    /// Combines, for each rank, the vectors of the ranks below it without its own, as [`scan`](Reductions::scan) does.
    /// Rank 0's vector stays as it was.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Reductions::all_reduce).
    #[inline]
    pub fn exclusive_scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        self.scan_of(vector, &operation, Prefix::Exclusive)
    }

    /// Combines the vectors of all ranks and leaves one block of the result at each rank. All ranks call this with the
    /// same length and operation, and have the result of their block in `result` when it returns. The blocks lie one
    /// after the other in the vector and are equally long. Elements are combined in rank order.
    ///
    /// ```
    /// use onchip::reduce::{Reductions, Settings, Sum};
    /// use onchip::World;
    ///
    /// let got = World::threads(3).run(|rank| {
    ///     let mut reductions = Reductions::open(rank, "sums", Settings::default())?;
    ///     let mut sum = [0];
    ///     reductions.reduce_scatter(&[1, 10, 100 * rank.id()], &mut sum, Sum)?;
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(got, [[3], [30], [300]]);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// The blocks of the vector are equally long, unless they lie [`At`](super::At) ranges, the same at all ranks. With
    /// [`InPlace`](super::InPlace), the result takes the place of the rank's block (MPI moves it to the front), and
    /// everything else stays as it is.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Reductions::all_reduce). Also fails when the blocks do not fit the buffers.
    pub fn reduce_scatter<T: Plain, A>(
        &mut self,
        mut vector: A,
        mut result: impl OwnPlace<T, A>,
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        let (cut, blocks) = result.cut(&mut vector);
        self.reduce_scatter_of(cut, blocks, &operation)
    }

    pub(crate) fn reduce_scatter_of<T: Plain, O: Operation<T>>(
        &mut self,
        cut: Cut<'_, T>,
        blocks: Blocks<'_>,
        operation: &O,
    ) -> mp_core::Result<()> {
        let kind = Kind::ReduceScatter;
        let kind = if blocks.may_differ() { kind.varcount() } else { kind };
        self.mpb.begin(Mark::new::<T>(kind, Some(cut.all()), None));
        let mut parts = Parts::new(&self.mpb, cut, blocks)?;
        let chosen = self.choose_reduce_scatter(&parts);
        let (mpb, parts) = (&mut self.mpb, &mut parts);
        match chosen {
            ReduceScatter::Lines => complete(self.lines.reduce_scatter(mpb, parts, operation))?,
            ReduceScatter::Blocks => complete(self.blocks.reduce_scatter(mpb, parts, operation))?,
            ReduceScatter::Chunks => complete(self.chunks.reduce_scatter(mpb, parts, operation))?,
        }
        Ok(())
    }

    fn scan_of<T: Plain, O: Operation<T>>(
        &mut self,
        vector: &mut [T],
        operation: &O,
        prefix: Prefix,
    ) -> mp_core::Result<()> {
        self.mpb.begin(scan_mark::<T>(vector.len(), prefix));
        let chosen = self.choose_scan(size_of_val(vector));
        let mpb = &mut self.mpb;
        match chosen {
            Scan::Doubling => complete(self.lines.scan(mpb, vector, operation, prefix))?,
            Scan::Chain => complete(self.chunks.scan(mpb, vector, operation, prefix))?,
        }
        Ok(())
    }

    /// Converts the MPBs.
    pub(crate) fn map<N>(self, convert: impl FnOnce(Mpb) -> N) -> Reductions<CheckedMpb<N>> {
        let Reductions { mpb, machine, trees, settings, events, lines, blocks, chunks, exchanged } =
            self;
        let mpb = mpb.map(convert);
        Reductions { mpb, machine, trees, settings, events, lines, blocks, chunks, exchanged }
    }
}

#[inline(always)]
fn scan_mark<T>(count: usize, prefix: Prefix) -> Mark {
    let kind = match prefix {
        Prefix::Inclusive => Kind::Scan,
        Prefix::Exclusive => Kind::ExclusiveScan,
    };
    Mark::new::<T>(kind, Some(count), None)
}

/// The asynchronous counterparts of the blocking methods. The blocking methods do not call these, because one more
/// future around an algorithm has a noticeable cost for a short vector. The futures of long vectors are boxed, so that the
/// others are small.
impl<M: AsMpb> Reductions<CheckedMpb<M>> {
    pub(crate) fn mpb(&self) -> &CheckedMpb<M> {
        &self.mpb
    }

    pub(crate) async fn run_all_reduce<T: Plain, O: Operation<T>>(
        &mut self,
        vector: &mut [T],
        operation: &O,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::AllReduce, Some(vector.len()), None));
        let chosen = self.choose_all_reduce::<T>(size_of_val(vector));
        let mpb = &mut self.mpb;
        let meeting = match chosen {
            AllReduce::Doubling => Meeting::Doubling,
            AllReduce::FirstRank => Meeting::FirstRank,
            AllReduce::Whole => {
                return Ok(Box::pin(self.blocks.whole(mpb, vector, operation)).await?);
            }
            AllReduce::Scattered => {
                return Ok(Box::pin(self.blocks.scattered(mpb, vector, operation, None)).await?);
            }
            AllReduce::Chunks => {
                return Ok(Box::pin(self.chunks.all_reduce(mpb, vector, operation)).await?);
            }
        };
        Ok(self.lines.all_reduce(mpb, vector, operation, meeting).await?)
    }

    pub(crate) async fn run_reduce<T: Plain, O: Operation<T>>(
        &mut self,
        vector: &mut [T],
        operation: &O,
        root: usize,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::Reduce, Some(vector.len()), Some(root)));
        let chosen = self.choose_reduce::<T>(size_of_val(vector));
        let mpb = &mut self.mpb;
        match chosen {
            Reduce::Lines => self.lines.reduce(mpb, vector, operation, root).await?,
            Reduce::LineTree { lambda } => {
                Box::pin(self.lines.reduce_along(mpb, vector, operation, lambda, root)).await?;
            }
            Reduce::Chunks => Box::pin(self.chunks.reduce(mpb, vector, operation, root)).await?,
            Reduce::ChunkTree { lambda } => {
                Box::pin(self.chunks.reduce_along(mpb, vector, operation, lambda, root)).await?;
            }
            Reduce::Scattered => {
                Box::pin(self.blocks.scattered(mpb, vector, operation, Some(root))).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn run_reduce_scatter<T: Plain, O: Operation<T>>(
        &mut self,
        parts: &mut Parts<'_, T>,
        operation: &O,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::ReduceScatter, None, None));
        let chosen = self.choose_reduce_scatter(parts);
        let mpb = &mut self.mpb;
        match chosen {
            ReduceScatter::Lines => self.lines.reduce_scatter(mpb, parts, operation).await?,
            ReduceScatter::Blocks => {
                Box::pin(self.blocks.reduce_scatter(mpb, parts, operation)).await?
            }
            ReduceScatter::Chunks => {
                Box::pin(self.chunks.reduce_scatter(mpb, parts, operation)).await?
            }
        }
        Ok(())
    }

    pub(crate) async fn run_scan<T: Plain, O: Operation<T>>(
        &mut self,
        vector: &mut [T],
        operation: &O,
        prefix: Prefix,
    ) -> mp_core::Result<()> {
        self.mpb.begin(scan_mark::<T>(vector.len(), prefix));
        let chosen = self.choose_scan(size_of_val(vector));
        let mpb = &mut self.mpb;
        match chosen {
            Scan::Doubling => self.lines.scan(mpb, vector, operation, prefix).await?,
            Scan::Chain => Box::pin(self.chunks.scan(mpb, vector, operation, prefix)).await?,
        }
        Ok(())
    }
}

impl<M: MpbAccess> Reductions<M> {
    /// Returns how a reduction, all-reduce, scan or reduce-scatter of `bytes` bytes runs, and why. For a
    /// reduce-scatter, this is the length of the longest block.
    pub fn explain(&self, collective: Collective, bytes: usize) -> Explanation {
        let room = self.lines.most_bytes();
        let (machine, trees) = (self.machine, self.trees);
        Explanation::of_reduction(collective, machine, trees, bytes, room, &self.settings)
    }

    /// Returns this rank's number.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }

    /// Chooses the algorithm for a vector of `bytes` bytes, and reports the choice.
    #[inline(always)]
    fn choose_all_reduce<T>(&mut self, bytes: usize) -> AllReduce {
        let Settings { order, all_reduce, .. } = self.settings;
        let room = self.lines.most_bytes();
        let choice = choose_all_reduce(self.machine, bytes, room, order, all_reduce)
            .for_elements(size_of::<T>(), self.blocks.most_bytes());
        self.report(Collective::AllReduce, bytes, choice)
    }

    #[inline(always)]
    fn choose_reduce<T>(&mut self, bytes: usize) -> Reduce {
        let room = self.lines.most_bytes();
        let choice = choose_reduce(self.machine, self.trees, bytes, room, self.settings.reduce)
            .for_elements(size_of::<T>(), self.blocks.most_bytes());
        self.report(Collective::Reduce, bytes, choice)
    }

    #[inline(always)]
    fn choose_reduce_scatter<T: Plain>(&mut self, parts: &Parts<'_, T>) -> ReduceScatter {
        let bytes = parts.longest().saturating_mul(size_of::<T>());
        let (room, forced) = (self.lines.most_bytes(), self.settings.reduce_scatter);
        let choice = choose_reduce_scatter(self.machine, bytes, room, forced)
            .for_elements(size_of::<T>(), self.blocks.most_bytes());
        self.report(Collective::ReduceScatter, bytes, choice)
    }

    #[inline(always)]
    fn choose_scan(&mut self, bytes: usize) -> Scan {
        let Settings { order, scan, .. } = self.settings;
        let choice = choose_scan(self.machine, bytes, self.lines.most_bytes(), order, scan);
        self.report(Collective::Scan, bytes, choice)
    }

    #[inline(always)]
    fn report<A: Into<Algorithm> + Copy>(
        &mut self,
        collective: Collective,
        bytes: usize,
        choice: Choice<A>,
    ) -> A {
        let machine = self.machine;
        self.events.report(|| Explanation::new(collective, bytes, machine, choice));
        choice.algorithm
    }
}

#[cfg(test)]
mod tests {
    use mp_core::World;

    use super::*;

    /// This holds whatever each rank knows about the machine.
    #[test]
    fn all_take_the_trees_that_the_first_one_proposes() {
        for ranks in [4, 7] {
            let events = World::threads(ranks).run(|rank| {
                let machine = Machine { ranks, cores: ranks, payload: PAYLOAD_BYTES };
                let lambda = Some(1 + rank.id());
                let origin = if rank.id() % 2 == 0 { Origin::Measured } else { Origin::Paper };
                let trees =
                    Trees { lines: lambda, chunks: lambda, most: 1 << (12 + rank.id()), origin };
                let settings = Settings { chunk_lines: Some(2), ..Settings::default() };
                let mut all = Reductions::open_proposing(
                    rank.into(),
                    "proposed",
                    settings.clone(),
                    machine,
                    trees,
                )?;
                let lengths = [1, 20, 100, 511, 2_000];
                for (number, count) in lengths.into_iter().cycle().take(50).enumerate() {
                    let (mut got, root) = (vec![1 << rank.id(); count], number % ranks);
                    all.reduce(&mut got, |left: u64, right| left | right, root)?;
                    let sum = (1 << ranks) - 1;
                    if rank.id() == root && got.iter().any(|&got| got != sum) {
                        return Err(bad_settings(format!("{got:?} at {root}")));
                    }
                }
                let ordered = Settings { order: Order::Ranks, ..settings };
                let ordered =
                    Reductions::open_proposing(rank.into(), "ordered", ordered, machine, trees)?;
                let [all, ordered] = [all, ordered].map(|of| {
                    [8, 800, 30_000]
                        .map(|bytes| of.explain(Collective::Reduce, bytes).algorithm.to_string())
                });
                Ok((all, ordered))
            });
            let events = events.expect("reductions");
            assert!(events.iter().all(|one| *one == events[0]), "{events:?}");
            let (all, ordered) = &events[0];
            assert!(all[0].contains("lines along a tree"), "{events:?}");
            assert!(all[1].contains("chunks along a tree"), "{events:?}");
            assert!(ordered.iter().all(|one| !one.contains("tree")), "{events:?}");
        }
    }
}
