//! Reductions of one world, each by the algorithm that suits it.

use mp_core::mpb::{Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Rank, Wait};
use mp_model::mpb::{Mpb, complete};

use super::choice::{
    AllReduce, Explanation, Order, Prefix, Reduce, Scan, choose_all_reduce, choose_reduce,
    choose_scan,
};
use super::operations::Operation;
use super::{BlockOptions, BlockReduce, ChunkOptions, ChunkReduce, LineReduce, Meeting};
use crate::broadcast::Machine;
use crate::real::RealMpb;

/// How reductions are to be done. All ranks must ask for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// In which order elements are combined, if no algorithm is forced.
    pub order: Order,
    /// So many lines of 64 bytes in the blocks and chunks of a long vector, and not as many as suit the
    /// number of ranks.
    pub block_lines: Option<usize>,
    /// So many lines that may be under way between two ranks, and not as many as suit the machine.
    pub slots: Option<usize>,
    /// Always this algorithm where all ranks get the result. A vector too long for it is an error.
    pub all_reduce: Option<AllReduce>,
    /// Always this algorithm where one rank gets the result. A vector too long for it is an error.
    pub reduce: Option<Reduce>,
    /// Always this algorithm where each rank gets the result of those up to it. A vector too long for
    /// it is an error.
    pub scan: Option<Scan>,
}

/// Chunks that a rank may have under way to a root.
const BUFFERS: usize = 4;

/// Lines in a block. The longer, the less often ranks wait for each other, and the more of it has left
/// the cache of the core that wrote it, from where it comes more slowly than from the one they share;
/// the segment of all ranks' blocks should stay in a cache of the second level.
fn block_lines(ranks: usize) -> usize {
    (2048 / ranks).clamp(32, 1024)
}

/// One rank's part in the reductions of its world.
///
/// ```
/// use mp_collectives::reduce::{Max, Reductions, Settings, Sum};
/// use mp_core::World;
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
/// # Ok::<(), mp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Reductions {
    mpb: RealMpb,
    machine: Machine,
    settings: Settings,
    lines: LineReduce,
    blocks: BlockReduce,
    chunks: ChunkReduce,
}

impl Reductions {
    /// All ranks of the world open the reductions of this name; none waits for the others to do so.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::Error::MpbMismatch) when another rank has opened them with other
    /// settings, as far as these change the room that they take; settings that make no sense; lack
    /// of memory.
    pub fn open(rank: &Rank, name: &str, settings: Settings) -> mp_core::Result<Reductions> {
        let ranks = rank.size();
        let machine = Machine { ranks, cores: rank.cores(), payload: PAYLOAD_BYTES };
        let slots = settings.slots.unwrap_or(machine.slots());
        let block_lines = settings.block_lines.unwrap_or(block_lines(ranks));
        let too_much =
            || mp_core::Error::other("reductions that take more lines than there can be");
        let add = |first: usize, lines: Option<usize>| {
            lines.and_then(|lines| first.checked_add(lines)).ok_or_else(too_much)
        };
        let first_line = add(0, LineReduce::lines(slots, ranks))?;
        let blocks = BlockOptions { block_lines, first_line };
        let first_line = add(first_line, blocks.lines(ranks))?;
        let chunks = ChunkOptions { chunk_lines: block_lines, buffers: BUFFERS, first_line };
        let all = add(first_line, chunks.lines(ranks))?;
        let mpb = RealMpb::new(rank.mpb(name, Mpbs::lines(all))?);
        Ok(Reductions {
            machine,
            settings,
            lines: LineReduce::new(&mpb, slots, 0).map_err(mp_core::Error::other)?,
            blocks: BlockReduce::new(&mpb, blocks).map_err(mp_core::Error::other)?,
            chunks: ChunkReduce::new(&mpb, chunks).map_err(mp_core::Error::other)?,
            mpb,
        })
    }

