//! Groups: ordered sets of ranks of the world.

use std::{ffi::c_int, ptr::without_provenance_mut, rc::Rc};

use crate::{
    constants::{MPI_IDENT, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL},
    error::{Class, Error},
    types::Handle,
};

const GROUP_EMPTY: usize = 0x109;

/// `MPI_Group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The ranks' numbers in the world.
    pub ranks: Vec<usize>,
    /// This rank's number in the world.
    pub me: usize,
}

impl Group {
    /// Returns a handle, which has this reference until it is [released](Self::release).
    pub fn into_handle(self) -> Handle {
        match self.ranks[..] {
            [] => without_provenance_mut(GROUP_EMPTY),
            _ => Rc::into_raw(Rc::new(self)).cast_mut().cast(),
        }
    }

    /// Returns the group of a handle.
    ///
    /// # Safety
    /// The handle is one of a group that is not freed during `'a`, or any number below 4096.
    pub unsafe fn look<'a>(handle: Handle) -> Result<&'a Self, Error> {
        static EMPTY: Group = Group { ranks: Vec::new(), me: 0 };
        match handle.addr() {
            GROUP_EMPTY => Ok(&EMPTY),
            ..4096 => Err(Error::new(Class::Group, "the handle is not one of a group")),
            // SAFETY: the handle came from `into_handle`, and has a reference.
            _ => Ok(unsafe { &*handle.cast_const().cast::<Self>() }),
        }
    }

    /// Takes back the reference that a handle has.
    ///
    /// # Safety
    /// As for [`look`](Self::look), and the handle is not used afterwards.
    pub unsafe fn release(handle: Handle) -> Result<(), Error> {
        match handle.addr() {
            GROUP_EMPTY => Ok(()),
            ..4096 => Err(Error::new(Class::Group, "the handle is not one of a group")),
            _ => {
                // SAFETY: the handle came from `into_handle`.
                drop(unsafe { Rc::from_raw(handle.cast_const().cast::<Self>()) });
                Ok(())
            }
        }
    }

    /// Returns this rank's place in the group, or `MPI_UNDEFINED`.
    pub fn rank(&self) -> c_int {
        self.place(self.me)
    }

    /// Returns the place of a rank of the world, or `MPI_UNDEFINED`.
    pub fn place(&self, world: usize) -> c_int {
        let place = self.ranks.iter().position(|&rank| rank == world);
        place.map_or(MPI_UNDEFINED, |place| place as c_int)
    }

    /// Returns the number in the world of a rank of the group.
    pub fn world(&self, rank: c_int) -> Result<usize, Error> {
        let world = usize::try_from(rank).ok().and_then(|rank| self.ranks.get(rank));
        world.copied().ok_or_else(|| {
            let size = self.ranks.len();
            Error::new(Class::Rank, format!("there is no rank {rank} in a group of {size}"))
        })
    }

    pub fn with(&self, ranks: Vec<usize>) -> Self {
        Self { ranks, me: self.me }
    }

    /// Returns the ranks of the world that these ranks of the group are.
    fn named(&self, ranks: impl IntoIterator<Item = c_int>) -> Result<Vec<usize>, Error> {
        let mut named = Vec::new();
        let mut taken = vec![false; self.ranks.len()];
        for rank in ranks {
            named.push(self.world(rank)?);
            if std::mem::replace(&mut taken[rank as usize], true) {
                return Err(Error::new(Class::Rank, format!("rank {rank} is named twice")));
            }
        }
        Ok(named)
    }

    pub fn including(&self, ranks: impl IntoIterator<Item = c_int>) -> Result<Self, Error> {
        Ok(self.with(self.named(ranks)?))
    }

    pub fn excluding(&self, ranks: impl IntoIterator<Item = c_int>) -> Result<Self, Error> {
        let without = self.named(ranks)?;
        Ok(self.only(|rank| !without.contains(&rank)))
    }

    fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        self.with(self.ranks.iter().copied().filter(|&rank| keep(rank)).collect())
    }

    pub fn union(&self, other: &Self) -> Self {
        let more = other.only(|rank| !self.ranks.contains(&rank));
        let ranks = [&self.ranks[..], &more.ranks].concat();
        // An empty group does not know this rank.
        Self { ranks, me: if self.ranks.is_empty() { other.me } else { self.me } }
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.only(|rank| other.ranks.contains(&rank))
    }

    pub fn difference(&self, other: &Self) -> Self {
        self.only(|rank| !other.ranks.contains(&rank))
    }

    /// Returns `MPI_IDENT`, `MPI_SIMILAR` or `MPI_UNEQUAL`.
    pub fn compare(&self, other: &Self) -> c_int {
        if self.ranks == other.ranks {
            return MPI_IDENT;
        }
        let same = self.ranks.len() == other.ranks.len() && self.difference(other).ranks.is_empty();
        if same { MPI_SIMILAR } else { MPI_UNEQUAL }
    }

    /// Returns the ranks in ranges of first, last and stride.
    pub fn in_ranges(ranges: &[[c_int; 3]]) -> Result<Vec<c_int>, Error> {
        let mut ranks = Vec::new();
        for &[first, last, stride] in ranges {
            if stride == 0 || (last - first).signum() * stride.signum() < 0 {
                let text = format!("the ranks from {first} to {last} in steps of {stride}");
                return Err(Error::new(Class::Arg, text));
            }
            let count = (last - first) / stride;
            ranks.extend((0..=count).map(|step| first + step * stride));
        }
        Ok(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(ranks: &[usize]) -> Group {
        Group { ranks: ranks.to_vec(), me: 2 }
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let (a, b) = (group(&[4, 2, 0]), group(&[0, 1, 2]));
        assert_eq!(a.union(&b).ranks, [4, 2, 0, 1]);
        assert_eq!(a.intersection(&b).ranks, [2, 0]);
        assert_eq!(a.difference(&b).ranks, [4]);
        assert_eq!((a.rank(), b.rank(), group(&[0]).rank()), (1, 2, MPI_UNDEFINED));
        assert_eq!(a.including([2, 0]).unwrap().ranks, [0, 4]);
        assert_eq!(a.excluding([1]).unwrap().ranks, [4, 0]);
        assert!(a.including([0, 0]).is_err() && a.including([3]).is_err());
    }

    #[test]
    fn comparisons() {
        assert_eq!(group(&[1, 2]).compare(&group(&[1, 2])), MPI_IDENT);
        assert_eq!(group(&[1, 2]).compare(&group(&[2, 1])), MPI_SIMILAR);
        assert_eq!(group(&[1, 2]).compare(&group(&[2, 3])), MPI_UNEQUAL);
    }

    #[test]
    fn ranges() {
        assert_eq!(Group::in_ranges(&[[0, 6, 3], [5, 1, -2]]).unwrap(), [0, 3, 6, 5, 3, 1]);
        assert_eq!(Group::in_ranges(&[[2, 2, 1]]).unwrap(), [2]);
        assert!(
            Group::in_ranges(&[[0, 4, -1]]).is_err() && Group::in_ranges(&[[0, 4, 0]]).is_err()
        );
    }
}
