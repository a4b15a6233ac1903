//! Unused nodes. A node was never used if its number was never given out, so zeroed memory is a full pool.

use mp_delegate::critical::internals::{AnyWord, Stop};

use super::list::List;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    /// The index of the word that counts the nodes given out for the first time.
    pub(super) used: usize,
    /// The nodes that were returned.
    pub(super) free: List,
    /// The number of all nodes.
    pub(super) nodes: u64,
}

impl Pool {
    /// Takes a node, and returns its number, from 1. A node always becomes available, because the pool has as many
    /// nodes as can be in use at the same time.
    #[inline]
    pub(super) fn take(&self, words: &[impl AnyWord]) -> Result<u64, Stop> {
        loop {
            if let Some(number) = first_use(&words[self.used], self.nodes) {
                return Ok(number);
            }
            if let Some((number, ())) = self.free.pop(words, |_| ())? {
                return Ok(number);
            }
            // A node that was just returned is not visible yet.
            std::hint::spin_loop();
        }
    }

    #[inline]
    pub(super) fn give(&self, words: &[impl AnyWord], number: u64) -> Result<(), Stop> {
        self.free.push(words, number, u64::MAX).map(drop)
    }
}

/// Returns a number that was never used, or `None` if all `numbers` were used.
#[inline]
pub(super) fn first_use(used: &impl AnyWord, numbers: u64) -> Option<u64> {
    let mut seen = used.load();
    while seen < numbers {
        match used.compare_exchange(seen, seen + 1) {
            Ok(()) => return Some(seen + 1),
            Err(now) => seen = now,
        }
    }
    None
}
