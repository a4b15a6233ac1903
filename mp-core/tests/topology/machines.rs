//! Machines as trees of files, a few lines each.

use mp_core::topology::{CpuSet, Error, Topology};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const CPU: &str = "sys/devices/system/cpu";

/// A file tree in place of `/`. It lives as long as this value.
pub struct Machine {
    root: TempDir,
    cpus: CpuSet,
}

/// A core to be added, with its caches.
#[derive(Clone, Copy)]
pub struct NewCore<'a> {
    pub cpus: &'a [usize],
    pub package: i64,
    pub node: usize,
    /// Level, type, size and the CPUs that share it, in the order of the kernel's indices.
    pub caches: &'a [(u32, &'a str, &'a str, &'a str)],
}

impl Machine {
    pub fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), cpus: CpuSet::default() }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn topology(&self) -> Result<Topology, Error> {
        Topology::read_from(self.root())
    }

    pub fn read(&self) -> Topology {
        self.topology().unwrap()
    }

    /// Writes any file.
    pub fn file(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub fn remove(&self, path: &str) -> &Self {
        let path = self.root.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    /// Adds a core that is online, and what the kernel says of it.
    pub fn core(&mut self, core: NewCore) -> &mut Self {
        let cpus: CpuSet = core.cpus.iter().copied().collect();
        for cpu in cpus.iter() {
            let topology = format!("{CPU}/cpu{cpu}/topology");
            self.file(format!("{topology}/core_cpus_list"), format!("{cpus}\n"));
            self.file(format!("{topology}/thread_siblings_list"), format!("{cpus}\n"));
            self.file(format!("{topology}/physical_package_id"), format!("{}\n", core.package));
            for (index, (level, kind, size, shared)) in core.caches.iter().enumerate() {
                let cache = format!("{CPU}/cpu{cpu}/cache/index{index}");
                let shared = if shared.is_empty() { cpus.to_string() } else { shared.to_string() };
                self.file(format!("{cache}/level"), format!("{level}\n"));
                self.file(format!("{cache}/type"), format!("{kind}\n"));
                self.file(format!("{cache}/size"), format!("{size}\n"));
                self.file(format!("{cache}/coherency_line_size"), "64\n");
                self.file(format!("{cache}/shared_cpu_list"), format!("{shared}\n"));
            }
        }
        let list = format!("sys/devices/system/node/node{}/cpulist", core.node);
        let before = fs::read_to_string(self.root().join(&list)).unwrap_or_default();
        let mut in_node: CpuSet = before.parse().unwrap();
        in_node.extend(cpus.iter());
        self.file(list, format!("{in_node}\n"));
        self.cpus.extend(cpus.iter());
        self.present(&self.cpus.to_string()).online(&self.cpus.to_string());
        self.affinity(&self.cpus.to_string());
        self
    }

    pub fn present(&self, cpus: &str) -> &Self {
        self.file(format!("{CPU}/present"), format!("{cpus}\n"))
    }

    pub fn online(&self, cpus: &str) -> &Self {
        self.file(format!("{CPU}/online"), format!("{cpus}\n"))
    }

    pub fn affinity(&self, cpus: &str) -> &Self {
        self.file(
            "proc/self/status",
            format!("Name:\tcat\nState:\tR (running)\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n"),
        )
    }

    /// A cgroup of version 2, mounted where it usually is.
    pub fn cgroup2(&self, group: &str) -> &Self {
        self.file("proc/self/cgroup", format!("0::{group}\n"));
        self.file(
            "proc/self/mountinfo",
            "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
             35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
        )
    }
}

/// Caches of a core: 48 + 32 KiB of L1, `l2` of its own, `l3` shared by `under_l3`.
fn caches<'a>(
    l2: &'a str,
    l3: &'a str,
    under_l3: &'a str,
) -> [(u32, &'a str, &'a str, &'a str); 4] {
    [
        (1, "Data", "48K", ""),
        (1, "Instruction", "32K", ""),
        (2, "Unified", l2, ""),
        (3, "Unified", l3, under_l3),
    ]
}

/// One package of four cores with two hardware threads each.
pub fn laptop() -> Machine {
    let mut machine = Machine::new();
    for core in 0..4 {
        let (cpus, caches) = ([core, core + 4], caches("1280K", "8192K", "0-7"));
        machine.core(NewCore { cpus: &cpus, package: 0, node: 0, caches: &caches });
    }
    machine
}

/// `packages` packages of `complexes` L3 complexes of `size` cores with two hardware threads: all
/// first threads are numbered before all second ones, as Linux does on servers.
pub fn server(packages: usize, complexes: usize, size: usize, l3: &str) -> Machine {
    let mut machine = Machine::new();
    let cores = packages * complexes * size;
    for core in 0..cores {
        let first = core / size * size;
        let second = first + cores;
        let shared = format!("{first}-{},{second}-{}", first + size - 1, second + size - 1);
        let package = core / (complexes * size);
        let caches = caches("1024K", l3, &shared);
        let cpus = [core, core + cores];
        machine.core(NewCore {
            cpus: &cpus,
            package: package as i64,
            node: package,
            caches: &caches,
        });
    }
    machine
}

/// Two packages of eight cores, one L3 each.
pub fn two_socket_server() -> Machine {
    server(2, 1, 8, "32768K")
}

/// Two packages of eight complexes of eight cores.
pub fn epyc() -> Machine {
    server(2, 8, 8, "32768K")
}

/// Six performance cores with two hardware threads, then eight efficiency cores with one, four to
/// an L2; one L3 for all. The kinds are told by the device lists.
pub fn hybrid() -> Machine {
    let mut machine = Machine::new();
    for core in 0..6 {
        let (cpus, caches) = ([2 * core, 2 * core + 1], caches("1280K", "24576K", "0-19"));
        machine.core(NewCore { cpus: &cpus, package: 0, node: 0, caches: &caches });
    }
    for cpu in 12..20 {
        let caches = [
            (1, "Data", "32K", ""),
            (1, "Instruction", "64K", ""),
            (2, "Unified", "2048K", if cpu < 16 { "12-15" } else { "16-19" }),
            (3, "Unified", "24576K", "0-19"),
        ];
        machine.core(NewCore { cpus: &[cpu], package: 0, node: 0, caches: &caches });
    }
    machine.file("sys/devices/cpu_core/cpus", "0-11\n");
    machine.file("sys/devices/cpu_atom/cpus", "12-19\n");
    machine
}

/// Four cores with one hardware thread each, of which CPU 2 is switched off.
pub fn one_offline() -> Machine {
    let mut machine = Machine::new();
    for cpu in [0, 1, 3] {
        let caches = caches("512K", "6144K", "0-1,3");
        machine.core(NewCore { cpus: &[cpu], package: 0, node: 0, caches: &caches });
    }
    machine.present("0-3");
    machine
}

/// The laptop, in a container confined to CPUs 2 and 3.
pub fn cpuset_of_two() -> Machine {
    let machine = laptop();
    machine.affinity("2-3").cgroup2("/box");
    machine.file("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
    machine.file("sys/fs/cgroup/box/cpuset.cpus.effective", "2-3\n");
    machine.file("sys/fs/cgroup/box/cpu.max", "max 100000\n");
    machine
}

/// The laptop, in a container that gets 150 ms of CPU time each 100 ms.
pub fn quota_of_one_and_a_half() -> Machine {
    let machine = laptop();
    machine.cgroup2("/box");
    machine.file("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
    machine
}

/// One core with one hardware thread.
pub fn one_core() -> Machine {
    let mut machine = Machine::new();
    let caches = caches("512K", "4096K", "0");
    machine.core(NewCore { cpus: &[0], package: 0, node: 0, caches: &caches });
    machine
}