    /// How calls wait from now on: with which policy, how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.mpb.get_mut().set_wait(wait);
    }

    /// Combines the vectors of all ranks: all call this with the same length and operation, and have
    /// the result in their vectors when it returns, the same bits.
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::Error::PeerLost), [`Disconnected`](mp_core::Error::Disconnected) and
    /// [`Timeout`](mp_core::Error::Timeout), after which this rank is out of step with the others; a
    /// vector too long for a forced algorithm, an element too long for a buffer.
    #[inline]
    pub fn all_reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        let (mpb, operation) = (&mut self.mpb, &operation);
        let bytes = size_of_val(vector);
        let Settings { order, all_reduce, .. } = self.settings;
        let most = self.lines.most_bytes();
        let choice = choose_all_reduce(self.machine, bytes, most, order, all_reduce);
        let meeting = match choice.algorithm {
            AllReduce::Doubling => Meeting::Doubling,
            AllReduce::FirstRank => Meeting::FirstRank,
            AllReduce::Whole => return Ok(complete(self.blocks.whole(mpb, vector, operation))?),
            AllReduce::Scattered => {
                return Ok(complete(self.blocks.scattered(mpb, vector, operation, None))?);
            }
        };
        Ok(complete(self.lines.all_reduce(mpb, vector, operation, meeting))?)
    }

    /// Combines the vectors of all ranks for one: all call this with the same length, operation and
    /// root, which has the result in its vector when the call returns. What is in the others' then is
    /// not determined; their calls may return before the root's.
    ///
    /// # Errors
    /// As [`all_reduce`](Reductions::all_reduce); a root that does not exist.
    #[inline]
    pub fn reduce<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> mp_core::Result<()> {
        let (mpb, operation) = (&mut self.mpb, &operation);
        let (bytes, most) = (size_of_val(vector), self.lines.most_bytes());
        match choose_reduce(self.machine, bytes, most, self.settings.reduce).algorithm {
            Reduce::Lines => complete(self.lines.reduce(mpb, vector, operation, root))?,
            Reduce::Chunks => complete(self.chunks.reduce(mpb, vector, operation, root))?,
            Reduce::Scattered => {
                complete(self.blocks.scattered(mpb, vector, operation, Some(root)))?;
            }
        }
        Ok(())
    }

    /// Combines, for each rank, the vectors of the ranks below it and its own: all call this with the
    /// same length and operation. A rank's call does not wait for those above it.
    ///
    /// # Errors
    /// As [`all_reduce`](Reductions::all_reduce).
    #[inline]
    pub fn scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        self.scan_of(vector, &operation, Prefix::Inclusive)
    }

    /// Combines, for each rank, the vectors of the ranks below it, without its own, as
    /// [`scan`](Reductions::scan) does. Rank 0's vector stays as it was.
    ///
    /// # Errors
    /// As [`all_reduce`](Reductions::all_reduce).
    #[inline]
    pub fn exclusive_scan<T: Plain>(
        &mut self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        self.scan_of(vector, &operation, Prefix::Exclusive)
    }

    fn scan_of<T: Plain, O: Operation<T>>(
        &mut self,
        vector: &mut [T],
        operation: &O,
        prefix: Prefix,
    ) -> mp_core::Result<()> {
        let mpb = &mut self.mpb;
        let (bytes, most) = (size_of_val(vector), self.lines.most_bytes());
        let Settings { order, scan, .. } = self.settings;
        match choose_scan(self.machine, bytes, most, order, scan).algorithm {
            Scan::Doubling => complete(self.lines.scan(mpb, vector, operation, prefix))?,
            Scan::Chain => complete(self.chunks.scan(mpb, vector, operation, prefix))?,
        }
        Ok(())
    }

    /// Which algorithm a vector of so many bytes takes where all ranks get the result, and why.
    pub fn explain_all_reduce(&self, bytes: usize) -> Explanation<AllReduce> {
        let Settings { order, all_reduce, .. } = self.settings;
        choose_all_reduce(self.machine, bytes, self.lines.most_bytes(), order, all_reduce)
    }

    /// The same where one rank gets the result.
    pub fn explain_reduce(&self, bytes: usize) -> Explanation<Reduce> {
        choose_reduce(self.machine, bytes, self.lines.most_bytes(), self.settings.reduce)
    }

    /// The same for a scan.
    pub fn explain_scan(&self, bytes: usize) -> Explanation<Scan> {
        let Settings { order, scan, .. } = self.settings;
        choose_scan(self.machine, bytes, self.lines.most_bytes(), order, scan)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }
}
