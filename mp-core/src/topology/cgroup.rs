//! The limits of control groups: CPU quota and cpuset, of versions 2 and 1.
//!
//! A quota holds for all groups below the group that has it, so the tightest quota on the way from the process's group
//! to the root counts. Only groups that are mounted in this container can be seen. A limit outside the container is
//! invisible to this program, as to every other.

use super::source::Source;
use super::{CpuSet, Error, quota::Quota};
use std::path::{Component, Path, PathBuf};

/// The default period.
const DEFAULT_PERIOD_US: u64 = 100_000;

#[derive(Default)]
pub(super) struct Limits {
    pub(super) cpuset: Option<CpuSet>,
    pub(super) quota: Option<Quota>,
}

pub(super) fn limits(source: &Source) -> Result<Limits, Error> {
    let mut limits = Limits::default();
    let mounts = mounts(source)?;
    for membership in memberships(source)? {
        let Some(group) = locate(source, mounts.as_deref(), &membership) else { continue };
        for directory in group.directories() {
            let (quota, cpuset) = match membership.hierarchy {
                Hierarchy::Unified => (
                    quota_v2(source, directory)?,
                    source.cpus(directory.join("cpuset.cpus.effective"))?,
                ),
                Hierarchy::Cpu => (quota_v1(source, directory)?, None),
                Hierarchy::Cpuset => (None, cpuset_v1(source, directory)?),
            };
            limits.quota = limits.quota.into_iter().chain(quota).min_by(Quota::compare);
            // The nearest group that has a cpuset counts, because it is never wider than those above it.
            limits.cpuset = limits.cpuset.or(cpuset.filter(|cpus| !cpus.is_empty()));
        }
    }
    Ok(limits)
}

fn quota_v2(source: &Source, directory: &Path) -> Result<Option<Quota>, Error> {
    let file = directory.join("cpu.max");
    let limit = source.value(&file, "\"max PERIOD\" or \"QUOTA PERIOD\"", |text| {
        let (quota, period) = text.split_once(' ')?;
        let period = positive(period)?;
        match quota {
            "max" => Some(None),
            quota => Some(Some((positive(quota)?, period))),
        }
    })?;
    Ok(limit.flatten().map(|(quota_us, period_us)| Quota {
        quota_us,
        period_us,
        file: source.path(file),
    }))
}

fn quota_v1(source: &Source, directory: &Path) -> Result<Option<Quota>, Error> {
    let file = directory.join("cpu.cfs_quota_us");
    let quota = source.value(&file, "a number of microseconds or -1", |text| match text {
        "-1" => Some(None),
        quota => Some(Some(positive(quota)?)),
    })?;
    let Some(quota_us) = quota.flatten() else { return Ok(None) };
    let period = directory.join("cpu.cfs_period_us");
    let period_us = source.value(period, "a positive number of microseconds", positive)?;
    let period_us = period_us.unwrap_or(DEFAULT_PERIOD_US);
    Ok(Some(Quota { quota_us, period_us, file: source.path(file) }))
}

fn cpuset_v1(source: &Source, directory: &Path) -> Result<Option<CpuSet>, Error> {
    // Old kernels have no effective list.
    match source.cpus(directory.join("cpuset.effective_cpus"))? {
        Some(effective) => Ok(Some(effective)),
        None => source.cpus(directory.join("cpuset.cpus")),
    }
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|&number| number > 0)
}

/// A hierarchy of groups that can limit CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    /// Version 2.
    Unified,
    /// Version 1, controller `cpu`.
    Cpu,
    /// Version 1, controller `cpuset`.
    Cpuset,
}

impl Hierarchy {
    fn controller(self) -> Option<&'static str> {
        match self {
            Hierarchy::Unified => None,
            Hierarchy::Cpu => Some("cpu"),
            Hierarchy::Cpuset => Some("cpuset"),
        }
    }

    /// Returns where distributions mount the hierarchy, for use when the mount table cannot be read.
    fn usual_places(self) -> &'static [&'static str] {
        match self {
            Hierarchy::Unified => &["sys/fs/cgroup/unified", "sys/fs/cgroup"],
            Hierarchy::Cpu => &["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"],
            Hierarchy::Cpuset => &["sys/fs/cgroup/cpuset"],
        }
    }
}

/// The group that this process is in, in one hierarchy.
struct Membership {
    hierarchy: Hierarchy,
    group: PathBuf,
}

fn memberships(source: &Source) -> Result<Vec<Membership>, Error> {
    const FILE: &str = "proc/self/cgroup";
    let mut memberships = Vec::new();
    for line in source.text(FILE).unwrap_or_default().lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(Error::malformed(&source.path(FILE), "ID:CONTROLLERS:GROUP", line));
        };
        let found = [Hierarchy::Unified, Hierarchy::Cpu, Hierarchy::Cpuset].into_iter().filter(
            |hierarchy| match hierarchy.controller() {
                None => id == "0" && controllers.is_empty(),
                Some(controller) => controllers.split(',').any(|name| name == controller),
            },
        );
        memberships.extend(found.map(|hierarchy| Membership { hierarchy, group: group.into() }));
    }
    Ok(memberships)
}

