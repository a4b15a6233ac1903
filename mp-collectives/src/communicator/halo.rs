//! The exchange of borders between the blocks of a grid.

use mp_core::{ErrorKind, Plain, Result};

use crate::communicator::{
    cartesian::Cartesian,
    point_to_point::{Communicator, OWN_TAGS, Stream},
};
use crate::errors::bad_call;

/// Blocks of a grid with a border of copies of their neighbours' elements around them (a halo, or ghost cells). The
/// [exchange](Self::exchange) updates the borders.
///
/// A rank's block is a slice of `extents` elements in each dimension, row by row. At both ends of each dimension,
/// `width` elements are the halo; the elements between them are the rank's own.
///
/// ```
/// use onchip::communicator::{Communicator, share};
///
/// onchip::World::threads(3).run(|rank| {
///     // Rows of 4 in blocks, one under the other.
///     let world = Communicator::world(rank);
///     let grid = world.cartesian(&[3], &[false])?.expect("a place for every rank");
///     let rows = share(8, 3, grid.rank());
///     let mut halo = grid.halo::<f64>(&[rows.len()], &[4], 1)?;
///     let mut block = vec![-1.0; halo.len()];
///     block[4..][..4 * rows.len()].fill(grid.rank() as f64);
///     halo.exchange(&mut block)?;
///     // What lies outside of the grid stays as it was.
///     assert_eq!(block[..4], [grid.rank() as f64 - 1.0; 4]);
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Halo<'a, T: Plain> {
    communicator: &'a Communicator,
    /// Below and above, in each dimension of the grid.
    neighbours: Vec<(Option<usize>, Option<usize>)>,
    /// Including the halo.
    extents: Vec<usize>,
    /// Elements that one step in the last of those dimensions passes over.
    row: usize,
    width: usize,
    /// What is sent down and up, and what is received from there, where it does not lie in one piece.
    strips: [Vec<T>; 4],
}

impl Cartesian {
    /// Makes a halo of `width` elements at both ends of each dimension of the grid, around a block that has `own`
    /// elements of its own in each. The block can have further dimensions, which the grid does not divide. Their
    /// extents are given by `row`; they come last and have no halo.
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when the number of dimensions in `own` differs from the grid's, or when
    /// the block is smaller than the halo of the neighbours.
    pub fn halo<T: Plain>(
        &self,
        own: &[usize],
        row: &[usize],
        width: usize,
    ) -> Result<Halo<'_, T>> {
        let dimensions = self.dimensions().len();
        if own.len() != dimensions {
            return Err(bad_call(format!(
                "a block of {own:?} does not fit a grid of {dimensions} dimensions: give one length for each"
            )));
        }
        if let Some(small) = own.iter().find(|&&own| own < width) {
            return Err(bad_call(format!(
                "a block of {small} is smaller than the halo of {width}: use fewer ranks or a narrower halo"
            )));
        }
        Ok(Halo {
            communicator: self.communicator(),
            neighbours: self.neighbours(),
            extents: own.iter().map(|own| own + 2 * width).collect(),
            row: row.iter().product(),
            width,
            strips: Default::default(),
        })
    }
}

