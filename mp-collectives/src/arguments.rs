//! The arguments of operations with a block for each rank: buffers, the places of the blocks in them, and blocks that
//! stay in place.
//!
//! | argument | what it is |
//! |---|---|
//! | `&own`, `&mut all`, `vec` | a buffer: anything that is `AsRef<[T]>`, or `AsMut<[T]>` where it is written to |
//! | [`At(&mut all, &ranges)`](At) | a buffer in which each rank's block lies at a range of its own |
//! | [`InPlace`] | no buffer: the rank's block is in the other buffer (`MPI_IN_PLACE`) |
//!
//! Blocking operations borrow their arguments, nonblocking ones own them.

use std::borrow::Cow;
use std::ops::Range;

use crate::layout::{Blocks, packed};

/// Says that the rank's own block is in the buffer of all blocks (`MPI_IN_PLACE`).
///
/// | | the buffer of | holds before | holds after |
/// |---|---|---|---|
/// | `gather(InPlace, &mut all, root)` | the root | its own block in its place | the blocks of all |
/// | | another rank | its own block and nothing else | the same |
/// | `scatter(&mut all, InPlace, root)` | the root | the blocks of all | the same |
/// | | another rank | anything, as long as its block | its own block |
/// | `all_gather(InPlace, &mut all)` | each rank | its own block in its place | the blocks of all |
/// | `all_to_all(InPlace, &mut all)` | each rank | as block i, the block for rank i | as block i, the block from rank i |
/// | `reduce_scatter(&mut all, InPlace, Sum)` | each rank | its vector | its result in the place of its block |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InPlace;

/// A buffer, and for each rank the range of its elements that is the rank's block: what the `v` of `MPI_Gatherv` adds.
///
/// The blocks may leave gaps, lie in any order, and be empty. [`packed`] makes ranges from counts.
///
/// ```
/// use onchip::collectives::{At, packed};
/// use onchip::Communicator;
///
/// let got = onchip::World::threads(3).run(|rank| {
///     let world = Communicator::world(rank);
///     // As many letters as the rank has above it, at rank 2.
///     let letters = vec![b'a' + rank.id() as u8; 2 - rank.id()];
///     let mut text = [b'.'; 3];
///     world.gather(&letters, At(&mut text, packed([2, 1, 0])), 2)?;
///     Ok(String::from_utf8_lossy(&text).into_owned())
/// })?;
/// assert_eq!(got, ["...", "...", "aab"]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At<B, R>(pub B, pub R);

/// The rank's own block as it is sent: a buffer, or [`InPlace`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a block of elements to send",
    note = "pass a slice, array or `Vec` of plain elements by reference, or `InPlace`"
)]
pub trait OwnBlock<T> {
    /// Returns the elements, or `None` if they are in the buffer of all blocks.
    fn own_block(&self) -> Option<&[T]>;
}

impl<T, B: AsRef<[T]>> OwnBlock<T> for B {
    #[inline(always)]
    fn own_block(&self) -> Option<&[T]> {
        Some(self.as_ref())
    }
}

impl<T> OwnBlock<T> for InPlace {
    #[inline(always)]
    fn own_block(&self) -> Option<&[T]> {
        None
    }
}

