//! Which ranks are near each other: the groups that the shapes of collective operations follow.
//!
//! A world that binds its ranks records the last-level cache and the package of each rank before it starts them
//! (`Rank::seat`). So all ranks, and any of them in another communicator, know the same groups. Ranks that are not
//! bound form one group.

use std::fmt;

use mp_core::topology::Seat;
use mp_model::cla::Placement;

use crate::members::Members;

/// The criterion by which ranks form groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Near {
    /// All ranks are one group.
    All,
    /// The last-level caches of the CPUs that the ranks are bound to.
    Caches,
    /// The packages, or sockets, of the CPUs that the ranks are bound to.
    Packages,
    /// The groups given in the settings.
    Given,
    /// This many consecutive ranks, whatever they are bound to; 0 counts as 1.
    Blocks(usize),
}

/// The places of the ranks, as all of them know them: by last-level caches and packages, if the
/// [world](mp_core::World::bind) has bound all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    ranks: usize,
    /// `None` if all ranks share a cache, or their caches are not known.
    caches: Option<Placement>,
    /// `None` also if the packages give the same groups as the caches.
    packages: Option<Placement>,
    given: Option<Placement>,
}

impl Near {
    /// Returns the criterion in two bits. Criteria that are never proposed have no bits of their own.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Near::All | Near::Blocks(_) => 0,
            Near::Caches => 1,
            Near::Packages => 2,
            Near::Given => 3,
        }
    }

    /// Returns the criterion that two bits stand for.
    pub(crate) fn read(bits: u64) -> Near {
        [Near::All, Near::Caches, Near::Packages, Near::Given][(bits & 3) as usize]
    }
}

impl Places {
    /// Returns the places of `ranks` ranks about which nothing is known.
    pub fn unknown(ranks: usize) -> Places {
        Places { ranks, caches: None, packages: None, given: None }
    }

    /// Returns the places of ranks with these seats.
    pub fn of_seats(seats: &[Option<Seat>]) -> Places {
        let groups = |of: fn(&Seat) -> usize| {
            let numbers: Option<Vec<usize>> =
                seats.iter().map(|seat| seat.as_ref().map(of)).collect();
            Placement::new(numbers?).ok().filter(|placement| placement.groups().len() > 1)
        };
        let (caches, packages) = (groups(|seat| seat.cache), groups(|seat| seat.package));
        let same = |packages: &Placement| {
            caches.as_ref().is_some_and(|caches| caches.groups() == packages.groups())
        };
        let packages = packages.filter(|packages| !same(packages));
        Places { ranks: seats.len(), caches, packages, given: None }
    }

    /// Returns the places of ranks in these groups.
    pub fn given(placement: Placement) -> Places {
        Places { given: Some(placement.clone()), ..Places::unknown(placement.ranks()) }
    }

    pub(crate) fn of(members: Members<'_>) -> Places {
        let (rank, count) = (members.rank(), members.count());
        let seats: Vec<_> = match members.named() {
            Some(ranks) if !ranks.is_empty() => ranks.iter().map(|&of| rank.seat(of)).collect(),
            _ => (0..count).map(|of| rank.seat(of)).collect(),
        };
        Places::of_seats(&seats)
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the criteria by which these ranks can form groups, the finest last.
    pub fn levels(&self) -> impl Iterator<Item = Near> {
        let known = [
            (Near::All, true),
            (Near::Packages, self.packages.is_some()),
            (Near::Caches, self.caches.is_some()),
            (Near::Given, self.given.is_some()),
        ];
        known.into_iter().filter(|level| level.1).map(|level| level.0)
    }

    /// Returns the finest groups, which the model treats as near.
    pub fn finest(&self) -> Placement {
        self.groups(self.levels().last().unwrap_or(Near::All))
    }

    /// Returns the groups, or one group if they are not known. Zero ranks count as one.
    pub fn groups(&self, near: Near) -> Placement {
        let ranks = self.ranks.max(1);
        let known = match near {
            Near::All => None,
            Near::Caches => self.caches.clone(),
            Near::Packages => self.packages.clone(),
            Near::Given => self.given.clone(),
            Near::Blocks(size) => {
                Placement::new((0..ranks).map(|rank| rank / size.max(1)).collect::<Vec<_>>()).ok()
            }
        };
        known.unwrap_or_else(|| Placement::one_group(ranks).expect("there is a rank"))
    }
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Near::All => f.write_str("all ranks"),
            Near::Caches => f.write_str("ranks of a cache"),
            Near::Packages => f.write_str("ranks of a package"),
            Near::Given => f.write_str("ranks of a given group"),
            Near::Blocks(size) => write!(f, "each {size} ranks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use mp_core::World;

    use super::*;

    fn seats(seats: &[(usize, usize)]) -> Places {
        let seat = |&(cache, package)| Some(Seat { cache, package });
        Places::of_seats(&seats.iter().map(seat).collect::<Vec<_>>())
    }

    #[test]
    fn levels_are_what_makes_a_difference() {
        let levels = |places: Places| places.levels().collect::<Vec<_>>();
        assert_eq!(levels(seats(&[(0, 0), (0, 0)])), [Near::All]);
        assert_eq!(levels(seats(&[(0, 0), (1, 0)])), [Near::All, Near::Caches]);
        // One cache in each package.
        assert_eq!(levels(seats(&[(0, 0), (1, 1), (0, 0)])), [Near::All, Near::Caches]);
        let both = seats(&[(0, 0), (1, 0), (2, 1), (3, 1)]);
        assert_eq!(both.groups(Near::Packages).groups(), [vec![0, 1], vec![2, 3]]);
        assert_eq!(both.finest().groups().len(), 4);
        assert_eq!(levels(both), [Near::All, Near::Packages, Near::Caches]);
        let seat = Some(Seat { cache: 0, package: 0 });
        let unknown = Places::of_seats(&[seat, None]);
        assert_eq!((unknown.ranks(), unknown.finest().groups().len()), (2, 1));
        assert_eq!(unknown.groups(Near::Caches).ranks(), 2);
        let given = Places::given(Placement::new(vec![4, 0, 4]).unwrap());
        assert_eq!(given.finest().groups(), [vec![1], vec![0, 2]]);
    }

    #[test]
    fn blocks_are_for_any_number_of_ranks() {
        let blocks = |ranks, size| Places::unknown(ranks).groups(Near::Blocks(size)).groups();
        assert_eq!(blocks(5, 2), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!((blocks(3, 0).len(), blocks(3, 9).len(), blocks(0, 1).len()), (3, 1, 1));
    }

    #[test]
    fn ranks_that_are_not_bound_are_one_group() {
        let one = World::threads(3).run(|rank| Ok(Places::of(rank.into()).finest().groups().len()));
        assert_eq!(one.unwrap(), [1; 3]);
    }
}
