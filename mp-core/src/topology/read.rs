//! Reading a [`Topology`] from the files of `/sys`.
//!
//! A fact that several CPUs share is read once, not once for each CPU, because a large server has tens of thousands of
//! these files, and opening one takes microseconds.
//!
//! The library hwloc also reads these files. It is not used here, because it is a C library.

use super::source::Source;
use super::{
    Allowance, Cache, CacheKind, Complex, Core, CoreKind, CpuSet, Error, NumaNode, Package,
    Topology,
};
use std::collections::BTreeMap;
use std::path::Path;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

pub(super) fn topology(root: &Path, affinity: Option<CpuSet>) -> Result<Topology, Error> {
    let source = Source::new(root);
    let mut allowance = Allowance::read_with(&source, affinity)?;
    let present = source.cpus(format!("{CPU}/present"))?;
    let online = source
        .cpus(format!("{CPU}/online"))?
        .or_else(|| present.clone())
        .or_else(|| allowance.affinity.clone())
        .filter(|online| !online.is_empty())
        .ok_or_else(|| Error::NoCpu { root: root.to_owned() })?;
    let offline = present.map_or_else(CpuSet::default, |present| &present - &online);
    let affinity = allowance.affinity.get_or_insert_with(|| online.clone());
    let usable = &*affinity & &online;
    if usable.is_empty() {
        return Err(Error::NothingUsable { affinity: affinity.clone(), online });
    }

    let nodes = nodes(&source, &online)?;
    let caches = caches(&source, &online)?;
    let siblings = siblings(&source, &online)?;
    let kinds = kinds(&source, &siblings)?;
    let found = siblings.into_iter().zip(kinds).map(|(cpus, kind)| {
        let cpu = cpus.first().expect("a core has a CPU");
        let package = package(&source, cpu)?;
        let node = nodes.iter().find(|node| node.cpus.contains(cpu)).map(|node| node.id);
        Ok(FoundCore { package, node, cache: shared_cache(&caches, &cpus), kind, cpus })
    });
    let (packages, complexes, cores) = arrange(found.collect::<Result<_, Error>>()?);
    let core_of_cpu = cores
        .iter()
        .enumerate()
        .flat_map(|(index, core)| core.cpus.iter().map(move |cpu| (cpu, index)))
        .collect();
    Ok(Topology {
        packages,
        nodes,
        complexes,
        cores,
        caches,
        core_of_cpu,
        online,
        offline,
        allowance,
        usable,
    })
}

struct FoundCore {
    package: i64,
    node: Option<usize>,
    cache: Option<usize>,
    kind: CoreKind,
    cpus: CpuSet,
}

/// Groups cores, given by ascending first CPU, into complexes and packages.
fn arrange(found: Vec<FoundCore>) -> (Vec<Package>, Vec<Complex>, Vec<Core>) {
    let mut by_package: BTreeMap<i64, Vec<Vec<FoundCore>>> = BTreeMap::new();
    for core in found {
        let groups = by_package.entry(core.package).or_default();
        // Without a shared cache, cores in the same NUMA node count as near.
        let together = |group: &&mut Vec<FoundCore>| {
            group[0].cache == core.cache && (core.cache.is_some() || group[0].node == core.node)
        };
        match groups.iter_mut().find(together) {
            Some(group) => group.push(core),
            None => groups.push(vec![core]),
        }
    }
    let (mut packages, mut complexes, mut cores) = (Vec::new(), Vec::new(), Vec::new());
    for (package, (id, groups)) in by_package.into_iter().enumerate() {
        let first = complexes.len();
        for group in groups {
            let complex = complexes.len();
            let (node, cache) = (group[0].node, group[0].cache);
            let range = cores.len()..cores.len() + group.len();
            cores.extend(group.into_iter().map(|FoundCore { node, kind, cpus, .. }| Core {
                complex,
                node,
                kind,
                cpus,
            }));
            complexes.push(Complex { package, node, cache, cores: range.collect() });
        }
        packages.push(Package { id, complexes: (first..complexes.len()).collect() });
    }
    (packages, complexes, cores)
}

fn nodes(source: &Source, online: &CpuSet) -> Result<Vec<NumaNode>, Error> {
    let mut nodes = Vec::new();
    for id in source.numbered(NODE, "node") {
        let cpus = source.cpus(format!("{NODE}/node{id}/cpulist"))?.unwrap_or_default();
        nodes.push(NumaNode { id, cpus: &cpus & online });
    }
    Ok(nodes)
}

