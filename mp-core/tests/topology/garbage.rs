//! Files that are missing or make no sense: the result is an answer or an error that names the file, and never a panic.

use crate::machines::*;
use mp_core::topology::*;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

const CPU0: &str = "sys/devices/system/cpu/cpu0";

/// Makes a machine that has all files that are ever read.
fn full() -> Machine {
    let machine = hybrid();
    machine.file(format!("{CPU0}/cpu_capacity"), "1024\n");
    machine.file("sys/devices/cpu_lowpower/cpus", "19\n");
    machine.file("proc/self/cgroup", "2:cpu:/a\n3:cpuset:/\n0::/a\n");
    machine.file(
        "proc/self/mountinfo",
        "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         2 0 0:2 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         3 0 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );
    machine.file("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "400000\n");
    machine.file("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    machine.file("sys/fs/cgroup/cpuset/cpuset.cpus", "0-19\n");
    machine.file("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-19\n");
    machine.file("sys/fs/cgroup/unified/a/cpu.max", "max 100000\n");
    machine.file("sys/fs/cgroup/unified/a/cpuset.cpus.effective", "0-19\n");
    machine
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Reads the machine, plans and draws. An error must name the file at fault.
fn assert_answers(machine: &Machine, spoiled: &Path) {
    match machine.topology() {
        Ok(topology) => {
            assert!(!topology.usable_cpus().is_empty());
            for ranks in [1, 7, 30] {
                let plan = Plan::for_ranks(&topology, ranks, &Bind::Auto).unwrap();
                assert!(!topology.draw(Some(&plan)).to_string().is_empty());
            }
        }
        Err(Error::Malformed { path, expected, content }) => {
            assert_eq!(path, spoiled);
            assert!(!expected.is_empty() && content.chars().count() <= 81);
        }
        Err(Error::NothingUsable { .. } | Error::NoCpu { .. }) => {}
        Err(other) => panic!("{}: {other}", spoiled.display()),
    }
}

#[test]
fn any_file_spoiled_in_any_of_these_ways() {
    let machine = full();
    assert!(machine.topology().is_ok());
    for file in files(machine.root()) {
        // All CPUs are alike, so only the files of one CPU are spoilt.
        let is_of_a_cpu = file.to_str().unwrap().contains("/cpu/cpu");
        if is_of_a_cpu && !file.starts_with(machine.root().join(CPU0)) {
            continue;
        }
        let sound = fs::read(&file).unwrap();
        let kilobyte = vec![b'7'; 1000];
        for garbage in [
            &b""[..],
            b"\n",
            b"garbage",
            b"-1",
            b"0",
            b"0-18446744073709551615",
            b"18446744073709551616",
            b"99999",
            b"3-1,,",
            b"\xff\xfe\x00\x80",
            "0-1\u{2028}é".as_bytes(),
            b"max",
            b"0 0",
            b"1 0",
            b"0:::",
            b" - ",
            &kilobyte,
        ] {
            fs::write(&file, garbage).unwrap();
            assert_answers(&machine, &file);
        }
        fs::remove_file(&file).unwrap();
        assert_answers(&machine, &file);
        fs::create_dir(&file).unwrap();
        assert_answers(&machine, &file);
        fs::remove_dir(&file).unwrap();
        fs::write(&file, sound).unwrap();
    }
}

#[test]
fn a_missing_file_is_never_an_error() {
    let machine = full();
    for file in files(machine.root()) {
        let sound = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(machine.topology().is_ok(), "{}", file.display());
        fs::write(&file, sound).unwrap();
    }
}

#[test]
fn errors_name_the_file_and_its_content() {
    let cases = [
        ("sys/devices/system/cpu/online", "zero", "a list of CPUs"),
        ("sys/devices/system/cpu/present", "0-", "a list of CPUs"),
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0;1", "a list of CPUs"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "one", "a package number"),
        ("sys/devices/system/cpu/cpu0/cache/index0/level", "L1", "a number"),
        ("sys/devices/system/cpu/cpu0/cache/index0/type", "Trace", "a kind of cache"),
        ("sys/devices/system/cpu/cpu0/cache/index0/size", "48KB", "a size such as 32K"),
        ("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "?", "a list of CPUs"),
        ("sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "", "a number"),
        ("sys/devices/system/node/node0/cpulist", "node0", "a list of CPUs"),
        ("sys/devices/cpu_core/cpus", "P", "a list of CPUs"),
        ("proc/self/cgroup", "cgroup", "ID:CONTROLLERS:GROUP"),
        ("proc/self/mountinfo", "1 2 3", "a line of the mount table"),
        ("sys/fs/cgroup/unified/a/cpu.max", "150000", "\"max PERIOD\" or \"QUOTA PERIOD\""),
        ("sys/fs/cgroup/unified/a/cpu.max", "1.5 1", "\"max PERIOD\" or \"QUOTA PERIOD\""),
        ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-2", "a number of microseconds or -1"),
        ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "0", "a positive number of microseconds"),
    ];
    for (file, content, expected) in cases {
        let machine = full();
        let path = machine.root().join(file);
        machine.file(file, content);
        let message = machine.topology().expect_err(file).to_string();
        let wanted = format!("{}: expected {expected}, found {content:?}", path.display());
        assert_eq!(message, wanted);
    }
    let machine = full();
    machine.affinity("0-q");
    let message = machine.topology().unwrap_err().to_string();
    assert!(message.ends_with("found \"Cpus_allowed_list:\\t0-q\""), "{message}");
}

#[test]
fn an_empty_tree_has_no_cpu() {
    let machine = Machine::new();
    let error = machine.topology().unwrap_err();
    assert!(matches!(&error, Error::NoCpu { root } if root == machine.root()));
    let missing = machine.root().join("missing");
    assert!(matches!(Topology::read_from(&missing), Err(Error::NoCpu { .. })));
}

#[test]
fn any_number_of_caches_of_any_level() {
    let machine = one_core();
    for index in 0..50 {
        machine.file(format!("{CPU0}/cache/index{index}/level"), format!("{}\n", u64::MAX));
    }
    assert_eq!(machine.read().caches().len(), 50);
}

#[test]
fn a_file_of_random_bytes() {
    let machine = full();
    let files = files(machine.root());
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[0-9,:/ -]{0,20}".prop_map(String::into_bytes),
    ];
    proptest!(|(which in any::<prop::sample::Index>(), content in content)| {
        let file = which.get(&files);
        let sound = fs::read(file).unwrap();
        fs::write(file, content).unwrap();
        assert_answers(&machine, file);
        fs::write(file, sound).unwrap();
    });
}
