//! A measurement, or why there is none.

use serde::{Deserialize, Serialize};

/// The measurement, or why there is none.
pub type Outcome<T> = std::result::Result<T, Unmeasured>;

/// Why something was not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Unmeasured {
    /// The measurement needs more cores, in one group, than this process may use.
    #[error("it takes {needed} cores of one group, of which this process may use {cores}")]
    FewCores {
        /// How many cores it needs.
        needed: usize,
        /// The most that one group has.
        cores: usize,
    },
    /// All cores that may be used are in one group.
    #[error("all cores that this process may use share one last-level cache")]
    OneGroup,
    /// All memory is near to all cores that may be used.
    #[error("all cores that this process may use have the same memory near them")]
    OneNode,
    /// Programs can't evict a line from the caches on this machine.
    #[error("programs cannot evict lines from the caches of this processor")]
    NoEviction,
    /// A thread could not be started, or not be pinned.
    #[error("{why}")]
    Failed {
        /// The system's error message.
        why: String,
    },
}
