//! The choice of the algorithm for a reduction.

use std::fmt;

use mp_model::cla::schedule::{By, Schedule};
use mp_model::in_order::Shape;

use super::Trees;
use crate::choice::{Choice, Machine, Reason, in_buffers};
use crate::rings;

/// The number of segments of a long vector that may be pending at a time.
pub(super) const SEGMENTS: usize = 2;

/// Returns the number of lines in a block. With longer blocks, ranks wait for each other less often. But more of a long
/// block has left the cache of the core that wrote it, and comes more slowly than from the shared cache. The segment of
/// all ranks' blocks should stay in a second-level cache. Each rank has two blocks for each rank, one for each of two
/// segments. With many ranks, all blocks of one segment have no more than [`LINES_OF_ALL_BLOCKS`] together.
pub(super) fn block_lines(ranks: usize) -> usize {
    chunk_lines(ranks).min((LINES_OF_ALL_BLOCKS / ranks.saturating_mul(ranks).max(1)).max(1))
}

/// Returns the number of lines in a chunk, which is that of a block for few ranks. Each rank has only a few chunks,
/// however many ranks there are.
pub(super) fn chunk_lines(ranks: usize) -> usize {
    (2048 / ranks).clamp(32, 1024)
}

/// The number of lines in all ranks' blocks of one segment: 64 MiB. There are two such segments.
const LINES_OF_ALL_BLOCKS: usize = 1 << 20;

/// The way in which all ranks get the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllReduce {
    /// In lines, exchanged by recursive doubling: [`Meeting::Doubling`](super::Meeting::Doubling).
    Doubling,
    /// In lines, combined at rank 0: [`Meeting::FirstRank`](super::Meeting::FirstRank).
    FirstRank,
    /// Each rank gets everything: [`BlockReduce::whole`](super::BlockReduce::whole).
    Whole,
    /// Each rank combines a part: [`BlockReduce::scattered`](super::BlockReduce::scattered).
    Scattered,
    /// In chunks, combined at rank 0: [`ChunkReduce::all_reduce`](super::ChunkReduce::all_reduce).
    Chunks,
}

/// The way in which one rank gets the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// In lines, straight to the root: [`LineReduce::reduce`](super::LineReduce::reduce).
    Lines,
    /// In lines, along a tree: [`LineReduce::reduce_along`](super::LineReduce::reduce_along).
    LineTree {
        /// The λ of the tree, from 1 (the binomial tree) to P − 1 (the flat tree).
        lambda: usize,
    },
    /// In chunks, straight to the root: [`ChunkReduce::reduce`](super::ChunkReduce::reduce).
    Chunks,
    /// In chunks, along a tree: [`ChunkReduce::reduce_along`](super::ChunkReduce::reduce_along).
    ChunkTree {
        /// The λ of the tree.
        lambda: usize,
    },
    /// Each rank combines a part: [`BlockReduce::scattered`](super::BlockReduce::scattered).
    Scattered,
}

/// The way in which each rank gets the result of the ranks up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// In lines, by doubling: [`LineReduce::scan`](super::LineReduce::scan).
    Doubling,
    /// In chunks, from each rank to the next: [`ChunkReduce::scan`](super::ChunkReduce::scan).
    Chain,
}

/// The way in which each rank gets the result of its own block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceScatter {
    /// In lines, straight to the rank: [`LineReduce::reduce_scatter`](super::LineReduce::reduce_scatter).
    Lines,
    /// Through the buffers of all ranks: [`BlockReduce::reduce_scatter`](super::BlockReduce::reduce_scatter).
    Blocks,
    /// In chunks, to one rank after the other: [`ChunkReduce::reduce_scatter`](super::ChunkReduce::reduce_scatter).
    Chunks,
}

/// The ranks whose elements a scan combines for a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prefix {
    /// The ranks below it and the rank itself.
    Inclusive,
    /// The ranks below it.
    Exclusive,
}

/// The order in which elements are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The algorithm's order: adjacent ranks are combined, and the order is the same on every run with the same number
    /// of ranks on the same number of cores of a machine that is not calibrated anew.
    #[default]
    Algorithm,
    /// Always ((0 ∘ 1) ∘ 2) ∘ 3 and so on, whatever the number of ranks, the length, and the machine.
    Ranks,
}

fn in_chunks(machine: Machine, bytes: usize) -> By {
    in_buffers(bytes, chunk_lines(machine.ranks), rings::FEWEST_BUFFERS)
}

/// Returns how a vector goes in segments of a block for each rank.
fn in_blocks(machine: Machine, bytes: usize) -> By {
    in_buffers(bytes, block_lines(machine.ranks), SEGMENTS)
}

