//! The parts of a machine, and which of them this process may use.

use std::{collections::BTreeMap, fmt};

use super::{allowance::Allowance, cpuset::CpuSet, error::Error};

/// The parts of the machine, and which of them this process may use.
///
/// This is a snapshot. It does not follow later changes of the online CPUs or the quota.
#[derive(Clone, Debug)]
pub struct Topology {
    pub(super) packages: Vec<Package>,
    pub(super) nodes: Vec<NumaNode>,
    pub(super) complexes: Vec<Complex>,
    pub(super) cores: Vec<Core>,
    pub(super) caches: Vec<Cache>,
    pub(super) core_of_cpu: BTreeMap<usize, usize>,
    pub(super) online: CpuSet,
    pub(super) offline: CpuSet,
    pub(super) allowance: Allowance,
    pub(super) usable: CpuSet,
}

/// A processor package (socket).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Package {
    /// The kernel's number of the package; numbers may have gaps.
    pub id: i64,
    /// Indices into [`Topology::complexes`], ascending.
    pub complexes: Vec<usize>,
}

/// A NUMA node: CPUs with the same near memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumaNode {
    /// The kernel's number of the node.
    pub id: usize,
    /// Its online CPUs; empty for a node that is memory only.
    pub cpus: CpuSet,
}

/// What a CPU shares with others: ranks with the same values are near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// Its last-level cache, as an index into [`Topology::complexes`].
    pub cache: usize,
    /// Its package (socket), as an index into [`Topology::packages`].
    pub package: usize,
}

/// The cores under one last-level cache.
///
/// If no shared cache is known, the cores of a package in one NUMA node form a complex.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Complex {
    /// Index into [`Topology::packages`].
    pub package: usize,
    /// [Number](NumaNode::id) of the NUMA node of its first core.
    pub node: Option<usize>,
    /// Index into [`Topology::caches`] of the cache its cores share.
    pub cache: Option<usize>,
    /// Indices into [`Topology::cores`], ascending.
    pub cores: Vec<usize>,
}

/// A physical core with at least one online CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Core {
    /// Index into [`Topology::complexes`].
    pub complex: usize,
    /// [Number](NumaNode::id) of the NUMA node.
    pub node: Option<usize>,
    /// How fast the core is, compared with the machine's other cores.
    pub kind: CoreKind,
    /// Its online CPUs: SMT siblings of one another.
    pub cpus: CpuSet,
}

/// The kinds of core of a hybrid processor, the fastest first. If all cores are alike, all are
/// [`Performance`](CoreKind::Performance) cores.
///
/// The kinds are taken from the device lists `/sys/devices/{cpu_core,cpu_atom,cpu_lowpower}/cpus`, else from
/// `cpuN/cpu_capacity`, else from `cpuN/cpufreq/cpuinfo_max_freq`. With capacities or frequencies, a new kind begins
/// where the number drops by more than 15%: favoured cores of one kind differ by up to 12%, and the closest two kinds
/// on the market by 19%.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoreKind {
    /// The fastest kind.
    Performance,
    /// Neither the fastest nor the slowest of three kinds or more.
    Middle,
    /// The slowest of two kinds or more.
    Efficiency,
}

/// One cache, listed once for all the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// The cache's level: 1 for the one closest to the core.
    pub level: u32,
    /// The contents of the cache.
    pub kind: CacheKind,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The size of one line in bytes.
    pub line_size: Option<u64>,
    /// The online CPUs that share it.
    pub cpus: CpuSet,
}

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

impl Topology {
    /// Returns the same machine for a process that may use only those of `cpus` that are usable now. Use it to place a
    /// second world beside a first, or to leave a core to something else.
    ///
    /// # Errors
    /// [`Error::NothingUsable`] if none of `cpus` is usable.
    pub fn confined_to(&self, cpus: &CpuSet) -> Result<Self, Error> {
        let usable = &self.usable & cpus;
        if usable.is_empty() {
            return Err(Error::NothingUsable {
                affinity: cpus.clone(),
                online: self.usable.clone(),
            });
        }
        let mut confined = self.clone();
        confined.allowance.affinity = Some(usable.clone());
        confined.usable = usable;
        Ok(confined)
    }

    /// Returns the packages, ordered by number.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Returns the NUMA nodes, ordered by number; empty if the kernel knows of none.
    pub fn nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// Returns the complexes, ordered by package and first CPU.
    pub fn complexes(&self) -> &[Complex] {
        &self.complexes
    }

    /// Returns the cores, ordered by complex and first CPU.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Returns the caches, ordered by level, kind and first CPU; empty if the kernel reports none.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Returns the cache and the package of a CPU; `None` for a CPU that is offline or does not exist.
    pub fn seat(&self, cpu: usize) -> Option<Seat> {
        let cache = self.cores.get(self.core_of(cpu)?)?.complex;
        Some(Seat { cache, package: self.complexes.get(cache)?.package })
    }

    /// Returns the core that a CPU belongs to, as an index into [`cores`](Self::cores); `None` for a CPU that is
    /// offline or does not exist.
    pub fn core_of(&self, cpu: usize) -> Option<usize> {
        self.core_of_cpu.get(&cpu).copied()
    }

    /// Returns the CPUs that run. Never empty.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Returns the CPUs that are present but switched off. The kernel does not tell which core they belong to.
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// Returns the limits that affinity, cpuset and quota set for this process.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Returns the CPUs that are online and in the affinity mask. Never empty.
    pub fn usable_cpus(&self) -> &CpuSet {
        &self.usable
    }

    /// Returns how many physical cores have a usable CPU.
    pub fn usable_cores(&self) -> usize {
        self.cores.iter().filter(|core| !(&core.cpus & &self.usable).is_empty()).count()
    }

    /// Returns how many threads can make progress at once: the usable CPUs, or the quota rounded up if that is smaller.
    /// At least 1.
    ///
    /// This is the number of "cores the world may use". A world with more threads than this must let others run while
    /// it waits.
    pub fn usable_parallelism(&self) -> usize {
        self.allowance.limit(self.usable.len())
    }

    /// Returns whether cores differ in kind.
    pub fn is_hybrid(&self) -> bool {
        self.cores.iter().any(|core| core.kind != CoreKind::Performance)
    }
}

impl fmt::Display for CoreKind {
    /// Writes one letter: `P`, `M` or `E`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CoreKind::Performance => "P",
            CoreKind::Middle => "M",
            CoreKind::Efficiency => "E",
        })
    }
}
