//! How many buffers a ring of chunks has.

use mp_core::topology::second_level_cache;

use crate::members::Members;

/// The line's length.
const LINE: usize = 64;

/// Buffers that chunks are passed through in any ring.
pub(crate) const LEAST: usize = 4;

/// What a machine and a world have for rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of a core's second-level cache.
    second_level: usize,
    /// Bytes that the world's memory can grow to.
    limit: u64,
}

impl Room {
    pub(crate) fn of(members: Members<'_>) -> Self {
        Self { second_level: second_level_cache(), limit: members.rank().memory_limit() }
    }

    /// Returns how many buffers of so many lines each of so many rings has.
    ///
    /// A ring takes twice the cache. So a reader has let go of a line when it is written again: to take a line away
    /// from a cache is what a writer can do for a few lines at a time only (`cargo bench --bench ratios --
    /// broadcast.1MB gather.64KB reduce.1MB`). All rings of one kind take 32 MiB together at most, and no more than a
    /// 32nd of the world's memory.
    pub(crate) fn buffers(self, rings: usize, chunk_lines: usize) -> usize {
        const MOST: usize = 4 << 20;
        let all = (self.limit / 32).min(32 << 20) as usize;
        let bytes = self.second_level.saturating_mul(2).min(MOST).min(all / rings.max(1));
        (bytes / LINE / chunk_lines.max(1)).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_larger_than_a_cache_and_small_among_many() {
        let room = |second_level, limit| Room { second_level, limit };
        assert_eq!(room(1 << 20, 1 << 34).buffers(2, 1024), 32);
        assert_eq!(room(1 << 20, 8 << 20).buffers(2, 1024), LEAST);
        for second_level in [256 << 10, 1 << 20, 2 << 20, usize::MAX] {
            for rings in [0, 1, 2, 56, 1024, 1 << 20] {
                for chunk_lines in [0, 1, 16, 512, 1024] {
                    let buffers = room(second_level, u64::MAX).buffers(rings, chunk_lines);
                    let bytes = buffers * chunk_lines * LINE;
                    assert!(buffers >= LEAST && bytes <= 4 << 20);
                    assert!(buffers == LEAST || rings * bytes <= 32 << 20);
                }
            }
        }
    }
}
