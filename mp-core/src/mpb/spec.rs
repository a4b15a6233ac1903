//! The settings with which MPBs are made.

use std::{fmt, ops::Range};

use crate::{context::Namespace, line::LINE_BYTES};

/// The settings with which MPBs are made. All their ranks must ask for the same number of lines, and for the same
/// number of initial lines, or get [`MpbMismatch`](crate::ErrorKind::MpbMismatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mpbs {
    pub(super) growth: Growth,
    /// How many lines of each part that gets its memory later must be zero at first.
    pub(super) zeroed: [usize; LATER],
    /// The number of these parts. It is greater than `LATER` if more were asked for.
    pub(super) later: usize,
    pub(super) proposal: u64,
    /// Whether some of the ranks are on other nodes: see `ballot.rs`.
    pub(super) crosses: bool,
    pub(super) namespace: Namespace,
}

impl Mpbs {
    /// Makes settings for this many lines of 64 bytes for each rank.
    pub const fn lines(lines: usize) -> Self {
        Self {
            growth: Growth { lines, from: [lines; LATER] },
            zeroed: [usize::MAX; LATER],
            later: 0,
            proposal: 0,
            crosses: false,
            namespace: Namespace::PROGRAM,
        }
    }

    /// Gives the lines from `line` on their memory only when a rank first uses one of them. The first `zeroed` of these
    /// lines are zero at first; the lines behind them may hold anything. Another call, for a later line, makes a further part
    /// of the lines that gets its memory by itself; there can be three. No access may touch lines of two parts.
    pub const fn growing_from(mut self, line: usize, zeroed: usize) -> Self {
        let Growth { lines, from } = &mut self.growth;
        if self.later < LATER {
            from[self.later] = if line < *lines { line } else { *lines };
            self.zeroed[self.later] = zeroed;
        }
        self.later += 1;
        self
    }

    /// Returns the reason if the lines can't get their memory in such parts.
    pub(super) fn fault(&self) -> Option<String> {
        if self.later > LATER {
            let later = self.later;
            return Some(format!("{later} parts of them get their memory later, and {LATER} can"));
        }
        let wrong = self.growth.from.windows(2).find(|from| from[0] > from[1])?;
        let [before, after] = [wrong[0], wrong[1]];
        Some(format!("their part from line {before} on is named before that from line {after} on"))
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
        write!(f, "{} lines for each rank", self.growth.lines)?;
        for line in self.growth.from.into_iter().filter(|&line| line < self.growth.lines) {
            write!(f, ", those from line {line} on later")?;
        }
        Ok(())
    }
}

/// The greatest number of parts of which the lines get their memory later.
pub(super) const LATER: usize = 3;

/// How many lines each rank has, and which of them get their memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Growth {
    pub(super) lines: usize,
    /// The first line of each part that gets its memory later. It is `lines` where there is no such part.
    pub(super) from: [usize; LATER],
}

impl Growth {
    /// Returns the number of lines that have memory from the beginning.
    pub(super) fn near(self) -> usize {
        self.from[0]
    }

    /// Returns the part to which a line belongs: 0 for those that have memory from the beginning.
    pub(super) fn part_of(self, line: usize) -> usize {
        self.from.iter().filter(|&&from| line >= from).count()
    }

    /// Returns the lines of a part.
    pub(super) fn part(self, part: usize) -> Range<usize> {
        let start = part.checked_sub(1).map_or(0, |later| self.from[later]);
        start..self.from.get(part).copied().unwrap_or(self.lines)
    }
}
