//! Segments on machines with little memory.

use std::{fs, path::Path};

use super::*;
use crate::{
    segment::{BlockKind, SegmentError},
    sync::{AtomicU32, Ordering},
};

const MIB: u64 = 1 << 20;

/// A machine on which this process is in a control group with a limit of `limit` bytes.
struct Small {
    root: &'static Path,
    limit: u64,
}

impl Small {
    fn new(folder: &tempfile::TempDir, limit: u64) -> Self {
        let root: &Path = Box::leak(folder.path().to_owned().into_boxed_path());
        for inner in ["proc/self", "sys/fs/cgroup/a"] {
            fs::create_dir_all(root.join(inner)).unwrap();
        }
        fs::write(root.join("proc/self/cgroup"), "0::/a\n").unwrap();
        fs::write(root.join("sys/fs/cgroup/a/memory.max"), limit.to_string()).unwrap();
        Self { root, limit }
    }

    /// Sets the group's memory use to that of a process that has only this segment.
    fn used_by(&self, segment: &Segment) {
        let used = segment.resident();
        assert!(used < self.limit, "the OOM killer would have come");
        fs::write(self.root.join("sys/fs/cgroup/a/memory.current"), used.to_string()).unwrap();
    }
}

/// Allocates in small and in large steps until there is no more memory. Each time, an error is returned before the
/// system would have to kill a process.
#[test]
fn who_allocates_without_end_meets_an_error() {
    for step in [100_000, 7 * MIB, 30 * MIB] {
        let folder = tempfile::tempdir().unwrap();
        let small = Small::new(&folder, 120 * MIB);
        let mut segment = memfd(1 << 40);
        segment.look_at_machine(small.root);
        let heap = segment.heap();
        let (mut keys, mut refused) = (Vec::new(), 0);
        while refused < 5 {
            small.used_by(&segment);
            match heap.allocate(0, |_| false, BlockKind::Buffer, step) {
                Ok(key) => keys.push(key),
                Err(SegmentError::OutOfMemory { limit, .. }) => {
                    assert_eq!(limit, "memory limit of the control group");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        small.used_by(&segment);
        let left = small.limit - segment.resident();
        assert!(left >= 32 * MIB, "{left} bytes left with steps of {step}");
        assert!(left < 32 * MIB + 2 * step + 20 * MIB, "{left} bytes left with steps of {step}");
        // Memory that was given back can be allocated again.
        let half = keys.len() / 2 + 1;
        for key in keys.drain(..half) {
            heap.lock(0, |_| false).unwrap().free(key).unwrap();
        }
        heap.allocate(0, |_| false, BlockKind::Buffer, step).unwrap();
    }
}

/// If a block does not fit, the pages that were committed for it are given back.
#[test]
fn a_refused_block_gives_back_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let small = Small::new(&folder, 400 * MIB);
    let mut segment = memfd(1 << 40);
    segment.look_at_machine(small.root);
    small.used_by(&segment);
    let before = segment.resident();
    // Other processes take the rest in the meantime: the group's use seems not to grow, and then the group is full.
    let full = || fs::write(small.root.join("sys/fs/cgroup/a/memory.current"), "400000000");
    let refused = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while segment.resident() < before + 10 * MIB && refused.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert!(refused.load(Ordering::Relaxed) == 0, "at the first look");
            full().unwrap();
        });
        let error = segment.heap().allocate(0, |_| false, BlockKind::Buffer, 300 * MIB);
        refused.store(1, Ordering::Relaxed);
        assert!(matches!(error, Err(SegmentError::OutOfMemory { .. })), "{error:?}");
    });
    // The huge page with the header may stay.
    assert!(segment.resident() <= before + 4 * MIB, "{} of {before}", segment.resident());
}

#[test]
fn a_process_can_hand_out_less_than_there_is() {
    let segment = memfd(64 * MIB);
    let allocate = |bytes| segment.heap().allocate(0, |_| false, BlockKind::Buffer, bytes);
    segment.confine(Some(5 * MIB)).unwrap();
    assert_eq!(segment.end(), 6 * MIB, "in whole huge pages");
    let error = allocate(7 * MIB).unwrap_err();
    assert!(matches!(error, SegmentError::Full { size, .. } if size == 6 * MIB), "{error}");
    allocate(4 * MIB).unwrap();
    segment.confine(None).unwrap();
    allocate(20 * MIB).unwrap();
    // This is less than the heap already uses.
    segment.confine(Some(MIB)).unwrap();
    let error = allocate(7 * MIB).unwrap_err();
    assert!(matches!(error, SegmentError::Full { left: 0, .. }), "{error}");
    let error = segment.confine(Some(65 * MIB)).unwrap_err();
    assert!(error.to_string().ends_with("mprun --segment-size 69206016"), "{error}");
}

/// Returns the flags of the segment's mapping.
fn flags(segment: &Segment) -> String {
    let begin = segment.range(0, 0, "its beginning").unwrap().addr().get();
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let hex = |text| usize::from_str_radix(text, 16).ok();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (hex(start), hex(end))) {
            inside = (start..end).contains(&begin);
        }
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return flags.to_owned();
        }
    }
    panic!("it is not mapped");
}

#[test]
fn core_dumps_have_the_segment_only_where_that_is_asked_for() {
    let segment = memfd(MIB);
    let fd = segment.fd().unwrap().try_clone_to_owned().unwrap();
    let attached = Segment::attach(fd, true, crate::world::parts()).unwrap();
    for segment in [segment, attached] {
        assert!(flags(&segment).contains(" dd"), "{}", flags(&segment));
        segment.dump(true);
        assert!(!flags(&segment).contains(" dd"), "{}", flags(&segment));
        segment.dump(false);
        assert!(flags(&segment).contains(" dd"), "{}", flags(&segment));
    }
}