struct Mount {
    /// The group of the hierarchy that is visible at the mount point. In some containers it is not `/`.
    root: PathBuf,
    point: PathBuf,
    kind: String,
    options: String,
}

impl Mount {
    fn shows(&self, hierarchy: Hierarchy) -> bool {
        match hierarchy.controller() {
            None => self.kind == "cgroup2",
            Some(controller) => {
                self.kind == "cgroup" && self.options.split(',').any(|name| name == controller)
            }
        }
    }
}

/// Reads the mount table; `None` if it cannot be read.
fn mounts(source: &Source) -> Result<Option<Vec<Mount>>, Error> {
    const FILE: &str = "proc/self/mountinfo";
    let Some(text) = source.text(FILE) else { return Ok(None) };
    let parse = |line: &str| {
        let (place, filesystem) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut filesystem = filesystem.split(' ');
        Some(Mount {
            root: unescape(place.next()?),
            point: unescape(place.next()?),
            kind: filesystem.next()?.to_owned(),
            options: filesystem.nth(1).unwrap_or_default().to_owned(),
        })
    };
    let malformed = |line| Error::malformed(&source.path(FILE), "a line of the mount table", line);
    text.lines()
        .map(|line| parse(line).ok_or_else(|| malformed(line)))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Undoes the escapes of the mount table, which writes blanks and backslashes as `\040`.
fn unescape(field: &str) -> PathBuf {
    let mut path = String::new();
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        path.push_str(before);
        let code = after.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                path.push(code.into());
                rest = &after[3..];
            }
            _ => {
                path.push('\\');
                rest = after;
            }
        }
    }
    path.push_str(rest);
    path.into()
}

/// A group as a directory, and how far up its parents can be seen.
struct Group {
    directory: PathBuf,
    mount_point: PathBuf,
}

impl Group {
    /// Returns the directories from the group up to the mount point.
    fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directory.ancestors().take_while(|path| path.starts_with(&self.mount_point))
    }
}

fn locate(source: &Source, mounts: Option<&[Mount]>, membership: &Membership) -> Option<Group> {
    let hierarchy = membership.hierarchy;
    let (root, point) = match mounts {
        Some(mounts) => {
            let showing = || mounts.iter().filter(|mount| mount.shows(hierarchy));
            let mount = showing()
                .find(|mount| membership.group.starts_with(&mount.root))
                .or_else(|| showing().next())?;
            (mount.root.as_path(), mount.point.strip_prefix("/").unwrap_or(&mount.point))
        }
        None => {
            let place =
                hierarchy.usual_places().iter().find(|place| source.path(place).is_dir())?;
            (Path::new("/"), Path::new(*place))
        }
    };
    // If the group is outside the mounted part, or is named from another namespace (`/../..`), only the mount point's
    // own group is visible. It is this process's group or one above it.
    let below = membership
        .group
        .strip_prefix(root)
        .ok()
        .filter(|below| below.components().all(|part| matches!(part, Component::Normal(_))));
    Some(Group {
        directory: point.join(below.unwrap_or(Path::new(""))),
        mount_point: point.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn quota(quota_us: u64, period_us: u64) -> Quota {
        Quota { quota_us, period_us, file: PathBuf::new() }
    }

    #[test]
    fn quotas_are_compared_and_rounded_exactly() {
        let one_and_a_half = quota(150_000, 100_000);
        assert_eq!(one_and_a_half.rounded_up(), 2);
        assert_eq!(one_and_a_half.to_string(), "1.5 CPUs");
        assert!(one_and_a_half.covers(1) && !one_and_a_half.covers(2));
        assert_eq!(quota(200_000, 100_000).rounded_up(), 2);
        assert!(quota(200_000, 100_000).covers(2));
        assert_eq!(quota(200_001, 100_000).rounded_up(), 3);
        assert_eq!(quota(1, u64::MAX).rounded_up(), 1);
        assert!(!quota(u64::MAX, 2).covers(usize::MAX));
        assert_eq!(quota(3, 2).compare(&one_and_a_half), Ordering::Equal);
        assert_eq!(quota(u64::MAX, 1).compare(&quota(1, u64::MAX)), Ordering::Greater);
    }

    #[test]
    fn mount_table_escapes_are_undone() {
        assert_eq!(unescape(r"/a\040b\134c"), Path::new(r"/a b\c"));
        for odd in [r"\", r"a\0", r"a\9zz", "\\04é", r"\777"] {
            assert_eq!(unescape(odd), Path::new(odd));
        }
    }
}