impl AllReduce {
    /// All algorithms.
    pub(crate) const ALL: [AllReduce; 5] = [
        AllReduce::Doubling,
        AllReduce::FirstRank,
        AllReduce::Whole,
        AllReduce::Scattered,
        AllReduce::Chunks,
    ];

    /// Returns which rank sends to which for a vector of `bytes` bytes, for the model.
    pub fn schedule(self, machine: Machine, bytes: usize) -> Schedule {
        let ranks = machine.ranks;
        match self {
            AllReduce::Doubling => Schedule::all_reduce_doubling(ranks, machine.in_lines(bytes)),
            AllReduce::FirstRank => Schedule::all_reduce_at_first(ranks, machine.in_lines(bytes)),
            AllReduce::Whole => {
                let segment = ranks * block_lines(ranks);
                Schedule::all_reduce_whole(ranks, in_buffers(bytes, segment, SEGMENTS))
            }
            AllReduce::Scattered => {
                Schedule::all_reduce_scattered(ranks, in_blocks(machine, bytes))
            }
            AllReduce::Chunks => Schedule::all_reduce_at_first(ranks, in_chunks(machine, bytes)),
        }
    }
}

impl Reduce {
    /// Returns all algorithms, with these trees.
    pub(crate) fn all(trees: Trees) -> impl Iterator<Item = Reduce> {
        let [lines, chunks] = [trees.lines, trees.chunks];
        let all = [
            Some(Reduce::Lines),
            lines.map(|lambda| Reduce::LineTree { lambda }),
            Some(Reduce::Chunks),
            chunks.map(|lambda| Reduce::ChunkTree { lambda }),
            Some(Reduce::Scattered),
        ];
        all.into_iter().flatten()
    }

    /// Returns which rank sends to which for a vector of `bytes` bytes, for the model.
    ///
    /// # Panics
    /// Panics if there is no such root.
    pub fn schedule(self, machine: Machine, bytes: usize, root: usize) -> Schedule {
        let ranks = machine.ranks;
        match self {
            Reduce::Lines => Schedule::reduce(ranks, root, machine.in_lines(bytes)),
            Reduce::LineTree { lambda } => {
                Schedule::reduce_along(Shape::new(ranks, lambda), root, machine.in_lines(bytes))
            }
            Reduce::Chunks => Schedule::reduce(ranks, root, in_chunks(machine, bytes)),
            Reduce::ChunkTree { lambda } => {
                Schedule::reduce_along(Shape::new(ranks, lambda), root, in_chunks(machine, bytes))
            }
            Reduce::Scattered => Schedule::reduce_scattered(ranks, root, in_blocks(machine, bytes)),
        }
    }
}

impl Scan {
    /// All algorithms.
    pub(crate) const ALL: [Scan; 2] = [Scan::Doubling, Scan::Chain];

    /// Returns which rank sends to which for a vector of `bytes` bytes, for the model.
    pub fn schedule(self, machine: Machine, bytes: usize) -> Schedule {
        match self {
            Scan::Doubling => Schedule::scan_doubling(machine.ranks, machine.in_lines(bytes)),
            Scan::Chain => Schedule::scan_chain(machine.ranks, in_chunks(machine, bytes)),
        }
    }
}

impl ReduceScatter {
    /// All algorithms.
    pub(crate) const ALL: [ReduceScatter; 3] =
        [ReduceScatter::Lines, ReduceScatter::Blocks, ReduceScatter::Chunks];

    /// Returns which rank sends to which for blocks of `bytes` bytes, for the model.
    pub fn schedule(self, machine: Machine, bytes: usize) -> Schedule {
        let by = match self {
            ReduceScatter::Lines => machine.in_lines(bytes),
            ReduceScatter::Blocks => in_blocks(machine, bytes),
            ReduceScatter::Chunks => in_chunks(machine, bytes),
        };
        Schedule::reduce_scatter(machine.ranks, by)
    }
}

/// If elements have `element` bytes and are longer than a block of `block` bytes, chunks replace an algorithm by
/// blocks.
impl Choice<AllReduce> {
    #[inline]
    pub(super) fn for_elements(self, element: usize, block: usize) -> Self {
        let blocks = matches!(self.algorithm, AllReduce::Whole | AllReduce::Scattered);
        self.or(blocks && element > block, AllReduce::Chunks)
    }
}

/// The same for a reduction to one rank.
impl Choice<Reduce> {
    #[inline]
    pub(super) fn for_elements(self, element: usize, block: usize) -> Self {
        let blocks = matches!(self.algorithm, Reduce::Scattered);
        self.or(blocks && element > block, Reduce::Chunks)
    }
}

/// The same for a reduction of a block for each rank.
impl Choice<ReduceScatter> {
    #[inline]
    pub(super) fn for_elements(self, element: usize, block: usize) -> Self {
        let blocks = matches!(self.algorithm, ReduceScatter::Blocks);
        self.or(blocks && element > block, ReduceScatter::Chunks)
    }
}

