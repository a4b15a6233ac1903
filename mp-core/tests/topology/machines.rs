//! Machines as trees of files, each of which takes a few lines.

use mp_core::topology::{CpuSet, Error, Topology};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const CPU: &str = "sys/devices/system/cpu";

/// A file tree in place of `/`. It lives as long as this value.
pub struct Machine {
    root: TempDir,
}

/// An online core and its caches.
pub struct NewCore {
    pub cpus: Vec<usize>,
    pub package: i64,
    pub node: usize,
    pub caches: Vec<NewCache>,
}

/// The level, the type, the size, and the CPUs that share the cache; empty for the CPUs of the core.
pub type NewCache = (u32, &'static str, &'static str, String);

impl Machine {
    /// Makes a machine without files, of which nothing is known.
    pub fn new() -> Self {
        // In memory, thousands of small files are written and removed at once. On a disk, that may take long.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self { root: root.unwrap() }
    }

    /// Makes a machine of these cores, with an affinity mask of all CPUs.
    pub fn of(cores: impl IntoIterator<Item = NewCore>) -> Self {
        let machine = Self::new();
        let mut all = CpuSet::default();
        let mut nodes: BTreeMap<usize, CpuSet> = BTreeMap::new();
        for core in cores {
            let cpus: CpuSet = core.cpus.iter().copied().collect();
            for cpu in cpus.iter() {
                machine.write_cpu(cpu, &cpus, &core);
            }
            nodes.entry(core.node).or_default().extend(cpus.iter());
            all.extend(cpus.iter());
        }
        for (node, cpus) in nodes {
            machine
                .file(format!("sys/devices/system/node/node{node}/cpulist"), format!("{cpus}\n"));
        }
        let all = all.to_string();
        machine.present(&all).online(&all).affinity(&all);
        machine
    }

    fn write_cpu(&self, cpu: usize, siblings: &CpuSet, core: &NewCore) {
        let topology = format!("{CPU}/cpu{cpu}/topology");
        self.file(format!("{topology}/core_cpus_list"), format!("{siblings}\n"));
        self.file(format!("{topology}/thread_siblings_list"), format!("{siblings}\n"));
        self.file(format!("{topology}/physical_package_id"), format!("{}\n", core.package));
        for (index, (level, kind, size, shared)) in core.caches.iter().enumerate() {
            let cache = format!("{CPU}/cpu{cpu}/cache/index{index}");
            let shared = if shared.is_empty() { siblings.to_string() } else { shared.clone() };
            self.file(format!("{cache}/level"), format!("{level}\n"));
            self.file(format!("{cache}/type"), format!("{kind}\n"));
            self.file(format!("{cache}/size"), format!("{size}\n"));
            self.file(format!("{cache}/coherency_line_size"), "64\n");
            self.file(format!("{cache}/shared_cpu_list"), format!("{shared}\n"));
        }
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

    /// Puts the process into a cgroup of version 2, mounted in the usual place.
    pub fn cgroup2(&self, group: &str) -> &Self {
        self.file("proc/self/cgroup", format!("0::{group}\n"));
        self.file(
            "proc/self/mountinfo",
            "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
             35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
        )
    }
}

/// Returns the caches of a core: 48 + 32 KiB of L1, its own `l2`, and an `l3` that the CPUs `under_l3` share.
fn caches(l2: &'static str, l3: &'static str, under_l3: &str) -> Vec<NewCache> {
    vec![
        (1, "Data", "48K", String::new()),
        (1, "Instruction", "32K", String::new()),
        (2, "Unified", l2, String::new()),
        (3, "Unified", l3, under_l3.to_owned()),
    ]
}

/// One package of four cores with two hardware threads each.
pub fn laptop() -> Machine {
    Machine::of((0..4).map(|core| NewCore {
        cpus: vec![core, core + 4],
        package: 0,
        node: 0,
        caches: caches("1280K", "8192K", "0-7"),
    }))
}

/// `packages` packages of `complexes` L3 complexes of `size` cores with two hardware threads. All first threads are
/// numbered before all second threads, as Linux does on servers.
pub fn server(packages: usize, complexes: usize, size: usize, l3: &'static str) -> Machine {
    let cores = packages * complexes * size;
    Machine::of((0..cores).map(|core| {
        let first = core / size * size;
        let second = first + cores;
        let shared = format!("{first}-{},{second}-{}", first + size - 1, second + size - 1);
        let package = core / (complexes * size);
        NewCore {
            cpus: vec![core, core + cores],
            package: package as i64,
            node: package,
            caches: caches("1024K", l3, &shared),
        }
    }))
}

/// Two packages of eight cores, one L3 each.
pub fn two_socket_server() -> Machine {
    server(2, 1, 8, "32768K")
}

/// Two packages of eight complexes of eight cores.
pub fn epyc() -> Machine {
    server(2, 8, 8, "32768K")
}

/// Six performance cores with two hardware threads, then eight efficiency cores with one, four to an L2; one L3 for
/// all. The device lists show the kinds.
pub fn hybrid() -> Machine {
    let performance = (0..6).map(|core| NewCore {
        cpus: vec![2 * core, 2 * core + 1],
        package: 0,
        node: 0,
        caches: caches("1280K", "24576K", "0-19"),
    });
    let efficiency = (12..20).map(|cpu| NewCore {
        cpus: vec![cpu],
        package: 0,
        node: 0,
        caches: vec![
            (1, "Data", "32K", String::new()),
            (1, "Instruction", "64K", String::new()),
            (2, "Unified", "2048K", if cpu < 16 { "12-15" } else { "16-19" }.to_owned()),
            (3, "Unified", "24576K", "0-19".to_owned()),
        ],
    });
    let machine = Machine::of(performance.chain(efficiency));
    machine.file("sys/devices/cpu_core/cpus", "0-11\n");
    machine.file("sys/devices/cpu_atom/cpus", "12-19\n");
    machine
}

/// Four cores with one hardware thread each, of which CPU 2 is switched off.
pub fn one_offline() -> Machine {
    let machine = Machine::of([0, 1, 3].map(|cpu| NewCore {
        cpus: vec![cpu],
        package: 0,
        node: 0,
        caches: caches("512K", "6144K", "0-1,3"),
    }));
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
    let caches = caches("512K", "4096K", "0");
    Machine::of([NewCore { cpus: vec![0], package: 0, node: 0, caches }])
}
