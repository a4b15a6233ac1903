//! The machine: its packages, NUMA nodes, cores, hardware threads and caches; how much of it this process may use; and
//! where the ranks of a world go.
//!
//! [`Topology::read`] reads `/sys` and `/proc` once. [`Plan::for_ranks`] decides where ranks run, and [`KtPlan::new`]
//! decides where their communication threads run. [`pin_current_thread`] moves a thread there, and [`Topology::draw`]
//! draws the machine and the plan as text.
//!
//! ```
//! use onchip::topology::{Bind, Plan, Topology, pin_current_thread};
//!
//! let topology = Topology::read()?;
//! let plan = Plan::for_ranks(&topology, 2, &Bind::Auto)?;
//! println!("{}", topology.draw(Some(&plan)));
//! if let Some(cpu) = plan.places()[0].cpu {
//!     pin_current_thread(cpu)?;
//! }
//! # Ok::<(), onchip::topology::Error>(())
//! ```
//!
//! # Words
//!
//! A *CPU* is one hardware thread, which Linux numbers. A *core* is a physical core with one or more CPUs (SMT
//! siblings). A *complex* is the set of cores under one last-level cache; a message between them never leaves that
//! cache. *Usable* CPUs are online and in the affinity mask.
//!
//! # What is read, and what is done about gaps
//!
//! | fact | from | when it cannot be read |
//! |---|---|---|
//! | CPUs, online and present | `/sys/devices/system/cpu/{online,present}` | the affinity mask |
//! | SMT siblings | `cpuN/topology/{core_cpus_list,thread_siblings_list}` | every CPU is a core |
//! | package | `cpuN/topology/physical_package_id` | package 0 |
//! | NUMA nodes | `/sys/devices/system/node/nodeN/cpulist` | none |
//! | caches | `cpuN/cache/indexM/` | none |
//! | kinds of core | [see `CoreKind`](CoreKind) | all the same |
//! | affinity | `sched_getaffinity`, `/proc/self/status` | the cpuset, else all online CPUs |
//! | cpuset, quota | cgroup v2 and v1, from the process's group to the root | none |
//!
//! If a file is missing or can't be read, its fact is unknown, and the last column applies: containers hide parts of
//! `/sys`, and old kernels lack some. If a file is there and makes no sense, the error names the file and its content,
//! because a guess would place ranks wrongly without any sign of it.
#![forbid(unsafe_code)]

mod allowance;
mod cgroup;
mod communication;
mod cpulist;
mod draw;
mod error;
mod pin;
mod placement;
mod read;
mod source;

pub use allowance::Allowance;
pub use cgroup::Quota;
pub use communication::{Inline, Kt, KtPlacement, KtPlan, Role};
pub use cpulist::CpuSet;
pub use draw::Drawing;
pub use error::Error;
pub(crate) use pin::start_in_blocks;
pub use pin::{confine_current_thread, current_affinity, pin_current_thread};
pub use placement::{Bind, Place, Plan, Unbound};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// The parts of the machine, and which of them this process may use.
///
/// This is a snapshot. It does not follow later changes of the online CPUs or the quota.
#[derive(Clone, Debug)]
pub struct Topology {
    packages: Vec<Package>,
    nodes: Vec<NumaNode>,
    complexes: Vec<Complex>,
    cores: Vec<Core>,
    caches: Vec<Cache>,
    core_of_cpu: BTreeMap<usize, usize>,
    online: CpuSet,
    offline: CpuSet,
    allowance: Allowance,
    usable: CpuSet,
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

/// Returns the size in bytes of the second-level cache of the machine's first CPU; 1 MiB if the kernel reports none.
pub(crate) fn second_level_cache() -> usize {
    const USUAL: usize = 1 << 20;
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let found = read::second_level(Path::new("/"));
        found
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| bytes > 0)
            .unwrap_or(USUAL)
    })
}

impl Topology {
    /// Reads the machine that this process runs on.
    ///
    /// The affinity mask is that of the calling thread, which is also what threads and processes
    /// started by it inherit: call it before pinning.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn read() -> Result<Self, Error> {
        read::topology(Path::new("/"), current_affinity())
    }

    /// Reads a machine from files below `root` in place of `/`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a file whose content makes no sense, [`Error::NoCpu`] if no file below `root` names a
    /// CPU, [`Error::NothingUsable`] if no CPU of the affinity mask is online.
    pub fn read_from(root: &Path) -> Result<Self, Error> {
        read::topology(root, None)
    }

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

    /// Returns whether usable hardware threads are left on the cores that `ranks` ranks would occupy, one rank to a
    /// core. Then communication threads can run on SMT siblings.
    pub fn has_spare_siblings(&self, ranks: usize) -> bool {
        Plan::for_ranks(self, ranks, &Bind::Auto).is_ok_and(|plan| plan.spare_siblings() > 0)
    }

    /// Returns whether cores differ in kind.
    pub fn is_hybrid(&self) -> bool {
        self.cores.iter().any(|core| core.kind != CoreKind::Performance)
    }

    /// Draws the machine as text for a terminal of 80 columns, with the places of `plan`.
    pub fn draw<'a>(&'a self, plan: Option<&'a Plan>) -> Drawing<'a> {
        Drawing::new(self, plan)
    }

    /// Draws like [`draw`](Self::draw), with the ranks and communication threads of a plan for both.
    pub fn draw_kts<'a>(&'a self, plan: &'a KtPlan) -> Drawing<'a> {
        Drawing::with_kts(self, plan)
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
