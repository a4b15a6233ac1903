//! A machine as the model sees it: costs, and which ranks are near each other.

use thiserror::Error;

use super::Parameters;
use crate::Time;

/// Costs, and where the ranks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The costs of moving lines.
    pub parameters: Parameters,
    /// Where the ranks are.
    pub placement: Placement,
}

/// The group that each rank runs in, on a core of its own ("a one-to-one mapping of threads to cores", section 2).
///
/// A group is what [`Parameters::near`] was measured in: a socket, or the cores of one last-level
/// cache; whatever of the topology makes the difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    group_of: Vec<usize>,
}

/// Why ranks cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// There are no ranks.
    #[error("a placement can't have 0 ranks: name at least one")]
    NoRanks,
    /// The model knows what lines cost between cores, but not what sharing a core costs.
    #[error(
        "{ranks} ranks do not fit on {cores} cores: the model has one core for each rank, so name fewer ranks"
    )]
    MoreRanksThanCores {
        /// The number of ranks.
        ranks: usize,
        /// The number of cores.
        cores: usize,
    },
}

impl Placement {
    /// Creates a placement from each rank's group, in rank order. Groups may have any numbers.
    ///
    /// # Errors
    /// [`PlacementError::NoRanks`].
    pub fn new(group_of: impl Into<Vec<usize>>) -> Result<Placement, PlacementError> {
        let group_of = group_of.into();
        if group_of.is_empty() { Err(PlacementError::NoRanks) } else { Ok(Placement { group_of }) }
    }

    /// Places all ranks in one group.
    ///
    /// # Errors
    /// [`PlacementError::NoRanks`].
    pub fn one_group(ranks: usize) -> Result<Placement, PlacementError> {
        Placement::new(vec![0; ranks])
    }

    /// Fills one group after the other, as in the paper's experiments (section 2.5). `cores` contains the number of
    /// cores of each group.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn packed(ranks: usize, cores: &[usize]) -> Result<Placement, PlacementError> {
        let all = cores.iter().sum();
        if ranks > all {
            return Err(PlacementError::MoreRanksThanCores { ranks, cores: all });
        }
        let groups = cores.iter().enumerate();
        Placement::new(
            groups
                .flat_map(|(group, &cores)| std::iter::repeat_n(group, cores))
                .take(ranks)
                .collect::<Vec<_>>(),
        )
    }

    /// Returns the number of ranks: at least one.
    pub fn ranks(&self) -> usize {
        self.group_of.len()
    }

    /// Returns a rank's group.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn group(&self, rank: usize) -> usize {
        self.group_of[rank]
    }

    /// Returns whether two ranks are in one group.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn near(&self, rank: usize, other: usize) -> bool {
        self.group_of[rank] == self.group_of[other]
    }

    /// Returns the ranks of each group, groups in order of their numbers. None is empty.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = std::collections::BTreeMap::<usize, Vec<usize>>::new();
        for (rank, &group) in self.group_of.iter().enumerate() {
            groups.entry(group).or_default().push(rank);
        }
        groups.into_values().collect()
    }
}

impl Machine {
    /// Returns the paper's dual-socket machine with `ranks` of its 16 cores in use, packed.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn sandy_bridge(ranks: usize) -> Result<Machine, PlacementError> {
        let placement = Placement::packed(ranks, &[8, 8])?;
        Ok(Machine { parameters: Parameters::SANDY_BRIDGE, placement })
    }

    /// Returns the paper's Xeon Phi with `ranks` of its 60 cores in use.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn xeon_phi(ranks: usize) -> Result<Machine, PlacementError> {
        let placement = Placement::packed(ranks, &[60])?;
        Ok(Machine { parameters: Parameters::XEON_PHI, placement })
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.placement.ranks()
    }

    /// Returns whether a line with its home in the group of rank `home` goes from one rank to another without leaving a
    /// group (rule 4 of section 2.4).
    ///
    /// Between two ranks of one group, a line whose home is in another group crosses as well. That gives equation 7 its
    /// q R_Q.
    pub fn near(&self, from: usize, to: usize, home: usize) -> bool {
        self.placement.near(from, to) && self.placement.near(to, home)
    }

    /// Returns the time of a transfer between two ranks: R_R or R_Q.
    pub fn transfer(&self, from: usize, to: usize, home: usize) -> Time {
        self.parameters.link(self.near(from, to, home)).transfer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_fills_one_after_the_other() {
        let placement = Placement::packed(10, &[8, 8]).unwrap();
        assert_eq!(placement.groups(), [(0..8).collect::<Vec<_>>(), vec![8, 9]]);
        assert!(placement.near(0, 7) && !placement.near(7, 8));
        assert_eq!(Placement::packed(3, &[2, 0, 1]).unwrap().groups(), [vec![0, 1], vec![2]]);
    }

    #[test]
    fn ranks_without_cores_are_refused() {
        let error = PlacementError::MoreRanksThanCores { ranks: 17, cores: 16 };
        assert_eq!(Machine::sandy_bridge(17), Err(error));
        let text = "17 ranks do not fit on 16 cores: the model has one core for each rank, so name fewer ranks";
        assert_eq!(error.to_string(), text);
        assert_eq!(Machine::xeon_phi(0), Err(PlacementError::NoRanks));
        assert_eq!(Placement::one_group(0), Err(PlacementError::NoRanks));
        assert_eq!(Placement::packed(0, &[]), Err(PlacementError::NoRanks));
    }
}
