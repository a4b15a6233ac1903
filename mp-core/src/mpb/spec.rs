//! The settings with which MPBs are made.

use std::{fmt, ops::Range};

use crate::{context::Namespace, line::LINE_BYTES};

/// The settings with which MPBs are made. All their ranks must ask for the same number of lines, and for the same
/// number of initial lines, or get [`MpbMismatch`](crate::ErrorKind::MpbMismatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mpbs {
    pub(super) growth: Growth,
    pub(super) proposal: u64,
    /// Whether some of the ranks are on other nodes: see `ballot.rs`.
    pub(super) crosses: bool,
    pub(super) namespace: Namespace,
}

impl Mpbs {
    /// Makes settings for this many lines of 64 bytes for each rank.
    pub const fn lines(lines: usize) -> Self {
        let growth = Growth { lines, near: lines, middle: lines };
        Self { growth, proposal: 0, crosses: false, namespace: Namespace::PROGRAM }
    }

    /// Gives memory from the beginning only to the first `near` lines of each rank. The other lines get their memory
    /// when a rank first uses one of them. No call may access lines of both kinds.
    pub const fn growing_from(self, near: usize) -> Self {
        let Growth { lines, middle, .. } = self.growth;
        let near = if near < middle { near } else { middle };
        Self { growth: Growth { lines, near, middle }, ..self }
    }

    /// Works like [`growing_from`](Self::growing_from), and gives memory to the lines from `middle` on only when a rank first
    /// uses one of these.
    pub const fn growing_from_and(self, near: usize, middle: usize) -> Self {
        let Growth { lines, .. } = self.growth;
        let middle = if middle < lines { middle } else { lines };
        Self { growth: Growth { lines, near: lines, middle }, ..self }.growing_from(near)
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
        let Growth { lines, near, middle } = self.growth;
        write!(f, "{lines} lines for each rank")?;
        if near < lines {
            write!(f, ", {near} of them at once")?;
        }
        if middle < lines {
            write!(f, ", {middle} of them before the others")?;
        }
        Ok(())
    }
}

/// How many lines each rank has, and which of them get their memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Growth {
    pub(super) lines: usize,
    /// The number of lines that have memory from the beginning.
    pub(super) near: usize,
    /// The number of these lines and of those that get their memory together with line `near`.
    pub(super) middle: usize,
}

/// The number of parts of which the lines get their memory later.
pub(super) const LATER: usize = 2;

impl Growth {
    /// Returns the part of the lines that get their memory later to which a line belongs that is not near.
    pub(super) fn part_of(self, line: usize) -> usize {
        usize::from(line >= self.middle)
    }

    /// Returns the lines of such a part.
    pub(super) fn part(self, part: usize) -> Range<usize> {
        match part {
            0 => self.near..self.middle,
            _ => self.middle..self.lines,
        }
    }
}
