//! The effects of affinity, cpusets and quotas.

use crate::machines::*;
use mp_core::topology::*;

const CFS_QUOTA: &str = "cpu.cfs_quota_us";
const CFS_PERIOD: &str = "cpu.cfs_period_us";

/// Puts the process into cgroups of version 1, in hierarchies mounted as `mounts` (controllers, root, mount point).
fn cgroup1(machine: &Machine, groups: &str, mounts: &[(&str, &str, &str)]) {
    let line = |(controllers, root, point): &(&str, &str, &str)| {
        format!("32 31 0:29 {root} {point} rw - cgroup cgroup rw,{controllers}\n")
    };
    machine.file("proc/self/cgroup", groups);
    machine.file("proc/self/mountinfo", mounts.iter().map(line).collect::<String>());
}

fn quota(machine: &Machine) -> Option<String> {
    machine.read().allowance().quota.as_ref().map(|quota| quota.cpus().to_string())
}

#[test]
fn a_cpuset_of_two() {
    let topology = cpuset_of_two().read();
    assert_eq!(topology.usable_cpus().to_string(), "2-3");
    assert_eq!((topology.usable_cores(), topology.usable_parallelism()), (2, 2));
    let allowance = topology.allowance();
    assert_eq!(allowance.cpuset.as_ref().unwrap().to_string(), "2-3", "the nearest group's");
    assert_eq!(allowance.quota, None);
    assert_eq!(topology.cores().len(), 4, "the machine is still seen whole");
    assert!(!topology.has_spare_siblings(2));
}

#[test]
fn where_the_mask_is_unknown_the_cpuset_takes_its_place() {
    let machine = cpuset_of_two();
    machine.remove("proc/self/status");
    assert_eq!(machine.read().usable_cpus().to_string(), "2-3");
    machine.remove("sys/fs/cgroup/box");
    assert_eq!(machine.read().usable_cpus().to_string(), "0-7");
}

#[test]
fn the_mask_counts_where_a_group_says_otherwise() {
    let machine = cpuset_of_two();
    machine.affinity("3,5");
    assert_eq!(machine.read().usable_cpus().to_string(), "3,5");
}

