//! Sets of ranks, in an order.

use crate::error::{ErrorKind, Result};

/// Ranks in an order, without a way to communicate (`MPI_Group`). Made from a communicator, or from
/// other groups; [`Communicator::create`](crate::Communicator::create) makes it one.
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
    /// Of these ranks of the world, as rank `me` of the world has it.
    pub(crate) fn new(ranks: Vec<u32>, me: u32) -> Self {
        Self { ranks, me }
    }

    pub(crate) fn world_ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// How many ranks it has (`MPI_Group_size`).
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// This rank's place in it (`MPI_Group_rank`).
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
                return Err(ErrorKind::Misuse(format!("rank {rank} named twice")).into());
            }
            named.push(world);
        }
        Ok(named)
    }

    /// These of its ranks, in this order (`MPI_Group_incl`).
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), and [`Misuse`](crate::ErrorKind::Misuse) for a rank named twice.
    pub fn include(&self, ranks: &[usize]) -> Result<Self> {
        Ok(self.with(self.named(ranks)?))
    }

    /// All but these of its ranks (`MPI_Group_excl`).
    ///
    /// # Errors
    /// As [`include`](Self::include).
    pub fn exclude(&self, ranks: &[usize]) -> Result<Self> {
        let without = self.named(ranks)?;
        Ok(self.with(kept(&self.ranks, |rank| !without.contains(&rank))))
    }

    /// Its ranks, and then those of the other that it has not (`MPI_Group_union`).
    pub fn union(&self, other: &Self) -> Self {
        let more = kept(&other.ranks, |rank| !self.ranks.contains(&rank));
        self.with([&self.ranks[..], &more].concat())
    }

    /// Those of its ranks that the other has, too (`MPI_Group_intersection`).
    pub fn intersection(&self, other: &Self) -> Self {
        self.with(kept(&self.ranks, |rank| other.ranks.contains(&rank)))
    }

    /// Those of its ranks that the other has not (`MPI_Group_difference`).
    pub fn difference(&self, other: &Self) -> Self {
        self.with(kept(&self.ranks, |rank| !other.ranks.contains(&rank)))
    }

    /// The places in the other group of these of its ranks (`MPI_Group_translate_ranks`). `None`
    /// for one that the other has not, or that there is not.
    pub fn translate(&self, ranks: &[usize], other: &Self) -> Vec<Option<usize>> {
        ranks.iter().map(|&rank| other.place(*self.ranks.get(rank)?)).collect()
    }

    /// Whether both have the same ranks, in whatever order (`MPI_SIMILAR`).
    pub fn is_similar(&self, other: &Self) -> bool {
        self.size() == other.size() && self.difference(other).size() == 0
    }
}

fn kept(ranks: &[u32], keep: impl Fn(u32) -> bool) -> Vec<u32> {
    ranks.iter().copied().filter(|&rank| keep(rank)).collect()
}
