//! Ordered sets of ranks.

use crate::errors::bad_call;
use mp_core::{ErrorKind, Result};

/// Ranks in an order, without a way to communicate (`MPI_Group`). It is made from a communicator or from other groups;
/// [`Communicator::create`](crate::communicator::Communicator::create) makes it a communicator.
///
/// ```
/// use onchip::Communicator;
///
/// onchip::World::threads(4).run(|rank| {
///     let world = Communicator::world(rank);
///     let all = world.group();
///     let odd = all.include(&[3, 1])?;
///     let even = all.difference(&odd);
///     assert_eq!(even, all.exclude(&[1, 3])?);
///     assert_eq!(odd.translate(&[0, 1], &all), [Some(3), Some(1)]);
///     assert_eq!(world.create(&odd)?.map(|odd| odd.rank()), odd.rank());
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Ranks of the world.
    ranks: Vec<u32>,
    me: u32,
}

impl Group {
    /// Makes a group of these ranks of the world, as seen by rank `me` of the world.
    pub(crate) fn new(ranks: Vec<u32>, me: u32) -> Self {
        Self { ranks, me }
    }

    pub(crate) fn world_ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Returns the number of ranks in the group (`MPI_Group_size`).
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Returns this rank's place in the group (`MPI_Group_rank`).
    pub fn rank(&self) -> Option<usize> {
        self.place(self.me)
    }

    fn place(&self, world: u32) -> Option<usize> {
        self.ranks.iter().position(|&rank| rank == world)
    }

    fn with(&self, ranks: Vec<u32>) -> Self {
        Self { ranks, me: self.me }
    }

    fn named(&self, ranks: &[usize]) -> Result<Vec<u32>> {
        let mut named = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let world = *self
                .ranks
                .get(rank)
                .ok_or_else(|| ErrorKind::NoSuchRank { rank, size: self.ranks.len() })?;
            if named.contains(&world) {
                return Err(bad_call(format!("rank {rank} is named twice")));
            }
            named.push(world);
        }
        Ok(named)
    }

    /// Returns a group of these ranks of the group, in this order (`MPI_Group_incl`).
    ///
    /// # Errors
    /// [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank), and [`BadCall`](mp_core::ErrorKind::BadCall) for a rank named
    /// twice.
    pub fn include(&self, ranks: &[usize]) -> Result<Self> {
        Ok(self.with(self.named(ranks)?))
    }

    /// Returns a group of all ranks of the group except these (`MPI_Group_excl`).
    ///
    /// # Errors
    /// As [`include`](Self::include).
    pub fn exclude(&self, ranks: &[usize]) -> Result<Self> {
        let without = self.named(ranks)?;
        Ok(self.with(kept(&self.ranks, |rank| !without.contains(&rank))))
    }

    /// Returns a group of this group's ranks, followed by those of the other group that this one lacks
    /// (`MPI_Group_union`).
    pub fn union(&self, other: &Self) -> Self {
        let more = kept(&other.ranks, |rank| !self.ranks.contains(&rank));
        self.with([&self.ranks[..], &more].concat())
    }

    /// Returns a group of this group's ranks that are also in the other group (`MPI_Group_intersection`).
    pub fn intersection(&self, other: &Self) -> Self {
        self.with(kept(&self.ranks, |rank| other.ranks.contains(&rank)))
    }

    /// Returns a group of this group's ranks that are not in the other group (`MPI_Group_difference`).
    pub fn difference(&self, other: &Self) -> Self {
        self.with(kept(&self.ranks, |rank| !other.ranks.contains(&rank)))
    }

    /// Returns the places in the other group of these ranks of the group (`MPI_Group_translate_ranks`). A place is
    /// `None` if the other group does not have the rank, or if there is no such rank.
    pub fn translate(&self, ranks: &[usize], other: &Self) -> Vec<Option<usize>> {
        ranks.iter().map(|&rank| other.place(*self.ranks.get(rank)?)).collect()
    }

    /// Returns whether both groups have the same ranks, in any order (`MPI_SIMILAR`).
    pub fn is_similar(&self, other: &Self) -> bool {
        self.size() == other.size() && self.difference(other).size() == 0
    }
}

fn kept(ranks: &[u32], keep: impl Fn(u32) -> bool) -> Vec<u32> {
    ranks.iter().copied().filter(|&rank| keep(rank)).collect()
}
