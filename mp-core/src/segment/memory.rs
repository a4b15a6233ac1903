//! How much memory can still be taken without waking the OOM killer.
//!
//! `fallocate` on a memfd does not fail when memory runs out: the kernel kills a process instead.
//! So the machine's available memory and the limits of this process's control groups are looked
//! at before pages are committed.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The tightest limit on new pages: bytes that can still be taken, and what says so.
pub(crate) fn available() -> Option<(u64, &'static str)> {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| meminfo_available(&text))
        .map(|bytes| (bytes, "MemAvailable of the machine"));
    let groups = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        group_folders(&text).into_iter().filter_map(|folder| left_in_group(&folder)).min()
    });
    let group = groups.map(|bytes| (bytes, "memory limit of the control group"));
    machine.into_iter().chain(group).min()
}

/// Total memory of the machine in bytes.
pub(crate) fn total() -> Option<u64> {
    field_kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn meminfo_available(text: &str) -> Option<u64> {
    field_kib(text, "MemAvailable:")
}

fn field_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of this process's memory control groups, innermost first: a limit may stand at any
/// level.
fn group_folders(proc_self_cgroup: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in proc_self_cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let root = if controllers.is_empty() {
            Path::new("/sys/fs/cgroup")
        } else if controllers.split(',').any(|c| c == "memory") {
            Path::new("/sys/fs/cgroup/memory")
        } else {
            continue;
        };
        let mut inner = PathBuf::from(path.trim_start_matches('/'));
        loop {
            folders.push(root.join(&inner));
            if !inner.pop() {
                break;
            }
        }
    }
    folders
}

fn left_in_group(folder: &Path) -> Option<u64> {
    let number =
        |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")?),
        None => (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?),
    };
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       24684084 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(meminfo_available(text), Some(23_000_000 * 1024));
        assert_eq!(meminfo_available("MemTotal: 5 kB"), None);
        assert_eq!(meminfo_available("MemAvailable: lots"), None);
    }

    #[test]
    fn both_generations_of_control_groups_are_walked_to_their_root() {
        let folders = group_folders("9:name=systemd:/\n4:memory:/a/b\n0::/x\n");
        let folders: Vec<_> = folders.iter().map(|f| f.to_str().unwrap()).collect();
        assert_eq!(
            folders,
            [
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory/a",
                "/sys/fs/cgroup/memory/",
                "/sys/fs/cgroup/x",
                "/sys/fs/cgroup/",
            ]
        );
    }

    #[test]
    fn a_limit_leaves_what_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left_in_group(folder.path()), None);
        fs::write(folder.path().join("memory.max"), "1000\n").unwrap();
        fs::write(folder.path().join("memory.current"), "400\n").unwrap();
        assert_eq!(left_in_group(folder.path()), Some(600));
        fs::write(folder.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(left_in_group(folder.path()), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(total().unwrap() >= available().unwrap().0);
    }
}