/// Returns the CPUs of each core, by ascending first CPU.
fn siblings(source: &Source, online: &CpuSet) -> Result<Vec<CpuSet>, Error> {
    let mut left = online.clone();
    let mut cores = Vec::new();
    while let Some(cpu) = left.first() {
        let listed = match source.cpus(format!("{CPU}/cpu{cpu}/topology/core_cpus_list"))? {
            Some(listed) => listed,
            // This was the name before Linux 5.4.
            None => source
                .cpus(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"))?
                .unwrap_or_default(),
        };
        // Lists may contradict each other. A CPU goes to one core only, and always to its own.
        let mut core = &listed & &left;
        core.insert(cpu);
        left = &left - &core;
        cores.push(core);
    }
    Ok(cores)
}

fn package(source: &Source, cpu: usize) -> Result<i64, Error> {
    let file = format!("{CPU}/cpu{cpu}/topology/physical_package_id");
    let id = source.value(file, "a package number", |text| text.parse::<i64>().ok())?;
    // The kernel writes -1 if the firmware does not state the package.
    Ok(id.unwrap_or(0).max(0))
}

fn caches(source: &Source, online: &CpuSet) -> Result<Vec<Cache>, Error> {
    let mut caches: Vec<Cache> = Vec::new();
    // For each index, the CPUs whose cache at this index is known already.
    let mut told: BTreeMap<usize, CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        for index in 0.. {
            if told.get(&index).is_some_and(|cpus| cpus.contains(cpu)) {
                continue;
            }
            let directory = format!("{CPU}/cpu{cpu}/cache/index{index}");
            let Some(level) = source.number(format!("{directory}/level"))? else { break };
            let kind =
                source.value(
                    format!("{directory}/type"),
                    "a kind of cache",
                    |text| match text {
                        "Data" => Some(CacheKind::Data),
                        "Instruction" => Some(CacheKind::Instruction),
                        "Unified" => Some(CacheKind::Unified),
                        _ => None,
                    },
                )?;
            let shared = source.cpus(format!("{directory}/shared_cpu_list"))?.unwrap_or_default();
            let mut cpus = &shared & online;
            cpus.insert(cpu);
            told.entry(index).or_default().extend(cpus.iter());
            caches.push(Cache {
                level: u32::try_from(level).unwrap_or(u32::MAX),
                kind: kind.unwrap_or(CacheKind::Unified),
                size: source.value(format!("{directory}/size"), "a size such as 32K", size)?,
                line_size: source.number(format!("{directory}/coherency_line_size"))?,
                cpus,
            });
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    Ok(caches)
}

/// Returns the size in bytes of the second-level cache of the lowest-numbered CPU that reports one.
pub(super) fn second_level(root: &Path) -> Option<u64> {
    let source = Source::new(root);
    source.numbered(CPU, "cpu").into_iter().find_map(|cpu| {
        (0..)
            .map_while(|index| {
                let directory = format!("{CPU}/cpu{cpu}/cache/index{index}");
                let level = source.text(format!("{directory}/level"))?;
                Some((level, directory))
            })
            .find(|(level, _)| level == "2")
            .and_then(|(_, directory)| size(&source.text(format!("{directory}/size"))?))
    })
}

/// Parses a size. The kernel writes `K` for KiB. Other units are accepted in case that changes.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|end: char| end.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the outermost cache of a core, if it defines a complex. An L3 cache or higher does, even if only this core
/// has it, because the other cores are then further away. Below that, only a shared cache does.
fn shared_cache(caches: &[Cache], core: &CpuSet) -> Option<usize> {
    let cpu = core.first()?;
    let holds_data = |cache: &Cache| cache.kind != CacheKind::Instruction;
    let outermost = (0..caches.len())
        .filter(|&index| holds_data(&caches[index]) && caches[index].cpus.contains(cpu))
        .max_by_key(|&index| caches[index].level)?;
    let cache = &caches[outermost];
    (cache.level >= 3 || !(&cache.cpus - core).is_empty()).then_some(outermost)
}

/// Returns the kind of each core, from the best source that has all cores.
fn kinds(source: &Source, cores: &[CpuSet]) -> Result<Vec<CoreKind>, Error> {
    if let Some(kinds) = kinds_from_devices(source, cores)? {
        return Ok(kinds);
    }
    for file in ["cpu_capacity", "cpufreq/cpuinfo_max_freq"] {
        let speeds = cores.iter().map(|core| {
            let cpu = core.first().expect("a core has a CPU");
            source.number(format!("{CPU}/cpu{cpu}/{file}"))
        });
        if let Some(speeds) = speeds.collect::<Result<Option<Vec<u64>>, Error>>()? {
            return Ok(kinds_from_speeds(&speeds));
        }
    }
    Ok(vec![CoreKind::Performance; cores.len()])
}

fn kinds_from_devices(source: &Source, cores: &[CpuSet]) -> Result<Option<Vec<CoreKind>>, Error> {
    let list = |device: &str| source.cpus(format!("sys/devices/{device}/cpus"));
    let (Some(large), Some(small)) = (list("cpu_core")?, list("cpu_atom")?) else {
        return Ok(None);
    };
    let smallest = list("cpu_lowpower")?.unwrap_or_default();
    let small_kind = if smallest.is_empty() { CoreKind::Efficiency } else { CoreKind::Middle };
    let kind = |core: &CpuSet| {
        let cpu = core.first()?;
        // A low-power core may also be named among the small ones.
        match cpu {
            cpu if smallest.contains(cpu) => Some(CoreKind::Efficiency),
            cpu if large.contains(cpu) => Some(CoreKind::Performance),
            cpu if small.contains(cpu) => Some(small_kind),
            _ => None,
        }
    };
    Ok(cores.iter().map(kind).collect())
}

fn kinds_from_speeds(speeds: &[u64]) -> Vec<CoreKind> {
    let mut fastest_first = speeds.to_vec();
    fastest_first.sort_unstable_by(|one, other| other.cmp(one));
    let drops = |pair: &&[u64]| u128::from(pair[1]) * 100 < u128::from(pair[0]) * 85;
    // These are the slowest speeds of all kinds but the last.
    let ends: Vec<u64> = fastest_first.windows(2).filter(drops).map(|pair| pair[0]).collect();
    let kind = |&speed: &u64| match ends.iter().filter(|&&end| speed < end).count() {
        0 => CoreKind::Performance,
        tier if tier == ends.len() => CoreKind::Efficiency,
        _ => CoreKind::Middle,
    };
    speeds.iter().map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::CoreKind::{Efficiency as E, Middle as M, Performance as P};
    use super::*;

    #[test]
    fn kinds_begin_where_speed_drops_and_not_among_favoured_cores() {
        assert_eq!(kinds_from_speeds(&[]), []);
        assert_eq!(kinds_from_speeds(&[1024]), [P]);
        assert_eq!(kinds_from_speeds(&[0, 0]), [P, P]);
        assert_eq!(kinds_from_speeds(&[5000, 5300, 5700, 5900]), [P, P, P, P]);
        assert_eq!(kinds_from_speeds(&[4600, 5700, 4600, 5700]), [E, P, E, P]);
        assert_eq!(kinds_from_speeds(&[350, 900, 1024, 350]), [E, P, P, E]);
        assert_eq!(kinds_from_speeds(&[350, 800, 1024, 100]), [M, M, P, E]);
        assert_eq!(kinds_from_speeds(&[u64::MAX, 0]), [P, E]);
    }

    #[test]
    fn the_second_level_is_that_of_the_first_cpu_that_tells_of_it() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(second_level(root.path()), None);
        let write = |cpu: usize, index: usize, level: &str, size: &str| {
            let directory = root.path().join(format!("{CPU}/cpu{cpu}/cache/index{index}"));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("level"), format!("{level}\n")).unwrap();
            std::fs::write(directory.join("size"), format!("{size}\n")).unwrap();
        };
        write(10, 0, "2", "4M");
        write(3, 0, "1", "48K");
        assert_eq!(second_level(root.path()), Some(4 << 20));
        write(3, 1, "1", "32K");
        write(3, 2, "2", "1280K");
        assert_eq!(second_level(root.path()), Some(1280 << 10));
    }

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(size("32K"), Some(32 << 10));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("512"), Some(512));
        for odd in ["", "K", "-1K", "32KB", "1 K", "18446744073709551615K", "32K é"] {
            assert_eq!(size(odd), None, "{odd:?}");
        }
    }
}
