//! The CPUs of the calling thread.

use super::{CpuSet, Error};
use core_affinity::CoreId;
use nix::errno::Errno;
use nix::sched;
use nix::unistd::Pid;
use std::io;

/// Confines the calling thread to one CPU.
///
/// Threads and processes that it starts afterwards inherit this.
///
/// # Errors
/// [`Error::Pin`] if the CPU is offline, does not exist, or is outside the process's cpuset.
pub fn pin_current_thread(cpu: usize) -> Result<(), Error> {
    let refused = |source| Error::Pin { cpus: CpuSet::from_iter([cpu]), source };
    // The mask of the system call has no bits for higher CPUs.
    if cpu >= sched::CpuSet::count() {
        return Err(refused(Errno::EINVAL.into()));
    }
    let pinned = core_affinity::set_for_current(CoreId { id: cpu });
    pinned.then_some(()).ok_or_else(|| refused(io::Error::last_os_error()))
}

/// Confines the calling thread to `cpus`. This undoes a pin, given the [`current_affinity`] from before it.
///
/// The system ignores CPUs outside the process's cpuset, as long as one is inside.
///
/// # Errors
/// [`Error::Pin`] if none of `cpus` can be used.
pub fn confine_current_thread(cpus: &CpuSet) -> Result<(), Error> {
    let mut mask = sched::CpuSet::new();
    cpus.iter()
        .try_for_each(|cpu| mask.set(cpu))
        .and_then(|()| sched::sched_setaffinity(Pid::from_raw(0), &mask))
        .map_err(|errno| Error::Pin { cpus: cpus.clone(), source: errno.into() })
}

/// Moves the calling thread to one of the CPUs that it may use, as thread `place` of `of` threads. The threads are
/// divided into blocks, so that neighbours share a CPU. The system may move the thread away from there later.
///
/// This is for threads that outnumber the CPUs and hand messages to their neighbours. If two neighbours share a CPU, a
/// thread that yields to the other has its answer when it runs again. On separate CPUs, only one half of the exchange
/// is done in that time (`cargo bench --bench ratios -- pairs`).
pub(crate) fn start_in_blocks(place: usize, of: usize) -> Result<(), Error> {
    let Some(cpus) = current_affinity().filter(|cpus| (2..of).contains(&cpus.len())) else {
        return Ok(());
    };
    if let Some(cpu) = cpus.iter().nth(place * cpus.len() / of) {
        pin_current_thread(cpu)?;
        confine_current_thread(&cpus)?;
    }
    Ok(())
}

/// Returns the CPUs that the calling thread may run on; `None` on machines with more CPUs than the mask of the system
/// call has bits (1024).
pub fn current_affinity() -> Option<CpuSet> {
    Some(core_affinity::get_core_ids()?.into_iter().map(|core| core.id).collect())
}
