//! Ranks in a grid of one dimension or more.

use mp_core::{ErrorKind, Result};
use std::ops::{Deref, Range};

use crate::communicator::{
    agreement::together::Together, digest::digest, point_to_point::Communicator, sides::balanced,
};
use crate::errors::bad_call;

/// A communicator whose ranks lie in a grid (`MPI_Cart_create`). They are numbered row by row, so the last coordinate
/// changes fastest. It can be used as a [`Communicator`].
///
/// ```
/// use onchip::communicator::{Communicator, dims_create};
///
/// onchip::World::threads(6).run(|rank| {
///     let world = Communicator::world(rank);
///     let grid = world.cartesian(&dims_create(6, &[0, 0])?, &[true, false])?;
///     let grid = grid.expect("the grid has a place for every rank");
///     assert_eq!(grid.dimensions(), [3, 2]);
///     let [row, column] = grid.coordinates(grid.rank())?[..] else { unreachable!() };
///     let (above, below) = grid.shift(0, 1)?;
///     assert_eq!(above, grid.rank_at(&[row as isize - 1, column as isize]));
///     assert_eq!(below.is_some(), true, "it goes on at the other side");
///     assert_eq!(grid.shift(1, 1)?.0.is_none(), column == 0);
///     let whole_row = grid.sub(&[false, true])?;
///     assert_eq!((whole_row.size(), whole_row.rank()), (2, column));
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Cartesian {
    communicator: Communicator,
    dimensions: Vec<usize>,
    periodic: Vec<bool>,
}

impl Deref for Cartesian {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

impl Communicator {
    /// Makes a grid with the given number of ranks in each dimension (`MPI_Cart_create`). Periodic dimensions are
    /// closed to a ring. All ranks must call it with the same arguments. Ranks keep their order; those that have no
    /// place in the grid get `None`.
    ///
    /// # Errors
    /// As [`split`](Self::split); [`BadCall`](mp_core::ErrorKind::BadCall) for all ranks when the grid has no
    /// dimension, has more places than there are ranks, or was not described alike by all.
    pub fn cartesian(&self, dimensions: &[usize], periodic: &[bool]) -> Result<Option<Cartesian>> {
        let places = dimensions.iter().try_fold(1usize, |all, &one| all.checked_mul(one));
        let places = places.unwrap_or(usize::MAX);
        let sensible = !dimensions.is_empty()
            && dimensions.len() == periodic.len()
            && (1..=self.size()).contains(&places);
        let words = dimensions.iter().map(|&d| d as u64).chain(periodic.iter().map(|&p| p.into()));
        let agreed =
            self.decide_together(Together::Cartesian, [digest(words), sensible.into(), 0])?;
        if let Some(rank) = agreed.rows.iter().position(|row| row[1] == 0) {
            let asked = format!("dimensions {dimensions:?}, periodic {periodic:?}");
            let size = self.size();
            return Err(bad_call(format!(
                "rank {rank} asked for a grid that is empty, or has more places than the {size} ranks ({asked} here)"
            )));
        }
        if let Some(rank) = agreed.rows.iter().position(|row| *row != agreed.rows[0]) {
            return Err(bad_call(format!(
                "ranks 0 and {rank} described different grids: all ranks must describe the same one"
            )));
        }
        if self.rank() >= places {
            return Ok(None);
        }
        let communicator =
            self.of_ranks(0..places, agreed.context, &self.name_of(Together::Cartesian))?;
        let (dimensions, periodic) = (dimensions.to_vec(), periodic.to_vec());
        Ok(Some(Cartesian { communicator, dimensions, periodic }))
    }
}

impl Cartesian {
    /// Returns the communicator of the grid's ranks.
    pub fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    /// Returns the number of ranks in each dimension.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// Returns which dimensions are closed to a ring.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// Returns the coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Errors
    /// [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank).
    pub fn coordinates(&self, rank: usize) -> Result<Vec<usize>> {
        let size = self.size();
        if rank >= size {
            return Err(ErrorKind::NoSuchRank { rank, size }.into());
        }
        let mut rest = rank;
        let mut coordinates = vec![0; self.dimensions.len()];
        for (coordinate, &extent) in coordinates.iter_mut().zip(&self.dimensions).rev() {
            *coordinate = rest % extent;
            rest /= extent;
        }
        Ok(coordinates)
    }

    /// Returns the rank at these coordinates (`MPI_Cart_rank`). In periodic dimensions, coordinates wrap around.
    /// Returns `None` outside of the grid, and if the number of coordinates is wrong.
    pub fn rank_at(&self, coordinates: &[isize]) -> Option<usize> {
        if coordinates.len() != self.dimensions.len() {
            return None;
        }
        let mut rank = 0;
        for (i, &coordinate) in coordinates.iter().enumerate() {
            let extent = self.dimensions[i];
            let inside = if self.periodic[i] {
                coordinate.rem_euclid(extent as isize) as usize
            } else {
                usize::try_from(coordinate).ok().filter(|&inside| inside < extent)?
            };
            rank = rank * extent + inside;
        }
        Some(rank)
    }

    /// Returns the rank to receive from and the rank to send to when every rank sends `by` places up in a dimension
    /// (`MPI_Cart_shift`). They are `None` where the grid ends (`MPI_PROC_NULL`).
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when there is no such dimension.
    pub fn shift(&self, dimension: usize, by: isize) -> Result<(Option<usize>, Option<usize>)> {
        let mine = self.coordinates(self.rank())?;
        if dimension >= mine.len() {
            return Err(bad_call(format!(
                "there is no dimension {dimension}: the grid has {}, numbered from 0",
                mine.len()
            )));
        }
        let at = |distance: isize| {
            let mut there: Vec<isize> = mine.iter().map(|&c| c as isize).collect();
            there[dimension] = there[dimension].checked_add(distance)?;
            self.rank_at(&there)
        };
        Ok((by.checked_neg().and_then(at), at(by)))
    }

