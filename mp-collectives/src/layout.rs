//! The places of the blocks of all ranks in a buffer.

use crate::errors::bad_call;
use std::ops::Range;

use thiserror::Error;

/// The blocks of all ranks in a buffer.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// The blocks lie one after the other, with the same number of elements in each.
    Equal,
    /// For each rank, the range of the buffer's elements that is its block. Blocks may leave gaps, which are not
    /// touched, lie in any order, and be empty. Where two of them overlap, the result is unspecified.
    At(&'a [Range<usize>]),
}

/// Returns blocks of these lengths, one after the other.
///
/// ```
/// use onchip::exchange::packed;
///
/// assert_eq!(packed([2, 0, 3]), [0..2, 2..2, 2..5]);
/// ```
pub fn packed(counts: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let after = |end: &mut usize, count: usize| {
        let start = *end;
        // The sum may exceed every buffer. Such blocks are refused wherever they are checked against a buffer.
        *end = start.saturating_add(count);
        Some(start..*end)
    };
    counts.into_iter().scan(0, after).collect()
}

/// The reason why blocks do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// There is not one block for each rank.
    #[error("there are {blocks} blocks for {ranks} ranks: give one for each rank")]
    Count {
        /// The number of blocks.
        blocks: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// A block is not in the buffer.
    #[error(
        "the block of rank {rank}, elements {start} to {end}, is not within the buffer of {length} elements"
    )]
    Outside {
        /// The rank whose block it is.
        rank: usize,
        /// The block's first element.
        start: usize,
        /// The element after the block's last.
        end: usize,
        /// The number of elements in the buffer.
        length: usize,
    },
    /// The length of a buffer differs from that of its blocks, or from that of another buffer that must be as long.
    #[error("the buffer has {length} elements where this call needs {needed}")]
    Length {
        /// The number of elements in the buffer.
        length: usize,
        /// The required number of elements.
        needed: usize,
    },
    /// The buffer can't be cut into equal blocks.
    #[error(
        "a buffer of {length} elements can't be divided into equal blocks for {ranks} ranks: use a multiple, or name the blocks"
    )]
    Uneven {
        /// The number of elements in the buffer.
        length: usize,
        /// The number of ranks.
        ranks: usize,
    },
}

/// Allows rank code to return it with `?`.
impl From<LayoutError> for mp_core::Error {
    #[cold]
    fn from(error: LayoutError) -> Self {
        bad_call(error.to_string())
    }
}

/// Checked blocks of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout<'a> {
    /// This many units in each block.
    Equal(usize),
    At {
        blocks: &'a [Range<usize>],
        /// The number of units in an element.
        unit: usize,
    },
}

impl<'a> Layout<'a> {
    /// Returns the layout of a buffer of `length` elements, each of `unit` units.
    #[inline]
    pub(crate) fn of_buffer(
        blocks: Blocks<'a>,
        ranks: usize,
        length: usize,
        unit: usize,
    ) -> Result<Layout<'a>, LayoutError> {
        match blocks {
            Blocks::Equal if !length.is_multiple_of(ranks) => {
                Err(LayoutError::Uneven { length, ranks })
            }
            Blocks::Equal => Ok(Layout::Equal(length / ranks * unit)),
            Blocks::At(blocks) => Layout::at(blocks, ranks, length, unit),
        }
    }

    /// Returns the layout of a buffer of `length` elements. Rank `me` may have its own block in another buffer of `own`
    /// elements.
    #[inline]
    pub(crate) fn new(
        blocks: Blocks<'a>,
        (me, ranks): (usize, usize),
        (own, length): (Option<usize>, usize),
        unit: usize,
    ) -> Result<Layout<'a>, LayoutError> {
        let Some(own) = own else { return Layout::of_buffer(blocks, ranks, length, unit) };
        match blocks {
            // This needs no division, which would delay the shortest operations.
            Blocks::Equal => match own.checked_mul(ranks) {
                Some(needed) if needed == length => Ok(Layout::Equal(own * unit)),
                needed => Err(LayoutError::Length { length, needed: needed.unwrap_or(usize::MAX) }),
            },
            Blocks::At(blocks) => {
                let layout = Layout::at(blocks, ranks, length, unit)?;
                let needed = blocks[me].len();
                match own == needed {
                    true => Ok(layout),
                    false => Err(LayoutError::Length { length: own, needed }),
                }
            }
        }
    }

    fn at(
        blocks: &'a [Range<usize>],
        ranks: usize,
        length: usize,
        unit: usize,
    ) -> Result<Layout<'a>, LayoutError> {
        if blocks.len() != ranks {
            return Err(LayoutError::Count { blocks: blocks.len(), ranks });
        }
        let outside = |block: &Range<usize>| block.start > block.end || block.end > length;
        match blocks.iter().position(outside) {
            None => Ok(Layout::At { blocks, unit }),
            Some(rank) => {
                let Range { start, end } = blocks[rank];
                Err(LayoutError::Outside { rank, start, end, length })
            }
        }
    }

    /// Returns the range of a rank's units.
    #[inline]
    pub(crate) fn block(&self, rank: usize) -> Range<usize> {
        match *self {
            Layout::Equal(units) => rank * units..(rank + 1) * units,
            Layout::At { blocks, unit } => {
                let Range { start, end } = blocks[rank];
                start * unit..end * unit
            }
        }
    }

    /// Returns the number of units in the shortest block and in the longest.
    #[inline]
    pub(crate) fn extremes(&self) -> Extremes {
        match *self {
            Layout::Equal(units) => Extremes::one(units),
            Layout::At { blocks, unit } => {
                let lengths = blocks.iter().map(|block| block.len() * unit);
                lengths.map(Extremes::one).reduce(Extremes::and).unwrap_or(Extremes::one(0))
            }
        }
    }
}