impl<T: Plain> Halo<'_, T> {
    /// Returns the block's extent in each dimension of the grid, including the halo.
    pub fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// Returns the number of elements of the block, including the halo.
    pub fn len(&self) -> usize {
        self.extents.iter().product::<usize>() * self.row
    }

    /// Returns whether the block has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the halo with the neighbours' elements, including the corners. All ranks of the grid must call it. At the
    /// ends of the grid, the halo stays as it was.
    ///
    /// The dimensions are exchanged one after another. In each dimension, all messages are pending at once, and
    /// elements that lie in one piece are sent without being gathered first.
    ///
    /// # Errors
    /// As [`Communicator::send`] and [`Communicator::receive_into`];
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when the length of the block differs from [`len`](Self::len), or when a
    /// neighbour's block has other extents. Refused messages are dropped, and the next exchange does not see them.
    pub fn exchange(&mut self, block: &mut [T]) -> Result<()> {
        if block.len() != self.len() {
            return Err(bad_call(format!(
                "the block has {} elements, and this halo is for {}",
                block.len(),
                self.len()
            )));
        }
        let mut differs = Ok(());
        for dimension in 0..self.extents.len() {
            let outer = self.extents[..dimension].iter().product::<usize>();
            let inner = self.extents[dimension + 1..].iter().product::<usize>() * self.row;
            let exchanged = match outer {
                1 => self.exchange_whole(dimension, self.width * inner, block),
                _ => self.exchange_strips(dimension, inner, block),
            };
            if let Err(error) = exchanged {
                match error.kind() {
                    // The neighbours in the other dimensions wait for this rank.
                    ErrorKind::BadCall { .. }
                    | ErrorKind::Truncated { .. }
                    | ErrorKind::WrongElements { .. } => differs = differs.and(Err(error)),
                    _ => return Err(error),
                }
            }
        }
        differs
    }

    /// Exchanges a dimension whose borders each lie in one piece of `len` elements.
    fn exchange_whole(&self, dimension: usize, len: usize, block: &mut [T]) -> Result<()> {
        let (below, rest) = block.split_at_mut(len);
        let (own, above) = rest.split_at_mut(rest.len() - len);
        let parts = [&own[..len], &own[own.len() - len..]];
        self.swap(dimension, parts, [below, above])
    }

    fn exchange_strips(&mut self, dimension: usize, inner: usize, block: &mut [T]) -> Result<()> {
        let (extent, width) = (self.extents[dimension], self.width);
        let mut strips = std::mem::take(&mut self.strips);
        let (slab, len) = (extent * inner, width * inner);
        let [down, up, below, above] = &mut strips;
        for (strip, from) in [(&mut *down, width), (&mut *up, extent - 2 * width)] {
            strip.clear();
            for slab in block.chunks_exact(slab.max(1)) {
                strip.extend_from_slice(&slab[from * inner..][..len]);
            }
        }
        below.resize(down.len(), T::zeroed());
        above.resize(down.len(), T::zeroed());
        let swapped = self.swap(dimension, [down, up], [below, above]);
        let neighbours = self.neighbours[dimension];
        if swapped.is_ok() {
            let both = [(neighbours.0, below, 0), (neighbours.1, above, extent - width)];
            for (_, strip, to) in both.into_iter().filter(|(neighbour, ..)| neighbour.is_some()) {
                let pieces = strip.chunks_exact(len.max(1));
                for (slab, piece) in block.chunks_exact_mut(slab.max(1)).zip(pieces) {
                    slab[to * inner..][..len].copy_from_slice(piece);
                }
            }
        }
        self.strips = strips;
        swapped
    }

    /// Sends down and up, receives from below and above.
    fn swap(&self, dimension: usize, [down, up]: [&[T]; 2], into: [&mut [T]; 2]) -> Result<()> {
        let (below, above) = self.neighbours[dimension];
        let [from_below, from_above] = into;
        let len = down.len();
        // What goes down comes from above.
        let falling = OWN_TAGS + 2 + 2 * dimension as u32;
        let rising = falling + 1;
        let mut exchange = self.communicator.exchange_in(Stream::Together);
        if let Some(below) = below {
            exchange.receive(from_below, below, rising);
            exchange.send(down, below, falling);
        }
        if let Some(above) = above {
            exchange.receive(from_above, above, falling);
            exchange.send(up, above, rising);
        }
        if let Some(other) = exchange.run()?.iter().find(|status| status.count != len) {
            let (rank, count) = (other.source, other.count);
            return Err(bad_call(format!(
                "rank {rank} sent a border of {count} elements where this rank has {len}: the blocks of neighbours must fit"
            )));
        }
        Ok(())
    }
}
