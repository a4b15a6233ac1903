//! The blocks of a collective operation in the program's memory: elements of each rank, anywhere.

use std::{ops::Range, rc::Rc};

use mp_collectives::collectives::packed;

use crate::datatype::data::{Data, Kept};

/// The bytes of all blocks, and where in them each block is. This is the program's memory itself if the blocks fill it
/// without gaps.
pub(crate) struct Blocks<'a> {
    blocks: Vec<Data<'a>>,
    bytes: Bytes<'a>,
    ranges: Vec<Range<usize>>,
}

enum Bytes<'a> {
    Memory(&'a mut [u8]),
    Read(&'a [u8]),
    Copy(Vec<u8>),
}

impl<'a> Blocks<'a> {
    /// Makes room for blocks that are to be written.
    pub fn to_write(blocks: Vec<Data<'a>>) -> Self {
        // SAFETY: the blocks fill this memory without gaps, and it may be written to: see `Data::new`.
        Self::new(blocks, |first, bytes| Bytes::Memory(unsafe { Data::memory_mut(first, bytes) }))
    }

    fn new(blocks: Vec<Data<'a>>, of_memory: impl FnOnce(usize, usize) -> Bytes<'a>) -> Self {
        let Placed { memory, ranges } = Placed::of(blocks.iter().copied());
        let bytes = match memory {
            Some((first, bytes)) => of_memory(first, bytes),
            None => Bytes::Copy(vec![0; ranges.last().map_or(0, |range| range.end)]),
        };
        Self { blocks, bytes, ranges }
    }

    /// Returns blocks as they are sent.
    pub fn to_read(blocks: Vec<Data<'a>>) -> Self {
        // SAFETY: the blocks fill this memory without gaps, and it can be read: see `Data::new`.
        let memory = |first, bytes| Bytes::Read(unsafe { Data::memory(first, bytes) });
        let mut all = Self::new(blocks, memory);
        all.load_all();
        all
    }

    /// Copies the data of all blocks from the program's memory.
    pub fn load_all(&mut self) {
        (0..self.blocks.len()).for_each(|rank| self.load(rank));
    }

    /// Copies the data of a block from the program's memory.
    pub fn load(&mut self, rank: usize) {
        if let Bytes::Copy(copy) = &mut self.bytes {
            copy[self.ranges[rank].clone()].copy_from_slice(&self.blocks[rank].packed());
        }
    }

    /// Copies the data of all blocks to the program's memory.
    pub fn store(self) {
        if let Bytes::Copy(copy) = &self.bytes
            && !copy.is_empty()
        {
            for (block, range) in self.blocks.iter().zip(self.ranges) {
                block.unpack(&copy[range]);
            }
        }
    }

    /// Returns the bytes of blocks that are to be written, and where in them each block is.
    pub fn bytes_mut(&mut self) -> (&mut [u8], &[Range<usize>]) {
        let bytes = match &mut self.bytes {
            Bytes::Memory(memory) => memory,
            Bytes::Copy(copy) => &mut copy[..],
            Bytes::Read(_) => &mut [],
        };
        (bytes, &self.ranges)
    }

    /// Returns the bytes, and where in them each block is.
    pub fn bytes(&self) -> (&[u8], &[Range<usize>]) {
        let bytes = match &self.bytes {
            Bytes::Memory(memory) => memory,
            Bytes::Copy(copy) => &copy[..],
            Bytes::Read(memory) => memory,
        };
        (bytes, &self.ranges)
    }
}

/// Where the blocks are, in the program's memory if they fill it without gaps, or else in a copy of all blocks.
pub(crate) struct Placed {
    /// The address and the length of the memory.
    pub memory: Option<(usize, usize)>,
    pub ranges: Vec<Range<usize>>,
}

/// The blocks of all ranks, as requests keep them. Ranks without blocks have none, or empty ones.
#[derive(Clone, Debug)]
pub(crate) enum KeptBlocks {
    /// As many elements for each rank, one after the other.
    Equal {
        all: Kept,
        count: usize,
    },
    Each(Rc<[Kept]>),
}

impl KeptBlocks {
    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        match self {
            Self::Equal { count, .. } => *count,
            Self::Each(each) => each.len(),
        }
    }

    pub fn block(&self, number: usize) -> Data<'_> {
        match self {
            Self::Equal { all, count } => {
                let (all, elements) = (all.data(), all.data().count() / count);
                let place = all.datatype().extent * (number * elements) as i64;
                // SAFETY: these are some of the elements.
                unsafe { all.part(place, elements) }
            }
            Self::Each(each) => each[number].data(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Data<'_>> {
        (0..self.count()).map(|number| self.block(number))
    }

    /// Returns the number of bytes in all blocks.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Equal { all, .. } => all.data().bytes(),
            Self::Each(each) => each.iter().map(|block| block.data().bytes()).sum(),
        }
    }
}

