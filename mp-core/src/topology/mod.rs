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
mod cpuset;
mod draw;
mod error;
mod machine;
mod pin;
mod placement;
mod quota;
mod read;
mod source;

pub use allowance::Allowance;
pub use communication::{Inline, Kt, KtPlacement, KtPlan, Role};
pub use cpuset::CpuSet;
pub use draw::Drawing;
pub use error::Error;
pub use machine::{Cache, CacheKind, Complex, Core, CoreKind, NumaNode, Package, Seat, Topology};
pub(crate) use pin::start_in_blocks;
pub use pin::{confine_current_thread, current_affinity, pin_current_thread};
pub use placement::{Bind, Place, Plan, Unbound};
pub use quota::Quota;

use std::path::Path;
use std::sync::OnceLock;

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

    /// Returns whether usable hardware threads are left on the cores that `ranks` ranks would occupy, one rank to a
    /// core. Then communication threads can run on SMT siblings.
    pub fn has_spare_siblings(&self, ranks: usize) -> bool {
        Plan::for_ranks(self, ranks, &Bind::Auto).is_ok_and(|plan| plan.spare_siblings() > 0)
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
