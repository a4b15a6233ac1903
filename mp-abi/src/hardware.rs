//! The parts of the machine that a rank is confined to.

use mp_core::topology::{CacheKind, CpuSet, Package, Topology};

use crate::error::{Class, Error};

/// A kind of parts of the machine.
pub(crate) struct Part {
    /// Its name, as programs get and give it.
    pub name: &'static str,
    /// The number of the part that has all CPUs which this rank may use, if one has them all.
    pub of_rank: Option<usize>,
}

/// Returns the kinds of parts that the machine has, those with the largest parts first.
pub(crate) fn parts() -> Result<Vec<Part>, Error> {
    let machine = Topology::read().map_err(|error| Error::new(Class::Other, error.to_string()))?;
    let usable = machine.usable_cpus();
    let part = |name, all: Vec<CpuSet>| {
        let of_rank = all.iter().position(|cpus| (usable - cpus).is_empty());
        (!all.is_empty()).then_some(Part { name, of_rank })
    };
    let caches = |level| {
        let is_wanted = |kind| kind != CacheKind::Instruction;
        let all = machine.caches().iter().filter(|one| one.level == level && is_wanted(one.kind));
        all.map(|one| one.cpus.clone()).collect()
    };
    let cores = || machine.cores().iter();
    let in_package = |package: &Package| {
        let cores = package.complexes.iter().flat_map(|&at| &machine.complexes()[at].cores);
        cores.flat_map(|&at| machine.cores()[at].cpus.iter()).collect()
    };
    let all = [
        part("hwloc://Machine", vec![machine.online().clone()]),
        part("hwloc://Package", machine.packages().iter().map(in_package).collect()),
        part("hwloc://NUMANode", machine.nodes().iter().map(|node| node.cpus.clone()).collect()),
        part("hwloc://L3Cache", caches(3)),
        part("hwloc://L2Cache", caches(2)),
        part("hwloc://L1Cache", caches(1)),
        part("hwloc://Core", cores().map(|core| core.cpus.clone()).collect()),
        part(
            "hwloc://PU",
            machine.online().iter().map(|cpu| [cpu].into_iter().collect()).collect(),
        ),
    ];
    Ok(all.into_iter().flatten().collect())
}