    /// Returns the ranks next to this one, below and above in each dimension (`MPI_Cart_shift` by 1 in all).
    pub fn neighbours(&self) -> Vec<(Option<usize>, Option<usize>)> {
        let dimensions = 0..self.dimensions.len();
        dimensions.filter_map(|dimension| self.shift(dimension, 1).ok()).collect()
    }

    /// Returns the part of the grid in which this rank lies, with only the dimensions that are kept (`MPI_Cart_sub`):
    /// for example its row, its column or its plane. All ranks must call it with the same arguments.
    ///
    /// # Errors
    /// As [`Communicator::split`]; [`BadCall`](mp_core::ErrorKind::BadCall) when the length of `keep` is not the number
    /// of dimensions.
    pub fn sub(&self, keep: &[bool]) -> Result<Self> {
        let mine = self.coordinates(self.rank())?;
        let mut color = 0;
        let (mut dimensions, mut periodic) = (Vec::new(), Vec::new());
        for (i, &extent) in self.dimensions.iter().enumerate() {
            if keep.get(i).copied().unwrap_or(false) {
                dimensions.push(extent);
                periodic.push(self.periodic[i]);
            } else {
                color = color * extent as u64 + mine[i] as u64;
            }
        }
        let communicator = self.split(Some(color), self.rank() as i64)?;
        let places = dimensions.iter().product::<usize>();
        match communicator {
            Some(communicator)
                if keep.len() == self.dimensions.len() && communicator.size() == places =>
            {
                Ok(Self { communicator, dimensions, periodic })
            }
            _ => Err(bad_call(format!(
                "{keep:?} must have one entry for each of the {} dimensions of the grid",
                self.dimensions.len()
            ))),
        }
    }
}

/// Returns a grid of this many ranks (`MPI_Dims_create`). Dimensions that are not 0 stay as they are. The others are
/// chosen, the largest first, so that the largest and the smallest differ as little as possible; of several such grids
/// the one whose smallest dimension is the largest is taken.
///
/// ```
/// assert_eq!(onchip::communicator::dims_create(12, &[0, 0])?, [4, 3]);
/// assert_eq!(onchip::communicator::dims_create(12, &[0, 2, 0])?, [3, 2, 2]);
/// assert!(onchip::communicator::dims_create(12, &[5, 0]).is_err());
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// # Errors
/// [`BadCall`](mp_core::ErrorKind::BadCall) when the given dimensions don't divide the number of ranks.
pub fn dims_create(ranks: usize, dimensions: &[usize]) -> Result<Vec<usize>> {
    let mut given = dimensions.iter().filter(|&&extent| extent > 0);
    let given = given.try_fold(1usize, |all, &one| all.checked_mul(one));
    let free = dimensions.iter().filter(|&&extent| extent == 0).count();
    let divided = given.filter(|&given| ranks > 0 && ranks.is_multiple_of(given));
    let sides = divided.and_then(|given| balanced(ranks / given, free));
    let Some(mut sides) = sides.map(Vec::into_iter) else {
        return Err(bad_call(format!(
            "{ranks} ranks don't fill a grid of dimensions {dimensions:?}: give dimensions whose product divides them"
        )));
    };
    Ok(dimensions
        .iter()
        .map(|&extent| if extent > 0 { extent } else { sides.next().unwrap_or(1) })
        .collect())
}

/// Returns which of `total` items belong to part `index` of `parts`, when all parts have the same number of items or
/// differ by one. The first parts have more.
///
/// ```
/// assert_eq!((0..3).map(|part| onchip::communicator::share(8, 3, part)).collect::<Vec<_>>(), [0..3, 3..6, 6..8]);
/// ```
///
/// # Panics
/// If there are no parts.
pub fn share(total: usize, parts: usize, index: usize) -> Range<usize> {
    let (least, more) = (total / parts, total % parts);
    let start = |index: usize| index * least + index.min(more);
    start(index)..start(index + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn grids_are_as_square_as_can_be() {
        for (ranks, dimensions, wanted) in [
            (1, &[0, 0, 0][..], &[1, 1, 1][..]),
            (7, &[0, 0], &[7, 1]),
            (8, &[0, 0, 0], &[2, 2, 2]),
            (36, &[0, 0], &[6, 6]),
            (60, &[0, 0, 0], &[5, 4, 3]),
            (60, &[0, 10, 0], &[3, 10, 2]),
            (20 * 18 * 14, &[0, 0, 0], &[21, 16, 15]),
            (6, &[6], &[6]),
        ] {
            assert_eq!(dims_create(ranks, dimensions).unwrap(), wanted);
        }
        for (ranks, dimensions) in [(0, &[0][..]), (6, &[4, 0]), (6, &[3]), (6, &[])] {
            assert!(dims_create(ranks, dimensions).is_err());
        }
    }

    proptest! {
        #[test]
        fn shares_are_even_and_whole(total in 0..1000usize, parts in 1..40usize) {
            let shares: Vec<_> = (0..parts).map(|part| share(total, parts, part)).collect();
            prop_assert_eq!((shares[0].start, shares[parts - 1].end), (0, total));
            prop_assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
            let lens: Vec<_> = shares.iter().map(Range::len).collect();
            prop_assert!(lens[0] - lens[parts - 1] <= 1 && lens.is_sorted_by(|a, b| a >= b));
        }
    }
}
