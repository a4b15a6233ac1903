//! How much memory can still be committed without waking the OOM killer, and how large a segment may be.
//!
//! `fallocate` on a memfd does not fail when memory runs out: the kernel kills a process instead. So the machine's
//! available memory and the limits of this process's control groups are checked before pages are committed. Some memory
//! is always left free, for three reasons: page tables grow when ranks touch committed pages, other processes take
//! memory between a check and the allocation of pages, and the available memory is only an estimate.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::sizes::{FRONT, PAGE};

/// Returns the tightest limit on new pages: the number of bytes that can still be committed, and the name of what
/// limits them.
pub(crate) fn available() -> Option<(u64, &'static str)> {
    available_below(Path::new("/"))
}

/// Returns what [`available`] returns, for a machine whose `/proc` and `/sys` lie below `root`.
pub(crate) fn available_below(root: &Path) -> Option<(u64, &'static str)> {
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let machine = read("proc/meminfo")
        .and_then(|text| left_on_machine(&text))
        .map(|bytes| (bytes, "MemAvailable of the machine"));
    let groups = read("proc/self/cgroup").and_then(|text| {
        group_folders(&text).iter().filter_map(|folder| left_in_group(&root.join(folder))).min()
    });
    let group = groups.map(|bytes| (bytes, "memory limit of the control group"));
    machine.into_iter().chain(group).min()
}

/// Returns how many of `all` bytes are left free.
fn margin(all: u64) -> u64 {
    (all / 16).clamp(32 << 20, 4 << 30)
}

/// Returns the default size of a segment: the machine's memory, rounded up to a power of two, or less if this process
/// may not have such large files or so much address space. Memory that is not used costs nothing.
pub(crate) fn default_size() -> u64 {
    /// The least size for a useful world. If the limits allow less, making the segment fails with an error that names
    /// the limit.
    const LEAST: u64 = 16 << 20;
    let memory = fs::read_to_string("/proc/meminfo").ok();
    let total = memory.and_then(|text| field_kib(&text, "MemTotal:")).unwrap_or(0);
    let whole = total.next_power_of_two().max(1 << 30);
    let file = file_size_limit().map_or(whole, |limit| limit.saturating_sub(FRONT));
    // The program and its threads need address space as well.
    let mapped = fs::read_to_string("/proc/self/statm").ok();
    let mapped = mapped.and_then(|text| text.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    let address = address_space_limit()
        .map_or(whole, |limit| limit.saturating_sub(mapped.saturating_mul(PAGE)) / 2);
    let size = whole.min(file).min(address) / FRONT * FRONT;
    size.max(LEAST)
}

/// Returns the size of the largest file that this process may make (`ulimit -f`). The system sends SIGXFSZ to a process
/// that exceeds it.
pub(crate) fn file_size_limit() -> Option<u64> {
    soft_limit(Resource::RLIMIT_FSIZE)
}

/// Returns how many bytes this process may map (`ulimit -v`).
pub(crate) fn address_space_limit() -> Option<u64> {
    soft_limit(Resource::RLIMIT_AS)
}

fn soft_limit(of: Resource) -> Option<u64> {
    getrlimit(of).ok().map(|(soft, _)| soft).filter(|&soft| soft != RLIM_INFINITY)
}

fn left_on_machine(meminfo: &str) -> Option<u64> {
    let available = field_kib(meminfo, "MemAvailable:")?;
    let total = field_kib(meminfo, "MemTotal:").unwrap_or(0);
    Some(available.saturating_sub(margin(total)))
}

fn field_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the folders of this process's memory control groups, innermost first: a limit may be set at any level.
fn group_folders(proc_self_cgroup: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in proc_self_cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let hierarchy = if controllers.is_empty() {
            Path::new("sys/fs/cgroup")
        } else if controllers.split(',').any(|c| c == "memory") {
            Path::new("sys/fs/cgroup/memory")
        } else {
            continue;
        };
        let mut inner = PathBuf::from(path.trim_start_matches('/'));
        loop {
            folders.push(hierarchy.join(&inner));
            if !inner.pop() {
                break;
            }
        }
    }
    folders
}