/// The number of received bytes up to which each rank gets everything from all others.
const MOST_TO_ALL: usize = 16 << 10;

/// Returns the greatest length of a vector that goes in lines, if lines for `room` bytes may be pending at a time.
#[inline]
fn most_in_lines(machine: Machine, room: usize) -> usize {
    const SHORT: usize = 3;
    (SHORT * machine.payload).min(room)
}

/// Chooses the algorithm for a vector of `bytes` bytes, if lines for `room` bytes may be pending.
#[inline]
pub(crate) fn choose_all_reduce(
    machine: Machine,
    bytes: usize,
    room: usize,
    order: Order,
    forced: Option<AllReduce>,
) -> Choice<AllReduce> {
    Choice::new(forced, || {
        let most = most_in_lines(machine, room);
        // For up to three ranks, doubling combines in the order of ranks.
        let in_order = order == Order::Algorithm || machine.ranks <= 3;
        if bytes <= most {
            return match machine.crowded() && machine.ranks > 2 {
                true => (AllReduce::FirstRank, Reason::Crowded),
                false if in_order => (AllReduce::Doubling, Reason::Short { most }),
                false => (AllReduce::FirstRank, Reason::Ordered),
            };
        }
        match bytes.saturating_mul(machine.ranks - 1) <= MOST_TO_ALL {
            true => (AllReduce::Whole, Reason::Middle),
            false => (AllReduce::Scattered, Reason::Parts),
        }
    })
}

/// Chooses the algorithm for a reduction to one rank, with the [best](Trees::best) trees of the machine. Without trees,
/// elements are combined in the order of ranks.
#[inline]
pub(crate) fn choose_reduce(
    machine: Machine,
    trees: Trees,
    bytes: usize,
    room: usize,
    forced: Option<Reduce>,
) -> Choice<Reduce> {
    Choice::new(forced, || {
        let most = most_in_lines(machine, room);
        if bytes <= most {
            return match trees.lines {
                Some(lambda) => (Reduce::LineTree { lambda }, Reason::Modelled(trees.origin)),
                None => (Reduce::Lines, Reason::Short { most }),
            };
        }
        if machine.crowded() {
            return (Reduce::Chunks, Reason::Crowded);
        }
        match trees.chunks {
            Some(lambda) if bytes <= trees.most => {
                (Reduce::ChunkTree { lambda }, Reason::Modelled(trees.origin))
            }
            // With two ranks, the root has as much work as the other rank either way. With three, the root has twice as
            // much work, but a vector that is combined in parts is moved twice.
            None if machine.ranks <= 3
                || bytes.saturating_mul(machine.ranks - 1) <= MOST_TO_ALL =>
            {
                (Reduce::Chunks, Reason::Middle)
            }
            _ => (Reduce::Scattered, Reason::Parts),
        }
    })
}

/// Chooses the algorithm for a scan.
#[inline]
pub(crate) fn choose_scan(
    machine: Machine,
    bytes: usize,
    room: usize,
    order: Order,
    forced: Option<Scan>,
) -> Choice<Scan> {
    Choice::new(forced, || {
        let most = most_in_lines(machine, room);
        // For up to two ranks, doubling combines in the order of ranks; the chain does so for any number.
        let in_order = order == Order::Algorithm || machine.ranks <= 2;
        if bytes > most {
            (Scan::Chain, Reason::Long { most })
        } else if machine.crowded() && machine.ranks > 2 {
            (Scan::Chain, Reason::Crowded)
        } else if in_order {
            (Scan::Doubling, Reason::Short { most })
        } else {
            (Scan::Chain, Reason::Ordered)
        }
    })
}

/// Chooses the algorithm for a reduction of a block for each rank, where the longest block has `bytes` bytes.
#[inline]
pub(crate) fn choose_reduce_scatter(
    machine: Machine,
    bytes: usize,
    room: usize,
    forced: Option<ReduceScatter>,
) -> Choice<ReduceScatter> {
    let most = most_in_lines(machine, room);
    Choice::by_length(forced, bytes, most, [ReduceScatter::Lines, ReduceScatter::Blocks])
}

impl fmt::Display for ReduceScatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceScatter::Lines => "lines straight to each rank",
            ReduceScatter::Blocks => "blocks in the buffers of all",
            ReduceScatter::Chunks => "chunks to one rank after the other",
        })
    }
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scan::Doubling => "lines by doubling",
            Scan::Chain => "chunks from each rank to the next",
        })
    }
}

impl fmt::Display for AllReduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllReduce::Doubling => "lines by recursive doubling",
            AllReduce::FirstRank => "lines by way of rank 0",
            AllReduce::Whole => "everything to all",
            AllReduce::Scattered => "reduce-scatter and all-gather",
            AllReduce::Chunks => "chunks by way of rank 0",
        })
    }
}

impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reduce::Lines => f.write_str("lines straight to the root"),
            Reduce::LineTree { lambda } => write!(f, "lines along a tree, λ = {lambda}"),
            Reduce::Chunks => f.write_str("chunks straight to the root"),
            Reduce::ChunkTree { lambda } => write!(f, "chunks along a tree, λ = {lambda}"),
            Reduce::Scattered => f.write_str("reduce-scatter and gather"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Origin;

    #[test]
    fn all_reduce() {
        let choose = |ranks, cores, bytes, order| {
            let machine = Machine { ranks, cores, payload: 56 };
            choose_all_reduce(machine, bytes, 1_000, order, None).algorithm
        };
        let any = |ranks, cores, bytes| choose(ranks, cores, bytes, Order::Algorithm);
        assert_eq!([any(2, 2, 8), any(2, 1, 168), any(8, 8, 0)], [AllReduce::Doubling; 3]);
        assert_eq!([any(3, 2, 8), any(48, 47, 168)], [AllReduce::FirstRank; 2]);
        assert_eq!(choose(4, 4, 8, Order::Ranks), AllReduce::FirstRank);
        assert_eq!(choose(3, 3, 8, Order::Ranks), AllReduce::Doubling);
        assert_eq!([any(2, 2, 169), any(5, 5, 4096)], [AllReduce::Whole; 2]);
        assert_eq!([any(2, 2, 1 << 20), any(5, 5, 4097)], [AllReduce::Scattered; 2]);
        assert_eq!(any(1, 1, usize::MAX), AllReduce::Whole);
    }

    #[test]
    fn reduce() {
        let choose = |ranks, cores, bytes, most| {
            let machine = Machine { ranks, cores, payload: 56 };
            choose_reduce(machine, Trees::NONE, bytes, most, None).algorithm
        };
        assert_eq!([choose(2, 2, 8, 56), choose(9, 2, 168, 168)], [Reduce::Lines; 2]);
        assert_eq!([choose(2, 2, 57, 56), choose(2, 2, 1 << 30, 56)], [Reduce::Chunks; 2]);
        assert_eq!([choose(8, 2, 1 << 30, 56), choose(8, 8, 2000, 56)], [Reduce::Chunks; 2]);
        assert_eq!(choose(8, 8, 1 << 20, 56), Reduce::Scattered);
    }

    #[test]
    fn reduce_along_trees() {
        let machine = Machine { ranks: 8, cores: 8, payload: 56 };
        let origin = Origin::Measured;
        let trees = Trees { lines: Some(2), chunks: Some(1), most: 8 << 10, origin };
        let choose = |trees, bytes| {
            let choice = choose_reduce(machine, trees, bytes, 1_000, None);
            (choice.algorithm, choice.reason == Reason::Modelled(origin))
        };
        let any = |bytes| choose(trees, bytes);
        assert_eq!([any(0), any(168)], [(Reduce::LineTree { lambda: 2 }, true); 2]);
        assert_eq!([any(169), any(8 << 10)], [(Reduce::ChunkTree { lambda: 1 }, true); 2]);
        assert_eq!(any((8 << 10) + 1), (Reduce::Scattered, false));
        let lines = Trees { chunks: None, ..trees };
        assert_eq!(choose(lines, 169), (Reduce::Chunks, false));
        let rounds = |algorithm: Reduce| algorithm.schedule(machine, 9_000, 3).rounds().len();
        assert_eq!(rounds(Reduce::LineTree { lambda: 1 }), 3);
        assert_eq!(rounds(Reduce::ChunkTree { lambda: 7 }), 1);
    }

    #[test]
    fn scan() {
        let choose = |ranks, cores, bytes, order| {
            let machine = Machine { ranks, cores, payload: 56 };
            choose_scan(machine, bytes, 1_000, order, None).algorithm
        };
        let any = |ranks, cores, bytes| choose(ranks, cores, bytes, Order::Algorithm);
        assert_eq!([any(2, 1, 8), any(8, 8, 168)], [Scan::Doubling; 2]);
        assert_eq!([any(3, 2, 8), any(8, 8, 169)], [Scan::Chain; 2]);
        assert_eq!(choose(3, 3, 8, Order::Ranks), Scan::Chain);
        assert_eq!(choose(2, 2, 8, Order::Ranks), Scan::Doubling);
    }

    #[test]
    fn reduce_scatter() {
        let machine = Machine { ranks: 3, cores: 4, payload: 56 };
        let choose = |bytes| choose_reduce_scatter(machine, bytes, 1_000, None).algorithm;
        assert_eq!([choose(0), choose(168)], [ReduceScatter::Lines; 2]);
        assert_eq!([choose(169), choose(1 << 20)], [ReduceScatter::Blocks; 2]);
    }
}
