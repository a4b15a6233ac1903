//! Which algorithm a reduction takes, and why.

use std::fmt;

use mp_model::cla::schedule::{By, Schedule};
use mp_model::in_order::Shape;

use super::Trees;
use crate::barrier::Origin;
use crate::broadcast::Machine;
use crate::rings;

/// Segments of a long vector that may be under way at a time.
pub(super) const SEGMENTS: usize = 2;

/// Lines in a block. The longer, the less often ranks wait for each other, and the more of it has left
/// the cache of the core that wrote it, from where it comes more slowly than from the one they share;
/// the segment of all ranks' blocks should stay in a cache of the second level. Each rank has a block for
/// each, twice: of many ranks' not more than [`MOST_LINES`] together.
pub(super) fn block_lines(ranks: usize) -> usize {
    chunk_lines(ranks).min((MOST_LINES / ranks.saturating_mul(ranks).max(1)).max(1))
}

/// Lines in a chunk: as many as in a block, of which each rank has a few, however many ranks there are.
pub(super) fn chunk_lines(ranks: usize) -> usize {
    (2048 / ranks).clamp(32, 1024)
}

/// Lines of all ranks' blocks: 128 MiB, of which there are two.
const MOST_LINES: usize = 1 << 20;

/// How all ranks get the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllReduce {
    /// Lines, exchanged by recursive doubling: [`Meeting::Doubling`](super::Meeting::Doubling).
    Doubling,
    /// Lines, combined at rank 0: [`Meeting::FirstRank`](super::Meeting::FirstRank).
    FirstRank,
    /// Each rank gets everything: [`BlockReduce::whole`](super::BlockReduce::whole).
    Whole,
    /// Each rank combines a part: [`BlockReduce::scattered`](super::BlockReduce::scattered).
    Scattered,
    /// Chunks, combined at rank 0: [`ChunkReduce::all_reduce`](super::ChunkReduce::all_reduce).
    Chunks,
}

/// How one rank gets the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// Lines, straight to the root: [`LineReduce::reduce`](super::LineReduce::reduce).
    Lines,
    /// Lines, along a tree: [`LineReduce::reduce_along`](super::LineReduce::reduce_along).
    LineTree {
        /// λ of the tree, from 1, the binomial one, to P − 1, the flat one.
        lambda: usize,
    },
    /// Chunks, straight to the root: [`ChunkReduce::reduce`](super::ChunkReduce::reduce).
    Chunks,
    /// Chunks, along a tree: [`ChunkReduce::reduce_along`](super::ChunkReduce::reduce_along).
    ChunkTree {
        /// λ of the tree.
        lambda: usize,
    },
    /// Each rank combines a part: [`BlockReduce::scattered`](super::BlockReduce::scattered).
    Scattered,
}

/// How each rank gets the result of those up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// Lines, by doubling: [`LineReduce::scan`](super::LineReduce::scan).
    Doubling,
    /// Chunks, from each rank to the next: [`ChunkReduce::scan`](super::ChunkReduce::scan).
    Chain,
}

/// How each rank gets the result of a block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceScatter {
    /// Lines, straight to the rank: [`LineReduce::reduce_scatter`](super::LineReduce::reduce_scatter).
    Lines,
    /// Through the buffers of all: [`BlockReduce::reduce_scatter`](super::BlockReduce::reduce_scatter).
    Blocks,
    /// Chunks, to one rank after the other:
    /// [`ChunkReduce::reduce_scatter`](super::ChunkReduce::reduce_scatter).
    Chunks,
}

/// Whose elements a scan combines for a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prefix {
    /// Those of the ranks below it and its own.
    Inclusive,
    /// Those of the ranks below it.
    Exclusive,
}

/// In which order elements are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The algorithm's: of ranks next to each other, and the same on every run with as many ranks on
    /// as many cores of a machine that is not calibrated anew.
    #[default]
    Algorithm,
    /// Always ((0 ∘ 1) ∘ 2) ∘ 3 and so on, whatever the number of ranks, the length, and the machine.
    Ranks,
}

/// Why an algorithm was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller said so.
    Forced,
    /// So few bytes go in lines, beside their flags.
    Short,
    /// Short, and in the order that was asked for.
    Ordered,
    /// Ranks share cores, and few waits count for more than what one rank has to do.
    Crowded,
    /// Each rank has a core: the tree that the cache-line-aware model finds best.
    Modelled(Origin),
    /// To get more costs less than to wait once more.
    Middle,
    /// All ranks are to work at the same time, each on another part.
    Long,
    /// One element is longer than a block.
    LargeElements,
}

/// The choice for a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation<A> {
    /// The vector's length.
    pub bytes: usize,
    /// What was known.
    pub machine: Machine,
    /// What was chosen.
    pub algorithm: A,
    /// Why.
    pub reason: Reason,
}

/// The line's length.
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

    /// Another algorithm where elements are too large, unless the caller wants this one.
    #[inline]
    fn or(self, too_large: bool, algorithm: A) -> Self {
        match too_large && self.reason != Reason::Forced {
            true => Explanation { algorithm, reason: Reason::LargeElements, ..self },
            false => self,
        }
    }

    /// In segments of a block for each rank.
    fn in_blocks(&self) -> By {
        self.in_buffers(block_lines(self.machine.ranks), SEGMENTS)
    }
}

impl Explanation<AllReduce> {
    /// Who sends to whom, for the model.
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
    /// Who sends to whom, for the model.
    ///
    /// # Panics
    /// If there is no such root.
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
    /// Who sends to whom, for the model.
    pub fn schedule(&self) -> Schedule {
        match self.algorithm {
            Scan::Doubling => Schedule::scan_doubling(self.machine.ranks, self.in_lines()),
            Scan::Chain => Schedule::scan_chain(self.machine.ranks, self.in_chunks()),
        }
    }
}

impl Explanation<ReduceScatter> {
    /// Who sends to whom, for the model.
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

/// Lines up to which a vector is short.
const SHORT: usize = 3;

/// Bytes up to which a rank gets everything from all others.
const MIDDLE: usize = 16 << 10;

/// Whether a vector goes in lines, of which half of the slots may be under way at a time.
#[inline]
fn is_short(machine: Machine, bytes: usize, most: usize) -> bool {
    bytes <= (SHORT * machine.payload).min(most)
}

/// The algorithm for a vector of so many bytes, of which `most` can go in lines.
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

/// The same for a reduction to one rank, with the [best](Trees::best) trees of the machine. Without any the
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

/// The same for a scan.
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

/// The same for a reduction of a block for each rank, of which the longest has so many bytes.
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