/// Returns how much a group's limit leaves. The group's page cache counts as free, because the kernel takes it back
/// before it kills a process.
fn left_in_group(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    // The first case is version 2 of control groups. The second is version 1, where the fields that include inner
    // groups have other names.
    let (limit, used, cached) = match number("memory.max") {
        Some(limit) => (
            limit,
            number("memory.current")?,
            ["inactive_file ", "active_file ", "slab_reclaimable "],
        ),
        None => (
            number("memory.limit_in_bytes")?,
            number("memory.usage_in_bytes")?,
            ["total_inactive_file ", "total_active_file ", "total_slab_reclaimable "],
        ),
    };
    let stat = read("memory.stat").unwrap_or_default();
    let cached: u64 = stat
        .lines()
        .filter_map(|line| cached.iter().find_map(|field| line.strip_prefix(field)))
        .filter_map(|bytes| bytes.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add);
    Some(limit.saturating_sub(used.saturating_sub(cached)).saturating_sub(margin(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   8388608 kB\n";
        assert_eq!(left_on_machine(text), Some(7 * GIB));
        assert_eq!(left_on_machine("MemTotal: 5 kB"), None);
        assert_eq!(left_on_machine("MemAvailable: lots"), None);
        assert_eq!(left_on_machine("MemAvailable: 5 kB"), Some(0));
    }

    #[test]
    fn some_of_all_memory_is_left() {
        assert_eq!(margin(64 * MIB), 32 * MIB);
        assert_eq!(margin(16 * GIB), GIB);
        assert_eq!(margin(u64::MAX), 4 * GIB);
    }

    #[test]
    fn both_generations_of_control_groups_are_walked_to_their_root() {
        let folders = group_folders("9:name=systemd:/\n4:memory:/a/b\n0::/x\n");
        let folders: Vec<_> = folders.iter().map(|f| f.to_str().unwrap()).collect();
        assert_eq!(
            folders,
            [
                "sys/fs/cgroup/memory/a/b",
                "sys/fs/cgroup/memory/a",
                "sys/fs/cgroup/memory/",
                "sys/fs/cgroup/x",
                "sys/fs/cgroup/",
            ]
        );
    }

    /// Makes a machine of 16 GiB on which this process is in a group with these files.
    fn machine(group: &str, in_cgroup: &str, files: &[(&str, String)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        write("proc/self/cgroup", in_cgroup);
        for (name, text) in files {
            write(&format!("{group}/{name}"), text);
        }
        root
    }

    #[test]
    fn a_limit_leaves_what_is_not_used() {
        let files = |max: &str| {
            [("memory.max", format!("{max}\n")), ("memory.current", format!("{}\n", 100 * MIB))]
        };
        let left = |max: &str| {
            let root = machine("sys/fs/cgroup/a", "0::/a/b\n", &files(max));
            available_below(root.path()).unwrap().0
        };
        assert_eq!(left(&(512 * MIB).to_string()), 380 * MIB);
        assert_eq!(left(&(120 * MIB).to_string()), 0);
        // The group has no limit, so the machine's memory counts.
        assert_eq!(left("max"), 7 * GIB);
    }

    #[test]
    fn what_a_group_has_cached_counts_as_left() {
        let stat = "anon 1\nfile 2\ninactive_anon 7\ninactive_file 314572800\n\
                    active_file 104857600\nslab_reclaimable 1048576\nworkingset_refault_file 5\n";
        let root = machine(
            "sys/fs/cgroup/a",
            "0::/a\n",
            &[
                ("memory.max", (512 * MIB).to_string()),
                ("memory.current", (511 * MIB).to_string()),
                ("memory.stat", stat.to_owned()),
            ],
        );
        let group = "memory limit of the control group";
        assert_eq!(available_below(root.path()), Some(((1 + 401 - 32) * MIB, group)));

        // Version 1 has separate fields for the group alone and for the group with all inner groups.
        let stat = "cache 1\ninactive_file 0\nactive_file 0\ntotal_inactive_file 314572800\n\
                    total_active_file 104857600\n";
        let root = machine(
            "sys/fs/cgroup/memory/a",
            "4:memory:/a\n0::/\n",
            &[
                ("memory.limit_in_bytes", (512 * MIB).to_string()),
                ("memory.usage_in_bytes", (511 * MIB).to_string()),
                ("memory.stat", stat.to_owned()),
            ],
        );
        assert_eq!(available_below(root.path()), Some(((1 + 400 - 32) * MIB, group)));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(default_size() >= available().unwrap().0);
    }
}
