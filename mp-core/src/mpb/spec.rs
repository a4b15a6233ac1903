//! What MPBs are made to.

use std::fmt;

use crate::{context::Namespace, line::LINE_BYTES};

/// How MPBs are to be made. All their ranks must ask for the same number of lines, or get
/// [`MpbMismatch`](crate::ErrorKind::MpbMismatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mpbs {
    pub(super) lines: usize,
    pub(super) proposal: u64,
    pub(super) namespace: Namespace,
}

impl Mpbs {
    /// So many lines of 64 bytes for each rank.
    pub const fn lines(lines: usize) -> Self {
        Self { lines, proposal: 0, namespace: Namespace::PROGRAM }
    }

    /// With a word that may differ from rank to rank: all are told that of the rank that opens them
    /// first, by [`Mpb::agreed`](super::Mpb::agreed). For what all must do alike, and each may know
    /// other things about.
    pub const fn proposing(self, word: u64) -> Self {
        Self { proposal: word, ..self }
    }
}

impl Namespace {
    /// MPBs whose name is in this namespace.
    pub const fn mpbs(self, mpbs: Mpbs) -> Mpbs {
        Mpbs { namespace: self, ..mpbs }
    }
}

impl Default for Mpbs {
    /// 8 KiB for each rank, as on the SCC.
    fn default() -> Self {
        Self::lines((8 << 10) / LINE_BYTES)
    }
}

impl fmt::Display for Mpbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lines for each rank", self.lines)
    }
}