impl Placed {
    pub fn of<'a>(blocks: impl Iterator<Item = Data<'a>> + Clone) -> Self {
        if let Some(placed) = Self::in_order(blocks.clone()) {
            return placed;
        }
        let starts: Option<Vec<_>> = blocks.clone().map(|block| block.start()).collect();
        let lengths = || blocks.clone().map(|block| block.bytes());
        if let Some(starts) = starts
            && let Some((first, last)) = span(&starts, lengths())
        {
            let ranges = (starts.iter().zip(lengths()))
                .map(|(start, length)| start - first..start - first + length)
                .collect();
            return Self { memory: Some((first, last - first)), ranges };
        }
        Self { memory: None, ranges: packed(lengths()) }
    }

    /// Does the same for blocks that lie one after the other, as they mostly do. Empty blocks may lie anywhere.
    fn in_order<'a>(mut blocks: impl Iterator<Item = Data<'a>>) -> Option<Self> {
        let (mut first, mut end) = (0, 0);
        let mut ranges = Vec::with_capacity(blocks.size_hint().0);
        blocks.try_for_each(|block| {
            let bytes = block.bytes();
            if bytes > 0 {
                let start = block.start()?;
                if end == 0 {
                    first = start;
                } else if start.checked_sub(first)? != end {
                    return None;
                }
            }
            ranges.push(end..end + bytes);
            end += bytes;
            Some(())
        })?;
        Some(Self { memory: (end > 0).then_some((first, end)), ranges })
    }
}

/// Returns where the memory of blocks begins and ends, if they fill it without gaps and do not overlap.
fn span(starts: &[usize], lengths: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let mut filled: Vec<_> =
        starts.iter().copied().zip(lengths).filter(|(_, length)| *length > 0).collect();
    filled.sort_unstable();
    let first = filled.first()?.0;
    let end = filled
        .iter()
        .try_fold(first, |end, &(start, length)| (start == end).then_some(start + length))?;
    // Empty blocks may lie anywhere, and would have no range in this memory.
    starts.iter().all(|start| (first..=end).contains(start)).then_some((first, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{constants::MPI_BYTE, types::Count};

    #[test]
    fn empty_blocks_may_lie_anywhere() {
        let memory = [0u8; 64];
        let base = (&raw const memory).expose_provenance();
        let placed = |blocks: &[(usize, usize)]| {
            let place = |place: usize| (&raw const memory[place]).cast();
            // SAFETY: the blocks are in the memory.
            let block = |&(at, bytes)| unsafe { Data::new(place(at), bytes as Count, MPI_BYTE) };
            let Placed { memory, ranges } = Placed::of(blocks.iter().map(|at| block(at).unwrap()));
            let memory = memory.map(|(first, bytes)| (first - base, bytes));
            (memory, ranges.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>())
        };
        let in_order = placed(&[(40, 0), (8, 4), (0, 0), (12, 8), (4, 0)]);
        assert_eq!(in_order, (Some((8, 12)), vec![(0, 0), (0, 4), (4, 4), (4, 12), (12, 12)]));
        assert_eq!(placed(&[(9, 0), (3, 0)]), (None, vec![(0, 0); 2]));
        assert_eq!(placed(&[]), (None, vec![]));
        assert_eq!(placed(&[(8, 8), (0, 8)]), (Some((0, 16)), vec![(8, 16), (0, 8)]));
        assert_eq!(placed(&[(8, 8), (20, 4)]), (None, vec![(0, 8), (8, 12)]));
    }

    #[test]
    fn spans() {
        let span = |blocks: &[(usize, usize)]| {
            let starts: Vec<_> = blocks.iter().map(|block| block.0).collect();
            span(&starts, blocks.iter().map(|block| block.1))
        };
        assert_eq!(span(&[(100, 8), (108, 4), (112, 0)]), Some((100, 112)));
        assert_eq!(span(&[(108, 4), (100, 8)]), Some((100, 112)));
        assert_eq!(span(&[(100, 8), (109, 4)]), None);
        assert_eq!(span(&[(100, 8), (107, 4)]), None);
        assert_eq!(span(&[(100, 8), (200, 0)]), None);
        assert_eq!(span(&[]), None);
    }
}
