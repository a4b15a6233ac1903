//! The choice of the algorithm for a reduction, with its reason.

use std::fmt;

use mp_model::cla::schedule::{By, Schedule};
use mp_model::in_order::Shape;

use super::Trees;
use crate::barrier::Origin;
use crate::broadcast::Machine;
use crate::rings;

/// The number of segments of a long vector that may be pending at a time.
pub(super) const SEGMENTS: usize = 2;

/// Returns the number of lines in a block. The longer a block is, the less often ranks wait for each other, and the
/// more of it has left the cache of the core that wrote it, from which it comes more slowly than from the shared one.
/// The segment of all ranks' blocks should stay in a second-level cache. Each rank has two blocks for each rank; with
/// many ranks, they have no more than [`MOST_LINES`] together.
pub(super) fn block_lines(ranks: usize) -> usize {
    chunk_lines(ranks).min((MOST_LINES / ranks.saturating_mul(ranks).max(1)).max(1))
}

/// Returns the number of lines in a chunk: as many as in a block. Each rank has a few chunks, however many ranks there
/// are.
pub(super) fn chunk_lines(ranks: usize) -> usize {
    (2048 / ranks).clamp(32, 1024)
}

/// The number of lines in the blocks of all ranks: 128 MiB, of which there are two.
const MOST_LINES: usize = 1 << 20;

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

/// The reason why an algorithm was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller forced it.
    Forced,
    /// The vector is so short that it goes in lines, beside their flags.
    Short,
    /// The vector is short, and the caller asked for this order.
    Ordered,
    /// Ranks share cores, so that few waits matter more than the work of a single rank.
    Crowded,
    /// Each rank has a core; this is the tree that the cache-line-aware model finds best.
    Modelled(Origin),
    /// Getting more data costs less than waiting once more.
    Middle,
    /// All ranks are to work at the same time, each on a different part.
    Long,
    /// One element is longer than a block.
    LargeElements,
}

/// The choice for a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation<A> {
    /// The vector's length.
    pub bytes: usize,
    /// What was known about the machine.
    pub machine: Machine,
    /// The chosen algorithm.
    pub algorithm: A,
    /// The reason for the choice.
    pub reason: Reason,
}

/// The length of a line.
const LINE: usize = 64;

impl<A: Copy> Explanation<A> {
    fn in_lines(&self) -> By {
        By::Lines { lines: self.bytes.div_ceil(self.machine.payload.max(1)) as u64 }
    }

    fn in_buffers(&self, piece: usize, buffers: usize) -> By {
        let lines = self.bytes.div_ceil(LINE) as u64;
        By::Buffers { lines, piece: piece as u64, buffers: buffers as u64 }
    }

    fn in_chunks(&self) -> By {
        self.in_buffers(chunk_lines(self.machine.ranks), rings::LEAST)
    }

    /// Returns another algorithm where elements are too large, unless the caller forces this one.
    #[inline]
    fn or(self, too_large: bool, algorithm: A) -> Self {
        match too_large && self.reason != Reason::Forced {
            true => Explanation { algorithm, reason: Reason::LargeElements, ..self },
            false => self,
        }
    }

    /// Returns segments of a block for each rank.
    fn in_blocks(&self) -> By {
        self.in_buffers(block_lines(self.machine.ranks), SEGMENTS)
    }
}

impl Explanation<AllReduce> {
    /// Returns which rank sends to which, for the model.
    pub fn schedule(&self) -> Schedule {
        let ranks = self.machine.ranks;
        match self.algorithm {
            AllReduce::Doubling => Schedule::all_reduce_doubling(ranks, self.in_lines()),
            AllReduce::FirstRank => Schedule::all_reduce_at_first(ranks, self.in_lines()),
            AllReduce::Whole => {
                let segment = ranks * block_lines(ranks);
                Schedule::all_reduce_whole(ranks, self.in_buffers(segment, SEGMENTS))
            }
            AllReduce::Scattered => Schedule::all_reduce_scattered(ranks, self.in_blocks()),
            AllReduce::Chunks => Schedule::all_reduce_at_first(ranks, self.in_chunks()),
        }
    }

    /// Returns this choice, or chunks if it is an algorithm by blocks and an element of `element` bytes is
    /// longer than a block of `block` bytes.
    #[inline]
    pub(super) fn for_elements(self, element: usize, block: usize) -> Self {
        let blocks = matches!(self.algorithm, AllReduce::Whole | AllReduce::Scattered);
        self.or(blocks && element > block, AllReduce::Chunks)
    }
}

