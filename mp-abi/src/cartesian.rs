//! Grids of ranks.

use std::ffi::c_int;

use crate::error::{Class, Error};

/// The grid of a communicator. The last dimension varies fastest from rank to rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cartesian {
    pub dimensions: Vec<c_int>,
    pub periodic: Vec<bool>,
}

impl Cartesian {
    /// Makes a grid of these dimensions, which are periodic where the number is not 0.
    pub fn new(dimensions: &[c_int], periodic: &[c_int]) -> Result<Self, Error> {
        if let Some(dimension) = dimensions.iter().find(|&&dimension| dimension < 1) {
            return Err(Error::new(Class::Dims, format!("{dimension} is no size of a dimension")));
        }
        let periodic = periodic.iter().map(|&number| number != 0).collect();
        Ok(Self { dimensions: dimensions.to_vec(), periodic })
    }

    /// Returns the number of ranks: 1 for a grid without dimensions.
    pub fn ranks(&self) -> Result<c_int, Error> {
        let product = self.dimensions.iter().try_fold(1, |all: c_int, &one| all.checked_mul(one));
        product
            .ok_or_else(|| Error::new(Class::Dims, "a grid of these dimensions has too many ranks"))
    }

    /// Returns where a rank is.
    pub fn coordinates(&self, rank: c_int) -> Vec<c_int> {
        let mut rest = rank;
        let mut all: Vec<_> = self
            .dimensions
            .iter()
            .rev()
            .map(|&dimension| {
                let at = rest % dimension;
                rest /= dimension;
                at
            })
            .collect();
        all.reverse();
        all
    }

    /// Returns the rank at a place. Coordinates outside of a periodic dimension are taken around; outside of another
    /// one there is no rank.
    pub fn rank(&self, coordinates: &[c_int]) -> Option<c_int> {
        let mut rank = 0;
        for ((&at, &dimension), &periodic) in
            coordinates.iter().zip(&self.dimensions).zip(&self.periodic)
        {
            let at = match periodic {
                true => at.rem_euclid(dimension),
                false if (0..dimension).contains(&at) => at,
                false => return None,
            };
            rank = rank * dimension + at;
        }
        Some(rank)
    }

    /// Returns the ranks from which and to which a rank shifts data along a dimension, where there are such ranks.
    pub fn shift(&self, rank: c_int, dimension: usize, by: c_int) -> [Option<c_int>; 2] {
        [by.checked_neg(), Some(by)].map(|by| {
            let mut place = self.coordinates(rank);
            place[dimension] = place[dimension].checked_add(by?)?;
            self.rank(&place)
        })
    }

    /// Returns the grid of the dimensions that are kept, and which of those grids a rank is in.
    pub fn part(&self, rank: c_int, kept: &[c_int]) -> (Self, c_int) {
        let mut part = Self { dimensions: Vec::new(), periodic: Vec::new() };
        let mut color = 0;
        for (place, at) in self.coordinates(rank).into_iter().enumerate() {
            match kept.get(place) {
                Some(0) | None => color = color * self.dimensions[place] + at,
                Some(_) => {
                    part.dimensions.push(self.dimensions[place]);
                    part.periodic.push(self.periodic[place]);
                }
            }
        }
        (part, color)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_places_and_neighbours() {
        let grid = Cartesian::new(&[2, 3], &[0, 1]).unwrap();
        assert_eq!(grid.ranks().unwrap(), 6);
        for rank in 0..6 {
            assert_eq!(grid.coordinates(rank), [rank / 3, rank % 3]);
            assert_eq!(grid.rank(&grid.coordinates(rank)), Some(rank));
        }
        assert_eq!(
            (grid.rank(&[1, 5]), grid.rank(&[1, -1]), grid.rank(&[2, 0])),
            (Some(5), Some(5), None)
        );
        assert_eq!(grid.shift(0, 0, 1), [None, Some(3)]);
        assert_eq!(grid.shift(0, 1, 1), [Some(2), Some(1)]);
        assert_eq!(grid.shift(0, 1, c_int::MIN), [None, Some(1)]);
        let (rows, color) = grid.part(4, &[0, 1]);
        assert_eq!((rows.dimensions, rows.periodic, color), (vec![3], vec![true], 1));
        let (one, color) = grid.part(4, &[0, 0]);
        assert_eq!((one.ranks().unwrap(), color), (1, 4));
        assert!(Cartesian::new(&[0], &[0]).is_err());
        assert!(Cartesian::new(&[1 << 20, 1 << 20], &[0, 0]).unwrap().ranks().is_err());
    }
}
