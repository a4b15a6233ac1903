//! Sets of CPUs.

use std::{
    collections::BTreeSet,
    fmt,
    ops::{BitAnd, Sub},
};

/// A set of CPUs. It is displayed and parsed in the kernel's format: `0,2-5`, and nothing for the empty set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(BTreeSet<usize>);

impl CpuSet {
    /// Returns how many CPUs are in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `cpu` is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds `cpu`. Returns whether it was not there before.
    pub fn insert(&mut self, cpu: usize) -> bool {
        self.0.insert(cpu)
    }

    /// Returns the lowest CPU.
    pub fn first(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// Returns the highest CPU.
    pub fn last(&self) -> Option<usize> {
        self.0.last().copied()
    }

    /// Returns the set as text for a sentence: `CPU 3`, `CPUs 0,2-5`.
    pub(super) fn spelled(&self) -> String {
        if self.len() == 1 { format!("CPU {self}") } else { format!("CPUs {self}") }
    }

    /// Returns the CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, cpus: I) {
        self.0.extend(cpus);
    }
}

/// The CPUs that are in both sets.
impl BitAnd for &CpuSet {
    type Output = CpuSet;

    fn bitand(self, other: &CpuSet) -> CpuSet {
        CpuSet(&self.0 & &other.0)
    }
}

/// The CPUs that are in the first set but not in the second.
impl Sub for &CpuSet {
    type Output = CpuSet;

    fn sub(self, other: &CpuSet) -> CpuSet {
        CpuSet(&self.0 - &other.0)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}
