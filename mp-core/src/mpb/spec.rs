//! The settings with which MPBs are made.

use std::fmt;

use crate::{context::Namespace, line::LINE_BYTES};

/// The settings with which MPBs are made. All their ranks must ask for the same number of lines, and for the same
/// number of initial lines, or get [`MpbMismatch`](crate::ErrorKind::MpbMismatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mpbs {
    pub(super) lines: usize,
    /// The number of lines that have memory from the beginning.
    pub(super) near: usize,
    pub(super) proposal: u64,
    /// Whether some of the ranks are on other nodes: see `ballot.rs`.
    pub(super) crosses: bool,
    pub(super) namespace: Namespace,
}

impl Mpbs {
    /// Makes settings for this many lines of 64 bytes for each rank.
    pub const fn lines(lines: usize) -> Self {
        Self { lines, near: lines, proposal: 0, crosses: false, namespace: Namespace::PROGRAM }
    }

    /// Gives memory from the beginning only to the first `near` lines of each rank. The other lines get their memory
    /// when a rank first uses one of them. No call may access lines of both kinds.
    pub const fn growing_from(self, near: usize) -> Self {
        let near = if near < self.lines { near } else { self.lines };
        Self { near, ..self }
    }

    /// Proposes a word that may differ from rank to rank. On all ranks, [`Mpb::agreed`](super::Mpb::agreed) returns the
    /// word of the rank that opens the MPBs first. Use this for decisions that all ranks must make alike, although the
    /// ranks may have different information.
    pub const fn proposing(self, word: u64) -> Self {
        Self { proposal: word, ..self }
    }
}

impl Namespace {
    /// Puts the name of the MPBs into this namespace.
    pub const fn mpbs(self, mpbs: Mpbs) -> Mpbs {
        Mpbs { namespace: self, ..mpbs }
    }
}

impl Default for Mpbs {
    /// Returns 8 KiB for each rank, as on the SCC.
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
