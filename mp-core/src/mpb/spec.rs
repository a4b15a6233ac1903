//! What MPBs are made to.

use std::fmt;

use crate::{context::Namespace, line::LINE_BYTES};

/// How MPBs are to be made. All their ranks must ask for the same number of lines, and as many of them at once, or get
/// [`MpbMismatch`](crate::ErrorKind::MpbMismatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mpbs {
    pub(super) lines: usize,
    /// Lines that have memory from the beginning.
    pub(super) near: usize,
    pub(super) proposal: u64,
    pub(super) namespace: Namespace,
}

impl Mpbs {
    /// So many lines of 64 bytes for each rank.
    pub const fn lines(lines: usize) -> Self {
        Self { lines, near: lines, proposal: 0, namespace: Namespace::PROGRAM }
    }

    /// Only the first `near` lines of each rank have memory from the beginning. The others get theirs when a rank
    /// uses the first of them. No call may be for lines of both kinds.
    pub const fn growing_from(self, near: usize) -> Self {
        let near = if near < self.lines { near } else { self.lines };
        Self { near, ..self }
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
        let Self { lines, near, .. } = self;
        write!(f, "{lines} lines for each rank")?;
        if near < lines { write!(f, ", {near} of them at once") } else { Ok(()) }
    }
}
