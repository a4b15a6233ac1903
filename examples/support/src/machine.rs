//! Machines for tests of placements.

use std::fs;

use onchip::topology::{CpuSet, Topology};

/// Returns a machine of `cores` with `threads` hardware threads each. The CPUs of a core have neighbouring numbers.
///
/// # Panics
/// When its description cannot be written or read.
pub fn machine(cores: usize, threads: usize) -> Topology {
    let root = tempfile::tempdir().unwrap();
    let file = |path: String, content: CpuSet| {
        let path = root.path().join("sys/devices/system/cpu").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    };
    for cpu in 0..cores * threads {
        let first = cpu / threads * threads;
        let siblings = CpuSet::from_iter(first..first + threads);
        file(format!("cpu{cpu}/topology/core_cpus_list"), siblings.clone());
        file(format!("cpu{cpu}/topology/thread_siblings_list"), siblings);
    }
    for list in ["present", "online"] {
        file(list.to_owned(), CpuSet::from_iter(0..cores * threads));
    }
    Topology::read_from(root.path()).unwrap()
}
