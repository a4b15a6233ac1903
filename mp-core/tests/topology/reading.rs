//! What is read from each machine.

use crate::machines::*;
use mp_core::topology::*;
use std::collections::BTreeSet;

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn cpus_of_cores(topology: &Topology) -> Vec<String> {
    topology.cores().iter().map(|core| core.cpus.to_string()).collect()
}

#[test]
fn laptop_with_siblings() {
    let topology = laptop().read();
    assert_eq!(topology.packages().len(), 1);
    assert_eq!(topology.nodes().len(), 1);
    assert_eq!(cpus_of_cores(&topology), ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(topology.online(), &set("0-7"));
    assert!(topology.offline().is_empty());
    assert!(!topology.is_hybrid());
    assert_eq!(topology.usable_cpus(), &set("0-7"));
    assert_eq!((topology.usable_cores(), topology.usable_parallelism()), (4, 8));
    assert_eq!((topology.core_of(6), topology.core_of(8)), (Some(2), None));
    assert!(topology.has_spare_siblings(4) && topology.has_spare_siblings(7));
    assert!(!topology.has_spare_siblings(8));

    let caches = topology.caches();
    assert_eq!(caches.len(), 3 * 4 + 1);
    let l1d = &caches[0];
    assert_eq!((l1d.level, l1d.kind, l1d.size), (1, CacheKind::Data, Some(48 << 10)));
    assert_eq!((l1d.line_size, &l1d.cpus), (Some(64), &set("0,4")));
    let l3 = &caches[12];
    assert_eq!((l3.level, l3.kind, l3.size), (3, CacheKind::Unified, Some(8 << 20)));
    assert_eq!(l3.cpus, set("0-7"));
    assert_eq!(topology.complexes().len(), 1);
    assert_eq!(topology.complexes()[0].cache, Some(12));
}

#[test]
fn server_of_two_packages() {
    let topology = two_socket_server().read();
    let ids: Vec<i64> = topology.packages().iter().map(|package| package.id).collect();
    assert_eq!(ids, [0, 1]);
    assert_eq!(topology.cores().len(), 16);
    assert_eq!(topology.nodes()[1].cpus, set("8-15,24-31"));
    assert_eq!(topology.complexes().len(), 2);
    assert_eq!(topology.complexes()[1].package, 1);
    assert_eq!(topology.complexes()[1].node, Some(1));
    assert_eq!(topology.cores()[8].cpus, set("8,24"));
    assert_eq!(topology.cores()[8].node, Some(1));
}

#[test]
fn epyc_of_many_complexes() {
    let topology = epyc().read();
    assert_eq!((topology.packages().len(), topology.complexes().len()), (2, 16));
    assert_eq!(topology.packages()[1].complexes, (8..16).collect::<Vec<_>>());
    assert_eq!(topology.complexes()[3].cores, (24..32).collect::<Vec<_>>());
    assert_eq!(topology.usable_parallelism(), 256);
    let l3s = topology.caches().iter().filter(|cache| cache.level == 3);
    assert_eq!(l3s.map(|cache| cache.cpus.len()).collect::<Vec<_>>(), [16; 16]);
}

#[test]
fn hybrid_part_with_siblings_on_the_fast_cores() {
    let topology = hybrid().read();
    assert!(topology.is_hybrid());
    assert_eq!(topology.cores().len(), 14);
    let kinds: Vec<CoreKind> = topology.cores().iter().map(|core| core.kind).collect();
    assert_eq!(kinds[..6], [CoreKind::Performance; 6]);
    assert_eq!(kinds[6..], [CoreKind::Efficiency; 8]);
    assert_eq!(topology.complexes().len(), 1, "the L3 is shared by both kinds");
    let l2 = topology.caches().iter().filter(|cache| cache.level == 2);
    assert_eq!(l2.filter(|cache| cache.cpus.len() == 4).count(), 2);
}

#[test]
fn kinds_without_device_lists_come_from_capacity_then_frequency() {
    for (file, fast, slow) in
        [("cpu_capacity", "1024", "640"), ("cpufreq/cpuinfo_max_freq", "4900000", "3600000")]
    {
        let machine = hybrid();
        machine.remove("sys/devices/cpu_core").remove("sys/devices/cpu_atom");
        assert!(!machine.read().is_hybrid());
        for cpu in 0..20 {
            let speed = if cpu < 12 { fast } else { slow };
            machine.file(format!("sys/devices/system/cpu/cpu{cpu}/{file}"), speed);
        }
        let kinds: Vec<CoreKind> = machine.read().cores().iter().map(|core| core.kind).collect();
        assert_eq!(kinds[..6], [CoreKind::Performance; 6], "{file}");
        assert_eq!(kinds[6..], [CoreKind::Efficiency; 8], "{file}");

        machine.remove(&format!("sys/devices/system/cpu/cpu0/{file}"));
        assert!(!machine.read().is_hybrid(), "half known is unknown");
    }
}

#[test]
fn low_power_cores_are_a_third_kind() {
    let machine = hybrid();
    machine.file("sys/devices/cpu_lowpower/cpus", "18-19\n");
    let kinds: Vec<CoreKind> = machine.read().cores().iter().map(|core| core.kind).collect();
    assert_eq!(kinds[..6], [CoreKind::Performance; 6]);
    assert_eq!(kinds[6..12], [CoreKind::Middle; 6]);
    assert_eq!(kinds[12..], [CoreKind::Efficiency; 2]);
}

#[test]
fn an_offline_core_is_known_and_not_used() {
    let topology = one_offline().read();
    assert_eq!(topology.offline(), &set("2"));
    assert_eq!(topology.usable_cpus(), &set("0-1,3"));
    assert_eq!(cpus_of_cores(&topology), ["0", "1", "3"]);
    assert_eq!(topology.core_of(2), None);
}

#[test]
fn an_offline_sibling_leaves_its_core() {
    let machine = laptop();
    machine.online("0-4,6-7");
    let topology = machine.read();
    assert_eq!(cpus_of_cores(&topology), ["0,4", "1", "2,6", "3,7"]);
    assert_eq!(topology.offline(), &set("5"));
    assert_eq!(topology.usable_cpus(), &set("0-4,6-7"), "the mask may name offline CPUs");
}

#[test]
fn one_core_only() {
    let topology = one_core().read();
    assert_eq!((topology.cores().len(), topology.usable_parallelism()), (1, 1));
    assert!(!topology.has_spare_siblings(1));
}

#[test]
fn confining_keeps_the_machine_and_narrows_its_use() {
    let topology = laptop().read();
    let confined = topology.confined_to(&set("1,5-6,9")).unwrap();
    assert_eq!(confined.usable_cpus(), &set("1,5-6"));
    assert_eq!((confined.usable_cores(), confined.usable_parallelism()), (2, 3));
    assert_eq!(confined.cores(), topology.cores());
    assert!(matches!(confined.confined_to(&set("0")), Err(Error::NothingUsable { .. })));
}

#[test]
fn without_caches_nodes_and_siblings_cpus_are_cores_of_one_complex() {
    let machine = Machine::new();
    machine.file("sys/devices/system/cpu/online", "0-2\n");
    let topology = machine.read();
    assert_eq!(cpus_of_cores(&topology), ["0", "1", "2"]);
    assert_eq!((topology.packages().len(), topology.complexes().len()), (1, 1));
    assert_eq!(topology.packages()[0].id, 0);
    assert_eq!(topology.complexes()[0].cache, None);
    assert!(topology.nodes().is_empty() && topology.caches().is_empty());
    assert_eq!(topology.usable_cpus(), &set("0-2"));
}

#[test]
fn without_sys_the_mask_tells_the_cpus() {
    let machine = Machine::new();
    machine.affinity("1-2");
    let topology = machine.read();
    assert_eq!(topology.online(), &set("1-2"));
    assert_eq!(topology.usable_parallelism(), 2);
}

#[test]
fn without_shared_caches_nodes_group_cores() {
    let own = |level, kind, size| (level, kind, size, String::new());
    let machine = Machine::of((0..8).map(|cpu| NewCore {
        cpus: vec![cpu],
        package: 0,
        node: cpu / 4,
        caches: vec![own(1, "Data", "64K"), own(2, "Unified", "1024K")],
    }));
    let topology = machine.read();
    assert_eq!(topology.complexes().len(), 2);
    assert_eq!(topology.complexes()[1].cores, [4, 5, 6, 7]);
    assert_eq!(topology.complexes()[1].node, Some(1));
}

#[test]
fn old_names_and_unknown_packages_are_understood() {
    let machine = laptop();
    for cpu in 0..8 {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        machine.remove(&format!("{topology}/core_cpus_list"));
        machine.file(format!("{topology}/physical_package_id"), "-1\n");
    }
    let topology = machine.read();
    assert_eq!(cpus_of_cores(&topology), ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(topology.packages()[0].id, 0);
}

#[test]
fn contradictory_siblings_put_each_cpu_into_one_core() {
    let machine = laptop();
    let siblings = |cpu| format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
    machine.file(siblings(0), "0-3,90\n").file(siblings(1), "1,4\n").file(siblings(4), "7\n");
    let topology = machine.read();
    assert_eq!(cpus_of_cores(&topology), ["0-3", "4,7", "5", "6"]);
}

#[test]
fn the_real_machine_is_read() {
    let topology = Topology::read().unwrap();
    let affinity = current_affinity().unwrap();
    assert_eq!(topology.usable_cpus(), &affinity, "the mask holds online CPUs only");
    let from_files = Topology::read_from("/".as_ref()).unwrap();
    assert_eq!(from_files.usable_cpus(), &affinity, "/proc and the system call agree");
    assert_eq!(from_files.cores(), topology.cores());
    assert_eq!(from_files.caches(), topology.caches());

    let allowance = Allowance::read().unwrap();
    assert_eq!(&allowance, topology.allowance());
    assert_eq!(allowance.parallelism(), topology.usable_parallelism());
    // The standard library rounds a quota down.
    let std = std::thread::available_parallelism().unwrap().get();
    assert!((std..=std + 1).contains(&topology.usable_parallelism()));

    let cpus: Vec<usize> = topology.cores().iter().flat_map(|core| core.cpus.iter()).collect();
    assert_eq!(cpus.len(), topology.online().len(), "each CPU is in one core");
    assert_eq!(cpus.into_iter().collect::<CpuSet>(), *topology.online());
    let complexes: BTreeSet<usize> = topology.cores().iter().map(|core| core.complex).collect();
    assert_eq!(complexes.len(), topology.complexes().len());
}

#[test]
fn threads_are_pinned_and_released() {
    let topology = Topology::read().unwrap();
    let (usable, missing) = (topology.usable_cpus(), topology.online().last().unwrap() + 999);
    let before = current_affinity().unwrap();
    for cpu in usable.iter() {
        pin_current_thread(cpu).unwrap();
        assert_eq!(current_affinity().unwrap(), CpuSet::from_iter([cpu]));
        assert_eq!(Topology::read().unwrap().usable_parallelism(), 1);
    }
    confine_current_thread(&before).unwrap();
    assert_eq!(current_affinity().unwrap(), before);

    for cpu in [missing, 1024, 65535, usize::MAX] {
        let error = pin_current_thread(cpu).unwrap_err();
        assert!(matches!(&error, Error::Pin { cpus, .. } if cpus.contains(cpu)));
        assert!(error.to_string().contains(&format!("CPU {cpu}:")), "{error}");
    }
    assert!(confine_current_thread(&CpuSet::default()).is_err());
    assert_eq!(current_affinity().unwrap(), before, "a refused pin changes nothing");
}
