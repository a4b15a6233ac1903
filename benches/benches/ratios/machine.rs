//! What the figures were measured on.

use std::fs;

use serde::Serialize;

use crate::row::Setup;

#[derive(Serialize)]
pub struct Machine {
    pub processor: String,
    pub online_cpus: usize,
    pub used_cpus: [usize; 2],
    /// Of the first used CPU: level, type, size.
    pub caches: Vec<String>,
    pub memory_kib: u64,
    pub kernel: String,
    pub virtualized: bool,
    pub transparent_huge_pages: String,
    pub shared_memory_huge_pages: String,
    pub architecture: &'static str,
}

fn read(path: impl AsRef<std::path::Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_string()).unwrap_or_default()
}

/// The value of the first `key : value` line.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_string())
    })
}

fn caches(cpu: usize) -> Vec<String> {
    (0..8)
        .map(|index| format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}"))
        .take_while(|dir| fs::exists(dir).unwrap_or(false))
        .map(|dir| {
            let [level, kind, size] = ["level", "type", "size"].map(|f| read(format!("{dir}/{f}")));
            format!("L{level} {kind} {size}")
        })
        .collect()
}

impl Machine {
    pub fn describe(setup: &Setup) -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let flags = field(&cpuinfo, "flags").unwrap_or_default();
        Machine {
            processor: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".into()),
            online_cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            used_cpus: setup.cpus,
            caches: caches(setup.cpus[0]),
            memory_kib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|total| total.split_whitespace().next()?.parse().ok())
                .unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease"),
            virtualized: flags.split_whitespace().any(|flag| flag == "hypervisor"),
            transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled"),
            shared_memory_huge_pages: read("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            architecture: std::env::consts::ARCH,
        }
    }

    pub fn line(&self) -> String {
        format!(
            "{}{}, {} CPUs ({} and {} used), {}, {} GiB, Linux {}",
            self.processor,
            if self.virtualized { " (virtual)" } else { "" },
            self.online_cpus,
            self.used_cpus[0],
            self.used_cpus[1],
            self.caches.last().map_or("caches unknown", String::as_str),
            self.memory_kib >> 20,
            self.kernel
        )
    }
}
