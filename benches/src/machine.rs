//! The machine of the measurements.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine at hand.
#[derive(Serialize, Deserialize)]
pub struct Machine {
    /// The name of the processor.
    pub processor: String,
    /// The number of CPUs of the system.
    pub online_cpus: usize,
    /// The CPUs that measurements ran on.
    pub used_cpus: [usize; 2],
    /// The caches of the first used CPU: level, type, size.
    pub caches: Vec<String>,
    /// The size of the memory.
    pub memory_kib: u64,
    /// The release of the kernel.
    pub kernel: String,
    /// Whether the machine is a guest.
    pub virtualized: bool,
    /// The kernel's setting.
    pub transparent_huge_pages: String,
    /// The kernel's setting for shared memory.
    pub shared_memory_huge_pages: String,
    /// The architecture by Rust's name.
    pub architecture: String,
}

fn read(path: impl AsRef<std::path::Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_string()).unwrap_or_default()
}

/// Returns the value of the first `key : value` line.
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
    /// Reads the description of this machine.
    pub fn describe(cpus: [usize; 2]) -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let flags = field(&cpuinfo, "flags").unwrap_or_default();
        Machine {
            processor: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".into()),
            online_cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            used_cpus: cpus,
            caches: caches(cpus[0]),
            memory_kib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|total| total.split_whitespace().next()?.parse().ok())
                .unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease"),
            virtualized: flags.split_whitespace().any(|flag| flag == "hypervisor"),
            transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled"),
            shared_memory_huge_pages: read("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            architecture: std::env::consts::ARCH.to_owned(),
        }
    }

    /// Returns the description in one line.
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

    /// Returns a name for files: the processor's name in small letters, and the number of CPUs.
    pub fn short_name(&self) -> String {
        let plain = self.processor.to_lowercase().replace("(r)", "").replace("(tm)", "");
        let words: Vec<&str> = plain
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.')
            .filter(|word| !word.is_empty() && !["processor", "cpu"].contains(word))
            .collect();
        format!("{}-{}cpu", words.join("-"), self.online_cpus)
    }
}
