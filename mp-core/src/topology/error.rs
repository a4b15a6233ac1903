//! Errors of the files of a machine, of bindings, and of pins.

use super::{CpuSet, Quota};
use std::path::{Path, PathBuf};

/// The reason why the machine could not be read, ranks could not be placed, or a thread could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is there, but its content is not what the kernel writes.
    #[error("{}: expected {expected}, found {content:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The content: its beginning, or the line at fault.
        content: String,
    },
    /// Neither `/sys` nor `/proc` below the root names any CPU.
    #[error(
        "no CPU found: {} names none in sys/devices/system/cpu or proc/self/status; mount /sys or /proc there",
        root.display()
    )]
    NoCpu {
        /// The directory read in place of `/`.
        root: PathBuf,
    },
    /// None of the CPUs that this process is confined to can be used.
    #[error(
        "no usable CPU: confined to {}, but there are {}; start the program with another affinity (taskset)",
        affinity.spelled(),
        online.spelled(),
    )]
    NothingUsable {
        /// The CPUs the process is confined to.
        affinity: CpuSet,
        /// The CPUs that are online.
        online: CpuSet,
    },
    /// The text is not a list of CPUs.
    #[error("{text:?} is no list of CPUs such as 0,2-5")]
    CpuList {
        /// The text.
        text: String,
    },
    /// The text is not a binding.
    #[error("{text:?} is no binding: give auto, none, or a list of CPUs such as 0,2-5")]
    Bind {
        /// The text.
        text: String,
    },
    /// A list of CPUs to bind to contains some that cannot be used.
    #[error(
        "cannot bind to {}; choose among the usable CPUs {usable}",
        unavailable([
            (missing, "which the machine does not have"),
            (offline, "offline"),
            (excluded, "outside the affinity mask"),
        ])
    )]
    BindUnavailable {
        /// The CPUs that the machine does not have.
        missing: CpuSet,
        /// The CPUs that are switched off.
        offline: CpuSet,
        /// The CPUs outside the affinity mask.
        excluded: CpuSet,
        /// The CPUs that could be named.
        usable: CpuSet,
    },
    /// A list of CPUs to bind to names some more than once.
    #[error("cannot bind two ranks to one CPU: {} named more than once; name each once", cpus.spelled())]
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
    /// The text is not a placement of communication threads.
    #[error(
        "{text:?} is no placement of communication threads: give kt-w, skt, kt-specialized, \
         kt-generalized or auto"
    )]
    KtPlacement {
        /// The text.
        text: String,
    },
    /// A placement was asked to have no communication thread, or groups of no rank.
    #[error("{placement} needs at least one communication thread, and one rank for each")]
    NoKts {
        /// The placement.
        placement: &'static str,
    },
    /// More communication threads were asked for than any machine has CPUs.
    #[error("{kts} communication threads are more than any machine has CPUs: ask for fewer")]
    TooManyKts {
        /// How many communication threads are asked for.
        kts: usize,
    },
    /// A number of communication threads was given for a placement that determines the number itself.
    #[error("{placement} fixes the number of communication threads itself: ask for no number")]
    FixedKts {
        /// The placement.
        placement: &'static str,
    },
    /// A placement for farms was used for ranks that are not a farm.
    #[error(
        "{placement} is for one emitter, at least one worker and one collector, not for {emitters} + {workers} + \
         {collectors} of them; choose kt-w, skt or auto for other ranks"
    )]
    Roles {
        /// The placement.
        placement: &'static str,
        /// How many emitters there are; one is needed.
        emitters: usize,
        /// How many workers there are; one or more are needed.
        workers: usize,
        /// How many collectors there are; one is needed.
        collectors: usize,
    },
    /// Some ranks have no spare hardware thread on their core, where each rank must have one.
    #[error(
        "kt-w needs a spare hardware thread on each rank's core; rank{} {} of {of} {} none; choose skt or auto",
        if ranks.len() == 1 { "" } else { "s" },
        ranks.iter().copied().collect::<CpuSet>(),
        if ranks.len() == 1 { "has" } else { "have" },
    )]
    NoSibling {
        /// The ranks.
        ranks: Vec<usize>,
        /// How many ranks there are.
        of: usize,
    },
    /// There are fewer hardware threads than ranks and communication threads.
    #[error(
        "{placement} needs {} hardware threads, for {ranks} rank{} and {kts} communication \
         thread{}; usable: {cpus}{}; ask for fewer, or choose auto",
        ranks + kts,
        if *ranks == 1 { "" } else { "s" },
        if *kts == 1 { "" } else { "s" },
        quota.as_ref().map(|quota| format!(", with a quota of {quota}")).unwrap_or_default(),
    )]
    TooFewThreads {
        /// The placement.
        placement: &'static str,
        /// How many ranks there are.
        ranks: usize,
        /// How many communication threads are asked for, or needed at least.
        kts: usize,
        /// How many CPUs can be used.
        cpus: usize,
        /// The quota, if there is one.
        quota: Option<Quota>,
    },
    /// The workers don't fit on the cores that emitter and collector leave.
    #[error(
        "kt-specialized keeps a core for the emitter and one for the collector, which leaves \
         {cpus} hardware threads for {workers} worker{}; ask for fewer workers, or choose auto",
        if *workers == 1 { "" } else { "s" },
    )]
    NoDedicatedCores {
        /// How many workers there are.
        workers: usize,
        /// How many usable CPUs the other cores have.
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
