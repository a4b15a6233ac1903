//! The CPUs that a measurement may use, and functions that bind threads to them.

use std::thread::ScopedJoinHandle;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Returns the CPUs that the calling thread may use, in ascending order.
pub fn usable() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Binds the calling thread to `cpus`, and with it all threads and processes that it starts afterwards.
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

/// Runs `work` in a separate thread bound to `cpus`, so that the caller's affinity stays as it is.
///
/// # Panics
/// If `cpus` are not available, or `work` panics.
pub fn confined<T: Send>(cpus: &[usize], work: impl FnOnce() -> T + Send) -> T {
    let in_its_thread = || {
        confine_or_panic(cpus);
        work()
    };
    std::thread::scope(|scope| join(scope.spawn(in_its_thread)))
}

/// Runs `left` on the first CPU and `right` on the second at the same time, each in a separate thread. Returns both
/// results.
///
/// # Panics
/// If a CPU is not available, or one of the two panics.
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
