//! The CPUs that a measurement may use, and holding a thread to them.

use std::thread::ScopedJoinHandle;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs that the calling thread may use, in ascending order.
pub fn usable() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Holds the calling thread, and whatever it starts from now on, to `cpus`.
pub fn confine(cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

fn confine_or_panic(cpus: &[usize]) {
    confine(cpus).unwrap_or_else(|e| panic!("cannot run on CPUs {cpus:?}: {e}"));
}

/// Runs `work` in a thread of its own held to `cpus`: the caller's affinity stays as it is.
///
/// # Panics
/// Where `cpus` cannot be had, or `work` panics.
pub fn confined<T: Send>(cpus: &[usize], work: impl FnOnce() -> T + Send) -> T {
    let in_its_thread = || {
        confine_or_panic(cpus);
        work()
    };
    std::thread::scope(|scope| join(scope.spawn(in_its_thread)))
}

/// Runs `left` on the first CPU and `right` on the second at the same time, each in a thread of
/// its own; gives back both results.
///
/// # Panics
/// Where a CPU cannot be had, or one of the two panics.
pub fn side_by_side<L: Send, R: Send>(
    [first, second]: [usize; 2],
    left: impl FnOnce() -> L + Send,
    right: impl FnOnce() -> R + Send,
) -> (L, R) {
    std::thread::scope(|scope| {
        let left = scope.spawn(move || {
            confine_or_panic(&[first]);
            left()
        });
        let right = scope.spawn(move || {
            confine_or_panic(&[second]);
            right()
        });
        (join(left), join(right))
    })
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