#[test]
fn cpusets_of_version_1() {
    let machine = laptop();
    machine.remove("proc/self/status");
    cgroup1(&machine, "3:cpuset:/a/b\n", &[("cpuset", "/", "/sys/fs/cgroup/cpuset")]);
    machine.file("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n");
    machine.file("sys/fs/cgroup/cpuset/a/cpuset.cpus", "4-7\n");
    machine.file("sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "4-6\n");
    machine.file("sys/fs/cgroup/cpuset/a/b/cpuset.cpus", "\n");
    assert_eq!(machine.read().usable_cpus().to_string(), "4-6");
}

#[test]
fn a_quota_of_one_and_a_half() {
    let machine = quota_of_one_and_a_half();
    let topology = machine.read();
    let quota = topology.allowance().quota.clone().unwrap();
    assert_eq!((quota.cpus(), quota.rounded_up(), quota.to_string()), (1.5, 2, "1.5 CPUs".into()));
    assert_eq!(quota.file, machine.root().join("sys/fs/cgroup/box/cpu.max"));
    assert_eq!(topology.usable_cpus().len(), 8);
    assert_eq!((topology.usable_cores(), topology.usable_parallelism()), (4, 2));
    assert_eq!(topology.allowance().parallelism(), 2);
}

#[test]
fn the_tightest_quota_up_to_the_root_counts() {
    let machine = laptop();
    machine.cgroup2("/a/b/c");
    machine.file("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    assert_eq!(quota(&machine), None);
    machine.file("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    assert_eq!(quota(&machine).unwrap(), "3");
    machine.file("sys/fs/cgroup/a/b/cpu.max", "50000 20000\n");
    assert_eq!(quota(&machine).unwrap(), "2.5");
    machine.file("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
    assert_eq!(quota(&machine).unwrap(), "2.5");
    machine.file("sys/fs/cgroup/cpu.max", "1000 100000\n");
    assert_eq!(quota(&machine).unwrap(), "0.01");
    assert_eq!(machine.read().usable_parallelism(), 1);
    machine.file("sys/fs/cpu.max", "1 1000000\n");
    assert_eq!(quota(&machine).unwrap(), "0.01", "nothing above the mount is looked at");
}

#[test]
fn a_quota_larger_than_the_machine_changes_nothing() {
    let machine = laptop();
    machine.cgroup2("/").file("sys/fs/cgroup/cpu.max", "1200000 100000\n");
    assert_eq!(machine.read().usable_parallelism(), 8);
}

#[test]
fn quotas_of_version_1() {
    let machine = laptop();
    let dir = "sys/fs/cgroup/cpu,cpuacct";
    cgroup1(
        &machine,
        "9:name=systemd:/x\n4:cpu,cpuacct:/a/b\n3:cpuset:/\n0::/\n",
        &[("cpu,cpuacct", "/", "/sys/fs/cgroup/cpu,cpuacct")],
    );
    machine.file(format!("{dir}/a/b/{CFS_QUOTA}"), "-1\n");
    machine.file(format!("{dir}/a/b/{CFS_PERIOD}"), "100000\n");
    assert_eq!(quota(&machine), None);
    machine.file(format!("{dir}/a/{CFS_QUOTA}"), "350000\n");
    assert_eq!(quota(&machine).unwrap(), "3.5", "the kernel's period where none is told");
    machine.file(format!("{dir}/a/{CFS_PERIOD}"), "200000\n");
    assert_eq!(quota(&machine).unwrap(), "1.75");
    let file = machine.read().allowance().quota.clone().unwrap().file;
    assert_eq!(file, machine.root().join(dir).join("a").join(CFS_QUOTA));
}

#[test]
fn a_container_sees_its_own_group_at_the_mount_point() {
    let machine = laptop();
    let mounts = [("cpu", "/docker/abc", "/sys/fs/cgroup/cpu")];
    machine.file(format!("sys/fs/cgroup/cpu/{CFS_QUOTA}"), "200000\n");
    machine.file(format!("sys/fs/cgroup/cpu/sub/{CFS_QUOTA}"), "100000\n");
    for (group, expected) in [
        ("/docker/abc", "2"),
        ("/docker/abc/sub", "1"),
        ("/docker/other", "2"),
        ("/../other", "2"),
        ("/docker/abc/../abc/sub", "2"),
        ("/", "2"),
    ] {
        cgroup1(&machine, &format!("1:cpu:{group}\n"), &mounts);
        assert_eq!(quota(&machine).unwrap(), expected, "{group}");
    }
}

#[test]
fn groups_are_found_at_the_usual_places_without_a_mount_table() {
    for (line, file, content) in [
        ("0::/a", "sys/fs/cgroup/a/cpu.max", "200000 100000"),
        ("0::/a", "sys/fs/cgroup/unified/a/cpu.max", "200000 100000"),
        ("1:cpu:/a", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000"),
        ("1:cpuacct,cpu:/a", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000"),
    ] {
        let machine = laptop();
        machine.file("proc/self/cgroup", line).file(file, content);
        assert_eq!(quota(&machine).as_deref(), Some("2"), "{file}");
    }
}

#[test]
fn both_versions_side_by_side() {
    let machine = laptop();
    machine.file("proc/self/cgroup", "1:cpu:/\n0::/a:b c\n");
    machine.file(
        "proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
         41 31 0:38 / /sys/fs/cgroup/two\\040words rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
    );
    machine.file("sys/fs/cgroup/two words/a:b c/cpu.max", "300000 100000\n");
    assert_eq!(quota(&machine).unwrap(), "3");
    machine.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    assert_eq!(quota(&machine).unwrap(), "2");
}

#[test]
fn a_deleted_group_leaves_those_above() {
    let machine = laptop();
    machine.cgroup2("/a/gone (deleted)").file("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    assert_eq!(quota(&machine).unwrap(), "2");
}

#[test]
fn a_mask_without_online_cpus_is_an_error() {
    let machine = laptop();
    machine.affinity("8-9");
    let error = machine.topology().unwrap_err();
    assert!(matches!(error, Error::NothingUsable { .. }));
    assert_eq!(
        error.to_string(),
        "no usable CPU: confined to CPUs 8-9, but there are CPUs 0-7; start the program with another affinity (taskset)"
    );
}