/// A buffer with a block for each rank: equally long blocks, one after the other, or [`At`] ranges.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a buffer of blocks",
    note = "pass a slice, array or `Vec` of plain elements by reference, or `At(&buffer, &ranges)`"
)]
pub trait AllBlocks<T> {
    /// Returns the elements, and the places of the blocks.
    fn all_blocks(&self) -> (&[T], Blocks<'_>);
}

impl<T, B: AsRef<[T]>> AllBlocks<T> for B {
    #[inline(always)]
    fn all_blocks(&self) -> (&[T], Blocks<'_>) {
        (self.as_ref(), Blocks::Equal)
    }
}

impl<T, B: AsRef<[T]>, R: AsRef<[Range<usize>]>> AllBlocks<T> for At<B, R> {
    #[inline(always)]
    fn all_blocks(&self) -> (&[T], Blocks<'_>) {
        (self.0.as_ref(), Blocks::At(self.1.as_ref()))
    }
}

/// A buffer with a block for each rank, like [`AllBlocks`], to which blocks are written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a buffer that blocks can be written to",
    note = "pass a slice, array or `Vec` of plain elements by `&mut`, or `At(&mut buffer, &ranges)`"
)]
pub trait AllBlocksMut<T> {
    /// Returns the elements, and the places of the blocks.
    fn all_blocks_mut(&mut self) -> (&mut [T], Blocks<'_>);
}

impl<T, B: AsMut<[T]>> AllBlocksMut<T> for B {
    #[inline(always)]
    fn all_blocks_mut(&mut self) -> (&mut [T], Blocks<'_>) {
        (self.as_mut(), Blocks::Equal)
    }
}

impl<T, B: AsMut<[T]>, R: AsRef<[Range<usize>]>> AllBlocksMut<T> for At<B, R> {
    #[inline(always)]
    fn all_blocks_mut(&mut self) -> (&mut [T], Blocks<'_>) {
        (self.0.as_mut(), Blocks::At(self.1.as_ref()))
    }
}

/// The blocks that a rank sends in an all-to-all: [`AllBlocks`], or [`InPlace`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a buffer of blocks to send",
    note = "pass a slice, array or `Vec` of plain elements by reference, `At(&buffer, &ranges)`, or `InPlace`"
)]
pub trait SentBlocks<T> {
    /// Returns the elements and the places of the blocks, or `None` if the received blocks replace the sent ones.
    fn sent_blocks(&self) -> Option<(&[T], Blocks<'_>)>;
}

impl<T, B: AsRef<[T]>> SentBlocks<T> for B {
    #[inline(always)]
    fn sent_blocks(&self) -> Option<(&[T], Blocks<'_>)> {
        Some(self.all_blocks())
    }
}

impl<T, B: AsRef<[T]>, R: AsRef<[Range<usize>]>> SentBlocks<T> for At<B, R> {
    #[inline(always)]
    fn sent_blocks(&self) -> Option<(&[T], Blocks<'_>)> {
        Some(self.all_blocks())
    }
}

impl<T> SentBlocks<T> for InPlace {
    #[inline(always)]
    fn sent_blocks(&self) -> Option<(&[T], Blocks<'_>)> {
        None
    }
}

/// The place for the rank's own block out of the buffer `A`: a buffer, or [`InPlace`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a place for the rank's block of `{A}`",
    note = "pass a slice, array or `Vec` of plain elements by `&mut`; \
            or `InPlace`, if the buffer of all blocks is passed by `&mut` as well"
)]
pub trait OwnPlace<T, A> {
    /// Returns the buffer of all blocks, the place for the rank's own block, and the places of the blocks.
    fn cut<'a>(&'a mut self, all: &'a mut A) -> (Cut<'a, T>, Blocks<'a>);
}

/// The blocks of all ranks, and the place for the rank's own block.
#[derive(Debug)]
pub enum Cut<'a, T> {
    /// The rank's block has a buffer of its own.
    Apart {
        /// The blocks of all ranks.
        all: &'a [T],
        /// The place for the rank's own block.
        own: &'a mut [T],
    },
    /// The rank's block stays in the buffer of all blocks.
    InPlace(&'a mut [T]),
}

impl<T> Cut<'_, T> {
    /// Returns the number of elements in the buffer of all blocks.
    pub(crate) fn all(&self) -> usize {
        match self {
            Cut::Apart { all, .. } => all.len(),
            Cut::InPlace(all) => all.len(),
        }
    }
}

impl<T, A: AllBlocks<T>, B: AsMut<[T]>> OwnPlace<T, A> for B {
    #[inline(always)]
    fn cut<'a>(&'a mut self, all: &'a mut A) -> (Cut<'a, T>, Blocks<'a>) {
        let (all, blocks) = all.all_blocks();
        (Cut::Apart { all, own: self.as_mut() }, blocks)
    }
}

impl<T, A: AllBlocksMut<T>> OwnPlace<T, A> for InPlace {
    #[inline(always)]
    fn cut<'a>(&'a mut self, all: &'a mut A) -> (Cut<'a, T>, Blocks<'a>) {
        let (all, blocks) = all.all_blocks_mut();
        (Cut::InPlace(all), blocks)
    }
}

impl Blocks<'_> {
    /// Returns whether the blocks lie at ranges, so that they may differ in length.
    #[inline(always)]
    pub(crate) fn may_differ(self) -> bool {
        matches!(self, Blocks::At(_))
    }

    /// Returns the ranges of blocks in a buffer of `length` elements.
    pub(crate) fn ranges(&self, length: usize, ranks: usize) -> Cow<'_, [Range<usize>]> {
        match self {
            Blocks::Equal => packed(std::iter::repeat_n(length / ranks, ranks)).into(),
            Blocks::At(ranges) => Cow::Borrowed(ranges),
        }
    }
}

/// Returns the number of elements in the rank's block, if only the root's buffer has room for the blocks of all ranks.
#[inline(always)]
pub(crate) fn at_root(all: usize, (me, ranks): (usize, usize), root: usize) -> usize {
    if me == root { all / ranks } else { all }
}
