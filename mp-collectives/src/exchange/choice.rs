//! The choice of the way for a block, with its reason.

use std::fmt;

use mp_model::cla::schedule::{By, Schedule};

use crate::broadcast::Machine;
use crate::rings;

/// The number of lines in the chunks that all others get.
pub(super) const SHARED: usize = 512;

/// Returns the number of lines in a chunk for one rank. With many ranks a chunk is shorter, so that the buffers for all
/// others together stay as large; but it never gets so short that a rank mostly waits for it. The number is a power of
/// two, as the lengths of blocks often are: any remainder costs as many flags as a whole chunk.
pub(super) fn chunk_lines(ranks: usize) -> usize {
    let share = 1024 / ranks.saturating_sub(1).max(1);
    let most = MOST_LINES / ranks.saturating_mul(ranks).max(1);
    let power = |lines: usize| 1 << lines.max(1).ilog2();
    power(share).clamp(16, SHARED).min(power(most))
}

/// The number of lines in all ranks' chunks for each other: 128 MiB.
const MOST_LINES: usize = (1 << 21) / rings::LEAST;

/// The way in which a block gets from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// In lines, beside their flags: [`LineExchange`](super::LineExchange).
    Lines,
    /// Through buffers of the two ranks: [`ChunkExchange`](super::ChunkExchange).
    Chunks,
}

/// The way in which a block gets from one rank to all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WayToAll {
    /// In lines, to each rank: [`LineExchange`](super::LineExchange).
    Lines,
    /// Through buffers for each rank: [`ChunkExchange`](super::ChunkExchange).
    Chunks,
    /// Through buffers that all others get it from: [`SharedAllGather`](super::SharedAllGather).
    Shared,
}

/// The reason why a way was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller forced it.
    Forced,
    /// The block is so short that notifying a rank first and getting the block afterwards would cost more.
    Short {
        /// The greatest length of a short block, in bytes.
        most: usize,
    },
    /// The block is longer and is copied faster in large pieces.
    Long {
        /// The greatest length of a short block, in bytes.
        most: usize,
    },
}

/// The choice for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation<W> {
    /// The block's length.
    pub bytes: usize,
    /// What was known about the machine.
    pub machine: Machine,
    /// The chosen way.
    pub way: W,
    /// The reason for the choice.
    pub reason: Reason,
}

/// The length of a line.
const LINE: usize = 64;

impl<W: Copy> Explanation<W> {
    fn lines(&self) -> By {
        By::Lines { lines: self.bytes.div_ceil(self.machine.payload.max(1)) as u64 }
    }

    fn chunks(&self, chunk_lines: usize) -> By {
        let (lines, piece) = (self.bytes.div_ceil(LINE) as u64, chunk_lines as u64);
        By::Buffers { lines, piece, buffers: rings::LEAST as u64 }
    }
}

/// Schedules (which rank sends to which) for the model.
impl Explanation<Way> {
    /// Returns the schedule of a gather.
    pub fn gather(&self, root: usize) -> Schedule {
        Schedule::gather(self.machine.ranks, root, self.by())
    }

    /// Returns the schedule of a scatter.
    pub fn scatter(&self, root: usize) -> Schedule {
        Schedule::scatter(self.machine.ranks, root, self.by())
    }

    /// Returns the schedule of an all-to-all.
    pub fn all_to_all(&self) -> Schedule {
        Schedule::all_to_all(self.machine.ranks, self.by())
    }

    fn by(&self) -> By {
        match self.way {
            Way::Lines => self.lines(),
            Way::Chunks => self.chunks(chunk_lines(self.machine.ranks)),
        }
    }
}

impl Explanation<WayToAll> {
    /// Returns which rank sends to which in an all-gather, for the model.
    pub fn all_gather(&self) -> Schedule {
        let ranks = self.machine.ranks;
        match self.way {
            WayToAll::Lines => Schedule::all_gather(ranks, self.lines(), false),
            WayToAll::Chunks => Schedule::all_gather(ranks, self.chunks(chunk_lines(ranks)), false),
            WayToAll::Shared => Schedule::all_gather(ranks, self.chunks(SHARED), true),
        }
    }
}