/// The lengths of the shortest and the longest of some blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The length of the shortest block.
    pub least: usize,
    /// The length of the longest block.
    pub most: usize,
}

impl Extremes {
    /// Returns the extremes of a single block.
    #[inline]
    pub fn one(length: usize) -> Self {
        Self { least: length, most: length }
    }

    /// Returns the extremes of both sets of blocks together.
    #[inline]
    pub fn and(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_blocks() {
        let layout = Layout::of_buffer(Blocks::Equal, 3, 12, 8).unwrap();
        assert_eq!([0, 2].map(|rank| layout.block(rank)), [0..32, 64..96]);
        assert_eq!(layout.extremes(), Extremes::one(32));
        let uneven = LayoutError::Uneven { length: 11, ranks: 3 };
        assert_eq!(Layout::of_buffer(Blocks::Equal, 3, 11, 8).unwrap_err(), uneven);
        assert_eq!(Layout::of_buffer(Blocks::Equal, 3, 0, 8).unwrap().block(2), 0..0);
        let own = |own, length| {
            Layout::new(Blocks::Equal, (1, 3), (Some(own), length), 2).map(|all| all.block(1))
        };
        assert_eq!(own(4, 12), Ok(8..16));
        assert_eq!(own(4, 11), Err(LayoutError::Length { length: 11, needed: 12 }));
        let needed = usize::MAX;
        assert_eq!(own(needed / 2, 1), Err(LayoutError::Length { length: 1, needed }));
    }

    #[test]
    fn blocks_anywhere() {
        let blocks = [4..7, 0..0, 1..3];
        let at = |blocks, length| Layout::of_buffer(Blocks::At(blocks), 3, length, 4);
        let layout = at(&blocks, 7).unwrap();
        assert_eq!([0, 1, 2].map(|rank| layout.block(rank)), [16..28, 0..0, 4..12]);
        assert_eq!(layout.extremes(), Extremes { least: 0, most: 12 });
        let outside = LayoutError::Outside { rank: 0, start: 4, end: 7, length: 6 };
        assert_eq!(at(&blocks, 6).unwrap_err(), outside);
        let backwards = [0..1, Range { start: 2, end: 1 }, 0..0];
        let outside = LayoutError::Outside { rank: 1, start: 2, end: 1, length: 9 };
        assert_eq!(at(&backwards, 9).unwrap_err(), outside);
        assert_eq!(at(&blocks[..2], 9).unwrap_err(), LayoutError::Count { blocks: 2, ranks: 3 });
        let own = Layout::new(Blocks::At(&blocks), (2, 3), (Some(3), 7), 1);
        assert_eq!(own.unwrap_err(), LayoutError::Length { length: 3, needed: 2 });
    }

    #[test]
    fn more_than_there_can_be_is_refused() {
        let blocks = packed([usize::MAX, 2]);
        assert_eq!(blocks, [0..usize::MAX, usize::MAX..usize::MAX]);
        assert!(Layout::of_buffer(Blocks::At(&blocks), 2, 2, 1).is_err());
    }
}
