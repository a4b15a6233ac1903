//! What can be wrong with the files of a machine, a binding, or a pin.

use super::CpuSet;
use std::path::{Path, PathBuf};

/// Why the machine could not be read, ranks not be placed, or a thread not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is there, but its content is not what the kernel writes.
    #[error("{}: expected {expected}, found {content:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What it holds: the beginning, or the line at fault.
        content: String,
    },
    /// Neither `/sys` nor `/proc` below the root tells of any CPU.
    #[error("no CPU found: {} tells of none in sys/devices/system/cpu or proc/self/status", root.display())]
    NoCpu {
        /// The directory read in place of `/`.
        root: PathBuf,
    },
    /// None of the CPUs this process is confined to can be used.
    #[error("no usable CPU: confined to {}, but there are {}", affinity.spelled(), online.spelled())]
    NothingUsable {
        /// The CPUs the process is confined to.
        affinity: CpuSet,
        /// The CPUs there are.
        online: CpuSet,
    },
    /// Text that is no list of CPUs.
    #[error("{text:?} is no list of CPUs such as 0,2-5")]
    CpuList {
        /// The text.
        text: String,
    },
    /// Text that is no binding.
    #[error("{text:?} is no binding: give auto, none, or a list of CPUs such as 0,2-5")]
    Bind {
        /// The text.
        text: String,
    },
    /// A list of CPUs to bind to holds some that cannot be used.
    #[error(
        "cannot bind to {} (usable: {usable})",
        unavailable([
            (missing, "which the machine does not have"),
            (offline, "offline"),
            (excluded, "outside the affinity mask"),
        ])
    )]
    BindUnavailable {
        /// Those the machine does not have.
        missing: CpuSet,
        /// Those that are switched off.
        offline: CpuSet,
        /// Those outside the affinity mask.
        excluded: CpuSet,
        /// The CPUs that could be named.
        usable: CpuSet,
    },
    /// A list of CPUs to bind to names some more than once.
    #[error("cannot bind two ranks to one CPU: {} named more than once", cpus.spelled())]
    BindRepeated {
        /// The CPUs named more than once.
        cpus: CpuSet,
    },
    /// A list of CPUs to bind to is shorter than the number of ranks.
    #[error("cannot bind {ranks} ranks to a list of {cpus} CPUs: name one CPU for each rank")]
    BindTooShort {
        /// How many ranks there are.
        ranks: usize,
        /// How many CPUs the list names.
        cpus: usize,
    },
    /// The operating system refused to confine a thread.
    #[error("cannot pin to {}: {source}", cpus.spelled())]
    Pin {
        /// The CPUs asked for.
        cpus: CpuSet,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    pub(super) fn malformed(path: &Path, expected: &'static str, content: &str) -> Self {
        const SHOWN: usize = 80;
        let mut shown: String = content.chars().take(SHOWN).collect();
        if content.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        Self::Malformed { path: path.to_owned(), expected, content: shown }
    }
}

fn unavailable(reasons: [(&CpuSet, &str); 3]) -> String {
    let named = reasons.into_iter().filter(|(cpus, _)| !cpus.is_empty());
    let parts = named.map(|(cpus, reason)| format!("{}, {reason}", cpus.spelled()));
    parts.collect::<Vec<_>>().join("; ")
}