/// The number of lines up to which a block is short, as long as they may be pending between two ranks.
///
/// As with broadcasts, each additional line costs about a tenth of a line transfer. Notifying first and getting
/// afterwards costs one transfer and its overhead, whatever the length.
const SHORT: usize = 8;

/// Returns the greatest length of a short block in bytes, where `round` bytes go in one round of lines.
#[inline]
pub(super) fn short(machine: Machine, round: usize) -> usize {
    (SHORT * machine.payload).min(round)
}

#[inline]
fn explain<W>(
    machine: Machine,
    bytes: usize,
    round: usize,
    forced: Option<W>,
    [lines, other]: [W; 2],
) -> Explanation<W> {
    let most = short(machine, round);
    let (way, reason) = match forced {
        Some(way) => (way, Reason::Forced),
        None if bytes <= most => (lines, Reason::Short { most }),
        None => (other, Reason::Long { most }),
    };
    Explanation { bytes, machine, way, reason }
}

/// Chooses the way for a block of `bytes` bytes, of which `round` can be pending in lines at a time.
///
/// The way is chosen for each block by itself, so that two ranks that know the length of a block need not know the
/// lengths of others.
#[inline]
pub fn choose(
    machine: Machine,
    bytes: usize,
    round: usize,
    forced: Option<Way>,
) -> Explanation<Way> {
    explain(machine, bytes, round, forced, [Way::Lines, Way::Chunks])
}

/// Does the same for a block that goes to all others.
#[inline]
pub fn choose_to_all(
    machine: Machine,
    bytes: usize,
    round: usize,
    forced: Option<WayToAll>,
) -> Explanation<WayToAll> {
    explain(machine, bytes, round, forced, [WayToAll::Lines, WayToAll::Shared])
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Lines => "lines",
            Way::Chunks => "chunks",
        })
    }
}

impl fmt::Display for WayToAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WayToAll::Lines => "lines to each",
            WayToAll::Chunks => "chunks for each",
            WayToAll::Shared => "chunks that all others get",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Forced => f.write_str("forced"),
            Reason::Short { most } => write!(
                f,
                "up to {most} bytes, a transfer for each line is less than one to be told and then \
                 one to get it"
            ),
            Reason::Long { most } => {
                write!(f, "above {most} bytes large copies are faster than lines one by one")
            }
        }
    }
}

impl<W: fmt::Display> fmt::Display for Explanation<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { bytes, machine, way, reason } = self;
        let Machine { ranks, cores, .. } = machine;
        write!(f, "a block of {bytes} bytes, {ranks} ranks on {cores} cores: {way}; {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine { ranks: 3, cores: 2, payload: 56 };

    #[test]
    fn short_blocks_go_in_lines() {
        let way = |bytes, round| choose(MACHINE, bytes, round, None).way;
        assert_eq!([way(0, 1_000), way(448, 1_000), way(56, 56)], [Way::Lines; 3]);
        assert_eq!([way(449, 1_000), way(57, 56), way(usize::MAX, 56)], [Way::Chunks; 3]);
        let way = |bytes, round| choose_to_all(MACHINE, bytes, round, None).way;
        assert_eq!([way(448, 1_000), way(449, 1_000)], [WayToAll::Lines, WayToAll::Shared]);
    }

    #[test]
    fn forced() {
        let forced = choose(MACHINE, 1 << 20, 56, Some(Way::Lines));
        assert_eq!((forced.way, forced.reason), (Way::Lines, Reason::Forced));
        let forced = choose_to_all(MACHINE, 1, 56, Some(WayToAll::Chunks));
        assert_eq!((forced.way, forced.reason), (WayToAll::Chunks, Reason::Forced));
    }

    #[test]
    fn explanations_give_the_facts() {
        let text = choose_to_all(MACHINE, 500, 1_000, None).to_string();
        for fact in ["500 bytes", "3 ranks", "2 cores", "all others", "448"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }
}
