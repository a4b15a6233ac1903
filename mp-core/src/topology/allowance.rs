//! The limits that affinity mask, cpuset and quota set for this process.

use super::pin::current_affinity;
use super::source::Source;
use super::{CpuSet, Error};
use super::{cgroup, quota::Quota};
use std::path::Path;

/// The part of the machine that this process may use. This is much cheaper to read than a whole
/// [`Topology`](super::Topology): it takes a few files, however many CPUs there are.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Allowance {
    /// The CPUs that the calling thread may run on, if known. The kernel keeps this within the cpuset.
    pub affinity: Option<CpuSet>,
    /// The CPUs of the process's cgroup, if the cgroup sets them. This explains a small affinity mask. It is used in
    /// place of the mask only if the mask is unknown.
    pub cpuset: Option<CpuSet>,
    /// The tightest limit on CPU time among the process's cgroup and those above it.
    pub quota: Option<Quota>,
}

impl Allowance {
    /// Reads the limits of the calling thread and of the threads that it starts.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a file whose content makes no sense.
    pub fn read() -> Result<Self, Error> {
        Self::read_with(&Source::new(Path::new("/")), current_affinity())
    }

    pub(super) fn read_with(source: &Source, affinity: Option<CpuSet>) -> Result<Self, Error> {
        let limits = cgroup::limits(source)?;
        let affinity = match affinity {
            Some(known) => Some(known),
            None => affinity_from_status(source)?.or_else(|| limits.cpuset.clone()),
        };
        Ok(Self { affinity, cpuset: limits.cpuset, quota: limits.quota })
    }

    /// Returns how many threads can make progress at once: the CPUs of the affinity mask, or the quota rounded up if
    /// that is smaller. At least 1, even if nothing is known.
    pub fn parallelism(&self) -> usize {
        self.limit(self.affinity.as_ref().map_or(1, CpuSet::len))
    }

    pub(super) fn limit(&self, cpus: usize) -> usize {
        self.quota.as_ref().map_or(cpus, |quota| quota.rounded_up().min(cpus)).max(1)
    }
}

fn affinity_from_status(source: &Source) -> Result<Option<CpuSet>, Error> {
    const FIELD: &str = "Cpus_allowed_list:";
    for file in ["proc/thread-self/status", "proc/self/status"] {
        let Some(status) = source.text(file) else { continue };
        let Some(line) = status.lines().find(|line| line.starts_with(FIELD)) else { continue };
        let cpus: Option<CpuSet> = line[FIELD.len()..].parse().ok();
        return match cpus {
            Some(cpus) if !cpus.is_empty() => Ok(Some(cpus)),
            _ => Err(Error::malformed(&source.path(file), "a list of CPUs", line)),
        };
    }
    Ok(None)
}
