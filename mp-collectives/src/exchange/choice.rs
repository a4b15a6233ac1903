//! The choice of the way for a block.

use std::fmt;

use mp_model::cla::schedule::{By, Schedule};

use crate::choice::{Choice, Machine, in_buffers};
use crate::rings;

/// The number of lines in the chunks that go to all other ranks.
pub(super) const SHARED_LINES: usize = 512;

/// Returns the number of lines in a chunk for one rank. With many ranks a chunk is shorter, so that the buffers for all
/// others together stay the same size. But a chunk is never so short that ranks spend most of their time waiting for
/// it. The number is a power of two, as the lengths of blocks often are, because any remainder costs as many flags as a
/// whole chunk.
pub(super) fn chunk_lines(ranks: usize) -> usize {
    let share = 1024 / ranks.saturating_sub(1).max(1);
    let most = LINES_OF_ALL_CHUNKS / ranks.saturating_mul(ranks).max(1);
    let power = |lines: usize| 1 << lines.max(1).ilog2();
    power(share).clamp(16, SHARED_LINES).min(power(most))
}

/// The number of lines in one chunk for each pair of ranks. With the least number of buffers, these take 128 MiB.
const LINES_OF_ALL_CHUNKS: usize = (1 << 21) / rings::FEWEST_BUFFERS;

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
    /// Through buffers from which all other ranks get it: [`SharedAllGather`](super::SharedAllGather).
    Shared,
}

fn in_chunks(bytes: usize, chunk_lines: usize) -> By {
    in_buffers(bytes, chunk_lines, rings::FEWEST_BUFFERS)
}

impl Way {
    /// All ways.
    pub(crate) const ALL: [Way; 2] = [Way::Lines, Way::Chunks];

    /// Returns how blocks of `bytes` bytes are sent, for the model.
    pub(crate) fn by(self, machine: Machine, bytes: usize) -> By {
        match self {
            Way::Lines => machine.in_lines(bytes),
            Way::Chunks => in_chunks(bytes, chunk_lines(machine.ranks)),
        }
    }
}

impl WayToAll {
    /// All ways.
    pub(crate) const ALL: [WayToAll; 3] = [WayToAll::Lines, WayToAll::Chunks, WayToAll::Shared];

    /// Returns which rank sends to which in an all-gather of blocks of `bytes` bytes, for the model.
    pub fn schedule(self, machine: Machine, bytes: usize) -> Schedule {
        let ranks = machine.ranks;
        let by = match self {
            WayToAll::Lines => machine.in_lines(bytes),
            WayToAll::Chunks => in_chunks(bytes, chunk_lines(ranks)),
            WayToAll::Shared => in_chunks(bytes, SHARED_LINES),
        };
        Schedule::all_gather(ranks, by, self == WayToAll::Shared)
    }
}

/// Chooses the way for a block of `bytes` bytes, if `round` bytes can be pending in lines at a time.
///
/// The way is chosen for each block separately, so that two ranks that know the length of a block need not know the
/// lengths of other blocks.
#[inline]
pub(crate) fn choose(
    machine: Machine,
    bytes: usize,
    round: usize,
    forced: Option<Way>,
) -> Choice<Way> {
    Choice::by_length(forced, bytes, machine.most_in_lines(round), [Way::Lines, Way::Chunks])
}

/// Chooses the way for a block that goes to all other ranks.
#[inline]
pub(crate) fn choose_to_all(
    machine: Machine,
    bytes: usize,
    round: usize,
    forced: Option<WayToAll>,
) -> Choice<WayToAll> {
    let most = machine.most_in_lines(round);
    Choice::by_length(forced, bytes, most, [WayToAll::Lines, WayToAll::Shared])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Reason;

    const MACHINE: Machine = Machine { ranks: 3, cores: 2, payload: 56 };

    #[test]
    fn short_blocks_go_in_lines() {
        let way = |bytes, round| choose(MACHINE, bytes, round, None).algorithm;
        assert_eq!([way(0, 1_000), way(448, 1_000), way(56, 56)], [Way::Lines; 3]);
        assert_eq!([way(449, 1_000), way(57, 56), way(usize::MAX, 56)], [Way::Chunks; 3]);
        let way = |bytes, round| choose_to_all(MACHINE, bytes, round, None).algorithm;
        assert_eq!([way(448, 1_000), way(449, 1_000)], [WayToAll::Lines, WayToAll::Shared]);
    }

    #[test]
    fn forced() {
        let forced = choose(MACHINE, 1 << 20, 56, Some(Way::Lines));
        assert_eq!((forced.algorithm, forced.reason), (Way::Lines, Reason::Forced));
        let forced = choose_to_all(MACHINE, 1, 56, Some(WayToAll::Chunks));
        assert_eq!((forced.algorithm, forced.reason), (WayToAll::Chunks, Reason::Forced));
    }
}
