//! The number of buffers in a ring of chunks.

use mp_core::mpb::PAYLOAD_BYTES;

use crate::members::Members;

/// The length of a line.
pub(crate) const LINE_BYTES: usize = PAYLOAD_BYTES + size_of::<u64>();

/// The least number of buffers in a ring.
pub(crate) const FEWEST_BUFFERS: usize = 4;

/// Returns the number of buffers in a ring, if these ranks have `rings` rings and a buffer has `chunk_lines` lines.
///
/// A ring is twice as large as the [cache that rings are made for](mp_core::Rank::cache_for_rings), so that a line has
/// left its reader's cache when it is written again. Otherwise the writer has to fetch the line from that cache, which a
/// core does for only a few lines at a time (`cargo bench --bench ratios -- broadcast.1MB gather.64KB reduce.1MB`). All
/// these rings together take 8 MiB, or [`FEWEST_BUFFERS`] buffers each if that is more.
pub(crate) fn buffers(
    members: Members<'_>,
    rings: usize,
    chunk_lines: usize,
) -> mp_core::Result<usize> {
    Ok(of_cache(members.rank().cache_for_rings()?, rings, chunk_lines))
}

fn of_cache(cache: usize, rings: usize, chunk_lines: usize) -> usize {
    const ALL: usize = 8 << 20;
    let bytes = cache.saturating_mul(2).min(ALL / rings.max(1));
    (bytes / LINE_BYTES / chunk_lines.max(1)).max(FEWEST_BUFFERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_larger_than_a_cache_and_small_among_many() {
        assert_eq!(of_cache(1 << 20, 2, 1024), 32);
        assert_eq!(of_cache(64 << 10, 2, 1024), FEWEST_BUFFERS);
        for cache in [1, 256 << 10, 1 << 20, 2 << 20, usize::MAX] {
            for rings in [0, 1, 2, 56, 1024, 1 << 20] {
                for chunk_lines in [0, 1, 16, 512, 1024] {
                    let buffers = of_cache(cache, rings, chunk_lines);
                    let bytes = buffers * chunk_lines * LINE_BYTES;
                    assert!(buffers >= FEWEST_BUFFERS);
                    assert!(buffers == FEWEST_BUFFERS || rings.max(1) * bytes <= 8 << 20);
                }
            }
        }
    }
}
