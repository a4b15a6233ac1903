//! The choice of CPUs for measurements.

use serde::{Deserialize, Serialize};

use super::Unmeasured;
use crate::topology::Topology;

/// CPUs, each of a separate core, in groups that share a last-level cache.
///
/// The largest group is the first. *Near* transfers are measured within it. *Far* transfers are measured between it and
/// another group, which is in another package if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seats {
    /// The CPUs by group. The first group exists and is not empty.
    pub groups: Vec<Vec<usize>>,
    /// The group that is far from the first.
    pub far: Option<usize>,
    /// A CPU that is near other memory than the first group's first CPU.
    pub far_memory: Option<usize>,
}

impl Seats {
    /// Returns the CPUs that this process may use, and no more than its quota lets run at the same time. On a hybrid
    /// part, the fast cores come first.
    pub fn of(topology: &Topology) -> Seats {
        let cpu_of = |core: usize| {
            let core = &topology.cores()[core];
            core.cpus.iter().find(|&cpu| topology.usable_cpus().contains(cpu))
        };
        let mut groups: Vec<(usize, Vec<usize>)> = topology
            .complexes()
            .iter()
            .map(|complex| {
                let mut cores = complex.cores.clone();
                cores.sort_by_key(|&core| topology.cores()[core].kind);
                (complex.package, cores.into_iter().filter_map(cpu_of).collect())
            })
            .filter(|(_, cpus): &(usize, Vec<usize>)| !cpus.is_empty())
            .collect();
        groups.sort_by_key(|(_, cpus)| std::cmp::Reverse(cpus.len()));
        let mut left = topology.usable_parallelism();
        for (_, cpus) in &mut groups {
            cpus.truncate(left);
            left -= cpus.len();
        }
        groups.retain(|(_, cpus)| !cpus.is_empty());
        let elsewhere = groups.iter().position(|(package, _)| *package != groups[0].0);
        let far = elsewhere.or_else(|| (groups.len() > 1).then_some(1));
        let groups: Vec<Vec<usize>> = groups.into_iter().map(|(_, cpus)| cpus).collect();
        let node_of = |cpu| topology.core_of(cpu).and_then(|core| topology.cores()[core].node);
        let here = groups.first().and_then(|cpus| node_of(cpus[0]));
        let other = |&cpu: &usize| node_of(cpu).is_some_and(|node| Some(node) != here);
        let far_memory = groups.iter().flatten().copied().find(other).filter(|_| here.is_some());
        Seats { groups, far, far_memory }
    }

    /// Returns the CPUs of the first group.
    pub fn group(&self) -> &[usize] {
        self.groups.first().map_or(&[], Vec::as_slice)
    }

    pub(super) fn first(&self) -> usize {
        self.group().first().copied().unwrap_or(0)
    }

    pub(super) fn near_pair(&self) -> Result<[usize; 2], Unmeasured> {
        match *self.group() {
            [one, other, ..] => Ok([one, other]),
            ref group => Err(Unmeasured::FewCores { needed: 2, cores: group.len() }),
        }
    }

    /// Returns the CPUs of the group that is far from the first.
    pub(super) fn far_group(&self) -> Option<&[usize]> {
        self.groups.get(self.far?).map(Vec::as_slice)
    }

    pub(super) fn far_pair(&self) -> Option<[usize; 2]> {
        Some([self.first(), *self.far_group()?.first()?])
    }
}