impl Explanation<Reduce> {
    /// Returns which rank sends to which, for the model.
    ///
    /// # Panics
    /// Panics if there is no such root.
    pub fn schedule(&self, root: usize) -> Schedule {
        let ranks = self.machine.ranks;
        match self.algorithm {
            Reduce::Lines => Schedule::reduce(ranks, root, self.in_lines()),
            Reduce::LineTree { lambda } => {
                Schedule::reduce_along(Shape::new(ranks, lambda), root, self.in_lines())
            }
            Reduce::Chunks => Schedule::reduce(ranks, root, self.in_chunks()),
            Reduce::ChunkTree { lambda } => {
                Schedule::reduce_along(Shape::new(ranks, lambda), root, self.in_chunks())
            }
            Reduce::Scattered => Schedule::reduce_scattered(ranks, root, self.in_blocks()),
        }
    }

    /// Returns this choice, or chunks if it is an algorithm by blocks and an element of `element` bytes is
    /// longer than a block of `block` bytes.
    #[inline]
    pub(super) fn for_elements(self, element: usize, block: usize) -> Self {
        let blocks = matches!(self.algorithm, Reduce::Scattered);
        self.or(blocks && element > block, Reduce::Chunks)
    }
}

impl Explanation<Scan> {
    /// Returns which rank sends to which, for the model.
    pub fn schedule(&self) -> Schedule {
        match self.algorithm {
            Scan::Doubling => Schedule::scan_doubling(self.machine.ranks, self.in_lines()),
            Scan::Chain => Schedule::scan_chain(self.machine.ranks, self.in_chunks()),
        }
    }
}

impl Explanation<ReduceScatter> {
    /// Returns which rank sends to which, for the model.
    pub fn schedule(&self) -> Schedule {
        let ranks = self.machine.ranks;
        match self.algorithm {
            ReduceScatter::Lines => Schedule::reduce_scatter(ranks, self.in_lines()),
            ReduceScatter::Blocks => Schedule::reduce_scatter(ranks, self.in_blocks()),
            ReduceScatter::Chunks => Schedule::reduce_scatter(ranks, self.in_chunks()),
        }
    }

    /// Returns this choice, or chunks if it is an algorithm by blocks and an element of `element` bytes is
    /// longer than a block of `block` bytes.
    #[inline]
    pub(super) fn for_elements(self, element: usize, block: usize) -> Self {
        let blocks = matches!(self.algorithm, ReduceScatter::Blocks);
        self.or(blocks && element > block, ReduceScatter::Chunks)
    }
}

/// The number of lines up to which a vector is short.
const SHORT: usize = 3;

/// The number of bytes up to which a rank gets everything from all others.
const MIDDLE: usize = 16 << 10;

/// Returns whether a vector goes in lines, of which half of the slots may be pending at a time.
#[inline]
fn is_short(machine: Machine, bytes: usize, most: usize) -> bool {
    bytes <= (SHORT * machine.payload).min(most)
}

/// Chooses the algorithm for a vector of `bytes` bytes, of which `most` can go in lines.
#[inline]
pub fn choose_all_reduce(
    machine: Machine,
    bytes: usize,
    most: usize,
    order: Order,
    forced: Option<AllReduce>,
) -> Explanation<AllReduce> {
    // Doubling takes up to three ranks one after the other.
    let in_order = order == Order::Algorithm || machine.ranks <= 3;
    let (algorithm, reason) = match forced {
        Some(algorithm) => (algorithm, Reason::Forced),
        None if is_short(machine, bytes, most) => match machine.crowded() && machine.ranks > 2 {
            true => (AllReduce::FirstRank, Reason::Crowded),
            false if in_order => (AllReduce::Doubling, Reason::Short),
            false => (AllReduce::FirstRank, Reason::Ordered),
        },
        None if bytes.saturating_mul(machine.ranks - 1) <= MIDDLE => {
            (AllReduce::Whole, Reason::Middle)
        }
        None => (AllReduce::Scattered, Reason::Long),
    };
    Explanation { bytes, machine, algorithm, reason }
}

/// Does the same for a reduction to one rank, with the [best](Trees::best) trees of the machine. Without trees, the
/// order is that of ranks.
#[inline]
pub fn choose_reduce(
    machine: Machine,
    trees: Trees,
    bytes: usize,
    most: usize,
    forced: Option<Reduce>,
) -> Explanation<Reduce> {
    let (algorithm, reason) = match forced {
        Some(algorithm) => (algorithm, Reason::Forced),
        None if is_short(machine, bytes, most) => match trees.lines {
            Some(lambda) => (Reduce::LineTree { lambda }, Reason::Modelled(trees.origin)),
            None => (Reduce::Lines, Reason::Short),
        },
        None if machine.crowded() => (Reduce::Chunks, Reason::Crowded),
        None => match trees.chunks {
            Some(lambda) if bytes <= trees.most => {
                (Reduce::ChunkTree { lambda }, Reason::Modelled(trees.origin))
            }
            // With two the root has as much to do as the other; with three, twice as much, and what goes
            // by parts is moved twice.
            None if machine.ranks <= 3 || bytes.saturating_mul(machine.ranks - 1) <= MIDDLE => {
                (Reduce::Chunks, Reason::Middle)
            }
            _ => (Reduce::Scattered, Reason::Long),
        },
    };
    Explanation { bytes, machine, algorithm, reason }
}

/// Does the same for a scan.
#[inline]
pub fn choose_scan(
    machine: Machine,
    bytes: usize,
    most: usize,
    order: Order,
    forced: Option<Scan>,
) -> Explanation<Scan> {
    // Doubling takes up to two ranks one after the other, the chain any number.
    let in_order = order == Order::Algorithm || machine.ranks <= 2;
    let (algorithm, reason) = match forced {
        Some(algorithm) => (algorithm, Reason::Forced),
        None if !is_short(machine, bytes, most) => (Scan::Chain, Reason::Long),
        None if machine.crowded() && machine.ranks > 2 => (Scan::Chain, Reason::Crowded),
        None if in_order => (Scan::Doubling, Reason::Short),
        None => (Scan::Chain, Reason::Ordered),
    };
    Explanation { bytes, machine, algorithm, reason }
}

/// Does the same for a reduction of a block for each rank, where the longest block has this many bytes.
#[inline]
pub fn choose_reduce_scatter(
    machine: Machine,
    bytes: usize,
    most: usize,
    forced: Option<ReduceScatter>,
) -> Explanation<ReduceScatter> {
    let (algorithm, reason) = match forced {
        Some(algorithm) => (algorithm, Reason::Forced),
        None if is_short(machine, bytes, most) => (ReduceScatter::Lines, Reason::Short),
        None => (ReduceScatter::Blocks, Reason::Long),
    };
    Explanation { bytes, machine, algorithm, reason }
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Forced => "forced",
            Reason::Short => "so few bytes go beside their flags",
            Reason::Ordered => "this keeps the order of ranks",
            Reason::Crowded => "ranks share cores, and few waits count most",
            Reason::Modelled(Origin::Measured) => {
                "the tree that the cache-line-aware model finds best for this machine"
            }
            Reason::Modelled(Origin::Paper) => {
                "the tree that the cache-line-aware model finds best for the paper's Sandy Bridge"
            }
            Reason::Middle => "to get more costs less than to wait once more",
            Reason::Long => "all ranks work at the same time, each on another part",
            Reason::LargeElements => "one element is longer than a block",
        })
    }
}

impl<A: fmt::Display> fmt::Display for Explanation<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { bytes, machine, algorithm, reason } = self;
        let Machine { ranks, cores, .. } = machine;
        write!(f, "{bytes} bytes of {ranks} ranks on {cores} cores: {algorithm}; {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rounds = |algorithm: Reduce| {
            let choice = Explanation { bytes: 9_000, machine, algorithm, reason: Reason::Forced };
            choice.schedule(3).rounds().len()
        };
        assert_eq!(rounds(Reduce::LineTree { lambda: 1 }), 3);
        assert_eq!(rounds(Reduce::ChunkTree { lambda: 7 }), 1);
        let text = choose_reduce(machine, trees, 8, 1_000, None).to_string();
        for fact in ["8 ranks", "λ = 2", "tree", "this machine"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
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

    #[test]
    fn explanations_give_the_facts() {
        let machine = Machine { ranks: 8, cores: 2, payload: 56 };
        let text = choose_all_reduce(machine, 24, 56, Order::Ranks, None).to_string();
        for fact in ["24 bytes", "8 ranks", "2 cores", "rank 0", "share cores"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }
}
